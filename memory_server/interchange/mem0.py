"""mem0: what its `get_all` gives, or a list of the same, as JSON (seen with mem0ai 2.2).

    {"results": [{"id": …, "memory": "likes oolong", "user_id": "ann", "created_at": …, "metadata": {…}}]}

and the export of OpenMemory, mem0's local server: a zip with memories.json, which has the same facts under other
names, and memories.jsonl.gz with them again (openmemory/api/app/routers/backup.py there).

The facts of a single user become notes, which come unasked. But notes are for all who use this memory: where a file
has several users, the facts of each are kept apart under the name of the user (the toolset `sessions`)."""

from __future__ import annotations

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
from memory_server.kernel.json_text import Fields, Json, objects_in

_OWNERS = ("user_id", "agent_id", "run_id", "actor_id")


def read(data: bytes, _usual: str = "") -> Incoming:
    """Read the facts of a file of mem0 or OpenMemory. A fact without text is skipped. Raises
    NotThisFormat if the file has no list of them, or an empty one."""
    export = document(data)
    incoming = Incoming()
    rows: Any
    if is_of_openmemory(export):
        rows = _of_openmemory(export, incoming)
    else:
        rows = export.get("results") if isinstance(export, dict) else export

    if not isinstance(rows, list):
        raise NotThisFormat("has no `results`; save the answer of mem0's get_all as JSON.")

    # With several users, a note would mix their facts: then each has a space of its own.
    has_several_users = len(_users_of(rows)) > 1
    for location, row in numbered(rows, "memory"):
        with incoming.record(location):
            text = text_in(row, "memory")
            _add_fact(incoming, location, row, text=text, has_several_users=has_several_users)

    if not incoming.count and not incoming.skipped and not incoming.lost:
        raise NotThisFormat("holds no memories; mem0's get_all gives 20 unless `top_k` says more.")

    return incoming


def _add_fact(
    incoming: Incoming, location: str, row: Json, *, text: str, has_several_users: bool
) -> None:
    """Add the fact in `row` to `incoming`: as a note, or, if the file has several users, in the
    sessions of its user. An empty or private text is counted as lost; any that cannot be stored is
    skipped."""
    owners = {name: row[name] for name in _OWNERS if isinstance(row.get(name), str)}
    # Facts of the only user are for all who use this memory.
    knowledge_place = "notes"
    fields: Json = {"kind": "domain"}
    if has_several_users and owners.get("user_id"):
        knowledge_place = f"sessions/{owners['user_id']}"
        fields = {
            "kind": "",
            "agent_id": owners.get("agent_id"),
            "run_id": owners.get("run_id"),
        }

    incoming.note(
        location,
        f"mem0\n{knowledge_place}\n{row.get('id')}",
        title="",
        body=text,
        knowledge_place=knowledge_place,
        tags=texts(row.get("categories")),
        metadata=fields_of(row.get("metadata")) | owners,
        created_ms=milliseconds_of(row.get("created_at")),
        updated_ms=milliseconds_of(row.get("updated_at")),
        expires_ms=milliseconds_of(row.get("expiration_date")) or None,
        **fields,
    )


def is_of_openmemory(value: Any) -> bool:
    """Tell whether this is `memories.json` of an export of OpenMemory."""
    return isinstance(value, dict) and {"memories", "apps", "export_meta"} <= value.keys()


def _of_openmemory(export: Fields, incoming: Incoming) -> list[Any]:
    """Return the facts of such an export as `get_all` gives them. Facts that were deleted or archived there are
    counted."""
    names = {
        str(category.get("id")): category.get("name")
        for category in objects_in(list_of(export.get("categories")))
    }
    rows: list[Any] = []
    for memory in list_of(export.get("memories")):
        row = fields_of(memory)
        state = row.get("state")
        if state in ("deleted", "archived") or row.get("deleted_at"):
            incoming.lost[_("memories that were deleted or archived there")] += 1
            continue
        categories = [names.get(str(name)) for name in list_of(row.get("category_ids"))]
        rows.append({**row, "memory": row.get("content"), "categories": categories})
    return rows


def _users_of(rows: list[Any]) -> set[str]:
    users: set[str] = set()
    for row in rows:
        user = row.get("user_id") if isinstance(row, dict) else None
        if isinstance(user, str):
            users.add(user)
    return users
