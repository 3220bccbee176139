"""A Markdown file with YAML front matter: bytes to fields and body, and back. Pure.

A field that is not changed stays as it was written, comments and unknown fields too, so that a change is small in git.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import field
from datetime import datetime, tzinfo
from typing import Any

import yaml

from languages import MessageError, _
from memory_server.kernel.times import local, milliseconds
from memory_server.kernel.values import JsonObject, frozen

MAX_BYTES = 4 * 1024
"""The most bytes of front matter: it holds a key, tags and times."""
MAX_LEVELS = 20
"""The most levels of a text in YAML: libyaml takes the square of them in time."""
_CONFLICT = re.compile(r"<{7}(?: .*)?")
"""How git begins a place that it could not merge."""
MARK = "---"
_Loader: Any = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
"""Every scalar is text: a tag `no` and a key `123` stay as they are written. In C where the wheel has it."""
_CONFLICT_LINES = 40
"""Lines in which a file that begins with such a place has front matter."""
_LEVEL_CHANGES = {"[": 1, "{": 1, "]": -1, "}": -1}
"""What a bracket adds to the level of what follows it."""


class Unreadable(MessageError, ValueError):
    """Front matter that cannot be read, so that the file must be left alone; the text says why."""


class NotFields(Unreadable):
    """The text between the marks is not front matter, so a reader may take it for plain text."""


@frozen
class Page:
    """A file. `fields`: values of the front matter, all scalars as text; `raw`: their lines as they are written."""

    body: str
    fields: JsonObject = field(default_factory=dict)
    raw: Mapping[str, str] = field(default_factory=dict)


def read(data: bytes) -> Page | None:
    """Read a file as a page. Return None if it has no front matter, so it is not an entry. Raise Unreadable if it has
    marks of conflicts or is not UTF-8, and NotFields if the front matter is not closed, too long, or not YAML."""
    text = _decoded(data)
    if text is None:
        return None

    lines = text.split("\n")
    first_line = lines[0].rstrip()
    if first_line != MARK:
        if _CONFLICT.fullmatch(first_line) and MARK in map(str.rstrip, lines[1:_CONFLICT_LINES]):
            raise _conflict()
        return None

    end = _end_of_front_matter(lines)
    # A conflict within the front matter would be read as wrong fields.
    front_lines = lines[1:end]
    if any(_CONFLICT.fullmatch(line.rstrip()) for line in front_lines):
        raise _conflict()
    front = "\n".join(front_lines) + "\n"
    _refuse_long(front)

    fields, raw = _fields(front)
    body = "\n".join(lines[end + 1 :]).strip("\n")
    return Page(body, fields, raw)


def _end_of_front_matter(lines: Sequence[str]) -> int:
    """Return the index of the line that ends front matter. Raise NotFields if no line does."""
    for number, line in enumerate(lines[1:], 1):
        if line.rstrip() == MARK:
            return number
    raise NotFields("no line `---` ends its front matter")


def _decoded(data: bytes) -> str | None:
    """Decode a file. Return None if it is not UTF-8 and has no front matter. Raise Unreadable if it has front matter
    and is not UTF-8."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        if not data.removeprefix(b"\xef\xbb\xbf").startswith(MARK.encode()):
            return None
        raise Unreadable("it is not UTF-8 at byte {start}", error.start) from error
    return text.replace("\r\n", "\n")


def _conflict() -> Unreadable:
    return Unreadable("it has conflict markers of git in its front matter; merge both sides")


def write(body: str, fields: JsonObject, former: Page | None = None) -> bytes:
    """Write the file of `body` and `fields`; a field of None is left out. Further fields of `former` are kept in their
    order. Raise Unreadable if the front matter would be too long or have too many brackets to be read again."""
    before = former or Page("")
    lines = []
    for name in dict.fromkeys((*before.raw, *fields)):
        if name not in fields or (name in before.raw and _same(before.fields[name], fields[name])):
            lines.append(before.raw[name])
        elif fields[name] is not None:
            lines.append(_written(name, fields[name]))
            former_lines = before.raw.get(name, "").splitlines(keepends=True)
            lines += [line for line in former_lines if line.startswith("#")]
    front = "".join(lines)
    _refuse_long(front)
    _refuse_brackets(front)
    return f"{MARK}\n{front}{MARK}\n\n{body}\n".encode()


def _refuse_long(front: str) -> None:
    if len(front.encode()) > MAX_BYTES:
        raise NotFields("its front matter has more than {bytes:,} bytes", MAX_BYTES)


def _refuse_brackets(text: str) -> None:
    """Refuse a text that YAML would parse slowly, before YAML parses it. Brackets in texts count too. Raise NotFields."""
    level = 0
    for character in text:
        level = max(0, level + _LEVEL_CHANGES.get(character, 0))
        if level > MAX_LEVELS:
            raise NotFields(
                "its front matter has more than {levels} levels of brackets", MAX_LEVELS
            )


def value_in(text: str) -> Any:
    """Return the value of a text in YAML, in which every scalar is text. Raise NotFields if it is not YAML, or has
    aliases or too many levels."""
    _refuse_brackets(text)
    try:
        _refuse_aliases_and_depth(text)
        return yaml.load(text, _Loader)
    except (yaml.YAMLError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        line = "" if mark is None else _(" in line {line}", mark.line + 2)
        raise NotFields("its front matter is not YAML{line}", line) from error


def _fields(front: str) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the values of front matter, and the text of each field by its name, to be written back
    as it is. Raises NotFields as `value_in` does, or if it is not a mapping with text as names."""
    values = value_in(front)
    node = yaml.compose(front, _Loader)
    if node is None:
        return {}, {}
    if not isinstance(node, yaml.MappingNode) or not all(isinstance(name, str) for name in values):
        raise NotFields("its front matter has no `name: value` lines")

    # Only fields at the beginning of a line can keep their lines as they are written.
    starts = [name.start_mark for name, _ in node.value]
    if node.flow_style or any(mark.column for mark in starts):
        return values, {name: _written(name, value) for name, value in values.items()}

    ends = [*(mark.index for mark in starts[1:]), len(front)]
    raw: dict[str, str] = {}
    # Comments before the first field stay, under an empty name.
    if starts and starts[0].index:
        raw[""] = front[: starts[0].index]
    for (name, _value), mark, end in zip(node.value, starts, ends, strict=True):
        raw[name.value] = front[mark.index : end]
    return values, raw


def _refuse_aliases_and_depth(text: str) -> None:
    """Raise NotFields if a text in YAML has aliases or too many levels. Only the parser knows the levels of an indentation."""
    level = 0
    for event in yaml.parse(text, _Loader):
        if isinstance(event, yaml.AliasEvent):
            raise NotFields("its front matter has aliases (`*name`); write the values out")
        if isinstance(event, yaml.CollectionStartEvent):
            level += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            level -= 1
        if level > MAX_LEVELS:
            raise NotFields("its front matter has more than {levels} levels", MAX_LEVELS)


def _same(before: Any, value: Any) -> bool:
    return bool(before == value or (isinstance(value, list) and not value and before == ""))


def _written(name: str, value: Any) -> str:
    """Return the YAML of a field: a list of texts with one text a line, a time as it is, another
    value as PyYAML writes it."""
    if isinstance(value, list) and value and all(isinstance(item, str) for item in value):
        items = [f"  - {_scalar(item)}\n" for item in value]
        return f"{name}:\n" + "".join(items)
    if name.endswith("_at"):
        return f"{name}: {value}\n"
    dumped: str = yaml.safe_dump(
        {name: value},
        allow_unicode=True,
        width=float("inf"),
        sort_keys=False,
        default_flow_style=False,
    )
    return dumped


def _scalar(text: str) -> str:
    return _written("a", text)[len("a: ") :].rstrip("\n")


def moment_ms(text: Any, zone: tzinfo | None) -> int | None:
    """Return the milliseconds since 1970 of a date and time in ISO 8601, or None if it is not one. Without a zone of
    its own it is in `zone`, or in the system's zone if that is None."""
    try:
        moment = datetime.fromisoformat(text)
        in_zone = moment.replace(tzinfo=zone) if zone else moment.astimezone()
        if moment.tzinfo is None:
            moment = in_zone
        return milliseconds(moment)
    except (TypeError, ValueError, OverflowError, OSError):
        return None


def moment(time_ms: int | None, zone: tzinfo | None) -> str | None:
    """Write milliseconds as a date and time that `moment_ms` reads back: to the second, or to the millisecond if
    there is a fraction. None stays None; `zone` is None for the system's."""
    if time_ms is None:
        return None
    local_time = local(time_ms, zone).replace(tzinfo=None)
    precision = "milliseconds" if time_ms % 1000 else "seconds"
    return local_time.isoformat(timespec=precision)
