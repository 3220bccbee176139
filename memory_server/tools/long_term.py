"""The toolset `long-term`: memories with triggers, and which of them come to mind. Names of arguments and results are
the Node original's, so that its users can switch."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from memory_server.conversations.model import MAX_PROMPT_CHARS
from memory_server.conversations.recall.activation import Activation
from memory_server.kernel.recalled_block import harmless, one_line
from memory_server.kernel.text import beginning, unreadable
from memory_server.kernel.times import iso
from memory_server.memories.memories import Call
from memory_server.memories.recalls import Given
from memory_server.tools.base.budget import Paging
from memory_server.tools.base.result import From, Result, listed, undo_hint
from memory_server.tools.base.shapes import ConversationId, CurrentMessages, Messages, Offset, Participants, Text
from memory_server.tools.base.tool import tool
from sandbox import Problem
from sandbox.locale import _, counted, foreign, joined

if TYPE_CHECKING:
    from sandbox import TriggerRecord

_TRIGGER = _("JavaScript condition, e.g. match_keys(context.messages, ['生日','birthday']) > 0")


def _said(problems: Iterable[Problem]) -> list[str]:
    return [
        _("{reason} (line {line}, column {column})", problem.message, problem.line, problem.column)
        if problem.line
        else foreign(problem.message)
        for problem in problems
    ]


Warnings = Annotated[list[str], From("warnings", _said)]


class UpdateResult(Result):
    success: bool
    warnings: Warnings
    changeId: str

    def __str__(self) -> str:
        return _with_warnings("Updated.", self.warnings)


class SetResult(Result):
    success: bool
    replaced: bool
    warnings: Warnings
    totalMemories: Annotated[int, From("total")]
    changeId: str

    def __str__(self) -> str:
        done, count = _("Replaced") if self.replaced else _("Stored"), counted(self.totalMemories, "long-term memory")
        return _with_warnings(_("{done}; {number} in this conversation.", done, count), self.warnings)


def _with_warnings(done: str, warnings: Iterable[str]) -> str:
    return joined("\n", [done, *(_("Warning: {warning}", warning) for warning in warnings)])


@tool(
    title="Remember under a condition",
    description=(
        "Keep a prompt for good and have it come up whenever its JavaScript trigger is true: birthdays, "
        "allergies, promises, moods, places. Kept in the conversation `default`, it is found from every chat. "
        "The trigger sees context.messages, context.participants, Date, match_keys(messages, keys, scope?, depth?) "
        "and match_keys_all. An existing name is replaced."
    ),
    search_hint="remember for good, remind, reminder, birthday, preference, promise",
    idempotent=True,
)
async def add_long_term_memory(
    call: Call,
    name: Text,
    prompt: Annotated[Text, Field(max_length=MAX_PROMPT_CHARS), "What to keep in mind when the trigger fires"],
    trigger: Annotated[Text, _TRIGGER],
    conversation_id: ConversationId = None,
    createdContext: Annotated[Text | None, "Where this comes from"] = None,
    recentMessages: Messages | None = None,
) -> SetResult:
    stored = await call.conversations.get(conversation_id).long_term.add(
        name,
        prompt,
        trigger,
        created_context=createdContext,
        recent=recentMessages or (),
        by="add_long_term_memory",
    )
    return SetResult.of(stored, success=True)


@tool(
    title="Change a long-term memory",
    description="Change trigger or prompt of a long-term memory; what is not given stays.",
    idempotent=True,
)
async def update_long_term_memory(
    call: Call,
    name: Text,
    trigger: Annotated[Text | None, "See add_long_term_memory"] = None,
    prompt: Annotated[Text | None, Field(max_length=MAX_PROMPT_CHARS)] = None,
    conversation_id: ConversationId = None,
    updatedContext: Text | None = None,
    recentMessages: Messages | None = None,
) -> UpdateResult:
    stored = await call.conversations.get(conversation_id).long_term.update(
        name,
        trigger=trigger,
        prompt=prompt,
        updated_context=updatedContext,
        recent=recentMessages or (),
        by="update_long_term_memory",
    )
    return UpdateResult.of(stored, success=True)


class DeleteResult(Result):
    remainingMemories: Annotated[int, From("remaining")]
    changeId: str

    def __str__(self) -> str:
        return _(
            "Deleted; remaining in this conversation: {remaining_memories}.{undo_hint}",
            self.remainingMemories,
            undo_hint(self.changeId),
        )


@tool(title="Delete a long-term memory", description="Delete a long-term memory by its name.", destructive=True)
async def delete_long_term_memory(call: Call, name: Text, conversation_id: ConversationId = None) -> DeleteResult:
    manager = call.conversations.get(conversation_id).long_term
    return DeleteResult.of(await manager.delete(name, by="delete_long_term_memory"))


class Listed(Result):
    name: str
    createdAt: Annotated[str, From("created_ms", iso)]
    updatedAt: Annotated[str | None, From("updated_ms", iso)] = None
    promptPreview: Annotated[str, From("prompt", beginning)]
    trouble: str | None = Field(
        None, description="How often its trigger timed out, ran out of memory or crashed lately"
    )


class ListResult(Result):
    memories: list[Listed]
    total: int

    def __str__(self) -> str:
        if not self.total:
            return _("No long-term memories in this conversation.")
        if not self.memories:
            return _("No more of them: {memories} in this conversation.", counted(self.total, "memory"))
        return joined(
            "\n",
            (
                f"- {one_line(memory.name)}: {one_line(memory.promptPreview)}"
                + (_(" [trigger in trouble: {trouble}]", memory.trouble) if memory.trouble else "")
                for memory in self.memories
            ),
        )


@tool(
    title="List long-term memories",
    description="Names, dates and beginnings of the long-term memories of a conversation.",
    paging=Paging("memories"),
    read_only=True,
)
async def list_long_term_memories(
    call: Call, conversation_id: ConversationId = None, offset: Offset = None
) -> ListResult:
    manager = call.conversations.get(conversation_id).long_term
    memories = await manager.memories()
    return ListResult(
        memories=[Listed.of(memory, trouble=_trouble(manager.record_of(memory))) for memory in memories],
        total=len(memories),
    )


def _trouble(record: TriggerRecord) -> str | None:
    counts = ((record.timeouts, _("time-out")), (record.out_of_memory, _("out of memory")), (record.killed, _("crash")))
    return joined(", ", (noun + f" x {count}" for count, noun in counts if count)) or None


class Activated(Result):
    name: Annotated[str, From("memory.name")]
    prompt: Annotated[str, From("memory.prompt")]
    createdAt: Annotated[str, From("memory.created_ms", iso)]
    updatedAt: Annotated[str | None, From("memory.updated_ms", iso)] = None
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

    def __str__(self) -> str:
        lines = [
            _("Fired - {name}: {prompt}", one_line(memory.name), one_line(memory.prompt)) for memory in self.activated
        ]
        lines += [
            _("By chance - {name}: {prompt}", one_line(memory.name), one_line(memory.prompt)) for memory in self.random
        ]
        lines += [
            _(
                "Trigger failed - {name}: {kind}, {message}{line}",
                one_line(failed.name),
                failed.kind,
                one_line(failed.message),
                _(" (line {line}, column {column})", failed.line, failed.column) if failed.line else "",
            )
            for failed in self.failed
        ]
        lines += [self.note] if self.note else []
        fired = counted(self.activatedCount, "trigger")
        return listed(lines, _("{triggers} of {total_memories} fired.", fired, self.totalMemories))


@tool(
    title="See which triggers fire",
    description=(
        "Evaluate all triggers against the current messages: call it before you answer. Gives the prompts that "
        "fired, up to 2 others by chance, and triggers that failed, with the reason."
    ),
    always_loaded=True,
    paging=Paging("activated"),
    read_only=True,
    recalls=True,
)
async def search_long_term_memories(
    call: Call,
    messages: CurrentMessages,
    conversation_id: ConversationId = None,
    participants: Participants = None,
    offset: Offset = None,
) -> SearchResult:
    conversation = call.conversations.get(conversation_id)
    activation = await conversation.long_term.search(messages, participants=participants)
    result = search_result(activation)
    call.note(Given(conversation.id, messages, result, activation=activation))
    return result


def search_result(activation: Activation) -> SearchResult:
    return SearchResult(
        activated=Activated.each(activation.activated),
        random=Activated.each(activation.random),
        failed=[
            FailedTrigger.of(failure, name=item.memory.name, conversation_id=item.conversation_id)
            for item, failure in activation.failed
        ],
        activatedCount=len(activation.activated),
        totalMemories=activation.searched,
        note=unreadable(activation.unread) if activation.unread else None,
    )


class ContextResult(Result):
    name: str
    trigger: str
    createdAt: Annotated[str, From("created_ms", iso)]
    updatedAt: Annotated[str | None, From("updated_ms", iso)] = None
    createdContext: str
    updatedContext: str

    def __str__(self) -> str:
        dates = _(
            "created {created_at}{updated_at}",
            self.createdAt,
            _(", updated {time}", self.updatedAt) if self.updatedAt else "",
        )
        trigger = "\n  ".join(map(harmless, self.trigger.splitlines()))
        parts = [_("{what} ({more})", one_line(self.name), dates), _("Trigger: {trigger}", trigger)]
        parts += [_("Created from: {created_context}", one_line(self.createdContext))] if self.createdContext else []
        parts += [_("Updated from: {updated_context}", one_line(self.updatedContext))] if self.updatedContext else []
        return joined("\n", parts)


@tool(
    title="Where a long-term memory comes from",
    description="Trigger, dates and context of creation of one long-term memory.",
    read_only=True,
)
async def get_memory_context(call: Call, name: Text, conversation_id: ConversationId = None) -> ContextResult:
    memory = await call.conversations.get(conversation_id).long_term.get(name)
    return ContextResult.of(memory, updatedContext=memory.updated_context or "")
