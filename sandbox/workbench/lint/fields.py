"""The rule about fields: `context.chat_log` and `message.text` are undefined, for nothing here is called so. Pure."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from sandbox.workbench.javascript import syntax
from sandbox.workbench.lint.finding import Finding, Subject, at
from sandbox.workbench.lint.roles import is_message

if TYPE_CHECKING:
    from tree_sitter import Node

CONTEXT = ("messages", "conversation_id", "participants")
MESSAGE = ("role", "content", "timestamp", "name")
OTHER_NAMES: Mapping[str, str] = {
    **dict.fromkeys(("text", "mes", "msg", "message", "body"), "content"),
    **dict.fromkeys(("time", "date", "time_stamp", "timeStamp", "send_date", "createdAt", "created_at"), "timestamp"),
    **dict.fromkeys(("sender", "author", "from", "is_user", "isUser"), "role"),
    **dict.fromkeys(("chat_log", "chatLog", "chat", "history", "log"), "messages"),
    **dict.fromkeys(("conversationId", "conversation", "chat_id", "chatId", "id"), "conversation_id"),
}
"""What other programs call them."""
_NEAR = 0.75
_OF_EVERY_OBJECT = frozenset(
    ("hasOwnProperty", "isPrototypeOf", "toString", "toLocaleString", "valueOf", "constructor")
)


def fields(subject: Subject) -> Iterator[Finding]:
    """All rules of this file."""
    source = subject.source
    hidden = {name for node in syntax.walk(source.root) for name in _bound(subject, node)}
    for node in syntax.walk(source.root):
        name, owner = node.child_by_field_name("property"), node.child_by_field_name("object")
        if node.type != "member_expression" or name is None or owner is None or _is_given_a_value(node):
            continue
        field, of = source.of(name), source.of(owner)
        if field in _OF_EVERY_OBJECT:
            continue
        if of in ("context", "args") and of not in hidden:
            if field not in CONTEXT:
                meant = _meant(field, CONTEXT)
                hint = f"did you mean {of}.{meant}?" if meant else f"there are {', '.join(CONTEXT)}"
                yield at("unknown-field", name, f"{of} has no {field}; {hint}")
        elif field not in MESSAGE and (meant := _meant(field, MESSAGE)) and is_message(subject, owner):
            yield at("unknown-field", name, f"a message has no {field}; did you mean {meant}?")


def _meant(field: str, known: tuple[str, ...]) -> str | None:
    if (other := OTHER_NAMES.get(field)) in known:
        return other
    return next(iter(difflib.get_close_matches(field, known, 1, _NEAR)), None)


def _bound(subject: Subject, node: Node) -> list[str]:
    """The plain names that a function's parameters or a declaration take for themselves."""
    if node.type in syntax.FUNCTIONS:
        return [subject.source.of(one) for one in syntax.parameters(node)]
    name = node.child_by_field_name("name") if node.type == "variable_declarator" else None
    return [subject.source.of(name)] if name is not None else []


def _is_given_a_value(node: Node) -> bool:
    """Whether the trigger itself puts something there."""
    parent = node.parent
    left = parent.child_by_field_name("left") if parent is not None else None
    return left is not None and left.id == node.id and parent is not None and "assignment" in parent.type
