"""Which entries of books come by their keys, decided from their fields (entry_keys.py). Pure.

An entry with expressions is not decided here: V8 runs the trigger that is written from its fields. What is left to
texts is found by their forms (sandbox/conditions.py), and an index of the beginnings of keys: what a search costs grows
with the entries that may come, and not with all of them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from memory_server.lore.entry_keys import NAMED, EntryKeys, KeyCondition
from sandbox import (
    SearchedTexts,
    SoughtKey,
    SpokenText,
    TooMuchText,
    named_text,
    pieces_of,
    speaker_names,
)

MOST_CHARS = 50_000
"""Characters of the messages in which entries are decided here; beyond that V8 decides them."""
MOST_SOUGHT_CHARS = 5_000_000
"""Characters that a search looks through for all keys together: at most some 0.3 s."""


class ScannedChat:
    """The last `depth` messages of a search, in the form in which entries are sought in them. `context` is the context
    of triggers. The methods raise TooMuchText if the messages, or all keys together, would take too long."""

    def __init__(self, context: Mapping[str, Any], depth: int) -> None:
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
        """Return the last `depth` messages, in the scope `named` with the names of their speakers."""
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
    """Return beginnings of keys of which at least one must be in a message, or the entry does not come. Return None if
    it may come without any."""
    if not keys.conditions or keys.conditions[0].logic != "AND_ANY":
        return None
    pieces: set[str] = set()
    for key in keys.conditions[0].keys:
        if key and not key.strip():  # it is found everywhere
            return None
        if key:
            pieces |= pieces_of(key)
    return pieces
