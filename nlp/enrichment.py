"""Keywords of messages with what was measured to help: days, other scripts, one form for one word, names.

`keywords.py` alone is bit-identical to the Node original. This is a step of its own around it: with nothing switched
on the keywords are those of `extract_message_keywords`, to the last bit.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, tzinfo
from functools import lru_cache
from hashlib import sha256
from typing import Final, Protocol

from nlp.date_words import Span, date_spans, day_word
from nlp.keywords import (
    MIN_WEIGHT,
    ROLE_WEIGHTS,
    TOP_K,
    Keyword,
    SupportsMessage,
    counts,
    extract_message_keywords,
    heaviest_first,
    role_weight_of,
    weighted,
)
from nlp.lexicon.function_words import FUNCTION_WORDS
from nlp.normal_forms import plain, simplified
from nlp.scripts import script_spans
from nlp.segment import segment, well_formed

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class SupportsDatedMessage(SupportsMessage, Protocol):
    """A message that may say when it was written, in milliseconds since 1970."""

    @property
    def time_ms(self) -> int | None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Enrichment:
    """What is done to words beyond the Node original. Nothing, unless switched on."""

    simplified: bool = False
    """Traditional characters count as Simplified ones. Needs OpenCC."""
    normal_forms: bool = False
    """Full-width and half-width forms, and upper and lower case, count as one."""
    scripts: bool = False
    """Kana, Hangul, Cyrillic, accented Latin and emoji make words."""
    dates: bool = False
    """Days make words, however they are written, and a memory has the days on which it was said."""
    stop_words: bool = False
    """Chinese words that say little do not count."""
    words: tuple[str, ...] = ()
    """Names and other words that are never cut."""

    @property
    def nothing(self) -> bool:
        """Whether the keywords are those of the Node original."""
        return self == _NOTHING

    @property
    def signature(self) -> str:
        """A short name of these options, "" for none: kept with a memory, to tell which words it was given."""
        names = ("dates", "normal_forms", "scripts", "simplified", "stop_words")
        parts = [name for name in names if getattr(self, name)]
        if self.words:
            parts.append("words:" + sha256("\n".join(sorted(self.words)).encode("utf-8", "replace")).hexdigest()[:8])
        return " ".join(parts)


_NOTHING: Final = Enrichment()


def enriched_keywords(
    messages: Iterable[SupportsDatedMessage],
    options: Enrichment,
    *,
    now_ms: int,
    zone: tzinfo | None = None,
    role_weights: Mapping[str, float] = ROLE_WEIGHTS,
    with_own_days: bool = False,
) -> list[Keyword]:
    """The keywords of a chat, heaviest first, as `extract_message_keywords` gives them but with `options`.

    A message without a time was written at `now_ms` (milliseconds since 1970). `zone` says where its day begins;
    None means the system's zone. `with_own_days` is for what is remembered: the days on which it was said are
    words of it too, in addition to the usual 72.

    Raises:
        ImportError: `options.simplified`, and OpenCC is not installed.
    """
    if options.nothing:
        return extract_message_keywords(messages, role_weights)
    sums: dict[str, float] = {}
    own_days: dict[str, float] = {}
    for message in messages:
        day = _day_of(now_ms if message.time_ms is None else message.time_ms, zone) if options.dates else None
        occurrences = Counter(_words(message.content, options, day))
        role_weight = role_weight_of(message.role, role_weights)
        for word, weight in weighted(occurrences):
            sums[word] = sums.get(word, 0.0) + weight * role_weight
        if with_own_days and day is not None and role_weight:
            # As one more word of the message, but one that takes no weight from the others.
            ((word, weight),) = weighted(Counter({day_word(day): 1}))
            own_days[word] = own_days.get(word, 0.0) + weight / (occurrences.total() + 1) * role_weight
    rest = [(weight, word) for word, weight in sums.items() if weight >= MIN_WEIGHT and word not in own_days]
    rest.sort(key=heaviest_first)
    # Beyond the usual limits: in a long message no single word weighs much.
    own = [(weight + sums.get(word, 0.0), word) for word, weight in own_days.items()]
    kept = sorted([*rest[:TOP_K], *own], key=heaviest_first)
    return [Keyword(word, weight) for weight, word in kept]


def _day_of(time_ms: int, zone: tzinfo | None) -> date | None:
    try:
        return (_EPOCH + timedelta(milliseconds=time_ms)).astimezone(zone).date()
    except (OverflowError, OSError, ValueError):
        return None  # at the edge of what dates can show


def _words(text: str, options: Enrichment, day: date | None) -> Iterator[str]:
    """The words of `text` that count, in order."""
    text = well_formed(text)
    if options.normal_forms:
        text = plain(text)
    if options.simplified:
        text = simplified(text)
    finders: list[Callable[[str], Iterable[Span]]] = []
    if options.words:
        finders.append(_name_finder(options))
    if day is not None:
        finders.append(lambda piece: date_spans(piece, day))
    if options.scripts:
        finders.append(script_spans)
    for piece, whole in _pieces(text, finders):
        for word in (piece,) if whole else filter(counts, segment(piece)):
            key = word.casefold() if options.normal_forms else word
            if not (options.stop_words and word.lower() in FUNCTION_WORDS):
                yield key


def _pieces(text: str, finders: list[Callable[[str], Iterable[Span]]]) -> Iterator[tuple[str, bool]]:
    """`text` in stretches, each with whether it is one word; an earlier finder takes before a later one."""
    if not finders:
        yield text, False
        return
    find, later = finders[0], finders[1:]
    end = 0
    for span in find(text):
        if span.start > end:
            yield from _pieces(text[end : span.start], later)
        yield span.word, True
        end = span.end
    if end < len(text):
        yield from _pieces(text[end:], later)


@lru_cache(maxsize=16)
def _name_finder(options: Enrichment) -> Callable[[str], list[Span]]:
    """Finds the words of `options`, the longest first, in texts of the same form."""

    def form(word: str) -> str:
        word = plain(word) if options.normal_forms else word
        return simplified(word) if options.simplified else word

    flags = re.IGNORECASE if options.normal_forms else 0
    names = sorted({form(word) for word in options.words if word.strip()}, key=lambda name: (-len(name), name))
    if not names:
        return lambda _: []
    pattern = re.compile("|".join(map(_bounded, names)), flags)
    return lambda text: [Span(*found.span(), found[0]) for found in pattern.finditer(text)]


def _bounded(name: str) -> str:
    """A side that is a letter or digit of ASCII is a boundary: Ann is not in Annual."""
    before = r"(?<![A-Za-z0-9_])" if name[0].isascii() and name[0].isalnum() else ""
    after = r"(?![A-Za-z0-9_])" if name[-1].isascii() and name[-1].isalnum() else ""
    return before + re.escape(name) + after
