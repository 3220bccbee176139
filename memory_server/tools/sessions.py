"""The toolset `sessions`: memories of users, agents and runs, with integer ids (seed 001)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache, partial
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias, TypedDict, Unpack

from pydantic import Field, TypeAdapter, ValidationInfo, WrapValidator

from languages import N_, _, counted, joined
from memory_server.kernel.errors import InvalidInput
from memory_server.kernel.recalled_block import one_line
from memory_server.kernel.times import iso
from memory_server.kernel.values import JsonObject
from memory_server.knowledge.embeddings import NO_EMBEDDINGS
from memory_server.knowledge.entry import MAX_BODY_CHARS, Entry
from memory_server.knowledge.sessions.ids import FIELDS, SessionIds, checked_id, named
from memory_server.knowledge.sessions.records import Mode, OperationStats, Outcome, SearchType
from memory_server.knowledge.sessions.sessions import Sessions
from memory_server.memories.memories import Call
from memory_server.tools.base.result import (
    ChangeId,
    From,
    Result,
    hundredths,
    listed,
    or_none,
    size,
    undo_hint,
)
from memory_server.tools.base.shapes import (
    MessageArgument,
    Messages,
    Offset,
    OtherWordsOfSearch,
    Text,
    between,
)
from memory_server.tools.base.tool import tool as any_tool
from memory_server.tools.refs import RefDone

Metadata = Annotated[dict[str, Any] | None, From("metadata", or_none)]


class SessionIdsShown(Result):
    user_id: str
    agent_id: str | None = None
    run_id: str | None = None
    metadata: Metadata = None
    sources: Annotated[
        dict[str, str],
        From(words="Where each id is from: argument, header, session or setting"),
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
        """Write a memory on one line, with its event, reason and score if it has them."""
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
        """The end of the text of the change: its id, and why it was not done as asked."""
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
        # Without a model the reason is left out, because it would be below every search.
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


_STATUSES = N_(("done", "failed"))
_SHOWN_IDS = 10
"""Ids of memories that the text of an operation names."""


class HistoryRow(Result):
    id: Annotated[int, From("seq", words="Its number; of a change, after a k, its changeId")]
    operation: Annotated[str, From("op")]
    memory_ids: Annotated[list[int], From("entries")]
    at: Annotated[str, From("at_ms", iso)]
    by: str
    status: Literal["done", "failed"]
    error: str | None = None
    session: Annotated[
        dict[str, Any], From("caller", words="Who called, with the source of each id")
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


def _by_operation(figures: Mapping[str, OperationStats]) -> dict[str, OperationFigures]:
    return {operation: OperationFigures.of(measured) for operation, measured in figures.items()}


class StatsResult(SessionDone):
    count: Annotated[int, From("figures.count")]
    archived: Annotated[int, From("figures.archived")]
    by_agent: dict[str, int]
    by_run: dict[str, int]
    characters: Annotated[int, From("figures.characters")]
    storage_bytes: int = Field(description="Of these texts and metadata")
    vectors: int = Field(description="Memories that are found by meaning")
    oldest: Annotated[str | None, From("figures.oldest_ms", iso)] = None
    newest: Annotated[str | None, From("figures.newest_ms", iso)] = None
    operations: Annotated[
        dict[str, OperationFigures], From(form=_by_operation, words="Of the newest 10,000")
    ]
    models: Annotated[dict[str, float], From(words="Calls, tokens and cost of models, of the same")]
    sources: Annotated[dict[str, dict[str, int]], From(words="Sources of each id, of the same")]

    def __str__(self) -> str:
        operations = [f"{name} {figures.count}" for name, figures in self.operations.items()]
        size = _(
            "{memories} of {session}, {characters:,} characters",
            counted(self.count, "memory"),
            self.session,
            self.characters,
        )
        return _("{size}. Done: {done}.", size, ", ".join(operations) or "nothing")


MOST_ID = 2**53 - 1
"""The largest whole number that every JSON reader keeps exactly."""
ModeArgument = Annotated[Mode, "inference: facts by a model; direct: as given"]
MemoryId = Annotated[int, between(1, MOST_ID, "a memory"), "Its id"]
Limit = Annotated[int, between(1, 100, "memories"), "At most"]
GivenMetadata = Annotated[dict[str, Any] | None, "Facts about it, for programs"]
_ONE_TEXT = Annotated[Text, Field(min_length=1, max_length=MAX_BODY_CHARS)]


@cache
def _check_of_text() -> TypeAdapter[Any]:
    return TypeAdapter(_ONE_TEXT)


@cache
def _check_of_messages() -> TypeAdapter[Any]:
    return TypeAdapter(Messages)


def _text_or_messages(value: Any, handler: Any, info: ValidationInfo) -> Any:
    """Check text or messages by hand: pydantic's error for a union names neither. Raises
    ValueError if the value is not a text or a list of messages."""
    if type(value) is str:
        return _check_of_text().validate_python(value)
    if isinstance(value, list | dict):
        return _check_of_messages().validate_python(value, context=info.context)
    raise ValueError(_("it must be a text or a list of messages"))


if TYPE_CHECKING:
    TextOrMessages: TypeAlias = str | Messages
else:
    TextOrMessages = Annotated[
        _ONE_TEXT | list[MessageArgument],
        WrapValidator(_text_or_messages),
        "Text or messages",
    ]


class SessionArguments(TypedDict):
    """Whom a call means, in each tool."""

    user_id: Annotated[Text | None, "Whose memories; by default those of this session"]
    agent_id: Annotated[Text | None, "The agent"]
    run_id: Annotated[Text | None, "The run"]


async def _sessions(
    call: Call, ids: SessionArguments, tool_name: str, *, changes: bool = False
) -> tuple[Sessions, SessionIds]:
    """Return the sessions and who is meant, and count where the ids came from. If that cannot be known, note the
    refusal and raise InvalidInput."""
    sessions = call.memories.knowledge.sessions
    try:
        caller = sessions.caller(named(**ids), call.wire, changes=changes)
    except InvalidInput as error:
        await _note_refusal(call, tool_name, {**ids}, str(error))
        raise
    meter = call.memories.services.meter
    for name, source in caller.sources.items():
        meter.count("sessions", f"{name}_from_{source}")
    for name in caller.overridden:
        meter.count("sessions", f"{name}_overridden")
    return sessions, caller


async def _note_refusal(call: Call, tool_name: str, arguments: JsonObject, sentence: str) -> None:
    """Note a refusal in the history of the user that is meant, if the user is known."""
    sessions = call.memories.knowledge.sessions
    given_ids = {name: value for name, value in arguments.items() if name in FIELDS}
    ids = {name: value for name, value in given_ids.items() if _is_usable(name, value)}
    if given_ids.get("user_id") is not None and "user_id" not in ids:
        return
    try:
        caller = sessions.caller(named(**ids), call.wire)
    except InvalidInput:
        return
    await sessions.note_refusal(caller, tool_name.removeprefix("memory_"), sentence, by=tool_name)


def _is_usable(name: str, value: Any) -> bool:
    try:
        return isinstance(value, str) and bool(checked_id(value, name))
    except InvalidInput:
        return False


tool = partial(any_tool, note_refusal=_note_refusal)
"""Makes a tool whose calls have a history, including refused calls."""


def _session(caller: SessionIds) -> SessionIdsShown:
    return SessionIdsShown.of(caller)


def _memory(entry: Entry, caller: SessionIds, **values: Any) -> Memory:
    """Return an entry as a result; `values` are fields that not every result has."""
    empty = dict.fromkeys(("event", "score", "why"))
    return Memory.of(entry, user_id=caller.user_id, **empty | values)


@tool(
    title="Begin a session",
    description="Set the user, agent and run of later calls that name none; without arguments, tell which are set.",
    idempotent=True,
)
async def memory_init_session(
    call: Call,
    metadata: GivenMetadata = None,
    **ids: Unpack[SessionArguments],
) -> InitResult:
    begun = named(**ids, metadata=metadata)
    caller = call.memories.knowledge.sessions.begin(begun, call.wire)
    return InitResult(session=_session(caller))


@tool(
    title="Add memories",
    description="Keep what was said, for this user. A model extracts facts where one is configured; `direct` stores "
    "the messages as they are. Do not store secrets.",
    always_loaded=True,
    search_hint="remember user facts store",
)
async def memory_add(
    call: Call,
    messages: TextOrMessages,
    metadata: GivenMetadata = None,
    custom_prompt: Annotated[Text | None, Field(max_length=10_000), "What to look for"] = None,
    mode: ModeArgument = "inference",
    **ids: Unpack[SessionArguments],
) -> AddResult:
    sessions, caller = await _sessions(call, ids, "memory_add", changes=True)
    outcome = await sessions.add(
        caller, messages, metadata=metadata, prompt=custom_prompt, mode=mode, by="memory_add"
    )
    return AddResult(memories=_changed(outcome, caller), **_how(outcome, caller))


def _changed(outcome: Outcome, caller: SessionIds) -> list[Memory]:
    return [_memory(entry, caller, event=event) for event, entry in outcome.entries]


def _how(outcome: Outcome, caller: SessionIds) -> JsonObject:
    """Return the fields of a result that say who changed something, and how."""
    return {
        "session": _session(caller),
        "mode_used": outcome.mode_used,
        "reason": outcome.reason,
        "changeId": outcome.change_id,
    }


@tool(
    title="Search memories",
    description="Find memories of this user, by words in any language and, where a model for it is set, by meaning.",
    read_only=True,
    recalls=True,
    always_loaded=True,
    search_hint="recall user facts find",
)
async def memory_search(
    call: Call,
    query: Annotated[Text, Field(min_length=1, max_length=10_000)],
    otherWords: OtherWordsOfSearch = [],
    limit: Limit = 100,
    include_metadata: Annotated[bool, "With its metadata"] = True,
    search_type: Annotated[SearchType, "By words, by meaning, or both"] = "hybrid",
    **ids: Unpack[SessionArguments],
) -> SearchResult:
    sessions, caller = await _sessions(call, ids, "memory_search")
    matches = await sessions.search(
        caller,
        query,
        limit=limit,
        search_type=search_type,
        other_words=otherWords,
        by="memory_search",
    )

    hidden_fields = {} if include_metadata else {"metadata": None}
    rows = [
        _memory(hit.entry, caller, score=round(hit.score, 4), why=hit.why, **hidden_fields)
        for hit in matches.hits
    ]

    return SearchResult(
        memories=rows,
        total=matches.total,
        search_type_used=matches.search_type_used,
        reason=matches.reason,
        took_ms=round(matches.took_ms, 2),
        session=_session(caller),
    )


@tool(
    title="List memories",
    description="All memories of this user, newest first.",
    read_only=True,
    recalls=True,
)
async def memory_get_all(
    call: Call,
    limit: Limit = 100,
    offset: Offset = None,
    **ids: Unpack[SessionArguments],
) -> PageResult:
    sessions, caller = await _sessions(call, ids, "memory_get_all")
    start = offset or 0
    entries, total = await sessions.page(caller, limit=limit, offset=start, by="memory_get_all")
    rows = _rows_of_page(entries, caller, sessions.options.page_bytes)
    has_more = start + len(rows) < total
    return PageResult(memories=rows, total=total, has_more=has_more, session=_session(caller))


def _rows_of_page(entries: Iterable[Entry], caller: SessionIds, page_bytes: int) -> list[Memory]:
    """Return the first entries whose JSON fits into `page_bytes`; at least one."""
    rows: list[Memory] = []
    used_bytes = 0
    for entry in entries:
        row = _memory(entry, caller)
        used_bytes += size(row.model_dump(mode="json")) + len(",")
        if rows and used_bytes > page_bytes:
            break
        rows.append(row)
    return rows


@tool(
    title="Change a memory",
    description="Replace the text of a memory; with a model, `data` may be new content or an instruction. What it was "
    "stays in the history.",
    idempotent=True,
)
async def memory_update(
    call: Call,
    memory_id: MemoryId,
    data: Annotated[Text, Field(min_length=1, max_length=MAX_BODY_CHARS), "New text"],
    mode: Annotated[Mode | None, "By default inference where a model is configured"] = None,
    metadata: Annotated[dict[str, Any] | None, "Replace those that are there"] = None,
    **ids: Unpack[SessionArguments],
) -> OneResult:
    sessions, caller = await _sessions(call, ids, "memory_update", changes=True)
    outcome = await sessions.update(
        caller, memory_id, data, metadata=metadata, mode=mode, by="memory_update"
    )
    return OneResult(memory=_changed(outcome, caller)[0], **_how(outcome, caller))


@tool(
    title="Delete a memory",
    description="Delete one memory; the change can be undone.",
    destructive=True,
)
async def memory_delete(
    call: Call,
    memory_id: MemoryId,
    **ids: Unpack[SessionArguments],
) -> OneResult:
    sessions, caller = await _sessions(call, ids, "memory_delete", changes=True)
    outcome = await sessions.delete(caller, memory_id, by="memory_delete")
    return deleted_result(outcome, caller)


def deleted_result(outcome: Outcome, caller: SessionIds) -> OneResult:
    """Return the memory that was deleted."""
    return OneResult(
        memory=_changed(outcome, caller)[0], session=_session(caller), changeId=outcome.change_id
    )


@tool(
    title="Delete all memories",
    description="Delete all memories of this user, or of the agent and run that are set; the change can be undone.",
    destructive=True,
    idempotent=True,
)
async def memory_delete_all(
    call: Call,
    confirm: Annotated[bool, "true, to delete them"],
    **ids: Unpack[SessionArguments],
) -> DeletedResult:
    sessions, caller = await _sessions(call, ids, "memory_delete_all", changes=True)
    count, change_id = await sessions.delete_all(caller, confirm=confirm, by="memory_delete_all")
    return DeletedResult(deletedCount=count, changeId=change_id, session=_session(caller))


@tool(
    title="History of memories",
    description="What was done with the memories of this user, and by whom.",
    read_only=True,
)
async def memory_get_history(
    call: Call,
    limit: Annotated[int, between(1, 100, "operations"), "At most"] = 50,
    before: Annotated[
        int | None, between(1, MOST_ID, "an operation"), "The `next` of the page before"
    ] = None,
    **ids: Unpack[SessionArguments],
) -> HistoryResult:
    sessions, caller = await _sessions(call, ids, "memory_get_history")
    operations = await sessions.history(caller, limit=limit, before=before)
    following = operations[-1].seq if len(operations) == limit else None
    rows = [
        HistoryRow.of(operation, status="failed" if operation.error else "done")
        for operation in operations
    ]
    return HistoryResult(operations=rows, next=following, session=_session(caller))


@tool(
    title="Figures of memories",
    description="Counts, sizes and times of the memories of this user.",
    read_only=True,
)
async def memory_get_stats(call: Call, **ids: Unpack[SessionArguments]) -> StatsResult:
    sessions, caller = await _sessions(call, ids, "memory_get_stats")
    statistics = await sessions.statistics(caller)
    return StatsResult.of(statistics, success=True, session=_session(caller))
