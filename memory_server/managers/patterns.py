"""Patterns that users give to choose memories by: `word`, or `/re/flags` in JavaScript syntax, run in the sandbox."""

from __future__ import annotations

from collections.abc import Sequence

from memory_server.core.errors import InvalidPattern
from memory_server.core.ports import TriggerRunner
from sandbox import PatternError


async def matching(runner: TriggerRunner, pattern: str, texts: Sequence[str], what: str) -> tuple[bool, ...]:
    """Which of `texts` match. `what` would have been done with them, such as `deleted`.

    Raises:
        InvalidPattern: the pattern is empty, no expression, or runs too long.
    """
    try:
        return await runner.match_texts(pattern, texts)
    except PatternError as error:
        advice = f"Nothing was {what}; write a word, or an expression such as /披萨|pizza/i."
        raise InvalidPattern(f"{str(error).rstrip('.')}. {advice}") from error
