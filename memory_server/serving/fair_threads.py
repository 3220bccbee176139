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
from contextvars import ContextVar
from typing import Any

SHARED, EACH, FIRST = 8, 2, 2
"""Threads of all, of one among them, and of those who go first."""
SWITCH_SECONDS = 0.0005
"""How long Python lets a thread compute while others wait. With the usual 5 ms, each step of a short call beside a long
one waits for so long."""
HOOKS = object()
"""Hooks and health. It is not a text, because a tenant may have any name."""
FOR: ContextVar[Hashable] = ContextVar("for", default=None)
"""Whom the work of this task is for: a tenant, a window, or `HOOKS`, who go first."""


class FairThreads(ThreadPoolExecutor):
    """Runs what is submitted, each time for whoever waits longest and has fewer than `EACH` threads."""

    def __init__(self) -> None:
        super().__init__(SHARED + FIRST, "work")
        self._guard = threading.Lock()
        self._waiting: dict[Hashable, deque[tuple[Future[Any], Callable[[], Any]]]] = {}
        self._running: Counter[Hashable] = Counter()

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        with self._guard:
            self._waiting.setdefault(FOR.get(), deque()).append((future, lambda: fn(*args, **kwargs)))
            self._start()
        return future

    def _start(self) -> None:
        """Start what may run now; the caller holds the guard."""
        shared = self._running.total() - self._running[HOOKS]
        for whom in list(self._waiting):
            if self._running[whom] >= (FIRST if whom == HOOKS else EACH) or (whom != HOOKS and shared >= SHARED):
                continue
            jobs = self._waiting.pop(whom)
            super().submit(self._work, whom, *jobs.popleft())
            self._running[whom] += 1
            shared += whom != HOOKS
            if jobs:
                self._waiting[whom] = jobs  # behind all others

    def _work(self, whom: Hashable, future: Future[Any], job: Callable[[], Any]) -> None:
        try:
            if future.set_running_or_notify_cancel():
                try:
                    future.set_result(job())
                except BaseException as error:
                    future.set_exception(error)
        finally:
            with self._guard:
                self._running[whom] -= 1
                if not self._running[whom]:
                    del self._running[whom]
                self._start()

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        with self._guard:
            for jobs in self._waiting.values():
                for future, _ in jobs:
                    future.cancel()
            self._waiting.clear()
        super().shutdown(wait, cancel_futures=cancel_futures)


def use_fair_threads() -> None:
    """Let the running event loop use them, and short work go on beside long work."""
    sys.setswitchinterval(SWITCH_SECONDS)
    asyncio.get_running_loop().set_default_executor(FairThreads())
