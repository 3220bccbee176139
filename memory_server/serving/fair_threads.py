"""The threads of a process that serves many: tenants and windows get theirs in turns, hooks and health have their own.

It is the default executor of the event loop, so whatever a tenant or window has done in a thread is subject to it.
"""

from __future__ import annotations

import asyncio
import sys
import threading
from collections import Counter, deque
from collections.abc import Callable, Hashable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from contextvars import ContextVar
from typing import Any

from memory_server.kernel.values import frozen

SHARED = 8
"""Threads of all tenants and windows."""
EACH = 2
"""Threads of a tenant or window at most."""
FIRST = 2
"""Threads of the callers that go first: hooks and health."""
SWITCH_SECONDS = 0.0001
"""How long Python lets a thread compute while others wait. With the usual 5 ms, each step of a short call beside a long
one waits for so long, and a search has some forty steps: each file that is opened or looked at is one."""
HOOKS = object()
"""Hooks and health. It is not a text, because a tenant may have any name."""
FOR: ContextVar[Hashable] = ContextVar("for", default=None)
"""The owner of this task: a tenant, a window, or `HOOKS`, which has threads of its own."""


@frozen
class Job:
    """Work for a thread, and the future of its result."""

    future: Future[Any]
    work: Callable[[], Any]

    def carry_out(self) -> None:
        if not self.future.set_running_or_notify_cancel():
            return
        try:
            self.future.set_result(self.work())
        except BaseException as error:
            self.future.set_exception(error)


class FairThreads(ThreadPoolExecutor):
    """Runs what is submitted, each time for the owner that waits longest and has fewer than `EACH` threads."""

    def __init__(self) -> None:
        super().__init__(SHARED + FIRST, "work")
        self._guard = threading.Lock()
        self._waiting: dict[Hashable, deque[Job]] = {}
        self._running: Counter[Hashable] = Counter()
        self._ended = False

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Let a thread call `fn` when it is the turn of the caller (`FOR`), and return its result to come. Raise
        RuntimeError after `shutdown`."""
        future: Future[Any] = Future()
        with self._guard:
            if self._ended:
                raise RuntimeError("cannot schedule new futures after shutdown")
            jobs = self._waiting.setdefault(FOR.get(), deque())
            jobs.append(Job(future, lambda: fn(*args, **kwargs)))
            self._start()
        return future

    def _start(self) -> None:
        """Start a waiting job of each owner that has a thread left, the longest waiting owner
        first. The caller holds the guard."""
        shared = self._running.total() - self._running[HOOKS]
        for owner in list(self._waiting):
            if owner == HOOKS:
                has_thread = self._running[HOOKS] < FIRST
            else:
                has_thread = shared < SHARED and self._running[owner] < EACH
            if not has_thread:
                continue
            jobs = self._waiting.pop(owner)
            job = jobs.popleft()
            if jobs:
                self._waiting[owner] = jobs  # behind all others
            if owner != HOOKS:
                shared += 1
            self._run(owner, job)

    def _run(self, owner: Hashable, job: Job) -> None:
        """Give a job to the threads. Raises RuntimeError: no new thread can be started; the job waits for another
        thread, so it counts."""
        self._running[owner] += 1
        super().submit(self._work, owner, job)

    def _work(self, owner: Hashable, job: Job) -> None:
        """Carry out a job in this thread, then start a job that waited for it."""
        try:
            job.carry_out()
        finally:
            with self._guard:
                self._running[owner] -= 1
                if not self._running[owner]:
                    del self._running[owner]
                self._start()

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Take no more jobs. Give the ones that wait to the threads, or cancel them with
        `cancel_futures`; then, with `wait`, wait until the threads are done."""
        with self._guard:
            self._ended = True
            for owner, jobs in self._waiting.items():
                for job in jobs:
                    if cancel_futures:
                        job.future.cancel()
                    else:
                        with suppress(RuntimeError):  # it waits for a thread that there is
                            self._run(owner, job)
            self._waiting.clear()
        super().shutdown(wait, cancel_futures=cancel_futures)


def use_fair_threads() -> None:
    """Let the running event loop use them, and short work go on beside long work."""
    sys.setswitchinterval(SWITCH_SECONDS)
    asyncio.get_running_loop().set_default_executor(FairThreads())
