"""The lock across processes."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from memory_server.storage.partition import locking
from memory_server.storage.partition.locking import QUEUE, LockAttempt, WaitingThreads, try_lock

HOLD = """
import sys
from pathlib import Path
from memory_server.storage.partition.locking import try_lock
lock = try_lock(Path(sys.argv[1]))
print("held" if lock else "not held", flush=True)
sys.stdin.read()
"""
BOUND = 20.0
"""Seconds after which a test fails that waits for something which takes milliseconds."""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "lock"


@pytest.fixture
def threads() -> Iterator[WaitingThreads]:
    made = WaitingThreads(idle_seconds=0.0)
    yield made
    for thread in waiters():
        thread.join(BOUND)


def waiters() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "wait-for-lock"]


def nothing() -> None:
    """Done by who is the next."""


def test_one_holder_at_a_time_also_within_a_process(path: Path) -> None:
    first = try_lock(path)
    assert first is not None
    assert try_lock(path) is None
    first.release()
    second = try_lock(path)
    assert second is not None
    second.release()


def test_the_lock_file_is_private_and_stays(path: Path) -> None:
    lock = try_lock(path)
    assert lock is not None
    lock.release()
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.read_bytes() == b""


def test_a_lock_in_no_folder_is_an_error_of_the_system(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        try_lock(tmp_path / "nowhere" / "lock")


def test_a_waiter_gets_the_lock_when_it_is_released(path: Path, threads: WaitingThreads) -> None:
    lock = try_lock(path)
    assert lock is not None
    came = threading.Event()
    attempt = LockAttempt(path, threads, came.set, nothing)
    assert not came.wait(0.02)
    lock.release()
    assert came.wait(BOUND)
    got = attempt.take()
    assert got is not None
    assert try_lock(path) is None
    got.release()


def test_a_lock_that_comes_after_its_waiter_gave_up_is_given_back(path: Path, threads: WaitingThreads) -> None:
    lock = try_lock(path)
    assert lock is not None
    came = threading.Event()
    waiters_before = threading.active_count()
    attempt = LockAttempt(path, threads, came.set, nothing)
    assert attempt.take() is None
    lock.release()
    # The late waiter takes and releases; who comes behind it gets the lock.
    behind = threading.Event()
    patient = LockAttempt(path, threads, behind.set, nothing)
    assert behind.wait(BOUND)
    got = patient.take()
    assert got is not None
    got.release()
    for thread in waiters():
        thread.join(BOUND)
    assert threading.active_count() == waiters_before
    assert not came.is_set()
    free = try_lock(path)
    assert free is not None
    free.release()


def test_an_attempt_that_was_given_up_can_be_resumed_until_it_is_over(path: Path, threads: WaitingThreads) -> None:
    lock = try_lock(path)
    assert lock is not None
    given_up, came = threading.Event(), threading.Event()
    attempt = LockAttempt(path, threads, given_up.set, nothing)
    assert attempt.take() is None
    assert attempt.resume(came.set)
    lock.release()
    assert came.wait(BOUND)
    assert not given_up.is_set()
    got = attempt.take()
    assert got is not None
    assert not attempt.resume(came.set)
    got.release()


@pytest.mark.parametrize("end", ["ends", "is killed"])
def test_the_lock_of_a_process_that_ends_or_is_killed_is_free_at_once(
    path: Path, threads: WaitingThreads, end: str
) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        assert try_lock(path) is None
        came = threading.Event()
        attempt = LockAttempt(path, threads, came.set, nothing)
        if end == "is killed":
            holder.kill()
        else:
            holder.communicate("")
        assert came.wait(BOUND)
    lock = attempt.take()
    assert lock is not None
    lock.release()


def test_a_lock_on_a_file_that_was_removed_meanwhile_is_none(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`rm -rf` of the folder between opening and locking: whoever makes the file anew would not be kept out."""
    real = locking.portalocker.lock

    def lock_after_removal(file: object, flags: object) -> None:
        path.unlink()
        path.touch()
        real(file, flags)  # type: ignore[arg-type]

    with monkeypatch.context() as patch:
        patch.setattr(locking.portalocker, "lock", lock_after_removal)
        assert try_lock(path) is None
    lock = try_lock(path)
    assert lock is not None
    lock.release()


def test_a_waiter_whose_file_was_removed_waits_for_the_new_one(path: Path, threads: WaitingThreads) -> None:
    held = try_lock(path)
    assert held is not None
    came = threading.Event()
    attempt = LockAttempt(path, threads, came.set, nothing)
    path.unlink()
    second = try_lock(path)
    assert second is not None
    held.release()
    assert not came.wait(0.1)
    second.release()
    assert came.wait(BOUND)
    lock = attempt.take()
    assert lock is not None
    assert try_lock(path) is None
    lock.release()


def test_who_waits_stands_in_line_and_the_next_one_is_told(path: Path, threads: WaitingThreads) -> None:
    held = try_lock(path)
    assert held is not None
    (told, came), (told_later, came_later) = [(threading.Event(), threading.Event()) for _ in range(2)]
    first = LockAttempt(path, threads, came.set, told.set)
    assert told.wait(BOUND)
    second = LockAttempt(path, threads, came_later.set, told_later.set)
    assert try_lock(path.with_name(QUEUE)) is None
    held.release()
    assert came.wait(BOUND)
    assert not told_later.is_set()
    lock = first.take()
    assert lock is not None
    lock.call_next()
    assert told_later.wait(BOUND)
    assert not came_later.is_set()
    lock.release()
    assert came_later.wait(BOUND)
    lock = second.take()
    assert lock is not None
    assert try_lock(path.with_name(QUEUE)) is None
    lock.release()
    free = try_lock(path.with_name(QUEUE))
    assert free is not None
    free.release()


def test_a_queue_that_cannot_be_had_keeps_nobody_from_the_lock(path: Path, threads: WaitingThreads) -> None:
    path.with_name(QUEUE).mkdir()
    held = try_lock(path)
    assert held is not None
    came = threading.Event()
    attempt = LockAttempt(path, threads, came.set, nothing)
    held.release()
    assert came.wait(BOUND)
    lock = attempt.take()
    assert lock is not None
    lock.release()


def test_a_waiting_thread_is_used_again_and_one_that_is_busy_is_not_waited_for() -> None:
    threads = WaitingThreads(idle_seconds=BOUND)
    ran: list[threading.Thread] = []

    def run() -> threading.Thread:
        done = threading.Event()

        def work() -> None:
            ran.append(threading.current_thread())
            done.set()

        threads.run(work)
        assert done.wait(BOUND)
        return ran[-1]

    def until_idle(count: int) -> None:
        for _ in range(10_000):
            if threads.idle == count:
                return
            threading.Event().wait(0.001)
        raise AssertionError

    first = run()
    until_idle(1)
    assert run() is first
    until_idle(1)
    began, stop = threading.Event(), threading.Event()

    def busy() -> None:
        began.set()
        stop.wait(BOUND)

    threads.run(busy)
    assert began.wait(BOUND)
    second = run()
    assert second is not first
    stop.set()
    until_idle(2)
    threads.let_go()
    for thread in (first, second):
        thread.join(BOUND)
        assert not thread.is_alive()
    assert threads.idle == 0
    assert run() not in (first, second)
    threads.let_go()
