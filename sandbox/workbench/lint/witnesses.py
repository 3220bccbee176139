"""Texts on which a regular expression may take for ever. Pure: guesses only; slow_expressions.py tries them.

A witness is what comes before a repeated part, that part many times, and something that matches nothing. An expression
with a repetition inside a repetition needs some 30 of them to run for hours; with two in a row some thousand.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

TIMES = (32, 4_000)
"""How often the repeated part comes: enough to show exponential and quadratic time."""
_MOST_PUMPS = 8
_QUANTIFIER = re.compile(r"[*+?]\??|\{(\d+)(,(\d*))?\}\??")
_MOST_DEPTH = 30
_CLASSES = {
    "d": "1",
    "w": "a",
    "s": " ",
    "D": "a",
    "W": " ",
    "S": "a",
    "b": "",
    "B": "",
    "n": "\n",
    "t": "\t",
    "r": "\r",
}
_LONG_ESCAPE = re.compile(
    r"u\{([0-9a-fA-F]{1,6})\}|u([0-9a-fA-F]{4})|x([0-9a-fA-F]{2})|[pP]\{[^{}]*\}|k<[^<>]*>|c[A-Za-z]"
)


@dataclass(frozen=True, slots=True)
class Witness:
    """`before + pump * times + after`."""

    before: str
    pump: str
    times: int
    after: str = "\x01!"

    def text(self) -> str:
        return self.before + self.pump * self.times + self.after

    def said(self) -> str:
        """For a person: `"哈" 32 times and then something else`."""
        first = f"{self.before!r}, then " if self.before else ""
        return f"{first}{self.pump!r} {self.times:,} times"


def witnesses(expression: str) -> list[Witness]:
    """Of the body of an expression; none when it has less than two repetitions without a bound."""
    reader = _Reader(expression)
    reader.alternatives(0)
    if reader.unbounded < 2:
        return []
    pumps = list(dict.fromkeys(reader.pumps))[:_MOST_PUMPS]
    return [Witness(before, pump, times) for before, pump in pumps for times in TIMES]


class _Reader:
    """Reads an expression once, from left to right, and collects what its repetitions repeat."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self.unbounded = 0
        self.pumps: list[tuple[str, str]] = []

    def alternatives(self, depth: int, before: str = "") -> str:
        """A sample of the first alternative that is not empty."""
        samples = [self._sequence(depth, before)]
        while self._peek() == "|":
            self._at += 1
            samples.append(self._sequence(depth, before))
        return next((sample for sample in samples if sample), "")

    def _peek(self) -> str:
        return self._text[self._at : self._at + 1]

    def _sequence(self, depth: int, before: str) -> str:
        sample = ""
        while self._peek() not in ("", "|", ")"):
            atom = self._atom(depth, before + sample)
            found = _QUANTIFIER.match(self._text, self._at)
            if found is None or atom is None:
                sample += atom or ""
                continue
            self._at = found.end()
            token = found.group()
            least = int(found[1]) if found[1] else 1 if token[0] == "+" else 0
            endless = token[0] in "*+" or (found[2] is not None and (not found[3] or int(found[3]) > 50))
            if endless and atom:
                self.unbounded += 1
                self.pumps.append((before + sample, atom))
            sample += atom * min(least or endless, 3)
        return sample

    def _atom(self, depth: int, before: str) -> str | None:
        """A text that matches the next atom; '' for one that takes no characters."""
        char = self._peek()
        self._at += 1
        if char == "(" and depth < _MOST_DEPTH:
            return self._group(depth, before)
        if char == "[":
            return self._class()
        if char == "\\":
            return self._escape()
        return {".": "a", "^": "", "$": "", "(": "", ")": ""}.get(char, char)

    def _group(self, depth: int, before: str) -> str:
        opened = re.compile(r"\?(?::|[=!]|<[=!]|<[^<>]*>|[a-z-]*:)").match(self._text, self._at)
        looks = bool(opened and opened.group()[-1] in "=!")
        if opened:
            self._at = opened.end()
        sample = self.alternatives(depth + 1, before)
        if self._peek() == ")":
            self._at += 1
        return "" if looks else sample

    def _class(self) -> str:
        end = self._at
        while end < len(self._text) and self._text[end] != "]":
            end += 2 if self._text[end] == "\\" else 1
        body, self._at = self._text[self._at : end], end + 1
        if body.startswith("^"):
            return next((one for one in "a1 哈-x" if one not in body), "a")
        if body.startswith("\\") and len(body) > 1:
            inner = _Reader(body[1:])
            return inner._escape() or "a"
        return body[:1] or "a"

    def _escape(self) -> str:
        long = _LONG_ESCAPE.match(self._text, self._at)
        if long:
            self._at = long.end()
            digits = long[1] or long[2] or long[3]
            return chr(min(int(digits, 16), 0x10FFFF)) if digits else "哈"
        char = self._peek()
        self._at += 1
        return "" if char.isdigit() else _CLASSES.get(char, char)
