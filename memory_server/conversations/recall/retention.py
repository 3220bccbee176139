"""What the clean-up of a conversation forgets: decided before anything is removed, so that it can be shown first. Pure.

The size of a conversation decides, not the age of its memories: if it is not too large, everything stays. By the rule
of the Node original, a memory leaves after a year all the same. Sources: its architecture document, and for ours
docs/explanation/recall.md.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from heapq import nsmallest

from memory_server.conversations.changes import Forgotten
from memory_server.conversations.model import ShortTermMemory
from memory_server.conversations.recall.parameters import (
    Parameters,
    RecallParameters,
    RetentionParameters,
)
from memory_server.conversations.recall.relevance import age_of, decay
from memory_server.kernel.values import frozen
from memory_server.lore import ForgetReason

FADING = 15.0
"""Points that an infinitely old memory has lost (the Node original)."""


@frozen
class CleanupPlan:
    """The memories to forget, in this order, each with its reason; `due` is how many more are for later runs."""

    forgotten: tuple[Forgotten, ...] = ()
    due: int = 0


def plan_cleanup(
    memories: Collection[ShortTermMemory],
    now_ms: int,
    parameters: Parameters,
    *,
    most: int | None = None,
) -> CleanupPlan:
    """Return what is forgotten at `now_ms`, at most `most` memories in this run (all, if it is
    None), and how many more are due. Beyond `always_kept` memories, faded and too old ones that are
    not pinned go until so many are left: first memories that were never recalled (which does not
    matter in the Node original), then the least worth, then the oldest. In the Node original too
    old ones go before all others, however few memories there are."""
    retention = parameters.retention
    excess = len(memories) - retention.always_kept
    if excess <= 0 and not retention.age_counts_alone:
        return CleanupPlan()

    fading = _fading(parameters.recall)
    candidates: list[_Candidate] = []
    for memory in memories:
        candidate = _candidate(memory, now_ms, retention, fading)
        if candidate is not None:
            candidates.append(candidate)

    # In the Node original, age alone is enough, whatever the number of memories.
    certain = sum(candidate.goes_first for candidate in candidates)
    due = max(certain, min(excess, len(candidates)))
    count = due if most is None else min(due, most)

    first = nsmallest(count, candidates, key=lambda candidate: candidate.rank)
    forgotten = tuple(Forgotten(candidate.memory, candidate.reason) for candidate in first)
    return CleanupPlan(forgotten, due - count)


@frozen
class _Candidate:
    """A memory that may be forgotten. `goes_first`: before the others, and however few there are."""

    memory: ShortTermMemory
    reason: ForgetReason
    goes_first: bool
    recalled: bool
    worth: float

    @property
    def rank(self) -> tuple[bool, bool, float, int, str]:
        """What orders the candidates: the least goes first."""
        return not self.goes_first, self.recalled, self.worth, self.memory.time_ms, self.memory.id


def _candidate(
    memory: ShortTermMemory, now_ms: int, retention: RetentionParameters, fading: RecallParameters
) -> _Candidate | None:
    """Return the memory as a candidate for the clean-up. Return None if it is pinned, or neither too old nor below
    the least relevance. `fading` has the parameters that `_fading` made once for all memories."""
    if memory.pinned:
        return None
    worth_left = memory.score - decay(age_of(memory.time_ms, now_ms), fading)
    is_too_old = now_ms - memory.time_ms > retention.max_age_ms
    if not is_too_old and worth_left >= retention.min_relevance:
        return None
    return _Candidate(
        memory,
        reason="too_old" if is_too_old else "faded",
        goes_first=is_too_old and retention.age_counts_alone,
        recalled=retention.recalled_last and memory.score > 0,
        worth=worth_left,
    )


def worth(memory: ShortTermMemory, now_ms: int, parameters: RecallParameters) -> float:
    """Return how little a memory has faded: its score minus the decay of the Node original, also if searches use
    another decay."""
    return memory.score - decay(age_of(memory.time_ms, now_ms), _fading(parameters))


def _fading(parameters: RecallParameters) -> RecallParameters:
    return replace(parameters, decay_ceiling=FADING)
