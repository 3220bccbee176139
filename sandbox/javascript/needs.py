"""What a trigger needs, read from its syntax tree. Pure; runs in the worker.

For each part of a trigger two needs are known: what must be there for it to be true, and for it to be false. `A && B`
needs what A needs, and what B needs; either alone will do, so the rarer is kept. `A || B` needs something of both.
Nothing that is understood can fail, write or loop for long on the messages that host/candidates.py lets through. Few
forms are understood, on purpose: a trigger that has anything else has no known need, and V8 decides it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import TypeAlias

from sandbox.javascript.calendar_calls import DAY_FUNCTIONS, most_days
from sandbox.javascript.literal_values import (
    constant_of,
    glue_of,
    plain_number_of,
    text_of,
    whole_of,
)
from sandbox.javascript.need_values import (
    Contents,
    Context,
    Fact,
    LastFiring,
    Messages,
    OneMessage,
    OneWord,
    Participant,
    Participants,
    Primitive,
    Text,
    Usual,
    Value,
    Words,
    compared,
    included,
    sliced,
    usually,
    words_in,
)
from sandbox.javascript.plain_tokens import is_plain
from sandbox.javascript.sought import (
    NotUnderstood,
    both,
    either,
    nearer,
    pattern_need,
    refuse,
    text_need,
    window_of,
)
from sandbox.javascript.spelling import HALF
from sandbox.javascript.syntax import (
    COMPARISONS,
    KEY_FUNCTIONS,
    USUAL_DEPTH,
    Node,
    Source,
    bare,
    chain,
    operator_of,
    parse,
    walk,
    without_comments,
)
from sandbox.prospects import (
    ALWAYS_TRUE,
    FACTS,
    MOST_ATOMS,
    MOST_CHARACTERS,
    NEVER,
    UNKNOWN,
    Constant,
    Need,
    Prospect,
    Window,
)

Join: TypeAlias = Callable[[Need, Need], Need]

_LINE_END = re.compile("[\n\r\u2028\u2029]")
_ROOTS = ("context", "args")
"""The two names of the context."""
_ABSENT: Mapping[str, Constant] = {
    "includes": False,
    "startsWith": False,
    "endsWith": False,
    "indexOf": -1.0,
}
"""What methods of a text give when another text is not in it."""
_UNMATCHED: Mapping[str, Constant] = {"match": None, "search": -1.0}
"""What methods of a text give when an expression does not match."""
_ITEM_NAMES = frozenset(
    ("m", "msg", "message", "x", "e", "k", "kw", "key", "keyword", "w", "word", "t", "item", "s")
)
"""The names of a parameter that are understood: none of them means anything else in the realm."""
_PLAIN_FIELDS = ("role", "name", "timestamp")
_LAST = "context.last_fired"
_NULL_TESTS: Mapping[str, Collection[str]] = {
    "||": (f"!{_LAST}", f"{_LAST}===null", f"{_LAST}==null", f"null==={_LAST}", f"null=={_LAST}"),
    "&&": (
        _LAST,
        f"!!{_LAST}",
        f"{_LAST}!==null",
        f"{_LAST}!=null",
        f"null!=={_LAST}",
        f"null!={_LAST}",
    ),
}
"""Operands after which, before this sign, `context.last_fired` is not null."""


def prospect_of(text: str) -> Prospect:
    """What is known of the trigger before it runs. Never raises."""
    if len(text) > MOST_CHARACTERS or HALF.search(text):
        return UNKNOWN
    return prospect_in(parse(text))


def prospect_in(source: Source) -> Prospect:
    """What is known of the trigger with this syntax tree: that it is always true, what it needs to be true, or nothing.
    Nothing is known of a text that is not plain (plain_tokens.py), since the reader looks only at its syntax tree."""
    if source.broken:
        return UNKNOWN
    try:
        value = _Reader(source).trigger()
    except (NotUnderstood, RecursionError):
        return UNKNOWN
    if isinstance(value, Usual) and value.is_constant and value.usual:
        prospect = ALWAYS_TRUE
    elif value.true is not None and len(value.true) <= MOST_ATOMS:
        prospect = Prospect(need=value.true)
    else:
        return UNKNOWN
    return prospect if is_plain(source) else UNKNOWN


@dataclass(frozen=True, slots=True)
class _Surroundings:
    """Where in a trigger an expression stands. `items`: the parameters of the functions around it. `after_null_test`:
    it is evaluated only where `context.last_fired` is not null."""

    items: Mapping[str, Value] = field(default_factory=dict)
    after_null_test: bool = False


def _listed(node: Node) -> list[Node]:
    """The items of an array or of arguments. Raises NotUnderstood for a hole between two commas."""
    middle = without_comments(node)[1:-1]
    items = middle[::2]
    commas = middle[1::2]
    if any(item.type == "," for item in items) or any(comma.type != "," for comma in commas):
        raise NotUnderstood
    return items


class _Reader:
    """Reads one trigger. All methods raise NotUnderstood."""

    def __init__(self, source: Source) -> None:
        self._source = source

    def trigger(self) -> Value:
        """The value of the whole trigger: one expression, or one `return`, with semicolons after it."""
        statements = without_comments(self._source.root)
        if not statements:
            raise NotUnderstood
        statement, *semicolons = statements
        parts = without_comments(statement)
        is_return = statement.type == "return_statement"
        if is_return:
            keyword, *parts = parts
            self._refuse_line_end(keyword, parts)
        elif statement.type != "expression_statement":
            raise NotUnderstood
        expression, *ends = parts
        semicolons += ends
        if any(node.type not in (";", "empty_statement") for node in semicolons):
            raise NotUnderstood
        if semicolons and not is_return and self._has_await():
            raise NotUnderstood  # such a trigger is no expression for realm/forms.js
        return self._value(expression, _Surroundings())

    def _has_await(self) -> bool:
        return any(node.type == "await_expression" for node in walk(self._source.root))

    def _refuse_line_end(self, node: Node, following: Sequence[Node]) -> None:
        """Refuses a line end after a node, where JavaScript would end the statement or does not allow it; and that
        nothing follows."""
        if not following:
            raise NotUnderstood
        between = self._source.content[node.end_byte : following[0].start_byte].decode(
            "utf-8", "replace"
        )
        if _LINE_END.search(between):
            raise NotUnderstood

    # --- expressions --------------------------------------------------------------------------------------

    def _value(self, node: Node, around: _Surroundings) -> Value:
        match node.type:
            case "parenthesized_expression":
                return self._value(_only(_listed(node)), around)
            case "binary_expression":
                return self._binary(node, around)
            case "unary_expression" if operator_of(node) == "!":
                negated = self._value(without_comments(node)[1], around)
                return Primitive(true=negated.false, false=negated.true)
            case "await_expression" if not around.items:
                return self._value(without_comments(node)[1], around)
            case "number" | "unary_expression":
                return usually(plain_number_of(self._source, node))
            case "string":
                text = text_of(self._source, node)
                return Primitive() if "\0" in text else usually(text)
            case "true" | "false":
                return usually(node.type == "true")
            case "null":
                return usually(None)
            case "array":
                return Words(
                    constants=tuple(constant_of(self._source, item) for item in _listed(node))
                )
            case "identifier":
                return self._named(node, around)
            case "member_expression":
                return self._property(node, around)
            case "call_expression":
                return self._call(node, around)
        raise NotUnderstood

    def _binary(self, node: Node, around: _Surroundings) -> Value:
        operator = operator_of(node)
        if operator == "&&":
            return self._joined(node, "&&", around, true=both, false=either)
        if operator == "||":
            return self._joined(node, "||", around, true=either, false=both)
        if operator not in COMPARISONS:
            raise NotUnderstood
        left, _sign, right = without_comments(node)
        return compared(self._value(left, around), operator, self._value(right, around))

    def _joined(
        self, node: Node, operator: str, around: _Surroundings, *, true: Join, false: Join
    ) -> Value:
        first, *others = chain(node, operator)
        joined = self._value(first, around)
        operand = first
        for following in others:
            if self._is_null_test(operand, operator):
                around = replace(around, after_null_test=True)
            value = self._value(following, around)
            kind = Primitive if joined.is_primitive and value.is_primitive else Value
            joined = kind(
                true=true(joined.true, value.true), false=false(joined.false, value.false)
            )
            operand = following
        return joined

    def _is_null_test(self, operand: Node, operator: str) -> bool:
        """Whether the operand, before this operator, decides where `context.last_fired` is null."""
        text = "".join(self._source.of(bare(operand)).split())
        return text.replace("args", "context").replace("?.", ".") in _NULL_TESTS[operator]

    def _named(self, node: Node, around: _Surroundings) -> Value:
        name = self._source.of(node)
        if name in around.items:
            return around.items[name]
        if name in _ROOTS:
            return Context()
        raise NotUnderstood

    # --- properties and calls -----------------------------------------------------------------------------

    def _owner_and_name(self, node: Node) -> tuple[Node, str, bool]:
        """The owner and the name of `owner.name` or `owner?.name`, and whether it has a question mark."""
        if node.type != "member_expression":
            raise NotUnderstood
        owner, dot, name = without_comments(node)
        if name.type != "property_identifier":
            raise NotUnderstood
        return owner, self._source.of(name), dot.type == "optional_chain"

    def _property(self, node: Node, around: _Surroundings) -> Value:
        owner_node, name, is_optional = self._owner_and_name(node)
        match self._value(owner_node, around):
            case Context():
                return _field_of_context(name, around)
            case Messages(some=None) | Text() if name == "length":
                return Primitive()
            case Messages(some=some) if name == "length":
                return usually(0.0, some)
            case OneMessage(depth=depth) if name == "content":
                return Text(depth=depth)
            case OneMessage() if name in _PLAIN_FIELDS:
                return Primitive()
            case Participants():
                return Participant()
            case Participant() if is_optional:
                return Participant()
            case LastFiring(is_there=is_there) if is_there or is_optional:
                return Primitive() if name in ("messages", "ms") else Value()
        raise NotUnderstood

    def _call(self, node: Node, around: _Surroundings) -> Value:
        parts = without_comments(node)
        if len(parts) != 2 or parts[1].type != "arguments":
            raise NotUnderstood
        function, arguments = parts[0], _listed(parts[1])
        if function.type == "identifier":
            return self._call_of_realm(self._source.of(function), arguments, around)
        owner, name, _is_optional = self._owner_and_name(function)
        if owner.type == "regex":
            pattern = self._source.of(owner)
            text = self._value(_only(arguments), around)
            return usually(False, self._matching(pattern, text)) if name == "test" else refuse()
        if owner.type == "new_expression":
            return self._part_of_now(owner, name, arguments)
        if owner.type == "identifier" and f"{self._source.of(owner)}.{name}" in (
            "Math.random",
            "Date.now",
        ):
            return Primitive() if not arguments else refuse()
        return self._method(self._value(owner, around), name, arguments, around)

    def _part_of_now(self, owner: Node, name: str, arguments: Sequence[Node]) -> Value:
        """`new Date().getMonth()` and its like."""
        is_now = "".join(self._source.of(owner).split()) == "newDate()"
        if not is_now or arguments:
            raise NotUnderstood
        if name == "getHours":
            return Primitive()
        return Fact(name=name) if name in FACTS else refuse()

    def _method(
        self, owner: Value, name: str, arguments: Sequence[Node], around: _Surroundings
    ) -> Value:
        match owner:
            case Messages():
                return self._method_of_messages(owner, name, arguments, around)
            case Text():
                return self._method_of_text(owner, name, arguments, around)
            case Contents(depth=depth) if name == "join":
                return Text(depth=depth, glue=glue_of(self._source, _only(arguments)))
            case Words(constants=constants) if name == "some":
                return usually(
                    False, self._for_each(arguments, OneWord(constants=constants), around).true
                )
            case Words(constants=constants) if name == "includes":
                return included(constants, self._value(_only(arguments), around))
        raise NotUnderstood

    def _method_of_text(
        self, text: Text, name: str, arguments: Sequence[Node], around: _Surroundings
    ) -> Value:
        if name in ("toLowerCase", "trim"):
            return text if not arguments else refuse()
        argument = _only(arguments)
        if name in _UNMATCHED:
            pattern = self._source.of(argument) if argument.type == "regex" else refuse()
            return usually(_UNMATCHED[name], self._matching(pattern, text))
        if name not in _ABSENT:
            raise NotUnderstood
        needs = [
            text_need(word, *_window_of_text(text))
            for word in words_in(self._value(argument, around))
        ]
        return usually(_ABSENT[name], reduce(either, needs))

    def _matching(self, pattern: str, text: Value) -> Need:
        """What it needs that an expression matches a text."""
        if not isinstance(text, Text):
            raise NotUnderstood
        return pattern_need(pattern, *_window_of_text(text))

    def _method_of_messages(
        self, messages: Messages, name: str, arguments: Sequence[Node], around: _Surroundings
    ) -> Value:
        if name == "at":
            is_last = whole_of(self._source, _only(arguments)) == -1 and messages.is_exact
            return OneMessage(depth=1) if is_last else refuse()
        if name == "slice":
            return sliced(messages, whole_of(self._source, _only(arguments)))
        answer = self._for_each(arguments, OneMessage(depth=messages.depth), around)
        some = both(messages.some, answer.true)
        match name:
            case "map" if isinstance(answer, Text) and answer.glue is None:
                return Contents(depth=answer.depth)
            case "some":
                return usually(False, some)
            case "every" if messages.is_exact:
                return usually(False, answer.true)
            case "filter":
                return replace(messages, is_exact=False, some=some)
        raise NotUnderstood

    def _for_each(self, arguments: Sequence[Node], item: Value, around: _Surroundings) -> Value:
        """The value of an arrow function for `item`, which may be any of a list."""
        function = _only(arguments)
        parts = without_comments(function)
        if function.type != "arrow_function" or len(parts) != 3:
            raise NotUnderstood
        parameters, arrow, body = parts
        self._refuse_line_end(parameters, [arrow])
        parameter = parameters
        if parameters.type == "formal_parameters":
            parameter = _only(_listed(parameters))
        name = self._source.of(parameter)
        is_within_like_loop = any(type(outer) is type(item) for outer in around.items.values())
        if is_within_like_loop:
            raise NotUnderstood  # a loop in a loop takes long
        if parameter.type != "identifier" or name not in _ITEM_NAMES or name in around.items:
            raise NotUnderstood
        return self._value(body, replace(around, items={**around.items, name: item}))

    # --- functions of the realm ---------------------------------------------------------------------------

    def _call_of_realm(self, name: str, arguments: Sequence[Node], around: _Surroundings) -> Value:
        if around.items:
            raise NotUnderstood  # in a loop they take long
        if name in KEY_FUNCTIONS:
            return self._key_search(arguments, around, is_every=name == "match_keys_all")
        if name in DAY_FUNCTIONS:
            return self._day_test(name, arguments)
        raise NotUnderstood

    def _key_search(
        self, arguments: Sequence[Node], around: _Surroundings, *, is_every: bool
    ) -> Value:
        """A call of match_keys; if `is_every`, of match_keys_all."""
        if not 2 <= len(arguments) <= 4:
            raise NotUnderstood
        messages = self._value(arguments[0], around)
        if isinstance(messages, Context):
            messages = Messages()
        if not isinstance(messages, Messages) or arguments[1].type != "array":
            raise NotUnderstood
        role = text_of(self._source, arguments[2]) if len(arguments) > 2 else "any"
        depth = self._depth(arguments[3]) if len(arguments) > 3 else USUAL_DEPTH
        reach = nearer(messages.depth, depth) if messages.is_exact and depth > 0 else messages.depth
        window = window_of("assistant" if role == "char" else role, reach)
        glue = " " if is_every else None
        needs: list[Need] = []
        for key in _listed(arguments[1]):
            if key.type == "regex":
                needs.append(pattern_need(self._source.of(key), window, glue))
            else:
                text = text_of(self._source, key)
                needs.append(text_need(text, window, glue) if text else NEVER)
        if not is_every:
            return usually(0.0, reduce(either, needs, NEVER))
        return usually(False, reduce(both, needs, None if needs else NEVER))

    def _depth(self, node: Node) -> int:
        return 0 if node.type == "null" else whole_of(self._source, node)

    def _day_test(self, function: str, arguments: Sequence[Node]) -> Value:
        """A call with a month and a day that exist, and without options: it cannot fail."""
        if len(arguments) != 2:
            raise NotUnderstood
        month, day = (whole_of(self._source, argument) for argument in arguments)
        if not 1 <= day <= most_days(function, month):
            raise NotUnderstood
        if function != "on_day":
            return Primitive()
        in_month: Need = frozenset([("getMonth", month - 1.0)])
        if (month, day) == (2, 29):  # 28 February in other years
            return usually(False, in_month)
        return usually(False, both(frozenset([("getDate", float(day))]), in_month))


def _only(nodes: Sequence[Node]) -> Node:
    if len(nodes) != 1:
        raise NotUnderstood
    return nodes[0]


def _field_of_context(name: str, around: _Surroundings) -> Value:
    match name:
        case "messages":
            return Messages()
        case "participants":
            return Participants()
        case "last_fired":
            return LastFiring(is_there=around.after_null_test)
        case "conversation_id":
            return Fact(name=name)
    raise NotUnderstood


def _window_of_text(text: Text) -> tuple[Window, str | None]:
    return window_of("any", text.depth), text.glue
