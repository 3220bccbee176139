"""Rules about messages: roles that do not exist (`message.role === 'human'`), and undefined fields. Pure."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from sandbox.javascript import syntax
from sandbox.javascript.finding import Finding, Subject, at
from sandbox.javascript.syntax import COMPARISONS, Source, bare, operator_of, sides

if TYPE_CHECKING:
    from tree_sitter import Node

ROLES = ("user", "assistant", "system")
OTHER_ROLES: Mapping[str, str] = {
    **dict.fromkeys(("human", "me", "用户"), "user"),
    **dict.fromkeys(("ai", "bot", "char", "character", "model", "gpt", "llm", "助手"), "assistant"),
}
"""Names of the roles in other programs."""
CONTEXT = ("messages", "conversation_id", "participants")
MESSAGE = ("role", "content", "timestamp", "name")
OTHER_NAMES: Mapping[str, str] = {
    **dict.fromkeys(("text", "mes", "msg", "message", "body"), "content"),
    **dict.fromkeys(("time", "date", "time_stamp", "timeStamp", "send_date", "createdAt", "created_at"), "timestamp"),
    **dict.fromkeys(("sender", "author", "from", "is_user", "isUser"), "role"),
    **dict.fromkeys(("chat_log", "chatLog", "chat", "history", "log"), "messages"),
    **dict.fromkeys(("conversationId", "conversation", "chat_id", "chatId", "id"), "conversation_id"),
}
"""Names of the fields in other programs."""
_NEAR = 0.75
_OF_EVERY_OBJECT = frozenset(
    ("hasOwnProperty", "isPrototypeOf", "toString", "toLocaleString", "valueOf", "constructor")
)
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


def messages(subject: Subject) -> Iterator[Finding]:
    """All rules of this file."""
    source = subject.source
    hidden = {name for node in syntax.walk(source.root) for name in _bound(source, node)}
    for node in syntax.walk(source.root):
        if operator_of(node) in COMPARISONS and "=" in operator_of(node) and (both := sides(node)):
            yield from _role(subject, node, bare(both[0]), bare(both[1]))
        name, owner = node.child_by_field_name("property"), node.child_by_field_name("object")
        if node.type == "member_expression" and name and owner and not _is_given_a_value(node):
            yield from _field(subject, name, owner, hidden)


def _role(subject: Subject, node: Node, left: Node, right: Node) -> Iterator[Finding]:
    one, other = (left, right) if right.type == "string" else (right, left)
    name, owner = one.child_by_field_name("property"), one.child_by_field_name("object")
    if other.type != "string" or one.type != "member_expression" or name is None or owner is None:
        return
    role = subject.source.of(other)[1:-1]
    if subject.source.of(name) != "role" or role in ROLES or "\\" in role or not _is_message(subject, owner):
        return
    meant = OTHER_ROLES.get(role.casefold()) or (role.casefold() if role.casefold() in ROLES else None)
    hint = f"did you mean '{meant}'?" if meant else f"the roles are {', '.join(ROLES)}"
    never = "always" if "!" in operator_of(node) else "never"
    yield at("unknown-role", node, f"{never} true: no message has the role '{role}'; {hint}")


def _field(subject: Subject, name: Node, owner: Node, hidden: set[str]) -> Iterator[Finding]:
    """`hidden`: names that the trigger declares itself."""
    field, of = subject.source.of(name), subject.source.of(owner)
    if field in _OF_EVERY_OBJECT:
        return
    if of in ("context", "args") and of not in hidden:
        if field not in CONTEXT:
            meant = _meant(field, CONTEXT)
            hint = f"did you mean {of}.{meant}?" if meant else f"there are {', '.join(CONTEXT)}"
            yield at("unknown-field", name, f"{of} has no {field}; {hint}")
    elif field not in MESSAGE and (meant := _meant(field, MESSAGE)) and _is_message(subject, owner):
        yield at("unknown-field", name, f"a message has no {field}; did you mean {meant}?")


def _meant(field: str, known: tuple[str, ...]) -> str | None:
    if (other := OTHER_NAMES.get(field)) in known:
        return other
    return next(iter(difflib.get_close_matches(field, known, 1, _NEAR)), None)


def _bound(source: Source, node: Node) -> list[str]:
    """The plain names that a function's parameters or a declaration bind."""
    if node.type in syntax.FUNCTIONS:
        return [source.of(one) for one in syntax.parameters(node)]
    name = node.child_by_field_name("name") if node.type == "variable_declarator" else None
    return [source.of(name)] if name is not None else []


def _is_given_a_value(node: Node) -> bool:
    """Whether the trigger assigns a value to the node."""
    parent = node.parent
    left = parent.child_by_field_name("left") if parent is not None else None
    return left is not None and left.id == node.id and parent is not None and "assignment" in parent.type


def _is_message(subject: Subject, node: Node) -> bool:
    """Whether the expression is known to give one of the messages."""
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
    """Whether the nearest callback or loop that binds the name binds it to a message."""
    name, around = subject.source.of(node), node.parent
    while around is not None:
        if around.type == "for_in_statement":
            left, right = around.child_by_field_name("left"), around.child_by_field_name("right")
            if left is not None and subject.source.of(left) == name:
                of = any(child.type == "of" for child in around.children)
                return of and right is not None and _are_messages(subject, right)
        elif around.type in ("arrow_function", "function_expression"):
            given = syntax.parameters(around)
            if given and subject.source.of(given[0]) == name:
                call = syntax.call_with(around)
                owner, method = _method(subject.source, call) if call is not None else (None, "")
                return owner is not None and method in _CALLBACKS and _are_messages(subject, owner)
            if any(name in subject.source.of(one) for one in given):
                return False
        elif around.type in syntax.FUNCTIONS:
            return False
        around = around.parent
    return False
