"""The toolset `long-term`: memories with triggers, and which of them come to mind. Names of arguments and results are
the Node original's, so that its users can switch."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, TypedDict, Unpack

from pydantic import BeforeValidator, Field

from languages import N_, _, counted, foreign, joined
from memory_server.conversations.model import MAX_PROMPT_CHARS
from memory_server.conversations.recall.request import RecallRequest
from memory_server.conversations.trigger_search import Activation
from memory_server.kernel.recalled_block import harmless, one_line
from memory_server.kernel.text import beginning, unreadable, words_between_commas
from memory_server.kernel.times import iso
from memory_server.lore import (
    BookEntry,
    FiringRules,
    GivenRules,
    PromptFit,
    reason_text,
    rules_json,
    rules_text,
)
from memory_server.memories.memories import Call
from memory_server.memories.recalls import RecallOutput
from memory_server.tools.base.result import From, Pagination, Result, listed, or_none, undo_hint
from memory_server.tools.base.shapes import (
    ConversationId,
    CurrentMessages,
    Messages,
    Offset,
    Participants,
    Text,
)
from memory_server.tools.base.tool import FOR_PROGRAMS, tool
from sandbox import MOST_GROUP_CHARS, MOST_GROUPS, MOST_MESSAGES, Problem


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
    leftOut: list[LeftOut] | None = Field(
        None, description="What fired and does not come, by its rules"
    )

    def __str__(self) -> str:
        """List the memories that fired, came by chance, failed or were left out, and how many
        fired."""
        lines = [
            _("Fired - {name}: {prompt}", one_line(memory.name), one_line(memory.prompt))
            for memory in self.activated
        ]

        lines += [
            _("By chance - {name}: {prompt}", one_line(memory.name), one_line(memory.prompt))
            for memory in self.random
        ]

        lines += [
            _(
                "Trigger failed - {name}: {kind}, {message}{line}",
                one_line(failed.name),
                failed.kind,
                one_line(failed.message),
                _(" (line {line}, column {column})", failed.line, failed.column)
                if failed.line
                else "",
            )
            for failed in self.failed
        ]

        lines += [
            _("Left out - {name}: {reason}", one_line(row.name), reason_text(row.reason))
            for row in self.leftOut or ()
        ]

        if self.note:
            lines.append(self.note)

        fired = counted(self.activatedCount, "trigger")
        return listed(lines, _("{triggers} of {total_memories} fired.", fired, self.totalMemories))


def _placement(book: BookEntry) -> Mapping[str, Any] | None:
    return book.placement or None


class Brief(Result):
    name: Annotated[str, From("entry.name")]
    order: Annotated[float, From("entry.rules.order", words="The highest stands last in the text")]
    chars: Annotated[int, From("body", len, "Characters of its text in `prompt`")]
    conversation_id: Annotated[str, From("entry.conversation_id")]
    placement: Annotated[
        dict[str, Any] | None,
        From(
            "entry.memory.book",
            _placement,
            "Where the client of its lorebook would put the text",
        ),
    ] = None
    cut: Annotated[bool | None, From("is_cut", or_none, "Only its beginning had room")] = None


class LeftOut(Result):
    name: str
    conversation_id: str
    chars: int | None = Field(None, description="Characters of its text, where these matter")
    reason: str = Field(
        description="room, same_text, group, chance, cooldown, delay, once, character or recursion"
    )


class TurnResult(Result):
    activated: list[Brief] = Field(
        description="Names, order and length of what stands in `prompt`, in that order"
    )
    leftOut: list[LeftOut] = Field(
        default_factory=list, description="What fired and is not in `prompt`, and why"
    )
    random: list[Activated]
    failed: list[FailedTrigger]
    activatedCount: int = Field(description="Triggers that fired")
    totalMemories: int
    note: str | None = Field(None, description="Which conversations could not be read")


def left_out(activation: Activation, fitting: PromptFit | None = None) -> list[LeftOut]:
    """Return the memories that fired and did not come, with the reason: first those without room in
    `fitting`, then those that their rules held back."""
    without_room = fitting.left_out if fitting is not None else ()
    rows = [
        LeftOut(
            name=entry.entry.name,
            conversation_id=entry.entry.conversation_id,
            chars=entry.chars,
            reason=entry.reason,
        )
        for entry in without_room
    ]

    rows += [
        LeftOut(
            name=held_back.shelved.name,
            conversation_id=held_back.shelved.conversation_id,
            reason=held_back.reason,
        )
        for held_back in activation.held_back
    ]

    return rows


def turn_result(activation: Activation, fitting: PromptFit) -> TurnResult:
    """Return what `recall_turn` says of long-term memories. Their texts are in the prompt."""
    # The texts are in the prompt already, and a client pays for each of them.
    without_texts = search_result(replace(activation, activated=()))
    return TurnResult(
        activated=Brief.each(fitting.texts),
        leftOut=left_out(activation, fitting),
        random=without_texts.random,
        failed=without_texts.failed,
        activatedCount=len(activation.activated),
        totalMemories=without_texts.totalMemories,
        note=without_texts.note,
    )


def search_result(activation: Activation) -> SearchResult:
    """Return the result of a search for triggers, with the texts of all memories that fired."""
    failed = [
        FailedTrigger.of(failure, name=shelved.memory.name, conversation_id=shelved.conversation_id)
        for shelved, failure in activation.failed
    ]

    note = None
    if activation.unread:
        note = unreadable(activation.unread)

    return SearchResult(
        activated=Activated.each(activation.activated),
        random=Activated.each(activation.random),
        failed=failed,
        activatedCount=len(activation.activated),
        totalMemories=activation.searched,
        note=note,
        leftOut=left_out(activation) or None,
    )


if TYPE_CHECKING:
    from sandbox import TriggerRecord

_TRIGGER = N_("JavaScript condition, e.g. match_keys(context.messages, ['生日','birthday']) > 0")


_MOST_ORDER = 1e9


def _names(group: Any) -> Any:
    """Return the names of groups. A single text has them with commas between, as in SillyTavern."""
    if isinstance(group, str):
        return words_between_commas(group)
    return group


def _warning_texts(problems: Iterable[Problem]) -> list[str]:
    return [_warning_text(problem) for problem in problems]


def _warning_text(problem: Problem) -> str:
    if not problem.line:
        return foreign(problem.message)
    return _(
        "{reason} (line {line}, column {column})", problem.message, problem.line, problem.column
    )


_GroupName = Annotated[Text, Field(min_length=1, max_length=MOST_GROUP_CHARS)]


class RuleArguments(TypedDict):
    """What decides between memories that fire together, and how often one comes. See `FiringRules`."""

    order: Annotated[
        float | None,
        Field(ge=-_MOST_ORDER, le=_MOST_ORDER, allow_inf_nan=False),
        FOR_PROGRAMS,
        "The highest comes first where room is short; usually 100",
    ]
    group: Annotated[
        Annotated[list[_GroupName], Field(max_length=MOST_GROUPS)] | None,
        BeforeValidator(_names),
        FOR_PROGRAMS,
        "Groups: of those of one group that fire together, one comes",
    ]
    cooldown: Annotated[
        int | None,
        Field(ge=0, le=MOST_MESSAGES),
        FOR_PROGRAMS,
        "It comes again so many messages of a chat later at the earliest; after `sticky`, it stays away for so many",
    ]
    once: Annotated[bool | None, FOR_PROGRAMS, "It comes once in a chat"]
    sticky: Annotated[
        int | None,
        Field(ge=0, le=MOST_MESSAGES),
        FOR_PROGRAMS,
        "Messages of a chat for which it stays, with that at which it came",
    ]
    probability: Annotated[
        float | None, Field(ge=0, le=100), FOR_PROGRAMS, "Per cent of the cases in which it comes"
    ]


Warnings = Annotated[list[str], From("warnings", _warning_texts)]


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
        done = _("Replaced") if self.replaced else _("Stored")
        count = counted(self.totalMemories, "long-term memory")
        return _with_warnings(
            _("{done}; {number} in this conversation.", done, count), self.warnings
        )


def _with_warnings(sentence: str, warnings: Iterable[str]) -> str:
    warning_lines = [_("Warning: {warning}", warning) for warning in warnings]
    return "\n".join([sentence, *warning_lines])


@tool(
    title="Remember under a condition",
    description=(
        "Keep a prompt for good and have it come up when its JavaScript trigger is true: birthdays, "
        "allergies, promises, moods, places. In the conversation `default` it is found from every chat. "
        "It sees context.messages, context.participants, Date, match_keys(messages, keys, scope?, depth?), "
        "match_keys_all, on_day(month, day), on_lunar_day. An existing name is replaced."
    ),
    search_hint="remember for good, remind, reminder, birthday, preference, promise",
    idempotent=True,
)
async def add_long_term_memory(
    call: Call,
    name: Text,
    prompt: Annotated[
        Text, Field(max_length=MAX_PROMPT_CHARS), "What to keep in mind when the trigger fires"
    ],
    trigger: Annotated[Text, _TRIGGER],
    conversation_id: ConversationId = None,
    createdContext: Annotated[Text | None, "Where this comes from"] = None,
    recentMessages: Messages | None = None,
    **rules: Unpack[RuleArguments],
) -> SetResult:
    stored = await call.conversations.get(conversation_id).long_term.add(
        name,
        prompt,
        trigger,
        created_context=createdContext,
        recent=recentMessages or (),
        rules=GivenRules(**rules),
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
    **rules: Unpack[RuleArguments],
) -> UpdateResult:
    stored = await call.conversations.get(conversation_id).long_term.update(
        name,
        trigger=trigger,
        prompt=prompt,
        updated_context=updatedContext,
        recent=recentMessages or (),
        rules=GivenRules(**rules),
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


@tool(
    title="Delete a long-term memory",
    description="Delete a long-term memory by its name.",
    destructive=True,
)
async def delete_long_term_memory(
    call: Call, name: Text, conversation_id: ConversationId = None
) -> DeleteResult:
    long_term = call.conversations.get(conversation_id).long_term
    return DeleteResult.of(await long_term.delete(name, by="delete_long_term_memory"))


def _book_name(book: BookEntry) -> str:
    return book.book_name


def _rules_or_none(rules: FiringRules) -> dict[str, Any] | None:
    return rules_json(rules) or None


def _rules_in_words(rules: FiringRules) -> str | None:
    return rules_text(rules) or None


Rules = Annotated[
    dict[str, Any] | None,
    From("rules", _rules_or_none, "Rules that are not as usual: order, group, cooldown, …"),
]
RulesInWords = Annotated[
    str | None, From("rules", _rules_in_words, "Rules that are not as usual, in words")
]
BookName = Annotated[str | None, From("book", _book_name, "The lorebook that it is from")]


class Listed(Result):
    name: str
    createdAt: Annotated[str, From("created_ms", iso)]
    updatedAt: Annotated[str | None, From("updated_ms", iso)] = None
    promptPreview: Annotated[str, From("prompt", beginning)]
    rules: RulesInWords = None
    book: BookName = None
    trouble: str | None = Field(
        None, description="How often its trigger timed out, ran out of memory or crashed lately"
    )

    def __str__(self) -> str:
        text = f"- {one_line(self.name)}: {one_line(self.promptPreview)}"
        if self.rules:
            text += _(" [{rules}]", self.rules)
        if self.trouble:
            text += _(" [trigger in trouble: {trouble}]", self.trouble)
        return text


class ListResult(Result):
    memories: list[Listed]
    total: int

    def __str__(self) -> str:
        if not self.total:
            return _("No long-term memories in this conversation.")
        if not self.memories:
            return _(
                "No more of them: {memories} in this conversation.", counted(self.total, "memory")
            )
        return "\n".join(map(str, self.memories))


@tool(
    title="List long-term memories",
    description="Names, dates and beginnings of the long-term memories of a conversation.",
    paging=Pagination("memories"),
    read_only=True,
)
async def list_long_term_memories(
    call: Call, conversation_id: ConversationId = None, offset: Offset = None
) -> ListResult:
    long_term = call.conversations.get(conversation_id).long_term
    memories = await long_term.memories()
    rows = [Listed.of(memory, trouble=_trouble(long_term.record_of(memory))) for memory in memories]
    return ListResult(memories=rows, total=len(memories))


def _trouble(record: TriggerRecord) -> str | None:
    """Return how often a trigger ran out of time or memory or crashed, or None if it never did."""
    counts = (
        (record.timeouts, _("time-out")),
        (record.out_of_memory, _("out of memory")),
        (record.killed, _("crash")),
    )
    parts = [noun + f" x {count}" for count, noun in counts if count]
    return joined(", ", parts) or None


@tool(
    title="See which triggers fire",
    description=(
        "Evaluate all triggers against the current messages: call it before you answer. Gives the prompts that "
        "fired, up to 2 others by chance, and triggers that failed, with the reason."
    ),
    always_loaded=True,
    paging=Pagination("activated"),
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
    request = RecallRequest(messages, participants=participants or {})
    call = call.in_zone(request.timezone)
    conversation = call.conversations.get(conversation_id)
    activation = await conversation.long_term.search(request)
    result = search_result(activation)
    call.note(RecallOutput(conversation.id, messages, result, activation=activation))
    return result


class ContextResult(Result):
    name: str
    trigger: str
    createdAt: Annotated[str, From("created_ms", iso)]
    updatedAt: Annotated[str | None, From("updated_ms", iso)] = None
    createdContext: str
    updatedContext: str
    rules: Rules = None
    rulesInWords: RulesInWords = None
    book: BookName = None

    def __str__(self) -> str:
        """Describe a memory: its dates and trigger, and its rules, lorebook and contexts if it has
        them."""
        dates = _(
            "created {created_at}{updated_at}",
            self.createdAt,
            _(", updated {time}", self.updatedAt) if self.updatedAt else "",
        )

        # A trigger has line breaks, and may be anything that an import brought.
        trigger = "\n  ".join(map(harmless, self.trigger.splitlines()))
        lines = [_("{what} ({more})", one_line(self.name), dates), _("Trigger: {trigger}", trigger)]

        if self.rulesInWords:
            lines.append(_("Rules: {rules}", self.rulesInWords))
        if self.book:
            lines.append(_("Book: {book}", one_line(self.book)))
        if self.createdContext:
            lines.append(_("Created from: {created_context}", one_line(self.createdContext)))
        if self.updatedContext:
            lines.append(_("Updated from: {updated_context}", one_line(self.updatedContext)))

        return "\n".join(lines)


@tool(
    title="Where a long-term memory comes from",
    description="Trigger, dates and context of creation of one long-term memory.",
    read_only=True,
)
async def get_memory_context(
    call: Call, name: Text, conversation_id: ConversationId = None
) -> ContextResult:
    memory = await call.conversations.get(conversation_id).long_term.get(name)
    return ContextResult.of(memory, updatedContext=memory.updated_context or "")
