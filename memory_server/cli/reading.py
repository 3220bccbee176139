"""Reading memories from files and folders: what `import` and `convert` share."""

from __future__ import annotations

import asyncio
import json
from argparse import Namespace
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path

from rich.console import Console
from rich.markup import escape

from memory_server.app import App
from memory_server.cli.memory_files import read_file, read_folder
from memory_server.cli.terminal import progress
from memory_server.core.errors import InvalidInput
from memory_server.core.model import LongTermMemory
from memory_server.core.phrases import shown
from memory_server.core.times import moment_of
from memory_server.interchange import gentian, native, node, official, packs, worldinfo
from memory_server.interchange.detection import Format, format_of, format_of_folder
from memory_server.interchange.incoming import Incoming, NotThisFormat
from memory_server.tools.base.tool import MOST_SAID_CHARS
from sandbox import CheckReport, Failed, PatternError, TriggerSandbox
from sandbox.host.patterns import expression_of

TRUSTED: tuple[Format, ...] = ("native", "node")
"""Forms whose triggers were checked when they were stored: all of them are kept, so that nothing is lost."""
AT_ONCE = 200
"""Triggers in one request: they share its time, and those that had no time are tried again alone."""


async def read_memories(app: App, flags: Namespace, usual: str) -> tuple[Incoming, Format]:
    """The memories in the file or folder `flags.source`; memories without a conversation are for `usual`.

    Raises:
        InvalidInput: the source cannot be read; the message says what to give instead.
    """
    if flags.depth is not None and flags.depth < 1:
        raise InvalidInput("--depth must be at least 1 message.")
    try:
        return await _read(app, flags, usual)
    except NotThisFormat as error:
        raise InvalidInput(f"{flags.source} {error}") from error


async def checked(app: App, found: Incoming, *, keep: bool = False) -> None:
    """Leave out triggers that cannot work, which the server would refuse. With `keep` they stay, with a note."""
    now = moment_of(app.clock())
    for number, contents in enumerate(found.conversations):
        sources = [memory.trigger for memory in contents.long_term]
        reports: list[CheckReport] = []
        # 200 triggers that run too long take 20 s: so there is a progress bar.
        with progress("checking triggers", len(sources)) as bar:
            for begin in range(0, len(sources), AT_ONCE):
                reports += await app.sandbox.check_all(sources[begin : begin + AT_ONCE], now=now, seed=0)
                bar.advance(bar.task_ids[0], AT_ONCE)
        good: list[LongTermMemory] = []
        for memory, one in zip(contents.long_term, reports, strict=True):
            if one.errors:
                problem = one.errors[0]
                line = f" at line {problem.line}" if problem.line is not None else ""
                reason = f"its trigger cannot work: {problem.message}{line}"
                if not keep:
                    found.skipped.append((memory.name, reason))
                    continue
                found.notes.append(f"{memory.name}: {reason}")
            found.notes += [f"{memory.name}: {problem.message}" for problem in one.warnings]
            good.append(memory)
        found.conversations[number] = replace(contents, long_term=tuple(good))


def dated(found: Incoming, now_ms: int) -> None:
    """Give memories of a form without dates the time of the import."""
    for number, contents in enumerate(found.conversations):
        memories = (one if one.created_ms else replace(one, created_ms=now_ms) for one in contents.long_term)
        found.conversations[number] = replace(contents, long_term=tuple(memories))


def report(out: Console, found: Incoming) -> None:
    """Print what was left out, and what could not be carried over, line by line."""
    for place, reason in found.skipped:
        out.print(f"[yellow]left out[/]  {escape(shown(place))}: {escape(shown(reason, MOST_SAID_CHARS))}")
    for note in found.notes:
        out.print(f"[cyan]not carried[/]  {escape(shown(note, MOST_SAID_CHARS))}")


async def _read(app: App, flags: Namespace, usual: str) -> tuple[Incoming, Format]:
    source = Path(flags.source)
    if flags.source != "-" and await asyncio.to_thread(source.is_dir):
        files = await asyncio.to_thread(read_folder, source, flags.encoding)
        form: Format = flags.format or format_of_folder(files)
        match form:
            case "node":
                return await asyncio.to_thread(node.read, files), form
            case "gentian":
                return await asyncio.to_thread(gentian.read, files, usual), form
            case _:
                raise NotThisFormat(f"is a folder, but the form {form} is a file; give the file.")
    data = await asyncio.to_thread(read_file, flags.source, flags.encoding)
    form = flags.format or format_of(data)
    match form:
        case "native":
            return await asyncio.to_thread(native.read, data), form
        case "node":
            return await asyncio.to_thread(node.read_short_term, data, usual), form
        case "gentian":
            name = gentian.SHORT_TERM if b'"chat_name"' in data else gentian.LONG_TERM
            return await asyncio.to_thread(gentian.read, {name: data}, usual), form
        case "pack":
            return packs.read(data, usual), form
        case "worldinfo":
            book = worldinfo.read_book(data)
            names = {name: value for name, value in (("char", flags.char), ("user", flags.user)) if value}
            defaults = worldinfo.Defaults(flags.depth, not flags.substrings, flags.case_sensitive, names)
            invalid = await invalid_expressions(app.sandbox, worldinfo.expressions(book), moment_of(app.clock()))
            return worldinfo.read(book, source.name, usual, invalid, defaults), form
        case _:  # official
            return official.read(data, usual, app.clock()), form


async def invalid_expressions(sandbox: TriggerSandbox, keys: Sequence[str], now: datetime) -> set[str]:
    """The expressions `/body/flags` that V8 does not compile."""
    found: set[str] = set()
    sources: dict[str, str] = {}
    for key in keys:
        try:
            expression = expression_of(key)
        except PatternError:
            found.add(key)
        else:
            if expression is not None:
                sources[key] = f"new RegExp({', '.join(map(json.dumps, expression))})"
    tried = list(sources)
    for begin in range(0, len(tried), AT_ONCE):
        part = tried[begin : begin + AT_ONCE]
        verdicts = await sandbox.evaluate([sources[key] for key in part], {}, now=now, seed=0)
        for key in (key for key, verdict in zip(part, verdicts, strict=True) if isinstance(verdict, Failed)):
            # Try each once more alone: an error of the whole request, such as the end of its time, is not an error of
            # each.
            try:
                await sandbox.match_texts(key, [])
            except PatternError:
                found.add(key)
    return found
