"""Which words of messages count, and how: the additions to the words of the Node original, and what counts less in a
query. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Final


@dataclass(frozen=True, slots=True, kw_only=True)
class Enrichment:
    """Additions to the words of the Node original. All are off by default."""

    simplified: bool = False
    """Traditional characters count as Simplified ones. Needs OpenCC; where it is missing, all functions here that are
    given these options raise ImportError."""
    normal_forms: bool = False
    """What looks the same counts as one: full-width and half-width forms, letters and their marks, upper and lower
    case, and texts with signs that nobody sees. So do RTX4090 and RTX 4090, Node.js and nodejs."""
    scripts: bool = False
    """Kana, Hangul, Cyrillic, accented Latin and emoji make words."""
    dates: bool = False
    """Days make words, in all ways of writing them, and a memory has the day of each of its messages."""
    stems: bool = False
    """English and Russian words count by their stems, and in lower case."""
    speakers: bool = False
    """A memory has the name of each of its speakers as a word, `阿红:`, so that her name finds what she said. It is
    not the word 阿红, which counts as rare where the others seldom say it."""
    long_texts: bool = False
    """Weights are divided by the square root of the length of the message, and no word is dropped. The Node original
    divides by the length and drops words of little weight, so a long answer loses most of its facts."""
    words: tuple[str, ...] = ()
    """Names and other words that are never cut."""

    @property
    def signature(self) -> str:
        """A short name of these options, "" for none. It is kept with a memory, to know how its words were found."""
        names = (
            "dates",
            "long_texts",
            "normal_forms",
            "scripts",
            "simplified",
            "speakers",
            "stems",
        )
        parts = [name + REVISIONS.get(name, "") for name in names if getattr(self, name)]
        if self.words:
            word_lines = "\n".join(sorted(self.words))
            digest = sha256(word_lines.encode("utf-8", "replace")).hexdigest()
            parts.append(f"words:{digest[:8]}")
        return " ".join(parts)


REVISIONS: Final[Mapping[str, str]] = {"normal_forms": "2"}
"""Each option whose rule has changed since a release, with the number of its rule, such as `2`: stored memories then
count as outdated, and `doctor --reindex` finds their words again. A row stays, and no number is used twice."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryWeights:
    """What counts less in a query: factors from 0 to 1 on all points of a term. By default no word counts less."""

    earlier: float = 1.0
    """On each message before the last one, again for each further step back."""
    before_question: float | None = None
    """The same where the last message is a question of two words or more that say something; None: as `earlier`."""
    function_words: float = 1.0
    """On words that say little by themselves: what, when, 我们."""
    relative_days: float = 1.0
    """On days named by their distance (今天, last Friday), if the message has other words that say something."""
    pairs: float = 0.0
    """On pairs of characters and single Han characters, beside the words; 0: they do not count."""
    given: float = 0.0
    """On words that the caller gave beside the messages, after a statement; 0: they do not count."""
    given_for_question: float = 0.0
    """The same after a question."""
    kept: float = 0.0
    """On words that are kept with a memory and are not in its text; 0: they do not count."""
