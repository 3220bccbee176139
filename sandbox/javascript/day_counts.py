"""Rules about arithmetic with dates: days that are rounded wrongly, and numbers that are not numbers. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from languages import Sentence
from sandbox.javascript import syntax
from sandbox.javascript.dates import is_now, moment_text
from sandbox.javascript.syntax import LintFinding, Node, Subject, at, number_of, operator_of, sides

_DAY_MS = 86_400_000
_EQUALITIES = frozenset(("==", "===", "!=", "!=="))
_NAN = ("NaN", "Number.NaN")
_TO_ONE_SIDE = frozenset(("floor", "ceil", "trunc"))
_UNEQUAL_DAYS = Sentence(
    "the day on which summer time begins has 23 hours, and the day on which it ends 25; use Math.round"
)
_HELPER = Sentence("days_until(month, day) counts whole days")


def day_counts(subject: Subject) -> Iterator[LintFinding]:
    for node in syntax.walk(subject.source.root):
        if node.type == "call_expression":
            yield from _rounded_days(subject, node)
        elif node.type == "binary_expression":
            yield from _not_a_number(subject, node)
            yield from _equal_days(subject, node)


def _rounded_days(subject: Subject, call: Node) -> Iterator[LintFinding]:
    """Find days between a midnight and the present, or two midnights, that are rounded the wrong
    way, such as `Math.round((day - now) / 864e5)`."""
    owner, name = syntax.member(subject.source, call)
    arguments = syntax.arguments(call)
    if owner is None or subject.source.of(owner) != "Math" or len(arguments) != 1:
        return

    difference = _difference_in_days(subject, arguments[0])
    if difference is None:
        return

    minuend, subtrahend = difference
    if _is_midnight(subject, minuend) and _is_midnight(subject, subtrahend):
        if name in _TO_ONE_SIDE:
            yield at("day-rounding", call, "{said}; {hint}", _UNEQUAL_DAYS, _HELPER)
        return

    if "setHours(0" in subject.text(subject.source.root):
        return  # it may be the present that is set to midnight, and then every way of rounding is right

    if _is_midnight(subject, minuend) and is_now(subject, subtrahend):
        if name == "round":
            reason = Sentence(
                "after noon, now is nearer to the next midnight: on the day itself this is -1; use Math.ceil"
            )
        elif name == "floor":
            reason = Sentence(
                "now is after the midnight of the day: on the day itself this is -1; use Math.ceil"
            )
        else:
            return
    elif is_now(subject, minuend) and _is_midnight(subject, subtrahend) and name == "round":
        reason = Sentence(
            "after noon, now is nearer to the next midnight: this is one day too many; use Math.floor"
        )
    else:
        return

    yield at("day-rounding", call, "{said}; {hint}", reason, _HELPER)


def _equal_days(subject: Subject, node: Node) -> Iterator[LintFinding]:
    """Find `(day - today) / 864e5 === 7`, which is not a whole number across the beginning of summer time."""
    both = sides(node)
    if operator_of(node) not in _EQUALITIES or both is None:
        return
    for quotient, compared in (both, reversed(both)):
        number = number_of(subject.source, subject.value(compared))
        difference = _difference_in_days(subject, quotient)
        if not number or difference is None:
            continue
        if all(_is_midnight(subject, side) for side in difference):
            yield at("day-rounding", node, "{said}; {hint}", _UNEQUAL_DAYS, _HELPER)


def _difference_in_days(subject: Subject, node: Node) -> tuple[Node, Node] | None:
    """Return `a` and `b` of `(a - b) / 86_400_000`, where the division by the milliseconds of a day may have several
    steps, such as `(a - b) / 36e5 / 24`. Return None for any other expression."""
    dividend = subject.value(node)
    divisor = 1.0
    while operator_of(dividend) == "/":
        operands = sides(dividend)
        if operands is None:
            break
        numerator, denominator = operands
        factor = _product(subject, denominator)
        if factor is None:
            return None
        divisor *= factor
        dividend = subject.value(numerator)
    if divisor != _DAY_MS or operator_of(dividend) != "-":
        return None
    return sides(dividend)


def _product(subject: Subject, node: Node) -> float | None:
    """Return the value of a number, or of numbers that are multiplied: `24 * 60 * 60 * 1000`.
    Return None for anything else."""
    factors = [
        number_of(subject.source, subject.value(factor))
        for factor in syntax.chain(subject.value(node), "*")
    ]
    numbers = [factor for factor in factors if factor is not None]
    return prod(numbers) if len(numbers) == len(factors) else None


def _is_midnight(subject: Subject, node: Node) -> bool:
    """Tell whether it is `new Date(year, month, day)` or `new Date('2026-07-17')`."""
    text = moment_text(subject, node)
    if not text.startswith("newDate("):
        return False
    owner, _method = syntax.member(subject.source, subject.value(node))
    maker = subject.value(owner) if owner is not None else subject.value(node)
    date_arguments = syntax.arguments(maker)
    if len(date_arguments) == 1:
        return date_arguments[0].type == "string" and ":" not in subject.source.of(
            date_arguments[0]
        )
    return len(date_arguments) == 3


def _not_a_number(subject: Subject, node: Node) -> Iterator[LintFinding]:
    """Find arithmetic and order with `undefined` or NaN, and equality with NaN."""
    operator, both = operator_of(node), sides(node)
    if both is None:
        return

    # A name is replaced by its value: `const x = undefined` is the same mistake.
    values = [subject.text(subject.value(side)) for side in both]
    is_nan = any(value in _NAN for value in values)
    nothing = is_nan or "undefined" in values
    shown = "NaN" if is_nan else "undefined"
    if operator in syntax.ARITHMETIC and nothing:
        yield at(
            "not-a-number",
            node,
            "arithmetic with {nothing} gives NaN, and every comparison with NaN is false",
            shown,
        )
    elif operator in syntax.ORDER and nothing:
        yield at(
            "not-a-number",
            node,
            "never true: nothing is less or more than {nothing}",
            shown,
        )
    elif operator in _EQUALITIES and is_nan:
        reason = (
            Sentence("always true: nothing equals NaN")
            if "!" in operator
            else Sentence("never true: nothing equals NaN")
        )
        yield at("not-a-number", node, "{said}; use Number.isNaN", reason)
