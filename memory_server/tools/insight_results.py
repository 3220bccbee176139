"""Results of the toolset `insight`: what memories have in common."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from memory_server.tools.base.result import From, Result, hundredths
from sandbox.locale import _, counted, joined


class KeywordCount(Result):
    word: str = Field(description="The word")
    weight: Annotated[float, From(form=hundredths, words="Summed over the memories")]
    memories: int = Field(description="How many hold it")


class Pattern(Result):
    total: int = Field(description="How many memories")
    average_score: Annotated[float | None, From(form=hundredths, words="Mean score of the short-term memories")] = None
    score_distribution: Annotated[
        dict[str, int] | None, From("scores", dict, "negative, low < 10, medium < 30, high")
    ] = None
    top_keywords: Annotated[list[KeywordCount], From("words", KeywordCount.each, "The heaviest words")]
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
        lines = [_("{memories}; {counts}.", counted(self.total, "memory"), _counts(self.time_distribution))]
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
        lines.append(
            _("Words: {top_keywords}.", ", ".join(f"{w.word} ({w.memories})" for w in self.top_keywords) or _("none"))
        )
        if self.tags:
            lines.append(_("Tags: {counts}.", _counts(self.tags)))
        busiest = sorted(range(24), key=lambda hour: (-self.hour_distribution[hour], hour))[:3]
        hours = ", ".join(f"{hour:02}:00 ({count})" for hour in busiest if (count := self.hour_distribution[hour]))
        return joined("\n", [*lines, _("Busiest hours: {hours}.", hours)])


class PatternResult(Result):
    conversation_id: str
    short_term: Pattern | None = Field(None, description="Of the short-term memories")
    long_term: Pattern | None = Field(None, description="Of the long-term memories")

    def __str__(self) -> str:
        named = ((_("Short-term"), self.short_term), (_("Long-term"), self.long_term))
        return joined("\n", (_("{about}: {what}", name, str(found)) for name, found in named if found is not None))


def _counts(counts: dict[str, int]) -> str:
    return joined(", ", (_(name.replace("_", " ")) + f" {count}" for name, count in counts.items() if count)) or _(
        "none"
    )
