"""Rules about calls of match_keys and match_keys_all: their messages, keys, scope and depth. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator

from languages import Sentence
from sandbox.javascript import syntax
from sandbox.javascript.literals import HOOK_MESSAGES, SCOPES
from sandbox.javascript.message_fields import OTHER_ROLES
from sandbox.javascript.syntax import (
    LintFinding,
    Node,
    Source,
    Subject,
    at,
    bare,
    meant_name,
    number_of,
)

_OTHER_SCOPES = {**OTHER_ROLES, "all": "any", "everyone": "any", "both sides": "both"}
"""Names of the scopes in other programs."""
_BETWEEN_KEYS = re.compile(r"\s*[,，、;；|/]\s*|\s+")
_NO_LISTS = ("string", "regex", "template_string", "number", "true", "false", "object")
_NO_KEYS = ("number", "true", "false", "null", "object", "array")
_NO_SCOPES = ("number", "true", "false", "array", "regex", "object")
_NO_DEPTHS = ("true", "false", "array", "object", "regex")
_EXPRESSION = re.compile(r"/[^/\s]{1,200}/[dgimsuvy]{0,8}")
_MOST_SHOWN = 60
"""Characters of a list of keys that a message shows."""


def key_calls(subject: Subject) -> Iterator[LintFinding]:
    """Find mistakes in the arguments of the calls of the key functions."""
    for node in syntax.walk(subject.source.root):
        function = syntax.called(node)
        if function in syntax.KEY_FUNCTIONS:
            arguments = [bare(argument) for argument in syntax.arguments(node)]
            yield from _arguments(subject, function, arguments)


def _arguments(subject: Subject, function: str, arguments: list[Node]) -> Iterator[LintFinding]:
    """Yield what is wrong with the arguments of a call of `function`. Stop where messages or keys
    are missing; say nothing without arguments, or if one of them is spread."""
    source = subject.source
    # A spread argument may be anything, so nothing is known.
    if not arguments or any(argument.type == "spread_element" for argument in arguments):
        return

    messages, *others = arguments
    if _are_keys(messages):
        yield at(
            "messages-missing",
            messages,
            "{name} needs the messages first: {name}(context.messages, [...])",
            function,
        )
        return

    if not others:
        yield at(
            "keys-not-a-list",
            messages,
            "{name} needs keys: {name}({value}, ['...'])",
            function,
            source.of(messages)[:40],
        )
        return

    keys, *options = others
    yield from _keys(subject, function, keys)
    if options:
        yield from _scope(source, options[0], subject.value(options[0]))
    if len(options) > 1:
        yield from _depth(source, options[1])


def _are_keys(node: Node) -> bool:
    """Tell whether keys are in the place of the messages."""
    nodes = node.named_children if node.type == "array" else [node]
    return any(child.type in ("string", "regex") for child in nodes)


def _keys(subject: Subject, function: str, keys: Node) -> Iterator[LintFinding]:
    """Find mistakes in the keys of a call: they are no list, or an item of the list is wrong."""
    value = subject.value(keys)
    if value.type in _NO_LISTS:
        as_list = _as_list(subject.source.of(value))
        yield at("keys-not-a-list", keys, "the keys must be a list: {as_list}", as_list)
    elif keys.type == "array":
        yield from _items(subject.source, function, keys)


def _as_list(literal: str) -> str | Sentence:
    """Return what to write in place of a text: a single key, or perhaps several."""
    one_key = f"[{literal[:_MOST_SHOWN]}]"
    quote = literal[0]
    words = [word for word in _BETWEEN_KEYS.split(literal[1:-1]) if word]
    if quote not in "'\"" or len(words) < 2 or "\\" in literal:
        return one_key
    keys = ", ".join(f"{quote}{word}{quote}" for word in words)
    return Sentence(
        "[{several}] for {parts} keys, or {value} for one", keys[:80], len(words), one_key
    )


def _items(source: Source, function: str, keys: Node) -> Iterator[LintFinding]:
    """Yield what is wrong in a list of keys: an empty list or key, an item that is not a key, and a
    key that is there twice."""
    items = [item for item in keys.named_children if item.type != "comment"]
    if not items:
        yield at("empty-key", keys, "an empty list matches nothing")

    literals: set[str] = set()
    # The same key twice counts twice, which is seldom meant.
    for item in items:
        literal = source.of(item)
        if item.type == "string" and len(literal) == 2:
            effect = (
                Sentence(", so match_keys_all is always false")
                if function == "match_keys_all"
                else ""
            )
            yield at("empty-key", item, "an empty key matches nothing{so}", effect)
        elif item.type in _NO_KEYS:
            yield at("key-not-text", item, "a key must be a text or a regular expression")
        elif item.type == "string" and _EXPRESSION.fullmatch(literal[1:-1]):
            yield at(
                "key-not-text",
                item,
                "{text} is a text; write {value} without quotes",
                literal,
                literal[1:-1],
            )
        elif item.type in ("string", "regex"):
            key = literal[1:-1] if item.type == "string" else literal
            if key in literals:
                yield at("key-twice", item, "{text} is in the list twice", literal)
            literals.add(key)


def _scope(source: Source, node: Node, value: Node) -> Iterator[LintFinding]:
    """Find a scope that does not exist, and name the one that may be meant. A scope that is known
    only at run time is not looked at."""
    text = source.of(value)
    scopes = ", ".join(SCOPES)
    if value.type in _NO_SCOPES:
        yield at(
            "unknown-scope",
            node,
            "no scope {text}; the scopes are {scopes}",
            text,
            scopes,
        )
    if value.type != "string" or text[1:-1] in SCOPES:
        return
    meant = meant_name(text[1:-1].strip().casefold(), _OTHER_SCOPES, SCOPES)
    if meant is None:
        hint = Sentence("the scopes are {scopes}", scopes)
    else:
        hint = Sentence("did you mean '{meant}'?", meant)
    yield at("unknown-scope", node, "no scope {text}; {hint}", text, hint)


def _depth(source: Source, node: Node) -> Iterator[LintFinding]:
    """Find a depth that is negative, has a fraction, is not a number, or is larger than what a hook
    gives. A depth that is known only at run time is not looked at."""
    depth = number_of(source, node)
    if depth is not None:
        if depth < 0:
            yield at(
                "strange-depth",
                node,
                "leaves out the first {number:g} messages; give {number:g} for the last ones",
                -depth,
            )
        elif depth != int(depth):
            sentence = Sentence("counts as 0, all messages")
            if int(depth):
                sentence = Sentence("counts as {number}", int(depth))
            yield at("strange-depth", node, sentence)
        elif depth > HOOK_MESSAGES:
            yield at(
                "beyond-hooks",
                node,
                "looks at the last {number:g} messages; a hook gives at most {most}",
                depth,
                HOOK_MESSAGES,
            )
    elif node.type in _NO_DEPTHS:
        yield at("strange-depth", node, "the depth is a number of messages, 0 for all")
    elif node.type == "string" and not source.of(node)[1:-1].strip().isdecimal():
        yield at(
            "strange-depth",
            node,
            "{value} is not a number and counts as 0, all messages",
            source.of(node),
        )
