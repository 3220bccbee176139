"""A client of our own server: the official Python client over stdio, as a companion would use it."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import datetime
from typing import Any, cast

from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client

from memory_server.cli.develop.chat_files import Exchange
from memory_server.cli.terminal import progress
from memory_server.config import Settings, as_environment
from memory_server.core.errors import MemoryServerError
from memory_server.storage.json_store.codec import message_json


class CallFailed(MemoryServerError):
    """A tool said why it did nothing."""


class Companion:
    """The calls that a chat companion makes."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def call(self, tool: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """The structured result of a tool.

        Raises:
            CallFailed: the tool refused.
        """
        result = await self._client.call_tool(tool, dict(arguments))
        if result.is_error:
            raise CallFailed("\n".join(getattr(block, "text", "") for block in result.content))
        return cast(dict[str, Any], result.structured_content)

    async def remember(self, exchanges: Sequence[Exchange]) -> None:
        """Store every exchange as one memory, with a progress bar."""
        with progress("storing the chat", len(exchanges)) as bar:
            for exchange in exchanges:
                messages = [message_json(message) for message in exchange.messages]
                await self.call(
                    "add_short_term_memory", {"conversation_id": exchange.conversation_id, "messages": messages}
                )
                bar.advance(bar.task_ids[0])

    async def ask(
        self, conversation_id: str, messages: Sequence[Mapping[str, Any]]
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """What both searches give for the current messages: short-term, long-term."""
        recent = [dict(message) for message in messages]
        common = {"conversation_id": conversation_id}
        return (
            await self.call("search_short_term_memories", common | {"recentMessages": recent}),
            await self.call("search_long_term_memories", common | {"messages": recent}),
        )


@contextlib.asynccontextmanager
async def companion(settings: Settings, *, now: str | None = None) -> AsyncIterator[Companion]:
    """Start a server with `settings` in a process of its own and connect to it. `now`: ISO time of its clock."""
    chosen = settings if now is None else settings.model_copy(update={"now": datetime.fromisoformat(now)})
    # As its environment, not as flags: these are all the settings, wherever they came from; no file adds to them.
    command = StdioServerParameters(
        command=sys.executable,
        args=["-P", "-m", "memory_server", "serve"],
        env=dict(os.environ) | as_environment(chosen) | {"MEMORY_SERVER_CONFIG": os.devnull},
    )
    try:
        # The log of the server goes where standard error is now, not where it was when the client was imported.
        async with Client(stdio_client(command, errlog=sys.stderr)) as client:
            yield Companion(client)
    except BaseExceptionGroup as group:
        # The client runs in task groups, which wrap whatever was raised inside.
        # BrokenPipeError: whoever read our output has gone.
        if (refused := group.subgroup((MemoryServerError, BrokenPipeError))) is not None:
            raise _first(refused) from None
        raise


def _first(group: BaseExceptionGroup[BaseException]) -> BaseException:
    error = group.exceptions[0]
    return _first(error) if isinstance(error, BaseExceptionGroup) else error
