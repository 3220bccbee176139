"""Which texts a search expression matches: a word in any spelling, or `/expression/flags` as in JavaScript. The
supervisor runs the expression. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from sandbox.errors import PatternError
from sandbox.javascript.spelling import folded, normal, seen

MATCH_CHARACTERS = 2_000_000
"""Characters of JSON for each request to a worker, as many as a context may have: some 9 MB of heap."""
MOST_PATTERN_CHARS = 10_000
_EXPRESSION = re.compile(r"/(?P<body>.*)/(?P<flags>[A-Za-z]*)", re.DOTALL)
_FLAGS = frozenset("dgimsuvy")


@dataclass(frozen=True, slots=True)
class Looks:
    """The texts of a search as they are written, and those that look otherwise as people see them. `seen_at`: the
    places of the latter among `texts`."""

    texts: Sequence[str]
    seen_texts: Sequence[str]
    seen_at: Sequence[int]

    @staticmethod
    def of(texts: Sequence[str]) -> Looks:
        looks = {index: seen(text) for index, text in enumerate(texts)}
        others = {index: look for index, look in looks.items() if look != texts[index]}
        return Looks(texts, list(others.values()), list(others))

    @property
    def all(self) -> list[str]:
        return [*self.texts, *self.seen_texts]

    def either(self, matches: Sequence[bool]) -> tuple[bool, ...]:
        """Whether each text matches in one look or the other. `matches`: of `all`."""
        of_texts = list(matches[: len(self.texts)])
        for index, is_match in zip(self.seen_at, matches[len(self.texts) :], strict=True):
            of_texts[index] = of_texts[index] or is_match
        return tuple(of_texts)


def holding(word: str, texts: Sequence[str]) -> tuple[bool, ...]:
    """Which of `texts` hold `word`, in upper or lower case and in any spelling."""
    form = normal(folded(word))
    return tuple(form in normal(folded(text)) for text in texts)


def parts_of(texts: Sequence[str]) -> list[list[str]]:
    """Consecutive parts of about MATCH_CHARACTERS; at least one, so that an invalid expression is always found."""
    parts: list[list[str]] = [[]]
    size = 0
    for text in texts:
        if size >= MATCH_CHARACTERS:
            parts.append([])
            size = 0
        parts[-1].append(text)
        size += (1 if text.isascii() else 6) * len(text) + 50  # console lines tell of 50,000 texts
    return parts


def expression_of(pattern: str) -> tuple[str, str] | None:
    """Body and flags of a JavaScript expression, not compiled yet; None for a word. `/home` is a word. Raises
    PatternError for an expression that is empty, too long or has unknown flags."""
    if not seen(pattern).strip():
        raise PatternError("the pattern is empty; give a word, or an expression such as /birthday|生日/i")
    if len(pattern) > MOST_PATTERN_CHARS:
        raise PatternError(
            "the pattern has {pattern} characters; at most {pattern2} are allowed", len(pattern), MOST_PATTERN_CHARS
        )
    match = _EXPRESSION.fullmatch(pattern)
    if match is None:
        return None
    if not match["body"]:
        raise PatternError("the expression between the slashes is empty; it would match everything")
    if unknown := set(match["flags"]) - _FLAGS:
        raise PatternError(
            "an expression has no flag `{unknown}`; use some of dgimsuvy, or leave out the first slash of a word",
            min(unknown),
        )
    return match["body"], match["flags"]
