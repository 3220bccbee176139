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
from itertools import chain, count
from math import inf
from typing import Any, NamedTuple, TypeAlias, TypeVar, assert_never

import numpy as np
import numpy.typing as npt

from memory_server.conversations import changes
from memory_server.conversations.model import ConversationState, ShortTermMemory
from memory_server.conversations.recall.gram_index import GramIndex
from memory_server.conversations.recall.typos import Vocabulary
from memory_server.conversations.recall.words import KeywordOptions
from memory_server.lore import TriggerRemoved, TriggerSet

Floats: TypeAlias = npt.NDArray[np.float64]
Integers: TypeAlias = npt.NDArray[np.int64]
Mask: TypeAlias = npt.NDArray[np.bool_]
Number = TypeVar("Number", bound=np.generic)

MIN_TOMBSTONES = 1_000
"""With fewer tombstones than this, the index is not made again."""


class Occurrences(NamedTuple):
    """Where the terms of a query stand: one element for each term and memory that holds it, the terms in turn and the
    rows of each ascending. A record of another program may hold a word twice: then it is here twice."""

    terms: Integers
    rows: Integers
    weights: Floats
    """The weight of the term in the memory."""


class Timeline(NamedTuple):
    """The memories by time, then id, without tombstones, in episodes that are numbered from 0."""

    rows: Integers | None
    """The row of each memory; None: the memories are all rows in their order."""
    episode: Integers
    """The episode of each memory."""
    together: Mask
    """Whether each memory but the last is of the same episode as the next one."""
    episode_of: Integers
    """The episode of each row."""


def timeline_of(rows: Integers | None, episode: Integers, row_count: int) -> Timeline:
    """The timeline of these rows out of so many, with their episodes."""
    together = episode[1:] == episode[:-1]
    if rows is None:
        return Timeline(rows, episode, together, episode_of=episode)
    episode_of = np.zeros(row_count, np.int64)
    episode_of[rows] = episode
    return Timeline(rows, episode, together, episode_of)


def index_of(state: ConversationState, wording: KeywordOptions | None = None) -> Index:
    """The index of the short-term memories of `state`, which follows it; made here if it has none, or if most of its
    rows are tombstones."""
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
        """Which rows have this label."""
        has_label: Mask = np.frombuffer(self._rows, np.int32) == self._numbers.get(label, -1)
        return has_label


class Index:
    """The index of a conversation. A row is a memory: `ids[row]` names it, `rows[id]` is its row unless it is a
    tombstone. The rows of the memories with which the index was made are numbered by time, then id; later ones in the
    order of adding. `wording` says whether pairs of characters are indexed too. The methods return views or new arrays
    of one element per row, tombstones included; do not keep them after the next change."""

    def __init__(
        self, memories: Iterable[ShortTermMemory] = (), wording: KeywordOptions | None = None
    ) -> None:
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
        # The posting list of each word: the rows that hold it, each followed by its weight there; appended to, never
        # changed. One array, because most words stand in few memories and an empty array takes 80 bytes.
        self._posting_lists: dict[str, array[float]] = {}
        self.vocabulary = Vocabulary()
        """The words that a memory has, or had."""
        self.muted: dict[str, tuple[str, ...]] = {}
        """The places in which memories are muted, by id."""
        self.keeps_words = False
        """Whether words that are not in its text are kept with a memory, or were."""
        self.speakers: dict[str, None] = {}
        """The names of those who speak in the memories, or did."""
        self.users: dict[str, None] = {}
        """Those of the speakers who speak as users."""
        self._wording = wording if wording is not None and wording.grams else None
        self._grams = GramIndex()
        # The rows by time, and their times, as last computed; None if a memory was added out of order since.
        self._order: tuple[Integers, Integers] | None = None
        self._newest_ms = -inf
        self.in_turn = True
        """Whether the rows are ordered by time."""
        self._timeline: Timeline | None = None
        """The timeline that was last computed, with the pause below; None if a memory came or went since."""
        self._timeline_pause_ms = 0
        in_time = sorted(memories, key=lambda memory: (memory.time_ms, memory.id))
        for memory in in_time:
            self._add_row(memory)
        self._post_words(in_time)
        if self._wording is not None:
            self._grams.fill(map(self._wording.gram_texts, in_time))

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
        """Do to the index what `changes.apply` does to the state."""
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
        """Whether a memory has this word."""
        posting_list = self._posting_lists.get(word)
        if posting_list is None:
            return False
        if not self.has_tombstones:
            return True
        return any(self._alive[int(row)] for row in posting_list[::2])

    def alive(self) -> Mask:
        """False for tombstones."""
        return np.frombuffer(self._alive, np.bool_)

    def occurrences(self, words: Sequence[str], grams: Sequence[str] = ()) -> Occurrences:
        """Where these words stand, and after them these pairs of characters; the terms are numbered in this order."""
        rows: list[npt.NDArray[Any]] = []
        weights: list[npt.NDArray[Any]] = []
        lengths = np.zeros(len(words) + len(grams), np.int64)
        for term, word in enumerate(words):
            posting_list = self._posting_lists.get(word)
            if posting_list is not None:
                pairs = np.frombuffer(posting_list, np.float64).reshape(-1, 2)
                rows.append(pairs[:, 0])
                weights.append(pairs[:, 1])
                lengths[term] = len(pairs)
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
        if not self.has_tombstones:
            return Occurrences(all_terms, all_rows, all_weights)
        is_alive = self.alive()[all_rows]
        return Occurrences(all_terms[is_alive], all_rows[is_alive], all_weights[is_alive])

    def timeline(self, pause_ms: int) -> Timeline:
        """The memories by time, in episodes that end where a pause is longer than `pause_ms`."""
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
        """The rows by time, then id, an order that does not depend on that of adding; and their times."""
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
        rows = np.repeat(np.arange(len(memories)), [len(memory.words) for memory in memories])
        order = np.argsort(numbers, kind="stable")
        pairs = np.column_stack((rows, weights))[order]
        ends = np.cumsum(np.bincount(numbers, minlength=len(number_of))).tolist()
        start = 0
        for word, end in zip(number_of, ends, strict=True):
            posting_list = array("d")
            posting_list.frombytes(pairs[start:end].tobytes())
            self._posting_lists[word] = posting_list
            self.vocabulary.add(word)
            start = end

    def _add_words(self, memory: ShortTermMemory) -> None:
        """Add the row of a memory, with its words."""
        row = len(self.ids)
        self._add_row(memory)
        for word, weight in zip(memory.words, memory.weights, strict=True):
            posting_list = self._posting_lists.get(word)
            if posting_list is None:
                posting_list = array("d")
                self._posting_lists[word] = posting_list
                self.vocabulary.add(word)
            posting_list.append(row)
            posting_list.append(weight)

    def _add_row(self, memory: ShortTermMemory) -> None:
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
        self.keeps_words |= bool(memory.other_words)
        for message in memory.messages:
            if message.name:
                self.speakers[message.name] = None
                if message.role == "user":
                    self.users[message.name] = None
        self._timeline = None
        if memory.time_ms <= self._newest_ms:
            self._order = None
            self.in_turn &= memory.time_ms == self._newest_ms
        self._newest_ms = max(self._newest_ms, memory.time_ms)

    def _remove(self, memory_id: str) -> None:
        row = self.rows.pop(memory_id, None)
        if row is not None:
            self._alive[row] = 0
            self.muted.pop(memory_id, None)
            self._timeline = None


def sort_ties(order: Integers, times: Integers, key_of: Callable[[int], Any]) -> None:
    """Sort the runs of rows of one time by `key_of` the row, in place; `order` has the rows by time."""
    if not len(order):
        return
    ordered_times = times[order]
    starts = np.flatnonzero(np.diff(ordered_times, prepend=ordered_times[:1] - 1))
    ends = np.append(starts[1:], len(ordered_times))
    is_tie = ends - starts > 1
    for start, end in zip(starts[is_tie], ends[is_tie], strict=True):
        order[start:end] = sorted(order[start:end].tolist(), key=key_of)
