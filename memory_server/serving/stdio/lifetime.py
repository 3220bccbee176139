"""What ends a serving process besides the end of its input: signals, and the end of the process that started it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Callable

_LOOK_SECONDS = 2.0
"""Seconds between two looks for the parent, on systems that do not report its end."""
_SIGNALS = ("SIGINT", "SIGTERM", "SIGHUP", "SIGBREAK")


def on_signals(end: Callable[[], None]) -> None:
    """Call `end` in this event loop on the first signal that asks the process to end; the second one kills it.

    It does nothing outside of the main thread, where Python does not handle signals.
    """
    loop = asyncio.get_running_loop()
    wanted = [getattr(signal, name) for name in _SIGNALS if hasattr(signal, name)]
    # A signal that is ignored on purpose, as by nohup, stays ignored.
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
    """Return when the process that started this one has ended; never, if that cannot be known.

    The end of a client usually closes our input, but not if another process holds the other end too.
    """
    parent = os.getppid()
    if parent <= 1:
        # This is the first process of a container, or its parent ended before we could look.
        await asyncio.Event().wait()
    if sys.platform == "linux":
        with contextlib.suppress(OSError):
            await _until_ended(parent)
            return
    while _lives(parent):  # noqa: ASYNC110 - nobody could set an event
        await asyncio.sleep(_LOOK_SECONDS)


async def _until_ended(process: int) -> None:
    """On Linux a descriptor shows it. Unlike PR_SET_PDEATHSIG, it is for the process, not for the thread that forked
    us."""
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    descriptor = os.pidfd_open(process)
    try:
        loop.add_reader(descriptor, ended.set)
        # Another process may have got its number before it was opened; then our parent is another one.
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
