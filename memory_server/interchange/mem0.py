"""mem0: what its `get_all` gives, or a list of the same, as JSON (seen with mem0ai 2.2).

    {"results": [{"id": …, "memory": "likes oolong", "user_id": "ann", "created_at": …, "metadata": {…}}]}

The facts of one user become notes, which come unasked. But notes are for everybody who uses this memory: where a file
has several users, the facts of each are kept apart under the name of the user (the toolset `sessions`).
"""

from __future__ import annotations

from typing import Any

from memory_server.interchange.incoming import (
    Incoming,
    NotThisFormat,
    document,
    fields_of,
    milliseconds_of,
    numbered,
    texts,
)
from sandbox.locale import _

_OWNERS = ("user_id", "agent_id", "run_id", "actor_id")


def read(data: bytes) -> Incoming:
    """The facts of a file. Raises NotThisFormat."""
    whole = document(data)
    rows = whole.get("results") if isinstance(whole, dict) else whole
    if not isinstance(rows, list):
        raise NotThisFormat("has no `results`; write what mem0's get_all gives as JSON.")
    found = Incoming()
    users = {row["user_id"] for row in rows if isinstance(row, dict) and isinstance(row.get("user_id"), str)}
    for place, row in numbered(rows, "memory"):
        if not isinstance(row, dict) or not isinstance(text := row.get("memory"), str):
            found.skipped.append((place, _("it has no text in `memory`")))
            continue
        user = row.get("user_id") if len(users) > 1 else None
        of = f"sessions/{user}" if isinstance(user, str) and user else "notes"
        about = {name: row[name] for name in _OWNERS if isinstance(row.get(name), str)}
        more: dict[str, Any] = {name: about.get(name) for name in ("agent_id", "run_id")} if of != "notes" else {}
        found.note(
            place,
            f"mem0\n{of}\n{row.get('id')}",
            "",
            text,
            of,
            kind="domain" if of == "notes" else "",
            tags=texts(row.get("categories")),
            metadata=fields_of(row.get("metadata")) | about,
            created_ms=milliseconds_of(row.get("created_at")),
            updated_ms=milliseconds_of(row.get("updated_at")),
            expires_ms=milliseconds_of(row.get("expiration_date")) or None,
            **more,
        )
    if not found.count and not found.skipped:
        raise NotThisFormat("holds no memories; mem0's get_all gives 20 unless `top_k` says more.")
    return found
