"""The table of mutants: its rooms have modules and tests, and a mutant changes the lines that are meant."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from drawn_mutants import (
    DRAWN,
    ROOT,
    TABLE,
    Mutant,
    read_mutants,
    read_rooms,
    write_mutants,
)

SOURCE = "if a:\n    b = 1\n        b = 1\n    b = 1\n    b = 12\n"
MUTANT = Mutant(1, "room", "module.py", 4, "NumberReplacer", "    b = 1\n", "    b = 2\n", nth=2)


@pytest.mark.parametrize("room", sorted(read_rooms()))
def test_each_room_has_modules_and_tests(room: str) -> None:
    paths = read_rooms()[room]
    for pattern in paths["modules"]:
        assert list(ROOT.glob(pattern)), pattern
    for test in paths["tests"]:
        assert (ROOT / test).exists(), test


def test_the_table_has_what_was_drawn_and_says_why_a_mutant_may_survive() -> None:
    mutants = read_mutants(TABLE)
    assert [mutant.number for mutant in mutants] == list(range(1, DRAWN + 1))
    assert {mutant.room for mutant in mutants} == read_rooms().keys()
    assert all(mutant.before != mutant.after for mutant in mutants)
    assert all(mutant.note for mutant in mutants if mutant.verdict == "survived")


def test_a_mutant_changes_whole_lines_that_are_there_several_times() -> None:
    assert MUTANT.applied_to(SOURCE) == "if a:\n    b = 1\n        b = 1\n    b = 2\n    b = 12\n"
    assert replace(MUTANT, nth=3).applied_to(SOURCE) is None
    assert replace(MUTANT, before="b = 1\n").applied_to(SOURCE) is None


def test_a_table_comes_back_as_it_was_written(tmp_path: Path) -> None:
    mutants = [MUTANT, replace(MUTANT, number=2, before='    x = "a, b"\n\n', verdict="killed")]
    write_mutants(tmp_path / "new" / "7.csv", mutants)
    assert read_mutants(tmp_path / "new" / "7.csv") == mutants
