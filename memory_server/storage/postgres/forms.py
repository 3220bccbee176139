"""Commits and snapshots of conversations as PostgreSQL keeps them."""

from __future__ import annotations

import zlib
from typing import Any

from languages import Sentence
from memory_server.conversations import codec
from memory_server.conversations.change_forms import change, change_json
from memory_server.conversations.changes import Commit, replay
from memory_server.conversations.firing_forms import chats, chats_json
from memory_server.conversations.model import ConversationState
from memory_server.kernel import json_text
from memory_server.kernel.errors import StorageError
from memory_server.storage.postgres.log import Line, News

_LEVEL = 6
"""The level of zlib: higher ones take longer and save some percent."""


def line_of(commit: Commit) -> Line:
    changes = json_text.dumps([change_json(change) for change in commit.changes])
    return Line(commit.version, commit.at_ms, by=commit.by, changes=changes.decode())


def commit_of(line: Line, most_changes: int | None = None) -> Commit:
    """A commit with at most so many changes. Raises StorageError: it is of a newer memory-server."""
    try:
        records = json_text.loads(line.changes.encode())
        changes = tuple(map(change, records[:most_changes]))
    except json_text.NotARecord as error:
        raise StorageError(
            Sentence(
                "The commit {version} cannot be read ({reason}); update this memory-server.",
                line.version,
                error,
            )
        ) from error
    return Commit(
        line.version, line.at_ms, by=line.by, changes=changes, more=len(records) - len(changes)
    )


def copied(state: ConversationState) -> ConversationState:
    """A copy of what a snapshot holds, for another thread."""
    return ConversationState(
        state.conversation_id,
        state.version,
        short_term=dict(state.short_term),
        long_term=dict(state.long_term),
        last_cleanup_ms=state.last_cleanup_ms,
        chats=dict(state.chats),
    )


def packed(state: ConversationState) -> bytes:
    """A snapshot (format 1)."""
    fields: dict[str, Any] = {
        "shortTerm": list(map(codec.short_term_json, state.short_term.values())),
        "longTerm": list(map(codec.long_term_json, state.long_term.values())),
        "lastCleanup": state.last_cleanup_ms,
    }
    if state.chats:
        fields["chats"] = chats_json(state.chats)
    return zlib.compress(json_text.dumps(fields), _LEVEL)


def state_of(name: str, news: News | None) -> ConversationState:
    """The state of a conversation that was read whole; an empty one, if there is none."""
    if news is None:
        return ConversationState(name)
    state = ConversationState(name, news.base)
    if news.snapshot is not None:
        fields = json_text.load_object(zlib.decompress(news.snapshot))
        short_term = codec.short_terms(fields["shortTerm"], name, ours=True)
        long_term = codec.long_terms(fields["longTerm"], ours=True)
        state.short_term = {memory.id: memory for memory in short_term}
        state.long_term = {memory.name: memory for memory in long_term}
        state.last_cleanup_ms = fields["lastCleanup"]
        state.chats = chats(fields.get("chats"))
    replay(state, map(commit_of, news.lines))
    return state
