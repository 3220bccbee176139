"""The rule about roles: `message.role === 'human'` is never true, for a message's role is one of three. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from sandbox.workbench.javascript import syntax
from sandbox.workbench.javascript.syntax import COMPARISONS, Source, bare, operator_of, sides
from sandbox.workbench.lint.finding import Finding, Subject, at

if TYPE_CHECKING:
    from tree_sitter import Node

ROLES = ("user", "assistant", "system")
OTHER_ROLES: Mapping[str, str] = {
    **dict.fromkeys(("human", "me", "用户"), "user"),
    **dict.fromkeys(("ai", "bot", "char", "character", "model", "gpt", "llm", "助手"), "assistant"),
}
"""What other programs call them."""
_LISTS = ("context.messages", "args.messages")
_SAME_MESSAGES = frozenset(("slice", "filter", "toReversed", "toSorted", "reverse", "sort"))
_ONE_MESSAGE = frozenset(("at", "find", "findLast", "pop", "shift"))
_CALLBACKS = frozenset(
    ("some", "every", "find", "findLast", "findIndex", "findLastIndex", "filter", "map", "flatMap", "forEach")
)


def roles(subject: Subject) -> Iterator[Finding]:
    """All rules of this file."""
    source = subject.source
    if "role" not in source.text:
        return
    for node in syntax.walk(source.root):
        operator, both = operator_of(node), sides(node)
        if operator not in COMPARISONS or "=" not in operator or both is None:
            continue
        for one, other in (both, both[::-1]):
            one, other = bare(one), bare(other)
            if other.type != "string" or not _is_role(subject, one):
                continue
            name = source.of(other)[1:-1]
            if name not in ROLES and "\\" not in name:
                meant = OTHER_ROLES.get(name.casefold()) or (name.casefold() if name.casefold() in ROLES else None)
                hint = f"did you mean '{meant}'?" if meant else f"the roles are {', '.join(ROLES)}"
                never = "never" if "!" not in operator else "always"
                yield at("unknown-role", node, f"{never} true: no message has the role '{name}'; {hint}")
            break


def _is_role(subject: Subject, node: Node) -> bool:
    name, owner = node.child_by_field_name("property"), node.child_by_field_name("object")
    if node.type != "member_expression" or name is None or owner is None or subject.source.of(name) != "role":
        return False
    return is_message(subject, owner)


def is_message(subject: Subject, node: Node, depth: int = 0) -> bool:
    """Whether the expression gives one of the messages, as far as one can see."""
    node = bare(node)
    match node.type:
        case "identifier" if depth < 8:
            value = subject.named.get(subject.source.of(node))
            return is_message(subject, value, depth + 1) if value is not None else _is_element(subject, node)
        case "subscript_expression":
            owner = node.child_by_field_name("object")
            return owner is not None and _are_messages(subject, owner)
        case "call_expression":
            owner, method = _method(subject.source, node)
            return owner is not None and method in _ONE_MESSAGE and _are_messages(subject, owner)
        case _:
            return False


def _are_messages(subject: Subject, node: Node, depth: int = 0) -> bool:
    node = bare(node)
    text = "".join(subject.source.of(node).split()).replace("?.", ".")
    if text in _LISTS:
        return True
    if depth < 8 and node.type == "identifier" and (value := subject.named.get(text)) is not None:
        return _are_messages(subject, value, depth + 1)
    owner, method = _method(subject.source, node)
    return depth < 8 and owner is not None and method in _SAME_MESSAGES and _are_messages(subject, owner, depth + 1)


def _method(source: Source, node: Node) -> tuple[Node | None, str]:
    function = node.child_by_field_name("function") if node.type == "call_expression" else None
    if function is None or function.type != "member_expression":
        return None, ""
    name = function.child_by_field_name("property")
    return function.child_by_field_name("object"), source.of(name) if name is not None else ""


def _is_element(subject: Subject, node: Node) -> bool:
    """Whether the name is bound by the nearest callback or loop around it that binds it, to a message."""
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
                call = around.parent.parent if around.parent is not None else None
                if call is None or [one.id for one in syntax.arguments(call)][:1] != [around.id]:
                    return False
                owner, method = _method(subject.source, call)
                return owner is not None and method in _CALLBACKS and _are_messages(subject, owner)
            if any(name in subject.source.of(one) for one in given):
                return False
        elif around.type in syntax.FUNCTIONS:
            return False
        around = around.parent
    return False
