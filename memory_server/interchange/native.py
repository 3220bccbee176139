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
    lines = data.removeprefix(b"\xef\xbb\xbf").splitlines()
    try:
        record_lines.check_first(codec.loads(lines[0]) if lines else None)
    except ValueError as error:
        raise NotThisFormat(f"cannot be read: {error}.") from error
    head: dict[str, Any] | None = None
    rows: dict[str, list[tuple[str, Any]]] = {"short": [], "long": []}
    ended = False
    for number, line in enumerate(lines[1:], 2):
        place = f"line {number}"
        if not line.strip():
            continue
        try:
            fields = codec.loads(line)
        except ValueError as error:
            found.skipped.append((place, f"it is no JSON: {error}"))
            continue
        match fields:
            case {"conversation": _}:
                _finish(found, head, rows)
                head, rows = fields, {"short": [], "long": []}
            case {"short": record}:
                rows["short"].append((place, record))
            case {"long": record}:
                rows["long"].append((place, record))
            case {"end": True}:
                ended = True
            case _:
                found.skipped.append((place, "it is neither a memory nor a conversation"))
    _finish(found, head, rows)
    if not ended:
        found.notes.append("the file ends too early: memories at its end may be missing")
    return found


def _finish(found: Incoming, head: dict[str, Any] | None, rows: dict[str, list[tuple[str, Any]]]) -> None:
    if head is None:
        found.skipped += [(place, "it belongs to no conversation") for kind in rows.values() for place, _ in kind]
        return
    name = found.conversation_of(head["conversation"], "default", f"conversation {head['conversation']!r}")
    if name is not None:
        cleaned = head.get("lastCleanup")
        found.conversations.append(
            Contents(
                name,
                found.short_terms(rows["short"], name),
                found.long_terms(rows["long"]),
                cleaned if isinstance(cleaned, int) and not isinstance(cleaned, bool) else None,
            )
        )
