"""Read memories from files of people, of other programs, or of another memory-server, and store them
(`import_sources`).

Each source reports what it gave and what it left out; `converted` reads and stores nothing.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import tzinfo
from functools import partial
from itertools import chain
from math import inf

from languages import N_, _, foreign
from memory_server.conversations.archive import archived_ids
from memory_server.conversations.changes import Change
from memory_server.conversations.contents import Contents, restore_changes, without_erased
from memory_server.conversations.earlier_turns import retirements
from memory_server.conversations.model import (
    DEFAULT_CONVERSATION,
    ConversationState,
    ShortTermMemory,
)
from memory_server.interchange import chats, own
from memory_server.interchange.forms import FORMATS as FORMATS
from memory_server.interchange.forms import SESSIONS, Format
from memory_server.interchange.incoming import (
    Incoming,
    IncomingBook,
    Loss,
    NotThisFormat,
    with_keywords,
)
from memory_server.kernel.backups import MergeCounts
from memory_server.kernel.errors import InvalidInput
from memory_server.kernel.messages import Message
from memory_server.kernel.secrets import counting_secrets, removed_text
from memory_server.kernel.text import shown
from memory_server.kernel.times import moment_of
from memory_server.kernel.values import frozen
from memory_server.knowledge.entry import Entry
from memory_server.knowledge.erasing import marks_of
from memory_server.knowledge.incoming import IncomingEntries
from memory_server.lore import LongTermMemory
from memory_server.operations.incoming_files import TRUSTED, read
from memory_server.operations.lore_import import (
    StoredBook,
    check_reports,
    follow,
    kind_lines,
    remarks_on,
    store_book,
    too_many_triggers,
)
from memory_server.operations.ports import OpenMemory, Progress, ReadOptions, Source, no_progress

AT_ONCE = 200
"""Memories that get their keywords between two steps of a progress bar."""
CHATS: tuple[Format, ...] = ("chat", "chat-export")
"""Formats in which the order of memories is the order of a chat."""
LOREBOOK: Format = "worldinfo"
AFTER_CHAT_MS = 3_600_000
"""Milliseconds from the end of a chat without times, or of a shifted chat, until now: nothing is recalled from the
last 20 minutes."""
APART_MS = 600_000
"""Milliseconds between exchanges without times: of the same ten minutes, a search brings only two."""


@frozen
class ImportRequest:
    """A request to import sources. `shift_to_now` moves chats in time, so that the last ended an hour ago. With
    `dry_run` nothing is stored. With `keep_secrets` credentials stay in the texts."""

    sources: Sequence[Source]
    options: ReadOptions = ReadOptions()
    shift_to_now: bool = False
    dry_run: bool = False
    keep_secrets: bool = False


@frozen
class TakenConversation:
    """The imported memories of a conversation. `undated` counts memories of a chat that had no time."""

    contents: Contents
    counts: MergeCounts
    undated: int = 0


@frozen
class TakenBook:
    """An imported lorebook and what storing it changed."""

    book: IncomingBook
    stored: StoredBook


@frozen
class TakenEntries:
    """The imported entries of a place of knowledge. `erased` counts entries that were erased for good before."""

    place: str
    entries: Sequence[Entry]
    counts: MergeCounts
    erased: int = 0


@frozen
class SourceReport:
    """The content of a source, and what was left out of it (`incoming`). `count` is the number of memories and
    entries that can be used."""

    source: Source
    form: Format
    incoming: Incoming
    conversations: Sequence[TakenConversation]
    books: Sequence[TakenBook]
    entries: Sequence[TakenEntries]
    count: int


@frozen
class ReportLine:
    """A line about records that were left out or lost, or a note or a warning about them."""

    kind: str
    text: str


@frozen
class ImportReport:
    """The results of an import. `conversation_id` got the last memories. `warnings` name conversations that now have
    more triggers than a search runs."""

    sources: Sequence[SourceReport]
    conversation_id: str
    warnings: Sequence[str] = ()

    @property
    def count(self) -> int:
        """Memories and entries that can be used."""
        return sum(report.count for report in self.sources)

    @property
    def left_out(self) -> int:
        """Records that were left out."""
        return sum(len(report.incoming.skipped) for report in self.sources)

    def lines(self, *, all_of_them: bool = False) -> Iterator[ReportLine]:
        """Yield the lines about records, by source; all lorebooks count as one source, because many of them lose the
        same."""
        for incoming in _joined([report.incoming for report in self.sources]):
            yield from lines_of(incoming, all_of_them=all_of_them)


async def import_sources(
    view: OpenMemory,
    request: ImportRequest,
    *,
    progress: Progress = no_progress,
    tell: Callable[[SourceReport], None] | None = None,
) -> ImportReport:
    """Read each source and, unless it is a dry run, store it. `tell` is called with the report of each source, once
    it is stored.

    Raises InvalidInput if a source cannot be read; the sources before it are stored.
    """
    usual = view.conversation(request.options.conversation).id
    conversation_id = usual
    reports: list[SourceReport] = []
    new_triggers: Counter[str] = Counter()

    for source in request.sources:
        report = await _import_source(view, source, request, usual, progress)
        reports.append(report)

        for taken in report.conversations:
            if taken.contents.short_term:
                conversation_id = taken.contents.conversation_id
            if taken.contents.long_term:
                # Zero only names the conversation, so that it is checked below.
                new_triggers[taken.contents.conversation_id] += 0
        for taken_book in report.books:
            conversation_id = taken_book.book.conversation_id
            if taken_book.book.is_on:
                new_triggers[conversation_id] += len(taken_book.stored.update.new)

        if tell is not None:
            tell(report)

    warnings: list[str] = []
    for name, new in new_triggers.items():
        # In a dry run the new triggers are not stored, so they are added here.
        more = new if request.dry_run else 0
        warnings += await too_many_triggers(view, name, more=more)
    return ImportReport(reports, conversation_id, warnings)


async def _import_source(
    view: OpenMemory, source: Source, request: ImportRequest, usual: str, progress: Progress
) -> SourceReport:
    """Read and store one source; memories without a conversation are for `usual`. Raises
    InvalidInput if a conversation was named and the source names others."""
    dry_run = request.dry_run
    incoming, form = await read(view, source, request.options, usual)
    names_others = any(contents.conversation_id != usual for contents in incoming.conversations)

    if request.options.conversation is not None and names_others:
        raise InvalidInput("{named} names its own conversations; leave -c out.", source.shown)

    # Secrets are removed before anything is checked or stored.
    if not request.keep_secrets:
        await asyncio.to_thread(_remove_secrets, view, incoming, form)
    if form not in TRUSTED:
        await _check(view, incoming, progress, until=request.options.check_until)

    if request.shift_to_now:
        _shift(incoming, view.clock())

    conversations: list[TakenConversation] = []
    for contents in incoming.conversations:
        undated = 0
        if form in CHATS:
            undated = sum(not memory.time_ms for memory in contents.short_term)
        stored, counts = await store(view, contents, form, dry_run=dry_run, progress=progress)
        conversations.append(TakenConversation(stored, counts, undated))

    books: list[TakenBook] = []
    for book in incoming.books:
        stored_book = await store_book(view, book, dry_run=dry_run)
        incoming.remarks += remarks_on(book, stored_book, dry_run=dry_run)
        books.append(TakenBook(book, stored_book))

    if incoming.profile is not None:
        incoming.notes += await follow(view, incoming.profile, dry_run=dry_run)

    refused_entries = 0
    entries: list[TakenEntries] = []
    for place, of_place in incoming.entries.items():
        # An import must not bring back what was erased for good.
        not_erased = [entry for entry in of_place if not view.home.erased.holds(marks_of(entry))]
        taken = await IncomingEntries(view.knowledge).take(place, not_erased, dry_run=dry_run)
        incoming.skipped += [(place, reason) for reason in taken.left_out]
        refused_entries += len(taken.left_out)
        erased = len(of_place) - len(not_erased)
        entries.append(TakenEntries(place, not_erased, taken.counts, erased))

    count = incoming.count - refused_entries
    return SourceReport(source, form, incoming, conversations, books, entries, count)


def _remove_secrets(view: OpenMemory, incoming: Incoming, form: Format) -> None:
    """Remove secrets from what was read, and report their number. In sessions of clients that write code, and in
    memories of turns that changed files or ran commands, pairs of a name and a value are secrets too."""
    secrets = view.memories.services.secrets
    clean = partial(secrets.of, with_pairs=form in SESSIONS)
    clean_work = partial(secrets.of, with_pairs=True)
    with counting_secrets() as kinds:
        incoming.entries = clean(incoming.entries)
        incoming.books = clean(incoming.books)
        incoming.profile = clean(incoming.profile)
        for number, contents in enumerate(incoming.conversations):
            memories = tuple(
                _cleaned_memory(memory, clean_work if memory.work else clean)
                for memory in contents.short_term
            )
            incoming.conversations[number] = clean(replace(contents, short_term=memories))
    if kinds:
        incoming.notes.append(removed_text(len(kinds)))


def _cleaned_memory(
    memory: ShortTermMemory, clean: Callable[[ShortTermMemory], ShortTermMemory]
) -> ShortTermMemory:
    """Return a memory without secrets. If it had some, it has no words, so that they are found again."""
    cleaned = clean(replace(memory, messages=()))
    with counting_secrets():  # the text says the same, so they are counted there
        cleaned = replace(cleaned, messages=clean(memory).messages)
    if cleaned == memory:
        return memory
    return replace(cleaned, words=(), weights=())


async def converted(
    view: OpenMemory,
    source: Source,
    options: ReadOptions,
    to: str,
    progress: Progress = no_progress,
) -> Incoming:
    """Read a source, to be written in the format `to`; store nothing. Triggers are checked unless
    the form is one of our own. Raises InvalidInput if it cannot be read."""
    incoming, form = await read(view, source, options, view.conversation(None).id)
    incoming.unbound()
    if form in TRUSTED:
        return incoming
    await _check(view, incoming, progress, keep=True)
    if to != "pack":  # not packs: the same lorebook should always make the same pack
        now_ms = view.clock()
        incoming.conversations = [
            _dated(contents, None, form, now_ms) for contents in incoming.conversations
        ]
    return incoming


def memories_of_pack(source: str, data: bytes, usual: str) -> list[LongTermMemory]:
    """Read the memories of a pack. Raises InvalidInput if it is not a pack."""
    try:
        incoming = own.read_pack(data, usual)
    except NotThisFormat as error:
        raise InvalidInput("{file} {reason}", source, error) from error
    return list(chain.from_iterable(contents.long_term for contents in incoming.conversations))


async def store(
    view: OpenMemory,
    incoming: Contents,
    form: Format,
    *,
    dry_run: bool,
    progress: Progress = no_progress,
) -> tuple[Contents, MergeCounts]:
    """Store the contents of a conversation. Return them with keywords and times, and what storing them changed or
    would change."""
    # An import must not bring back what was erased for good.
    incoming = without_erased(incoming, view.home.erased.holds)
    name = incoming.conversation_id
    wording = view.memories.services.parameters.wording.within(name)

    memories: list[ShortTermMemory] = []
    with progress(_("importing {name}", name), len(incoming.short_term)) as advance:
        # Finding words takes long, so it runs in portions, between which the progress bar advances.
        for begin in range(0, len(incoming.short_term), AT_ONCE):
            part = replace(incoming, short_term=incoming.short_term[begin : begin + AT_ONCE])
            part = await asyncio.to_thread(with_keywords, part, wording)
            memories += part.short_term
            advance(AT_ONCE)
    indexed = replace(incoming, short_term=tuple(memories))

    archived: Collection[str] = archived_ids(await view.store.archive(name))

    def decide(state: ConversationState) -> tuple[list[Change], tuple[Contents, MergeCounts]]:
        contents = indexed
        if form not in TRUSTED:
            contents = _dated(indexed, state, form, view.clock())
        changes, counts = restore_changes(state, contents, "merge", archived)
        retired = retirements(state, contents.taken_back)
        return [*changes, *retired], (contents, replace(counts, removed=len(retired)))

    if dry_run:
        _changes, result = decide(await view.store.read(name))
        return result
    result, _change_id = await view.store.update(name, decide, by="import")
    return result


def _dated(
    contents: Contents, state: ConversationState | None, form: Format, now_ms: int
) -> Contents:
    """Give each memory of `contents` a time. A memory without a time keeps the time of its first import in `state` as
    long as it is the same, and otherwise gets the time of this import; a chat keeps its order. A memory that is
    stored already keeps its score and pin."""
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
    """Find the stored memories of turns that are new only by their id, and return them by the new id. Messages with
    the same text and millisecond are the same turn, such as in a session file and its copy."""
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
    """Return a memory with its time, or with `time_ms` if it has no time; `stored` is the memory of an earlier
    import."""
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
    """Return the memory as an earlier import stored it if it is the same, or else with the time of this import."""
    stored = None if state is None else state.long_term.get(memory.name)
    if stored is not None and (stored.prompt, stored.trigger) == (memory.prompt, memory.trigger):
        return stored
    return replace(memory, created_ms=now_ms)


def _shift(incoming: Incoming, now_ms: int) -> None:
    """Move the chats in time so that their last message is an hour before `now_ms`."""
    memories = chain.from_iterable(contents.short_term for contents in incoming.conversations)
    last_ms = max((memory.time_ms for memory in memories), default=0)
    by_ms = now_ms - AFTER_CHAT_MS - last_ms
    for number, contents in enumerate(incoming.conversations):
        shifted = tuple(_shifted(memory, by_ms) for memory in contents.short_term)
        incoming.conversations[number] = replace(contents, short_term=shifted)


def _shifted(memory: ShortTermMemory, by_ms: int) -> ShortTermMemory:
    """Move a memory and its messages in time; a memory without a time stays as it is."""
    if not memory.time_ms:
        return memory
    messages: list[Message] = []
    for message in memory.messages:
        if message.time_ms:
            messages.append(replace(message, time_ms=message.time_ms + by_ms))
        else:
            messages.append(message)
    return replace(memory, time_ms=memory.time_ms + by_ms, messages=tuple(messages))


def _joined(reports: Sequence[Incoming]) -> Iterator[Incoming]:
    """Yield one report for each source; all lorebooks share one report, because many of them lose the same."""
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


async def _check(
    view: OpenMemory,
    incoming: Incoming,
    progress: Progress,
    *,
    until: float = inf,
    keep: bool = False,
) -> None:
    """Leave out triggers that cannot work, which the server would refuse. With `keep` they stay, with a note. `until`
    as in `check_reports`."""
    for number, contents in enumerate(incoming.conversations):
        working = await _working(
            view, incoming, contents.long_term, progress, until=until, keep=keep
        )
        incoming.conversations[number] = replace(contents, long_term=tuple(working))

    for number, book in enumerate(incoming.books):
        working = await _working(view, incoming, book.memories, progress, until=until, keep=keep)
        incoming.books[number] = replace(book, memories=tuple(working))


async def _working(
    view: OpenMemory,
    incoming: Incoming,
    memories: Sequence[LongTermMemory],
    progress: Progress,
    *,
    until: float,
    keep: bool,
) -> list[LongTermMemory]:
    """Return the memories whose trigger can work; with `keep` also the others, with a doubt,
    which are otherwise skipped. Raises InvalidInput if the time `until` is over before all are
    checked."""
    triggers = [memory.trigger for memory in memories]
    with progress(_("checking triggers"), len(triggers)) as advance:
        reports = await check_reports(
            view.memories.services.runner,
            triggers,
            now=moment_of(view.clock()),
            until=until,
            advance=advance,
        )

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


def lines_of(incoming: Incoming, *, all_of_them: bool = False) -> Iterator[ReportLine]:
    """Yield the lines about the records of a source: one line for each kind of what was left out, remarked or lost,
    or with `all_of_them` one line for each record; then each doubt, each other loss (`notes`) and each count of
    `lost`, whatever `all_of_them` is."""
    skipped = [Loss(reason, shown(location)) for location, reason in incoming.skipped]
    for line in kind_lines(skipped, all_of_them=all_of_them):
        yield ReportLine(N_("left out"), line)

    for line in kind_lines(incoming.remarks, all_of_them=all_of_them):
        yield ReportLine(N_("note"), line)

    for line in kind_lines(incoming.losses, all_of_them=all_of_them):
        yield ReportLine(N_("lost"), line)

    for doubt in incoming.doubts:
        yield ReportLine(N_("warning"), doubt)
    for note in incoming.notes:
        yield ReportLine(N_("lost"), note)
    for description, count in incoming.lost.items():
        if count:
            yield ReportLine(N_("lost"), _("{what}: {count:,}", _(description), count))


def sample_of(chat: bytes, pack: bytes, zone: tzinfo | None) -> Contents:
    """Return the only conversation of a chat, with the triggers of a pack."""
    [conversation] = chats.read(chat, chats.ChatOptions(DEFAULT_CONVERSATION, zone)).conversations
    [triggers] = own.read_pack(pack, conversation.conversation_id).conversations
    return replace(conversation, long_term=triggers.long_term)


def form_named(name: str | None) -> Format | None:
    """Return the format with this name, or None if `name` is None and the content decides. Raises InvalidInput: there
    is no such format."""
    for form in FORMATS:
        if form == name:
            return form
    if name is None:
        return None
    raise InvalidInput("There is no format {form} to import.", name)
