"""Which texts a search expression matches: a word in any spelling, or `/expression/flags` as in JavaScript. The
supervisor runs the expression. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from sandbox.errors import PatternError
from sandbox.javascript.spelling import folded, normal, seen
from sandbox.values import frozen

MATCH_CHARACTERS = 2_000_000
"""Characters of JSON for each request to a worker, as many as a context may have: some 9 MB of heap."""
_ESCAPE_CHARACTERS = 6
"""Characters of JSON in ASCII for a character that is not in ASCII: a backslash, u and four digits."""
_TEXT_CHARACTERS = 50
"""Characters that count for each text beside its own: console lines tell of 50,000 texts at most."""
MOST_PATTERN_CHARS = 10_000
_EXPRESSION = re.compile(r"/(?P<body>.*)/(?P<flags>[A-Za-z]*)", re.DOTALL)
_FLAGS = frozenset("dgimsuvy")


@frozen
class Looks:
    """The texts of a search as they are written, and the texts that look otherwise as people see them. `seen_at`: the
    places of the latter among `texts`."""

    texts: Sequence[str]
    seen_texts: Sequence[str]
    seen_at: Sequence[int]

    @staticmethod
    def of(texts: Sequence[str]) -> Looks:
        """Return the texts with their second look: how they are seen, of those that are seen otherwise."""
        seen_texts: list[str] = []
        seen_at: list[int] = []
        for index, text in enumerate(texts):
            seen_text = seen(text)
            if seen_text != text:
                seen_texts.append(seen_text)
                seen_at.append(index)
        return Looks(texts, seen_texts, seen_at)

    @property
    def all(self) -> list[str]:
        """Every text, and then its other look where it has one."""
        return [*self.texts, *self.seen_texts]

    def either(self, matches: Sequence[bool]) -> tuple[bool, ...]:
        """Tell for each text whether it matches in either look. `matches`: the same for each of `all`."""
        count = len(self.texts)
        text_matches = list(matches[:count])
        for index, is_match in zip(self.seen_at, matches[count:], strict=True):
            if is_match:
                text_matches[index] = True
        return tuple(text_matches)


def holding(word: str, texts: Sequence[str]) -> tuple[bool, ...]:
    """Tell for each of `texts` whether it holds `word`, in upper or lower case and in any spelling."""
    form = normal(folded(word))
    return tuple(form in normal(folded(text)) for text in texts)


def parts_of(texts: Sequence[str]) -> list[list[str]]:
    """Split the texts into consecutive parts of about MATCH_CHARACTERS of JSON; at least one part, so that an invalid
    expression is always found."""
    parts: list[list[str]] = [[]]
    size = 0
    for text in texts:
        if size >= MATCH_CHARACTERS:
            parts.append([])
            size = 0
        parts[-1].append(text)
        characters_of_json = len(text) if text.isascii() else _ESCAPE_CHARACTERS * len(text)
        size += characters_of_json + _TEXT_CHARACTERS
    return parts


def expression_of(pattern: str) -> tuple[str, str] | None:
    """Return body and flags of a JavaScript expression, not compiled yet, or None for a word. `/home` is a word.
    Raises PatternError for an expression that is empty, too long or has unknown flags."""
    if not seen(pattern).strip():
        raise PatternError(
            "the pattern is empty; give a word, or an expression such as /birthday|生日/i"
        )

    if len(pattern) > MOST_PATTERN_CHARS:
        raise PatternError(
            "the pattern has {pattern} characters; at most {pattern2} are allowed",
            len(pattern),
            MOST_PATTERN_CHARS,
        )

    # A text such as `/home` begins with a slash and is not an expression.
    match = _EXPRESSION.fullmatch(pattern)
    if match is None:
        return None
    if not match["body"]:
        raise PatternError("the expression between the slashes is empty; it would match everything")

    unknown_flags = set(match["flags"]) - _FLAGS
    if unknown_flags:
        raise PatternError(
            "an expression has no flag `{unknown}`; use some of dgimsuvy, or leave out the first slash of a word",
            min(unknown_flags),
        )

    return match["body"], match["flags"]
