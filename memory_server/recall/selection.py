"""Selection as docs/explanation/recall.md describes it, one memory at a time, for a process that asks once.

`indexed_selection.py` gives the same result, and a test compares both. It needs numpy and an index, which cost 0.1 s
and more before the first answer; this one costs 5 ms for 1,000 memories, each time.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from operator import attrgetter
from random import Random

from memory_server.core.model import Session, ShortTermMemory
from memory_server.recall.parameters import RecallParameters
from memory_server.recall.relevance import Receipt, age_of, match_needed, receipts
from memory_server.recall.result import HeldBack, Recall, Recalled
from memory_server.recall.sessions import hold_on
from memory_server.recall.words import Query, Wording


def select(
    memories: Iterable[ShortTermMemory],
    query: Query,
    *,
    conversation_id: str,
    now_ms: int,
    rng: Random,
    parameters: RecallParameters,
    wording: Wording = Wording(),  # noqa: B008 - frozen
    session: Session | None = None,
) -> Recall:
    """Decide what comes to mind in `conversation_id` at `now_ms`, given the words of `query`. `session` is the one that
    asks; None: unknown."""
    everything = list(memories)
    made = receipts(everything, query, now_ms=now_ms, parameters=parameters, wording=wording)
    of_id = {memory.id: receipt for memory, receipt in zip(everything, made, strict=True)}
    hold = partial(hold_on, conversation_id=conversation_id, session=session, now_ms=now_ms, parameters=parameters)
    holds = list(map(hold, everything))
    eligible = [memory for memory, held in zip(everything, holds, strict=True) if held is None]
    in_context = holds.count("in_context")
    ranked = sorted(
        (memory for memory in eligible if may_come(of_id[memory.id], len(everything), parameters)),
        key=lambda memory: (-of_id[memory.id].relevance, -memory.time_ms, memory.id),
    )

    chosen: list[ShortTermMemory] = []
    adjacent = 0
    for memory in ranked:
        if len(chosen) == parameters.top_count + parameters.next_count:
            break
        near = sum(abs(memory.time_ms - other.time_ms) < parameters.spacing_ms for other in chosen)
        if near < parameters.same_moment:
            chosen.append(memory)
        else:
            adjacent += 1
    top, following = chosen[: parameters.top_count], chosen[parameters.top_count :]
    drawn = _flashbacks(eligible, chosen, now_ms, rng, parameters)

    def explained(tier: Sequence[ShortTermMemory]) -> tuple[Recalled, ...]:
        return tuple(Recalled(memory, of_id[memory.id]) for memory in tier)

    return Recall(
        top=explained(top),
        next=explained(following),
        flashback=explained(drawn),
        held_back=HeldBack(len(everything) - len(eligible) - in_context, adjacent, in_context),
        searched=len(everything),
        query=query,
    )


def flashback_weight(memory: ShortTermMemory, now_ms: int, parameters: RecallParameters) -> float:
    """Weight of a memory in the draw: 1 + 1.7 · max(0, 1 − age/365 d) + 1.1 · clamp(score, 0, 50)/50."""
    recency = max(0.0, 1.0 - age_of(memory.time_ms, now_ms) / parameters.flashback_horizon_ms)
    liked = min(max(memory.score, 0.0), parameters.flashback_score_full) / parameters.flashback_score_full
    return 1.0 + parameters.flashback_recency_weight * recency + parameters.flashback_score_weight * liked


def may_come(receipt: Receipt, memories: int, parameters: RecallParameters) -> bool:
    """Whether one of so many memories is relevant enough to come as top or next."""
    return (
        receipt.relevance >= parameters.threshold
        and receipt.match + receipt.around >= match_needed(memories, parameters)
        and (receipt.shares or not parameters.must_share)
    )


def _flashbacks(
    eligible: Iterable[ShortTermMemory],
    chosen: Sequence[ShortTermMemory],
    now_ms: int,
    rng: Random,
    parameters: RecallParameters,
) -> list[ShortTermMemory]:
    """Weighted draws without replacement from what was not chosen, under the 10-minute rule after each draw."""
    taken = {memory.id for memory in chosen}
    pool = [memory for memory in eligible if memory.id not in taken]
    for other in chosen:
        pool = [memory for memory in pool if abs(memory.time_ms - other.time_ms) >= parameters.spacing_ms]
    # The order of the pool decides what a seed draws, so it must not depend on the order of the store.
    pool.sort(key=attrgetter("time_ms", "id"))
    weights = [flashback_weight(memory, now_ms, parameters) for memory in pool]
    drawn: list[ShortTermMemory] = []
    while len(drawn) < parameters.flashback_count and any(weights):
        memory = rng.choices(pool, weights)[0]
        drawn.append(memory)
        after, before = memory.time_ms - parameters.spacing_ms, memory.time_ms + parameters.spacing_ms
        weights = [
            0.0 if other is memory or after < other.time_ms < before else weight
            for other, weight in zip(pool, weights, strict=True)
        ]
    return drawn
