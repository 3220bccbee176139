"""Other words, which a caller gives with a search or with a memory: which of them count. Pure.

A language model that calls knows other words for what it looks for, and for what it stores. `nlp/query_terms.py` makes
terms of them. What is private stays private: a word that only a private part of the same call has is left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from unicodedata import category

from languages import _, n_
from memory_server.kernel.errors import InvalidInput
from memory_server.kernel.json_text import without_surrogates
from memory_server.kernel.messages import Message
from memory_server.kernel.private import to_keep, without_private, without_private_tags
from memory_server.kernel.values import frozen
from nlp import MOST_TEXT_CHARS, MOST_TEXTS, Enrichment, words_in
from nlp.index_terms import seen_form


@frozen
class OtherWords:
    """The `texts` that count, each once. `private`: how many were left out because a private part has their words."""

    texts: tuple[str, ...] = ()
    private: int = 0


def other_words_of(texts: Sequence[str], messages: Sequence[Message]) -> OtherWords:
    """Return the texts without private parts, each once, and without texts that hold a word which the messages have only
    in private parts; count the texts that held something private. Raise InvalidInput if there are too many texts, or
    one is too long."""
    private_count = sum(without_private(text) != text for text in texts)
    public_texts = [public_text(text) for text in texts]
    usable_texts = tuple(text for text in dict.fromkeys(public_texts) if seen_form(text))

    if len(usable_texts) > MOST_TEXTS or any(len(text) > MOST_TEXT_CHARS for text in usable_texts):
        raise InvalidInput(
            "Give at most {texts} other words, each of at most {chars} characters; leave out those that say little.",
            MOST_TEXTS,
            MOST_TEXT_CHARS,
        )

    # Only words of a private part can be private, so most calls end here.
    public_messages = to_keep(messages)
    if not usable_texts or public_messages == tuple(messages):
        return OtherWords(usable_texts, private_count)

    private_words = _PrivateWords(messages, public_messages)

    texts_that_count = tuple(text for text in usable_texts if not private_words.are_in(text))
    left_out_count = len(usable_texts) - len(texts_that_count)
    return OtherWords(texts_that_count, private_count + left_out_count)


def public_text(text: str) -> str:
    """Return the text on one line, without its private parts and without invisible characters."""
    text = without_private(without_surrogates(text))
    seen_characters = [
        char for char in text if char.isspace() or category(char) not in _UNSEEN_CATEGORIES
    ]
    return " ".join("".join(seen_characters).split())


_UNSEEN_CATEGORIES = ("Cc", "Cf", "Cn", "Co")
"""Categories of Unicode: control, format, unassigned, private use."""


def private_words_note(count: int) -> str | None:
    """Return the sentence of a tool about so many other words that were left out, or None if none were."""
    if not count:
        return None
    return n_(
        "{count} of the other words is in a private part, so it was left out; such words do not belong there.",
        "{count} of the other words are in a private part, so they were left out; such words do not belong there.",
        count,
    )


def found_by_text(texts: Sequence[str]) -> str:
    """Describe the words that are stored with a memory, for people; empty without words."""
    if not texts:
        return ""
    return _("Also found by: {words}.", ", ".join(texts))


class _PrivateWords:
    """The words that only the private parts of messages have."""

    def __init__(self, messages: Sequence[Message], public_messages: Sequence[Message]) -> None:
        spoken_text = without_private_tags("\n".join(message.content for message in messages))
        stored_text = "\n".join(message.content for message in public_messages)
        self._spoken_letters = _letters(spoken_text)
        self._stored_letters = _letters(stored_text)
        self._words = _words(spoken_text) - _words(stored_text)
        letters_of_words = [_letters(word) for word in self._words]
        # Within another word, two characters say something in Chinese (糖尿病 in 糖尿病人), and three in English.
        self._long_words = [
            letters
            for letters in letters_of_words
            if len(letters) >= (3 if letters.isascii() else 2)
        ]

    def are_in(self, text: str) -> bool:
        """Return whether a text has a word of the private parts that the public ones lack, also within another word, or
        written in another way: 138-0000, dia betes."""
        letters = _letters(text)
        if letters in self._spoken_letters and letters not in self._stored_letters:
            return True
        if any(word in letters for word in self._long_words):
            return True
        return not self._words.isdisjoint(_words(text))


def _letters(text: str) -> str:
    """Return the letters and digits of a text as they are seen."""
    return "".join(char for char in seen_form(text) if char.isalnum())


_WORDS = Enrichment(normal_forms=True, scripts=True, stems=True)


def _words(text: str) -> frozenset[str]:
    return frozenset(words_in(text, _WORDS, now_ms=0))
