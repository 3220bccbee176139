"""What the clean-up forgets, decided before anything is removed, so that it can be shown first.

Source: the Node original's code; docs/explanation/recall.md.
"""

from __future__ import annotations

from collections.abc import Iterable

from memory_server.changes import Forgotten
from memory_server.model import ShortTermMemory
from memory_server.recall.parameters import Parameters
from memory_server.recall.relevance import age_of, relevance


def plan(memories: Iterable[ShortTermMemory], now_ms: int, parameters: Parameters) -> tuple[Forgotten, ...]:
    """The memories to forget, least relevant first, each with its reason.

    A memory fails when it is older than 365 days or its relevance to nothing lies below −5; pinned ones never
    fail. At least 512 stay: the most relevant of the failing ones fill up what the others leave open.
    """
    kept = 0
    failing: list[tuple[float, Forgotten]] = []
    for memory in memories:
        worth = relevance(memory, {}, now_ms, parameters.recall)
        if memory.pinned:
            kept += 1
        elif age_of(memory.time_ms, now_ms) > parameters.retention.max_age_ms:
            failing.append((worth, Forgotten(memory, "too_old")))
        elif worth < parameters.retention.min_relevance:
            failing.append((worth, Forgotten(memory, "faded")))
        else:
            kept += 1
    failing.sort(key=lambda pair: (pair[0], pair[1].memory.time_ms, pair[1].memory.id))
    spared = max(0, parameters.retention.always_kept - kept)
    forgotten_count = max(0, len(failing) - spared)
    return tuple(forgotten for _, forgotten in failing[:forgotten_count])
