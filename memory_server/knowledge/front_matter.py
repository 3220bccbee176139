"""A Markdown file with YAML front matter: bytes to fields and body, and back. Pure.

A field that is not changed stays as it was written, comments and unknown fields too, so that a change is small in git.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, tzinfo
from itertools import accumulate
from typing import Any

import yaml

from memory_server.kernel.times import local, milliseconds
from sandbox.locale import MessageError, _

MAX_BYTES, MAX_LEVELS = 4 * 1024, 20
"""Bytes and levels of front matter at most: it holds a key, tags and times. libyaml takes the square of the levels."""
_CONFLICT = re.compile(r"<{7}(?: .*)?")
"""How git begins a place that it could not merge."""
MARK = "---"
_Loader: Any = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
"""Every scalar is text: a tag `no` and a key `123` stay as they are written. In C where the wheel has it."""
_CONFLICT_LINES = 40
"""Lines in which a file that begins with such a place has front matter."""
_STEPS = {"[": 1, "{": 1, "]": -1, "}": -1}


class Unreadable(MessageError, ValueError):
    """Front matter that cannot be read, so that the file must be left alone; the text says why."""


class NotFields(Unreadable):
    """What stands between the marks is not front matter, so that somebody who only reads may take it for text."""


@dataclass(frozen=True, slots=True)
class Page:
    """A file. `fields`: values of the front matter, all scalars as text; `raw`: their lines as they are written."""

    body: str
    fields: Mapping[str, Any] = field(default_factory=dict)
    raw: Mapping[str, str] = field(default_factory=dict)


def read(data: bytes) -> Page | None:
    """The page of a file; None: it has no front matter, so it is not an entry. Raises Unreadable: it has marks of
    conflicts, or is not UTF-8; and NotFields: the front matter is not closed, too long, or not YAML."""
    try:
        text = data.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        if not data.removeprefix(b"\xef\xbb\xbf").startswith(MARK.encode()):
            return None
        raise Unreadable("it is not UTF-8 at byte {start}", error.start) from error
    lines = text.split("\n")
    if lines[0].rstrip() != MARK:
        if _CONFLICT.fullmatch(lines[0].rstrip()) and MARK in map(str.rstrip, lines[1:_CONFLICT_LINES]):
            raise Unreadable("it has conflict markers of git in its front matter; merge both sides")
        return None
    end = next((number for number, line in enumerate(lines[1:], 1) if line.rstrip() == MARK), None)
    if end is None:
        raise NotFields("no line `---` ends its front matter")
    front = "\n".join(lines[1:end]) + "\n"
    if any(_CONFLICT.fullmatch(line.rstrip()) for line in lines[1:end]):
        raise Unreadable("it has conflict markers of git in its front matter; merge both sides")
    _refuse_large(front)
    fields, raw = _fields(front)
    return Page("\n".join(lines[end + 1 :]).strip("\n"), fields, raw)


def write(body: str, fields: Mapping[str, Any], former: Page | None = None) -> bytes:
    """The file of `body` and `fields`; a field None is left out. What `former` has more is kept, in its order. Raises
    Unreadable: nobody could read that file again, because its front matter is too long or has too many brackets."""
    before = former or Page("")
    lines = []
    for name in dict.fromkeys((*before.raw, *fields)):
        if name not in fields or (name in before.raw and _same(before.fields[name], fields[name])):
            lines.append(before.raw[name])
        elif fields[name] is not None:
            comments = [line for line in before.raw.get(name, "").splitlines(True) if line.startswith("#")]
            lines.append(_written(name, fields[name]) + "".join(comments))
    _refuse_large(front := "".join(lines))
    return f"{MARK}\n{front}{MARK}\n\n{body}\n".encode()


def _refuse_large(front: str) -> None:
    """Before YAML, because the parser is slow with many brackets. Those in texts count too."""
    if len(front.encode()) > MAX_BYTES:
        raise NotFields("its front matter has more than {bytes:,} bytes", MAX_BYTES)
    steps = (_STEPS.get(each, 0) for each in front)
    if max(accumulate(steps, lambda *both: max(0, sum(both)), initial=0)) > MAX_LEVELS:
        raise NotFields("its front matter has more than {levels} levels of brackets", MAX_LEVELS)


def _fields(front: str) -> tuple[dict[str, Any], dict[str, str]]:
    try:
        level = 0
        for event in yaml.parse(front, _Loader):
            if isinstance(event, yaml.AliasEvent):
                raise NotFields("its front matter has aliases (`*name`); write the values out")
            level += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            if level > MAX_LEVELS:
                raise NotFields("its front matter has more than {levels} levels", MAX_LEVELS)
        node = yaml.compose(front, _Loader)
        values = yaml.load(front, _Loader)
    except (yaml.YAMLError, RecursionError) as error:
        place = getattr(error, "problem_mark", None)
        line = "" if place is None else _(" in line {line}", place.line + 2)
        raise NotFields("its front matter is not YAML{line}", line) from error
    if node is None:
        return {}, {}
    if not isinstance(node, yaml.MappingNode) or not all(isinstance(name, str) for name in values):
        raise NotFields("its front matter has no `name: value` lines")
    starts = [name.start_mark for name, _ in node.value]
    if node.flow_style or any(mark.column for mark in starts):
        return values, {name: _written(name, value) for name, value in values.items()}
    ends = [*(mark.index for mark in starts[1:]), len(front)]
    raw = {"": front[: starts[0].index]} if starts and starts[0].index else {}
    for (name, _value), mark, end in zip(node.value, starts, ends, strict=True):
        raw[name.value] = front[mark.index : end]
    return values, raw


def _same(before: Any, value: Any) -> bool:
    return bool(before == value or (isinstance(value, list) and not value and before == ""))


def _written(name: str, value: Any) -> str:
    if isinstance(value, list) and value and all(isinstance(each, str) for each in value):
        return f"{name}:\n" + "".join(f"  - {_scalar(each)}\n" for each in value)
    if name.endswith("_at"):
        return f"{name}: {value}\n"
    dumped: str = yaml.safe_dump(
        {name: value}, allow_unicode=True, width=float("inf"), sort_keys=False, default_flow_style=False
    )
    return dumped


def _scalar(text: str) -> str:
    return _written("a", text)[len("a: ") :].rstrip("\n")


def moment_ms(text: Any, zone: tzinfo | None) -> int | None:
    """Milliseconds since 1970 of a date and time in ISO 8601, in `zone` (None: the system's) where it names none; None
    if it is none."""
    try:
        moment = datetime.fromisoformat(text)
        here = moment.replace(tzinfo=zone) if zone else moment.astimezone()
        return milliseconds(moment if moment.tzinfo else here)
    except (TypeError, ValueError, OverflowError, OSError):
        return None


def moment(time_ms: int | None, zone: tzinfo | None) -> str | None:
    """The same back: to the second, or to the millisecond where it has some."""
    if time_ms is None:
        return None
    here = local(time_ms, zone).replace(tzinfo=None)
    return here.isoformat(timespec="milliseconds" if time_ms % 1000 else "seconds")
