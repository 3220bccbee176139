"""An index of the character pairs and single Han characters of many memories: made in one pass, searched in few steps.

A memory has three times as many of them as words, so they are kept in a few sorted runs of columns, 6 bytes for each;
a short run is merged with the one before it as soon as it is as long. nlp/stems.py says what they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from itertools import islice
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from memory_server.conversations.recall.relevance import MOST_GRAM_WEIGHT
from memory_server.conversations.recall.words import GramText
from nlp import gram_weight
from nlp.stems import FUNCTION_CHARACTERS, HAN, SYLLABLES

Rows = npt.NDArray[np.int32]
Weights = npt.NDArray[np.float16]
Entries = npt.NDArray[np.uint64]
"""Grams in rows, each as one number: the key of the gram in the upper 32 bits, and the row in the lower ones."""
_ROW_BITS = np.uint64(32)
_ROW_MASK = np.uint64(0xFFFFFFFF)
_UNIT_BITS = np.uint64(16)
"""A key has two UTF-16 units: that of the first character in the upper bits."""

_AT_ONCE = 500
"""Memories whose pairs are found in one step: columns of a few megabytes."""
LONGEST_MERGED = 20_000
"""Entries of a run above which it is not merged any more: a memory is added in the event loop, and merging two runs of
this length takes some 5 ms."""
_FIRST_OF_PAIR = 0x3041
_LAST_OF_PAIR = 0xFFFF
"""Characters of a word that may be an indexed pair; other words cannot be in the index."""

_NONE, _SYLLABLE, _HAN, _FUNCTION = range(4)
"""Kinds of characters: not indexed, kana or Hangul, Han, or a function character."""


class Holders(NamedTuple):
    """Rows that hold a gram, ascending, with its weight in each."""

    rows: Rows
    weights: Weights


class RowText(NamedTuple):
    """A text of the memory of a row."""

    row: int
    text: GramText


class Run(NamedTuple):
    """The rows of each key, ascending: those of `keys[n]` stand from `starts[n]` to `starts[n + 1]`. A key is a pair as
    the two UTF-16 units of its characters, or the unit of a single one; all of them lie below U+10000."""

    keys: npt.NDArray[np.uint32]
    starts: Rows
    rows: Rows
    weights: Weights


class GramIndex:
    """The grams of the rows of an `Index`; rows are added in ascending order, and none is taken out."""

    def __init__(self) -> None:
        self._runs: list[Run] = []

    def fill(self, texts: Iterable[Sequence[GramText]]) -> None:
        """Index the texts of all rows."""
        remaining = iter(texts)
        runs: list[Run] = []
        first_row = 0
        while True:
            batch = list(islice(remaining, _AT_ONCE))
            if not batch:
                break
            runs.append(_run_of(batch, first_row))
            first_row += len(batch)
        self._runs = [_joined(runs)] if runs else []

    def add(self, texts: Sequence[GramText], row: int) -> None:
        """Index the texts of one more row."""
        run = _run_of([texts], row)
        if not len(run.rows):
            return
        # Each short run is longer than the next, so there are few runs and entries move seldom.
        while self._runs and len(self._runs[-1].rows) <= len(run.rows) <= LONGEST_MERGED:
            run = _joined([self._runs.pop(), run])
        self._runs.append(run)

    def holding(self, grams: Sequence[str]) -> list[list[Holders]]:
        """For each gram its holders, in one or more parts with ascending rows."""
        holders: list[list[Holders]] = [[] for _ in grams]
        keys = np.array([_key(gram) for gram in grams], np.uint32)
        for run in self._runs:
            if not len(run.keys):
                continue
            numbers = np.searchsorted(run.keys, keys)
            numbers[numbers == len(run.keys)] = 0
            gram_numbers = np.flatnonzero(run.keys[numbers] == keys)
            for gram_number, number in zip(
                gram_numbers.tolist(), numbers[gram_numbers].tolist(), strict=True
            ):
                part = slice(run.starts[number], run.starts[number + 1])
                holders[gram_number].append(Holders(run.rows[part], run.weights[part]))
        return holders


class _Grams(NamedTuple):
    """The grams that stand in texts, without their rows: their keys, and the number of the text of each."""

    keys: Entries
    texts: npt.NDArray[np.int64]
    pair_counts: npt.NDArray[np.int64]
    """The number of pairs in each text, function characters included."""


def _run_of(texts: Sequence[Sequence[GramText]], first_row: int) -> Run:
    """The run of rows with these texts."""
    row_texts: list[RowText] = []
    for row, texts_of_row in enumerate(texts, first_row):
        row_texts += [RowText(row, text) for text in texts_of_row]
    grams = _grams_in([row_text.text.text for row_text in row_texts])
    rows = np.array([row_text.row for row_text in row_texts], np.uint64)
    weight_of_text = np.array(
        [
            row_text.text.role_weight * gram_weight(pair_count)
            for row_text, pair_count in zip(row_texts, grams.pair_counts.tolist(), strict=True)
        ]
    )
    entries, entry_of_gram = np.unique(
        grams.keys << _ROW_BITS | rows[grams.texts], return_inverse=True
    )
    sums = np.bincount(entry_of_gram, weight_of_text[grams.texts], len(entries))
    weights = np.minimum(sums, MOST_GRAM_WEIGHT).astype(np.float16)
    is_no_word = ~_is_among(entries, _entries_of_words(row_texts))
    entries = entries[is_no_word]
    weights = weights[is_no_word]
    keys, starts = np.unique(entries >> _ROW_BITS, return_index=True)
    return Run(
        keys.astype(np.uint32),
        starts=np.append(starts, len(entries)).astype(np.int32),
        rows=(entries & _ROW_MASK).astype(np.int32),
        weights=weights,
    )


def _grams_in(texts: Sequence[str]) -> _Grams:
    """The grams that stand in these texts: pairs, but not of two function characters, and single Han characters."""
    # A line break between two texts is not an indexed character, so no gram spans two texts.
    encoded = [(text + "\n").encode("utf-16-le", "surrogatepass") for text in texts]
    units = np.frombuffer(b"".join(encoded), np.uint16)
    text_of_unit = np.repeat(np.arange(len(texts)), [len(text) // 2 for text in encoded])
    kinds = _kinds()[units]
    begins_pair = (kinds[:-1] > _NONE) & (kinds[1:] > _NONE)
    pair_counts = np.bincount(text_of_unit[:-1][begins_pair], minlength=len(texts))
    is_of_functions = (kinds[:-1] == _FUNCTION) & (kinds[1:] == _FUNCTION)
    pairs = np.flatnonzero(begins_pair & ~is_of_functions)
    singles = np.flatnonzero(kinds == _HAN)
    wide_units = units.astype(np.uint64)
    pair_keys = wide_units[pairs] << _UNIT_BITS | wide_units[pairs + 1]
    return _Grams(
        keys=np.concatenate((pair_keys, wide_units[singles])),
        texts=np.concatenate((text_of_unit[pairs], text_of_unit[singles])),
        pair_counts=pair_counts,
    )


def _entries_of_words(row_texts: Sequence[RowText]) -> Entries:
    """The entries of the pairs that are words of their memory, and so are not indexed as pairs; some may come twice."""
    words_of_texts = [_pair_words(row_text.text) for row_text in row_texts]
    text = "".join(map("".join, words_of_texts))
    characters = (
        np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)
        .reshape(-1, 2)
        .astype(np.uint64)
    )
    row_of_text = np.array([row_text.row for row_text in row_texts], np.uint64)
    rows = np.repeat(row_of_text, list(map(len, words_of_texts)))
    is_pair = np.all((characters >= _FIRST_OF_PAIR) & (characters <= _LAST_OF_PAIR), axis=1)
    first, second = characters[is_pair].T
    entries: Entries = (first << _UNIT_BITS | second) << _ROW_BITS | rows[is_pair]
    return entries


def _pair_words(text: GramText) -> list[str]:
    return [word for word in text.words if len(word) == 2]


def _is_among(entries: Entries, sought: Entries) -> npt.NDArray[np.bool_]:
    """Which of the ascending `entries` are `sought`."""
    is_sought = np.zeros(len(entries), np.bool_)
    numbers = np.searchsorted(entries, sought)
    is_within = numbers < len(entries)
    numbers = numbers[is_within]
    is_equal = entries[numbers] == sought[is_within]
    is_sought[numbers[is_equal]] = True
    return is_sought


def _joined(runs: Sequence[Run]) -> Run:
    """One run of several whose rows follow each other."""
    keys = np.sort(np.concatenate([run.keys for run in runs]))
    keys = keys[
        np.diff(keys, prepend=~keys[:1]) != 0
    ]  # `np.unique` would import numpy.ma, which takes 13 ms
    numbers_of_runs = [np.searchsorted(keys, run.keys) for run in runs]
    counts = np.zeros(len(keys), np.int64)
    for numbers, run in zip(numbers_of_runs, runs, strict=True):
        counts[numbers] += np.diff(run.starts)
    starts = np.concatenate(([0], np.cumsum(counts))).astype(np.int32)
    entry_count = starts[-1]
    joined = Run(
        keys,
        starts=starts,
        rows=np.empty(entry_count, np.int32),
        weights=np.empty(entry_count, np.float16),
    )
    next_entries = starts[:-1].copy()
    """The entry at which the next row of each key belongs."""
    for numbers, run in zip(numbers_of_runs, runs, strict=True):
        lengths = np.diff(run.starts)
        new_entries = np.repeat(next_entries[numbers] - run.starts[:-1], lengths)
        new_entries += np.arange(len(run.rows), dtype=np.int32)
        joined.rows[new_entries] = run.rows
        joined.weights[new_entries] = run.weights
        next_entries[numbers] += lengths
    return joined


def _key(gram: str) -> int:
    """The key of a pair or of a single character."""
    if len(gram) == 1:
        return ord(gram)
    return ord(gram[0]) << 16 | ord(gram[1])


@cache
def _kinds() -> npt.NDArray[np.uint8]:
    kinds = np.full(0x10000, _NONE, np.uint8)
    for ranges, kind in ((SYLLABLES, _SYLLABLE), (HAN, _HAN)):
        for first, last in ranges:
            kinds[ord(first) : ord(last) + 1] = kind
    kinds[[ord(char) for char in FUNCTION_CHARACTERS]] = _FUNCTION
    return kinds
