"""The long-term memories of a conversation as a search needs them, made once for each version of them: with an index of
their rules, and of the entries that come by their keys."""

from __future__ import annotations

import operator
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import field
from types import MappingProxyType
from typing import Any

from memory_server.kernel.values import frozen
from memory_server.lore.chat_state import firing_key
from memory_server.lore.entry_keys import NAMED, EntryKeys, KeyCondition
from memory_server.lore.memory import (
    LAST_FIRED,
    PLAIN,
    ConversationMemories,
    FiringRules,
    LongTermMemory,
    Shelved,
)
from sandbox import (
    SandboxLimits,
    SearchedTexts,
    SoughtKey,
    SpokenText,
    TooMuchText,
    named_text,
    pieces_of,
    speaker_names,
)

# --- rules of firing ---------------------------------------------------------------------------------------------

# An index of the memories with rules of firing, by what a search asks of them, made once for each version of the
# memories. Pure.
#
# A search then looks only at the memories that fired or came in this chat before, and not at all memories with rules:
# a lorebook may have thousands.

_NOTHING: Mapping[str, Any] = MappingProxyType({})


@frozen
class TimedEntry:
    """An entry to which the messages of a chat matter: its index, and its rules."""

    index: int
    rules: FiringRules


@frozen
class RuleIndex:
    """The indexes of memories with rules. `counting` are the memories to which the messages of a chat matter, by their
    key in the state of a chat. `delayed` memories need a chat of some length. `of_characters` are for some characters
    only. `by_words` are found by words. `recursive` are the memories of books that search texts that came, by the id of
    the book; `levels` are the rounds of recursion for which memories wait, in their order."""

    counting: Mapping[str, TimedEntry] = field(default_factory=lambda: _NOTHING)
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
    for index, rule in rules.items():
        if not rule.recursion.is_on:
            continue
        book_id = memories[index].book_id
        # Only the texts of a book are searched again, so a memory of the user never is.
        if book_id:
            recursive.setdefault(book_id, []).append(index)

    counting = {index for index, rule in rules.items() if rule.needs_chat_state}.union(
        with_last_fired
    )

    return RuleIndex(
        counting={
            key_of(memories[index]): TimedEntry(index, memories[index].rules)
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


# --- entries that come by their keys -----------------------------------------------------------------------------

# Which entries of books come by their keys, decided from their fields (entry_keys.py). Pure.
#
# An entry with expressions is not decided here: V8 runs the trigger that is written from its fields. What is left to
# texts is found by their forms (sandbox/conditions.py), and an index of the beginnings of keys: what a search costs
# grows with the entries that may come, and not with all of them.

MOST_CHARS = 50_000
"""Characters of the messages in which entries are decided here; beyond that V8 decides them."""
MOST_SOUGHT_CHARS = 5_000_000
"""Characters that a search looks through for all keys together: at most some 0.3 s."""


class ScannedChat:
    """The last `depth` messages of a search, in the form in which entries are sought in them. `context` is the context
    of triggers. The methods raise TooMuchText if the messages, or all keys together, would take too long."""

    def __init__(self, context: Mapping[str, Any], depth: int) -> None:
        """Keep the last `depth` messages of what a trigger sees. Nothing is searched yet."""
        messages = context["messages"]
        self._count = len(messages)
        self._messages = messages[-depth:] if depth else []
        self.chars = sum(len(message["content"]) for message in self._messages)
        self._names = speaker_names(context)
        self._texts: dict[tuple[bool, int], Sequence[SpokenText]] = {}
        self._found: dict[tuple[object, ...], bool] = {}
        """Whether a key is in the messages of a scope and depth: many entries share keys."""
        self._searched = SearchedTexts(MOST_SOUGHT_CHARS)

    def texts(self, scope: str, depth: int) -> Sequence[SpokenText]:
        """Return the last `depth` messages, in the scope `named` with the names of their speakers.
        Raises TooMuchText if the chat has more than `MOST_CHARS`."""
        if self.chars > MOST_CHARS:
            raise TooMuchText
        is_named = scope == NAMED
        window = is_named, depth
        if window not in self._texts:
            self._texts[window] = [
                self._searched.spoken(self._text(message, is_named=is_named))
                for message in self._messages[-depth:]
            ]
        return self._texts[window]

    def _text(self, message: Mapping[str, Any], *, is_named: bool) -> str:
        content: str = message["content"]
        return named_text(message, self._names) if is_named else content

    def pieces(self) -> Iterable[frozenset[str]]:
        """Yield the beginnings of words in each message with its speaker."""
        for text in self.texts(NAMED, self._count):
            yield text.pieces

    def has(self, keys: EntryKeys, key: str) -> bool:
        """Return whether a key that is text is in any message that its entry looks at."""
        sought = keys.sought(key)
        question = sought, keys.scope == NAMED, keys.depth
        if question not in self._found:
            self._found[question] = self._finds(keys, sought)
        return self._found[question]

    def answer(self, keys: EntryKeys, key: str) -> bool | None:
        """Tell whether a key is in the messages, or return None if only V8 can tell or the key would take too long
        here."""
        try:
            return None if key in keys.expressions else self.has(keys, key)
        except TooMuchText:
            return None

    def _finds(self, keys: EntryKeys, sought: SoughtKey) -> bool:
        texts = self.texts(keys.scope, keys.depth) if sought else ()
        return any(self._searched.has(text, sought) for text in texts)

    def holds(self, keys: EntryKeys) -> bool:
        """Return whether an entry without expressions comes by its keys."""
        if keys.is_by_words or (keys.every > 1 and self._count % keys.every):
            return False
        return all(self._condition_holds(keys, condition) for condition in keys.conditions)

    def _condition_holds(self, keys: EntryKeys, condition: KeyCondition) -> bool:
        """Return whether the keys of a condition are there as its logic asks: any, not any, all, or not all."""
        match condition.logic:
            case "AND_ANY":
                return any(self.has(keys, key) for key in condition.keys)
            case "NOT_ANY":
                return not any(self.has(keys, key) for key in condition.keys)
            case "AND_ALL":
                return self._has_all(keys, condition)
            case _:
                return not self._has_all(keys, condition)

    def _has_all(self, keys: EntryKeys, condition: KeyCondition) -> bool:
        return bool(condition.keys) and all(self.has(keys, key) for key in condition.keys)


class EntryIndex:
    """The entries of a shelf that are decided by their fields, by their place on it. `depth` is the most messages that
    an entry looks at; `places` are the places of all."""

    def __init__(self, entries: Mapping[int, EntryKeys]) -> None:
        """Sort the entries into the ones that come always, the ones that need one of several pieces of
        text, and others; entries that are found by words are in none."""
        self._entries = entries
        self.places = frozenset(entries)
        self.depth = max((keys.depth for keys in entries.values()), default=0)

        self._constants = [index for index, keys in entries.items() if keys.is_constant]
        self._others: list[int] = []
        """Entries that may come without any certain key."""
        self._by_piece: dict[str, list[int]] = {}
        """Entries that need at least one of several keys, by the beginnings of these keys."""

        for index, keys in entries.items():
            # These need no look at single keys: constants come always, the others are found by words.
            if keys.is_constant or keys.is_by_words:
                continue
            pieces = _pieces_needed(keys)
            if pieces is None:
                self._others.append(index)
                continue
            for piece in pieces:
                self._by_piece.setdefault(piece, []).append(index)

    def coming(self, chat: ScannedChat, among: Collection[int] | None = None) -> list[int]:
        """Return the entries that come by their keys, in their order; with `among` no others are decided. Raise
        TooMuchText."""
        candidates = set(self._others)
        for pieces in chat.pieces():
            for piece in self._by_piece.keys() & pieces:
                candidates.update(self._by_piece[piece])
        if among is None:
            constants = self._constants
        else:
            candidates.intersection_update(among)
            constants = [index for index in self._constants if index in among]
        matches = [index for index in candidates if chat.holds(self._entries[index])]
        return sorted((*constants, *matches))


def _pieces_needed(keys: EntryKeys) -> set[str] | None:
    """Return beginnings of keys of which at least one must be in a message, or the entry does not
    come. Return None if this does not tell: its primary keys are not AND_ANY, or one of them is
    found everywhere."""
    if not keys.conditions or keys.conditions[0].logic != "AND_ANY":
        return None
    pieces: set[str] = set()
    for key in keys.conditions[0].keys:
        if key and not key.strip():  # it is found everywhere
            return None
        if key:
            pieces |= pieces_of(key)
    return pieces


# --- the shelf ---------------------------------------------------------------------------------------------------


@frozen
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
    """The words of memories that are found by words, by the signature of the options, and the conversation, name and
    text; filled when they are first sought (conversations/trigger_search.py)."""

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
    """Return the shelf of these memories. If a search does not run all triggers, the user's own
    memories come before memories of books."""
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


@frozen
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
        """Return these shelves joined into one, in their order; the last join is remembered. Many
        large shelves are work for a thread, of which several may run."""
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
