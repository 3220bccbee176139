"""Compare an imported lorebook with what an earlier import of it brought, and say in one line what changed."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from languages import _, counted, joined
from memory_server.conversations.archive import deleted_entries
from memory_server.conversations.changes import Change
from memory_server.conversations.model import ConversationState, marks_of
from memory_server.interchange.incoming import IncomingBook, Loss
from memory_server.kernel.erasure import left_out_text
from memory_server.kernel.recalled_block import FRAME_CHARS
from memory_server.kernel.values import dataclass
from memory_server.lore import (
    BookContents,
    BookUpdate,
    HeldBook,
    LongTermMemory,
    Room,
    book_changes,
    most_triggers,
    older_version,
)
from memory_server.memories.turns import MAX_CHARS
from memory_server.operations.ports import OpenMemory

MOST_NAMED = 3
"""Most names in one line of a report."""


@dataclass(frozen=True, slots=True)
class StoredBook:
    """The result of importing a book. `erased` is the sentence about entries that were erased for good, or empty.
    `older` is another book that may be an older version of it, or None. `change_id` is None if nothing had to change.
    """

    update: BookUpdate
    erased: str
    older: HeldBook | None
    change_id: str | None = None


async def store_book(view: OpenMemory, book: IncomingBook, *, dry_run: bool) -> StoredBook:
    """Bring a book up to date in its conversation, or say what that would do."""
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
