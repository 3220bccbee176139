"""Pictures of a memory, as SVG files whose text stays text, so that the fonts of the reader show it. matplotlib is an
extra and takes a second to load: it is imported when a picture is drawn.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from datetime import tzinfo
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

from memory_server.core.errors import InvalidInput
from memory_server.core.model import ShortTermMemory
from memory_server.recall import retention
from memory_server.recall.parameters import DAY_MS, Parameters, RecallParameters
from memory_server.recall.relevance import decay, receipts
from memory_server.recall.result import Recall
from memory_server.recall.words import Query

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

BLUE, ORANGE, GREEN, RED, GREY = "#0072b2", "#e69f00", "#009e73", "#d55e00", "#8a8a8a"
"""Colours that people with any kind of colour vision can tell apart (Okabe and Ito, 2008), and a quiet one."""

_INCHES = (7.2, 4.8)
HALF_LIVES_DAYS = (1.0, 14.0, 60.0)
"""Shown beside the one that is set."""
_COLOURS = (ORANGE, GREEN, RED, "#cc79a7", "#56b4e9", GREY)
_DAYS = 45
_LABEL_CHARS = 36
_GROUPS = {
    "kept": (BLUE, "o"),
    "faded, but there is room": (GREY, "o"),
    "pinned": (GREEN, "D"),
    "the clean-up would forget": (RED, "x"),
}
"""Colour and mark of each."""
_TIERS = {"top": RED, "next": ORANGE, "flashback": "black"}


def picture_path(text: str) -> Path:
    """`text` as the name of a picture. Raises InvalidInput if it does not end in .svg."""
    path = Path(text)
    if path.suffix.lower() != ".svg":
        raise InvalidInput(f"{path} is not the name of a picture; let it end in .svg.")
    return path


def draw(path: Path, drawing: Callable[[Figure], None]) -> None:
    """Write what `drawing` draws on an empty figure; a file at `path` is replaced. Raises InvalidInput if matplotlib is
    not installed, or the file cannot be written."""
    try:
        import matplotlib as mpl
        from matplotlib.figure import Figure
    except ImportError as error:
        raise InvalidInput(
            "Pictures need matplotlib: install the extra `plot` (in a clone `pip install '.[plot]'`)."
        ) from error
    style = {
        "font.family": ["DejaVu Sans", "sans-serif"],
        "font.size": 9,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.grid": True,
        "axes.axisbelow": True,
        "grid.color": "#e6e6e6",
        "legend.frameon": False,
        "text.parse_math": False,  # a dollar sign in a memory does not begin a formula
        "svg.fonttype": "none",
        "svg.hashsalt": "memory-server",  # the same picture is the same file
    }
    content = BytesIO()
    with mpl.rc_context(style), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # characters that no font here has are drawn by the reader's fonts
        figure = Figure(figsize=_INCHES, layout="constrained")
        drawing(figure)
        figure.savefig(content, format="svg", metadata={"Date": None})
    try:
        path.write_bytes(content.getvalue())
    except OSError as error:
        raise InvalidInput(f"{path} cannot be written: {error.strerror}.") from error


def half_life_days(parameters: RecallParameters) -> float:
    """The age in days at which half of the decay has happened."""
    return math.log(2) / parameters.decay_per_ms / DAY_MS if parameters.decay_per_ms else math.inf


def draw_decay(
    figure: Figure, parameters: RecallParameters, half_lives: Sequence[float] = HALF_LIVES_DAYS, match: float = 15.0
) -> None:
    """The relevance of a match of `match` points by age, with the half-life that is set and with others."""
    axes = figure.subplots()
    usual = half_life_days(parameters)
    days = [n / 4 for n in range(4 * _DAYS + 1)]
    for half_life, colour in zip((usual, *half_lives), (BLUE, *_COLOURS), strict=False):
        rate = parameters.decay_per_ms if half_life == usual else math.log(2) / (half_life * DAY_MS)
        chosen = replace(parameters, decay_per_ms=rate)
        left = [match - decay(round(day * DAY_MS), chosen) for day in days]
        label = f"{half_life:.3g} day{'' if half_life == 1 else 's'}"
        axes.plot(days, left, color=colour, lw=2.5 if half_life == usual else 1.3, label=label)
    if math.isfinite(parameters.threshold):
        _draw_bound(axes, parameters.threshold, f"threshold {parameters.threshold:g}")
    axes.set(title=f"A match of {match:g} points, never recalled", xlabel="age in days", ylabel="relevance")
    axes.legend(title="half-life")


def _draw_bound(axes: Axes, height: float, label: str) -> None:
    axes.axhline(height, color="black", lw=1, ls="--", label=label)


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
    """A dot for each memory at its time and its relevance to `query`, or without a query at its score less the decay.
    `forgotten`: ids of those that the clean-up would forget. What came in `recall` has a label."""
    from matplotlib.dates import AutoDateLocator, ConciseDateFormatter

    axes = figure.subplots()
    keep = parameters.retention
    bound, said = keep.min_relevance, f"the clean-up may forget below, beyond {keep.always_kept:,} memories"
    heights = [retention.worth(memory, now_ms, parameters.recall) for memory in memories]
    groups: dict[str, list[int]] = {}
    for place, memory in enumerate(memories):
        groups.setdefault(_group(memory, memory.id in forgotten, heights[place] < bound), []).append(place)
    if query is not None:
        bound, said = parameters.recall.threshold, f"threshold {parameters.recall.threshold:g}"
        made = receipts(memories, query, now_ms=now_ms, parameters=parameters.recall, wording=parameters.wording)
        heights = [receipt.relevance for receipt in made]
    for label, (colour, marker) in _GROUPS.items():
        if group := groups.get(label):
            times = [memories[place].time_ms / DAY_MS for place in group]  # as matplotlib counts them
            points = [heights[place] for place in group]
            axes.scatter(times, points, s=16, color=colour, marker=marker, label=f"{len(group)} {label}", alpha=0.8)
    tiers = {} if recall is None else {"top": recall.top, "next": recall.next, "flashback": recall.flashback}
    came = [(tier, recalled) for tier, members in tiers.items() for recalled in members]
    for number, (tier, recalled) in enumerate(came, 1):
        at = (recalled.memory.time_ms / DAY_MS, recalled.receipt.relevance)
        named = f"{number} {tier}: {_preview(recalled.memory)}"
        axes.scatter(*at, s=90, facecolors="none", edgecolors=_TIERS[tier], linewidths=1.6, label=named)
        axes.annotate(str(number), at, xytext=(6, 5), textcoords="offset points", weight="bold")
    if math.isfinite(bound):
        _draw_bound(axes, bound, said)
    locator = AutoDateLocator(tz=zone)
    axes.xaxis.set_major_locator(locator)
    axes.xaxis.set_major_formatter(ConciseDateFormatter(locator, tz=zone))
    axes.margins(x=0.04, y=0.1)
    what = "relevance to the question" if query is not None else "score - decay"
    axes.set(title=f"{name}: {len(memories)} memories", ylabel=what)
    # Below, because texts are longer than a corner of the picture.
    figure.legend(loc="outside lower left", ncols=1 if recall is not None else 2)


def _group(memory: ShortTermMemory, forgotten: bool, faded: bool) -> str:
    if memory.pinned:
        return "pinned"
    return "the clean-up would forget" if forgotten else "faded, but there is room" if faded else "kept"


def _preview(memory: ShortTermMemory) -> str:
    text = " ".join((memory.messages[0].content if memory.messages else memory.text).split())
    return text if len(text) <= _LABEL_CHARS else f"{text[:_LABEL_CHARS]}…"
