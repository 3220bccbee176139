"""Asks the questions of a data set, and shows how often the right memory came. For use in a clone:

    .venv/bin/python tests/bench/eval.py data/samples/recall

Settings count as always; --timezone and --seed give two of them. Nothing is stored.
"""

from __future__ import annotations

import os
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from rich.markup import escape
from rich.table import Table

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.quality.evaluation import (
    Answer,
    Dataset,
    answers,
    figures,
    grouped,
    load_dataset,
    units_of,
    with_other_talk,
)

from languages import counted
from memory_server.cli.terminal import console, watched
from memory_server.config import Settings, load
from memory_server.config.recall import parameters
from memory_server.kernel.errors import InvalidInput
from memory_server.kernel.streams import write

SEED = 1
"""The seed of all chance, unless --seed is given: the same data set gives the same table."""
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


def parser(about: str) -> ArgumentParser:
    """The arguments that recall_quality.py has too."""
    parser = ArgumentParser(description=about)
    parser.add_argument(
        "dataset", metavar="FILE", nargs="+", help="*.jsonl files, or folders with some"
    )
    before = "messages of another chat before each question; 0: the question alone"
    parser.add_argument("--before", metavar="N", help=before, type=int, default=3)
    beside = "also the search with this setting changed, such as compat=node (may be repeated)"
    parser.add_argument(
        "--beside", metavar="SETTING=VALUE", help=beside, action="append", default=[]
    )
    parser.add_argument(
        "--by", help="also by groups of questions", choices=("language", "kind"), default="language"
    )
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    parser.add_argument("--timezone", metavar="ZONE", help="such as Asia/Shanghai")
    parser.add_argument("--seed", metavar="N", type=int, help="of all chance")
    return parser


def understood(flags: Namespace) -> tuple[Settings, Dataset, int]:
    """The settings, the data set with other talk before each question, and the seed. Raises InvalidInput if an argument
    cannot be used."""
    if not 0 <= flags.before <= MOST_BEFORE:
        raise InvalidInput(
            f"--before {flags.before} is out of range; give 0 to {MOST_BEFORE} messages."
        )
    settings = load(os.environ, {"timezone": flags.timezone, "seed": flags.seed})
    seed = settings.seed
    if seed is None:
        seed = SEED
    return (
        settings,
        with_other_talk(load_dataset([Path(path) for path in flags.dataset]), flags.before, seed),
        seed,
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the tables; the exit status."""
    flags = parser("Measure recall on questions with answers.").parse_args(arguments)
    return status_of(lambda: evaluate(flags))


def status_of(run: Callable[[], object]) -> int:
    """The exit status of `run`. Bad input is one sentence on standard error; a reader of the output may stop early."""
    try:
        run()
    except InvalidInput as error:
        print(error, file=sys.stderr)
        return 2
    except BrokenPipeError:
        # Python must not report it when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


def evaluate(flags: Namespace) -> None:
    """Print a table for each group of questions, or JSON."""
    settings, dataset, _ = understood(flags)
    units = units_of(dataset.turns)
    searches = {OURS: settings} | {change: changed(settings, change) for change in flags.beside}
    answers_by_search = {
        name: list(
            watched(
                "asking",
                answers(dataset, units, parameters(settings_of_search)),
                len(dataset.questions),
            )
        )
        for name, settings_of_search in searches.items()
    }
    groups = {"all": answers_by_search} | _groups(answers_by_search, flags.by)
    reports = {group: _figures_by_search(members) for group, members in groups.items()}
    if flags.json:
        about = {
            "dataset": dataset.name,
            "before": flags.before,
            "questions": len(dataset.questions),
        }
        write({**about, "memories": len(units), "groups": reports})
        return
    out = console()
    after = f"each question asked after {talk(flags.before)}"
    out.print(f"[bold]{escape(dataset.name)}[/]: {counted(len(units), 'memory')}, {after}.")
    for group, report in reports.items():
        out.print(_table(group, report))


def _figures_by_search(members: Mapping[str, Sequence[Answer]]) -> dict[str, dict[str, float]]:
    """The figures of each search for the questions of a group, beside those of ours."""
    ours = members[OURS]
    return {name: figures(theirs) | _beside(ours, theirs, name) for name, theirs in members.items()}


def talk(before: int) -> str:
    if not before:
        return "nothing else"
    return f"{counted(before, 'message')} of other talk"


def changed(settings: Settings, change: str) -> Settings:
    """`settings` with one change, such as `words.stems=false`. Raises InvalidInput if it cannot be made."""
    name, _, value = change.partition("=")
    if not value:
        raise InvalidInput(
            f"--beside {change} has no value; write it as in `--beside compat=node`."
        )
    values = inner = settings.model_dump(mode="json", exclude_none=True)
    *sections, last = name.split(".")
    for section in sections:
        if not isinstance(inner.get(section), dict):
            inner[section] = {}
        inner = inner[section]
    inner[last] = value
    return load({"MEMORY_SERVER_CONFIG": os.devnull}, values)


def _groups(
    answers_by_search: Mapping[str, Sequence[Answer]], by: str
) -> dict[str, dict[str, list[Answer]]]:
    """Group -> search -> answers; empty where no two groups differ."""
    of_search: dict[str, dict[str, list[Answer]]] = {}
    for name, answers_of_search in answers_by_search.items():
        of_search[name] = grouped(
            answers_of_search, lambda answer: str(getattr(answer.question, by))
        )
    labels = [label for label in of_search[OURS] if label not in ("", "all")]
    if len(labels) < 2:
        return {}
    groups: dict[str, dict[str, list[Answer]]] = {}
    for label in labels:
        groups[label] = {name: of_search[name][label] for name in answers_by_search}
    return groups


def _beside(ours: Sequence[Answer], others: Sequence[Answer], name: str) -> dict[str, float]:
    """How many questions another search answers among its first three and ours does not, and the other way round."""
    if name == OURS:
        return {}
    pairs = [
        (mine.within(_GIVEN), theirs.within(_GIVEN))
        for mine, theirs in zip(ours, others, strict=True)
    ]
    return {"gained": pairs.count((False, True)), "lost": pairs.count((True, False))}


def _table(group: str, figures_of_searches: Mapping[str, Mapping[str, float]]) -> Table:
    questions, answerable = (
        int(figures_of_searches[OURS][name]) for name in ("questions", "answerable")
    )
    title = f"{group}: {counted(questions, 'question')}, {questions - answerable} without an answer"
    headings = dict(_HEADINGS)
    if len(figures_of_searches) > 1:
        headings |= {"gained": "gained", "lost": "lost"}
    table = Table("", title=escape(title), title_justify="left", title_style="bold")
    for heading in headings.values():
        table.add_column(heading, justify="right")
    for name, of_one in figures_of_searches.items():
        cells = (of_one.get(figure, "-") for figure in headings)
        table.add_row(
            escape(name),
            *(f"{cell:.2f}" if isinstance(cell, float) else str(cell) for cell in cells),
        )
    return table


if __name__ == "__main__":
    sys.exit(main())
