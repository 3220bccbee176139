"""Rules about dates that are certain: texts that are not dates, moments that are past. Pure.

Tests in the sandbox showed which texts V8 takes for dates.
"""

from __future__ import annotations

import re
from calendar import monthrange
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from languages import N_, Sentence
from sandbox.javascript import syntax
from sandbox.javascript.syntax import (
    COMPARISONS,
    LintFinding,
    Node,
    Subject,
    at,
    bare,
    number_of,
    operator_of,
    sides,
)

MONTH_DAYS = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
"""The most days that each month has."""
MOST_LUNAR_DAYS = 30
DAY_FUNCTIONS = frozenset(("on_day", "days_until", "on_lunar_day"))
"""Functions whose first arguments are a month, from 1, and a day."""
CALENDAR_FUNCTIONS = DAY_FUNCTIONS | {"lunar"}


def most_days(function: str, month: int) -> int:
    """Return the most days of a month, as a function of the realm takes them; 0 for a wrong month."""
    if not 1 <= month <= 12:
        return 0
    return MOST_LUNAR_DAYS if function == "on_lunar_day" else MONTH_DAYS[month - 1]


MONTH_NAMES = N_(
    (
        *("January", "February", "March", "April", "May", "June"),
        *("July", "August", "September", "October", "November", "December"),
    )
)
FLIPPED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
"""A comparison with its two sides exchanged."""
_SLACK = timedelta(hours=26)
"""The time between the same date in the two zones that are farthest apart."""
_DATE = re.compile(
    r"(?P<year>\d{4})([-/])(?P<month>\d{1,2})\2(?P<day>\d{1,2})(?:[T ](?P<hour>\d{2}):\d{2}.*)?"
)
_NO_YEAR = re.compile(r"(?P<month>\d{1,2})[-/](?P<day>\d{1,2})")
_DAY_FIRST = re.compile(r"(?P<first>\d{1,2})/(?P<second>\d{1,2})/\d{4}")
_CHINESE = re.compile(r"\d\s*[年月日号]")


def dates(subject: Subject) -> Iterator[LintFinding]:
    """Yield what is wrong with dates: texts that are not dates, a month that is counted from 1, and
    the present compared with a moment that is past. Nothing without the word `Date`."""
    if "Date" not in subject.source.text:
        return
    for node in syntax.walk(subject.source.root):
        text = _parsed_text(subject, node)
        if text is not None:
            mistake = wrong_date(text)
            if mistake is not None:
                yield at("date-never-comes", node, mistake)
        elif node.type == "new_expression":
            yield from _parts(subject, node)
        elif operator_of(node) in COMPARISONS:
            operands = sides(node)
            if operands is not None:
                yield from _moment(subject, node, *operands)


def wrong_date(text: str) -> Sentence | None:
    """Say what is wrong with a text that is made into a date. Return None if nothing is known to be wrong."""
    text = text.strip()
    if not re.search(r"\d", text):
        return Sentence("'{text}' is not a date: every comparison with it is false", text)
    if _CHINESE.search(text):
        return Sentence("'{text}' is not a date to JavaScript: write it as '2026-07-17'", text)

    # Dates of the usual form are checked exactly; of others only well-known mistakes are reported.
    date = _DATE.fullmatch(text)
    if date is not None:
        return _wrong_day(text, date)

    if _NO_YEAR.fullmatch(text):
        return Sentence(
            "'{text}' has no year, and counts as a day of 2001 or as no date; compare getMonth() and getDate()",
            text,
        )

    day_first = _DAY_FIRST.fullmatch(text)
    if day_first is not None and (int(day_first["first"]) > 12 or int(day_first["second"]) > 31):
        return Sentence(
            "'{text}' is not a date: the month comes first; write it as '2026-07-17'", text
        )

    return None


def _wrong_day(text: str, date: re.Match[str]) -> Sentence | None:
    """Say what is wrong with a date of the usual form. Return None if nothing is wrong."""
    month = int(date["month"])
    day = int(date["day"])
    if not 1 <= month <= 12 or not 1 <= day <= 31 or int(date["hour"] or 0) > 24:
        return Sentence("'{text}' is not a date: every comparison with it is false", text)
    days_of_month = monthrange(int(date["year"]), month)[1]
    surplus = day - days_of_month
    if surplus > 0:
        return Sentence(
            "'{text}' does not exist: it counts as {month_names} {over}",
            text,
            Sentence(MONTH_NAMES[month]),
            surplus,
        )
    return None


def _parsed_text(subject: Subject, node: Node) -> str | None:
    """Return the text literal of `new Date('...')` or `Date.parse('...')`. Return None for anything
    else."""
    arguments = syntax.arguments(node)
    if len(arguments) != 1 or arguments[0].type != "string":
        return None
    maker = node.child_by_field_name("constructor") or node.child_by_field_name("function")
    if maker is None or subject.source.of(maker) not in ("Date", "Date.parse"):
        return None
    if node.type == "call_expression" and subject.source.of(maker) == "Date":
        return None  # without `new` it returns the present as text
    text = subject.source.of(arguments[0])[1:-1]
    return None if "\\" in text else text


def _parts(subject: Subject, node: Node) -> Iterator[LintFinding]:
    """Find a month 12, or a day that its month does not have, in `new Date(2026, 12, 25)`: months
    count from 0."""
    arguments = syntax.arguments(node)
    if not makes_date(subject, node) or len(arguments) < 2:
        return
    month = number_of(subject.source, arguments[1])
    if month == 12:
        yield at(
            "date-never-comes",
            arguments[1],
            "month 12 is January of the next year: months count from 0 to 11",
        )
    elif month is not None and month in range(12) and len(arguments) > 2:
        day = number_of(subject.source, arguments[2])
        if day is not None and MONTH_DAYS[int(month)] < day <= 31:
            yield no_such_day(arguments[2], int(month))


def makes_date(subject: Subject, node: Node) -> bool:
    """Tell whether it is `new Date(...)`."""
    constructor = node.child_by_field_name("constructor")
    return constructor is not None and subject.source.of(constructor) == "Date"


def no_such_day(node: Node, month: int) -> LintFinding:
    """Report that the node is a day that the month, counted from 0, does not have."""
    return at(
        "date-never-comes",
        node,
        "{month} has {days} days at most",
        Sentence(MONTH_NAMES[month]),
        MONTH_DAYS[month],
    )


def decided(*, always: bool, why: Sentence) -> Sentence:
    """Return the message about a condition that is always, or never, true."""
    return Sentence("always true: {said}", why) if always else Sentence("never true: {said}", why)


def _moment(subject: Subject, node: Node, left: Node, right: Node) -> Iterator[LintFinding]:
    """Find the present compared with a constant moment that is past, so that the result is always
    the same."""
    present = left
    constant = right
    operator = operator_of(node)
    if not is_now(subject, present):
        present = right
        constant = left
        operator = FLIPPED.get(operator, operator)

    if not is_now(subject, present):
        return

    # conditions.py reports that a date equals only itself.
    value = subject.value(constant)
    if operator[:2] in ("==", "!=") and "new_expression" in (
        value.type,
        subject.value(present).type,
    ):
        return

    # A time in the future, or just now, may be meant.
    moment = _moment_of(subject, value)
    if moment is None or moment >= subject.now - _SLACK:
        return

    reason = Sentence("{date} is past", moment.date())
    if value.type == "number" and moment.year == 1970:
        reason = Sentence("{said}; {hint}", reason, Sentence("times are in milliseconds"))

    is_always_true = operator in (">", ">=", "!==", "!=")
    rule = "always-true" if is_always_true else "date-never-comes"
    yield at(rule, node, decided(always=is_always_true, why=reason))


def is_now(subject: Subject, node: Node) -> bool:
    """Tell whether an expression is the present moment."""
    return moment_text(subject, node) in ("newDate()", "Date.now()")


def moment_text(subject: Subject, node: Node) -> str:
    """Return the text of a date without what makes it a number."""
    text = subject.key(subject.value(node)).removeprefix("+")
    return text.removesuffix(".getTime()").removesuffix(".valueOf()")


def _moment_of(subject: Subject, node: Node) -> datetime | None:
    """Return the moment of `new Date('2024-01-01')` or `Date.parse('...')`, also with getTime(), or
    of milliseconds. Return None for anything else."""
    if node.type == "unary_expression" and operator_of(node) == "+":
        node = bare(node.child_by_field_name("argument") or node)
    owner, method = syntax.member(subject.source, node)
    if owner is not None and method in ("getTime", "valueOf") and node.type == "call_expression":
        node = subject.value(owner)
    try:
        moment = _moment_of_text(subject, node) or _moment_of_parts(subject, node)
        if moment is not None:
            return moment
        milliseconds = number_of(subject.source, node)
        return None if milliseconds is None else datetime.fromtimestamp(milliseconds / 1000, UTC)
    except (ValueError, OverflowError, OSError):
        return None


def _moment_of_text(subject: Subject, node: Node) -> datetime | None:
    """Return the moment of `new Date('2024-01-01')`, or None for another expression. Raises ValueError: the day does
    not exist."""
    text = _parsed_text(subject, node)
    date = None if text is None else _DATE.fullmatch(text.strip())
    if text is None or date is None or wrong_date(text) is not None:
        return None
    return datetime(int(date["year"]), int(date["month"]), int(date["day"]), tzinfo=UTC)


def _moment_of_parts(subject: Subject, node: Node) -> datetime | None:
    """Return the moment of `new Date(2024, 0, 1)`, or None for anything else. Raises ValueError,
    OverflowError: the day does not exist."""
    arguments = syntax.arguments(node)
    if not makes_date(subject, node) or len(arguments) < 3:
        return None
    year, month, day = (number_of(subject.source, argument) for argument in arguments[:3])
    if year is None or month is None or day is None:
        return None
    return datetime(int(year), int(month) + 1, int(day), tzinfo=UTC)
