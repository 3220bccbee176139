"""A memory with a trigger, and what can happen to it. Values only; conversations/changes.py applies the changes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import field
from hashlib import blake2b
from typing import Any, Literal, Protocol

from memory_server.kernel.messages import NOTHING
from memory_server.kernel.values import dataclass
from memory_server.lore.entry_keys import EntryKeys
from memory_server.lore.rules import PLAIN, FiringRules

_COMMENT_LINE = re.compile(r"^[ \t]*//[^\n]*$", re.MULTILINE)


ForgetReason = Literal[
    "too_old", "faded", "deleted", "undone", "hand", "restored_over", "retired", "taken_back"
]
"""Why a memory was removed: by the clean-up (`too_old`, `faded`), on demand (`deleted`), by undoing what stored it
(`undone`), by a person who took it out of the JSON file (`hand`), because a backup without it was restored with
overwrite (`restored_over`), because its book has it no longer (`retired`), or because the user took the turn back in
the client (`taken_back`)."""


@dataclass(frozen=True, slots=True)
class BookEntry:
    """The book that a memory is from. `source`: the file that the book came from. `uid`: the name of the memory in the
    book. `imported`: the fingerprint of the memory as the book had it. `placement`: where the client of the book would
    put its text. `imported_off`: whether the last import brought it switched off; if it is otherwise now, its owner
    switched it here."""

    book_id: str
    book_name: str
    source: str = ""
    uid: str = ""
    imported: str = ""
    imported_off: bool = False
    placement: Mapping[str, Any] = field(default_factory=lambda: NOTHING)


@dataclass(frozen=True, slots=True)
class LongTermMemory:
    """A named prompt that comes to mind when its JavaScript trigger is truthy. `keys` are the keys of an entry of a
    book, from which its trigger is written (`trigger_of`); they are None if a person wrote the trigger."""

    name: str
    prompt: str
    trigger: str
    created_ms: int
    created_context: str = ""
    updated_ms: int | None = None
    updated_context: str | None = None
    rules: FiringRules = PLAIN
    book: BookEntry | None = None
    """The book that it is from, or None if it is not from a book."""
    keys: EntryKeys | None = None
    extra: Mapping[str, Any] = field(default_factory=lambda: NOTHING)

    # Short-term memories have the same three names, for code that looks at both kinds.

    @property
    def key(self) -> str:
        return self.name

    @property
    def made_ms(self) -> int:
        return self.created_ms

    @property
    def text(self) -> str:
        return f"{self.name}\n{self.prompt}"

    @property
    def is_constant(self) -> bool:
        """Whether it comes to mind in every search."""
        return is_constant(self.trigger) if self.keys is None else self.keys.is_constant


@dataclass(frozen=True, slots=True)
class Shelved:
    """A long-term memory and the conversation it is kept in."""

    conversation_id: str
    memory: LongTermMemory

    @property
    def name(self) -> str:
        return self.memory.name

    @property
    def text(self) -> str:
        return self.memory.prompt

    @property
    def rules(self) -> FiringRules:
        return self.memory.rules

    @property
    def keys(self) -> EntryKeys | None:
        return self.memory.keys

    @property
    def book_id(self) -> str:
        """The book that the memory is from; empty if it is not from a book."""
        book = self.memory.book
        return "" if book is None else book.book_id

    @property
    def version_key(self) -> str:
        """The key of this version of the memory, by which the program knows what a session was given."""
        memory = self.memory
        version = f"{memory.created_ms} {memory.updated_ms} {self.conversation_id} {memory.name}"
        return blake2b(version.encode(errors="replace"), digest_size=6).hexdigest()


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
    """What lore needs to know of a conversation; conversations/model.py has the whole of its state. `shelf` is what
    shelf.py made of the memories; if it is None, it is made again."""

    conversation_id: str
    long_term: dict[str, LongTermMemory]
    shelf: Any


def is_constant(trigger: str) -> bool:
    """Return whether the trigger is `true` in every search."""
    return _COMMENT_LINE.sub("", trigger).strip() == "true"
