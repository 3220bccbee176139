"""Whether keys of a lorebook are in a text, as SillyTavern looks for them. Pure.

A key that is written `/expression/flags` is an expression of JavaScript. Python runs those that mean the same in both
languages; of the others it is not known whether they match, unless a caller can run them.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache

from bench.quality.lore_entries import Entry, Logic

_WRITTEN = re.compile(r"/([\s\S]+?)/([gimsuy]*)")
_OPEN_SLASH = re.compile(r"(^|[^\\])/")
_MACRO = re.compile(r"\{\{[^{}]*\}\}")
_BLANKS = r"\s\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000\ufeff"
_LINE_ENDS = r"\n\r\u2028\u2029"
_SAME_ESCAPES = frozenset("bBdDwWnrtfv^$\\.*+?()[]{}|/-")
"""What stands after a backslash and means the same in Python."""

Matches = Callable[[str, str, str], bool | None]
"""Whether an expression with flags matches a text; None if that is not known."""


class Untranslatable(Exception):
    """The expression has something that Python has not, or has otherwise."""


@dataclass(slots=True)
class Keys:
    """Looks for keys. `meanings`: what stands in place of macros such as `{{user}}`. `matches` runs expressions."""

    case_sensitive: bool = False
    whole_words: bool = True
    meanings: Mapping[str, str] = field(default_factory=dict)
    matches: Matches = field(default=lambda body, flags, text: matches_in_python(body, flags, text))
    skipped: Counter[str] = field(default_factory=Counter)
    """The expressions that could not be run, with the number of times."""

    def fires(self, entry: Entry, text: str) -> bool:
        """Whether a primary key is in the text, and the secondary keys are as the logic asks."""
        if not any(self.has(key, entry, text) for key in entry.keys):
            return False
        if not (entry.selective and entry.secondary):
            return True
        matched = [self.has(key, entry, text) for key in entry.secondary]
        match entry.logic:
            case Logic.AND_ANY:
                return any(matched)
            case Logic.NOT_ALL:
                return not all(matched)
            case Logic.NOT_ANY:
                return not any(matched)
            case Logic.AND_ALL:
                return all(matched)

    def score(self, entry: Entry, text: str) -> int:
        """How many keys are in the text. Secondary keys count where the logic wants them."""
        if not entry.keys:
            return 0
        primary = sum(self.has(key, entry, text) for key in entry.keys)
        secondary = sum(self.has(key, entry, text) for key in entry.secondary)
        if entry.logic is Logic.AND_ANY:
            return primary + secondary
        if entry.logic is Logic.AND_ALL and secondary == len(entry.secondary):
            return primary + secondary
        return primary

    def has(self, key: str, entry: Entry, text: str) -> bool:
        """Whether the key is in the text."""
        named = self.named(key).strip()
        if not named:
            return False
        expression = expression_of(named)
        if expression is not None:
            is_match = self.matches(*expression, text)
            if is_match is None:
                self.skipped[named] += 1
            return bool(is_match)
        is_exact = self.case_sensitive if entry.case_sensitive is None else entry.case_sensitive
        sought = named if is_exact else named.lower()
        searched = text if is_exact else text.lower()
        wants_words = self.whole_words if entry.whole_words is None else entry.whole_words
        if not wants_words or re.search(r"\s", sought):
            return sought in searched
        return re.search(rf"(?:^|\W){re.escape(sought)}(?:$|\W)", searched, re.ASCII) is not None

    def named(self, text: str) -> str:
        """The text with the macros replaced whose meaning is known."""
        return _MACRO.sub(lambda match: self.meanings.get(match[0].lower(), match[0]), text)


def expression_of(key: str) -> tuple[str, str] | None:
    """Body and flags of a key that is written as an expression; None for a text."""
    match = _WRITTEN.fullmatch(key)
    if match is None or _OPEN_SLASH.search(match[1]):
        return None
    return match[1], match[2]


def matches_in_python(body: str, flags: str, text: str) -> bool | None:
    """Whether an expression of JavaScript is in the text; None where Python cannot tell."""
    try:
        return _compiled(body, flags).search(text) is not None
    except (Untranslatable, re.error):
        return None


@cache
def _compiled(body: str, flags: str) -> re.Pattern[str]:
    ignores_case = "i" in flags
    if ignores_case and not body.isascii() and body.lower() != body.upper():
        raise Untranslatable  # Python's ASCII mode, which words need, knows no other capitals
    python_flags = re.ASCII
    if ignores_case:
        python_flags |= re.IGNORECASE
    if "m" in flags:
        python_flags |= re.MULTILINE
    return re.compile(translated(body, flags), python_flags)


def translated(body: str, flags: str) -> str:
    """The expression as Python writes it. Raises Untranslatable."""
    parts: list[str] = []
    at = 0
    in_class = False
    while at < len(body):
        char = body[at]
        if char == "\\":
            part, at = _escape(body, at, in_class=in_class)
            parts.append(part)
            continue
        at += 1
        if in_class:
            in_class = char != "]"
            parts.append("\\" + char if char in "[&~|" else char)
        elif char == "[":
            in_class = True
            if body.startswith(("]", "^]"), at):
                raise Untranslatable
            parts.append(char)
        elif char == "." and "s" not in flags:
            parts.append(f"[^{_LINE_ENDS}]")
        elif char == ".":
            parts.append(r"[\s\S]")
        elif char == "$" and "m" not in flags:
            parts.append(r"\Z")
        elif body.startswith("(?<", at - 1) and not body.startswith(("(?<=", "(?<!"), at - 1):
            parts.append("(?P<")
            at += 2
        else:
            parts.append(char)
    return "".join(parts)


def _escape(body: str, at: int, *, in_class: bool) -> tuple[str, int]:
    """What a backslash and what follows it are in Python, and where the next part begins. Raises Untranslatable."""
    following = body[at + 1 : at + 2]
    if following == "s":
        return (_BLANKS if in_class else f"[{_BLANKS}]"), at + 2
    if following == "S" and not in_class:
        return f"[^{_BLANKS}]", at + 2
    code = re.compile(r"\\(?:x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4})").match(body, at)
    if code is not None:
        return code[0], code.end()
    if following in _SAME_ESCAPES and not (in_class and following == "B"):
        return ("/" if following == "/" else f"\\{following}"), at + 2
    raise Untranslatable
