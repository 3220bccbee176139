"""Forgetting, erasing and bringing back from the page, in one place."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from memory_server.conversations.changes import Change, Forgotten
from memory_server.conversations.model import ConversationState, ShortTermMemory
from memory_server.conversations.services import Done
from memory_server.kernel.errors import MemoryNotFound

if TYPE_CHECKING:
    from memory_server.web.view import View


@dataclass(frozen=True, slots=True)
class Place:
    """Where a text stands. `hint`: what to do where it is not in our hands."""

    name: str
    count: int
    hint: str = ""


async def places_of(view: View, memory: ShortTermMemory) -> Sequence[Place]:
    """Where an erasing would look; empty: it cannot erase yet."""
    return []


async def forget(view: View, memory_id: str) -> str:
    """Put a memory on the shelf; the change that takes it back."""
    services = view.call.memories.services

    def decide(state: ConversationState) -> tuple[Sequence[Change], Done]:
        memory = state.short_term.get(memory_id)
        if memory is None:
            raise MemoryNotFound("That memory is not here any more; it was forgotten or erased meanwhile.")
        return [Forgotten(memory, "deleted")], Done()

    return (await services.commit(view.conversation.id, decide, by="page")).change_id or ""
