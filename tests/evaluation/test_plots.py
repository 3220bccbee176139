"""Pictures: what they show, that Chinese text is in them, and what is said where one cannot be drawn."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from random import Random
from xml.etree import ElementTree

import pytest
from matplotlib.figure import Figure
from sample_memories import DAY, HOUR, NOW, memory

from memory_server.cli.parser import main
from memory_server.core.errors import InvalidInput
from memory_server.core.model import Message, ShortTermMemory
from memory_server.evaluation.plots import (
    draw,
    draw_decay,
    draw_timeline,
    half_life_days,
    picture_path,
)
from memory_server.recall import retention
from memory_server.recall.parameters import DAY_MS, Parameters, RecallParameters, RetentionParameters
from memory_server.recall.relevance import decay

P = Parameters(retention=RetentionParameters(always_kept=2))
SVG = "{http://www.w3.org/2000/svg}"


def some(count: int = 30) -> list[ShortTermMemory]:
    rng = Random(3)
    return [
        memory(
            f"m{n}",
            age=n * DAY + HOUR,
            score=rng.choice([0.0, 0.0, 5.0, 40.0]),
            words={"猫": 20.0},
            pinned=n == 29,
            messages=(Message("user", f"第 {n} 天，芝麻又胖了 $5", NOW - n * DAY - HOUR),),
        )
        for n in range(count)
    ]


def texts(path: Path) -> list[str]:
    return ["".join(node.itertext()) for node in ElementTree.parse(path).getroot().iter(f"{SVG}text")]


# --- what is reckoned --------------------------------------------------------------------------------------


def test_the_half_life_is_that_of_the_documents() -> None:
    assert f"{half_life_days(RecallParameters()):.2f}" == "4.01"


# --- what is shown -----------------------------------------------------------------------------------------


def test_the_decay_shows_each_half_life() -> None:
    figure = Figure()
    draw_decay(figure, P.recall, half_lives=(1.0, 30.0), match=40.0)
    (axes,) = figure.axes
    labels = [text.get_text() for text in axes.get_legend().get_texts()]
    assert labels == ["4.01 days", "1 day", "30 days", f"threshold {P.recall.threshold:g}"]
    ages, left = axes.lines[0].get_data()
    for age, relevance in zip(ages, left, strict=True):
        assert relevance == pytest.approx(40 - decay(round(age * DAY_MS), P.recall), abs=1e-6)


def test_the_timeline_has_a_dot_for_each_memory_at_its_age_and_worth() -> None:
    figure = Figure()
    draw_timeline(figure, P, some(), (), now_ms=NOW, zone=None, name="小满")
    dots = sorted((round(x * DAY_MS), y) for group in figure.axes[0].collections for x, y in group.get_offsets())
    memories = sorted(some(), key=lambda one: one.time_ms)
    assert [time_ms for time_ms, _ in dots] == [one.time_ms for one in memories]
    assert [y for _, y in dots] == pytest.approx([retention.worth(one, NOW, P.recall) for one in memories])


def test_one_memory_is_drawn_as_well() -> None:
    draw_timeline(Figure(), P, some(1), (), now_ms=NOW, zone=None, name="小满")


def test_the_timeline_shows_what_the_clean_up_would_forget() -> None:
    memories = some()
    gone = {forgotten.memory.id for forgotten in retention.plan(memories, NOW, P).forgotten}
    assert gone
    figure = Figure()
    draw_timeline(figure, P, memories, gone, now_ms=NOW, zone=None, name="小满")
    counts = {dots.get_label().partition(" ")[2]: len(dots.get_offsets()) for dots in figure.axes[0].collections}
    assert counts["the clean-up would forget"] == len(gone)
    assert counts["pinned"] == 1
    assert sum(counts.values()) == len(memories)


def timeline(name: str) -> Callable[[Figure], None]:
    memories = [replace(one, messages=(), text="a") for one in some()]
    return partial(draw_timeline, parameters=P, memories=memories, forgotten=(), now_ms=NOW, zone=None, name=name)


# --- files -------------------------------------------------------------------------------------------------


def test_text_stays_text_and_the_same_picture_is_the_same_file(tmp_path: Path) -> None:
    for name in ("a.svg", "b.svg"):
        draw(tmp_path / name, timeline("小满和阿澈"))
    assert any("小满和阿澈: 30 memories" in text for text in texts(tmp_path / "a.svg"))
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()


def test_without_matplotlib_one_sentence_says_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(InvalidInput, match=r"install the extra `plot` \(in a clone `pip install '.\[plot\]'`\)"):
        draw(tmp_path / "a.svg", lambda figure: None)


@pytest.mark.parametrize("name", ["a.gif", "a.png", "a", "svg", "a.svg.txt"])
def test_what_cannot_be_drawn_is_refused_by_its_name(name: str) -> None:
    with pytest.raises(InvalidInput, match=r"let it end in \.svg"):
        picture_path(name)


# --- the command -------------------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, value in {"DATA_DIR": str(tmp_path / "data"), "NOW": "2026-06-21T00:00:00Z", "SEED": "1"}.items():
        monkeypatch.setenv(f"MEMORY_SERVER_{name}", value)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    call = '{"conversation_id":"小满","messages":[{"role":"user","content":"芝麻怕打雷 $x$","timestamp":%d}]}'
    for days in (1, 5, 9):
        assert main(["call", "add_short_term_memory", call % (NOW - days * DAY)]) == 0
    return tmp_path


def test_each_picture_can_be_drawn_and_nothing_is_changed(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    before = {path: path.read_bytes() for path in (folder / "data").rglob("*.jsonl")}
    for name in ("decay", "timeline"):
        assert main(["plot", name, "小满"]) == 0
        assert texts(folder / f"{name}.svg")
    assert main(["plot", "timeline", "小满", "--ask", "打雷了，芝麻呢？", "--out", "asked.svg"]) == 0
    assert any("top: 芝麻怕打雷 $x$" in text for text in texts(folder / "asked.svg"))
    assert "Drew asked.svg." in capfd.readouterr().out
    assert {path: path.read_bytes() for path in (folder / "data").rglob("*.jsonl")} == before


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["timeline", "小满", "--out", "no/such/a.svg"], "no/such/a.svg cannot be written: No such file or directory."),
        (["timeline", "nobody"], "Nothing is stored in the conversation nobody; nothing can be drawn."),
        (["timeline", "小满", "--out", "a.pdf"], "a.pdf is not the name of a picture; let it end in .svg."),
        (["decay", "--half-life", "0"], "A half-life of 0 days cannot be drawn"),
        (["decay", "--half-life", "nan"], "A half-life of nan days cannot be drawn"),
    ],
)
def test_what_cannot_be_drawn_is_one_sentence(
    folder: Path, capfd: pytest.CaptureFixture[str], arguments: list[str], said: str
) -> None:
    capfd.readouterr()
    assert main(["plot", *arguments]) == 2
    out, err = capfd.readouterr()
    assert out == ""
    assert said in err
    assert len(err.splitlines()) == 1
