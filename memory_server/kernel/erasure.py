"""Erasing for good: what is erased, in every form that it can have in a file, and the port of the tombstones, by which
it is known if it comes again. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, Protocol

from languages import n_
from memory_server.kernel.items import Item, ItemFilter
from memory_server.kernel.text import shown
from memory_server.kernel.values import dataclass, frozen

if TYPE_CHECKING:
    from pathlib import Path

LEAST_BYTES = 8
"""Bytes of UTF-8: shorter texts are everywhere, so they are removed with their memory and not looked for elsewhere."""
_PIECE_CHARS = 60
"""Characters of a piece. The beginning, middle and end of a longer text are looked for, because a database keeps a long
text in several parts."""

_TEXTS = frozenset(
    [
        "text",
        "content",
        "prompt",
        "trigger",
        "createdContext",
        "updatedContext",
        "said",
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
    ]
)
"""Fields of JSON and columns of tables with what people said; others hold names, places and times."""
_TEXTS_OF_ENTRIES = frozenset(("tags", "examples", "metadata"))
"""Fields that are texts too in a record with a `body`."""
_NAMES_OF_TRIGGERS = frozenset(("createdAt", "updatedAt", "imported"))
"""Fields of a record of a trigger that are not texts; all others may have words of people: its name, keys, groups, the
characters for whom it is, its book, and fields of other programs."""
_NAMES_OF_MEMORIES = frozenset(
    (
        "id",
        "timestamp",
        "text",
        "keywords",
        "otherKeywords",
        "score",
        "conversation_id",
        "messages",
        *(
            "pinned",
            "indexedWith",
            "roleWeights",
            "session",
            "folder",
            "turn",
            "muted",
            "wordTries",
        ),
    )
)
"""Fields of a record of a memory that are not texts, or that its messages say; unknown ones are of other programs."""
_NAMES_OF_MESSAGES = frozenset(("role", "timestamp"))
_OURS = frozenset(
    ("role", "by", "type", "reason", "op", "kind", "space", "tier", "lacked", "origin", "keywords")
)
"""Fields that hold words of this program, such as the name of a role, or words that were found in a text."""
_ESCAPED = re.compile(r"(?<!\\)\\+u([0-9a-fA-F]{4})")
Trace = Literal["text", "name"]


@dataclass(frozen=True)
class Erasure:
    """The `items` to erase, and their present and former `texts` that no remaining item has; `pieces` are the parts of
    these texts that are looked for in raw bytes. If there are `words`, whatever had all of them in the past is erased
    too. With `user`, everything of this user is erased. `alike` counts the other items that have the same text and
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
        """The texts and marks by which the erased items are recognized if they come again."""
        item_marks = [item.mark for item in self.items if item.mark]
        return (*self.texts, *item_marks)

    @property
    def unsearched(self) -> int:
        """The number of items whose text is not looked for elsewhere, because it is too short or a remaining item has
        it."""
        return sum(item.text not in self.texts for item in self.items)

    @cached_property
    def _text_spellings(self) -> tuple[str, ...]:
        text_spellings: list[str] = []
        for text in self.texts:
            text_spellings += spellings(text)
        return tuple(text_spellings)

    @cached_property
    def forms(self) -> tuple[bytes, ...]:
        """The bytes that must not be found afterwards."""
        byte_forms: list[bytes] = []
        for piece in self.pieces:
            byte_forms += [spelling.encode() for spelling in spellings(piece)]
        return tuple(byte_forms)

    @cached_property
    def _word_forms(self) -> tuple[str, ...]:
        """The words as `seen_form` writes them; the form of a word without a visible character is empty."""
        from nlp.index_terms import seen_form

        return tuple(map(seen_form, self.words))

    def in_place(self, place: str) -> frozenset[str]:
        return frozenset(item.id for item in self.items if item.place == place)

    def means(self, item: Item) -> bool:
        """Return whether an item of the past or of a backup is erased because it has all the words."""
        if not self.words:
            return False
        matches = ItemFilter(words=self.words, archived=None).among([item])
        return bool(matches)

    def held_in(self, value: Any, place: str | None = None, *, said: bool = True) -> bool:
        """Return whether a value of JSON, or bytes, hold an erased text or, in the conversation `place`, an erased
        memory. `said` is True for a text that a person said, in which the words count."""
        match value:
            case str():
                if any(spelling in value for spelling in self._text_spellings):
                    return True
                return said and self.has_words(value)
            case bytes():
                return any(form in value for form in self.forms)
            case Mapping():
                if self._is_erased_record(value, place):
                    return True
                return any(self.held_in(field, place, said=False) for field in value.values())
            case list() | tuple():
                return any(self.held_in(element, place, said=said) for element in value)
        return False

    def _is_erased_record(self, record: Mapping[str, Any], place: str | None) -> bool:
        """Return whether a record of JSON is an erased memory or trigger of the conversation `place`, or has all the
        words in its texts."""
        key = (place, "memories", record.get("id"))
        if "trigger" in record:
            key = (place, "triggers", record.get("name"))
        return key in self.keys or self.has_words(said_in(record))

    def has_words(self, text: str) -> bool:
        """Return whether a text has all the words, also as parts of words, in the spellings that `ItemFilter.words` match.
        No text matches if there are no words, or if a word has no visible character."""
        from nlp.index_terms import seen_form

        if not self.words:
            return False
        if not all(self._word_forms):  # an empty form is a part of every text
            return False
        text_form = seen_form(text)
        return all(word_form in text_form for word_form in self._word_forms)

    @cached_property
    def _bare_words(self) -> tuple[str, ...]:
        return tuple(map(_bare, self.words))

    def may_be_in(self, text: str) -> bool:
        """Return whether all the words may be in a part of a file, anywhere in it, however often JSON escaped them. The
        records decide (`trace_in`); a part with such a record must never be passed over here."""
        from nlp.index_terms import seen_form

        bare_text = _bare(text)
        form = seen_form(text)
        for word_form, bare_word in zip(self._word_forms, self._bare_words, strict=True):
            if word_form not in form and bare_word not in bare_text:
                return False
        return True

    def trace_in(self, record: Any) -> Trace | None:
        """Return where a record of a file or a row of a table has all the words: in a text that a person said, or only
        in a name, such as the name of a folder."""
        if self.held_in(record):
            return "text"
        if any(map(self.has_words, _names_in(record))):
            return "name"
        return None

    def in_recall(self, line: Mapping[str, Any]) -> bool:
        """Return whether a line of the record of recalls holds an erased text, has one as its last
        message, or names an erased item."""
        from memory_server.kernel.recorded_recall import recorded_recall

        recall = recorded_recall(line)
        recorded_ids = [item.id for item in (*recall.came, *recall.near)]
        if recall.used:
            recorded_ids += recall.used
        # What a question is made of, and what it demands (memories/questions.py).
        recorded_ids += strings_in(
            [line.get("memory"), line.get("mustCome"), line.get("mustNotCome")]
        )
        erased_ids = {item.id for item in self.items}

        # The middle of a long message is left out.
        is_said = any(shown(text, len(recall.said)) == recall.said for text in self.texts)
        return is_said or self.held_in(line) or not erased_ids.isdisjoint(recorded_ids)


@frozen
class Traces:
    """The files or tables that still have erased `texts`, and `names` in which the words are only part of a name, which
    no erasing removes. `unread`: the files that could not be searched."""

    texts: tuple[Path, ...] = ()
    names: tuple[Path, ...] = ()
    unread: tuple[Path, ...] = ()

    def __add__(self, other: Traces) -> Traces:
        return Traces(
            self.texts + other.texts, self.names + other.names, self.unread + other.unread
        )


def said_in(record: Mapping[str, Any]) -> str:
    """Return the texts of a record of JSON or of a row, as a search for its item looks for words in them. The text of a
    memory names roles, so its messages are taken instead."""
    is_recall_line = "conversation" in record and ("said" in record or "came" in record)
    if is_recall_line:
        return "\n".join((*_strings_of(record, _TEXTS), *_named_by_recall(record)))

    if "trigger" in record:
        return "\n".join(_texts_of_trigger(record))

    messages = record.get("messages")
    keys = set(_TEXTS)
    if "body" in record:
        keys |= _TEXTS_OF_ENTRIES
    if "keywords" in record:
        keys |= record.keys() - _NAMES_OF_MEMORIES

    # The text of a memory repeats its messages, with roles.
    if messages:
        keys.discard("text")

    texts: list[str] = []
    for key, value in record.items():
        if key in keys:
            texts += strings_in(value)

    if isinstance(messages, list):
        for message in messages:
            if isinstance(message, Mapping):
                texts += _strings_beside(message, _NAMES_OF_MESSAGES)
    return "\n".join(texts)


def _texts_of_trigger(record: Mapping[str, Any]) -> Iterator[str]:
    """Yield the texts of a record of a trigger, except the id of its book, which is a name of ours."""
    yield from _strings_beside(record, _NAMES_OF_TRIGGERS | {"book"})
    book = record.get("book")
    if isinstance(book, Mapping):
        yield from _strings_beside(book, frozenset(("id",)))


def _strings_beside(record: Mapping[str, Any], names: frozenset[str]) -> Iterator[str]:
    """Yield the strings of all fields of a record except these."""
    for key, value in record.items():
        if key not in names:
            yield from strings_in(value)


def _named_by_recall(line: Mapping[str, Any]) -> Iterator[str]:
    """Yield the words of the memories that came or nearly came, and the names of triggers and notes, which have words
    of people."""
    from memory_server.kernel.recorded_recall import recorded_recall

    recall = recorded_recall(line)
    yield from recall.failed
    for item in (*recall.came, *recall.near):
        yield from (*item.words, *item.given, *item.kept)
        if not item.is_memory:
            yield item.id


def strings_in(value: Any) -> Iterator[str]:
    """Yield all texts in a value of JSON, but not the names of fields; of a text that is JSON
    itself, also the texts in it."""
    match value:
        case str():
            yield value
            if value.startswith(("{", "[")):
                with suppress(ValueError, RecursionError):
                    yield from strings_in(json.loads(value))
        case Mapping():
            for field in value.values():
                yield from strings_in(field)
        case list() | tuple():
            for element in value:
                yield from strings_in(element)


def _strings_of(value: Any, keys: frozenset[str]) -> Iterator[str]:
    """Yield the strings at these keys, wherever they are in a value of JSON."""
    match value:
        case Mapping():
            for key, field in value.items():
                if key in keys:
                    yield from strings_in(field)
                else:
                    yield from _strings_of(field, keys)
        case list() | tuple():
            for element in value:
                yield from _strings_of(element, keys)


def _names_in(value: Any) -> Iterator[str]:
    """Yield the strings in a value of JSON that are neither texts nor words of this program."""
    match value:
        case str():
            yield value
        case Mapping():
            for key, field in value.items():
                if key not in _TEXTS and key not in _OURS:
                    yield from _names_in(field)
        case list() | tuple():
            for element in value:
                yield from _names_in(element)


def _bare(text: str) -> str:
    """Return a text as it is compared, without the characters that JSON escapes: backslashes and quotation marks. A
    text and a string of JSON that holds it, at any depth, have the same bare form."""
    from nlp.index_terms import seen_form

    if "\\u" in text:
        text = _ESCAPED.sub(lambda escape: chr(int(escape[1], 16)), text)
        text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return seen_form(text.replace("\\", "").replace('"', ""))


def left_out_text(count: int) -> str:
    """Return the sentence of an import, a restore or a late hook about erased memories that it did not bring back."""
    return n_("{count} erased memory was left out", "{count} erased memories were left out", count)


def spellings(text: str) -> set[str]:
    """Return a text as it is, and as it is written in JSON, also in JSON inside of JSON."""
    forms = {text}
    for _level in range(2):
        ascii_forms = {json.dumps(form)[1:-1] for form in forms}
        unicode_forms = {json.dumps(form, ensure_ascii=False)[1:-1] for form in forms}
        forms |= ascii_forms | unicode_forms
    return forms


def pieces_of(text: str) -> list[str]:
    """Return the pieces by which a text is found in raw bytes."""
    if len(text) <= _PIECE_CHARS:
        return [text]
    last_start = len(text) - _PIECE_CHARS
    starts = (0, last_start // 2, last_start)
    return [text[start : start + _PIECE_CHARS] for start in starts]


class Tombstones(Protocol):
    """The tombstones of erased texts, which are a keyed hash of each and no text; and an erasing that has not ended,
    with its texts. Blocking calls; they raise StorageError."""

    def begin(self, erasure: Erasure) -> None:
        """Keep the erasure until `end`, and its texts as tombstones for good."""

    def begun(self) -> Erasure | None:
        """Return the erasure that was begun and did not end."""

    def end(self) -> None: ...
    def holds(self, texts: Iterable[str]) -> bool:
        """Return whether at least one of these texts was erased."""

    def known(self) -> tuple[bytes, frozenset[str]]:
        """Return the key, and the hash of each text. The key is empty if nothing was ever erased."""

    def adopt(self, key: bytes, hashes: Iterable[str]) -> bool:
        """Take the tombstones of another store, if this store has none. Return False if it has tombstones of another
        key."""
