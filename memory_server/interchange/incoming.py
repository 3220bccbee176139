"""The form of a file or folder of memories, told by its content and never by its name; and what was read from it: the
contents of each conversation, and what was left out and why."""

from __future__ import annotations

import codecs
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, Literal, get_args

from memory_server.conversations.contents import Contents
from memory_server.conversations.model import LongTermMemory, ShortTermMemory, conversation_id_of, excess
from memory_server.conversations.recall.words import KeywordOptions
from memory_server.kernel.errors import InvalidInput
from memory_server.kernel.lifecycle import FAMILIES
from memory_server.knowledge.entry import Entry, entry_of, usable
from memory_server.storage.backups.record_lines import FORMAT as NATIVE
from memory_server.storage.json_store import codec
from sandbox.chats import chat
from sandbox.chats.plain import begins_with_role
from sandbox.locale import _, clause

Format = Literal["native", "node", "gentian", "pack", "worldinfo", "official", "chat"]
FORMATS: tuple[Format, ...] = get_args(Format)
_MAGIC = {
    b"\x1f\x8b": _("is compressed; if it is a backup, put it into the folder of the backups and use `backup restore`."),
    b"PK\x03\x04": _("is a zip archive; unpack it and give what is inside."),
    b"\x89PNG": _("is a picture; export the character or its lorebook as JSON."),
    b"SQLite format 3": _("is a database; export it as JSON first."),
}
MOST_ENTRY_CHARS = 10_000_000
"""Characters of an entry; those that are longer were never stored."""
Rows = Iterable[tuple[str, Any]]
"""Records, each with its place in the file."""


class NotThisFormat(InvalidInput):
    """A file does not have the expected format. The message follows the file's name and says what to give instead."""


@dataclass(slots=True)
class Incoming:
    """`entries`: of knowledge, by place. `skipped`: place and reason of each record that was left out. `notes`: what
    the others lost."""

    conversations: list[Contents] = field(default_factory=list)
    entries: dict[str, list[Entry]] = field(default_factory=dict)
    skipped: list[tuple[str, str]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

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
            entry = usable(entry_of(values), most_chars=MOST_ENTRY_CHARS)
        except InvalidInput as error:
            self.skipped.append((line, clause(str(error))))
        else:
            self.entries.setdefault(place, []).append(entry)

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
    if chat.is_chat(value[0] if isinstance(value, list) and value else value):
        return "chat"
    match value:
        case {"format": str(name)} if name == NATIVE:
            return "native"
        case {"type": "entity" | "relation"}:
            return "official"
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
    raise NotThisFormat("has an unknown form; name one with --format: {formats}.", ", ".join(FORMATS))


def format_of_folder(files: Mapping[str, bytes]) -> Format:
    """The same for a folder: that of GentianAphrodite, or of the Node original."""
    alone = files.get("short-term-memory.json") or files.get("long-term-memory.json")
    if alone is None:
        return "node"
    return "gentian" if format_of(alone) in ("gentian", "pack") else "node"
