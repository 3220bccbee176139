"""Which whole numbers an expression can have, and what a comparison with a number means then. Pure.

Sources: ECMA-262 section 21.4 (what the getters of Date give), docs/reference/trigger-api.md (match_keys).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .. import syntax
from ..syntax import Source, bare, operator_of, sides

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
_FLIPPED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}


@dataclass(frozen=True, slots=True)
class Quantity:
    """A number that a trigger compares. `key`: equal for equal quantities.

    `what`: Month, Date, FullYear and so on, keys or length. `of`: the date it is of. `low` and `high`: the least and
    the greatest it can be. `shift`: what was added to the getter's own number.
    """

    key: str
    what: str
    low: float
    high: float
    shift: float = 0
    of: str = ""


@dataclass(frozen=True, slots=True)
class Comparison:
    """`quantity operator number`."""

    quantity: Quantity
    operator: str
    number: float

    def verdict(self) -> bool | None:
        """True: it always holds. False: it never does. None: it depends."""
        low, high = self.bounds()
        inside = max(low, self.quantity.low), min(high, self.quantity.high)
        if self.operator in ("!==", "!="):
            return True if not self.quantity.low <= self.number <= self.quantity.high else None
        if inside[0] > inside[1] or (self.operator in ("===", "==") and self.number != math.floor(self.number)):
            return False
        return True if inside == (self.quantity.low, self.quantity.high) and self.quantity.low < math.inf else None

    def bounds(self) -> tuple[float, float]:
        """The whole numbers that it lets through; all for an inequality."""
        number = self.number
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

    def __init__(self, source: Source, year: int) -> None:
        self._source = source
        self._year = year
        self._constants = _constants(source)

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
                f"{inner.key}{by:+g}", inner.what, inner.low + by, inner.high + by, inner.shift + by, inner.of
            )
        if node.type == "member_expression":
            name = node.child_by_field_name("property")
            if name is not None and self._source.of(name) == "length":
                return Quantity(self._key(node), "length", 0, math.inf)
            return None
        if syntax.called(node) == "match_keys":
            return Quantity(self._key(node), "keys", 0, math.inf)
        return self._getter(node)

    def _getter(self, node: Node) -> Quantity | None:
        function = node.child_by_field_name("function") if node.type == "call_expression" else None
        if function is None or function.type != "member_expression" or syntax.arguments(node):
            return None
        owner, name = function.child_by_field_name("object"), function.child_by_field_name("property")
        if owner is None or name is None:
            return None
        what = self._source.of(name).removeprefix("get").removeprefix("UTC")
        if not self._source.of(name).startswith("get"):
            return None
        key, of = self._key(node), self._key(owner)
        if what == "FullYear" and self._is_now(owner):
            return Quantity(key, what, self._year, math.inf, 0, of)
        if what not in GETTERS:
            return None
        low, high = GETTERS[what]
        return Quantity(key, what, low, high, 0, of)

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
    if node.type != "number":
        return None
    try:
        text = source.of(node).replace("_", "").lower()
        return float(int(text, 0)) if text.startswith(("0x", "0b", "0o")) else float(text)
    except ValueError:
        return None


def _constants(source: Source) -> dict[str, Node]:
    """The values of `const` names at the top level."""
    found: dict[str, Node] = {}
    for node in source.root.named_children:
        if node.type != "lexical_declaration" or not source.of(node).startswith("const"):
            continue
        for one in node.named_children:
            name, value = one.child_by_field_name("name"), one.child_by_field_name("value")
            if name is not None and value is not None and name.type == "identifier":
                found[source.of(name)] = bare(value)
    return found
