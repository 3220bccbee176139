"""Which whole numbers an expression can have, and what a comparison with a number means then. Pure.

Sources: ECMA-262 section 21.4 (what the getters of Date give), docs/reference/trigger-api.md (match_keys).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sandbox.workbench.javascript import syntax
from sandbox.workbench.javascript.syntax import Source, bare, operator_of, sides

if TYPE_CHECKING:
    from tree_sitter import Node

GETTERS: Mapping[str, tuple[float, float]] = {
    "Month": (0, 11),
    "Date": (1, 31),
    "Day": (0, 6),
    "Hours": (0, 23),
    "Minutes": (0, 59),
    "Seconds": (0, 59),
    "Milliseconds": (0, 999),
}
_LAST_YEAR = 2900
"""No trigger is meant for later; getYear() gives 1900 less than the year."""
_PLACES = frozenset(("indexOf", "lastIndexOf", "findIndex", "findLastIndex", "search"))
_FLIPPED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}


@dataclass(frozen=True, slots=True)
class Quantity:
    """A number that a trigger compares. `key`: equal for equal quantities.

    `what`: Month, Date, FullYear and so on, keys or length. `of`: the date it is of. `low` and `high`: the least and
    the greatest it can be. `shift`: what was added to the getter's own number. `sure`: it is a number in any case.
    """

    key: str
    what: str
    low: float
    high: float
    shift: float = 0
    of: str = ""
    sure: bool = True


@dataclass(frozen=True, slots=True)
class Comparison:
    """`quantity operator number`."""

    quantity: Quantity
    operator: str
    number: float

    def verdict(self) -> bool | None:
        """True: it always holds. False: it never does. None: it depends."""
        if math.isnan(self.number):
            return self.operator in ("!==", "!=")
        low, high = self.bounds()
        inside = max(low, self.quantity.low), min(high, self.quantity.high)
        if self.operator in ("!==", "!="):
            return True if not self.quantity.low <= self.number <= self.quantity.high else None
        if inside[0] > inside[1] or (self.operator in ("===", "==") and self.number != math.floor(self.number)):
            return False
        return True if inside == (self.quantity.low, self.quantity.high) and self.quantity.sure else None

    def bounds(self) -> tuple[float, float]:
        """The whole numbers that it lets through; all for an inequality."""
        number = self.number
        if not math.isfinite(number):
            return -math.inf, math.inf
        match self.operator:
            case "===" | "==":
                return number, number
            case "<":
                return -math.inf, math.ceil(number) - 1
            case "<=":
                return -math.inf, math.floor(number)
            case ">":
                return math.floor(number) + 1, math.inf
            case ">=":
                return math.ceil(number), math.inf
            case _:
                return -math.inf, math.inf


class Reader:
    """Reads comparisons. Knows the values of top-level constants, and the year before which nothing comes."""

    def __init__(self, source: Source, year: int, named: Mapping[str, Node]) -> None:
        self._source = source
        self._year = year
        self._constants = named

    def comparison(self, node: Node) -> Comparison | None:
        """A comparison of a known quantity with a number literal, whichever side it stands on."""
        operator, both = operator_of(node), sides(node)
        if operator not in syntax.COMPARISONS or both is None:
            return None
        left, right = bare(both[0]), bare(both[1])
        number = number_of(self._source, right)
        if number is None:
            left, number, operator = right, number_of(self._source, left), _FLIPPED.get(operator, operator)
        quantity = self.quantity(left) if number is not None else None
        return Comparison(quantity, operator, number) if quantity and number is not None else None

    def quantity(self, node: Node, depth: int = 0) -> Quantity | None:
        """None for what is not known to be a bounded whole number."""
        node = bare(node)
        if depth > 8:
            return None
        if node.type == "identifier" and (value := self._constants.get(self._source.of(node))) is not None:
            return self.quantity(value, depth + 1)
        both = sides(node) if operator_of(node) in ("+", "-") else None
        if both and (number := number_of(self._source, bare(both[1]))) is not None:
            inner = self.quantity(both[0], depth + 1)
            by = number if operator_of(node) == "+" else -number
            return inner and Quantity(
                f"{inner.key}{by:+g}",
                inner.what,
                inner.low + by,
                inner.high + by,
                inner.shift + by,
                inner.of,
                inner.sure,
            )
        if node.type == "member_expression":
            name = node.child_by_field_name("property")
            if name is not None and self._source.of(name) == "length":
                key = self._key(node)
                return Quantity(key, "length", 0, math.inf, sure="?." not in key)
            return None
        match syntax.called(node):
            case "match_keys":
                return Quantity(self._key(node), "keys", 0, self._most(node))
            case "match_keys_all":
                return Quantity(self._key(node), "all", 0, 1)
            case _:
                return self._method(node)

    def _most(self, node: Node) -> float:
        """As many as there are keys, in each message that counts; infinite where one of the two is not known."""
        given = [bare(one) for one in syntax.arguments(node)]
        if len(given) < 2 or any(one.type == "spread_element" for one in given):
            return math.inf
        keys = self._constants.get(self._source.of(given[1]), given[1])
        depth = number_of(self._source, given[3]) if len(given) > 3 else 4
        if keys.type != "array" or depth is None or depth < 1:
            return math.inf
        items = [one for one in keys.named_children if one.type != "comment"]
        return math.inf if any(one.type == "spread_element" for one in items) else len(items) * int(depth)

    def _method(self, node: Node) -> Quantity | None:
        """Of getters of dates, and of what gives a place or -1."""
        function = node.child_by_field_name("function") if node.type == "call_expression" else None
        if function is None or function.type != "member_expression":
            return None
        owner, name = function.child_by_field_name("object"), function.child_by_field_name("property")
        if owner is None or name is None:
            return None
        method, key = self._source.of(name), self._key(node)
        if method in _PLACES and "?." not in key:
            return Quantity(key, "place", -1, math.inf)
        what = method.removeprefix("get").removeprefix("UTC")
        if not method.startswith("get") or syntax.arguments(node):
            return None
        of, is_now = self._key(owner), self._is_now(owner)
        if what == "FullYear" and is_now:
            return Quantity(key, what, self._year, math.inf, 0, of)
        if what == "Year" and is_now:
            return Quantity(key, what, self._year - 1900, _LAST_YEAR - 1900, 0, of)
        if what not in GETTERS:
            return None
        low, high = GETTERS[what]
        return Quantity(key, what, low, high, 0, of, sure=is_now)

    def _is_now(self, node: Node) -> bool:
        node = bare(node)
        if node.type == "identifier":
            value = self._constants.get(self._source.of(node))
            return value is not None and self._is_now(value) if value is not node else False
        return "".join(self._source.of(node).split()) == "newDate()"

    def _key(self, node: Node) -> str:
        """Equal for expressions that mean the same: constants are followed, blanks do not count."""
        node = bare(node)
        value = self._constants.get(self._source.of(node)) if node.type == "identifier" else None
        if value is not None and value.type in ("new_expression", "call_expression"):
            return "".join(self._source.of(value).split())
        text = "".join(self._source.of(node).split())
        head, dot, rest = text.partition(".")
        owner = self._constants.get(head)
        if dot and owner is not None and owner.type == "new_expression":
            return f"{''.join(self._source.of(owner).split())}.{rest}"
        return text


def number_of(source: Source, node: Node) -> float | None:
    """The value of a number literal, with a sign or without."""
    negative = operator_of(node) == "-" and node.type == "unary_expression"
    if negative and (argument := node.child_by_field_name("argument")) is not None:
        inner = number_of(source, argument)
        return None if inner is None else -inner
    if (node.type == "identifier" and source.of(node) == "NaN") or source.of(node) == "Number.NaN":
        return math.nan
    if node.type != "number":
        return None
    try:
        text = source.of(node).replace("_", "").lower()
        return float(int(text, 0)) if text.startswith(("0x", "0b", "0o")) else float(text)
    except ValueError:
        return None


_BINDERS = frozenset(
    (
        "formal_parameters",
        "array_pattern",
        "rest_pattern",
        "assignment_expression",
        "augmented_assignment_expression",
        "update_expression",
        "assignment_pattern",
        "object_assignment_pattern",
        "pair_pattern",
        "catch_clause",
        "for_in_statement",
        "arrow_function",
        "function_declaration",
        "generator_function_declaration",
        "class_declaration",
        "variable_declarator",
    )
)


def constants(source: Source) -> dict[str, Node]:
    """The values of names that are declared once, at the top level, and never get another value."""
    found: dict[str, Node] = {}
    for node in source.root.named_children:
        if node.type not in ("lexical_declaration", "variable_declaration"):
            continue
        for one in node.named_children:
            name, value = one.child_by_field_name("name"), one.child_by_field_name("value")
            if name is not None and value is not None and name.type == "identifier":
                found[source.of(name)] = bare(value)
    if not found:
        return found
    bound: Counter[str] = Counter()
    for node in syntax.walk(source.root):
        if node.type == "shorthand_property_identifier_pattern" or (node.type == "identifier" and _is_bound(node)):
            bound[source.of(node)] += 1
    return {name: value for name, value in found.items() if bound[name] == 1}


def _is_bound(node: Node) -> bool:
    """Whether the name may get a value here; rather once too often."""
    parent = node.parent
    if parent is None or parent.type not in _BINDERS:
        return False
    if parent.type == "arrow_function":
        return parent.child_by_field_name("parameter") == node
    value = parent.child_by_field_name("value") or parent.child_by_field_name("right")
    return value != node
