"""Serving over standard input and output, until the client closes its end."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from mcp.server.context import HandlerResult, ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server

_AFTER_ANSWER_SECONDS = 0.05
"""Time for the first answer to leave before what is slow to load takes the processor."""


async def serve(server: Server[Any], settle: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Serve one client; returns when standard input ends.

    `settle` is begun after the first answer, so that no client waits for it to connect, and cancelled at the end.
    """
    answered = asyncio.Event()

    async def note_answer(
        ctx: ServerRequestContext[Any], call_next: Callable[[ServerRequestContext[Any]], Awaitable[HandlerResult]]
    ) -> HandlerResult:
        try:
            return await call_next(ctx)
        finally:
            answered.set()

    async def settle_later() -> None:
        await answered.wait()
        await asyncio.sleep(_AFTER_ANSWER_SECONDS)
        await settle()

    server.middleware.append(note_answer)
    later = asyncio.get_running_loop().create_task(settle_later())
    try:
        async with stdio_server() as (reading, writing):
            await server.run(reading, writing, server.create_initialization_options())
    finally:
        later.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await later
