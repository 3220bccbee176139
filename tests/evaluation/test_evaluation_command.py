"""`tests/bench/eval.py`: what it prints, and how it ends."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from bench.eval import main
from bench.quality.evaluation import SAMPLE
from bench.recall_quality import main as bench
from cli_program import CommandLine
from rich.cells import cell_len

ENGLISH = str(SAMPLE / "en.jsonl")
CHINESE = str(SAMPLE / "zh.jsonl")


@pytest.fixture
def cli(cli: CommandLine) -> CommandLine:
    """The script in this process."""
    return cli.of(main)


def measured(cli: CommandLine, *arguments: str) -> Any:
    return json.loads(cli(*arguments, "--json")[1])


def test_the_figures_are_the_same_each_time(cli: CommandLine) -> None:
    report = measured(cli, ENGLISH)
    assert measured(cli, ENGLISH) == report
    search = report["groups"]["all"]["search"]
    assert (report["dataset"], report["before"], report["memories"]) == ("en.jsonl", 3, 46)
    assert search["questions"] == report["questions"] == 66
    assert 0 < search["recallAt1"] <= search["mrr"] <= search["recallAt5"] < 1


@pytest.mark.parametrize("file", [ENGLISH, pytest.param(CHINESE, marks=pytest.mark.full)])
def test_they_are_those_of_the_bench(
    cli: CommandLine, capfd: pytest.CaptureFixture[str], file: str
) -> None:
    ours = measured(cli, file, "--by", "kind", "--beside", "compat=node")["groups"]
    bench([file, "--by", "kind", "--beside", "compat=node", "--json"])
    groups_of_bench = json.loads(capfd.readouterr()[0])["groups"]
    assert ours.keys() == groups_of_bench.keys()
    for group, searches in ours.items():
        for name, figures in searches.items():
            expected = groups_of_bench[group][name]
            assert figures["questions"] == expected["questions"]
            for figure in ("recallAt1", "recallAt3", "recallAt5", "speaking", "silent"):
                assert (figure in figures) == (figure in expected)
                if figure in figures:
                    assert figures[figure] == pytest.approx(expected[figure]["value"])


def test_settings_change_what_is_measured(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    usual = measured(cli, ENGLISH)["groups"]["all"]["search"]
    monkeypatch.setenv("MEMORY_SERVER_SHORT_TERM__THRESHOLD", "10000")
    strict = measured(cli, ENGLISH)["groups"]["all"]["search"]
    assert usual["speaking"] > 0.5
    assert (strict["speaking"], strict["silent"]) == (0.0, 1.0)
    assert strict["recallAt5"] == strict["mrr"] == 0.0


def test_the_search_with_another_setting_stands_beside_ours_with_what_it_gains_and_loses(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    beside = measured(cli, CHINESE, "--beside", "compat=node", "--beside", "words.dates=false")[
        "groups"
    ]["all"]
    assert list(beside) == ["search", "compat=node", "words.dates=false"]
    ours = beside["search"]
    node = beside["compat=node"]
    assert "gained" not in ours
    difference = (node["gained"] - node["lost"]) / ours["answerable"]
    assert difference == pytest.approx(node["recallAt3"] - ours["recallAt3"])
    assert node["lost"] > node["gained"] > 0
    monkeypatch.setenv("MEMORY_SERVER_COMPAT", "node")
    alone = measured(cli, CHINESE)["groups"]["all"]["search"]
    assert alone == {name: value for name, value in node.items() if name not in ("gained", "lost")}


def test_other_talk_before_a_question_can_be_left_out(cli: CommandLine) -> None:
    assert "after 3 messages of other talk" in cli(ENGLISH)[1].splitlines()[0]
    assert "after nothing else" in cli(ENGLISH, "--before", "0")[1].splitlines()[0]
    assert (
        measured(cli, ENGLISH, "--before", "9")["groups"]
        != measured(cli, ENGLISH, "--before", "0")["groups"]
    )


def test_there_is_a_table_for_each_group_and_its_lines_are_equally_wide(cli: CommandLine) -> None:
    status, out, _ = cli(CHINESE, "--by", "kind", "--beside", "compat=node")
    assert status == 0
    tables = [line for line in out.splitlines() if line and line[0] in "┏┃┡│└"]
    assert len({cell_len(line) for line in tables}) == 1
    assert sum(line.startswith("│ search ") for line in tables) == 7


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["nowhere.jsonl"], "nowhere.jsonl cannot be read: No such file or directory."),
        ([ENGLISH, "--before", "101"], "--before 101 is out of range; give 0 to 100 messages."),
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


def test_a_folder_without_data_is_refused(cli: CommandLine, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    status, _, err = cli(str(tmp_path / "empty"))
    assert status == 2
    assert "holds no *.jsonl files" in err
