"""The lorebooks of a conversation: list them, and switch a book on, off or out. Each of these is a single change, so
a single undo takes it back. The decisions are in books.py."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence

from memory_server.conversations.changes import Change
from memory_server.conversations.model import ConversationState
from memory_server.conversations.services import Done, Services
from memory_server.kernel.errors import MemoryNotFound, StorageError
from memory_server.kernel.values import frozen
from memory_server.lore import (
    HeldBook,
    LongTermMemory,
    books_of,
    memories_of_book,
    removing_book,
    switching,
)

log = logging.getLogger(__name__)
_MOST_NAMED = 10
"""Names of books in an error, at most."""


@frozen
class BookResult(Done):
    """A book was switched or removed; `book` is as it was before. `entries`: how many of its memories were changed."""

    book: HeldBook
    entries: int


class BookManager:
    """The books of `conversation_id`; `shared_conversation` is the id of the shared conversation, or None."""

    def __init__(
        self, conversation_id: str, services: Services, shared_conversation: str | None
    ) -> None:
        self.conversation_id = conversation_id
        self._services = services
        self._shared_conversation = shared_conversation

    async def own(self) -> list[HeldBook]:
        """List the books of this conversation, in the order of their first memory."""
        state = await self._services.store.read(self.conversation_id)
        return books_of(self.conversation_id, state.long_term.values())

    async def listed(self, also: Sequence[str] = ()) -> list[HeldBook]:
        """List the books that a search evaluates: first this conversation's, then the books of the conversations
        searched `also`, then the shared conversation's. Other conversations that cannot be read are skipped, with a
        warning in the log."""
        books = await self.own()
        for name in dict.fromkeys((*also, self._shared_conversation)):
            if name is None or name == self.conversation_id:
                continue
            try:
                state = await self._services.store.read(name)
            except StorageError as error:
                log.warning("the books of a conversation are not listed: %s", error)
                continue
            books += books_of(name, state.long_term.values())
        return books

    async def book(self, name: str) -> HeldBook:
        """Return the book of this conversation with that name or id; upper and lower case are equal. Raises
        MemoryNotFound if no book, or more than one, has it."""
        return (await self._named(name))[0]

    async def entries(self, name: str) -> tuple[LongTermMemory, ...]:
        """List the memories of a book, the highest order first, then in the order of storing. Raises MemoryNotFound."""
        memories = (await self._named(name))[1]
        return tuple(sorted(memories, key=lambda memory: -memory.rules.order))

    async def switch(self, name: str, *, on: bool, by: str = "api") -> BookResult:
        """Switch all memories of a book on or off; the result counts the ones that changed. Raises MemoryNotFound if no
        book has that name."""
        await self._named(name)

        def decide(state: ConversationState) -> tuple[Sequence[Change], BookResult]:
            book, memories = self._named_in(state, name)
            changes = switching(memories, is_off=not on)
            return changes, BookResult(book, len(changes))

        return await self._services.commit(self.conversation_id, decide, by=by)

    async def remove(self, name: str, *, by: str = "api") -> BookResult:
        """Take a book out; its memories are in the archive then. Raises MemoryNotFound if no book has that name."""
        await self._named(name)

        def decide(state: ConversationState) -> tuple[Sequence[Change], BookResult]:
            book, memories = self._named_in(state, name)
            return removing_book(memories), BookResult(book, len(memories))

        return await self._services.commit(self.conversation_id, decide, by=by)

    async def _named(self, name: str) -> tuple[HeldBook, list[LongTermMemory]]:
        """Return the book of that name and its memories. If the shared conversation has it, the MemoryNotFound says
        so."""
        state = await self._services.store.read(self.conversation_id)
        try:
            return self._named_in(state, name)
        except MemoryNotFound:
            shared = [
                book for book in await self.listed() if book.conversation_id != self.conversation_id
            ]
            if not named_so(shared, name):
                raise
            raise MemoryNotFound(
                "The conversation `{conversation}` has no book `{name}`; it is kept in `{shelf}`: give that as "
                "conversation_id.",
                self.conversation_id,
                name,
                shared[0].conversation_id,
            ) from None

    def _named_in(
        self, state: ConversationState, name: str
    ) -> tuple[HeldBook, list[LongTermMemory]]:
        """Return the book with this name or id, and its memories. Raises MemoryNotFound if no book
        has it, or more than one."""
        books = books_of(self.conversation_id, state.long_term.values())
        named = named_so(books, name)
        if len(named) == 1:
            return named[0], memories_of_book(state, named[0].book_id)
        if named:
            ids = ", ".join(f"`{book.book_id}` ({book.source})" for book in named)
            raise MemoryNotFound(
                "Several books of the conversation `{conversation}` are called `{name}`; give the id of one: {ids}.",
                self.conversation_id,
                name,
                ids,
            )
        raise no_such_book(self.conversation_id, name, books)


def named_so(books: Iterable[HeldBook], name: str) -> list[HeldBook]:
    """Return the books with this name or id; upper and lower case are equal."""
    folded_name = name.strip().casefold()
    return [
        book for book in books if folded_name in (book.name.casefold(), book.book_id.casefold())
    ]


def no_such_book(conversation_id: str, name: str, books: Sequence[HeldBook]) -> MemoryNotFound:
    """Make the error that lists the books that exist."""
    if not books:
        return MemoryNotFound(
            "The conversation `{conversation}` has no books; `memory-server import FILE` brings one in.",
            conversation_id,
        )
    names = ", ".join(f"`{book.name}`" for book in books[:_MOST_NAMED])
    return MemoryNotFound(
        "No book is called `{name}` in the conversation `{conversation}`; there are {names}.",
        name,
        conversation_id,
        names,
    )
