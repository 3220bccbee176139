"""Rules about calls of match_keys and match_keys_all that cannot do what the author meant. Pure."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from sandbox.javascript import syntax
from sandbox.javascript.finding import Finding, Subject, at
from sandbox.javascript.messages import OTHER_ROLES
from sandbox.javascript.syntax import KEY_FUNCTIONS, Source, bare, number_of

if TYPE_CHECKING:
    from tree_sitter import Node

# sandbox/worker/realm/keys.js has the same list.
SCOPES = ("any", "user", "assistant", "system", "char", "both", "other")
_OTHER_NAMES = {**OTHER_ROLES, "all": "any", "everyone": "any", "both sides": "both"}
_BETWEEN_KEYS = re.compile(r"\s*[,，、;；|/]\s*|\s+")
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
        if given[0].type in ("string", "regex") or _is_list_of_keys(given[0]):
            said = f"{name} needs the messages first: {name}(context.messages, [...])"
            yield at("messages-missing", given[0], said)
            continue
        if len(given) == 1:
            yield at("keys-not-a-list", given[0], f"{name} needs keys: {name}({source.of(given[0])[:40]}, ['...'])")
            continue
        if (value := subject.value(given[1])).type in _PLAIN:
            yield at("keys-not-a-list", given[1], f"the keys must be a list: {_as_list(source.of(value))}")
        elif given[1].type == "array":
            yield from _items(source, name, given[1])
        if len(given) > 2:
            yield from _scope(source, given[2], subject.value(given[2]))
        if len(given) > 3:
            yield from _depth(source, given[3])


def _is_list_of_keys(node: Node) -> bool:
    return node.type == "array" and any(one.type in ("string", "regex") for one in node.named_children)


def _as_list(text: str) -> str:
    """What to write in place of a text: one key, or perhaps several."""
    one = f"[{text[:60]}]"
    parts = [part for part in _BETWEEN_KEYS.split(text[1:-1]) if part]
    if text[0] not in "'\"" or len(parts) < 2 or "\\" in text:
        return one
    several = ", ".join(f"{text[0]}{part}{text[0]}" for part in parts)
    return f"[{several[:80]}] for {len(parts)} keys, or {one} for one"


def _items(source: Source, name: str, node: Node) -> Iterator[Finding]:
    items: Sequence[Node] = [one for one in node.named_children if one.type != "comment"]
    if not items:
        yield at("empty-key", node, "an empty list matches nothing")
    seen: set[str] = set()
    for item in items:
        text = source.of(item)
        if item.type == "string" and len(text) == 2:
            so = ", so match_keys_all is always false" if name == "match_keys_all" else ""
            yield at("empty-key", item, f"an empty key matches nothing{so}")
        elif item.type in ("number", "true", "false", "null", "object", "array"):
            yield at("key-not-text", item, "a key must be a text or a regular expression")
        elif item.type in ("string", "regex"):
            key = text[1:-1] if item.type == "string" else text
            if key in seen:
                yield at("key-twice", item, f"{text} is in the list twice")
            seen.add(key)


def _scope(source: Source, node: Node, value: Node) -> Iterator[Finding]:
    text = source.of(value)
    if value.type in ("number", "true", "false", "array", "regex", "object"):
        yield at("unknown-scope", node, f"no scope {text}; the scopes are {', '.join(SCOPES)}")
    if value.type != "string" or text[1:-1] in SCOPES:
        return
    name = text[1:-1].strip().casefold()
    known = _OTHER_NAMES.get(name)
    near = [known] if known else difflib.get_close_matches(name, SCOPES, n=1, cutoff=0.75)
    hint = f"did you mean '{near[0]}'?" if near else f"the scopes are {', '.join(SCOPES)}"
    yield at("unknown-scope", node, f"no scope {text}; {hint}")


def _depth(source: Source, node: Node) -> Iterator[Finding]:
    number = number_of(source, node)
    if number is not None and number < 0:
        said = f"leaves out the first {-number:g} messages; give {-number:g} for the last ones"
        yield at("strange-depth", node, said)
    elif number is not None and number != int(number):
        yield at("strange-depth", node, f"counts as {int(number)}{', all messages' if int(number) == 0 else ''}")
    elif node.type in ("true", "false", "array", "object", "regex"):
        yield at("strange-depth", node, "the depth is a number of messages, 0 for all")
    elif node.type == "string" and not source.of(node)[1:-1].strip().isdecimal():
        yield at("strange-depth", node, f"{source.of(node)} is not a number and counts as 0, all messages")
