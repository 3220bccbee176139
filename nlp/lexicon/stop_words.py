"""Words that are never keywords.

Source: the 31 English stop words of jieba 0.42.1 (``jieba/analyse/tfidf.py``), the same set as in jieba-rs.
It has no Chinese words on purpose: the Node original has no Chinese stop words, and all weights depend on the list.
"""

from __future__ import annotations

from typing import Final

_ENGLISH: Final = """
an and are as at be by can for from has have if in is it not all of on one or that the then this to we which with you
"""

STOP_WORDS: Final = frozenset(_ENGLISH.split())
"""In lower case; words are compared without regard to case."""
