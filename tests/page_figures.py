"""The figures of a page: each number in a table, and in prose each that has a unit or a percent sign or is a ratio.

Code, comments, headings and the targets of links have no figures. The head and the first column of a table are labels, in
which a number counts only as in prose. Numbers may be words: "half a minute", 十分钟, 三分之二.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

_UNITS = (
    r"%|％|个百分点|percentage points|points|times|倍|×|x|万|亿|million|thousand|µs|ms|(?:micro|milli)?seconds?|s|minutes?|"
    r"hours?|days?|weeks?|months?|years?|微秒|毫秒|秒钟?|分钟|小时|天|周|个月|年|bytes|字节|[KMG]i?B|tokens|characters|个字符"
)
_SCALE = {"%": 0.01, "％": 0.01, "万": 1e4, "亿": 1e8, "million": 1e6, "thousand": 1e3}
_ENGLISH = {
    word: float(number)
    for number, word in enumerate(
        ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
    )
} | {
    "half a": 0.5,
    "half an": 0.5,
    "twelve": 12.0,
    "twenty": 20.0,
    "thirty": 30.0,
    "sixty": 60.0,
    "hundred": 100.0,
}
_FRACTIONS = {
    "half": 1 / 2, "一半": 1 / 2, "a third": 1 / 3, "one third": 1 / 3, "two thirds": 2 / 3,
    "a quarter": 1 / 4, "three quarters": 3 / 4,
}  # fmt: skip
_CHINESE = {"半": 0.5, "两": 2.0} | {
    numeral: float(number) for number, numeral in enumerate("零一二三四五六七八九")
}
_TENS = {"十": 10, "百": 100, "千": 1000}

# Not the 3 of R@3, of v2.3 or of 2.0.18.
_FREE = r"(?<![A-Za-z0-9_.,@#/])(?<![A-Za-z]-)[-−+]?"
_DIGITS = rf"{_FREE}(?:(?:\d{{1,3}}(?:,\d{{3}})+|\d+)(?:\.\d+)?|\.\d+)(?![.,]?\d)"
# "A year" and "a minute or two" have no number, so 一年 and 一两分钟 have none; 一分钟 has one.
_HAN_NUMBER = f"(?<![一两三])(?!一[天周年]|一两|两三)[{''.join(_CHINESE)}{''.join(_TENS)}]+"
# A unit in letters ends where they end. 2026 年 11 月 is a date.
_UNIT = rf"(?:{_UNITS})(?![A-Za-z])(?!\s?\d+\s?月)"
_FIGURE = (
    rf"(?P<part>{_DIGITS})\s(?:out\s)?(?:of|in)\s(?P<whole>{_DIGITS})(?!\s?[%％])"
    rf"|(?P<whole_zh>{_DIGITS})\s?[\u4e00-\u9fff]{{1,6}}?[里中][\u4e00-\u9fff]{{0,3}}?\s?(?P<part_zh>{_DIGITS})"
    rf"|(?P<denominator>{_HAN_NUMBER})分之(?P<numerator>{_HAN_NUMBER})"
    rf"|(?P<fraction>\b(?:{'|'.join(_FRACTIONS)})\b(?=\s(?:of|to)\b)|一半)"
    rf"|(?P<number>{_DIGITS}|\b(?:{'|'.join(_ENGLISH)})\b|{_HAN_NUMBER})\s?(?P<unit>{_UNIT})"
    rf"|(?P<share>{_FREE}0?\.\d+(?!\.?\d))"
)
_IN_PROSE = re.compile(_FIGURE, re.IGNORECASE)
_IN_CELL = re.compile(rf"{_FIGURE}|(?P<bare>{_DIGITS})(?![A-Za-z])", re.IGNORECASE)
_NOT_SHOWN = re.compile(
    r"```.*?^ *```|<!--.*?-->|`[^`\n]*`|^#.*?$|(?<=\])\([^)\n]*\)|[\[\]*]", re.MULTILINE | re.DOTALL
)
_TABLE = re.compile(r"^\|.*\n\|[ :|-]+\n((?:\|.*(?:\n|\Z))*)", re.MULTILINE)
_CELL = re.compile(r"(?<=\|)[^|\n]*(?=\|)")


@dataclass(frozen=True)
class Figure:
    """A figure in a text. A share of 0.77 is 77 % too; `precision` is half of the last digit that is written."""

    start: int
    end: int
    text: str
    value: float
    precision: float


def shown_text(page: str) -> str:
    """Return the page with blanks in place of what has no figures, so that each character keeps its place."""
    return _NOT_SHOWN.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), page)


def figures(shown: str) -> Iterator[Figure]:
    """Yield the figures of a shown text: first those of the cells of tables, then those of prose and labels."""
    prose = shown
    for table in _TABLE.finditer(shown):
        for line in re.finditer(r".+", shown[table.start(1) : table.end(1)]):
            start = table.start(1) + line.start()
            for cell in list(_CELL.finditer(shown, start, start + len(line[0])))[1:]:
                yield from map(_figure, _IN_CELL.finditer(shown, cell.start(), cell.end()))
                prose = prose[: cell.start()] + " " * len(cell[0]) + prose[cell.end() :]
    yield from map(_figure, _IN_PROSE.finditer(prose))


def _figure(match: re.Match[str]) -> Figure:
    found = {name: text for name, text in match.groupdict().items() if text is not None}
    match found:
        case {"part": part, "whole": whole} | {"part_zh": part, "whole_zh": whole}:
            value = number_of(part) / number_of(whole)
            precision = 0.5 / number_of(whole)
        case {"numerator": numerator, "denominator": denominator}:
            value, precision = number_of(numerator) / number_of(denominator), 0.005
        case {"fraction": fraction}:
            value, precision = _FRACTIONS[fraction.lower()], 0.005
        case _:
            number = found.get("number") or found.get("share") or found["bare"]
            scale = _SCALE.get(found.get("unit", ""), 1.0)
            decimals = len(number.partition(".")[2])
            value, precision = number_of(number) * scale, 0.5 * 10**-decimals * scale
    return Figure(match.start(), match.end(), match[0], value, precision)


def number_of(text: str) -> float:
    """Return the number that digits, an English word or Chinese numerals say."""
    word = " ".join(text.lower().split())
    if word in _ENGLISH:
        return _ENGLISH[word]
    if word[0] not in _CHINESE and word[0] not in _TENS:
        return float(word.replace(",", "").replace("−", "-"))
    total, digit = 0.0, None
    for numeral in word:
        if numeral in _TENS:
            total += (1.0 if digit is None else digit) * _TENS[numeral]
            digit = None
        else:
            digit = _CHINESE[numeral]
    return total + (digit or 0.0)
