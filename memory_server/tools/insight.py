"""The toolset `insight`: why a memory came or not, memories by words, dates, scores and tags, and what they have in
common. Names of `search_memories` and `analyze_memory_patterns` are the Node original's."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta, tzinfo
from typing import Literal, TypedDict

from pydantic import Field

from memory_server.core.archive import Archived
from memory_server.core.errors import InvalidInput
from memory_server.core.model import LongTermMemory, ShortTermMemory
from memory_server.core.times import milliseconds
from memory_server.managers.context import Context
from memory_server.recall.filters import Sieve, Sifted, SortBy, tags_of
from memory_server.recall.overview import Overview
from memory_server.tools.archive import REASONS
from memory_server.tools.base.budget import Paging
from memory_server.tools.base.shapes import ConversationId, Scope, Text, beginning, counted, shell_command, time_text
from memory_server.tools.base.tool import Arguments, Result, Tool
from memory_server.tools.explain import ExplainArguments, ExplainResult, Removal, explain, explain_text, removal
from memory_server.tools.short_term import SHOWN_KEYWORDS

MAX_PAGE = 200
MAX_TEXT_CHARS = 2_000

Kind = Literal["short_term", "long_term", "both"]


# --- search_memories -----------------------------------------------------------------------------------------


class SieveArguments(Arguments):
    conversation_id: ConversationId = None
    query: Text = Field("", max_length=MAX_TEXT_CHARS, description="Text; its words are looked for")
    keywords: list[Text] = Field([], max_length=50, description="Words to look for as they are; one is enough")
    date_from: Text | None = Field(None, description="ISO date or time; in the server's time zone where it has none")
    date_to: Text | None = Field(None, description="The same, included")
    min_score: float | None = Field(None, description="Points; long-term memories have none and do not come")
    max_score: float | None = Field(None, description="The same, at most")
    tags: list[Text] = Field([], max_length=50, description="All are needed: #words of the text, or tags of the record")
    memory_type: Kind = Field("both", description="Which kind")
    sort_by: Literal["relevance", "timestamp", "score"] | None = Field(
        None, description="Usually relevance where there is something to look for, else timestamp"
    )
    order: Literal["asc", "desc"] = Field("desc", description="Ascending or descending")
    limit: int = Field(20, ge=1, le=MAX_PAGE, description="Memories on a page")
    offset: int = Field(0, ge=0, description="Memories passed over")
    scope: Scope = None
    archived: bool = Field(False, description="Look among what was forgotten or deleted and can still come back")


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


async def _search(context: Context, arguments: SieveArguments) -> SieveResult:
    sought = bool(arguments.query.strip() or arguments.keywords)
    end = arguments.offset + arguments.limit
    sieve = Sieve(
        from_ms=_moment("date_from", arguments.date_from, context.services.zone, end=False),
        until_ms=_moment("date_to", arguments.date_to, context.services.zone, end=True),
        min_score=arguments.min_score,
        max_score=arguments.max_score,
        tags=frozenset(tag.removeprefix("#").casefold() for tag in arguments.tags),
    )
    asked = _Asked(
        text=arguments.query,
        keywords=arguments.keywords,
        kinds=arguments.memory_type,
        sort_by=arguments.sort_by or ("relevance" if sought else "timestamp"),
        descending=arguments.order == "desc",
        scope=arguments.scope,
        most=end,
    )
    insight = context.conversations.get(arguments.conversation_id).insight
    if arguments.archived:
        gone, total = await insight.search_archive(sieve, **asked)
        results = [_hit(sifted, entry) for sifted, entry in gone[arguments.offset :]]
    else:
        found, total = await insight.search(sieve, **asked)
        results = list(map(_hit, found[arguments.offset :]))
    return SieveResult(total_found=total, results=results, next=end if end < total else None)


class _Asked(TypedDict):
    """What `search` and `search_archive` take besides the sieve."""

    text: str
    keywords: list[str]
    kinds: Kind
    sort_by: SortBy
    descending: bool
    scope: str | None
    most: int


def _moment(name: str, text: str | None, zone: tzinfo | None, *, end: bool) -> int | None:
    """Milliseconds since 1970; a date without a time is the first of its day, or as an `end` the last."""
    if text is None:
        return None
    try:
        moment = datetime.fromisoformat(text)
        only_date = len(text) <= len("2026-05-03") and ":" not in text
        if only_date and end:
            moment += timedelta(days=1)
        if moment.tzinfo is None:
            moment = moment.astimezone() if zone is None else moment.replace(tzinfo=zone)
        return milliseconds(moment) - (1 if only_date and end else 0)
    except (ValueError, OverflowError, OSError) as error:
        raise InvalidInput(f"`{name}` is no time; write for example 2026-05-03 or 2026-05-03T12:00:00Z.") from error


def _hit(sifted: Sifted, gone: Archived | None = None) -> Hit:
    memory, tags = sifted.memory, list(tags_of(sifted.memory)) or None
    common = {
        "conversation_id": sifted.conversation_id,
        "timestamp": time_text(sifted.time_ms) or "",
        "relevance": round(sifted.relevance, 2),
        "tags": tags,
        "matched": list(sifted.shared),
        "removed": None if gone is None else removal(sifted.conversation_id, gone),
    }
    match memory:
        case ShortTermMemory():
            keywords = list(memory.words[:SHOWN_KEYWORDS])
            return Hit(
                memory_type="short_term",
                id=memory.id,
                text=memory.text,
                score=memory.score,
                keywords=keywords,
                **common,
            )
        case LongTermMemory():
            return Hit(
                memory_type="long_term", name=memory.name, prompt=memory.prompt, trigger=memory.trigger, **common
            )


def _search_text(result: SieveResult) -> str:
    lines = []
    for hit in result.results:
        score = "" if hit.score is None else f", score {hit.score:g}"
        matched = f": {', '.join(hit.matched)}" if hit.matched else ""
        what = hit.text if hit.memory_type == "short_term" else f"{hit.name} - {hit.prompt}"
        lines.append(
            f"{hit.timestamp[:16].replace('T', ' ')} UTC {hit.id or 'long-term'} in {hit.conversation_id} "
            f"(relevance {hit.relevance:.1f}{score}{matched}){_gone_text(hit)}\n  {beginning(what or '')}"
        )
    if back := next((hit for hit in result.results if hit.removed), None):
        command = shell_command(back.conversation_id, "unforget", back.id or back.name or "")
        lines.append(f"restore_memories_from_archive brings one back, or in a shell `{command}`.")
    more = f" More from offset {result.next}." if result.next is not None else ""
    return "\n".join([*lines, f"{counted(result.total_found, 'memory')} found, {len(result.results)} shown.{more}"])


def _gone_text(hit: Hit) -> str:
    return f", {REASONS[hit.removed.reason]} {hit.removed.removedAt[:10]}" if hit.removed else ""


# --- analyze_memory_patterns ---------------------------------------------------------------------------------


class PatternArguments(Arguments):
    conversation_id: ConversationId = None
    memory_type: Kind = Field("both", description="Which kind")
    top_keywords: int = Field(20, ge=1, le=MAX_PAGE, description="Words shown")


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


class PatternResult(Result):
    conversation_id: str
    short_term: Pattern | None = Field(None, description="Of the short-term memories")
    long_term: Pattern | None = Field(None, description="Of the long-term memories")


async def _patterns(context: Context, arguments: PatternArguments) -> PatternResult:
    conversation = context.conversations.get(arguments.conversation_id)
    short, long = await conversation.insight.patterns(top=arguments.top_keywords)
    return PatternResult(
        conversation_id=conversation.id,
        short_term=None if arguments.memory_type == "long_term" else _pattern(short, scored=True),
        long_term=None if arguments.memory_type == "short_term" else _pattern(long, scored=False),
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


def _patterns_text(result: PatternResult) -> str:
    blocks = []
    for name, found in (("Short-term", result.short_term), ("Long-term", result.long_term)):
        if found is None:
            continue
        if not found.total:
            blocks.append(f"{name}: no memories.")
            continue
        lines = [f"{name}: {counted(found.total, 'memory')}; {_counts(found.time_distribution)}."]
        if found.average_score is not None and found.score_distribution is not None:
            lines.append(
                f"Scores: mean {found.average_score:g}; {_counts(found.score_distribution)}; "
                f"never recalled {found.never_recalled}, pinned {found.pinned}."
            )
        lines.append("Words: " + (", ".join(f"{w.word} ({w.memories})" for w in found.top_keywords) or "none") + ".")
        if found.tags:
            lines.append(f"Tags: {_counts(found.tags)}.")
        busiest = sorted(range(24), key=lambda hour: (-found.hour_distribution[hour], hour))[:3]
        hours = ", ".join(f"{hour:02}:00 ({count})" for hour in busiest if (count := found.hour_distribution[hour]))
        lines.append(f"Busiest hours: {hours}.")
        blocks.append("\n".join(lines))
    return "\n".join(blocks)


def _counts(counts: dict[str, int]) -> str:
    return ", ".join(f"{name.replace('_', ' ')} {count}" for name, count in counts.items() if count) or "none"


INSIGHT: tuple[Tool, ...] = (
    Tool(
        name="explain_recall",
        title="Why it came or not",
        description=(
            "Why a search by these messages, made now, brings a short-term memory or does not: its relevance and the "
            "parts of it, what held it back and which memories came instead. Changes nothing."
        ),
        arguments=ExplainArguments,
        result=ExplainResult,
        run=explain,
        text=explain_text,
        read_only=True,
        idempotent=True,
    ),
    Tool(
        name="search_memories",
        title="Search by words, dates, scores, tags",
        description=(
            "Find memories of both kinds by words, dates, scores and tags, page by page. "
            "Unlike recall, nothing is held back, left to chance or reinforced. With archived, among removed ones."
        ),
        arguments=SieveArguments,
        result=SieveResult,
        run=_search,
        text=_search_text,
        recalls=True,
        paging=Paging("results", skips=True),
        read_only=True,
        idempotent=True,
    ),
    Tool(
        name="analyze_memory_patterns",
        title="What memories have in common",
        description="Scores, frequent words, tags, ages and hours of the day of a conversation's memories.",
        arguments=PatternArguments,
        result=PatternResult,
        run=_patterns,
        text=_patterns_text,
        read_only=True,
        idempotent=True,
    ),
)
