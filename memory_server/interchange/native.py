"""Our own form: everything, as JSON lines (backups/record_lines.py). A bad line does not cost the others."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

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


def read(data: bytes, usual: str = "default") -> Incoming:
    """The memories of an export; `usual` is the conversation of those that name none. Raises NotThisFormat."""
    found = Incoming()
    lines = found.lines(data)
    place, head = next(lines, ("", None))
    try:
        record_lines.check_first(head if place == "line 1" else None)
    except codec.NotARecord as error:
        raise NotThisFormat(f"cannot be read: {error}.") from error
    ended = False
    for group in record_lines.groups(lines, lambda place, reason: found.skipped.append((place, reason))):
        if group.head is None or group.ends:
            stray = [*group.short, *group.long]
            found.skipped += [(place, "it does not belong to a conversation") for place, _ in stray]
            ended = ended or group.ends
            continue
        named = group.head["conversation"]
        if (name := found.conversation_of(named, usual, f"conversation {named!r}")) is not None:
            found.add(name, group.short, group.long, group.head.get("lastCleanup"))
    if not ended:
        found.notes.append("the file ends too early: memories at its end may be missing")
    return found
