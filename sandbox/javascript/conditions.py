"""Rules about conditions that are always or never true, because of keys, dates, lengths or constants. Pure.

Sources: ECMA-262 section 21.4 (values of the getters of Date), docs/reference/trigger-api.md (match_keys).
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta

from languages import Sentence
from sandbox.javascript import syntax
from sandbox.javascript.dates import (
    CALENDAR_FUNCTIONS,
    FLIPPED,
    MONTH_DAYS,
    decided,
    makes_date,
    no_such_day,
)
from sandbox.javascript.literals import USUAL_DEPTH
from sandbox.javascript.syntax import (
    LintFinding,
    Node,
    Source,
    Subject,
    at,
    bare,
    number_of,
    operator_of,
    sides,
)
from sandbox.values import frozen

_GETTERS: Mapping[str, tuple[float, float]] = {
    "Month": (0, 11),
    "Date": (1, 31),
    "Day": (0, 6),
    "Hours": (0, 23),
    "Minutes": (0, 59),
    "Seconds": (0, 59),
    "Milliseconds": (0, 999),
}
_NATURE = {
    "length": Sentence("a length is 0 or more"),
    "days": Sentence("days_until gives 0 or more"),
    "all": Sentence("match_keys_all gives true or false, not a number of matches"),
}
_FROM_ZERO = {
    "Month": Sentence("January is 0"),
    "Day": Sentence("Sunday is 0"),
    "Hours": Sentence("midnight is 0"),
}
_TRUE = {
    "array": Sentence("a list is always true; ask for its length"),
    "object": Sentence("an object is always true"),
    "arrow_function": Sentence("a function is always true; call it, or leave out `() =>`"),
    "function_expression": Sentence("a function is always true; call it"),
    "regex": Sentence(
        "a regular expression alone is always true; ask `/.../.test(text)` or give it to match_keys"
    ),
    "new_expression": Sentence("a new object is always true"),
    "string": Sentence("a text alone is always true; give it to match_keys"),
}
_CHOICES = ("if_statement", "ternary_expression", "while_statement", "do_statement")
_LITERAL_TYPES = {
    "number": "number",
    "string": "string",
    "true": "boolean",
    "false": "boolean",
    "null": "null",
}
"""The types of literals, by their nodes."""
_TIMES = ("Date.now()", ".getTime()", ".valueOf()")
_TEXT_OF_DATE = re.compile("GMT|Invalid")
"""What is in the text that `==` makes of a date."""
_MOST_SUMS = 8
"""How many sums are followed; `getMonth() + 1` is one."""


@frozen
class Quantity:
    """A whole number that a trigger compares. `key`: equal for equal quantities. `kind`: Month, Date, FullYear and so
    on, keys, all, days or length. `date_key`: the key of the date it belongs to. `least` and `most`: its bounds.
    `shift`: the number that is added to the value of the getter. `is_sure`: it is always a number."""

    key: str
    kind: str
    least: float
    most: float
    shift: float = 0
    date_key: str = ""
    is_sure: bool = True

    @property
    def is_part_of_date(self) -> bool:
        return self.kind == "FullYear" or self.kind in _GETTERS

    def shifted(self, shift: float) -> Quantity:
        """Return this quantity with a number added to it."""
        if not shift:
            return self
        key = f"{self.key}{shift:+g}"
        return replace(self, key=key, least=self.least + shift, most=self.most + shift, shift=shift)


@frozen
class Bounds:
    """Whole numbers from `low` to `high`; none of them if `low` is the greater one."""

    low: float
    high: float

    @property
    def is_empty(self) -> bool:
        return self.low > self.high

    def within(self, other: Bounds) -> Bounds:
        """Return the numbers that are in both."""
        return Bounds(max(self.low, other.low), min(self.high, other.high))


@frozen
class NumericComparison:
    """`quantity operator number`."""

    quantity: Quantity
    operator: str
    number: float

    def verdict(self) -> bool | None:
        """Return True if it is always true, False if it is never true, and None if it depends."""
        possible = Bounds(self.quantity.least, self.quantity.most)
        if self.operator in ("!==", "!="):
            return None if possible.low <= self.number <= possible.high else True
        bounds = self.bounds()
        if bounds.within(possible).is_empty:
            return False
        is_true_for_all = bounds.low <= possible.low and possible.high <= bounds.high
        return True if is_true_for_all and self.quantity.is_sure else None

    def is_exactly(self, kind: str, value: int) -> bool:
        """Tell whether it is true only where a getter gives this value: `getMonth() + 1 === 2` for the value 1."""
        quantity = self.quantity
        return (
            quantity.kind == kind
            and self.operator in ("===", "==")
            and self.number - quantity.shift == value
        )

    def bounds(self) -> Bounds:
        """Return the whole numbers for which it is true; all for an inequality."""
        above = math.ceil(self.number)
        below = math.floor(self.number)
        match self.operator:
            case "===" | "==":
                return Bounds(above, below)  # none for a fraction
            case "<":
                return Bounds(-math.inf, above - 1)
            case "<=":
                return Bounds(-math.inf, below)
            case ">":
                return Bounds(below + 1, math.inf)
            case ">=":
                return Bounds(above, math.inf)
        return Bounds(-math.inf, math.inf)


def conditions(subject: Subject) -> Iterator[LintFinding]:
    """Yield what is wrong with the conditions of a trigger: no value, a comparison or expression
    with the same result always, and operands that exclude each other."""
    source = subject.source
    yield from _no_value(source)
    verdicts = {node.id for node, role in syntax.decisions(source) if role in ("verdict", "return")}
    for node in syntax.walk(source.root):
        operator = operator_of(node)
        if operator in syntax.COMPARISONS and sides(node) is not None:
            finding = _finding_of_comparison(subject, node)
            if finding is not None:
                yield finding
        elif operator in ("&&", "||") and not is_in_chain(node, operator):
            yield from _together(subject, operator, syntax.chain(node, operator))
        else:
            assignment = _assignment_of(subject, node, verdicts)
            reason = _always(source, node)
            if assignment is not None:
                yield at(
                    "assignment",
                    assignment,
                    "`=` gives {name} a value, which is then the condition; compare with `===`",
                    source.of(assignment.children[0])[:60],
                )
            elif reason and _decides(node, verdicts):
                yield at("always-true", node, reason)


def _no_value(source: Source) -> Iterator[LintFinding]:
    """Find a trigger without a statement, or without a statement that gives a value."""
    statements = [
        node
        for node in source.root.named_children
        if node.type not in ("comment", "empty_statement")
    ]
    if not statements:
        yield at("never-true", source.root, "never true: the trigger has no condition")
    elif not any(map(syntax.has_value, statements)):
        yield at(
            "never-true",
            statements[-1],
            "never true: a declaration gives no value; end with the condition itself, or `return` it",
        )


# --- what is always true ----------------------------------------------------------------------------------------------


def _always(source: Source, node: Node) -> Sentence | None:
    """Say why the expression is always true, whatever is said. Plain `true` is meant so."""
    text = source.of(node)
    if node.type == "identifier" and text in syntax.KEY_FUNCTIONS | CALENDAR_FUNCTIONS:
        return Sentence("{text} is not called: a function is always true", text)
    is_empty_text = node.type == "string" and len(text) == 2
    return None if is_empty_text else _TRUE.get(node.type)


def _assignment_of(subject: Subject, literal: Node, verdicts: Collection[int]) -> Node | None:
    """Return the assignment `m.role = 'user'` that is a condition and gets this literal, also as the first operand
    of `m.role = 'user' && hit`. Return None for `list && (hit = true)`, which people write on purpose."""
    if literal.type not in _LITERAL_TYPES:
        return None
    value = _chain_from(literal)
    assignment = value.parent
    if (
        assignment is None
        or assignment.type != "assignment_expression"
        or assignment.child_by_field_name("right") != value
    ):
        return None

    condition = _chain_from(assignment)
    parent = condition.parent
    if parent is None:
        return None
    # A last value of true or false may be meant: `hit = true`. So may one in an `if`.
    if condition.id in verdicts and literal.type in ("string", "number"):
        return assignment if subject.source.root in (parent, parent.parent) else None
    if parent.type in _CHOICES and parent.child_by_field_name("condition") == condition:
        return assignment

    function = parent
    if parent.type == "return_statement" and parent.parent is not None:
        function = parent.parent.parent or parent
    call = syntax.call_with(function)
    is_test = call is not None and syntax.member(subject.source, call)[1] in syntax.TESTS
    return assignment if is_test else None


def _chain_from(node: Node) -> Node:
    """Return the longest chain of `&&`, `||` and `!` that begins with this expression, or the expression itself."""
    first = syntax.with_parentheses(node)
    while first.parent is not None and operator_of(first.parent) in ("&&", "||", "!"):
        if first.parent.child_by_field_name("left") not in (None, first):
            break
        first = syntax.with_parentheses(first.parent)
    return first


def _decides(node: Node, verdicts: Collection[int]) -> bool:
    """Tell whether its truth decides: it is the verdict, a condition, or an operand before another operand."""
    while True:
        node = syntax.with_parentheses(node)
        if node.id in verdicts:
            return True
        parent = node.parent
        if parent is None:
            return False
        if parent.type in _CHOICES:
            return parent.child_by_field_name("condition") == node
        if operator_of(parent) not in ("&&", "||", "!"):
            return False
        operands = sides(parent)
        if operands is None or operands[0] == node:
            return True
        node = parent


# --- comparisons with numbers -----------------------------------------------------------------------------------------


def _finding_of_comparison(subject: Subject, comparison: Node) -> LintFinding | None:
    """Find a comparison that is always or never true: because its sides have different types, or
    because of the bounds of the quantity that it compares with a number. Return None if it may be
    both."""
    operands = sides(comparison)
    if operands is None:
        return None

    first, right = map(bare, operands)
    finding = _finding_of_dates(subject, comparison, operands)
    if finding is not None:
        return finding

    # Only strict comparisons look at types: `==` converts.
    if operator_of(comparison) in ("===", "!=="):
        for side, other in ((first, right), (right, first)):
            finding = _finding_of_types(subject, comparison, quantity_node=side, literal=other)
            if finding is not None:
                return finding

    numeric = numeric_comparison(subject, comparison)
    if numeric is None:
        return None

    verdict = numeric.verdict()
    if verdict is None:
        return None

    quantity = numeric.quantity
    if verdict:
        rule = "always-true"
    elif quantity.is_part_of_date:
        rule = "date-never-comes"
    else:
        rule = "never-true"

    return at(rule, comparison, decided(always=verdict, why=_nature(quantity)))


def _finding_of_types(
    subject: Subject, comparison: Node, *, quantity_node: Node, literal: Node
) -> LintFinding | None:
    """Find a strict comparison of a quantity with a literal of another type. Return None if the
    types are equal, or one of them is not known."""
    quantity = _quantity(subject, quantity_node)
    if quantity is None:
        return None
    type_of_quantity = "boolean" if quantity.kind == "all" else "number"
    type_of_literal = _LITERAL_TYPES.get(literal.type)
    if type_of_literal in (None, type_of_quantity):
        return None
    reason = Sentence(
        "{code} is {type}, so it is never `===` to another type",
        " ".join(subject.source.of(quantity_node).split())[:60],
        Sentence("a boolean") if type_of_quantity == "boolean" else Sentence("a number"),
    )
    is_always_true = operator_of(comparison) == "!=="
    rule = "always-true" if is_always_true else "never-true"
    return at(rule, comparison, decided(always=is_always_true, why=reason))


def _finding_of_dates(
    subject: Subject, comparison: Node, operands: tuple[Node, Node]
) -> LintFinding | None:
    """Find `===` and `==` between a date and anything that is not this very object. Return None if it may be the same
    object, and for `==` also if it may be the text of the date."""
    operator = operator_of(comparison)
    if operator in syntax.ORDER:
        return None
    for side, other in (operands, reversed(operands)):
        date = subject.value(side)
        value = subject.value(other)
        if not makes_date(subject, date) or date == value:
            continue
        is_new = bare(side) == date and len(operator) == 3
        is_text = value.type == "string" and (
            len(operator) == 3 or not _TEXT_OF_DATE.search(subject.source.of(value))
        )
        is_number = value.type == "number" or subject.text(value).endswith(_TIMES)
        if is_new or is_text or is_number or makes_date(subject, value):
            reason = Sentence(
                "a date is an object and equals only itself; compare getTime(), or ask on_day(month, day)"
            )
            always = "!" in operator
            rule = "always-true" if always else "never-true"
            return at(rule, comparison, decided(always=always, why=reason))
    return None


def _nature(quantity: Quantity) -> Sentence:
    """Say why a quantity has the bounds that it has."""
    if quantity.kind == "FullYear":
        return Sentence("the year is {low:g} or later", quantity.least)

    if quantity.kind == "keys":
        most = Sentence(
            ", at most {high:g}, one for each key in each of the messages", quantity.most
        )
        return Sentence(
            "match_keys gives 0 or more{most}", most if math.isfinite(quantity.most) else ""
        )

    if quantity.kind in _NATURE:
        return _NATURE[quantity.kind]

    shift = f" {quantity.shift:+g}" if quantity.shift else ""
    range_text = Sentence(
        "get{what}(){shift} gives {low:g} to {high:g}",
        quantity.kind,
        shift,
        quantity.least,
        quantity.most,
    )
    # People often forget that months and weekdays count from 0.
    hint = _FROM_ZERO.get(quantity.kind)
    if hint is None or quantity.shift:
        return range_text

    return Sentence("{said}; {hint}", range_text, hint)


def numeric_comparison(subject: Subject, node: Node) -> NumericComparison | None:
    """Read a comparison of a known quantity with a number literal on either side. Return None for
    anything else."""
    operator = operator_of(node)
    operands = sides(node)
    if operator not in syntax.COMPARISONS or operands is None:
        return None
    first, right = map(bare, operands)
    measured = first
    number = number_of(subject.source, right)
    if number is None:
        measured = right
        number = number_of(subject.source, first)
        operator = FLIPPED.get(operator, operator)
    if number is None:
        return None
    quantity = _quantity(subject, measured)
    return None if quantity is None else NumericComparison(quantity, operator, number)


def _quantity(subject: Subject, node: Node) -> Quantity | None:
    """Return the bounded whole number of an expression, or None if it is not known to have bounds."""
    shift: float = 0
    for _sum in range(_MOST_SUMS):
        node = subject.value(node)
        operator = operator_of(node)
        operands = sides(node)
        if operator not in ("+", "-") or operands is None:
            break
        number = number_of(subject.source, bare(operands[1]))
        if number is None:
            break
        shift += number if operator == "+" else -number
        node = operands[0]
    quantity = _unshifted(subject, node)
    return None if quantity is None else quantity.shifted(shift)


def _unshifted(subject: Subject, node: Node) -> Quantity | None:
    """Return the quantity that an expression gives: matches of keys, days, a length or a part of a
    date. Return None for any other expression."""
    key = subject.key(node)
    match syntax.called(node):
        case "match_keys":
            return Quantity(key, "keys", least=0, most=_most_matches(subject, node))
        case "match_keys_all":
            return Quantity(key, "all", least=0, most=1)
        case "days_until":
            return Quantity(key, "days", least=0, most=math.inf)

    owner, name = syntax.member(subject.source, node)
    if owner is None:
        return None

    if node.type == "member_expression":
        return (
            Quantity(key, "length", 0, math.inf, is_sure="?." not in key)
            if name == "length"
            else None
        )

    # A getter with arguments is a function of the author.
    if not name.startswith("get") or syntax.arguments(node):
        return None

    return _part_of_date(subject, key, owner, name.removeprefix("get").removeprefix("UTC"))


def _part_of_date(subject: Subject, key: str, date: Node, part: str) -> Quantity | None:
    """Return the quantity of `date.getMonth()` for the part Month. Return None for a part that is
    not known."""
    date_key = subject.key(date)
    is_now = subject.text(subject.value(date)) == "newDate()"
    if part == "FullYear" and is_now:
        in_the_last_zone = subject.now - timedelta(days=1)
        return Quantity(key, part, in_the_last_zone.year, math.inf, date_key=date_key)
    if part not in _GETTERS:
        return None
    least, most = _GETTERS[part]
    return Quantity(key, part, least, most, date_key=date_key, is_sure=is_now)


def _most_matches(subject: Subject, node: Node) -> float:
    """Return the most matches: keys times messages; infinite if either number is not known."""
    arguments = [bare(argument) for argument in syntax.arguments(node)]
    if len(arguments) < 2 or _has_spread(arguments):
        return math.inf
    keys = subject.value(arguments[1])
    depth = number_of(subject.source, arguments[3]) if len(arguments) > 3 else USUAL_DEPTH
    if keys.type != "array" or depth is None or depth < 1:
        return math.inf
    items = [item for item in keys.named_children if item.type != "comment"]
    return math.inf if _has_spread(items) else len(items) * int(depth)


def _has_spread(nodes: Iterable[Node]) -> bool:
    return any(node.type == "spread_element" for node in nodes)


# --- comparisons that are joined --------------------------------------------------------------------------------------


@frozen
class _Operand:
    """An operand of `&&` or `||` that compares a known quantity with a number."""

    node: Node
    comparison: NumericComparison

    @property
    def quantity(self) -> Quantity:
        return self.comparison.quantity


def is_in_chain(node: Node, operator: str) -> bool:
    """Tell whether it is the left part of a longer chain of the same operator."""
    operand = syntax.with_parentheses(node)
    parent = operand.parent
    return (
        parent is not None
        and operator_of(parent) == operator
        and parent.child_by_field_name("left") == operand
    )


def _together(subject: Subject, operator: str, nodes: Sequence[Node]) -> Iterator[LintFinding]:
    """Find comparisons that exclude each other, or of which one or the other always holds."""
    operands: list[_Operand] = []
    for node in nodes:
        comparison = numeric_comparison(subject, bare(node))
        if comparison is not None:
            operands.append(_Operand(node, comparison))
    if operator == "||":
        yield from _always_unlike_one(operands)
    elif not any(
        operand.comparison.verdict() is False for operand in operands
    ):  # _finding_of_comparison reports such
        yield from _never_together(operands)


def _always_unlike_one(operands: Sequence[_Operand]) -> Iterator[LintFinding]:
    """Find `n !== 1 || n === 2`: n always differs from 1 or from 2."""
    unequal = [
        operand.comparison for operand in operands if operand.comparison.operator in ("!==", "!=")
    ]
    for operand in operands:
        for comparison in unequal:
            is_same_quantity = comparison.quantity.key == operand.quantity.key
            if is_same_quantity and comparison.number != operand.comparison.number:
                yield at(
                    "always-true",
                    operand.node,
                    "always true: it is always unlike one of the two",
                )
                return


def _never_together(operands: Sequence[_Operand]) -> Iterator[LintFinding]:
    """Find the first operand that excludes those before it, by the bounds of what they compare. If
    there is none, find a day that its month does not have."""
    bounds_by_key: dict[str, Bounds] = {}
    for operand in operands:
        quantity = operand.quantity
        before = bounds_by_key.get(quantity.key, Bounds(quantity.least, quantity.most))
        after = operand.comparison.bounds().within(before)
        if after.is_empty:
            yield at(
                "never-true",
                operand.node,
                "never true together with the condition before it",
            )
            return
        bounds_by_key[quantity.key] = after
    yield from _calendar(operands, bounds_by_key)


def _calendar(
    operands: Sequence[_Operand], bounds_by_key: Mapping[str, Bounds]
) -> Iterator[LintFinding]:
    """Find the first day that its month does not have, where operands compare month and day of the
    same date and only one month is left."""
    days = [operand for operand in operands if operand.quantity.kind == "Date"]
    for operand in operands:
        month = operand.quantity
        bounds = bounds_by_key[month.key]
        if month.kind != "Month" or bounds.low != bounds.high:
            continue
        number = int(bounds.low - month.shift)
        for day in days:
            first_day = bounds_by_key[day.quantity.key].low - day.quantity.shift
            if day.quantity.date_key == month.date_key and first_day > MONTH_DAYS[number]:
                yield no_such_day(day.node, number)
                return
