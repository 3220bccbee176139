"""The terms by which memories are searched: words, names and pairs of characters of messages, and what each counts.

The last message counts most. enrichment.py finds the words; this module decides how much each of them counts. Pure.

A caller gives other words: for what a search looks for, and for what a memory may be asked for by.

A caller is mostly a language model, which knows that 安眠药 may be 曲唑酮. Words of a search are terms of the query,
each with the number of the text that it is from. Words that are kept with a memory are words of it with a mark, so that
they are never taken for words of its text, as the names of its speakers are (`is_speaker`). A text without a word of
the dictionary, such as 曲唑酮, counts by its pairs of characters.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import tzinfo
from functools import lru_cache
from typing import Final, NamedTuple

from nlp.enrichment import (
    NOTHING,
    USUAL_LENGTH,
    Enrichment,
    QueryWeights,
    day_of,
    gram_weight,
    message_words,
    name_finder,
    normal_form,
    speaker_word,
    weight_divisor,
    word_weight,
    words_in,
)
from nlp.keywords import (
    MIN_WEIGHT,
    ROLE_WEIGHTS,
    SCALE,
    TOP_K,
    Keyword,
    SupportsDatedMessage,
    SupportsMessage,
    extract_message_keywords,
    heaviest_first,
    role_weight_of,
    segment,
)
from nlp.lexicon import UNITS_OF_TIME
from nlp.lexicon.idf import UNKNOWN_WORD_IDF
from nlp.questions import asking_part, is_question, words_of_change
from nlp.stems import grams_of, is_incidental, only_asks, says_little, says_when, without_day_words

_WORDS_OF_A_QUESTION: Final = 2
"""The number of words that say something from which on a question does not need the messages before it."""
_BEFORE_SHORT_QUESTION: Final = 0.3
"""The factor on the messages before a shorter question, where that on messages before a statement is not lower."""


class QueryTerm(NamedTuple):
    """How a term of a query counts: its weight in the query, and a factor on its points."""

    weight: float
    factor: float = 1.0
    telling: bool = True
    """Whether it is in the last message and says something by itself, and not only when."""
    last: bool = True
    """Whether it is in the last message."""
    alone: bool = False
    """Whether it is a single character that is a word of a question, the last message: 猫 in 我家猫叫什么."""
    part: bool = False
    """Whether it is a single character that is only a part of words of its message: 等 in 等于."""
    when: bool = False
    """Whether it only says when, seen from the speaker's day: 今天, now."""
    asks: bool = False
    """Whether it only asks: what."""
    beside: bool = False
    """Whether the message does not have it, and it is looked for beside its words."""
    other_word: int = 0
    """The number, from 1, of the caller's text that it is from; 0 if it is from a message."""


_CHANGE: Final = QueryTerm(UNKNOWN_WORD_IDF * SCALE / USUAL_LENGTH, factor=0.7, beside=True)
"""How a word counts by which people tell of a change in what is asked for: as a word of a question of usual length, and
less than the words of the question."""


def sought_words(
    messages: Sequence[SupportsDatedMessage],
    options: Enrichment,
    emphasis: QueryWeights,
    *,
    now_ms: int,
    zone: tzinfo | None = None,
    role_weights: Mapping[str, float] = ROLE_WEIGHTS,
    names: Sequence[str] = (),
) -> dict[str, QueryTerm]:
    """Return the words of the messages to search memories by, heaviest first; the last message counts most. Each of
    `names` is a word, beside its parts."""
    if options == NOTHING:
        return {
            word: QueryTerm(weight)
            for word, weight in extract_message_keywords(messages, role_weights)
        }

    terms: dict[str, QueryTerm] = {}
    earlier = emphasis.earlier
    for back, message in enumerate(reversed(messages)):
        if back == 1:
            earlier = earlier_factor(messages, terms, emphasis)

        is_last = back == 0
        day = day_of(message.time_ms, options, now_ms=now_ms, zone=zone)
        role_weight = role_weight_of(message.role, role_weights)
        words = message_words(message.content, options, day=day, names=names)
        for key, weight in words.keywords:
            is_little = says_little(key)
            is_time = says_when(key) or key in words.adverbs

            # Each message further back counts less.
            factor = earlier**back
            if words.say_something and key in words.relative_days:
                factor *= emphasis.relative_days
            if is_little:
                factor *= emphasis.function_words

            term = QueryTerm(
                weight * role_weight,
                factor,
                telling=is_last and not is_time and not is_little,
                last=is_last,
                when=is_time,
                asks=only_asks(key),
            )
            _add(term, key, terms)

    if messages and options.stems:
        for word in _words_of_change(messages[-1].content, options):
            terms.setdefault(word, _CHANGE)
    if not options.long_texts:
        terms = {key: term for key, term in terms.items() if term.weight >= MIN_WEIGHT}

    ranked = sorted(
        terms.items(), key=lambda item: heaviest_first((item[1].weight * item[1].factor, item[0]))
    )
    if not options.long_texts:
        del ranked[TOP_K:]
    return dict(ranked)


def sought_names(text: str, names: Sequence[str], options: Enrichment) -> dict[str, QueryTerm]:
    """Return the speakers named in `text`, the last message, as words to search memories by; none if speakers do not
    count."""
    if not (names and options.speakers):
        return {}
    weight = UNKNOWN_WORD_IDF * SCALE / weight_divisor(USUAL_LENGTH) * ROLE_WEIGHTS["user"]
    find_names = name_finder(replace(options, words=tuple(names)))
    spans = find_names(normal_form(text, options))
    return {speaker_word(span.word, options): QueryTerm(weight) for span in spans}


_OF_ONESELF: Final = re.compile(
    r"我(?!们|國|国)|\b(?:i|i['’](?:m|ve|d|ll)|me|my|mine|myself)\b", re.IGNORECASE
)
"""How the speaker is named in a message. Not 我们 and `we`: these include others."""


def speaks_of_oneself(text: str) -> bool:
    """Return whether a message names its own speaker: 我最喜欢吃什么, "what do I like best?"."""
    return _OF_ONESELF.search(text) is not None


def own_words_term(name: str, options: Enrichment) -> dict[str, QueryTerm]:
    """Return the speaker of this name as a term that puts what they said first, and is never enough to bring it; none
    if speakers do not count."""
    if not (name and options.speakers):
        return {}
    weight = UNKNOWN_WORD_IDF * SCALE / weight_divisor(USUAL_LENGTH) * ROLE_WEIGHTS["user"]
    return {
        speaker_word(name, options): QueryTerm(
            weight, telling=False, last=False, asks=True, beside=True
        )
    }


def sought_grams(
    messages: Sequence[SupportsMessage],
    options: Enrichment,
    emphasis: QueryWeights,
    role_weights: Mapping[str, float] = ROLE_WEIGHTS,
    *,
    words: Mapping[str, QueryTerm] = {},
) -> dict[str, QueryTerm]:
    """Return the pairs of characters and single Han characters to search memories by, beside the `words`."""
    terms: dict[str, QueryTerm] = {}
    earlier = earlier_factor(messages, words, emphasis)
    for back, message in enumerate(reversed(messages)):
        is_last = back == 0
        role_weight = role_weight_of(message.role, role_weights)

        text = normal_form(message.content, options)
        grams, pairs = grams_of(text)
        if not grams:
            continue
        timeless_grams, _timeless_pairs = grams_of(without_day_words(text))

        is_asking = is_last and is_question(text)
        single_words: set[str] = set()
        # Only the last message needs its words: a term of an earlier one is never enough to bring a memory.
        if is_last:
            # The dictionary has 猫叫, the cry of a cat.
            single_words = set(segment(text.replace("叫", " 叫 "))) - UNITS_OF_TIME
        for gram, count in grams.items():
            if says_little(gram):
                continue

            # 天 is mostly a part of 今天 and the like; in a question it may be what is asked.
            is_time = gram not in timeless_grams or (gram == "天" and not is_asking)
            term = QueryTerm(
                count * gram_weight(pairs) * role_weight,
                emphasis.pairs * earlier**back,
                telling=is_last and not is_time,
                last=is_last,
                alone=is_asking and gram in single_words and not is_time,
                part=is_last and len(gram) == 1 and gram not in single_words,
                when=is_time,
            )
            _add(term, gram, terms)

    if messages and options.stems and emphasis.pairs:
        for word in _words_of_change(messages[-1].content, options):
            if len(word) == 2 and not word.isascii():
                terms.setdefault(word, _CHANGE._replace(weight=gram_weight(USUAL_LENGTH)))
    return terms


def earlier_factor(
    messages: Sequence[SupportsMessage], words: Mapping[str, QueryTerm], emphasis: QueryWeights
) -> float:
    """Return the factor on each message before the last one, which has these `words`."""
    if emphasis.before_question is None or not is_question(messages[-1].content):
        return emphasis.earlier
    if telling_count(words) < _WORDS_OF_A_QUESTION:
        return min(emphasis.earlier, _BEFORE_SHORT_QUESTION)
    return emphasis.before_question


def telling_count(words: Mapping[str, QueryTerm]) -> int:
    """Return how many words of the last message say something."""
    return sum(term.telling and not term.beside for term in words.values())


def _words_of_change(text: str, options: Enrichment) -> tuple[str, ...]:
    """Return the words by which changes of what a question asks for are found; none if it is not a question."""
    if not is_question(text):
        return ()
    return words_of_change(normal_form(asking_part(text), options))


def _add(term: QueryTerm, key: str, terms: dict[str, QueryTerm]) -> None:
    """Add a term of a message to `terms`, which has the terms of later messages; the weight of each message counts
    with the factor of that message. A term that gives no points is not added."""
    if not term.factor or not term.weight:
        return
    later_term = terms.get(key)
    if later_term is None:
        terms[key] = term
        return
    factor = max(later_term.factor, term.factor)
    weight = (later_term.weight * later_term.factor + term.weight * term.factor) / factor
    terms[key] = later_term._replace(weight=weight, factor=factor)


# Other words of a caller

MOST_TEXTS: Final = 40
"""Texts that a call may give."""
MOST_TEXT_CHARS: Final = 60
"""Characters of each of these."""
_MOST_WORDS_OF_A_NAME: Final = 3
"""Words of a text that are one thing, such as `chronic heart failure`; a longer text is a list of words, as of a caller
who puts blanks between them."""
_MARK: Final = "\ufdd0"
"""The end of a word that is kept with a memory: a character that Unicode assigns to nothing, so no text has it."""
_ROLE_WEIGHT: Final = ROLE_WEIGHTS["user"]
"""The weight of other words: they count as if a user had said them."""


class _Terms(NamedTuple):
    """The words of a text that say something, and its pairs of characters that are not such words."""

    words: tuple[str, ...]
    pairs: tuple[str, ...]


class _Weights(NamedTuple):
    """The weights of the other words of several texts: the more these have together, the less each one weighs."""

    word_count: int
    pair_count: int

    def of_word(self, word: str) -> float:
        return word_weight(word, self.word_count) * _ROLE_WEIGHT

    def of_pair(self) -> float:
        return gram_weight(self.pair_count) * _ROLE_WEIGHT


def kept(word: str) -> str:
    """Return the word of a memory by which `word` finds it, if `word` is kept with it and is not in its text."""
    return word + _MARK


def is_kept(word: str) -> bool:
    """Return whether a word of a memory is kept with it, and is not in its text."""
    return word.endswith(_MARK)


def bare(word: str) -> str:
    """Return a word of a memory without such a mark."""
    return word.removesuffix(_MARK)


def kept_keywords(
    texts: Sequence[str], options: Enrichment, words_of_memory: Iterable[str]
) -> list[Keyword]:
    """Return the keywords of the texts that are kept with a memory, without `words_of_memory`, the words of its own
    text. The Node original knows no such words."""
    if not (texts and options.signature):
        return []
    terms_by_text = [_terms_of(text, options) for text in texts]
    weights = _weights_of(terms_by_text)

    # Pairs first, because a word takes the place of an equal pair.
    weight_by_word: dict[str, float] = {}
    for terms in terms_by_text:
        for pair in terms.pairs:
            weight_by_word[pair] = weights.of_pair()
    for terms in terms_by_text:
        for word in terms.words:
            weight_by_word[word] = weights.of_word(word)

    excluded = set(words_of_memory)
    return [
        Keyword(kept(word), weight)
        for word, weight in weight_by_word.items()
        if word not in excluded
    ]


def other_word_terms(
    texts: Sequence[str], options: Enrichment, weights: QueryWeights, factor: float
) -> tuple[dict[str, QueryTerm], dict[str, QueryTerm]]:
    """Return the terms of the words that a caller gave for a search, and of the pairs of characters of texts, which
    replace words that are not known, both with `factor` on their points. The terms of a text have the same number, by
    which they count as a single word; in a list of words each has its own."""
    if not (texts and options.signature and factor):
        return {}, {}
    terms_by_text = [_terms_of(text, options) for text in texts]
    term_weights = _weights_of(terms_by_text)

    words: dict[str, QueryTerm] = {}
    grams: dict[str, QueryTerm] = {}
    number = 0
    for terms in terms_by_text:
        number += 1

        for word in terms.words:
            number += len(terms.words) > _MOST_WORDS_OF_A_NAME  # each word of a list has its own
            words.setdefault(word, QueryTerm(term_weights.of_word(word), factor, other_word=number))
        if weights.pairs:
            pair_factor = factor
            # The pairs of a text without such a word, such as 曲唑酮, replace the word.
            if terms.words:
                pair_factor *= weights.pairs
            for pair in terms.pairs:
                grams.setdefault(
                    pair, QueryTerm(term_weights.of_pair(), pair_factor, other_word=number)
                )
    return words, grams


def _weights_of(terms_by_text: Sequence[_Terms]) -> _Weights:
    return _Weights(
        sum(len(terms.words) for terms in terms_by_text),
        sum(len(terms.pairs) for terms in terms_by_text),
    )


@lru_cache(maxsize=4_096)
def _terms_of(text: str, options: Enrichment) -> _Terms:
    """Return the words and the pairs of a text that say something; a pair that is a word is only a word."""
    all_words = words_in(text, replace(options, dates=False), now_ms=0)
    words = tuple(word for word in all_words if not (is_incidental(word) or says_little(word)))
    grams, _count = grams_of(normal_form(text, options))
    pairs = tuple(
        gram for gram in grams if len(gram) == 2 and gram not in words and not says_little(gram)
    )
    return _Terms(words, pairs)
