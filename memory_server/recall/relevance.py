"""How relevant memories are to the present words: what they share − time decay + reinforcement score.

As the Node original's `calculateRelevance` where `RecallParameters` are its own; equal to it within 1e-12 (V8's
`Math.exp` and C's differ in the last bit for a tenth of all arguments). docs/explanation/recall.md says what the usual
parameters add: a word counts less the more memories hold it, pairs of characters count beside words, and a memory gains
from what was said around it. This is the plain form, one memory at a time; `indexed_selection.py` does the same on
whole columns, and a test compares both.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import exp, log
from struct import pack, unpack

from memory_server.core.model import ShortTermMemory
from memory_server.recall.fusion import Nearness
from memory_server.recall.parameters import DAY_MS, RecallParameters
from memory_server.recall.words import GramText, Query, Wording
from nlp import Sought, gram_weight
from nlp.grams import pairs_in

_FEWEST, _FEWEST_FOR_RARITY, _USUAL_NUMBER = 12, 100, 300
"""Memories. Chosen on the development sets of docs/explanation/recall-quality.md."""


@dataclass(frozen=True, slots=True)
class MatchedWord:
    """A term that the query and the memory share, with the weight it has in each, and the factor on both."""

    word: str
    query_weight: float
    memory_weight: float
    factor: float = 1.0
    telling: bool = True
    """Whether it is in the last message and is not a function word such as `what` or 我们."""

    @property
    def points(self) -> float:
        return self.factor * (self.query_weight + self.memory_weight)

    def text(self) -> str:
        """`猫 33.8+12.1`, or with a factor `猫 0.30×(33.8+12.1)`."""
        weights = f"{self.query_weight:.1f}+{self.memory_weight:.1f}"
        return f"{self.word} {weights}" if self.factor == 1.0 else f"{self.word} {self.factor:.2f}×({weights})"


@dataclass(frozen=True, slots=True)
class Receipt:
    """Why a memory has the relevance it has: `match + around − decay + score`. `around`: the points that it gains from
    its episode. `nearness`: its place by meaning, where the search had vectors and it has one."""

    matched: tuple[MatchedWord, ...]
    decay: float
    age_ms: int
    score: float
    around: float = 0.0
    nearness: Nearness | None = None

    @property
    def shares(self) -> bool:
        """Whether a word of the last message is shared that is not a function word."""
        return any(word.telling for word in self.matched)

    @property
    def match(self) -> float:
        return sum(word.points for word in self.matched)

    @property
    def relevance(self) -> float:
        return self.match + self.around - self.decay + self.score

    def line(self) -> str:
        """One short line for people: the heaviest shared words with both weights, decay with age, score."""
        heaviest = sorted(self.matched, key=lambda word: -word.points)
        words = ", ".join(word.text() for word in heaviest[:3])
        if len(heaviest) > 3:
            words += f" and {len(heaviest) - 3} more"
        around = f"; +{self.around:.1f} from what was said around it" if self.around else ""
        line = (
            f"{words or 'no shared word'}{around}; -{self.decay:.1f} for {age_text(self.age_ms)}; +{self.score:g} score"
        )
        return line if self.nearness is None else f"{line}; {self.nearness.line()}"


def age_of(time_ms: int, now_ms: int) -> int:
    """Milliseconds since `time_ms`; 0 for a time in the future, which would otherwise overflow the decay."""
    return max(0, now_ms - time_ms)


def decay(age_ms: int, parameters: RecallParameters) -> float:
    """Relevance points lost at an age: 15 · (1 − e^(−age · 2e-9)) as in the Node original, usually 5 · (…)."""
    return parameters.decay_ceiling * (1.0 - exp(-age_ms * parameters.decay_per_ms))


def score_points(memory: ShortTermMemory, parameters: RecallParameters) -> float:
    """The points that its score adds to its relevance. The ceiling may have been higher when it was scored; the Node
    original applies the ceiling only when it raises a score."""
    return min(memory.score, parameters.score_ceiling) if parameters.must_share else memory.score


def match_needed(memories: int, parameters: RecallParameters) -> float:
    """The points that a memory must share with the query, among `memories` memories: it grows with the greatest
    possible idf, because among more memories one shares more by chance. Below 12 memories it stays the same: otherwise
    a single common word would be enough."""
    return parameters.least_match * _idf(1, max(memories, _FEWEST)) / _idf(1, _USUAL_NUMBER)


def rarity(holders: int, memories: int) -> float:
    """The factor on a word that `holders` of `memories` memories hold: idf(holders) ÷ idf(1), at most 1.

    idf = ln(1 + (N − n + 0.5) ÷ (n + 0.5)), the form of BM25 that is never negative (Robertson and Zaragoza, The
    Probabilistic Relevance Framework, 2009). N is at least 100: if a new conversation has only five memories, all of
    pizza, the word pizza must still count.
    """
    memories = max(memories, _FEWEST_FOR_RARITY)
    return _idf(holders, memories) / _idf(1, memories)


def receipts(
    memories: Sequence[ShortTermMemory], query: Query, *, now_ms: int, parameters: RecallParameters, wording: Wording
) -> list[Receipt]:
    """The receipt of each memory, judged among all of them. A record of another program may hold a word twice: then it
    counts twice."""
    place = {word: number for number, word in enumerate(query.words)}
    found = [_shared(memory, query, place, wording) for memory in memories]
    holders = Counter(key for shared in found for key, _ in shared)
    factors = {key: rarity(count, len(memories)) if parameters.rarity else 1.0 for key, count in holders.items()}
    matched = [[(key, replace(word, factor=word.factor * factors[key])) for key, word in shared] for shared in found]
    ages = [age_of(memory.time_ms, now_ms) for memory in memories]
    gains = _around(memories, matched, parameters)
    return [
        Receipt(tuple(w for _, w in words), decay(age, parameters), age, score_points(memory, parameters), gained)
        for memory, age, words, gained in zip(memories, ages, matched, gains, strict=True)
    ]


def episodes(times: Iterable[int], pause_ms: int) -> list[int]:
    """For each of the ascending times the number of its episode, from 0; a new episode begins after a pause longer than
    `pause_ms`."""
    numbers: list[int] = []
    last: int | None = None
    for time_ms in times:
        number = numbers[-1] if numbers else 0
        numbers.append(number + (last is not None and time_ms - last > pause_ms))
        last = time_ms
    return numbers


MOST_GRAM_WEIGHT = 60_000.0
"""Greater weights count as this: a number of two bytes goes up to 65,504."""


def gram_weights(texts: Iterable[GramText], wanted: Mapping[str, object]) -> dict[str, float]:
    """The weights of the `wanted` pairs and characters in the texts of a memory, in the order of `wanted`."""
    sums: dict[str, float] = {}
    for part in texts:
        here = {
            gram: count
            for gram in wanted
            if (count := _occurrences(part.text, gram)) and not (len(gram) == 2 and gram in part.words)
        }
        if here:
            each = part.role_weight * gram_weight(pairs_in(part.text))
            for gram, count in here.items():
                sums[gram] = sums.get(gram, 0.0) + count * each
    # The index keeps them in two bytes.
    return {gram: unpack("e", pack("e", min(sums[gram], MOST_GRAM_WEIGHT)))[0] for gram in wanted if gram in sums}


def age_text(age_ms: int) -> str:
    """An age for people: `5 min`, `3 h`, `12 days`."""
    minutes = age_ms / 60_000
    if minutes < 60:
        return f"{minutes:.0f} min"
    if minutes < 48 * 60:
        return f"{minutes / 60:.0f} h"
    return f"{age_ms / DAY_MS:.0f} days"


_Key = tuple[bool, str]
"""Whether a term is a gram, and the term."""
_Shared = Sequence[tuple[_Key, MatchedWord]]
"""The terms that a memory shares with the query."""


def _shared(memory: ShortTermMemory, query: Query, place: Mapping[str, int], wording: Wording) -> _Shared:
    """The terms that `memory` shares with the query, in the order of the query, with their factors in the query."""
    shared: list[tuple[_Key, MatchedWord]] = []

    def note(sought: Mapping[str, Sought], term: str, weight: float) -> None:
        one = sought[term]
        key = sought is query.grams, term
        shared.append((key, MatchedWord(term, one.weight, weight, one.factor, one.telling)))

    # Most memories share no word: asking for all words at once takes a fifth of the time of looking at each.
    if not query.words.keys().isdisjoint(memory.words):
        for word, weight in zip(memory.words, memory.weights, strict=True):
            if word in query.words:
                note(query.words, word, weight)
        shared.sort(key=lambda term: place[term[1].word])
    if query.grams:
        for gram, weight in gram_weights(wording.gram_texts(memory), query.grams).items():
            note(query.grams, gram, weight)
    return shared


def _around(
    memories: Sequence[ShortTermMemory], matched: Sequence[_Shared], parameters: RecallParameters
) -> list[float]:
    """What each memory with a shared word gains from the memories of its episode."""
    gained = [0.0] * len(memories)
    if not (parameters.neighbour_share or parameters.episode_share):
        return gained
    order = sorted(range(len(memories)), key=lambda place: (memories[place].time_ms, memories[place].id))
    number = episodes((memories[place].time_ms for place in order), parameters.episode_pause_ms)
    match = [sum(word.points for _, word in shared) for shared in matched]
    most: dict[int, dict[_Key, float]] = {}
    for place, episode in zip(order, number, strict=True):
        best = most.setdefault(episode, {})
        for key, word in matched[place]:
            best[key] = max(best.get(key, 0.0), word.points)
    whole = {episode: sum(best.values()) for episode, best in most.items()}
    for nth, (place, episode) in enumerate(zip(order, number, strict=True)):
        if match[place] > 0.0:
            near = (nth - 1, nth + 1)
            beside = (match[order[n]] for n in near if 0 <= n < len(order) and number[n] == episode)
            gained[place] = parameters.neighbour_share * max(beside, default=0.0)
            gained[place] += parameters.episode_share * (whole[episode] - match[place])
    return gained


def _occurrences(text: str, gram: str) -> int:
    """At how many characters of `text` `gram` begins: 哈哈 twice in 哈哈哈."""
    count = text.count(gram)
    if count and len(gram) == 2 and gram[0] == gram[1]:
        return sum(text.startswith(gram, place) for place in range(len(text) - 1))
    return count


def _idf(holders: int, memories: int) -> float:
    return log(1.0 + (memories - holders + 0.5) / (holders + 0.5))
