"""Which triggers of a search must run, by what they need (prospects.py); the others are decided without V8.

A worker reads each trigger once, and not during a search. One look at the messages then serves all triggers that were
read, and a list of triggers that was searched before is not gone through again: what a search costs grows with what
may fire.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any

from sandbox.javascript.spelling import HALF, forms_of, normal
from sandbox.limits import MOST_NAME_CHARS
from sandbox.prospects import NAMED, ROLES, Atom, Prospect, Window

MOST_READ = 50_000
"""Triggers whose needs are kept; beyond that all are forgotten, and read again when they are searched. About 60 MB."""
MOST_LISTED = 50_000
"""Triggers of all lists that are kept; beyond that the list that was searched longest ago is forgotten. About 10 MB."""
MOST_CONTENT = 50_000
"""Characters of all messages of a search that are looked at, with the names in them."""
MOST_WORK = 20_000_000
"""Characters that are looked through for whole words: some 20 ms. The beginnings of words alone decide the rest."""
PIECE = 3
"""Characters of the beginning of a word, by which it is found at once."""
MOST_KEPT = 128
"""Messages whose pieces are kept for the next search, which has most of them again."""
MOST_KEPT_CHARS = 1_000
"""Characters of a message whose pieces are kept: some 200 kB for the longest."""
_PLAIN = (str, int, float, bool, type(None))


@dataclass(frozen=True, slots=True)
class Selection:
    """The indexes of the triggers that must run, and of those that fire without running. All others are quiet."""

    running: Sequence[int]
    firing: Sequence[int] = ()


@dataclass(frozen=True, slots=True)
class _SpokenText:
    """The normal form of a message, in all its spellings, and its pieces of up to PIECE characters."""

    text: str
    pieces: frozenset[str]


@dataclass(frozen=True, slots=True)
class _NeededWord:
    """A word, and the source of a trigger that needs it."""

    word: str
    source: str


@dataclass(slots=True)
class _Listing:
    """A list of triggers that was searched: where each source stands, and what is known when `reads` were made."""

    triggers: Sequence[str]
    places: Mapping[str, Sequence[int]]
    reads: int = 0
    undecided: Sequence[int] = ()
    firing: Sequence[int] = ()

    def places_of(self, sources: Iterable[str]) -> Iterator[int]:
        for source in sources:
            yield from self.places.get(source, ())


@dataclass(slots=True)
class _Listings:
    """The lists of triggers that were searched last, with at most MOST_LISTED triggers."""

    kept: deque[_Listing] = field(default_factory=deque)

    def listing_of(self, triggers: Sequence[str]) -> _Listing:
        """The listing of this list. Raises TypeError if one of the triggers cannot be in a set."""
        copy = list(triggers)
        for listing in self.kept:
            if listing.triggers == copy:  # texts that are the same object are not compared
                return listing
        places: dict[str, list[int]] = defaultdict(list)
        for index, source in enumerate(copy):
            places[source].append(index)
        listing = _Listing(copy, dict(places))
        self.kept.append(listing)
        while len(self.kept) > 1 and self._size() > MOST_LISTED:
            self.kept.popleft()
        return listing

    def _size(self) -> int:
        return sum(len(listing.triggers) for listing in self.kept)


class Candidates:
    """The needs of all triggers that were read, by source."""

    def __init__(self) -> None:
        self._read: set[str] = set()
        self._decided: set[str] = set()
        """Those of them whose need is known."""
        self._always: set[str] = set()
        """Those of them that are true whatever there is."""
        self._words: dict[Window, dict[str, list[_NeededWord]]] = defaultdict(
            lambda: defaultdict(list)
        )
        """What is needed in a window of messages, by the beginning of the word."""
        self._facts: dict[Atom, list[str]] = defaultdict(list)
        """The sources that need a fact."""
        self._reads = 0
        """How many triggers were read so far, those that were forgotten among them."""
        self._listings = _Listings()

    def __contains__(self, source: str) -> bool:
        return source in self._read

    def learn(self, source: str, prospect: Prospect) -> None:
        """Takes in what is known of a trigger that V8 has compiled and run."""
        if len(self._read) >= MOST_READ:
            self._forget_all()
        self._reads += 1
        self._read.add(source)
        if prospect.always:
            self._always.add(source)
        if prospect.need is not None:
            self._decided.add(source)
        for place, value in prospect.need or ():
            if isinstance(place, tuple):
                word = str(value)
                self._words[place][word[:PIECE]].append(_NeededWord(word, source))
            else:
                self._facts[place, value].append(source)

    def _forget_all(self) -> None:
        self._read.clear()
        self._decided.clear()
        self._always.clear()
        self._words.clear()
        self._facts.clear()

    def select(
        self, triggers: Sequence[str], context: Mapping[str, Any], now: datetime
    ) -> Selection:
        """Which triggers could be true or fail and must run, and which are always true."""
        everything = Selection(range(len(triggers)))
        is_anything_known = self._decided or self._always
        if not is_anything_known or not _is_usual(context) or not 1 < now.year < 9999:
            return everything
        try:
            listing = self._listings.listing_of(triggers)
        except TypeError:  # one is not even a text
            return everything
        if listing.reads != self._reads:
            self._look_again(listing)
        could_be_true = listing.places_of(set(self._met(context, now)))
        return Selection(sorted((*listing.undecided, *could_be_true)), listing.firing)

    def _look_again(self, listing: _Listing) -> None:
        """Which triggers of the list have no known need, and which are always true, after more were read."""
        sources = listing.places.keys()
        undecided = sources - self._decided - self._always
        listing.undecided = tuple(listing.places_of(undecided))
        listing.firing = tuple(sorted(listing.places_of(sources & self._always)))
        listing.reads = self._reads

    def _met(self, context: Mapping[str, Any], now: datetime) -> Iterator[str]:
        """The sources whose need may be met."""
        for fact in _facts(context, now):
            yield from self._facts.get(fact, ())
        chat = _Chat(context, with_names=self._seeks_names())
        work_left = MOST_WORK
        for window, needed_words in self._words.items():
            messages = chat.texts_in(window)
            # No word has a line break (javascript/sought.py), so none begins in one message and ends in the next.
            text = "\n".join(message.text for message in messages)
            pieces: set[str] = set()
            for message in messages:
                pieces |= needed_words.keys() & message.pieces
            for piece in pieces:
                for needed in needed_words[piece]:
                    work_left -= len(text)
                    if work_left < 0 or needed.word in text:
                        yield needed.source

    def _seeks_names(self) -> bool:
        """Whether any trigger looks for words in messages with the names of their speakers."""
        return any(role == NAMED for role, _depth in self._words)


class _Chat:
    """The messages of a context as words are sought in them. `with_names`: also with the names of their speakers."""

    def __init__(self, context: Mapping[str, Any], *, with_names: bool) -> None:
        messages = context["messages"]
        self._roles = [message.get("role") for message in messages]
        self._texts = [_spoken_text(message["content"]) for message in messages]
        self._named_texts: list[_SpokenText] = []
        if with_names:
            names = speaker_names(context)
            self._named_texts = [_spoken_text(named_text(message, names)) for message in messages]

    def texts_in(self, window: Window) -> list[_SpokenText]:
        """The messages of a window."""
        role, depth = window
        texts = self._named_texts if role == NAMED else self._texts
        roles = ROLES[role]
        if not roles:
            return texts[-depth:]
        speakers = self._roles[-depth:]
        return [
            text for text, speaker in zip(texts[-depth:], speakers, strict=True) if speaker in roles
        ]


def speaker_names(context: Mapping[str, Any]) -> dict[str, str]:
    """The names of those who speak without one in their messages, by role: as the participants of the context say; of a
    long name the beginning."""
    participants = context.get("participants")
    if not isinstance(participants, Mapping):
        return {}
    names: dict[str, str] = {}
    for role, participant_key in (("user", "user"), ("assistant", "char"), ("char", "char")):
        participant = participants.get(participant_key)
        name = participant.get("name") if isinstance(participant, Mapping) else participant
        if isinstance(name, str) and name:
            names[role] = name[:MOST_NAME_CHARS]
    return names


def named_text(message: Mapping[str, Any], names: Mapping[str, str]) -> str:
    """A message as the scope `named` of match_keys has it (realm/keys.js has the same rule)."""
    name = message.get("name")
    if not isinstance(name, str) or not name:
        name = names.get(str(message.get("role")), "")
    return f"\x01{name}: {message['content']}" if name else f"\x01{message['content']}"


def _spoken_text(content: str) -> _SpokenText:
    return _kept_text(content) if len(content) <= MOST_KEPT_CHARS else _new_text(content)


def _new_text(content: str) -> _SpokenText:
    # No word has a line break (javascript/sought.py), so none begins in one form and ends in the next.
    text = "\n".join(map(normal, forms_of(content)))
    pieces: set[str] = set()
    for size in range(1, PIECE + 1):
        pieces.update(text[start : start + size] for start in range(len(text)))
    return _SpokenText(text, frozenset(pieces))


_kept_text = lru_cache(maxsize=MOST_KEPT)(_new_text)


def _is_usual(context: Mapping[str, Any]) -> bool:
    """Whether the context has the form that needs assume, and no more text than can be looked at soon."""
    messages = context.get("messages")
    if type(messages) is not list or not messages:
        return False
    if (
        type(context.get("participants")) is not dict
        or type(context.get("conversation_id")) is not str
    ):
        return False
    if not all(map(_is_usual_message, messages)):
        return False
    return sum(map(_chars_with_name, messages)) <= MOST_CONTENT


def _chars_with_name(message: Mapping[str, Any]) -> int:
    """Characters of what a message says and of the name that stands in it."""
    return len(message["content"]) + len(str(message.get("name") or ""))


def _is_usual_message(message: object) -> bool:
    if type(message) is not dict or type(message.get("content")) is not str:
        return False
    if HALF.search(message["content"]):
        return False  # V8 makes one character of two halves that meet
    return all(isinstance(message.get(field), _PLAIN) for field in ("role", "name", "timestamp"))


def _facts(context: Mapping[str, Any], now: datetime) -> Iterator[Atom]:
    """What may be true of this search. V8 and Python may disagree about a time zone, but not by more than 36 hours."""
    yield "conversation_id", context["conversation_id"]
    for half_days in range(-3, 4):
        day = now + timedelta(hours=12 * half_days)
        yield "getFullYear", float(day.year)
        yield "getMonth", float(day.month - 1)
        yield "getDate", float(day.day)
        yield "getDay", float(day.isoweekday() % 7)
