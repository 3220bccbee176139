"""What age does to relevance, for several half-lives, and when the clean-up may forget."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from memory_server.evaluation.plots.picture import BLUE, GREEN, GREY, ORANGE, RED
from memory_server.recall.parameters import DAY_MS, Parameters, RecallParameters, RetentionParameters
from memory_server.recall.relevance import decay
from memory_server.recall.retention import FADING, worth

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from memory_server.core.model import ShortTermMemory

HALF_LIVES_DAYS = (1.0, 14.0, 60.0)
"""Shown beside the one that is set."""
SCORES = (0.0, 5.0, 10.0)
"""Of a memory that was never recalled, once as top, twice."""
_COLOURS = (ORANGE, GREEN, RED, "#cc79a7", "#56b4e9", GREY)
_DAYS = 45.0
_DOTS = 4_000
"""Memories drawn as dots; a picture of more is a blot and a file of many megabytes."""


def half_life_days(parameters: RecallParameters) -> float:
    """The age at which half of the decay has happened."""
    return math.log(2) / parameters.decay_per_ms / DAY_MS if parameters.decay_per_ms else math.inf


def days_until(points: float, parameters: RecallParameters) -> float | None:
    """The age in days at which the decay has taken `points`; None where it never does."""
    if points <= 0:
        return 0.0
    if points >= parameters.decay_ceiling or not parameters.decay_per_ms:
        return None
    return -math.log(1 - points / parameters.decay_ceiling) / parameters.decay_per_ms / DAY_MS


def draw_decay(
    figure: Figure,
    parameters: Parameters,
    memories: Sequence[ShortTermMemory] = (),
    *,
    now_ms: int,
    half_lives: Sequence[float] = HALF_LIVES_DAYS,
    match: float = 15.0,
) -> None:
    """Two panels: what age leaves of a match of `match` points, and where a relevance is needed when it falls below
    that; and how long a memory is safe from the clean-up without any match where there are too many, with `memories` as
    dots."""
    recall, keep = parameters.recall, parameters.retention
    left, right = figure.subplots(1, 2)
    days = np.linspace(0.0, _DAYS, 300)

    def curve(chosen: RecallParameters) -> list[float]:
        return [decay(round(day * DAY_MS), chosen) for day in days]

    usual = half_life_days(recall)
    left.plot(days, [match - lost for lost in curve(recall)], color=BLUE, lw=2.5, label=_label(usual, recall, match))
    for colour, half_life in zip(_COLOURS, half_lives, strict=False):
        other = replace(recall, decay_per_ms=math.log(2) / (half_life * DAY_MS))
        left.plot(
            days, [match - lost for lost in curve(other)], color=colour, lw=1.3, label=_label(half_life, other, match)
        )
    below = ""
    if math.isfinite(recall.threshold):
        below = ", and when it falls below the threshold"
        left.axhline(recall.threshold, color="black", lw=1, ls="--")
        left.annotate(f"threshold {recall.threshold:g}", (_DAYS, recall.threshold), ha="right", va="bottom")
    left.set(title=f"A match of {match:g} points, never recalled", xlabel="age in days", ylabel="relevance")
    left.legend(title=f"half-life{below}")

    fading = replace(recall, decay_ceiling=FADING)
    for colour, score in zip((BLUE, ORANGE, GREEN), SCORES, strict=True):
        safe = days_until(score - keep.min_relevance, fading)
        until = "stays" if safe is None else _days(safe)
        right.plot(
            days, [score - lost for lost in curve(fading)], color=colour, lw=1.8, label=f"score {score:g}: {until}"
        )
    shown = [memory for memory in memories if 0 <= now_ms - memory.time_ms <= _DAYS * DAY_MS][-_DOTS:]
    if shown:
        ages = [(now_ms - memory.time_ms) / DAY_MS for memory in shown]
        left_over = [worth(memory, now_ms, recall) for memory in shown]
        right.scatter(ages, left_over, s=9, color="black", alpha=0.4, label=f"{len(shown)} memories, now", zorder=3)
    right.axhline(keep.min_relevance, color="black", lw=1, ls="--")
    right.annotate(may_forget(keep), (_DAYS, keep.min_relevance), ha="right", va="top")
    right.set(title="No match: what the clean-up looks at", xlabel="age in days", ylabel="score - decay")
    right.legend(title="safe for")


def may_forget(keep: RetentionParameters) -> str:
    """What the line of the clean-up means."""
    return f"the clean-up may forget below {keep.min_relevance:g}, beyond {keep.always_kept:,} memories"


def _label(half_life: float, parameters: RecallParameters, match: float) -> str:
    if not math.isfinite(parameters.threshold):
        return _days(half_life)
    found = days_until(match - parameters.threshold, parameters)
    return f"{_days(half_life)}: {'never' if found is None else f'after {_days(found)}'}"


def _days(days: float) -> str:
    return f"{days:.3g} day{'' if days == 1 else 's'}"
