"""An index of the memories with rules of firing, by what a search asks of them, made once for each version of the
memories. Pure.

A search then looks only at the memories that fired or came in this chat before, and not at all memories with rules: a
lorebook may have thousands.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import field
from types import MappingProxyType
from typing import Any

from memory_server.kernel.values import dataclass
from memory_server.lore.chat_state import firing_key
from memory_server.lore.memory import Shelved
from memory_server.lore.rules import FiringRules

_NOTHING: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Counted:
    """An entry to which the messages of a chat matter: its index, and its rules."""

    index: int
    rules: FiringRules


@dataclass(frozen=True, slots=True)
class RuleIndex:
    """The indexes of memories with rules. `counting` are the memories to which the messages of a chat matter, by their
    key in the state of a chat. `delayed` memories need a chat of some length. `of_characters` are for some characters
    only. `by_words` are found by words. `recursive` are the memories of books that search texts that came, by the id of
    the book; `levels` are the rounds of recursion for which memories wait, in their order."""

    counting: Mapping[str, Counted] = field(default_factory=lambda: _NOTHING)
    delayed: Sequence[int] = ()
    of_characters: Sequence[int] = ()
    by_words: Sequence[int] = ()
    recursive: Mapping[str, Sequence[int]] = field(default_factory=lambda: _NOTHING)
    levels: Sequence[int] = ()


def index_of_rules(
    memories: Sequence[Shelved], with_rules: Collection[int], with_last_fired: Collection[int]
) -> RuleIndex:
    """Build the index of these memories. `with_rules` are the indexes of memories with rules; `with_last_fired` are the
    indexes of memories whose trigger reads when it last fired."""
    rules = {index: memories[index].rules for index in with_rules}

    recursive: dict[str, list[int]] = {}
    for index in _where_recursion_is_on(rules):
        book_id = memories[index].book_id
        # Only the texts of a book are searched again, so a memory of the user never is.
        if book_id:
            recursive.setdefault(book_id, []).append(index)

    counting = {index for index, rule in rules.items() if rule.needs_chat_state}.union(
        with_last_fired
    )

    return RuleIndex(
        counting={
            key_of(memories[index]): Counted(index, memories[index].rules)
            for index in sorted(counting)
        },
        delayed=[index for index, rule in rules.items() if rule.delay],
        of_characters=[index for index, rule in rules.items() if rule.characters.names],
        by_words=[index for index, rule in rules.items() if rule.by_words],
        recursive=recursive,
        levels=sorted({rule.recursion.level for rule in rules.values()} - {0}),
    )


def key_of(entry: Shelved) -> str:
    """Return the key of the entry in the state of a chat."""
    return firing_key(entry.name, entry.conversation_id)


def _where_recursion_is_on(rules: Mapping[int, FiringRules]) -> Iterator[int]:
    return (index for index, rule in rules.items() if rule.recursion.is_on)
