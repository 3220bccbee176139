"""Other words, which a caller gives with a search or with a memory: which of them count. Pure.

A language model that calls knows other words for what it looks for, and for what it stores. `nlp/other_words.py` makes
terms of them. What is private stays private: a word that only a private part of the same call has is left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from unicodedata import category

from memory_server.kernel.errors import InvalidInput
from memory_server.kernel.messages import Message, without_surrogates
from memory_server.kernel.private import to_keep, without_private, without_private_tags
from nlp import MOST_TEXT_CHARS, MOST_TEXTS, Enrichment, words_in
from nlp.index_terms import seen_form
from sandbox.locale import _, n_


@dataclass(frozen=True, slots=True)
class OtherWords:
    """The `texts` that count, each once; and how many were left out because a private part has their words."""

    texts: tuple[str, ...] = ()
    private: int = 0


def other_words_of(texts: Sequence[str], said: Sequence[Message]) -> OtherWords:
    """Those of the `texts` that count beside what was `said`. Raises InvalidInput: there are too many, or one is too
    long."""
    marked = sum(without_private(text) != text for text in texts)
    wanted = tuple(text for text in dict.fromkeys(map(public_text, texts)) if seen_form(text))
    if len(wanted) > MOST_TEXTS or any(len(text) > MOST_TEXT_CHARS for text in wanted):
        raise InvalidInput(
            "Give at most {texts} other words, each of at most {chars} characters; leave out those that say little.",
            MOST_TEXTS,
            MOST_TEXT_CHARS,
        )
    kept = to_keep(said)
    if not wanted or tuple(kept) == tuple(said):
        return OtherWords(wanted, marked)
    private = _Private(said, kept)
    public = tuple(text for text in wanted if not private.has(text))
    return OtherWords(public, marked + len(wanted) - len(public))


def public_text(text: str) -> str:
    """The text on one line, without its private parts and without characters that nobody sees."""
    text = without_private(without_surrogates(text))
    return " ".join("".join(char for char in text if char.isspace() or category(char) not in _UNSEEN).split())


_UNSEEN = ("Cc", "Cf", "Cn", "Co")
"""Categories of Unicode: control, format, unassigned, private use."""


def private_words_note(count: int) -> str | None:
    """What a tool says of so many other words that were left out; None: there are none."""
    if not count:
        return None
    return n_(
        "{count} of the other words is in a private part, so it was left out; such words do not belong there.",
        "{count} of the other words are in a private part, so they were left out; such words do not belong there.",
        count,
    )


def found_by_text(texts: Sequence[str]) -> str:
    """The words that are kept with a memory, for people; empty if there are none."""
    return _("Also found by: {words}.", ", ".join(texts)) if texts else ""


class _Private:
    """The words that only the private parts of messages have."""

    def __init__(self, said: Sequence[Message], kept: Sequence[Message]) -> None:
        whole = without_private_tags("\n".join(message.content for message in said))
        public = "\n".join(message.content for message in kept)
        self._whole_form = _letters(whole)
        self._public_form = _letters(public)
        self._words = _words(whole) - _words(public)
        self._parts = [part for part in map(_letters, self._words) if len(part) >= _least_chars(part)]

    def has(self, text: str) -> bool:
        """Whether a text has such a word, also within another one, or written in another way: 138-0000, dia betes."""
        form = _letters(text)
        if form in self._whole_form and form not in self._public_form:
            return True
        return any(part in form for part in self._parts) or not self._words.isdisjoint(_words(text))


def _letters(text: str) -> str:
    """The letters and digits of a text as they are seen."""
    return "".join(char for char in seen_form(text) if char.isalnum())


def _least_chars(word: str) -> int:
    """From how many characters on a word within another one says something: 糖尿病 in 糖尿病人."""
    return 3 if word.isascii() else 2


_WORDS = Enrichment(normal_forms=True, scripts=True, stems=True)


def _words(text: str) -> frozenset[str]:
    return frozenset(words_in(text, _WORDS, now_ms=0))
