"""The long-term memories of a conversation as a search needs them, made once for each version of them."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any

from memory_server.kernel.values import dataclass
from memory_server.lore.entry_index import EntryIndex
from memory_server.lore.entry_keys import EntryKeys
from memory_server.lore.memory import ConversationMemories, LongTermMemory, Shelved
from memory_server.lore.rule_index import RuleIndex, index_of_rules
from memory_server.lore.rules import LAST_FIRED, PLAIN
from sandbox import SandboxLimits


@dataclass(frozen=True, slots=True)
class Shelf:
    """Long-term memories that are switched on. `entries` are decided by their keys; `triggers` are the triggers of the
    others, by their indexes in `memories`. `with_rules` are the indexes of memories with rules beside their trigger;
    `rules` is the index of these rules. `with_last_fired` are the indexes of memories whose trigger reads when it last
    fired. `switched_off` are the other memories."""

    memories: Sequence[Shelved] = ()
    entries: EntryIndex = field(default_factory=lambda: EntryIndex({}))
    triggers: Mapping[int, str] = field(default_factory=dict)
    with_rules: Sequence[int] = ()
    with_last_fired: Sequence[int] = ()
    switched_off: Sequence[Shelved] = ()
    rules: RuleIndex = field(default_factory=RuleIndex)
    documents: dict[tuple[str, str], Any] = field(default_factory=dict, compare=False, repr=False)
    """The words of memories that are found by words, by the signature of the options and the name; filled when they are
    first sought (conversations/trigger_search.py)."""

    @property
    def all(self) -> Sequence[Shelved]:
        if not self.switched_off:
            return self.memories
        return [*self.memories, *self.switched_off]


def shelf_of(state: ConversationMemories) -> Shelf:
    """Return the shelf of a conversation. It is made once for each version, because a prompt may search thousands of
    memories."""
    if state.shelf is None:
        state.shelf = _shelf(state.conversation_id, state.long_term)
    shelf: Shelf = state.shelf
    return shelf


def _shelf(conversation_id: str, memories: Mapping[str, LongTermMemory]) -> Shelf:
    shelved = [Shelved(conversation_id, memory) for memory in memories.values()]
    switched_on = [item for item in shelved if not item.memory.rules.is_off]
    switched_off = [item for item in shelved if item.memory.rules.is_off]
    return _of(switched_on, switched_off)


def _of(switched_on: Sequence[Shelved], switched_off: Sequence[Shelved]) -> Shelf:
    """Build the shelf of these memories. If a search does not run all triggers, the user's own memories come before
    memories of books."""
    memories = switched_on
    if len(memories) > most_triggers():
        memories = sorted(switched_on, key=lambda item: item.memory.book is not None)

    entries: dict[int, EntryKeys] = {}
    triggers: dict[int, str] = {}
    for index, item in enumerate(memories):
        keys = item.keys
        # V8 finds expressions.
        if keys is None or keys.expressions:
            triggers[index] = item.memory.trigger
        else:
            entries[index] = keys

    with_rules = [index for index, item in enumerate(memories) if item.memory.rules is not PLAIN]
    with_last_fired = [index for index, trigger in triggers.items() if LAST_FIRED in trigger]

    return Shelf(
        memories=memories,
        entries=EntryIndex(entries),
        triggers=triggers,
        with_rules=with_rules,
        with_last_fired=with_last_fired,
        switched_off=switched_off,
        rules=index_of_rules(memories, with_rules, with_last_fired),
    )


def most_triggers() -> int:
    """Return how many triggers a search runs."""
    return SandboxLimits().max_triggers


@dataclass(frozen=True, slots=True)
class _Join:
    """Shelves, and what they are as one."""

    parts: Sequence[Shelf]
    shelf: Shelf


class JoinedShelves:
    """The shelves that were searched together last, as one. It is made again only when a part has changed."""

    def __init__(self) -> None:
        self._last = _Join((), Shelf())

    def known(self, parts: Sequence[Shelf]) -> Shelf | None:
        """Return these shelves as one if nothing must be made for it, or None; then `of` makes it."""
        filled = _filled(parts)
        if len(filled) == 1:
            return filled[0]
        last = self._last
        is_same = len(filled) == len(last.parts) and all(map(operator.is_, filled, last.parts))
        if is_same:
            return last.shelf
        return None

    def of(self, parts: Sequence[Shelf]) -> Shelf:
        """Join these shelves into one, in their order. Many large shelves are work for a thread, of which several may
        run."""
        known = self.known(parts)
        if known is not None:
            return known
        filled = _filled(parts)
        switched_on = [shelved for shelf in filled for shelved in shelf.memories]
        switched_off = [shelved for shelf in filled for shelved in shelf.switched_off]
        joined = _of(switched_on, switched_off)
        self._last = _Join(filled, joined)
        return joined


def _filled(parts: Sequence[Shelf]) -> list[Shelf]:
    return [shelf for shelf in parts if shelf.memories or shelf.switched_off]
