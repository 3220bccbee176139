"""Whole conversations as JSON lines: the body of a backup, and what `export --format native` writes.

    {"format":"memory-server","version":1,"created":"…"}
    {"conversation":"小明","lastCleanup":null,"shortTerm":2,"longTerm":1}
    {"short":{…}}                  as a record of short-term-memory.json
    {"long":{…}}                   as a record of long-term-memory.json
    {"end":true,"conversations":1}

The counts of a conversation say how many records follow it, so that a missing line is seen. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from memory_server.core import times
from memory_server.core.contents import Contents
from memory_server.core.errors import InvalidInput
from memory_server.core.model import LongTermMemory, ShortTermMemory, conversation_id_of, excess
from memory_server.core.phrases import shown
from memory_server.storage.json_store import codec

FORMAT = "memory-server"
VERSION = 1
"""The newest version that this code writes and understands."""
LONGEST_LINE = 64 * 1024 * 1024
"""Bytes of one line: four times the longest message that clients can send, whose text stands in a record twice."""


def first_line(created_ms: int) -> bytes:
    """The line that says what the others are."""
    return codec.dumps({"format": FORMAT, "version": VERSION, "created": times.iso(created_ms)}) + b"\n"


def conversation_lines(contents: Contents) -> Iterator[bytes]:
    """The lines of one conversation."""
    head = {
        "conversation": contents.conversation_id,
        "lastCleanup": contents.last_cleanup_ms,
        "shortTerm": len(contents.short_term),
        "longTerm": len(contents.long_term),
    }
    yield codec.dumps(head) + b"\n"
    for memory in contents.short_term:
        yield codec.dumps({"short": codec.short_term_json(memory)}) + b"\n"
    for kept in contents.long_term:
        yield codec.dumps({"long": codec.long_term_json(kept)}) + b"\n"


def last_line(conversations: int) -> bytes:
    """The line without which the others were cut off."""
    return codec.dumps({"end": True, "conversations": conversations}) + b"\n"


def parse(lines: Iterable[bytes]) -> Iterator[Contents]:
    """The conversations of such lines, the first line included. Reads one conversation at a time.

    Raises:
        NotARecord: with the number of the line that cannot be read.
    """
    begun: _Begun | None = None
    count, ended = 0, False
    for number, line in enumerate(lines, 1):
        try:
            fields = _object(line)
            if number == 1:
                check_first(fields)
            elif ended:
                raise codec.NotARecord("something follows the end")
            elif "conversation" in fields or fields.get("end") is True:
                if begun is not None:
                    yield begun.whole()
                begun = None
                ended = fields.get("end") is True
                if not ended:
                    begun, count = _begun(fields), count + 1
                elif fields.get("conversations") != count:
                    raise codec.NotARecord("conversations are missing before it")
            elif begun is not None:
                begun.add(fields)
            else:
                raise codec.NotARecord("a memory stands before the first conversation")
        except (codec.NotARecord, InvalidInput) as error:
            raise codec.NotARecord(f"line {number} cannot be read: {error}") from error
    if not ended:
        raise codec.NotARecord("it ends too early")


def check_first(fields: Any) -> None:
    """Whether the first line is one that this code understands.

    Raises:
        NotARecord: it is not, or of a newer version.
    """
    version = fields.get("version") if isinstance(fields, dict) and fields.get("format") == FORMAT else None
    if not isinstance(version, int):
        raise codec.NotARecord("it is not an export of memory-server")
    if version > VERSION:
        raise codec.NotARecord(f"it is of version {version}, of a newer memory-server; update this one")


@dataclass(slots=True)
class _Begun:
    """A conversation of which not all lines were read."""

    conversation_id: str
    last_cleanup_ms: int | None
    counts: tuple[Any, Any]
    short: list[codec.Json] = field(default_factory=list)
    long: list[codec.Json] = field(default_factory=list)

    def add(self, fields: codec.Json) -> None:
        match fields:
            case {"short": dict() as record}:
                self.short.append(record)
            case {"long": dict() as record}:
                self.long.append(record)
            case _:
                raise codec.NotARecord("it is neither a memory nor a conversation")

    def whole(self) -> Contents:
        if self.counts != (len(self.short), len(self.long)):
            raise codec.NotARecord(f"memories of the conversation {self.conversation_id} are missing before it")
        left_out: list[str] = []

        def may_be_stored(memory: ShortTermMemory | LongTermMemory) -> bool:
            if (reason := excess(memory)) is not None:
                name = memory.id if isinstance(memory, ShortTermMemory) else memory.name
                left_out.append(f"{shown(name)}: {reason}")
            return reason is None

        # Not as broken: an older version may have stored it, and the others must come back.
        short = tuple(filter(may_be_stored, codec.short_terms(self.short, self.conversation_id, ours=True)))
        long = tuple(filter(may_be_stored, codec.long_terms(self.long, ours=True)))
        return Contents(self.conversation_id, short, long, self.last_cleanup_ms, tuple(left_out))


def _begun(fields: codec.Json) -> _Begun:
    cleaned = fields.get("lastCleanup")
    known = cleaned if isinstance(cleaned, int) and not isinstance(cleaned, bool) else None
    name = conversation_id_of(str(fields["conversation"]))
    return _Begun(name, known, (fields.get("shortTerm"), fields.get("longTerm")))


def _object(line: bytes) -> codec.Json:
    try:
        fields = codec.loads(line)
    except ValueError as error:
        raise codec.NotARecord(f"it is not JSON: {error}") from error
    if not isinstance(fields, dict):
        raise codec.NotARecord("it is not a JSON object")
    return fields
