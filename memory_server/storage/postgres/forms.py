"""Commits and snapshots of conversations as PostgreSQL keeps them."""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from typing import Any

from languages import Sentence
from memory_server.conversations import codec
from memory_server.conversations.change_forms import change_json, changes_of, is_of_newer_type
from memory_server.conversations.changes import Commit, replay
from memory_server.conversations.model import (
    ConversationState,
    UnusableRecord,
)
from memory_server.kernel import json_text
from memory_server.kernel.errors import StorageError
from memory_server.lore import chats_json, chats_of
from memory_server.storage.postgres.log import Line, News

_LEVEL = 6
"""The level of zlib: higher ones take longer and save some percent."""


def line_of(commit: Commit) -> Line:
    changes = json_text.dumps([change_json(change) for change in commit.changes])
    return Line(commit.version, commit.at_ms, by=commit.by, changes=changes.decode())


def commit_of(
    line: Line, most_changes: int | None = None, unusable: list[UnusableRecord] | None = None
) -> Commit:
    """Read a commit, its changes as in `change_forms.changes_of`."""
    records = json_text.loads(line.changes.encode())
    changes, more = changes_of(records, most_changes, unusable)
    return Commit(line.version, line.at_ms, by=line.by, changes=changes, more=more)


def follow(state: ConversationState, lines: Iterable[Line]) -> None:
    """Apply these commits to a state; their changes that cannot be used are kept in it."""
    replay(state, (commit_of(line, unusable=state.unusable) for line in lines))


def copied(state: ConversationState) -> ConversationState:
    """Copy what a snapshot holds, for another thread."""
    return ConversationState(
        state.conversation_id,
        state.version,
        short_term=dict(state.short_term),
        long_term=dict(state.long_term),
        last_cleanup_ms=state.last_cleanup_ms,
        chats=dict(state.chats),
        unusable=list(state.unusable),
    )


def packed(state: ConversationState) -> bytes:
    """Pack a snapshot (format 1), with the records that cannot be used. Raises StorageError: a record is nested too
    deeply, or a newer program made a change, which would be lost."""
    fields: dict[str, Any] = {
        "shortTerm": list(map(codec.short_term_json, state.short_term.values())),
        "longTerm": list(map(codec.long_term_json, state.long_term.values())),
        "lastCleanup": state.last_cleanup_ms,
    }
    if state.unusable:
        fields["unusable"] = [{row.kind: row.record} for row in state.unusable]
    if state.chats:
        fields["chats"] = chats_json(state.chats)

    # A snapshot replaces the commits, so it must not leave out a change that only a newer program understands.
    try:
        if any(map(is_of_newer_type, state.unusable)):
            raise TypeError("a change is of a newer program")
        return zlib.compress(json_text.dumps(fields), _LEVEL)
    except (RecursionError, TypeError) as error:
        raise StorageError(
            Sentence(
                "No snapshot of {conversation} was made, because a record in it is nested too deeply, or of a newer "
                "memory-server: update this one; the commits stay.",
                state.conversation_id,
            )
        ) from error


def state_of(name: str, news: News | None) -> ConversationState:
    """Return the state of a conversation that was read whole: an empty state without news."""
    if news is None:
        return ConversationState(name)

    state = ConversationState(name, news.base)
    if news.snapshot is not None:
        fields = _unpacked(name, news.snapshot)
        unusable = state.unusable
        short_term = codec.short_terms(
            _records(fields, "shortTerm"), name, ours=True, unusable=unusable
        )
        long_term = codec.long_terms(_records(fields, "longTerm"), ours=True, unusable=unusable)
        state.short_term = {memory.id: memory for memory in short_term}
        state.long_term = {memory.name: memory for memory in long_term}
        state.last_cleanup_ms = codec.cleanup_time(fields.get("lastCleanup"))
        state.chats = chats_of(fields.get("chats"))
        for row in _records(fields, "unusable"):
            _try_again(state, row)

    follow(state, news.lines)
    return state


def _unpacked(name: str, snapshot: bytes) -> json_text.Json:
    """Unpack the fields of a snapshot. Raises StorageError: it is damaged."""
    try:
        return json_text.load_object(zlib.decompress(snapshot))
    except (zlib.error, json_text.NotARecord) as error:
        raise StorageError(
            Sentence(
                "The snapshot of {conversation} in the database cannot be read ({reason}); restore a dump.",
                name,
                str(error),
            )
        ) from error


def _try_again(state: ConversationState, row: Any) -> None:
    """Use a record that could not be used when it was folded, if this version can; else keep it. A change is only kept:
    what was made after it builds on a state without it."""
    match row:
        case {"short": record}:
            for memory in codec.short_terms(
                [record], state.conversation_id, unusable=state.unusable
            ):
                state.short_term.setdefault(memory.id, memory)
        case {"long": record}:
            for trigger in codec.long_terms([record], unusable=state.unusable):
                state.long_term.setdefault(trigger.name, trigger)
        case {"change": record} | record:
            reason = json_text.NotARecord("it could not be read when it was folded")
            state.unusable.append(UnusableRecord("change", record, reason))


def _records(fields: json_text.Json, key: str) -> list[Any]:
    """Return the records under a key. A value that is not a list counts as a single record, which cannot be used."""
    records = fields.get(key, [])
    return records if isinstance(records, list) else [records]
