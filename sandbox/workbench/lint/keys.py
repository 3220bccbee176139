"""Rules about calls of match_keys and match_keys_all that cannot do what was meant. Pure."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from sandbox.workbench.javascript import syntax
from sandbox.workbench.javascript.syntax import KEY_FUNCTIONS, Source, bare
from sandbox.workbench.lint.finding import Edit, Finding, Subject, at
from sandbox.workbench.lint.ranges import constants, number_of
from sandbox.workbench.lint.roles import OTHER_ROLES

if TYPE_CHECKING:
    from tree_sitter import Node

# sandbox/worker/realm/keys.js knows them too.
SCOPES = ("any", "user", "assistant", "system", "char", "both", "other")
MESSAGES = ("context.messages", "args.messages", "context", "args")
_OTHER_NAMES = {**OTHER_ROLES, "all": "any", "everyone": "any", "both sides": "both"}
_BETWEEN_KEYS = re.compile(r"\s*[,，、;；|/]\s*|\s+")
_ONE_KEY = re.compile(r"[^\W_]+(?:[-'_+#.·][^\W_]+|[+#])*")
"""A word and nothing that could stand between two of them or belong to an expression."""
_NUMBER = re.compile(r"0|[1-9][0-9]*")
_PLAIN = ("string", "regex", "template_string", "number", "true", "false", "object")


def keys(subject: Subject) -> Iterator[Finding]:
    """All rules of this file."""
    source = subject.source
    named = constants(source)

    def meant(node: Node) -> Node:
        """The value of a name that stands for one."""
        return named.get(source.of(node), node) if node.type == "identifier" else node

    for node in syntax.walk(source.root):
        if (name := syntax.called(node)) not in KEY_FUNCTIONS:
            continue
        given = [bare(one) for one in syntax.arguments(node)]
        if any(one.type == "spread_element" for one in given) or not given:
            continue
        if missing := _messages(source, name, given):
            yield missing
            continue
        if len(given) == 1:
            yield at("keys-not-a-list", given[0], f"{name} needs keys: {name}({source.of(given[0])[:40]}, ['...'])")
            continue
        yield from _list(source, name, given[1], meant(given[1]))
        if len(given) > 2:
            yield from _scope(source, given[2], meant(given[2]))
        if len(given) > 3:
            yield from _depth(source, given[3])


def _messages(source: Source, name: str, given: Sequence[Node]) -> Finding | None:
    """Keys stand where the messages belong. Fixed where nothing else can be meant."""
    first = given[0]
    if first.type not in ("string", "regex") and not _is_list_of_keys(first):
        return None
    edits: tuple[Edit, ...] = ()
    if len(given) == 1 or (given[1].type == "string" and source.of(given[1])[1:-1] in SCOPES):
        edits = (Edit(first.start_byte, first.start_byte, "context.messages, "),)
    elif source.of(given[1]) in MESSAGES:
        edits = (
            Edit(first.start_byte, first.end_byte, source.of(given[1])),
            Edit(given[1].start_byte, given[1].end_byte, source.of(first)),
        )
    said = f"{name} needs the messages first: {name}(context.messages, [...])"
    return at("messages-missing", first, said, *edits)


def _is_list_of_keys(node: Node) -> bool:
    return node.type == "array" and any(one.type in ("string", "regex") for one in node.named_children)


def _list(source: Source, name: str, node: Node, value: Node) -> Iterator[Finding]:
    """`value`: the node itself, or what the name that it is stands for."""
    if value.type in _PLAIN:
        yield _no_list(source, node, value)
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
                yield at("empty-key", item, "an empty key matches nothing", *_without(items, position))
            elif name == "match_keys":
                yield at("empty-key", item, "an empty key matches nothing")
            else:
                yield at("empty-key", item, "an empty key matches nothing, so match_keys_all is always false")
        elif item.type in ("number", "true", "false", "null", "object", "array"):
            edits = (Edit(item.start_byte, item.end_byte, f"'{text}'"),) if _NUMBER.fullmatch(text) else ()
            yield at("key-not-text", item, "a key must be a text or a regular expression", *edits)
        elif item.type in ("string", "regex"):
            key = text[1:-1] if item.type == "string" else text
            if key in seen:
                yield at("key-twice", item, f"{text} stands here twice", *_without(items, position))
            seen.add(key)


def _no_list(source: Source, node: Node, value: Node) -> Finding:
    """One key is put into a list; what may be several is left to its author."""
    text = source.of(value)
    one = f"[{text[:60]}]"
    if value.type == "string":
        parts = [part for part in _BETWEEN_KEYS.split(text[1:-1]) if part]
        if len(parts) > 1 and "\\" not in text:
            several = ", ".join(f"{text[0]}{part}{text[0]}" for part in parts)
            return at(
                "keys-not-a-list",
                node,
                f"the keys must be a list: [{several[:80]}] for {len(parts)} keys, or {one} for one",
            )
    certain = value is node and (value.type == "regex" or (value.type == "string" and _ONE_KEY.fullmatch(text[1:-1])))
    edits = (Edit(node.start_byte, node.end_byte, f"[{text}]"),) if certain else ()
    return at("keys-not-a-list", node, f"the keys must be a list: {one}", *edits)


def _without(items: Sequence[Node], position: int) -> tuple[Edit, ...]:
    """Takes one of several items out, with the comma beside it; not where a comment stands between them."""
    before, after = (items[position - 1], items[position]) if position else (items[0], items[1])
    between = after.prev_sibling
    if between is None or between.type != "," or between.prev_sibling != before:
        return ()
    if position:
        return (Edit(before.end_byte, after.end_byte, ""),)
    return (Edit(before.start_byte, after.start_byte, ""),)


def _scope(source: Source, node: Node, value: Node) -> Iterator[Finding]:
    text = source.of(value)
    if value.type in ("number", "true", "false", "array", "regex", "object"):
        yield at("unknown-scope", node, f"no scope {text}; the scopes are {', '.join(SCOPES)}")
    if value.type != "string" or text[1:-1] in SCOPES:
        return
    name = text[1:-1].strip().casefold()
    if name in SCOPES:
        edits = (Edit(node.start_byte, node.end_byte, f"{text[0]}{name}{text[0]}"),) if value is node else ()
        yield at("unknown-scope", node, f"no scope {text}; did you mean '{name}'?", *edits)
        return
    near = [_OTHER_NAMES[name]] if name in _OTHER_NAMES else difflib.get_close_matches(name, SCOPES, n=1, cutoff=0.75)
    hint = f"did you mean '{near[0]}'?" if near else f"the scopes are {', '.join(SCOPES)}"
    yield at("unknown-scope", node, f"no scope {text}; {hint}")


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
