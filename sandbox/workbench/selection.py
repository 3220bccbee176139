"""The expression of `-k`: words that a case's name must hold, with `and`, `or`, `not` and brackets. Pure.

Grammar: or = and ("or" and)*; and = not ("and" not)*; not = "not" not | "(" or ")" | words. Words side by side are one
phrase, so that a name may be pasted as it is. Upper and lower case are the same.
"""

from __future__ import annotations

import re
from collections.abc import Callable

Selection = Callable[[str], bool]
_TOKEN = re.compile(r"[()]|[^\s()]+")
_OPERATORS = ("and", "or", "not", "(", ")")


class SelectionError(Exception):
    """No expression; the message says what is missing."""


def selection(expression: str) -> Selection:
    """Whether a text is chosen. Raises SelectionError."""
    tokens = _TOKEN.findall(expression)
    if not tokens:
        raise SelectionError("the expression is empty; give a part of a case's name")
    chosen = _or(tokens)
    if tokens:
        raise SelectionError(f"{tokens[0]!r} stands where nothing can follow")
    return lambda text: chosen(text.casefold())


def _or(tokens: list[str]) -> Selection:
    left = _and(tokens)
    while tokens[:1] == ["or"]:
        tokens.pop(0)
        left = _either(left, _and(tokens))
    return left


def _and(tokens: list[str]) -> Selection:
    left = _not(tokens)
    while tokens[:1] == ["and"]:
        tokens.pop(0)
        left = _both(left, _not(tokens))
    return left


def _not(tokens: list[str]) -> Selection:
    if tokens[:1] == ["not"]:
        tokens.pop(0)
        inner = _not(tokens)
        return lambda text: not inner(text)
    if tokens[:1] == ["("]:
        tokens.pop(0)
        inner = _or(tokens)
        if tokens[:1] != [")"]:
            raise SelectionError("a bracket is not closed")
        tokens.pop(0)
        return inner
    words = []
    while tokens and tokens[0] not in _OPERATORS:
        words.append(tokens.pop(0))
    if not words:
        raise SelectionError(f"a word is missing {f'before {tokens[0]!r}' if tokens else 'at the end'}")
    phrase = " ".join(words).casefold()
    return lambda text: phrase in text


def _either(left: Selection, right: Selection) -> Selection:
    return lambda text: left(text) or right(text)


def _both(left: Selection, right: Selection) -> Selection:
    return lambda text: left(text) and right(text)
