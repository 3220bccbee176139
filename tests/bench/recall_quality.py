"""How good recall is beside plain baselines, with intervals: the tables of docs/explanation/recall-quality.md.

    python tests/bench/recall_quality.py data/samples/recall --timezone Asia/Shanghai --beside compat=node

Reads the data sets of eval.py. Settings count as always; --timezone and --seed give two of them.
"""

from __future__ import annotations

import asyncio
import sys
from argparse import Namespace
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from rich.markup import escape
from rich.table import Table

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.eval import changed, parser, status_of, talk, understood
from bench.quality.evaluation import SAMPLE, Dataset, units_of
from bench.quality.metrics import Estimate, Scores, ask_all, scores_by
from bench.quality.other_words import GivenWords, read_words, with_other_words
from bench.quality.rankers import BLIND, OURS, makers
from bench.quality.silence import Silence, listen, silence_by, strangers_of
from bench.quality.subsets import HALVES, by_evidence, half_of, of_users, sessions_of
from bench.quality.year import DAYS, IDEAL, Life, Year, plan_year

from memory_server.cli.terminal import console, watched, write
from memory_server.config.recall import parameters
from memory_server.conversations.recall.parameters import Parameters
from memory_server.kernel.errors import InvalidInput
from sandbox.locale import counted

_HEADINGS = {
    "recallAt1": "R@1",
    "recallAt3": "R@3",
    "recallAt3ToSearch": "R@3 - search",
    "recallAt3Alone": "R@3 alone",
    "recallAt5": "R@5",
    "evidenceAt5": "E@5",
    "ndcgAt5": "NDCG@5",
    "silent": "silent",
    "speaking": "speaking",
}
_FORMS = {"recallAt1": "[]", "recallAt3": "[]", "recallAt3ToSearch": "+[]", "ndcgAt5": "[]"}
"""Which figures have their interval beside them, and which a sign."""
Answer = tuple[Mapping[str, Any], Sequence[str | Table]]
"""The figures for JSON, and what is printed for people."""
ASKED_FOR = "asked for"
"""The search as a tool gives it: weak memories too."""
_LEGEND = "[dim]In brackets: the 95 % interval. What the columns mean: docs/how-to/evaluate-recall.md[/]"


def flags_of(arguments: Sequence[str] | None) -> Namespace:
    made = parser("Measure recall on questions with answers, beside plain baselines.")
    only = "only the questions of this one (may be repeated)"
    made.add_argument("--user", metavar="CONVERSATION", help=only, action="append")
    half = "only every second question, counted from 0 over all files"
    made.add_argument("--questions", help=half, choices=HALVES)
    mode = made.add_mutually_exclusive_group()
    mode.add_argument("--sessions", action="store_true", help="rank sessions, each by its best memory")
    silence = "ask what the memories have no answer to, and how often nothing comes"
    mode.add_argument("--silence", action="store_true", help=silence)
    year = "live a year with reinforcement and clean-up, and ask at its end"
    mode.add_argument("--year", action="store_true", help=year)
    files = "JSON files of other words of the {}; only questions that have some are asked"
    made.add_argument("--words", metavar="FILE", nargs="+", help=files.format("questions"), default=[])
    files = "JSON files of other words of the memories"
    made.add_argument("--memory-words", metavar="FILE", nargs="+", help=files, default=[])
    made.add_argument("--all-users", action="store_true", help="ask of all conversations together")
    return made.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the tables; the exit status."""
    flags = flags_of(arguments)
    return status_of(lambda: asyncio.run(evaluate(flags)))


async def evaluate(flags: Namespace) -> None:
    """Print a table for each group of questions, or JSON; nothing is stored."""
    _check(flags)
    # Before questions are left out, so that each of them is asked after the same messages in every subset.
    settings, dataset, seed = understood(flags)
    whole = dataset
    if flags.questions:
        dataset = half_of(dataset, flags.questions)
    if flags.user:
        dataset = of_users(dataset, flags.user)
    given = GivenWords(read_words(flags.words), read_words(flags.memory_words))
    if given.queries:
        asked_with = tuple(question for question in dataset.questions if question.id in given.queries)
        dataset = replace(dataset, questions=asked_with)
    searches = {OURS: parameters(settings)} | {one: parameters(changed(settings, one)) for one in flags.beside}
    if flags.sessions:
        dataset = by_evidence(dataset)
    if flags.year:
        report, shown = await _year(searches[OURS], flags, dataset, seed)
    elif flags.silence:
        report, shown = _silence(searches, flags, dataset, whole, given, seed)
    else:
        report, shown = _found(searches, flags, dataset, given, seed)
    if flags.json:
        asked = {"dataset": dataset.name, "before": flags.before, "questions": len(dataset.questions)}
        write({**asked, **report})
    else:
        for part in shown:
            console().print(part)


def _check(flags: Namespace) -> None:
    if flags.all_users and (flags.year or flags.silence):
        raise InvalidInput("--year and --silence ask of one user's memories; leave --all-users out.")
    if (flags.year or flags.sessions) and (flags.words or flags.memory_words):
        raise InvalidInput("--year and --sessions know no other words; leave --words and --memory-words out.")
    if flags.year and flags.beside:
        raise InvalidInput("--year simulates one search; leave --beside out.")


def _found(
    searches: Mapping[str, Parameters], flags: Namespace, dataset: Dataset, given: GivenWords, seed: int
) -> Answer:
    """Ask every question: for each group of them, how often the right memory or session came."""
    ranked = "session" if flags.sessions else "exchange"
    units = (sessions_of if flags.sessions else units_of)(dataset.turns)
    searches = {**searches, ASKED_FOR: asked_for(searches[OURS])}
    worded = (OURS, ASKED_FOR, "bm25 same words")
    rankers = with_other_words(makers(searches, sessions=flags.sessions), worded, given)
    asking = ask_all(dataset.questions, units, scope="all" if flags.all_users else "own", rankers=rankers)
    groups = scores_by(list(watched("asking", asking, len(dataset.questions))), flags.by, seed)
    figures = {group: {name: _wired(one) for name, one in scores.items()} for group, scores in groups.items()}
    whose = "all users'" if flags.all_users else "its own user's"
    title = (
        f"[bold]{escape(dataset.name)}[/]: {counted(len(units), ranked)}, "
        f"each question asked of {whose} after {talk(flags.before)}."
    )
    tables = [_table(_group(*one), ranked, one[1], _HEADINGS) for one in groups.items()]
    return {"ranked": ranked, "units": len(units), "groups": figures}, [title, *tables, _LEGEND]


def asked_for(made: Parameters) -> Parameters:
    """The same where somebody asked for memories: weak ones come too."""
    return replace(made, recall=replace(made.recall, weak_too=True))


def _group(name: str, scores: Mapping[str, Scores]) -> str:
    asked = next(iter(scores.values()))
    of = f"{counted(asked.questions, 'question')} in {counted(asked.conversations, 'conversation')}"
    return f"{name}: {of}, {asked.questions - asked.answerable} without an answer"


def _table(title: str, ranked: str, scores: Mapping[str, Scores], headings: Mapping[str, str]) -> Table:
    table = Table(f"{ranked}s by", title=escape(title), title_justify="left", title_style="bold")
    for heading in headings.values():
        table.add_column(heading, justify="right")
    for name, of_ranker in scores.items():
        table.add_row(escape(name), *(_cell(of_ranker.figures.get(one), _FORMS.get(one, "")) for one in headings))
    return table


def _silence(
    searches: Mapping[str, Parameters],
    flags: Namespace,
    dataset: Dataset,
    whole: Dataset,
    given: GivenWords,
    seed: int,
) -> Answer:
    """Ask also what the memories have no answer to: how well each ranker tells the two kinds of question apart."""
    files = sorted(SAMPLE.glob("small-talk.*.txt"))
    sentences = [line for file in files for line in file.read_text(encoding="utf-8").splitlines() if line]
    asked = [question for question in dataset.questions if question.answerable]
    if not asked:
        raise InvalidInput(f"{dataset.name} has no question with an answer; --silence compares others with these.")
    strangers = [(question, strangers_of(question, whole.questions, sentences, seed)) for question in asked]
    seeing = {name: make for name, make in makers(searches).items() if name not in BLIND}
    rankers = with_other_words(seeing, (OURS,), given)
    heard = listen(strangers, units_of(dataset.turns), rankers)
    found = silence_by(list(watched("listening", heard, len(asked))), seed)
    figures = {ranker: {kind: _wired(one) for kind, one in kinds.items()} for ranker, kinds in found.items()}
    title = (
        f"[bold]{escape(dataset.name)}[/]: {counted(len(asked), 'question')} with an answer, and "
        f"for each what its own user's memories have no answer to, after {talk(flags.before)}."
    )
    table = Table("exchanges by", "asked by")
    for heading in ("AUC", "silent at 95 %", "silent", "right first", "kept"):
        table.add_column(heading, justify="right")
    for name, kinds in found.items():
        for kind, one in kinds.items():
            wide = (_cell(estimate, "[]") for estimate in (one.area, one.silent_95, one.silent))
            table.add_row(escape(name), kind, *wide, str(one.right), _cell(one.kept))
    return {"silence": figures}, [title, table, _LEGEND]


async def _year(made: Parameters, flags: Namespace, dataset: Dataset, seed: int) -> Answer:
    """Simulate a year: what is left of recall at its end."""
    plan = plan_year(dataset, before=flags.before, seed=seed, days=DAYS)
    if not plan.questions:
        raise InvalidInput(f"{dataset.name} has no question with an answer; --year asks these.")
    life = Life(plan, before=flags.before, parameters=asked_for(made), seed=seed)
    for day in watched("days", plan.days, DAYS):
        await life.day(day)
    year = await life.end()
    again = f", {year.repeated} of them told before on another day" if year.repeated else ""
    lived = (
        f"[bold]{escape(dataset.name)}[/]: a year in one conversation, {year.exchanges} memories "
        f"(exchanges{again}); {year.kept} are left at its end."
    )
    shown = ("recallAt3", "recallAt3ToSearch", "recallAt3Alone")
    title = f"{counted(len(plan.questions), 'question')} at the end, after {talk(flags.before)}"
    table = _table(title, "exchange", year.at_the_end, {figure: _HEADINGS[figure] for figure in shown})
    asked, alone = (_ratio(year.at_the_end, figure) for figure in ("recallAt3", "recallAt3Alone"))
    left = f"The search finds {asked} of what it would find had nothing been forgotten; by the question alone {alone}."
    given = (
        f"Of {counted(year.given, 'memory')} that the searches of the year gave, {_percent(year.without_shared_word)} "
        f"share no word with the search; the most recalled 1 % of the memories took {_percent(year.most_recalled)}."
    )
    return _wired(year), [lived, table, left, given]


def _wired(figures: Scores | Silence | Year) -> Any:
    """Figures as JSON: an interval is `{value, low, high}`, or null where no question of the kind was asked."""

    def wired(value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        made = {_wire_name(name): wired(part) for name, part in value.items()}
        return made | made.pop("figures", {})

    return wired(asdict(figures))


def _wire_name(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(map(str.capitalize, rest))


def _ratio(scores: Mapping[str, Scores], figure: str) -> str:
    ours, ideal = (scores[name].figures[figure].value for name in (OURS, IDEAL))
    return _percent(ours / ideal if ideal else None)


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{share:.1%}".replace("%", " %")


def _cell(estimate: Estimate | None, form: str = "") -> str:
    if estimate is None:
        return "-"
    sign = "+" if "+" in form else ""
    value, low, high = (f"{number:{sign}.2f}" for number in (estimate.value, estimate.low, estimate.high))
    return rf"{value} \[{low}, {high}]" if "[]" in form else value


if __name__ == "__main__":
    sys.exit(main())
