"""Read lorebooks, compare each with what an earlier import of it brought, and say in one line what changed; follow what a
profile of SillyTavern has switched on and off."""

from __future__ import annotations

import asyncio
import json
import re
import shlex
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import field, replace
from datetime import UTC, datetime
from math import inf
from pathlib import Path

from languages import _, counted, joined
from memory_server.conversations.archive import deleted_entries
from memory_server.conversations.changes import Change
from memory_server.conversations.model import (
    DEFAULT_CONVERSATION,
    ConversationState,
    conversation_id_of,
    marks_of,
)
from memory_server.conversations.ports import TriggerRunner
from memory_server.interchange import chats, lore_memories, lorebooks, sillytavern_folder
from memory_server.interchange.incoming import (
    Incoming,
    IncomingBook,
    Loss,
    NotThisFormat,
    ProfileBooks,
)
from memory_server.interchange.lore_memories import BookSource, Defaults
from memory_server.interchange.lorebooks import Book
from memory_server.interchange.sillytavern_folder import Profile
from memory_server.interchange.sillytavern_parts import ProfileSettings
from memory_server.kernel.erasure import left_out_text
from memory_server.kernel.errors import InvalidInput
from memory_server.kernel.recalled_block import FRAME_CHARS
from memory_server.kernel.values import dataclass, frozen
from memory_server.lore import (
    BookContents,
    BookUpdate,
    HeldBook,
    LongTermMemory,
    Room,
    as_its_client,
    book_changes,
    books_of,
    is_another,
    is_changed_here,
    is_switched_here,
    memories_of_book,
    most_triggers,
    older_version,
    removing_book,
)
from memory_server.memories.turns import MAX_CHARS
from memory_server.operations.exchanged_files import Tree, ZippedCard
from memory_server.operations.ports import OpenMemory, ReadOptions
from sandbox import CheckReport

MOST_NAMED = 3
"""Most names in one line of a report."""


@frozen
class StoredBook:
    """The result of importing a book. `erased` is the sentence about entries that were erased for good, or empty.
    `older` is another book that may be an older version of it, or None. `change_id` is None if nothing had to change.
    """

    update: BookUpdate
    erased: str
    older: HeldBook | None
    change_id: str | None = None


async def store_book(view: OpenMemory, book: IncomingBook, *, dry_run: bool) -> StoredBook:
    """Bring a book up to date in its conversation, or with `dry_run` only say what that would do.
    Erased texts, and entries that the user has deleted here, do not come back."""
    memories = [
        memory
        for memory in book.memories
        if not view.home.erased.holds(marks_of(memory, book.conversation_id))
    ]

    # The user may have deleted entries here; an update must not bring them back.
    archive = await view.store.archive(book.conversation_id)
    contents = BookContents(
        book_id=book.book_id,
        name=book.name,
        source=book.source,
        memories=memories,
        is_update=book.is_update,
        deleted=deleted_entries(archive),
    )

    erased = len(book.memories) - len(memories)
    sentence = left_out_text(erased) if erased else ""

    def decide(state: ConversationState) -> tuple[Sequence[Change], StoredBook]:
        changes, update = book_changes(state, contents, view.clock())
        older = None
        if update.new and not book.is_update:
            older = older_version(state, contents)
        return changes, StoredBook(update, sentence, older)

    if dry_run:
        _changes, stored = decide(await view.store.read(book.conversation_id))
        return stored
    stored, change_id = await view.store.update(book.conversation_id, decide, by="import")
    return replace(stored, change_id=change_id)


async def too_many_triggers(view: OpenMemory, conversation_id: str, *, more: int) -> list[str]:
    """Warn if a search in this conversation would not run all of its triggers, with the shared conversation's triggers and
    `more` further ones."""
    shelf, _unread = await view.conversation(conversation_id).long_term.with_shared()
    count = len(shelf.memories) + more
    most = most_triggers()
    if count <= most:
        return []
    return [
        _(
            "A search in {conversation} has {count:,} triggers with the shared ones and runs {most:,}: your own first, "
            "then those of lorebooks. Switch lorebooks off with `memory-server books off NAME`.",
            conversation_id,
            count,
            most,
        )
    ]


def book_text(book: IncomingBook, update: BookUpdate) -> str:
    """Say in one line where a book went, and what changed."""
    counts = {
        "new": (len(update.new), _("new")),
        "changed": (len(update.changed), _("changed")),
        "unchanged": (len(update.unchanged), _("unchanged")),
        "retired": (len(update.retired), _("no longer in the book")),
        "kept": (len(update.kept), _("changed here and kept")),
        "deleted": (len(update.deleted), _("deleted here")),
        "left out": (book.entries - len(_uids(book)), _("left out")),
    }

    parts = [_("{count:,} {what}", count, label) for count, label in counts.values() if count > 0]

    state = "" if book.is_on else _(", switched off")
    return _(
        "lorebook {name} in {conversation}{state}: {entries}; {counts}",
        update.stored_as or book.name,
        book.conversation_id,
        state,
        counted(book.entries, "entry"),
        joined(", ", parts),
    )


def _uids(book: IncomingBook) -> set[str]:
    """Return the entries that are used: a long entry may be several memories."""
    entries = [memory.book for memory in book.memories if memory.book is not None]
    return {entry.uid.partition("/")[0] for entry in entries}


def remarks_on(book: IncomingBook, stored: StoredBook, *, dry_run: bool) -> Iterator[Loss]:
    """Yield further remarks on a book, by their kind. `dry_run` means that the update was not stored."""
    update = stored.update

    # A renamed lorebook looks like a new one, so the user decides.
    if stored.older is not None:
        name = stored.older.name
        advice = _(
            "its entries have the same names as those of {other}; if it is a new version, undo the import "
            "and repeat it with --book",
            name,
        )
        yield Loss(f"{advice} {shlex.quote(name)}", book.name)

    if update.stored_as:
        advice = _(
            "another lorebook here has the same name and file, but other entries; if this is a new version "
            "of it, undo the import and repeat it with"
        )
        yield Loss(
            f"{advice} --book {shlex.quote(book.name)}", f"{book.name} -> {update.stored_as}"
        )

    if stored.change_id is not None and (update.changed or update.retired):
        yield Loss(
            _("`memory-server undo {change}` undoes this update", stored.change_id), book.name
        )
    elif stored.change_id is not None and update.new:
        yield Loss(
            _("stored; `memory-server undo {change}` takes it back", stored.change_id), book.name
        )

    retired = _("removed, because the book no longer has it; `memory-server undo` brings it back")
    if dry_run:
        retired = _("would be removed, because the book no longer has it")
    for name in update.retired:
        yield Loss(retired, name)

    for name in update.kept:
        yield Loss(_("kept as you changed it here, although the book has another text"), name)
    for name in update.deleted:
        yield Loss(
            _("not imported, because you deleted it here; `memory-server undo` brings it back"),
            name,
        )

    for entry in update.renamed:
        yield Loss(
            _("stored under another name, because that one is in use"),
            f"{entry.title} -> {entry.name}",
        )

    yield from _room_remarks(book)


def _room_remarks(book: IncomingBook) -> Iterator[Loss]:
    """Yield a remark if the constants of a book, or all of it, are longer than the room in a prompt."""
    room = Room.of(MAX_CHARS - FRAME_CHARS).long_term
    constants = [memory for memory in book.memories if memory.is_constant]
    constant_chars = _chars(constants)
    all_chars = _chars(book.memories)

    if constant_chars > room:
        remark = _(
            "the constant entries are longer than the {room:,} characters that they have for sure in a prompt of "
            "{usual:,}; a caller can raise `maxChars`",
            room,
            MAX_CHARS,
        )
        yield Loss(remark, _("{name} ({chars:,})", book.name, constant_chars))
    elif all_chars > room:
        remark = _(
            "all entries together are longer than the {room:,} characters that a prompt has for them",
            room,
        )
        yield Loss(remark, _("{name} ({chars:,})", book.name, all_chars))


def _chars(memories: Iterable[LongTermMemory]) -> int:
    return sum(len(memory.prompt) for memory in memories)


def grouped(losses: Iterable[Loss]) -> dict[str, list[str]]:
    """Group the records by the kind of loss. Records with the same name, such as entries of several books, count
    separately."""
    kinds: dict[str, list[str]] = {}
    for loss in losses:
        kinds.setdefault(loss.what, []).append(loss.of)
    return kinds


def kind_lines(losses: Iterable[Loss], *, all_of_them: bool) -> list[str]:
    """Return one line for each kind of loss with its number and three names, or with `all_of_them` one line for each
    record."""
    lines: list[str] = []
    for description, names in grouped(losses).items():
        if all_of_them or len(names) == 1:
            lines += [_("{about}: {what}", name, description) for name in names]
        else:
            lines.append(
                _("{what}: {count:,} ({names})", description, len(names), beginning_of(names))
            )
    return lines


def beginning_of(names: Sequence[str]) -> str:
    """Return the first names, and an ellipsis if there are more."""
    shown = ", ".join(names[:MOST_NAMED])
    if len(names) > MOST_NAMED:
        shown += ", …"
    return shown


# --- the books of a profile --------------------------------------------------------------------------------------

# Switch books on and off as an imported profile of SillyTavern has them, and report other differences.
#
# A switch that the owner made here stays.


async def held_books(view: OpenMemory) -> list[HeldBook]:
    """Return the books of all conversations."""
    books: list[HeldBook] = []
    for conversation_id in await view.store.conversations():
        books += await view.conversation(conversation_id).books.own()
    return books


@dataclass(slots=True)
class _Outcome:
    """The names of books by outcome: off now as in SillyTavern, switched here by the owner, renamed there, or missing
    in the folder, so that they stay on."""

    off: dict[str, None] = field(default_factory=dict)
    switched_here: dict[str, None] = field(default_factory=dict)
    renamed: dict[str, None] = field(default_factory=dict)
    not_there: dict[str, None] = field(default_factory=dict)


async def follow(view: OpenMemory, profile: ProfileBooks, *, dry_run: bool) -> list[str]:
    """Switch the books of a profile as they are in SillyTavern, and retire the books that were renamed there; with
    `dry_run` change nothing. Return sentences about this."""
    outcome = _Outcome()
    for conversation_id in await view.store.conversations():

        def decide(state: ConversationState) -> tuple[Sequence[Change], None]:
            changes: list[Change] = []
            for book in books_of(state.conversation_id, state.long_term.values()):
                changes += _followed(state, book, profile, outcome)
            return changes, None

        if dry_run:
            decide(await view.store.read(conversation_id))
            continue
        await view.store.update(conversation_id, decide, by="import")
    return list(_sentences(outcome, dry_run=dry_run))


def _followed(
    state: ConversationState, book: HeldBook, profile: ProfileBooks, outcome: _Outcome
) -> Sequence[Change]:
    """Return the changes to one book that is stored here; add its name to `outcome`."""
    memories = memories_of_book(state, book.book_id)
    is_there = book.book_id in profile.names or book.source in profile.files
    if is_there:
        is_off = (state.conversation_id, book.book_id) not in profile.on
        if not profile.says_what_is_on and is_off:
            if not book.is_on and not profile.is_on(book.book_id):
                outcome.off[book.name] = None
            return []

        if any(memory.rules.is_off != is_off and is_switched_here(memory) for memory in memories):
            outcome.switched_here[book.name] = None
        elif is_off and not profile.is_on(book.book_id):
            outcome.off[book.name] = None
        return as_its_client(memories, is_off=is_off)
    if not book.is_on:
        return []
    if not _is_renamed(state, book, profile):
        outcome.not_there[book.name] = None
        return []

    outcome.renamed[book.name] = None

    # Entries that the owner changed are not retired with the rest.
    if any(map(is_changed_here, memories)):
        outcome.not_there[book.name] = None
    return removing_book([memory for memory in memories if not is_changed_here(memory)])


def _is_renamed(state: ConversationState, book: HeldBook, profile: ProfileBooks) -> bool:
    """Return whether a book that is on in SillyTavern has the entries of this book, whose file is gone."""
    memories = memories_of_book(state, book.book_id)
    return any(
        conversation_id == state.conversation_id and not is_another(memories, others)
        for (conversation_id, _book_id), others in profile.on.items()
        if others
    )


def _sentences(outcome: _Outcome, *, dry_run: bool) -> Iterable[str]:
    """Yield a sentence with the names of the lorebooks that are off, were switched here, were
    renamed, or are not in the folder; no sentence for a kind without lorebooks. `dry_run`: what
    would be so."""
    off = _(
        "lorebooks that are off in SillyTavern are off here too; `memory-server books on NAME` switches one on"
    )
    renamed = _(
        "lorebooks whose file is gone, and whose entries another lorebook has now, so they were removed; "
        "`memory-server undo` brings them back"
    )

    if dry_run:
        off = _("lorebooks that are off in SillyTavern would be off here too")
        renamed = _(
            "lorebooks whose file is gone would be removed, because another one has their entries"
        )

    for sentence, names in (
        (off, outcome.off),
        (
            _(
                "lorebooks that stay as you switched them here, though SillyTavern has them otherwise; "
                "`memory-server books` shows them"
            ),
            outcome.switched_here,
        ),
        (renamed, outcome.renamed),
        (
            _(
                "lorebooks that are not in the folder stay on here; `memory-server books off NAME` switches one off"
            ),
            outcome.not_there,
        ),
    ):
        if names:
            yield _("{what}: {count:,} ({names})", sentence, len(names), beginning_of(list(names)))


# --- reading lorebooks -------------------------------------------------------------------------------------------

# Read lorebooks for `import` and `convert`: a single one, one in a card or a CharX, and all of a folder of
# SillyTavern with its chats.

_EXPRESSION = re.compile(r"/(?P<body>[\s\S]*)/(?P<flags>[A-Za-z]*)")
_MOST_EXPRESSION_CHARS = 10_000
"""Most characters of an expression that V8 compiles for a check."""
_ANY_TIME = datetime(2026, 1, 1, tzinfo=UTC)
"""Any time will do: whether an expression compiles does not depend on it."""


def names_of(options: ReadOptions) -> dict[str, str]:
    """Return the names of the user and the character, if the options give them."""
    return _known_names(char=options.char, user=options.user)


def _known_names(*, char: str | None, user: str | None) -> dict[str, str]:
    """Return the names of `char` and `user`, without unknown ones."""
    names = {"char": char, "user": user}
    return {who: name for who, name in names.items() if name}


def by_character(options: ReadOptions) -> bool:
    """Return whether a chat is stored in the conversation of its character, because no option names a conversation."""
    return options.conversation is None


def chat_options(view: OpenMemory, options: ReadOptions, usual: str) -> chats.ChatOptions:
    """Return how the chats of an import are read. `usual` is the conversation of messages that name no conversation."""
    return chats.ChatOptions(
        usual,
        view.zone,
        names=names_of(options),
        by_character=by_character(options),
        with_hidden=options.with_hidden,
    )


async def lorebook(
    view: OpenMemory, data: bytes, source: str, *, options: ReadOptions, usual: str
) -> Incoming:
    """Read a lorebook, or a card with a lorebook, which is stored in the conversation of its
    character. Raises NotThisFormat if it is not one."""
    book = await asyncio.to_thread(lorebooks.read_book, data)
    names = names_of(options)

    if options.conversation is not None:
        names = {
            "char": usual,
            **names,
        }  # the lorebook of a character usually goes into the conversation of the same name
    elif book.character is not None:
        with suppress(InvalidInput):  # a name that no conversation can have
            usual = conversation_id_of(book.character)
        names = {"char": book.character, **names}

    defaults = Defaults(
        depth=options.depth,
        whole_words=not options.substrings,
        case_sensitive=options.case_sensitive,
        names=names,
        recursion=not options.no_recursion,
        speakers=not options.no_names,
    )

    is_for_all = usual == DEFAULT_CONVERSATION
    book_source = BookSource(
        Path(source).name,
        usual,
        defaults=defaults,
        name=options.book or "",
        precedence=ProfileSettings().precedence_of("all" if is_for_all else "character"),
    )
    return await _memories_of(view, book, book_source, options.check_until)


async def _memories_of(view: OpenMemory, book: Book, source: BookSource, until: float) -> Incoming:
    expressions = lore_memories.expressions(book, source.defaults)
    invalid = await invalid_expressions(view.memories.services.runner, expressions, until=until)
    incoming = lore_memories.read(book, replace(source, invalid=invalid))
    incoming.notes += map(_, book.lost)
    return incoming


async def zipped_card(
    view: OpenMemory, card: ZippedCard, source: str, *, options: ReadOptions, usual: str
) -> Incoming:
    """Read the lorebook in a CharX. Raises NotThisFormat if it has none, or has it in the packed
    form of RisuAI."""
    try:
        incoming = await lorebook(view, card.card, source, options=options, usual=usual)
    except NotThisFormat as error:
        # The card itself is fine; its lorebook is in a part that cannot be read here.
        if card.has_module:
            raise NotThisFormat(
                "holds a character whose lorebook is in module.risum, in the packed form of RisuAI; export its "
                "lorebook there as JSON."
            ) from error
        raise

    if card.assets:
        incoming.lost[_("pictures and other files of the card")] += card.assets
    if card.has_module:
        incoming.notes.append(
            _("module.risum: the packed module of RisuAI, with scripts and perhaps further entries")
        )
    return incoming


@frozen
class SillyTavernFolder:
    """A folder of SillyTavern. `name` is its name in the report. `left_out` has the path and the reason of each file
    that should be read and was not."""

    name: str
    profiles: Sequence[Profile]
    left_out: Sequence[tuple[str, str]]

    @property
    def holds_something(self) -> bool:
        """Whether the folder holds anything of SillyTavern, and not only files with such names."""
        return not all(profile.is_empty for profile in self.profiles)


async def sillytavern_in(
    tree: Tree, name: str, options: ReadOptions, usual: str
) -> SillyTavernFolder:
    """Read what the users of such a folder have. With -c all of it is for one conversation."""
    everywhere = DEFAULT_CONVERSATION if by_character(options) else usual
    profiles = await asyncio.to_thread(sillytavern_folder.read, tree.files, everywhere, usual)
    return SillyTavernFolder(name, profiles, tree.left_out)


async def sillytavern(
    view: OpenMemory, folder: SillyTavernFolder, *, options: ReadOptions, usual: str
) -> Incoming:
    """Read all of a folder of SillyTavern, after a sentence about its content. Raises NotThisFormat
    if it has no chats and no lorebooks."""
    incoming = Incoming(skipped=[*folder.left_out])
    for profile in folder.profiles:
        if profile.is_empty:
            continue
        incoming.found.append(
            _("{named} is a folder of SillyTavern: {what}.", folder.name, profile.summary())
        )
        await asyncio.to_thread(_take_chats, view, incoming, profile, options=options, usual=usual)

    incoming.conversations = chats.merged(incoming.conversations)

    held_by_home = await held_books(view)
    incoming.profile = ProfileBooks()
    for profile in folder.profiles:
        incoming.profile.files.update(profile.files)
        incoming.profile.says_what_is_on &= profile.says_what_is_on
        await _take_books(view, incoming, profile, options=options, usual=usual, held=held_by_home)

    if not incoming.count and not incoming.skipped:
        raise NotThisFormat("is a folder of SillyTavern without chats and lorebooks.")
    return incoming


def _take_chats(
    view: OpenMemory, incoming: Incoming, profile: Profile, *, options: ReadOptions, usual: str
) -> None:
    """Take the chats of a user, each for the conversation of its character, or all for `usual` if the options want that.
    A chat that cannot be read is skipped, with the reason."""
    for placed in profile.chats:
        conversation_id = placed.conversation_id if by_character(options) else usual

        chat = replace(chat_options(view, options, conversation_id), by_character=False)
        with incoming.record(placed.path):
            chats.add_file(incoming, placed.data, chat, path=placed.path)


async def _take_books(
    view: OpenMemory,
    incoming: Incoming,
    profile: Profile,
    *,
    options: ReadOptions,
    usual: str,
    held: Sequence[HeldBook],
) -> None:
    """Take the books of a user. A book that is off everywhere is imported switched off, unless a conversation has it
    (`held`)."""
    incoming.skipped += profile.faults
    if profile.books:
        incoming.notes += _unused_settings(profile.settings)

    books = incoming.profile or ProfileBooks()
    for placed in profile.books:
        conversation_id = placed.conversation_id if by_character(options) else usual
        defaults = _defaults_of(profile, placed.character, options)

        source = BookSource(
            Path(placed.source).name,
            conversation_id,
            defaults,
            precedence=profile.settings.precedence_of(placed.owner),
        )
        with incoming.record(placed.source):
            of_book = await _memories_of(view, placed.book, source, options.check_until)
            for book in of_book.books:
                books.names[book.book_id] = book.name
                if book.is_on:
                    books.on[book.conversation_id, book.book_id] = book.memories

                places = {
                    book_there.conversation_id
                    for book_there in held
                    if book_there.book_id == book.book_id
                }
                if book.is_on or not places or book.conversation_id in places:
                    incoming.books.append(book)

            incoming.losses += of_book.losses
            incoming.skipped += of_book.skipped
            incoming.notes += of_book.notes
            incoming.lost.update(of_book.lost)

    for sentence, names in (
        (_("lorebooks in cards; the one that the card names was imported"), profile.replaced),
        (_("lorebooks that are named there and are not in the folder"), profile.missing),
    ):
        if names:
            incoming.notes.append(
                _("{what}: {count:,} ({names})", sentence, len(names), beginning_of(names))
            )


def _unused_settings(settings: ProfileSettings) -> Iterator[str]:
    """Yield a sentence about each changed setting of world info that has no meaning here."""
    if settings.min_activations:
        yield _(
            "min activations ({count}): older messages are not searched until so many entries came; --depth says how "
            "many messages are searched",
            settings.min_activations,
        )
    if settings.has_own_budget:
        yield _("the budget of world info: `maxChars` of a call is the room here")


def _defaults_of(profile: Profile, character: str, options: ReadOptions) -> Defaults:
    """Return the values for what an entry leaves open: the settings of the user, which the options override."""
    settings = profile.settings
    return Defaults(
        depth=settings.depth if options.depth is None else options.depth,
        whole_words=not options.substrings and settings.whole_words is not False,
        case_sensitive=options.case_sensitive or bool(settings.case_sensitive),
        names=_known_names(char=character, user=profile.user) | names_of(options),
        recursion=settings.recursion and not options.no_recursion,
        speakers=settings.names and not options.no_names,
        group_scoring=bool(settings.group_scoring),
        most_rounds=settings.most_rounds,
    )


async def invalid_expressions(
    runner: TriggerRunner, keys: Iterable[str], *, until: float = inf
) -> set[str]:
    """Return the expressions `/body/flags` that V8 does not compile, or that are too long for it:
    a folder has thousands. `until` as in `check_reports`. Raises InvalidInput if that time is
    over."""
    invalid: set[str] = set()
    triggers: dict[str, str] = {}
    for key in keys:
        match = _EXPRESSION.fullmatch(key)
        if match is None:
            continue
        if not match["body"] or len(key) > _MOST_EXPRESSION_CHARS:
            invalid.add(key)
        else:
            body = json.dumps(match["body"])
            # It throws if V8 does not compile the expression.
            triggers[key] = f"new RegExp({body}, {json.dumps(match['flags'])}).test('')"

    # Check all of them together, because a folder has thousands.
    reports = await check_reports(runner, [*triggers.values()], now=_ANY_TIME, until=until)
    for key, report in zip(triggers, reports, strict=True):
        if report.errors or any(problem.kind == "thrown" for problem in report.warnings):
            invalid.add(key)
    return invalid


# --- checks of triggers ------------------------------------------------------------------------------------------

# Check triggers before they are imported, some hundred at a time.

AT_ONCE = 200
"""Triggers in one request: they share its time, and triggers that had no time are tried again alone."""


async def check_reports(
    runner: TriggerRunner,
    triggers: Sequence[str],
    *,
    now: datetime,
    until: float = inf,
    advance: Callable[..., None] = lambda _count: None,
) -> list[CheckReport]:
    """Return the report on each trigger, in order. `until` is when to stop, by the monotonic clock; `advance` gets
    the number of checked triggers. Raises InvalidInput if that time is over."""
    reports: list[CheckReport] = []
    # 200 triggers that run too long take 20 s.
    for begin in range(0, len(triggers), AT_ONCE):
        if time.monotonic() > until:
            raise InvalidInput(
                "Only {count:,} of {all:,} triggers could be checked in time, so nothing was stored; import "
                "fewer at a time.",
                begin,
                len(triggers),
            )

        reports += await runner.check_all(triggers[begin : begin + AT_ONCE], now=now, seed=0)
        advance(AT_ONCE)
    return reports
