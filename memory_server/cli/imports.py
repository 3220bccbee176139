"""Import memories from files of people, of other programs, or of another memory-server (`import`, `convert`,
`add-trigger`).

An import reports line by line what it leaves out; `convert` reads and writes files and stores nothing.
"""

from __future__ import annotations

import asyncio
from argparse import Namespace
from collections.abc import Iterable
from dataclasses import fields
from functools import partial
from io import BytesIO
from pathlib import Path

from rich.console import Console

from languages import _, counted, foreign
from memory_server.cli.export import write_memories
from memory_server.cli.inspection import ask
from memory_server.cli.terminal import (
    TEXT_CELLS,
    clipped,
    console,
    escape,
    hint,
    print_plain,
    progress,
    say,
    spoken,
    time_text,
)
from memory_server.conversations.contents import Contents
from memory_server.conversations.conversation import Conversation
from memory_server.kernel.backups import MergeCounts
from memory_server.kernel.erasure import left_out_text
from memory_server.kernel.errors import InvalidInput
from memory_server.kernel.streams import complain, say_if_waiting, standard_input
from memory_server.kernel.text import shown
from memory_server.knowledge.entry import Entry
from memory_server.lore import PLAIN, GivenRules, LongTermMemory
from memory_server.operations.exchanged_files import all_of, content_of
from memory_server.operations.exports import ExportContent
from memory_server.operations.imports import (
    LOREBOOK,
    ImportRequest,
    ReportLine,
    SourceReport,
    converted,
    import_sources,
    lines_of,
    memories_of_pack,
)
from memory_server.operations.lore_import import book_text
from memory_server.operations.ports import ReadOptions, Source
from memory_server.runtime.app import CallerView
from memory_server.tools.backup import tally_text
from memory_server.tools.base.tool import MOST_SAID_CHARS

_READ_OPTIONS = frozenset(field.name for field in fields(ReadOptions))


async def import_(view: CallerView, flags: Namespace) -> int:
    """Read, report, store (unless --dry-run) and then ask the questions. Return 1 if nothing could
    be used. Raises InvalidInput if a source cannot be read; those before it are stored."""
    out = console()
    request = ImportRequest(
        [source_of(name) for name in flags.source],
        read_options(view, flags),
        shift_to_now=flags.shift_to_now,
        dry_run=flags.dry_run,
        keep_secrets=flags.keep_secrets,
    )

    tell = partial(_print_source, view, dry_run=flags.dry_run)
    report = await import_sources(view, request, progress=progress, tell=tell)

    _report(out, report.lines(all_of_them=flags.all))
    for warning in report.warnings:
        complain(warning)

    nothing = _(" Nothing was changed.") if flags.dry_run else ""
    say(
        "{memories} can be used, {records} left out.{nothing}",
        counted(report.count, "memory"),
        counted(report.left_out, "record"),
        nothing,
    )

    if not flags.dry_run:
        conversation_id = report.conversation_id

        # The questions show at once what the import is good for.
        for question in flags.ask:
            messages = [{"role": "user", "content": question}]
            await ask(view, conversation_id, messages, conversation_id)

    return 0 if report.count or not report.left_out else 1


def source_of(name: str) -> Source:
    """Return the typed source; `-` is read now."""
    if name != "-":
        return Source(name)
    say_if_waiting(_("the import"))
    return Source(name, all_of(name, BytesIO(standard_input())))


def read_options(view: CallerView, flags: Namespace) -> ReadOptions:
    """Return how `import` and `convert` are to read their sources, from the typed flags."""
    typed = {name: value for name, value in vars(flags).items() if name in _READ_OPTIONS}
    return ReadOptions(programs=view.settings.programs or "", **typed)


def _print_source(view: CallerView, report: SourceReport, *, dry_run: bool) -> None:
    """Print what happened to a source, by conversation, lorebook and place of knowledge."""
    out = console()
    for sentence in report.incoming.found:
        hint(sentence)

    named = escape(report.source.shown)

    # A lorebook says its format in its own line below.
    if report.form != LOREBOOK:
        say("{named} has the format {form}.", named, report.form)

    for taken in report.conversations:
        contents = taken.contents
        out.print(taken_text(contents.conversation_id, taken.counts, dry_run=dry_run))
        for reason in contents.left_out:
            complain(reason)

        if taken.undated:
            number = counted(taken.undated, "memory")
            say(
                "Without a time in the file: {memories}; the last counts as said an hour ago.",
                number,
            )
        if dry_run:
            _print_memories(view, contents)

    for taken_book in report.books:
        line = book_text(taken_book.book, taken_book.stored.update)
        if report.form == LOREBOOK:
            line = _("{named} has the format {form}: {line}", named, report.form, line)
        print_plain(line)
        if taken_book.stored.erased:
            complain(taken_book.stored.erased)

    for of_place in report.entries:
        if of_place.erased:
            complain(left_out_text(of_place.erased))
        out.print(taken_text(of_place.place, of_place.counts, dry_run=dry_run))
        if dry_run:
            for entry in of_place.entries:
                when = time_text(entry.updated_ms or None, view.zone)
                print_plain(f"  {when}  {clipped(entry.title or entry.body, TEXT_CELLS)}")


def taken_text(place_name: str, counts: MergeCounts, *, dry_run: bool) -> str:
    """Say, as markup, what an import did or would do to a place: `tea: 3 new, 1 replaced`."""
    if dry_run:
        return _("[bold]{place}[/] (dry run): {counts}", escape(place_name), tally_text(counts))
    return _("[bold]{place}[/]: {text}", escape(place_name), tally_text(counts))


async def add_trigger(view: CallerView, flags: Namespace) -> None:
    """Store triggers from files, after the same checks as `add_long_term_memory` makes. Raises
    InvalidInput if a .js file has no --prompt, or if there are several."""
    files = [
        (source, await asyncio.to_thread(content_of, source_of(source), flags.encoding))
        for source in flags.source
    ]

    triggers = [source for source in flags.source if not source.endswith(".json")]

    # One prompt cannot be the prompt of several scripts.
    if len(triggers) > 1 or (triggers and not flags.prompt):
        raise InvalidInput(
            "Write with --prompt what the model reads when {plain} fires; give one .js file at a time.",
            triggers[0],
        )

    conversation = view.conversation()
    for source, data in files:
        if source in triggers:
            name = flags.name or Path(source).stem

            # Editors on Windows may begin a file with a byte order mark.
            trigger = data.decode().removeprefix("\ufeff")
            memories = [
                LongTermMemory(name, flags.prompt, trigger, created_ms=0, created_context=source)
            ]
        else:
            memories = memories_of_pack(source, data, conversation.id)

        for memory in memories:
            await _add_trigger(conversation, memory, flags)


async def _add_trigger(
    conversation: Conversation, memory: LongTermMemory, flags: Namespace
) -> None:
    """Store a memory with the rules of the options, and print its name and change. Raises
    InvalidInput if a rule has a value that it cannot have."""
    out = console()
    rules = GivenRules(
        order=flags.order, group=flags.group, cooldown=flags.cooldown, once=flags.once or None
    )

    stored = await conversation.long_term.add(
        memory.name,
        memory.prompt,
        memory.trigger,
        created_context=memory.created_context,
        rules=rules if memory.rules is PLAIN else rules.applied_to(memory.rules),
        by="add-trigger",
    )

    verb = _("Replaced") if stored.replaced else _("Stored")
    say(
        "{verb} {name} in {id}; change {change_id}.",
        verb,
        memory.name,
        conversation.id,
        stored.change_id,
    )

    for problem in stored.warnings:
        out.print(f"[yellow]{_('warning')}[/]  {escape(foreign(problem.message))}")


async def convert(view: CallerView, flags: Namespace) -> int:
    """Read, write and report. Return 1, and write nothing, if nothing could be used. Raises
    InvalidInput if the source cannot be read, or the target cannot be written."""
    source = source_of(flags.source)
    incoming = await converted(view, source, read_options(view, flags), flags.to, progress)
    for sentence in incoming.found:
        hint(sentence)
    if incoming.count:
        entries: list[tuple[str, Entry]] = []
        for place, of_place in incoming.entries.items():
            entries += [(place, entry) for entry in of_place]
        await write_memories(view, ExportContent(incoming.conversations, entries), flags)
    _report(console(stderr=flags.target == "-"), lines_of(incoming, all_of_them=flags.all))
    return 0 if incoming.count else 1


def _print_memories(view: CallerView, contents: Contents) -> None:
    for memory in contents.short_term:
        when = time_text(memory.time_ms, view.zone)
        print_plain(f"  {when}  {clipped(spoken(memory.text), TEXT_CELLS)}")
    for trigger in contents.long_term:
        print_plain(f"  {trigger.name}: {clipped(trigger.prompt, TEXT_CELLS)}")


def _report(out: Console, lines: Iterable[ReportLine]) -> None:
    """Print what was left out, what is doubtful, and what the format cannot hold."""
    for line in lines:
        colour = "cyan" if line.kind == "lost" else "yellow"
        out.print(f"[{colour}]{_(line.kind)}[/]  {escape(shown(line.text, MOST_SAID_CHARS))}")
