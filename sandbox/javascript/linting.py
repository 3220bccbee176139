"""All lint rules on one trigger: code that runs but cannot be what the author meant. Pure; runs in the worker.

Here are the rules about messages (roles that do not exist, undefined fields) and about calls of match_keys and
match_keys_all; the others are in conditions.py, dates.py and day_counts.py.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime

from sandbox.javascript import syntax
from sandbox.javascript.conditions import conditions
from sandbox.javascript.dates import dates
from sandbox.javascript.day_counts import day_counts
from sandbox.javascript.syntax import LintFinding, Node, Source, Subject, at, bare, number_of, operator_of, sides
from sandbox.locale import _

LONGEST_CHARS, DEEPEST = 20_000, 200
"""Longer or deeper triggers are not checked: the time of the rules grows with the square of both."""
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


# sandbox/worker/realm/keys.js has the same list.
SCOPES = ("any", "user", "assistant", "system", "char", "both", "other")
_OTHER_NAMES = {**OTHER_ROLES, "all": "any", "everyone": "any", "both sides": "both"}
_BETWEEN_KEYS = re.compile(r"\s*[,，、;；|/]\s*|\s+")
_PLAIN = ("string", "regex", "template_string", "number", "true", "false", "object")


def lint(source: Source, now: datetime) -> list[LintFinding]:
    """The findings in order of place; none for a text that does not parse, because V8 reports its error."""
    if source.broken or len(source.text) > LONGEST_CHARS:
        return []
    level = [source.root]
    for _level in range(DEEPEST):
        level = [child for node in level for child in node.named_children]
    if level:
        return []
    subject = Subject(source, now)
    found = [*conditions(subject), *dates(subject), *day_counts(subject), *_messages(subject), *_keys(subject)]
    return sorted(found, key=lambda one: one.start)


# --- messages ---------------------------------------------------------------------------------------------------------


def _messages(subject: Subject) -> Iterator[LintFinding]:
    source = subject.source
    hidden = {name for node in syntax.walk(source.root) for name in _bound(source, node)}
    for node in syntax.walk(source.root):
        if operator_of(node) in syntax.COMPARISONS and "=" in operator_of(node) and (both := sides(node)):
            yield from _role(subject, node, bare(both[0]), bare(both[1]))
        name, owner = node.child_by_field_name("property"), node.child_by_field_name("object")
        if node.type == "member_expression" and name and owner and not _is_given_a_value(node):
            yield from _field(subject, name, owner, hidden)


def _role(subject: Subject, node: Node, left: Node, right: Node) -> Iterator[LintFinding]:
    one, other = (left, right) if right.type == "string" else (right, left)
    name, owner = one.child_by_field_name("property"), one.child_by_field_name("object")
    if other.type != "string" or one.type != "member_expression" or name is None or owner is None:
        return
    role = subject.source.of(other)[1:-1]
    if subject.source.of(name) != "role" or role in ROLES or "\\" in role or not _is_message(subject, owner):
        return
    meant = OTHER_ROLES.get(role.casefold()) or (role.casefold() if role.casefold() in ROLES else None)
    hint = _("did you mean '{meant}'?", meant) if meant else _("the roles are {roles}", ", ".join(ROLES))
    never = _("always") if "!" in operator_of(node) else _("never")
    yield at("unknown-role", node, _("{never} true: no message has the role '{role}'; {hint}", never, role, hint))


def _field(subject: Subject, name: Node, owner: Node, hidden: set[str]) -> Iterator[LintFinding]:
    """`hidden`: names that the trigger declares itself."""
    field, of = subject.source.of(name), subject.source.of(owner)
    if field in _OF_EVERY_OBJECT:
        return
    if of in ("context", "args") and of not in hidden:
        if field not in CONTEXT:
            meant = _meant(field, CONTEXT)
            hint = (
                _("did you mean {value}.{meant}?", of, meant) if meant else _("there are {fields}", ", ".join(CONTEXT))
            )
            yield at("unknown-field", name, _("{value} has no {field}; {hint}", of, field, hint))
    elif field not in MESSAGE and (meant := _meant(field, MESSAGE)) and _is_message(subject, owner):
        yield at("unknown-field", name, _("a message has no {field}; did you mean {meant}?", field, meant))


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


# --- calls of match_keys and match_keys_all ---------------------------------------------------------------------------


def _keys(subject: Subject) -> Iterator[LintFinding]:
    source = subject.source
    for node in syntax.walk(source.root):
        if (name := syntax.called(node)) not in syntax.KEY_FUNCTIONS:
            continue
        given = [bare(one) for one in syntax.arguments(node)]
        if any(one.type == "spread_element" for one in given) or not given:
            continue
        inside = given[0].named_children if given[0].type == "array" else [given[0]]
        if any(one.type in ("string", "regex") for one in inside):
            said = _("{name} needs the messages first: {name}(context.messages, [...])", name)
            yield at("messages-missing", given[0], said)
            continue
        if len(given) == 1:
            yield at(
                "keys-not-a-list",
                given[0],
                _("{name} needs keys: {name}({value}, ['...'])", name, source.of(given[0])[:40]),
            )
            continue
        if (value := subject.value(given[1])).type in _PLAIN:
            yield at("keys-not-a-list", given[1], _("the keys must be a list: {as_list}", _as_list(source.of(value))))
        elif given[1].type == "array":
            yield from _items(source, name, given[1])
        if len(given) > 2:
            yield from _scope(source, given[2], subject.value(given[2]))
        if len(given) > 3:
            yield from _depth(source, given[3])


def _as_list(text: str) -> str:
    """What to write in place of a text: one key, or perhaps several."""
    one = f"[{text[:60]}]"
    parts = [part for part in _BETWEEN_KEYS.split(text[1:-1]) if part]
    if text[0] not in "'\"" or len(parts) < 2 or "\\" in text:
        return one
    several = ", ".join(f"{text[0]}{part}{text[0]}" for part in parts)
    return _("[{several}] for {parts} keys, or {value} for one", several[:80], len(parts), one)


def _items(source: Source, name: str, node: Node) -> Iterator[LintFinding]:
    items: Sequence[Node] = [one for one in node.named_children if one.type != "comment"]
    if not items:
        yield at("empty-key", node, _("an empty list matches nothing"))
    seen: set[str] = set()
    for item in items:
        text = source.of(item)
        if item.type == "string" and len(text) == 2:
            so = _(", so match_keys_all is always false") if name == "match_keys_all" else ""
            yield at("empty-key", item, _("an empty key matches nothing{so}", so))
        elif item.type in ("number", "true", "false", "null", "object", "array"):
            yield at("key-not-text", item, _("a key must be a text or a regular expression"))
        elif item.type in ("string", "regex"):
            key = text[1:-1] if item.type == "string" else text
            if key in seen:
                yield at("key-twice", item, _("{text} is in the list twice", text))
            seen.add(key)


def _scope(source: Source, node: Node, value: Node) -> Iterator[LintFinding]:
    text = source.of(value)
    if value.type in ("number", "true", "false", "array", "regex", "object"):
        yield at("unknown-scope", node, _("no scope {text}; the scopes are {scopes}", text, ", ".join(SCOPES)))
    if value.type != "string" or text[1:-1] in SCOPES:
        return
    name = text[1:-1].strip().casefold()
    known = _OTHER_NAMES.get(name)
    near = [known] if known else difflib.get_close_matches(name, SCOPES, n=1, cutoff=0.75)
    hint = _("did you mean '{meant}'?", near[0]) if near else _("the scopes are {scopes}", ", ".join(SCOPES))
    yield at("unknown-scope", node, _("no scope {text}; {hint}", text, hint))


def _depth(source: Source, node: Node) -> Iterator[LintFinding]:
    number = number_of(source, node)
    if number is not None and number < 0:
        said = _("leaves out the first {number:g} messages; give {number:g} for the last ones", -number)
        yield at("strange-depth", node, said)
    elif number is not None and number != int(number):
        said = _("counts as {number}", int(number)) if int(number) else _("counts as 0, all messages")
        yield at("strange-depth", node, said)
    elif node.type in ("true", "false", "array", "object", "regex"):
        yield at("strange-depth", node, _("the depth is a number of messages, 0 for all"))
    elif node.type == "string" and not source.of(node)[1:-1].strip().isdecimal():
        yield at("strange-depth", node, _("{value} is not a number and counts as 0, all messages", source.of(node)))
