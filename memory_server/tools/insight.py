"""The toolset `insight`: why a memory came or not, memories by words, dates, scores and tags, and what they have in
common. The names in `search_memories` and `analyze_memory_patterns` are the Node original's."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import tzinfo
from typing import Annotated, Any, Literal

from pydantic import Field

from memory_server.conversations.insight import ExplainedMemory
from memory_server.conversations.model import ShortTermMemory
from memory_server.conversations.recall.filters import Filtered, MemoryFilter, SortBy, tags_of
from memory_server.conversations.recall.words import shown_words, spelling_of
from memory_server.kernel.messages import said_beginning
from memory_server.kernel.readers import way, way_for_both
from memory_server.kernel.recalled_block import one_line
from memory_server.kernel.times import MINUTE_MS, iso, local
from memory_server.memories.memories import Call
from memory_server.tools.archive import MAX_PAGE, REASONS, Removal, removal
from memory_server.tools.base.budget import Paging
from memory_server.tools.base.result import From, Result, hundredths, listed, shell_command, when
from memory_server.tools.base.shapes import ConversationId, Messages, OtherWords, RoleWeights, Scope, Text, moment_ms
from memory_server.tools.base.tool import tool
from memory_server.tools.insight_results import (
    ChanceOf,
    ExplainResult,
    Other,
    Pattern,
    PatternResult,
    SharedWord,
    Verdict,
)
from memory_server.tools.short_term_results import SHOWN_KEYWORDS
from sandbox.locale import N_, _, counted, joined, n_

MAX_TEXT_CHARS = 2_000
Kind = Literal["short_term", "long_term", "both"]


@tool(
    title="Why it came or not",
    description=(
        "Why a search by these messages, made now, brings a short-term memory or does not: its relevance and the "
        "parts of it, what held it back and which memories came instead. Changes nothing."
    ),
    read_only=True,
)
async def explain_recall(
    call: Call,
    recentMessages: Annotated[Messages, "The messages that should have brought it"],
    memory_id: Annotated[Text | None, "Id of a short-term memory"] = None,
    text: Annotated[Text | None, Field(max_length=MAX_TEXT_CHARS), "Or some of its words"] = None,
    conversation_id: ConversationId = None,
    otherWords: OtherWords = [],
    roleWeights: RoleWeights | None = None,
    scope: Scope = None,
) -> ExplainResult:
    conversation = call.conversations.get(conversation_id)
    told = await conversation.insight.explain(
        recentMessages,
        memory_id=memory_id,
        text=text,
        scope=scope,
        role_weights=RoleWeights.of(roleWeights),
        other_words=otherWords,
        session=call.session,
        folder=call.folder,
    )
    verdict, reasons = _reasons(told, conversation.id, call.memories.services.zone)
    if told.alike:
        others = n_(
            "{count} other memory shares words with that text",
            "{count} other memories share words with that text",
            told.alike,
        )
        where = way("search_memories", "memory-server search WORDS")
        reasons.append(_("{others}; {where} lists them with their ids.", others, where))
    explained = told.explanation
    draw = explained.draw if explained else None
    spelt = spelling_of(told.memory)
    apart_ms = explained.verdict.apart_ms if explained else None
    apart = None if apart_ms is None else round(apart_ms / MINUTE_MS, 1)
    return ExplainResult.of(
        told,
        verdict=verdict,
        reason=joined("\n", reasons),
        matchedWords=[SharedWord.of(word, word=spelt(word.word)) for word in told.receipt.matched],
        threshold=None if explained is None else hundredths(explained.needed),
        counted=None if explained is None else hundredths(explained.counted),
        by=[
            Other.of(other, conversation_id=other.kept_in or told.conversation_id, minutesApart=apart)
            for other in (explained.verdict.others if explained else ())
        ],
        flashback=ChanceOf.of(draw) if draw and draw.weight else None,
        archived=None if told.archived is None else removal(told.conversation_id, told.archived),
    )


def _reasons(told: ExplainedMemory, own: str, zone: tzinfo | None) -> tuple[Verdict, list[str]]:
    """The verdict, and sentences for people."""
    if told.explanation is None:
        return "archived", [_removed_sentence(told, zone)]
    verdict, draw = told.explanation.verdict, told.explanation.draw
    sentences = [verdict.sentence, *([draw.sentence] if draw else [])]
    if told.searched:
        return verdict.kind, sentences
    elsewhere = _(
        "It is not in the conversation {own} but in {conversation}, where this search does not look; give "
        "scope `all`, or conversation_id `{conversation}`. A search of all conversations would say:",
        own,
        told.conversation_id,
    )
    return "elsewhere", [elsewhere, *sentences]


def _removed_sentence(told: ExplainedMemory, zone: tzinfo | None) -> str:
    gone = told.archived
    assert gone is not None
    return _(
        "It was removed on {local:%Y-%m-%d %H:%M} by {by} ({reasons}), so no search finds it; its "
        "relevance would be {relevance:.1f}. {how} brings it back.",
        local(gone.at_ms, zone),
        gone.by,
        REASONS[gone.reason],
        told.receipt.relevance,
        way_for_both("restore_memories_from_archive", f"memory-server undo --memory {told.memory.id}"),
    )


class FoundMemory(Result):
    memory_type: Literal["short_term", "long_term"] = Field(description="Which kind it is")
    conversation_id: str = Field(description="Where it is kept")
    id: str | None = Field(None, description="Of a short-term memory")
    text: str | None = Field(None, description="Of a short-term memory")
    name: str | None = Field(None, description="Of a long-term memory")
    prompt: str | None = Field(None, description="Of a long-term memory")
    trigger: str | None = Field(None, description="Of a long-term memory")
    timestamp: Annotated[str, From("memory.made_ms", iso, "When it was made")]
    score: float | None = Field(None, description="Of a short-term memory")
    relevance: Annotated[
        float, From(form=hundredths, words="To the words looked for; of a short-term memory with decay and score")
    ]
    keywords: list[str] | None = Field(None, description="The heaviest words of a short-term memory")
    tags: Annotated[
        list[str] | None,
        From("memory", lambda memory: list(tags_of(memory)) or None, words="Left out where it has none"),
    ] = None
    matched: Annotated[list[str], From("shared", list, "The words looked for that it holds")]
    keptWords: Annotated[
        list[str] | None,
        From("kept", lambda kept: list(kept) or None, words="Those of them that its text lacks"),
    ] = None
    removed: Removal | None = Field(None, description="Of a memory in the archive")


class FilterResult(Result):
    total_found: int = Field(description="How many meet all that was asked")
    results: list[FoundMemory] = Field(description="This page")
    next: int | None = Field(None, description="Give this as `offset` for the next page; left out at the end")

    def query_words(self) -> Sequence[str]:
        return tuple(dict.fromkeys(word for hit in self.results for word in hit.matched))

    def __str__(self) -> str:
        lines = []
        for hit in self.results:
            score = "" if hit.score is None else _(", score {score:g}", hit.score)
            kept = hit.keptWords or ()
            held = [word if word not in kept else _("{word} (kept with the memory)", word) for word in hit.matched]
            matched = _(": {words}", joined(", ", held)) if held else ""
            gone = ""
            if hit.removed:
                gone = _(", {why} {day}", REASONS[hit.removed.reason], when(hit.removed.removedAt)[:10])
            what = hit.text if hit.memory_type == "short_term" else f"{hit.name} - {hit.prompt}"
            lines.append(
                _(
                    "{when} {id} in {conversation} (relevance {relevance:.1f}{score}{matched}){gone}\n  {what}",
                    when(hit.timestamp),
                    hit.id or _("long-term"),
                    hit.conversation_id,
                    hit.relevance,
                    score,
                    matched,
                    gone,
                    one_line(said_beginning(what or "")),
                )
            )
        if back := next((hit for hit in self.results if hit.removed), None):
            command = shell_command(back.conversation_id, "undo", "--memory", back.id or back.name or "")
            lines.append(_("{how} brings one back.", way_for_both("restore_memories_from_archive", command)))
        more = _(" More from offset {next}.", self.next) if self.next is not None else ""
        found = counted(self.total_found, "memory")
        return listed(lines, _("{memories} found, {results} shown.{more}", found, len(self.results), more))


@tool(
    title="Search by words, dates, scores, tags",
    description=(
        "Find memories of both kinds by words, dates, scores and tags, page by page. "
        "Unlike recall, nothing is held back, left to chance or reinforced. With archived, among removed ones."
    ),
    paging=Paging("results", skips=True),
    read_only=True,
    recalls=True,
)
async def search_memories(
    call: Call,
    conversation_id: ConversationId = None,
    query: Annotated[Text, Field(max_length=MAX_TEXT_CHARS), "Text; its words are looked for"] = "",
    keywords: Annotated[list[Text], Field(max_length=50), "Words to look for as they are; one is enough"] = [],
    otherWords: OtherWords = [],
    date_from: Annotated[Text | None, "ISO date or time; in the server's time zone where it has none"] = None,
    date_to: Annotated[Text | None, "The same, included"] = None,
    min_score: Annotated[float | None, "Points; long-term memories have none and do not come"] = None,
    max_score: Annotated[float | None, "The same, at most"] = None,
    tags: Annotated[list[Text], Field(max_length=50), "All are needed: #words of the text, or tags of the record"] = [],
    memory_type: Annotated[Kind, "Which kind"] = "both",
    sort_by: Annotated[SortBy | None, "Usually relevance where there is something to look for, else timestamp"] = None,
    order: Annotated[Literal["asc", "desc"], "Ascending or descending"] = "desc",
    limit: Annotated[int, Field(ge=1, le=MAX_PAGE), "Memories on a page"] = 20,
    offset: Annotated[int, Field(ge=0), "Memories passed over"] = 0,
    scope: Scope = None,
    archived: Annotated[bool, "Look among what was forgotten or deleted and can still come back"] = False,
) -> FilterResult:
    wanted = MemoryFilter(
        from_ms=moment_ms("date_from", date_from, call.memories.services.zone),
        until_ms=moment_ms("date_to", date_to, call.memories.services.zone, end=True),
        min_score=min_score,
        max_score=max_score,
        tags=frozenset(tag.removeprefix("#") for tag in tags),
    )
    end = offset + limit
    found, total = await call.conversations.get(conversation_id).insight.search(
        wanted,
        text=query,
        keywords=keywords,
        other_words=otherWords,
        kinds=memory_type,
        sort_by=sort_by or ("relevance" if query.strip() or keywords or otherWords else "timestamp"),
        descending=order == "desc",
        scope=scope,
        most=end,
        archived=archived,
    )
    results = list(map(_hit, found[offset:]))
    return FilterResult(total_found=total, results=results, next=end if end < total else None)


def _hit(hit: Filtered) -> FoundMemory:
    memory = hit.memory
    short_term = isinstance(memory, ShortTermMemory)
    own = ("id", "text", "score") if short_term else ("name", "prompt", "trigger")
    fields: dict[str, Any] = dict.fromkeys(("id", "text", "score", "name", "prompt", "trigger"))
    return FoundMemory.of(
        hit,
        **fields | {name: getattr(memory, name) for name in own},
        memory_type="short_term" if short_term else "long_term",
        keywords=shown_words(memory, SHOWN_KEYWORDS) if isinstance(memory, ShortTermMemory) else None,
        removed=None if hit.removal is None else removal(hit.conversation_id, hit.removal),
    )


@tool(
    title="What memories have in common",
    description="Scores, frequent words, tags, ages and hours of the day of a conversation's memories.",
    read_only=True,
)
async def analyze_memory_patterns(
    call: Call,
    conversation_id: ConversationId = None,
    memory_type: Annotated[Kind, "Which kind"] = "both",
    top_keywords: Annotated[int, Field(ge=1, le=MAX_PAGE), "Words shown"] = 20,
) -> PatternResult:
    conversation = call.conversations.get(conversation_id)
    short, long = await conversation.insight.patterns(top=top_keywords)
    unscored = dict.fromkeys(("average_score", "score_distribution", "never_recalled", "pinned"))
    return PatternResult(
        conversation_id=conversation.id,
        short_term=None if memory_type == "long_term" else Pattern.of(short),
        long_term=None if memory_type == "short_term" else Pattern.of(long, **unscored),
    )


_FIGURES = (
    *(N_("last hour"), N_("last day"), N_("last week"), N_("last month"), N_("older")),
    *(N_("negative"), N_("low"), N_("medium"), N_("high")),
)
