"""An index of short-term memories: for every word the memories that hold it, and their times and scores as columns.

Kept in step by following the changes that are applied to a conversation: an added memory costs as many steps as
it has keywords, a removed one leaves a tombstone, and the index is made anew when most of it is tombstones.
Knows no rule of recall; `selection.py` asks it. Imports numpy, so import it when a search needs it.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeAlias, assert_never

import numpy as np
import numpy.typing as npt

from memory_server.changes import (
    Added,
    Change,
    CleanedUp,
    Edited,
    Forgotten,
    Pinned,
    Reinforced,
    Restored,
    TriggerRemoved,
    TriggerSet,
    Unpinned,
)
from memory_server.model import ConversationState, ShortTermMemory
from memory_server.recall.relevance import Query

Floats: TypeAlias = npt.NDArray[np.float64]
Integers: TypeAlias = npt.NDArray[np.int64]
Mask: TypeAlias = npt.NDArray[np.bool_]

MIN_TOMBSTONES = 1_000
"""Tombstones below which the index is not made anew, however small it is."""


def index_of(state: ConversationState) -> Postings:
    """The index of the short-term memories of `state`, which follows it; made here where there is none."""
    index = state.follower
    if not isinstance(index, Postings) or index.overgrown():
        index = state.follower = Postings(state.short_term.values())
    return index


@dataclass(slots=True)
class _Posting:
    """The rows that hold one word, and the weight it has in each; appended to, never changed."""

    rows: array[int] = field(default_factory=lambda: array("q"))
    weights: array[float] = field(default_factory=lambda: array("d"))


class Postings:
    """The index of a conversation. A row is a memory, numbered in the order of adding; `ids[row]` names it.

    The arrays that the methods give are views or new arrays of one element per row, tombstones included, and
    must be let go of before the next change.
    """

    def __init__(self, memories: Iterable[ShortTermMemory] = ()) -> None:
        self.ids: list[str] = []
        self._rows: dict[str, int] = {}
        self._times = array("q")
        self._scores = array("d")
        self._alive = bytearray()
        self._origins = array("i")
        self._origin_numbers: dict[str, int] = {}
        # A record of another program may hold a word twice: its n-th occurrence is in the n-th table, because
        # adding to the same row twice in one step of numpy would count once.
        self._tables: list[dict[str, _Posting]] = [{}]
        # The rows by time, and their times, as they were when last asked for; None where a memory came out of turn.
        self._order: tuple[Integers, Integers] | None = None
        self._newest_ms: int | None = None
        for memory in memories:
            self._add(memory)

    def __len__(self) -> int:
        """Memories, without tombstones."""
        return len(self._rows)

    def follow(self, change: Change) -> None:
        """Do to the index what `changes.apply` does to the state."""
        match change:
            case Added(memory) | Restored(memory):
                self._remove(memory.id)
                self._add(memory)
            case Edited(memory):
                if memory.id in self._rows:
                    self._remove(memory.id)
                    self._add(memory)
            case Reinforced(id=memory_id, after=after):
                if (row := self._rows.get(memory_id)) is not None:
                    self._scores[row] = after
            case Forgotten(memory):
                self._remove(memory.id)
            case Pinned() | Unpinned() | TriggerSet() | TriggerRemoved() | CleanedUp():
                pass
            case _:
                assert_never(change)

    def row_of(self, memory_id: str) -> int | None:
        """The row of a memory; None for one that is not there."""
        return self._rows.get(memory_id)

    def overgrown(self) -> bool:
        """Whether most rows are tombstones, so that making the index anew pays."""
        return len(self.ids) - len(self._rows) > max(len(self._rows), MIN_TOMBSTONES)

    @property
    def times(self) -> Integers:
        """When each memory was made: milliseconds since 1970."""
        return np.frombuffer(self._times, np.int64)

    @property
    def scores(self) -> Floats:
        """Score points of each memory."""
        return np.frombuffer(self._scores, np.float64)

    def alive(self) -> Mask:
        """False for tombstones."""
        return np.frombuffer(self._alive, np.bool_)

    def of_conversation(self, conversation_id: str) -> Mask:
        """True for memories made in `conversation_id`."""
        origins: Mask = np.frombuffer(self._origins, np.int32) == self._origin_numbers.get(conversation_id, -1)
        return origins

    def match(self, query: Query) -> Floats:
        """For each memory the sum over common words of query weight and memory weight.

        Summed in the order of the query, `relevance.relevance` in that of the memory: they agree within 1e-12.
        """
        total = np.zeros(len(self.ids))
        for word, weight in query.items():
            for posting in self._holding(word):
                rows = np.frombuffer(posting.rows, np.int64)
                gained = np.frombuffer(posting.weights, np.float64) + weight
                # Taken and put back: half the time of adding in place by rows, and the same sums.
                gained += total.take(rows)
                total.put(rows, gained)
        return total

    def oldest_first(self) -> Integers:
        """The rows by time, then id: an order that does not depend on that of adding."""
        return self._ordered()[0]

    def oldest_first_times(self) -> Integers:
        """The times of the rows in that order."""
        return self._ordered()[1]

    def _ordered(self) -> tuple[Integers, Integers]:
        rows = len(self.ids)
        if self._order is None:
            order = np.argsort(self.times, kind="stable")
            sort_ties(order, self.times, self.ids.__getitem__)
            self._order = order, self.times[order]
        elif (known := len(self._order[0])) < rows:
            # What was added since came in turn: the order goes on with it.
            order, times = self._order
            added = np.arange(known, rows, dtype=order.dtype)
            self._order = np.concatenate((order, added)), np.concatenate((times, self.times[known:]))
        return self._order

    def _add(self, memory: ShortTermMemory) -> None:
        row = len(self.ids)
        self.ids.append(memory.id)
        self._rows[memory.id] = row
        self._times.append(memory.time_ms)
        self._scores.append(memory.score)
        self._alive.append(1)
        self._origins.append(self._origin_numbers.setdefault(memory.conversation_id, len(self._origin_numbers)))
        seen: dict[str, int] = {}
        for word, weight in zip(memory.words, memory.weights, strict=True):
            nth = seen.get(word, 0)
            seen[word] = nth + 1
            if nth == len(self._tables):
                self._tables.append({})
            posting = self._tables[nth].get(word)
            if posting is None:
                posting = self._tables[nth][word] = _Posting()
            posting.rows.append(row)
            posting.weights.append(weight)
        if self._newest_ms is not None and memory.time_ms <= self._newest_ms:
            self._order = None
        if self._newest_ms is None or memory.time_ms > self._newest_ms:
            self._newest_ms = memory.time_ms

    def _remove(self, memory_id: str) -> None:
        row = self._rows.pop(memory_id, None)
        if row is not None:
            self._alive[row] = 0

    def _holding(self, word: str) -> Iterator[_Posting]:
        for table in self._tables:
            if (posting := table.get(word)) is not None:
                yield posting


def sort_ties(order: Integers, times: Integers, key_of: Callable[[int], Any]) -> None:
    """Sort the runs of rows of one time by `key_of` the row, in place; `order` has the rows by time."""
    ordered = times[order]
    starts = np.flatnonzero(np.diff(ordered, prepend=ordered[:1] - 1)) if len(ordered) else ordered
    ends = np.append(starts[1:], len(ordered))
    for start, end in zip(starts[ends - starts > 1], ends[ends - starts > 1], strict=True):
        order[start:end] = sorted(order[start:end].tolist(), key=key_of)
