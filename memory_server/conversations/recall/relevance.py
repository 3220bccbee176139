"""How relevant memories are to the present words: what they share − time decay + reinforcement score.

As the Node original's `calculateRelevance` where `RecallParameters` are its own; equal to it within 1e-12 (V8's
`Math.exp` and C's differ in the last bit for a tenth of all arguments). docs/explanation/recall.md says what the usual
parameters add: a word counts less the more memories hold it, pairs of characters count beside words, and a memory gains
from what was said around it. This is the plain form, one memory at a time; `indexed_selection.py` does the same on
whole columns, and a test compares both.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from math import exp, log, sqrt
from struct import pack, unpack
from typing import NamedTuple, Protocol

from memory_server.conversations.model import ShortTermMemory
from memory_server.conversations.recall.parameters import RecallParameters
from memory_server.conversations.recall.receipts import (
    MatchedWord,
    Receipt,
    matched_word,
    parts_asked,
)
from memory_server.conversations.recall.words import (
    GramText,
    KeywordOptions,
    RecallQuery,
    is_of_days,
    telling,
)
from memory_server.kernel.values import frozen
from nlp import QueryTerm, bare, gram_weight
from nlp.stems import pairs_in

_LEAST_LETTERS = 5
"""A shorter word is one letter away from too many others."""


class Vocabulary:
    """Words, from which it finds words that are spelt alike."""

    def __init__(self, words: Iterable[str] = ()) -> None:
        self._words: set[str] = set()
        self._alike: dict[tuple[str, int], list[str]] = {}
        """The words that may be misspelt, by first letter and length."""
        for word in words:
            if word not in self._words:
                self.add(word)

    def add(self, word: str) -> None:
        """Add a word that is not there yet."""
        self._words.add(word)
        if _may_be_misspelt(word):
            self._alike.setdefault((word[0], len(word)), []).append(word)

    def __contains__(self, word: str) -> bool:
        return word in self._words

    def alike(self, word: str) -> Iterator[str]:
        """Yield the words with the same first letter that differ by one letter, or by two exchanged letters."""
        for length in (len(word) - 1, len(word), len(word) + 1):
            for similar in self._alike.get((word[0], length), ()):
                if _is_one_edit(word, similar):
                    yield similar


class Words(Protocol):
    """The words of the searched memories, as `Vocabulary` has them."""

    def __contains__(self, word: str) -> bool: ...
    def alike(self, word: str) -> Iterable[str]: ...


def can_be_corrected(query: RecallQuery, parameters: RecallParameters) -> bool:
    """Return whether `query` has an English word that may be misspelt, so that the words of the memories are needed."""
    return bool(parameters.typo_factor) and any(map(_may_be_misspelt, query.words))


def corrected(query: RecallQuery, vocabulary: Words, parameters: RecallParameters) -> RecallQuery:
    """Return the query with each misspelt word, an English word that no memory has, replaced by a
    word of the memories (`vocabulary`) that is alike, the first in the order of letters, for fewer
    points. Return it as it is if it cannot be corrected."""
    if not can_be_corrected(query, parameters):
        return query
    terms: dict[str, QueryTerm] = {}
    for word, term in query.words.items():
        if _may_be_misspelt(word) and word not in vocabulary:
            similar = min(vocabulary.alike(word), default=None)
            if similar is not None:
                word = similar
                term = term._replace(factor=term.factor * parameters.typo_factor)
        earlier = terms.setdefault(word, term)
        if earlier.factor < term.factor:
            terms[word] = earlier._replace(factor=term.factor)
    return replace(query, words=terms)


def _may_be_misspelt(word: str) -> bool:
    return len(word) >= _LEAST_LETTERS and word.isascii() and word.isalpha()


def _is_one_edit(word: str, similar: str) -> bool:
    """Return whether one letter, not the first, is missing, added, another, or exchanged with the next."""
    shorter_length = min(len(word), len(similar))
    same_count = 0
    while same_count < shorter_length and word[same_count] == similar[same_count]:
        same_count += 1
    rest = word[same_count:]
    similar_rest = similar[same_count:]
    if len(word) != len(similar):
        return rest[1:] == similar_rest or rest == similar_rest[1:]
    is_replaced = rest[1:] == similar_rest[1:]
    is_exchanged = rest[:2] == similar_rest[1::-1] and rest[2:] == similar_rest[2:]
    return is_replaced or is_exchanged


# Numbers of memories, chosen on the development sets of docs/explanation/recall-quality.md.
_FEWEST = 12
"""Below this number the points that are needed stay the same."""
_FEWEST_FOR_RARITY = 100
"""Below this number a word is as rare as among so many."""
_MOST_AFTER_STATEMENT = 900
"""Above this number the points that a statement needs stay the same."""
_USUAL_NUMBER = 300
"""The number for which `RecallParameters.least_match` is."""


def age_of(time_ms: int, now_ms: int) -> int:
    """Milliseconds since `time_ms`; 0 for a time in the future, which would otherwise overflow the decay."""
    return max(0, now_ms - time_ms)


def decay(age_ms: int, parameters: RecallParameters) -> float:
    """Relevance points lost at an age: 15 · (1 − e^(−age · 2e-9)) as in the Node original, usually 5 · (…)."""
    return parameters.decay_ceiling * (1.0 - exp(-age_ms * parameters.decay_per_ms))


def score_points(memory: ShortTermMemory, parameters: RecallParameters) -> float:
    """Return the points that its score adds to its relevance. The ceiling may have been higher when it was scored;
    the Node original applies the ceiling only when it raises a score."""
    if parameters.must_share:
        return min(memory.score, parameters.score_ceiling)
    return memory.score


def match_needed(memories: int, query: RecallQuery, parameters: RecallParameters) -> float:
    """Return the points that a memory must share with the query, among `memories` memories.

    They grow with the greatest possible idf, because among more memories one shares more by chance. They do not grow
    beyond 300 memories after a question, and 900 after a statement: right answers do not share more there. Below 12
    memories they stay the same: otherwise a single common word would be enough. For a long message they grow with the
    square root of the words that say something.
    """
    form_factor = parameters.statement_match
    most = _MOST_AFTER_STATEMENT
    if query.question:
        form_factor = parameters.question_match
        most = _USUAL_NUMBER
    size = min(max(memories, _FEWEST), most)
    size_factor = _idf(1, size) / _idf(1, _USUAL_NUMBER)
    points = form_factor * parameters.least_match * size_factor
    return points * parameters.message_factor(query.telling_words)


def rarity(holders: int, memories: int) -> float:
    """Return the factor on a word that `holders` of `memories` memories hold: idf(holders) ÷ idf(1), at most 1.

    idf = ln(1 + (N − n + 0.5) ÷ (n + 0.5)), the form of BM25 that is never negative (Robertson and Zaragoza, The
    Probabilistic Relevance Framework, 2009). N is at least 100: if a new conversation has only five memories, all of
    pizza, the word pizza must still count.
    """
    memories = max(memories, _FEWEST_FOR_RARITY)
    return _idf(holders, memories) / _idf(1, memories)


class TermKey(NamedTuple):
    """What tells a term of a query from the others: a word and a pair of characters may be written the same way."""

    is_gram: bool
    text: str


class SharedTerm(NamedTuple):
    """A term that a memory shares with the query."""

    key: TermKey
    word: MatchedWord


def receipts(
    memories: Sequence[ShortTermMemory],
    query: RecallQuery,
    *,
    now_ms: int,
    parameters: RecallParameters,
    wording: KeywordOptions,
) -> list[Receipt]:
    """Make the receipt of each memory, judged among all of them. A record of another program may hold a word twice:
    then it counts twice."""
    if can_be_corrected(query, parameters):
        query = corrected(
            query, Vocabulary(word for memory in memories for word in memory.words), parameters
        )

    number_of_word = {word: number for number, word in enumerate(query.words)}
    shared = [_shared_terms(memory, query, number_of_word, wording) for memory in memories]
    factors = _factors(memories, shared, query, parameters)
    weighted = [_with_factors(terms, factors, parameters) for terms in shared]

    # Only a question looks at the episode, where its answer may be.
    gains = [0.0] * len(memories)
    asked: dict[str, float] = {}
    if query.question:
        gains = _gained_around(memories, weighted, parameters)
        if parameters.part_asked:
            asked = parts_asked(_asked_terms(factors, query))

    all_receipts: list[Receipt] = []
    telling = _telling(memories, query)
    for number, (memory, terms, gained) in enumerate(zip(memories, weighted, gains, strict=True)):
        age_ms = age_of(memory.time_ms, now_ms)
        match = sum(term.word.points for term in terms)
        receipt = Receipt(
            tuple(term.word for term in terms),
            decay=decay(age_ms, parameters),
            age_ms=age_ms,
            score=score_points(memory, parameters),
            around=gained,
            span=_span_of(memory, number in telling, match, query, parameters),
            part=min(1.0, sum(asked.get(term.word.word, 0.0) for term in terms)),
            overview=query.overview is not None,
        )
        all_receipts.append(receipt)
    return all_receipts


def _factors(
    memories: Sequence[ShortTermMemory],
    shared: Iterable[Iterable[SharedTerm]],
    query: RecallQuery,
    parameters: RecallParameters,
) -> dict[TermKey, float]:
    """Return the factor of each term of the query, by how many of the memories hold it."""
    query_terms = {TermKey(False, word): term for word, term in query.words.items()}
    query_terms |= {TermKey(True, gram): term for gram, term in query.grams.items()}

    holders = Counter(term.key for terms in shared for term in terms)
    holders = Counter({key: holders[key] for key in query_terms})
    if any(memory.other_words for memory in memories):
        holders = with_kept(holders)

    factors: dict[TermKey, float] = {}
    for key, query_term in query_terms.items():
        factors[key] = factor_of(query_term, holders[key], len(memories), parameters)
    return factors


def _with_factors(
    terms: Iterable[SharedTerm], factors: Mapping[TermKey, float], parameters: RecallParameters
) -> list[SharedTerm]:
    """Return the terms with their factors: those of the words among all memories, less for a small weight in this
    memory."""
    weighted: list[SharedTerm] = []
    for term in terms:
        factor = factors[term.key] * part_counted(term.word.memory_weight, parameters)
        weighted.append(SharedTerm(term.key, replace(term.word, factor=factor)))
    return weighted


def _asked_terms(factors: Mapping[TermKey, float], query: RecallQuery) -> Iterator[MatchedWord]:
    """Yield the terms of a query as they count among the memories, including terms that no memory has."""
    for is_gram, terms in ((False, query.words), (True, query.grams)):
        for text, query_term in terms.items():
            yield matched_word(text, query_term, factor=factors[TermKey(is_gram, text)])


def with_kept(holders: Mapping[TermKey, int]) -> Counter[TermKey]:
    """Count the holders of each term. A word that some memories have in their texts and others keep beside them
    counts as the same word. No memory has it in both ways."""
    counts: Counter[TermKey] = Counter()
    for key, count in holders.items():
        counts[_bare_key(key)] += count
    return Counter({key: counts[_bare_key(key)] for key in holders})


def _bare_key(key: TermKey) -> TermKey:
    return TermKey(key.is_gram, bare(key.text))


def part_counted(memory_weight: float, parameters: RecallParameters) -> float:
    """Return the part of its points that a word of this weight in a memory counts. A long text shares more words by
    chance, and each of its words has little weight."""
    if memory_weight >= parameters.whole_weight:
        return 1.0
    return sqrt(memory_weight / parameters.whole_weight)


def factor_of(
    query_term: QueryTerm, holders: int, memories: int, parameters: RecallParameters
) -> float:
    """Return the factor on a term that so many of the memories hold: its own, which is 1 for some terms that few
    hold, times its rarity."""
    factor = query_term.factor
    if query_term.alone and holders <= parameters.few_holders:
        factor = 1.0
    if parameters.rarity and holders:
        factor *= rarity(holders, memories)
    return factor


@frozen
class Stretch:
    """A stretch of time that a query names: from its first millisecond since 1970 to the first after it."""

    begin_ms: int
    end_ms: int
    share: float
    """The share of the points for a named time that a memory of this stretch gets."""


def stretches(query: RecallQuery, parameters: RecallParameters) -> list[Stretch]:
    """Return the stretches of time that give points: for each time that the query names a wider one
    with half the points, and the exact one. Where two overlap, the later one of the list counts. Return none if
    `span_points` is 0."""
    if not parameters.span_points:
        return []
    wide: list[Stretch] = []
    exact: list[Stretch] = []
    for begin_ms, end_ms in query.spans:
        wide_begin_ms = begin_ms - parameters.span_before_ms
        wide_end_ms = end_ms + parameters.span_after_ms
        if not is_of_days(begin_ms, end_ms):
            length_ms = end_ms - begin_ms
            wide_begin_ms = begin_ms - length_ms
            wide_end_ms = end_ms + length_ms
        wide.append(Stretch(wide_begin_ms, wide_end_ms, 0.5))
        exact.append(Stretch(begin_ms, end_ms, 1.0))
    return wide + exact


def span_share(time_ms: int, query: RecallQuery, parameters: RecallParameters) -> float:
    """Return the share of the points for a named time that a memory of `time_ms` gets: 1 in it, 0.5 near it, else 0."""
    share = 0.0
    for stretch in stretches(query, parameters):
        if stretch.begin_ms <= time_ms < stretch.end_ms:
            share = max(share, stretch.share)
    return share


def span_points(match: float, parameters: RecallParameters) -> float:
    """Return the points of a memory of a time that a query names, whose shared words have `match` points."""
    return max(parameters.span_points, parameters.span_match * match)


def told_points(parameters: RecallParameters) -> float:
    """Return the points of a memory that tells of a day that a question names: twice as many as for being said on it,
    because both may name the day by different words, and these points alone must bring the memory."""
    return 2 * parameters.span_points


def _telling(memories: Sequence[ShortTermMemory], query: RecallQuery) -> set[int]:
    """Return the numbers of the memories that tell of the days for which the query asks; none if it
    asks for no day."""
    asked = query.asked_days
    if asked is None:
        return set()
    holders = [
        (number, memory)
        for number, memory in enumerate(memories)
        if not frozenset(memory.words).isdisjoint(asked.words)
    ]
    holders.sort(key=lambda holder: -holder[1].time_ms)
    return telling(holders, asked)


def _span_of(
    memory: ShortTermMemory,
    tells: bool,
    match: float,
    query: RecallQuery,
    parameters: RecallParameters,
) -> float:
    """Return the points of a memory, whose shared words have `match` points, for the time at which it was said or of
    which it tells."""
    points = span_share(memory.time_ms, query, parameters) * span_points(match, parameters)
    if tells:
        return max(points, told_points(parameters))
    return points


def cue_points(memory: ShortTermMemory, query: RecallQuery, parameters: RecallParameters) -> float:
    """Return the points of a memory for holding the kind of answer that the query asks for."""
    if not parameters.cue_points or query.cue is None:
        return 0.0
    texts = [message.content for message in memory.messages] or [memory.text]
    if any(map(query.cue.held.search, texts)):
        return parameters.cue_points
    return 0.0


def episodes(times: Iterable[int], pause_ms: int) -> list[int]:
    """Return for each of the ascending times the number of its episode, from 0; a new episode
    begins after a pause longer than `pause_ms`."""
    numbers: list[int] = []
    number = 0
    previous_ms: int | None = None
    for time_ms in times:
        if previous_ms is not None and time_ms - previous_ms > pause_ms:
            number += 1
        numbers.append(number)
        previous_ms = time_ms
    return numbers


MOST_GRAM_WEIGHT = 60_000.0
"""Greater weights count as this: a number of two bytes goes up to 65,504."""


def gram_weights(texts: Iterable[GramText], query_grams: Collection[str]) -> dict[str, float]:
    """Return the weights of the pairs and characters of a query in the texts of a memory, in the order of the query
    and rounded as the index keeps them. Left out is a pair that no text has, or that is a word of its text."""
    sums: dict[str, float] = {}
    for text in texts:
        counts: dict[str, int] = {}
        for gram in query_grams:
            count = _occurrences(text.text, gram)
            if count and not (len(gram) == 2 and gram in text.words):
                counts[gram] = count
        if not counts:
            continue
        weight = text.role_weight * gram_weight(pairs_in(text.text))
        for gram, count in counts.items():
            sums[gram] = sums.get(gram, 0.0) + count * weight
    return {gram: _in_two_bytes(sums[gram]) for gram in query_grams if gram in sums}


def _in_two_bytes(weight: float) -> float:
    """Round the weight as the index keeps it."""
    [rounded] = unpack("e", pack("e", min(weight, MOST_GRAM_WEIGHT)))
    return float(rounded)


def _shared_terms(
    memory: ShortTermMemory,
    query: RecallQuery,
    number_of_word: Mapping[str, int],
    wording: KeywordOptions,
) -> list[SharedTerm]:
    """Return the terms that `memory` shares with the query, in the order of the query, with their factors in the
    query. `number_of_word` has the places of the query's words in this order."""
    shared: list[SharedTerm] = []
    # Most memories share no word: asking for all words at once takes a fifth of the time of looking at each.
    if not query.words.keys().isdisjoint(memory.words):
        for word, weight in zip(memory.words, memory.weights, strict=True):
            if word in query.words:
                shared.append(_shared_term(TermKey(False, word), query.words[word], weight))
        shared.sort(key=lambda term: number_of_word[term.key.text])
    if query.grams:
        for gram, weight in gram_weights(wording.gram_texts(memory), query.grams.keys()).items():
            shared.append(_shared_term(TermKey(True, gram), query.grams[gram], weight))
    return shared


def _shared_term(key: TermKey, query_term: QueryTerm, memory_weight: float) -> SharedTerm:
    word = matched_word(key.text, query_term, factor=query_term.factor, memory_weight=memory_weight)
    return SharedTerm(key, word)


def _gained_around(
    memories: Sequence[ShortTermMemory],
    shared: Sequence[Sequence[SharedTerm]],
    parameters: RecallParameters,
) -> list[float]:
    """Compute what each memory with a shared term of the last message gains from the memories of its episode."""
    gained = [0.0] * len(memories)
    if not (parameters.neighbour_share or parameters.episode_share):
        return gained

    in_time = sorted(
        range(len(memories)), key=lambda number: (memories[number].time_ms, memories[number].id)
    )
    episode_at = episodes(
        (memories[number].time_ms for number in in_time), parameters.episode_pause_ms
    )

    of_last = [_of_last_message(terms) for terms in shared]
    match = [sum(term.word.points for term in terms) for terms in of_last]
    episode_points = _episode_points([of_last[number] for number in in_time], episode_at)

    for position, number in enumerate(in_time):
        if match[number] <= 0.0:
            continue
        best_beside = 0.0
        for neighbour in (position - 1, position + 1):
            if 0 <= neighbour < len(in_time) and episode_at[neighbour] == episode_at[position]:
                best_beside = max(best_beside, match[in_time[neighbour]])

        rest_of_episode = episode_points[episode_at[position]] - match[number]
        gained[number] = (
            parameters.neighbour_share * best_beside + parameters.episode_share * rest_of_episode
        )
    return gained


def _of_last_message(terms: Iterable[SharedTerm]) -> list[SharedTerm]:
    return [term for term in terms if term.word.last and not term.word.incidental]


def _episode_points(
    shared: Iterable[Iterable[SharedTerm]], episode_at: Iterable[int]
) -> dict[int, float]:
    """Compute the points of each episode: for each term the most points that a memory of the episode has, added up.
    `episode_at` has the episode of each memory whose terms `shared` has."""
    best_of_episode: dict[int, dict[TermKey, float]] = {}
    for terms, episode in zip(shared, episode_at, strict=True):
        best = best_of_episode.setdefault(episode, {})
        for term in terms:
            best[term.key] = max(best.get(term.key, 0.0), term.word.points)
    return {episode: sum(best.values()) for episode, best in best_of_episode.items()}


def _occurrences(text: str, gram: str) -> int:
    """Return at how many characters of `text` `gram` begins: 哈哈 twice in 哈哈哈."""
    count = text.count(gram)
    if count and len(gram) == 2 and gram[0] == gram[1]:
        return sum(text.startswith(gram, start) for start in range(len(text) - 1))
    return count


def _idf(holders: int, memories: int) -> float:
    return log(1.0 + (memories - holders + 0.5) / (holders + 0.5))
