"""Negative controls of recall that nobody asked for: remarks that have nothing to do with the memories of the sample.

The remarks were written before anybody looked at what they bring. A row of the table says to how many people of the sample
something came, unasked and by a hook, when this test was written: 0 is right, and each other number is a known fault, which
may become smaller and not larger.
"""

from __future__ import annotations

from collections import Counter
from functools import cache
from pathlib import Path

import pytest
from bench.quality.blocks import OWN, Home, blocks_of
from bench.quality.evaluation import SAMPLE, Question, Unit, load_dataset, remembered, units_of
from case_tables import read_table

from memory_server.config import Settings
from memory_server.config.recall import parameters

PARAMETERS = parameters(Settings(timezone="UTC"))
FACES = ("unasked", "hook")
PEOPLE = {"en": 3, "zh": 6}

ROWS = read_table(Path(__file__).with_name("remarks_that_bring_nothing.csv"))


@cache
def homes(language: str) -> list[Home]:
    """Return the memories of each person of the sample who speaks the language, with one question of theirs."""
    dataset = load_dataset([SAMPLE / f"{language}.jsonl"])
    units = units_of(dataset.turns)
    questions = {question.conversation_id: question for question in dataset.questions}
    return [
        Home([unit for unit in units if unit.conversation_id == name], [question])
        for name, question in questions.items()
    ]


@cache
def _remember(unit: Unit) -> object:
    return remembered(PARAMETERS.wording, unit)


@cache
def loud(language: str, remarks: tuple[str, ...]) -> Counter[tuple[str, str]]:
    """Count the people to whom something comes, by the way in which the search is made and the remark."""
    people: Counter[tuple[str, str]] = Counter()
    for home in homes(language):
        (own,) = home.questions
        said = {
            remark: Question(
                remark, own.conversation_id, remark, frozenset(), own.asked_ms, language
            )
            for remark in remarks
        }
        for face, blocks in blocks_of(home, {own.id: said}, PARAMETERS, _remember).items():  # type: ignore[arg-type]
            people.update(
                (face, block.kind) for block in blocks if block.right and block.kind != OWN
            )
    return people


def remarks_in(language: str) -> tuple[str, ...]:
    return tuple(row["remark"] for row in ROWS if row["language"] == language)


@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["remark"])
def test_a_remark_about_something_else_brings_no_more_than_the_table_says(
    row: dict[str, str], face: str
) -> None:
    language, remark = row["language"], row["remark"]
    assert loud(language, remarks_in(language))[face, remark] <= int(row[face])


@pytest.mark.parametrize("language", PEOPLE)
def test_what_is_about_a_memory_brings_it(language: str) -> None:
    assert len(remarks_in(language)) == 35
    assert len(homes(language)) == PEOPLE[language]
    first = tuple(home.units[0].turns[0].content for home in homes(language))
    people = loud(language, first)
    assert all(people["hook", text] and people["unasked", text] for text in first)
