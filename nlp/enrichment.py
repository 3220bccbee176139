"""Words of messages with additions that measurably help: days, other scripts, one form per word, names, long texts.

`keywords.py` alone is bit-identical to the Node original. This module is a step around it: if nothing is switched on,
the keywords are those of `extract_message_keywords`, to the last bit.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta, tzinfo
from functools import lru_cache
from heapq import nsmallest
from math import sqrt
from operator import itemgetter
from typing import Final, NamedTuple

from nlp.changed_states import words_of_change
from nlp.compounds import other_writings
from nlp.date_words import Span, date_spans, day_word
from nlp.finders import Finder, finder_of, split_by
from nlp.grams import grams_of
from nlp.keywords import (
    MIN_WEIGHT,
    ROLE_WEIGHTS,
    SCALE,
    TOP_K,
    Keyword,
    SupportsDatedMessage,
    SupportsMessage,
    counts,
    extract_message_keywords,
    heaviest_first,
    role_weight_of,
    weighted,
)
from nlp.lexicon.day_words import without_day_words
from nlp.lexicon.idf import UNKNOWN_WORD_IDF, idf_table
from nlp.normal_forms import plain, simplified
from nlp.questions import asking_part, is_question
from nlp.scripts import script_spans
from nlp.segment import segment, well_formed
from nlp.stems import only_asks, says_little, says_when, stem
from nlp.word_options import Enrichment, QueryWeights

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


_NOTHING: Final = Enrichment()
"""The keywords of the Node original."""

_USUAL_LENGTH: Final = 12
"""Length of a message, in words, whose weights `long_texts` does not change: some 20 Chinese characters."""
_LEAST_LENGTH: Final = 6
"""Shorter messages count as having so many words: otherwise `good morning` would weigh more than a question. Chosen on
the development sets of docs/explanation/recall-quality.md."""


_OTHER_WRITING: Final = 0.5
"""What a word of another way of writing weighs beside a word of the text: together they are one thing. Not chosen by
data: the development sets have too few compounds to tell."""
_UNITS_OF_TIME: Final = frozenset("年月日号號天周週点點时時分")
"""They stand alone in dates, and say nothing without their number."""
_DAY: Final = "天"
"""The character of 今天 and 昨天, which memories hold in these words."""
_WORDS_OF_A_QUESTION: Final = 2
"""With fewer words that say something, a question needs the messages before it."""
_BEFORE_SHORT_QUESTION: Final = 0.3
"""The factor on these, where that on messages before a statement is not lower."""


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
    when: bool = False
    """Whether it only says when, seen from the speaker's day: 今天, now."""
    asks: bool = False
    """Whether it only asks: what."""
    beside: bool = False
    """Whether the message does not have it, and it is looked for beside its words."""
    given: int = 0
    """The number, from 1, of the text that it is from among those that the caller gave beside the messages; 0: it is
    from a message."""


_CHANGE: Final = QueryTerm(UNKNOWN_WORD_IDF * SCALE / _USUAL_LENGTH, factor=0.7, beside=True)
"""How a word counts in which people tell that changed what is asked for: as one of a question of usual length, and less
than the words that are asked."""


class _Word(NamedTuple):
    """The form of a word that is compared, whether the word is a day named by its distance, and whether it is one that
    an adverb names (今天)."""

    key: str
    relative_day: bool = False
    adverb: bool = False


def enriched_keywords(
    messages: Iterable[SupportsDatedMessage],
    options: Enrichment,
    *,
    now_ms: int,
    zone: tzinfo | None = None,
    role_weights: Mapping[str, float] = ROLE_WEIGHTS,
    names: Sequence[str] = (),
) -> list[Keyword]:
    """The keywords of a memory, heaviest first: those of `extract_message_keywords`, changed by `options`. A message
    without a time counts as written at `now_ms` (milliseconds since 1970). `zone` decides when its day begins; None
    means the system's zone. Each of `names` is a word, beside its parts. With `options.dates` the day of each message
    is a word too, in addition to the usual 72."""
    if options == _NOTHING:
        return extract_message_keywords(messages, role_weights)
    sums: dict[str, float] = {}
    own_days: dict[str, float] = {}
    speakers: dict[str, float] = {}
    for message in messages:
        day = _day(message.time_ms, options, now_ms, zone)
        occurrences = _occurrences(_words(message.content, options, day), message.content, options, names)
        role_weight = role_weight_of(message.role, role_weights)
        for word, weight in _weighted(occurrences, _other_writings(message.content, options), options):
            sums[word] = sums.get(word, 0.0) + weight * role_weight
        # The day and the speaker are one more word each, which takes no weight from the others.
        length = occurrences.total() + 1
        weight = UNKNOWN_WORD_IDF * SCALE / (_root(length) if options.long_texts else length) * role_weight
        if day is not None and role_weight:
            own_days[day_word(day)] = own_days.get(day_word(day), 0.0) + weight
        if options.speakers and message.name is not None and message.name in names:
            speaker = _speaker(normal_form(message.name, options), options)
            speakers[speaker] = max(weight, speakers.get(speaker, 0.0))
    own_words = own_days | {speaker: weight for speaker, weight in speakers.items() if weight}
    least, most = (0.0, None) if options.long_texts else (MIN_WEIGHT, TOP_K)
    rest = [(weight, word) for word, weight in sums.items() if weight >= least and weight and word not in own_words]
    # Not subject to the usual limits: in a long message no single word weighs much.
    own = [(weight + sums.get(word, 0.0), word) for word, weight in own_words.items()]
    kept = [*(rest if most is None else nsmallest(most, rest, key=heaviest_first)), *own]
    # As by `heaviest_first`, in two short steps: a sort holds the interpreter lock, and others wait.
    kept.sort(key=itemgetter(1))
    kept.sort(key=itemgetter(0), reverse=True)
    return [Keyword(word, weight) for weight, word in kept]


def words_in(text: str, options: Enrichment, *, now_ms: int, zone: tzinfo | None = None) -> tuple[str, ...]:
    """The words that `enriched_keywords` finds in `text`, written at `now_ms`: each once, in order, and also those of
    little weight."""
    found = _words(text, options, _day(None, options, now_ms, zone))
    return tuple(dict.fromkeys((*(word.key for word in found), *_other_writings(text, options))))


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
    """The words to search memories by, heaviest first: those of the messages; the last message counts most. Each of
    `names` is a word, beside its parts."""
    if options == _NOTHING:
        return {word: QueryTerm(weight) for word, weight in extract_message_keywords(messages, role_weights)}
    found: dict[str, QueryTerm] = {}
    earlier = emphasis.earlier
    for back, message in enumerate(reversed(messages)):
        if back == 1:
            earlier = earlier_factor(messages, found, emphasis)
        words = list(_words(message.content, options, _day(message.time_ms, options, now_ms, zone)))
        relative = {word.key for word in words if word.relative_day}
        adverbs = {word.key for word in words if word.adverb} - {word.key for word in words if not word.adverb}
        telling = any(word.key not in relative and not says_little(word.key) for word in words)
        occurrences = _occurrences(words, message.content, options, names)
        role_weight = role_weight_of(message.role, role_weights)
        for key, weight in _weighted(occurrences, _other_writings(message.content, options), options):
            factor = earlier**back
            if telling and key in relative:
                factor *= emphasis.relative_days
            if says_little(key):
                factor *= emphasis.function_words
            when = says_when(key) or key in adverbs
            says = not (back or when or says_little(key))
            _seek(found, key, QueryTerm(weight * role_weight, factor, says, not back, when=when, asks=only_asks(key)))
    if messages and options.stems:
        for word in _words_of_change(messages[-1].content, options):
            found.setdefault(word, _CHANGE)
    if not options.long_texts:
        found = {key: sought for key, sought in found.items() if sought.weight >= MIN_WEIGHT}
    ranked = sorted(found.items(), key=lambda item: heaviest_first((item[1].weight * item[1].factor, item[0])))
    return dict(ranked[: None if options.long_texts else TOP_K])


def sought_names(text: str, names: Sequence[str], options: Enrichment) -> dict[str, QueryTerm]:
    """The speakers named in `text`, the last message, as words to search memories by."""
    if not (names and options.speakers):
        return {}
    weight = UNKNOWN_WORD_IDF * SCALE / _root(_USUAL_LENGTH) * ROLE_WEIGHTS["user"]
    found = _name_finder(replace(options, words=tuple(names)))(normal_form(text, options))
    return {_speaker(span.word, options): QueryTerm(weight) for span in found}


def sought_grams(
    messages: Sequence[SupportsMessage],
    options: Enrichment,
    emphasis: QueryWeights,
    role_weights: Mapping[str, float] = ROLE_WEIGHTS,
    *,
    words: Mapping[str, QueryTerm] = {},
) -> dict[str, QueryTerm]:
    """The pairs of characters and single Han characters to search memories by, beside the `words`."""
    found: dict[str, QueryTerm] = {}
    earlier = earlier_factor(messages, words, emphasis)
    for back, message in enumerate(reversed(messages)):
        role_weight = role_weight_of(message.role, role_weights)
        text = normal_form(message.content, options)
        grams, pairs = grams_of(text)
        timeless, _ = grams_of(without_day_words(text))
        asks = bool(grams) and not back and is_question(text)
        alone = set(segment(text)) - _UNITS_OF_TIME if asks else ()
        for gram, count in grams.items():
            if not says_little(gram):
                weight, factor = count * gram_weight(pairs) * role_weight, emphasis.pairs * earlier**back
                when = gram not in timeless or (gram == _DAY and not asks)
                says = not (back or when)
                by_itself = len(gram) == 1 and gram in alone and not when
                _seek(found, gram, QueryTerm(weight, factor, says, not back, by_itself, when))
    if messages and options.stems and emphasis.pairs:
        weight = gram_weight(_USUAL_LENGTH)
        for word in _words_of_change(messages[-1].content, options):
            if len(word) == 2 and not word.isascii():
                found.setdefault(word, _CHANGE._replace(weight=weight))
    return found


def _words_of_change(text: str, options: Enrichment) -> tuple[str, ...]:
    """The words by which changes of what a question asks for are found; none if it is not a question."""
    return words_of_change(normal_form(asking_part(text), options)) if is_question(text) else ()


def earlier_factor(
    messages: Sequence[SupportsMessage], words: Mapping[str, QueryTerm], emphasis: QueryWeights
) -> float:
    """The factor on each message before the last one, whose `words` are known."""
    if emphasis.before_question is None or not is_question(messages[-1].content):
        return emphasis.earlier
    short = sum(sought.telling and not sought.beside for sought in words.values()) < _WORDS_OF_A_QUESTION
    return min(emphasis.earlier, _BEFORE_SHORT_QUESTION) if short else emphasis.before_question


def word_weight(word: str, words: int) -> float:
    """What one occurrence of a word weighs among so many words of long texts, before the role's weight."""
    return idf_table().get(word, UNKNOWN_WORD_IDF) * SCALE / _root(words)


def gram_weight(pairs: int) -> float:
    """What one occurrence of a pair of characters weighs in a message of so many pairs, before the role's weight."""
    return UNKNOWN_WORD_IDF * SCALE / _root(pairs)


def normal_form(text: str, options: Enrichment) -> str:
    """`text` in the one form in which it is compared; case is folded later, word by word."""
    text = well_formed(text)
    if options.normal_forms:
        text = plain(text)
    return simplified(text) if options.simplified else text


def _occurrences(words: Iterable[_Word], text: str, options: Enrichment, names: Sequence[str]) -> Counter[str]:
    """How often each of `words` occurs in `text`, and each of `names` that is not among them."""
    occurrences = Counter(word.key for word in words)
    if names:
        find = _name_finder(replace(options, words=tuple(names)))
        found = Counter(_key(span.word, options) for span in find(normal_form(text, options)))
        occurrences.update({name: count for name, count in found.items() if name not in occurrences})
    return occurrences


def _seek(found: dict[str, QueryTerm], key: str, one: QueryTerm) -> None:
    """Add how a term counts in one message; each weight counts with the factor of its own message."""
    if not one.factor or not one.weight:
        return
    if (known := found.get(key)) is None:
        found[key] = one
    else:
        most = max(known.factor, one.factor)
        mean = (known.weight * known.factor + one.weight * one.factor) / most
        found[key] = known._replace(weight=mean, factor=most)  # the last message comes first


def _other_writings(text: str, options: Enrichment) -> Counter[str]:
    """The words by which other ways of writing the compounds of `text` are found, with their occurrences."""
    if not options.normal_forms:
        return Counter()
    return Counter(_key(word, options) for word in other_writings(normal_form(text, options)) if counts(word))


def _weighted(occurrences: Counter[str], others: Mapping[str, int], options: Enrichment) -> list[Keyword]:
    """The words with their weights. `others`, which are not among the words of the text, take no weight from these."""
    if not options.long_texts:
        words, length = weighted(occurrences), float(max(occurrences.total(), 1))
    else:
        idf, length = idf_table(), _root(occurrences.total())
        words = [
            Keyword(word, count * idf.get(word, UNKNOWN_WORD_IDF) * SCALE / length)
            for word, count in occurrences.items()
        ]
    weight = UNKNOWN_WORD_IDF * SCALE / length * _OTHER_WRITING
    return words + [Keyword(word, count * weight) for word, count in others.items() if word not in occurrences]


def _root(terms: int) -> float:
    return sqrt(_USUAL_LENGTH * max(terms, _LEAST_LENGTH))


def _day(time_ms: int | None, options: Enrichment, now_ms: int, zone: tzinfo | None) -> date | None:
    """The day on which something was written at `time_ms` (None: at `now_ms`); None if days do not count."""
    if not options.dates:
        return None
    try:
        return (_EPOCH + timedelta(milliseconds=now_ms if time_ms is None else time_ms)).astimezone(zone).date()
    except (OverflowError, OSError, ValueError):
        return None  # beyond the range of dates


def _words(text: str, options: Enrichment, day: date | None) -> Iterator[_Word]:
    text = normal_form(text, options)
    finders: list[Finder] = []
    if options.words:
        finders.append(_name_finder(options))
    if day is not None:
        finders.append(lambda part: date_spans(part, day))
    if options.scripts:
        finders.append(script_spans)
    for part in split_by(text, finders):
        if isinstance(part, Span):
            yield _Word(_key(part.word, options), part.relative, part.adverb)
        else:
            for word in filter(counts, segment(part)):
                yield _Word(_key(word, options))


def _key(word: str, options: Enrichment) -> str:
    if options.stems:
        return stem(word.casefold())
    return word.casefold() if options.normal_forms else word


def _speaker(name: str, options: Enrichment) -> str:
    """The word of those memories in which somebody of this name speaks."""
    return _key(name, options) + ":"


def is_speaker(word: str) -> bool:
    """Whether a word of a memory says who spoke."""
    return word.endswith(":")


@lru_cache(maxsize=16)
def _name_finder(options: Enrichment) -> Finder:
    """A function that finds the words of `options`, the longest first, in texts of the same form."""
    forms = {normal_form(word, options) for word in options.words if word.strip()}
    return finder_of(forms, any_case=options.normal_forms)
