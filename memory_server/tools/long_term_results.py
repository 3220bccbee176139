"""What the toolset `long-term` and `recall_turn` say of long-term memories that came, and of those that did not. Names
of results are the Node original's."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any

from pydantic import Field

from languages import _, counted
from memory_server.conversations.trigger_search import Activation
from memory_server.kernel.recalled_block import one_line
from memory_server.kernel.text import unreadable
from memory_server.kernel.times import iso
from memory_server.lore import BookEntry, Fitting, reason_text
from memory_server.tools.base.result import From, Result, listed


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


def _true_or_none(is_cut: bool) -> bool | None:
    return is_cut or None


def _placement(book: BookEntry) -> dict[str, Any] | None:
    return dict(book.placement) or None


class Brief(Result):
    name: Annotated[str, From("entry.name")]
    order: Annotated[float, From("entry.rules.order", words="The highest stands last in the text")]
    chars: Annotated[int, From("body", len, "Characters of its text in `prompt`")]
    conversation_id: Annotated[str, From("entry.conversation_id")]
    placement: Annotated[
        dict[str, Any] | None,
        From(
            "entry.memory.book", _placement, "Where the client of its lorebook would put the text"
        ),
    ] = None
    cut: Annotated[bool | None, From("is_cut", _true_or_none, "Only its beginning had room")] = None


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


def left_out(activation: Activation, fitting: Fitting | None = None) -> list[LeftOut]:
    """What fired and did not come: for want of room, or by its rules."""
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


def turn_result(activation: Activation, fitting: Fitting) -> TurnResult:
    """What `recall_turn` says of long-term memories: their texts are in the prompt."""
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
    """What a search for triggers gives, with the texts of all memories that fired."""
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
