"""The stores that two of the programs had from which ours began: `memory.db` with notes (seed 000) and `memory.jsonl`
with refs (seed 004), a log of what was added, updated and deleted. Their fields are ours."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from memory_server.interchange.incoming import (
    EMPTY_OR_PRIVATE,
    Incoming,
    Tables,
    fields_of,
    is_uuid,
    milliseconds_of,
    public_value,
    texts,
)
from memory_server.kernel.private import without_private
from sandbox.locale import _

TABLES = {
    "memories": (
        *("id", "type", "topic", "tags", "content", "examples", "reference_count", "confidence", "created_at"),
        *("last_accessed", "source", "deleted"),
    ),
}


def read_notes(tables: Tables) -> Incoming:
    """The notes of the table `memories`."""
    found = Incoming()
    for number, row in enumerate(tables.get("memories", ()), 1):
        if row.get("deleted"):
            found.lost[_("memories that are archived or deleted there")] += 1
            continue
        made_ms, used_ms = (milliseconds_of(row.get(name), unit=1000) for name in ("created_at", "last_accessed"))
        certain, uses, source = row.get("confidence"), row.get("reference_count"), row.get("source")
        identity = str(row.get("id"))
        found.note(
            _("memory {number}", number),
            identity if is_uuid(identity) else f"memory.db\n{identity}",
            str(row.get("topic") or ""),
            str(row.get("content") or ""),
            key=True,
            kind=str(row.get("type") or "domain"),
            tags=texts(row.get("tags")),
            examples=texts(row.get("examples")),
            confidence=certain if isinstance(certain, int | float) and 0 <= certain <= 1 else 1.0,
            uses=uses if isinstance(uses, int) and uses > 0 else 0,
            created_ms=made_ms,
            accessed_ms=used_ms or None,
            source=source if isinstance(source, str) else None,
        )
    return found


def read_refs(data: bytes) -> Incoming:
    """The refs that the log leaves, each with its id. A line may also be a ref itself."""
    found = Incoming()
    live: dict[str, Mapping[str, Any]] = {}
    for place, row in found.lines(data):
        entry = row.get("entry", row if "content" in row else None) if isinstance(row, dict) else None
        if isinstance(row, dict) and row.get("op") == "delete":
            found.lost[_("memories that are archived or deleted there")] += (
                live.pop(str(row.get("id")), None) is not None
            )
        elif isinstance(entry, dict) and isinstance(entry.get("id"), str) and entry["id"]:
            live[entry["id"]] = entry
        else:
            found.skipped.append((place, _("it is not a ref")))
    for name, entry in live.items():
        importance, source = entry.get("importance"), entry.get("source")
        body = without_private(str(entry.get("content") or ""))
        if not body.strip():
            found.lost[EMPTY_OR_PRIVATE] += 1
            continue
        values = {
            "ref": name,
            "title": without_private(str(entry.get("summary") or "")),
            "body": body,
            "tags": public_value(texts(entry.get("tags"))),
            "created_ms": milliseconds_of(entry.get("createdAt")),
            "updated_ms": milliseconds_of(entry.get("updatedAt") or entry.get("createdAt")),
            "expires_ms": milliseconds_of(entry.get("expiresAt")) or None,
            "importance": importance if isinstance(importance, int | float) and 0 <= importance <= 1 else None,
            "source": source if isinstance(source, str) else None,
            "metadata": public_value(fields_of(entry.get("metadata"))),
        }
        found.take(name, f"refs/{entry.get('namespace') or 'short-term'}", values)
    return found
