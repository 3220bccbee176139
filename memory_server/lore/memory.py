"""A memory with a trigger, and what can happen to it. Values only; conversations/changes.py applies the changes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any, Literal, Protocol

from memory_server.kernel.messages import NOTHING
from memory_server.kernel.values import dataclass
from memory_server.lore.book_entry import BookEntry
from memory_server.lore.rules import PLAIN, FiringRules

ForgetReason = Literal[
    "too_old", "faded", "deleted", "undone", "hand", "restored_over", "retired", "taken_back"
]
"""Why a memory was removed: by the clean-up (`too_old`, `faded`), on demand (`deleted`), by undoing what stored it
(`undone`), by a person who took it out of the JSON file (`hand`), because a backup without it was restored with
overwrite (`restored_over`), because its book has it no longer (`retired`), or because the user took the turn back in
the client (`taken_back`)."""


@dataclass(frozen=True, slots=True)
class LongTermMemory:
    """A named prompt that comes to mind when its JavaScript trigger is truthy."""

    name: str
    prompt: str
    trigger: str
    created_ms: int
    created_context: str = ""
    updated_ms: int | None = None
    updated_context: str | None = None
    rules: FiringRules = PLAIN
    book: BookEntry | None = None
    """The book that it is from; None: it is not from a book."""
    extra: Mapping[str, Any] = field(default_factory=lambda: NOTHING)

    # The same three names as those of a short-term memory, for what looks at both kinds.

    @property
    def key(self) -> str:
        return self.name

    @property
    def made_ms(self) -> int:
        return self.created_ms

    @property
    def text(self) -> str:
        return f"{self.name}\n{self.prompt}"


@dataclass(frozen=True, slots=True)
class TriggerSet:
    """A long-term memory was stored or edited; `before` is what had its name until then."""

    memory: LongTermMemory
    before: LongTermMemory | None


@dataclass(frozen=True, slots=True)
class TriggerRemoved:
    """A long-term memory was removed, and is in the archive now."""

    memory: LongTermMemory
    reason: ForgetReason = "deleted"


BookChange = TriggerSet | TriggerRemoved


class ConversationMemories(Protocol):
    """What lore needs to know of a conversation; conversations/model.py has the whole of its state. `shelf`: what
    shelf.py made of the memories; None: it is made again."""

    conversation_id: str
    long_term: dict[str, LongTermMemory]
    shelf: Any
