"""Changes and commits to and from JSON: the items of a journal line (docs/reference/data-folder.md). Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from memory_server.conversations import changes, codec
from memory_server.conversations.changes import Change, Commit
from memory_server.kernel import times
from memory_server.kernel.json_text import Json, NotARecord, milliseconds

COMMIT_FORMAT = 1
"""The version of a commit's line."""


_Form = tuple[Callable[[Any], Any], Callable[[Any], Any]]
"""How a part of a change is written, and how it is read."""


def _plain(value: Any) -> Any:
    return value


_PLAIN, _NUMBER, _PLACES = (_plain, _plain), (_plain, float), (list, codec.places_of)
_SHORT, _LONG = (codec.short_term_json, codec.short_term), (codec.long_term_json, codec.long_term)
_LONG_OR_NONE = (
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
    "muted": (changes.Muted, {"id": _PLAIN, "before": _PLACES, "after": _PLACES}),
    "trigger_set": (changes.TriggerSet, {"memory": _LONG, "before": _LONG_OR_NONE}),
    "trigger_removed": (changes.TriggerRemoved, {"memory": _LONG, "reason": _PLAIN}),
    "cleaned_up": (changes.CleanedUp, {"at": _PLAIN, "before": _PLAIN}),
}
"""Each type of change by its name on disk: its class, and the keys of its fields in their order."""
_NAMES = {made: name for name, (made, _) in TYPES.items()}


def change_json(change: Change) -> Json:
    name = _NAMES[type(change)]
    values = (getattr(change, field) for field in change.__match_args__)
    keys = TYPES[name][1].items()
    return {"type": name} | {key: write(value) for (key, (write, _)), value in zip(keys, values, strict=True)}


def change(record: Json) -> Change:
    """A change from its JSON form. Raises NotARecord if it is of no known type or lacks a part."""
    try:
        made, keys = TYPES[record["type"]]
        known = {"reason": "deleted"} | record
        found: Change = made(*(read(known[key]) for key, (_, read) in keys.items()))
        return found
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise NotARecord("a change cannot be read: {reason}", repr(error)) from error


def commit_json(commit: Commit) -> Json:
    """The fields of a commit's line, without its checksum."""
    return {
        "v": COMMIT_FORMAT,
        "seq": commit.version,
        "at": times.iso(commit.at_ms),
        "by": commit.by,
        "changes": list(map(change_json, commit.changes)),
    }


def commit_of(line: Mapping[str, Any], most_changes: int | None = None) -> Commit:
    """A commit from the fields of its line, with at most so many changes. Raises NotARecord if it lacks a part,
    or one of its changes cannot be read."""
    try:
        records = line["changes"]
        changes = tuple(map(change, records[:most_changes]))
        more = len(records) - len(changes)
        return Commit(int(line["seq"]), milliseconds(line["at"]), str(line["by"]), changes, more)
    except (KeyError, TypeError) as error:
        raise NotARecord("a commit cannot be read: {reason}", repr(error)) from error
