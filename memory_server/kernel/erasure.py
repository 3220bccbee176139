"""Erasing for good: what is erased, in every form in which it can stand in a file, and the port of the tombstones, by
which it is known if it comes again. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, Protocol

from memory_server.kernel.items import Item, Sought
from sandbox.locale import n_

if TYPE_CHECKING:
    from pathlib import Path

LEAST_BYTES = 8
"""Bytes of UTF-8: shorter texts stand everywhere. They go with their memory, and are looked for nowhere else."""
_PIECE_CHARS = 60
"""Of a longer text, its beginning, middle and end are looked for: a database keeps a long one in several pieces."""

_TEXTS = frozenset(("text", "content", "prompt", "trigger", "createdContext", "updatedContext", "said")) | {
    "body",
    "data",
    "title",
    "source",
    "key",
    "keys",
    "texts",
    "pieces",
    "words",
    "error",
    "otherWords",
}
"""Fields of JSON and columns of tables with what people said; others hold names, places and times."""
_TEXTS_OF_ENTRIES = frozenset(("tags", "examples", "metadata"))
"""Fields that are texts too in what has a `body`."""
_OURS = frozenset(("role", "by", "type", "reason", "op", "kind", "space", "tier", "lacked", "origin", "keywords"))
"""Fields that hold words of this program, such as the name of a role, or words that were found in a text."""
_ESCAPED = re.compile(r"(?<!\\)\\+u([0-9a-fA-F]{4})")
Trace = Literal["text", "name"]


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

    @property
    def unsearched(self) -> int:
        """How many of the items have a text that is looked for nowhere else: it is too short, or stands in something
        that stays."""
        return sum(item.text not in self.texts for item in self.items)

    @cached_property
    def _spelled(self) -> tuple[str, ...]:
        return tuple(form for text in self.texts for form in spellings(text))

    @cached_property
    def forms(self) -> tuple[bytes, ...]:
        """The bytes that must not be found afterwards."""
        return tuple(form.encode() for piece in self.pieces for form in spellings(piece))

    @cached_property
    def _word_forms(self) -> tuple[str, ...]:
        from nlp.index_terms import seen_form

        return tuple(map(seen_form, self.words))

    def in_place(self, place: str) -> frozenset[str]:
        return frozenset(item.id for item in self.items if item.place == place)

    def means(self, item: Item) -> bool:
        """Whether an item of the past or of a backup is erased because it has all the words."""
        return bool(self.words) and bool(Sought(words=self.words, archived=None).among([item]))

    def held_in(self, value: Any, place: str | None = None, *, said: bool = True) -> bool:
        """Whether a value of JSON, or bytes, hold a text or, in the conversation `place`, a memory that is erased.
        `said`: a text is what somebody said, so the words count."""
        match value:
            case str():
                return any(form in value for form in self._spelled) or (said and self.has_words(value))
            case bytes():
                return any(form in value for form in self.forms)
            case Mapping():
                family, name = ("triggers", "name") if "trigger" in value else ("memories", "id")
                if (place, family, value.get(name)) in self.keys or self.has_words(said_in(value)):
                    return True
                return any(self.held_in(part, place, said=False) for part in value.values())
            case list() | tuple():
                return any(self.held_in(part, place, said=said) for part in value)
        return False

    def has_words(self, text: str) -> bool:
        """Whether a text has all the words, as `Sought.words` are looked for."""
        from nlp.index_terms import seen_form

        form = seen_form(text) if self.words else ""
        return bool(form) and all(word and word in form for word in self._word_forms)

    @cached_property
    def _bare_words(self) -> tuple[str, ...]:
        return tuple(map(_bare, self.words))

    def may_be_in(self, text: str) -> bool:
        """Whether all the words may stand in a piece of a file, wherever in it, however often JSON escaped them. What
        decides are the records (`trace_in`), which this must never spare."""
        from nlp.index_terms import seen_form

        bare = _bare(text)
        form = seen_form(text)
        return all(
            word in form or bare_word in bare
            for word, bare_word in zip(self._word_forms, self._bare_words, strict=True)
        )

    def trace_in(self, record: Any) -> Trace | None:
        """Where a part of a file or a row of a table has all the words: in what was said, or only in a name, such as
        that of a folder."""
        if self.held_in(record):
            return "text"
        if any(map(self.has_words, _names_in(record))):
            return "name"
        return None

    def in_recall(self, line: Mapping[str, Any]) -> bool:
        """Whether a line of the record of recalls tells of it."""
        names = {item.id for item in self.items}
        from memory_server.kernel.recorded_recall import recorded_recall

        recall = recorded_recall(line)
        named = [*(item.id for item in (*recall.came, *recall.near)), *(recall.used or ())]
        return self.held_in(line) or not names.isdisjoint(named)


@dataclass(frozen=True, slots=True)
class Traces:
    """Where something that is erased still stands: files or tables, and those in which the words are only a name, which
    no erasing takes away. `unread`: what could not be searched."""

    texts: tuple[Path, ...] = ()
    names: tuple[Path, ...] = ()
    unread: tuple[Path, ...] = ()

    def __add__(self, other: Traces) -> Traces:
        return Traces(self.texts + other.texts, self.names + other.names, self.unread + other.unread)


def said_in(record: Mapping[str, Any]) -> str:
    """The texts of a record of JSON or of a row, as a search for its item looks for words in them: the text of a memory
    names roles, so its messages stand for it."""
    if "conversation" in record and ("said" in record or "came" in record):  # a line of the record of recalls
        return "\n".join((*_strings_of(record, _TEXTS), *_named_by_recall(record)))
    keys = set(_TEXTS)
    if "body" in record:
        keys |= _TEXTS_OF_ENTRIES
    if "trigger" in record:
        keys.add("name")
    if record.get("messages"):
        keys.discard("text")
    parts = [string for key, value in record.items() if key in keys for string in _strings(value)]
    if isinstance(record.get("messages"), list):
        parts += [string for message in record["messages"] for string in _said_by(message)]
    return "\n".join(parts)


def _said_by(message: Any) -> Iterator[str]:
    if isinstance(message, Mapping):
        yield from _strings(message.get("content"))
        yield from _strings(message.get("name"))


def _named_by_recall(line: Mapping[str, Any]) -> Iterator[str]:
    """The words of what came or nearly came, and the names of triggers and notes, which have words of people."""
    from memory_server.kernel.recorded_recall import recorded_recall

    recall = recorded_recall(line)
    yield from recall.failed
    for item in (*recall.came, *recall.near):
        yield from (*item.words, *item.given, *item.kept)
        if not item.is_memory:
            yield item.id


def _strings(value: Any) -> Iterator[str]:
    """All strings in a value of JSON, also in JSON that is kept as a string."""
    match value:
        case str():
            yield value
            if value.startswith(("{", "[")):
                with suppress(ValueError, RecursionError):
                    yield from _strings(json.loads(value))
        case Mapping():
            for part in value.values():
                yield from _strings(part)
        case list() | tuple():
            for part in value:
                yield from _strings(part)


def _strings_of(value: Any, keys: frozenset[str]) -> Iterator[str]:
    """The strings at these keys, wherever they are in a value of JSON."""
    match value:
        case Mapping():
            for key, part in value.items():
                yield from _strings(part) if key in keys else _strings_of(part, keys)
        case list() | tuple():
            for part in value:
                yield from _strings_of(part, keys)


def _names_in(value: Any) -> Iterator[str]:
    """The strings in a value of JSON that are not texts, nor words of this program."""
    match value:
        case str():
            yield value
        case Mapping():
            for key, part in value.items():
                if key not in _TEXTS and key not in _OURS:
                    yield from _names_in(part)
        case list() | tuple():
            for part in value:
                yield from _names_in(part)


def _bare(text: str) -> str:
    """A text as it is compared, without what JSON escapes: backslashes and quotation marks. The same for a text and for
    a string of JSON in a string of JSON that holds it."""
    from nlp.index_terms import seen_form

    if "\\u" in text:
        text = _ESCAPED.sub(lambda escape: chr(int(escape[1], 16)), text)
        text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return seen_form(text.replace("\\", "").replace('"', ""))


def left_out_text(count: int) -> str:
    """What an import, a restore or a late hook says of what it did not bring back."""
    return n_("{count} erased memory was left out", "{count} erased memories were left out", count)


def spellings(text: str) -> set[str]:
    """A text as it is, and as it stands in JSON, also in JSON inside of JSON."""
    forms = {text}
    for _ in range(2):
        forms |= {json.dumps(form, ensure_ascii=ascii_only)[1:-1] for form in forms for ascii_only in (True, False)}
    return forms


def pieces_of(text: str) -> list[str]:
    """By what a text is found in raw bytes."""
    if len(text) <= _PIECE_CHARS:
        return [text]
    starts = (0, (len(text) - _PIECE_CHARS) // 2, len(text) - _PIECE_CHARS)
    return [text[start : start + _PIECE_CHARS] for start in starts]


class Tombstones(Protocol):
    """Which texts were erased: a keyed hash of each, and no text; and an erasing that has not ended, with its texts.
    Blocking calls; they raise StorageError."""

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
