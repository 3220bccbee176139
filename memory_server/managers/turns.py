"""A turn of a chat with one call before it and one after: what comes to mind, and what is remembered of it.

What several ways in share: the hook, the commands for companions, and the toolset `turn`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from memory_server.errors import TriggersUnavailable
from memory_server.managers.conversations import Conversation, Conversations
from memory_server.managers.recalling import Found
from memory_server.model import Message
from memory_server.recall.activation import Activation
from memory_server.recalled_block import FRAME_CHARS, marked

MAX_CHARS = 1_200
"""Characters of a recalled block unless said otherwise: a model pays for them in every turn."""
_BYTES_LEFT_OVER = 30
_STEPS_TO_START = 10
"""Turns of the event loop after which a worker process is started, where one is needed."""


@dataclass(frozen=True, slots=True)
class Recollection:
    """Both searches. `trouble` says why triggers could not run, where they could not; then none has fired."""

    found: Found
    activation: Activation
    trouble: str | None


async def recollect(
    conversation: Conversation,
    messages: Sequence[Message],
    *,
    participants: Mapping[str, Any] | None = None,
    by: str = "api",
) -> Recollection:
    """What the messages bring to mind, of both kinds of memory. What comes is reinforced.

    Raises:
        InvalidInput: there is no message.
        StorageError: the conversation cannot be read.
    """

    async def fired() -> tuple[Activation, str | None]:
        try:
            return await conversation.long_term.search(messages, participants=participants), None
        except TriggersUnavailable as error:
            return Activation((), (), (), 0), str(error)

    triggers = asyncio.create_task(fired())
    if await conversation.long_term.shelved():
        # Their worker makes ready in a process of its own while this one finds the words. But to be started it needs
        # the interpreter lock, which finding the first words holds for a tenth of a second: so it goes first.
        for _ in range(_STEPS_TO_START):
            await asyncio.sleep(0)
    try:
        found = await conversation.short_term.search(messages, by=by)
        activation, trouble = await triggers
    finally:
        triggers.cancel()
    return Recollection(found, activation, trouble)


def recalled_block(conversations: Conversations, recollection: Recollection, *, max_chars: int = MAX_CHARS) -> str:
    """What came to mind as lines for a prompt, marked as recalled, at most `max_chars`; empty where nothing did."""
    room = max(0, max_chars - FRAME_CHARS)
    activated = [item.memory for item in recollection.activation.activated]

    def lines(max_bytes: int) -> str:
        return conversations.lines(recollection.found.recall, activated, max_bytes=max_bytes)

    # Lines are measured in bytes, of which a character has one to four: the most bytes whose lines have room.
    least, most = room, room * 4
    text = lines(most)
    if len(text) > room:
        text = lines(least)
        while most - least > _BYTES_LEFT_OVER:
            middle = (least + most) // 2
            tried = lines(middle)
            if len(tried) > room:
                most = middle
            else:
                least, text = middle, tried
    return marked(text) if text else ""
