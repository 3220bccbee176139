"""The toolset `insight`: why a memory came or not, memories by words, dates, scores and tags, and what they have in
common. Names of `search_memories` and `analyze_memory_patterns` are the Node original's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import Field

from memory_server.core.archive import Archived
from memory_server.core.model import LongTermMemory, ShortTermMemory
from memory_server.core.times import iso
from memory_server.managers.context import Context
from memory_server.recall.filters import Sieve, Sifted, SortBy, tags_of
from memory_server.recall.overview import Overview
from memory_server.tools.archive import MAX_PAGE, REASONS
from memory_server.tools.base.budget import Paging
from memory_server.tools.base.shapes import ConversationId, Scope, Text, beginning, counted, moment_ms, shell_command
from memory_server.tools.base.tool import Result, tool
from memory_server.tools.explain import MAX_TEXT_CHARS, Removal, explain_recall, removal
from memory_server.tools.short_term import SHOWN_KEYWORDS

Kind = Literal["short_term", "long_term", "both"]


class Hit(Result):
    memory_type: Literal["short_term", "long_term"] = Field(description="Which kind it is")
    conversation_id: str = Field(description="Where it is kept")
    id: str | None = Field(None, description="Of a short-term memory")
    text: str | None = Field(None, description="Of a short-term memory")
    name: str | None = Field(None, description="Of a long-term memory")
    prompt: str | None = Field(None, description="Of a long-term memory")
    trigger: str | None = Field(None, description="Of a long-term memory")
    timestamp: str = Field(description="When it was made")
    score: float | None = Field(None, description="Of a short-term memory")
    relevance: float = Field(description="To the words looked for; of a short-term memory with decay and score")
    keywords: list[str] | None = Field(None, description="The heaviest words of a short-term memory")
    tags: list[str] | None = Field(None, description="Left out where it has none")
    matched: list[str] = Field(description="The words looked for that it holds")
    removed: Removal | None = Field(None, description="Of a memory in the archive")


class SieveResult(Result):
    total_found: int = Field(description="How many meet all that was asked")
    results: list[Hit] = Field(description="This page")
    next: int | None = Field(None, description="Give this as `offset` for the next page; left out at the end")

    def sought(self) -> Sequence[str]:
        return tuple(dict.fromkeys(word for hit in self.results for word in hit.matched))

    def __str__(self) -> str:
        lines = []
        for hit in self.results:
            score = "" if hit.score is None else f", score {hit.score:g}"
            matched = f": {', '.join(hit.matched)}" if hit.matched else ""
            gone = f", {REASONS[hit.removed.reason]} {hit.removed.removedAt[:10]}" if hit.removed else ""
            what = hit.text if hit.memory_type == "short_term" else f"{hit.name} - {hit.prompt}"
            lines.append(
                f"{hit.timestamp[:16].replace('T', ' ')} UTC {hit.id or 'long-term'} in {hit.conversation_id} "
                f"(relevance {hit.relevance:.1f}{score}{matched}){gone}\n  {beginning(what or '')}"
            )
        if back := next((hit for hit in self.results if hit.removed), None):
            command = shell_command(back.conversation_id, "unforget", back.id or back.name or "")
            lines.append(f"restore_memories_from_archive brings one back, or in a shell `{command}`.")
        more = f" More from offset {self.next}." if self.next is not None else ""
        return "\n".join([*lines, f"{counted(self.total_found, 'memory')} found, {len(self.results)} shown.{more}"])


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
    context: Context,
    conversation_id: ConversationId = None,
    query: Annotated[Text, Field(max_length=MAX_TEXT_CHARS), "Text; its words are looked for"] = "",
    keywords: Annotated[list[Text], Field(max_length=50), "Words to look for as they are; one is enough"] = [],
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
) -> SieveResult:
    sieve = Sieve(
        from_ms=moment_ms("date_from", date_from, context.services.zone),
        until_ms=moment_ms("date_to", date_to, context.services.zone, end=True),
        min_score=min_score,
        max_score=max_score,
        tags=frozenset(tag.removeprefix("#").casefold() for tag in tags),
    )
    insight, end = context.conversations.get(conversation_id).insight, offset + limit
    found, total = await (insight.search_archive if archived else insight.search)(
        sieve,
        text=query,
        keywords=keywords,
        kinds=memory_type,
        sort_by=sort_by or ("relevance" if query.strip() or keywords else "timestamp"),
        descending=order == "desc",
        scope=scope,
        most=end,
    )
    results = [_hit(*one) if isinstance(one, tuple) else _hit(one) for one in found[offset:]]
    return SieveResult(total_found=total, results=results, next=end if end < total else None)


def _hit(sifted: Sifted, gone: Archived | None = None) -> Hit:
    memory = sifted.memory
    common: dict[str, Any] = {
        "conversation_id": sifted.conversation_id,
        "timestamp": iso(sifted.time_ms),
        "relevance": round(sifted.relevance, 2),
        "tags": list(tags_of(memory)) or None,
        "matched": list(sifted.shared),
        "removed": None if gone is None else removal(sifted.conversation_id, gone),
    }
    match memory:
        case ShortTermMemory():
            common["keywords"] = list(memory.words[:SHOWN_KEYWORDS])
            return Hit(memory_type="short_term", id=memory.id, text=memory.text, score=memory.score, **common)
        case LongTermMemory():
            return Hit(
                memory_type="long_term", name=memory.name, prompt=memory.prompt, trigger=memory.trigger, **common
            )


class Keyword(Result):
    word: str = Field(description="The word")
    weight: float = Field(description="Summed over the memories")
    memories: int = Field(description="How many hold it")


class Pattern(Result):
    total: int = Field(description="How many memories")
    average_score: float | None = Field(None, description="Mean score of the short-term memories")
    score_distribution: dict[str, int] | None = Field(None, description="negative, low < 10, medium < 30, high")
    top_keywords: list[Keyword] = Field(description="The heaviest words")
    tags: dict[str, int] = Field(description="The most frequent tags")
    time_distribution: dict[str, int] = Field(description="last_hour, last_day, last_week, last_month, older")
    hour_distribution: list[int] = Field(description="By the hour of the day, 0 to 23, in the server's time zone")
    never_recalled: int | None = Field(None, description="Short-term memories without a point")
    pinned: int | None = Field(None, description="How many the clean-up leaves alone")

    def __str__(self) -> str:
        if not self.total:
            return "no memories."
        lines = [f"{counted(self.total, 'memory')}; {_counts(self.time_distribution)}."]
        if self.average_score is not None and self.score_distribution is not None:
            lines.append(
                f"Scores: mean {self.average_score:g}; {_counts(self.score_distribution)}; "
                f"never recalled {self.never_recalled}, pinned {self.pinned}."
            )
        lines.append("Words: " + (", ".join(f"{w.word} ({w.memories})" for w in self.top_keywords) or "none") + ".")
        if self.tags:
            lines.append(f"Tags: {_counts(self.tags)}.")
        busiest = sorted(range(24), key=lambda hour: (-self.hour_distribution[hour], hour))[:3]
        hours = ", ".join(f"{hour:02}:00 ({count})" for hour in busiest if (count := self.hour_distribution[hour]))
        return "\n".join([*lines, f"Busiest hours: {hours}."])


class PatternResult(Result):
    conversation_id: str
    short_term: Pattern | None = Field(None, description="Of the short-term memories")
    long_term: Pattern | None = Field(None, description="Of the long-term memories")

    def __str__(self) -> str:
        named = (("Short-term", self.short_term), ("Long-term", self.long_term))
        return "\n".join(f"{name}: {found}" for name, found in named if found is not None)


@tool(
    title="What memories have in common",
    description="Scores, frequent words, tags, ages and hours of the day of a conversation's memories.",
    read_only=True,
)
async def analyze_memory_patterns(
    context: Context,
    conversation_id: ConversationId = None,
    memory_type: Annotated[Kind, "Which kind"] = "both",
    top_keywords: Annotated[int, Field(ge=1, le=MAX_PAGE), "Words shown"] = 20,
) -> PatternResult:
    conversation = context.conversations.get(conversation_id)
    short, long = await conversation.insight.patterns(top=top_keywords)
    return PatternResult(
        conversation_id=conversation.id,
        short_term=None if memory_type == "long_term" else _pattern(short, scored=True),
        long_term=None if memory_type == "short_term" else _pattern(long, scored=False),
    )


def _pattern(figures: Overview, *, scored: bool) -> Pattern:
    return Pattern(
        total=figures.total,
        average_score=None if figures.average_score is None else round(figures.average_score, 2),
        score_distribution=dict(figures.scores) if scored else None,
        top_keywords=[
            Keyword(word=common.word, weight=round(common.weight, 2), memories=common.memories)
            for common in figures.words
        ],
        tags=dict(figures.tags),
        time_distribution=dict(figures.ages),
        hour_distribution=list(figures.hours),
        never_recalled=figures.never_recalled if scored else None,
        pinned=figures.pinned if scored else None,
    )


def _counts(counts: dict[str, int]) -> str:
    return ", ".join(f"{name.replace('_', ' ')} {count}" for name, count in counts.items() if count) or "none"


INSIGHT = (explain_recall, search_memories, analyze_memory_patterns)
