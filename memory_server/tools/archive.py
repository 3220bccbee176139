"""The toolset `archive`: history, undo, what the clean-up would forget, and bringing memories back."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC
from typing import Annotated, Any, Literal

from pydantic import Field

from languages import N_, _, counted, joined
from memory_server.conversations.archive import ArchivedMemory
from memory_server.conversations.changes import change_id
from memory_server.conversations.model import EVERYWHERE, Memory, ShortTermMemory, place_text
from memory_server.kernel.errors import InvalidInput
from memory_server.kernel.lifecycle import CleanupItem, engine_of
from memory_server.kernel.messages import MAX_CONTENT_CHARS, said_beginning
from memory_server.kernel.other_words import found_by_text, private_words_note
from memory_server.kernel.recalled_block import one_line
from memory_server.kernel.text import beginning
from memory_server.kernel.times import iso
from memory_server.lore import LongTermMemory
from memory_server.memories.forgetting import is_together, undo
from memory_server.memories.memories import Call
from memory_server.tools.base.result import (
    ChangeId,
    From,
    Pagination,
    Result,
    or_none,
    sentences,
    undo_hint,
    when,
)
from memory_server.tools.base.shapes import (
    MAX_PATTERN_CHARS,
    PATTERN,
    ConversationId,
    Text,
    Words,
    moment_ms,
)
from memory_server.tools.base.tool import tool

MAX_PAGE = 200
"""Changes on a page of the history at most."""
REASONS = N_(
    {
        "too_old": "older than the limit",
        "faded": "faded",
        "deleted": "deleted",
        "undone": "the change that stored it was undone",
        "hand": "taken out of the JSON file",
        "restored_over": "not in the backup that was restored",
        "retired": "no longer in its book",
        "taken_back": "taken back in the client",
    }
)


Reason = Annotated[
    str,
    Field(
        description="`too_old`, `faded`, `deleted`, `undone`, `hand`, `restored_over`, `retired` or `taken_back`"
    ),
]
RemovedAt = Annotated[str, From("at_ms", iso), Field(description="When it was removed")]
RemovedBy = Annotated[str, From("by"), Field(description="The tool or command that removed it")]


def _name(memory: Memory) -> str:
    return memory.name if isinstance(memory, LongTermMemory) else memory.id


def _text(memory: Memory) -> str:
    if isinstance(memory, LongTermMemory):
        return beginning(f"{memory.name}\n{memory.prompt}")
    return said_beginning(memory.text)


class Gone(Result):
    id: Annotated[str, From("memory", _name, "Id of a short-term, name of a long-term memory")]
    text: Annotated[str, From("memory", _text, "Its beginning")]
    reason: Reason


def kept_text(always_kept: int) -> str:
    """Describe why the clean-up leaves most conversations alone."""
    return _("A conversation of up to {always_kept:,} memories keeps everything.", always_kept)


def forgotten_text(
    leaving: Sequence[Gone | CleanupItem],
    *,
    remaining: int,
    due: int,
    dry_run: bool,
    why_kept: str = "",
) -> str:
    """Describe what a clean-up of a conversation forgot, or with `dry_run` would forget. `due` of the `remaining`
    memories are for later runs."""
    count = counted(len(leaving), "memory")
    later = _("; {due_later} more in later runs", due) if due else ""
    why = " " + why_kept if why_kept else ""

    if dry_run:
        sentence = _(
            "Would forget {number}{later}; remaining: {remaining_count}.{why}",
            count,
            later,
            remaining,
            why,
        )
    else:
        sentence = _(
            "Forgot {number}{later}; remaining: {remaining_count}.{why}",
            count,
            later,
            remaining,
            why,
        )

    return "\n".join([sentence, *_leaving_lines(leaving)])


def archived_text(leaving: Sequence[CleanupItem], *, dry_run: bool) -> str:
    """Describe what a clean-up of knowledge put into the archive, or with `dry_run` would put there."""
    entries = counted(len(leaving), "entry")
    sentence = (
        _("Would archive {entries}.", entries) if dry_run else _("Archived {entries}.", entries)
    )
    return "\n".join([sentence, *_leaving_lines(leaving)])


def _leaving_lines(leaving: Sequence[Gone | CleanupItem]) -> list[str]:
    """Return a line for each memory that leaves, with its reason and the beginning of its text."""
    return [
        _(
            "- {id} ({reasons}): {text}",
            one_line(memory.id),
            _(REASONS.get(memory.reason, memory.reason)),
            one_line(beginning(memory.text)),
        )
        for memory in leaving
    ]


class PreviewResult(Result):
    wouldForgetCount: Annotated[
        int, From("forgotten", len, "How many the next clean-up would forget")
    ]
    wouldForget: Annotated[
        list[Gone],
        From("forgotten", Gone.each, "What the next clean-up would forget, in that order"),
    ]
    dueLater: Annotated[
        int, From("due", words="How many more have faded but exceed what one run forgets")
    ]
    remainingCount: Annotated[int, From("remaining", words="How many would remain")]
    keepAtLeast: int = Field(description="Up to so many nothing is forgotten")

    def __str__(self) -> str:
        # Where the conversation is so small that it keeps everything, the reader is told that.
        keeps_everything = 0 < self.remainingCount <= self.keepAtLeast
        why_kept = kept_text(self.keepAtLeast) if keeps_everything else ""
        return forgotten_text(
            self.wouldForget,
            remaining=self.remainingCount,
            due=self.dueLater,
            dry_run=True,
            why_kept=why_kept,
        )


@tool(
    title="What would be forgotten",
    description="What the next clean-up would forget and why. Changes nothing.",
    read_only=True,
)
async def forget_preview(call: Call, conversation_id: ConversationId = None) -> PreviewResult:
    removed = await call.conversations.get(conversation_id).short_term.clean_up(dry_run=True)
    return PreviewResult.of(
        removed, keepAtLeast=call.memories.services.parameters.retention.always_kept
    )


class Back(Gone):
    removedAt: RemovedAt
    removedBy: RemovedBy


class RestoreResult(Result):
    restoredCount: Annotated[int, From("entries", len, "How many came back, or would")]
    restored: Annotated[
        list[Back], From("entries", Back.each, "What came back, or would, with score and pin")
    ]
    inTheWay: Annotated[
        list[Back],
        From(form=Back.each, words="Left in the archive, because their id or name is in use again"),
    ]
    dryRun: bool = Field(description="Whether this only says what would come back")
    changeId: ChangeId = None

    def __str__(self) -> str:
        """List what came back or would, and what stays in the archive. Warn if the clean-up would
        forget something again."""
        lines = [
            _(
                "- {id} ({reasons}, {when}): {text}",
                one_line(back.id),
                _(REASONS[back.reason]),
                when(back.removedAt),
                one_line(back.text),
            )
            for back in self.restored
        ]
        lines += [
            _("- {id} stays in the archive: that id or name is in use", one_line(back.id))
            for back in self.inTheWay
        ]

        # What was forgotten for its age is still as old, so the clean-up would take it again.
        hint = ""
        if any(back.reason in ("too_old", "faded") for back in self.restored):
            hint = _(" The clean-up will forget them again unless you pin them.")

        count = counted(self.restoredCount, "memory")
        undo = undo_hint(self.changeId)
        if self.dryRun:
            sentence = _("Would bring back {number}.{hint}{undo}", count, hint, undo)
        else:
            sentence = _("Brought back {number}.{hint}{undo}", count, hint, undo)

        return "\n".join([sentence, *lines])


@tool(
    title="Bring forgotten memories back",
    description=(
        "Bring back what was deleted or forgotten, usually within 90 days, by id, by a word of its text or by "
        "the time of its removal. With dry_run only list it."
    ),
    idempotent=True,
)
async def restore_memories_from_archive(
    call: Call,
    ids: Annotated[list[Text], "Ids of short-term, names of long-term memories"] = [],
    pattern: Annotated[Text | None, Field(max_length=MAX_PATTERN_CHARS), PATTERN] = None,
    removedSince: Annotated[Text | None, "ISO time, UTC where it has no zone"] = None,
    removedUntil: Annotated[Text | None, "ISO time"] = None,
    dry_run: Annotated[bool, "Only list"] = False,
    conversation_id: ConversationId = None,
) -> RestoreResult:
    if not dry_run:
        call.memories.services.refuse_where_full()
    brought_back = await call.conversations.get(conversation_id).archive.bring_back(
        ids,
        pattern=pattern,
        since_ms=moment_ms("removedSince", removedSince, UTC),
        until_ms=moment_ms("removedUntil", removedUntil, UTC, end=True),
        dry_run=dry_run,
        by="restore_memories_from_archive",
    )
    return RestoreResult.of(brought_back, dryRun=dry_run)


class Removal(Result):
    reason: Reason
    removedAt: RemovedAt
    removedBy: RemovedBy
    changeId: str = Field(description="Of the removal, for undo_change")


def removal(conversation_id: str, archived: ArchivedMemory) -> Removal:
    """Return how a memory of `conversation_id`, which is in the archive now, was removed."""
    return Removal.of(archived, changeId=change_id(conversation_id, archived.version))


class StepRow(Result):
    what: str = Field(description="What happened, such as `forgotten`")
    id: str | None = Field(None, description="Id or name of the memory")
    text: str | None = Field(None, description="Its beginning, or its score before and after")

    def __str__(self) -> str:
        parts = [_(self.what)]
        if self.id:
            parts.append(one_line(self.id))
        if self.text:
            parts.append("- " + one_line(self.text))
        return " ".join(parts)


class UndoResult(Result):
    undone: str = Field(description="The change that was taken back")
    changes: Annotated[list[StepRow], From("steps", StepRow.each, "What that did")]
    changeId: Annotated[str, From("id", words="Names the undoing, which can be undone too")]
    refused: Annotated[list[str], From(words="Why parts of it were not taken back")]

    def __str__(self) -> str:
        steps = (f"- {step}" for step in self.changes)
        return "\n".join(
            [_("Undid {change}; change {id}.", self.undone, self.changeId), *steps, *self.refused]
        )


@tool(
    title="Undo",
    description="Take back one change by the changeId that a tool returned; what happened since stays.",
)
async def undo_change(
    call: Call,
    changeId: Annotated[Text, "As the tool that made the change returned it"],
    conversation_id: ConversationId = None,
) -> UndoResult:
    engines = call.memories.engines
    conversation = None
    if not is_together(changeId) and engine_of(engines, changeId).keeps == "conversations":
        conversation = call.conversations.get(conversation_id).id
    call.memories.services.refuse_where_full()
    undone = await undo(engines, changeId, conversation, by="undo_change")
    return UndoResult.of(undone, undone=changeId)


_MOST_STEPS = 100
"""Steps of a change that are told: an import has tens of thousands."""


class HistoryEntry(Result):
    changeId: Annotated[str, From("id", words="Names the change for undo_change")]
    at: Annotated[str, From("at_ms", iso, "When")]
    by: str = Field(description="Which tool or command; `hand` is a person with an editor")
    steps: Annotated[list[StepRow], From(form=StepRow.each, words="What happened, in order")]
    moreSteps: Annotated[int | None, From("more_steps", or_none, words="Steps beside these")] = None

    def shown_steps(self) -> list[str]:
        steps = [str(step) for step in self.steps]
        if self.moreSteps is not None:
            steps.append(_("and {steps} more", self.moreSteps))
        return steps

    def line(self, place: str = "") -> str:
        """Return the change in a line. `place` is where it was made, if that is not known."""
        where = " " + _("in {place}", place) if place else ""
        steps = joined("; ", self.shown_steps())
        return "".join([f"{self.changeId} {when(self.at)}", where, f" {self.by}: ", steps])

    def __str__(self) -> str:
        return self.line()


class HistoryResult(Result):
    changes: list[HistoryEntry] = Field(description="Newest first")
    next: str | None = Field(
        None, description="Give this as `before` for the next page; left out at the end"
    )

    def __str__(self) -> str:
        if not self.changes:
            return _(
                "Nothing was changed in this conversation, or only so long ago that the history is not kept."
            )
        lines = [str(change) for change in self.changes]
        if self.next:
            lines.append(_("More before {next}.", self.next))
        return "\n".join(lines)


def _id_of_last(last_change: dict[str, Any], _number: int) -> str:
    change_id: str = last_change["changeId"]
    return change_id


@tool(
    title="What was changed",
    description="Who changed what and when in a conversation, newest first.",
    paging=Pagination("changes", "before", _id_of_last),
    read_only=True,
)
async def get_history(
    call: Call,
    conversation_id: ConversationId = None,
    limit: Annotated[int, Field(ge=1, le=MAX_PAGE), "Changes on a page"] = 20,
    before: Annotated[Text | None, "changeId of the last one of the page before"] = None,
) -> HistoryResult:
    [engine] = [engine for engine in call.memories.engines if engine.keeps == "conversations"]
    conversation = call.conversations.get(conversation_id).id
    # One more than is shown: then it is known whether there is a next page.
    past_changes = await engine.history(
        conversation, before=before, limit=limit + 1, most_steps=_MOST_STEPS
    )
    changes = HistoryEntry.each(past_changes[:limit])
    following = None
    if len(past_changes) > limit:
        following = changes[-1].changeId
    return HistoryResult(changes=changes, next=following)


MemoryId = Annotated[Text, "Id of a short-term memory"]


class PinResult(Result):
    id: Annotated[str, From("memory.id", words="Id of the memory")]
    pinned: Annotated[bool, From("memory.pinned", words="Whether the clean-up leaves it alone")]
    changeId: ChangeId = None

    def __str__(self) -> str:
        return _(
            "{id} is {pinned}.{undo_hint}",
            self.id,
            _("pinned") if self.pinned else _("not pinned"),
            undo_hint(self.changeId),
        )


@tool(
    title="Never forget this",
    description="Keep the clean-up from ever forgetting a short-term memory.",
    idempotent=True,
)
async def pin_memory(call: Call, id: MemoryId, conversation_id: ConversationId = None) -> PinResult:
    short_term = call.conversations.get(conversation_id).short_term
    return PinResult.of(await short_term.pin(id, by="pin_memory"))


@tool(
    title="May be forgotten again",
    description="Let the clean-up forget a pinned memory when it has faded.",
    idempotent=True,
)
async def unpin_memory(
    call: Call, id: MemoryId, conversation_id: ConversationId = None
) -> PinResult:
    short_term = call.conversations.get(conversation_id).short_term
    return PinResult.of(await short_term.pin(id, pinned=False, by="unpin_memory"))


class MuteResult(Result):
    id: Annotated[str, From("memory.id", words="Id of the memory")]
    muted: Annotated[
        list[str],
        From(
            "memory.muted",
            words="Where it does not come: `everywhere`, `conversation:ID`, `folder:PATH`",
        ),
    ]
    changeId: ChangeId = None

    def __str__(self) -> str:
        undo = undo_hint(self.changeId)
        if not self.muted:
            return _("{id} is not muted.{undo_hint}", self.id, undo)
        places = joined(", ", map(place_text, self.muted))
        return _(
            "{id} is muted: it no longer comes unasked {places}. A search by hand finds it.{undo}",
            self.id,
            places,
            undo,
        )


@tool(
    title="Never bring this here",
    description=(
        "Mute a short-term memory: it stays, a search finds it, but it no longer comes unasked in the conversation, in "
        "the folder of the work, or everywhere; `nowhere` ends that."
    ),
    idempotent=True,
)
async def mute_memory(
    call: Call,
    id: MemoryId,
    where: Annotated[
        Literal["conversation", "folder", "everywhere", "nowhere"], "Where it must not come"
    ] = "conversation",
    conversation_id: ConversationId = None,
) -> MuteResult:
    conversation = call.conversations.get(conversation_id)

    place: str | None
    match where:
        case "conversation":
            place = f"conversation:{conversation.id}"
        case "folder":
            if call.folder is None:
                raise InvalidInput(
                    "The folder of this call is not known; mute the memory in its conversation, or everywhere."
                )
            place = f"folder:{call.folder}"
        case "everywhere":
            place = EVERYWHERE
        case "nowhere":
            place = None

    return MuteResult.of(await conversation.short_term.mute(id, place, by="mute_memory"))


class EditResult(Result):
    id: Annotated[str, From("memory.id", words="Id of the memory")]
    text: Annotated[str, From("memory.text", said_beginning, "The beginning of what it says now")]
    otherWords: Annotated[
        list[str] | None,
        From("memory.other_words", or_none, "By which it is found beside its own words"),
    ] = None
    note: str | None = Field(None, description="Which other words were left out, and why")
    changeId: ChangeId = None

    def __str__(self) -> str:
        sentence = _(
            "{id} says now: {text}.{undo_hint}",
            self.id,
            one_line(self.text),
            undo_hint(self.changeId),
        )
        return sentences(sentence, found_by_text(self.otherWords or ()), self.note)


def _texts_with(memory: ShortTermMemory, find: str, replacement: str) -> list[str]:
    """Return the texts of its messages, with `replacement` in the place of `find`. Raise InvalidInput if all texts
    together have `find` not at all or several times."""
    texts = [message.content for message in memory.messages] or [memory.text]
    count = sum(text.count(find) for text in texts)
    if count == 0:
        raise InvalidInput(
            "No message of the memory {id} has these words; give some as they are written.",
            memory.id,
        )
    if count > 1:
        raise InvalidInput(
            "The memory {id} has these words {number} times; give more of the text around them.",
            memory.id,
            count,
        )
    return [text.replace(find, replacement) for text in texts]


@tool(
    title="Correct a memory",
    description=(
        "Correct what a short-term memory says, such as a name that was wrong. What it said stays in the history; "
        "the change can be undone. Or give it other words by which it is found."
    ),
)
async def edit_memory(
    call: Call,
    id: MemoryId,
    find: Annotated[
        Text | None,
        Field(min_length=1, max_length=MAX_CONTENT_CHARS),
        "Words that one of its messages has once",
    ] = None,
    replace: Annotated[
        Text | None,
        Field(max_length=MAX_CONTENT_CHARS),
        "What comes in their place; an empty text takes them out",
    ] = None,
    otherWords: Annotated[
        Words | None, "All other words by which it is found; an empty list takes them away"
    ] = None,
    conversation_id: ConversationId = None,
) -> EditResult:
    short_term = call.conversations.get(conversation_id).short_term
    memory = await short_term.memory(id)
    texts = None
    if find is not None and replace is not None:
        texts = _texts_with(memory, find, replace)
    elif find is not None or replace is not None or otherWords is None:
        raise InvalidInput(
            "Give both find and replace, or otherWords, or all three; then it is known what to change."
        )
    edited = await short_term.edit(
        id, texts, other_words=otherWords, before=memory.text, by="edit_memory"
    )
    return EditResult.of(edited, note=private_words_note(edited.private_words))
