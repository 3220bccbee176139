"""Pictures of a memory, drawn into an SVG or PNG file. matplotlib is an extra and takes a second to load: it is
imported when a picture is drawn.

Text in an SVG stays text, so that the reader's own fonts show it; a PNG needs a font with Chinese characters here.
"""

from __future__ import annotations

import logging
import math
import warnings
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from datetime import tzinfo
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from memory_server.core.errors import InvalidInput
from memory_server.core.model import ShortTermMemory
from memory_server.evaluation.metrics import Scores
from memory_server.recall import retention
from memory_server.recall.parameters import DAY_MS, Parameters, RecallParameters, RetentionParameters
from memory_server.recall.relevance import decay, receipts
from memory_server.recall.result import Recall
from memory_server.recall.words import Query

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FORMATS = (".svg", ".png")
BLUE, ORANGE, GREEN, RED, GREY = "#0072b2", "#e69f00", "#009e73", "#d55e00", "#8a8a8a"
"""Colours that people with any kind of colour vision can tell apart (Okabe and Ito, 2008), and a quiet one."""

_CHINESE_FONTS = (
    "Noto Sans CJK SC",
    "Noto Sans SC",
    "Source Han Sans SC",
    "PingFang SC",
    "Hiragino Sans GB",
    "Microsoft YaHei",
    "SimHei",
    "WenQuanYi Micro Hei",
    "WenQuanYi Zen Hei",
    "Droid Sans Fallback",
    "Arial Unicode MS",
)
"""Fonts with Chinese characters of Linux, macOS and Windows."""
_INCHES_HIGH, _DOTS_PER_INCH = 4.8, 150
HALF_LIVES_DAYS = (1.0, 14.0, 60.0)
"""Shown beside the one that is set."""
SCORES = (0.0, 5.0, 10.0)
"""Of a memory that was never recalled, once as top, twice."""
_COLOURS = (ORANGE, GREEN, RED, "#cc79a7", "#56b4e9", GREY)
_DAYS = 45.0
_DOTS = 4_000
"""Memories drawn as dots; a picture of more is a blot and a file of many megabytes."""
_BINS = 30
_LABEL_CHARS = 36
_GROUPS = {
    "kept": (BLUE, "o"),
    "faded, but there is room": (GREY, "o"),
    "pinned": (GREEN, "D"),
    "the clean-up would forget": (RED, "x"),
}
"""Colour and mark of each."""
_TIERS = {"top": RED, "next": ORANGE, "flashback": "black"}
_BOUND: Mapping[str, Any] = {"color": "black", "lw": 1, "ls": "--"}
"""How the line of a bound is drawn."""
_BARS = ((1, "#0b5394"), (3, "#6fa8dc"), (5, "#cfe2f3"))
_BAR_WIDTH = 0.26


def picture_path(text: str) -> Path:
    """`text` as the name of a picture.

    Raises:
        InvalidInput: it ends in no format that can be drawn.
    """
    path = Path(text)
    if path.suffix.lower() not in FORMATS:
        raise InvalidInput(f"{path} names no picture that can be drawn; let it end in {' or '.join(FORMATS)}.")
    return path


def draw(path: Path, drawing: Callable[[Figure], None], *, panels: int = 1) -> None:
    """Write what `drawing` draws on an empty figure of `panels` side by side; what stood at `path` is replaced.

    Raises:
        InvalidInput: matplotlib is not installed, a PNG has no font for its text, or the file cannot be written.
    """
    try:
        import matplotlib as mpl
        from matplotlib import font_manager
        from matplotlib.figure import Figure
    except ImportError as error:
        raise InvalidInput(
            "Pictures need matplotlib: install the extra `plot` (in a clone `pip install '.[plot]'`)."
        ) from error
    logging.getLogger("matplotlib").setLevel(logging.ERROR)  # it names every font of the list that is not here
    vector = path.suffix.lower() == ".svg"
    here = {font.name for font in font_manager.fontManager.ttflist}
    fonts = [name for name in _CHINESE_FONTS if vector or name in here]
    style = {
        "font.family": ["DejaVu Sans", *fonts, *(["sans-serif"] if vector else [])],
        "font.size": 9,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.grid": True,
        "axes.axisbelow": True,
        "grid.color": "#e6e6e6",
        "legend.frameon": False,
        "text.parse_math": False,  # a dollar sign in a memory begins no formula
        "svg.fonttype": "none",
        "svg.hashsalt": "memory-server",  # the same picture is the same file
    }
    content = BytesIO()
    with mpl.rc_context(style), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        figure = Figure(figsize=(7.2 * panels, _INCHES_HIGH), layout="constrained")
        drawing(figure)
        kind = path.suffix.lower().removeprefix(".")
        metadata = {"Date": None} if vector else {"Software": "memory-server"}
        figure.savefig(content, format=kind, dpi=_DOTS_PER_INCH, metadata=metadata)
    if not vector and any("missing from font" in str(warning.message) for warning in caught):
        raise InvalidInput(
            f"No font of this machine has all characters of the picture; write {path.with_suffix('.svg')}, "
            "or install one such as Noto Sans CJK."
        )
    try:
        path.write_bytes(content.getvalue())
    except OSError as error:
        raise InvalidInput(f"{path} cannot be written: {error.strerror}.") from error


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

    def curve(axes: Axes, points: float, chosen: RecallParameters, colour: str, label: str, width: float) -> None:
        left_over = [points - decay(round(day * DAY_MS), chosen) for day in days]
        axes.plot(days, left_over, color=colour, lw=width, label=label)

    usual = half_life_days(recall)
    curve(left, match, recall, BLUE, _label(usual, recall, match), 2.5)
    for colour, half_life in zip(_COLOURS, half_lives, strict=False):
        other = replace(recall, decay_per_ms=math.log(2) / (half_life * DAY_MS))
        curve(left, match, other, colour, _label(half_life, other, match), 1.3)
    below = ", and when it falls below the threshold" if math.isfinite(recall.threshold) else ""
    if below:
        left.axhline(recall.threshold, **_BOUND)
        left.annotate(f"threshold {recall.threshold:g}", (_DAYS, recall.threshold), ha="right", va="bottom")
    left.set(title=f"A match of {match:g} points, never recalled", xlabel="age in days", ylabel="relevance")
    left.legend(title=f"half-life{below}")

    fading = replace(recall, decay_ceiling=retention.FADING)
    for colour, score in zip((BLUE, ORANGE, GREEN), SCORES, strict=True):
        safe = days_until(score - keep.min_relevance, fading)
        curve(right, score, fading, colour, f"score {score:g}: {'stays' if safe is None else _days(safe)}", 1.8)
    shown = [memory for memory in memories if 0 <= now_ms - memory.time_ms <= _DAYS * DAY_MS][-_DOTS:]
    if shown:
        ages = [(now_ms - memory.time_ms) / DAY_MS for memory in shown]
        worth = [retention.worth(memory, now_ms, recall) for memory in shown]
        right.scatter(ages, worth, s=9, color="black", alpha=0.4, label=f"{len(shown)} memories, now", zorder=3)
    right.axhline(keep.min_relevance, **_BOUND)
    right.annotate(_may_forget(keep), (_DAYS, keep.min_relevance), ha="right", va="top")
    right.set(title="No match: what the clean-up looks at", xlabel="age in days", ylabel="score - decay")
    right.legend(title="safe for")


def _may_forget(keep: RetentionParameters) -> str:
    """What the line of the clean-up means."""
    return f"the clean-up may forget below {keep.min_relevance:g}, beyond {keep.always_kept:,} memories"


def _label(half_life: float, parameters: RecallParameters, match: float) -> str:
    if not math.isfinite(parameters.threshold):
        return _days(half_life)
    found = days_until(match - parameters.threshold, parameters)
    return f"{_days(half_life)}: {'never' if found is None else f'after {_days(found)}'}"


def _days(days: float) -> str:
    return f"{days:.3g} day{'' if days == 1 else 's'}"


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
    right.axvline(bound, **_BOUND)
    right.set(title=f"Worth now; the clean-up would forget {due}", xlabel="score - decay", ylabel="memories")
    right.legend()


def _edges(values: np.ndarray[tuple[int], np.dtype[np.float64]]) -> list[float]:
    """Bins over all of the values; around a single value too."""
    low, high = (float(values.min()), float(values.max())) if len(values) else (0.0, 1.0)
    return [float(edge) for edge in np.linspace(low, high if high > low else low + 1.0, _BINS + 1)]


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
    bound, said = parameters.retention.min_relevance, _may_forget(parameters.retention)
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
        axes.axhline(bound, label=said, **_BOUND)
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


def draw_recall(figure: Figure, title: str, scores: Mapping[str, Scores]) -> None:
    """Three bars for each ranker; none where nothing of the kind was asked."""
    axes = figure.subplots()
    for number, (places, colour) in enumerate(_BARS):
        estimates = [of_ranker.figures.get(f"recallAt{places}") for of_ranker in scores.values()]
        asked = {place + (number - 1) * _BAR_WIDTH: one for place, one in enumerate(estimates) if one is not None}
        ends = [(max(0.0, one.value - one.low), max(0.0, one.high - one.value)) for one in asked.values()]
        axes.bar(
            list(asked),
            [one.value for one in asked.values()],
            _BAR_WIDTH * 0.92,
            yerr=np.array(ends).reshape(-1, 2).T,
            color=colour,
            edgecolor="#888888",
            linewidth=0.6,
            error_kw={"elinewidth": 1.0},
            label=f"Recall@{places}",
        )
    axes.set_xticks(range(len(scores)), list(scores))
    axes.set(title=title, ylim=(0.0, 1.05))
    axes.legend(loc="upper right", ncols=3)
