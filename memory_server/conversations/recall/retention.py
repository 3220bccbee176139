"""What the clean-up of a conversation forgets: decided before anything is removed, so that it can be shown first. Pure.

The size of a conversation decides, not the age of its memories: if it is not too large, everything stays. Sources: the
Node original's code for its rule, docs/explanation/recall.md for ours.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from heapq import nsmallest

from memory_server.conversations.changes import ForgetReason, Forgotten
from memory_server.conversations.model import ShortTermMemory
from memory_server.conversations.recall.parameters import Parameters, RecallParameters
from memory_server.conversations.recall.relevance import age_of, decay

FADING = 15.0
"""Points that an infinitely old memory has lost (the Node original)."""


@dataclass(frozen=True, slots=True)
class CleanupPlan:
    """The memories to forget, in this order, each with its reason; `due` more are for later runs."""

    forgotten: tuple[Forgotten, ...] = ()
    due: int = 0


def plan_cleanup(
    memories: Collection[ShortTermMemory], now_ms: int, parameters: Parameters, *, most: int | None = None
) -> CleanupPlan:
    """What is forgotten at `now_ms`, at most `most` in this run (None: all): beyond `always_kept` memories, faded and
    too old ones that are not pinned, until so many are left. First those that were never recalled (in the Node original
    that does not matter), then those worth least, then the oldest."""
    keep = parameters.retention
    excess = len(memories) - keep.always_kept
    if excess <= 0:
        return CleanupPlan()
    fading = _fading(parameters.recall)
    failing: list[tuple[tuple[bool, float, int, str], ForgetReason, ShortTermMemory]] = []
    for memory in memories:
        if memory.pinned:
            continue
        left = memory.score - decay(age_of(memory.time_ms, now_ms), fading)
        too_old = now_ms - memory.time_ms > keep.max_age_ms
        if too_old or left < keep.min_relevance:
            place = keep.recalled_last and memory.score > 0, left, memory.time_ms, memory.id
            failing.append((place, "too_old" if too_old else "faded", memory))
    count = min(excess, len(failing))
    now = count if most is None else min(count, most)
    chosen = nsmallest(now, failing, key=lambda found: found[0])
    return CleanupPlan(tuple(Forgotten(memory, reason) for _, reason, memory in chosen), count - now)


def worth(memory: ShortTermMemory, now_ms: int, parameters: RecallParameters) -> float:
    """How little a memory has faded: its score minus the decay of the Node original, also if searches use another
    decay."""
    return memory.score - decay(age_of(memory.time_ms, now_ms), _fading(parameters))


def _fading(parameters: RecallParameters) -> RecallParameters:
    return replace(parameters, decay_ceiling=FADING)
