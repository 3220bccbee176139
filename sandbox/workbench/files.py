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
from dataclasses import dataclass, field
from datetime import tzinfo
from pathlib import Path
from typing import Any, NamedTuple

from sandbox.chats import chat
from sandbox.chats.encoding import EncodingError, decode
from sandbox.locale import _, term
from sandbox.workbench.terminal import Terminal, UsageError

_TEXTS = ("name", "prompt", "trigger")


def read_json(name: str | Path, encoding: str | None = None) -> Any:
    """The JSON value of a file. Raises UsageError."""
    try:
        return json.loads(read_text(name, encoding))
    except json.JSONDecodeError as error:
        raise UsageError("{name} is not JSON: line {line}: {reason}", name, error.lineno, error.msg) from error
    except RecursionError as error:
        raise UsageError("{name} is not JSON: it is nested too deeply", name) from error


def read_text(name: str | Path, encoding: str | None = None) -> str:
    """A whole text file; `-` is standard input. Line ends become `\\n`. Raises UsageError."""
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
    """The messages of a chat file in any form of chat.py; `FILE#2` or `FILE#title` names one of several conversations.
    `zone`: of local times in it, None the system's. Standard error shows which roles were assumed for the speakers.
    Raises UsageError."""
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
    """The IANA time zone of that name, None for the system's. Raises UsageError."""
    if name is None:
        return None
    try:
        return zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise UsageError("no time zone {name!r}; give an IANA name such as Asia/Shanghai", name) from error


@dataclass(frozen=True, slots=True)
class PackMemory:
    """A long-term memory in an author's file. `extra`: every other field, in the order of the file. `number`: its place
    in the file, from 1; 0 for a memory that was not read from a file."""

    name: str
    prompt: str
    trigger: str
    created_context: str = ""
    extra: Mapping[str, Any] = field(default_factory=dict)
    number: int = field(default=0, compare=False)


def read_usable(name: str, encoding: str | None = None) -> tuple[tuple[PackMemory, ...], tuple[str, ...]]:
    """The usable memories of a pack file, and a sentence about each of the others. Raises UsageError."""
    try:
        found, wrong = usable(read_json(name, encoding))
    except ValueError as error:
        raise UsageError("{about}: {what}", name, error) from error
    if wrong and not found:
        raise UsageError("{about}: {what}", name, wrong[0])
    return found, wrong


def usable(document: Any) -> tuple[tuple[PackMemory, ...], tuple[str, ...]]:
    """The usable memories, and a sentence about each of the others. Raises ValueError if it is not a pack."""
    if not isinstance(document, list):
        if isinstance(document, dict) and "entries" in document:
            raise ValueError(_("is a lorebook; `memory-server convert` makes a pack of it"))
        raise ValueError(_("a pack is a JSON array of memories with name, prompt and trigger"))
    found: dict[str, PackMemory] = {}
    wrong: list[str] = []
    for number, row in enumerate(document, start=1):
        try:
            memory = _memory(number, row)
            if memory.name in found:
                raise ValueError(
                    _("memory {number}: two memories are called {name!r}; give each its own name", number, memory.name)
                )
            found[memory.name] = memory
        except ValueError as error:
            wrong.append(str(error))
    return tuple(found.values()), tuple(wrong)


def _memory(number: int, row: Any) -> PackMemory:
    if not isinstance(row, dict):
        raise ValueError(_("memory {number} is not an object with name, prompt and trigger", number))
    for key in _TEXTS:
        if not isinstance(row.get(key), str) or not row[key].strip():
            raise ValueError(
                _("memory {number} ({row!r}) has no `{key}`; it must be text", number, row.get("name"), key)
            )
    context = row.get("createdContext")
    if context is not None and not isinstance(context, str):
        raise ValueError(_("memory {number} ({name!r}): `createdContext` must be text", number, row["name"]))
    extra = {key: value for key, value in row.items() if key not in (*_TEXTS, "createdContext")}
    return PackMemory(row["name"], row["prompt"], row["trigger"], context or "", extra, number)


def pack_text(found: Iterable[PackMemory]) -> str:
    """The text of a pack file: JSON with an indent of two blanks, all scripts unescaped."""
    rows = [
        {**{key: getattr(one, key) for key in _TEXTS}, "createdContext": one.created_context, **one.extra}
        for one in found
    ]
    return json.dumps(rows, ensure_ascii=False, indent=2) + "\n"


def memory_named(pack: str, found: Sequence[PackMemory], name: str) -> PackMemory:
    """The memory of that name, or of that number in its file. Raises UsageError with the nearest name."""
    known = {**{str(memory.number): memory for memory in found}, **{memory.name: memory for memory in found}}
    if name in known:
        return known[name]
    holding = [memory.name for memory in found if name.casefold() in memory.name.casefold()]
    near = holding[:1] or difflib.get_close_matches(name, [memory.name for memory in found], n=1)
    hint = _("did you mean {near!r}?", near[0]) if near else _("`trigger-sandbox pack show` shows all memories")
    raise UsageError("{pack}: no memory is called {name!r}; {hint}", pack, name, hint)


class NamedTrigger(NamedTuple):
    """One trigger. `file`: where it is; the same as the name if the file has nothing else."""

    name: str
    source: str
    file: str


def triggers_of(
    names: Sequence[str], encoding: str | None = None, *, code: str | None = None, packs: bool = False
) -> tuple[list[NamedTrigger], list[tuple[str, str]]]:
    """The triggers of packs (`.json`, or all with `packs`) and of other files; `-` is standard input. Or only `code`.
    Also, for each memory without a usable trigger, its pack and a sentence with the place. Raises UsageError."""
    if code is not None:
        if names:
            raise UsageError("-e takes no files; give the code alone, or write it to a file")
        return [NamedTrigger("-e", code, "-e")], []
    if not names:
        raise UsageError("there is no trigger; name a file, or give the trigger with -e")
    found: list[NamedTrigger] = []
    unusable: list[tuple[str, str]] = []
    for name in names:
        if packs or name.endswith(".json"):
            memories, wrong = read_usable(name, encoding)
            found += [NamedTrigger(memory.name, memory.trigger, name) for memory in memories]
            unusable += [(name, sentence) for sentence in wrong]
        else:
            found.append(NamedTrigger(name, read_text(name, encoding), name))
    return found, unusable


def say_unusable(terminal: Terminal, unusable: Iterable[tuple[str, str]]) -> None:
    for name, sentence in unusable:
        terminal.show(f"{name}: {term('error')}: " + sentence, "red")


def show_pack(options: argparse.Namespace) -> int:
    """Prints one memory, or all. Returns 2 when all were asked for and one is unusable. Raises UsageError."""
    terminal = Terminal(sys.stdout)
    found: Sequence[PackMemory]
    found, wrong = read_usable(options.pack)
    if options.memory is not None:
        try:
            found, wrong = [memory_named(options.pack, found, options.memory)], ()
        except UsageError:
            say_unusable(Terminal(sys.stderr), [(options.pack, sentence) for sentence in wrong])
            raise
    for position, memory in enumerate(found):
        if position:
            terminal.show()
        terminal.rule(memory.name, "bold", "-")
        terminal.show(memory.prompt)
        terminal.show(f"\n{term('trigger')}", "dim")
        for line in memory.trigger.splitlines():
            terminal.show(f"    {line}")
        for label, text in (("createdContext", memory.created_context), *memory.extra.items()):
            for line in text if isinstance(text, list) else [text] if text else []:
                terminal.show(_("{about}: {what}", label, line), "dim")
    say_unusable(Terminal(sys.stderr), [(options.pack, sentence) for sentence in wrong])
    return 2 if wrong else 0
