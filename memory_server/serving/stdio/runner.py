"""Serving one client over standard input and output, until its input ends, a signal comes, or its process is gone."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import sys
from collections.abc import Callable, Coroutine, Iterator
from functools import partial
from typing import Any

from mcp.server.lowlevel import Server

from memory_server.serving.stdio.lines import Descriptors, Events, Lines

log = logging.getLogger(__name__)

_AFTER_INPUT_SECONDS = 3.0
"""Seconds that calls continue after the end of the input: more than a search with slow triggers takes."""
_AFTER_SIGNAL_SECONDS = 0.3
"""The same after a signal: a part of the one second in which the process must end."""
_DRAIN_SECONDS = 0.3
"""Seconds that a client has to read the last answers."""
_LOOK_SECONDS = 1.0
"""Seconds between two looks for the parent: one system call each."""
_SIGNALS = ("SIGINT", "SIGTERM", "SIGHUP", "SIGBREAK")


async def serve(
    server: Server[Any],
    settle: Callable[[], Coroutine[Any, Any, object]],
    descriptors: tuple[int, int] | None = None,
) -> None:
    """Serve one client until its input ends, it reads no more output, a signal comes, or its process ends.

    `settle` is as in `session`. `descriptors`: the files to read and write, by default standard input and output, which
    other code cannot use meanwhile.
    """
    stopped = asyncio.Event()

    async def watch_parent() -> None:
        await until_parent_is_gone()
        stopped.set()

    with contextlib.ExitStack() as stack:
        if descriptors is None:
            descriptors = stack.enter_context(_standard())
        on_signals(stopped.set)
        async with _running_beside(watch_parent()):
            await session(server, settle, partial(Lines, Descriptors(*descriptors)), stopped)


async def session(
    server: Server[Any],
    settle: Callable[[], Coroutine[Any, Any, object]],
    lines_to_client: Callable[[Events], Lines],
    stopped: asyncio.Event,
) -> None:
    """Serve one client until its input ends, it reads no more output, or `stopped` is set.

    `settle` starts after the first answer, so that it does not delay the connection, and is cancelled at the end.
    `lines_to_client` makes the connection to the client, with what is to be called.
    """
    input_ended = asyncio.Event()
    answered = asyncio.Event()
    lines = lines_to_client(Events(ended=input_ended.set, broken=stopped.set, first=answered.set))

    async def settle_later() -> None:
        await answered.wait()
        try:
            await settle()
        except Exception:
            log.exception("the work beside answering ended with an error")

    async with _running_beside(settle_later()):
        running = asyncio.create_task(
            server.run(lines.incoming, lines, server.create_initialization_options())
        )
        lines.start()
        await _first_of(running, input_ended.wait(), stopped.wait())
        # The input has ended, but requests may still be answered.
        if not stopped.is_set():
            await _first_of(running, lines.quiet(_AFTER_INPUT_SECONDS), stopped.wait())
        if stopped.is_set():
            lines.stop()
            await lines.quiet(_AFTER_SIGNAL_SECONDS)
        lines.end()
        await running
        await lines.drain(_DRAIN_SECONDS)


async def _first_of(session: asyncio.Task[None], *events: Coroutine[Any, Any, Any]) -> None:
    """Wait until the session or an event ends; the other events are cancelled, the session is not."""
    async with _running_beside(*events) as tasks:
        await asyncio.wait({session, *tasks}, return_when=asyncio.FIRST_COMPLETED)


@contextlib.asynccontextmanager
async def _running_beside(*work: Coroutine[Any, Any, Any]) -> Any:
    """Run `work` meanwhile and cancel it at the end."""
    tasks = [asyncio.create_task(coroutine) for coroutine in work]
    try:
        yield tasks
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@contextlib.contextmanager
def _standard() -> Iterator[tuple[int, int]]:
    """Give standard input and output under other numbers. Meanwhile 0 is empty and 1 is standard error, so that
    prints and child processes cannot write to the client; what was printed and waits in a buffer goes to standard
    error, too. They are not closed: a thread may still wait on them."""
    reading = os.dup(0)
    writing = os.dup(1)
    empty = os.open(os.devnull, os.O_RDONLY)
    _put_in_place(empty, 0)
    os.close(empty)
    try:
        _put_in_place(2, 1)
    except OSError:  # standard error is closed
        nowhere = os.open(os.devnull, os.O_WRONLY)
        _put_in_place(nowhere, 1)
        os.close(nowhere)

    try:
        yield reading, writing
    finally:
        _write_what_waits()
        _put_in_place(reading, 0)
        _put_in_place(writing, 1)


def _write_what_waits() -> None:
    """Write what was printed and is still in the buffer of Python. Nothing can be done if the file is closed."""
    if sys.stdout is not None:
        with contextlib.suppress(OSError, ValueError):
            sys.stdout.flush()


def _put_in_place(descriptor: int, number: int) -> None:
    os.dup2(descriptor, number)
    if sys.platform == "win32":
        from mcp.os.win32.utilities import rebind_std_handle_to_fd

        rebind_std_handle_to_fd(number)


def on_signals(end: Callable[[], None]) -> None:
    """Call `end` in this event loop on the first signal that asks the process to end; the second one kills it.

    It does nothing outside of the main thread, where Python does not handle signals.
    """
    loop = asyncio.get_running_loop()
    signals = [getattr(signal, name) for name in _SIGNALS if hasattr(signal, name)]
    # A signal that is ignored on purpose, as by nohup, stays ignored.
    handled = [number for number in signals if signal.getsignal(number) is not signal.SIG_IGN]

    def first() -> None:
        for number in handled:
            with contextlib.suppress(NotImplementedError):
                loop.remove_signal_handler(number)
            signal.signal(number, signal.SIG_DFL)
        end()

    for number in handled:
        try:
            loop.add_signal_handler(number, first)
        except NotImplementedError:  # Windows
            with contextlib.suppress(ValueError):
                signal.signal(number, lambda *_: loop.call_soon_threadsafe(first))
        except (ValueError, RuntimeError):
            return


async def until_parent_is_gone() -> None:
    """Wait until the parent process has ended; never, if that cannot be known. The end of a client
    usually closes our input, but not if another process holds the other end too."""
    parent = os.getppid()
    if parent <= 1:
        # This is the first process of a container, or its parent ended before we could look.
        await asyncio.Event().wait()
    while _lives(parent):  # noqa: ASYNC110 - no event tells of it
        await asyncio.sleep(_LOOK_SECONDS)


def _lives(parent: int) -> bool:
    if os.name == "posix":
        return os.getppid() == parent
    import psutil  # type: ignore[import-untyped]

    return bool(psutil.pid_exists(parent))
