"""Why a memory came or did not come: the reasons of a search's `Decision`, read from it and not computed again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from memory_server.conversations.model import ShortTermMemory, place_text
from memory_server.conversations.recall.index import Floats, Integers
from memory_server.conversations.recall.indexed_selection import Decision
from memory_server.conversations.recall.order import Recalled
from memory_server.conversations.recall.overviews import belongs
from memory_server.conversations.recall.parameters import RecallParameters
from memory_server.conversations.recall.relevance import Receipt, age_text
from memory_server.conversations.recall.words import spelling
from memory_server.kernel.messages import said_beginning
from memory_server.kernel.recalled_block import one_line
from memory_server.kernel.times import MINUTE_MS
from nlp.overview_questions import Overview
from sandbox.locale import _, joined

_PREVIEW_CHARS = 40

_NOT_IN_OVERVIEW: dict[Overview, str] = {
    "everything": _("The messages ask what is known about the user, and it does not say anything about the user."),
    "time": _("The messages ask what was said in a certain time, and it was not said then."),
    "name": _("The messages ask for the user's name, and it does not tell the name."),
}

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
    parameters, age_ms = decision.parameters, recalled.receipt.age_ms
    if row in decision.order.chosen:
        rank, places = decision.order.chosen.index(row) + 1, parameters.places(question=decision.query.question)
        tier = _("top") if rank <= parameters.top_count else _("next")
        return Verdict("came", _("It came as {tier}, number {rank} of {places}.", tier, rank, places))
    if decision.muted[row]:
        where = joined(", ", map(place_text, recalled.memory.muted))
        return Verdict("muted", _("It is muted, so it never comes unasked {where}. A search by hand finds it.", where))
    if not decision.counted.eligible[row]:
        if decision.in_context[row]:
            return Verdict(
                "in_context",
                _(
                    "Held back: this session said it {age} ago and still has it in its context. It can come in "
                    "any other session, and in this one after its context was compacted.",
                    age_text(age_ms),
                ),
            )
        ahead_ms = max(0, recalled.memory.time_ms - decision.counted.now_ms)
        return Verdict(
            "too_recent",
            _(
                "Held back: it belongs to this conversation, is not known to come from another session, and is "
                "only {age} old. It can come in {age2}.",
                age_text(age_ms),
                age_text(parameters.own_conversation_ms - age_ms + ahead_ms),
            ),
        )
    if (near := decision.order.passed_over.get(row)) is not None:
        others, apart_ms = decision.explained([near]), _apart(decision, row, near)
        return Verdict(
            "same_moment",
            _(
                "Held back: it is {age} apart from a more relevant memory that came, {others}. At most "
                "{same_moment} of the same {spacing:g} min can come.",
                age_text(apart_ms),
                shown(others[0]),
                parameters.same_moment,
                parameters.spacing_ms / MINUTE_MS,
            ),
            others,
            apart_ms,
        )
    if (overview := decision.query.overview) is not None and not belongs(recalled.memory, decision.query):
        return Verdict("below_threshold", _NOT_IN_OVERVIEW[overview])
    matched = recalled.receipt.matched
    missing = parameters.threshold - float(decision.counted.relevances[row])
    if parameters.least_match:
        missing = max(missing, decision.needed - float(decision.counted.match.evidence[row]))
    nearness = recalled.receipt.nearness
    by_meaning = nearness is not None and (parameters.weak_too or nearness.stands_out)
    if missing > 0.0 and not by_meaning:
        if parameters.must_share and matched and all(word.incidental for word in matched):
            return Verdict("below_threshold", _only_incidental(recalled))
        why = "" if recalled.receipt.words_shared else _("it shares no word with these messages, and ")
        points = _("{missing:.1f} of the {needed:.1f} points needed", missing, decision.needed)
        return Verdict("below_threshold", _("Not relevant enough: {why}it lacks {points}.", why, points))
    if parameters.must_share and not recalled.receipt.shares(decision.query, parameters) and not by_meaning:
        only = _("It shares too few words with the last message that say something.")
        return Verdict("below_threshold", only)
    others = decision.explained(decision.order.chosen)
    if others and not parameters.weak_too and decision.counted.relevances[row] < decision.order.least_beside:
        beside = _(
            "it has less than {nearly_best:.0%} of the relevance of {others}", parameters.nearly_best, shown(others[0])
        )
        return Verdict("outranked", _("Relevant enough, but not unasked: {beside}.", beside), others[:1])
    if not others:
        return Verdict("outranked", _("Relevant enough, but the settings leave no place for top and next."))
    count = _("the only place") if len(others) == 1 else _("the {others} places", len(others))
    took = joined("; ", map(shown, others))
    if decision.order.nearness is not None:
        said = _(
            "Relevant enough, but others, which come first by words and meaning, took {number}: {took}.", count, took
        )
        return Verdict("outranked", said, others)
    return Verdict(
        "outranked", _("Relevant enough, but more relevant memories took {number}: {took}.", count, took), others
    )


def _only_incidental(recalled: Recalled) -> str:
    """The sentence on a memory that shares only words that are never enough alone."""
    spelt = spelling(recalled.memory.text)
    terms = [spelt(word.word) for word in recalled.receipt.words_shared]
    longest = [term for term in terms if not any(term != other and term in other for other in terms)]
    words = joined(", ", longest)
    return _(
        "It shares only {words} with these messages: such words stand in sentences about anything, and never bring a "
        "memory alone.",
        words,
    )


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
