"""Which words name something, by the part of speech that jieba's dictionary gives each word."""

from __future__ import annotations

from collections.abc import Iterable

from nlp.lexicon.idf import jieba_text

_NAMES = ("n", "j")
"""How the tags of nouns, names and abbreviations begin."""
_known: dict[str, bool] = {}


def nouns(words: Iterable[str]) -> set[str]:
    """Those of the words that the dictionary has as nouns or names. It is read, in some 100 ms, for words that were
    not asked for before."""
    words = set(words)
    if new := {word.encode("utf-8", "replace") for word in words if word not in _known}:
        tags = _tags(new)
        _known.update((word.decode(), tags.get(word, "").startswith(_NAMES)) for word in new)
    return {word for word in words if _known.get(word)}


def _tags(words: set[bytes]) -> dict[bytes, str]:
    lines = jieba_text("dict.txt").split(b"\n")
    rows = (line.split(b" ") for line in lines if line.partition(b" ")[0] in words)
    return {row[0]: row[-1].decode().strip() for row in rows}
