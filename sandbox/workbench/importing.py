"""`trigger-sandbox import worldinfo|gentian`: read, carry over, try what came out, write, say what was lost."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sandbox.errors import SandboxError
from sandbox.host.supervisor import TriggerSandbox
from sandbox.workbench import carrying
from sandbox.workbench import gentian as gentian_memories
from sandbox.workbench.carrying import Carried
from sandbox.workbench.checking.findings import checked, invalid_expressions
from sandbox.workbench.sources.files import UsageError, read_text, write_files
from sandbox.workbench.sources.packs import Memory, pack_text
from sandbox.workbench.sources.yaml_forms import FormError, load_json
from sandbox.workbench.terminal import Terminal
from sandbox.workbench.worldinfo import BookError, read_book
from sandbox.workbench.worldinfo_keys import Defaults
from sandbox.workbench.worldinfo_losses import lost_everywhere


def worldinfo(options: argparse.Namespace) -> int:
    """Returns 0. Raises UsageError; then nothing was written."""
    if options.depth is not None and options.depth < 1:
        raise UsageError("--depth must be at least 1 message")
    try:
        book = read_book(_document(options))
    except BookError as error:
        raise UsageError(f"{options.file} {error}") from error
    names = {name: value for name, value in (("char", options.char), ("user", options.user)) if value}
    defaults = Defaults(options.depth, not options.substrings, options.case_sensitive, names)
    source = Path(options.file).name
    carried = carrying.carry(book, defaults, source, _invalid(carrying.expressions(book)))
    return _finish(options, carried, lost_everywhere(book))


def gentian(options: argparse.Namespace) -> int:
    """Returns 0. Raises UsageError; then nothing was written."""
    try:
        carried = gentian_memories.carry(_document(options), Path(options.file).name)
    except gentian_memories.MemoriesError as error:
        raise UsageError(f"{options.file} {error}") from error
    return _finish(options, carried, [])


def _document(options: argparse.Namespace) -> Any:
    name = options.file
    if name.lower().endswith(".png"):
        raise UsageError(f"{name} is a picture; export the character or its lorebook as JSON")
    try:
        return load_json(read_text(name, options.encoding))
    except FormError as error:
        raise UsageError(f"{name} is no JSON: {error}") from error


def _invalid(keys: Sequence[str]) -> set[str]:
    """The expressions that V8 does not compile."""

    async def tried() -> set[str]:
        async with TriggerSandbox(workers=1) as sandbox:
            return await invalid_expressions(sandbox, keys, datetime.now(UTC))

    try:
        return asyncio.run(tried()) if keys else set()
    except SandboxError as error:
        raise UsageError(str(error)) from error


def _finish(options: argparse.Namespace, carried: Sequence[Carried], everywhere: Sequence[str]) -> int:
    """Tries each trigger once, writes the pack, reports."""
    carried = _tried(carried)
    found = [one.memory for one in carried if one.memory is not None]
    if options.pack:
        write_files([(Path(options.pack), pack_text(found))], force=options.force)
        terminal = Terminal(sys.stdout)
    else:
        Terminal(sys.stdout).say(pack_text(found), end="")
        terminal = Terminal(sys.stderr)
    titles = Counter(one.title for one in carried)
    for one in carried:
        title = f"{one.title} ({one.place})" if titles[one.title] > 1 and one.place else one.title
        for line in one.lost:
            terminal.say(f"{title}: {line}", "red" if one.memory is None or not one.runs else "yellow")
    for line in everywhere:
        terminal.say(f"all: {line}", "dim")
    idle = [one.title for one in carried if one.memory is not None and not one.runs]
    whole = sum(one.memory is not None and not one.lost for one in carried)
    partly = len(found) - whole - len(idle)
    kept = f" {len(idle)} kept that cannot run here as they are ({', '.join(idle)});" if idle else ""
    terminal.say(
        f"{whole + partly} of {len(carried)} carried over{f' to {options.pack}' if options.pack else ''}: "
        f"{whole} wholly, {partly} with a note;{kept} {len(carried) - len(found)} left out",
        "yellow" if idle else "green",
    )
    return 0


def _tried(carried: Sequence[Carried]) -> list[Carried]:
    """What the server would say about each trigger joins its notes."""
    memories = [one.memory for one in carried if one.memory is not None]
    findings = iter(checked([one.trigger for one in memories], datetime.now(UTC))) if memories else iter(())
    found = []
    for one in carried:
        if one.memory is None:
            found.append(one)
            continue
        problems = next(findings).errors
        lost = (*one.lost, *(f"does not run here: {problem.message}" for problem in problems))
        extra = {**one.memory.extra, "notes": list(lost)} if lost else one.memory.extra
        memory: Memory = replace(one.memory, extra=extra)
        found.append(replace(one, memory=memory, lost=lost, runs=one.runs and not problems))
    return found
