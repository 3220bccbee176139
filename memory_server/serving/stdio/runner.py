"""Serving one client over standard input and output, until the client or the server ends it."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import sys
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

from mcp.server.lowlevel import Server

from memory_server.serving.stdio.lifetime import on_signals, until_parent_is_gone
from memory_server.serving.stdio.lines import Lines

log = logging.getLogger(__name__)

_AFTER_INPUT_SECONDS = 3.0
"""Seconds that calls continue after the end of the input: more than a search with slow triggers takes."""
_AFTER_SIGNAL_SECONDS = 0.3
"""The same after a signal: a part of the one second in which the process must end."""
_DRAIN_SECONDS = 0.3
"""Seconds that a client has to read the last answers."""


async def serve(
    server: Server[Any],
    settle: Callable[[], Coroutine[Any, Any, None]],
    descriptors: tuple[int, int] | None = None,
) -> None:
    """Serve one client until its input ends, it reads no more output, a signal comes, or its process ends.

    `settle` starts after the first answer, so that it does not delay the connection, and is cancelled at the end.
    `descriptors`: the files to read and write, by default standard input and output, which other code cannot use
    meanwhile.
    """
    with _standard() if descriptors is None else contextlib.nullcontext(descriptors) as (reading, writing):
        input_ended, stopped, answered = asyncio.Event(), asyncio.Event(), asyncio.Event()
        lines = Lines(reading, writing, ended=input_ended.set, broken=stopped.set, first=answered.set)
        on_signals(stopped.set)

        async def settle_later() -> None:
            await answered.wait()
            try:
                await settle()
            except Exception:
                log.exception("the work beside answering ended with an error")

        async def watch_parent() -> None:
            await until_parent_is_gone()
            stopped.set()

        async with _beside(settle_later(), watch_parent()):
            session = asyncio.create_task(
                server.run(lines.incoming, lines.outgoing, server.create_initialization_options())
            )
            lines.start()
            await _first_of(session, input_ended.wait(), stopped.wait())
            if not stopped.is_set():
                await _first_of(session, lines.quiet(_AFTER_INPUT_SECONDS), stopped.wait())
            if stopped.is_set():
                lines.stop()
                await lines.quiet(_AFTER_SIGNAL_SECONDS)
            lines.end()
            await session
            await lines.drain(_DRAIN_SECONDS)


async def _first_of(session: asyncio.Task[None], *others: Coroutine[Any, Any, Any]) -> None:
    """Wait for the first of them; the others, except the session, are cancelled."""
    async with _beside(*others) as tasks:
        await asyncio.wait({session, *tasks}, return_when=asyncio.FIRST_COMPLETED)


@contextlib.asynccontextmanager
async def _beside(*work: Coroutine[Any, Any, Any]) -> Any:
    """Run `work` meanwhile and cancel it at the end."""
    tasks = [asyncio.create_task(each) for each in work]
    try:
        yield tasks
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@contextlib.contextmanager
def _standard() -> Iterator[tuple[int, int]]:
    """Standard input and output under other numbers. Meanwhile 0 is empty and 1 is standard error, so that prints and
    child processes cannot write to the client. They are not closed: a thread may still wait on them."""
    reading, writing = os.dup(0), os.dup(1)
    empty = os.open(os.devnull, os.O_RDONLY)
    _put_in_place(empty, 0)
    os.close(empty)
    try:
        _put_in_place(2, 1)
    except OSError:  # there is no standard error
        nowhere = os.open(os.devnull, os.O_WRONLY)
        _put_in_place(nowhere, 1)
        os.close(nowhere)
    try:
        yield reading, writing
    finally:
        _put_in_place(reading, 0)
        _put_in_place(writing, 1)


def _put_in_place(descriptor: int, number: int) -> None:
    os.dup2(descriptor, number)
    if sys.platform == "win32":
        from mcp.os.win32.utilities import rebind_std_handle_to_fd

        rebind_std_handle_to_fd(number)
