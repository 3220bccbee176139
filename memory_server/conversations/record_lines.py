"""Whole conversations as JSON lines: the body of a backup, and what `export --format native` writes.

    {"format":"memory-server","version":1,"created":"…"}
    {"conversation":"小明","lastCleanup":null,"shortTerm":2,"longTerm":1}
    {"short":{…}}                  as a record of short-term-memory.json
    {"long":{…}}                   as a record of long-term-memory.json
    {"end":true,"conversations":1}

The counts of a conversation say how many records follow it, which shows that a line is missing. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import field
from typing import Any

from languages import _
from memory_server.conversations import codec
from memory_server.conversations.contents import Contents
from memory_server.conversations.model import (
    UnusableRecord,
    conversation_id_of,
)
from memory_server.kernel import json_text, times
from memory_server.kernel.errors import InvalidInput
from memory_server.kernel.json_text import Json
from memory_server.kernel.text import shown
from memory_server.kernel.values import dataclass

FORMAT = "memory-server"
VERSION = 1
"""The newest version that this code writes and understands."""
HEAD_START = b'{"conversation"'
"""With what the first line of a conversation begins."""
LONGEST_LINE = 64 * 1024 * 1024
"""Bytes of a line: four times the longest message that clients can send, because a record holds its text twice."""


def first_line(created_ms: int) -> bytes:
    """Write the first line, which names the format and its version."""
    return (
        json_text.dumps({"format": FORMAT, "version": VERSION, "created": times.iso(created_ms)})
        + b"\n"
    )


def conversation_lines(contents: Contents) -> Iterator[bytes]:
    """Yield a conversation as lines of JSON: its id and counts, then its memories, its triggers,
    and the records that cannot be used."""
    unusable = contents.unusable
    head = {
        "conversation": contents.conversation_id,
        "lastCleanup": contents.last_cleanup_ms,
        "shortTerm": len(contents.short_term) + sum(row.kind == "short" for row in unusable),
        "longTerm": len(contents.long_term) + sum(row.kind == "long" for row in unusable),
    }
    yield json_text.dumps(head) + b"\n"
    for memory in contents.short_term:
        yield json_text.dumps({"short": codec.short_term_json(memory)}) + b"\n"
    for trigger in contents.long_term:
        yield json_text.dumps({"long": codec.long_term_json(trigger)}) + b"\n"
    for row in unusable:
        yield json_text.dumps({row.kind: row.record}) + b"\n"


def last_line(conversations: int) -> bytes:
    """Write the last line; if it is missing, the file was cut off."""
    return json_text.dumps({"end": True, "conversations": conversations}) + b"\n"


@dataclass(slots=True)
class Group:
    """The lines of a conversation: its first line (None if records come before any), and the records, each with its
    line."""

    head: Json | None = None
    short: list[tuple[str, Json]] = field(default_factory=list)
    long: list[tuple[str, Json]] = field(default_factory=list)

    @property
    def ends(self) -> bool:
        """Whether its first line is the end of the file, so that nothing may follow."""
        return self.head is not None and "conversation" not in self.head


def groups(
    lines: Iterable[tuple[str, Any]], wrong: Callable[[str, str], object]
) -> Iterator[Group]:
    """Group such lines by conversation, each line given with its place, and yield the end as a group too; without the
    first line of the file. Calls `wrong` with the place of a line of no known kind, and the reason."""
    group = Group()
    for location, fields in lines:
        match fields:
            case {"conversation": _} | {"end": True}:
                yield group
                group = Group(fields)
            case {"short": record}:
                group.short.append((location, record))
            case {"long": record}:
                group.long.append((location, record))
            case _:
                wrong(location, _("it is neither a memory nor a conversation"))
    yield group


def parse(lines: Iterable[bytes]) -> Iterator[Contents]:
    """Yield the conversations of such lines, including the first line. Reads one conversation at a time. Raises
    NotARecord with the number of the line that cannot be read."""
    location = "line 1"
    count = 0
    has_ended = False

    def read() -> Iterator[tuple[str, Json]]:
        nonlocal location
        for number, line in enumerate(lines, 1):
            location = _("line {number}", number)
            yield location, json_text.load_object(line)

    def refuse(_: str, reason: str) -> None:
        raise json_text.NotARecord(reason)

    try:
        rows = read()
        _location, first_fields = next(rows, ("", None))
        check_first(first_fields)
        for group in groups(rows, refuse):
            # The end is a group as well, so that a cut file is not taken for a whole one.
            if has_ended or (group.ends and (group.short or group.long)):
                raise json_text.NotARecord("something follows the end")
            if group.head is None:
                if group.short or group.long:
                    raise json_text.NotARecord("a memory stands before the first conversation")
            elif not group.ends:
                yield _contents(group, group.head)
                count += 1
            elif (
                type(group.head.get("conversations")) is int
                and group.head["conversations"] != count
            ):
                raise json_text.NotARecord("conversations are missing before it")

            has_ended = group.ends
    except (json_text.NotARecord, InvalidInput) as error:
        raise json_text.NotARecord("{name} cannot be read: {reason}", location, error) from error

    # The last line is missing, so the writing of the file was cut off.
    if not has_ended:
        raise json_text.NotARecord("it ends too early")


def _contents(group: Group, head: Json) -> Contents:
    """Return the conversation of these lines. A memory that cannot be used, or is too large because
    an older version stored it, is kept as unusable, so that the others come back. Raises NotARecord
    if the number of memories is not that of the head."""
    for name, rows in (("shortTerm", group.short), ("longTerm", group.long)):
        count = head.get(name, 0)
        if type(count) is int and count != len(rows):
            raise json_text.NotARecord(
                "memories of the conversation {conversation} are missing before it",
                head["conversation"],
            )

    conversation_id = _conversation_named(group, head)
    unusable: list[UnusableRecord] = []
    short_records = (record for _place, record in group.short)
    long_records = (record for _place, record in group.long)

    return Contents(
        conversation_id,
        short_term=tuple(codec.short_terms(short_records, conversation_id, unusable=unusable)),
        long_term=tuple(codec.long_terms(long_records, unusable=unusable)),
        last_cleanup_ms=codec.cleanup_time(head.get("lastCleanup")),
        unusable=tuple(unusable),
        left_out=tuple(map(_left_out, unusable)),
    )


def _conversation_named(group: Group, head: Json) -> str:
    """Return the id of a conversation, or the id in its memories if its own line has none. Raises InvalidInput if
    neither has a valid id."""
    records = [record for _place, record in group.short if isinstance(record, dict)]
    ids = [head["conversation"], *(record.get("conversation_id") for record in records)]
    texts = [named for named in ids if isinstance(named, str)]
    return conversation_id_of(texts[0] if texts else str(head["conversation"]))


def _left_out(row: UnusableRecord) -> str:
    """Why a record is not brought back."""
    reason = row.reason.sentence.named_values.get("reason", row.reason)
    name = _("a memory") if row.key is None else row.key
    return _("{about}: {what}", shown(name), reason)


def check_first(fields: Any) -> None:
    """Check the first line. Raises NotARecord if it is not ours, or is of a newer version."""
    version: Any = None
    if isinstance(fields, dict) and fields.get("format") == FORMAT:
        version = fields.get("version")
    if not isinstance(version, int):
        raise json_text.NotARecord("it is not an export of memory-server")
    if version > VERSION:
        raise json_text.NotARecord(
            "it is of version {version}, of a newer memory-server; update this one", version
        )
