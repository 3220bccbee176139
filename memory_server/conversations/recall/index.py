"""An index of short-term memories: for every word the memories that hold it, and their times and scores as columns.

Kept in step by following the changes that are applied to a conversation: an added memory costs as many steps as
it has keywords, a removed one leaves a tombstone, and the index is made again when most of it is tombstones. A search
looks at the indexes of its conversations side by side (columns.py). It does not know the rules of recall. Imports
numpy, so import it when a search needs it.
"""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from functools import cache, partial
from itertools import chain, count, islice
from math import inf
from typing import Any, NamedTuple, TypeAlias, assert_never

import numpy as np
import numpy.typing as npt

from memory_server.conversations import changes
from memory_server.conversations.model import ConversationState, ShortTermMemory
from memory_server.conversations.recall.relevance import MOST_GRAM_WEIGHT, Vocabulary
from memory_server.conversations.recall.stored_grams import Run, stored, usable_run
from memory_server.conversations.recall.words import GramText, KeywordOptions
from memory_server.lore import TriggerRemoved, TriggerSet
from nlp import gram_weight
from nlp.stems import FUNCTION_CHARACTERS, HAN, SYLLABLES

Rows = npt.NDArray[np.int32]
Weights = npt.NDArray[np.float16]
Entries = npt.NDArray[np.uint64]
"""Grams in rows, each as one number: the key of the gram in the upper 32 bits, and the row in the lower ones."""
_ROW_BITS = np.uint64(32)
_ROW_MASK = np.uint64(0xFFFFFFFF)
_UNIT_BITS = np.uint64(16)
"""A key has two UTF-16 units: the first character's unit is in the upper bits."""

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


class GramIndex:
    """The grams of the rows of an `Index`; rows are added in ascending order, and none is taken out."""

    def __init__(self) -> None:
        self._runs: list[Run] = []
        self.first_run: Run | None = None
        """What was indexed at once, without the rows that were added later."""

    def fill(self, texts: Iterable[Sequence[GramText]], former: Run | None = None) -> None:
        """Index the texts of all rows in place of what was indexed. The rows of `former` come before
        them, and are indexed in it."""
        remaining = iter(texts)
        runs = [] if former is None else [former]
        first_row = 0 if former is None else former.row_count
        while True:
            batch = list(islice(remaining, _AT_ONCE))
            if not batch:
                break
            runs.append(_run_of(batch, first_row))
            first_row += len(batch)
        self.first_run = _joined(runs) if runs else None
        self._runs = [self.first_run] if self.first_run is not None else []

    def add(self, texts: Sequence[GramText], row: int) -> None:
        """Index the texts of a further row."""
        run = _run_of([texts], row)
        if not len(run.rows):
            return
        # Each short run is longer than the next, so there are few runs and entries move seldom.
        while self._runs and len(self._runs[-1].rows) <= len(run.rows) <= LONGEST_MERGED:
            run = _joined([self._runs.pop(), run])
        self._runs.append(run)

    def holding(self, grams: Sequence[str]) -> list[list[Holders]]:
        """Return for each gram its holders, in one or more parts with ascending rows; no part if
        nothing holds it."""
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
    """The grams in texts, without their rows: their keys, and the number of the text of each."""

    keys: Entries
    texts: npt.NDArray[np.int64]
    pair_counts: npt.NDArray[np.int64]
    """The number of pairs in each text, function characters included."""


def _run_of(texts: Sequence[Sequence[GramText]], first_row: int) -> Run:
    """Return the pairs of characters in these texts, one list of texts for each row from
    `first_row` on, with the weight of each pair in a row. Pairs that are words of their text are
    left out."""
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

    # A gram that comes several times in a memory is one entry, with the sum of its weights.
    occurrences = grams.keys << _ROW_BITS | rows[grams.texts]
    order = np.argsort(occurrences)
    occurrences = occurrences[order]
    starts = np.flatnonzero(_differs_from_last(occurrences))
    entries = occurrences[starts]
    sums = np.add.reduceat(weight_of_text[grams.texts[order]], starts) if len(starts) else starts
    weights = np.minimum(sums, MOST_GRAM_WEIGHT).astype(np.float16)

    is_no_word = ~_is_among(entries, _entries_of_words(row_texts))
    entries = entries[is_no_word]
    weights = weights[is_no_word]

    keys = entries >> _ROW_BITS
    starts = np.flatnonzero(_differs_from_last(keys))
    return Run(
        first_row + len(texts),
        keys[starts].astype(np.uint32),
        starts=np.append(starts, len(entries)).astype(np.int32),
        rows=(entries & _ROW_MASK).astype(np.int32),
        weights=weights,
    )


def _differs_from_last(ascending: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    """Mark the first of each run of equal numbers. `np.unique` would import numpy.ma, which takes 13 ms."""
    is_first = np.ones(len(ascending), np.bool_)
    np.not_equal(ascending[1:], ascending[:-1], out=is_first[1:])
    return is_first


def _grams_in(texts: Sequence[str]) -> _Grams:
    """Return the grams in these texts, which are pairs, but not of two function characters, and
    single Han characters; with the text of each and the number of pairs in each text."""
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
    """Return the entries of the pairs that are words of their memory, and so are not indexed as pairs; some may come
    twice."""
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
    """Mark which of the ascending `entries` are `sought`."""
    is_sought = np.zeros(len(entries), np.bool_)
    numbers = np.searchsorted(entries, sought)
    is_within = numbers < len(entries)
    numbers = numbers[is_within]
    is_equal = entries[numbers] == sought[is_within]
    is_sought[numbers[is_equal]] = True
    return is_sought


def _joined(runs: Sequence[Run]) -> Run:
    """Return one run of at least one run, in the order of their rows. Rows keep their numbers, which are those of the
    index, so the row count of the last run is that of all. A single run is returned as it is."""
    if len(runs) == 1:
        return runs[0]
    keys = np.sort(np.concatenate([run.keys for run in runs]))
    keys = keys[_differs_from_last(keys)]

    # Each run keeps its order; only the places of its entries are computed.
    numbers_of_runs = [np.searchsorted(keys, run.keys) for run in runs]
    counts = np.zeros(len(keys), np.int64)

    for numbers, run in zip(numbers_of_runs, runs, strict=True):
        counts[numbers] += np.diff(run.starts)
    starts = np.concatenate(([0], np.cumsum(counts))).astype(np.int32)
    entry_count = starts[-1]

    joined = Run(
        runs[-1].row_count,
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
    """Return the key of a pair or of a single character."""
    if len(gram) == 1:
        return ord(gram)
    return ord(gram[0]) << 16 | ord(gram[1])


@cache
def _kinds() -> npt.NDArray[np.uint8]:
    """Return the kind of each UTF-16 unit, by its number."""
    kinds = np.full(0x10000, _NONE, np.uint8)
    for ranges, kind in ((SYLLABLES, _SYLLABLE), (HAN, _HAN)):
        for first, last in ranges:
            kinds[ord(first) : ord(last) + 1] = kind
    kinds[[ord(char) for char in FUNCTION_CHARACTERS]] = _FUNCTION
    return kinds


Floats: TypeAlias = npt.NDArray[np.float64]
Integers: TypeAlias = npt.NDArray[np.int64]
Mask: TypeAlias = npt.NDArray[np.bool_]

LEAST_STORED = 1_000
"""With fewer memories, pairs of characters are found as soon as a file of them is read."""
_STORED_AGAIN = 1.2
"""The growth after which they are stored again: finding those of a sixth of the memories takes little time."""
MIN_TOMBSTONES = 1_000
"""With fewer tombstones than this, the index is not made again."""


class Occurrences(NamedTuple):
    """The occurrences of the terms of a query: one element for each term and memory that holds it, the terms in turn
    and the rows of each ascending. A record of another program may hold a word twice: then it is here twice."""

    terms: Integers
    rows: Integers
    weights: Floats
    """The weight of the term in the memory."""


class Timeline(NamedTuple):
    """The memories by time, then id, without tombstones, in episodes that are numbered from 0."""

    rows: Integers | None
    """The row of each memory, or None if the memories are all rows in their order."""
    episode: Integers
    """The episode of each memory."""
    together: Mask
    """Whether each memory but the last is of the same episode as the next one."""
    episode_of: Integers
    """The episode of each row."""


def timeline_of(rows: Integers | None, episode: Integers, row_count: int) -> Timeline:
    """Make the timeline of these rows out of `row_count`, with their episodes."""
    together = episode[1:] == episode[:-1]
    if rows is None:
        return Timeline(rows, episode, together, episode_of=episode)
    episode_of = np.zeros(row_count, np.int64)
    episode_of[rows] = episode
    return Timeline(rows, episode, together, episode_of)


def index_of(state: ConversationState, wording: KeywordOptions | None = None) -> Index:
    """Return the index of the short-term memories of `state`, which follows it. Make it if the state has none, or if
    most of its rows are tombstones; without `wording` it has no pairs of characters."""
    index = state.follower
    if isinstance(index, Index) and not index.is_mostly_tombstones:
        return index
    new_index = Index(state.short_term.values(), wording)
    state.follower = new_index
    return new_index


class Labels:
    """A column with few different values, each as its number."""

    def __init__(self) -> None:
        self._numbers: dict[str | None, int] = {}
        self._rows = array("i")

    def append(self, label: str | None) -> None:
        self._rows.append(self._numbers.setdefault(label, len(self._numbers)))

    def equal(self, label: str | None) -> Mask:
        """Mark the rows that have this label."""
        has_label: Mask = np.frombuffer(self._rows, np.int32) == self._numbers.get(label, -1)
        return has_label


class Index:
    """The index of a conversation. A row is a memory: `ids[row]` names it, `rows[id]` is its row unless it is a
    tombstone. The rows of the memories with which the index was made are numbered by time, then id; later ones in the
    order of adding. `wording` says whether pairs of characters are indexed too. The methods return views or new
    arrays with an element per row, tombstones included; do not keep them after the next change."""

    def __init__(
        self,
        memories: Iterable[ShortTermMemory] = (),
        wording: KeywordOptions | None = None,
        stored_grams: bytes | None = None,
    ) -> None:
        """Index these memories, in the order of their times, then ids; their pairs of characters only if `wording`
        says that pairs count. `stored_grams`: the pairs of characters of some of them, as `grams_to_store` gives
        them."""
        self.ids: list[str] = []
        self.rows: dict[str, int] = {}
        self._times = array("q")
        self._scores = array("d")
        self._alive = bytearray()

        self.conversations = Labels()
        """The conversation in which each memory was made."""
        self.sessions = Labels()
        """The session in which each memory was made."""
        self.forms = Labels()
        """The options with which the words of each memory were found."""

        # The posting lists of the first rows, one behind the other: each row that holds a word, with its weight there.
        self._postings: Floats = np.zeros((0, 2))
        self._posted: dict[str, slice] = {}
        """Where the posting list of each word is."""
        # The posting lists of later rows: the rows that hold a word, each followed by its weight there. They are
        # appended to, and never changed. A single array, because most words are in few memories and an empty array
        # takes 80 bytes.
        self._later_postings: dict[str, array[float]] = {}
        self.vocabulary = Vocabulary()
        """The words that a memory has, or had."""

        self.muted: dict[str, tuple[str, ...]] = {}
        """The places in which memories are muted, by id."""
        self.correcting: set[str] = set()
        """The ids of memories that correct others."""

        self.keeps_words = False
        """Whether words that are not in its text are kept with a memory, or were."""
        self.speakers: dict[str, None] = {}
        """The names of the speakers in the memories, also of former ones."""
        self.users: dict[str, None] = {}
        """The names of the speakers who speak as users."""

        self._wording = wording if wording is not None and wording.grams else None
        self._grams = GramIndex()
        self._stored_rows = 0
        """The first rows, of which a file had the pairs of characters."""
        # The rows by time, and their times, as last computed. It is None if a memory was added out of order since.
        self._order: tuple[Integers, Integers] | None = None
        self._newest_ms = -inf
        self.in_turn = True
        """Whether the rows are ordered by time."""
        self._timeline: Timeline | None = None
        """The timeline that was last computed, with the pause below. It is None if a memory came or went since."""
        self._timeline_pause_ms = 0

        in_time = sorted(memories, key=lambda memory: (memory.time_ms, memory.id))
        for memory in in_time:
            self._add_row(memory)
        self._post_words(in_time)
        if self._wording is not None:
            former = None
            if stored_grams is not None:
                former = usable_run(stored_grams, in_time, self._wording)
            self._stored_rows = 0 if former is None else former.row_count
            remaining = in_time[self._stored_rows :]
            self._grams.fill(map(self._wording.gram_texts, remaining), former)

    def grams_to_store(self, state: ConversationState) -> Callable[[], bytes] | None:
        """Return a function that makes the file of the pairs of characters of `state`. Return None if this is not its
        index any more, or if a file would save no time, or would have what was removed since."""
        run = self._grams.first_run
        if state.follower is not self or self.has_tombstones or not (run and self._wording):
            return None
        if run.row_count < max(LEAST_STORED, self._stored_rows * _STORED_AGAIN):
            return None
        rows = [state.short_term[memory_id] for memory_id in self.ids[: run.row_count]]
        return partial(stored, run, rows, self._wording)

    def __len__(self) -> int:
        """Memories, without tombstones."""
        return len(self.rows)

    @property
    def has_tombstones(self) -> bool:
        return len(self.ids) > len(self.rows)

    @property
    def is_mostly_tombstones(self) -> bool:
        """Whether it is worth while to make the index again."""
        tombstone_count = len(self.ids) - len(self.rows)
        return tombstone_count > max(len(self.rows), MIN_TOMBSTONES)

    def follow(self, change: changes.Change) -> None:
        """Change the index as `changes.apply` changes the state: add, remove or replace the row of
        the memory, its score or its mutes. Changes of long-term memories and of pins do nothing."""
        match change:
            case changes.Added(memory) | changes.Restored(memory):
                self._remove(memory.id)
                self._add(memory)
            case changes.Edited(memory):
                if memory.id in self.rows:
                    self._remove(memory.id)
                    self._add(memory)
            case changes.Reinforced(id=memory_id, after=after):
                row = self.rows.get(memory_id)
                if row is not None:
                    self._scores[row] = after
            case changes.Forgotten(memory):
                self._remove(memory.id)
            case changes.Muted(id=memory_id, after=places):
                if memory_id in self.rows:
                    self.muted[memory_id] = places
            case changes.Pinned() | changes.Unpinned() | changes.CleanedUp():
                pass
            case TriggerSet() | TriggerRemoved() | changes.ChatMoved():
                pass
            case _:
                assert_never(change)

    @property
    def times(self) -> Integers:
        """When each memory was made: milliseconds since 1970."""
        return np.frombuffer(self._times, np.int64)

    @property
    def scores(self) -> Floats:
        """Score points of each memory."""
        return np.frombuffer(self._scores, np.float64)

    def holds(self, word: str) -> bool:
        """Return whether a memory has this word."""
        posting_lists = self._posting_lists(word)
        if not self.has_tombstones:
            return bool(posting_lists)
        return any(self._alive[int(row)] for pairs in posting_lists for row in pairs[:, 0])

    def alive(self) -> Mask:
        """Mark all rows but tombstones."""
        return np.frombuffer(self._alive, np.bool_)

    def occurrences(self, words: Sequence[str], grams: Sequence[str] = ()) -> Occurrences:
        """Find these words, and after them these pairs of characters; the terms are numbered in this order. Tombstones
        are left out. A memory of another program may have a word twice."""
        rows: list[npt.NDArray[Any]] = []
        weights: list[npt.NDArray[Any]] = []
        lengths = np.zeros(len(words) + len(grams), np.int64)

        for term, word in enumerate(words):
            for pairs in self._posting_lists(word):
                rows.append(pairs[:, 0])
                weights.append(pairs[:, 1])
                lengths[term] += len(pairs)

        # Pairs are numbered after all words.
        for term, holders in enumerate(self._grams.holding(grams), len(words)):
            for part in holders:
                rows.append(part.rows)
                weights.append(part.weights)
                lengths[term] += len(part.rows)

        all_terms = np.repeat(np.arange(len(lengths)), lengths)
        if not rows:
            return Occurrences(all_terms, np.zeros(0, np.int64), np.zeros(0))
        all_rows = np.concatenate(rows).astype(np.int64)
        all_weights = np.concatenate(weights).astype(np.float64)

        # Tombstones cost a look at every occurrence, and most indexes have none.
        if not self.has_tombstones:
            return Occurrences(all_terms, all_rows, all_weights)
        is_alive = self.alive()[all_rows]
        return Occurrences(all_terms[is_alive], all_rows[is_alive], all_weights[is_alive])

    def timeline(self, pause_ms: int) -> Timeline:
        """Return the memories by time, in episodes that end where a pause is longer than `pause_ms`. The last answer
        is remembered until a memory comes or goes."""
        if self._timeline is not None and self._timeline_pause_ms == pause_ms:
            return self._timeline
        ordered, times = self.oldest_first()
        is_whole = self.in_turn and not self.has_tombstones
        if not is_whole:
            is_alive = self.alive()[ordered]
            ordered = ordered[is_alive]
            times = times[is_alive]
        begins = np.diff(times, prepend=times[:1]) > pause_ms
        rows = None if is_whole else ordered
        self._timeline = timeline_of(rows, np.cumsum(begins), len(self.ids))
        self._timeline_pause_ms = pause_ms
        return self._timeline

    def oldest_first(self) -> tuple[Integers, Integers]:
        """Return the rows by time, then id, and their times. This order does not depend on the order of adding."""
        if self._order is None:
            order = np.argsort(self.times, kind="stable")
            sort_ties(order, self.times, self.ids.__getitem__)
            self._order = order, self.times[order]
            return self._order
        order, times = self._order
        ordered_count = len(order)
        if ordered_count < len(self.ids):
            # Rows added since then came in order: append them.
            added = np.arange(ordered_count, len(self.ids), dtype=order.dtype)
            self._order = (
                np.concatenate((order, added)),
                np.concatenate((times, self.times[ordered_count:])),
            )
        return self._order

    def _add(self, memory: ShortTermMemory) -> None:
        """Add the row of a memory, with its words and pairs of characters."""
        self._add_words(memory)
        if self._wording is not None:
            self._grams.add(self._wording.gram_texts(memory), len(self.ids) - 1)

    def _post_words(self, memories: Sequence[ShortTermMemory]) -> None:
        """Make the posting lists of all rows, which are these memories: in columns, because word by word takes three
        times as long."""
        number_of: defaultdict[str, int] = defaultdict(count().__next__)
        words = chain.from_iterable(memory.words for memory in memories)
        numbers = np.fromiter(map(number_of.__getitem__, words), np.int64)
        weights = np.fromiter(
            chain.from_iterable(memory.weights for memory in memories), np.float64
        )

        # A stable sort keeps the rows of each word in their order.
        rows = np.repeat(np.arange(len(memories)), [len(memory.words) for memory in memories])
        order = np.argsort(numbers, kind="stable")
        self._postings = np.column_stack((rows[order], weights[order]))
        ends = np.cumsum(np.bincount(numbers, minlength=len(number_of))).tolist()
        self._posted = dict(zip(number_of, map(slice, [0, *ends], ends), strict=False))
        self.vocabulary = Vocabulary(number_of)

    def _posting_lists(self, word: str) -> list[Floats]:
        """Return the rows that hold a word, ascending, each with its weight there, in one part or two."""
        posting_lists: list[Floats] = []
        if word in self._posted:
            posting_lists.append(self._postings[self._posted[word]])
        if word in self._later_postings:
            later = np.frombuffer(self._later_postings[word], np.float64)
            posting_lists.append(later.reshape(-1, 2))
        return posting_lists

    def _add_words(self, memory: ShortTermMemory) -> None:
        """Add the row of a memory, with its words."""
        row = len(self.ids)
        self._add_row(memory)
        for word, weight in zip(memory.words, memory.weights, strict=True):
            posting_list = self._later_postings.get(word)
            if posting_list is None:
                posting_list = self._later_postings[word] = array("d")
                if word not in self._posted:
                    self.vocabulary.add(word)
            posting_list.append(row)
            posting_list.append(weight)

    def _add_row(self, memory: ShortTermMemory) -> None:
        """Append a row with the columns of a memory, its mutes and its speakers, but not its words.
        Its order by time is computed again later if the memory is not newer than all others."""
        row = len(self.ids)
        self.ids.append(memory.id)
        self.rows[memory.id] = row
        self._times.append(memory.time_ms)
        self._scores.append(memory.score)
        self._alive.append(1)
        self.conversations.append(memory.conversation_id)
        self.sessions.append(memory.session)
        self.forms.append(memory.indexed_with)

        if memory.muted:
            self.muted[memory.id] = memory.muted
        if memory.corrects:
            self.correcting.add(memory.id)
        self.keeps_words |= bool(memory.other_words)

        for message in memory.messages:
            if message.name:
                self.speakers[message.name] = None
                if message.role == "user":
                    self.users[message.name] = None

        # The new memory may begin an episode, or lengthen the last one.
        self._timeline = None

        # Not newer than all others, so the order by time must be computed again.
        if memory.time_ms <= self._newest_ms:
            self._order = None
            self.in_turn &= memory.time_ms == self._newest_ms
        self._newest_ms = max(self._newest_ms, memory.time_ms)

    def _remove(self, memory_id: str) -> None:
        """Make the row of a memory a tombstone, if it has one. Its words and pairs stay where they are posted."""
        row = self.rows.pop(memory_id, None)
        if row is not None:
            self._alive[row] = 0
            self.muted.pop(memory_id, None)
            self.correcting.discard(memory_id)
            self._timeline = None


def sort_ties(order: Integers, times: Integers, key_of: Callable[[int], Any]) -> None:
    """Sort each run of rows with the same time by `key_of` the row, in place; `order` has the rows by time."""
    if not len(order):
        return
    ordered_times = times[order]
    starts = np.flatnonzero(np.diff(ordered_times, prepend=ordered_times[:1] - 1))
    ends = np.append(starts[1:], len(ordered_times))
    is_tie = ends - starts > 1
    for start, end in zip(starts[is_tie], ends[is_tie], strict=True):
        order[start:end] = sorted(order[start:end].tolist(), key=key_of)
