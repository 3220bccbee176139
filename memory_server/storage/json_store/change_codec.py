"""Changes and commits to and from JSON: the items of a journal line (docs/reference/data-folder.md). Knows no file."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, assert_never, cast

from memory_server.core import times
from memory_server.core.changes import (
    Added,
    Change,
    CleanedUp,
    Commit,
    Edited,
    ForgetReason,
    Forgotten,
    Pinned,
    Reinforced,
    Restored,
    TriggerRemoved,
    TriggerSet,
    Unpinned,
)
from memory_server.storage.json_store.codec import (
    Json,
    NotARecord,
    long_term,
    long_term_json,
    milliseconds,
    short_term,
    short_term_json,
)

FORMAT = 1
"""The version of a commit's line."""


def change_json(change: Change) -> Json:
    """The JSON form of a change, as one item of a journal line."""
    match change:
        case Added(memory):
            return {"type": "added", "memory": short_term_json(memory)}
        case Reinforced(id=memory_id, before=before, after=after):
            return {"type": "reinforced", "id": memory_id, "before": before, "after": after}
        case Edited(memory, former):
            return {"type": "edited", "memory": short_term_json(memory), "before": short_term_json(former)}
        case Forgotten(memory, reason):
            return {"type": "forgotten", "memory": short_term_json(memory), "reason": reason}
        case Restored(memory, reason):
            return {"type": "restored", "memory": short_term_json(memory), "reason": reason}
        case Pinned(id=memory_id):
            return {"type": "pinned", "id": memory_id}
        case Unpinned(id=memory_id):
            return {"type": "unpinned", "id": memory_id}
        case TriggerSet(memory, previous):
            known = None if previous is None else long_term_json(previous)
            return {"type": "trigger_set", "memory": long_term_json(memory), "before": known}
        case TriggerRemoved(memory, reason):
            return {"type": "trigger_removed", "memory": long_term_json(memory), "reason": reason}
        case CleanedUp(at_ms, before_ms):
            return {"type": "cleaned_up", "at": at_ms, "before": before_ms}
        case _:
            assert_never(change)


def _trigger_set(record: Json) -> TriggerSet:
    before = record["before"]
    return TriggerSet(long_term(record["memory"]), None if before is None else long_term(before))


def _reason_of(record: Mapping[str, Any]) -> ForgetReason:
    return cast(ForgetReason, record.get("reason", "deleted"))


_CHANGES: Mapping[str, Callable[[Json], Change]] = {
    "added": lambda r: Added(short_term(r["memory"], "")),
    "reinforced": lambda r: Reinforced(r["id"], float(r["before"]), float(r["after"])),
    "edited": lambda r: Edited(short_term(r["memory"], ""), short_term(r["before"], "")),
    "forgotten": lambda r: Forgotten(short_term(r["memory"], ""), _reason_of(r)),
    "restored": lambda r: Restored(short_term(r["memory"], ""), _reason_of(r)),
    "pinned": lambda r: Pinned(r["id"]),
    "unpinned": lambda r: Unpinned(r["id"]),
    "trigger_set": _trigger_set,
    "trigger_removed": lambda r: TriggerRemoved(long_term(r["memory"]), _reason_of(r)),
    "cleaned_up": lambda r: CleanedUp(r["at"], r["before"]),
}


def change(record: Json) -> Change:
    """A change from its JSON form.

    Raises:
        NotARecord: it is of no known type or lacks a part.
    """
    try:
        return _CHANGES[record["type"]](record)
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise NotARecord(f"a change cannot be read: {error!r}") from error


def changes_json(changes: Sequence[Change]) -> list[Json]:
    """The JSON forms of the changes of one commit."""
    return [change_json(item) for item in changes]


def commit_json(commit: Commit) -> Json:
    """The fields of a commit's line, without its checksum."""
    return {
        "v": FORMAT,
        "seq": commit.version,
        "at": times.iso(commit.at_ms),
        "by": commit.by,
        "changes": changes_json(commit.changes),
    }


def commit(line: Mapping[str, Any]) -> Commit:
    """A commit from the fields of its line.

    Raises:
        NotARecord: it lacks a part, or one of its changes cannot be read.
    """
    try:
        changes = tuple(change(record) for record in line["changes"])
        return Commit(int(line["seq"]), milliseconds(line["at"]), str(line["by"]), changes)
    except (KeyError, TypeError) as error:
        raise NotARecord(f"a commit cannot be read: {error!r}") from error
