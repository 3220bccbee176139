"""An index of the character pairs and single Han characters of many memories: made in one pass, searched in few steps.

A memory has three times as many of them as words, so they are kept in a few sorted runs of columns, 6 bytes for each;
a short run is merged with the one before it as soon as it is as long. nlp/grams.py says what they are.
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
from nlp.grams import FUNCTION_CHARACTERS, HAN, SYLLABLES

Rows = npt.NDArray[np.int32]
Weights = npt.NDArray[np.float16]

_AT_ONCE = 500
"""Memories whose pairs are found in one step: columns of a few megabytes."""
LONGEST_MERGED = 20_000
"""Entries of a run above which it is not merged any more: a memory is added in the event loop, and merging two runs of
this length takes some 5 ms."""
_FIRST_OF_PAIR, _LAST_OF_PAIR = 0x3041, 0xFFFF
"""Characters of a word that may be an indexed pair; other words cannot be in the index."""

_NONE, _SYLLABLE, _HAN, _FUNCTION = range(4)
"""Kinds of characters: not indexed, kana or Hangul, Han, or a function character."""


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
        of_rows, runs, row = iter(texts), [], 0
        while batch := list(islice(of_rows, _AT_ONCE)):
            runs.append(_run_of(batch, row))
            row += len(batch)
        self._runs = [_joined(runs)] if runs else []

    def add(self, texts: Sequence[GramText], row: int) -> None:
        run = _run_of([texts], row)
        if not len(run.rows):
            return
        # Each short run is longer than the next, so there are few runs and entries move seldom.
        while self._runs and len(self._runs[-1].rows) <= len(run.rows) <= LONGEST_MERGED:
            run = _joined([self._runs.pop(), run])
        self._runs.append(run)

    def holding(self, grams: Sequence[str]) -> list[list[tuple[Rows, Weights]]]:
        """For each gram the rows that hold it, ascending, with its weight in each row, in one or more parts."""
        found: list[list[tuple[Rows, Weights]]] = [[] for _ in grams]
        wanted = np.array([_key(gram) for gram in grams], np.uint32)
        for run in self._runs:
            places = np.searchsorted(run.keys, wanted)
            places[places == len(run.keys)] = 0
            held = run.keys[places] == wanted if len(run.keys) else np.zeros(0, np.bool_)
            for number in np.flatnonzero(held).tolist():
                part = slice(run.starts[places[number]], run.starts[places[number] + 1])
                found[number].append((run.rows[part], run.weights[part]))
        return found


def _run_of(texts: Sequence[Sequence[GramText]], first_row: int) -> Run:
    parts = [(row, part) for row, of_row in enumerate(texts, first_row) for part in of_row]
    # A line break between two texts is not an indexed character, so no gram spans two texts.
    encoded = [(part.text + "\n").encode("utf-16-le", "surrogatepass") for _, part in parts]
    units = np.frombuffer(b"".join(encoded), np.uint16)
    kind = _kinds()[units]
    of_unit = np.repeat(np.arange(len(parts)), [len(text) // 2 for text in encoded])
    joined = (kind[:-1] > _NONE) & (kind[1:] > _NONE)
    pairs = np.bincount(of_unit[:-1][joined], minlength=len(parts))
    first = np.flatnonzero(joined & ~((kind[:-1] == _FUNCTION) & (kind[1:] == _FUNCTION)))
    single = np.flatnonzero(kind == _HAN)
    wide = units.astype(np.uint64)
    keys = np.concatenate((wide[first] << np.uint64(16) | wide[first + 1], wide[single]))
    of_key = np.concatenate((of_unit[first], of_unit[single]))
    rows = np.array([row for row, _ in parts], np.uint64)
    each = np.array([part.role_weight * gram_weight(int(n)) for (_, part), n in zip(parts, pairs, strict=True)])
    entries, entry = np.unique(keys << np.uint64(32) | rows[of_key], return_inverse=True)
    weights = np.minimum(np.bincount(entry, each[of_key], len(entries)), MOST_GRAM_WEIGHT).astype(np.float16)
    left = ~_among(_entries_of_words(parts), entries)
    entries, weights = entries[left], weights[left]
    of_row, starts = np.unique(entries >> np.uint64(32), return_index=True)
    return Run(
        of_row.astype(np.uint32),
        np.append(starts, len(entries)).astype(np.int32),
        (entries & np.uint64(0xFFFFFFFF)).astype(np.int32),
        weights,
    )


def _entries_of_words(parts: Sequence[tuple[int, GramText]]) -> npt.NDArray[np.uint64]:
    """The entries of the pairs that are words of their memory, and so are not indexed as pairs; some may come twice."""
    words_of_parts = [[word for word in part.words if len(word) == 2] for _, part in parts]
    text = "".join(map("".join, words_of_parts))
    characters = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32).reshape(-1, 2).astype(np.uint64)
    rows = np.repeat(np.array([row for row, _ in parts], np.uint64), list(map(len, words_of_parts)))
    pairs = np.all((characters >= _FIRST_OF_PAIR) & (characters <= _LAST_OF_PAIR), axis=1)
    first, second = characters[pairs].T
    entries: npt.NDArray[np.uint64] = first << np.uint64(48) | second << np.uint64(32) | rows[pairs]
    return entries


def _among(sought: npt.NDArray[np.uint64], entries: npt.NDArray[np.uint64]) -> npt.NDArray[np.bool_]:
    """Which of the ascending `entries` are `sought`."""
    found = np.zeros(len(entries), np.bool_)
    places = np.searchsorted(entries, sought)
    within = places < len(entries)
    places, sought = places[within], sought[within]
    found[places[entries[places] == sought]] = True
    return found


def _joined(runs: Sequence[Run]) -> Run:
    """One run of several whose rows follow each other."""
    keys = np.sort(np.concatenate([run.keys for run in runs]))
    keys = keys[np.diff(keys, prepend=~keys[:1]) != 0]  # `np.unique` would import numpy.ma, which takes 13 ms
    places = [np.searchsorted(keys, run.keys) for run in runs]
    counts = np.zeros(len(keys), np.int64)
    for place, run in zip(places, runs, strict=True):
        counts[place] += np.diff(run.starts)
    starts = np.concatenate(([0], np.cumsum(counts))).astype(np.int32)
    whole = Run(keys, starts, np.empty(starts[-1], np.int32), np.empty(starts[-1], np.float16))
    next_of = starts[:-1].copy()
    for place, run in zip(places, runs, strict=True):
        lengths = np.diff(run.starts)
        into = np.repeat(next_of[place] - run.starts[:-1], lengths)
        into += np.arange(len(run.rows), dtype=np.int32)
        whole.rows[into] = run.rows
        whole.weights[into] = run.weights
        next_of[place] += lengths
    return whole


def _key(gram: str) -> int:
    first, *rest = map(ord, gram)
    return first << 16 | rest[0] if rest else first


@cache
def _kinds() -> npt.NDArray[np.uint8]:
    kinds = np.full(0x10000, _NONE, np.uint8)
    for ranges, kind in ((SYLLABLES, _SYLLABLE), (HAN, _HAN)):
        for first, last in ranges:
            kinds[ord(first) : ord(last) + 1] = kind
    kinds[[ord(char) for char in FUNCTION_CHARACTERS]] = _FUNCTION
    return kinds
