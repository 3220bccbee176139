"""What a search comes to: the memories of each tier with their receipts, and what was held back."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from memory_server.core.changes import Reinforced
from memory_server.core.model import ShortTermMemory
from memory_server.recall.parameters import RecallParameters
from memory_server.recall.relevance import Receipt
from memory_server.recall.words import Query


@dataclass(frozen=True, slots=True)
class Recalled:
    """A memory that came to mind, and why. `kept_in` is the conversation that holds it; None for the one searched."""

    memory: ShortTermMemory
    receipt: Receipt
    kept_in: str | None = None


@dataclass(frozen=True, slots=True)
class HeldBack:
    """Memories that a rule kept from coming; a search that gives nothing must say so.

    `recent` counts every memory of this conversation that is younger than 20 minutes and not known to be of another
    session, and `in_context` every one that the asking session is known to have in its context; relevant or not, none
    of them could come in any tier. `adjacent` counts the relevant ones within 10 minutes of one that came before
    them, as long as there was still a place.
    """

    recent: int
    adjacent: int
    in_context: int = 0


@dataclass(frozen=True, slots=True)
class Recall:
    """The answer of one search. `searched` is the number of memories looked at, `query` what was searched with."""

    top: tuple[Recalled, ...]
    next: tuple[Recalled, ...]
    flashback: tuple[Recalled, ...]
    held_back: HeldBack
    searched: int
    query: Query = field(default_factory=Query)

    def gains(self, parameters: RecallParameters) -> Iterator[tuple[Recalled, float]]:
        """What each memory that came gains, before the score reaches its ceiling: top +5, next +2; flashbacks none."""
        for tier, points in ((self.top, parameters.top_reinforcement), (self.next, parameters.next_reinforcement)):
            for recalled in tier:
                yield recalled, points


def reinforcements(
    gains: Iterable[tuple[ShortTermMemory, float]], parameters: RecallParameters
) -> tuple[Reinforced, ...]:
    """The changes that make these memories gain these points, up to the ceiling. One whose score cannot rise makes no
    change, so that a search need not write."""
    return tuple(
        Reinforced(memory.id, memory.score, after)
        for memory, points in gains
        if (after := min(memory.score + points, parameters.score_ceiling)) > memory.score
    )
