"""`memory-server eval`: what it prints and draws, and how it ends."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from rich.cells import cell_len

from memory_server.cli import main
from memory_server.commands.demo import samples

Run = Callable[..., tuple[int, str, str]]
ENGLISH = str(samples() / "recall" / "en.jsonl")
CHINESE = str(samples() / "recall" / "zh.jsonl")


@pytest.fixture
def run(tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """`run(…)`: exit status, standard output, standard error of `memory-server eval …`."""
    monkeypatch.setenv("MEMORY_SERVER_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("HOME", str(tmp_path))

    def run(*arguments: str) -> tuple[int, str, str]:
        status = main(["eval", *arguments])
        out, err = capfd.readouterr()
        return status, out, err

    return run


def untimed(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: untimed(member) for key, member in value.items() if key != "p50Ms"}
    return value


def test_the_figures_are_the_same_each_time_but_for_the_latency(run: Run) -> None:
    first, second = (json.loads(run(ENGLISH, "--json")[1]) for _ in range(2))
    assert untimed(first) == untimed(second)
    search = first["groups"]["all"]["search"]
    assert first["memories"] == 46
    assert search["questions"] == first["questions"]
    assert 0 < search["recallAt1"]["low"] <= search["recallAt1"]["value"] <= search["recallAt3"]["value"]
    assert search["p50Ms"] > 0


def test_the_servers_search_finds_more_than_chance_does(run: Run) -> None:
    groups = json.loads(run(CHINESE, "--json", "--by", "kind")[1])["groups"]
    direct = {name: figures["recallAt3"] for name, figures in groups["direct"].items()}
    assert direct["search"]["low"] > direct["random"]["high"]
    assert direct["search"]["low"] > direct["last"]["high"]


def test_settings_change_what_is_measured(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    usual = json.loads(run(ENGLISH, "--json")[1])["groups"]["all"]
    monkeypatch.setenv("MEMORY_SERVER_SHORT_TERM__THRESHOLD", "10000")
    strict = json.loads(run(ENGLISH, "--json")[1])["groups"]["all"]
    assert usual["search"]["speaking"]["value"] > 0.5
    assert strict["search"]["speaking"]["value"] == 0.0
    assert strict["search"]["silent"]["value"] == 1.0
    assert untimed(strict["grep"]) == untimed(usual["grep"])


def test_the_defaults_find_more_than_the_node_original_and_traditional_as_much_as_simplified(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("opencc", reason="OpenCC has no wheel for this machine")
    sample = str(samples() / "recall")
    usual = json.loads(run(sample, "--json", "--timezone", "Asia/Shanghai")[1])["groups"]
    monkeypatch.setenv("MEMORY_SERVER_COMPAT", "node")
    node = json.loads(run(sample, "--json")[1])["groups"]

    def recall(groups: Any, language: str) -> float:
        found: float = groups[language]["search"]["recallAt3"]["value"]
        return found

    assert recall(usual, "all") > recall(node, "all") + 0.1
    assert recall(usual, "zh") > recall(node, "zh")
    assert recall(usual, "en") >= recall(node, "en")
    assert abs(recall(usual, "zh-Hant") - recall(usual, "zh")) <= 0.02
    assert recall(node, "zh-Hant") < recall(node, "zh") - 0.1


def test_asked_later_older_memories_have_lost_as_much_as_newer_ones(run: Run) -> None:
    first, later = (
        json.loads(run(ENGLISH, "--json", "--by", "kind", "--later", days)[1])["groups"]["all"] for days in ("0", "30")
    )
    assert untimed(first["search"]) != untimed(later["search"])
    assert untimed(first["grep"]) == untimed(later["grep"])
    status, _, err = run(ENGLISH, "--later", "-1")
    assert status == 2
    assert "--later -1 is out of range" in err


def test_the_lines_of_a_table_are_equally_wide(run: Run) -> None:
    status, out, _ = run(CHINESE, "--user", "陈屿", "--all-users", "--by", "kind")
    assert status == 0
    assert "陈屿" not in out.splitlines()[0]
    assert "all users'" in out.splitlines()[0]
    tables = [line for line in out.splitlines() if line and line[0] in "┏┃┡│└"]
    assert len({cell_len(line) for line in tables}) == 1
    assert sum(line.startswith("│ search ") for line in tables) == 7


def test_one_user_is_asked_about_alone(run: Run) -> None:
    report = json.loads(run(ENGLISH, "--user", "Maya", "--json")[1])
    assert 10 < report["questions"] < 30
    assert report["memories"] == 46


def test_the_plot_names_each_ranker(run: Run, tmp_path: Path) -> None:
    plot = tmp_path / "recall.svg"
    assert run(ENGLISH, "--plot", str(plot))[0] == 0
    root = ElementTree.parse(plot).getroot()
    texts = {text.text for text in root.iter("{http://www.w3.org/2000/svg}text")}
    assert texts >= {"search", "formula", "bm25 words", "bm25 bigrams", "grep", "last", "random", "Recall@3"}


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["nowhere.jsonl"], "nowhere.jsonl cannot be read: No such file or directory."),
        ([ENGLISH, "--user", "Nobody"], "en.jsonl has no questions of `Nobody`; give one of Maya, Tom, Priya."),
        ([ENGLISH, "--plot", "no/such/folder/plot.svg"], "plot.svg cannot be written: No such file or directory."),
        ([ENGLISH, "--plot", "plot.gif"], "plot.gif names no picture that can be drawn; let it end in .svg or .png."),
        ([ENGLISH, "--format", "locomo"], "en.jsonl is no JSON; for JSON lines name it *.jsonl"),
    ],
)
def test_what_cannot_be_done_is_one_sentence_and_exit_status_2(run: Run, arguments: list[str], sentence: str) -> None:
    status, out, err = run(*arguments)
    assert (status, out) == (2, "")
    assert sentence in err
    assert len(err.splitlines()) == 1


def test_a_folder_without_data_is_refused(run: Run, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    status, _, err = run(str(tmp_path / "empty"))
    assert status == 2
    assert "holds no *.jsonl files" in err
