"""`export`, `import` and `convert`: memories as files for people, for other programs, or for another memory-server.

An import reports line by line what it leaves out; `convert` reads and writes files and stores nothing.
"""

from __future__ import annotations

import asyncio
from argparse import Namespace
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from rich.console import Console
from rich.filesize import decimal
from rich.text import Text

from memory_server.app import App
from memory_server.cli.exchanged_files import read_file, read_folder, write_file, write_folder
from memory_server.cli.inspection import ask, each, tally_text
from memory_server.cli.terminal import clipped, complain, console, escape, progress, say_if_waiting, time_text
from memory_server.conversations.archive import archived_ids
from memory_server.conversations.changes import Change
from memory_server.conversations.contents import Contents, contents_of, restore_changes, without_erased
from memory_server.conversations.conversation import Conversation
from memory_server.conversations.model import ConversationState, LongTermMemory, ShortTermMemory
from memory_server.interchange import chats, folder_forms, official, own, worldinfo
from memory_server.interchange.incoming import (
    Format,
    Incoming,
    NotThisFormat,
    format_of,
    format_of_folder,
    with_keywords,
)
from memory_server.kernel.backups import MergeCounts
from memory_server.kernel.errors import InvalidInput
from memory_server.kernel.text import shown
from memory_server.kernel.times import moment_of
from memory_server.tools.base.tool import MOST_SAID_CHARS
from sandbox import CheckReport, PatternError, TriggerSandbox
from sandbox.locale import _, counted, foreign, term, translated

TRUSTED: tuple[Format, ...] = ("native", "node")
"""Forms whose triggers were checked when they were stored: all of them are kept, so that nothing is lost."""
FOLDERS: Mapping[Format, Callable[[Mapping[str, bytes], str], Incoming]] = {
    "node": folder_forms.read_node,
    "gentian": folder_forms.read_gentian,
}
"""Forms that are folders."""
FILES: Mapping[Format, Callable[[bytes, str], Incoming]] = {
    "native": own.read_native,
    "node": folder_forms.read_node_list,
    "gentian": folder_forms.read_gentian_list,
    "pack": own.read_pack,
    "official": official.read,
}
"""What reads one file: its bytes, for a conversation."""
AT_ONCE = 200
"""Triggers in one request: they share its time, and those that had no time are tried again alone."""
SHOWN_CELLS = 70
AFTER_CHAT_MS = 3_600_000
"""How long ago a chat ended that has no times, or is shifted: nothing is recalled from the last 20 minutes."""
APART_MS = 600_000
"""How far exchanges without times are apart: of the same ten minutes, a search brings only two."""


async def export(app: App, flags: Namespace) -> int:
    """Write the memories of all conversations, or of one; 1 if one could not be read."""
    held: list[Contents] = []

    async def hold(conversation: Conversation) -> None:
        held.append(contents_of(await app.store.read(conversation.id)))

    _count, failed = await each(app, flags, _("reading"), hold)
    held = [contents for contents in held if contents.count or not hasattr(flags, "conversation")]
    if not held:
        raise InvalidInput(await _nothing_to_export(app))
    await _write(app, held, flags)
    return 1 if failed else 0


async def _nothing_to_export(app: App) -> str:
    """Why: also what is stored here that has no conversation."""
    counts = (
        f"{name} {figures.count:,}" for name, figures in (await app.knowledge.overview()).items() if figures.count
    )
    if held := ", ".join(counts):
        return _(
            "There is no conversation to export, and knowledge ({held}) is not exported. `memory-server "
            "backup` makes a copy of it; to take it to another machine, copy the folder that "
            "`memory-server where` names.",
            held,
        )
    return _("There is nothing to export: nothing is stored there yet.")


async def import_(app: App, flags: Namespace) -> int:
    """Read, report and, without --dry-run, store, and then ask the questions; 1 if nothing could be used."""
    usual, out = app.conversation().id, console()
    count = left_out = 0
    asked = usual
    for source in flags.source:
        found, form = await _read(app, source, flags, usual)
        if hasattr(flags, "conversation") and any(held.conversation_id != usual for held in found.conversations):
            raise InvalidInput("{named} names its own conversations; leave -c out.", _named(source))
        if form not in TRUSTED:
            await _check(app, found)
        if flags.shift_to_now:
            _shift(found, app.clock())
        out.print(_("{named} has the form {form}.", escape(_named(source)), form))
        for incoming in found.conversations:
            contents, tally = await store(app, incoming, form, dry_run=flags.dry_run)
            verb = translated(_("would get") if flags.dry_run else _("got"))
            out.print(f"[bold]{escape(contents.conversation_id)}[/] {verb} {escape(tally_text(tally))}")
            for reason in contents.left_out:
                complain(reason)
            if flags.dry_run:
                _print_memories(app, contents)
            if form == "chat":
                asked = contents.conversation_id
        _report(out, found)
        count, left_out = count + found.count, left_out + len(found.skipped)
    nothing = _(" Nothing was changed.") if flags.dry_run else ""
    out.print(
        _(
            "{memories} can be used, {records} left out.{nothing}",
            counted(count, "memory"),
            counted(left_out, "record"),
            nothing,
        )
    )
    for question in flags.ask if not flags.dry_run else ():
        await ask(app, out, asked, [{"role": "user", "content": question}], asked)
    return 0 if count or not left_out else 1


def _named(source: str) -> str:
    return _("standard input") if source == "-" else source


async def add_trigger(app: App, flags: Namespace) -> None:
    """Store triggers from files, each checked as `add_long_term_memory` does it."""
    files = [(source, await asyncio.to_thread(read_file, source, flags.encoding)) for source in flags.source]
    plain = [source for source, _ in files if not source.endswith(".json")]
    if len(plain) > 1 or (plain and not flags.prompt):
        raise InvalidInput(
            "Say with --prompt what the model reads when {plain} fires; one .js file at a time.", plain[0]
        )
    conversation, out = app.conversation(), console()
    for source, data in files:
        if source in plain:
            name = flags.name or Path(source).stem
            memories = [LongTermMemory(name, flags.prompt, data.decode().removeprefix("\ufeff"), 0, source)]
        else:
            try:
                [held] = own.read_pack(data, conversation.id).conversations
            except NotThisFormat as error:
                raise InvalidInput("{file} {reason}", source, error) from error
            memories = list(held.long_term)
        for one in memories:
            context = one.created_context
            done = await conversation.long_term.add(
                one.name, one.prompt, one.trigger, created_context=context, by="add-trigger"
            )
            verb = _("Replaced") if done.replaced else _("Stored")
            out.print(
                _(
                    "{verb} {name} in {id}; change {change_id}.",
                    verb,
                    escape(one.name),
                    escape(conversation.id),
                    done.change_id,
                )
            )
            for problem in done.warnings:
                out.print(f"[yellow]{term('warning')}[/]  {escape(foreign(problem.message))}")


async def convert(app: App, flags: Namespace) -> int:
    """Read, write and report; 1 if nothing could be used: then nothing is written."""
    found, form = await _read(app, flags.source, flags, app.conversation(None).id)
    if form not in TRUSTED:
        await _check(app, found, keep=True)
        if flags.to != "pack":  # not packs: the same lorebook should always make the same pack
            found.conversations = [_dated(held, None, form, app.clock()) for held in found.conversations]
    if found.count:
        await _write(app, found.conversations, flags)
    _report(console(stderr=flags.target == "-"), found)
    return 0 if found.count else 1


async def _write(app: App, held: Sequence[Contents], flags: Namespace) -> None:
    """Write memories to `flags.target` in the form `flags.to`; print the number written, and what is not in it.
    Raises InvalidInput if the target cannot be written, or the form is a folder and the target standard output."""
    form, target = flags.to, flags.target
    if form == "node":
        if target == "-":
            raise InvalidInput("The form {form} is a folder; give the name of one instead of `-`.", form)
        size = await asyncio.to_thread(write_folder, target, folder_forms.write_node(held))
    else:
        parts: Iterable[bytes] = own.write_native(held, app.clock())
        if form != "native":
            parts = [own.write_pack(held)] if form == "pack" else own.write_page(held, app.settings.zone)
        size = await asyncio.to_thread(write_file, target, parts, force=flags.force)
    if target == "-":
        return
    left = sum(len(contents.short_term) for contents in held) if form == "pack" else 0
    count = sum(contents.count for contents in held) - left
    what = _(
        "{memories} of {conversations}, {decimal}",
        counted(count, "memory"),
        counted(len(held), "conversation"),
        decimal(size),
    )
    out = console()
    out.print(_("Wrote {target}: {what}, as {form}.", escape(target), what, form))
    if left:
        out.print(_("Not in it: {memories}; a pack holds only long-term memories.", counted(left, "short-term memory")))


async def store(app: App, incoming: Contents, form: Format, *, dry_run: bool) -> tuple[Contents, MergeCounts]:
    """The contents with keywords and times, and what storing them changed or would change."""
    incoming = without_erased(incoming, app.home.erased.holds)
    name, found = incoming.conversation_id, list[ShortTermMemory]()
    wording = app.memories.services.parameters.wording.within(name)
    with progress(_("importing {name}", name), len(incoming.short_term)) as advance:
        for begin in range(0, len(incoming.short_term), AT_ONCE):
            part = replace(incoming, short_term=incoming.short_term[begin : begin + AT_ONCE])
            found += (await asyncio.to_thread(with_keywords, part, wording)).short_term
            advance(AT_ONCE)
    indexed = replace(incoming, short_term=tuple(found))
    archived: Collection[str] = archived_ids(await app.store.archive(name))

    def decide(state: ConversationState) -> tuple[list[Change], tuple[Contents, MergeCounts]]:
        contents = indexed if form in TRUSTED else _dated(indexed, state, form, app.clock())
        changes, counts = restore_changes(state, contents, "merge", archived)
        return changes, (contents, counts)

    if dry_run:
        return decide(await app.store.read(name))[1]
    return (await app.store.update(name, decide, by="import"))[0]


def _dated(contents: Contents, state: ConversationState | None, form: Format, now_ms: int) -> Contents:
    """`contents` with a time for each memory. One without keeps the time of its first import in `state` as long as it
    is the same, and otherwise gets the time of this import; a chat keeps its order. What is known keeps score and pin.
    """
    known = {} if state is None else state.short_term
    undated = sum(not one.time_ms for one in contents.short_term)
    short: list[ShortTermMemory] = []
    for memory in contents.short_term:
        before, time_ms = known.get(memory.id), memory.time_ms
        if not time_ms:
            undated -= 1
            time_ms = now_ms - (AFTER_CHAT_MS + undated * APART_MS if form == "chat" else 0)
        if before is None:
            memory = replace(memory, time_ms=time_ms)
        elif before.text == memory.text and memory.time_ms in (0, before.time_ms):
            memory = before
        else:
            later_ms = memory.time_ms or max(time_ms, before.time_ms + 1)
            memory = replace(memory, time_ms=later_ms, score=before.score, pinned=before.pinned or memory.pinned)
        short.append(memory)
    long = [one if one.created_ms else _long_dated(one, state, now_ms) for one in contents.long_term]
    return replace(contents, short_term=tuple(short), long_term=tuple(long))


def _long_dated(memory: LongTermMemory, state: ConversationState | None, now_ms: int) -> LongTermMemory:
    before = None if state is None else state.long_term.get(memory.name)
    if before is not None and (before.prompt, before.trigger) == (memory.prompt, memory.trigger):
        return before
    return replace(memory, created_ms=now_ms)


def _shift(found: Incoming, now_ms: int) -> None:
    """Move the chats in time: their last message is an hour before `now_ms`."""
    last_ms = max((one.time_ms for held in found.conversations for one in held.short_term), default=0)
    by_ms = now_ms - AFTER_CHAT_MS - last_ms
    for number, held in enumerate(found.conversations):
        moved = []
        for one in held.short_term:
            said = (replace(m, time_ms=m.time_ms + by_ms) if m.time_ms else m for m in one.messages)
            moved.append(replace(one, time_ms=one.time_ms + by_ms, messages=tuple(said)) if one.time_ms else one)
        found.conversations[number] = replace(held, short_term=tuple(moved))


def _print_memories(app: App, contents: Contents) -> None:
    out = console()
    for memory in contents.short_term:
        when = time_text(memory.time_ms, app.settings.zone)
        out.print(Text(f"  {when}  {clipped(memory.text, SHOWN_CELLS)}"))
    for kept in contents.long_term:
        out.print(Text(f"  {kept.name}: {clipped(kept.prompt, SHOWN_CELLS)}"))


def _report(out: Console, found: Incoming) -> None:
    for place, reason in found.skipped:
        what = f"{escape(shown(place))}: {escape(shown(reason, MOST_SAID_CHARS))}"
        out.print(f"[yellow]{term('left out')}[/]  {what}")
    for note in found.notes:
        out.print(f"[cyan]{term('not carried')}[/]  {escape(shown(note, MOST_SAID_CHARS))}")


# --- reading -----------------------------------------------------------------------------------------------


async def _read(app: App, source: str, flags: Namespace, usual: str) -> tuple[Incoming, Format]:
    """The memories in the file or folder `source`; memories without a conversation are for `usual`. Raises
    InvalidInput if the source cannot be read; the message says what to give instead."""
    if flags.depth is not None and flags.depth < 1:
        raise InvalidInput("--depth must be at least 1 message.")
    names = {who: name for who, name in (("char", flags.char), ("user", flags.user)) if name}
    try:
        if source != "-" and await asyncio.to_thread(Path(source).is_dir):
            files = await asyncio.to_thread(read_folder, Path(source), flags.encoding)
            form: Format = flags.format or format_of_folder(files)
            if form not in FOLDERS:
                raise NotThisFormat("is a folder, but the form {form} is a file; give the file.", form)
            return await asyncio.to_thread(FOLDERS[form], files, usual), form
        if source == "-":
            say_if_waiting(_("what is imported"))
        data = await asyncio.to_thread(read_file, source, flags.encoding)
        form = flags.format or format_of(data)
        if form == "worldinfo":
            # The lorebook of a character usually goes into the conversation that has its name.
            names = ({"char": usual} if hasattr(flags, "conversation") else {}) | names
            defaults = worldinfo.Defaults(flags.depth, not flags.substrings, flags.case_sensitive, names)
            book = worldinfo.read_book(data)
            invalid = await invalid_expressions(app.sandbox, worldinfo.expressions(book))
            return worldinfo.read(book, Path(source).name, usual, invalid, defaults), form
        if form == "chat":
            return await asyncio.to_thread(chats.read, data, usual, app.settings.zone, names), form
        return await asyncio.to_thread(FILES[form], data, usual), form
    except NotThisFormat as error:
        raise InvalidInput("{file} {reason}", _named(source), error) from error


async def _check(app: App, found: Incoming, *, keep: bool = False) -> None:
    """Leave out triggers that cannot work, which the server would refuse. With `keep` they stay, with a note."""
    now = moment_of(app.clock())
    for number, contents in enumerate(found.conversations):
        sources = [memory.trigger for memory in contents.long_term]
        reports: list[CheckReport] = []
        # 200 triggers that run too long take 20 s: so there is a progress bar.
        with progress(_("checking triggers"), len(sources)) as advance:
            for begin in range(0, len(sources), AT_ONCE):
                reports += await app.sandbox.check_all(sources[begin : begin + AT_ONCE], now=now, seed=0)
                advance(AT_ONCE)
        good: list[LongTermMemory] = []
        for memory, one in zip(contents.long_term, reports, strict=True):
            if one.errors:
                problem = one.errors[0]
                line = _(" at line {line}", problem.line) if problem.line is not None else ""
                reason = _("its trigger cannot work: {reason}{line}", problem.message, line)
                if not keep:
                    found.skipped.append((memory.name, reason))
                    continue
                found.notes.append(_("{about}: {what}", memory.name, reason))
            found.notes += [_("{about}: {what}", memory.name, foreign(problem.message)) for problem in one.warnings]
            good.append(memory)
        found.conversations[number] = replace(contents, long_term=tuple(good))


async def invalid_expressions(sandbox: TriggerSandbox, keys: Iterable[str]) -> set[str]:
    """The expressions `/body/flags` that V8 does not compile."""
    found: set[str] = set()
    for key in dict.fromkeys(keys):
        try:
            await sandbox.match_texts(key, [])
        except PatternError:
            found.add(key)
    return found


# --- files and folders, read whole and written whole ------------------------------------------------------------
