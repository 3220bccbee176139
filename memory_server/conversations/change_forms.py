"""Changes and commits to and from JSON: the items of a journal line (docs/reference/data-folder.md). Pure."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from memory_server.conversations import changes, codec
from memory_server.conversations.changes import Change, Commit
from memory_server.conversations.model import UnusableRecord
from memory_server.kernel import times
from memory_server.kernel.json_text import Json, NotARecord, milliseconds
from memory_server.lore import (
    TriggerRemoved,
    TriggerSet,
    chat_state_json,
    chat_state_of,
)
from sandbox import WRONG_VALUES

COMMIT_FORMAT = 1
"""The version of a commit's line."""
_REASON_CHARS = 200
"""Characters that are shown of an error, which may quote a whole value."""


class _Form(NamedTuple):
    """How a part of a change is written, and how it is read."""

    write: Callable[[Any], Any]
    read: Callable[[Any], Any]


class ChangeType(NamedTuple):
    """A type of change on disk."""

    change_class: type
    keys: Mapping[str, _Form]
    """The keys of the fields of the class, in their order."""


def _plain(value: Any) -> Any:
    return value


def _text(value: Any) -> str:
    """Check a text of a change. Raises TypeError for any other value."""
    if not isinstance(value, str):
        raise TypeError("a text is expected")
    return value


def _number(value: Any) -> float:
    """Check a number of a change. Raises TypeError for any other value, ValueError if it is not finite, OverflowError
    if it is too large."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError("a number is expected")
    number = float(value)
    if not math.isfinite(number):
        raise ValueError("a finite number is expected")
    return number


def _or_none(convert: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Make a function that converts as `convert` does, and leaves None as it is."""
    return lambda value: None if value is None else convert(value)


_TEXT = _Form(_plain, _text)
_NUMBER = _Form(_plain, _number)
_TIME = _Form(_plain, milliseconds)
_TIME_OR_NONE = _Form(_plain, _or_none(milliseconds))
_PLACES = _Form(list, codec.places_of)
_SHORT = _Form(codec.short_term_json, codec.short_term)
_LONG = _Form(codec.long_term_json, codec.long_term)
_LONG_OR_NONE = _Form(_or_none(codec.long_term_json), _or_none(codec.long_term))
_CHAT = _Form(chat_state_json, chat_state_of)

TYPES: Mapping[str, ChangeType] = {
    "added": ChangeType(changes.Added, {"memory": _SHORT}),
    "reinforced": ChangeType(
        changes.Reinforced, {"id": _TEXT, "before": _NUMBER, "after": _NUMBER}
    ),
    "edited": ChangeType(changes.Edited, {"memory": _SHORT, "before": _SHORT}),
    "forgotten": ChangeType(changes.Forgotten, {"memory": _SHORT, "reason": _TEXT}),
    "restored": ChangeType(changes.Restored, {"memory": _SHORT, "reason": _TEXT}),
    "pinned": ChangeType(changes.Pinned, {"id": _TEXT}),
    "unpinned": ChangeType(changes.Unpinned, {"id": _TEXT}),
    "muted": ChangeType(changes.Muted, {"id": _TEXT, "before": _PLACES, "after": _PLACES}),
    "trigger_set": ChangeType(TriggerSet, {"memory": _LONG, "before": _LONG_OR_NONE}),
    "trigger_removed": ChangeType(TriggerRemoved, {"memory": _LONG, "reason": _TEXT}),
    "chat_moved": ChangeType(
        changes.ChatMoved, {"session": _TEXT, "before": _CHAT, "after": _CHAT}
    ),
    "cleaned_up": ChangeType(changes.CleanedUp, {"at": _TIME, "before": _TIME_OR_NONE}),
}
"""Each type of change by its name on disk."""
_NAMES = {change_type.change_class: name for name, change_type in TYPES.items()}


def change_json(change: Change) -> Json:
    """Write a change as JSON."""
    name = _NAMES[type(change)]
    record: Json = {"type": name}
    for (key, form), field in zip(TYPES[name].keys.items(), change.__match_args__, strict=True):
        record[key] = form.write(getattr(change, field))
    return record


def change(record: Json) -> Change:
    """Read a change from its JSON form. Raises NotARecord if its type is unknown or a part is missing."""
    try:
        change_type = TYPES[record["type"]]
        complete = {"reason": "deleted"} | record
        values = [form.read(complete[key]) for key, form in change_type.keys.items()]
        read_change: Change = change_type.change_class(*values)
        return read_change
    except WRONG_VALUES as error:
        reason = error.sentence if isinstance(error, NotARecord) else repr(error)[:_REASON_CHARS]
        raise NotARecord("a change cannot be read: {reason}", reason) from error


def is_of_newer_type(row: UnusableRecord) -> bool:
    """Return whether an unusable record is a change of a type that only a newer program knows."""
    return row.kind == "change" and _has_newer_type(row.record)


def has_newer_change(line: Mapping[str, Any]) -> bool:
    """Return whether a journal line has a change of a type that only a newer program knows."""
    records = line.get("changes")
    if not isinstance(records, list):
        records = [records]
    return any(map(_has_newer_type, records))


def _has_newer_type(record: Any) -> bool:
    match record:
        case {"type": str(name)}:
            return name not in TYPES
    return False


def changes_of(
    records: Any, most_changes: int | None = None, unusable: list[UnusableRecord] | None = None
) -> tuple[tuple[Change, ...], int]:
    """Read the first `most_changes` of a commit (all, if it is None), and count how many more it has. A record that
    cannot be read as a change is skipped, and added to `unusable` if that is given."""
    if not isinstance(records, list):
        records = [records]
    read_changes: list[Change] = []
    for record in records[:most_changes]:
        try:
            read_changes.append(change(record))
        except NotARecord as error:
            if unusable is not None:
                unusable.append(UnusableRecord("change", record, error))
    more = len(records) - len(records[:most_changes])
    return tuple(read_changes), more


def commit_json(commit: Commit) -> Json:
    """Write the fields of a commit's line, without its checksum."""
    return {
        "v": COMMIT_FORMAT,
        "seq": commit.version,
        "at": times.iso(commit.at_ms),
        "by": commit.by,
        "changes": list(map(change_json, commit.changes)),
    }


def commit_of(
    line: Mapping[str, Any],
    most_changes: int | None = None,
    unusable: list[UnusableRecord] | None = None,
) -> Commit:
    """Read a commit from the fields of its line, with changes as in `changes_of`. A time that cannot be read becomes
    0. Raises NotARecord if the version or the changes are missing."""
    at_ms = 0
    with contextlib.suppress(NotARecord):
        at_ms = milliseconds(line.get("at"))
    try:
        version = line["seq"]
        records = line["changes"]
    except KeyError as error:
        raise NotARecord("a commit cannot be read: {reason}", repr(error)) from error
    changes, more = changes_of(records, most_changes, unusable)
    return Commit(version, at_ms, by=str(line.get("by")), changes=changes, more=more)
