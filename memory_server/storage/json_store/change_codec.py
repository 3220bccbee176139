"""Changes and commits to and from JSON: the items of a journal line (docs/reference/data-folder.md). Knows no file."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from memory_server.core import changes, times
from memory_server.core.changes import Change, Commit
from memory_server.storage.json_store import codec
from memory_server.storage.json_store.codec import Json, NotARecord

FORMAT = 1
"""The version of a commit's line."""


class _Form(NamedTuple):
    """How a part of a change is written and read."""

    write: Callable[[Any], Any] = lambda value: value
    read: Callable[[Any], Any] = lambda value: value


_PLAIN = _Form()
_NUMBER = _Form(read=float)
_SHORT = _Form(codec.short_term_json, codec.short_term)
_LONG = _Form(codec.long_term_json, codec.long_term)
_LONG_OR_NONE = _Form(
    lambda memory: None if memory is None else codec.long_term_json(memory),
    lambda record: None if record is None else codec.long_term(record),
)

TYPES: Mapping[str, tuple[type, Mapping[str, _Form]]] = {
    "added": (changes.Added, {"memory": _SHORT}),
    "reinforced": (changes.Reinforced, {"id": _PLAIN, "before": _NUMBER, "after": _NUMBER}),
    "edited": (changes.Edited, {"memory": _SHORT, "before": _SHORT}),
    "forgotten": (changes.Forgotten, {"memory": _SHORT, "reason": _PLAIN}),
    "restored": (changes.Restored, {"memory": _SHORT, "reason": _PLAIN}),
    "pinned": (changes.Pinned, {"id": _PLAIN}),
    "unpinned": (changes.Unpinned, {"id": _PLAIN}),
    "trigger_set": (changes.TriggerSet, {"memory": _LONG, "before": _LONG_OR_NONE}),
    "trigger_removed": (changes.TriggerRemoved, {"memory": _LONG, "reason": _PLAIN}),
    "cleaned_up": (changes.CleanedUp, {"at": _PLAIN, "before": _PLAIN}),
}
"""Each type of change by its name on disk: its class, and the keys of its fields in their order."""
_NAMES = {made: name for name, (made, _) in TYPES.items()}


def change_json(change: Change) -> Json:
    """The JSON form of a change, as one item of a journal line."""
    name = _NAMES[type(change)]
    values = (getattr(change, field) for field in change.__match_args__)
    keys = TYPES[name][1].items()
    return {"type": name} | {key: form.write(value) for (key, form), value in zip(keys, values, strict=True)}


def change(record: Json) -> Change:
    """A change from its JSON form. Raises NotARecord if it is of no known type or lacks a part."""
    try:
        made, keys = TYPES[record["type"]]
        known = {"reason": "deleted"} | record
        found: Change = made(*(form.read(known[key]) for key, form in keys.items()))
        return found
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise NotARecord(f"a change cannot be read: {error!r}") from error


def commit_json(commit: Commit) -> Json:
    """The fields of a commit's line, without its checksum."""
    return {
        "v": FORMAT,
        "seq": commit.version,
        "at": times.iso(commit.at_ms),
        "by": commit.by,
        "changes": list(map(change_json, commit.changes)),
    }


def commit(line: Mapping[str, Any]) -> Commit:
    """A commit from the fields of its line. Raises NotARecord if it lacks a part, or one of its changes cannot be
    read."""
    try:
        return Commit(
            int(line["seq"]), codec.milliseconds(line["at"]), str(line["by"]), tuple(map(change, line["changes"]))
        )
    except (KeyError, TypeError) as error:
        raise NotARecord(f"a commit cannot be read: {error!r}") from error
