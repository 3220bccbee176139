"""Rules about dates that come out otherwise than they read: a date without a time, 29 February, a time that may be
missing, and days that a helper of the realm does not take. Pure.

Sources: ECMA-262 section 21.4.3.2 (a date without a time is one in UTC), docs/reference/trigger-api.md (the helpers).
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from languages import Sentence
from sandbox.javascript import syntax
from sandbox.javascript.conditions import NumericComparison, is_in_chain, numeric_comparison
from sandbox.javascript.dates import DAY_FUNCTIONS, MONTH_NAMES, most_days
from sandbox.javascript.message_fields import is_message
from sandbox.javascript.syntax import (
    LintFinding,
    Node,
    Subject,
    at,
    bare,
    number_of,
    operator_of,
    sides,
)
from sandbox.values import frozen

_WITHOUT_TIME = re.compile(r"(?P<year>\d{4})-(?P<month>\d{2})-(?P<day>\d{2})")
_LOCAL_READERS = frozenset(
    (
        *("getFullYear", "getMonth", "getDate", "getDay", "getHours"),
        *("toDateString", "toLocaleDateString", "toLocaleString", "toString"),
    )
)
_EQUALITIES = frozenset(("===", "=="))
_LEAP_DAY_TEXT = re.compile(r"(?:0?2[-/.]29|0?2月29日?)")
_DAY_BESIDE_TEXT = re.compile(r"0?2[-/.]28|0?3[-/.]0?1|% ?4\b|leap", re.IGNORECASE)
"""Text of a trigger that knows of years without 29 February."""
_NUMBER_TESTS = ("isNaN", "isFinite", "isInteger", "isSafeInteger")


def date_traps(subject: Subject) -> Iterator[LintFinding]:
    yield from _dates_without_time(subject)
    yield from _leap_days(subject)
    yield from _missing_timestamps(subject)
    yield from _days_of_helpers(subject)


# --- a date without a time --------------------------------------------------------------------------------------------


def _dates_without_time(subject: Subject) -> Iterator[LintFinding]:
    """Find `new Date('2001-05-01').getDate()`: midnight in UTC, read in the time zone of the search."""
    reported: set[int] = set()
    for call in syntax.walk(subject.source.root):
        owner, method = syntax.member(subject.source, call)
        if call.type != "call_expression" or owner is None or method not in _LOCAL_READERS:
            continue

        # The date may have a name, so its value is looked at.
        date = subject.value(owner)
        text = _text_of_date(subject, date)
        day = _WITHOUT_TIME.fullmatch(text) if text is not None else None
        if day is None or date.id in reported or "timeZone" in subject.text(call):
            continue
        if not _changes_with_the_day(method, day):
            continue

        reported.add(date.id)
        yield at(
            "date-without-time",
            date,
            "'{date}' has no time, so it is midnight in UTC: in America {method}() gives the day before; "
            "use on_day({month}, {day}), or write '{date}T00:00'",
            *(day[0], method, int(day["month"]), int(day["day"])),
        )


def _text_of_date(subject: Subject, node: Node) -> str | None:
    """Return the text of `new Date('...')`, which may be the value of a name. Return None for
    anything else."""
    maker = node.child_by_field_name("constructor")
    arguments = syntax.arguments(node)
    if (
        node.type != "new_expression"
        or maker is None
        or subject.source.of(maker) != "Date"
        or len(arguments) != 1
    ):
        return None
    text = subject.value(arguments[0])
    return subject.source.of(text)[1:-1] if text.type == "string" else None


def _changes_with_the_day(method: str, day: re.Match[str]) -> bool:
    """Tell whether the day before this one gives another value."""
    if method == "getMonth":
        return day["day"] == "01"
    if method == "getFullYear":
        return (day["month"], day["day"]) == ("01", "01")
    return True


# --- 29 February ------------------------------------------------------------------------------------------------------


def _leap_days(subject: Subject) -> Iterator[LintFinding]:
    """Find a test for 29 February in a trigger that says nothing of the days beside it, so that it
    does not fire in other years."""
    text = subject.source.text
    if "29" not in text or _DAY_BESIDE_TEXT.search(text) is not None:
        return
    if any(_is_day_beside(comparison) for comparison in _comparisons(subject)):
        return
    message = Sentence(
        "29 February comes in leap years only; on_day(2, 29) is true on 28 February in other years"
    )
    for node in syntax.walk(subject.source.root):
        if _is_leap_day(subject, node):
            yield at("leap-day", node, message)
            return


def _comparisons(subject: Subject) -> Iterator[NumericComparison]:
    for node in syntax.walk(subject.source.root):
        comparison = numeric_comparison(subject, node)
        if comparison is not None:
            yield comparison


def _is_day_beside(comparison: NumericComparison) -> bool:
    """Tell whether it compares with 28 February, with 1 March or with a year."""
    if comparison.quantity.kind == "FullYear":
        return True
    return any(
        comparison.is_exactly(kind, value)
        for kind, value in (("Date", 28), ("Date", 1), ("Month", 2))
    )


def _is_leap_day(subject: Subject, node: Node) -> bool:
    """Tell whether an expression is true on 29 February only: it compares month and day, joined by
    `&&`, or it is an equality with the text of that day or with a part of such a date."""
    if operator_of(node) == "&&" and not is_in_chain(node, "&&"):
        operands = [subject.value(operand) for operand in syntax.chain(node, "&&")]
        comparisons = [numeric_comparison(subject, operand) for operand in operands]
        present = [comparison for comparison in comparisons if comparison is not None]
        in_february = any(comparison.is_exactly("Month", 1) for comparison in present)
        return in_february and any(comparison.is_exactly("Date", 29) for comparison in present)
    both = sides(node)
    if operator_of(node) not in _EQUALITIES or both is None:
        return False
    return any(
        _is_text_of_leap_day(subject, side) or _is_read_from_leap_day(subject, side)
        for side in both
    )


def _is_text_of_leap_day(subject: Subject, side: Node) -> bool:
    """`'02-29'`, with which a part of the present is compared."""
    value = subject.value(side)
    return (
        value.type == "string"
        and _LEAP_DAY_TEXT.fullmatch(subject.source.of(value)[1:-1]) is not None
    )


def _is_read_from_leap_day(subject: Subject, side: Node) -> bool:
    """Tell whether a side is `born.getDate()`, where `born` is a constant 29 February."""
    owner, method = syntax.member(subject.source, bare(side))
    if owner is None or method != "getDate" or bare(side).type != "call_expression":
        return False
    date = subject.value(owner)
    text = _text_of_date(subject, date)
    if text is not None:
        return re.match(r"\d{4}[-/]0?2[-/]29(?!\d)", text) is not None
    arguments = syntax.arguments(date)
    if date.type != "new_expression" or len(arguments) < 3:
        return False
    return [number_of(subject.source, argument) for argument in arguments[1:3]] == [1, 29]


# --- a time that may be missing ---------------------------------------------------------------------------------------


@frozen
class _TimestampUse:
    """What a trigger does with the time of a message: it computes with it in `arithmetic`, or it tests it."""

    arithmetic: Node | None = None
    is_test: bool = False


def _missing_timestamps(subject: Subject) -> Iterator[LintFinding]:
    """Find arithmetic with `m.timestamp`, such as `Date.now() - m.timestamp`, where nothing tests
    that there is a timestamp."""
    text = subject.source.text
    if "timestamp" not in text or any(test in text for test in _NUMBER_TESTS):
        return
    uses = [
        _use_of(subject, node)
        for node in syntax.walk(subject.source.root)
        if _is_timestamp(subject, node)
    ]
    computed = [use.arithmetic for use in uses if use.arithmetic is not None]
    if not computed or any(use.is_test for use in uses):
        return
    yield at(
        "timestamp-missing",
        computed[0],
        "a message may have no timestamp; then this is NaN, and no comparison with NaN is true. "
        "Test it first: timestamp !== undefined",
    )


def _is_timestamp(subject: Subject, node: Node) -> bool:
    """Tell whether the node is the time of a message, or a name for it that is not being declared here."""
    if node.type == "identifier":
        value = subject.constants.get(subject.source.of(node))
        parent = node.parent
        is_declared_here = parent is not None and parent.child_by_field_name("name") == node
        return value is not None and not is_declared_here and _is_timestamp_field(subject, value)
    return _is_timestamp_field(subject, node)


def _is_timestamp_field(subject: Subject, node: Node) -> bool:
    if node.type != "member_expression":
        return False
    owner, name = syntax.member(subject.source, node)
    return owner is not None and name == "timestamp" and is_message(subject, owner)


def _use_of(subject: Subject, timestamp: Node) -> _TimestampUse:
    """Tell what the trigger does with this timestamp. Any use that is not known to be harmless
    counts as a test that there is a timestamp, so that the rule does not complain without cause."""
    node = syntax.with_parentheses(timestamp)
    parent = node.parent
    if parent is None:
        return _TimestampUse()

    if (
        parent.type == "arguments"
        and parent.parent is not None
        and parent.parent.type == "new_expression"
    ):
        parent = (
            parent.parent.parent or parent.parent
        )  # new Date(m.timestamp) is as good as the number
        if operator_of(parent) in syntax.ARITHMETIC:
            return _TimestampUse(arithmetic=parent)
        return _TimestampUse()

    # A name for the time is looked at where it is used.
    if parent.type == "variable_declarator":
        is_alias = parent.child_by_field_name("name") is not None and _is_constant(subject, parent)
        return _TimestampUse(is_test=not is_alias)

    operator = operator_of(parent)
    if operator in syntax.ARITHMETIC:
        return _TimestampUse(arithmetic=parent)

    if operator in syntax.ORDER:
        is_test = any(number_of(subject.source, side) is not None for side in sides(parent) or ())
        return _TimestampUse(is_test=is_test)

    return _TimestampUse(is_test=True)


def _is_constant(subject: Subject, declarator: Node) -> bool:
    """Tell whether all uses of the name that is declared are known."""
    name = declarator.child_by_field_name("name")
    return name is not None and subject.source.of(name) in subject.constants


# --- days that the helpers do not take --------------------------------------------------------------------------------


def _days_of_helpers(subject: Subject) -> Iterator[LintFinding]:
    """Find a month or day that does not exist in a call such as `on_day(0, 15)`, which fails:
    months count from 1 here."""
    for call in syntax.walk(subject.source.root):
        function = syntax.called(call)
        arguments = syntax.arguments(call)
        if function not in DAY_FUNCTIONS or len(arguments) < 2:
            continue

        month = number_of(subject.source, subject.value(arguments[0]))
        day = number_of(subject.source, subject.value(arguments[1]))
        if month is None or day is None:
            continue

        # The most days depend on the function: lunar months have at most 30.
        most = most_days(function, int(month))
        if most == 0:
            yield at(
                "date-never-comes",
                arguments[0],
                "there is no month {month:g}: {function} counts months from 1 to 12",
                month,
                function,
            )
        elif not 1 <= day <= most:
            yield at("date-never-comes", arguments[1], _no_day(function, int(month), most))


def _no_day(function: str, month: int, most: int) -> Sentence:
    if function == "on_lunar_day":
        return Sentence("a month of the Chinese calendar has {days} days at most", most)
    return Sentence("{month} has {days} days at most", Sentence(MONTH_NAMES[month - 1]), most)
