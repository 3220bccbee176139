"""The indexes of all conversations that a search looks at, side by side as columns. It does not know the rules of
recall; `indexed_selection.py` uses it. Imports numpy, so import it when a search needs it."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from math import inf
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from memory_server.conversations.model import ShortTermMemory
from memory_server.conversations.recall.index import (
    Floats,
    Index,
    Integers,
    Mask,
    Occurrences,
    Timeline,
    sort_ties,
    timeline_of,
)

Number = TypeVar("Number", bound=np.generic)


@dataclass(frozen=True, slots=True)
class Searched:
    """The memories of a conversation and their index. `conversation_id` is where they are kept; None for a search of
    that conversation alone. `cosines`: how near memories are by meaning, by id; those without a vector are left
    out."""

    memories: Mapping[str, ShortTermMemory]
    index: Index
    conversation_id: str | None = None
    cosines: Mapping[str, float] = field(default_factory=dict)


class Columns:
    """The rows of all that is searched, one conversation after the other, tombstones included. The columns of a single
    conversation are views of its index; do not keep them after its next change."""

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
        return _side_by_side([part.index.conversations.equal(conversation_id) for part in self._searched])

    def of_session(self, session_id: str | None) -> Mask:
        """True for memories of this session; None: for those whose session is not known."""
        return _side_by_side([part.index.sessions.equal(session_id) for part in self._searched])

    def of_ids(self, ids: Iterable[str]) -> Mask:
        """True for the memories with these ids."""
        found = np.zeros(len(self.times), np.bool_)
        for part, start in zip(self._searched, self._starts, strict=False):
            found[[start + part.index.rows[id] for id in ids if id in part.index.rows]] = True
        return found

    def muted_in(self, places: frozenset[str]) -> Mask:
        """True for memories that are muted in one of these places."""
        found = np.zeros(len(self.times), np.bool_)
        for part, start in zip(self._searched, self._starts, strict=False):
            of_part = part.index.muted.items()
            found[[start + part.index.rows[id] for id, muted in of_part if not places.isdisjoint(muted)]] = True
        return found

    def occurrences(self, words: Sequence[str], grams: Sequence[str] = ()) -> Occurrences:
        """Where these words and pairs of characters stand, conversation by conversation."""
        found = [part.index.occurrences(words, grams) for part in self._searched]
        if len(found) == 1:
            return found[0]
        return Occurrences(
            _side_by_side([one.terms for one in found]),
            _side_by_side([one.rows + start for one, start in zip(found, self._starts, strict=False)]),
            _side_by_side([one.weights for one in found]),
        )

    def cosines(self) -> Floats | None:
        """How near each row is by meaning, -inf without a vector; None: the search knows no vectors."""
        if not any(part.cosines for part in self._searched):
            return None
        return np.array([part.cosines.get(id, -inf) for part in self._searched for id in part.index.ids])

    def __contains__(self, word: str) -> bool:
        """Whether a memory has this word."""
        return any(part.index.holds(word) for part in self._searched)

    def alike(self, word: str) -> Iterator[str]:
        """The words of memories that are spelt like `word`, as in `Vocabulary`."""
        for part in self._searched:
            yield from filter(part.index.holds, part.index.vocabulary.alike(word))

    @property
    def keeps_words(self) -> bool:
        """Whether words that are not in its text are kept with a memory."""
        return any(part.index.keeps_words for part in self._searched)

    @property
    def in_turn(self) -> bool:
        """Whether the rows of each conversation are ordered by time."""
        return all(part.index.in_turn for part in self._searched)

    def timeline(self, pause_ms: int) -> Timeline:
        """The memories by time, conversation by conversation; an episode is of one of them."""
        parts = [part.index.timeline(pause_ms) for part in self._searched]
        if len(parts) == 1:
            return parts[0]
        ends = accumulate((int(part.episode[-1]) + 1 if len(part.episode) else 0 for part in parts), initial=0)
        rows = [np.arange(len(part.episode)) if part.rows is None else part.rows for part in parts]
        return timeline_of(
            np.concatenate([of_part + start for of_part, start in zip(rows, self._starts, strict=False)]),
            np.concatenate([part.episode + first for part, first in zip(parts, ends, strict=False)]),
            len(self.times),
        )

    def of_other_form(self, forms: Sequence[str]) -> int:
        """How many memories have words that were found with other options than `forms`, those of each conversation."""
        parts = zip((part.index for part in self._searched), forms, strict=True)
        return sum(int(np.count_nonzero(index.alive() & ~index.forms.equal(form))) for index, form in parts)

    def oldest_first(self) -> tuple[Integers, Integers]:
        """The rows by time, then id, an order that does not depend on that of the store; and their times."""
        if len(self._searched) == 1:
            return self._searched[0].index.oldest_first()
        parts = zip(self._searched, self._starts, strict=False)
        order = np.concatenate([part.index.oldest_first()[0] + start for part, start in parts])
        order = order[np.argsort(self.times[order], kind="stable")]
        sort_ties(order, self.times, self.name_of)
        return order, self.times[order]

    def name_of(self, row: int) -> tuple[str, int]:
        """Id of the memory, and the number of its conversation: two may hold the same id."""
        number = bisect_right(self._starts, row) - 1
        return self._searched[number].index.ids[row - self._starts[number]], number

    def row_of(self, memory_id: str) -> int | None:
        """The row of a memory, in the first conversation that holds it; None if no conversation does."""
        for part, start in zip(self._searched, self._starts, strict=False):
            if (row := part.index.rows.get(memory_id)) is not None:
                return start + row
        return None

    def memories(self) -> Iterator[ShortTermMemory]:
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
    # One conversation is the usual case, and does not need a copy.
    return columns[0] if len(columns) == 1 else np.concatenate(columns)
