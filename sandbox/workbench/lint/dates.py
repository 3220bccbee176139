"""Rules about dates that can be known for certain: texts that are none, moments that are past. Pure.

Which texts V8 takes for dates was tried in the sandbox; tests/workbench/test_workbench_lint_dates.py tries it again.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from sandbox.chats.dates import MONTHS
from sandbox.workbench.javascript import syntax
from sandbox.workbench.javascript.syntax import COMPARISONS, bare, operator_of, sides
from sandbox.workbench.lint.finding import Finding, Subject, at
from sandbox.workbench.lint.ranges import number_of

if TYPE_CHECKING:
    from tree_sitter import Node

DAYS = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
MONTH_NAMES = tuple(month.capitalize() for month in MONTHS)
_SLACK = timedelta(hours=26)
"""Between the same date in the zones that are farthest apart."""
_DATE = re.compile(r"(?P<year>\d{4})([-/])(?P<month>\d{1,2})\2(?P<day>\d{1,2})(?:[T ](?P<hour>\d{2}):\d{2}.*)?")
_NO_YEAR = re.compile(r"(?P<month>\d{1,2})[-/](?P<day>\d{1,2})")
_DAY_FIRST = re.compile(r"(?P<first>\d{1,2})/(?P<second>\d{1,2})/\d{4}")
_CHINESE = re.compile(r"\d\s*[年月日号]")
_ISO = "dddd-dd-ddTdd:dd:dd.dddZ"
_CLOCK = "dd:dd:dd"
_PARTS = ((5, 7, 1, 12), (8, 10, 1, 31), (11, 13, 0, 23), (14, 16, 0, 59), (17, 19, 0, 59))
"""Of an ISO text: from, to, the least and the greatest number there."""
_CLOCK_PARTS = ((0, 2, 0, 23), (3, 5, 0, 59), (6, 8, 0, 59))


def dates(subject: Subject) -> Iterator[Finding]:
    """All rules of this file."""
    if "Date" not in subject.source.text:
        return
    for node in syntax.walk(subject.source.root):
        if (text := _parsed_text(subject, node)) is not None:
            if (wrong := wrong_date(text)) is not None:
                yield at("date-never-comes", node, wrong)
        elif node.type == "new_expression":
            yield from _parts(subject, node)
        elif operator_of(node) in COMPARISONS and (both := sides(node)):
            yield from _moment(subject, node, *both)
            yield from _written(subject, node, *both)


def wrong_date(text: str) -> str | None:
    """What is wrong with a text that is made into a date; None where nothing is, as far as can be known."""
    text = text.strip()
    if not re.search(r"\d", text):
        return f"'{text}' is no date: every comparison with it is false"
    if _CHINESE.search(text):
        return f"'{text}' is no date to JavaScript: write it as '2026-07-17'"
    if found := _DATE.fullmatch(text):
        month, day = int(found["month"]), int(found["day"])
        if not 1 <= month <= 12 or not 1 <= day <= 31 or int(found["hour"] or 0) > 24:
            return f"'{text}' is no date: every comparison with it is false"
        if (over := day - _days(int(found["year"]), month)) > 0:
            return f"'{text}' is in no calendar: it counts as {MONTH_NAMES[month]} {over}"
    elif found := _NO_YEAR.fullmatch(text):
        return f"'{text}' has no year, and counts as a day of 2001 or as no date; compare getMonth() and getDate()"
    elif (found := _DAY_FIRST.fullmatch(text)) and (int(found["first"]) > 12 or int(found["second"]) > 31):
        return f"'{text}' is no date: the month comes first; write it as '2026-07-17'"
    return None


def _days(year: int, month: int) -> int:
    return 28 if month == 2 and (year % 4 or (year % 100 == 0 and year % 400)) else DAYS[month - 1]


def _parsed_text(subject: Subject, node: Node) -> str | None:
    """The text literal of `new Date('...')` or `Date.parse('...')`."""
    given = syntax.arguments(node)
    if len(given) != 1 or given[0].type != "string":
        return None
    maker = node.child_by_field_name("constructor") or node.child_by_field_name("function")
    if maker is None or subject.source.of(maker) not in ("Date", "Date.parse"):
        return None
    if node.type == "call_expression" and subject.source.of(maker) == "Date":
        return None  # called without `new` it gives the present as text
    text = subject.source.of(given[0])[1:-1]
    return None if "\\" in text else text


def _parts(subject: Subject, node: Node) -> Iterator[Finding]:
    """`new Date(2026, 12, 25)`: months count from 0."""
    maker, given = node.child_by_field_name("constructor"), syntax.arguments(node)
    if maker is None or subject.source.of(maker) != "Date" or len(given) < 2:
        return
    month = number_of(subject.source, given[1])
    day = number_of(subject.source, given[2]) if len(given) > 2 else None
    if month == 12:
        yield at("date-never-comes", given[1], "month 12 is January of the next year: months count from 0 to 11")
    elif month is not None and month in range(12) and day is not None and DAYS[int(month)] < day <= 31:
        yield at("date-never-comes", given[2], f"{MONTH_NAMES[int(month)]} has {DAYS[int(month)]} days at most")


def _moment(subject: Subject, node: Node, left: Node, right: Node) -> Iterator[Finding]:
    """The present compared with a moment that is written down."""
    operator = operator_of(node)
    if not is_now(subject, left):
        left, right, operator = right, left, {"<": ">", "<=": ">=", ">": "<", ">=": "<="}.get(operator, operator)
    if not is_now(subject, left):
        return
    plain = _named(subject, bare(left)).type == "new_expression"
    value = _named(subject, bare(right))
    if plain and operator[:2] in ("==", "!="):
        if value.type == "new_expression" or (operator in ("===", "!==") and value.type in ("string", "number")):
            never = operator.startswith("=")
            said = "a new Date equals nothing but itself; compare getTime(), or year, month and day"
            yield at("never-true" if never else "always-true", node, f"{'never' if never else 'always'} true: {said}")
        return
    moment = _moment_of(subject, value)
    if moment is None or moment >= subject.now - _SLACK:
        return
    said = f"{moment.date()} has gone by"
    if value.type == "number" and moment.year == 1970:
        said += "; times are in milliseconds"
    if operator in (">", ">=", "!==", "!="):
        yield at("always-true", node, f"always true: {said}")
    else:
        yield at("date-never-comes", node, f"never true: {said}")


def is_now(subject: Subject, node: Node) -> bool:
    """Whether it is the present moment: `new Date()`, `Date.now()`, `new Date().getTime()` or a name for it."""
    text = "".join(subject.source.of(_named(subject, bare(node))).split())
    head, dot, rest = text.partition(".")
    if dot and rest in ("getTime()", "valueOf()") and (owner := subject.named.get(head)) is not None:
        text = "".join(subject.source.of(owner).split())
    return text.removeprefix("+").removesuffix(".getTime()").removesuffix(".valueOf()") in ("newDate()", "Date.now()")


def _named(subject: Subject, node: Node, depth: int = 0) -> Node:
    value = subject.named.get(subject.source.of(node)) if node.type == "identifier" else None
    return node if value is None or depth > 8 else _named(subject, bare(value), depth + 1)


def _moment_of(subject: Subject, node: Node) -> datetime | None:
    """The moment of `new Date('2024-01-01')`, `Date.parse('...')`, of the same with getTime(), or of milliseconds."""
    if node.type == "unary_expression" and operator_of(node) == "+":
        node = bare(node.child_by_field_name("argument") or node)
    function = node.child_by_field_name("function") if node.type == "call_expression" else None
    if function is not None and function.type == "member_expression" and not syntax.arguments(node):
        name, owner = function.child_by_field_name("property"), function.child_by_field_name("object")
        if name is not None and owner is not None and subject.source.of(name) in ("getTime", "valueOf"):
            node = _named(subject, bare(owner))
    text = _parsed_text(subject, node)
    try:
        if text is not None and (found := _DATE.fullmatch(text.strip())) and wrong_date(text) is None:
            return datetime(int(found["year"]), int(found["month"]), int(found["day"]), tzinfo=UTC)
        given = syntax.arguments(node)
        maker = node.child_by_field_name("constructor")
        if maker is not None and subject.source.of(maker) == "Date" and len(given) > 1:
            numbers = [number_of(subject.source, one) for one in given[:3]]
            if None not in numbers and len(numbers) == 3:
                year, month, day = (int(one) for one in numbers if one is not None)
                return datetime(year, month + 1, day, tzinfo=UTC)
        number = number_of(subject.source, node)
        return None if number is None else datetime.fromtimestamp(number / 1000, UTC)
    except (ValueError, OverflowError, OSError):
        return None


def _written(subject: Subject, node: Node, left: Node, right: Node) -> Iterator[Finding]:
    """A part of toISOString() or toTimeString() compared with a text that it cannot be."""
    for one, other in ((left, right), (right, left)):
        one, other = _named(subject, bare(one)), bare(other)
        if operator_of(node) not in ("===", "==", "!==", "!=") or other.type != "string":
            continue
        text = subject.source.of(other)[1:-1]
        shape = _part_of_text(subject, one)
        if shape is None or "\\" in text:
            continue
        mask, start, parts = shape
        if fits(text, mask, start, parts):
            continue
        never = operator_of(node).startswith("=")
        said = f"here stands something like '{_like(mask)}'"
        yield at("date-never-comes" if never else "always-true", node, f"{'never' if never else 'always'} true: {said}")
        return


def _part_of_text(subject: Subject, node: Node) -> tuple[str, int, tuple[tuple[int, int, int, int], ...]] | None:
    """The form of `x.toISOString().slice(5, 10)`: its mask, where it starts in the whole, the numbers of the whole."""
    text = "".join(subject.source.of(node).split())
    found = re.fullmatch(
        r".*\.to(?P<what>ISO|Time)String\(\)(?:\.(?:slice|substring)\((?P<start>\d+)(?:,(?P<end>\d+))?\)"
        r"|\.split\(['\"]T['\"]\)\[0\])?",
        text,
    )
    if found is None or node.type not in ("call_expression", "subscript_expression"):
        return None
    start = int(found["start"] or 0)
    if found["what"] == "Time":
        end = int(found["end"] or 99)
        return (_CLOCK[start:end], start, _CLOCK_PARTS) if start < end <= len(_CLOCK) else None
    end = int(found["end"] or len(_ISO)) if found["start"] or "split" not in text else 10
    return (_ISO[start:end], start, _PARTS) if start < end <= len(_ISO) else None


def fits(text: str, mask: str, start: int, parts: tuple[tuple[int, int, int, int], ...]) -> bool:
    """Whether a text can be that part of a date. `start`: of the mask in the whole."""
    if len(text) != len(mask):
        return False
    if any(
        (one == "d") != char.isdecimal() or (one != "d" and one != char) for one, char in zip(mask, text, strict=True)
    ):
        return False
    numbers = {}
    for begin, end, low, high in parts:
        if start <= begin and end <= start + len(mask):
            number = int(text[begin - start : end - start])
            if not low <= number <= high:
                return False
            numbers[begin] = number
    return parts is _CLOCK_PARTS or 5 not in numbers or numbers.get(8, 1) <= DAYS[numbers[5] - 1]


def _like(mask: str) -> str:
    return mask.replace("dddd-dd-dd", "2026-07-17").replace("dd-dd", "07-17").replace("dd", "09").replace("d", "1")
