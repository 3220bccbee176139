"""Taking an operation on entries back: decided on the entries as they are now. Pure."""

from __future__ import annotations

from memory_server.core.errors import InvalidInput
from memory_server.knowledge.entry import Entry, archived, change_id, changed_by_json
from memory_server.knowledge.ports import Held


def taking_back(held: Held, seq: int, now_ms: int) -> tuple[Entry, ...]:
    """The changes that take the operation `seq` back. What is already gone, or already back, stays as it is.

    Raises:
        InvalidInput: an entry was changed since, its former text is no longer kept, or nothing is left to take back.
    """
    made: list[Entry] = []
    for former in reversed(held.former(seq)):
        entry = held.get(id=former.entry_id, archived=None)
        if entry is None or (former.before is None and entry.archived_ms is not None):
            continue
        if entry.version != former.after_version:
            raise InvalidInput(
                f"What {change_id(seq)} changed was changed again after it; undo the later change first, which "
                "`memory-server knowledge history` lists."
            )
        if former.before is None:
            made.append(archived(entry, "undone", now_ms))
        elif former.before:
            made.append(changed_by_json(entry, former.before))
        else:
            raise InvalidInput(f"{change_id(seq)} is too long ago: what was there before it is not kept any more.")
    if not made:
        raise InvalidInput(
            f"Nothing of {change_id(seq)} is left to undo; `memory-server knowledge history` lists more."
        )
    return tuple(made)
