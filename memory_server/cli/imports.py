"""`import`, `convert` and `add-trigger`: memories from files of people, of other programs, or of another memory-server.

An import reports line by line what it leaves out; `convert` reads and writes files and stores nothing.
"""

from __future__ import annotations

import asyncio
from argparse import Namespace
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import field, replace
from itertools import chain
from pathlib import Path

from rich.console import Console
from rich.text import Text

from languages import _, counted, foreign
from memory_server.app import CallerView
from memory_server.cli.exchanged_files import read_file
from memory_server.cli.export import write_memories
from memory_server.cli.incoming_files import TRUSTED, named, read
from memory_server.cli.inspection import ask, taken_text
from memory_server.cli.lore_import import (
    book_text,
    kind_lines,
    remarks_on,
    store_book,
    too_many_triggers,
)
from memory_server.cli.profile_books import follow
from memory_server.cli.terminal import (
    TEXT_CELLS,
    clipped,
    console,
    escape,
    progress,
    spoken,
    time_text,
)
from memory_server.conversations.archive import archived_ids
from memory_server.conversations.changes import Change
from memory_server.conversations.contents import Contents, restore_changes, without_erased
from memory_server.conversations.conversation import Conversation
from memory_server.conversations.earlier_turns import retirements
from memory_server.conversations.model import ConversationState, ShortTermMemory
from memory_server.conversations.trigger_runner import sandbox_errors
from memory_server.interchange import own
from memory_server.interchange.forms import Format
from memory_server.interchange.incoming import (
    Incoming,
    IncomingBook,
    Loss,
    NotThisFormat,
    with_keywords,
)
from memory_server.kernel.backups import MergeCounts
from memory_server.kernel.erasure import left_out_text
from memory_server.kernel.errors import InvalidInput
from memory_server.kernel.messages import Message
from memory_server.kernel.streams import complain
from memory_server.kernel.text import shown
from memory_server.kernel.times import moment_of
from memory_server.kernel.values import dataclass
from memory_server.knowledge.entry import Entry
from memory_server.knowledge.erasing import marks_of
from memory_server.lore import PLAIN, GivenRules, LongTermMemory
from memory_server.tools.backup import tally_text
from memory_server.tools.base.tool import MOST_SAID_CHARS
from sandbox import CheckReport

AT_ONCE = 200
"""Triggers in one request: they share its time, and those that had no time are tried again alone."""
CHATS: tuple[Format, ...] = ("chat", "chat-export")
"""Forms in which the order of memories is that of a chat."""
LOREBOOK: Format = "worldinfo"
AFTER_CHAT_MS = 3_600_000
"""How long ago a chat ended that has no times, or is shifted: nothing is recalled from the last 20 minutes."""
APART_MS = 600_000
"""How far exchanges without times are apart: of the same ten minutes, a search brings only two."""


@dataclass(slots=True)
class _Import:
    """What an import did so far. `conversation_id`: where the last memories went, in which questions are asked.
    `count`: memories and entries that can be used. `reports`: what each source gave and left out. `new_triggers`: how many
    entries of lorebooks came, by the conversations that got triggers."""

    app: CallerView
    flags: Namespace
    out: Console
    conversation_id: str
    count: int = 0
    reports: list[Incoming] = field(default_factory=list)
    new_triggers: Counter[str] = field(default_factory=Counter)

    async def take(self, source: str, usual: str) -> None:
        """Read and store one source; memories without a conversation are for `usual`."""
        incoming, form = await read(self.app, source, self.flags, usual)
        names_others = any(contents.conversation_id != usual for contents in incoming.conversations)
        if hasattr(self.flags, "conversation") and names_others:
            raise InvalidInput("{named} names its own conversations; leave -c out.", named(source))
        if form not in TRUSTED:
            await _check(self.app, incoming)
        if self.flags.shift_to_now:
            _shift(incoming, self.app.clock())
        if form != LOREBOOK:
            self.out.print(_("{named} has the format {form}.", escape(named(source)), form))
        for contents in incoming.conversations:
            await self._take_conversation(contents, form)
        for book in incoming.books:
            await self._take_book(book, incoming, source, form)
        if incoming.profile is not None:
            incoming.notes += await follow(self.app, incoming.profile, dry_run=self.flags.dry_run)
        refused_entries = 0
        for place, entries in incoming.entries.items():
            refused = await self._take_entries(place, entries)
            incoming.skipped += [(place, reason) for reason in refused]
            refused_entries += len(refused)
        self.count += incoming.count - refused_entries
        self.reports.append(incoming)

    async def _take_conversation(self, contents: Contents, form: Format) -> None:
        stored, tally = await store(self.app, contents, form, dry_run=self.flags.dry_run)
        self.out.print(
            taken_text(stored.conversation_id, tally_text(tally), dry_run=self.flags.dry_run)
        )
        for reason in stored.left_out:
            complain(reason)
        undated_count = sum(not memory.time_ms for memory in contents.short_term)
        if undated_count and form in CHATS:
            number = counted(undated_count, "memory")
            self.out.print(
                _(
                    "Without a time in the file: {memories}; the last counts as said an hour ago.",
                    number,
                )
            )
        if self.flags.dry_run:
            _print_memories(self.app, stored)
        if stored.short_term:
            self.conversation_id = stored.conversation_id
        if stored.long_term:
            self.new_triggers[stored.conversation_id] += 0

    async def _take_book(
        self, book: IncomingBook, incoming: Incoming, source: str, form: Format
    ) -> None:
        stored = await store_book(self.app, book, dry_run=self.flags.dry_run)
        line = book_text(book, stored.update)
        if form == LOREBOOK:
            line = _("{named} has the format {form}: {line}", named(source), form, line)
        self.out.print(escape(line))
        if stored.erased:
            complain(stored.erased)
        incoming.remarks += remarks_on(book, stored, dry_run=self.flags.dry_run)
        self.conversation_id = book.conversation_id
        if book.is_on:
            self.new_triggers[book.conversation_id] += len(stored.update.new)

    async def _take_entries(self, place: str, entries: Sequence[Entry]) -> Sequence[str]:
        """Store entries in this place of knowledge; why each of those is refused that are more than may be stored."""
        not_erased = [entry for entry in entries if not self.app.home.erased.holds(marks_of(entry))]
        erased = len(entries) - len(not_erased)
        if erased:
            complain(left_out_text(erased))
        taken = await self.app.knowledge.lifecycle.take(
            place, not_erased, dry_run=self.flags.dry_run
        )
        self.out.print(taken_text(place, tally_text(taken.counts), dry_run=self.flags.dry_run))
        if self.flags.dry_run:
            for entry in not_erased:
                when = time_text(entry.updated_ms or None, self.app.settings.zone)
                self.out.print(Text(f"  {when}  {clipped(entry.title or entry.body, TEXT_CELLS)}"))
        return taken.left_out


async def import_(app: CallerView, flags: Namespace) -> int:
    """Read, report and, without --dry-run, store, and then ask the questions; 1 if nothing could be used."""
    usual = app.conversation().id
    out = console()
    imported = _Import(app, flags, out=out, conversation_id=usual)
    for source in flags.source:
        await imported.take(source, usual)
    left_out = sum(len(report.skipped) for report in imported.reports)
    for report in _joined(imported.reports):
        _report(out, report, all_of_it=flags.all)
    for conversation_id, new in imported.new_triggers.items():
        more = new if flags.dry_run else 0
        for warning in await too_many_triggers(app, conversation_id, more=more):
            complain(warning)
    nothing = _(" Nothing was changed.") if flags.dry_run else ""
    out.print(
        _(
            "{memories} can be used, {records} left out.{nothing}",
            counted(imported.count, "memory"),
            counted(left_out, "record"),
            nothing,
        )
    )
    if not flags.dry_run:
        for question in flags.ask:
            conversation_id = imported.conversation_id
            await ask(
                app, out, conversation_id, [{"role": "user", "content": question}], conversation_id
            )
    return 0 if imported.count or not left_out else 1


async def add_trigger(app: CallerView, flags: Namespace) -> None:
    """Store triggers from files, each checked as `add_long_term_memory` does it."""
    files = [
        (source, await asyncio.to_thread(read_file, source, flags.encoding))
        for source in flags.source
    ]
    triggers = [source for source in flags.source if not source.endswith(".json")]
    if len(triggers) > 1 or (triggers and not flags.prompt):
        raise InvalidInput(
            "Write with --prompt what the model reads when {plain} fires; give one .js file at a time.",
            triggers[0],
        )
    conversation = app.conversation()
    for source, data in files:
        if source in triggers:
            name = flags.name or Path(source).stem
            trigger = data.decode().removeprefix("\ufeff")
            memories = [
                LongTermMemory(name, flags.prompt, trigger, created_ms=0, created_context=source)
            ]
        else:
            memories = _memories_of_pack(source, data, conversation.id)
        for memory in memories:
            await _add_trigger(conversation, memory, flags)


def _memories_of_pack(source: str, data: bytes, usual: str) -> list[LongTermMemory]:
    """The memories of a pack. Raises InvalidInput: it is none."""
    try:
        incoming = own.read_pack(data, usual)
    except NotThisFormat as error:
        raise InvalidInput("{file} {reason}", source, error) from error
    return list(chain.from_iterable(contents.long_term for contents in incoming.conversations))


async def _add_trigger(
    conversation: Conversation, memory: LongTermMemory, flags: Namespace
) -> None:
    """Store one memory with the rules of the options, and say so."""
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
    out.print(
        _(
            "{verb} {name} in {id}; change {change_id}.",
            verb,
            escape(memory.name),
            escape(conversation.id),
            stored.change_id,
        )
    )
    for problem in stored.warnings:
        out.print(f"[yellow]{_('warning')}[/]  {escape(foreign(problem.message))}")


async def convert(app: CallerView, flags: Namespace) -> int:
    """Read, write and report; 1 if nothing could be used: then nothing is written."""
    incoming, form = await read(app, flags.source, flags, app.conversation(None).id)
    incoming.unbound()
    if form not in TRUSTED:
        await _check(app, incoming, keep=True)
        if flags.to != "pack":  # not packs: the same lorebook should always make the same pack
            now_ms = app.clock()
            incoming.conversations = [
                _dated(contents, None, form, now_ms) for contents in incoming.conversations
            ]
    if incoming.count:
        placed_entries: list[tuple[str, Entry]] = []
        for place, entries in incoming.entries.items():
            placed_entries += [(place, entry) for entry in entries]
        await write_memories(app, incoming.conversations, flags, placed_entries)
    _report(console(stderr=flags.target == "-"), incoming, all_of_it=flags.all)
    return 0 if incoming.count else 1


async def store(
    app: CallerView, incoming: Contents, form: Format, *, dry_run: bool
) -> tuple[Contents, MergeCounts]:
    """The contents with keywords and times, and what storing them changed or would change."""
    incoming = without_erased(incoming, app.home.erased.holds)
    name = incoming.conversation_id
    wording = app.memories.services.parameters.wording.within(name)
    memories: list[ShortTermMemory] = []
    with progress(_("importing {name}", name), len(incoming.short_term)) as advance:
        for begin in range(0, len(incoming.short_term), AT_ONCE):
            part = replace(incoming, short_term=incoming.short_term[begin : begin + AT_ONCE])
            part = await asyncio.to_thread(with_keywords, part, wording)
            memories += part.short_term
            advance(AT_ONCE)
    indexed = replace(incoming, short_term=tuple(memories))
    archived: Collection[str] = archived_ids(await app.store.archive(name))

    def decide(state: ConversationState) -> tuple[list[Change], tuple[Contents, MergeCounts]]:
        contents = indexed
        if form not in TRUSTED:
            contents = _dated(indexed, state, form, app.clock())
        changes, counts = restore_changes(state, contents, "merge", archived)
        retired = retirements(state, contents.taken_back)
        return [*changes, *retired], (contents, replace(counts, removed=len(retired)))

    if dry_run:
        _changes, result = decide(await app.store.read(name))
        return result
    result, _change_id = await app.store.update(name, decide, by="import")
    return result


def _dated(
    contents: Contents, state: ConversationState | None, form: Format, now_ms: int
) -> Contents:
    """`contents` with a time for each memory. One without keeps the time of its first import in `state` as long as it
    is the same, and otherwise gets the time of this import; a chat keeps its order. What is known keeps score and pin.
    """
    stored_memories = {} if state is None else state.short_term
    twins = _twins(contents, stored_memories)
    undated = sum(not memory.time_ms for memory in contents.short_term)
    short_term: list[ShortTermMemory] = []
    for memory in contents.short_term:
        time_ms = memory.time_ms
        if not time_ms:
            undated -= 1
            time_ms = now_ms
            if form in CHATS:
                time_ms -= AFTER_CHAT_MS + undated * APART_MS
        stored = stored_memories.get(memory.id) or twins.get(memory.id)
        short_term.append(_dated_memory(memory, stored, time_ms))
    long_term = [
        memory if memory.created_ms else _long_dated(memory, state, now_ms)
        for memory in contents.long_term
    ]
    return replace(contents, short_term=tuple(short_term), long_term=tuple(long_term))


def _twins(
    contents: Contents, stored_memories: Mapping[str, ShortTermMemory]
) -> Mapping[str, ShortTermMemory]:
    """What is stored of turns that are new by their id only, by that id: what was said at the same millisecond is the
    same turn, such as one of a session of which another file is a copy."""
    new_ids = {memory.id for memory in contents.short_term if memory.time_ms}
    new_ids -= stored_memories.keys()
    if not new_ids:
        return {}
    brought_ids = {memory.id for memory in contents.short_term}
    stored_by_words = {
        (memory.time_ms, memory.text): memory
        for memory in stored_memories.values()
        if memory.id not in brought_ids
    }
    twins: dict[str, ShortTermMemory] = {}
    for memory in contents.short_term:
        twin = stored_by_words.get((memory.time_ms, memory.text))
        if twin is not None and memory.id in new_ids:
            twins[memory.id] = twin
    return twins


def _dated_memory(
    memory: ShortTermMemory, stored: ShortTermMemory | None, time_ms: int
) -> ShortTermMemory:
    """A memory with its time, or `time_ms` if it has none; `stored` is what an earlier import made of it."""
    if stored is None:
        return replace(memory, time_ms=time_ms)
    if stored.text == memory.text and memory.time_ms in (0, stored.time_ms):
        return stored
    later_ms = memory.time_ms or max(time_ms, stored.time_ms + 1)
    return replace(
        memory, time_ms=later_ms, score=stored.score, pinned=stored.pinned or memory.pinned
    )


def _long_dated(
    memory: LongTermMemory, state: ConversationState | None, now_ms: int
) -> LongTermMemory:
    """The memory as an earlier import stored it if it is the same, or else with the time of this import."""
    stored = None if state is None else state.long_term.get(memory.name)
    if stored is not None and (stored.prompt, stored.trigger) == (memory.prompt, memory.trigger):
        return stored
    return replace(memory, created_ms=now_ms)


def _shift(incoming: Incoming, now_ms: int) -> None:
    """Move the chats in time: their last message is an hour before `now_ms`."""
    memories = chain.from_iterable(contents.short_term for contents in incoming.conversations)
    last_ms = max((memory.time_ms for memory in memories), default=0)
    by_ms = now_ms - AFTER_CHAT_MS - last_ms
    for number, contents in enumerate(incoming.conversations):
        shifted = tuple(_shifted(memory, by_ms) for memory in contents.short_term)
        incoming.conversations[number] = replace(contents, short_term=shifted)


def _shifted(memory: ShortTermMemory, by_ms: int) -> ShortTermMemory:
    """A memory and its messages so much later; one without a time as it is."""
    if not memory.time_ms:
        return memory
    messages: list[Message] = []
    for message in memory.messages:
        if message.time_ms:
            messages.append(replace(message, time_ms=message.time_ms + by_ms))
        else:
            messages.append(message)
    return replace(memory, time_ms=memory.time_ms + by_ms, messages=tuple(messages))


def _print_memories(app: CallerView, contents: Contents) -> None:
    out = console()
    for memory in contents.short_term:
        when = time_text(memory.time_ms, app.settings.zone)
        out.print(Text(f"  {when}  {clipped(spoken(memory.text), TEXT_CELLS)}"))
    for trigger in contents.long_term:
        out.print(Text(f"  {trigger.name}: {clipped(trigger.prompt, TEXT_CELLS)}"))


def _joined(reports: Sequence[Incoming]) -> Iterator[Incoming]:
    """One report for each source; those of lorebooks are one, because many of them lose the same."""
    of_books = Incoming()
    for report in reports:
        if not report.books:
            yield report
            continue
        of_books.skipped += report.skipped
        of_books.doubts += report.doubts
        of_books.notes += report.notes
        of_books.lost.update(report.lost)
        of_books.losses += report.losses
        of_books.remarks += report.remarks
    yield of_books


def _report(out: Console, incoming: Incoming, *, all_of_it: bool) -> None:
    """What was left out, what is doubtful, and what is not carried: one line for each kind of loss, unless the reader
    wants all of it."""
    skipped = [Loss(reason, shown(location)) for location, reason in incoming.skipped]
    for line in kind_lines(skipped, all_of_them=all_of_it):
        out.print(f"[yellow]{_('left out')}[/]  {escape(shown(line, MOST_SAID_CHARS))}")
    for line in kind_lines(incoming.remarks, all_of_them=all_of_it):
        out.print(f"[yellow]{_('note')}[/]  {escape(shown(line, MOST_SAID_CHARS))}")
    for line in kind_lines(incoming.losses, all_of_them=all_of_it):
        out.print(f"[cyan]{_('lost')}[/]  {escape(shown(line, MOST_SAID_CHARS))}")
    for doubt in incoming.doubts:
        out.print(f"[yellow]{_('warning')}[/]  {escape(shown(doubt, MOST_SAID_CHARS))}")
    lost = [
        _("{what}: {count:,}", _(description), count)
        for description, count in incoming.lost.items()
        if count
    ]
    for note in (*incoming.notes, *lost):
        out.print(f"[cyan]{_('lost')}[/]  {escape(shown(note, MOST_SAID_CHARS))}")


async def _check(app: CallerView, incoming: Incoming, *, keep: bool = False) -> None:
    """Leave out triggers that cannot work, which the server would refuse. With `keep` they stay, with a note."""
    for number, contents in enumerate(incoming.conversations):
        working = await _working(app, incoming, contents.long_term, keep=keep)
        incoming.conversations[number] = replace(contents, long_term=tuple(working))
    for number, book in enumerate(incoming.books):
        working = await _working(app, incoming, book.memories, keep=keep)
        incoming.books[number] = replace(book, memories=tuple(working))


async def _working(
    app: CallerView, incoming: Incoming, memories: Sequence[LongTermMemory], *, keep: bool
) -> list[LongTermMemory]:
    """Those of the memories whose trigger can work."""
    reports = await _check_reports(app, [memory.trigger for memory in memories])
    working: list[LongTermMemory] = []
    for memory, report in zip(memories, reports, strict=True):
        if report.errors:
            problem = report.errors[0]
            line = _(" at line {line}", problem.line) if problem.line is not None else ""
            reason = _("its trigger cannot work: {reason}{line}", problem.message, line)
            if not keep:
                incoming.skipped.append((memory.name, reason))
                continue
            incoming.doubts.append(_("{about}: {what}", memory.name, reason))
        incoming.doubts += [
            _("{about}: {what}", memory.name, foreign(problem.message))
            for problem in report.warnings
        ]
        working.append(memory)
    return working


async def _check_reports(app: CallerView, sources: Sequence[str]) -> list[CheckReport]:
    """What is known of each trigger, in order."""
    now = moment_of(app.clock())
    reports: list[CheckReport] = []
    # 200 triggers that run too long take 20 s: so there is a progress bar.
    with progress(_("checking triggers"), len(sources)) as advance, sandbox_errors():
        for begin in range(0, len(sources), AT_ONCE):
            reports += await app.sandbox.check_all(
                sources[begin : begin + AT_ONCE], now=now, seed=0
            )
            advance(AT_ONCE)
    return reports
