"""Why a memory came or did not come: the reasons of a search's `Decision`, read from it and not computed again."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from memory_server.core.model import ShortTermMemory
from memory_server.recall.index import Floats, Integers
from memory_server.recall.indexed_selection import Decision
from memory_server.recall.parameters import MINUTE_MS, RecallParameters
from memory_server.recall.passages import one_line
from memory_server.recall.relevance import Receipt, age_text
from memory_server.recall.result import Recalled

_PREVIEW_CHARS = 40


@dataclass(frozen=True, slots=True)
class Came:
    """It came, as number `rank` (from 1) of the `places` of top and next."""

    rank: int
    places: int
    tier: str

    def line(self) -> str:
        return f"It came as {self.tier}, number {self.rank} of {self.places}."


@dataclass(frozen=True, slots=True)
class TooRecent:
    """It was made minutes ago in the conversation of the search, and is not known to come from another session."""

    age_ms: int
    wait_ms: int

    def line(self) -> str:
        return (
            f"Held back: it belongs to this conversation, is not known to come from another session, and is only "
            f"{age_text(self.age_ms)} old. It can come in {age_text(self.wait_ms)}."
        )


@dataclass(frozen=True, slots=True)
class InContext:
    """The asking session stored it, and still has it in its context."""

    age_ms: int

    def line(self) -> str:
        return (
            f"Held back: this session said it {age_text(self.age_ms)} ago and still has it in its context. "
            "It can come in any other session, and in this one after its context was compacted."
        )


@dataclass(frozen=True, slots=True)
class SameMoment:
    """The 10-minute rule: enough more relevant memories of that moment came. `other` is the first of them."""

    other: Recalled
    apart_ms: int
    spacing_ms: int
    most: int

    def line(self) -> str:
        return (
            f"Held back: it is {age_text(self.apart_ms)} apart from a more relevant memory that came, "
            f"{shown(self.other)}. At most {self.most} of the same {self.spacing_ms / MINUTE_MS:g} min can come."
        )


@dataclass(frozen=True, slots=True)
class Outranked:
    """Relevant enough, but others took the places."""

    by: tuple[Recalled, ...]

    def line(self) -> str:
        if not self.by:
            return "Relevant enough, but the settings leave no place for top and next."
        took = "; ".join(map(shown, self.by))
        count = "the only place" if len(self.by) == 1 else f"the {len(self.by)} places"
        return f"Relevant enough, but more relevant memories took {count}: {took}."


@dataclass(frozen=True, slots=True)
class BelowThreshold:
    """Not relevant enough to come as top or next."""

    missing: float
    shares_words: bool
    threshold: float

    def line(self) -> str:
        if self.missing <= 0.0:
            return "It shares only function words with the last message, or no word at all."
        why = "" if self.shares_words else "it shares no word with these messages, and "
        return f"Not relevant enough: {why}it lacks {self.missing:.1f} of the {self.threshold:.1f} points needed."


Verdict = Came | TooRecent | InContext | SameMoment | Outranked | BelowThreshold


@dataclass(frozen=True, slots=True)
class Chance:
    """Its part in the draw of flashbacks: `probability` of coming in one search, exact for up to two draws."""

    weight: float
    total_weight: float
    probability: float
    drawn: bool

    def line(self) -> str:
        percent = 100 * self.probability
        share = f"{percent:.0f} %" if percent >= 9.95 else f"{percent:.2g} %"
        total = f"{self.total_weight:,.1f}" if self.total_weight >= 100 else f"{self.total_weight:.2f}"
        # It does not say whether it was drawn: that would be true only of this decision, which nobody saw.
        return (
            f"It may come as a flashback, by chance: in {share} of such searches (weight {self.weight:.2f} of {total})."
        )


@dataclass(frozen=True, slots=True)
class Barred:
    """It cannot be drawn: it lies too near to one that came as top or next."""

    near: Recalled
    apart_ms: int

    def line(self) -> str:
        return (
            f"It cannot be a flashback: it is {age_text(self.apart_ms)} apart from {self.near.memory.id}, which came."
        )


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why one memory came or did not. `draw` is None if it is not in the draw of flashbacks: it came, it is held back,
    or there are no flashbacks. `needed` is the threshold for what it shares, in the Node original for its relevance."""

    memory: ShortTermMemory
    receipt: Receipt
    verdict: Verdict
    draw: Chance | Barred | None
    needed: float


def explain(decision: Decision, row: int) -> Explanation:
    """The reasons of `decision` for the memory of `row`, which must not be a tombstone."""
    [recalled] = decision.explained([row])
    verdict = _verdict(decision, row, recalled)
    draw = None if isinstance(verdict, Came | TooRecent | InContext) else _draw(decision, row)
    return Explanation(recalled.memory, recalled.receipt, verdict, draw, decision.needed)


def shown(recalled: Recalled) -> str:
    """A memory in a sentence: its id, its relevance and the beginning of its text."""
    text = one_line(recalled.memory.text)
    preview = text if len(text) <= _PREVIEW_CHARS else text[: _PREVIEW_CHARS - 1] + "…"
    return f"{recalled.memory.id} ({recalled.receipt.relevance:.1f}: {preview})"


def _verdict(decision: Decision, row: int, recalled: Recalled) -> Verdict:
    parameters = decision.parameters
    if row in decision.chosen:
        rank = decision.chosen.index(row) + 1
        places = parameters.top_count + parameters.next_count
        return Came(rank, places, "top" if rank <= parameters.top_count else "next")
    if not decision.eligible[row]:
        age_ms = recalled.receipt.age_ms
        if decision.hold_on(recalled.memory) == "in_context":
            return InContext(age_ms)
        ahead_ms = max(0, recalled.memory.time_ms - decision.now_ms)
        return TooRecent(age_ms, parameters.own_conversation_ms - age_ms + ahead_ms)
    if (near := decision.passed_over.get(row)) is not None:
        [other] = decision.explained([near])
        return SameMoment(other, _apart(decision, row, near), parameters.spacing_ms, parameters.same_moment)
    shares = bool(recalled.receipt.matched)
    missing = parameters.threshold - float(decision.relevance[row])
    if parameters.least_match:
        missing = max(missing, decision.needed - decision.evidence(row))
    if missing <= 0.0 and (recalled.receipt.shares or not parameters.must_share):
        return Outranked(decision.explained(decision.chosen))
    return BelowThreshold(missing, shares, decision.needed)


def _draw(decision: Decision, row: int) -> Chance | Barred | None:
    parameters = decision.parameters
    if not parameters.flashback_count:
        return None
    weight = float(decision.weights[row])
    if weight > 0.0:
        order = decision.columns.oldest_first()
        place = int(np.flatnonzero(order == row)[0])
        weights, times = decision.weights[order], decision.columns.times[order]
        probability = _probability(weights, times, place, parameters)
        return Chance(weight, float(weights.sum()), probability, row in decision.drawn)
    # Of the memories near it, the most relevant one keeps it out, as in the 10-minute rule.
    near = next((r for r in decision.chosen if _apart(decision, row, r) < parameters.spacing_ms), None)
    if near is None:
        return None
    [other] = decision.explained([near])
    return Barred(other, _apart(decision, row, near))


def _apart(decision: Decision, row: int, other: int) -> int:
    times = decision.columns.times
    return abs(int(times[row]) - int(times[other]))


def _probability(weights: Floats, times: Integers, place: int, parameters: RecallParameters) -> float:
    """The probability that `place` is drawn: in the first draw, or in the second after each first draw that does not
    bar it.

    Later draws count like the second, which is nearly exact for a large pool.
    """
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
