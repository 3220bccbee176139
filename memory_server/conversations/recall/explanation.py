"""Why a memory came or did not come: the reasons of a search's `Decision`, read from it and not computed again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from memory_server.conversations.model import ShortTermMemory, place_text
from memory_server.conversations.recall import why
from memory_server.conversations.recall.index import Floats, Integers
from memory_server.conversations.recall.indexed_selection import Decision
from memory_server.conversations.recall.order import Recalled
from memory_server.conversations.recall.overviews import belongs
from memory_server.conversations.recall.parameters import RecallParameters
from memory_server.conversations.recall.receipts import Receipt, age_text
from memory_server.conversations.recall.words import spelling
from memory_server.kernel.messages import said_beginning
from memory_server.kernel.recalled_block import one_line
from sandbox.locale import _, joined

_PREVIEW_CHARS = 40

Kind = Literal["came", "muted", "too_recent", "in_context", "same_moment", "outranked", "below_threshold"]
"""What became of a memory: it came; it is muted here; it is held back, because it was made minutes ago in the
conversation of the search (and is not known to come from another session), or is still in the context of the asking
session, or by the 10-minute rule; others took the places; or it is not relevant enough."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of it, in a `sentence`, and the `others` that came: in its place, or `apart_ms` from it."""

    kind: Kind
    sentence: str
    others: tuple[Recalled, ...] = ()
    apart_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Chance:
    """Its part in the draw of flashbacks: `probability` of coming in one search, exact for up to two draws. Where it
    cannot be drawn all are 0, because it lies too near to one that came."""

    sentence: str
    weight: float = 0.0
    total_weight: float = 0.0
    probability: float = 0.0


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why one memory came or did not. `draw` is None if it is not in the draw of flashbacks: it came, it is held back,
    or this search draws none. `needed` is the threshold for what it shares, in the Node original for its relevance;
    `counted` are its points of that kind."""

    memory: ShortTermMemory
    receipt: Receipt
    verdict: Verdict
    draw: Chance | None
    needed: float
    counted: float


def explain(decision: Decision, row: int) -> Explanation:
    """The reasons of `decision` for the memory of `row`, which must not be a tombstone."""
    [recalled] = decision.explained([row])
    verdict = _verdict(decision, row, recalled)
    draw = None if verdict.kind in ("came", "muted", "too_recent", "in_context") else _draw(decision, row)
    outside = decision.query.overview is not None and not belongs(recalled.memory, decision.query)
    counted = 0.0 if outside else recalled.counted
    return Explanation(recalled.memory, recalled.receipt, verdict, draw, decision.needed, counted)


def shown(recalled: Recalled) -> str:
    """A memory in a sentence: its id, its relevance and the beginning of its text."""
    preview = one_line(said_beginning(recalled.memory.text, _PREVIEW_CHARS))
    return _("{id} ({relevance:.1f}: {preview})", recalled.memory.id, recalled.receipt.relevance, preview)


def _verdict(decision: Decision, row: int, recalled: Recalled) -> Verdict:
    parameters = decision.parameters
    if row in decision.order.chosen:
        rank, places = decision.order.chosen.index(row) + 1, parameters.places(question=decision.query.question)
        return Verdict("came", why.came(rank, places, top=rank <= parameters.top_count))
    if decision.muted[row]:
        return Verdict("muted", why.muted(joined(", ", map(place_text, recalled.memory.muted))))
    if not decision.counted.eligible[row]:
        return _held_back(decision, row, recalled)
    near = decision.order.passed_over.get(row)
    if near is not None:
        others = decision.explained([near])
        apart_ms = _apart(decision, row, near)
        sentence = why.same_moment(apart_ms, shown(others[0]), parameters.same_moment, parameters.spacing_ms)
        return Verdict("same_moment", sentence, others, apart_ms)
    shortfall = _shortfall(decision, row, recalled)
    if shortfall is not None:
        return Verdict("below_threshold", shortfall)
    return _outranked(decision, row)


def _held_back(decision: Decision, row: int, recalled: Recalled) -> Verdict:
    """The verdict on a memory that may not come yet."""
    age_ms = recalled.receipt.age_ms
    if decision.in_context[row]:
        return Verdict("in_context", why.in_context(age_ms))
    ahead_ms = max(0, recalled.memory.time_ms - decision.counted.now_ms)
    wait_ms = decision.parameters.own_conversation_ms - age_ms + ahead_ms
    return Verdict("too_recent", why.too_recent(age_ms, wait_ms))


def _shortfall(decision: Decision, row: int, recalled: Recalled) -> str | None:
    """Why a memory is not relevant enough; None: it is."""
    parameters, receipt = decision.parameters, recalled.receipt
    overview = decision.query.overview
    if overview is not None and not belongs(recalled.memory, decision.query):
        return why.not_in_overview(overview)
    nearness = receipt.nearness
    if nearness is not None and (parameters.weak_too or nearness.stands_out):
        return None  # it comes by its meaning
    missing = parameters.threshold - float(decision.counted.relevances[row])
    if parameters.least_match:
        missing = max(missing, decision.needed - float(decision.counted.match.evidence[row]))
    if missing > 0.0:
        if parameters.must_share and receipt.matched and all(word.incidental for word in receipt.matched):
            return why.only_incidental(_longest_words(recalled))
        return why.lacks_points(missing, decision.needed, shares_words=bool(receipt.words_shared))
    if parameters.must_share and not receipt.shares(decision.query, parameters):
        return why.shares_too_little()
    return None


def _outranked(decision: Decision, row: int) -> Verdict:
    """The verdict on a memory that is relevant enough."""
    parameters = decision.parameters
    others = decision.explained(decision.order.chosen)
    if not others:
        return Verdict("outranked", why.no_place())
    if not parameters.weak_too and decision.counted.relevances[row] < decision.order.least_beside:
        return Verdict("outranked", why.far_below_best(parameters.nearly_best, shown(others[0])), others[:1])
    sentence = why.places_taken([shown(other) for other in others], by_meaning=decision.order.nearness is not None)
    return Verdict("outranked", sentence, others)


def _longest_words(recalled: Recalled) -> list[str]:
    """The words that it shares, as its text spells them, without those that are part of another one."""
    spelt = spelling(recalled.memory.text)
    words = [spelt(word.word) for word in recalled.receipt.words_shared]
    return [word for word in words if not any(word != other and word in other for other in words)]


def _draw(decision: Decision, row: int) -> Chance | None:
    parameters = decision.parameters
    if not parameters.draws(question=decision.query.question, came=bool(decision.order.chosen)):
        return None
    weight = float(decision.weights[row])
    if weight > 0.0:
        order, times = decision.columns.oldest_first()
        place, weights = int(np.flatnonzero(order == row)[0]), decision.weights[order]
        probability, total = _probability(weights, times, place, parameters), float(weights.sum())
        percent = 100 * probability
        share = f"{percent:.0f} %" if percent >= 9.95 else f"{percent:.2g} %"
        # It does not say whether it was drawn: that would be true only of this decision, which nobody saw.
        return Chance(
            _(
                "It may come as a flashback, by chance: in {share} of such searches (weight {weight:.2f} of {total}).",
                share,
                weight,
                f"{total:,.1f}" if total >= 100 else f"{total:.2f}",
            ),
            weight,
            total,
            probability,
        )
    # Of the memories near it, the most relevant one keeps it out, as in the 10-minute rule.
    near = next((r for r in decision.order.chosen if _apart(decision, row, r) < parameters.spacing_ms), None)
    if near is None:
        return None
    apart, came = age_text(_apart(decision, row, near)), decision.columns.memory(near).id
    return Chance(_("It cannot be a flashback: it is {apart} apart from {came}, which came.", apart, came))


def _apart(decision: Decision, row: int, other: int) -> int:
    times = decision.columns.times
    return abs(int(times[row]) - int(times[other]))


def _probability(weights: Floats, times: Integers, place: int, parameters: RecallParameters) -> float:
    """The probability that `place` is drawn: in the first draw, or in the second after each first draw that does not
    bar it. Later draws count like the second, which is nearly exact for a large pool."""
    total = float(weights.sum())
    first = float(weights[place]) / total
    draws = parameters.flashback_count
    if draws == 1:
        return first
    sums = np.concatenate(([0.0], np.cumsum(weights)))
    after = np.searchsorted(times, times - parameters.spacing_ms, side="right")
    before = np.searchsorted(times, times + parameters.spacing_ms, side="left")
    left = total - np.maximum(sums[before] - sums[after], weights)
    leaves = np.abs(times - times[place]) >= parameters.spacing_ms
    leaves[place] = False
    # If rounding leaves nothing, there was nothing left to draw.
    leaves &= (weights > 0.0) & (left >= weights[place] * (1 - 1e-9))
    second = float(np.sum(weights[leaves] / total * weights[place] / np.maximum(left[leaves], weights[place])))
    missed = 1.0 - first - second
    return min(1.0, 1.0 - missed * (1.0 - second / max(1.0 - first, second)) ** (draws - 2)) if missed > 0 else 1.0
