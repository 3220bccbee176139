"""Recall@1, @3 and @5 of each ranker as bars, with a line from one end of the 95 % interval to the other."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from memory_server.evaluation.metrics import Scores

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_BARS = ((1, "#0b5394"), (3, "#6fa8dc"), (5, "#cfe2f3"))
_WIDTH = 0.26


def draw_recall(figure: Figure, title: str, scores: Mapping[str, Scores]) -> None:
    """Three bars for each ranker; none where nothing of the kind was asked."""
    axes = figure.subplots()
    for number, (places, colour) in enumerate(_BARS):
        estimates = [of_ranker.figures.get(f"recallAt{places}") for of_ranker in scores.values()]
        asked = [(place, estimate) for place, estimate in enumerate(estimates) if estimate is not None]
        axes.bar(
            [place + (number - 1) * _WIDTH for place, _ in asked],
            [estimate.value for _, estimate in asked],
            _WIDTH * 0.92,
            yerr=[
                [max(0.0, estimate.value - estimate.low) for _, estimate in asked],
                [max(0.0, estimate.high - estimate.value) for _, estimate in asked],
            ],
            color=colour,
            edgecolor="#888888",
            linewidth=0.6,
            error_kw={"elinewidth": 1.0},
            label=f"Recall@{places}",
        )
    axes.set_xticks(range(len(scores)), list(scores))
    axes.set(title=title, ylim=(0.0, 1.05))
    axes.legend(loc="upper right", ncols=3)
