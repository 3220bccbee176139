"""The toolset `long-term`. Argument and result names are the Node original's, so that its users can switch."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from pydantic import Field

from memory_server.core.model import MAX_PROMPT_CHARS
from memory_server.core.phrases import unreadable
from memory_server.managers.context import Context
from memory_server.recall.activation import Activation, Shelved
from memory_server.tools.base.budget import Paging
from memory_server.tools.base.shapes import (
    ConversationId,
    Messages,
    Offset,
    Text,
    counted,
    messages_of,
    time_text,
    undo_hint,
)
from memory_server.tools.base.tool import Arguments, Result, Tool
from sandbox import Failed, Problem

if TYPE_CHECKING:
    from sandbox import Offences

PREVIEW_CHARS = 100
_TRIGGER = "JavaScript condition, e.g. match_keys(context.messages, ['生日','birthday']) > 0"


class AddArguments(Arguments):
    name: Text
    prompt: Text = Field(max_length=MAX_PROMPT_CHARS, description="What to keep in mind when the trigger fires")
    trigger: Text = Field(description=_TRIGGER)
    conversation_id: ConversationId = None
    createdContext: Text | None = Field(None, description="Where this comes from")
    recentMessages: Messages | None = None


class SetResult(Result):
    success: bool
    replaced: bool
    warnings: list[str]
    totalMemories: int
    changeId: str


def _warnings(problems: Iterable[Problem]) -> list[str]:
    return [
        f"{problem.message} (line {problem.line}, column {problem.column})" if problem.line else problem.message
        for problem in problems
    ]


async def _add(context: Context, arguments: AddArguments) -> SetResult:
    stored = await context.conversations.get(arguments.conversation_id).long_term.add(
        arguments.name,
        arguments.prompt,
        arguments.trigger,
        created_context=arguments.createdContext,
        recent=messages_of(arguments.recentMessages or ()),
        by="add_long_term_memory",
    )
    return SetResult(
        success=True,
        replaced=stored.replaced,
        warnings=_warnings(stored.warnings),
        totalMemories=stored.total,
        changeId=stored.change_id,
    )


def _set_text(verb: str, result: SetResult | UpdateResult) -> str:
    return "\n".join([verb, *(f"Warning: {warning}" for warning in result.warnings)])


class UpdateArguments(Arguments):
    name: Text
    trigger: Text | None = Field(None, description="See add_long_term_memory")
    prompt: Text | None = Field(None, max_length=MAX_PROMPT_CHARS)
    conversation_id: ConversationId = None
    updatedContext: Text | None = None
    recentMessages: Messages | None = None


class UpdateResult(Result):
    success: bool
    warnings: list[str]
    changeId: str


async def _update(context: Context, arguments: UpdateArguments) -> UpdateResult:
    stored = await context.conversations.get(arguments.conversation_id).long_term.update(
        arguments.name,
        trigger=arguments.trigger,
        prompt=arguments.prompt,
        updated_context=arguments.updatedContext,
        recent=messages_of(arguments.recentMessages or ()),
        by="update_long_term_memory",
    )
    return UpdateResult(success=True, warnings=_warnings(stored.warnings), changeId=stored.change_id)


class NamedArguments(Arguments):
    name: Text
    conversation_id: ConversationId = None


class DeleteResult(Result):
    remainingMemories: int
    changeId: str


async def _delete(context: Context, arguments: NamedArguments) -> DeleteResult:
    manager = context.conversations.get(arguments.conversation_id).long_term
    deleted = await manager.delete(arguments.name, by="delete_long_term_memory")
    return DeleteResult(remainingMemories=deleted.remaining, changeId=deleted.change_id)


class ConversationArguments(Arguments):
    conversation_id: ConversationId = None


class ListArguments(ConversationArguments):
    offset: Offset = None


class Listed(Result):
    name: str
    createdAt: str
    updatedAt: str | None = None
    promptPreview: str
    trouble: str | None = Field(
        None, description="How often its trigger timed out, ran out of memory or crashed lately"
    )


class ListResult(Result):
    memories: list[Listed]
    total: int


async def _list(context: Context, arguments: ListArguments) -> ListResult:
    manager = context.conversations.get(arguments.conversation_id).long_term
    memories = await manager.memories()
    return ListResult(
        memories=[
            Listed(
                name=memory.name,
                createdAt=time_text(memory.created_ms) or "",
                updatedAt=time_text(memory.updated_ms),
                promptPreview=_preview(memory.prompt),
                trouble=_trouble(manager.record_of(memory)),
            )
            for memory in memories
        ],
        total=len(memories),
    )


def _trouble(record: Offences) -> str | None:
    counts = (
        (record.timeouts, "time-out"),
        (record.out_of_memory, "out of memory"),
        (record.killed, "crash"),
    )
    said = [f"{noun} x {count}" for count, noun in counts if count]
    return ", ".join(said) or None


def _preview(prompt: str) -> str:
    return prompt if len(prompt) <= PREVIEW_CHARS else f"{prompt[:PREVIEW_CHARS]}…"


def _list_text(result: ListResult) -> str:
    if not result.total:
        return "No long-term memories in this conversation."
    if not result.memories:
        return f"No more of them: {counted(result.total, 'memory')} in this conversation."
    return "\n".join(
        f"- {memory.name}: {memory.promptPreview}"
        + (f" [trigger in trouble: {memory.trouble}]" if memory.trouble else "")
        for memory in result.memories
    )


class SearchArguments(Arguments):
    messages: Messages = Field(description="The last few messages of the chat")
    conversation_id: ConversationId = None
    participants: dict[str, Any] | None = Field(None, description="Who takes part; triggers see it as it is")
    offset: Offset = None


class Activated(Result):
    name: str
    prompt: str
    createdAt: str
    updatedAt: str | None = None
    conversation_id: str


class FailedTrigger(Result):
    name: str
    conversation_id: str
    kind: str
    message: str
    line: int | None = None
    column: int | None = None


class SearchResult(Result):
    activated: list[Activated]
    random: list[Activated]
    failed: list[FailedTrigger]
    activatedCount: int = Field(description="Triggers that fired, those of other pages among them")
    totalMemories: int
    note: str | None = Field(None, description="Which conversations could not be read")


def _activated(item: Shelved) -> Activated:
    memory = item.memory
    return Activated(
        name=memory.name,
        prompt=memory.prompt,
        createdAt=time_text(memory.created_ms) or "",
        updatedAt=time_text(memory.updated_ms),
        conversation_id=item.conversation_id,
    )


def _failed(item: Shelved, failure: Failed) -> FailedTrigger:
    return FailedTrigger(
        name=item.memory.name,
        conversation_id=item.conversation_id,
        kind=failure.kind,
        message=failure.message,
        line=failure.line,
        column=failure.column,
    )


async def _search(context: Context, arguments: SearchArguments) -> SearchResult:
    activation = await context.conversations.get(arguments.conversation_id).long_term.search(
        messages_of(arguments.messages), participants=arguments.participants
    )
    return search_result(activation)


def search_result(activation: Activation) -> SearchResult:
    """What the triggers came to."""
    return SearchResult(
        activated=[_activated(item) for item in activation.activated],
        random=[_activated(item) for item in activation.random],
        failed=[_failed(item, failure) for item, failure in activation.failed],
        activatedCount=len(activation.activated),
        totalMemories=activation.searched,
        note=unreadable(activation.unread) if activation.unread else None,
    )


def search_text(result: SearchResult) -> str:
    """The same for people."""
    lines = [f"Fired - {memory.name}: {memory.prompt}" for memory in result.activated]
    lines += [f"By chance - {memory.name}: {memory.prompt}" for memory in result.random]
    lines += [
        f"Trigger failed - {failed.name}: {failed.kind}, {failed.message}"
        + (f" (line {failed.line}, column {failed.column})" if failed.line else "")
        for failed in result.failed
    ]
    fired = counted(result.activatedCount, "trigger")
    notes = [result.note] if result.note else []
    return "\n".join([*lines, *notes, f"{fired} of {result.totalMemories} fired."])


class ContextResult(Result):
    name: str
    trigger: str
    createdAt: str
    updatedAt: str | None = None
    createdContext: str
    updatedContext: str


async def _context(context: Context, arguments: NamedArguments) -> ContextResult:
    memory = await context.conversations.get(arguments.conversation_id).long_term.get(arguments.name)
    return ContextResult(
        name=memory.name,
        trigger=memory.trigger,
        createdAt=time_text(memory.created_ms) or "",
        updatedAt=time_text(memory.updated_ms),
        createdContext=memory.created_context,
        updatedContext=memory.updated_context or "",
    )


def _context_text(result: ContextResult) -> str:
    dates = f"created {result.createdAt}" + (f", updated {result.updatedAt}" if result.updatedAt else "")
    parts = [f"{result.name} ({dates})", f"Trigger: {result.trigger}"]
    parts += [f"Created from: {result.createdContext}"] if result.createdContext else []
    parts += [f"Updated from: {result.updatedContext}"] if result.updatedContext else []
    return "\n".join(parts)


LONG_TERM: tuple[Tool, ...] = (
    Tool(
        name="add_long_term_memory",
        title="Remember under a condition",
        description=(
            "Keep a prompt for good and have it come up whenever its JavaScript trigger is true: birthdays, "
            "allergies, promises, moods, places. Kept in the conversation `default`, it is found from every chat. "
            "The trigger sees context.messages, context.participants, Date, match_keys(messages, keys, scope?, depth?) "
            "and match_keys_all. An existing name is replaced."
        ),
        search_hint="remember for good, remind, reminder, birthday, preference, promise",
        arguments=AddArguments,
        result=SetResult,
        run=_add,
        text=lambda r: _set_text(
            f"{'Replaced' if r.replaced else 'Stored'}; "
            f"{counted(r.totalMemories, 'long-term memory')} in this conversation.",
            r,
        ),
        idempotent=True,
    ),
    Tool(
        name="update_long_term_memory",
        title="Change a long-term memory",
        description="Change trigger or prompt of a long-term memory; what is not given stays.",
        arguments=UpdateArguments,
        result=UpdateResult,
        run=_update,
        text=lambda r: _set_text("Updated.", r),
        idempotent=True,
    ),
    Tool(
        name="delete_long_term_memory",
        title="Delete a long-term memory",
        description="Delete a long-term memory by its name.",
        arguments=NamedArguments,
        result=DeleteResult,
        run=_delete,
        text=lambda r: f"Deleted; remaining in this conversation: {r.remainingMemories}.{undo_hint(r)}",
        destructive=True,
    ),
    Tool(
        name="list_long_term_memories",
        title="List long-term memories",
        description="Names, dates and beginnings of the long-term memories of a conversation.",
        arguments=ListArguments,
        paging=Paging("memories"),
        result=ListResult,
        run=_list,
        text=_list_text,
        read_only=True,
        idempotent=True,
    ),
    Tool(
        name="search_long_term_memories",
        title="See which triggers fire",
        description=(
            "Evaluate all triggers against the current messages: call it before you answer. Gives the prompts that "
            "fired, up to 2 others by chance, and triggers that failed, with the reason."
        ),
        at_hand=True,
        arguments=SearchArguments,
        result=SearchResult,
        paging=Paging("activated"),
        run=_search,
        text=search_text,
        recalls=True,
        read_only=True,
        idempotent=True,
    ),
    Tool(
        name="get_memory_context",
        title="Where a long-term memory comes from",
        description="Trigger, dates and context of creation of one long-term memory.",
        arguments=NamedArguments,
        result=ContextResult,
        run=_context,
        text=_context_text,
        read_only=True,
        idempotent=True,
    ),
)
