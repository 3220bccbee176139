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
from dataclasses import replace
from math import exp, log
from struct import pack, unpack

from memory_server.conversations.model import ShortTermMemory
from memory_server.conversations.recall.parameters import RecallParameters
from memory_server.conversations.recall.receipts import MatchedWord, Receipt, matched_word
from memory_server.conversations.recall.typos import Vocabulary, can_be_corrected, corrected
from memory_server.conversations.recall.words import GramText, KeywordOptions, RecallQuery
from nlp import QueryTerm, bare, gram_weight
from nlp.grams import pairs_in

_FEWEST, _FEWEST_FOR_RARITY, _USUAL_NUMBER = 12, 100, 300
"""Memories. Chosen on the development sets of docs/explanation/recall-quality.md."""


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


def match_needed(memories: int, query: RecallQuery, parameters: RecallParameters) -> float:
    """The points that a memory must share with the query, among `memories` memories. After a statement it grows with
    the greatest possible idf, because among more memories one shares more by chance. After a question it does not grow
    beyond 300 memories: right answers do not share more there. Below 12 memories it stays the same: otherwise a single
    common word would be enough."""
    of_form, most = parameters.statement_match, memories
    if query.question:
        of_form, most = parameters.question_match, min(memories, _USUAL_NUMBER)
    elif query.other_words:
        of_form *= parameters.other_words_match
    return of_form * parameters.least_match * _idf(1, max(most, _FEWEST)) / _idf(1, _USUAL_NUMBER)


def rarity(holders: int, memories: int) -> float:
    """The factor on a word that `holders` of `memories` memories hold: idf(holders) ÷ idf(1), at most 1.

    idf = ln(1 + (N − n + 0.5) ÷ (n + 0.5)), the form of BM25 that is never negative (Robertson and Zaragoza, The
    Probabilistic Relevance Framework, 2009). N is at least 100: if a new conversation has only five memories, all of
    pizza, the word pizza must still count.
    """
    memories = max(memories, _FEWEST_FOR_RARITY)
    return _idf(holders, memories) / _idf(1, memories)


def receipts(
    memories: Sequence[ShortTermMemory],
    query: RecallQuery,
    *,
    now_ms: int,
    parameters: RecallParameters,
    wording: KeywordOptions,
) -> list[Receipt]:
    """The receipt of each memory, judged among all of them. A record of another program may hold a word twice: then it
    counts twice."""
    if can_be_corrected(query, parameters):
        query = corrected(query, Vocabulary(word for memory in memories for word in memory.words), parameters)
    place = {word: number for number, word in enumerate(query.words)}
    found = [_shared(memory, query, place, wording) for memory in memories]
    holders = Counter(key for shared in found for key, _ in shared)
    if any(memory.other_words for memory in memories):
        holders = with_kept(holders)
    factors = {
        (gram, term): factor_of((query.grams if gram else query.words)[term], count, len(memories), parameters)
        for (gram, term), count in holders.items()
    }
    matched = [[(key, replace(word, factor=factors[key])) for key, word in shared] for shared in found]
    ages = [age_of(memory.time_ms, now_ms) for memory in memories]
    gains = _around(memories, matched, parameters)
    spans = [span_points(memory.time_ms, query, parameters) for memory in memories]
    overview = query.overview is not None
    made: list[Receipt] = []
    for memory, age, words, gained, span in zip(memories, ages, matched, gains, spans, strict=True):
        terms = tuple(word for _key, word in words)
        lost, score = decay(age, parameters), score_points(memory, parameters)
        made.append(Receipt(terms, lost, age, score, around=gained, span=span, overview=overview))
    return made


def with_kept(holders: Mapping[tuple[bool, str], int]) -> Counter[tuple[bool, str]]:
    """The numbers of holders of each term, where a word that some memories have in their texts and others keep beside
    them is one word. No memory has it in both ways."""
    counts: Counter[tuple[bool, str]] = Counter()
    for (is_gram, term), count in holders.items():
        counts[is_gram, bare(term)] += count
    return Counter({(is_gram, term): counts[is_gram, bare(term)] for is_gram, term in holders})


def factor_of(sought: QueryTerm, holders: int, memories: int, parameters: RecallParameters) -> float:
    """The factor on a term that so many of the memories hold."""
    full = sought.alone and holders <= parameters.few_holders
    return (1.0 if full else sought.factor) * (rarity(holders, memories) if parameters.rarity and holders else 1.0)


def stretches(query: RecallQuery, parameters: RecallParameters) -> list[tuple[int, int, float]]:
    """The stretches of time that give points: from the first millisecond to the first after, and the points; a later
    one gives more."""
    before, after, points = parameters.span_before_ms, parameters.span_after_ms, parameters.span_points
    around = [(begin - before, end + after, points / 2) for begin, end in query.spans]
    return around + [(begin, end, points) for begin, end in query.spans]


def span_points(time_ms: int, query: RecallQuery, parameters: RecallParameters) -> float:
    """The points of a memory for the time at which it was said."""
    return max((points for begin, end, points in stretches(query, parameters) if begin <= time_ms < end), default=0.0)


def cue_points(memory: ShortTermMemory, query: RecallQuery, parameters: RecallParameters) -> float:
    """The points of a memory for holding the kind of answer that the query asks for."""
    if not parameters.cue_points or query.cue is None:
        return 0.0
    texts = [message.content for message in memory.messages] or [memory.text]
    return parameters.cue_points if any(map(query.cue.held.search, texts)) else 0.0


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


_Key = tuple[bool, str]
"""Whether a term is a gram, and the term."""
_Shared = Sequence[tuple[_Key, MatchedWord]]
"""The terms that a memory shares with the query."""


def _shared(memory: ShortTermMemory, query: RecallQuery, place: Mapping[str, int], wording: KeywordOptions) -> _Shared:
    """The terms that `memory` shares with the query, in the order of the query, with their factors in the query."""
    shared: list[tuple[_Key, MatchedWord]] = []

    def note(sought: Mapping[str, QueryTerm], term: str, weight: float) -> None:
        one = sought[term]
        key = sought is query.grams, term
        shared.append((key, matched_word(term, one, one.factor, weight)))

    # Most memories share no word: asking for all words at once takes a fifth of the time of looking at each.
    if not query.words.keys().isdisjoint(memory.words):
        for word, weight in zip(memory.words, memory.weights, strict=True):
            if word in query.words:
                note(query.words, word, weight)
        shared.sort(key=lambda term: place[term[0][1]])
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
    matched = [[(key, word) for key, word in shared if word.last and not word.incidental] for shared in matched]
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
