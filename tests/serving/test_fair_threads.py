"""Threads in turns: nobody has all of them, hooks have their own, and nothing is lost."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator

import pytest

from memory_server.serving.fair_threads import EACH, FIRST, FOR, HOOKS, SHARED, FairThreads

pytestmark = pytest.mark.anyio


@pytest.fixture
def threads() -> Iterator[FairThreads]:
    threads = FairThreads()
    yield threads
    threads.shutdown()


async def test_work_of_one_leaves_threads_to_others(threads: FairThreads) -> None:
    asyncio.get_running_loop().set_default_executor(threads)
    go_on = threading.Event()
    started_work = threading.Semaphore(0)

    def long() -> None:
        started_work.release()
        go_on.wait(30)

    async def work(whom: object) -> None:
        FOR.set(whom)
        await asyncio.to_thread(long)

    async def short(whom: object) -> str:
        FOR.set(whom)
        return await asyncio.wait_for(asyncio.to_thread(lambda: "done"), 10)

    tasks = [asyncio.create_task(work("one")) for _ in range(50)]
    try:
        await asyncio.sleep(0.1)
        assert [started_work.acquire(timeout=10) for _ in range(EACH)] == [True] * EACH
        assert not started_work.acquire(timeout=0.1), "one has no more threads than these"
        assert await asyncio.create_task(short("another")) == "done"
        # All threads that are shared are taken, and still hooks are answered.
        tasks += [asyncio.create_task(work(number)) for number in range(SHARED)]
        await asyncio.sleep(0.1)
        assert [started_work.acquire(timeout=10) for _ in range(SHARED - EACH)] == [True] * (
            SHARED - EACH
        )
        assert await asyncio.create_task(short(HOOKS)) == "done"
    finally:
        go_on.set()
    await asyncio.gather(*tasks)


async def test_those_who_wait_take_turns(threads: FairThreads) -> None:
    asyncio.get_running_loop().set_default_executor(threads)
    go_on = threading.Event()
    order = list[object]()

    async def work(whom: object, number: int) -> None:
        FOR.set(whom)
        if number < 0:
            await asyncio.to_thread(go_on.wait, 30)
        else:
            await asyncio.to_thread(order.append, whom)

    blockers = [asyncio.create_task(work(f"held {number // EACH}", -1)) for number in range(SHARED)]
    await asyncio.sleep(0.1)
    tasks = [asyncio.create_task(work("many", number)) for number in range(20)]
    await asyncio.sleep(0)
    tasks += [asyncio.create_task(work("few", number)) for number in range(2)]
    await asyncio.sleep(0.1)
    go_on.set()
    await asyncio.gather(*blockers, *tasks)
    assert len(order) == 22
    assert max(index for index, whom in enumerate(order) if whom == "few") < 10


async def test_errors_and_cancelled_work_leave_no_thread_behind(threads: FairThreads) -> None:
    asyncio.get_running_loop().set_default_executor(threads)

    def fails() -> None:
        raise ValueError("no")

    for _ in range(3 * SHARED):
        with pytest.raises(ValueError, match="no"):
            await asyncio.to_thread(fails)
    go_on = threading.Event()
    blockers = [asyncio.create_task(asyncio.to_thread(go_on.wait, 30)) for _ in range(EACH)]
    waiting = [asyncio.create_task(asyncio.to_thread(fails)) for _ in range(5)]
    await asyncio.sleep(0.1)
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
    go_on.set()
    await asyncio.gather(*blockers)
    assert await asyncio.to_thread(lambda: "goes on") == "goes on"


def test_the_end_waits_for_work_that_waits() -> None:
    threads = FairThreads()
    go_on = threading.Event()
    blockers = [threads.submit(go_on.wait, 30) for _ in range(EACH)]
    waiting = [threads.submit(lambda: "done") for _ in range(5)]
    threads.shutdown(wait=False)
    with pytest.raises(RuntimeError, match="after shutdown"):
        threads.submit(lambda: "too late")
    go_on.set()
    assert [work.result(10) for work in blockers] == [True] * EACH
    assert [work.result(10) for work in waiting] == ["done"] * 5


def test_the_end_cancels_waiting_work_where_that_is_asked() -> None:
    threads = FairThreads()
    go_on = threading.Event()
    blockers = [threads.submit(go_on.wait, 30) for _ in range(EACH)]
    waiting = [threads.submit(lambda: "done") for _ in range(5)]
    threads.shutdown(wait=False, cancel_futures=True)
    go_on.set()
    assert [work.result(10) for work in blockers] == [True] * EACH
    assert all(work.cancelled() for work in waiting)


def test_no_work_is_lost_where_there_is_no_new_thread(
    threads: FairThreads, monkeypatch: pytest.MonkeyPatch
) -> None:
    go_on = threading.Event()
    blocker = threads.submit(go_on.wait, 30)

    def refused(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refused)
        with pytest.raises(RuntimeError, match="new thread"):
            threads.submit(lambda: "in the queue")
        waiting = [threads.submit(lambda: "done") for _ in range(3)]
        go_on.set()
        assert blocker.result(10)
        assert [work.result(10) for work in waiting] == ["done"] * 3
    # The count of the work that runs is right again: one owner has no more threads than `EACH`.
    started_work = threading.Semaphore(0)
    end = threading.Event()

    def long() -> None:
        started_work.release()
        end.wait(30)

    try:
        for _ in range(3 * EACH):
            threads.submit(long)
        # The library may take the thread for several idle ones now, so there may be fewer.
        assert started_work.acquire(timeout=30)
        running = 1
        while started_work.acquire(timeout=0.3):
            running += 1
        assert running <= EACH
    finally:
        end.set()


def test_there_are_threads_for_all() -> None:
    assert FIRST > 0
    assert EACH * 2 <= SHARED
