"""What was read from a file or folder of memories: the contents of each conversation, entries of knowledge, and what
was left out and why. forms.py tells the form."""

from __future__ import annotations

import codecs
import hashlib
import re
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import field, replace
from datetime import datetime, tzinfo
from itertools import count
from typing import Any

from languages import N_, _, clause
from memory_server.conversations import codec
from memory_server.conversations.contents import Contents
from memory_server.conversations.model import ShortTermMemory, conversation_id_of, excess
from memory_server.conversations.recall.words import KeywordOptions
from memory_server.kernel import json_text
from memory_server.kernel.errors import InvalidInput
from memory_server.kernel.items import FAMILIES, OF_CONVERSATIONS
from memory_server.kernel.json_text import Fields, Json
from memory_server.kernel.messages import LAST_MS
from memory_server.kernel.private import emptied, without_private
from memory_server.kernel.recalled_block import without_recalled
from memory_server.kernel.text import beginning
from memory_server.kernel.values import dataclass, frozen
from memory_server.knowledge.entry import (
    MAX_KEY_CHARS,
    MAX_TAG_CHARS,
    MAX_TAGS,
    Entry,
    entry_of,
    usable,
)
from memory_server.lore import LongTermMemory
from nlp.index_terms import index_form
from sandbox import WRONG_VALUES, instant, joined_values

_UUID = re.compile("[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
_BETWEEN_ITEMS = "\0"
MOST_PROJECT_CHARS = 200
"""Characters of the name of a project that a note keeps."""
MOST_ENTRY_CHARS = 10_000_000
"""Characters of an entry; longer entries were never stored."""
WRONG_VALUE = N_("it has a value of a type or size that it cannot have")
EMPTY_OR_PRIVATE = N_("entries without text, or all of it private")
Rows = Iterable[tuple[str, Any]]
"""Records, each with its place in the file."""
Tables = Mapping[str, list[Fields]]
"""Rows of a database by the name of their table, or lists of a JSON file that has the same."""


class NotThisFormat(InvalidInput):
    """A file does not have the expected format. The message follows the file's name and says what to give instead."""


@frozen
class Loss:
    """Something that a record has and its memory does not, or that is to be said of it: `what`, `of` which record."""

    what: str
    of: str


@frozen
class IncomingBook:
    """A lorebook for a conversation. `source`: the name of its file. `entries`: how many it has, with the entries
    that are left out. `is_on`: its owner has it switched on. `is_update`: its owner named the book that it is a new
    version of."""

    conversation_id: str
    book_id: str
    name: str
    source: str
    memories: tuple[LongTermMemory, ...]
    is_on: bool
    entries: int
    is_update: bool = False


@dataclass(slots=True)
class ProfileBooks:
    """The books of profiles of SillyTavern. `on`: the memories of each book that is on, by conversation and id.
    `names`: the names of all books, by their id; `files`: the names of the files of books and cards.
    `says_what_is_on`: the settings of each profile are there, so a book that is not in `on` is off."""

    on: dict[tuple[str, str], tuple[LongTermMemory, ...]] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)
    files: set[str] = field(default_factory=set)
    says_what_is_on: bool = True

    def is_on(self, book_id: str) -> bool:
        """Tell whether a book is on in any conversation."""
        return any(on_id == book_id for _conversation_id, on_id in self.on)


@dataclass(slots=True)
class Incoming:
    """All that an import brings. `entries`: entries of knowledge by place; an entry without a time has the time 0.
    `skipped`: place and reason of each record that was left out. `doubts`: triggers that may not work as meant.
    `notes`: other losses. `lost` counts losses by their names."""

    conversations: list[Contents] = field(default_factory=list)
    entries: dict[str, list[Entry]] = field(default_factory=dict)
    skipped: list[tuple[str, str]] = field(default_factory=list)
    doubts: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    lost: Counter[str] = field(default_factory=Counter)
    books: list[IncomingBook] = field(default_factory=list)
    """Lorebooks, which are compared with what an earlier import of them brought."""
    losses: list[Loss] = field(default_factory=list)
    """What records have and memories do not; the report counts them by what is lost."""
    remarks: list[Loss] = field(default_factory=list)
    """What else a reader of the report should know of records, counted in the same way."""
    found: list[str] = field(default_factory=list)
    """What a folder holds, for people."""
    profile: ProfileBooks | None = None
    """Which books are on in the profiles of SillyTavern that were read, or None if no profile was read."""
    _keys: set[tuple[str, str, str]] = field(default_factory=set)

    @contextmanager
    def record(self, location: str) -> Iterator[None]:
        """Read one record, or one file of several, in this block: what is wrong with it costs it alone, and it is
        skipped with the reason."""
        try:
            yield
        except NotThisFormat as error:
            self.skipped.append((location, _("it {reason}", error)))
        except InvalidInput as error:
            self.skipped.append((location, clause(str(error))))
        except (json_text.NotARecord, RecursionError) as error:
            self.skipped.append((location, str(codec.reason_of(error))))
        except WRONG_VALUES:
            self.skipped.append((location, _(WRONG_VALUE)))

    def short_terms(self, rows: Rows, conversation_id: str) -> tuple[ShortTermMemory, ...]:
        """Short-term memories of `(place, record)` pairs; a record that is not a memory is skipped."""
        records = self._usable(rows, lambda record: codec.short_term(record, conversation_id))
        return tuple(codec.short_terms(records, conversation_id))

    def long_terms(self, rows: Rows) -> tuple[LongTermMemory, ...]:
        """Return the usable long-term memories of these rows; all others are skipped."""
        records = self._usable(rows, codec.long_term)
        return tuple(codec.long_terms(records))

    def _usable(
        self, rows: Rows, read: Callable[[Json], ShortTermMemory | LongTermMemory]
    ) -> list[Json]:
        """Return the records that `read` can read and that fit; all others are skipped."""
        records: list[Json] = []
        for location, row in rows:
            with self.record(location):
                if not isinstance(row, dict):
                    raise json_text.NotARecord("it is not a JSON object")
                if self.fits(location, read(row)):
                    records.append(row)
        return records

    def add(self, name: str, *, short: Rows, long: Rows, last_cleanup: Any) -> None:
        """Add a conversation of such rows. `last_cleanup`: milliseconds since 1970, as the file has it."""
        cleaned_ms = None
        if isinstance(last_cleanup, int) and not isinstance(last_cleanup, bool):
            cleaned_ms = last_cleanup
        short_term = self.short_terms(short, name)
        long_term = self.long_terms(long)
        self.conversations.append(Contents(name, short_term, long_term, cleaned_ms))

    def by_chat(self, rows: Rows, key: str, usual: str) -> dict[str, Contents]:
        """Return the short-term memories of rows that each name their conversation in the field `key`, or are of
        `usual`, by conversation. A row with a name that cannot be an id is skipped."""
        rows_by_chat: dict[str, list[tuple[str, Any]]] = {}
        for location, row in rows:
            chat_name = row.get(key) if isinstance(row, dict) else None
            conversation_id = self.conversation_of(chat_name, usual, location)
            if conversation_id is not None:
                rows_by_chat.setdefault(conversation_id, []).append((location, row))
        return {
            name: Contents(name, self.short_terms(chat_rows, name))
            for name, chat_rows in rows_by_chat.items()
        }

    def lines(self, data: bytes) -> Iterator[tuple[str, Any]]:
        """Yield the values of JSON lines, each with its place; a line that is not JSON is skipped. A line of several
        objects, between which the end of the line is missing, gives each of them."""
        for number, line in enumerate(data.removeprefix(codecs.BOM_UTF8).splitlines(), 1):
            if not line.strip():
                continue
            location = _("line {number}", number)
            try:
                yield location, json_text.loads(line)
            except ValueError as error:
                values, rest = joined_values(line.decode(errors="replace"))
                for value in values:
                    yield location, value
                if rest:
                    self.skipped.append((location, _("it is not JSON: {reason}", error)))

    def fits(self, location: str, memory: ShortTermMemory | LongTermMemory) -> bool:
        """Tell whether a memory is small enough to be stored; otherwise it is skipped."""
        reason = excess(memory)
        if reason is None:
            return True
        self.skipped.append((location, str(reason)))
        return False

    def take(self, location: str, knowledge_place: str, values: Json) -> None:
        """Add an entry of a file to the knowledge, in a place such as `notes` or `refs/words`; an entry that cannot
        be stored is skipped. `location`: its place in the file, for the report. `values`: the fields of the entry."""
        family, _slash, _namespace = knowledge_place.partition("/")
        is_of_knowledge = family in FAMILIES and family not in OF_CONVERSATIONS
        try:
            if not is_of_knowledge:
                raise InvalidInput("there is no place {place!r}", knowledge_place)
            entry = usable(entry_of(values), knowledge_place, most_chars=MOST_ENTRY_CHARS)
        except InvalidInput as error:
            self.skipped.append((location, clause(str(error))))
            return
        self.entries.setdefault(knowledge_place, []).append(entry)

    def note(
        self,
        location: str,
        identity: str,
        *,
        title: str,
        body: str,
        knowledge_place: str = "notes",
        **fields: Any,
    ) -> None:
        """Add an entry, to the notes or to another `knowledge_place`, with an id that `identity` makes the same each
        time; a UUID is the id as it is. Without a public text it is counted as lost. `location`: the place of the
        entry in the file. `fields`: other fields of an entry; with `key` True its title is its key, unless an earlier
        note of the same kind and project has this title."""
        body = without_recalled(without_private(body))
        if not body.strip():
            self.lost[EMPTY_OR_PRIVATE] += 1
            return

        fields = public_value(fields)
        # A title is shown on a line.
        title = " ".join(without_private(title).split())[:MAX_KEY_CHARS]
        if not title and knowledge_place == "notes":
            title = beginning(body)

        # The second note with the same title comes too, but without a key, which belongs to the first.
        kind = fields.setdefault("kind", "domain")
        topic = (kind, fields.get("project", ""), index_form(title))
        is_topic = fields.pop("key", False)
        if is_topic and topic not in self._keys:
            self._keys.add(topic)
            fields["key"] = topic[2]

        tags = [tag[:MAX_TAG_CHARS] for tag in fields.get("tags", ()) if isinstance(tag, str)]
        fields["tags"] = tags[:MAX_TAGS]
        fields["updated_ms"] = fields.get("updated_ms") or fields.get("created_ms", 0)
        ref = identity if is_uuid(identity) else _hashed(identity)
        self.take(location, knowledge_place, {"ref": ref, "title": title, "body": body} | fields)

    def conversation_of(self, name: Any, otherwise: str, location: str) -> str | None:
        """Return `name` as a conversation id, or `otherwise` if it is empty. If it cannot be an id, it is skipped,
        and None is returned."""
        if name in (None, ""):
            return otherwise
        try:
            return conversation_id_of(str(name))
        except InvalidInput as error:
            self.skipped.append((location, str(error)))
            return None

    @property
    def count(self) -> int:
        """How many memories and entries came."""
        in_books = sum(len(book.memories) for book in self.books)
        in_conversations = sum(contents.count for contents in self.conversations)
        in_knowledge = sum(len(entries) for entries in self.entries.values())
        return in_books + in_conversations + in_knowledge

    def unbound(self) -> None:
        """Move the memories of books to the conversations, for a store without books."""
        for book in self.books:
            self.conversations.append(
                Contents(book.conversation_id, (), unique_names(book.memories))
            )
        self.books.clear()


def unique_names(memories: Iterable[LongTermMemory]) -> tuple[LongTermMemory, ...]:
    """Return the memories, each with a name of its own: a second `Magic` becomes `Magic (2)`."""
    by_name: dict[str, LongTermMemory] = {}
    for memory in memories:
        name = unused_name(memory.name, by_name)
        by_name[name] = replace(memory, name=name)
    return tuple(by_name.values())


def unused_name(name: str, used_names: Container[str]) -> str:
    """Return `name`, or if it is used, the first of `name (2)`, `name (3)`, … that is not."""
    unused = name
    for number in count(2):
        if unused not in used_names:
            break
        unused = f"{name} ({number})"
    return unused


def public_value(value: Any) -> Any:
    """Return a value of JSON without the private parts of the texts in it. In a list of texts such a part may go over
    several items, and an item that is wholly private is left out."""
    if isinstance(value, str):
        return without_private(value)
    if isinstance(value, Mapping):
        return {name: public_value(item) for name, item in value.items()}
    if not isinstance(value, list | tuple):
        return value
    if value and all(isinstance(item, str) for item in value):
        return _public_texts(value)
    return [public_value(item) for item in value]


def _public_texts(texts: Iterable[str]) -> list[str]:
    """Return the public parts of these texts. A wholly private text is left out; an empty text stays."""
    without_parts = emptied(_BETWEEN_ITEMS.join(texts)).split(_BETWEEN_ITEMS)
    public_texts: list[str] = []
    for text in without_parts:
        public = without_private(text)
        if public or not text:
            public_texts.append(public)
    return public_texts


def is_uuid(text: str) -> bool:
    """Tell whether it is a UUID as programs write it, with its hyphens."""
    return _UUID.fullmatch(text) is not None


def _hashed(identity: str) -> str:
    return hashlib.sha256(identity.encode(errors="replace")).hexdigest()[:32]


def with_keywords(contents: Contents, wording: KeywordOptions) -> Contents:
    """`contents` with keywords for each memory that has none, because no search would find it: from its messages, or
    else from its text."""
    memories = [
        memory if memory.words else wording.of_text(memory) for memory in contents.short_term
    ]
    return replace(contents, short_term=tuple(memories))


def array(data: bytes) -> list[Any]:
    """Return the items of a JSON array. Raises NotThisFormat."""
    value = document(data)
    if not isinstance(value, list):
        raise NotThisFormat("is not a JSON array of memories.")
    return value


def document(data: bytes) -> Any:
    """Return the value of a JSON file. Raises NotThisFormat."""
    try:
        return json_text.loads(data)
    except ValueError as error:
        raise NotThisFormat("is not JSON: {reason}.", error) from error


def numbered(rows: Iterable[Any], noun: str) -> list[tuple[str, Any]]:
    """Return each row with its place: `memory 3`."""
    return [(f"{noun} {number}", row) for number, row in enumerate(rows, 1)]


def list_of(value: Any) -> list[Any]:
    """Return a list, also a list that is written as JSON; empty if the value is not a list."""
    if isinstance(value, str) and value[:1] == "[":
        with suppress(ValueError):
            value = json_text.loads(value.encode())
    if not isinstance(value, list):
        return []
    return value


def texts(value: Any) -> list[str]:
    """Return the texts of such a list; of a text with commas, its parts."""
    if isinstance(value, str) and value[:1] != "[":
        items: list[Any] = value.split(",")
    else:
        items = list_of(value)
    stripped = [str(item).strip() for item in items if isinstance(item, str | int | float)]
    return [text for text in stripped if text]


def fields_of(value: Any) -> Json:
    """Return an object, also an object that is written as JSON; empty if the value is not an object."""
    if isinstance(value, str):
        value = value.encode()
    if isinstance(value, bytes):
        with suppress(json_text.NotARecord):
            return json_text.load_object(value)
    if not isinstance(value, dict):
        return {}
    return value


def text_in(row: Any, name: str) -> str:
    """Return the text in this field of a record. Raise InvalidInput if it has none."""
    text = row.get(name) if isinstance(row, dict) else None
    if not isinstance(text, str):
        raise InvalidInput("it has no text in `{name}`", name)
    return text


def text_of(value: Any) -> str:
    """Return a text without white space around it; empty if it is not a text."""
    if not isinstance(value, str):
        return ""
    return value.strip()


def line_of(value: Any) -> str:
    """Return a name on one line; empty if it is missing."""
    return " ".join(str(value or "").split())


def switch_of(value: Any) -> bool | None:
    """Return true or false, or None for any other value."""
    if not isinstance(value, bool):
        return None
    return value


def share_of(value: Any) -> float | None:
    """Return a number from 0 to 1, or None for any other value."""
    if not isinstance(value, int | float) or not 0 <= value <= 1:
        return None
    return float(value)


def milliseconds_of(value: Any, zone: tzinfo | None = None, *, unit: int = 1) -> int:
    """Return the milliseconds since 1970 of an ISO text, or of a number of `unit` milliseconds, or 0 if it is not a
    time. `zone` is the zone of a text without an offset, None for the system's."""
    try:
        if isinstance(value, int | float):
            time_ms = round(value * unit)
        else:
            moment = instant(datetime.fromisoformat(value), zone)
            time_ms = round(moment.timestamp() * 1000)
    except (TypeError, ValueError, OverflowError):
        return 0
    if not 0 < time_ms <= LAST_MS:
        return 0
    return time_ms
