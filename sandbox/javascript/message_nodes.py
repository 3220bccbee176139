"""Which expressions of a trigger are messages: `context.messages[0]`, or a name that a callback binds. Pure."""

from __future__ import annotations

from sandbox.javascript import syntax
from sandbox.javascript.syntax import Node, Source, Subject

_LISTS = ("context.messages", "args.messages")
_SAME_MESSAGES = frozenset(("slice", "filter", "toReversed", "toSorted", "reverse", "sort"))
_ONE_MESSAGE = frozenset(("at", "find", "findLast", "pop", "shift"))
_CALLBACKS = frozenset(
    (
        *("some", "every", "find", "findLast", "findIndex", "findLastIndex", "filter"),
        *("map", "flatMap", "forEach"),
    )
)
"""Methods that call a function for each element."""


def is_message(subject: Subject, node: Node) -> bool:
    """Tell whether the expression is known to give a message."""
    node = subject.value(node)
    if node.type == "identifier":
        return _is_element(subject, node)
    if node.type == "subscript_expression":
        owner = node.child_by_field_name("object")
        return owner is not None and _are_messages(subject, owner)
    owner, method = _method(subject.source, node)
    return owner is not None and method in _ONE_MESSAGE and _are_messages(subject, owner)


def _are_messages(subject: Subject, node: Node) -> bool:
    node = subject.value(node)
    while subject.text(node).replace("?.", ".") not in _LISTS:
        owner, method = _method(subject.source, node)
        if owner is None or method not in _SAME_MESSAGES:
            return False
        node = subject.value(owner)
    return True


def _method(source: Source, call: Node) -> tuple[Node | None, str]:
    return syntax.member(source, call) if call.type == "call_expression" else (None, "")


def _is_element(subject: Subject, node: Node) -> bool:
    """Tell whether the nearest callback or loop that binds the name binds it to a message."""
    name = subject.source.of(node)
    around = node.parent
    while around is not None:
        if around.type == "for_in_statement":
            left = around.child_by_field_name("left")
            if left is not None and subject.source.of(left) == name:
                return _loops_over_messages(subject, around)
        elif around.type in ("arrow_function", "function_expression"):
            names = [subject.source.of(parameter) for parameter in syntax.parameters(around)]
            if names and names[0] == name:
                return _is_called_for_messages(subject, around)
            if any(name in parameter for parameter in names):
                return False
        elif around.type in syntax.FUNCTIONS:
            return False
        around = around.parent

    return False


def _loops_over_messages(subject: Subject, loop: Node) -> bool:
    """Tell whether it is `for (... of context.messages)`."""
    right = loop.child_by_field_name("right")
    is_of = any(child.type == "of" for child in loop.children)
    return is_of and right is not None and _are_messages(subject, right)


def _is_called_for_messages(subject: Subject, function: Node) -> bool:
    """Tell whether a method of a list of messages gets the function."""
    call = syntax.call_with(function)
    if call is None:
        return False
    owner, method = _method(subject.source, call)
    return owner is not None and method in _CALLBACKS and _are_messages(subject, owner)
