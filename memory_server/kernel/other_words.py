"""Other words, which a caller gives with a search or with a memory: which of them count. Pure.

A language model that calls knows other words for what it looks for, and for what it stores. `nlp/other_words.py` makes
terms of them. What is private stays private: a word that only a private part of the same call has is left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from memory_server.kernel.errors import InvalidInput
from memory_server.kernel.messages import Message, without_surrogates
from memory_server.kernel.private import to_keep
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
    wanted = tuple(dict.fromkeys(" ".join(without_surrogates(text).split()) for text in texts))
    wanted = tuple(text for text in wanted if text)
    if len(wanted) > MOST_TEXTS or any(len(text) > MOST_TEXT_CHARS for text in wanted):
        raise InvalidInput(
            "Give at most {texts} other words, each of at most {chars} characters; leave out those that say little.",
            MOST_TEXTS,
            MOST_TEXT_CHARS,
        )
    kept = to_keep(said)
    if not wanted or tuple(kept) == tuple(said):
        return OtherWords(wanted)
    private = _Private(said, kept)
    public = tuple(text for text in wanted if not private.has(text))
    return OtherWords(public, len(wanted) - len(public))


def private_words_note(count: int) -> str:
    """What a tool says of other words that were left out."""
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
        whole = "\n".join(message.content for message in said)
        public = "\n".join(message.content for message in kept)
        self._whole_form = seen_form(whole)
        self._public_form = seen_form(public)
        self._words = _words(whole) - _words(public)

    def has(self, text: str) -> bool:
        form = seen_form(text)
        if form in self._whole_form and form not in self._public_form:
            return True
        return not self._words.isdisjoint(_words(text))


_WORDS = Enrichment(normal_forms=True, scripts=True, stems=True)


def _words(text: str) -> frozenset[str]:
    return frozenset(words_in(text, _WORDS, now_ms=0))
