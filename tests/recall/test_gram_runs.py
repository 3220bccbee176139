"""The runs of the index of grams stay few, and give the same holders as an index that was filled at once."""

from __future__ import annotations

from itertools import chain

import pytest

from memory_server.conversations.recall.index import GramIndex
from memory_server.conversations.recall.words import GramText
from nlp.stems import HAN, SYLLABLES, grams_of

ROWS = 300
TEXTS = [[GramText("煤球喜欢晒太阳" if row % 3 else "下雨天在家", 1.0)] for row in range(ROWS)]


def rows_and_weights(index: GramIndex, gram: str) -> list[tuple[int, float]]:
    [holders] = index.holding([gram])
    pairs: list[tuple[int, float]] = []
    for part in holders:
        pairs += zip(part.rows.tolist(), part.weights.tolist(), strict=True)
    return pairs


def test_rows_that_were_added_one_by_one_are_found_as_if_filled_at_once() -> None:
    grown = GramIndex()
    for row, texts in enumerate(TEXTS):
        grown.add(texts, row)
    filled = GramIndex()
    filled.fill(TEXTS)
    for gram in ("煤球", "晒太", "下雨", "球"):
        assert rows_and_weights(grown, gram) == rows_and_weights(filled, gram)
    assert rows_and_weights(grown, "煤球")


def test_runs_of_the_same_length_are_joined_so_that_there_are_few() -> None:
    index = GramIndex()
    for row in range(ROWS):
        index.add([GramText("煤球喜欢晒太阳", 1.0)], row)
        lengths = [len(run.rows) for run in index._runs]
        assert lengths == sorted(set(lengths), reverse=True)
    assert len(index._runs) <= ROWS.bit_length()


def test_a_row_without_grams_makes_no_run() -> None:
    index = GramIndex()
    index.add([], 0)
    assert index._runs == []


@pytest.mark.parametrize("end", sorted(chain(*HAN, *SYLLABLES)))
def test_the_index_knows_a_character_by_the_same_bounds_as_a_query(end: str) -> None:
    for character in (chr(ord(end) - 1), end, chr(ord(end) + 1)):
        text = f"a{character}煤"
        grams, _count = grams_of(text)
        index = GramIndex()
        index.fill([[GramText(text, 1.0)]])
        assert sum(len(run.rows) for run in index._runs) == len(grams)
        assert all(rows_and_weights(index, gram) for gram in grams)


def test_a_word_of_a_rare_character_takes_no_other_pair_from_the_index() -> None:
    index = GramIndex()
    index.fill([[GramText("丂中", 1.0, ("一\U00024e2d", "hi"))]])
    assert rows_and_weights(index, "丂中")
