"""The stores that two of the programs had from which ours began: `memory.db` with notes (seed 000) and `memory.jsonl`
with refs (seed 004), a log of what was added, updated and deleted. Their fields are ours."""

from __future__ import annotations

from typing import Any

from languages import _
from memory_server.interchange.incoming import (
    EMPTY_OR_PRIVATE,
    Incoming,
    Tables,
    fields_of,
    is_uuid,
    milliseconds_of,
    public_value,
    share_of,
    texts,
)
from memory_server.kernel.json_text import Fields
from memory_server.kernel.private import without_private

TABLES = {
    "memories": (
        "id",
        "type",
        "topic",
        "tags",
        "content",
        "examples",
        "reference_count",
        "confidence",
        "created_at",
        *("last_accessed", "source", "deleted"),
    ),
}


def read_notes(tables: Tables, _usual: str = "") -> Incoming:
    """Read the notes of the table `memories`; the ones that were deleted there are only counted."""
    incoming = Incoming()
    for number, row in enumerate(tables.get("memories", ()), 1):
        if row.get("deleted"):
            incoming.lost[_("memories that are archived or deleted there")] += 1
            continue
        location = _("memory {number}", number)
        with incoming.record(location):
            _note(incoming, location, row)
    return incoming


def _note(incoming: Incoming, location: str, row: Fields) -> None:
    """Add a row of `memory.db` as a note. Its id stays if it is a UUID; its confidence is 1 if it
    has none."""
    row_id = str(row.get("id"))
    confidence = share_of(row.get("confidence"))
    incoming.note(
        location,
        row_id if is_uuid(row_id) else f"memory.db\n{row_id}",
        title=str(row.get("topic") or ""),
        body=str(row.get("content") or ""),
        key=True,
        kind=str(row.get("type") or "domain"),
        tags=texts(row.get("tags")),
        examples=texts(row.get("examples")),
        confidence=1.0 if confidence is None else confidence,
        uses=_count_of(row.get("reference_count")),
        created_ms=milliseconds_of(row.get("created_at"), unit=1000),
        accessed_ms=milliseconds_of(row.get("last_accessed"), unit=1000) or None,
        source=_text_or_none(row.get("source")),
    )


def _count_of(value: Any) -> int:
    if not isinstance(value, int) or value < 0:
        return 0
    return value


def _text_or_none(value: Any) -> str | None:
    if not isinstance(value, str):
        return None
    return value


def read_refs(data: bytes, _usual: str = "") -> Incoming:
    """Read the refs that the log leaves, each with its id. A line may also be a ref itself."""
    incoming = Incoming()
    for name, entry in _refs_of_log(incoming, data).items():
        with incoming.record(name):
            _take_ref(incoming, name, entry)
    return incoming


def _take_ref(incoming: Incoming, name: str, entry: Fields) -> None:
    """Add a text of `memory.jsonl` as a ref of its namespace, by default `short-term`. An empty or private one is
    counted as lost; any that cannot be stored, such as with too many tags, is skipped."""
    body = without_private(str(entry.get("content") or ""))
    if not body.strip():
        incoming.lost[EMPTY_OR_PRIVATE] += 1
        return

    values = {
        "ref": name,
        "title": without_private(str(entry.get("summary") or "")),
        "body": body,
        "tags": public_value(texts(entry.get("tags"))),
        "created_ms": milliseconds_of(entry.get("createdAt")),
        "updated_ms": milliseconds_of(entry.get("updatedAt") or entry.get("createdAt")),
        "expires_ms": milliseconds_of(entry.get("expiresAt")) or None,
        "importance": share_of(entry.get("importance")),
        "source": _text_or_none(entry.get("source")),
        "metadata": public_value(fields_of(entry.get("metadata"))),
    }
    namespace = entry.get("namespace") or "short-term"
    incoming.take(name, f"refs/{namespace}", values)


def _refs_of_log(incoming: Incoming, data: bytes) -> dict[str, Fields]:
    """Return the refs that are left at the end of the log, by their ids. A deleted ref is counted,
    and a line that is not a ref is skipped."""
    refs: dict[str, Fields] = {}
    for location, row in incoming.lines(data):
        match row:
            case {"op": "delete"}:
                deleted = refs.pop(str(row.get("id")), None)
                incoming.lost[_("memories that are archived or deleted there")] += (
                    deleted is not None
                )
            case {"entry": {"id": str(ref_id)} as entry} if ref_id:
                refs[ref_id] = entry
            case {"id": str(ref_id), "content": _content} if ref_id and "entry" not in row:
                refs[ref_id] = row
            case _:
                incoming.skipped.append((location, _("it is not a ref")))
    return refs
