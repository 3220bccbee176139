"""The toolset `archive`: history, undo, what the clean-up would forget, and bringing memories back."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC
from typing import Annotated

from pydantic import Field

from memory_server.conversations.archive import Archived
from memory_server.conversations.changes import change_id
from memory_server.conversations.model import LongTermMemory, Memory
from memory_server.kernel.lifecycle import Leaving, engine_of
from memory_server.kernel.messages import said_beginning
from memory_server.kernel.recalled_block import one_line
from memory_server.kernel.text import beginning
from memory_server.kernel.times import iso
from memory_server.memories.forgetting import is_together, undo
from memory_server.memories.memories import Call
from memory_server.tools.base.budget import Paging
from memory_server.tools.base.result import ChangeId, From, Result, undo_hint, when
from memory_server.tools.base.shapes import MAX_PATTERN_CHARS, PATTERN, ConversationId, Text, moment_ms
from memory_server.tools.base.tool import tool
from sandbox.locale import _, changed, counted, joined, term

MAX_PAGE = 200
"""Changes on one page of the history at most."""
REASONS = {
    "too_old": _("older than the limit"),
    "faded": _("faded"),
    "deleted": _("deleted"),
    "undone": _("the change that stored it was undone"),
    "hand": _("taken out of the JSON file"),
    "restored_over": _("not in the backup that was restored"),
}


Reason = Annotated[str, Field(description="`too_old`, `faded`, `deleted`, `undone`, `hand` or `restored_over`")]
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
    """Why the clean-up leaves most conversations alone."""
    return _("A conversation of up to {always_kept:,} memories keeps everything.", always_kept)


def forgotten_text(
    left: Sequence[Gone | Leaving], *, remaining: int, due: int, dry_run: bool, why_kept: str = ""
) -> str:
    """What a clean-up of a conversation forgot, or with `dry_run` would forget. `due` of the `remaining` memories are
    for later runs."""
    count = counted(len(left), "memory")
    later = _("; {due_later} more in later runs", due) if due else ""
    why = " " + why_kept if why_kept else ""
    if dry_run:
        sentence = _("Would forget {number}{later}; remaining: {remaining_count}.{why}", count, later, remaining, why)
    else:
        sentence = _("Forgot {number}{later}; remaining: {remaining_count}.{why}", count, later, remaining, why)
    return joined("\n", [sentence, *_leaving_lines(left)])


def archived_text(left: Sequence[Leaving], *, dry_run: bool) -> str:
    """What a clean-up of knowledge put into the archive, or with `dry_run` would put there."""
    entries = counted(len(left), "entry")
    sentence = _("Would archive {entries}.", entries) if dry_run else _("Archived {entries}.", entries)
    return joined("\n", [sentence, *_leaving_lines(left)])


def _leaving_lines(left: Sequence[Gone | Leaving]) -> list[str]:
    return [
        _("- {id} ({reasons}): {text}", one_line(memory.id), _reason_text(memory.reason), _one_line_of(memory.text))
        for memory in left
    ]


def _reason_text(reason: str) -> str:
    return REASONS.get(reason) or term(reason)


def _one_line_of(text: str) -> str:
    return one_line(beginning(text))


class PreviewResult(Result):
    wouldForgetCount: Annotated[int, From("forgotten", len, "How many the next clean-up would forget")]
    wouldForget: Annotated[
        list[Gone], From("forgotten", Gone.each, "What the next clean-up would forget, in that order")
    ]
    dueLater: Annotated[int, From("due", words="How many more have faded but exceed what one run forgets")]
    remainingCount: Annotated[int, From("remaining", words="How many would remain")]
    keepAtLeast: int = Field(description="Up to so many nothing is forgotten")

    def __str__(self) -> str:
        why = kept_text(self.keepAtLeast) if 0 < self.remainingCount <= self.keepAtLeast else ""
        return forgotten_text(
            self.wouldForget, remaining=self.remainingCount, due=self.dueLater, dry_run=True, why_kept=why
        )


@tool(
    title="What would be forgotten",
    description="What the next clean-up would forget and why. Changes nothing.",
    read_only=True,
)
async def forget_preview(call: Call, conversation_id: ConversationId = None) -> PreviewResult:
    removed = await call.conversations.get(conversation_id).short_term.clean_up(dry_run=True)
    return PreviewResult.of(removed, keepAtLeast=call.memories.services.parameters.retention.always_kept)


class Back(Gone):
    removedAt: RemovedAt
    removedBy: RemovedBy


class RestoreResult(Result):
    restoredCount: Annotated[int, From("entries", len, "How many came back, or would")]
    restored: Annotated[list[Back], From("entries", Back.each, "What came back, or would, with score and pin")]
    inTheWay: Annotated[
        list[Back], From(form=Back.each, words="Left in the archive, because their id or name is in use again")
    ]
    dryRun: bool = Field(description="Whether this only says what would come back")
    changeId: ChangeId = None

    def __str__(self) -> str:
        lines = [
            _(
                "- {id} ({reasons}, {when}): {text}",
                one_line(back.id),
                REASONS[back.reason],
                when(back.removedAt),
                one_line(back.text),
            )
            for back in self.restored
        ]
        lines += [
            _("- {id} stays in the archive: that id or name is in use", one_line(back.id)) for back in self.inTheWay
        ]
        faded = any(back.reason in ("too_old", "faded") for back in self.restored)
        hint = _(" The clean-up will forget them again unless you pin them.") if faded else ""
        count, undo = counted(self.restoredCount, "memory"), undo_hint(self.changeId)
        done = (
            _("Would bring back {number}.{hint}{undo}", count, hint, undo)
            if self.dryRun
            else _("Brought back {number}.{hint}{undo}", count, hint, undo)
        )
        return joined("\n", [done, *lines])


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
    done = await call.conversations.get(conversation_id).archive.bring_back(
        ids,
        pattern=pattern,
        since_ms=moment_ms("removedSince", removedSince, UTC),
        until_ms=moment_ms("removedUntil", removedUntil, UTC),
        dry_run=dry_run,
        by="restore_memories_from_archive",
    )
    return RestoreResult.of(done, dryRun=dry_run)


class Removal(Result):
    reason: Reason
    removedAt: RemovedAt
    removedBy: RemovedBy
    changeId: str = Field(description="Of the removal, for undo_change")


def removal(conversation_id: str, gone: Archived) -> Removal:
    """How a memory of `conversation_id` was removed."""
    return Removal.of(gone, changeId=change_id(conversation_id, gone.version))


def _shown(text: str) -> str:
    """The scores of a reinforcement, or what a user wrote, which may be a message with the roles."""
    return changed(text, one_line)


class StepRow(Result):
    what: str = Field(description="What happened, such as `forgotten`")
    id: str | None = Field(None, description="Id or name of the memory")
    text: str | None = Field(None, description="Its beginning, or its score before and after")

    def __str__(self) -> str:
        return joined(
            " ", filter(None, (term(self.what), one_line(self.id or ""), "- " + _shown(self.text) if self.text else ""))
        )


class UndoResult(Result):
    undone: str = Field(description="The change that was taken back")
    changes: Annotated[list[StepRow], From("steps", StepRow.each, "What that did")]
    changeId: Annotated[str, From("id", words="Names the undoing, which can be undone too")]
    refused: Annotated[list[str], From(form=list, words="Why parts of it were not taken back")]

    def __str__(self) -> str:
        steps = (f"- {step}" for step in self.changes)
        return joined("\n", [_("Undid {change}; change {id}.", self.undone, self.changeId), *steps, *self.refused])


@tool(title="Undo", description="Take back one change by the changeId that a tool returned; what happened since stays.")
async def undo_change(
    call: Call,
    changeId: Annotated[Text, "As the tool that made the change returned it"],
    conversation_id: ConversationId = None,
) -> UndoResult:
    engines, place = call.memories.engines, None
    if not is_together(changeId) and engine_of(engines, changeId).keeps == "conversations":
        place = call.conversations.get(conversation_id).id
    call.memories.services.refuse_where_full()
    return UndoResult.of(await undo(engines, changeId, place, by="undo_change"), undone=changeId)


_MOST_STEPS = 100
"""Steps of a change that are told: an import has tens of thousands."""


def _unless_none(count: int) -> int | None:
    return count or None


class HistoryEntry(Result):
    changeId: Annotated[str, From("id", words="Names the change for undo_change")]
    at: Annotated[str, From("at_ms", iso, "When")]
    by: str = Field(description="Which tool or command; `hand` is a person with an editor")
    steps: Annotated[list[StepRow], From(form=StepRow.each, words="What happened, in order")]
    moreSteps: Annotated[int | None, From("more_steps", _unless_none, words="Steps beside these")] = None

    def shown_steps(self) -> list[str]:
        more = [] if self.moreSteps is None else [_("and {steps} more", self.moreSteps)]
        return [*map(str, self.steps), *more]

    def line(self, place: str = "") -> str:
        """The change in a line; `place`: where it was made, if that is not known."""
        where = " " + _("in {place}", place) if place else ""
        steps = joined("; ", self.shown_steps())
        return joined("", [f"{self.changeId} {when(self.at)}", where, f" {self.by}: ", steps])

    def __str__(self) -> str:
        return self.line()


class HistoryResult(Result):
    changes: list[HistoryEntry] = Field(description="Newest first")
    next: str | None = Field(None, description="Give this as `before` for the next page; left out at the end")

    def __str__(self) -> str:
        if not self.changes:
            return _("Nothing was changed in this conversation, or only so long ago that the history is not kept.")
        more = [_("More before {next}.", self.next)] if self.next else []
        return joined("\n", [*map(str, self.changes), *more])


@tool(
    title="What was changed",
    description="Who changed what and when in a conversation, newest first.",
    paging=Paging("changes", "before", lambda last, _: last["changeId"]),
    read_only=True,
)
async def get_history(
    call: Call,
    conversation_id: ConversationId = None,
    limit: Annotated[int, Field(ge=1, le=MAX_PAGE), "Changes on a page"] = 20,
    before: Annotated[Text | None, "changeId of the last one of the page before"] = None,
) -> HistoryResult:
    [engine] = (engine for engine in call.memories.engines if engine.keeps == "conversations")
    # One more than is shown: then it is known whether there is a next page.
    place = call.conversations.get(conversation_id).id
    page = await engine.history(place, before=before, limit=limit + 1, most_steps=_MOST_STEPS)
    changes = HistoryEntry.each(page[:limit])
    return HistoryResult(changes=changes, next=changes[-1].changeId if len(page) > limit else None)
