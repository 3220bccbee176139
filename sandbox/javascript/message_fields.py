"""Rules about messages and the context: roles that no message has, and fields that do not exist. Pure."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterator, Mapping

from languages import Sentence
from sandbox.javascript import syntax
from sandbox.javascript.message_nodes import is_message
from sandbox.javascript.syntax import (
    LintFinding,
    Node,
    Source,
    Subject,
    at,
    bare,
    operator_of,
    sides,
)

ROLES = ("user", "assistant", "system")
OTHER_ROLES: Mapping[str, str] = {
    **dict.fromkeys(("human", "me", "用户"), "user"),
    **dict.fromkeys(("ai", "bot", "char", "character", "model", "gpt", "llm", "助手"), "assistant"),
}
"""Names of the roles in other programs."""
CONTEXT = ("messages", "conversation_id", "participants", "last_fired")
MESSAGE = ("role", "content", "timestamp", "name")
OTHER_NAMES: Mapping[str, str] = {
    **dict.fromkeys(("text", "mes", "msg", "message", "body"), "content"),
    **dict.fromkeys(
        ("time", "date", "time_stamp", "timeStamp", "send_date", "createdAt", "created_at"),
        "timestamp",
    ),
    **dict.fromkeys(("sender", "author", "from", "is_user", "isUser"), "role"),
    **dict.fromkeys(("chat_log", "chatLog", "chat", "history", "log"), "messages"),
    **dict.fromkeys(("lastFired", "lastActivated", "last_activated", "last"), "last_fired"),
    **dict.fromkeys(
        ("conversationId", "conversation", "chat_id", "chatId", "id"), "conversation_id"
    ),
}
"""Names of the fields in other programs."""
_LEAST_LIKENESS = 0.75
"""The least likeness of two names, from 0 to 1, at which a name is taken for a slip of the other."""
_ROOTS = ("context", "args")
_OF_EVERY_OBJECT = frozenset(
    ("hasOwnProperty", "isPrototypeOf", "toString", "toLocaleString", "valueOf", "constructor")
)


def message_fields(subject: Subject) -> Iterator[LintFinding]:
    """Apply both rules, in the order of the text."""
    source = subject.source
    declared: set[str] = set()
    for node in syntax.walk(source.root):
        declared.update(_declared_names(source, node))
    for node in syntax.walk(source.root):
        if _is_equality(node):
            yield from _role(subject, node)
        if node.type == "member_expression" and not _is_assigned(node):
            yield from _field(subject, node, declared)


def _is_equality(node: Node) -> bool:
    operator = operator_of(node)
    return operator in syntax.COMPARISONS and "=" in operator


def _role(subject: Subject, comparison: Node) -> Iterator[LintFinding]:
    """Find a role of a message that is compared with a text that is not a role."""
    role = _compared_role(subject, comparison)
    if role is None or role in ROLES or "\\" in role:
        return
    meant = _meant_role(role.casefold())
    if meant is None:
        hint = Sentence("the roles are {roles}", ", ".join(ROLES))
    else:
        hint = Sentence("did you mean '{meant}'?", meant)
    is_unequal = "!" in operator_of(comparison)
    never = Sentence("always") if is_unequal else Sentence("never")
    message = Sentence("{never} true: no message has the role '{role}'; {hint}", never, role, hint)
    yield at("unknown-role", comparison, message)


def _compared_role(subject: Subject, comparison: Node) -> str | None:
    """Return the text that is compared with the role of a message, without its quotes, or None for another
    comparison."""
    operands = sides(comparison)
    if operands is None:
        return None

    # The text may be on either side.
    left, right = map(bare, operands)
    if right.type == "string":
        field = left
        text = right
    else:
        field = right
        text = left

    if text.type != "string" or field.type != "member_expression":
        return None

    name = field.child_by_field_name("property")
    owner = field.child_by_field_name("object")
    if (
        name is None
        or owner is None
        or subject.source.of(name) != "role"
        or not is_message(subject, owner)
    ):
        return None

    return subject.source.of(text)[1:-1]


def _meant_role(folded_role: str) -> str | None:
    """Return the role that was perhaps meant: by its name in other programs, or in another spelling."""
    if folded_role in ROLES:
        return folded_role
    return OTHER_ROLES.get(folded_role)


def _field(subject: Subject, node: Node, declared: Collection[str]) -> Iterator[LintFinding]:
    """Find a field of the context or of a message that it does not have. `declared`: names that the trigger declares."""
    name = node.child_by_field_name("property")
    owner = node.child_by_field_name("object")
    if name is None or owner is None:
        return

    field = subject.source.of(name)
    owner_text = subject.source.of(owner)
    if field in _OF_EVERY_OBJECT:
        return

    if owner_text in _ROOTS and owner_text not in declared:
        if field not in CONTEXT:
            yield at("unknown-field", name, _no_field_of_context(owner_text, field))
        return

    # Only a likely slip is reported: a program may put fields of its own into messages.
    meant = _meant_field(field, MESSAGE)
    if field not in MESSAGE and meant is not None and is_message(subject, owner):
        yield at(
            "unknown-field",
            name,
            Sentence("a message has no {field}; did you mean {meant}?", field, meant),
        )


def _no_field_of_context(context: str, field: str) -> Sentence:
    meant = _meant_field(field, CONTEXT)
    if meant is None:
        hint = Sentence("there are {fields}", ", ".join(CONTEXT))
    else:
        hint = Sentence("did you mean {value}.{meant}?", context, meant)
    return Sentence("{value} has no {field}; {hint}", context, field, hint)


def _meant_field(field: str, fields: tuple[str, ...]) -> str | None:
    """Return the field that was perhaps meant: by its name in other programs, or by its spelling."""
    name = OTHER_NAMES.get(field)
    if name in fields:
        return name
    similar_fields = difflib.get_close_matches(field, fields, n=1, cutoff=_LEAST_LIKENESS)
    if not similar_fields:
        return None
    return similar_fields[0]


def _declared_names(source: Source, node: Node) -> list[str]:
    """Return the plain names that a function's parameters or a declaration bind."""
    if node.type in syntax.FUNCTIONS:
        return [source.of(parameter) for parameter in syntax.parameters(node)]
    name = node.child_by_field_name("name")
    if node.type != "variable_declarator" or name is None:
        return []
    return [source.of(name)]


def _is_assigned(node: Node) -> bool:
    """Tell whether the expression gets a value here."""
    parent = node.parent
    if parent is None or "assignment" not in parent.type:
        return False
    target = parent.child_by_field_name("left")
    return target is not None and target.id == node.id
