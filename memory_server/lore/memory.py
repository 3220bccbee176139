"""A memory with a trigger, how it competes with others once its trigger is true, and what can happen to it. Values
only; rounds.py decides by the rules, conversations/changes.py applies the changes.

The meanings of the rules are the same as in SillyTavern's world info (public/scripts/world-info.js), from which most
such memories come.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import field
from hashlib import blake2b
from typing import Any, Literal, Protocol

from memory_server.kernel.messages import NOTHING
from memory_server.kernel.values import frozen
from memory_server.lore.entry_keys import EntryKeys

USUAL_ORDER = 100.0
"""The order of a memory that names none, and its weight in a group."""
OF_CHAT, OF_PERSONA, USUAL_PRECEDENCE, LATER_PRECEDENCE = range(4)
"""The precedence of the books of a chat, of a persona, of what SillyTavern lets come first of the books of a character
and of the books for all chats (and of memories that name none), and of the rest of these."""


@frozen
class GroupRules:
    """The inclusion groups of a memory: if several of a group fire together, only one comes. `weight`: its share in the
    draw. `overrides`: among members with it, the highest order wins without a draw. `is_scored`: it loses before the
    draw if fewer of its keys are in the messages than of another member."""

    names: tuple[str, ...] = ()
    weight: float = USUAL_ORDER
    overrides: bool = False
    is_scored: bool = False


@frozen
class RecursionRules:
    """How a memory of a book takes part in the search of texts that came. `is_on`: whether its book searches them at
    all. `is_excluded`: no such text makes it fire. `is_prevented`: its own text makes none fire. `level`: it waits for
    the rounds of recursion from this one on; 0: it does not wait. `most_rounds`: it fires only in the first so many
    rounds, counting the round of the messages; 0 means in all rounds."""

    is_on: bool = False
    is_excluded: bool = False
    is_prevented: bool = False
    level: int = 0
    most_rounds: int = 0


@frozen
class CharacterRule:
    """The characters for whom a memory is, or with `is_exclude` is not; no names: it is for all."""

    names: tuple[str, ...] = ()
    is_exclude: bool = False

    def admits(self, characters: frozenset[str]) -> bool:
        """Return whether the memory may come in a chat with these characters."""
        if not self.names:
            return True
        return characters.isdisjoint(self.names) == self.is_exclude


@frozen
class FiringRules:
    """The rules of a memory. `precedence`: a memory with a lower number takes room first; with equal numbers, a memory
    with a higher order does. `sticky`, `cooldown` and `delay` count messages of a chat. `sticky`: it stays for so many,
    including the message at which it came. `cooldown`: it comes again so many later at the earliest; after its
    stickiness, it stays away for so many. `delay`: it does not come before the chat has so many. `once`: it comes in
    one message of a chat. `by_words`: it also comes where the messages bring its words to mind, and `other_words` are
    texts by which they may. `is_off`: its owner has it switched off."""

    order: float = USUAL_ORDER
    precedence: int = USUAL_PRECEDENCE
    group: GroupRules = field(default_factory=GroupRules)
    probability: float = 100.0
    sticky: int = 0
    cooldown: int = 0
    delay: int = 0
    once: bool = False
    ignores_budget: bool = False
    recursion: RecursionRules = field(default_factory=RecursionRules)
    characters: CharacterRule = field(default_factory=CharacterRule)
    by_words: bool = False
    other_words: tuple[str, ...] = ()
    is_off: bool = False

    @property
    def needs_chat_state(self) -> bool:
        """Whether it counts when the memory came in this chat, or how many messages the chat has."""
        return bool(self.sticky or self.cooldown or self.delay or self.once)


LAST_FIRED = "last_fired"
"""What a trigger reads that asks when its memory last came: `context.last_fired`."""
PLAIN = FiringRules()
"""The rules of a memory that names none."""


_COMMENT_LINE = re.compile(r"^[ \t]*//[^\n]*$", re.MULTILINE)


ForgetReason = Literal[
    "too_old", "faded", "deleted", "undone", "hand", "restored_over", "retired", "taken_back"
]
"""Why a memory was removed: by the clean-up (`too_old`, `faded`), on demand (`deleted`), by undoing what stored it
(`undone`), by a person who took it out of the JSON file (`hand`), because a backup without it was restored with
overwrite (`restored_over`), because its book has it no longer (`retired`), or because the user took the turn back in
the client (`taken_back`)."""


@frozen
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


@frozen
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


@frozen
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


@frozen
class TriggerSet:
    """A long-term memory was stored or edited; `before` is what had its name until then."""

    memory: LongTermMemory
    before: LongTermMemory | None


@frozen
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
