"""Which triggers of a search could be true, by what they need (javascript/needs.py); the others are quiet without V8.

A trigger is read once, and not during a search. One look at the messages then serves all triggers that were read. A
process that asks once reads none, so the code that reads them is imported with the first one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from functools import lru_cache
from itertools import compress, count
from operator import not_
from typing import TYPE_CHECKING, Any

from sandbox.javascript.spelling import HALF, forms_of, normal

if TYPE_CHECKING:
    from sandbox.javascript.sought import Atom, Window

MOST_READ = 50_000
"""Triggers whose needs are kept; beyond that all are forgotten, and read again when they are searched. About 60 MB."""
MOST_CONTENT = 50_000
"""Characters of all messages of a search that are looked at."""
MOST_WORK = 20_000_000
"""Characters that are looked through for whole words: some 20 ms. The beginnings of words alone decide the rest."""
PIECE = 3
"""Characters of the beginning of a word, by which it is found at once."""
MOST_KEPT = 64
"""Messages whose pieces are kept for the next search, which has most of them again."""
MOST_KEPT_CHARS = 1_000
"""Characters of a message whose pieces are kept: some 200 kB for the longest."""
_PLAIN = (str, int, float, bool, type(None))


class Candidates:
    """The needs of all triggers that were read, by source."""

    def __init__(self) -> None:
        self._read: set[str] = set()
        self._decided: set[str] = set()
        """Those of them whose need is known."""
        self._words: dict[Window, dict[str, list[tuple[str, str]]]] = defaultdict(lambda: defaultdict(list))
        """The words of a window and the sources that need them, by the beginning of the word."""
        self._facts: dict[Atom, list[str]] = defaultdict(list)

    def __contains__(self, source: str) -> bool:
        return source in self._read

    def read(self, source: str) -> None:
        """Takes a trigger in that V8 has compiled and run."""
        if len(self._read) >= MOST_READ:
            for kept in (self._read, self._decided, self._words, self._facts):
                kept.clear()
        from sandbox.javascript.needs import need_of

        need = need_of(source)
        self._read.add(source)
        if need is not None:
            self._decided.add(source)
        for place, what in need or ():
            if isinstance(place, tuple):
                word = str(what)
                self._words[place][word[:PIECE]].append((word, source))
            else:
                self._facts[place, what].append(source)

    def among(self, triggers: Sequence[str], context: Mapping[str, Any], now: datetime) -> Sequence[int]:
        """The indexes of those that could be true or fail."""
        if not self._decided or not _is_usual(context) or not 1 < now.year < 9999:
            return range(len(triggers))
        try:
            undecided = compress(count(), map(not_, map(self._decided.__contains__, triggers)))
            met = set(self._met(context, now))
            could_be_true = compress(count(), map(met.__contains__, triggers)) if met else ()
            return sorted((*undecided, *could_be_true))
        except TypeError:  # one is not even a text
            return range(len(triggers))

    def _met(self, context: Mapping[str, Any], now: datetime) -> Iterator[str]:
        """The sources whose need may be met."""
        from sandbox.javascript.sought import ROLES

        said = [(message.get("role"), _read_of(message["content"])) for message in context["messages"]]
        for fact in _facts(context, now):
            yield from self._facts.get(fact, ())
        work = MOST_WORK
        for (role, depth), words in self._words.items():
            inside = [read for who, read in said[-depth:] if role == "any" or who in ROLES[role]]
            text = "\n".join(content for content, _ in inside)
            # No word has a line break (javascript/sought.py), so none begins in one message and ends in the next.
            for piece in set().union(*(words.keys() & pieces for _, pieces in inside)):
                for word, source in words[piece]:
                    work -= len(text)
                    if work < 0 or word in text:
                        yield source


def _read_of(content: str) -> tuple[str, frozenset[str]]:
    """A message as words are sought in it, and all its pieces of up to PIECE characters."""
    return _kept(content) if len(content) <= MOST_KEPT_CHARS else _kept.__wrapped__(content)


@lru_cache(maxsize=MOST_KEPT)
def _kept(content: str) -> tuple[str, frozenset[str]]:
    # No word has a line break (javascript/sought.py), so none begins in one form and ends in the next.
    text = "\n".join(map(normal, forms_of(content)))
    return text, frozenset(text[at : at + size] for size in range(1, PIECE + 1) for at in range(len(text)))


def _is_usual(context: Mapping[str, Any]) -> bool:
    """Whether the context has the form that needs assume, and no more text than can be looked at soon."""
    messages = context.get("messages")
    if type(messages) is not list or not messages or type(context.get("participants")) is not dict:
        return False
    for one in messages:
        if type(one) is not dict or type(one.get("content")) is not str or HALF.search(one["content"]):
            return False  # V8 makes one character of two halves that meet
        if not all(isinstance(one.get(name), _PLAIN) for name in ("role", "name", "timestamp")):
            return False
    enough = sum(len(one["content"]) for one in messages) <= MOST_CONTENT
    return enough and type(context.get("conversation_id")) is str


def _facts(context: Mapping[str, Any], now: datetime) -> Iterator[Atom]:
    """What may be true of this search. V8 and Python may disagree about a time zone, but not by more than 36 hours."""
    yield "conversation_id", context["conversation_id"]
    for half_days in range(-3, 4):
        day = now + timedelta(hours=12 * half_days)
        values = {"FullYear": day.year, "Month": day.month - 1, "Date": day.day, "Day": day.isoweekday() % 7}
        yield from ((f"get{part}", float(value)) for part, value in values.items())
