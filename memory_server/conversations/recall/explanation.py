"""Why a memory came or did not come: the reasons of a search's `Decision`, read from it and not computed again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np

from languages import _, joined
from memory_server.conversations.model import ShortTermMemory, place_text
from memory_server.conversations.recall import why
from memory_server.conversations.recall.index import Floats, Integers
from memory_server.conversations.recall.indexed_selection import Decision
from memory_server.conversations.recall.order import Recalled, belongs
from memory_server.conversations.recall.parameters import RecallParameters
from memory_server.conversations.recall.receipts import Receipt, ThresholdRule, age_text
from memory_server.conversations.recall.words import spelling_of
from memory_server.kernel.messages import said_beginning
from memory_server.kernel.recalled_block import one_line
from memory_server.kernel.values import frozen

_PREVIEW_CHARS = 40

Kind = Literal[
    "came", "muted", "too_recent", "in_context", "same_moment", "outranked", "below_threshold"
]
"""What became of a memory: it came; it is muted here; it is held back, because it was made minutes ago in the
conversation of the search (and is not known to come from another session), or is still in the context of the asking
session, or by the 10-minute rule; others took the places; or it is not relevant enough."""


@frozen
class Verdict:
    """What became of a memory, in a `sentence`, and the `others` that came: in its place, or `apart_ms` from it."""

    kind: Kind
    sentence: str
    others: tuple[Recalled, ...] = ()
    apart_ms: int | None = None


@frozen
class Chance:
    """The part of a memory in the draw of flashbacks: its `probability` of coming in a search, exact for up to two
    draws. If it cannot be drawn, because it is too near to a memory that came, all are 0."""

    sentence: str
    weight: float = 0.0
    total_weight: float = 0.0
    probability: float = 0.0


@frozen
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
    """Return what `decision` decided about the memory of `row`, which must not be a tombstone, and
    why; with its part in the draw of flashbacks if a draw could bring it."""
    [recalled] = decision.explained([row])
    verdict = _verdict(decision, row, recalled)

    draw: Chance | None = None
    if verdict.kind not in ("came", "muted", "too_recent", "in_context"):
        draw = _draw(decision, row)

    counted = recalled.counted
    if decision.query.overview is not None and not belongs(recalled.memory, decision.query):
        counted = 0.0

    return Explanation(
        recalled.memory,
        recalled.receipt,
        verdict=verdict,
        draw=draw,
        needed=decision.needed,
        counted=counted,
    )


def shown(recalled: Recalled) -> str:
    """Describe a memory in a sentence: its id, its relevance and the beginning of its text."""
    preview = one_line(said_beginning(recalled.memory.text, _PREVIEW_CHARS))
    return _(
        "{id} ({relevance:.1f}: {preview})", recalled.memory.id, recalled.receipt.relevance, preview
    )


def _verdict(decision: Decision, row: int, recalled: Recalled) -> Verdict:
    """Return why the memory of a row came; or else the first rule of the search that kept it
    out."""
    parameters = decision.parameters
    if row in decision.order.chosen:
        rank = decision.order.chosen.index(row) + 1
        places = parameters.places(question=decision.query.question)
        return Verdict("came", why.came(rank, places, top=rank <= parameters.top_count))

    # In the order of the search: the first rule that keeps a memory out is the reason.
    if decision.muted[row]:
        return Verdict("muted", why.muted(joined(", ", map(place_text, recalled.memory.muted))))
    if not decision.counted.eligible[row]:
        return _held_back(decision, row, recalled)

    near_row = decision.order.passed_over.get(row)
    if near_row is not None:
        others = decision.explained([near_row])
        apart_ms = _apart_ms(decision, row, near_row)
        sentence = why.same_moment(
            apart_ms, shown(others[0]), parameters.same_moment, parameters.spacing_ms
        )
        return Verdict("same_moment", sentence, others, apart_ms)

    shortfall = _shortfall(decision, row, recalled)
    if shortfall is not None:
        return Verdict("below_threshold", shortfall)
    return _outranked(decision, row, recalled)


def _held_back(decision: Decision, row: int, recalled: Recalled) -> Verdict:
    """Make the verdict on a memory that may not come yet."""
    age_ms = recalled.receipt.age_ms
    if decision.in_context[row]:
        return Verdict("in_context", why.in_context(age_ms))
    ahead_ms = max(0, recalled.memory.time_ms - decision.counted.now_ms)
    wait_ms = decision.parameters.own_conversation_ms - age_ms + ahead_ms
    return Verdict("too_recent", why.too_recent(age_ms, wait_ms))


def _shortfall(decision: Decision, row: int, recalled: Recalled) -> str | None:
    """Return why a memory is not relevant enough, or None if it is: it is not of the overview,
    lacks points, or shares too little. A memory that comes by its meaning lacks nothing."""
    parameters = decision.parameters
    receipt = recalled.receipt
    overview = decision.query.overview
    if overview is not None and not belongs(recalled.memory, decision.query):
        return why.not_in_overview(overview)

    nearness = receipt.nearness
    if nearness is not None and (parameters.weak_too or nearness.stands_out):
        return None  # it comes by its meaning

    # Two limits hold, one for relevance and one for the match: the larger shortfall counts.
    missing = parameters.threshold - float(decision.counted.relevance[row])
    if parameters.least_match:
        missing = max(missing, decision.needed - float(decision.counted.match.evidence[row]))
    if missing > 0.0:
        if (
            parameters.must_share
            and receipt.matched
            and all(word.incidental for word in receipt.matched)
        ):
            return why.only_incidental(_longest_words(recalled))

        shortfall = why.lacks_points(
            missing,
            decision.needed,
            shares_words=bool(receipt.words_shared),
            of_home=parameters.least_match > 0.0,
        )
        reasons = [shortfall]
        factor = parameters.message_factor(decision.query.telling_words)
        if factor > 1.0:
            reasons.append(why.longer_message(factor))
        part_factor = ThresholdRule.of(decision.query, parameters).part_factor(receipt.part)
        if part_factor < 1.0:
            reasons.append(why.part_of_question(receipt.part, part_factor))
        return joined(" ", reasons)

    if parameters.must_share and not receipt.shares(decision.query, parameters):
        return why.shares_too_little()
    return None


def _outranked(decision: Decision, row: int, recalled: Recalled) -> Verdict:
    """Return the verdict on a memory that is relevant enough but did not come: there is no place,
    it is far below the most relevant one, or others took the places."""
    order = decision.order
    others = decision.explained(order.chosen)
    if not others:
        return Verdict("outranked", why.no_place())

    best = order.best
    nearness = recalled.receipt.nearness
    # A memory that stands out by its meaning needs no relevance.
    needs_relevance = nearness is None or not nearness.stands_out
    if best is not None and needs_relevance and not decision.parameters.weak_too:
        least = order.gap * float(decision.counted.relevance[best])
        if not len(decision.counted.near_best(np.array([row]), least)):
            others = decision.explained([best])
            sentence = why.far_below_best(order.gap, shown(others[0]))
            return Verdict("outranked", sentence, others)

    sentence = why.places_taken(list(map(shown, others)), by_meaning=order.nearness is not None)
    return Verdict("outranked", sentence, others)


def _longest_words(recalled: Recalled) -> list[str]:
    """Return the shared words as the memory's text spells them, without words that are part of another."""
    spelt = spelling_of(recalled.memory)
    words = [spelt(word.word) for word in recalled.receipt.words_shared]
    return [word for word in words if not _is_part_of_another(word, words)]


def _is_part_of_another(word: str, words: Sequence[str]) -> bool:
    return any(word != longer and word in longer for longer in words)


def _draw(decision: Decision, row: int) -> Chance | None:
    """Return the chance that a memory is drawn as a flashback, or a sentence on the memory of the same time that
    keeps it out. Return None if this search draws none, or if another rule keeps the memory out."""
    parameters = decision.parameters
    if not parameters.draws(question=decision.query.question, came=bool(decision.order.chosen)):
        return None

    if decision.weights[row] > 0.0:
        return _chance(decision, row)

    # Of the memories near it, the most relevant one keeps it out, as in the 10-minute rule.
    for chosen_row in decision.order.chosen:
        apart_ms = _apart_ms(decision, row, chosen_row)
        if apart_ms < parameters.spacing_ms:
            apart = age_text(apart_ms)
            chosen_id = decision.columns.memory(chosen_row).id
            return Chance(
                _(
                    "It cannot be a flashback: it is {apart} apart from {came}, which came.",
                    apart,
                    chosen_id,
                )
            )
    return None


def _chance(decision: Decision, row: int) -> Chance:
    """Compute the chance that a memory is drawn as a flashback; its weight must be above 0. The sentence says how
    often such searches draw it, not whether this one did: a search for an explanation does not show its flashbacks."""
    rows, times = decision.columns.oldest_first()
    position = int(np.flatnonzero(rows == row)[0])
    weights = decision.weights[rows]
    weight = float(weights[position])
    total_weight = float(weights.sum())
    probability = _probability(weights, times, position, parameters=decision.parameters)
    sentence = _(
        "It may come as a flashback, by chance: in {share} of such searches (weight {weight:.2f} of {total}).",
        _percent_text(probability),
        weight,
        _total_weight_text(total_weight),
    )
    return Chance(sentence, weight, total_weight, probability)


def _percent_text(probability: float) -> str:
    """Return a probability as `12 %`, `3.4 %` or `0.056 %`: with two digits that count, or as whole
    percents from 10 on."""
    percent = 100 * probability
    rounds_to_ten = percent >= 9.95
    if rounds_to_ten:
        return f"{percent:.0f} %"
    return f"{percent:.2g} %"


def _total_weight_text(total_weight: float) -> str:
    """Return a weight such as `1,234.5` or `12.34`."""
    if total_weight >= 100:
        return f"{total_weight:,.1f}"
    return f"{total_weight:.2f}"


def _apart_ms(decision: Decision, row: int, other_row: int) -> int:
    """Return the milliseconds between two memories."""
    times = decision.columns.times
    return abs(int(times[row]) - int(times[other_row]))


def _probability(
    weights: Floats, times: Integers, position: int, *, parameters: RecallParameters
) -> float:
    """Compute the probability that the memory at `position` is drawn: in the first draw, or in the second after each
    first draw that does not bar it. Later draws count like the second, which is nearly exact for a large pool.
    `weights` and the ascending `times` have one element for each memory."""
    weight = float(weights[position])
    total = float(weights.sum())
    first = weight / total
    draws = parameters.flashback_count
    if draws == 1:
        return first

    sums = np.concatenate(([0.0], np.cumsum(weights)))
    begin = np.searchsorted(times, times - parameters.spacing_ms, side="right")
    end = np.searchsorted(times, times + parameters.spacing_ms, side="left")
    total_after = total - np.maximum(sums[end] - sums[begin], weights)
    """The total weight in the second draw, if each memory was drawn first."""

    allows = np.abs(times - times[position]) >= parameters.spacing_ms
    """Whether each memory, drawn first, allows that this memory is drawn second."""
    allows[position] = False
    # If rounding leaves nothing, there was nothing left to draw.
    allows &= (weights > 0.0) & (total_after >= weight * (1 - 1e-9))

    second = float(
        np.sum(weights[allows] / total * weight / np.maximum(total_after[allows], weight))
    )

    missed = 1.0 - first - second
    if missed <= 0:
        return 1.0
    later = second / max(1.0 - first, second)
    return min(1.0, 1.0 - missed * (1.0 - later) ** (draws - 2))
