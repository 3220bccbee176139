"""What one search looks at, as columns: the memories of one conversation, or of several side by side.

A row is a memory, tombstones included. The columns of one conversation are views of its index, and must be let go of
before its next change. Knows no rule of recall.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from memory_server.core.model import ShortTermMemory
from memory_server.recall.index import Floats, Integers, Mask, Occurrences, Postings, Timeline, sort_ties, timeline_of

Number = TypeVar("Number", bound=np.generic)
T = TypeVar("T")


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

    def of_session(self, session_id: str | None) -> Mask:
        """True for memories of this session; None: for those whose session is not known."""
        return _side_by_side([part.index.of_session(session_id) for part in self._searched])

    def occurrences(self, words: Sequence[str], grams: Sequence[str] = ()) -> Occurrences:
        """Where these words and pairs of characters stand, conversation by conversation."""
        found = [part.index.occurrences(words, grams) for part in self._searched]
        return Occurrences(
            _side_by_side([one.terms for one in found]),
            _side_by_side([one.rows + start if start else one.rows for one, start in self._each(found)]),
            _side_by_side([one.weights for one in found]),
        )

    @property
    def in_turn(self) -> bool:
        """Whether the rows of each conversation are in the order of time."""
        return all(part.index.in_turn for part in self._searched)

    def timeline(self, pause_ms: int) -> Timeline:
        """The memories by time, conversation by conversation; an episode is of one of them."""
        parts = [part.index.timeline(pause_ms) for part in self._searched]
        if len(parts) == 1:
            return parts[0]
        ends = accumulate((int(part.episode[-1]) + 1 if len(part.episode) else 0 for part in parts), initial=0)
        rows = [np.arange(len(part.episode)) if part.rows is None else part.rows for part in parts]
        return timeline_of(
            np.concatenate([of_part + start for of_part, start in self._each(rows)]),
            np.concatenate([part.episode + first for part, first in zip(parts, ends, strict=False)]),
            len(self.times),
        )

    def of_other_form(self, signature_of: Callable[[str | None], str]) -> int:
        """How many memories have words that were found with other options than those of their conversation."""
        return sum(part.index.of_other_form(signature_of(part.conversation_id)) for part in self._searched)

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

    def memories(self) -> Iterator[ShortTermMemory]:
        """All of them, one conversation after the other."""
        for part in self._searched:
            yield from part.memories.values()

    def memory(self, row: int) -> ShortTermMemory:
        """The memory of a row that is alive."""
        memory_id, number = self.name_of(row)
        return self._searched[number].memories[memory_id]

    def _each(self, parts: Sequence[T]) -> Iterator[tuple[T, int]]:
        """Something of each conversation with the number of its first row."""
        return zip(parts, self._starts, strict=False)

    def kept_in(self, row: int) -> str | None:
        """Where the memory is kept, as `Searched` says it."""
        return self._searched[self.name_of(row)[1]].conversation_id


def _side_by_side(columns: Sequence[npt.NDArray[Number]]) -> npt.NDArray[Number]:
    # One conversation is the usual case, and needs no copy.
    return columns[0] if len(columns) == 1 else np.concatenate(columns)
