"""An author's files: texts, chats, and packs, a JSON array of memories with their triggers.

docs/reference/trigger-packs.md describes the fields of packs and changes with this. Unknown fields survive reading and
writing. Every error is one sentence that says what to do (UsageError). At the end is `trigger-sandbox pack show`.
"""

from __future__ import annotations

import argparse
import difflib
import json
import sys
import zoneinfo
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from datetime import tzinfo
from pathlib import Path
from typing import Any, NamedTuple

from languages import _
from sandbox.chats import chat
from sandbox.chats.encoding import EncodingError, decode
from sandbox.rules import RULE_FIELDS
from sandbox.values import JsonObject, frozen
from sandbox.workbench.terminal import Terminal, UsageError

_TEXTS = ("name", "prompt", "trigger")


def read_json(name: str | Path, encoding: str | None = None) -> Any:
    """Read the JSON value of a file. Raises UsageError."""
    try:
        return json.loads(read_text(name, encoding))
    except json.JSONDecodeError as error:
        raise UsageError(
            "{name} is not JSON: line {line}: {reason}", name, error.lineno, error.msg
        ) from error
    except RecursionError as error:
        raise UsageError("{name} is not JSON: it is nested too deeply", name) from error


def read_text(name: str | Path, encoding: str | None = None) -> str:
    """Read a whole text file; `-` is standard input. Line ends become `\\n`. Raises UsageError."""
    try:
        content = sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()
        return decode(content, encoding).replace("\r\n", "\n")
    except EncodingError as error:
        raise UsageError("{file} {reason}", name, error) from error
    except OSError as error:
        raise UsageError("{name} cannot be read: {reason}", name, error.strerror) from error
    except ValueError as error:
        raise UsageError("{name!r} cannot be a file name; give another", name) from error


def read_chat(
    name: str,
    encoding: str | None = None,
    zone: tzinfo | None = None,
    roles: Mapping[str, str] | None = None,
) -> list[chat.Message]:
    """Read the messages of a chat file in any form of chat.py; `FILE#2` or `FILE#title` names a conversation of
    several. `zone`: the zone of local times in it, None for the system's. Standard error shows which roles were
    assumed for the speakers. Raises UsageError."""
    path, mark, which = name.rpartition("#")
    if not mark or name == "-" or Path(name).exists():
        path, which = name, ""
    try:
        messages, assumed = chat.parse(read_text(path, encoding), zone, which or None, roles)
    except chat.ChatError as error:
        raise UsageError("{about}: {what}", path, error) from error
    if assumed:
        Terminal(sys.stderr).show(_("{about}: {what}", path, assumed), "yellow")
    return messages


def zone_of(name: str | None) -> tzinfo | None:
    """Return the IANA time zone of that name, None for the system's. Raises UsageError."""
    if name is None:
        return None
    try:
        return zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise UsageError(
            "no time zone {name!r}; give an IANA name such as Asia/Shanghai", name
        ) from error


@frozen
class PackMemory:
    """A long-term memory in an author's file. `extra`: every other field, in the order of the file. `number`: its place
    in the file, from 1; 0 for a memory that was not read from a file."""

    name: str
    prompt: str
    trigger: str
    created_context: str = ""
    extra: JsonObject = field(default_factory=dict)
    number: int = field(default=0, compare=False)


def read_usable(
    name: str, encoding: str | None = None
) -> tuple[tuple[PackMemory, ...], tuple[str, ...]]:
    """Return the usable memories of a pack file, and a sentence about each of the others. Raises UsageError if it is not a
    pack, or none of its memories can be used."""
    try:
        memories, faults = usable(read_json(name, encoding))
    except ValueError as error:
        raise UsageError("{about}: {what}", name, error) from error
    if faults and not memories:
        raise UsageError("{about}: {what}", name, faults[0])
    return memories, faults


def usable(document: Any) -> tuple[tuple[PackMemory, ...], tuple[str, ...]]:
    """Return the usable memories, and a sentence about each of the others. Raises ValueError if it is not a pack."""
    if not isinstance(document, list):
        if isinstance(document, dict) and "entries" in document:
            raise ValueError(_("is a lorebook; `memory-server convert` makes a pack of it"))
        raise ValueError(_("a pack is a JSON array of memories with name, prompt and trigger"))

    memories: dict[str, PackMemory] = {}
    faults: list[str] = []
    for number, row in enumerate(document, start=1):
        try:
            memory = _memory(number, row)
        except ValueError as error:
            faults.append(str(error))
            continue

        # Memories are stored by name, so the second would replace the first.
        if memory.name in memories:
            faults.append(
                _(
                    "memory {number}: two memories are called {name!r}; give each its own name",
                    number,
                    memory.name,
                )
            )
        else:
            memories[memory.name] = memory

    return tuple(memories.values()), tuple(faults)


def _memory(number: int, row: Any) -> PackMemory:
    """Return the memory of a row. Raises ValueError: it has not all that a memory must have."""
    if not isinstance(row, dict):
        raise ValueError(
            _("memory {number} is not an object with name, prompt and trigger", number)
        )

    for key in _TEXTS:
        if not isinstance(row.get(key), str) or not row[key].strip():
            raise ValueError(
                _(
                    "memory {number} ({row!r}) has no `{key}`; it must be text",
                    number,
                    row.get("name"),
                    key,
                )
            )

    context = row.get("createdContext")
    if context is not None and not isinstance(context, str):
        raise ValueError(
            _("memory {number} ({name!r}): `createdContext` must be text", number, row["name"])
        )

    return PackMemory(
        name=row["name"],
        prompt=row["prompt"],
        trigger=row["trigger"],
        created_context=context or "",
        extra={key: value for key, value in row.items() if key not in (*_TEXTS, "createdContext")},
        number=number,
    )


def pack_text(memories: Iterable[PackMemory]) -> str:
    """Return the text of a pack file: JSON with an indent of two blanks, all scripts unescaped."""
    rows = [
        {
            "name": memory.name,
            "prompt": memory.prompt,
            "trigger": memory.trigger,
            "createdContext": memory.created_context,
            **memory.extra,
        }
        for memory in memories
    ]
    return json.dumps(rows, ensure_ascii=False, indent=2) + "\n"


def memory_named(pack: str, memories: Sequence[PackMemory], name: str) -> PackMemory:
    """Return the memory of that name, or of that number in its file. Raises UsageError with the nearest name."""
    by_number = {str(memory.number): memory for memory in memories}
    by_name = {memory.name: memory for memory in memories}
    memory = by_name.get(name) or by_number.get(name)
    if memory is not None:
        return memory
    near = [memory_name for memory_name in by_name if name.casefold() in memory_name.casefold()][:1]
    if not near:
        near = difflib.get_close_matches(name, list(by_name), n=1)
    hint = (
        _("did you mean {near!r}?", near[0])
        if near
        else _("`trigger-sandbox pack show` shows all memories")
    )
    raise UsageError("{pack}: no memory is called {name!r}; {hint}", pack, name, hint)


class NamedTrigger(NamedTuple):
    """A trigger. `file`: where it is; the same as the name if the file has nothing else. `memory`: the memory, if it
    is in a pack."""

    name: str
    source: str
    file: str
    memory: PackMemory | None = None


def triggers_of(
    names: Sequence[str],
    encoding: str | None = None,
    *,
    code: str | None = None,
    packs: bool = False,
) -> tuple[list[NamedTrigger], list[tuple[str, str]]]:
    """Return the triggers of packs (`.json`, or all with `packs`) and of other files; `-` is standard input. Or only
    `code`. Also, for each memory without a usable trigger, its pack and a sentence with the place. Raises UsageError."""
    if code is not None:
        if names:
            raise UsageError("-e takes no files; give the code alone, or write it to a file")
        return [NamedTrigger("-e", code, "-e")], []

    if not names:
        raise UsageError("there is no trigger; name a file, or give the trigger with -e")

    triggers: list[NamedTrigger] = []
    unusable: list[tuple[str, str]] = []
    for name in names:
        if packs or name.endswith(".json"):
            memories, faults = read_usable(name, encoding)
            triggers += [
                NamedTrigger(memory.name, memory.trigger, file=name, memory=memory)
                for memory in memories
            ]
            unusable += [(name, sentence) for sentence in faults]
        else:
            triggers.append(NamedTrigger(name, read_text(name, encoding), name))

    return triggers, unusable


def say_unusable(terminal: Terminal, unusable: Iterable[tuple[str, str]]) -> None:
    """Show the sentence about each memory that cannot be used, with its pack."""
    for name, sentence in unusable:
        terminal.show(f"{name}: {_('error')}: " + sentence, "red")


def rules_line(fields: JsonObject) -> str:
    """Write the rules of a memory as its file has them, on one line; "" without rules."""
    rules = (
        f"{name} {json.dumps(fields[name], ensure_ascii=False)}"
        for name in RULE_FIELDS
        if name in fields
    )
    return ", ".join(rules)


def show_pack(options: argparse.Namespace) -> int:
    """Print a memory, or all. Return 2 when all were asked for and a memory is unusable. Raises UsageError."""
    terminal = Terminal(sys.stdout)
    memories, faults = read_usable(options.pack)
    unusable = [(options.pack, sentence) for sentence in faults]
    # Even if other memories are broken, the memory with this name is shown.
    if options.memory is not None:
        try:
            memory = memory_named(options.pack, memories, options.memory)
        except UsageError:
            say_unusable(Terminal(sys.stderr), unusable)
            raise
        _show_memory(terminal, memory)
        return 0

    for position, memory in enumerate(memories):
        if position:
            terminal.show()
        _show_memory(terminal, memory)

    say_unusable(Terminal(sys.stderr), unusable)
    return 2 if unusable else 0


def _show_memory(terminal: Terminal, memory: PackMemory) -> None:
    """Show a memory of a pack: its prompt, trigger and rules, and its other fields that have a
    value."""
    terminal.rule(memory.name, "bold", "-")
    terminal.show(memory.prompt)
    terminal.show(f"\n{_('trigger')}", "dim")
    for line in memory.trigger.splitlines():
        terminal.show(f"    {line}")
    rules = rules_line(memory.extra)
    if rules:
        terminal.show(_("rules: {rules}", rules), "dim")
    other_fields = {name: value for name, value in memory.extra.items() if name not in RULE_FIELDS}
    for label, value in {"createdContext": memory.created_context, **other_fields}.items():
        lines = value if isinstance(value, list) else [value]
        for line in lines if value else ():
            terminal.show(_("{about}: {what}", label, line), "dim")
