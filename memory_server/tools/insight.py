"""The toolset `insight`: why a memory came or not, memories by words, dates, scores and tags, and what they have in
common. The names in `search_memories` and `analyze_memory_patterns` are the Node original's."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import tzinfo
from functools import partial
from typing import Annotated, Any, Literal

from pydantic import Field

from languages import N_, _, counted, joined, n_
from memory_server.conversations.insight import ExplainedMemory, ListRequest
from memory_server.conversations.model import Memory, ShortTermMemory
from memory_server.conversations.recall.filters import Filtered, MemoryFilter, SortBy, tags_of
from memory_server.conversations.recall.receipts import MatchedWord, age_text, meaning_text
from memory_server.conversations.recall.request import RecallRequest
from memory_server.conversations.recall.why import standing
from memory_server.conversations.recall.words import shown_words, spelling, spelling_of
from memory_server.kernel.messages import said_beginning
from memory_server.kernel.readers import way, way_for_both
from memory_server.kernel.recalled_block import one_line
from memory_server.kernel.times import MINUTE_MS, iso, local
from memory_server.memories.memories import Call
from memory_server.tools.archive import MAX_PAGE, REASONS, Removal, removal
from memory_server.tools.base.result import (
    From,
    Pagination,
    Result,
    hundredths,
    listed,
    shell_command,
    when,
)
from memory_server.tools.base.shapes import (
    ConversationId,
    Messages,
    OtherWordsArgument,
    RoleWeights,
    Scope,
    Text,
    moment_ms,
)
from memory_server.tools.base.tool import tool
from memory_server.tools.short_term import SHOWN_KEYWORDS

Verdict = Literal[
    "came",
    "muted",
    "too_recent",
    "in_context",
    "same_moment",
    "outranked",
    "below_threshold",
    "archived",
    "elsewhere",
]


_SHOWN_HOURS = 3
"""Hours of the day that the text names, the busiest first."""


class KeywordCount(Result):
    word: str = Field(description="The word")
    weight: Annotated[float, From(form=hundredths, words="Summed over the memories")]
    memories: int = Field(description="How many hold it")


class Pattern(Result):
    total: int = Field(description="How many memories")
    average_score: Annotated[
        float | None, From(form=hundredths, words="Mean score of the short-term memories")
    ] = None
    score_distribution: Annotated[
        dict[str, int] | None, From("scores", words="negative, low < 10, medium < 30, high")
    ] = None
    top_keywords: Annotated[
        list[KeywordCount], From("words", KeywordCount.each, "The heaviest words")
    ]
    tags: Annotated[dict[str, int], From(words="The most frequent tags")]
    time_distribution: Annotated[
        dict[str, int], From("ages", words="last_hour, last_day, last_week, last_month, older")
    ]
    hour_distribution: Annotated[
        list[int], From("hours", words="By the hour of the day, 0 to 23, in the server's time zone")
    ]
    never_recalled: int | None = Field(None, description="Short-term memories without a point")
    pinned: int | None = Field(None, description="How many the clean-up leaves alone")

    def __str__(self) -> str:
        """Describe the memories in lines: times, scores, words, tags and busiest hours. Scores are
        left out for long-term memories, tags if none exist."""
        if not self.total:
            return _("no memories.")
        lines = [
            _(
                "{memories}; {counts}.",
                counted(self.total, "memory"),
                _counts(self.time_distribution),
            )
        ]

        # Long-term memories have no scores.
        if self.average_score is not None and self.score_distribution is not None:
            lines.append(
                _(
                    "Scores: mean {average_score:g}; {counts}; never recalled {never_recalled}, pinned {pinned}.",
                    self.average_score,
                    _counts(self.score_distribution),
                    self.never_recalled,
                    self.pinned,
                )
            )

        words = ", ".join(f"{keyword.word} ({keyword.memories})" for keyword in self.top_keywords)
        lines.append(_("Words: {top_keywords}.", words or _("none")))
        if self.tags:
            lines.append(_("Tags: {counts}.", _counts(self.tags)))

        lines.append(_("Busiest hours: {hours}.", self._busiest_hours()))
        return "\n".join(lines)

    def _busiest_hours(self) -> str:
        def busiest_first(hour: int) -> tuple[int, int]:
            return -self.hour_distribution[hour], hour

        busiest = sorted(range(24), key=busiest_first)[:_SHOWN_HOURS]
        hours_in_use = [hour for hour in busiest if self.hour_distribution[hour]]
        return ", ".join(f"{hour:02}:00 ({self.hour_distribution[hour]})" for hour in hours_in_use)


class PatternResult(Result):
    conversation_id: str
    short_term: Pattern | None = Field(None, description="Of the short-term memories")
    long_term: Pattern | None = Field(None, description="Of the long-term memories")

    def __str__(self) -> str:
        lines: list[str] = []
        if self.short_term is not None:
            lines.append(_("{about}: {what}", _("Short-term"), str(self.short_term)))
        if self.long_term is not None:
            lines.append(_("{about}: {what}", _("Long-term"), str(self.long_term)))
        return "\n".join(lines)


def _counts(counts: dict[str, int]) -> str:
    """Return the names of a distribution with their counts, without names that count nothing."""
    parts = [_(name.replace("_", " ")) + f" {count}" for name, count in counts.items() if count]
    return joined(", ", parts) or _("none")


def _true_or_none(value: object) -> bool | None:
    return True if value else None


class SharedWord(Result):
    word: str = Field(description="The word, or a pair of characters")
    inMessages: Annotated[float, From("query_weight", hundredths, "Its weight in the messages")]
    inMemory: Annotated[float, From("memory_weight", hundredths, "Its weight in the memory")]
    factor: Annotated[
        float,
        From(
            form=partial(round, ndigits=3),
            words="On both weights: less than 1 for what many memories hold, or says little",
        ),
    ]
    beside: Annotated[
        bool, From(words="The messages do not have it, and it was looked for too")
    ] = False
    given: Annotated[
        bool | None,
        From("other_word", _true_or_none, "The caller gave it; the messages do not have it"),
    ] = None
    kept: Annotated[
        bool | None,
        From(form=_true_or_none, words="Kept with the memory; its text does not have it"),
    ] = None

    @property
    def is_said(self) -> bool:
        """Whether the messages and the text of the memory have it."""
        return not (self.beside or self.given or self.kept)

    def text(self) -> str:
        """Return the word with its points, as a receipt writes it."""
        return MatchedWord(
            self.word,
            query_weight=self.inMessages,
            memory_weight=self.inMemory,
            factor=self.factor,
            other_word=int(bool(self.given)),
            kept=bool(self.kept),
        ).text()


def _three_figures(chance: float) -> float:
    """Round to three figures: a thousandth of a percent must not become nothing."""
    return float(f"{chance:.3g}")


class Other(Result):
    id: Annotated[str, From("memory.id")]
    conversation_id: str
    text: Annotated[str, From("memory.text", said_beginning, "Its beginning")]
    relevance: Annotated[float, From("receipt.relevance", hundredths)]
    minutesApart: float | None = Field(None, description="Of one of the same moment")


class ChanceOf(Result):
    weight: Annotated[float, From(form=hundredths, words="Its weight in the draw")]
    totalWeight: Annotated[float, From(form=hundredths, words="Of all memories in the draw")]
    probability: Annotated[
        float, From(form=_three_figures, words="That one search brings it as a flashback")
    ]


class ExplainResult(Result):
    id: Annotated[str, From("memory.id")]
    conversation_id: str = Field(description="Where it is kept")
    text: Annotated[str, From("memory.text", said_beginning, "Its beginning")]
    timestamp: Annotated[str, From("memory.time_ms", iso)]
    verdict: Verdict = Field(description="What became of it")
    reason: str = Field(description="The same for people, with what can be done")
    relevance: Annotated[
        float,
        From("receipt.relevance", hundredths, "match + around + span + cue - decay + score"),
    ]
    threshold: float | None = Field(None, description="Least `counted` with which it comes unasked")
    counted: float | None = Field(
        None,
        description="Its points beside `threshold`: match + around + span, times 0.9 if it shares little of a "
        "question; after a statement, the match alone, without "
        'function words and words of earlier messages; with compat = "node", the relevance',
    )
    match: Annotated[
        float,
        From(
            "receipt.match",
            hundredths,
            words="Sum of the points of the shared words: factor × (inMessages + inMemory)",
        ),
    ]
    around: Annotated[
        float, From("receipt.around", hundredths, "Gained from what was said around it")
    ]
    span: Annotated[
        float,
        From("receipt.span", hundredths, "Gained because it is of a time that the messages name"),
    ]
    cue: Annotated[
        float,
        From(
            "receipt.cue",
            hundredths,
            "Gained because it has what is asked: a number, time or name; below 0: it only asks the same",
        ),
    ]
    decay: Annotated[float, From("receipt.decay", hundredths, "Points that its age took away")]
    score: Annotated[float, From("receipt.score")]
    age: Annotated[str, From("receipt.age_ms", age_text, "For people")]
    matchedWords: list[SharedWord] = Field(
        description="The words it shares with the messages, as its text has them"
    )
    meaning: Annotated[
        str | None, From("receipt.nearness", meaning_text, "Its ranks by meaning and by words")
    ] = None
    by: list[Other] = Field(description="The memories that came in its place, or of its moment")
    flashback: ChanceOf | None = Field(None, description="Left out where it cannot come by chance")
    archived: Removal | None = Field(None, description="Of a memory that was removed")

    def __str__(self) -> str:
        """Tell why the memory came or not, with the words that matched only as other words or for a
        question about a state, and with its ranks by meaning if meaning was used."""
        sentences = [self._told()]
        other_words = [word for word in self.matchedWords if not (word.is_said or word.beside)]

        if other_words:
            others = _texts_of(other_words)
            sentences.append(_("Other words: {words}.", others))

        words_beside = [word for word in self.matchedWords if word.beside]
        if words_beside:
            beside = _texts_of(words_beside)
            sentences.append(
                _(
                    "Looked for too, because the question asks how something stands: {words}.",
                    beside,
                )
            )

        explanation = " ".join(sentences)
        return _("{told} By {meaning}.", explanation, self.meaning) if self.meaning else explanation

    def _told(self) -> str:
        """Describe the memory, the reason, its relevance with all parts, and the shared words; what
        counts and is needed only if both are known."""
        words = ", ".join(word.text() for word in self.matchedWords if word.is_said)

        needed: Any = ""
        if self.threshold is not None and self.counted is not None:
            needed = _(
                "; {counted:.2f} points count, {threshold:.2f} are needed",
                self.counted,
                self.threshold,
            )

        span = _(" + time {span:.2f}", self.span) if self.span else ""
        cue = _(" + asked {cue:.2f}", self.cue) if self.cue else ""

        return _(
            "{id} in {conversation}, {age} old: {text}\n"
            "{reason}\n"
            "Relevance {relevance:.2f} = match {match:.2f} + around {around:.2f}{span}{cue} - decay {decay:.2f} "
            "+ score {score:g}{needed}. Shared words: {words}.",
            self.id,
            self.conversation_id,
            self.age,
            one_line(self.text),
            self.reason,
            self.relevance,
            self.match,
            self.around,
            span,
            cue,
            self.decay,
            self.score,
            needed,
            words or _("none"),
        )


def _texts_of(words: Iterable[SharedWord]) -> str:
    return joined(", ", [word.text() for word in words])


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
    otherWords: OtherWordsArgument = [],
    roleWeights: RoleWeights | None = None,
    scope: Scope = None,
) -> ExplainResult:
    conversation = call.conversations.get(conversation_id)
    request = RecallRequest(
        recentMessages,
        other_words=otherWords,
        role_weights=RoleWeights.of(roleWeights),
        scope=scope,
        session=call.session,
        folder=call.folder,
    )

    explained = await conversation.insight.explain(request, memory_id=memory_id, text=text)
    # A hook asks for more than a tool, so its answer may be different.
    by_hook = await conversation.insight.explain(
        replace(request, other_words=(), mode="every_prompt"), memory_id=explained.memory.id
    )

    zone = call.memories.services.zone
    verdict, sentences = _verdict_with_reasons(explained, searched_id=conversation.id, zone=zone)
    sentences += _sentences_of_hook(explained, by_hook)
    notes = call.memories.services.day_notes
    sentences += filter(None, [standing(explained.memory, explained.corrected_by, notes)])

    if explained.alike:
        # A text may mean several memories, of which only one is explained.
        sentences.append(_alike_sentence(explained.alike))

    return ExplainResult.of(
        explained,
        verdict=verdict,
        reason="\n".join(sentences),
        matchedWords=_shared_words(explained),
        **_fields_of_search(explained),
        archived=_removal_of(explained),
    )


def _sentences_of_hook(explained: ExplainedMemory, by_hook: ExplainedMemory) -> Iterator[str]:
    """Yield a sentence if a hook, which asks for more, would decide otherwise: it would not bring
    the memory, or the memory has too few points for both, but shares words."""
    usual = explained.explanation
    strict = by_hook.explanation

    if usual is None or strict is None:
        return
    if usual.verdict.kind == strict.verdict.kind == "came":
        # Both bring the memory, so there is nothing to add.
        return

    if usual.verdict.kind == "came":
        yield _(
            "So it is for {way}. A hook asks for more, and would not bring it: {verdict}",
            way("recall_turn", "memory-server recall"),
            strict.verdict.sentence,
        )
    elif usual.verdict.kind == strict.verdict.kind == "below_threshold" and (
        explained.receipt.words_shared
    ):
        yield _(
            "So it is for {way}. For a hook: {verdict}",
            way("recall_turn", "memory-server recall"),
            strict.verdict.sentence,
        )


def _alike_sentence(alike: int) -> str:
    """Return how many memories besides the explained one have words of the text that the caller gave."""
    others = n_(
        "{count} other memory shares words with that text",
        "{count} other memories share words with that text",
        alike,
    )
    where = way("search_memories", "memory-server search WORDS")
    return _("{others}; {where} lists them with their ids.", others, where)


def _shared_words(explained: ExplainedMemory) -> list[SharedWord]:
    """Return the words that the memory shares with the messages, in the memory's spelling, each with its weights."""
    spelt = spelling_of(explained.memory)
    return [SharedWord.of(word, word=spelt(word.word)) for word in explained.receipt.matched]


def _fields_of_search(explained: ExplainedMemory) -> dict[str, Any]:
    """Return the fields of the result that say what a search did with the memory; empty fields for a memory in the
    archive, which no search finds."""
    explanation = explained.explanation
    if explanation is None:
        return {"threshold": None, "counted": None, "by": [], "flashback": None}

    minutes_apart = None
    if explanation.verdict.apart_ms is not None:
        minutes_apart = round(explanation.verdict.apart_ms / MINUTE_MS, 1)

    winners: list[Other] = []
    for winner in explanation.verdict.others:
        kept_in = winner.kept_in or explained.conversation_id
        winners.append(Other.of(winner, conversation_id=kept_in, minutesApart=minutes_apart))

    draw = explanation.draw
    flashback = None
    if draw is not None and draw.weight:
        flashback = ChanceOf.of(draw)

    return {
        "threshold": hundredths(explanation.needed),
        "counted": hundredths(explanation.counted),
        "by": winners,
        "flashback": flashback,
    }


def _removal_of(explained: ExplainedMemory) -> Removal | None:
    """Return how the memory was removed, or None if it is not in the archive."""
    if explained.archived is None:
        return None
    return removal(explained.conversation_id, explained.archived)


def _verdict_with_reasons(
    explained: ExplainedMemory, *, searched_id: str, zone: tzinfo | None
) -> tuple[Verdict, list[str]]:
    """Return the verdict on the memory in a search of the conversation `searched_id`, and sentences for people that
    give the reasons. `zone` is the zone of the times in them."""
    if explained.explanation is None:
        return "archived", [_removed_sentence(explained, zone)]

    verdict = explained.explanation.verdict
    sentences = [verdict.sentence]
    draw = explained.explanation.draw
    if draw is not None:
        sentences.append(draw.sentence)

    if explained.searched:
        return verdict.kind, sentences

    elsewhere = _(
        "It is not in the conversation {own} but in {conversation}, where this search does not look; give "
        "scope `all`, or conversation_id `{conversation}`. A search of all conversations would say:",
        searched_id,
        explained.conversation_id,
    )
    return "elsewhere", [elsewhere, *sentences]


def _removed_sentence(explained: ExplainedMemory, zone: tzinfo | None) -> str:
    """Say when, by what and why a memory was removed, its relevance, and how to bring it back. The
    memory must be in the archive."""
    archived = explained.archived
    assert archived is not None
    return _(
        "It was removed on {local:%Y-%m-%d %H:%M} by {by} ({reasons}), so no search finds it; its "
        "relevance would be {relevance:.1f}. {how} brings it back.",
        local(archived.at_ms, zone),
        archived.by,
        _(REASONS[archived.reason]),
        explained.receipt.relevance,
        way_for_both(
            "restore_memories_from_archive", f"memory-server undo --memory {explained.memory.id}"
        ),
    )


def _tags_or_none(memory: Memory) -> list[str] | None:
    return list(tags_of(memory)) or None


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
        float,
        From(
            form=hundredths,
            words="To the words looked for; of a short-term memory with decay and score",
        ),
    ]
    keywords: list[str] | None = Field(
        None, description="The heaviest words of a short-term memory"
    )
    tags: Annotated[
        list[str] | None, From("memory", _tags_or_none, words="Left out where it has none")
    ] = None
    matched: list[str] = Field(
        description="The words looked for that it holds, as its text has them"
    )
    keptWords: list[str] | None = Field(None, description="Those of them that its text lacks")
    removed: Removal | None = Field(None, description="Of a memory in the archive")

    def __str__(self) -> str:
        """Describe a found memory in two lines: time, id, place, points and removal; then its
        beginning."""
        score = "" if self.score is None else _(", score {score:g}", self.score)
        removal_text = ""
        if self.removed:
            removal_text = _(
                ", {why} {day}", _(REASONS[self.removed.reason]), when(self.removed.removedAt)[:10]
            )

        content = self.text if self.memory_type == "short_term" else f"{self.name} - {self.prompt}"

        return _(
            "{when} {id} in {conversation} (relevance {relevance:.1f}{score}{matched}){gone}\n  {what}",
            when(self.timestamp),
            self.id or _("long-term"),
            self.conversation_id,
            self.relevance,
            score,
            self._matched_text(),
            removal_text,
            one_line(said_beginning(content or "")),
        )

    def _matched_text(self) -> str:
        """List the words that matched, with a remark at those that are only kept with the memory;
        '' without any."""
        kept_words = self.keptWords or ()
        words: list[str] = []
        for word in self.matched:
            if word in kept_words:
                words.append(_("{word} (kept with the memory)", word))
            else:
                words.append(word)
        if not words:
            return ""
        if kept_words:
            return _(": {words}", joined(", ", words))
        return _(": {words}", ", ".join(words))


class FilterResult(Result):
    total_found: int = Field(description="How many meet all that was asked")
    results: list[FoundMemory] = Field(description="This page")
    next: int | None = Field(
        None, description="Give this as `offset` for the next page; left out at the end"
    )

    def query_words(self) -> Sequence[str]:
        words: dict[str, None] = {}  # as an ordered set
        for memory in self.results:
            words |= dict.fromkeys(memory.matched)
        return tuple(words)

    def __str__(self) -> str:
        """List the found memories, how to bring back those that were removed, and the counts."""
        lines = [str(memory) for memory in self.results]
        removed = [memory for memory in self.results if memory.removed]
        if removed:
            example = removed[0]
            command = shell_command(
                example.conversation_id, "undo", "--memory", example.id or example.name or ""
            )
            lines.append(
                _("{how} brings one back.", way_for_both("restore_memories_from_archive", command))
            )
        more = _(" More from offset {next}.", self.next) if self.next is not None else ""
        total = counted(self.total_found, "memory")
        return listed(
            lines, _("{memories} found, {results} shown.{more}", total, len(self.results), more)
        )


@tool(
    title="Search by words, dates, scores, tags",
    description=(
        "Find memories of both kinds by words, dates, scores and tags, page by page. "
        "Unlike recall, nothing is held back, left to chance or reinforced. With archived, among removed ones."
    ),
    paging=Pagination("results", skips=True),
    read_only=True,
    recalls=True,
)
async def search_memories(
    call: Call,
    conversation_id: ConversationId = None,
    query: Annotated[Text, Field(max_length=MAX_TEXT_CHARS), "Text; its words are looked for"] = "",
    keywords: Annotated[
        list[Text], Field(max_length=50), "Words to look for as they are; one is enough"
    ] = [],
    otherWords: OtherWordsArgument = [],
    date_from: Annotated[
        Text | None, "ISO date or time; in the server's time zone where it has none"
    ] = None,
    date_to: Annotated[Text | None, "The same, included"] = None,
    min_score: Annotated[
        float | None, "Points; long-term memories have none and do not come"
    ] = None,
    max_score: Annotated[float | None, "The same, at most"] = None,
    tags: Annotated[
        list[Text],
        Field(max_length=50),
        "All are needed: #words of the text, or tags of the record",
    ] = [],
    memory_type: Annotated[Kind, "Which kind"] = "both",
    sort_by: Annotated[
        SortBy | None, "Usually relevance where there is something to look for, else timestamp"
    ] = None,
    order: Annotated[Literal["asc", "desc"], "Ascending or descending"] = "desc",
    limit: Annotated[int, Field(ge=1, le=MAX_PAGE), "Memories on a page"] = 20,
    offset: Annotated[int, Field(ge=0), "Memories passed over"] = 0,
    scope: Scope = None,
    archived: Annotated[
        bool, "Look among what was forgotten or deleted and can still come back"
    ] = False,
) -> FilterResult:
    zone = call.memories.services.zone
    memory_filter = MemoryFilter(
        from_ms=moment_ms("date_from", date_from, zone),
        until_ms=moment_ms("date_to", date_to, zone, end=True),
        min_score=min_score,
        max_score=max_score,
        tags=frozenset(tag.removeprefix("#") for tag in tags),
    )

    if sort_by is None:
        looks_for_words = any(map(str.strip, (query, *keywords, *otherWords)))
        sort_by = "relevance" if looks_for_words else "timestamp"

    # Pages before this one are ranked too, and then passed over.
    end = offset + limit
    request = ListRequest(
        memory_filter,
        text=query,
        keywords=keywords,
        other_words=otherWords,
        kinds=memory_type,
        sort_by=sort_by,
        descending=order == "desc",
        scope=scope,
        most=end,
        archived=archived,
    )

    matches, total = await call.conversations.get(conversation_id).insight.search(request)
    results = [_found_memory(match) for match in matches[offset:]]
    following = end if end < total else None
    return FilterResult(total_found=total, results=results, next=following)


def _found_memory(match: Filtered) -> FoundMemory:
    """Return a match as a row of the result: the fields of its kind of memory, None in those of the
    other."""
    memory = match.memory

    fields: dict[str, Any] = dict.fromkeys(("id", "text", "score", "name", "prompt", "trigger"))
    if isinstance(memory, ShortTermMemory):
        fields |= {
            "memory_type": "short_term",
            "id": memory.id,
            "text": memory.text,
            "score": memory.score,
        }
        fields["keywords"] = shown_words(memory, SHOWN_KEYWORDS)
        spelt = spelling_of(memory)
    else:
        fields |= {
            "memory_type": "long_term",
            "name": memory.name,
            "prompt": memory.prompt,
            "trigger": memory.trigger,
        }
        fields["keywords"] = None
        spelt = spelling(f"{memory.name}\n{memory.prompt}")

    fields["matched"] = _spelt_words(match.shared, spelt)
    fields["keptWords"] = _spelt_words(match.kept, spelt) or None
    fields["removed"] = None

    if match.removal is not None:
        fields["removed"] = removal(match.conversation_id, match.removal)
    return FoundMemory.of(match, **fields)


def _spelt_words(words: Sequence[str], spelt: Callable[[str], str]) -> list[str]:
    """Return the words of a memory as its text spells them, each once: a search looks for a word and for its stem, and
    the text is asked for the stem."""
    forms: dict[str, str] = {}
    for word in words:
        form = spelt(word)
        key = form.casefold()
        if forms.get(key, key) == key:
            forms[key] = form
    return list(forms.values())


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
    short_term_patterns, long_term_patterns = await conversation.insight.patterns(top=top_keywords)
    short_term = None
    if memory_type != "long_term":
        short_term = Pattern.of(short_term_patterns)
    long_term = None
    if memory_type != "short_term":
        unscored = dict.fromkeys(
            ("average_score", "score_distribution", "never_recalled", "pinned")
        )
        long_term = Pattern.of(long_term_patterns, **unscored)
    return PatternResult(
        conversation_id=conversation.id, short_term=short_term, long_term=long_term
    )


_FIGURES = N_(
    (
        *("last hour", "last day", "last week", "last month", "older"),
        *("negative", "low", "medium", "high"),
    )
)
