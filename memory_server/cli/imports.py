"""`import`, `convert` and `add-trigger`: memories from files of people, of other programs, or of another memory-server.

An import reports line by line what it leaves out; `convert` reads and writes files and stores nothing.
"""

from __future__ import annotations

import asyncio
from argparse import Namespace
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path

from rich.console import Console
from rich.text import Text

from memory_server.app import App
from memory_server.cli.exchanged_files import read_file
from memory_server.cli.export import write_memories
from memory_server.cli.incoming_files import TRUSTED, named, read
from memory_server.cli.inspection import ask, taken_text
from memory_server.cli.terminal import TEXT_CELLS, clipped, complain, console, escape, progress, spoken, time_text
from memory_server.conversations.archive import archived_ids
from memory_server.conversations.changes import Change
from memory_server.conversations.contents import Contents, restore_changes, without_erased
from memory_server.conversations.model import ConversationState, LongTermMemory, ShortTermMemory
from memory_server.conversations.trigger_runner import sandbox_errors
from memory_server.interchange import own
from memory_server.interchange.forms import Format
from memory_server.interchange.incoming import Incoming, NotThisFormat, with_keywords
from memory_server.kernel.backups import MergeCounts
from memory_server.kernel.erasure import left_out_text
from memory_server.kernel.errors import InvalidInput
from memory_server.kernel.text import shown
from memory_server.kernel.times import moment_of
from memory_server.knowledge.erasing import marks_of
from memory_server.tools.backup import tally_text
from memory_server.tools.base.tool import MOST_SAID_CHARS
from sandbox import CheckReport
from sandbox.locale import _, counted, foreign, term

AT_ONCE = 200
"""Triggers in one request: they share its time, and those that had no time are tried again alone."""
CHATS: tuple[Format, ...] = ("chat", "chat-export")
"""Forms in which the order of memories is that of a chat."""
AFTER_CHAT_MS = 3_600_000
"""How long ago a chat ended that has no times, or is shifted: nothing is recalled from the last 20 minutes."""
APART_MS = 600_000
"""How far exchanges without times are apart: of the same ten minutes, a search brings only two."""


async def import_(app: App, flags: Namespace) -> int:
    """Read, report and, without --dry-run, store, and then ask the questions; 1 if nothing could be used."""
    usual, out = app.conversation().id, console()
    count = left_out = 0
    asked = usual
    for source in flags.source:
        found, form = await read(app, source, flags, usual)
        if hasattr(flags, "conversation") and any(held.conversation_id != usual for held in found.conversations):
            raise InvalidInput("{named} names its own conversations; leave -c out.", named(source))
        if form not in TRUSTED:
            await _check(app, found)
        if flags.shift_to_now:
            _shift(found, app.clock())
        out.print(_("{named} has the form {form}.", escape(named(source)), form))
        for incoming in found.conversations:
            contents, tally = await store(app, incoming, form, dry_run=flags.dry_run)
            out.print(taken_text(contents.conversation_id, tally_text(tally), dry_run=flags.dry_run))
            for reason in contents.left_out:
                complain(reason)
            if flags.dry_run:
                _print_memories(app, contents)
            if contents.short_term:
                asked = contents.conversation_id
        for place, entries in found.entries.items():
            kept = [entry for entry in entries if not app.home.erased.holds(marks_of(entry))]
            if erased := len(entries) - len(kept):
                complain(left_out_text(erased))
            done = await app.knowledge.lifecycle.take(place, kept, dry_run=flags.dry_run)
            found.skipped += ((place, reason) for reason in done.left_out)
            count -= len(done.left_out)
            out.print(taken_text(place, tally_text(done.counts), dry_run=flags.dry_run))
            for entry in kept if flags.dry_run else ():
                when = time_text(entry.updated_ms or None, app.settings.zone)
                out.print(Text(f"  {when}  {clipped(entry.title or entry.body, TEXT_CELLS)}"))
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
                found = own.read_pack(data, conversation.id).conversations
            except NotThisFormat as error:
                raise InvalidInput("{file} {reason}", source, error) from error
            memories = [one for held in found for one in held.long_term]
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
    found, form = await read(app, flags.source, flags, app.conversation(None).id)
    if form not in TRUSTED:
        await _check(app, found, keep=True)
        if flags.to != "pack":  # not packs: the same lorebook should always make the same pack
            found.conversations = [_dated(held, None, form, app.clock()) for held in found.conversations]
    if found.count:
        entries = [(place, one) for place, held in found.entries.items() for one in held]
        await write_memories(app, found.conversations, flags, entries)
    _report(console(stderr=flags.target == "-"), found)
    return 0 if found.count else 1


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
            time_ms = now_ms - (AFTER_CHAT_MS + undated * APART_MS if form in CHATS else 0)
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
        out.print(Text(f"  {when}  {clipped(spoken(memory.text), TEXT_CELLS)}"))
    for kept in contents.long_term:
        out.print(Text(f"  {kept.name}: {clipped(kept.prompt, TEXT_CELLS)}"))


def _report(out: Console, found: Incoming) -> None:
    for place, reason in found.skipped:
        what = f"{escape(shown(place))}: {escape(shown(reason, MOST_SAID_CHARS))}"
        out.print(f"[yellow]{term('left out')}[/]  {what}")
    for doubt in found.doubts:
        out.print(f"[yellow]{term('warning')}[/]  {escape(shown(doubt, MOST_SAID_CHARS))}")
    lost = (_("{what}: {count:,}", what, count) for what, count in found.lost.items() if count)
    for note in (*found.notes, *lost):
        out.print(f"[cyan]{term('not carried')}[/]  {escape(shown(note, MOST_SAID_CHARS))}")


async def _check(app: App, found: Incoming, *, keep: bool = False) -> None:
    """Leave out triggers that cannot work, which the server would refuse. With `keep` they stay, with a note."""
    now = moment_of(app.clock())
    for number, contents in enumerate(found.conversations):
        sources = [memory.trigger for memory in contents.long_term]
        reports: list[CheckReport] = []
        # 200 triggers that run too long take 20 s: so there is a progress bar.
        with progress(_("checking triggers"), len(sources)) as advance, sandbox_errors():
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
                found.doubts.append(_("{about}: {what}", memory.name, reason))
            found.doubts += [_("{about}: {what}", memory.name, foreign(problem.message)) for problem in one.warnings]
            good.append(memory)
        found.conversations[number] = replace(contents, long_term=tuple(good))
