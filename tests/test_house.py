"""The counter of `house.py`: what counts as code, and what a figure above its ceiling says."""

from __future__ import annotations

from pathlib import Path

import pytest
from bench.files_of_a_call import RunThrough
from house import CALLS, House, faults_of, javascript_tokens, python_tokens, room_of

RUNS = dict.fromkeys(CALLS, RunThrough(files=50, functions=200))


@pytest.mark.parametrize(
    ("source", "tokens"),
    [
        ("x = 1", 3),
        ("# a comment\nx = 1  # another", 3),
        ('"""A docstring."""\n\nx = 1\n"""What x is."""', 3),
        ('def f():\n    """Return a text."""\n    return "text"', 7),
        ("f(a, b)", 6),
        ("f(\n    a,\n    b,\n)", 6),
        ("x = (1,)", 5),
    ],
)
def test_docstrings_comments_and_layout_are_no_tokens_of_python(source: str, tokens: int) -> None:
    assert python_tokens(source) == tokens


@pytest.mark.parametrize(
    ("source", "tokens"),
    [
        ("let x = 1;", 5),
        ("// a comment\nlet x = 1; /* another */", 5),
        ("f('a text', /an expression/g)", 6),
        ("[\n  1,\n  2,\n]", 5),
    ],
)
def test_comments_and_layout_are_no_tokens_of_javascript(source: str, tokens: int) -> None:
    assert javascript_tokens(source.encode()) == tokens


def test_the_room_of_a_file_is_its_folder_below_the_top() -> None:
    assert room_of(Path("memory_server/cli/hook/command.py")) == "memory_server/cli"
    assert room_of(Path("memory_server/version.py")) == "memory_server"
    assert room_of(Path("sandbox/worker/realm/keys.js")) == "sandbox/worker (JavaScript)"


def test_a_figure_at_its_ceiling_is_no_fault() -> None:
    house = House({"nlp": 500}, RUNS)
    assert list(faults_of(house, House({"nlp": 500}, RUNS))) == []


def test_each_figure_above_its_ceiling_is_named() -> None:
    long_call = RUNS | {"forget": RunThrough(files=50, functions=201)}
    faults = list(faults_of(House({"nlp": 501}, long_call), House({"nlp": 500}, RUNS)))
    assert faults == [
        "The room nlp has 501 tokens of code; its ceiling is 500.",
        "A call of forget runs through 50 files and 201 functions; its ceilings are 50 and 200.",
    ]


def test_what_was_not_counted_is_a_fault() -> None:
    uncounted = RUNS | {"memory_add": RunThrough(files=0, functions=0)}
    faults = list(faults_of(House({"new": 3}, uncounted), House({"nlp": 500}, RUNS)))
    assert faults == [
        "The room new has no ceiling in tests/house.json; it has 3 tokens.",
        "The room nlp is in tests/house.json, but no code of it was counted.",
        "No file was counted for a call of memory_add.",
    ]
