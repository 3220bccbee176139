"""Whether one text says that something is no longer as an older one says; where it is doubtful, it does not."""

from __future__ import annotations

from pathlib import Path

import pytest
from case_tables import read_table
from hypothesis import given
from hypothesis import strategies as st

from nlp.corrections import MOST_CHARS, has_sign, statement_of


def corrects(newer: str, older: str) -> bool:
    return statement_of(newer).corrects(older)


TABLE = read_table(Path(__file__).with_name("corrections.csv"))
SURE = [(row["older"], row["newer"]) for row in TABLE if row["corrects"] == "yes"]
UNSURE = [(row["older"], row["newer"]) for row in TABLE if row["corrects"] == "no"]


@pytest.mark.parametrize(("older", "newer"), SURE)
def test_corrections(older: str, newer: str) -> None:
    assert corrects(newer, older)
    assert has_sign(older, statement_of(newer).signs()), "only memories with a sign are compared"
    assert not corrects(newer, newer)


@pytest.mark.parametrize(("older", "newer"), UNSURE)
def test_when_unsure_nothing_is_corrected(older: str, newer: str) -> None:
    assert not corrects(newer, older)


def test_long_texts_correct_nothing() -> None:
    newer = "I'm not in the rowing club any more. " + "x" * MOST_CHARS
    assert statement_of(newer) == statement_of("")


MARKS = [
    "换成",
    "改到",
    "不学了",
    "戒了",
    "no longer ",
    "moved to ",
    "quit ",
    "我",
    "在",
    "周五",
    "+",
    "(",
    "I live in ",
]


@given(
    st.text(max_size=300) | st.lists(st.sampled_from(MARKS) | st.text(max_size=5)).map("".join),
    st.text(max_size=300) | st.lists(st.sampled_from(MARKS) | st.text(max_size=5)).map("".join),
)
def test_no_text_is_too_much(newer: str, older: str) -> None:
    corrects(newer, older)
    corrects(f"{older[:9]}换成{newer}", f"{older[:9]}在用")
    assert not corrects(older, older)
