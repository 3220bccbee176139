"""What one search looks at, as columns: the memories of one conversation, or of several side by side.

A row is a memory, tombstones included. The columns of one conversation are views of its index, and must be let go of
before its next change. Knows no rule of recall.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from memory_server.model import ShortTermMemory
from memory_server.recall.postings import Floats, Integers, Mask, Postings, sort_ties
from memory_server.recall.relevance import Query

Number = TypeVar("Number", bound=np.generic)


@dataclass(frozen=True, slots=True)
class Searched:
    """The memories of a conversation and their index. `conversation_id` is where they are kept; None for a search of
    that conversation alone."""

    memories: Mapping[str, ShortTermMemory]
    index: Postings
    conversation_id: str | None = None


class Columns:
    """The rows of all that is searched, one conversation after the other."""

    def __init__(self, searched: Sequence[Searched]) -> None:
        self._searched = searched
        self._starts = list(accumulate((len(part.index.ids) for part in searched), initial=0))
        self.times: Integers = _side_by_side([part.index.times for part in searched])
        self.scores: Floats = _side_by_side([part.index.scores for part in searched])
        self.alive: Mask = _side_by_side([part.index.alive() for part in searched])

    def __len__(self) -> int:
        """Memories, without tombstones."""
        return sum(len(part.index) for part in self._searched)

    def of_conversation(self, conversation_id: str) -> Mask:
        """True for memories made in `conversation_id`."""
        return _side_by_side([part.index.of_conversation(conversation_id) for part in self._searched])

    def match(self, query: Query) -> Floats:
        """For each memory the sum over common words of query weight and memory weight."""
        return _side_by_side([part.index.match(query) for part in self._searched])

    def oldest_first(self) -> Integers:
        """The rows by time, then id: an order that does not depend on that of the store."""
        if len(self._searched) == 1:
            return self._searched[0].index.oldest_first()
        parts = zip(self._searched, self._starts, strict=False)
        order = np.concatenate([part.index.oldest_first() + start for part, start in parts])
        order = order[np.argsort(self.times[order], kind="stable")]
        sort_ties(order, self.times, self.name_of)
        return order

    def oldest_first_times(self) -> Integers:
        """The times of the rows as `oldest_first` orders them."""
        if len(self._searched) == 1:
            return self._searched[0].index.oldest_first_times()
        return self.times[self.oldest_first()]

    def name_of(self, row: int) -> tuple[str, int]:
        """Id of the memory, and the number of its conversation: two may hold the same id."""
        number = bisect_right(self._starts, row) - 1
        return self._searched[number].index.ids[row - self._starts[number]], number

    def row_of(self, memory_id: str) -> int | None:
        """The row of a memory, in the first conversation that holds it; None for none."""
        for part, start in zip(self._searched, self._starts, strict=False):
            if (row := part.index.row_of(memory_id)) is not None:
                return start + row
        return None

    def nearest(self, query: Query) -> tuple[float, int | None, int]:
        """The greatest sum of weights of common words, its row (the newest of equal ones; None for none), and how many
        memories share a word."""
        match = np.where(self.alive, self.match(query), 0.0)
        if not len(match) or not (most := float(match.max())) > 0.0:
            return 0.0, None, 0
        best = np.flatnonzero(match == most)
        return most, int(best[np.argmax(self.times[best])]), int(np.count_nonzero(match))

    def memories(self) -> Iterator[ShortTermMemory]:
        """All of them, one conversation after the other."""
        for part in self._searched:
            yield from part.memories.values()

    def memory(self, row: int) -> ShortTermMemory:
        """The memory of a row that is alive."""
        memory_id, number = self.name_of(row)
        return self._searched[number].memories[memory_id]

    def kept_in(self, row: int) -> str | None:
        """Where the memory is kept, as `Searched` says it."""
        return self._searched[self.name_of(row)[1]].conversation_id


def _side_by_side(columns: Sequence[npt.NDArray[Number]]) -> npt.NDArray[Number]:
    # One conversation is the usual case, and needs no copy.
    return columns[0] if len(columns) == 1 else np.concatenate(columns)
