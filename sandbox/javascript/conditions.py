"""Rules about conditions that are always or never true, because of keys, dates, lengths or constants. Pure.

Sources: ECMA-262 section 21.4 (values of the getters of Date), docs/reference/trigger-api.md (match_keys).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from typing import NamedTuple

from sandbox.javascript import syntax
from sandbox.javascript.dates import DAYS, FLIPPED, decided, no_such_day
from sandbox.javascript.syntax import LintFinding, Node, Source, Subject, at, bare, number_of, operator_of, sides
from sandbox.locale import _

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
    "length": _("a length is 0 or more"),
    "all": _("match_keys_all gives true or false, not a number of matches"),
}
_FROM_ZERO = {"Month": _("January is 0"), "Day": _("Sunday is 0"), "Hours": _("midnight is 0")}
_TRUE = {
    "array": _("a list is always true; ask for its length"),
    "object": _("an object is always true"),
    "arrow_function": _("a function is always true; call it, or leave out `() =>`"),
    "function_expression": _("a function is always true; call it"),
    "regex": _("a regular expression alone is always true; ask `/.../.test(text)` or give it to match_keys"),
    "new_expression": _("a new object is always true"),
    "string": _("a text alone is always true; give it to match_keys"),
}
_CHOICES = ("if_statement", "ternary_expression")
_MOST_SUMS = 8
"""How many sums are followed; `getMonth() + 1` is one."""


class _Quantity(NamedTuple):
    """A whole number that a trigger compares. `key`: equal for equal quantities. `what`: Month, Date, FullYear and so
    on, keys, all or length. `of`: the date it belongs to. `low` and `high`: its least and greatest value. `shift`: what
    is added to the value of the getter. `sure`: it is always a number."""

    key: str
    what: str
    low: float
    high: float
    shift: float = 0
    of: str = ""
    sure: bool = True


class _Comparison(NamedTuple):
    """`quantity operator number`."""

    quantity: _Quantity
    operator: str
    number: float

    def verdict(self) -> bool | None:
        """True: it is always true. False: it is never true. None: it depends."""
        least, most = self.quantity.low, self.quantity.high
        if self.operator in ("!==", "!="):
            return None if least <= self.number <= most else True
        low, high = self.bounds()
        if max(low, least) > min(high, most):
            return False
        return True if low <= least and most <= high and self.quantity.sure else None

    def bounds(self) -> tuple[float, float]:
        """The bounds of the whole numbers for which it is true; no bounds for an inequality."""
        above, below = math.ceil(self.number), math.floor(self.number)
        return {
            "===": (above, below),  # none for a fraction
            "==": (above, below),
            "<": (-math.inf, above - 1),
            "<=": (-math.inf, below),
            ">": (below + 1, math.inf),
            ">=": (above, math.inf),
        }.get(self.operator, (-math.inf, math.inf))


def conditions(subject: Subject) -> Iterator[LintFinding]:
    source = subject.source
    yield from _no_value(source)
    verdicts = {node.id for node, role in syntax.decisions(source) if role in ("verdict", "return")}
    for node in syntax.walk(source.root):
        operator, both = operator_of(node), sides(node)
        if operator in syntax.COMPARISONS and both is not None:
            yield from _compared(subject, node, bare(both[0]), bare(both[1]))
        elif operator in ("&&", "||") and not _is_in_chain(node, operator):
            yield from _together(subject, operator, syntax.chain(node, operator))
        elif (why := _always(source, node)) and _decides(node, verdicts):
            yield at("always-true", node, why)


def _no_value(source: Source) -> Iterator[LintFinding]:
    statements = [one for one in source.root.named_children if one.type not in ("comment", "empty_statement")]
    if not statements:
        yield at("never-true", source.root, _("never true: the trigger has no condition"))
    elif not any(syntax.has_value(one) for one in statements):
        said = _("never true: a declaration gives no value; end with the condition itself, or `return` it")
        yield at("never-true", statements[-1], said)


# --- what is always true ----------------------------------------------------------------------------------------------


def _always(source: Source, node: Node) -> str | None:
    """Why the expression is always true, whatever is said. Plain `true` is meant so."""
    text = source.of(node)
    if node.type == "identifier" and text in syntax.KEY_FUNCTIONS:
        return _("{text} is not called: a function is always true", text)
    return None if node.type == "string" and len(text) == 2 else _TRUE.get(node.type)


def _decides(node: Node, verdicts: set[int]) -> bool:
    """Whether its truth decides: it is the verdict, a condition, or an operand before another one."""
    while (node := _outside(node)).id not in verdicts:
        parent = node.parent
        if parent is None:
            return False
        if parent.type in _CHOICES:
            return parent.child_by_field_name("condition") == node
        if operator_of(parent) not in ("&&", "||", "!"):
            return False
        if (both := sides(parent)) is None or both[0] == node:
            return True
        node = parent
    return True


def _outside(node: Node) -> Node:
    """The node with the parentheses around it."""
    while node.parent is not None and node.parent.type == "parenthesized_expression":
        node = node.parent
    return node


# --- comparisons with numbers -----------------------------------------------------------------------------------------


def _compared(subject: Subject, node: Node, left: Node, right: Node) -> Iterator[LintFinding]:
    operator = operator_of(node)
    for one, other in ((left, right), (right, left)):
        quantity = _quantity(subject, one)
        if quantity is None:
            continue
        kind = "boolean" if quantity.what == "all" else "number"
        literal = {"true": "boolean", "false": "boolean"}.get(other.type, other.type)
        if operator in ("===", "!==") and literal in ("number", "string", "boolean", "null") and literal != kind:
            said = _(
                "{code} is {type}, so it is never `===` to another type",
                " ".join(subject.source.of(one).split())[:60],
                _("a boolean") if kind == "boolean" else _("a number"),
            )
            always = operator == "!=="
            yield at("always-true" if always else "never-true", node, decided(always=always, why=said))
            return
    comparison = _comparison(subject, node)
    verdict = comparison.verdict() if comparison is not None else None
    if comparison is not None and verdict is not None:
        quantity = comparison.quantity
        is_date = quantity.what not in ("length", "all", "keys")
        rule = "always-true" if verdict else "date-never-comes" if is_date else "never-true"
        yield at(rule, node, decided(always=verdict, why=_nature(quantity)))


def _nature(quantity: _Quantity) -> str:
    if quantity.what == "FullYear":
        return _("the year is {low:g} or later", quantity.low)
    if quantity.what == "keys":
        most = _(", at most {high:g}, one for each key in each of the messages", quantity.high)
        return _("match_keys gives 0 or more{most}", most if math.isfinite(quantity.high) else "")
    if quantity.what in _NATURE:
        return _NATURE[quantity.what]
    counted = f" {quantity.shift:+g}" if quantity.shift else ""
    said = _("get{what}(){shift} gives {low:g} to {high:g}", quantity.what, counted, quantity.low, quantity.high)
    hint = _FROM_ZERO.get(quantity.what) if not quantity.shift else None
    return _("{said}; {hint}", said, hint) if hint else said


def _comparison(subject: Subject, node: Node) -> _Comparison | None:
    """A comparison of a known quantity with a number literal on either side."""
    operator, both = operator_of(node), sides(node)
    if operator not in syntax.COMPARISONS or both is None:
        return None
    left, right = bare(both[0]), bare(both[1])
    number = number_of(subject.source, right)
    if number is None:
        left, number, operator = right, number_of(subject.source, left), FLIPPED.get(operator, operator)
    quantity = _quantity(subject, left) if number is not None else None
    return _Comparison(quantity, operator, number) if quantity and number is not None else None


def _quantity(subject: Subject, node: Node) -> _Quantity | None:
    """The bounded whole number of an expression, None if it is not known to be one."""
    shift: float = 0
    for _sum in range(_MOST_SUMS):
        node = subject.value(node)
        both = sides(node) if operator_of(node) in ("+", "-") else None
        number = number_of(subject.source, bare(both[1])) if both else None
        if both is None or number is None:
            break
        node, shift = both[0], shift + (number if operator_of(node) == "+" else -number)
    found = _unshifted(subject, node)
    if found is None or not shift:
        return found
    return found._replace(key=f"{found.key}{shift:+g}", low=found.low + shift, high=found.high + shift, shift=shift)


def _unshifted(subject: Subject, node: Node) -> _Quantity | None:
    key = subject.key(node)
    match syntax.called(node):
        case "match_keys":
            return _Quantity(key, "keys", 0, _most(subject, node))
        case "match_keys_all":
            return _Quantity(key, "all", 0, 1)
    owner, method = syntax.member(subject.source, node)
    if owner is None:
        return None
    if node.type == "member_expression":
        return _Quantity(key, "length", 0, math.inf, sure="?." not in key) if method == "length" else None
    if not method.startswith("get") or syntax.arguments(node):
        return None
    what = method.removeprefix("get").removeprefix("UTC")
    of = subject.key(owner)
    is_now = subject.text(subject.value(owner)) == "newDate()"
    if what == "FullYear" and is_now:
        return _Quantity(key, what, (subject.now - timedelta(days=1)).year, math.inf, of=of)  # in the last time zone
    return _Quantity(key, what, *_GETTERS[what], of=of, sure=is_now) if what in _GETTERS else None


def _most(subject: Subject, node: Node) -> float:
    """The most matches: keys times messages; infinite if one of the two is not known."""
    given = [bare(one) for one in syntax.arguments(node)]
    if len(given) < 2 or any(one.type == "spread_element" for one in given):
        return math.inf
    keys = subject.value(given[1])
    depth = number_of(subject.source, given[3]) if len(given) > 3 else 4
    if keys.type != "array" or depth is None or depth < 1:
        return math.inf
    items = [one for one in keys.named_children if one.type != "comment"]
    return math.inf if any(one.type == "spread_element" for one in items) else len(items) * int(depth)


# --- comparisons that are joined --------------------------------------------------------------------------------------


def _is_in_chain(node: Node, operator: str) -> bool:
    """Whether it is the left part of a longer chain of the same operator."""
    outside = _outside(node)
    parent = outside.parent
    return parent is not None and operator_of(parent) == operator and parent.child_by_field_name("left") == outside


def _together(subject: Subject, operator: str, operands: Sequence[Node]) -> Iterator[LintFinding]:
    """Findings about comparisons that exclude each other, or of which one is always true."""
    known = [(node, one) for node in operands if (one := _comparison(subject, bare(node))) is not None]
    if operator == "||":
        unequal = [one for _, one in known if one.operator in ("!==", "!=")]
        for node, one in known:
            if any(other.quantity.key == one.quantity.key and other.number != one.number for other in unequal):
                yield at("always-true", node, _("always true: it is always unlike one of the two"))
                return
        return
    if any(one.verdict() is False for _, one in known):
        return  # _compared reports it
    bounds: dict[str, tuple[float, float]] = {}
    for node, one in known:
        low, high = one.bounds()
        before = bounds.get(one.quantity.key, (one.quantity.low, one.quantity.high))
        after = (max(before[0], low), min(before[1], high))
        if after[0] > after[1]:
            yield at("never-true", node, _("never true together with the condition before it"))
            return
        bounds[one.quantity.key] = after
    yield from _calendar(known, bounds)


def _calendar(
    known: Sequence[tuple[Node, _Comparison]], bounds: dict[str, tuple[float, float]]
) -> Iterator[LintFinding]:
    """Findings about a day that its month does not have."""
    for _node, month in known:
        low, high = bounds[month.quantity.key]
        if month.quantity.what != "Month" or low != high:
            continue
        number = int(low - month.quantity.shift)
        for node, day in known:
            if day.quantity.what != "Date" or day.quantity.of != month.quantity.of:
                continue
            if bounds[day.quantity.key][0] - day.quantity.shift > DAYS[number]:
                yield no_such_day(node, number)
                return
