"""What was read from a file or folder of memories: the contents of each conversation, entries of knowledge, and what
was left out and why. forms.py tells the form."""

from __future__ import annotations

import codecs
import hashlib
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, tzinfo
from typing import Any

from memory_server.conversations import codec
from memory_server.conversations.contents import Contents
from memory_server.conversations.model import LongTermMemory, ShortTermMemory, conversation_id_of, excess
from memory_server.conversations.recall.words import KeywordOptions
from memory_server.kernel import json_text
from memory_server.kernel.errors import InvalidInput
from memory_server.kernel.items import FAMILIES
from memory_server.kernel.json_text import Json
from memory_server.kernel.messages import LAST_MS
from memory_server.kernel.private import emptied, without_private
from memory_server.kernel.recalled_block import without_recalled
from memory_server.kernel.text import beginning
from memory_server.knowledge.entry import MAX_KEY_CHARS, MAX_TAG_CHARS, MAX_TAGS, Entry, entry_of, usable
from nlp.index_terms import index_form
from sandbox import instant, joined_values
from sandbox.locale import _, clause

_UUID = re.compile("[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
_BETWEEN_ITEMS = "\0"
MOST_ENTRY_CHARS = 10_000_000
"""Characters of an entry; those that are longer were never stored."""
EMPTY_OR_PRIVATE = _("entries without text, or all of it private")
Rows = Iterable[tuple[str, Any]]
"""Records, each with its place in the file."""
Tables = Mapping[str, list[Mapping[str, Any]]]
"""Rows of a database by the name of their table, or lists of a JSON file that has the same."""


class NotThisFormat(InvalidInput):
    """A file does not have the expected format. The message follows the file's name and says what to give instead."""


@dataclass(slots=True)
class Incoming:
    """`entries`: of knowledge, by place; one without a time has the time 0. `skipped`: place and reason of each record
    that was left out. `doubts`: triggers that may not work as meant. `notes`: what the others lost. `lost`: how often,
    by what it is."""

    conversations: list[Contents] = field(default_factory=list)
    entries: dict[str, list[Entry]] = field(default_factory=dict)
    skipped: list[tuple[str, str]] = field(default_factory=list)
    doubts: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    lost: Counter[str] = field(default_factory=Counter)
    _keys: set[tuple[str, str, str]] = field(default_factory=set)

    def short_terms(self, rows: Rows, conversation_id: str) -> tuple[ShortTermMemory, ...]:
        """Short-term memories of `(place, record)` pairs; a record that is not a memory is skipped."""
        good = self._good(rows, lambda record: codec.short_term(record, conversation_id))
        return tuple(codec.short_terms(good, conversation_id))

    def long_terms(self, rows: Rows) -> tuple[LongTermMemory, ...]:
        return tuple(codec.long_terms(self._good(rows, codec.long_term)))

    def _good(self, rows: Rows, read: Callable[[Json], ShortTermMemory | LongTermMemory]) -> list[Json]:
        good: list[Json] = []
        for place, row in rows:
            try:
                if not isinstance(row, dict):
                    raise json_text.NotARecord("it is not a JSON object")
                if self.fits(place, read(row)):
                    good.append(row)
            except (json_text.NotARecord, RecursionError) as error:
                self.skipped.append((place, codec.reason_of(error)))
        return good

    def add(self, name: str, short: Rows, long: Rows, last_cleanup: Any) -> None:
        """A conversation of such rows. `last_cleanup`: milliseconds since 1970, as the file has it."""
        cleaned_ms = last_cleanup if isinstance(last_cleanup, int) and not isinstance(last_cleanup, bool) else None
        contents = Contents(name, self.short_terms(short, name), self.long_terms(long), cleaned_ms)
        self.conversations.append(contents)

    def by_chat(self, rows: Rows, key: str, usual: str) -> dict[str, Contents]:
        """Short-term memories of rows that each name their conversation in the field `key`, or are of `usual`."""
        groups: dict[str, list[tuple[str, Any]]] = {}
        for place, row in rows:
            named = row.get(key) if isinstance(row, dict) else None
            if (name := self.conversation_of(named, usual, place)) is not None:
                groups.setdefault(name, []).append((place, row))
        return {name: Contents(name, self.short_terms(rows, name)) for name, rows in groups.items()}

    def lines(self, data: bytes) -> Iterator[tuple[str, Any]]:
        """The values of JSON lines, each with its place; a line that is not JSON is skipped. A line of several objects,
        between which the end of the line is missing, gives each of them."""
        for number, line in enumerate(data.removeprefix(codecs.BOM_UTF8).splitlines(), 1):
            if not line.strip():
                continue
            place = _("line {number}", number)
            try:
                yield place, json_text.loads(line)
            except ValueError as error:
                values, rest = joined_values(line.decode(errors="replace"))
                for value in values:
                    yield place, value
                if rest:
                    self.skipped.append((place, _("it is not JSON: {reason}", error)))

    def fits(self, place: str, memory: ShortTermMemory | LongTermMemory) -> bool:
        """Whether a memory is small enough to be stored; otherwise it is skipped."""
        if (reason := excess(memory)) is None:
            return True
        self.skipped.append((place, reason))
        return False

    def take(self, line: str, place: str, values: Json) -> None:
        """Add an entry of knowledge; one that cannot be stored is skipped."""
        try:
            if place.partition("/")[0] not in FAMILIES[2:]:
                raise InvalidInput("there is no place {place!r}", place)
            entry = usable(entry_of(values), place, most_chars=MOST_ENTRY_CHARS)
        except InvalidInput as error:
            self.skipped.append((line, clause(str(error))))
        else:
            self.entries.setdefault(place, []).append(entry)

    def note(self, line: str, known_by: str, title: str, body: str, place: str = "notes", **fields: Any) -> None:
        """Add an entry that `known_by` makes the same each time: it is its id where it is a UUID. `fields`: others of
        an entry; with `key` True its title is a topic, of which a kind and project have one."""
        body = without_recalled(without_private(body))
        if not body.strip():
            self.lost[EMPTY_OR_PRIVATE] += 1
            return
        fields = public_value(fields)
        title = " ".join(without_private(title).split())[:MAX_KEY_CHARS] or (
            beginning(body) if place == "notes" else ""
        )
        kind, project = fields.setdefault("kind", "domain"), fields.get("project", "")
        topic = (kind, project, index_form(title))
        if fields.pop("key", False) and topic not in self._keys:
            self._keys.add(topic)
            fields["key"] = topic[2]
        fields["tags"] = [tag[:MAX_TAG_CHARS] for tag in fields.get("tags", ()) if isinstance(tag, str)][:MAX_TAGS]
        fields["updated_ms"] = fields.get("updated_ms") or fields.get("created_ms", 0)
        ref = known_by if is_uuid(known_by) else _hashed(known_by)
        self.take(line, place, {"ref": ref, "title": title, "body": body} | fields)

    def conversation_of(self, name: Any, otherwise: str, place: str) -> str | None:
        """`name` as a conversation id; `otherwise` if it is empty; None if it cannot be an id: then it is skipped."""
        try:
            return conversation_id_of(str(name)) if name not in (None, "") else otherwise
        except InvalidInput as error:
            self.skipped.append((place, str(error)))
            return None

    @property
    def count(self) -> int:
        return sum(contents.count for contents in self.conversations) + sum(map(len, self.entries.values()))


def public_value(value: Any) -> Any:
    """A value of JSON without the private parts of the texts in it; such a part may go over several items of a list."""
    if isinstance(value, str):
        return without_private(value)
    if isinstance(value, Mapping):
        return {name: public_value(item) for name, item in value.items()}
    if not isinstance(value, list | tuple):
        return value
    if value and all(isinstance(item, str) for item in value):
        items = emptied(_BETWEEN_ITEMS.join(value)).split(_BETWEEN_ITEMS)
        public = [without_private(item) for item in items]
        return [kept for kept, item in zip(public, items, strict=True) if kept or not item]
    return [public_value(item) for item in value]


def is_uuid(text: str) -> bool:
    """Whether it is a UUID as programs write it, with its hyphens."""
    return _UUID.fullmatch(text) is not None


def _hashed(known_by: str) -> str:
    return hashlib.sha256(known_by.encode(errors="replace")).hexdigest()[:32]


def with_keywords(contents: Contents, wording: KeywordOptions) -> Contents:
    """`contents` with keywords for each memory that has none, because no search would find it: from its messages, or
    else from its text."""
    filled = (memory if memory.words else wording.of_text(memory) for memory in contents.short_term)
    return replace(contents, short_term=tuple(filled))


def array(data: bytes) -> list[Any]:
    """The items of a JSON array. Raises NotThisFormat."""
    value = document(data)
    if not isinstance(value, list):
        raise NotThisFormat("is not a JSON array of memories.")
    return value


def document(data: bytes) -> Any:
    """The value of a JSON file. Raises NotThisFormat."""
    try:
        return json_text.loads(data)
    except ValueError as error:
        raise NotThisFormat("is not JSON: {reason}.", error) from error


def numbered(rows: Iterable[Any], what: str) -> list[tuple[str, Any]]:
    """Each row with its place: `memory 3`."""
    return [(f"{what} {number}", row) for number, row in enumerate(rows, 1)]


def list_of(value: Any) -> list[Any]:
    """A list, also one that is written as JSON; empty if it is not one."""
    if isinstance(value, str) and value[:1] == "[":
        with suppress(ValueError):
            value = json_text.loads(value.encode())
    return value if isinstance(value, list) else []


def texts(value: Any) -> list[str]:
    """The texts of such a list; of a text with commas, its parts."""
    parts = value.split(",") if isinstance(value, str) and value[:1] != "[" else list_of(value)
    found = (str(each).strip() for each in parts if isinstance(each, str | int | float))
    return [each for each in found if each]


def fields_of(value: Any) -> Json:
    """An object, also one that is written as JSON; empty if it is not one."""
    if isinstance(value, str | bytes):
        with suppress(json_text.NotARecord):
            return json_text.load_object(value.encode() if isinstance(value, str) else value)
    return value if isinstance(value, dict) else {}


def milliseconds_of(value: Any, zone: tzinfo | None = None, *, unit: int = 1) -> int:
    """Milliseconds since 1970 of an ISO text, or of a number of `unit` milliseconds; 0: it is not a time."""
    try:
        if not isinstance(value, int | float):
            value, unit = instant(datetime.fromisoformat(value), zone).timestamp(), 1000
        return found if 0 < (found := round(value * unit)) <= LAST_MS else 0
    except (TypeError, ValueError, OverflowError):
        return 0
