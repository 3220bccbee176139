"""The memories of a conversation along time: what each is worth now, or to a question, and what the clean-up would
forget."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import tzinfo
from math import isfinite
from typing import TYPE_CHECKING

from memory_server.core.model import ShortTermMemory
from memory_server.evaluation.plots.decay import may_forget
from memory_server.evaluation.plots.picture import BLUE, GREEN, GREY, ORANGE, RED
from memory_server.recall.parameters import DAY_MS, Parameters
from memory_server.recall.relevance import receipts
from memory_server.recall.result import Recall
from memory_server.recall.retention import worth
from memory_server.recall.words import Query

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_LABEL_CHARS = 36
_GROUPS = {
    "kept": (BLUE, "o"),
    "faded, but there is room": (GREY, "o"),
    "pinned": (GREEN, "D"),
    "the clean-up would forget": (RED, "x"),
}
"""Colour and mark of each."""


def draw_timeline(
    figure: Figure,
    parameters: Parameters,
    memories: Sequence[ShortTermMemory],
    forgotten: Collection[str],
    *,
    now_ms: int,
    zone: tzinfo | None,
    name: str,
    query: Query | None = None,
    recall: Recall | None = None,
) -> None:
    """A dot for each memory: when it was made, and its relevance to `query` (None: to nothing). `forgotten` are the ids
    of those that the clean-up would forget; what came in `recall` is named."""
    from matplotlib.dates import AutoDateLocator, ConciseDateFormatter

    axes = figure.subplots()
    bare = {memory.id: worth(memory, now_ms, parameters.recall) for memory in memories}
    faded = {name for name, points in bare.items() if points < parameters.retention.min_relevance}
    if query is not None:
        made = receipts(memories, query, now_ms=now_ms, parameters=parameters.recall, wording=parameters.wording)
        heights = {memory.id: receipt.relevance for memory, receipt in zip(memories, made, strict=True)}
    else:
        heights = bare
    groups: dict[str, list[ShortTermMemory]] = {}
    for memory in memories:
        groups.setdefault(_group(memory, forgotten, faded), []).append(memory)
    for label, (colour, marker) in _GROUPS.items():
        if group := groups.get(label):
            times = [memory.time_ms / DAY_MS for memory in group]  # as matplotlib counts them
            points = [heights[memory.id] for memory in group]
            axes.scatter(times, points, s=16, color=colour, marker=marker, label=f"{len(group)} {label}", alpha=0.8)
    tiers = (
        ()
        if recall is None
        else (("top", RED, recall.top), ("next", ORANGE, recall.next), ("flashback", "black", recall.flashback))
    )
    number = 0
    for tier, colour, came in tiers:
        for recalled in came:
            number += 1
            place = (recalled.memory.time_ms / DAY_MS, recalled.receipt.relevance)
            named = f"{number} {tier}: {_preview(recalled.memory)}"
            axes.scatter(*place, s=90, facecolors="none", edgecolors=colour, linewidths=1.6, label=named)
            axes.annotate(str(number), place, xytext=(6, 5), textcoords="offset points", weight="bold")
    bound = parameters.recall.threshold if query is not None else parameters.retention.min_relevance
    said = f"threshold {bound:g}" if query is not None else may_forget(parameters.retention)
    if isfinite(bound):
        axes.axhline(bound, color="black", lw=1, ls="--", label=said)
    locator = AutoDateLocator(tz=zone)
    axes.xaxis.set_major_locator(locator)
    axes.xaxis.set_major_formatter(ConciseDateFormatter(locator, tz=zone))
    axes.margins(x=0.04, y=0.1)
    what = "relevance to the question" if query is not None else "score - decay"
    axes.set(title=f"{name}: {len(memories)} memories", ylabel=what)
    # Below, because texts are longer than a corner of the picture.
    figure.legend(loc="outside lower left", ncols=1 if recall is not None else 2)


def _group(memory: ShortTermMemory, forgotten: Collection[str], faded: Collection[str]) -> str:
    if memory.pinned:
        return "pinned"
    if memory.id in forgotten:
        return "the clean-up would forget"
    return "faded, but there is room" if memory.id in faded else "kept"


def _preview(memory: ShortTermMemory) -> str:
    text = " ".join((memory.messages[0].content if memory.messages else memory.text).split())
    return text if len(text) <= _LABEL_CHARS else f"{text[:_LABEL_CHARS]}…"
