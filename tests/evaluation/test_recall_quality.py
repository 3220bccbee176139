"""`tests/bench/recall_quality.py`: what it prints, and how it ends."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from bench.quality.evaluation import SAMPLE
from bench.recall_quality import main
from cli_program import CommandLine
from rich.cells import cell_len

ENGLISH = str(SAMPLE / "en.jsonl")
CHINESE = str(SAMPLE / "zh.jsonl")
HALF_OR_ALL = (
    pytest.param(("--questions", "odd"), id="half"),
    pytest.param((), id="all", marks=pytest.mark.full),
)
"""Half of the questions in `make test`."""


@pytest.fixture
def cli(cli: CommandLine) -> CommandLine:
    """The script in this process."""
    return cli.of(main)


_REPORTS: dict[tuple[str, ...], Any] = {}


def new_report(cli: CommandLine, *arguments: str) -> Any:
    """What the command prints as JSON."""
    return json.loads(cli(*arguments, "--json")[1])


def usual_report(cli: CommandLine, *arguments: str) -> Any:
    """What the command prints as JSON with the usual settings; it is made once for all tests."""
    if arguments not in _REPORTS:
        _REPORTS[arguments] = new_report(cli, *arguments)
    return _REPORTS[arguments]


def test_the_figures_are_the_same_each_time(cli: CommandLine) -> None:
    report = usual_report(cli, ENGLISH)
    assert new_report(cli, ENGLISH) == report
    search = report["groups"]["all"]["search"]
    assert (report["ranked"], report["units"]) == ("exchange", 46)
    assert search["questions"] == report["questions"]
    assert (
        0
        < search["recallAt1"]["low"]
        <= search["recallAt1"]["value"]
        <= search["recallAt3"]["value"]
    )


def test_the_servers_search_finds_more_than_chance_does(cli: CommandLine) -> None:
    groups = usual_report(cli, CHINESE, "--by", "kind")["groups"]
    direct = {name: figures["recallAt3"] for name, figures in groups["direct"].items()}
    assert direct["search"]["low"] > direct["random"]["high"]
    assert direct["search"]["low"] > direct["last"]["high"]


def test_settings_change_what_is_measured(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    usual = usual_report(cli, ENGLISH)["groups"]["all"]
    monkeypatch.setenv("MEMORY_SERVER_SHORT_TERM__THRESHOLD", "10000")
    strict = new_report(cli, ENGLISH)["groups"]["all"]
    assert usual["search"]["speaking"]["value"] > 0.5
    assert strict["search"]["speaking"]["value"] == 0.0
    assert strict["search"]["silent"]["value"] == 1.0
    assert strict["grep"]["recallAt3"] == usual["grep"]["recallAt3"]


@pytest.mark.parametrize(
    "before", [("--before", "0"), pytest.param((), marks=pytest.mark.full)], ids=["alone", "usual"]
)
def test_the_defaults_find_more_than_the_node_original_and_traditional_as_much_as_simplified(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch, before: tuple[str, ...]
) -> None:
    pytest.importorskip("opencc", reason="OpenCC has no wheel for this machine")
    sample = (str(SAMPLE), *before)
    usual = new_report(cli, *sample, "--timezone", "Asia/Shanghai")["groups"]
    monkeypatch.setenv("MEMORY_SERVER_COMPAT", "node")
    node = new_report(cli, *sample)["groups"]

    def recall(groups: Any, language: str) -> float:
        value: float = groups[language]["search"]["recallAt3"]["value"]
        return value

    assert recall(usual, "all") > recall(node, "all") + 0.1
    assert recall(usual, "zh") > recall(node, "zh")
    assert recall(usual, "en") >= recall(node, "en")
    assert abs(recall(usual, "zh-Hant") - recall(usual, "zh")) <= 0.02
    assert recall(node, "zh-Hant") < recall(node, "zh") - 0.1


def test_the_lines_of_a_table_are_equally_wide(cli: CommandLine) -> None:
    status, out, _ = cli(CHINESE, "--user", "陈屿", "--all-users", "--by", "kind")
    assert status == 0
    assert "陈屿" not in out.splitlines()[0]
    assert "all users'" in out.splitlines()[0]
    tables = [line for line in out.splitlines() if line and line[0] in "┏┃┡│└"]
    assert len({cell_len(line) for line in tables}) == 1
    assert sum(line.startswith("│ search ") for line in tables) == 7


def test_some_users_are_asked_about_alone(cli: CommandLine) -> None:
    of_maya = new_report(cli, ENGLISH, "--user", "Maya")
    of_both = new_report(cli, ENGLISH, "--user", "Maya", "--user", "Tom")
    assert 10 < of_maya["questions"] < 30 < of_both["questions"] < 66
    assert of_maya["units"] == of_both["units"] == 46


def test_halves_of_the_questions_are_asked_as_they_are_in_the_whole(cli: CommandLine) -> None:
    def right_answers(report: Any) -> list[float]:
        """Questions with an answer, and how many of them have a right answer: after other talk, and alone."""
        figures = report["groups"]["all"]["search"]
        questions = figures["answerable"]
        return [
            questions,
            *(figures[name]["value"] * questions for name in ("recallAt3", "recallAt3Alone")),
        ]

    even = right_answers(new_report(cli, ENGLISH, "--questions", "even"))
    odd = right_answers(new_report(cli, ENGLISH, "--questions", "odd"))
    whole = right_answers(usual_report(cli, ENGLISH))
    assert abs(even[0] - odd[0]) <= 9
    assert list(map(sum, zip(even, odd, strict=True))) == pytest.approx(whole)


def test_other_talk_before_a_question_is_the_headline_and_can_be_left_out(cli: CommandLine) -> None:
    usual = usual_report(cli, ENGLISH)
    alone = new_report(cli, ENGLISH, "--before", "0")
    assert (usual["before"], alone["before"]) == (3, 0)
    grep = usual["groups"]["all"]["grep"]
    assert grep["recallAt3"]["value"] != grep["recallAt3Alone"]["value"]
    search_alone = alone["groups"]["all"]["search"]
    assert search_alone["recallAt3Alone"]["value"] == search_alone["recallAt3"]["value"]
    assert (
        usual["groups"]["all"]["search"]["recallAt3Alone"]["value"]
        == search_alone["recallAt3"]["value"]
    )
    assert "after 3 messages of other talk" in cli(ENGLISH, "--user", "Priya")[1].splitlines()[0]
    assert (
        "after nothing else" in cli(ENGLISH, "--user", "Priya", "--before", "0")[1].splitlines()[0]
    )


@pytest.mark.parametrize("questions", HALF_OR_ALL)
def test_the_search_with_another_setting_stands_beside_ours_with_the_difference(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch, questions: tuple[str, ...]
) -> None:
    asked = (CHINESE, *questions)
    beside = new_report(cli, *asked, "--beside", "compat=node", "--beside", "words.dates=false")
    figures = beside["groups"]["all"]
    assert list(figures)[:3] == ["search", "compat=node", "words.dates=false"]
    monkeypatch.setenv("MEMORY_SERVER_COMPAT", "node")
    node = new_report(cli, *asked)["groups"]["all"]["search"]
    assert figures["compat=node"]["recallAt3"] == node["recallAt3"]
    difference = figures["compat=node"]["recallAt3ToSearch"]
    assert difference["value"] == pytest.approx(
        node["recallAt3"]["value"] - figures["search"]["recallAt3"]["value"]
    )
    assert "recallAt3ToSearch" not in figures["search"]
    assert (
        figures["words.dates=false"]["recallAt3"]["value"] < figures["search"]["recallAt3"]["value"]
    )


def test_sessions_are_ranked_in_place_of_memories(cli: CommandLine) -> None:
    report = new_report(cli, ENGLISH, "--sessions")
    assert (report["ranked"], report["units"], report["questions"]) == ("session", 26, 57)
    figures = report["groups"]["all"]
    assert figures["search"]["ndcgAt5"]["value"] > figures["random"]["ndcgAt5"]["high"]
    assert "│ sessions by" in cli(ENGLISH, "--sessions", "--user", "Priya")[1].replace("┃", "│")


def test_silence_is_asked_for_by_questions_of_others_and_by_small_talk(cli: CommandLine) -> None:
    report = new_report(cli, CHINESE, "--silence", "--before", "0")
    search = report["silence"]["search"]
    assert set(search) == {"unrelated", "small talk"}
    assert search["small talk"]["asked"] == 138
    assert 0.8 < search["unrelated"]["area"]["low"] < search["unrelated"]["area"]["value"] <= 1
    assert search["small talk"]["silent95"]["value"] > 0.5
    assert set(report["silence"]) == {
        "search",
        "bm25 same words",
        "bm25 words",
        "bm25 bigrams",
        "grep",
    }
    status, out, _ = cli(CHINESE, "--silence", "--user", "陈屿")
    assert status == 0
    assert out.count("│ small talk │") == out.count("│ unrelated  │") == 5


def test_unrelated_questions_are_of_all_users_whosever_questions_are_asked(
    cli: CommandLine,
) -> None:
    silence = new_report(cli, ENGLISH, "--silence", "--user", "Maya")["silence"]
    assert silence["grep"]["unrelated"]["asked"] == 17


def test_what_the_server_gives_is_counted_in_homes_of_several_sizes(cli: CommandLine) -> None:
    counted = (ENGLISH, "--precision", "--user", "Maya")
    own = new_report(cli, *counted)["precision"]
    assert list(own) == ["search, unasked", "search, asked for", "search, hook"]
    unasked = own["search, unasked"]
    assert set(unasked["silent"]) == {"unrelated", "small talk"}
    assert unasked["precision"]["value"] > own["search, asked for"]["precision"]["value"]
    assert unasked["came"]["value"] < own["search, asked for"]["came"]["value"]
    few = new_report(cli, *counted, "--home", "5")["precision"]["search, unasked"]
    assert few["recallAt3"]["value"] >= unasked["recallAt3"]["value"]
    status, out, _ = cli(*counted, "--elsewhere", CHINESE, "--beside", "compat=node")
    assert status == 0
    assert "silent: zh.jsonl" in out
    assert "│ compat=node, asked for │" in out


def test_a_year_ends_with_what_is_left_of_recall(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bench.recall_quality.DAYS", 8)
    status, out, _ = cli(ENGLISH, "--year")
    assert status == 0
    assert re.search(
        r"a year in one conversation, 80 memories \(exchanges, \d\d of them told before on another",
        out,
    )
    assert "│ nothing forgotten │" in out
    assert re.search(
        r"The search finds \d+\.\d % of what it would find had nothing been forgotten", out
    )
    report = new_report(cli, ENGLISH, "--year", "--before", "1")
    assert (report["days"], report["exchanges"], report["before"]) == (8, 80, 1)
    ends = report["atTheEnd"]
    assert 0 < ends["nothing forgotten"]["recallAt3Alone"]["value"] <= 1
    assert ends["search"]["questions"] == ends["nothing forgotten"]["questions"] > 0
    assert 0 < report["mostRecalled"] <= 1


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["nowhere.jsonl"], "nowhere.jsonl cannot be read: No such file or directory."),
        (
            [ENGLISH, "--user", "Nobody"],
            "en.jsonl has no questions of `Nobody`; give one of Maya, Tom, Priya.",
        ),
        ([ENGLISH, "--before", "101"], "--before 101 is out of range; give 0 to 100 messages."),
        (
            [ENGLISH, "--year", "--all-users"],
            "--year and --silence ask of one user's memories; leave --all-users out.",
        ),
        ([ENGLISH, "--year", "--beside", "compat=node"], "leave --beside out."),
        ([ENGLISH, "--silence", "--all-users"], "leave --all-users out."),
        ([ENGLISH, "--home", "30"], "--home and --elsewhere go with --precision; add it."),
        ([ENGLISH, "--precision", "--home", "0"], "--home 0 is out of range; give 1 or more"),
        ([ENGLISH, "--precision", "--all-users"], "knows neither --memory-words nor --all-users"),
        (
            [ENGLISH, "--beside", "compat"],
            "--beside compat has no value; write it as in `--beside compat=node`.",
        ),
        (
            [ENGLISH, "--beside", "words.speed=1"],
            "There is no setting `words.speed` (from the command line)",
        ),
    ],
)
def test_what_cannot_be_done_is_one_sentence_and_exit_status_2(
    cli: CommandLine, arguments: list[str], sentence: str
) -> None:
    status, out, err = cli(*arguments)
    assert (status, out) == (2, "")
    assert sentence in err
    assert len(err.splitlines()) == 1
