"""Which entries of books come by their keys, decided from their fields (entry_keys.py). Pure.

An entry with expressions is not decided here: V8 runs the trigger that is written from its fields. What is left to
texts is found by their forms (sandbox/conditions.py), and an index of the beginnings of keys: what a search costs grows
with the entries that may come, and not with all of them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

from memory_server.kernel.values import dataclass
from memory_server.lore.entry_keys import NAMED, EntryKeys, KeyCondition, PlainPattern
from sandbox import PIECE as PIECE_CHARS
from sandbox import SpokenText, compiled, named_text, seen, speaker_names, spoken

_MOST_KEPT = 20_000
_WORD_CHARACTERS = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_")


@dataclass(frozen=True, slots=True)
class _Text:
    """A message as it is searched: as it is written and as people see it, and in the forms in which keys are found.
    `upper`: the first ones without regard to case."""

    written: frozenset[str]
    upper: frozenset[str]
    spoken: SpokenText

    @classmethod
    def of(cls, text: str) -> _Text:
        seen_text = seen(text)
        upper = frozenset(map(_in_upper_case, (text, seen_text)))
        return cls(frozenset((text, seen_text)), upper, spoken(text))

    def finds(self, pattern: PlainPattern) -> bool:
        """Whether the text of the pattern is in it, as an expression finds it."""
        if not pattern.text:
            return True
        if pattern.is_exact:
            return any(_has(text, pattern.text, pattern.is_whole) for text in self.written)
        sought = _upper_key(pattern.text)
        return any(_has(text, sought, pattern.is_whole) for text in self.upper)


class ScannedChat:
    """The messages of a search as entries are sought in them. `context`: what triggers get."""

    def __init__(self, context: Mapping[str, Any]) -> None:
        messages = context["messages"]
        self.count = len(messages)
        self.chars = sum(len(message["content"]) for message in messages)
        self._names = speaker_names(context)
        self._messages = messages
        self._texts: dict[tuple[bool, int], Sequence[_Text]] = {}

    def texts(self, scope: str, depth: int) -> Sequence[_Text]:
        """The last `depth` messages, in the scope `named` with the names of their speakers."""
        is_named = scope == NAMED
        window = is_named, depth
        if window not in self._texts:
            self._texts[window] = [
                _Text.of(self._text(message, is_named=is_named))
                for message in self._messages[-depth:]
            ]
        return self._texts[window]

    def _text(self, message: Mapping[str, Any], *, is_named: bool) -> str:
        content: str = message["content"]
        return named_text(message, self._names) if is_named else content

    def pieces(self) -> Iterable[frozenset[str]]:
        """The beginnings of words in each message with its speaker."""
        for text in self.texts(NAMED, self.count):
            yield text.spoken.pieces

    def has(self, keys: EntryKeys, key: str) -> bool:
        """Whether a key that is text is in one of the messages that its entry looks at."""
        texts = self.texts(keys.scope, keys.depth)
        pattern = keys.pattern_of(key)
        if pattern is not None:
            return any(text.finds(pattern) for text in texts)
        return key != "" and any(text.spoken.has(key) for text in texts)

    def holds(self, keys: EntryKeys) -> bool:
        """Whether an entry without expressions comes by its keys."""
        if keys.is_by_words or (keys.every > 1 and self.count % keys.every):
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
    """The entries of a shelf that are decided by their fields, by their place on it. `depth`: messages that one of them
    looks at, at most."""

    def __init__(self, entries: Mapping[int, EntryKeys]) -> None:
        self._entries = entries
        self.depth = max((keys.depth for keys in entries.values()), default=0)
        self._constants = [index for index, keys in entries.items() if keys.is_constant]
        self._others: list[int] = []
        """Those that no single key must be there for."""
        self._by_piece: dict[str, list[int]] = {}
        """Those that need one of several keys, by the beginnings of these."""
        for index, keys in entries.items():
            if keys.is_constant or keys.is_by_words:
                continue
            pieces = _pieces_needed(keys)
            if pieces is None:
                self._others.append(index)
                continue
            for piece in pieces:
                self._by_piece.setdefault(piece, []).append(index)

    def coming(self, chat: ScannedChat, among: Collection[int] | None = None) -> list[int]:
        """Return the entries that come by their keys, in their order; `among`: no others are decided."""
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
    """Return beginnings of keys of which one must be in a message, or the entry does not come; None: it may come
    without any."""
    if not keys.conditions or keys.conditions[0].logic != "AND_ANY":
        return None
    pieces: set[str] = set()
    for key in keys.conditions[0].keys:
        if key and not key.strip():  # it is found everywhere
            return None
        if key:
            forms = compiled(key)
            pieces.update(
                form.text[:PIECE_CHARS] for form in (forms.written, forms.spelled) if form
            )
    return pieces


# --- texts that are found as an expression finds them -----------------------------------------------------------------


def _has(text: str, sought: str, is_whole: bool) -> bool:
    start = text.find(sought)
    while start != -1:
        if not is_whole or _stands_alone(text, start, start + len(sought)):
            return True
        start = text.find(sought, start + 1)
    return False


def _stands_alone(text: str, start: int, end: int) -> bool:
    before = text[start - 1 : start]
    after = text[end : end + 1]
    return before not in _WORD_CHARACTERS and after not in _WORD_CHARACTERS


class _UpperCase(dict[int, str]):
    """The letters that an expression with the flag i takes for the same, for `str.translate`: one letter for one, and
    none that is not ASCII for one that is."""

    def __missing__(self, code: int) -> str:
        letter = chr(code)
        upper = letter.upper()
        if len(upper) != 1 or code > 0xFFFF or (code > 0x7F and upper.isascii()):
            upper = letter
        self[code] = upper
        return upper


_UPPER_CASE = _UpperCase()


def _in_upper_case(text: str) -> str:
    return text.upper() if text.isascii() else text.translate(_UPPER_CASE)


_upper_key = lru_cache(_MOST_KEPT)(_in_upper_case)
