"""Results of the toolset `insight`: why a memory came or not, and what memories have in common."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Annotated, Any, Literal

from pydantic import Field

from languages import _, counted, joined
from memory_server.conversations.recall.receipts import MatchedWord, age_text, meaning_text
from memory_server.kernel.messages import said_beginning
from memory_server.kernel.recalled_block import one_line
from memory_server.kernel.times import iso
from memory_server.tools.archive import Removal
from memory_server.tools.base.result import From, Result, hundredths

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
        dict[str, int] | None, From("scores", dict, "negative, low < 10, medium < 30, high")
    ] = None
    top_keywords: Annotated[
        list[KeywordCount], From("words", KeywordCount.each, "The heaviest words")
    ]
    tags: Annotated[dict[str, int], From(form=dict, words="The most frequent tags")]
    time_distribution: Annotated[
        dict[str, int], From("ages", dict, "last_hour, last_day, last_week, last_month, older")
    ]
    hour_distribution: Annotated[
        list[int], From("hours", list, "By the hour of the day, 0 to 23, in the server's time zone")
    ]
    never_recalled: int | None = Field(None, description="Short-term memories without a point")
    pinned: int | None = Field(None, description="How many the clean-up leaves alone")

    def __str__(self) -> str:
        if not self.total:
            return _("no memories.")
        lines = [
            _(
                "{memories}; {counts}.",
                counted(self.total, "memory"),
                _counts(self.time_distribution),
            )
        ]
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
    """The names of a distribution with their counts, without those that count nothing."""
    parts = [_(name.replace("_", " ")) + f" {count}" for name, count in counts.items() if count]
    return joined(", ", parts) or _("none")


def _true_or_none(value: object) -> bool | None:
    return True if value else None


def _text_or_none(text: str) -> str | None:
    return text or None


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
        From(form=_true_or_none, words="The caller gave it; the messages do not have it"),
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
        return MatchedWord(
            self.word,
            query_weight=self.inMessages,
            memory_weight=self.inMemory,
            factor=self.factor,
            given=int(bool(self.given)),
            kept=bool(self.kept),
        ).text()


def _three_figures(chance: float) -> float:
    """Rounded to three figures: a thousandth of a percent must not become nothing."""
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
        From("receipt.relevance", hundredths, "match + around + span + cue - decay + score + lent"),
    ]
    threshold: float | None = Field(None, description="Least `counted` with which it comes unasked")
    counted: float | None = Field(
        None,
        description="Its points beside `threshold`: match + around + span; after a statement, the match alone, without "
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
            "receipt.cue", hundredths, "Gained because it has what is asked: a number, time or name"
        ),
    ]
    decay: Annotated[float, From("receipt.decay", hundredths, "Points that its age took away")]
    score: Annotated[float, From("receipt.score")]
    lent: Annotated[float, From("receipt.lent", hundredths, "As much more as `older` was recalled")]
    older: Annotated[
        str | None,
        From("receipt.older", _text_or_none, "An older memory that shares the same words"),
    ] = None
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
        if self.older is not None:
            sentence = _(
                "It shares the same words as {older}, which is older and was recalled more: so it counts {lent:.2f} "
                "points more, as many as the older one has more.",
                self.older,
                self.lent,
            )
            sentences.append(sentence)
        explanation = " ".join(sentences)
        return _("{told} By {meaning}.", explanation, self.meaning) if self.meaning else explanation

    def _told(self) -> str:
        """The memory, the reason, and its relevance with all parts."""
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
            "+ score {score:g}{lent}{needed}. Shared words: {words}.",
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
            _(" + older {lent:g}", self.lent) if self.lent else "",
            needed,
            words or _("none"),
        )


def _texts_of(words: Iterable[SharedWord]) -> str:
    return joined(", ", [word.text() for word in words])
