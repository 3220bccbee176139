"""How messages become words: with which enrichment, and in which time zone. Pure.

Memories and queries must become words in the same way, so both are here. `nlp` finds the words.
"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import field, replace
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from fnmatch import fnmatchcase
from itertools import chain, islice
from operator import or_

from memory_server.conversations.model import ShortTermMemory
from memory_server.kernel.messages import MAX_NAME_CHARS, Message, said_in
from memory_server.kernel.private import to_keep
from memory_server.kernel.text import has_ideograph
from memory_server.kernel.times import MINUTE_MS, local, milliseconds
from memory_server.kernel.values import dataclass, frozen
from nlp import (
    ROLE_WEIGHTS,
    Enrichment,
    Keyword,
    QueryTerm,
    QueryWeights,
    enriched_keywords,
    is_incidental,
    is_kept,
    is_speaker,
    kept,
    kept_keywords,
    normal_form,
    other_word_terms,
    says_little,
    sought_grams,
    sought_names,
    sought_words,
    words_in,
)
from nlp.date_words import (
    NamedDays,
    asked_days,
    asks_in_short,
    day_word,
    told_days,
    weekday_words,
    words_of_days,
)
from nlp.keywords import role_weight_of
from nlp.lexicon.asking import WORDS_OF_ASKING
from nlp.plans import AskedPlans, asked_plans
from nlp.query_terms import own_words_term, speaks_of_oneself, telling_count
from nlp.questions import (
    ASKED_CHARS,
    Cue,
    Overview,
    asking_part,
    cue_of,
    is_question,
    overview_of,
)
from nlp.stems import grams_of, stem
from nlp.time_spans import Moment, TimeSpan, moments_in, time_spans, without_moments

_TOLD_CHARS = 2_000
"""Characters of a message that are looked at."""
_SEARCH_CHARS = 200_000
"""Characters of messages that a search looks at: some 50 ms."""
_LEAST_CHARS = 100
"""What a message takes of them at least: a short one costs time too."""
_PAUSE_MS = 60 * MINUTE_MS
"""Milliseconds of a pause, as `episode_pause_ms`: what was said before it does not count."""
_NIGHT_HOURS = 4
"""Until this hour people call the day before today."""


@frozen
class AskedDays:
    """The days that a question names; the index words of these days, which a memory that tells of them holds; and the
    zone in which a day begins (None for the system's)."""

    days: NamedDays
    words: tuple[str, ...]
    zone: tzinfo | None = None


def days_asked(question: str, now: datetime, zone: tzinfo | None) -> AskedDays | None:
    """Return the days of which a question asks at `now`, a local time, or None if it names no day."""
    days = _named_at(now, asked_days, question)
    if not days:
        return None
    return AskedDays(days, tuple(sorted(words_of_days(days))), zone)


def telling(newest_first: Iterable[tuple[int, ShortTermMemory]], asked: AskedDays) -> set[int]:
    """Return the numbers of the memories that tell of any of these days, as seen from the day on which each of their
    messages was said. Looks at the newest first, up to the most characters of a search."""
    numbers: set[int] = set()
    chars = 0
    for number, memory in newest_first:
        if not memory.time_ms:
            continue  # its time is not known, so `Thursday` in it means no day
        for message in memory.messages or said_in(memory.text):
            text = message.content[:_TOLD_CHARS]
            chars += max(len(text), _LEAST_CHARS)
            if chars > _SEARCH_CHARS:
                return numbers
            said_at = local(message.time_ms or memory.time_ms, asked.zone)
            if asked.days.has(_named_at(said_at, told_days, text)):
                numbers.add(number)
                break
    return numbers


def _named_at(at: datetime, named: Callable[[str, date], NamedDays], text: str) -> NamedDays:
    """Return the days that a text of this time names, in the first hours of a day also as on the day before; none at
    an end of the calendar, if it leads beyond it."""
    today = at.date()
    try:
        days = named(text, today)
        if at.hour >= _NIGHT_HOURS:
            return days
        return NamedDays(*map(or_, days, named(text, today - timedelta(days=1))))
    except (OverflowError, OSError, ValueError):
        return NamedDays()


_LOOKED_AT_CHARS = 20_000
"""Characters of a memory in which the spelling of its words is looked for: 5 ms."""
_WORD = re.compile(r"[^\W\d_]+")
_COMPOUND = re.compile("(?<![A-Za-z0-9])(?=([A-Za-z0-9]{1,32})([-.])([A-Za-z0-9]{1,32}))")
"""Two words that are found as one too: real-time, charge.py (nlp/stems.py)."""
_DAY = re.compile("(\\d{1,2})月(\\d{1,2})日")
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")

QUERY_CHARS = 16_000
"""Characters by which is searched, beginning with the last message: at some 2.5 µs for each a search takes 40 ms.
Earlier text weighs next to nothing. If a message does not fit, both of its ends count."""
_MOST_DAYS = 14
"""Days of a stretch of time whose words are looked for: of a longer one, people name other days."""
MOST_NAMES = 100
"""Names in a query that are never cut."""


@frozen
class RecallQuery:
    """What a search looks for: words and pairs of characters, each with its weight."""

    words: Mapping[str, QueryTerm] = field(default_factory=dict)
    grams: Mapping[str, QueryTerm] = field(default_factory=dict)
    question: bool = False
    """Whether the last message asks something, in words that say something: not `What do you think?`"""
    spans: tuple[tuple[int, int], ...] = ()
    """The stretches of time that the last message names: from the first millisecond since 1970 to the first after."""
    cue: Cue | None = None
    """The kind of answer that the last message asks for."""
    said: str = ""
    """What the last message says, of which the meaning is sought."""
    names_time: bool = False
    """Whether a stretch is named (last week, 7月份), and not only by an adverb such as 今天."""
    overview: Overview | None = None
    """What the last message asks to have an overview of; then there are no words to search by."""
    plans: AskedPlans | None = None
    """The days whose plans the last message asks for; then it asks for an overview of them."""
    zone: tzinfo | None = None
    """The zone of the asker's days, or None for the system's zone."""
    asked_days: AskedDays | None = None
    """The days that a question names: what tells of them comes."""
    days: frozenset[str] = frozenset()
    """The words of the days of which an overview is asked for: what was said on another day may name one."""
    telling_words: int = 0
    """The number of different words of the last message that say something."""
    other_words: tuple[str, ...] = ()
    """What the caller gave beside the messages."""
    private_words: int = 0
    """How many of these were left out because a private part of the messages has them."""
    asker: str = ""
    """The name of the user who says the last message, if it is about them: "what do I like best?"."""
    folder: str | None = None
    """Where the asker works: an overview of a time begins with what was said there."""
    own_word: str = ""
    """The word of the memories in which the asker speaks, where several people do."""

    def __bool__(self) -> bool:
        return bool(self.words or self.grams or self.spans or self.overview or self.asked_days)


@frozen
class QueryContext:
    """What the searched memories tell a query."""

    speakers: Sequence[str] = ()
    """The names of the speakers in them, each once."""
    users: Sequence[str] = ()
    """The speakers who speak as users."""
    keeps_words: bool = False
    """Whether words that its text does not have are kept with any of them."""

    @classmethod
    def of(cls, memories: Collection[ShortTermMemory]) -> QueryContext:
        speakers: dict[str, None] = {}
        users: dict[str, None] = {}
        for memory in memories:
            for message in memory.messages:
                if message.name:
                    speakers[message.name] = None
                if message.name and message.role == "user":
                    users[message.name] = None
        keeps_words = any(memory.other_words for memory in memories)
        return cls(tuple(speakers), tuple(users), keeps_words)


@frozen
class GramText:
    """A part of a memory in its normal form, and the weight of its pairs of characters, which depends on the role.
    `words` are the words of the memory: a pair that is such a word is found as a word, and does not count twice."""

    text: str
    role_weight: float
    words: Collection[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class KeywordOptions:
    """By default words are exactly as in the Node original. `zone` None means the system's zone. `names_of`: words
    that are never cut, by patterns of conversation ids."""

    enrichment: Enrichment = field(default_factory=Enrichment)
    emphasis: QueryWeights = field(default_factory=QueryWeights)
    zone: tzinfo | None = None
    names_of: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def grams(self) -> bool:
        return self.emphasis.pairs > 0.0

    def within(self, conversation_id: str) -> KeywordOptions:
        """Return the same options, with the names that count in this conversation."""
        names = dict.fromkeys(self.enrichment.words)
        for pattern, pattern_names in self.names_of.items():
            if fnmatchcase(conversation_id, pattern):
                names.update(dict.fromkeys(pattern_names))
        return replace(self, enrichment=replace(self.enrichment, words=tuple(names)))

    def of_memory(
        self,
        messages: Sequence[Message],
        time_ms: int,
        role_weights: Mapping[str, float] = ROLE_WEIGHTS,
    ) -> list[Keyword]:
        """Return the keywords of a memory of `time_ms`, with the days on which it was said. If that is 0, its time is
        not known: it has no day, and `tomorrow` in it means none."""
        enrichment = self.enrichment
        if not time_ms:
            enrichment = replace(enrichment, dates=False)
        return enriched_keywords(
            messages,
            enrichment,
            now_ms=time_ms,
            zone=self.zone,
            role_weights=role_weights,
            names=_names_of(messages),
        )

    def of_text(self, memory: ShortTermMemory) -> ShortTermMemory:
        """Return `memory` with the words of its messages, or of its text if it has no messages;
        everything else stays. A word is the same object in all memories."""
        messages = _messages_of(memory)
        keywords = self.of_memory(messages, memory.time_ms, {**ROLE_WEIGHTS, **memory.role_weights})
        of_text = [keyword.word for keyword in keywords]
        keywords += kept_keywords(memory.other_words, self.enrichment, of_text)
        return replace(
            memory,
            words=tuple(sys.intern(keyword.word) for keyword in keywords),
            weights=tuple(keyword.weight for keyword in keywords),
            indexed_with=sys.intern(self.enrichment.signature),
        )

    def with_other_words(self, memory: ShortTermMemory, texts: Sequence[str]) -> ShortTermMemory:
        """Return `memory` with these other words in place of its former ones. The words of its text stay and are not
        found again, so it is quick."""
        pairs = zip(memory.words, memory.weights, strict=True)
        own = [Keyword(word, weight) for word, weight in pairs if not is_kept(word)]
        own += kept_keywords(texts, self.enrichment, [keyword.word for keyword in own])
        return replace(
            memory,
            other_words=tuple(texts),
            words=tuple(sys.intern(keyword.word) for keyword in own),
            weights=tuple(keyword.weight for keyword in own),
        )

    def is_of(self, memory: ShortTermMemory) -> bool:
        """Return whether the words of `memory` were found with these options."""
        return memory.indexed_with == self.enrichment.signature

    def match_of(self, query: RecallQuery, text: str, time_ms: int) -> dict[str, float]:
        """Return the terms of `query` in `text`, which is part of a memory of `time_ms`, each with its weight."""
        matches: dict[str, float] = {}
        for word in words_in(text, self.enrichment, now_ms=time_ms, zone=self.zone):
            term = query.words.get(word)
            if term is not None:
                matches[word] = term.weight * term.factor
        if query.grams and not text.isascii():
            normal_text = normal_form(text, self.enrichment)
            for gram, term in query.grams.items():
                if gram in normal_text and gram not in matches:
                    matches[gram] = term.weight * term.factor
        return matches

    def of_query(
        self,
        messages: Sequence[Message],
        now_ms: int,
        role_weights: Mapping[str, float] = ROLE_WEIGHTS,
        *,
        names: Iterable[str] = (),
        other_words: Sequence[str] = (),
        known: QueryContext = QueryContext(),
    ) -> RecallQuery:
        """Make the query of `QUERY_CHARS` of the messages at `now_ms`: the last message counts most. `names` are
        never cut. `other_words` are the caller's texts beside the messages. The query also looks for speakers of
        memories whom the last message names, puts first what the asker said if several users speak, and looks for its
        words among the words that are kept with memories. A message that asks for an overview makes a query with
        neither words nor `other_words`; without enrichments, as in the Node original, no message does."""
        text = "\n".join(message.content for message in to_keep(messages[-1:]))

        # The Node original knows no pauses.
        messages = _last(messages, _PAUSE_MS if self.enrichment.signature else math.inf)
        last = asking_part(messages[-1].content) if messages else ""

        asker = _asker_of(messages, last)
        own_terms: dict[str, QueryTerm] = {}
        if asker and len(known.users) > 1:
            own_terms = own_words_term(asker, self.enrichment)
        own_word = next(iter(own_terms), "")

        # Stretches of hours are taken out first, so that `last night` is not read as a whole day too.
        now = local(now_ms, self.zone)
        moments: list[Moment] = []
        spans: list[TimeSpan] = []
        rest = last
        if self.enrichment.dates:
            moments = moments_in(last, now)
            rest = without_moments(last, moments)
            with suppress(OverflowError, ValueError):  # beyond the range of dates
                spans = time_spans(rest, now.date())

        if self.enrichment.signature:  # the Node original knows no such questions
            is_over = all(moment.end < now for moment in moments)
            normal_rest = normal_form(rest, self.enrichment)
            overview = overview_of(
                normal_rest,
                spans,
                now.date(),
                moments_are_over=is_over if moments else None,
            )

            plans = asked_plans(normal_rest, now.date()) if self.enrichment.dates else None
            if plans is not None:
                overview = "plans"
            if overview is not None:
                return RecallQuery(
                    plans=plans,
                    zone=self.zone,
                    said=text,
                    asker=asker,
                    own_word=own_word,
                    question=True,
                    spans=self._stretches(spans, moments),
                    overview=overview,
                    days=frozenset(
                        day_word(day) for span in spans for day in span.days(_MOST_DAYS)
                    ),
                )

        is_asking = is_question(last)
        if is_asking and self.enrichment.signature:
            messages = [*messages[:-1], self._without_words_of_asking(messages[-1])]
        words = sought_words(
            messages,
            self.enrichment,
            self.emphasis,
            now_ms=now_ms,
            zone=self.zone,
            role_weights=role_weights,
            names=_names_of(messages, names),
        )

        telling_words = telling_count(words)
        grams: dict[str, QueryTerm] = {}
        if self.grams:
            grams = sought_grams(
                messages, self.enrichment, self.emphasis, role_weights, words=words
            )
            # A pair counts as a word too: 生日 of 过生日, which is one word in the question. It does not count twice,
            # because a memory that has the pair as a word has no such pair.
            pairs = {gram: term for gram, term in grams.items() if len(gram) == 2}
            words = pairs | words

        asked: AskedDays | None = None
        if self.enrichment.dates and (is_asking or asks_in_short(last)):
            asked = days_asked(last, now, self.zone)

        # A day that is asked for replaces the vague time of words such as 最近.
        if asked is not None:
            spans = [span for span in spans if not span.near]
            spans += [TimeSpan(day, day) for day in sorted(asked.days.gone)]
            # Every memory that says Thursday has the word, and only a memory that tells of this Thursday answers.
            words = {word: term for word, term in words.items() if word not in weekday_words()}

        names_time = (
            asked is not None
            or not all(span.near for span in spans)
            or not all(moment.near for moment in moments)
        )
        says_something = names_time or any(
            term.telling for term in chain(words.values(), grams.values())
        )
        question = says_something and (is_asking or asked is not None)

        other_words_factor = self.emphasis.given
        if question:
            other_words_factor = self.emphasis.given_for_question
        words_beside, grams_beside = other_word_terms(
            other_words, self.enrichment, self.emphasis, other_words_factor
        )
        named_terms = self._named_terms(text, other_words, known.speakers, other_words_factor)

        sought = {**own_terms, **named_terms, **_with_other_words(words, words_beside)}
        sought_pairs = _with_other_words(grams, grams_beside)
        if known.keeps_words:
            sought |= self._kept_terms(sought, sought_pairs)
        return RecallQuery(
            words=sought,
            grams=sought_pairs,
            said=text,
            question=question,
            spans=self._stretches(spans, moments),
            cue=cue_of(last) if question else None,
            names_time=names_time,
            asked_days=asked,
            telling_words=telling_words,
            other_words=tuple(other_words),
            asker=asker,
            own_word=own_word,
        )

    def _without_words_of_asking(self, question: Message) -> Message:
        """Return the question without the words that only ask to be told something ("do you remember"), because many
        memories have these; or as it is, if no other word of it says something."""
        if len(question.content) > ASKED_CHARS:
            return question  # there these words are few among many
        content = normal_form(question.content, self.enrichment).replace("’", "'")
        # A question mark keeps it a question, and parts the words around it.
        rest = WORDS_OF_ASKING().sub(" ? ", content)
        if rest == content:
            return question
        words = (*words_in(rest, self.enrichment, now_ms=0), *grams_of(rest)[0])
        if all(says_little(word) or is_incidental(word) for word in words):
            return question
        return replace(question, content=rest)

    def _named_terms(
        self,
        said: str,
        other_words: Sequence[str],
        speakers: Iterable[str],
        other_words_factor: float,
    ) -> dict[str, QueryTerm]:
        """Return the terms of those speakers whom the asking part of the last message (`said`) or a
        text of the caller names; the latter have `other_words_factor`, and with 0 they do not
        count."""
        names = _usable(speakers)
        terms = dict(sought_names(asking_part(said), names, self.enrichment))
        if other_words_factor:
            for number, text in enumerate(other_words, 1):
                for name, term in sought_names(text, names, self.enrichment).items():
                    terms.setdefault(
                        name, term._replace(factor=other_words_factor, other_word=number)
                    )
        return terms

    def _kept_terms(
        self, words: Mapping[str, QueryTerm], grams: Mapping[str, QueryTerm]
    ) -> dict[str, QueryTerm]:
        """Return the words and pairs of a query as they are kept with memories, with a factor on
        their points; none without that factor. Speakers, days and words that say little are left
        out."""
        factor = self.emphasis.kept
        if not factor:
            return {}
        pairs = {gram: term for gram, term in grams.items() if len(gram) == 2}
        kept_terms: dict[str, QueryTerm] = {}
        for word, term in {**pairs, **words}.items():
            if not (term.when or term.asks or says_little(word) or is_speaker(word)):
                kept_terms[kept(word)] = term._replace(factor=term.factor * factor)
        return kept_terms

    def _stretches(
        self, spans: Iterable[TimeSpan], moments: Iterable[Moment]
    ) -> tuple[tuple[int, int], ...]:
        """Return the stretches of time in milliseconds since 1970, each with its exclusive end;
        none if one of them is beyond the range of dates."""
        try:
            of_days = [
                (self._begin(span.first), self._begin(span.last + timedelta(days=1)))
                for span in spans
            ]
            within_days = [
                (milliseconds(moment.begin), milliseconds(moment.end) + 1) for moment in moments
            ]
            return (*of_days, *within_days)
        except (OverflowError, OSError, ValueError):
            return ()  # beyond the range of dates

    def _begin(self, day: date) -> int:
        """Return when `day` begins."""
        begin = datetime.combine(day, time(), self.zone)
        return milliseconds(begin.astimezone(UTC))

    def gram_texts(self, memory: ShortTermMemory) -> list[GramText]:
        """Return the texts whose pairs of characters find `memory`: what is not only ASCII, of roles with a weight;
        empty if pairs do not count."""
        texts: list[GramText] = []
        if not self.grams:
            return texts
        for message in _messages_of(memory):
            if message.content.isascii():
                continue
            role_weight = role_weight_of(message.role, memory.role_weights)
            if role_weight:
                texts.append(
                    GramText(
                        normal_form(message.content, self.enrichment), role_weight, memory.words
                    )
                )
        return texts


def is_of_days(begin_ms: int, end_ms: int) -> bool:
    """Return whether a stretch has whole days; a day has 23 hours when the clock is put forward."""
    return end_ms - begin_ms >= 23 * 60 * MINUTE_MS


def _last(messages: Sequence[Message], pause_ms: float) -> Sequence[Message]:
    """Return the last messages, together at most `QUERY_CHARS` characters; the first of them may be cut to its
    beginning and its end. What was said before a longer pause than `pause_ms` belongs to another talk."""
    room = QUERY_CHARS
    last_first: list[Message] = []
    after_ms: int | None = None
    for message in reversed(messages):
        if not room or (after_ms and message.time_ms and after_ms - message.time_ms > pause_ms):
            break
        last_first.append(replace(message, content=asking_part(message.content, room)))
        room -= min(room, len(message.content))
        after_ms = message.time_ms
    return last_first[::-1]


def _with_other_words(
    terms: Mapping[str, QueryTerm], other_word_terms: Mapping[str, QueryTerm]
) -> Mapping[str, QueryTerm]:
    """Join the terms of the messages with the terms of the caller's texts. A term of the last message stays as it is.
    A term of an earlier message gets the larger of both weights."""
    if not other_word_terms:
        return terms

    def points(term: QueryTerm) -> float:
        return term.weight * term.factor

    joined = dict(terms)
    for text, other_term in other_word_terms.items():
        term = terms.get(text)
        if term is None or (not term.last and points(term) < points(other_term)):
            joined[text] = other_term
    return joined


def shown_words(memory: ShortTermMemory, most: int) -> list[str]:
    """Return the heaviest words of a memory as people read them, each once; without the speakers, whom its text
    names."""
    words = (word for word in spelt_words(memory) if not (is_speaker(word) or is_kept(word)))
    return list(dict.fromkeys(words))[:most]


def spelt_words(memory: ShortTermMemory, most: int | None = None) -> list[str]:
    """Return the heaviest words (all, if `most` is None) as the text of the memory spells them, and days in its
    language."""
    return list(map(spelling(memory.text), memory.words[:most]))


def spelling_of(memory: ShortTermMemory) -> Callable[[str], str]:
    """Return a function that spells words as the memory's text, or else its other words and its work, spell them."""
    return spelling("\n".join((memory.text, *memory.other_words, *memory.work.texts)))


def spelling(text: str) -> Callable[[str], str]:
    """Return a function that writes a word of a memory, which is kept by its stem, as its text
    spells it, and a day as its language does."""
    text = text[:_LOOKED_AT_CHARS]
    spelt: dict[str, str] = {}
    for word in _WORD.findall(text):
        spelt.setdefault(stem(word.casefold()), word)
    for first, sign, second in _COMPOUND.findall(text):
        spelt.setdefault(stem((first + second).casefold()), first + sign + second)
    is_chinese = has_ideograph(text)

    def shown(word: str) -> str:
        day = _DAY.fullmatch(word)
        if day is None:
            return spelt.get(word, word)
        if is_chinese:
            return word
        month = _MONTHS[int(day[1]) - 1]
        return f"{day[2]} {month}"

    return shown


def _asker_of(messages: Sequence[Message], last: str) -> str:
    """Return the name of the user who says the last message, if it is about that user; otherwise ""."""
    if not messages or messages[-1].role != "user" or not speaks_of_oneself(last):
        return ""
    return (messages[-1].name or "").strip()[:MAX_NAME_CHARS]


def _names_of(messages: Iterable[Message], others: Iterable[str] = ()) -> tuple[str, ...]:
    """Return the names of the speakers, and `others`, as `_usable`."""
    return _usable((*(message.name for message in messages if message.name), *others))


def _usable(names: Iterable[str]) -> tuple[str, ...]:
    """Each name once; without single characters, which may be parts of words."""
    usable = dict.fromkeys(name for name in names if 1 < len(name.strip()) <= MAX_NAME_CHARS)
    return tuple(islice(usable, MOST_NAMES))


def _messages_of(memory: ShortTermMemory) -> Sequence[Message]:
    """Return the messages of a memory, or the messages in its text if it has none."""
    return memory.messages or said_in(memory.text)
