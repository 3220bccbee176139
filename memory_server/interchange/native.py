"""Our own form: everything, as JSON lines (backups/record_lines.py). Read line by line: a bad one costs only itself."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from memory_server.core.contents import Contents
from memory_server.interchange.incoming import Incoming, NotThisFormat
from memory_server.storage.backups import record_lines
from memory_server.storage.json_store import codec


def write(conversations: Iterable[Contents], now_ms: int) -> Iterator[bytes]:
    """The lines of an export."""
    yield record_lines.first_line(now_ms)
    count = 0
    for contents in conversations:
        yield from record_lines.conversation_lines(contents)
        count += 1
    yield record_lines.last_line(count)


def read(data: bytes) -> Incoming:
    """The memories of an export. Raises NotThisFormat."""
    found = Incoming()
    lines = found.lines(data)
    place, head = next(lines, ("", None))
    try:
        record_lines.check_first(head if place == "line 1" else None)
    except codec.NotARecord as error:
        raise NotThisFormat(f"cannot be read: {error}.") from error
    conversation: codec.Json | None = None
    rows: dict[str, list[tuple[str, Any]]] = {"short": [], "long": []}
    ended = False

    def finish() -> None:
        if conversation is None:
            found.skipped.extend(
                (place, "it belongs to no conversation") for kind in rows.values() for place, _ in kind
            )
            return
        named = conversation["conversation"]
        if (name := found.conversation_of(named, "default", f"conversation {named!r}")) is not None:
            found.add(name, rows["short"], rows["long"], conversation.get("lastCleanup"))

    for place, fields in lines:
        match fields:
            case {"conversation": _}:
                finish()
                conversation, rows = fields, {"short": [], "long": []}
            case {"short": record}:
                rows["short"].append((place, record))
            case {"long": record}:
                rows["long"].append((place, record))
            case {"end": True}:
                ended = True
            case _:
                found.skipped.append((place, "it is neither a memory nor a conversation"))
    finish()
    if not ended:
        found.notes.append("the file ends too early: memories at its end may be missing")
    return found
