"""The result of a search, and the rule of docs/explanation/recall.md that decides it, one memory at a time.

`indexed_selection.py` gives the same result, and a test compares both. It needs numpy and an index, which cost 0.1 s
and more before the first answer; this one costs 5 ms for 1,000 memories, each time.

Below it: what is held back from a session.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise
from operator import attrgetter
from random import Random
from typing import TYPE_CHECKING, Literal, NamedTuple

from memory_server.conversations.changes import Reinforced
from memory_server.conversations.model import ShortTermMemory
from memory_server.conversations.recall.flashbacks import flashbacks
from memory_server.conversations.recall.overviews import pinned_points, spread
from memory_server.conversations.recall.parameters import RecallParameters
from memory_server.conversations.recall.passages import ends_asking
from memory_server.conversations.recall.relevance import Receipt, age_of, cue_points, match_needed, receipts
from memory_server.conversations.recall.same_words import LOOKED_AT, Held, Standing, lent_points
from memory_server.conversations.recall.words import KeywordOptions, RecallQuery
from memory_server.kernel.fusion import FUSED, MEANING, OFFSET, Nearness, fused, needed_cosine
from memory_server.kernel.messages import NOTHING, Session

if TYPE_CHECKING:
    from memory_server.conversations.recall.columns import Columns
    from memory_server.conversations.recall.index import Integers, Mask

Hold = Literal["in_context", "too_young", "muted"]
NEAR = 3
"""Memories that nearly came which a result names."""


@dataclass(frozen=True, slots=True)
class Recalled:
    """A memory that came to mind, and why. `kept_in` is the conversation that holds it; None: the searched one."""

    memory: ShortTermMemory
    receipt: Receipt
    kept_in: str | None = None
    weak: bool = False
    """Whether it shares too little to come unasked."""
    counted: float = 0.0
    """The points of it that `Recall.needed` is for."""


class Missed(NamedTuple):
    """A memory that nearly came, and what it lacked: so many `points`, words of the last message that say something, a
    place beside another memory of its moment, or any place."""

    recalled: Recalled
    lacked: Literal["points", "words", "same_moment", "place"]
    points: float = 0.0


@dataclass(frozen=True, slots=True)
class HeldBack:
    """How many memories a rule held back: `recent`, `in_context` and `muted` by `hold_of`, irrelevant ones included,
    and `adjacent`, which are relevant, by the 10-minute rule while there was still a free place."""

    recent: int
    adjacent: int
    in_context: int = 0
    muted: int = 0


@dataclass(frozen=True, slots=True)
class Recall:
    """The result of one search for `query` among `searched` memories."""

    top: tuple[Recalled, ...]
    next: tuple[Recalled, ...]
    flashback: tuple[Recalled, ...]
    held_back: HeldBack
    searched: int
    query: RecallQuery = field(default_factory=RecallQuery)
    answers: Mapping[str, ShortTermMemory] = field(default_factory=dict)
    """For top and next memories that end with a question, by id: the memory that was said next."""
    near: tuple[Missed, ...] = ()
    """The most relevant ones that share something, could come and did not."""
    needed: float = 0.0
    """The points at which a memory comes unasked: of what it shares, in the Node original of its relevance."""

    def gains(self, parameters: RecallParameters) -> Iterator[tuple[Recalled, float]]:
        """The points that each memory gains, before the ceiling of the score: top +5, next +2, flashbacks and weak
        ones 0. Nor does an overview reinforce: it would bring the same again and again."""
        if self.query.overview is not None:
            return
        following = self.next[: parameters.next_count]  # a match in the place of a flashback gains as little as that
        for tier, points in ((self.top, parameters.top_reinforcement), (following, parameters.next_reinforcement)):
            for recalled in tier:
                if not recalled.weak:
                    yield recalled, points


def reinforcements(
    gains: Iterable[tuple[ShortTermMemory, float]], parameters: RecallParameters
) -> tuple[Reinforced, ...]:
    """The changes that give these memories their points, up to the ceiling. A score that cannot rise makes no change,
    so that the search does not have to write."""
    return tuple(
        Reinforced(memory.id, memory.score, after)
        for memory, points in gains
        if (after := min(memory.score + points, parameters.score_ceiling)) > memory.score
    )


def select(
    memories: Iterable[ShortTermMemory],
    query: RecallQuery,
    *,
    conversation_id: str,
    now_ms: int,
    rng: Random,
    parameters: RecallParameters,
    wording: KeywordOptions = KeywordOptions(),  # noqa: B008 - frozen
    session: Session | None = None,
    places: frozenset[str] = frozenset(),
    without: frozenset[str] = frozenset(),
    cosines: Mapping[str, float] = NOTHING,
) -> Recall:
    """Decide what comes to mind in `conversation_id` at `now_ms`, given the words of `query`. `session` is the one that
    asks; None: unknown. `places`: what is muted there does not come. `without`: ids of what the asker has. `cosines`:
    how near memories are by meaning, by id; empty: by words only."""
    everything = list(memories)
    made = receipts(everything, query, now_ms=now_ms, parameters=parameters, wording=wording)
    of_id = {memory.id: receipt for memory, receipt in zip(everything, made, strict=True)}
    hold = partial(hold_of, conversation_id=conversation_id, session=session, now_ms=now_ms, parameters=parameters)
    holds: list[Hold | None] = [hold(one) if places.isdisjoint(one.muted) else "muted" for one in everything]
    holds = ["in_context" if one.id in without else held for one, held in zip(everything, holds, strict=True)]
    eligible = [memory for memory, held in zip(everything, holds, strict=True) if held is None]
    in_context, muted = holds.count("in_context"), holds.count("muted")

    def in_order(memory: ShortTermMemory) -> tuple[float, int, str]:
        return -of_id[memory.id].relevance, -memory.time_ms, memory.id

    coming = {memory.id for memory in eligible if may_come(of_id[memory.id], query, len(everything), parameters)}
    if coming and parameters.brings(question=query.question):
        enough = parameters.with_best * max(of_id[each].relevance for each in coming)
        coming |= {each for each, one in of_id.items() if one.shares_any(query) and one.relevance >= enough}
    ranked = sorted((memory for memory in eligible if memory.id in coming), key=in_order)
    first = ranked[: parameters.reordered]
    for memory in first:
        of_id[memory.id] = replace(of_id[memory.id], cue=cue_points(memory, query, parameters))
    ranked = [*sorted(first, key=in_order), *ranked[len(first) :]]
    if query.overview is None and parameters.must_share:
        of_id.update(_lent(ranked[:LOOKED_AT], of_id))
        ranked.sort(key=in_order)
    least = 0.0 if parameters.weak_too or not ranked else parameters.nearly_best * of_id[ranked[0].id].relevance
    if least > 0.0:
        ranked = [memory for memory in ranked if of_id[memory.id].relevance >= least]
    if query.overview is not None:
        for memory in eligible:
            of_id[memory.id] = replace(of_id[memory.id], cue=pinned_points(memory, parameters))
        candidates = [memory for memory in eligible if memory.id in coming]
        ranked = spread(sorted(candidates, key=in_order), lambda memory: memory, query, parameters)
    elif cosines:
        ranked = _fused(eligible, ranked, of_id, cosines, parameters)

    chosen: list[ShortTermMemory] = []
    adjacent: set[str] = set()
    for memory in ranked:
        if len(chosen) == parameters.places(question=query.question):
            break
        near = sum(abs(memory.time_ms - other.time_ms) < parameters.spacing_ms for other in chosen)
        if near < parameters.same_moment or query.overview is not None:
            chosen.append(memory)
        else:
            adjacent.add(memory.id)
    draws = parameters.draws(question=query.question, came=bool(chosen))
    drawn = flashbacks(eligible, chosen, now_ms, rng, parameters) if draws else []
    in_time = sorted(everything, key=attrgetter("time_ms", "id")) if parameters.answers else []
    after = {memory.id: following for memory, following in pairwise(in_time)}
    came = {memory.id for memory in (*chosen, *drawn)}
    free = {memory.id for memory in eligible} - came
    nearly = sorted((m for m in eligible if m.id in free and of_id[m.id].shared > 0.0), key=in_order)[:NEAR]

    def explained(tier: Sequence[ShortTermMemory]) -> tuple[Recalled, ...]:
        made = ((memory, of_id[memory.id]) for memory in tier)
        size = len(everything)
        return tuple(
            Recalled(m, r, weak=not comes_unasked(r, query, size, parameters), counted=r.counted(query, parameters))
            for m, r in made
        )

    return Recall(
        top=explained(chosen[: parameters.top_count]),
        next=explained(chosen[parameters.top_count :]),
        flashback=explained(drawn),
        held_back=HeldBack(len(everything) - len(eligible) - in_context - muted, len(adjacent), in_context, muted),
        searched=len(everything),
        query=query,
        answers={
            memory.id: said
            for memory in chosen
            if asks(memory)
            and (said := after.get(memory.id)) is not None
            and said.id in free
            and said.time_ms - memory.time_ms <= parameters.episode_pause_ms
        },
        near=tuple(
            lack(recalled, query, len(everything), parameters, adjacent=recalled.memory.id in adjacent)
            for recalled in explained(nearly)
        ),
        needed=max(parameters.threshold, match_needed(len(everything), query, parameters)),
    )


def _lent(best: Sequence[ShortTermMemory], of_id: Mapping[str, Receipt]) -> dict[str, Receipt]:
    """The receipts of those candidates that get points from an older one with the same words, by their ids."""
    made = [of_id[memory.id] for memory in best]
    standings = [
        Standing(memory.time_ms, receipt.match, receipt.score) for memory, receipt in zip(best, made, strict=True)
    ]
    lent = lent_points(standings, lambda number: Held(made[number].matched, best[number].words))
    return {
        best[newer].id: replace(made[newer], lent=gained.points, older=best[gained.older].id)
        for newer, gained in lent.items()
    }


def lack(
    recalled: Recalled, query: RecallQuery, memories: int, parameters: RecallParameters, *, adjacent: bool
) -> Missed:
    """What one of so many memories lacked that nearly came; `adjacent`: the 10-minute rule held it back."""
    receipt = recalled.receipt
    if adjacent or may_come(receipt, query, memories, parameters):
        return Missed(recalled, "same_moment" if adjacent else "place")
    needed = match_needed(memories, query, parameters) - receipt.evidence(query, parameters)
    lacking = max(needed, parameters.threshold - (receipt.relevance - receipt.cue))
    return Missed(recalled, "points", lacking) if lacking > 0.0 else Missed(recalled, "words")


def asks(memory: ShortTermMemory) -> bool:
    """Whether it ends with a question."""
    return ends_asking(memory.messages[-1].content if memory.messages else memory.text)


def may_come(receipt: Receipt, query: RecallQuery, memories: int, parameters: RecallParameters) -> bool:
    """Whether one of so many memories is relevant enough to come as top or next."""
    if parameters.weak_too and parameters.must_share:
        return receipt.shares_any(query)
    return comes_unasked(receipt, query, memories, parameters)


def comes_unasked(receipt: Receipt, query: RecallQuery, memories: int, parameters: RecallParameters) -> bool:
    """The same where nobody asked for memories."""
    if receipt.nearness is not None and receipt.nearness.stands_out:
        return True
    return (
        receipt.relevance >= parameters.threshold
        and receipt.evidence(query, parameters) >= match_needed(memories, query, parameters)
        and (not parameters.must_share or receipt.shares(query, parameters))
    )


def _fused(
    eligible: Iterable[ShortTermMemory],
    relevant: Iterable[ShortTermMemory],
    of_id: dict[str, Receipt],
    cosines: Mapping[str, float],
    parameters: RecallParameters,
) -> list[ShortTermMemory]:
    """The `relevant` memories, and those that may come by meaning alone, by both rankings; their receipts in `of_id`
    then say their ranks."""

    def best_first(ids: Iterable[str], worth: Mapping[str, float]) -> list[str]:
        return sorted(ids, key=lambda each: (-worth[each], -by_id[each].time_ms, each))

    by_id = {memory.id: memory for memory in eligible}
    shared = {one: of_id[one].relevance for one in by_id if of_id[one].shared > 0.0}
    known = {each: cosines[each] for each in by_id if each in cosines}
    worded, near = best_first(shared, shared)[:FUSED], best_first(known, known)[:FUSED]
    needed = needed_cosine(known.values(), parameters.meaning_margin)
    by_meaning = {each for each in near if parameters.weak_too or known[each] >= needed}
    coming = {memory.id for memory in relevant} | by_meaning
    for each in known:
        ranks = [ids.index(each) + 1 if each in ids else None for ids in (near, worded)]
        nearness = Nearness(known[each], ranks[0], ranks[1], known[each] >= needed)
        of_id[each] = replace(of_id[each], nearness=nearness)
    scores = fused(worded, near, offset=OFFSET, meaning=MEANING)
    return [by_id[each] for each in best_first(coming & scores.keys(), scores)]


# --- what is held back: what the asking session may still see, because it stored it or it is only minutes old
#
# | the memory's session and the asking one | held back |
# | --- | --- |
# | both known, and not the same | never: the asking session has not seen it |
# | the same, and it is known what it still has in its context | what is in the context, however old |
# | the same, and that is not known; or one is unknown | of this conversation what is younger than 20 minutes |


def hold_of(
    memory: ShortTermMemory, *, conversation_id: str, session: Session | None, now_ms: int, parameters: RecallParameters
) -> Hold | None:
    """Why `memory` cannot come to mind in `session`, which asks in `conversation_id`; None if it can."""
    if session is not None and parameters.sessions and memory.session is not None:
        if memory.session != session.id:
            return None
        if session.context_since_ms is not None:
            return "in_context" if memory.time_ms >= session.context_since_ms else None
    if memory.conversation_id != conversation_id:
        return None
    return "too_young" if age_of(memory.time_ms, now_ms) < parameters.own_conversation_ms else None


def holds_of_rows(
    columns: Columns, ages: Integers, *, conversation_id: str, session: Session | None, parameters: RecallParameters
) -> tuple[Mask, Mask]:
    """The same for all rows at once, tombstones included: which are in the context, and which are too young. `ages` are
    milliseconds, 0 for a time in the future."""
    young = columns.of_conversation(conversation_id) & (ages < parameters.own_conversation_ms)
    if session is None or not parameters.sessions:
        return young & False, young
    same, unknown = columns.of_session(session.id), columns.of_session(None)
    if session.context_since_ms is None:
        return young & False, young & (same | unknown)
    return same & (columns.times >= session.context_since_ms), young & unknown
