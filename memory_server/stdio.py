"""Serving over standard input and output, until the client closes its end."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Any

from mcp.server.context import HandlerResult, ServerRequestContext
from mcp.server.stdio import stdio_server

from memory_server.app import App
from memory_server.jobs import Jobs
from memory_server.server import build_server

_AFTER_ANSWER_SECONDS = 0.05
"""Time for the first answer to leave before the dictionary and the scheduler take the processor."""


async def serve(app: App) -> None:
    """Serve `app` to one client; returns when standard input ends.

    What is slow to load is loaded after the first answer, so that no client waits for it to connect.
    """
    server = build_server(app)
    answered = asyncio.Event()

    async def note_answer(
        ctx: ServerRequestContext[Any], call_next: Callable[[ServerRequestContext[Any]], Awaitable[HandlerResult]]
    ) -> HandlerResult:
        try:
            return await call_next(ctx)
        finally:
            answered.set()

    server.middleware.append(note_answer)
    async with app:
        later = asyncio.get_running_loop().create_task(_prepare(app, answered))
        try:
            async with stdio_server() as (reading, writing):
                await server.run(reading, writing, server.create_initialization_options())
        finally:
            later.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await later


async def _prepare(app: App, answered: asyncio.Event) -> None:
    await answered.wait()
    await asyncio.sleep(_AFTER_ANSWER_SECONDS)
    await app.warm()
    jobs = Jobs(app.maintenance, app.settings.upkeep, app.settings.timezone)
    try:
        await jobs.start()
        await asyncio.Event().wait()
    finally:
        await jobs.stop()
