"""Reads GentianAphrodite's long-term memories. Their triggers run here as they are; what will not work is said. Pure.

Facts of its prompt/memory/long-term-memory.mjs: a JSON array of {trigger, prompt, name}, later versions with times and
contexts; a trigger is async code that sees args, logical_results, prompt_struct, detail_level and both match functions.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from sandbox.workbench.carrying import Carried
from sandbox.workbench.sources.packs import Memory

_SAME_IN_ARGS = ("messages", "conversation_id", "participants")
_OF_ARGS = re.compile(r"\bargs\s*(?:\?\.|\.)\s*([A-Za-z_$][\w$]*)")
_NOT_HERE = re.compile(r"\b(logical_results|prompt_struct|detail_level)\b")
_MONTH = re.compile(r"getMonth\(\)\s*={2,3}\s*(\d{1,2})\b")
_MISSING = "does not exist here"
_NAMES = ("name", "prompt_name")


class MemoriesError(Exception):
    """The file holds no such memories; the message says what to give instead."""


def carry(document: Any, source: str) -> list[Carried]:
    """Every memory of a file. `source`: its name. Raises MemoriesError."""
    if not isinstance(document, list):
        raise MemoriesError("is no list of memories; give the character's memory/long-term-memory.json")
    if document and not any(isinstance(row, dict) for row in document):
        raise MemoriesError("holds no memories; give the character's memory/long-term-memory.json")
    taken: set[str] = set()
    return [_carried(number, row, source, taken) for number, row in enumerate(document, start=1)]


def _carried(number: int, row: Any, source: str, taken: set[str]) -> Carried:
    if not isinstance(row, dict):
        return Carried(f"memory {number}", None, ("left out: it is no object with name, prompt and trigger",))
    name = next((str(row[key]).strip() for key in _NAMES if row.get(key)), f"memory {number}")
    trigger, prompt = row.get("trigger"), row.get("prompt") or row.get("prompt_content")
    for field, value in (("trigger", trigger), ("prompt", prompt)):
        if not isinstance(value, str) or not value.strip():
            return Carried(name, None, (f"left out: it has no {field}",), f"memory {number}")
    if name in taken:
        why = "left out: another memory before it has the same name"
        return Carried(name, None, (why,), f"memory {number}")
    taken.add(name)
    lost = tuple(dict.fromkeys(_lost(str(trigger), str(prompt))))
    context = row.get("createdContext")
    extra = {key: value for key, value in row.items() if key not in (*_NAMES, "trigger", "prompt", "prompt_content")}
    extra.pop("createdContext", None)
    for key in ("createdAt", "updatedAt"):
        if isinstance(extra.get(key), int | float) and not isinstance(extra[key], bool):
            extra[key] = _iso(extra[key])
    if lost:
        extra["notes"] = list(lost)
    created = context if isinstance(context, str) and context else f"{source}, memory {number}"
    runs = not any(_MISSING in line for line in lost)
    return Carried(name, Memory(name, str(prompt), str(trigger), created, extra), lost, f"memory {number}", runs)


def _lost(trigger: str, prompt: str) -> Iterator[str]:
    for found in _OF_ARGS.finditer(trigger):
        if found[1] not in _SAME_IN_ARGS:
            yield f"args.{found[1]}: {_MISSING}; args is context (messages, conversation_id, participants)"
    for found in _NOT_HERE.finditer(trigger):
        yield f"{found[1]}: {_MISSING}"
    for month in dict.fromkeys(map(int, _MONTH.findall(trigger))):
        if re.search(rf"(?<!\d)0?{month}\s*月", prompt) and not re.search(rf"(?<!\d)0?{month + 1}\s*月", prompt):
            yield f"getMonth() === {month}: months count from 0, this is {month + 1}月, but the prompt says {month}月"


def _iso(ms: float) -> Any:
    try:
        return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    except (OverflowError, ValueError, OSError):
        return ms
