"""Rules about truth: always or never true, unreachable, without effect, `=` for `===`, dates that never come. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Literal

from sandbox.workbench.javascript import syntax
from sandbox.workbench.javascript.syntax import (
    COMPARISONS,
    FUNCTIONS,
    KEY_FUNCTIONS,
    LOGICAL,
    Source,
    bare,
    operator_of,
    sides,
)
from sandbox.workbench.lint.dates import DAYS, MONTH_NAMES
from sandbox.workbench.lint.finding import Edit, Finding, Subject, at
from sandbox.workbench.lint.ranges import Comparison, Reader
from sandbox.workbench.lint.truths import chain, constant, literal, types

if TYPE_CHECKING:
    from tree_sitter import Node

Role = Literal["verdict", "condition"]
_NATURE = {
    "length": "a length is 0 or more",
    "place": "it gives a place, or -1 where there is none",
    "all": "match_keys_all gives true or false, no number of matches",
}
_FROM_ZERO = {
    "Month": "; January is 0",
    "Day": "; Sunday is 0",
    "Hours": "; midnight is 0",
}


def conditions(subject: Subject) -> Iterator[Finding]:
    """All rules of this file."""
    source = subject.source
    yield from _Conditions(subject, Reader(source, subject.now.year, subject.named)).all()
    yield from _no_value(source)
    yield from _unreachable_statements(source)
    yield from _unused(source)


class _Conditions:
    """Looks at every expression once: first where its truth decides, then where it is a value."""

    def __init__(self, subject: Subject, reader: Reader) -> None:
        self._subject = subject
        self._source = subject.source
        self._reader = reader
        self._seen: set[int] = set()

    def all(self) -> Iterator[Finding]:
        top = syntax.decisions(self._source)
        for one in top:
            # `return true` and `if ... else false` are ordinary; a trigger that is nothing but `true` is worth a word.
            if one.role in ("verdict", "return") and not (_is_plain(one.node) and len(top) > 1):
                yield from self._decision(one.node, "verdict")
        for node in syntax.walk(self._source.root):
            for root, role in self._roots(node):
                yield from self._decision(root, role)
            if node.id not in self._seen and (operator_of(node) in LOGICAL or operator_of(node) in COMPARISONS):
                yield from self._value(node)

    def _roots(self, node: Node) -> Iterator[tuple[Node, Role]]:
        """The expressions below a node whose truth decides."""
        condition = node.child_by_field_name("condition")
        if node.type in ("if_statement", "ternary_expression") and condition is not None:
            yield condition, "condition"
        elif node.type in ("while_statement", "do_statement", "for_statement") and condition is not None:
            inside = bare(condition.named_children[0] if condition.type == "expression_statement" else condition)
            if not _is_plain(inside):
                yield inside, "condition"
        elif operator_of(node) == "!" and (argument := node.child_by_field_name("argument")) is not None:
            if argument.id not in self._seen and operator_of(bare(argument)) != "!" and not _is_plain(argument):
                yield argument, "verdict"
        elif syntax.is_predicate(self._source, node) and (body := node.child_by_field_name("body")) is not None:
            found = [body] if body.type != "statement_block" else []
            found += [
                one.named_children[0]
                for one in syntax.own(body)
                if one.type == "return_statement" and one.named_children
            ]
            yield from ((one, "condition") for one in found if not _is_plain(one))

    def _decision(self, whole: Node, role: Role) -> Iterator[Finding]:
        pending = [whole]
        while pending:
            node = bare(pending.pop())
            if node.id in self._seen:
                continue
            self._seen.add(node.id)
            operator = operator_of(node)
            if node.type == "assignment_expression":
                if role == "condition" or node.id != bare(whole).id or _is_into_context(self._source, node):
                    yield _assignment(node, role)
                continue
            if operator in ("&&", "||"):
                yield from self._chain(node, operator, pending)
                continue
            if node.type == "ternary_expression":
                pending += (
                    part
                    for name in ("alternative", "consequence", "condition")
                    if (part := node.child_by_field_name(name)) is not None
                    and (name == "condition" or not _is_plain(part))
                )
                continue
            if operator == "!" and (argument := node.child_by_field_name("argument")) is not None:
                known = literal(self._source, bare(argument))
                if known is not None:
                    word = str(not known[0]).lower()
                    yield at("never-true" if known[0] else "always-true", node, f"always {word}")
                    self._seen.add(bare(argument).id)
                else:
                    pending.append(argument)
                continue
            yield from self._leaf(node)

    def _leaf(self, node: Node) -> Iterator[Finding]:
        self._seen.add(node.id)
        if (known := literal(self._source, node)) is not None:
            if known[0] or not _is_fallback(node):
                yield at("always-true" if known[0] else "never-true", node, known[1])
            return
        one = self._reader.comparison(node)
        if one is not None and one.verdict() is not None and not _is_of_types(one):
            yield from _comparison(node, one)
        elif (told := types(self._source, self._reader, node)) is not None:
            yield at("always-true" if told[0] else "never-true", node, told[1])

    def _chain(self, node: Node, operator: str, pending: list[Node]) -> Iterator[Finding]:
        """Findings about operands together; those that are reached are left to be looked at one by one."""
        operands = chain(node, operator)
        for inner in _same(node, operator):
            self._seen.add(inner.id)
        for number, operand in enumerate(operands[:-1]):
            known = constant(self._source, self._reader, operand)
            if known is not None and known[0] is (operator == "||"):
                rest = operands[number + 1]
                yield at("unreachable", rest, f"never reached: what stands before `{operator}` decides")
                self._seen |= {one.id for later in operands[number + 1 :] for one in syntax.walk(later)}
                operands = operands[: number + 1]
                break
        yield from _chain_findings(self._reader, operator, operands)
        pending.extend(reversed(operands))

    def _value(self, node: Node) -> Iterator[Finding]:
        """Where an expression is a value, as in `const name = given || 'Ann'`, what it may end with may be anything."""
        if operator_of(node) in COMPARISONS:
            yield from self._leaf(node)
        elif operator_of(node) != "??":
            self._seen |= {one.id for one in _endings(node) if literal(self._source, one) is not None}
            yield from self._decision(node, "verdict")


def _endings(node: Node) -> Iterator[Node]:
    """The operands that an expression may have as its value, without the `false` of `... && false`."""
    pending = [node]
    while pending:
        one = bare(pending.pop())
        if operator_of(one) in LOGICAL and (both := sides(one)):
            if operator_of(one) != "&&" or bare(both[1]).type != "false":
                pending.append(both[1])
        elif one.type == "ternary_expression":
            pending += (part for part in map(one.child_by_field_name, ("consequence", "alternative")) if part)
        else:
            yield one


def _is_plain(node: Node) -> bool:
    return bare(node).type in ("true", "false", "number", "null", "undefined")


def _is_of_types(one: Comparison) -> bool:
    """A truth value compared strictly: what is wrong is its type."""
    return one.quantity.what == "all" and one.operator in ("===", "!==")


def _same(node: Node, operator: str) -> Iterator[Node]:
    """The expressions that make up a chain, without its operands."""
    while operator_of(bare(node)) == operator and (both := sides(bare(node))):
        yield node
        yield bare(node)
        node = both[0]


def _is_into_context(source: Source, node: Node) -> bool:
    """A trigger has a copy of the context that nobody sees after it: to write into it last has no sense."""
    left = node.child_by_field_name("left")
    return left is not None and left.type != "identifier" and source.of(left).startswith(("context.", "args."))


def _assignment(node: Node, role: Role) -> Finding:
    """Fixed where a condition is sure to be the same for ever; elsewhere somebody may want the value."""
    left, right = node.child_by_field_name("left"), node.child_by_field_name("right")
    sign = next((child for child in node.children if child.type == "="), None)
    edits: tuple[Edit, ...] = ()
    literals = ("number", "string", "true", "false", "null")
    names = ("identifier", "member_expression", "subscript_expression")
    if left is not None and left.type in names and right is not None and bare(right).type in literals:
        edits = (Edit(sign.start_byte, sign.end_byte, "==="),) if sign is not None and role == "condition" else ()
    return at("assignment-in-condition", node, "`=` gives a value; to compare write `===`", *edits)


def _chain_findings(reader: Reader, operator: str, operands: Sequence[Node]) -> Iterator[Finding]:
    known = [(node, one) for node in operands if (one := reader.comparison(bare(node))) is not None]
    if operator == "||":
        unequal = [one for _, one in known if one.operator in ("!==", "!=")]
        for node, one in known:
            if any(o.quantity.key == one.quantity.key and o.number != one.number for o in unequal):
                yield at("always-true", node, "always true: it is always unlike one of the two")
                return
        return
    if any(one.verdict() is False for _, one in known):
        return  # said where it stands
    known = [(node, one) for node, one in known if math.isfinite(one.number)]
    bounds: dict[str, tuple[float, float]] = {}
    for node, one in known:
        low, high = one.bounds()
        before = bounds.get(one.quantity.key, (one.quantity.low, one.quantity.high))
        after = (max(before[0], low), min(before[1], high))
        if after[0] > after[1]:
            yield at("never-true", node, "never true together with what stands before it")
            return
        bounds[one.quantity.key] = after
    yield from _calendar(known, bounds)


def _calendar(known: Sequence[tuple[Node, Comparison]], bounds: dict[str, tuple[float, float]]) -> Iterator[Finding]:
    """A day that its month does not have."""
    for _, month in known:
        low, high = bounds[month.quantity.key]
        if month.quantity.what != "Month" or low != high:
            continue
        number = int(low - month.quantity.shift)
        for node, day in known:
            if day.quantity.what != "Date" or day.quantity.of != month.quantity.of:
                continue
            if bounds[day.quantity.key][0] - day.quantity.shift > DAYS[number]:
                yield at("date-never-comes", node, f"{MONTH_NAMES[number]} has {DAYS[number]} days at most")
                return


def _comparison(node: Node, one: Comparison) -> Iterator[Finding]:
    verdict, quantity = one.verdict(), one.quantity
    if verdict is None:
        return
    is_date = quantity.what not in (*_NATURE, "keys") and math.isfinite(one.number)
    if math.isnan(one.number):
        nature = "NaN equals nothing, and is neither less nor greater"
    elif quantity.what == "FullYear":
        nature = f"the year is {quantity.low:g} or later"
    elif quantity.what == "Year":
        nature = "getYear() gives the year less 1900; ask getFullYear()"
    elif quantity.what == "keys":
        most = f"at most {quantity.high:g}, one for each key in each of the messages" * math.isfinite(quantity.high)
        nature = f"match_keys gives 0 or more{', ' if most else ''}{most}"
    elif quantity.what in _NATURE:
        nature = _NATURE[quantity.what]
    else:
        counted = f" {quantity.shift:+g}" if quantity.shift else ""
        hint = _FROM_ZERO.get(quantity.what, "") if not quantity.shift else ""
        nature = f"get{quantity.what}(){counted} gives {quantity.low:g} to {quantity.high:g}{hint}"
    if verdict:
        yield at("always-true", node, f"always true: {nature}")
    else:
        yield at("date-never-comes" if is_date else "never-true", node, f"never true: {nature}")


def _is_fallback(node: Node) -> bool:
    """The `false` of `... || false`, which people write to be sure of a boolean."""
    parent = node.parent
    while parent is not None and parent.type == "parenthesized_expression":
        parent = parent.parent
    both = sides(parent) if parent is not None else None
    if parent is None or both is None or bare(both[1]).id != node.id:
        return False
    return operator_of(parent) in ("||", "??")


def _no_value(source: Source) -> Iterator[Finding]:
    statements = [one for one in source.root.named_children if one.type not in ("comment", "empty_statement")]
    if not statements:
        yield at("never-true", source.root, "never true: there is no condition here")
    elif not any(syntax.has_value(one) for one in statements):
        said = "never true: a declaration gives no value; end with the condition itself, or `return` it"
        yield at("never-true", statements[-1], said)


def _unreachable_statements(source: Source) -> Iterator[Finding]:
    ended = False
    for node in source.root.named_children:
        if ended and node.type not in ("comment", "empty_statement", "function_declaration"):
            yield at("unreachable", node, "never reached: `return` or `throw` stands before it")
            return
        ended = ended or node.type in ("return_statement", "throw_statement")


def _unused(source: Source) -> Iterator[Finding]:
    statements = [one for one in source.root.named_children if one.type not in ("comment", "empty_statement")]
    last = next((one for one in reversed(statements) if one.type.endswith("statement")), None)
    for node in statements:
        inside = node.named_children
        if node.type != "expression_statement" or (last is not None and node.id == last.id) or not inside:
            continue
        if _is_condition(inside[0]) and _is_harmless(inside[0]):
            yield at("without-effect", node, "its value is not used; join it to the last line with `||` or `&&`")


def _is_condition(node: Node) -> bool:
    node = bare(node)
    operator = operator_of(node)
    return operator in COMPARISONS or operator in LOGICAL or operator == "!" or syntax.called(node) in KEY_FUNCTIONS


def _is_harmless(node: Node) -> bool:
    """Whether it can do nothing but give a value, as far as one can see."""
    for one in syntax.walk(node):
        if one.type in ("assignment_expression", "augmented_assignment_expression", "update_expression"):
            return False
        if one.type == "call_expression" and syntax.called(one) not in KEY_FUNCTIONS:
            name = one.child_by_field_name("function")
            said = (name.text or b"").decode("utf-8", "replace") if name is not None else ""
            if not said.rpartition(".")[2].startswith(("get", "includes", "test", "has", "startsWith", "endsWith")):
                return False
        if one.type in FUNCTIONS or one.type == "await_expression":
            return False
    return True
