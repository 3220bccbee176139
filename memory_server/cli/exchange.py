"""`export`, `import` and `convert`: memories as files for people, for other programs, or for another memory-server.

An import reports line by line what it leaves out; `convert` reads and writes files and stores nothing.
"""

from __future__ import annotations

import asyncio
from argparse import Namespace
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from rich.console import Console
from rich.filesize import decimal
from rich.markup import escape

from memory_server.app import App
from memory_server.cli.backup import tally_text
from memory_server.cli.look import each
from memory_server.cli.memory_files import read_file, read_folder, write_file, write_folder
from memory_server.cli.terminal import clipped, console, progress, time_text, watched
from memory_server.core.archive import archived_ids
from memory_server.core.changes import Change
from memory_server.core.contents import Contents, MergeCounts, contents_of, restore_changes
from memory_server.core.errors import InvalidInput
from memory_server.core.model import ConversationState, LongTermMemory
from memory_server.core.phrases import counted, shown
from memory_server.core.times import moment_of
from memory_server.interchange import gentian, markdown, native, node, official, packs, worldinfo
from memory_server.interchange.detection import Format, format_of, format_of_folder
from memory_server.interchange.incoming import Incoming, NotThisFormat, with_keywords
from memory_server.managers.conversations import Conversation
from memory_server.tools.base.tool import MOST_SAID_CHARS
from sandbox import CheckReport, PatternError, TriggerSandbox

TRUSTED: tuple[Format, ...] = ("native", "node")
"""Forms whose triggers were checked when they were stored: all of them are kept, so that nothing is lost."""
AT_ONCE = 200
"""Triggers in one request: they share its time, and those that had no time are tried again alone."""
SHOWN_CELLS = 70


async def export(app: App, flags: Namespace) -> int:
    """Write the memories of all conversations, or of one; 1 if one could not be read."""
    held: list[Contents] = []

    async def hold(conversation: Conversation) -> None:
        held.append(contents_of(await app.store.read(conversation.id)))

    only = flags.conversation_id
    _, failed = await each(app, only, "reading", hold)
    held = [contents for contents in held if contents.count or only is None]
    if not held:
        raise InvalidInput("There is nothing to export: nothing is stored there yet.")
    await _write(app, held, flags)
    return 1 if failed else 0


async def import_(app: App, flags: Namespace) -> int:
    """Read, report and, without --dry-run, store; 1 if nothing could be used."""
    usual = app.conversation(flags.into).id
    found, form = await _read(app, flags, usual)
    if flags.into is not None and any(contents.conversation_id != usual for contents in found.conversations):
        raise InvalidInput(f"{flags.source} names its own conversations; leave --into out.")
    if form not in TRUSTED:
        await _check(app, found)
        _date(found, app.clock())
    out = console()
    out.print(f"{escape(flags.source)} has the form {form}.")
    for incoming in watched("importing", found.conversations, len(found.conversations)):
        contents, tally = await _store(app, incoming, dry_run=flags.dry_run)
        verb = "would get" if flags.dry_run else "got"
        out.print(f"[bold]{escape(contents.conversation_id)}[/] {verb} {tally_text(tally)}")
        if flags.dry_run:
            _print_memories(app, contents)
    _report(out, found)
    nothing = " Nothing was changed." if flags.dry_run else ""
    left_out = counted(len(found.skipped), "record")
    out.print(f"{counted(found.count, 'memory')} can be used, {left_out} left out.{nothing}")
    return 0 if found.count or not found.skipped else 1


async def convert(app: App, flags: Namespace) -> int:
    """Read, write and report; 1 if nothing could be used: then nothing is written."""
    found, form = await _read(app, flags, app.conversation(None).id)
    if form not in TRUSTED:
        await _check(app, found, keep=True)
        if flags.to != "pack":  # not packs: the same lorebook should always make the same pack
            _date(found, app.clock())
    if found.count:
        await _write(app, found.conversations, flags)
    _report(console(stderr=flags.target == "-"), found)
    return 0 if found.count else 1


async def _write(app: App, held: Sequence[Contents], flags: Namespace) -> None:
    """Write memories to `flags.target` in the form `flags.to`; print the number written, and what the form loses.
    Raises InvalidInput if the target cannot be written, or the form is a folder and the target standard output."""
    form, target = flags.to, flags.target
    if form in ("node", "gentian"):
        if target == "-":
            raise InvalidInput(f"The form {form} is a folder; give the name of one instead of `-`.")
        files = node.write(held) if form == "node" else gentian.write(held)
        size = await asyncio.to_thread(write_folder, target, files)
    else:
        size = await asyncio.to_thread(write_file, target, _parts(app, held, form), force=flags.force)
    if target == "-":
        return
    left = sum(len(contents.short_term) for contents in held) if form == "pack" else 0
    count = sum(contents.count for contents in held) - left
    what = f"{counted(count, 'memory')} of {counted(len(held), 'conversation')}, {decimal(size)}"
    out = console()
    out.print(f"Wrote {escape(target)}: {what}, as {form}.")
    for note in official.LOST if form == "official" else ():
        out.print(f"[cyan]not carried[/]  {escape(note)}")
    if left:
        out.print(f"Not in it: {counted(left, 'short-term memory')}; a pack holds only long-term memories.")


def _parts(app: App, held: Sequence[Contents], form: str) -> Iterable[bytes]:
    match form:
        case "pack":
            return [packs.write(held)]
        case "official":
            return [official.write(held)]
        case "markdown":
            return markdown.write(held, app.settings.zone)
    return native.write(held, app.clock())


async def _store(app: App, incoming: Contents, *, dry_run: bool) -> tuple[Contents, MergeCounts]:
    """The contents with keywords, and what storing them changed or would change."""
    name = incoming.conversation_id
    contents = await asyncio.to_thread(with_keywords, incoming, app.context.services.parameters.wording.within(name))
    archived: Collection[str] = archived_ids(await app.store.archive(name))

    def decide(state: ConversationState) -> tuple[list[Change], MergeCounts]:
        return restore_changes(state, contents, "merge", archived)

    if dry_run:
        return contents, decide(await app.store.read(name))[1]
    return contents, (await app.store.update(name, decide, by="import"))[0]


def _print_memories(app: App, contents: Contents) -> None:
    out = console()
    for memory in contents.short_term:
        when = time_text(memory.time_ms, app.settings.zone)
        out.print(f"  {when}  {escape(clipped(memory.text, SHOWN_CELLS))}")
    for kept in contents.long_term:
        out.print(f"  {escape(kept.name)}: {escape(clipped(kept.prompt, SHOWN_CELLS))}")


def _report(out: Console, found: Incoming) -> None:
    """Print what was left out, and what could not be carried over, line by line."""
    for place, reason in found.skipped:
        out.print(f"[yellow]left out[/]  {escape(shown(place))}: {escape(shown(reason, MOST_SAID_CHARS))}")
    for note in found.notes:
        out.print(f"[cyan]not carried[/]  {escape(shown(note, MOST_SAID_CHARS))}")


# --- reading -----------------------------------------------------------------------------------------------


async def _read(app: App, flags: Namespace, usual: str) -> tuple[Incoming, Format]:
    """The memories in the file or folder `flags.source`; memories without a conversation are for `usual`. Raises
    InvalidInput if the source cannot be read; the message says what to give instead."""
    if flags.depth is not None and flags.depth < 1:
        raise InvalidInput("--depth must be at least 1 message.")
    try:
        if flags.source != "-" and await asyncio.to_thread(Path(flags.source).is_dir):
            files = await asyncio.to_thread(read_folder, Path(flags.source), flags.encoding)
            form: Format = flags.format or format_of_folder(files)
            return await asyncio.to_thread(_read_files, form, files, usual), form
        data = await asyncio.to_thread(read_file, flags.source, flags.encoding)
        form = flags.format or format_of(data)
        if form == "worldinfo":
            return await _read_lorebook(app, flags, data, usual), form
        return await asyncio.to_thread(_read_one, form, data, usual, app.clock()), form
    except NotThisFormat as error:
        raise InvalidInput(f"{flags.source} {error}") from error


def _read_files(form: Format, files: dict[str, bytes], usual: str) -> Incoming:
    match form:
        case "node":
            return node.read(files)
        case "gentian":
            return gentian.read(files, usual)
    raise NotThisFormat(f"is a folder, but the form {form} is a file; give the file.")


def _read_one(form: Format, data: bytes, usual: str, now_ms: int) -> Incoming:
    match form:
        case "native":
            return native.read(data)
        case "node":
            return node.read_short_term(data, usual)
        case "gentian":
            return gentian.read({gentian.SHORT_TERM if b'"chat_name"' in data else gentian.LONG_TERM: data}, usual)
        case "pack":
            return packs.read(data, usual)
    return official.read(data, usual, now_ms)


async def _read_lorebook(app: App, flags: Namespace, data: bytes, usual: str) -> Incoming:
    book = worldinfo.read_book(data)
    names = {name: value for name, value in (("char", flags.char), ("user", flags.user)) if value}
    defaults = worldinfo.Defaults(flags.depth, not flags.substrings, flags.case_sensitive, names)
    invalid = await invalid_expressions(app.sandbox, worldinfo.expressions(book))
    return worldinfo.read(book, Path(flags.source).name, usual, invalid, defaults)


async def _check(app: App, found: Incoming, *, keep: bool = False) -> None:
    """Leave out triggers that cannot work, which the server would refuse. With `keep` they stay, with a note."""
    now = moment_of(app.clock())
    for number, contents in enumerate(found.conversations):
        sources = [memory.trigger for memory in contents.long_term]
        reports: list[CheckReport] = []
        # 200 triggers that run too long take 20 s: so there is a progress bar.
        with progress("checking triggers", len(sources)) as advance:
            for begin in range(0, len(sources), AT_ONCE):
                reports += await app.sandbox.check_all(sources[begin : begin + AT_ONCE], now=now, seed=0)
                advance(AT_ONCE)
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


def _date(found: Incoming, now_ms: int) -> None:
    """Give memories of a form without dates the time of the import."""
    for number, contents in enumerate(found.conversations):
        memories = (one if one.created_ms else replace(one, created_ms=now_ms) for one in contents.long_term)
        found.conversations[number] = replace(contents, long_term=tuple(memories))


async def invalid_expressions(sandbox: TriggerSandbox, keys: Iterable[str]) -> set[str]:
    """The expressions `/body/flags` that V8 does not compile."""
    found: set[str] = set()
    for key in dict.fromkeys(keys):
        try:
            await sandbox.match_texts(key, [])
        except PatternError:
            found.add(key)
    return found
