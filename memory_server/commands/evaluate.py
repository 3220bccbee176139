"""`eval`: ask the questions of a data set, and show how often the right memory came, beside plain baselines."""

from __future__ import annotations

import sys
import time
from argparse import Namespace
from collections.abc import Mapping
from dataclasses import asdict
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from memory_server.app import parameters
from memory_server.config import Settings
from memory_server.errors import InvalidInput
from memory_server.evaluation.dataset import Dataset
from memory_server.evaluation.loading import load_dataset
from memory_server.evaluation.measure import EVERYTHING, Scope, ask_all, scores_by
from memory_server.evaluation.metrics import Estimate, Scores
from memory_server.evaluation.rankers import makers
from memory_server.evaluation.units import units_of
from memory_server.plots.picture import draw, picture_path
from memory_server.plots.recall_bars import draw_recall
from memory_server.recall.parameters import DAY_MS
from memory_server.storage import codec
from memory_server.terminal import console, progress
from memory_server.tools.shapes import counted

SEED = 1
"""Of the random baseline and the intervals, unless --seed is given: the same data set gives the same table."""

MOST_DAYS_LATER = 36_500
"""A hundred years."""

_WIRE_NAMES = {"recall_1": "recallAt1", "recall_3": "recallAt3", "recall_5": "recallAt5", "p50_ms": "p50Ms"}
_HEADINGS = ("R@1", "R@3", "R@5", "MRR", "silent", "speaking", "p50 ms")


async def evaluate(settings: Settings, flags: Namespace) -> int:
    """Print a table for each group of questions, or JSON; nothing is stored."""
    picture = None if flags.plot is None else picture_path(flags.plot)  # before the work, not after it
    dataset = load_dataset([Path(path) for path in flags.dataset], flags.format)
    if flags.user:
        dataset = dataset.of_user(flags.user)
    if not 0 <= flags.later <= MOST_DAYS_LATER:
        raise InvalidInput(f"--later {flags.later:g} is out of range; give 0 to {MOST_DAYS_LATER:,} days.")
    dataset = dataset.later(round(flags.later * DAY_MS))
    scope: Scope = "all" if flags.all_users else "own"
    rng = Random(SEED if settings.seed is None else settings.seed)
    asking = ask_all(
        dataset,
        scope=scope,
        grain=flags.memories,
        rankers=makers(parameters(settings), rng),
        timer_ns=time.perf_counter_ns,
    )
    asked = []
    with progress("asking", len(dataset.questions)) as bar:
        for one in asking:
            asked.append(one)
            bar.advance(bar.task_ids[0])
    groups = scores_by(asked, flags.by, rng)
    if picture is not None:
        title = f"{dataset.name}, {scope} users' memories"
        draw(picture, partial(draw_recall, title=title, scores=groups[EVERYTHING]))
    memories = len(units_of(dataset.turns, flags.memories))
    if flags.json:
        _print_json(dataset, scope, flags.memories, memories, groups)
    else:
        _print_tables(console(), dataset, scope, memories, groups)
    return 0


def _print_json(
    dataset: Dataset, scope: Scope, grain: str, memories: int, groups: Mapping[str, Mapping[str, Scores]]
) -> None:
    report = {
        "dataset": dataset.name,
        "scope": scope,
        "memoriesPer": grain,
        "memories": memories,
        "questions": len(dataset.questions),
        "skipped": dataset.skipped,
        "groups": {
            group: {name: _figures(figures) for name, figures in scores.items()} for group, scores in groups.items()
        },
    }
    sys.stdout.write(codec.dumps(report).decode() + "\n")


def _figures(scores: Scores) -> dict[str, Any]:
    """Figures as JSON has them: an interval is `{value, low, high}`, or null where nothing of the kind was asked."""
    return {_WIRE_NAMES.get(name, name): value for name, value in asdict(scores).items()}


def _print_tables(
    out: Console, dataset: Dataset, scope: Scope, memories: int, groups: Mapping[str, Mapping[str, Scores]]
) -> None:
    whose = "its own user's" if scope == "own" else "all users'"
    skipped = f"; {dataset.skipped} without usable gold left out" if dataset.skipped else ""
    out.print(f"[bold]{escape(dataset.name)}[/]: {memories} memories, each question asked of {whose}{skipped}.")
    for group, scores in groups.items():
        asked = next(iter(scores.values()))
        without = asked.questions - asked.answerable
        table = Table(
            title=f"{escape(group)}: {counted(asked.questions, 'question')}, {without} without an answer",
            title_justify="left",
            title_style="bold",
        )
        table.add_column("ranker")
        for heading in _HEADINGS:
            table.add_column(heading, justify="right")
        for name, figures in scores.items():
            table.add_row(name, *_cells(figures))
        out.print(table)
    out.print("[dim]In brackets: the 95 % interval. What the columns mean: docs/how-to/evaluate-recall.md[/]")


def _cells(figures: Scores) -> list[str]:
    wide = (figures.recall_1, figures.recall_3, figures.recall_5, figures.mrr)
    narrow = (figures.silent, figures.speaking)
    return [*map(_interval, wide), *(_share(estimate) for estimate in narrow), f"{figures.p50_ms:.2f}"]


def _share(estimate: Estimate | None) -> str:
    return "-" if estimate is None else f"{estimate.value:.2f}"


def _interval(estimate: Estimate | None) -> str:
    return "-" if estimate is None else rf"{estimate.value:.2f} \[{estimate.low:.2f}-{estimate.high:.2f}]"
