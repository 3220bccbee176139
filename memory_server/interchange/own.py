"""Our own forms: `native` with everything, `pack` for trigger authors, and `markdown` for people.

`native` is JSON lines (conversations/record_lines.py); entries of knowledge follow the conversations as
`{"place":"refs/short-term","entry":{…}}`, without empty fields and numbers of a store. `pack` is a JSON array of
`{name, prompt, trigger, createdContext?}`, as `trigger-sandbox pack` uses it.
"""

from __future__ import annotations

import codecs
import csv
import io
import re
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import tzinfo
from typing import Any, Final

from languages import _
from memory_server.conversations import codec, record_lines
from memory_server.conversations.contents import Contents
from memory_server.conversations.model import DEFAULT_CONVERSATION
from memory_server.interchange.incoming import Incoming, NotThisFormat, Rows, array, unused_name
from memory_server.kernel import json_text, times
from memory_server.kernel.files import MAX_FILE_BYTES
from memory_server.kernel.json_text import Json
from memory_server.kernel.times import iso
from memory_server.kernel.unpacking import UnpackingRoom
from memory_server.knowledge.entry import Entry, difference
from memory_server.lore import LongTermMemory
from sandbox import PackMemory, pack_text, usable

COMPRESSED = b"\x1f\x8b"
_FIRST_PIECE = 64 * 1024
"""Bytes that are unpacked of a compressed file before its first line is looked at; that has about 80."""
_EMPTY = Entry("")
_RUNS = re.compile(r"`+")


def write_native(
    conversations: Iterable[Contents], now_ms: int, entries: Iterable[tuple[str, Entry]] = ()
) -> Iterator[bytes]:
    """Yield the lines of a native export: conversations, then `entries`, each with its place of
    knowledge. The last line has the counts, so a reader sees whether the file is whole."""
    yield record_lines.first_line(now_ms)
    conversation_count = 0
    for contents in conversations:
        yield from record_lines.conversation_lines(contents)
        conversation_count += 1
    entry_count = 0
    for knowledge_place, entry in entries:
        yield _entry_line(knowledge_place, entry)
        entry_count += 1
    last_line: Json = {"end": True, "conversations": conversation_count}
    if entry_count:
        last_line["entries"] = entry_count
    yield json_text.dumps(last_line) + b"\n"


def _entry_line(knowledge_place: str, entry: Entry) -> bytes:
    """Write the line of an entry. The id of an entry of a layer is the id of its file, and not exported."""
    ref = "" if knowledge_place.startswith("layers/") else entry.ref
    live = replace(entry, archived_ms=None, reason=None, ref=ref)
    return json_text.dumps({"place": knowledge_place, "entry": difference(live, _EMPTY)}) + b"\n"


def uncompressed(data: bytes) -> bytes:
    """Unpack the lines of a compressed `native` file; other compressed data are returned as they are. Raises
    NotThisFormat: it is damaged, or would be too large."""
    unpacking = zlib.decompressobj(wbits=31)  # gzip
    room = UnpackingRoom(len(data))
    try:
        lines = unpacking.decompress(data, _FIRST_PIECE)
        record_lines.check_first(json_text.loads(lines.partition(b"\n")[0]))
        most_bytes = min(room.free_bytes, MAX_FILE_BYTES)
        lines += unpacking.decompress(unpacking.unconsumed_tail, most_bytes)
    except zlib.error as error:
        raise NotThisFormat("is compressed, and damaged: {reason}.", error) from error
    except ValueError:
        return data

    if not unpacking.eof or len(lines) > most_bytes or not room.fits(lines):
        raise NotThisFormat(
            "is compressed, and it is damaged or unpacks to far more than memories do; export it again, each --family "
            "into a file of its own."
        )

    return lines


def read_native(data: bytes, usual: str = "default") -> Incoming:
    """Read the memories of an export; `usual` is the conversation of memories that name none. A bad line does not
    cost the others. Raises NotThisFormat."""
    incoming = Incoming()
    lines = incoming.lines(data)
    _location, head = next(lines, ("", None))
    first_line = data.removeprefix(codecs.BOM_UTF8).partition(b"\n")[0]
    if (
        not first_line.strip() or incoming.skipped
    ):  # an empty first line is passed over, a broken first line is skipped
        head = None

    try:
        record_lines.check_first(head)
    except json_text.NotARecord as error:
        raise NotThisFormat("cannot be read: {reason}.", error) from error

    def skip(location: str, reason: str) -> None:
        incoming.skipped.append((location, reason))

    has_ended = False
    # Entries may be between conversations, and are taken out on the way.
    lines_of_conversations = _taking_entries(lines, incoming)
    for group in record_lines.groups(lines_of_conversations, skip):
        if group.head is None or group.ends:
            for location, _record in [*group.short, *group.long]:
                skip(location, _("it does not belong to a conversation"))
            has_ended = has_ended or group.ends
            continue
        named = group.head["conversation"]
        conversation_id = incoming.conversation_of(named, usual, _("conversation {named!r}", named))
        if conversation_id is not None:
            incoming.add(
                conversation_id,
                short=group.short,
                long=group.long,
                last_cleanup=group.head.get("lastCleanup"),
            )

    if not has_ended:
        incoming.notes.append(_("the file ends too early: memories at its end may be missing"))

    return incoming


def _taking_entries(lines: Rows, incoming: Incoming) -> Iterator[tuple[str, Any]]:
    """Yield the lines without lines of entries, which go into `incoming`."""
    for location, fields in lines:
        match fields:
            case {"place": str(knowledge_place), "entry": dict(values)}:
                incoming.take(location, knowledge_place, values)
            case _:
                yield location, fields


def write_pack(conversations: Iterable[Contents]) -> bytes:
    """Write the long-term memories as a pack, each with its conversation if it is not the shared conversation. A name
    that two conversations have is numbered."""
    rows: dict[str, PackMemory] = {}
    for contents in conversations:
        for memory in contents.long_term:
            name = unused_name(memory.name, rows)
            rows[name] = _pack_memory(memory, name, contents.conversation_id)
    return pack_text(list(rows.values())).encode()


def _pack_memory(memory: LongTermMemory, name: str, conversation_id: str) -> PackMemory:
    """Return the entry of a pack for a memory, under this name. Fields that a pack does not know itself are its
    `extra`."""
    extra = codec.long_term_json(memory)
    for own_field in ("name", "prompt", "trigger"):
        del extra[own_field]
    created_context = str(extra.pop("createdContext"))
    if memory.created_ms == 0:  # the time is not known
        del extra["createdAt"]
    if conversation_id != DEFAULT_CONVERSATION:
        extra["conversation_id"] = conversation_id
    return PackMemory(
        name=name,
        prompt=memory.prompt,
        trigger=memory.trigger,
        created_context=created_context,
        extra=extra,
    )


def read_pack(data: bytes, usual: str) -> Incoming:
    """Read the memories of a pack; `usual` is the conversation of memories that name none. Raises NotThisFormat."""
    incoming = Incoming()
    try:
        pack, faults = usable(array(data))
    except ValueError as error:
        raise NotThisFormat("cannot be used: {reason}.", error) from error

    if faults and not pack:
        raise NotThisFormat("cannot be used: {reason}.", faults[0])

    # A pack with a broken memory is still imported, and the report names the memory.
    incoming.skipped += [(_("the pack"), fault) for fault in faults]
    by_conversation: dict[str, list[tuple[str, Json]]] = {}
    for memory in pack:
        record = _record(memory)
        conversation_id = incoming.conversation_of(
            record.pop("conversation_id", None), usual, memory.name
        )
        if conversation_id is not None:
            by_conversation.setdefault(conversation_id, []).append((memory.name, record))

    for conversation_id, rows in by_conversation.items():
        contents = Contents(conversation_id, (), incoming.long_terms(rows))
        incoming.conversations.append(contents)

    return incoming


def _record(memory: PackMemory) -> Json:
    texts = {"name": memory.name, "prompt": memory.prompt, "trigger": memory.trigger}
    return {**memory.extra, **texts, "createdContext": memory.created_context}


def write_page(conversations: Iterable[Contents], zone: tzinfo | None = None) -> Iterator[bytes]:
    """Write a heading for each conversation, its memories by time, and its long-term memories with their triggers."""
    yield b"# Memories\n"
    for contents in conversations:
        yield f"\n## {_line(contents.conversation_id)}\n".encode()
        for memory in sorted(contents.short_term, key=lambda memory: (memory.time_ms, memory.id)):
            pinned = ", pinned" if memory.pinned else ""
            yield f"\n**{_moment(memory.time_ms, zone)}**{pinned}\n\n{_quoted(memory.text)}\n".encode()
        if contents.long_term:
            yield b"\n### Long-term\n"
        for trigger in sorted(
            contents.long_term, key=lambda trigger: (trigger.created_ms, trigger.name)
        ):
            heading = f"**{_line(trigger.name)}** ({_moment(trigger.created_ms, zone)})"
            yield f"\n{heading}\n\n{_quoted(trigger.prompt)}\n\n{_fenced(trigger.trigger)}\n".encode()


def _moment(time_ms: int, zone: tzinfo | None) -> str:
    return f"{times.local(time_ms, zone):%Y-%m-%d %H:%M}"


def _line(text: str) -> str:
    return " ".join(text.split())


def _quoted(text: str) -> str:
    """Write a text as a quotation; two blanks at the end of a line keep its line break."""
    lines: list[str] = []
    for line in text.splitlines() or [""]:
        quoted = f"> {line}".rstrip()
        if line:
            quoted += "  "
        lines.append(quoted)
    return "\n".join(lines)


def _fenced(code: str) -> str:
    """Write a block that `code` cannot end: its fence is longer than any run of backticks in it."""
    longest_run = max(map(len, _RUNS.findall(code)), default=0)
    fence = "`" * max(3, longest_run + 1)
    return f"{fence}js\n{code}\n{fence}"


# --- csv ---------------------------------------------------------------------------------------------------------

# `csv`: a table for people who sort and count, with a row for each memory, trigger and entry. It is not read back.

COLUMNS: Final = (
    *("family", "place", "id", "type", "project", "title", "text", "tags", "examples", "source"),
    *("confidence", "uses", "score", "created", "updated"),
)
_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r")
"""What a spreadsheet takes for a formula at the beginning of a cell: a text could call a program."""
Row = dict[str, object]


def write_csv(conversations: Iterable[Contents], entries: Iterable[tuple[str, Entry]]) -> bytes:
    """Write the table in UTF-8 with a byte order mark, by which spreadsheets know it."""
    text = io.StringIO()
    table = csv.DictWriter(text, COLUMNS, restval="")
    table.writeheader()
    for contents in conversations:
        for row in _conversation_rows(contents):
            table.writerow(_shown(row))
    for place, entry in entries:
        table.writerow(_shown(_entry_row(place, entry)))
    return text.getvalue().encode("utf-8-sig", "replace")


def _conversation_rows(contents: Contents) -> Iterator[Row]:
    """Yield a row of the table for each memory and each trigger of a conversation."""
    for memory in contents.short_term:
        yield {
            "family": "memories",
            "place": contents.conversation_id,
            "id": memory.id,
            "text": memory.text,
            "score": memory.score,
            "created": _time(memory.time_ms),
        }

    for trigger in contents.long_term:
        yield {
            "family": "triggers",
            "place": contents.conversation_id,
            "id": trigger.name,
            "title": trigger.name,
            "text": trigger.prompt,
            "source": trigger.trigger,
            "created": _time(trigger.created_ms),
            "updated": _time(trigger.updated_ms or 0),
        }


def _entry_row(place: str, entry: Entry) -> Row:
    """Return an entry of knowledge as a row of the table; its id is its key in a layer, elsewhere
    its ref."""
    return {
        "family": place.partition("/")[0],
        "place": place,
        "id": entry.key if place.startswith("layers/") else entry.ref,
        "type": entry.kind,
        "project": entry.project,
        "title": entry.title,
        "text": entry.body,
        "tags": ", ".join(entry.tags),
        "examples": "\n\n".join(entry.examples),
        "source": entry.source or "",
        "confidence": entry.confidence,
        "uses": entry.uses,
        "created": _time(entry.created_ms),
        "updated": _time(entry.updated_ms),
    }


def _time(time_ms: int) -> str:
    if not time_ms:
        return ""
    return iso(time_ms)


def _shown(row: Row) -> Row:
    return {name: _cell(value) for name, value in row.items()}


def _cell(value: object) -> object:
    """Put an apostrophe, which spreadsheets do not show, before a text that could be a formula."""
    if isinstance(value, str) and value.startswith(_FORMULA):
        return f"'{value}"
    return value
