"""List, show, switch and remove lorebooks, of all conversations or of the conversation that `-c` names (`books`)."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence
from dataclasses import replace

from languages import N_, _, counted
from memory_server.cli.call_tool import called
from memory_server.cli.inspection import for_each_conversation
from memory_server.cli.terminal import print_columns, print_plain, say, time_text
from memory_server.conversations.book_manager import named_so
from memory_server.conversations.conversation import Conversation
from memory_server.kernel.errors import InvalidInput, MemoryNotFound
from memory_server.kernel.streams import write
from memory_server.lore import USUAL_ORDER, HeldBook, LongTermMemory, rules_text
from memory_server.operations.whereabouts import shown_names
from memory_server.runtime.app import CallerView
from memory_server.tools.books import BookRow, entry_row, state_text


async def books(view: CallerView, flags: Namespace) -> None:
    """Run one action. Raises InvalidInput if the action needs a name and has none, or takes none
    and has one."""
    if flags.action == "list":
        if flags.name is not None:
            raise InvalidInput(
                "`books list` takes no name; `books show NAME` shows the entries of one."
            )
        _print_books(view, await _all_books(view, flags), flags)
        return
    if flags.name is None:
        raise InvalidInput(
            "`books {action}` needs the name of a book; `books list` shows them.", flags.action
        )
    if flags.action == "show":
        await _show(view, flags)
        return

    view.settings.refuse_change(f"books {flags.action}")
    await _change(view, flags)


async def _all_books(view: CallerView, flags: Namespace) -> list[HeldBook]:
    """List the books of all conversations, or of the conversation that `-c` names."""
    listed: list[HeldBook] = []

    async def look(conversation: Conversation) -> None:
        listed.extend(await conversation.books.own())

    await for_each_conversation(view, flags, _("looking"), look)
    return listed


def _print_books(view: CallerView, listed: Sequence[HeldBook], flags: Namespace) -> None:
    """Print a row for each lorebook, or with --json a JSON line; a hint if none exist."""
    if flags.json:
        for book in listed:
            write(BookRow.of(book).fields())
        return
    if not listed:
        say("No lorebooks; `memory-server import FILE` brings one in.")
        return
    headings = N_(
        (
            "book",
            "conversation",
            "entries",
            "constants",
            "length",
            "state",
            "changed",
            "from",
        )
    )
    print_columns([headings, *(_book_cells(view, book) for book in listed)])


def _book_cells(view: CallerView, book: HeldBook) -> tuple[str, ...]:
    return (
        book.name,
        book.conversation_id,
        f"{book.entries:,}",
        f"{book.constants:,} ({book.constant_chars:,})",
        f"{book.chars:,}",
        state_text(book.entries, book.off),
        time_text(book.changed_ms, view.zone),
        book.source or "-",
    )


async def _show(view: CallerView, flags: Namespace) -> None:
    """Print a lorebook and its first entries, or with --json the entries as lines. Raises
    MemoryNotFound if no lorebook, or several, have the typed name."""
    book = await _meant(view, flags)
    entries = await view.conversation(book.conversation_id).books.entries(book.book_id)
    shown = entries[: max(1, flags.limit)]

    if flags.json:
        for memory in shown:
            write(entry_row(memory).fields())
        return
    print_plain(BookRow.of(book))

    headings = N_(("order", "length", "constant", "rules", "name"))
    print_columns([headings, *map(_entry_cells, shown)])
    more = len(entries) - len(shown)
    if more:
        say("{entries} more; --limit N shows more of them.", counted(more, "entry"))


def _entry_cells(memory: LongTermMemory) -> tuple[str, ...]:
    """Return the table cells of a book's entry. The order has its own column, so the rules are shown without it."""
    constant = "-"
    if memory.is_constant:
        constant = _("constant")
    other_rules = replace(memory.rules, order=USUAL_ORDER)
    order = f"{memory.rules.order:g}"
    length = f"{len(memory.prompt):,}"
    return order, length, constant, rules_text(other_rules) or "-", memory.name


async def _change(view: CallerView, flags: Namespace) -> None:
    """Remove the book that is meant, or switch it on or off, and print the tool's answer."""
    book = await _meant(view, flags)
    arguments: dict[str, object] = {"name": book.book_id, "conversation_id": book.conversation_id}
    if flags.action == "remove":
        answer = await called(view, "remove_book", arguments)
    else:
        answer = await called(view, "switch_book", {**arguments, "on": flags.action == "on"})
    print_plain(answer.text)


async def _meant(view: CallerView, flags: Namespace) -> HeldBook:
    """Return the book with the typed name or id. Raises MemoryNotFound if no book or several books have it."""
    listed = await _all_books(view, flags)
    named = named_so(listed, flags.name)
    if len(named) == 1:
        return named[0]

    # Books of different conversations may have the same name.
    if named:
        places = ", ".join(
            f"{book.conversation_id} ({book.book_id}, {book.source})" for book in named
        )
        raise MemoryNotFound(
            "Several books are called `{name}`: {places}; name the conversation with -c, or give the id.",
            flags.name,
            places,
        )

    if not listed:
        raise MemoryNotFound(
            "There are no lorebooks here; `memory-server import FILE` brings one in."
        )
    names = shown_names(list(dict.fromkeys(book.name for book in listed)))
    raise MemoryNotFound("No book is called `{name}`; there are {names}.", flags.name, names)
