"""`explain_recall` on the wire: the reasons of recall/explanation.py as arguments and results of a tool."""

from __future__ import annotations

from datetime import tzinfo
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from memory_server.core.archive import Archived
from memory_server.core.times import iso, local
from memory_server.core.undo import change_id
from memory_server.managers.context import Context
from memory_server.managers.insight import Explained
from memory_server.recall.relevance import MatchedWord, age_text
from memory_server.tools.archive import REASONS
from memory_server.tools.base.shapes import (
    ConversationId,
    Messages,
    RoleWeights,
    Scope,
    Text,
    beginning,
    counted,
    messages_of,
    role_weights_of,
)
from memory_server.tools.base.tool import Result, tool

if TYPE_CHECKING:
    from memory_server.recall.result import Recalled

MAX_TEXT_CHARS = 2_000
_MINUTE_MS = 60_000
Verdict = Literal[
    "came", "too_recent", "in_context", "same_moment", "outranked", "below_threshold", "archived", "elsewhere"
]


class SharedWord(Result):
    word: str = Field(description="The word, or a pair of characters")
    inMessages: float = Field(description="Its weight in the messages")
    inMemory: float = Field(description="Its weight in the memory")
    factor: float = Field(description="On both weights: less than 1 for what many memories hold, or says little")


class Other(Result):
    id: str
    conversation_id: str
    text: str = Field(description="Its beginning")
    relevance: float
    minutesApart: float | None = Field(None, description="Of one of the same moment")


class ChanceOf(Result):
    weight: float = Field(description="Its weight in the draw")
    totalWeight: float = Field(description="Of all memories in the draw")
    probability: float = Field(description="That one search brings it as a flashback")


class Removal(Result):
    reason: str = Field(description="`too_old`, `faded`, `deleted`, `undone`, `hand` or `restored_over`")
    removedAt: str = Field(description="When it was removed")
    removedBy: str = Field(description="The tool or command that removed it")
    changeId: str = Field(description="Of the removal, for undo_change")


class ExplainResult(Result):
    id: str
    conversation_id: str = Field(description="Where it is kept")
    text: str = Field(description="Its beginning")
    timestamp: str
    verdict: Verdict = Field(description="What became of it")
    reason: str = Field(description="The same for people, with what can be done")
    relevance: float = Field(description="match + around - decay + score")
    threshold: float | None = Field(None, description="match + around that is needed to come as top or next")
    match: float = Field(description="Sum of the points of the shared words: factor × (inMessages + inMemory)")
    around: float = Field(description="Gained from what was said around it")
    decay: float = Field(description="Points that its age took away")
    score: float
    age: str = Field(description="For people")
    matchedWords: list[SharedWord] = Field(description="The words it shares with the messages")
    by: list[Other] = Field(description="The memories that came in its place, or of its moment")
    flashback: ChanceOf | None = Field(None, description="Left out where it cannot come by chance")
    archived: Removal | None = Field(None, description="Of a memory that was removed")

    def __str__(self) -> str:
        shared = (MatchedWord(w.word, w.inMessages, w.inMemory, w.factor).text() for w in self.matchedWords)
        words = ", ".join(shared)
        needed = "" if self.threshold is None else f"; needed: {self.threshold:.2f}"
        return (
            f"{self.id} in {self.conversation_id}, {self.age} old: {self.text}\n{self.reason}\n"
            f"Relevance {self.relevance:.2f} = match {self.match:.2f} + around {self.around:.2f} - decay "
            f"{self.decay:.2f} + score {self.score:g}{needed}. Shared words: {words or 'none'}."
        )


@tool(
    title="Why it came or not",
    description=(
        "Why a search by these messages, made now, brings a short-term memory or does not: its relevance and the "
        "parts of it, what held it back and which memories came instead. Changes nothing."
    ),
    read_only=True,
)
async def explain_recall(
    context: Context,
    recentMessages: Annotated[Messages, "The messages that should have brought it"],
    memory_id: Annotated[Text | None, "Id of a short-term memory"] = None,
    text: Annotated[Text | None, Field(max_length=MAX_TEXT_CHARS), "Or some of its words"] = None,
    conversation_id: ConversationId = None,
    roleWeights: RoleWeights | None = None,
    scope: Scope = None,
) -> ExplainResult:
    conversation = context.conversations.get(conversation_id)
    told = await conversation.insight.explain(
        messages_of(recentMessages),
        memory_id=memory_id,
        text=text,
        scope=scope,
        role_weights=role_weights_of(roleWeights),
    )
    receipt, memory = told.receipt, told.memory
    verdict, reasons, by, chance = _reasons(told, conversation.id, context.services.zone)
    return ExplainResult(
        id=memory.id,
        conversation_id=told.conversation_id,
        text=beginning(memory.text),
        timestamp=iso(memory.time_ms),
        verdict=verdict,
        reason="\n".join([*reasons, *_others(told.alike)]),
        relevance=round(receipt.relevance, 2),
        threshold=None if told.explanation is None else round(told.explanation.needed, 2),
        match=round(receipt.match, 2),
        around=round(receipt.around, 2),
        decay=round(receipt.decay, 2),
        score=receipt.score,
        age=age_text(receipt.age_ms),
        matchedWords=[
            SharedWord(
                word=word.word,
                inMessages=round(word.query_weight, 2),
                inMemory=round(word.memory_weight, 2),
                factor=round(word.factor, 3),
            )
            for word in receipt.matched
        ],
        by=by,
        flashback=chance,
        archived=None if told.archived is None else removal(told.conversation_id, told.archived),
    )


def _reasons(told: Explained, own: str, zone: tzinfo | None) -> tuple[Verdict, list[str], list[Other], ChanceOf | None]:
    """What kept it, sentences for people, by whom, and its chance."""
    from memory_server.recall import explanation as reasons

    explanation = told.explanation
    if explanation is None:
        return "archived", [_removed_sentence(told, zone)], [], None
    sentences = [explanation.verdict.line()]
    if explanation.draw is not None:
        sentences.append(explanation.draw.line())
    chance = None
    if isinstance(explanation.draw, reasons.Chance):
        draw = explanation.draw
        # Rounded to three figures: a thousandth of a percent must not become nothing.
        probability = float(f"{draw.probability:.3g}")
        chance = ChanceOf(
            weight=round(draw.weight, 2), totalWeight=round(draw.total_weight, 2), probability=probability
        )
    by: list[Other] = []
    kind: Verdict
    match explanation.verdict:
        case reasons.Came():
            kind = "came"
        case reasons.TooRecent():
            kind = "too_recent"
        case reasons.InContext():
            kind = "in_context"
        case reasons.SameMoment(other, apart_ms, _):
            kind = "same_moment"
            by = [_other(other, told.conversation_id, apart_ms)]
        case reasons.Outranked(others):
            kind = "outranked"
            by = [_other(other, told.conversation_id) for other in others]
        case reasons.BelowThreshold():
            kind = "below_threshold"
    if not told.searched:
        sentences.insert(
            0,
            f"It is not in the conversation {own} but in {told.conversation_id}, where this search does not look; "
            f"give scope `all`, or conversation_id `{told.conversation_id}`. A search of all conversations would say:",
        )
        kind = "elsewhere"
    return kind, sentences, by, chance


def _others(alike: int) -> list[str]:
    if not alike:
        return []
    verb = "shares" if alike == 1 else "share"
    return [f"{counted(alike, 'other memory')} {verb} words with that text; search_memories lists them with their ids."]


def _removed_sentence(told: Explained, zone: tzinfo | None) -> str:
    gone = told.archived
    assert gone is not None
    when = f"{local(gone.at_ms, zone):%Y-%m-%d %H:%M}"
    return (
        f"It was removed on {when} by {gone.by} ({REASONS[gone.reason]}), so no search finds it; its relevance "
        f"would be {told.receipt.relevance:.1f}. restore_memories_from_archive with its id brings it back, "
        f"or in a shell `memory-server unforget {told.memory.id}`."
    )


def removal(conversation_id: str, gone: Archived) -> Removal:
    """How a memory of `conversation_id` came into the archive."""
    made = change_id(conversation_id, gone.version)
    return Removal(reason=gone.reason, removedAt=iso(gone.at_ms), removedBy=gone.by, changeId=made)


def _other(recalled: Recalled, own: str, apart_ms: int | None = None) -> Other:
    return Other(
        id=recalled.memory.id,
        conversation_id=recalled.kept_in or own,
        text=beginning(recalled.memory.text),
        relevance=round(recalled.receipt.relevance, 2),
        minutesApart=None if apart_ms is None else round(apart_ms / _MINUTE_MS, 1),
    )
