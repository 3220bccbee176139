"""The results of the toolset `sessions`."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from memory_server.kernel.recalled_block import one_line
from memory_server.knowledge.embeddings import NO_EMBEDDINGS
from memory_server.knowledge.sessions.records import Mode, SearchType
from memory_server.tools.base.result import Result
from memory_server.tools.base.shapes import ChangeId, undo_hint
from memory_server.tools.refs import RefDone
from sandbox.locale import N_, _, counted, joined


class SessionIdsShown(Result):
    user_id: str
    agent_id: str | None = None
    run_id: str | None = None
    metadata: dict[str, Any] | None = None
    sources: dict[str, str] = Field(description="Where each id is from: argument, header, session or setting")

    def __str__(self) -> str:
        ids = {"user": self.user_id, "agent": self.agent_id, "run": self.run_id}
        return ", ".join(f"{name} {value}" for name, value in ids.items() if value)


class Memory(Result):
    id: int = Field(description="Its number, for memory_update and memory_delete")
    content: str
    event: Literal["ADD", "UPDATE", "NONE", "DELETE"] | None = None
    user_id: str
    agent_id: str | None = None
    run_id: str | None = None
    metadata: dict[str, Any] | None = None
    origin: Literal["stated", "inferred"] = Field(description="inferred: a model wrote it")
    created_at: str
    updated_at: str
    score: float | None = Field(None, description="0 to 1")
    why: str | None = None

    def __str__(self) -> str:
        notes = [self.event, self.why, None if self.score is None else f"{self.score:.2f}"]
        added = joined("; ", filter(None, notes))
        return f"{self.id}. {one_line(self.content)}" + (_(" ({reason})", added) if added else "")


class SessionDone(RefDone):
    session: SessionIdsShown


class ChangedMemory(SessionDone):
    mode_used: Mode | None = None
    reason: str | None = Field(None, description="Why it was not done as asked")
    changeId: ChangeId = None

    @property
    def tail(self) -> str:
        return undo_hint(self.changeId) + (_(" ({reason})", self.reason) if self.reason else "")


class InitResult(SessionDone):
    def __str__(self) -> str:
        return _("Calls that name nobody mean {session}.", self.session)


class AddResult(ChangedMemory):
    memories: list[Memory] = Field(description="With what happened to each")

    def __str__(self) -> str:
        return joined(
            "\n", [*map(str, self.memories), _("{memories}.{tail}", counted(len(self.memories), "memory"), self.tail)]
        )


class SearchResult(SessionDone):
    memories: list[Memory] = Field(description="Best first")
    total: int = Field(description="How many there are, shown or not")
    search_type_used: SearchType
    reason: str | None = Field(None, description="Why it was not searched as asked")
    took_ms: float

    def __str__(self) -> str:
        # Not where no model is named: it would stand below every search.
        why = _(" ({reason})", self.reason) if self.reason not in (None, NO_EMBEDDINGS) else ""
        return joined(
            "\n",
            [
                *map(str, self.memories),
                _("{shown} of {all}.{more}", len(self.memories), counted(self.total, "memory"), why),
            ],
        )


class PageResult(SessionDone):
    memories: list[Memory] = Field(description="Made last first")
    total: int
    has_more: bool = Field(description="Go on with `offset`, larger by the number of these")

    def __str__(self) -> str:
        more = _(" There are more.") if self.has_more else ""
        return joined(
            "\n",
            [
                *map(str, self.memories),
                _("{shown} of {all}.{more}", len(self.memories), counted(self.total, "memory"), more),
            ],
        )


class OneResult(ChangedMemory):
    memory: Memory

    def __str__(self) -> str:
        return str(self.memory) + self.tail


class DeletedResult(ChangedMemory):
    deletedCount: int

    def __str__(self) -> str:
        return _("Deleted {memories}.{tail}", counted(self.deletedCount, "memory"), self.tail)


_STATUSES = N_("done"), N_("failed")


class HistoryRow(Result):
    id: int = Field(description="Its number; of a change, after a k, its changeId")
    operation: str
    memory_ids: list[int]
    at: str
    by: str
    status: Literal["done", "failed"]
    error: str | None = None
    session: dict[str, Any] = Field(description="Who called, with the source of each id")
    took_ms: float | None = None

    def __str__(self) -> str:
        ids = ", ".join(map(str, self.memory_ids[:10]))
        done = _("{what} of {ids}", _(self.operation), ids) if ids else _(self.operation)
        return f"{self.id} {self.at} " + _("{about}: {what}", done, self.error or _(self.status))


class HistoryResult(SessionDone):
    operations: list[HistoryRow] = Field(description="Newest first")
    next: int | None = Field(None, description="Give this as `before` for older ones")

    def __str__(self) -> str:
        return joined(
            "\n", [*map(str, self.operations), _("{operations}.", counted(len(self.operations), "operation"))]
        )


class OperationFigures(Result):
    count: int
    errors: int
    p50_ms: float
    p95_ms: float


class StatsResult(SessionDone):
    count: int
    archived: int
    by_agent: dict[str, int]
    by_run: dict[str, int]
    characters: int
    storage_bytes: int = Field(description="Of these texts and metadata")
    vectors: int = Field(description="Memories that are found by meaning")
    oldest: str | None = None
    newest: str | None = None
    operations: dict[str, OperationFigures] = Field(description="Of the newest 10,000")
    models: dict[str, float] = Field(description="Calls, tokens and cost of models, of the same")

    def __str__(self) -> str:
        done = joined(", ", (f"{name} {each.count}" for name, each in self.operations.items()))
        size = _(
            "{memories} of {session}, {characters:,} characters",
            counted(self.count, "memory"),
            self.session,
            self.characters,
        )
        return _("{size}. Done: {done}.", size, done or "nothing")
