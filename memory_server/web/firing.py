"""Which long-term memories a message would bring, in the order in which they take room, and what would be left out and
why. Nothing is counted as used."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence

from memory_server.conversations.recall.request import RecallRequest
from memory_server.conversations.trigger_search import Activation
from memory_server.kernel.messages import Message
from memory_server.kernel.values import dataclass
from memory_server.lore import Fitting, Shelved, reason_text
from memory_server.memories.turns import MAX_CHARS, prompt_room, recalled_block
from memory_server.web.view import View

_LEAST_CHARS = 200
_MOST_CHARS = 50_000
"""The room that a reader may try, as for the tool `recall_turn`."""
_MOST_ROWS = 200
"""Rows that are shown, where no more memories come."""


@dataclass(frozen=True, slots=True)
class FiringRow:
    """A memory whose trigger fired. `chars`: the length of its text, or 0 if it was not counted. `why`: the reason
    why it is left out, or "" if it comes. `is_cut`: only its beginning has room."""

    name: str
    place: str
    order: float
    chars: int = 0
    why: str = ""
    is_cut: bool = False


@dataclass(frozen=True, slots=True)
class WouldFire:
    """What a message would bring. `rows`: in the order in which they take room, then memories that their rules hold
    back; `more`: how many of the last rows are not shown. `used`: characters that the memories take; of the `room`,
    at least `least` characters are for them. `text`: the block as a model would read it; `failed`: the names of
    triggers that failed."""

    rows: Sequence[FiringRow]
    more: int
    used: int
    least: int
    room: int
    text: str
    failed: Sequence[str]


async def would_fire(
    view: View,
    messages: Sequence[Message],
    *,
    max_chars: int = MAX_CHARS,
    message_count: int | None = None,
) -> WouldFire:
    """Return what the messages would bring with so much room, in a chat of so many messages, or in a session that
    says nothing of it."""
    room = min(_MOST_CHARS, max(_LEAST_CHARS, max_chars))
    # A try must give the same each time, and must not count as use.
    request = RecallRequest(messages, flashbacks=0, message_count=message_count, reinforce=False)
    short_term = await view.conversation.short_term.search(request)
    activation = await view.conversation.long_term.search(request)
    block = await asyncio.to_thread(
        recalled_block, view.call.memories, short_term, activation, prompt_room(room)
    )
    rows = [*_fitted(activation, block.fitting), *_held_back(activation)]
    shown = max(_MOST_ROWS, len(block.fitting.texts))
    return WouldFire(
        rows=rows[:shown],
        more=max(0, len(rows) - shown),
        used=block.fitting.chars,
        least=prompt_room(room).long_term,
        room=room,
        text=block.text,
        failed=[shelved.memory.name for shelved, _failure in activation.failed],
    )


def _fitted(activation: Activation, fitting: Fitting) -> Iterator[FiringRow]:
    """Yield the memories that their rules let come: memories with room, and memories without."""
    texts = {_key(text.entry): text for text in fitting.texts}
    left_out = {_key(text.entry): text for text in fitting.left_out}
    for shelved in activation.activated:
        memory = shelved.memory
        text = texts.get(_key(shelved))
        without_room = left_out.get(_key(shelved))
        yield FiringRow(
            name=memory.name,
            place=shelved.conversation_id,
            order=memory.rules.order,
            chars=len(memory.prompt),
            why="" if without_room is None else reason_text(without_room.reason),
            is_cut=text is not None and text.is_cut,
        )


def _held_back(activation: Activation) -> Iterator[FiringRow]:
    for held_memory in activation.held_back:
        memory = held_memory.shelved.memory
        why = reason_text(held_memory.reason)
        yield FiringRow(
            memory.name,
            held_memory.shelved.conversation_id,
            memory.rules.order,
            len(memory.prompt),
            why,
        )


def _key(shelved: Shelved) -> tuple[str, str]:
    return shelved.conversation_id, shelved.memory.name
