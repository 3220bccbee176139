"""How the scores of a conversation's memories are spread, and what they are worth now."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from memory_server.core.model import ShortTermMemory
from memory_server.evaluation.plots.picture import BLUE, GREEN, RED
from memory_server.recall import retention
from memory_server.recall.parameters import Parameters

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_BINS = 30


def draw_scores(
    figure: Figure, parameters: Parameters, memories: Sequence[ShortTermMemory], *, now_ms: int, name: str
) -> None:
    """Two panels: score points, and score less decay with what the clean-up may forget."""
    left, right = figure.subplots(1, 2)
    scores = np.array([memory.score for memory in memories])
    worth = np.array([retention.worth(memory, now_ms, parameters.recall) for memory in memories])
    never = int(np.count_nonzero(scores <= 0))
    left.hist(scores, bins=_edges(scores), color=BLUE)
    left.set(title=f"{name}: {len(memories)} memories, {never} never recalled", xlabel="score", ylabel="memories")
    bound = parameters.retention.min_relevance
    faded = int(np.count_nonzero(worth < bound))
    due = len(retention.plan(memories, now_ms, parameters).forgotten)
    edges = _edges(worth)
    right.hist(worth[worth >= bound], bins=edges, color=GREEN, label=f"{len(memories) - faded} above {bound:g}")
    right.hist(worth[worth < bound], bins=edges, color=RED, label=f"{faded} below")
    right.axvline(bound, color="black", lw=1, ls="--")
    right.set(
        title=f"Worth now; the clean-up would forget {due}",
        xlabel="score - decay",
        ylabel="memories",
    )
    right.legend()


def _edges(values: np.ndarray[tuple[int], np.dtype[np.float64]]) -> list[float]:
    """Bins over all of the values; around a single value too."""
    low, high = (float(values.min()), float(values.max())) if len(values) else (0.0, 1.0)
    return [float(edge) for edge in np.linspace(low, high if high > low else low + 1.0, _BINS + 1)]
