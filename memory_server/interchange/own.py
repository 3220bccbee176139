"""Our own forms: `native` with everything, `pack` for trigger authors, and `markdown` for people.

`native` is JSON lines (conversations/record_lines.py); entries of knowledge follow the conversations as
`{"place":"refs/short-term","entry":{…}}`, without empty fields and numbers of a store. `pack` is a JSON array of
`{name, prompt, trigger, createdContext?}`, as `trigger-sandbox pack` uses it.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import tzinfo
from typing import Any

from memory_server.conversations import codec, record_lines
from memory_server.conversations.contents import Contents
from memory_server.conversations.model import DEFAULT_CONVERSATION
from memory_server.interchange.incoming import Incoming, NotThisFormat, Rows, array
from memory_server.kernel import json_text, times
from memory_server.kernel.files import MAX_FILE_BYTES
from memory_server.kernel.json_text import Json
from memory_server.knowledge.entry import Entry, difference
from sandbox import PackMemory, pack_text, usable
from sandbox.locale import _

COMPRESSED = b"\x1f\x8b"
_EMPTY = Entry("")
_RUNS = re.compile(r"`+")


def write_native(
    conversations: Iterable[Contents], now_ms: int, entries: Iterable[tuple[str, Entry]] = ()
) -> Iterator[bytes]:
    """`entries`: each with its place."""
    yield record_lines.first_line(now_ms)
    count = 0
    for contents in conversations:
        yield from record_lines.conversation_lines(contents)
        count += 1
    written = 0
    for place, entry in entries:
        live = replace(entry, archived_ms=None, reason=None, ref="" if place.startswith("layers/") else entry.ref)
        yield json_text.dumps({"place": place, "entry": difference(live, _EMPTY)}) + b"\n"
        written += 1
    yield json_text.dumps({"end": True, "conversations": count} | ({"entries": written} if written else {})) + b"\n"


def uncompressed(data: bytes) -> bytes:
    """The lines of a compressed `native` file; other compressed data are returned as they are. Raises NotThisFormat: it
    is damaged, or would be too large."""
    unpacking = zlib.decompressobj(wbits=31)  # gzip
    try:
        lines = unpacking.decompress(data, MAX_FILE_BYTES)
    except zlib.error as error:
        raise NotThisFormat("is compressed, and damaged: {reason}.", error) from error
    try:
        record_lines.check_first(json_text.loads(lines.partition(b"\n")[0]))
    except ValueError:
        return data
    if not unpacking.eof:
        raise NotThisFormat(
            "is compressed, and it is damaged or has more than {max_file:,} bytes; export it again, each --family into "
            "a file of its own.",
            MAX_FILE_BYTES,
        )
    return lines


def read_native(data: bytes, usual: str = "default") -> Incoming:
    """The memories of an export; `usual` is the conversation of those that name none. A bad line does not cost the
    others. Raises NotThisFormat."""
    found = Incoming()
    lines = found.lines(data)
    place, head = next(lines, ("", None))
    try:
        record_lines.check_first(head if place == "line 1" else None)
    except json_text.NotARecord as error:
        raise NotThisFormat("cannot be read: {reason}.", error) from error
    ended = False
    rest = _taking_entries(lines, found)
    for group in record_lines.groups(rest, lambda place, reason: found.skipped.append((place, reason))):
        if group.head is None or group.ends:
            stray = [*group.short, *group.long]
            found.skipped += [(place, _("it does not belong to a conversation")) for place, _one in stray]
            ended = ended or group.ends
            continue
        named = group.head["conversation"]
        if (name := found.conversation_of(named, usual, _("conversation {named!r}", named))) is not None:
            found.add(name, group.short, group.long, group.head.get("lastCleanup"))
    if not ended:
        found.notes.append(_("the file ends too early: memories at its end may be missing"))
    return found


def _taking_entries(lines: Rows, found: Incoming) -> Iterator[tuple[str, Any]]:
    """The lines without those of entries, which go into `found`."""
    for place, fields in lines:
        match fields:
            case {"place": str(of), "entry": dict(values)}:
                found.take(place, of, values)
            case _:
                yield place, fields


def write_pack(conversations: Iterable[Contents]) -> bytes:
    """The long-term memories as one pack, each with its conversation if that is not the shared one. A name that two
    conversations have is numbered."""
    taken: set[str] = set()
    rows: list[PackMemory] = []
    for contents in conversations:
        for memory in contents.long_term:
            record = codec.long_term_json(memory)
            name, number = memory.name, 2
            while name in taken:
                name, number = f"{memory.name} ({number})", number + 1
            taken.add(name)
            extra = {key: value for key, value in record.items() if key not in ("name", "prompt", "trigger")}
            context = str(extra.pop("createdContext"))
            if not memory.created_ms:
                del extra["createdAt"]  # it has no date
            if contents.conversation_id != DEFAULT_CONVERSATION:
                extra["conversation_id"] = contents.conversation_id
            rows.append(PackMemory(name, memory.prompt, memory.trigger, context, extra))
    return pack_text(rows).encode()


def read_pack(data: bytes, usual: str) -> Incoming:
    """The memories of a pack; `usual` is the conversation of those that name none. Raises NotThisFormat."""
    found = Incoming()
    try:
        pack, wrong = usable(array(data))
    except ValueError as error:
        raise NotThisFormat("cannot be used: {reason}.", error) from error
    if wrong:
        raise NotThisFormat("cannot be used: {reason}.", wrong[0])
    groups: dict[str, list[tuple[str, Json]]] = {}
    for memory in pack:
        record = _record(memory)
        name = found.conversation_of(record.pop("conversation_id", None), usual, memory.name)
        if name is not None:
            groups.setdefault(name, []).append((memory.name, record))
    found.conversations = [Contents(name, (), found.long_terms(rows)) for name, rows in groups.items()]
    return found


def _record(memory: PackMemory) -> Json:
    texts = {"name": memory.name, "prompt": memory.prompt, "trigger": memory.trigger}
    return {**memory.extra, **texts, "createdContext": memory.created_context}


def write_page(conversations: Iterable[Contents], zone: tzinfo | None = None) -> Iterator[bytes]:
    """A heading for each conversation, its memories by time, and its long-term memories with their triggers."""
    yield b"# Memories\n"
    for contents in conversations:
        yield f"\n## {_line(contents.conversation_id)}\n".encode()
        for memory in sorted(contents.short_term, key=lambda one: (one.time_ms, one.id)):
            pinned = _(", pinned") if memory.pinned else ""
            yield f"\n**{_moment(memory.time_ms, zone)}**{pinned}\n\n{_quoted(memory.text)}\n".encode()
        if contents.long_term:
            yield b"\n### Long-term\n"
        for kept in sorted(contents.long_term, key=lambda one: (one.created_ms, one.name)):
            text = f"\n**{_line(kept.name)}** ({_moment(kept.created_ms, zone)})\n\n{_quoted(kept.prompt)}\n"
            yield f"{text}\n{_fenced(kept.trigger)}\n".encode()


def _moment(time_ms: int, zone: tzinfo | None) -> str:
    return f"{times.local(time_ms, zone):%Y-%m-%d %H:%M}"


def _line(text: str) -> str:
    return " ".join(text.split())


def _quoted(text: str) -> str:
    return "\n".join(f"> {line}".rstrip() + "  " * bool(line) for line in text.splitlines() or [""])


def _fenced(code: str) -> str:
    """A block that `code` cannot end: its fence is longer than any run of backticks in it."""
    fence = "`" * max(3, 1 + max(map(len, _RUNS.findall(code)), default=0))
    return f"{fence}js\n{code}\n{fence}"
