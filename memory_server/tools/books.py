"""The toolset `books`: the lorebooks of a conversation as units: list them, look into one, switch it, take it out."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from languages import _, counted, joined
from memory_server.kernel.recalled_block import one_line
from memory_server.kernel.times import iso
from memory_server.lore import LongTermMemory, length_text, rules_json, rules_text
from memory_server.memories.memories import Call
from memory_server.tools.base.result import ChangeId, From, Pagination, Result, undo_hint
from memory_server.tools.base.shapes import ConversationId, Offset, Text
from memory_server.tools.base.tool import tool

BookName = Annotated[Text, "Name or id of the book, in any case"]


class BookRow(Result):
    id: Annotated[str, From("book_id", words="Its id, the same in every import of it")]
    name: str
    conversation_id: Annotated[str, From(words="The conversation that keeps it")]
    entries: Annotated[int, From(words="How many it has")]
    chars: Annotated[int, From(words="Characters of all entries")]
    constants: Annotated[int, From(words="Entries that come in every search")]
    constantChars: Annotated[int, From(words="Characters of these")]
    off: Annotated[int, From(words="Entries that are switched off")]
    on: Annotated[bool, From("is_on", words="false: all entries are switched off")]
    source: Annotated[str, From(words="The file that it came from")]
    changedAt: Annotated[str, From("changed_ms", iso, "When one of its entries was last stored")]

    def __str__(self) -> str:
        """Describe a lorebook on one line: its name and place, entries, length, state and
        source."""
        parts = [
            counted(self.entries, "entry"),
            length_text(self.chars),
            _(
                "{constants:,} of them constant ({chars})",
                self.constants,
                length_text(self.constantChars),
            ),
            state_text(self.entries, self.off),
        ]

        if self.source:
            parts.append(_("from {source}", self.source))

        return _(
            "{name} in {conversation}: {parts}",
            one_line(self.name),
            self.conversation_id,
            joined(", ", parts),
        )


def state_text(entries: int, off: int) -> str:
    """Describe whether a book is on, for people."""
    if not off:
        return _("on")
    if off >= entries:
        return _("off")
    return _("{off:,} of {entries:,} off", off, entries)


class BooksResult(Result):
    books: list[BookRow] = Field(
        description="Those of the conversation, then those of the shared one"
    )

    def __str__(self) -> str:
        if not self.books:
            return _("No lorebooks; `memory-server import FILE` brings one in.")
        return "\n".join([f"- {book}" for book in self.books])


@tool(
    title="List lorebooks",
    description="The lorebooks that a conversation searches, its own and the shared ones: entries, length, on or off.",
    paging=Pagination("books"),
    read_only=True,
)
async def list_books(
    call: Call, conversation_id: ConversationId = None, offset: Offset = None
) -> BooksResult:
    return BooksResult(
        books=BookRow.each(await call.conversations.get(conversation_id).books.listed())
    )


class EntryRow(Result):
    name: str
    uid: Annotated[str, From(words="Its name in the book")]
    order: Annotated[float, From(words="The highest comes first where room is short")]
    chars: Annotated[int, From(words="Characters of its text")]
    constant: Annotated[bool, From(words="It comes in every search")]
    off: Annotated[bool, From(words="It is switched off")]
    rules: Annotated[dict[str, Any] | None, From(words="Rules that are not as usual")] = None
    rulesInWords: Annotated[str | None, From(words="The same in words")] = None

    def __str__(self) -> str:
        parts: list[str] = []
        if self.constant:
            parts.append(_("constant"))
        if self.rulesInWords:
            parts.append(self.rulesInWords)
        parts.append(length_text(self.chars))
        return _("{name}: {parts}", one_line(self.name), joined(", ", parts))


def entry_row(memory: LongTermMemory) -> EntryRow:
    """Return an entry of a book without its text."""
    return EntryRow(
        name=memory.name,
        uid="" if memory.book is None else memory.book.uid,
        order=memory.rules.order,
        chars=len(memory.prompt),
        constant=memory.is_constant,
        off=memory.rules.is_off,
        rules=rules_json(memory.rules) or None,
        rulesInWords=rules_text(memory.rules) or None,
    )


class BookResult(Result):
    book: BookRow = Field(description="The book, as list_books gives it")
    entries: list[EntryRow] = Field(description="The highest order first")

    def __str__(self) -> str:
        entries = [f"- {entry}" for entry in self.entries]
        return "\n".join([str(self.book), *entries])


@tool(
    title="Look into a lorebook",
    description="The entries of a lorebook, in the order in which they take room: rules, length, constant, off.",
    paging=Pagination("entries"),
    read_only=True,
)
async def show_book(
    call: Call, name: BookName, conversation_id: ConversationId = None, offset: Offset = None
) -> BookResult:
    books = call.conversations.get(conversation_id).books
    book = BookRow.of(await books.book(name))
    return BookResult(
        book=book, entries=[entry_row(memory) for memory in await books.entries(name)]
    )


class SwitchResult(Result):
    name: Annotated[str, From("book.name", words="Name of the book")]
    on: Annotated[bool, From(words="Whether it is on now")]
    entries: Annotated[int, From(words="How many entries were switched")]
    changeId: ChangeId = None

    def __str__(self) -> str:
        if not self.entries:
            state = _("on already") if self.on else _("off already")
            return _("{name} is {state}.", one_line(self.name), state)
        return _(
            "{name} is {state}: {entries}.{undo_hint}",
            one_line(self.name),
            _("on") if self.on else _("off"),
            counted(self.entries, "entry"),
            undo_hint(self.changeId),
        )


@tool(
    title="Switch a lorebook on or off",
    description="Switch all entries of a lorebook on or off. A book that is off stays, and nothing of it comes.",
    idempotent=True,
)
async def switch_book(
    call: Call,
    name: BookName,
    on: Annotated[bool, "false: nothing of it comes until it is on again"],
    conversation_id: ConversationId = None,
) -> SwitchResult:
    books = call.conversations.get(conversation_id).books
    switched = await books.switch(name, on=on, by="switch_book")
    return SwitchResult.of(switched, on=on)


class RemoveResult(Result):
    name: Annotated[str, From("book.name", words="Name of the book")]
    entries: Annotated[int, From(words="How many entries went into the archive")]
    changeId: ChangeId = None

    def __str__(self) -> str:
        return _(
            "{name} is removed: {entries} in the archive.{undo_hint}",
            one_line(self.name),
            counted(self.entries, "entry"),
            undo_hint(self.changeId),
        )


@tool(
    title="Take a lorebook out",
    description="Put all entries of a lorebook into the archive; undo_change brings them back.",
    destructive=True,
)
async def remove_book(
    call: Call, name: BookName, conversation_id: ConversationId = None
) -> RemoveResult:
    books = call.conversations.get(conversation_id).books
    removed = await books.remove(name, by="remove_book")
    return RemoveResult.of(removed)
