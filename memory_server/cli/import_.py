"""`import`: memories of other programs and of exports, with a report line by line before anything is stored."""

from __future__ import annotations

import asyncio
from argparse import Namespace
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path

from rich.markup import escape

from memory_server.app import App
from memory_server.cli.backup import tally_text
from memory_server.cli.memory_files import read_file, read_folder
from memory_server.cli.terminal import clipped, console, progress, time_text
from memory_server.config import Settings
from memory_server.core.archive import archived_ids
from memory_server.core.changes import Change
from memory_server.core.contents import Contents, Tally, bringing_back
from memory_server.core.errors import InvalidInput
from memory_server.core.model import ConversationState, LongTermMemory
from memory_server.core.phrases import counted, shown
from memory_server.core.times import moment_of
from memory_server.interchange import gentian, native, node, official, packs, worldinfo
from memory_server.interchange.detection import Format, format_of, format_of_folder
from memory_server.interchange.incoming import Incoming, NotThisFormat
from memory_server.interchange.keywords import with_keywords
from memory_server.tools.base.tool import MOST_SAID_CHARS
from sandbox.verdicts import CheckReport
from sandbox.workbench.checking.findings import AT_ONCE, invalid_expressions, of_sources

TRUSTED: tuple[Format, ...] = ("native", "node")
"""Forms whose triggers were checked when they were stored: all of them come, so that nothing is lost on the way."""
SHOWN_CELLS = 70


async def import_(settings: Settings, flags: Namespace) -> int:
    """Read, report, and unless --dry-run store; 1 where nothing could be used."""
    async with App(settings) as app:
        usual = app.conversation(flags.into).id
        found, form = await _read(app, flags, usual)
        if flags.into is not None and any(contents.conversation_id != usual for contents in found.conversations):
            raise InvalidInput(f"{flags.source} names its own conversations; leave --into out.")
        if form not in TRUSTED:
            await _checked(app, found)
        found.conversations = [
            replace(contents, long_term=tuple(_dated(memory, app.clock()) for memory in contents.long_term))
            if form not in TRUSTED
            else contents
            for contents in found.conversations
        ]
        out = console()
        out.print(f"{escape(flags.source)} is of the form {form}.")
        tallies = await _stored(app, found, dry_run=flags.dry_run)
        for contents, tally in tallies:
            verb = "would get" if flags.dry_run else "got"
            out.print(f"[bold]{escape(contents.conversation_id)}[/] {verb} {tally_text(tally)}")
            if flags.dry_run:
                _print_memories(app, contents)
        for place, reason in found.skipped:
            out.print(f"[yellow]left out[/]  {escape(shown(place))}: {escape(shown(reason, MOST_SAID_CHARS))}")
        for note in found.notes:
            out.print(f"[cyan]not carried[/]  {escape(shown(note, MOST_SAID_CHARS))}")
        nothing = " Nothing was changed." if flags.dry_run else ""
        out.print(
            f"{counted(found.count, 'memory')} can be used, {counted(len(found.skipped), 'record')} left out.{nothing}"
        )
    return 0 if found.count or not found.skipped else 1


async def _read(app: App, flags: Namespace, usual: str) -> tuple[Incoming, Format]:
    source, encoding = flags.source, flags.encoding
    try:
        if await asyncio.to_thread(_is_folder, source):
            files = await asyncio.to_thread(read_folder, Path(source), encoding)
            form: Format = flags.format or format_of_folder(files)
            match form:
                case "node":
                    return await asyncio.to_thread(node.read, files), form
                case "gentian":
                    return await asyncio.to_thread(gentian.read, files, usual), form
                case _:
                    raise NotThisFormat(f"is a folder, and {form} is a file; give the file.")
        data = await asyncio.to_thread(read_file, source, encoding)
        form = flags.format or format_of(data)
        return await _from_file(app, data, form, source, usual), form
    except NotThisFormat as error:
        raise InvalidInput(f"{source} {error}") from error


async def _from_file(app: App, data: bytes, form: Format, source: str, usual: str) -> Incoming:
    match form:
        case "native":
            return await asyncio.to_thread(native.read, data)
        case "node":
            return await asyncio.to_thread(node.read_short_term, data, usual)
        case "gentian":
            name = gentian.SHORT_TERM if b'"chat_name"' in data else gentian.LONG_TERM
            return await asyncio.to_thread(gentian.read, {name: data}, usual)
        case "pack":
            return packs.read(data, usual)
        case "worldinfo":
            lorebook = worldinfo.book(data)
            now = moment_of(app.clock())
            invalid = await invalid_expressions(app.sandbox, worldinfo.expressions(lorebook), now)
            return worldinfo.read(lorebook, Path(source).name, usual, invalid)
        case "official":
            return official.read(data, usual, app.clock())


def _is_folder(source: str) -> bool:
    return source != "-" and Path(source).is_dir()


async def _checked(app: App, found: Incoming) -> None:
    """Leave out what the server would refuse to store: triggers that cannot work."""
    now = moment_of(app.clock())
    for number, contents in enumerate(found.conversations):
        sources = [memory.trigger for memory in contents.long_term]
        findings: list[CheckReport] = []
        # Triggers that run too long take 20 s for 200 of them: whoever waits sees how far it is.
        with progress("checking triggers", len(sources)) as bar:
            for begin in range(0, len(sources), AT_ONCE):
                findings += await of_sources(app.sandbox, sources[begin : begin + AT_ONCE], now)
                bar.advance(bar.task_ids[0], AT_ONCE)
        good = []
        for memory, finding in zip(contents.long_term, findings, strict=True):
            if finding.errors:
                problem = finding.errors[0]
                line = f" at line {problem.line}" if problem.line is not None else ""
                found.skipped.append((memory.name, f"its trigger cannot work: {problem.message}{line}"))
            else:
                good.append(memory)
                found.notes += [f"{memory.name}: {problem.message}" for problem in finding.warnings]
        found.conversations[number] = replace(contents, long_term=tuple(good))


def _dated(memory: LongTermMemory, now_ms: int) -> LongTermMemory:
    """A memory of a form without dates was made when it came."""
    return memory if memory.created_ms else replace(memory, created_ms=now_ms)


async def _stored(app: App, found: Incoming, *, dry_run: bool) -> list[tuple[Contents, Tally]]:
    done: list[tuple[Contents, Tally]] = []
    with progress("importing", len(found.conversations)) as bar:
        for incoming in found.conversations:
            wording = app.context.parameters.wording.within(incoming.conversation_id)
            contents = await asyncio.to_thread(with_keywords, incoming, wording)

            name = contents.conversation_id
            archived = archived_ids(await app.store.archive(name))

            def decide(
                state: ConversationState, contents: Contents = contents, archived: Collection[str] = archived
            ) -> tuple[list[Change], Tally]:
                return bringing_back(state, contents, "merge", archived)

            if dry_run:
                done.append((contents, decide(await app.store.read(name))[1]))
            else:
                tally, _ = await app.store.update(name, decide, by="import")
                done.append((contents, tally))
            bar.advance(bar.task_ids[0])
    return done


def _print_memories(app: App, contents: Contents) -> None:
    out, zone = console(), app.settings.zone
    for memory in contents.short_term:
        out.print(f"  {time_text(memory.time_ms, zone)}  {escape(clipped(memory.text, SHOWN_CELLS))}")
    for kept in contents.long_term:
        out.print(f"  {escape(kept.name)}: {escape(clipped(kept.prompt, SHOWN_CELLS))}")
