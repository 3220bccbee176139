"""The indexes of all conversations that a search looks at, side by side as columns. It does not know the rules of
recall; `indexed_selection.py` uses it. Imports numpy, so import it when a search needs it."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field
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
from memory_server.kernel.values import frozen

Number = TypeVar("Number", bound=np.generic)


@frozen
class IndexedMemories:
    """The memories of a conversation and their index. `conversation_id` is where they are kept (None in a search of
    only that conversation). `cosines` says how near memories are by meaning, by id; it leaves out memories without a
    vector."""

    memories: Mapping[str, ShortTermMemory]
    index: Index
    conversation_id: str | None = None
    cosines: Mapping[str, float] = field(default_factory=dict)


class Columns:
    """The rows of all that is searched, one conversation after the other, tombstones included. The columns of a single
    conversation are views of its index; do not keep them after its next change."""

    def __init__(self, searched: Sequence[IndexedMemories]) -> None:
        self._searched = searched
        self._starts = list(accumulate((len(part.index.ids) for part in searched), initial=0))
        self.times: Integers = _side_by_side([part.index.times for part in searched])
        self.scores: Floats = _side_by_side([part.index.scores for part in searched])
        self.alive: Mask = _side_by_side([part.index.alive() for part in searched])

    def __len__(self) -> int:
        """Memories, without tombstones."""
        return sum(len(part.index) for part in self._searched)

    def of_conversation(self, conversation_id: str) -> Mask:
        """Mark the memories made in `conversation_id`."""
        return _side_by_side(
            [part.index.conversations.equal(conversation_id) for part in self._searched]
        )

    def of_session(self, session_id: str | None) -> Mask:
        """Mark the memories of this session; with None, the memories whose session is not known."""
        return _side_by_side([part.index.sessions.equal(session_id) for part in self._searched])

    def of_ids(self, ids: Iterable[str]) -> Mask:
        """Mark the memories with these ids."""
        is_named: Mask = np.zeros(len(self.times), np.bool_)
        for part, start in self._parts():
            rows = part.index.rows
            is_named[[start + rows[id_] for id_ in ids if id_ in rows]] = True
        return is_named

    def muted_in(self, places: frozenset[str]) -> Mask:
        """Return a mask of the rows whose memories are muted in any of these places."""
        is_muted: Mask = np.zeros(len(self.times), np.bool_)
        for part, start in self._parts():
            index = part.index
            muted_rows = [
                index.rows[id_]
                for id_, muted in index.muted.items()
                if not places.isdisjoint(muted)
            ]
            is_muted[[start + row for row in muted_rows]] = True
        return is_muted

    def occurrences(self, words: Sequence[str], grams: Sequence[str] = ()) -> Occurrences:
        """Find these words and pairs of characters, conversation by conversation."""
        parts = [part.index.occurrences(words, grams) for part in self._searched]
        if len(parts) == 1:
            return parts[0]
        return Occurrences(
            terms=_side_by_side([part.terms for part in parts]),
            rows=_side_by_side(
                [part.rows + start for part, start in zip(parts, self._starts, strict=False)]
            ),
            weights=_side_by_side([part.weights for part in parts]),
        )

    def cosines(self) -> Floats | None:
        """Return how near each row is by meaning (-inf without a vector), or None if the search knows no vectors."""
        if not any(part.cosines for part in self._searched):
            return None
        cosines: list[float] = []
        for part in self._searched:
            cosines += [part.cosines.get(id_, -inf) for id_ in part.index.ids]
        return np.array(cosines)

    def __contains__(self, word: str) -> bool:
        """Return whether a memory has this word."""
        return any(part.index.holds(word) for part in self._searched)

    def alike(self, word: str) -> Iterator[str]:
        """Yield the words of memories that are spelt like `word`, as in `Vocabulary`."""
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
        """Return the memories by time, conversation by conversation; an episode never spans two conversations."""
        parts = [part.index.timeline(pause_ms) for part in self._searched]
        if len(parts) == 1:
            return parts[0]
        rows: list[Integers] = []
        episodes: list[Integers] = []
        episode_count = 0
        for part, start in zip(parts, self._starts, strict=False):
            part_rows = np.arange(len(part.episode)) if part.rows is None else part.rows
            rows.append(part_rows + start)
            episodes.append(part.episode + episode_count)
            if len(part.episode):
                episode_count += int(part.episode[-1]) + 1
        return timeline_of(np.concatenate(rows), np.concatenate(episodes), len(self.times))

    def of_other_form(self, forms: Sequence[str]) -> int:
        """Count the memories whose words were found with other options than `forms`, which has the options of each
        conversation."""
        count = 0
        for part, form in zip(self._searched, forms, strict=True):
            is_of_other_form = part.index.alive() & ~part.index.forms.equal(form)
            count += int(np.count_nonzero(is_of_other_form))
        return count

    def oldest_first(self) -> tuple[Integers, Integers]:
        """Return the rows by time, then id, and their times. This order does not depend on the order of the store."""
        if len(self._searched) == 1:
            return self._searched[0].index.oldest_first()
        order = np.concatenate(
            [part.index.oldest_first()[0] + start for part, start in self._parts()]
        )
        order = order[np.argsort(self.times[order], kind="stable")]
        sort_ties(order, self.times, self.name_of)
        return order, self.times[order]

    def name_of(self, row: int) -> tuple[str, int]:
        """Id of the memory, and the number of its conversation: two may hold the same id."""
        number = bisect_right(self._starts, row) - 1
        return self._searched[number].index.ids[row - self._starts[number]], number

    def row_of(self, memory_id: str) -> int | None:
        """Return the row of a memory in the first conversation that holds it, or None if no conversation does."""
        for part, start in self._parts():
            row = part.index.rows.get(memory_id)
            if row is not None:
                return start + row
        return None

    def memories(self) -> Iterator[ShortTermMemory]:
        """Yield all memories, conversation by conversation."""
        for part in self._searched:
            yield from part.memories.values()

    def memory(self, row: int) -> ShortTermMemory:
        """Return the memory of a row that is alive."""
        memory_id, number = self.name_of(row)
        return self._searched[number].memories[memory_id]

    def kept_in(self, row: int) -> str | None:
        """Return the conversation in which the memory of a row is kept, or None for the one that is searched."""
        _id, number = self.name_of(row)
        return self._searched[number].conversation_id

    def _parts(self) -> Iterator[tuple[IndexedMemories, int]]:
        """Pair the searched conversations with their first rows."""
        return zip(self._searched, self._starts, strict=False)


def _side_by_side(columns: Sequence[npt.NDArray[Number]]) -> npt.NDArray[Number]:
    """Return one column of the columns of each conversation. The column of a single conversation,
    the usual case, is not copied."""
    if len(columns) == 1:
        return columns[0]
    return np.concatenate(columns)
