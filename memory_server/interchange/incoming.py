"""The form of a file or folder of memories, told by its content and never by its name; and what was read from it: the
contents of each conversation, and what was left out and why."""

from __future__ import annotations

import codecs
import hashlib
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, tzinfo
from typing import Any, Literal, get_args

from memory_server.conversations.contents import Contents
from memory_server.conversations.model import LongTermMemory, ShortTermMemory, conversation_id_of, excess
from memory_server.conversations.recall.words import KeywordOptions
from memory_server.kernel.errors import InvalidInput
from memory_server.kernel.items import FAMILIES
from memory_server.kernel.messages import LAST_MS
from memory_server.kernel.private import without_private
from memory_server.kernel.recalled_block import without_recalled
from memory_server.kernel.text import beginning
from memory_server.knowledge.entry import MAX_KEY_CHARS, MAX_TAG_CHARS, MAX_TAGS, Entry, entry_of, usable
from memory_server.knowledge.notes.pages import MARK
from memory_server.storage.backups.record_lines import FORMAT as NATIVE
from memory_server.storage.json_store import codec
from nlp.index_terms import index_form
from sandbox.chats import chat
from sandbox.chats.dates import instant
from sandbox.chats.plain import begins_with_role
from sandbox.locale import _, clause

Foreign = Literal[
    "claude-code", "claude-mem", "codex", "gemini-cli", "livingmemory", "mem0", "notes-db", "pages", "refs-log"
]
"""Forms of other programs that keep memories."""
Format = Literal["native", "node", "gentian", "pack", "worldinfo", "official", "chat", Foreign]
FORMATS: tuple[Format, ...] = get_args(Format)
SESSIONS: tuple[Format, ...] = ("claude-code", "codex", "gemini-cli")
"""Forms of the sessions of programs, of which a folder has many."""
_TABLES: Mapping[Foreign, Collection[tuple[str, str]]] = {
    "claude-mem": [("observations", "narrative")],
    "notes-db": [("memories", "topic")],
    "livingmemory": [("documents", "metadata"), ("messages", "sender_id")],
}
"""A table and a column of it that only the database of this form has; one of them is enough."""
_MAGIC = {
    b"\x1f\x8b": _("is compressed; if it is a backup, put it into the folder of the backups and use `backup restore`."),
    b"PK\x03\x04": _("is a zip archive; unpack it and give what is inside."),
    b"\x89PNG": _("is a damaged picture; export the character again."),
    b"SQLite format 3": _("is a database; give its file, and not standard input."),
}
_UUID = re.compile("[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
MOST_ENTRY_CHARS = 10_000_000
"""Characters of an entry; those that are longer were never stored."""
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

    def _good(self, rows: Rows, read: Callable[[codec.Json], ShortTermMemory | LongTermMemory]) -> list[codec.Json]:
        good: list[codec.Json] = []
        for place, row in rows:
            try:
                if not isinstance(row, dict):
                    raise codec.NotARecord("it is not a JSON object")
                if self.fits(place, read(row)):
                    good.append(row)
            except (codec.NotARecord, RecursionError) as error:
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
        """The values of JSON lines, each with its place; a line that is not JSON is skipped."""
        for number, line in enumerate(data.removeprefix(codecs.BOM_UTF8).splitlines(), 1):
            if line.strip():
                try:
                    yield _("line {number}", number), codec.loads(line)
                except ValueError as error:
                    self.skipped.append((_("line {number}", number), _("it is not JSON: {reason}", error)))

    def fits(self, place: str, memory: ShortTermMemory | LongTermMemory) -> bool:
        """Whether a memory is small enough to be stored; otherwise it is skipped."""
        if (reason := excess(memory)) is None:
            return True
        self.skipped.append((place, reason))
        return False

    def take(self, line: str, place: str, values: codec.Json) -> None:
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
            self.lost[_("entries without text, or all of it private")] += 1
            return
        title = " ".join(title.split())[:MAX_KEY_CHARS] or (beginning(body) if place == "notes" else "")
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
        return codec.loads(data)
    except ValueError as error:
        raise NotThisFormat("is not JSON: {reason}.", error) from error


def numbered(rows: Iterable[Any], what: str) -> list[tuple[str, Any]]:
    """Each row with its place: `memory 3`."""
    return [(f"{what} {number}", row) for number, row in enumerate(rows, 1)]


def list_of(value: Any) -> list[Any]:
    """A list, also one that is written as JSON; empty if it is not one."""
    if isinstance(value, str) and value[:1] == "[":
        with suppress(ValueError):
            value = codec.loads(value.encode())
    return value if isinstance(value, list) else []


def texts(value: Any) -> list[str]:
    """The texts of such a list; of a text with commas, its parts."""
    parts = value.split(",") if isinstance(value, str) and value[:1] != "[" else list_of(value)
    found = (str(each).strip() for each in parts if isinstance(each, str | int | float))
    return [each for each in found if each]


def fields_of(value: Any) -> codec.Json:
    """An object, also one that is written as JSON; empty if it is not one."""
    if isinstance(value, str | bytes):
        with suppress(codec.NotARecord):
            return codec.load_object(value.encode() if isinstance(value, str) else value)
    return value if isinstance(value, dict) else {}


def milliseconds_of(value: Any, zone: tzinfo | None = None, *, unit: int = 1) -> int:
    """Milliseconds since 1970 of an ISO text, or of a number of `unit` milliseconds; 0: it is not a time."""
    try:
        if not isinstance(value, int | float):
            value, unit = instant(datetime.fromisoformat(value), zone).timestamp(), 1000
        return found if 0 < (found := round(value * unit)) <= LAST_MS else 0
    except (TypeError, ValueError, OverflowError):
        return 0


def format_of(data: bytes) -> Format:
    """The format of a file. Raises NotThisFormat with what to do if it is not known."""
    for start, advice in _MAGIC.items():
        if data.startswith(start):
            raise NotThisFormat(advice)
    if not data.strip():
        raise NotThisFormat("is empty.")
    value: Any = None
    try:
        value = codec.loads(data)
    except ValueError:
        with suppress(ValueError):
            value = codec.loads(next(line for line in data.splitlines() if line.strip()))
    session = _form_of_session(value)
    if session is not None:
        return session
    if chat.is_chat(value[0] if isinstance(value, list) and value else value):
        return "chat"
    match value:
        case {"format": str(name)} if name == NATIVE:
            return "native"
        case {"type": "entity" | "relation"}:
            return "official"
        case {"format": "livingmemory"}:
            return "livingmemory"
        case {"observations": list(), "summaries": list()}:
            return "claude-mem"
        case {"results": [{"memory": str()}, *_]} | [{"memory": str(), "id": _}, *_]:
            return "mem0"
        case {"op": "add" | "update" | "delete"} | {"namespace": _, "content": _}:
            return "refs-log"
        case {"type": str(), "sessionId": _} | {"type": str(), "leafUuid": _} | {"type": str(), "messageId": _}:
            return "claude-code"
        case {"entries": _} | {"spec": _} | {"character_book": _}:
            return "worldinfo"
        case [{"chat_name": _} | {"prompt_content": _} | {"prompt_name": _}, *_]:
            return "gentian"
        case [{"trigger": _}, *_]:
            return "pack"
        case [{"text": _}, *_]:
            return "node"
        case [dict(), *_]:
            raise NotThisFormat(
                "is a list of something else; name its form with --format: {formats}.", ", ".join(FORMATS)
            )
        case []:
            return "node"
    if value is None and begins_with_role(data.decode(errors="replace")):
        return "chat"
    if data.removeprefix(codecs.BOM_UTF8).startswith((b"---\n", b"---\r\n", b"# ", b"## ", MARK.encode())):
        return "pages"
    raise NotThisFormat("has an unknown form; name one with --format: {formats}.", ", ".join(FORMATS))


def _form_of_session(value: Any) -> Format | None:
    """The form of a session of Codex or Gemini CLI, by its first line or as a whole."""
    match value:
        case {"type": str(), "payload": dict()} | {"id": str(), "timestamp": str(), "instructions": _}:
            return "codex"
        case {"sessionId": str(), "projectHash": str()}:
            return "gemini-cli"
        case {"history": [{"role": "user" | "model", "parts": list()}, *_]}:
            return "gemini-cli"
        case [{"role": "user" | "model", "parts": list()}, *_]:
            return "gemini-cli"
    return None


def format_of_tables(tables: Mapping[str, Collection[str]]) -> Format:
    """The same for a database, by the columns of its tables."""
    for form, marks in _TABLES.items():
        if any(column in tables.get(table, ()) for table, column in marks):
            return form
    named = ", ".join(sorted(tables)[:5]) or "-"
    raise NotThisFormat("is a database of an unknown program (its tables: {tables}); export it as JSON first.", named)


def format_of_folder(files: Mapping[str, bytes]) -> Format:
    """The same for a folder: that of GentianAphrodite, of the Node original, of sessions, or of pages."""
    alone = files.get("short-term-memory.json") or files.get("long-term-memory.json")
    if alone is not None:
        return "gentian" if format_of(alone) in ("gentian", "pack") else "node"
    sessions = {path: data for path, data in files.items() if path.endswith((".json", ".jsonl"))}
    for data in sessions.values():
        with suppress(NotThisFormat):
            form = format_of(data)
            if form in SESSIONS:
                return form
    if any(path.endswith(".jsonl") for path in sessions):
        return "claude-code"
    return "pages" if any(path.endswith(".md") for path in files) else "node"
