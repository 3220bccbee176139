"""`eval`: ask the questions of a data set, and show how often the right memory came."""

from __future__ import annotations

import os
from argparse import Namespace
from collections.abc import Mapping, Sequence
from pathlib import Path

from rich.markup import escape
from rich.table import Table

from memory_server.app import parameters
from memory_server.cli.terminal import console, watched, write
from memory_server.config import Settings, load
from memory_server.evaluation import Answer, answers, figures, grouped, load_dataset, units_of, with_other_talk
from memory_server.kernel.errors import InvalidInput
from memory_server.tools.base.shapes import counted

SEED = 1
"""Of all chance, unless --seed is given: the same data set gives the same table."""
MOST_BEFORE = 100
"""Messages before a question: more than any client searches with."""
OURS = "search"
_GIVEN = 3
"""Memories that the server gives."""
_HEADINGS = {
    "recallAt1": "R@1",
    "recallAt3": "R@3",
    "recallAt5": "R@5",
    "mrr": "MRR",
    "speaking": "speaking",
    "silent": "silent",
}


async def evaluate(settings: Settings, flags: Namespace) -> None:
    """Print a table for each group of questions, or JSON; nothing is stored."""
    if not 0 <= flags.before <= MOST_BEFORE:
        raise InvalidInput(f"--before {flags.before} is out of range; give 0 to {MOST_BEFORE} messages.")
    seed = SEED if settings.seed is None else settings.seed
    dataset = with_other_talk(load_dataset([Path(path) for path in flags.dataset]), flags.before, seed)
    units = units_of(dataset.turns)
    searches = {OURS: settings} | {change: changed(settings, change) for change in flags.beside}
    asked = {
        name: list(watched("asking", answers(dataset, units, parameters(one)), len(dataset.questions)))
        for name, one in searches.items()
    }
    groups = {"all": asked} | _groups(asked, flags.by)
    found = {
        group: {name: figures(of_one) | _beside(members[OURS], of_one, name) for name, of_one in members.items()}
        for group, members in groups.items()
    }
    if flags.json:
        about = {"dataset": dataset.name, "before": flags.before, "questions": len(dataset.questions)}
        write({**about, "memories": len(units), "groups": found})
        return
    talk = f"{counted(flags.before, 'message')} of other talk" if flags.before else "nothing else"
    out = console()
    out.print(f"[bold]{escape(dataset.name)}[/]: {counted(len(units), 'memory')}, each question asked after {talk}.")
    for group, searched in found.items():
        out.print(_table(group, searched))


def changed(settings: Settings, change: str) -> Settings:
    """`settings` with one change, such as `words.stems=false`. Raises InvalidInput if it cannot be made."""
    name, _, value = change.partition("=")
    if not value:
        raise InvalidInput(f"--beside {change} has no value; write it as in `--beside compat=node`.")
    values = inner = settings.model_dump(mode="json", exclude_none=True)
    *sections, last = name.split(".")
    for section in sections:
        if not isinstance(inner.get(section), dict):
            inner[section] = {}
        inner = inner[section]
    inner[last] = value
    return load({"MEMORY_SERVER_CONFIG": os.devnull}, values)


def _groups(asked: Mapping[str, Sequence[Answer]], by: str) -> dict[str, dict[str, list[Answer]]]:
    """Group -> search -> answers; empty where no two groups differ."""
    of_search = {name: grouped(found, lambda one: str(getattr(one.question, by))) for name, found in asked.items()}
    labels = [label for label in of_search[OURS] if label not in ("", "all")]
    return {label: {name: of_search[name][label] for name in asked} for label in labels if len(labels) > 1}


def _beside(ours: Sequence[Answer], others: Sequence[Answer], name: str) -> dict[str, float]:
    """How many questions another search answers among its first three and ours does not, and the other way round."""
    if name == OURS:
        return {}
    pairs = [(one.within(_GIVEN), other.within(_GIVEN)) for one, other in zip(ours, others, strict=True)]
    return {"gained": pairs.count((False, True)), "lost": pairs.count((True, False))}


def _table(group: str, found: Mapping[str, Mapping[str, float]]) -> Table:
    questions, answerable = (int(found[OURS][name]) for name in ("questions", "answerable"))
    title = f"{group}: {counted(questions, 'question')}, {questions - answerable} without an answer"
    headings = _HEADINGS | ({"gained": "gained", "lost": "lost"} if len(found) > 1 else {})
    table = Table("", title=escape(title), title_justify="left", title_style="bold")
    for heading in headings.values():
        table.add_column(heading, justify="right")
    for name, of_one in found.items():
        cells = (of_one.get(figure, "-") for figure in headings)
        table.add_row(escape(name), *(f"{cell:.2f}" if isinstance(cell, float) else str(cell) for cell in cells))
    return table
