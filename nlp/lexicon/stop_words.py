"""Words that are never keywords.

Source: the 31 English stop words of jieba 0.42.1 (``jieba/analyse/tfidf.py``), the same set as in jieba-rs.
Deliberately no Chinese ones: the Node original has none, and every weight depends on which words are counted.
"""

from __future__ import annotations

from typing import Final

STOP_WORDS: Final = frozenset(
    {
        *(
            "an",
            "and",
            "are",
            "as",
            "at",
            "be",
            "by",
            "can",
            "for",
            "from",
            "has",
            "have",
            "if",
            "in",
            "is",
            "it",
        ),
        *(
            "not",
            "all",
            "of",
            "on",
            "one",
            "or",
            "that",
            "the",
            "then",
            "this",
            "to",
            "we",
            "which",
            "with",
            "you",
        ),
    }
)
"""In lower case; words are compared without regard to case."""
