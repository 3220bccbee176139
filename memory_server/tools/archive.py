"""The toolset `archive`: what was done, taking it back, what the clean-up would forget, and keeping it from that."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from pydantic import Field

from memory_server.core.archive import Archived
from memory_server.core.changes import (
    Added,
    Change,
    CleanedUp,
    Edited,
    Forgotten,
    Pinned,
    Reinforced,
    Restored,
    TriggerRemoved,
    TriggerSet,
    Unpinned,
)
from memory_server.core.errors import InvalidInput
from memory_server.core.times import milliseconds
from memory_server.core.undo import change_id
from memory_server.managers.archive import name_of, text_of
from memory_server.managers.context import Context
from memory_server.tools.base.budget import Paging
from memory_server.tools.base.shapes import ChangeId, ConversationId, Text, beginning, counted, time_text, undo_hint
from memory_server.tools.base.tool import Arguments, Result, Tool

MAX_PAGE = 200
"""Changes on one page of the history at most."""
REASONS = {
    "too_old": "older than the limit",
    "faded": "faded",
    "deleted": "deleted",
    "undone": "its storing was undone",
    "hand": "taken out of the JSON file",
    "restored_over": "not in the backup that was restored",
}


class ConversationArguments(Arguments):
    conversation_id: ConversationId = None


class Gone(Result):
    id: str = Field(description="Id of a short-term, name of a long-term memory")
    text: str = Field(description="Its beginning")
    reason: str = Field(description="`too_old`, `faded`, `deleted`, `undone`, `hand` or `restored_over`")


def kept_text(always_kept: int) -> str:
    """Why the clean-up leaves most conversations alone."""
    return f"A conversation of up to {always_kept:,} memories keeps everything."


class PreviewResult(Result):
    wouldForgetCount: int = Field(description="How many the next clean-up would forget")
    wouldForget: list[Gone] = Field(description="What the next clean-up would forget, in that order")
    dueLater: int = Field(description="How many more have faded but exceed what one run forgets")
    remainingCount: int = Field(description="How many would remain")
    keepAtLeast: int = Field(description="Up to so many nothing is forgotten")


async def _preview(context: Context, arguments: ConversationArguments) -> PreviewResult:
    removed = await context.conversations.get(arguments.conversation_id).short_term.clean_up(dry_run=True)
    return PreviewResult(
        wouldForgetCount=len(removed.forgotten),
        wouldForget=[
            Gone(id=gone.memory.id, text=beginning(gone.memory.text), reason=gone.reason) for gone in removed.forgotten
        ],
        dueLater=removed.due,
        remainingCount=removed.remaining,
        keepAtLeast=context.parameters.retention.always_kept,
    )


def _preview_text(result: PreviewResult) -> str:
    lines = [f"- {gone.id} ({REASONS[gone.reason]}): {gone.text}" for gone in result.wouldForget]
    later = f"; {result.dueLater} more in later runs" if result.dueLater else ""
    count = counted(result.wouldForgetCount, "memory")
    why = f" {kept_text(result.keepAtLeast)}" if 0 < result.remainingCount <= result.keepAtLeast else ""
    return "\n".join([f"Would forget {count}{later}; remaining: {result.remainingCount}.{why}", *lines])


class MemoryArguments(Arguments):
    id: Text = Field(description="Id of a short-term memory")
    conversation_id: ConversationId = None


class PinResult(Result):
    id: str = Field(description="Id of the memory")
    pinned: bool = Field(description="Whether the clean-up leaves it alone")
    changeId: ChangeId = None


async def _pin(context: Context, arguments: MemoryArguments) -> PinResult:
    return await _set_pin(context, arguments, True, "pin_memory")


async def _unpin(context: Context, arguments: MemoryArguments) -> PinResult:
    return await _set_pin(context, arguments, False, "unpin_memory")


async def _set_pin(context: Context, arguments: MemoryArguments, pinned: bool, by: str) -> PinResult:
    manager = context.conversations.get(arguments.conversation_id).short_term
    done = await manager.pin(arguments.id, pinned=pinned, by=by)
    return PinResult(id=done.memory.id, pinned=done.memory.pinned, changeId=done.change_id)


class RestoreArguments(Arguments):
    ids: list[Text] = Field([], description="Ids of short-term, names of long-term memories")
    pattern: Text | None = Field(None, max_length=1_000, description="A word, or /regex/flags in JavaScript syntax")
    removedSince: Text | None = Field(None, description="ISO time, UTC where it has no zone")
    removedUntil: Text | None = Field(None, description="ISO time")
    dry_run: bool = Field(False, description="Only list")
    conversation_id: ConversationId = None


class Back(Gone):
    removedAt: str = Field(description="When it was removed")
    removedBy: str = Field(description="The tool or command that removed it")


class RestoreResult(Result):
    restoredCount: int = Field(description="How many came back, or would")
    restored: list[Back] = Field(description="What came back, or would, with score and pin")
    inTheWay: list[Back] = Field(description="Left in the archive, because their id or name is in use again")
    dryRun: bool = Field(description="Whether this only says what would come back")
    changeId: ChangeId = None


def _back(entry: Archived) -> Back:
    return Back(
        id=name_of(entry),
        text=beginning(text_of(entry)),
        reason=entry.reason,
        removedAt=time_text(entry.at_ms) or "",
        removedBy=entry.by,
    )


async def _restore(context: Context, arguments: RestoreArguments) -> RestoreResult:
    done = await context.conversations.get(arguments.conversation_id).archive.bring_back(
        arguments.ids,
        pattern=arguments.pattern,
        since_ms=_moment("removedSince", arguments.removedSince),
        until_ms=_moment("removedUntil", arguments.removedUntil),
        dry_run=arguments.dry_run,
        by="restore_memories_from_archive",
    )
    return RestoreResult(
        restoredCount=len(done.entries),
        restored=list(map(_back, done.entries)),
        inTheWay=list(map(_back, done.in_the_way)),
        dryRun=arguments.dry_run,
        changeId=done.change_id,
    )


def _moment(name: str, text: str | None) -> int | None:
    if text is None:
        return None
    try:
        return milliseconds(datetime.fromisoformat(text))
    except (ValueError, OverflowError) as error:
        raise InvalidInput(f"`{name}` is no time; write for example 2026-05-03 or 2026-05-03T12:00:00Z.") from error


def _restore_text(result: RestoreResult) -> str:
    verb = "Would bring back" if result.dryRun else "Brought back"
    lines = [f"- {back.id} ({REASONS[back.reason]}, {back.removedAt}): {back.text}" for back in result.restored]
    lines += [f"- {back.id} stays in the archive: that id or name is in use" for back in result.inTheWay]
    faded = any(back.reason in ("too_old", "faded") for back in result.restored)
    hint = " The clean-up will forget them again unless you pin them." if faded else ""
    return "\n".join([f"{verb} {counted(result.restoredCount, 'memory')}.{hint}{undo_hint(result)}", *lines])


class UndoArguments(Arguments):
    changeId: Text = Field(description="As the tool that made the change returned it")
    conversation_id: ConversationId = None


class Step(Result):
    what: str = Field(description="What happened, such as `forgotten`")
    id: str | None = Field(None, description="Id or name of the memory")
    text: str | None = Field(None, description="Its beginning, or its score before and after")


class UndoResult(Result):
    undone: str = Field(description="The change that was taken back")
    changes: list[Step] = Field(description="What that did")
    changeId: str = Field(description="Names the undoing, which can be undone too")


async def _undo(context: Context, arguments: UndoArguments) -> UndoResult:
    done = await context.conversations.get(arguments.conversation_id).archive.undo(arguments.changeId, by="undo_change")
    return UndoResult(undone=arguments.changeId, changes=list(map(step_of, done.changes)), changeId=done.change_id)


def step_of(change: Change) -> Step:
    """A change as people read it."""
    match change:
        case Added(memory) | Edited(memory) | Forgotten(memory) | Restored(memory):
            return Step(what=type(change).__name__.lower(), id=memory.id, text=beginning(memory.text))
        case Reinforced(id=memory_id, before=before, after=after):
            return Step(what="reinforced", id=memory_id, text=f"{before:g} to {after:g}")
        case Pinned(id=memory_id) | Unpinned(id=memory_id):
            return Step(what=type(change).__name__.lower(), id=memory_id)
        case TriggerSet(kept, before):
            return Step(what="stored" if before is None else "replaced", id=kept.name, text=beginning(kept.prompt))
        case TriggerRemoved(kept):
            return Step(what="removed", id=kept.name, text=beginning(kept.prompt))
        case CleanedUp():
            return Step(what="cleaned up")


def step_text(step: Step) -> str:
    """A step on a line."""
    return " ".join(part for part in (step.what, step.id, f"- {step.text}" if step.text else None) if part)


class HistoryArguments(Arguments):
    conversation_id: ConversationId = None
    limit: int = Field(20, ge=1, le=MAX_PAGE, description="Changes on a page")
    before: Text | None = Field(None, description="changeId of the last one of the page before")


class Made(Result):
    changeId: str = Field(description="Names the change for undo_change")
    at: str = Field(description="When")
    by: str = Field(description="Which tool or command; `hand` is a person with an editor")
    steps: list[Step] = Field(description="What happened, in order")


class HistoryResult(Result):
    changes: list[Made] = Field(description="Newest first")
    next: str | None = Field(None, description="Give this as `before` for the next page; left out at the end")


async def _history(context: Context, arguments: HistoryArguments) -> HistoryResult:
    conversation = context.conversations.get(arguments.conversation_id)
    # One more than is shown tells whether there is a next page.
    page = await conversation.archive.history(before=arguments.before, limit=arguments.limit + 1)
    changes = [
        Made(
            changeId=change_id(conversation.id, commit.version),
            at=time_text(commit.at_ms) or "",
            by=commit.by,
            steps=list(map(step_of, commit.changes)),
        )
        for commit in page[: arguments.limit]
    ]
    return HistoryResult(changes=changes, next=changes[-1].changeId if len(page) > arguments.limit else None)


def history_text(result: HistoryResult) -> str:
    """A page of the history, one change a line."""
    if not result.changes:
        return "Nothing was changed in this conversation, or so long ago that it is not kept."
    lines = [
        f"{made.changeId} {made.at[:16].replace('T', ' ')} {made.by}: {'; '.join(map(step_text, made.steps))}"
        for made in result.changes
    ]
    return "\n".join([*lines, *([f"More before {result.next}."] if result.next else [])])


def _pin_text(result: Any) -> str:
    return f"{result.id} is {'pinned' if result.pinned else 'not pinned'}.{undo_hint(result)}"


ARCHIVE: tuple[Tool, ...] = (
    Tool(
        name="forget_preview",
        title="What would be forgotten",
        description="What the next clean-up would forget and why. Changes nothing.",
        arguments=ConversationArguments,
        result=PreviewResult,
        run=_preview,
        text=_preview_text,
        read_only=True,
        idempotent=True,
    ),
    Tool(
        name="pin_memory",
        title="Never forget this",
        description="Keep the clean-up from ever forgetting a short-term memory.",
        arguments=MemoryArguments,
        result=PinResult,
        run=_pin,
        text=_pin_text,
        idempotent=True,
    ),
    Tool(
        name="unpin_memory",
        title="May be forgotten again",
        description="Let the clean-up forget a pinned memory when it has faded.",
        arguments=MemoryArguments,
        result=PinResult,
        run=_unpin,
        text=_pin_text,
        idempotent=True,
    ),
    Tool(
        name="restore_memories_from_archive",
        title="Bring forgotten memories back",
        description=(
            "Bring back what was deleted or forgotten, usually within 90 days, by id, by a word of its text or by "
            "the time of its removal. With dry_run only list it."
        ),
        arguments=RestoreArguments,
        result=RestoreResult,
        run=_restore,
        text=_restore_text,
        idempotent=True,
    ),
    Tool(
        name="undo_change",
        title="Undo",
        description="Take back one change by the changeId that a tool returned; what happened since stays.",
        arguments=UndoArguments,
        result=UndoResult,
        run=_undo,
        text=lambda r: "\n".join(
            [f"Undid {r.undone}; change {r.changeId}.", *(f"- {step_text(step)}" for step in r.changes)]
        ),
    ),
    Tool(
        name="get_history",
        title="What was changed",
        description="Who changed what and when in a conversation, newest first.",
        arguments=HistoryArguments,
        result=HistoryResult,
        paging=Paging("changes", "before", lambda last, _: last["changeId"]),
        run=_history,
        text=history_text,
        read_only=True,
        idempotent=True,
    ),
)
