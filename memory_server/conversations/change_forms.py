"""Changes and commits to and from JSON: the items of a journal line (docs/reference/data-folder.md). Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from memory_server.conversations import changes, codec
from memory_server.conversations.changes import Change, Commit
from memory_server.conversations.firing_forms import chat_state, chat_state_json
from memory_server.conversations.model import LongTermMemory
from memory_server.kernel import times
from memory_server.kernel.json_text import Json, NotARecord, milliseconds

COMMIT_FORMAT = 1
"""The version of a commit's line."""


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


def _long_term_or_none_json(memory: LongTermMemory | None) -> Json | None:
    return None if memory is None else codec.long_term_json(memory)


def _long_term_or_none(record: Json | None) -> LongTermMemory | None:
    return None if record is None else codec.long_term(record)


_PLAIN = _Form(_plain, _plain)
_NUMBER = _Form(_plain, float)
_PLACES = _Form(list, codec.places_of)
_SHORT = _Form(codec.short_term_json, codec.short_term)
_LONG = _Form(codec.long_term_json, codec.long_term)
_LONG_OR_NONE = _Form(_long_term_or_none_json, _long_term_or_none)
_CHAT = _Form(chat_state_json, chat_state)

TYPES: Mapping[str, ChangeType] = {
    "added": ChangeType(changes.Added, {"memory": _SHORT}),
    "reinforced": ChangeType(
        changes.Reinforced, {"id": _PLAIN, "before": _NUMBER, "after": _NUMBER}
    ),
    "edited": ChangeType(changes.Edited, {"memory": _SHORT, "before": _SHORT}),
    "forgotten": ChangeType(changes.Forgotten, {"memory": _SHORT, "reason": _PLAIN}),
    "restored": ChangeType(changes.Restored, {"memory": _SHORT, "reason": _PLAIN}),
    "pinned": ChangeType(changes.Pinned, {"id": _PLAIN}),
    "unpinned": ChangeType(changes.Unpinned, {"id": _PLAIN}),
    "muted": ChangeType(changes.Muted, {"id": _PLAIN, "before": _PLACES, "after": _PLACES}),
    "trigger_set": ChangeType(changes.TriggerSet, {"memory": _LONG, "before": _LONG_OR_NONE}),
    "trigger_removed": ChangeType(changes.TriggerRemoved, {"memory": _LONG, "reason": _PLAIN}),
    "chat_moved": ChangeType(
        changes.ChatMoved, {"session": _PLAIN, "before": _CHAT, "after": _CHAT}
    ),
    "cleaned_up": ChangeType(changes.CleanedUp, {"at": _PLAIN, "before": _PLAIN}),
}
"""Each type of change by its name on disk."""
_NAMES = {change_type.change_class: name for name, change_type in TYPES.items()}


def change_json(change: Change) -> Json:
    """The JSON form of a change."""
    name = _NAMES[type(change)]
    record: Json = {"type": name}
    for (key, form), field in zip(TYPES[name].keys.items(), change.__match_args__, strict=True):
        record[key] = form.write(getattr(change, field))
    return record


def change(record: Json) -> Change:
    """A change from its JSON form. Raises NotARecord if it is of no known type or lacks a part."""
    try:
        change_type = TYPES[record["type"]]
        complete = {"reason": "deleted"} | record
        values = [form.read(complete[key]) for key, form in change_type.keys.items()]
        read_change: Change = change_type.change_class(*values)
        return read_change
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
        return Commit(
            version=int(line["seq"]),
            at_ms=milliseconds(line["at"]),
            by=str(line["by"]),
            changes=changes,
            more=more,
        )
    except (KeyError, TypeError) as error:
        raise NotARecord("a commit cannot be read: {reason}", repr(error)) from error
