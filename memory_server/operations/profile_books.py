"""Switch books on and off as an imported profile of SillyTavern has them, and report other differences.

A switch that the owner made here stays.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import field

from languages import _
from memory_server.conversations.changes import Change
from memory_server.conversations.model import ConversationState
from memory_server.interchange.incoming import ProfileBooks
from memory_server.kernel.values import dataclass
from memory_server.lore import (
    HeldBook,
    as_its_client,
    books_of,
    is_another,
    is_changed_here,
    is_switched_here,
    memories_of_book,
    removing_book,
)
from memory_server.operations.lore_import import beginning_of
from memory_server.operations.ports import OpenMemory


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
    """Switch the books of a profile as they are in SillyTavern, and retire the books that were renamed there. Return
    sentences about this."""
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
