"""Erasing for good: what is erased, in every form in which it can stand in a file, and the port of the tombstones, by
which it is known if it comes again. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

from memory_server.kernel.items import Item
from memory_server.kernel.recorded_recall import recorded_recall
from sandbox.locale import n_

LEAST_BYTES = 8
"""Of UTF-8: shorter texts stand everywhere. They go with their memory, and are looked for nowhere else."""
_PIECE_CHARS = 60
"""Of a longer text, its beginning, middle and end are looked for: a database keeps a long one in several pieces."""


_TEXTS = frozenset(("text", "content", "prompt", "trigger", "createdContext", "updatedContext", "said")) | {
    "body",
    "title",
    "source",
}
"""Fields of JSON with what people said; other fields hold names, places and times."""


@dataclass(frozen=True)
class Erasure:
    """What is erased: `items`, and their `texts`, also former ones, that stand in nothing that stays. `words`: what
    held all of them in the past goes too. `user`: all of this user. `alike`: how many others have one of the texts, and
    stay."""

    items: tuple[Item, ...]
    texts: tuple[str, ...]
    pieces: tuple[str, ...] = ()
    words: tuple[str, ...] = ()
    user: str | None = None
    alike: int = 0

    @cached_property
    def keys(self) -> frozenset[tuple[str, str, str]]:
        return frozenset(item.key for item in self.items)

    @property
    def marks(self) -> tuple[str, ...]:
        """By what it is known if it comes again."""
        return (*self.texts, *(item.mark for item in self.items if item.mark))

    @cached_property
    def _spelled(self) -> tuple[str, ...]:
        return tuple(form for text in self.texts for form in spellings(text))

    @cached_property
    def forms(self) -> tuple[bytes, ...]:
        """The bytes that must not be found afterwards."""
        return tuple(form.encode() for piece in self.pieces for form in spellings(piece))

    def in_place(self, place: str) -> frozenset[str]:
        return frozenset(item.id for item in self.items if item.place == place)

    def held_in(self, value: Any, place: str | None = None, *, said: bool = True) -> bool:
        """Whether a value of JSON, or bytes, hold a text or, in the conversation `place`, a memory that is erased.
        `said`: a text is what somebody said, so the words count."""
        match value:
            case str():
                return any(form in value for form in self._spelled) or (said and self._is_named_in(value))
            case bytes():
                return any(form in value for form in self.forms)
            case Mapping():
                family, name = ("triggers", "name") if "trigger" in value else ("memories", "id")
                parts = (self.held_in(each, place, said=key in _TEXTS) for key, each in value.items())
                return (place, family, value.get(name)) in self.keys or any(parts)
            case list() | tuple():
                return any(self.held_in(each, place, said=said) for each in value)
        return False

    def _is_named_in(self, text: str) -> bool:
        from nlp.index_terms import index_form

        said = index_form(text) if self.words else ""
        return bool(said) and all(index_form(word) in said for word in self.words)

    def in_recall(self, line: Mapping[str, Any]) -> bool:
        """Whether a line of the record of recalls tells of it."""
        names = {item.id for item in self.items}
        recall = recorded_recall(line)
        named = [*(item.id for item in (*recall.came, *recall.near)), *(recall.used or ())]
        return self.held_in(line) or not names.isdisjoint(named)


def left_out_text(count: int) -> str:
    """What an import, a restore or a late hook says of what it did not bring back."""
    return n_("{count} erased memory was left out", "{count} erased memories were left out", count)


def spellings(text: str) -> set[str]:
    """A text as it is, and as it stands in JSON, also in JSON inside of JSON."""
    found = {text}
    for _ in range(2):
        found |= {json.dumps(each, ensure_ascii=ascii_only)[1:-1] for each in found for ascii_only in (True, False)}
    return found


def pieces_of(text: str) -> list[str]:
    """By what a text is found in raw bytes."""
    if len(text) <= _PIECE_CHARS:
        return [text]
    starts = (0, (len(text) - _PIECE_CHARS) // 2, len(text) - _PIECE_CHARS)
    return [text[start : start + _PIECE_CHARS] for start in starts]


class Tombstones(Protocol):
    """Which texts were erased: a keyed hash of each, and no text; and an erasing that has not ended, with its texts.
    Blocking calls; they raise OSError."""

    def begin(self, erasure: Erasure) -> None:
        """Keep what is to be erased until `end`, and its texts as tombstones for good."""

    def begun(self) -> Erasure | None:
        """What was begun and did not end."""

    def end(self) -> None: ...
    def holds(self, texts: Iterable[str]) -> bool:
        """Whether one of these texts was erased."""

    def known(self) -> tuple[bytes, frozenset[str]]:
        """The key, and the hash of each text; an empty key: nothing was ever erased."""

    def adopt(self, key: bytes, hashes: Iterable[str]) -> bool:
        """Take those of another store, where none are yet; False: there are others, of another key."""
