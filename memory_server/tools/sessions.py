"""The toolset `sessions`: memories of users, agents and runs, with integer ids (seed 001)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache, partial
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

from pydantic import Field, TypeAdapter, WrapValidator

from memory_server.kernel.errors import InvalidInput
from memory_server.knowledge.entry import MAX_BODY_CHARS, Entry, Operation
from memory_server.knowledge.sessions.ids import FIELDS, SessionIds, checked_id, named
from memory_server.knowledge.sessions.records import Mode, Outcome, SearchType
from memory_server.knowledge.sessions.sessions import Sessions
from memory_server.memories.memories import Call
from memory_server.tools.base.budget import size
from memory_server.tools.base.shapes import (
    MessageArgument,
    Messages,
    Offset,
    OtherWordsOfSearch,
    Text,
    between,
)
from memory_server.tools.base.tool import Tool
from memory_server.tools.base.tool import tool as any_tool
from memory_server.tools.session_results import (
    AddResult,
    DeletedResult,
    HistoryResult,
    HistoryRow,
    InitResult,
    Memory,
    OneResult,
    PageResult,
    SearchResult,
    SessionIdsShown,
    StatsResult,
)
from sandbox.locale import _

MOST_ID = 2**53 - 1
"""The largest whole number that every JSON reader keeps exactly."""
User = Annotated[Text | None, "Whose memories; by default those of this session"]
Agent = Annotated[Text | None, "The agent"]
Run = Annotated[Text | None, "The run"]
ModeArgument = Annotated[Mode, "inference: facts by a model; direct: as given"]
MemoryId = Annotated[int, between(1, MOST_ID, "a memory"), "Its id"]
Limit = Annotated[int, between(1, 100, "memories"), "At most"]
Metadata = Annotated[dict[str, Any] | None, "Facts about it, for programs"]
_ONE_TEXT = Annotated[Text, Field(min_length=1, max_length=MAX_BODY_CHARS)]
Given = tuple[str | None, str | None, str | None]


@cache
def _adapters() -> dict[type, TypeAdapter[Any]]:
    return {str: TypeAdapter(_ONE_TEXT), list: TypeAdapter(Messages)}


def _said(value: Any, handler: Any) -> Any:
    """Text or messages, checked by hand: pydantic's error for a union names neither."""
    if type(value) not in (str, list):
        raise ValueError(_("it must be a text or a list of messages"))
    return _adapters()[type(value)].validate_python(value)


if TYPE_CHECKING:
    Said: TypeAlias = str | Messages
else:
    Said = Annotated[
        _ONE_TEXT | list[MessageArgument],
        WrapValidator(_said),
        "Text or messages",
    ]


async def _sessions(call: Call, given: Given, tool_name: str, *, changes: bool = False) -> tuple[Sessions, SessionIds]:
    """The sessions, and who is meant; where that cannot be, the refusal is noted. Raises InvalidInput."""
    sessions = call.memories.knowledge.sessions
    try:
        caller = sessions.caller(named(*given), call.wire, changes=changes)
    except InvalidInput as error:
        await _note(call, tool_name, dict(zip(FIELDS, given, strict=True)), str(error))
        raise
    meter = call.memories.services.meter
    for name, source in caller.sources.items():
        meter.count("sessions", f"{name}_from_{source}")
    for name in caller.overridden:
        meter.count("sessions", f"{name}_overridden")
    return sessions, caller


async def _note_arguments(call: Call, refused: Tool, arguments: Mapping[str, Any], sentence: str) -> None:
    await _note(call, refused.name, arguments, sentence)


async def _note(call: Call, tool_name: str, arguments: Mapping[str, Any], sentence: str) -> None:
    """Note a refusal in the history of the user that is meant; where no user can be known, there is none."""
    sessions = call.memories.knowledge.sessions
    ids = {name: value for name, value in arguments.items() if name in FIELDS and _is_usable(name, value)}
    if arguments.get("user_id") is not None and "user_id" not in ids:
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


tool = partial(any_tool, note_refusal=_note_arguments)
"""Makes a tool whose calls have a history, also those that are refused."""


def _session(caller: SessionIds) -> SessionIdsShown:
    return SessionIdsShown.of(caller)


def _memory(entry: Entry, caller: SessionIds, **more: Any) -> Memory:
    return Memory.of(entry, user_id=caller.user_id, **{"event": None, "score": None, "why": None} | more)


@tool(
    title="Begin a session",
    description="Set the user, agent and run of later calls that name none; without arguments, tell which are set.",
    idempotent=True,
)
async def memory_init_session(
    call: Call, user_id: User = None, agent_id: Agent = None, run_id: Run = None, metadata: Metadata = None
) -> InitResult:
    given = named(user_id, agent_id, run_id, metadata)
    return InitResult(session=_session(call.memories.knowledge.sessions.begin(given, call.wire)))


@tool(
    title="Add memories",
    description="Keep what was said, for this user. A model extracts facts where one is configured; `direct` stores "
    "the messages as they are. Do not store secrets.",
    always_loaded=True,
    search_hint="remember user facts store",
)
async def memory_add(
    call: Call,
    messages: Said,
    user_id: User = None,
    agent_id: Agent = None,
    run_id: Run = None,
    metadata: Metadata = None,
    custom_prompt: Annotated[Text | None, Field(max_length=10_000), "What to look for"] = None,
    mode: ModeArgument = "inference",
) -> AddResult:
    sessions, caller = await _sessions(call, (user_id, agent_id, run_id), "memory_add", changes=True)
    done = await sessions.add(caller, messages, metadata=metadata, prompt=custom_prompt, mode=mode, by="memory_add")
    return AddResult(memories=_changed(done, caller), **_how(done, caller))


def _changed(done: Outcome, caller: SessionIds) -> list[Memory]:
    return [_memory(entry, caller, event=event) for event, entry in done.entries]


def _how(done: Outcome, caller: SessionIds) -> dict[str, Any]:
    return {
        "session": _session(caller),
        "mode_used": done.mode_used,
        "reason": done.reason,
        "changeId": done.change_id,
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
    user_id: User = None,
    agent_id: Agent = None,
    run_id: Run = None,
    limit: Limit = 100,
    include_metadata: Annotated[bool, "With its metadata"] = True,
    search_type: Annotated[SearchType, "By words, by meaning, or both"] = "hybrid",
) -> SearchResult:
    sessions, caller = await _sessions(call, (user_id, agent_id, run_id), "memory_search")
    found = await sessions.search(
        caller, query, limit=limit, search_type=search_type, other_words=otherWords, by="memory_search"
    )
    without = {} if include_metadata else {"metadata": None}
    rows = [_memory(each.entry, caller, score=round(each.score, 4), why=each.why, **without) for each in found.hits]
    return SearchResult(
        memories=rows,
        total=found.total,
        search_type_used=found.search_type_used,
        reason=found.reason,
        took_ms=round(found.took_ms, 2),
        session=_session(caller),
    )


@tool(title="List memories", description="All memories of this user, newest first.", read_only=True, recalls=True)
async def memory_get_all(
    call: Call,
    user_id: User = None,
    agent_id: Agent = None,
    run_id: Run = None,
    limit: Limit = 100,
    offset: Offset = None,
) -> PageResult:
    sessions, caller = await _sessions(call, (user_id, agent_id, run_id), "memory_get_all")
    entries, total = await sessions.page(caller, limit=limit, offset=offset or 0, by="memory_get_all")
    rows: list[Memory] = []
    left = sessions.options.page_bytes
    for entry in entries:
        row = _memory(entry, caller)
        left -= size(row.model_dump(mode="json")) + 1
        if rows and left < 0:
            break
        rows.append(row)
    return PageResult(memories=rows, total=total, has_more=(offset or 0) + len(rows) < total, session=_session(caller))


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
    user_id: User = None,
    agent_id: Agent = None,
    run_id: Run = None,
    mode: Annotated[Mode | None, "By default inference where a model is configured"] = None,
    metadata: Annotated[dict[str, Any] | None, "Replace those that are there"] = None,
) -> OneResult:
    sessions, caller = await _sessions(call, (user_id, agent_id, run_id), "memory_update", changes=True)
    done = await sessions.update(caller, memory_id, data, metadata=metadata, mode=mode, by="memory_update")
    return OneResult(memory=_changed(done, caller)[0], **_how(done, caller))


@tool(title="Delete a memory", description="Delete one memory; the change can be undone.", destructive=True)
async def memory_delete(
    call: Call, memory_id: MemoryId, user_id: User = None, agent_id: Agent = None, run_id: Run = None
) -> OneResult:
    sessions, caller = await _sessions(call, (user_id, agent_id, run_id), "memory_delete", changes=True)
    return deleted_result(await sessions.delete(caller, memory_id, by="memory_delete"), caller)


def deleted_result(done: Outcome, caller: SessionIds) -> OneResult:
    """The memory that was deleted."""
    return OneResult(memory=_changed(done, caller)[0], session=_session(caller), changeId=done.change_id)


@tool(
    title="Delete all memories",
    description="Delete all memories of this user, or of the agent and run that are set; the change can be undone.",
    destructive=True,
    idempotent=True,
)
async def memory_delete_all(
    call: Call,
    confirm: Annotated[bool, "true, to delete them"],
    user_id: User = None,
    agent_id: Agent = None,
    run_id: Run = None,
) -> DeletedResult:
    sessions, caller = await _sessions(call, (user_id, agent_id, run_id), "memory_delete_all", changes=True)
    count, change_id = await sessions.delete_all(caller, confirm=confirm, by="memory_delete_all")
    return DeletedResult(deletedCount=count, changeId=change_id, session=_session(caller))


def _operation(done: Operation) -> HistoryRow:
    return HistoryRow.of(done, status="failed" if done.error else "done")


@tool(
    title="History of memories",
    description="What was done with the memories of this user, and by whom.",
    read_only=True,
)
async def memory_get_history(
    call: Call,
    user_id: User = None,
    agent_id: Agent = None,
    run_id: Run = None,
    limit: Annotated[int, between(1, 100, "operations"), "At most"] = 50,
    before: Annotated[int | None, between(1, MOST_ID, "an operation"), "The `next` of the page before"] = None,
) -> HistoryResult:
    sessions, caller = await _sessions(call, (user_id, agent_id, run_id), "memory_get_history")
    found = await sessions.history(caller, limit=limit, before=before)
    following = found[-1].seq if len(found) == limit else None
    return HistoryResult(operations=list(map(_operation, found)), next=following, session=_session(caller))


@tool(title="Figures of memories", description="Counts, sizes and times of the memories of this user.", read_only=True)
async def memory_get_stats(call: Call, user_id: User = None, agent_id: Agent = None, run_id: Run = None) -> StatsResult:
    sessions, caller = await _sessions(call, (user_id, agent_id, run_id), "memory_get_stats")
    return StatsResult.of(await sessions.statistics(caller), success=True, session=_session(caller))
