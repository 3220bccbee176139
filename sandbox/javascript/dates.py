"""Rules about dates that are certain: texts that are not dates, moments that are past. Pure.

Tests in the sandbox showed which texts V8 takes for dates.
"""

from __future__ import annotations

import re
from calendar import monthrange
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from sandbox.javascript import syntax
from sandbox.javascript.syntax import COMPARISONS, LintFinding, Node, Subject, at, bare, number_of, operator_of, sides
from sandbox.locale import N_, _

DAYS = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
MONTH_NAMES = (
    *(N_("January"), N_("February"), N_("March"), N_("April"), N_("May"), N_("June")),
    *(N_("July"), N_("August"), N_("September"), N_("October"), N_("November"), N_("December")),
)
FLIPPED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
"""A comparison with its two sides exchanged."""
_SLACK = timedelta(hours=26)
"""The time between the same date in the two zones that are farthest apart."""
_DATE = re.compile(r"(?P<year>\d{4})([-/])(?P<month>\d{1,2})\2(?P<day>\d{1,2})(?:[T ](?P<hour>\d{2}):\d{2}.*)?")
_NO_YEAR = re.compile(r"(?P<month>\d{1,2})[-/](?P<day>\d{1,2})")
_DAY_FIRST = re.compile(r"(?P<first>\d{1,2})/(?P<second>\d{1,2})/\d{4}")
_CHINESE = re.compile(r"\d\s*[年月日号]")


def dates(subject: Subject) -> Iterator[LintFinding]:
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


def wrong_date(text: str) -> str | None:
    """What is wrong with a text that is made into a date; None if nothing is known to be wrong."""
    text = text.strip()
    if not re.search(r"\d", text):
        return _("'{text}' is not a date: every comparison with it is false", text)
    if _CHINESE.search(text):
        return _("'{text}' is not a date to JavaScript: write it as '2026-07-17'", text)
    if found := _DATE.fullmatch(text):
        month, day = int(found["month"]), int(found["day"])
        if not 1 <= month <= 12 or not 1 <= day <= 31 or int(found["hour"] or 0) > 24:
            return _("'{text}' is not a date: every comparison with it is false", text)
        if (over := day - monthrange(int(found["year"]), month)[1]) > 0:
            return _("'{text}' does not exist: it counts as {month_names} {over}", text, _(MONTH_NAMES[month]), over)
    elif found := _NO_YEAR.fullmatch(text):
        return _(
            "'{text}' has no year, and counts as a day of 2001 or as no date; compare getMonth() and getDate()", text
        )
    elif (found := _DAY_FIRST.fullmatch(text)) and (int(found["first"]) > 12 or int(found["second"]) > 31):
        return _("'{text}' is not a date: the month comes first; write it as '2026-07-17'", text)
    return None


def _parsed_text(subject: Subject, node: Node) -> str | None:
    """The text literal of `new Date('...')` or `Date.parse('...')`."""
    given = syntax.arguments(node)
    if len(given) != 1 or given[0].type != "string":
        return None
    maker = node.child_by_field_name("constructor") or node.child_by_field_name("function")
    if maker is None or subject.source.of(maker) not in ("Date", "Date.parse"):
        return None
    if node.type == "call_expression" and subject.source.of(maker) == "Date":
        return None  # without `new` it returns the present as text
    text = subject.source.of(given[0])[1:-1]
    return None if "\\" in text else text


def _parts(subject: Subject, node: Node) -> Iterator[LintFinding]:
    """`new Date(2026, 12, 25)`: months count from 0."""
    maker, given = node.child_by_field_name("constructor"), syntax.arguments(node)
    if maker is None or subject.source.of(maker) != "Date" or len(given) < 2:
        return
    month = number_of(subject.source, given[1])
    day = number_of(subject.source, given[2]) if len(given) > 2 else None
    if month == 12:
        yield at("date-never-comes", given[1], _("month 12 is January of the next year: months count from 0 to 11"))
    elif month is not None and month in range(12) and day is not None and DAYS[int(month)] < day <= 31:
        yield no_such_day(given[2], int(month))


def no_such_day(node: Node, month: int) -> LintFinding:
    """The node is a day that the month, counted from 0, does not have."""
    return at("date-never-comes", node, _("{month} has {days} days at most", _(MONTH_NAMES[month]), DAYS[month]))


def decided(*, always: bool, why: str) -> str:
    """The message about a condition that is always, or never, true."""
    return _("always true: {said}", why) if always else _("never true: {said}", why)


def _moment(subject: Subject, node: Node, left: Node, right: Node) -> Iterator[LintFinding]:
    """The present compared with a constant moment."""
    operator = operator_of(node)
    if not _is_now(subject, left):
        left, right, operator = right, left, FLIPPED.get(operator, operator)
    if not _is_now(subject, left):
        return
    value = subject.value(right)
    if subject.value(left).type == "new_expression" and operator[:2] in ("==", "!="):
        return
    moment = _moment_of(subject, value)
    if moment is None or moment >= subject.now - _SLACK:
        return
    said = _("{date} is past", moment.date())
    if value.type == "number" and moment.year == 1970:
        said = _("{said}; {hint}", said, _("times are in milliseconds"))
    always = operator in (">", ">=", "!==", "!=")
    yield at("always-true" if always else "date-never-comes", node, decided(always=always, why=said))


def _is_now(subject: Subject, node: Node) -> bool:
    """Whether the node is the present: `new Date()`, `Date.now()`, `new Date().getTime()` or a name for one."""
    text = subject.key(subject.value(node)).removeprefix("+")
    return text.removesuffix(".getTime()").removesuffix(".valueOf()") in ("newDate()", "Date.now()")


def _moment_of(subject: Subject, node: Node) -> datetime | None:
    """The moment of `new Date('2024-01-01')` or `Date.parse('...')`, also with getTime(), or of milliseconds."""
    if node.type == "unary_expression" and operator_of(node) == "+":
        node = bare(node.child_by_field_name("argument") or node)
    owner, method = syntax.member(subject.source, node)
    if owner is not None and method in ("getTime", "valueOf") and node.type == "call_expression":
        node = subject.value(owner)
    text = _parsed_text(subject, node)
    try:
        if text is not None and (found := _DATE.fullmatch(text.strip())) and wrong_date(text) is None:
            return datetime(int(found["year"]), int(found["month"]), int(found["day"]), tzinfo=UTC)
        given = syntax.arguments(node)
        maker = node.child_by_field_name("constructor")
        if maker is not None and subject.source.of(maker) == "Date" and len(given) > 2:
            year, month, day = (number_of(subject.source, one) for one in given[:3])
            if year is not None and month is not None and day is not None:
                return datetime(int(year), int(month) + 1, int(day), tzinfo=UTC)
        number = number_of(subject.source, node)
        return None if number is None else datetime.fromtimestamp(number / 1000, UTC)
    except (ValueError, OverflowError, OSError):
        return None
