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
from functools import cache, partial
from pathlib import Path
from typing import Any

from rich.markup import escape
from rich.table import Table

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.eval import changed, parser, status_of, talk, understood
from bench.quality.blocks import Block, Precision, blocks_of, homes_of, precision_of
from bench.quality.evaluation import SAMPLE, Dataset, Question, load_dataset, remembered, units_of
from bench.quality.metrics import Estimate, Scope, Scores, ask_all, scores_by
from bench.quality.other_words import GivenWords, read_words, with_other_words
from bench.quality.rankers import BLIND, OURS, makers
from bench.quality.silence import Silence, listen, silence_by, strangers_of, with_elsewhere
from bench.quality.subsets import HALVES, by_evidence, half_of, of_users, sessions_of
from bench.quality.year import DAYS, IDEAL, Life, Year, plan_year

from languages import counted
from memory_server.cli.terminal import console, watched
from memory_server.config.recall import parameters
from memory_server.conversations.recall.parameters import Parameters
from memory_server.kernel.errors import InvalidInput
from memory_server.kernel.streams import write

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
_LEGEND = (
    "[dim]In brackets: the 95 % interval. What the columns mean: docs/project/evaluate-recall.md[/]"
)


def flags_of(arguments: Sequence[str] | None) -> Namespace:
    flag_parser = parser("Measure recall on questions with answers, beside plain baselines.")
    only = "only the questions of this one (may be repeated)"
    flag_parser.add_argument("--user", metavar="CONVERSATION", help=only, action="append")
    half = "only every second question, counted from 0 over all files"
    flag_parser.add_argument("--questions", help=half, choices=HALVES)
    mode = flag_parser.add_mutually_exclusive_group()
    mode.add_argument(
        "--sessions", action="store_true", help="rank sessions, each by its best memory"
    )
    silence = "ask what the memories have no answer to, and how often nothing comes"
    mode.add_argument("--silence", action="store_true", help=silence)
    precision = "give what the server gives, and count how much of it is right"
    mode.add_argument("--precision", action="store_true", help=precision)
    year = "live a year with reinforcement and clean-up, and ask at its end"
    mode.add_argument("--year", action="store_true", help=year)
    files = "JSON files of other words of the {}; only questions that have some are asked"
    flag_parser.add_argument(
        "--words", metavar="FILE", nargs="+", help=files.format("questions"), default=[]
    )
    files = "JSON files of other words of the memories"
    flag_parser.add_argument("--memory-words", metavar="FILE", nargs="+", help=files, default=[])
    elsewhere = "with --precision: a data set whose questions have no answer here (may be repeated)"
    flag_parser.add_argument(
        "--elsewhere", metavar="FILE", action="append", default=[], help=elsewhere
    )
    home = "with --precision: how many memories each question is asked of, such as 30, 300 or 3000"
    flag_parser.add_argument("--home", metavar="N", type=int, help=home)
    flag_parser.add_argument(
        "--all-users", action="store_true", help="ask of all conversations together"
    )
    return flag_parser.parse_args(arguments)


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
    other_words = GivenWords(read_words(flags.words), read_words(flags.memory_words))
    if other_words.queries:
        asked_with = tuple(
            question for question in dataset.questions if question.id in other_words.queries
        )
        dataset = replace(dataset, questions=asked_with)
    searches = {OURS: parameters(settings)}
    for change in flags.beside:
        searches[change] = parameters(changed(settings, change))
    if flags.sessions:
        dataset = by_evidence(dataset)
    if flags.year:
        report, shown = await _year(searches[OURS], flags, dataset, seed)
    elif flags.precision:
        report, shown = _precision(searches, flags, dataset, whole, seed)
    elif flags.silence:
        report, shown = _silence(searches, flags, dataset, whole, other_words, seed)
    else:
        report, shown = _found(searches, flags, dataset, other_words, seed)
    if flags.json:
        about = {
            "dataset": dataset.name,
            "before": flags.before,
            "questions": len(dataset.questions),
        }
        write({**about, **report})
    else:
        for part in shown:
            console().print(part)


def _check(flags: Namespace) -> None:
    if flags.all_users and (flags.year or flags.silence):
        raise InvalidInput(
            "--year and --silence ask of one user's memories; leave --all-users out."
        )
    if (flags.year or flags.sessions) and (flags.words or flags.memory_words):
        raise InvalidInput(
            "--year and --sessions know no other words; leave --words and --memory-words out."
        )
    if (flags.home is not None or flags.elsewhere) and not flags.precision:
        raise InvalidInput("--home and --elsewhere go with --precision; add it.")
    if flags.home is not None and flags.home < 1:
        raise InvalidInput(f"--home {flags.home} is out of range; give 1 or more memories.")
    if flags.precision and (flags.memory_words or flags.all_users):
        raise InvalidInput(
            "--precision knows neither --memory-words nor --all-users; leave them out."
        )
    if flags.year and flags.beside:
        raise InvalidInput("--year simulates one search; leave --beside out.")


def _found(
    searches: Mapping[str, Parameters],
    flags: Namespace,
    dataset: Dataset,
    other_words: GivenWords,
    seed: int,
) -> Answer:
    """Ask every question: for each group of them, how often the right memory or session came."""
    ranked = "exchange"
    units = units_of(dataset.turns)
    if flags.sessions:
        ranked = "session"
        units = sessions_of(dataset.turns)
    scope: Scope = "own"
    whose = "its own user's"
    if flags.all_users:
        scope = "all"
        whose = "all users'"
    searches = {**searches, ASKED_FOR: asked_for(searches[OURS])}
    worded = (OURS, ASKED_FOR, "bm25 same words")
    rankers = with_other_words(makers(searches, sessions=flags.sessions), worded, other_words)
    asking = ask_all(dataset.questions, units, scope=scope, rankers=rankers)
    groups = scores_by(list(watched("asking", asking, len(dataset.questions))), flags.by, seed)
    figures = {group: _wired_by_name(scores) for group, scores in groups.items()}
    title = (
        f"[bold]{escape(dataset.name)}[/]: {counted(len(units), ranked)}, "
        f"each question asked of {whose} after {talk(flags.before)}."
    )
    tables = [
        _table(_group(name, scores), ranked, scores, _HEADINGS) for name, scores in groups.items()
    ]
    return {"ranked": ranked, "units": len(units), "groups": figures}, [title, *tables, _LEGEND]


def asked_for(parameters_of_search: Parameters) -> Parameters:
    """The same where somebody asked for memories: weak ones come too."""
    return replace(parameters_of_search, recall=replace(parameters_of_search.recall, weak_too=True))


def _group(name: str, scores: Mapping[str, Scores]) -> str:
    any_scores = next(iter(scores.values()))
    of = f"{counted(any_scores.questions, 'question')} in {counted(any_scores.conversations, 'conversation')}"
    return f"{name}: {of}, {any_scores.questions - any_scores.answerable} without an answer"


def _table(
    title: str, ranked: str, scores: Mapping[str, Scores], headings: Mapping[str, str]
) -> Table:
    table = Table(f"{ranked}s by", title=escape(title), title_justify="left", title_style="bold")
    for heading in headings.values():
        table.add_column(heading, justify="right")
    for name, of_ranker in scores.items():
        cells = [
            _cell(of_ranker.figures.get(figure), _FORMS.get(figure, "")) for figure in headings
        ]
        table.add_row(escape(name), *cells)
    return table


def _silence(
    searches: Mapping[str, Parameters],
    flags: Namespace,
    dataset: Dataset,
    whole: Dataset,
    other_words: GivenWords,
    seed: int,
) -> Answer:
    """Ask also what the memories have no answer to: how well each ranker tells the two kinds of question apart."""
    questions = _answerable(dataset)
    sentences = _small_talk()
    strangers = [
        (question, strangers_of(question, whole.questions, sentences, seed))
        for question in questions
    ]
    seeing = {name: make for name, make in makers(searches).items() if name not in BLIND}
    rankers = with_other_words(seeing, (OURS,), other_words)
    heard = listen(strangers, units_of(dataset.turns), rankers)
    silences = silence_by(list(watched("listening", heard, len(questions))), seed)
    figures = {ranker: _wired_by_name(kinds) for ranker, kinds in silences.items()}
    title = (
        f"[bold]{escape(dataset.name)}[/]: {counted(len(questions), 'question')} with an answer, and "
        f"for each what its own user's memories have no answer to, after {talk(flags.before)}."
    )
    table = Table("exchanges by", "asked by")
    for heading in ("AUC", "silent at 95 %", "silent", "right first", "kept"):
        table.add_column(heading, justify="right")
    for name, kinds in silences.items():
        for kind, silence in kinds.items():
            wide = (
                _cell(estimate, "[]")
                for estimate in (silence.area, silence.silent_95, silence.silent)
            )
            table.add_row(escape(name), kind, *wide, str(silence.right), _cell(silence.kept))
    return {"silence": figures}, [title, table, _LEGEND]


def _answerable(dataset: Dataset) -> list[Question]:
    """The questions with an answer. Raises InvalidInput: there is none."""
    questions = [question for question in dataset.questions if question.answerable]
    if not questions:
        raise InvalidInput(
            f"{dataset.name} has no question with an answer; others are compared with these."
        )
    return questions


def _small_talk() -> list[str]:
    """The sentences of small talk of the sample, in all languages."""
    sentences: list[str] = []
    for file in sorted(SAMPLE.glob("small-talk.*.txt")):
        sentences.extend(filter(None, file.read_text(encoding="utf-8").splitlines()))
    return sentences


def _precision(
    searches: Mapping[str, Parameters],
    flags: Namespace,
    dataset: Dataset,
    whole: Dataset,
    seed: int,
) -> Answer:
    """Give what the server gives: how much of it is right, and how often nothing comes where nothing fits."""
    questions = _answerable(dataset)
    words = read_words(flags.words)
    elsewhere = [load_dataset([Path(path)]) for path in flags.elsewhere]
    strangers = {
        question.id: with_elsewhere(
            strangers_of(question, whole.questions, _small_talk(), seed), question, elsewhere, seed
        )
        for question in questions
    }
    asked = [replace(question, other_words=words.get(question.id, ())) for question in questions]
    homes = list(homes_of(asked, units_of(dataset.turns), flags.home, seed))
    rows: dict[str, Precision] = {}
    for name, parameters_of_search in searches.items():
        remember = cache(partial(remembered, parameters_of_search.wording))
        blocks: dict[str, list[Block]] = {}
        for home in watched(name, homes, len(homes)):
            of_home = blocks_of(home, strangers, parameters_of_search, remember)
            for face, of_face in of_home.items():
                blocks.setdefault(face, []).extend(of_face)
        for face, of_face in blocks.items():
            rows[f"{name}, {face}"] = precision_of(of_face, seed)
    size = "their own memories"
    if flags.home is not None:
        size = f"homes of {counted(flags.home, 'memory')}"
    title = (
        f"[bold]{escape(dataset.name)}[/]: {counted(len(questions), 'question')} with an answer, asked of {size}, "
        f"after {talk(flags.before)}."
    )
    report = {"precision": _wired_by_name(rows)}
    return report, [title, _precision_table(rows), _LEGEND]


def _precision_table(rows: Mapping[str, Precision]) -> Table:
    """A line for each search and face; the silence has a column for each kind of what has no answer."""
    kinds = list(next(iter(rows.values())).silent)
    table = Table("memories by")
    for heading in ("R@1", "R@3", "precision", "came", *(f"silent: {kind}" for kind in kinds)):
        table.add_column(heading, justify="right")
    for name, row in rows.items():
        cells = [
            _cell(row.recall_at_1),
            _cell(row.recall_at_3, "[]"),
            _cell(row.precision, "[]"),
            _cell(row.came),
        ]
        cells += [_cell(row.silent[kind]) for kind in kinds]
        table.add_row(escape(name), *cells)
    return table


async def _year(
    parameters_of_search: Parameters, flags: Namespace, dataset: Dataset, seed: int
) -> Answer:
    """Simulate a year: what is left of recall at its end."""
    plan = plan_year(dataset, before=flags.before, seed=seed, days=DAYS)
    if not plan.questions:
        raise InvalidInput(f"{dataset.name} has no question with an answer; --year asks these.")
    life = Life(plan, before=flags.before, parameters=asked_for(parameters_of_search), seed=seed)
    for day in watched("days", plan.days, DAYS):
        await life.day(day)
    year = await life.end()
    again = ""
    if year.repeated:
        again = f", {year.repeated} of them told before on another day"
    lived = (
        f"[bold]{escape(dataset.name)}[/]: a year in one conversation, {year.exchanges} memories "
        f"(exchanges{again}); {year.kept} are left at its end."
    )
    shown = ("recallAt3", "recallAt3ToSearch", "recallAt3Alone")
    title = f"{counted(len(plan.questions), 'question')} at the end, after {talk(flags.before)}"
    table = _table(
        title, "exchange", year.at_the_end, {figure: _HEADINGS[figure] for figure in shown}
    )
    share = _ratio(year.at_the_end, "recallAt3")
    share_alone = _ratio(year.at_the_end, "recallAt3Alone")
    about_the_end = (
        f"The search finds {share} of what it would find had nothing been forgotten; "
        f"by the question alone {share_alone}."
    )
    about_the_year = (
        f"Of {counted(year.given, 'memory')} that the searches of the year gave, {_percent(year.without_shared_word)} "
        f"share no word with the search; the most recalled 1 % of the memories took {_percent(year.most_recalled)}."
    )
    return _wired(year), [lived, table, about_the_end, about_the_year]


def _wired_by_name(figures: Mapping[str, Scores | Silence | Precision]) -> dict[str, Any]:
    return {name: _wired(value) for name, value in figures.items()}


def _wired(figures: Scores | Silence | Year | Precision) -> Any:
    """Figures as JSON: an interval is `{value, low, high}`, or null where no question of the kind was asked."""

    def wired(value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        fields = {_wire_name(name): wired(part) for name, part in value.items()}
        return fields | fields.pop("figures", {})

    return wired(asdict(figures))


def _wire_name(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(map(str.capitalize, rest))


def _ratio(scores: Mapping[str, Scores], figure: str) -> str:
    ours = scores[OURS].figures[figure].value
    ideal = scores[IDEAL].figures[figure].value
    if not ideal:
        return _percent(None)
    return _percent(ours / ideal)


def _percent(share: float | None) -> str:
    if share is None:
        return "-"
    return f"{share:.1%}".replace("%", " %")


def _cell(estimate: Estimate | None, form: str = "") -> str:
    if estimate is None:
        return "-"
    sign = "+" * ("+" in form)
    value, low, high = (
        f"{number:{sign}.2f}" for number in (estimate.value, estimate.low, estimate.high)
    )
    if "[]" not in form:
        return value
    return rf"{value} \[{low}, {high}]"


if __name__ == "__main__":
    sys.exit(main())
