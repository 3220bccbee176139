"""Which words name something, by the part of speech that jieba's dictionary gives each word."""

from __future__ import annotations

from collections.abc import Iterable

from nlp.lexicon.idf import jieba_text

_NAMES = ("n", "j")
"""The beginnings of the tags of nouns, names and abbreviations."""
_is_noun: dict[str, bool] = {}
"""The words that were looked up, and whether each is a noun or a name."""


def nouns(words: Iterable[str]) -> set[str]:
    """The words that the dictionary has as nouns or names. It is read, in some 100 ms, for words that were not looked
    up before."""
    words = set(words)
    new_words = {word.encode("utf-8", "replace") for word in words if word not in _is_noun}
    if new_words:
        tags = _tags(new_words)
        for word in new_words:
            _is_noun[word.decode()] = tags.get(word, "").startswith(_NAMES)
    return {word for word in words if _is_noun.get(word)}


def _tags(words: set[bytes]) -> dict[bytes, str]:
    """The tags of these words in the dictionary."""
    tags: dict[bytes, str] = {}
    for line in jieba_text("dict.txt").split(b"\n"):
        word = line.partition(b" ")[0]
        if word in words:
            tag = line.rpartition(b" ")[2]
            tags[word] = tag.decode().strip()
    return tags
