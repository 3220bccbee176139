"""Rules about calls of match_keys and match_keys_all that cannot do what was meant. Pure."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from typing import TYPE_CHECKING

from .. import syntax
from ..syntax import KEY_FUNCTIONS, Source, bare
from .finding import Edit, Finding, Subject, at
from .ranges import number_of

if TYPE_CHECKING:
    from tree_sitter import Node

# sandbox/realm/keys.js knows them too.
SCOPES = ("any", "user", "assistant", "system", "char", "both", "other")
_PLAIN = ("string", "regex", "template_string", "number", "true", "false", "object")


def keys(subject: Subject) -> Iterator[Finding]:
    """All rules of this file."""
    source = subject.source
    for node in syntax.walk(source.root):
        if (name := syntax.called(node)) not in KEY_FUNCTIONS:
            continue
        given = [bare(one) for one in syntax.arguments(node)]
        if any(one.type == "spread_element" for one in given) or not given:
            continue
        if given[0].type in ("array", "string") and len(given) == 1:
            yield at(
                "messages-missing",
                given[0],
                f"{name} needs the messages first: {name}(context.messages, [...])",
                Edit(given[0].start_byte, given[0].start_byte, "context.messages, "),
            )
            continue
        if len(given) > 1:
            yield from _list(source, name, given[1])
        if len(given) > 2:
            yield from _scope(source, given[2])
        if len(given) > 3:
            yield from _depth(source, given[3])


def _list(source: Source, name: str, node: Node) -> Iterator[Finding]:
    if node.type in _PLAIN:
        fixable = node.type in ("string", "regex")
        edits = (Edit(node.start_byte, node.end_byte, f"[{source.of(node)}]"),) if fixable else ()
        yield at("keys-not-a-list", node, f"the keys must be a list: [{source.of(node)[:40]}]", *edits)
    if node.type != "array":
        return
    items = [one for one in node.named_children if one.type != "comment"]
    if not items:
        yield at("empty-key", node, "an empty list matches nothing")
    seen: set[str] = set()
    for position, item in enumerate(items):
        text = source.of(item)
        if item.type == "string" and len(text) == 2:
            if name == "match_keys" and len(items) > 1:
                yield at("empty-key", item, "an empty key matches nothing", _without(items, position))
            elif name == "match_keys":
                yield at("empty-key", item, "an empty key matches nothing")
            else:
                yield at("empty-key", item, "an empty key matches nothing, so match_keys_all is always false")
        elif item.type in ("number", "true", "false", "null", "object", "array"):
            edits = (Edit(item.start_byte, item.end_byte, f"'{text}'"),) if text.isdecimal() else ()
            yield at("key-not-text", item, "a key must be a text or a regular expression", *edits)
        elif item.type in ("string", "regex"):
            key = text[1:-1] if item.type == "string" else text
            if key in seen:
                yield at("key-twice", item, f"{text} stands here twice", _without(items, position))
            seen.add(key)


def _without(items: list[Node], position: int) -> Edit:
    """Takes one of several items out, with the comma beside it."""
    if position:
        return Edit(items[position - 1].end_byte, items[position].end_byte, "")
    return Edit(items[0].start_byte, items[1].start_byte, "")


def _scope(source: Source, node: Node) -> Iterator[Finding]:
    if node.type in ("number", "true", "false", "array"):
        yield at("unknown-scope", node, f"no scope {source.of(node)}; the scopes are {', '.join(SCOPES)}")
    if node.type != "string":
        return
    text = source.of(node)
    name = text[1:-1]
    if name in SCOPES:
        return
    near = difflib.get_close_matches(name.strip().casefold(), SCOPES, n=1, cutoff=0.75)
    if near:
        edit = Edit(node.start_byte, node.end_byte, f"{text[0]}{near[0]}{text[0]}")
        yield at("unknown-scope", node, f"no scope {text}; did you mean '{near[0]}'?", edit)
    else:
        yield at("unknown-scope", node, f"no scope {text}; the scopes are {', '.join(SCOPES)}")


def _depth(source: Source, node: Node) -> Iterator[Finding]:
    number = number_of(source, node)
    if number is not None and number < 0:
        yield at(
            "strange-depth", node, f"leaves out the first {-number:g} messages; give {-number:g} for the last ones"
        )
    elif number is not None and number != int(number):
        yield at("strange-depth", node, f"counts as {int(number)}{' = all messages' if int(number) == 0 else ''}")
    elif node.type in ("true", "false", "array", "object", "regex"):
        yield at("strange-depth", node, "the depth is a number of messages, 0 for all")
    elif node.type == "string" and not source.of(node)[1:-1].strip().isdecimal():
        yield at("strange-depth", node, f"{source.of(node)} is no number and counts as 0, all messages")
