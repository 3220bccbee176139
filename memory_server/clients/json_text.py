"""Editing a JSON file of somebody else's: what is not meant to change keeps every byte.

Takes comments and trailing commas too, as VS Code's files have them. An edit is a splice into the text: nothing is
parsed and written anew. Knows no client.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn

Path = Sequence[str]
"""Names of members, from the root inwards."""

_BLANK = re.compile(r"(?:[ \t\r\n]+|//[^\n]*|/\*.*?\*/)*", re.DOTALL)
_COMMENT = re.compile(r"(?:[ \t]*(?://[^\r\n]*|/\*[^\r\n]*?\*/))?")
"""What is left of a line, if it is a comment."""
_STRING = re.compile(r'"(?:[^"\\\x00-\x1f]|\\.)*"')
_PLAIN = re.compile(r"-?[0-9][0-9.eE+-]*|true|false|null")
_DEEPEST = 200


class NotJson(ValueError):
    """A text is no JSON, also not with comments; the message has the line."""


@dataclass(slots=True)
class _Node:
    """A value and where it stands in the text. `members` or `items` of what holds others, in their order."""

    start: int
    end: int
    value: Any
    members: list[tuple[int, str, _Node]] = field(default_factory=list)
    """Where the name of each begins, the name, the value."""
    items: list[_Node] = field(default_factory=list)
    last_comma: int | None = None
    """Where a trailing comma stands."""

    def member(self, name: str) -> _Node | None:
        # Of two members of one name the last counts, as for every reader of JSON.
        return next((node for _, known, node in reversed(self.members) if known == name), None)


def value_at(text: str, path: Path) -> Any:
    """The value at `path`; None where there is none.

    Raises:
        NotJson: the text is no JSON.
    """
    node: _Node | None = _parsed(text)
    for name in path:
        node = None if node is None else node.member(name)
    return None if node is None else node.value


def with_member(text: str, path: Path, value: Any) -> str:
    """`text` with `value` at `path`, in place of what stood there; objects on the way are made.

    Raises:
        NotJson: the text is no JSON object, or something on the way is none.
    """
    node = _parsed(text if text.strip() else "{}")
    text = text if text.strip() else "{}"
    for depth, name in enumerate(path):
        if not isinstance(node.value, dict):
            raise NotJson(f"{'.'.join(path[:depth]) or 'the file'} is no object")
        inner = node.member(name)
        if inner is None:
            for missing in reversed(path[depth + 1 :]):
                value = {missing: value}
            return _inserted(text, node, value, f"{json.dumps(name, ensure_ascii=False)}: ")
        node = inner
    return text[: node.start] + _written(text, value, _indent_at(text, node.start)) + text[node.end :]


def with_item(text: str, path: Path, value: Any) -> str:
    """`text` with `value` as the last item of the array at `path`, which is made where it is missing.

    Raises:
        NotJson: the text is no JSON object, or there is no array.
    """
    if value_at(text, path) is None:
        return with_member(text, path, [value])
    node = _parsed(text)
    for name in path:
        node = node.member(name) or _fail(text, 0)
    if not isinstance(node.value, list):
        raise NotJson(f"{'.'.join(path)} is no array")
    return _inserted(text, node, value, "")


def without_member(text: str, path: Path) -> str:
    """`text` without the member at `path`, and without the objects on the way that it leaves empty."""
    chain = [_parsed(text)]
    for name in path:
        inner = chain[-1].member(name)
        if inner is None:
            return text
        chain.append(inner)
    for depth in reversed(range(len(path))):
        holder = chain[depth]
        if len(holder.members) > 1 or depth == 0:
            place = next(n for n, (_, name, _) in enumerate(holder.members) if name == path[depth])
            spans = [(start, node.end) for start, _, node in holder.members]
            return _cut(text, holder, spans, place)
    return text


def without_items(text: str, path: Path, unwanted: Callable[[Any], bool]) -> str:
    """`text` without the items of the array at `path` that are unwanted, and without what that leaves empty."""
    while isinstance(items := value_at(text, path), list):
        place = next((n for n, item in enumerate(items) if unwanted(item)), None)
        if place is None:
            return text
        if len(items) == 1:
            return without_member(text, path)
        node = _parsed(text)
        for name in path:
            node = node.member(name) or _fail(text, 0)
        text = _cut(text, node, [(item.start, item.end) for item in node.items], place)
    return text


def _inserted(text: str, holder: _Node, value: Any, name: str) -> str:
    """With one more at the end of `holder`, in the form of its neighbours."""
    newline = "\r\n" if "\r\n" in text else "\n"
    ends = [node.end for _, _, node in holder.members] or [node.end for node in holder.items]
    starts = [start for start, _, _ in holder.members] or [node.start for node in holder.items]
    outer = _indent_at(text, holder.start)
    if not ends:
        inner = outer + _unit(text)
        body = f"{newline}{inner}{name}{_written(text, value, inner)}{newline}{outer}"
        # What stands between the braces of an empty one, such as a comment, stays before it.
        kept = text[holder.start + 1 : holder.end - 1].rstrip()
        return text[: holder.start + 1] + kept + body + text[holder.end - 1 :]
    one_line = "\n" not in text[holder.start : starts[-1]]
    if one_line:
        added = f" {name}{json.dumps(value, ensure_ascii=False)}"
    else:
        inner = _indent_at(text, starts[-1])
        added = f"{newline}{inner}{name}{_written(text, value, inner)}"
    comma = ends[-1] if holder.last_comma is None else holder.last_comma + 1
    # A comment on the line of the neighbour is about the neighbour.
    line = comma if one_line else _COMMENT.match(text, comma).end()  # type: ignore[union-attr]
    parting = "," if holder.last_comma is None else ""
    return text[:comma] + parting + text[comma:line] + added + text[line:]


def _cut(text: str, holder: _Node, spans: list[tuple[int, int]], place: int) -> str:
    """Without one of `holder`, and without the comma that parted it from its neighbour."""
    start, end = spans[place]
    if place > 0:
        begin = spans[place - 1][1]
        # A comment behind the neighbour's comma belongs to the neighbour.
        comma = text.index(",", _BLANK.match(text, begin).end())  # type: ignore[union-attr]
        between = text[comma + 1 : start]
        kept = "" if not between.strip() else between.rstrip()
        return text[:begin] + text[begin:comma] + kept + text[end:]
    if len(spans) > 1:
        return text[:start] + text[spans[1][0] :]
    return text[: holder.start + 1] + text[holder.end - 1 :]


def _written(text: str, value: Any, indent: str) -> str:
    newline = "\r\n" if "\r\n" in text else "\n"
    return json.dumps(value, ensure_ascii=False, indent=_unit(text)).replace("\n", newline + indent)


def _indent_at(text: str, place: int) -> str:
    line = text[text.rfind("\n", 0, place) + 1 : place]
    return line[: len(line) - len(line.lstrip())]


def _unit(text: str) -> str:
    """One step of the file's indentation."""
    found = re.search(r"^([ \t]+)\S", text, re.MULTILINE)
    return found.group(1) if found else "  "


def _parsed(text: str) -> _Node:
    start = _BLANK.match(text, 0)
    node = _value(text, start.end() if start else 0, 0)
    end = _BLANK.match(text, node.end)
    if end is None or end.end() != len(text):
        _fail(text, node.end)
    return node


def _value(text: str, place: int, depth: int) -> _Node:
    if depth > _DEEPEST:
        _fail(text, place)
    opening = text[place : place + 1]
    if opening in ("{", "["):
        return _holder(text, place, depth, is_object=opening == "{")
    found = (_STRING if opening == '"' else _PLAIN).match(text, place)
    if found is None:
        _fail(text, place)
    try:
        return _Node(place, found.end(), json.loads(found.group()))
    except ValueError:
        _fail(text, place)


def _holder(text: str, place: int, depth: int, *, is_object: bool) -> _Node:
    node = _Node(place, place, {} if is_object else [])
    closing = "}" if is_object else "]"
    place = _blank(text, place + 1)
    while not text.startswith(closing, place):
        if is_object:
            start = place
            name = _value(text, place, depth + 1)
            place = _blank(text, name.end)
            if not isinstance(name.value, str) or not text.startswith(":", place):
                _fail(text, place)
            inner = _value(text, _blank(text, place + 1), depth + 1)
            node.members.append((start, name.value, inner))
            node.value[name.value] = inner.value
        else:
            inner = _value(text, place, depth + 1)
            node.items.append(inner)
            node.value.append(inner.value)
        place = _blank(text, inner.end)
        node.last_comma = None
        if text.startswith(",", place):
            node.last_comma = place
            place = _blank(text, place + 1)
        elif not text.startswith(closing, place):
            _fail(text, place)
    node.end = place + 1
    return node


def _blank(text: str, place: int) -> int:
    found = _BLANK.match(text, place)
    return found.end() if found else place


def _fail(text: str, place: int) -> NoReturn:
    raise NotJson(f"line {text.count(chr(10), 0, place) + 1} is no JSON")
