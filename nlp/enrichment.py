"""Words of messages with additions that measurably help: days, other scripts, one form per word, names, long texts.

`keywords.py` alone is bit-identical to the Node original. This module is a step around it: if nothing is switched on,
the keywords are the same as from `extract_message_keywords`, to the last bit.

`Enrichment` says which additions count, and `QueryWeights` what counts less in a query.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta, tzinfo
from functools import lru_cache
from hashlib import sha256
from heapq import nsmallest
from math import sqrt
from operator import itemgetter
from typing import Final, NamedTuple

from nlp.date_words import date_spans, day_word
from nlp.keywords import (
    MIN_WEIGHT,
    ROLE_WEIGHTS,
    SCALE,
    TOP_K,
    Keyword,
    SupportsDatedMessage,
    counts,
    extract_message_keywords,
    heaviest_first,
    role_weight_of,
    segment,
    weighted,
    well_formed,
)
from nlp.lexicon.idf import UNKNOWN_WORD_IDF, idf_table
from nlp.normal_forms import Finder, Span, finder_of, plain, script_spans, simplified, split_by
from nlp.stems import other_writings, says_little, stem


@dataclass(frozen=True, slots=True, kw_only=True)
class Enrichment:
    """Additions to the words of the Node original. All are off by default."""

    simplified: bool = False
    """Traditional characters count as Simplified ones. Needs OpenCC; where it is missing, all functions here that are
    given these options raise ImportError."""
    normal_forms: bool = False
    """What looks the same counts as one: full-width and half-width forms, letters and their marks, upper and lower
    case, and texts with invisible signs. So do RTX4090 and RTX 4090, Node.js and nodejs."""
    scripts: bool = False
    """Kana, Hangul, Cyrillic, accented Latin and emoji make words."""
    dates: bool = False
    """Days make words, in all ways of writing them, and a memory has the day of each of its messages."""
    stems: bool = False
    """English and Russian words count by their stems, and in lower case."""
    speakers: bool = False
    """A memory has the name of each of its speakers as a word, `阿红:`, so that her name finds what she said. It is
    not the word 阿红, which counts as rare where the others seldom say it."""
    long_texts: bool = False
    """Weights are divided by the square root of the length of the message, and no word is dropped. The Node original
    divides by the length and drops words of little weight, so a long answer loses most of its facts."""
    words: tuple[str, ...] = ()
    """Names and other words that are never cut."""

    @property
    def signature(self) -> str:
        """A short name of these options, "" for none. It is kept with a memory, to know how its words were found."""
        names = (
            "dates",
            "long_texts",
            "normal_forms",
            "scripts",
            "simplified",
            "speakers",
            "stems",
        )
        parts = [name + REVISIONS.get(name, "") for name in names if getattr(self, name)]
        if self.words:
            word_lines = "\n".join(sorted(self.words))
            digest = sha256(word_lines.encode("utf-8", "replace")).hexdigest()
            parts.append(f"words:{digest[:8]}")
        return " ".join(parts)


REVISIONS: Final[Mapping[str, str]] = {"normal_forms": "2"}
"""Each option whose rule has changed since a release, with the number of its rule, such as `2`: stored memories then
count as outdated, and `doctor --reindex` finds their words again. A row stays, and no number is used twice."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryWeights:
    """What counts less in a query: factors from 0 to 1 on all points of a term. By default no word counts less."""

    earlier: float = 1.0
    """On each message before the last one, again for each further step back."""
    before_question: float | None = None
    """The same where the last message is a question of two words or more that say something. If it is None, `earlier`
    is used."""
    function_words: float = 1.0
    """On words that say little by themselves: what, when, 我们."""
    relative_days: float = 1.0
    """On days named by their distance (今天, last Friday), if the message has other words that say something."""
    pairs: float = 0.0
    """On pairs of characters and single Han characters, beside the words; 0: they do not count."""
    given: float = 0.0
    """On words that the caller gave beside the messages, after a statement; 0: they do not count."""
    given_for_question: float = 0.0
    """The same after a question."""
    kept: float = 0.0
    """On words that are kept with a memory and are not in its text; 0: they do not count."""


# Words with their additions

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
NOTHING: Final = Enrichment()
"""The keywords of the Node original."""
USUAL_LENGTH: Final = 12
"""Length of a message, in words, whose weights `long_texts` does not change: some 20 Chinese characters."""
_LEAST_LENGTH: Final = 6
"""Shorter messages count as having so many words: otherwise `good morning` would weigh more than a question. Chosen on
the development sets of docs/explanation/recall-quality.md."""
_OTHER_WRITING: Final = 0.5
"""The weight of a word of another way of writing beside a word of the text: together they are one thing. Not chosen by
data: the development sets have too few compounds to tell."""


class _Word(NamedTuple):
    """The form of a word that is compared, whether the word is a day named by its distance, and whether an adverb
    such as 今天 names it."""

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
    """Return the keywords of a memory, heaviest first, as `extract_message_keywords` finds them, changed by
    `options`. A message without a time counts as written at `now_ms` (milliseconds since 1970). `zone` decides when
    its day begins (None for the system's zone). Each of `names` is a word, beside its parts. With `options.dates` the
    day of each message is a word too, in addition to the usual 72."""
    if options == NOTHING:
        return extract_message_keywords(messages, role_weights)
    sums: dict[str, float] = {}
    days: dict[str, float] = {}
    speakers: dict[str, float] = {}
    for message in messages:
        day = day_of(message.time_ms, options, now_ms=now_ms, zone=zone)

        words = _words(message.content, options, day)
        occurrences = _occurrences(words, message.content, options, names=names)
        role_weight = role_weight_of(message.role, role_weights)
        for word, weight in _weighted(
            occurrences, _other_writings(message.content, options), options
        ):
            sums[word] = sums.get(word, 0.0) + weight * role_weight

        # A day or a speaker weighs as much as an unknown word of this message.
        further_weight = _weight_of_further_word(occurrences.total(), options) * role_weight
        if day is not None and role_weight:
            word_of_day = day_word(day)
            days[word_of_day] = days.get(word_of_day, 0.0) + further_weight
        if options.speakers and message.name is not None and message.name in names:
            speaker = speaker_word(normal_form(message.name, options), options)
            speakers[speaker] = max(further_weight, speakers.get(speaker, 0.0))
    further_words = days | {speaker: weight for speaker, weight in speakers.items() if weight}

    ranked = _limited(
        [(weight, word) for word, weight in sums.items() if word not in further_words], options
    )
    # Days and speakers are not subject to the usual limits: in a long message no single word weighs much.
    ranked += [(weight + sums.get(word, 0.0), word) for word, weight in further_words.items()]
    # As by `heaviest_first`, in two short steps: a sort holds the interpreter lock, and others wait.
    ranked.sort(key=itemgetter(1))
    ranked.sort(key=itemgetter(0), reverse=True)
    return [Keyword(word, weight) for weight, word in ranked]


def _weight_of_further_word(words: int, options: Enrichment) -> float:
    """Return the weight of the day or the speaker of a message of so many words. It is a further word, which takes no
    weight from the others."""
    length = words + 1
    return UNKNOWN_WORD_IDF * SCALE / (weight_divisor(length) if options.long_texts else length)


def _limited(
    candidates: Sequence[tuple[float, str]], options: Enrichment
) -> list[tuple[float, str]]:
    """Return the (weight, word) pairs that become keywords of a memory: without `long_texts` only the 72 heaviest,
    and none of little weight."""
    if options.long_texts:
        return [(weight, word) for weight, word in candidates if weight > 0]
    heavy = [(weight, word) for weight, word in candidates if weight >= MIN_WEIGHT]
    return nsmallest(TOP_K, heavy, key=heaviest_first)


def words_in(
    text: str, options: Enrichment, *, now_ms: int, zone: tzinfo | None = None
) -> tuple[str, ...]:
    """Return the words that `enriched_keywords` finds in `text`, written at `now_ms`: each once, in order, including
    words of little weight."""
    day = day_of(None, options, now_ms=now_ms, zone=zone)
    keys = [word.key for word in _words(text, options, day)]
    keys += _other_writings(text, options)
    return tuple(dict.fromkeys(keys))


class MessageWords(NamedTuple):
    """The words of a message with their weights; the days named by their distance; and the words that are only
    adverbs of a day in it (今天). `say_something`: a word of it says something, and not only when."""

    keywords: list[Keyword]
    relative_days: set[str]
    adverbs: set[str]
    say_something: bool


def message_words(
    text: str, options: Enrichment, *, day: date | None, names: Sequence[str]
) -> MessageWords:
    """Return the words of a message with their weights, and which of them name a day by its
    distance. `day`: when it was written, None if days do not count; `names`: further names to
    find."""
    words = list(_words(text, options, day))
    relative_days = {word.key for word in words if word.relative_day}
    adverbs = {word.key for word in words if word.adverb}
    occurrences = _occurrences(words, text, options, names=names)
    return MessageWords(
        keywords=_weighted(occurrences, _other_writings(text, options), options),
        relative_days=relative_days,
        adverbs=adverbs - {word.key for word in words if not word.adverb},
        say_something=any(
            word.key not in relative_days and not says_little(word.key) for word in words
        ),
    )


def word_weight(word: str, words: int) -> float:
    """Return the weight of an occurrence of a word among so many words of long texts, before the role's weight."""
    return idf_table().get(word, UNKNOWN_WORD_IDF) * SCALE / weight_divisor(words)


def gram_weight(pairs: int) -> float:
    """Return the weight of an occurrence of a pair of characters in a message of so many pairs, before the role's
    weight."""
    return UNKNOWN_WORD_IDF * SCALE / weight_divisor(pairs)


def normal_form(text: str, options: Enrichment) -> str:
    """Return `text` in the one form in which it is compared; case is folded later, word by word."""
    text = well_formed(text)
    if options.normal_forms:
        text = plain(text)
    if options.simplified:
        text = simplified(text)
    return text


def _occurrences(
    words: Iterable[_Word], text: str, options: Enrichment, *, names: Sequence[str]
) -> Counter[str]:
    """Count how often each of `words` occurs in `text`, and each of `names` that is not among them."""
    occurrences = Counter(word.key for word in words)
    if names:
        find_names = name_finder(replace(options, words=tuple(names)))
        spans = find_names(normal_form(text, options))
        name_counts = Counter(_key(span.word, options) for span in spans)
        occurrences.update(
            {name: count for name, count in name_counts.items() if name not in occurrences}
        )
    return occurrences


def _other_writings(text: str, options: Enrichment) -> Counter[str]:
    """Count the words by which other ways of writing the compounds of `text` are found."""
    if not options.normal_forms:
        return Counter()
    words = filter(counts, other_writings(normal_form(text, options)))
    return Counter(_key(word, options) for word in words)


def _weighted(
    occurrences: Counter[str], others: Mapping[str, int], options: Enrichment
) -> list[Keyword]:
    """Return the words with their weights. `others`, which are not among the words of the text, take no weight from
    these."""
    if options.long_texts:
        length = weight_divisor(occurrences.total())
        idf = idf_table()
        keywords = [
            Keyword(word, count * idf.get(word, UNKNOWN_WORD_IDF) * SCALE / length)
            for word, count in occurrences.items()
        ]
    else:
        length = float(max(occurrences.total(), 1))
        keywords = weighted(occurrences)

    other_weight = UNKNOWN_WORD_IDF * SCALE / length * _OTHER_WRITING
    keywords += [
        Keyword(word, count * other_weight)
        for word, count in others.items()
        if word not in occurrences
    ]
    return keywords


def weight_divisor(terms: int) -> float:
    """Return the divisor of the weights in a text of so many terms, if `long_texts` is on."""
    return sqrt(USUAL_LENGTH * max(terms, _LEAST_LENGTH))


def day_of(
    time_ms: int | None, options: Enrichment, *, now_ms: int, zone: tzinfo | None
) -> date | None:
    """Return the day on which something was written at `time_ms` (or at `now_ms`, if that is None), or None if days
    do not count."""
    if not options.dates:
        return None
    if time_ms is None:
        time_ms = now_ms
    try:
        moment = _EPOCH + timedelta(milliseconds=time_ms)
        return moment.astimezone(zone).date()
    except (OverflowError, OSError, ValueError):
        return None  # beyond the range of dates


def _words(text: str, options: Enrichment, day: date | None) -> Iterator[_Word]:
    """Yield the words of a text that count, in order. What the options ask for (names, days, other
    scripts) is found first, and the rest is segmented. `day`: when it was written, None if days do
    not count."""
    text = normal_form(text, options)
    finders: list[Finder] = []
    if options.words:
        finders.append(name_finder(options))
    if day is not None:
        finders.append(lambda part: date_spans(part, day))
    if options.scripts:
        finders.append(script_spans)

    # Found words are taken out first, so that the segmentation cannot cut them.
    for part in split_by(text, finders):
        if isinstance(part, Span):
            yield _Word(_key(part.word, options), part.relative, part.adverb)
        else:
            for token in segment(part):
                word = _counted(token, options.stems, options.normal_forms)
                if word is not None:
                    yield word


@lru_cache(maxsize=16_384)  # the words of some 1,000 memories, about 4 MB
def _counted(token: str, by_stem: bool, any_case: bool) -> _Word | None:
    """Return the word of a token of the segmentation, or None if it does not count."""
    if not counts(token):
        return None
    return _Word(_key_by(token, by_stem, any_case))


def _key(word: str, options: Enrichment) -> str:
    """Return a word as it is compared: its stem, or without case, or as it is."""
    return _key_by(word, options.stems, options.normal_forms)


def _key_by(word: str, by_stem: bool, any_case: bool) -> str:
    if by_stem:
        return stem(word.casefold())
    if any_case:
        return word.casefold()
    return word


def speaker_word(name: str, options: Enrichment) -> str:
    """Return the word of the memories in which a speaker has this name."""
    return _key(name, options) + ":"


def is_speaker(word: str) -> bool:
    """Return whether a word of a memory says who spoke."""
    return word.endswith(":")


@lru_cache(maxsize=16)
def name_finder(options: Enrichment) -> Finder:
    """Return a function that finds the words of `options`, the longest first, in texts of the same form."""
    forms = {normal_form(word, options) for word in options.words if word.strip()}
    return finder_of(forms, any_case=options.normal_forms)
