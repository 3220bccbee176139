"""What ends a serving process besides its client's last word: signals, and the death of whoever started it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Callable

_LOOK_SECONDS = 2.0
"""How often to look for the parent where the system does not tell."""
_SIGNALS = ("SIGINT", "SIGTERM", "SIGHUP", "SIGBREAK")


def on_signals(end: Callable[[], None]) -> None:
    """Call `end` in this event loop on the first of the signals that ask a process to go; the second one kills it.

    Does nothing outside of the main thread, where Python takes no signals.
    """
    loop = asyncio.get_running_loop()
    wanted = [getattr(signal, name) for name in _SIGNALS if hasattr(signal, name)]
    # One that is ignored on purpose, as by nohup, stays so.
    wanted = [number for number in wanted if signal.getsignal(number) is not signal.SIG_IGN]

    def first() -> None:
        for number in wanted:
            with contextlib.suppress(NotImplementedError):
                loop.remove_signal_handler(number)
            signal.signal(number, signal.SIG_DFL)
        end()

    for number in wanted:
        try:
            loop.add_signal_handler(number, first)
        except NotImplementedError:  # Windows
            with contextlib.suppress(ValueError):
                signal.signal(number, lambda *_: loop.call_soon_threadsafe(first))
        except (ValueError, RuntimeError):
            return


async def until_parent_is_gone() -> None:
    """Return when the process that started this one has ended; never where that cannot be known.

    A client that was killed usually closes our input by that. It does not where another process holds the other end.
    """
    parent = os.getppid()
    if parent <= 1:
        # We are a container's first process, or were handed over to it before we could look.
        await asyncio.Event().wait()
    if sys.platform == "linux":
        with contextlib.suppress(OSError):
            await _until_ended(parent)
            return
    while _lives(parent):  # noqa: ASYNC110 - nobody could set an event
        await asyncio.sleep(_LOOK_SECONDS)


async def _until_ended(process: int) -> None:
    """Linux tells by a descriptor. Unlike PR_SET_PDEATHSIG that means the process, not the thread that forked us."""
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    descriptor = os.pidfd_open(process)
    try:
        loop.add_reader(descriptor, ended.set)
        # Its number may have become another's before it was opened; then we are somebody else's child.
        if os.getppid() == process:
            await ended.wait()
    finally:
        loop.remove_reader(descriptor)
        os.close(descriptor)


def _lives(parent: int) -> bool:
    if os.name == "posix":
        return os.getppid() == parent
    import psutil  # type: ignore[import-untyped]

    return bool(psutil.pid_exists(parent))
