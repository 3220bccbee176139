"""What the clean-up forgets, decided before anything is removed, so that it can be shown first.

By need and not by age: a conversation that is not too large keeps everything. Sources: the Node original's code for its
rule, docs/explanation/recall.md for ours.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from heapq import nsmallest

from memory_server.core.changes import ForgetReason, Forgotten
from memory_server.core.model import ShortTermMemory
from memory_server.recall.parameters import Parameters, RecallParameters
from memory_server.recall.relevance import age_of, decay

FADING = 15.0
"""Points that an infinitely old memory has lost (the Node original)."""

_Place = tuple[bool, float, int, str]
"""Where a memory stands among those that may go: what is less goes first."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The memories to forget, in the order in which they go, each with its reason; `due` more go in later runs."""

    forgotten: tuple[Forgotten, ...] = ()
    due: int = 0


def plan(
    memories: Collection[ShortTermMemory], now_ms: int, parameters: Parameters, *, most: int | None = None
) -> Plan:
    """What goes at `now_ms`, at most `most` in this run (None: all).

    Up to `always_kept` memories nothing goes. Of more than that, what has faded or is too old may go until so many are
    left, never what is pinned: first what was never recalled, then what is worth least, then the oldest. For the Node
    original it does not matter what was recalled.
    """
    keep = parameters.retention
    excess = len(memories) - keep.always_kept
    if excess <= 0:
        return Plan()
    failing: list[tuple[_Place, ForgetReason, ShortTermMemory]] = []
    for memory in memories:
        if memory.pinned:
            continue
        left = worth(memory, now_ms, parameters.recall)
        too_old = now_ms - memory.time_ms > keep.max_age_ms
        if too_old or left < keep.min_relevance:
            place = keep.recalled_last and memory.score > 0, left, memory.time_ms, memory.id
            failing.append((place, "too_old" if too_old else "faded", memory))
    count = min(excess, len(failing))
    now = count if most is None else min(count, most)
    chosen = nsmallest(now, failing, key=lambda found: found[0])
    return Plan(tuple(Forgotten(memory, reason) for _, reason, memory in chosen), count - now)


def worth(memory: ShortTermMemory, now_ms: int, parameters: RecallParameters) -> float:
    """How little a memory has faded: its score less what its age has taken, on the scale of the Node original, whatever
    age counts in a search."""
    return memory.score - decay(age_of(memory.time_ms, now_ms), replace(parameters, decay_ceiling=FADING))
