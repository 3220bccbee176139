"""Memories with rules of firing by what a search asks of them, made once for each version of the memories. Pure.

A search then looks at the memories that fired and at those that came in this chat before, and not at all that have
rules: a lorebook may have thousands.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from memory_server.lore.chat_state import firing_key
from memory_server.lore.entries import Entry
from memory_server.lore.rules import FiringRules

_NOTHING: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Counted:
    """An entry to which the messages of a chat matter: its index, and its rules."""

    index: int
    rules: FiringRules


@dataclass(frozen=True, slots=True)
class RuleIndex:
    """The indexes of memories with rules. `counting`: those to which the messages of a chat matter, by their key in the
    state of a chat. `delayed`: those that a chat must have some length for. `of_characters`: those that are for some
    characters only. `by_words`: those that are found by words. `recursive`: by the id of the book those whose book
    searches texts that came; `levels`: the rounds of recursion for which some of all wait, in their order."""

    counting: Mapping[str, Counted] = field(default_factory=lambda: _NOTHING)
    delayed: Sequence[int] = ()
    of_characters: Sequence[int] = ()
    by_words: Sequence[int] = ()
    recursive: Mapping[str, Sequence[int]] = field(default_factory=lambda: _NOTHING)
    levels: Sequence[int] = ()


def index_of_rules(
    memories: Sequence[Entry], with_rules: Collection[int], with_last_fired: Collection[int]
) -> RuleIndex:
    """The index of these memories. `with_rules`: the indexes of those with rules; `with_last_fired`: of those whose
    trigger reads when it last fired."""
    rules = {index: memories[index].rules for index in with_rules}
    recursive: dict[str, list[int]] = {}
    for index in _where_recursion_is_on(rules):
        book_id = memories[index].book_id
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


def key_of(entry: Entry) -> str:
    """By what the state of a chat knows the entry."""
    return firing_key(entry.name, entry.conversation_id)


def _where_recursion_is_on(rules: Mapping[int, FiringRules]) -> Iterator[int]:
    return (index for index, rule in rules.items() if rule.recursion.is_on)
