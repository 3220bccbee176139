"""Rules about messages and the context: roles that no message has, and fields that do not exist. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from languages import Sentence
from sandbox.javascript import syntax
from sandbox.javascript.syntax import (
    LintFinding,
    Node,
    Source,
    Subject,
    at,
    bare,
    meant_name,
    operator_of,
    sides,
)
from sandbox.values import by_name

_LISTS = ("context.messages", "args.messages")
_SAME_MESSAGES = frozenset(["slice", "filter", "toReversed", "toSorted", "reverse", "sort"])
_ONE_MESSAGE = frozenset(("at", "find", "findLast", "pop", "shift"))
_CALLBACKS = syntax.TESTS | {"map", "flatMap", "forEach"}
"""Methods that call a function for each element."""


def is_message(subject: Subject, node: Node) -> bool:
    """Tell whether the expression is known to give a message."""
    node = subject.value(node)
    if node.type == "identifier":
        return _is_element(subject, node)
    if node.type == "subscript_expression":
        owner = node.child_by_field_name("object")
        return owner is not None and _are_messages(subject, owner)
    owner, method = _method(subject, node)
    return owner is not None and method in _ONE_MESSAGE and _are_messages(subject, owner)


def _are_messages(subject: Subject, node: Node) -> bool:
    """Tell whether the expression is known to give a list of messages: the list of the context, also after calls such as
    `slice` that keep its elements."""
    node = subject.value(node)
    while subject.text(node).replace("?.", ".") not in _LISTS:
        owner, method = _method(subject, node)
        if owner is None or method not in _SAME_MESSAGES:
            return False
        node = subject.value(owner)
    return True


def _method(subject: Subject, call: Node) -> tuple[Node | None, str]:
    return syntax.member(subject.source, call) if call.type == "call_expression" else (None, "")


def _is_element(subject: Subject, node: Node) -> bool:
    """Tell whether the nearest callback or loop that binds the name of `node` binds it to a
    message."""
    name = subject.source.of(node)
    around = node.parent
    while around is not None:
        if around.type == "for_in_statement":
            element_node = around.child_by_field_name("left")
            if element_node is not None and subject.source.of(element_node) == name:
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
    owner, method = _method(subject, call)
    return owner is not None and method in _CALLBACKS and _are_messages(subject, owner)


ROLES = ("user", "assistant", "system")
OTHER_ROLES: Mapping[str, str] = by_name(
    {
        "user": ["human", "me", "用户"],
        "assistant": ["ai", "bot", "char", "character", "model", "gpt", "llm", "助手"],
    }
)
"""Names of the roles in other programs."""
CONTEXT = ("messages", "conversation_id", "participants", "last_fired")
MESSAGE = ("role", "content", "timestamp", "name")
OTHER_NAMES: Mapping[str, str] = by_name(
    {
        "content": ["text", "mes", "msg", "message", "body"],
        "timestamp": [
            "time",
            "date",
            "time_stamp",
            "timeStamp",
            "send_date",
            "createdAt",
            "created_at",
        ],
        "role": ["sender", "author", "from", "is_user", "isUser"],
        "messages": ["chat_log", "chatLog", "chat", "history", "log"],
        "last_fired": ["lastFired", "lastActivated", "last_activated", "last"],
        "conversation_id": ["conversationId", "conversation", "chat_id", "chatId", "id"],
    }
)
"""Names of the fields in other programs."""
_ROOTS = ("context", "args")
_OF_EVERY_OBJECT = frozenset(
    ["hasOwnProperty", "isPrototypeOf", "toString", "toLocaleString", "valueOf", "constructor"]
)


def message_fields(subject: Subject) -> Iterator[LintFinding]:
    """Find roles that no message has, and fields that the context or a message does not have, in the order of the text."""
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
    meant = meant_name(role.casefold(), OTHER_ROLES, ROLES)
    if meant is None:
        hint = Sentence("the roles are {roles}", ", ".join(ROLES))
    else:
        hint = Sentence("did you mean '{meant}'?", meant)
    is_unequal = "!" in operator_of(comparison)
    never = Sentence("always") if is_unequal else Sentence("never")
    yield at(
        "unknown-role",
        comparison,
        "{never} true: no message has the role '{role}'; {hint}",
        never,
        role,
        hint,
    )


def _compared_role(subject: Subject, comparison: Node) -> str | None:
    """Return the text that is compared with the role of a message, without its quotes, or None for another
    comparison."""
    operands = sides(comparison)
    if operands is None:
        return None

    for side, other in (operands, reversed(operands)):
        owner, name = syntax.member(subject.source, bare(side))
        text = bare(other)
        if owner is None or name != "role" or text.type != "string":
            continue
        return subject.source.of(text)[1:-1] if is_message(subject, owner) else None

    return None


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
    meant = meant_name(field, OTHER_NAMES, MESSAGE)
    if field not in MESSAGE and meant is not None and is_message(subject, owner):
        yield at(
            "unknown-field",
            name,
            "a message has no {field}; did you mean {meant}?",
            field,
            meant,
        )


def _no_field_of_context(context: str, field: str) -> Sentence:
    meant = meant_name(field, OTHER_NAMES, CONTEXT)
    if meant is None:
        hint = Sentence("there are {fields}", ", ".join(CONTEXT))
    else:
        hint = Sentence("did you mean {value}.{meant}?", context, meant)
    return Sentence("{value} has no {field}; {hint}", context, field, hint)


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
