"""mcp-memory-service: what its export script writes, `{"export_metadata": {…}, "memories": [{"content": …}]}`, as its
versions 5 and 6 have it. Each memory becomes a note with its tags; times are seconds since 1970."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from languages import _
from memory_server.interchange.incoming import (
    Incoming,
    NotThisFormat,
    document,
    fields_of,
    list_of,
    milliseconds_of,
    numbered,
    text_in,
    texts,
)


def read(data: bytes, _usual: str = "") -> Incoming:
    """Read the memories of an export; one without text is skipped, and vectors are counted as lost. Raises
    NotThisFormat: it has none."""
    rows = list_of(fields_of(document(data)).get("memories"))
    if not rows:
        raise NotThisFormat(
            "holds no memories; write it with `scripts/sync/export_memories.py` of mcp-memory-service."
        )

    incoming = Incoming()
    for location, row in numbered(rows, "memory"):
        with incoming.record(location):
            content = text_in(row, "content")
            # Vectors of another model are of no use here; they are made again.
            incoming.lost[_("vectors of memories")] += "embedding" in row
            incoming.note(
                location,
                f"mcp-memory-service\n{row.get('content_hash') or content}",
                title="",
                body=content,
                tags=[*texts(row.get("tags")), *texts([row.get("memory_type") or ""])],
                metadata=fields_of(row.get("metadata")),
                created_ms=_time_of(row, "created_at"),
                updated_ms=_time_of(row, "updated_at"),
            )

    return incoming


def _time_of(row: Mapping[str, Any], name: str) -> int:
    """Return the time in a field, which has seconds since 1970, or in the field of the same time as ISO text; else 0."""
    return milliseconds_of(row.get(name), unit=1000) or milliseconds_of(row.get(f"{name}_iso"))
