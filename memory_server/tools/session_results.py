"""The results of the toolset `sessions`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field

from languages import N_, _, counted, joined
from memory_server.kernel.recalled_block import one_line
from memory_server.kernel.times import iso
from memory_server.knowledge.embeddings import NO_EMBEDDINGS
from memory_server.knowledge.sessions.records import Measured, Mode, SearchType
from memory_server.tools.base.result import ChangeId, From, Result, hundredths, listed, undo_hint
from memory_server.tools.refs import RefDone


def _metadata_or_none(metadata: Mapping[str, Any]) -> dict[str, Any] | None:
    return dict(metadata) or None


Metadata = Annotated[dict[str, Any] | None, From("metadata", _metadata_or_none)]


class SessionIdsShown(Result):
    user_id: str
    agent_id: str | None = None
    run_id: str | None = None
    metadata: Metadata = None
    sources: Annotated[
        dict[str, str],
        From(form=dict, words="Where each id is from: argument, header, session or setting"),
    ]

    def __str__(self) -> str:
        ids = {"user": self.user_id, "agent": self.agent_id, "run": self.run_id}
        return ", ".join(f"{name} {value}" for name, value in ids.items() if value)


class Memory(Result):
    id: int = Field(description="Its number, for memory_update and memory_delete")
    content: Annotated[str, From("body")]
    event: Literal["ADD", "UPDATE", "NONE", "DELETE"] | None = None
    user_id: str
    agent_id: str | None = None
    run_id: str | None = None
    metadata: Metadata = None
    origin: Literal["stated", "inferred"] = Field(description="inferred: a model wrote it")
    created_at: Annotated[str, From("created_ms", iso)]
    updated_at: Annotated[str, From("updated_ms", iso)]
    score: float | None = Field(None, description="0 to 1")
    why: str | None = None

    def __str__(self) -> str:
        notes: list[str] = []
        if self.event is not None:
            notes.append(self.event)
        if self.why:
            notes.append(self.why)
        if self.score is not None:
            notes.append(f"{self.score:.2f}")
        text = f"{self.id}. {one_line(self.content)}"
        if notes:
            text += _(" ({reason})", joined("; ", notes))
        return text


class SessionDone(RefDone):
    session: SessionIdsShown


class ChangedMemory(SessionDone):
    mode_used: Mode | None = None
    reason: str | None = Field(None, description="Why it was not done as asked")
    changeId: ChangeId = None

    @property
    def tail(self) -> str:
        """What stands behind the text of the change: its id, and why it was not done as asked."""
        reason = _(" ({reason})", self.reason) if self.reason else ""
        return undo_hint(self.changeId) + reason


class InitResult(SessionDone):
    def __str__(self) -> str:
        return _("Calls that name nobody mean {session}.", self.session)


class AddResult(ChangedMemory):
    memories: list[Memory] = Field(description="With what happened to each")

    def __str__(self) -> str:
        return listed(
            self.memories, _("{memories}.{tail}", counted(len(self.memories), "memory"), self.tail)
        )


class SearchResult(SessionDone):
    memories: list[Memory] = Field(description="Best first")
    total: int = Field(description="How many there are, shown or not")
    search_type_used: SearchType
    reason: str | None = Field(None, description="Why it was not searched as asked")
    took_ms: float

    def __str__(self) -> str:
        # Not where no model is named: it would stand below every search.
        why = _(" ({reason})", self.reason) if self.reason not in (None, _(NO_EMBEDDINGS)) else ""
        return _page(self.memories, self.total, why)


class PageResult(SessionDone):
    memories: list[Memory] = Field(description="Made last first")
    total: int
    has_more: bool = Field(description="Go on with `offset`, larger by the number of these")

    def __str__(self) -> str:
        more = _(" There are more.") if self.has_more else ""
        return _page(self.memories, self.total, more)


def _page(memories: list[Memory], total: int, more: str) -> str:
    return listed(
        memories, _("{shown} of {all}.{more}", len(memories), counted(total, "memory"), more)
    )


class OneResult(ChangedMemory):
    memory: Memory

    def __str__(self) -> str:
        return str(self.memory) + self.tail


class DeletedResult(ChangedMemory):
    deletedCount: int

    def __str__(self) -> str:
        return _("Deleted {memories}.{tail}", counted(self.deletedCount, "memory"), self.tail)


_STATUSES = (N_("done"), N_("failed"))
_SHOWN_IDS = 10
"""Ids of memories that the text of an operation names."""


class HistoryRow(Result):
    id: Annotated[int, From("seq", words="Its number; of a change, after a k, its changeId")]
    operation: Annotated[str, From("op")]
    memory_ids: Annotated[list[int], From("entries", list)]
    at: Annotated[str, From("at_ms", iso)]
    by: str
    status: Literal["done", "failed"]
    error: str | None = None
    session: Annotated[
        dict[str, Any], From("caller", dict, "Who called, with the source of each id")
    ]
    took_ms: Annotated[float | None, From(form=hundredths)] = None

    def __str__(self) -> str:
        ids = ", ".join(map(str, self.memory_ids[:_SHOWN_IDS]))
        done = _("{what} of {ids}", _(self.operation), ids) if ids else _(self.operation)
        return f"{self.id} {self.at} " + _("{about}: {what}", done, self.error or _(self.status))


class HistoryResult(SessionDone):
    operations: list[HistoryRow] = Field(description="Newest first")
    next: int | None = Field(None, description="Give this as `before` for older ones")

    def __str__(self) -> str:
        return listed(
            self.operations, _("{operations}.", counted(len(self.operations), "operation"))
        )


class OperationFigures(Result):
    count: int
    errors: int
    p50_ms: Annotated[float, From("p50_ms", hundredths)]
    p95_ms: Annotated[float, From("p95_ms", hundredths)]


def _by_operation(figures: Mapping[str, Measured]) -> dict[str, OperationFigures]:
    return {operation: OperationFigures.of(measured) for operation, measured in figures.items()}


class StatsResult(SessionDone):
    count: Annotated[int, From("figures.count")]
    archived: Annotated[int, From("figures.archived")]
    by_agent: Annotated[dict[str, int], From(form=dict)]
    by_run: Annotated[dict[str, int], From(form=dict)]
    characters: Annotated[int, From("figures.characters")]
    storage_bytes: int = Field(description="Of these texts and metadata")
    vectors: int = Field(description="Memories that are found by meaning")
    oldest: Annotated[str | None, From("figures.oldest_ms", iso)] = None
    newest: Annotated[str | None, From("figures.newest_ms", iso)] = None
    operations: Annotated[
        dict[str, OperationFigures], From(form=_by_operation, words="Of the newest 10,000")
    ]
    models: Annotated[
        dict[str, float], From(form=dict, words="Calls, tokens and cost of models, of the same")
    ]
    sources: Annotated[
        dict[str, dict[str, int]], From(form=dict, words="Sources of each id, of the same")
    ]

    def __str__(self) -> str:
        operations = [f"{name} {figures.count}" for name, figures in self.operations.items()]
        size = _(
            "{memories} of {session}, {characters:,} characters",
            counted(self.count, "memory"),
            self.session,
            self.characters,
        )
        return _("{size}. Done: {done}.", size, ", ".join(operations) or "nothing")
