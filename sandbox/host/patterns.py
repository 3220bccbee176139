"""What a person means by a search expression: `word` or `/expression/flags`. Pure."""

from __future__ import annotations

import re

from sandbox.errors import PatternError

MOST_PATTERN_CHARS = 10_000
_EXPRESSION = re.compile(r"/(?P<body>.*)/(?P<flags>[A-Za-z]*)", re.DOTALL)
_FLAGS = frozenset("dgimsuvy")


def expression_of(pattern: str) -> tuple[str, str] | None:
    """Body and flags of a JavaScript expression, not compiled yet; None for a word. `/home` is a word.

    Raises PatternError for an expression that is empty, too long or has unknown flags.
    """
    if not pattern.strip():
        raise PatternError("the pattern is empty; give a word, or an expression such as /birthday|生日/i")
    if len(pattern) > MOST_PATTERN_CHARS:
        raise PatternError(f"the pattern has {len(pattern)} characters; at most {MOST_PATTERN_CHARS} are allowed")
    found = _EXPRESSION.fullmatch(pattern)
    if found is None:
        return None
    if not found["body"]:
        raise PatternError("the expression between the slashes is empty; it would match everything")
    if unknown := set(found["flags"]) - _FLAGS:
        raise PatternError(
            f"an expression has no flag `{min(unknown)}`; use some of dgimsuvy, or leave out the first slash of a word"
        )
    return found["body"], found["flags"]
