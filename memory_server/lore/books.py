"""Lorebooks of a conversation as units: what one import of a book changes, and switching it on, off and out. Pure.

A book is known by its id, an entry of it by its uid. An entry that the user changed here stays as the user has it. The
names of memories are unique in a conversation: a second `Magic` becomes `Magic · Tale`, after its book.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from memory_server.kernel.messages import MAX_NAME_CHARS
from memory_server.kernel.values import dataclass
from memory_server.lore.book_identity import SEPARATOR, is_another
from memory_server.lore.book_versions import (
    has_title,
    is_changed_here,
    stored_entries,
    uid_of,
    versions_of,
)
from memory_server.lore.memory import (
    BookChange,
    BookEntry,
    ConversationMemories,
    LongTermMemory,
    TriggerRemoved,
    TriggerSet,
)

_FEWEST_SAME = 3
"""Names that two books share, at least, before one may be a new version of the other."""


@dataclass(frozen=True, slots=True)
class EntryKey:
    """Names an entry of a book."""

    book_id: str
    uid: str


@dataclass(frozen=True, slots=True)
class BookContents:
    """A book as a file has it, for one conversation. `is_update`: it is a new version of the book with its name.
    `deleted`: the entries that the user deleted here, each by the id of its book and its uid."""

    book_id: str
    name: str
    source: str
    memories: Sequence[LongTermMemory]
    is_update: bool = False
    deleted: frozenset[EntryKey] = frozenset()


@dataclass(frozen=True, slots=True)
class RenamedEntry:
    """An entry that is stored under another name than its title, because another memory has that."""

    title: str
    name: str


@dataclass(frozen=True, slots=True)
class BookUpdate:
    """What an import of a book does, by the names of its memories. `retired`: the book no longer has them; `kept`: the
    book changed or retired them, but the user changed them here; `deleted`: the user deleted them here, so they stay
    out; `renamed`: another memory has their title. `stored_as` is the name of the book here if another book has its
    name, otherwise empty."""

    new: Sequence[str] = ()
    changed: Sequence[str] = ()
    unchanged: Sequence[str] = ()
    retired: Sequence[str] = ()
    kept: Sequence[str] = ()
    deleted: Sequence[str] = ()
    renamed: Sequence[RenamedEntry] = ()
    stored_as: str = ""


@dataclass(frozen=True, slots=True)
class HeldBook:
    """A book of a conversation. `entries`, `constants` and `off`: how many memories it has, how many of them come in
    every search, and how many are switched off; the characters of all of them, and of the constants. `changed_ms`: when
    any of them was last stored, in milliseconds since 1970."""

    conversation_id: str
    book_id: str
    name: str
    source: str
    entries: int
    chars: int
    constants: int
    constant_chars: int
    off: int
    changed_ms: int

    @property
    def is_on(self) -> bool:
        return self.off < self.entries


def books_of(conversation_id: str, memories: Iterable[LongTermMemory]) -> list[HeldBook]:
    """Return the books of these memories, each once, in the order of their first memory."""
    by_book: dict[str, list[LongTermMemory]] = {}
    for memory in memories:
        if memory.book is not None:
            by_book.setdefault(memory.book.book_id, []).append(memory)
    return [_held_book(conversation_id, book_memories) for book_memories in by_book.values()]


def _held_book(conversation_id: str, memories: Sequence[LongTermMemory]) -> HeldBook:
    newest = max(memories, key=changed_ms)
    assert newest.book is not None
    constants = [memory for memory in memories if memory.is_constant]
    return HeldBook(
        conversation_id=conversation_id,
        book_id=newest.book.book_id,
        name=newest.book.book_name,
        source=newest.book.source,
        entries=len(memories),
        chars=sum(len(memory.prompt) for memory in memories),
        constants=len(constants),
        constant_chars=sum(len(memory.prompt) for memory in constants),
        off=sum(memory.rules.is_off for memory in memories),
        changed_ms=changed_ms(newest),
    )


def changed_ms(memory: LongTermMemory) -> int:
    """Return when a memory was stored or edited last, in milliseconds since 1970."""
    return (
        memory.created_ms
        if memory.updated_ms is None
        else max(memory.created_ms, memory.updated_ms)
    )


def memories_of_book(state: ConversationMemories, book_id: str) -> list[LongTermMemory]:
    """Return the memories of a book, in the order in which they were stored."""
    return [
        memory
        for memory in state.long_term.values()
        if memory.book is not None and memory.book.book_id == book_id
    ]


# --- an import, which is an update where the book is known -------------------------------------------------


def book_changes(
    state: ConversationMemories, book: BookContents, now_ms: int
) -> tuple[list[BookChange], BookUpdate]:
    """Return the changes that bring a book up to date, and what they do."""
    same_book = _same_book(state, book)
    changes, update = _Update(state, same_book, now_ms).decided()
    if not book.is_update and same_book.name != book.name:
        update = replace(update, stored_as=same_book.name)
    return changes, update


def _same_book(state: ConversationMemories, book: BookContents) -> BookContents:
    """Return the book with the id of the stored book of which it is a new version."""
    if not book.is_update:
        return _beside_others(state, book)
    books = books_of(state.conversation_id, state.long_term.values())
    for stored_book in books:
        if stored_book.name == book.name:
            memories = [_of_book(memory, stored_book.book_id) for memory in book.memories]
            return replace(book, book_id=stored_book.book_id, memories=memories)
    return book


def _beside_others(state: ConversationMemories, book: BookContents) -> BookContents:
    """Return the book, with a number if the conversation has a different book of its name and file: some programs give
    each exported lorebook the same name."""
    candidate = book
    number = 1
    while is_another(memories_of_book(state, candidate.book_id), book.memories):
        number += 1
        candidate = _numbered(book, number)
    return candidate


def _numbered(book: BookContents, number: int) -> BookContents:
    book_id = f"{book.book_id}-{number}"
    name = f"{book.name} ({number})"
    memories = [
        replace(memory, book=replace(entry_of(memory), book_id=book_id, book_name=name))
        for memory in book.memories
    ]
    return replace(book, book_id=book_id, name=name, memories=memories)


def _of_book(memory: LongTermMemory, book_id: str) -> LongTermMemory:
    return replace(memory, book=replace(entry_of(memory), book_id=book_id))


def older_version(state: ConversationMemories, book: BookContents) -> HeldBook | None:
    """Return another book of the conversation that has the names of at least half of these entries: this book may be a
    new version of it."""
    names = {memory.name for memory in book.memories}
    for stored_book in books_of(state.conversation_id, state.long_term.values()):
        if stored_book.book_id == book.book_id:
            continue
        same = sum(memory.name in names for memory in memories_of_book(state, stored_book.book_id))
        if same >= _FEWEST_SAME and same * 2 >= len(names):
            return stored_book
    return None


class _Update:
    """Compares a book with what the conversation has of it."""

    def __init__(self, state: ConversationMemories, book: BookContents, now_ms: int) -> None:
        self._book = book
        self._now_ms = now_ms
        self._names = set(state.long_term)
        self._stored = stored_entries(state, book.book_id)
        self._is_off = bool(self._stored) and all(
            memory.rules.is_off for memory in self._stored.values()
        )
        self._changes: list[BookChange] = []
        self._new: list[str] = []
        self._changed: list[str] = []
        self._unchanged: list[str] = []
        self._kept: list[str] = []
        self._deleted: list[str] = []
        self._renamed: list[RenamedEntry] = []

    def decided(self) -> tuple[list[BookChange], BookUpdate]:
        versions = versions_of(self._book.memories, self._stored)
        with_version = {id(version) for version in versions if version is not None}
        unmatched = [memory for memory in self._stored.values() if id(memory) not in with_version]
        retired = self._retire(unmatched)

        pairs = list(zip(self._book.memories, versions, strict=True))
        # All names that become free are free before the first memory gets a new one: two entries may change places.
        renamed = [
            pair for pair in pairs if pair[1] is not None and not has_title(pair[1], pair[0].name)
        ]
        replaced = self._take_out([version for _memory, version in renamed if version is not None])

        for memory, version in pairs:
            if version is None:
                self._add(memory)
            elif version.name in replaced:
                self._replace(memory, version)
            elif has_title(version, memory.name):
                self._compare(memory, version)
            else:
                # This entry is stored beside what the user made of the entry that had its uid.
                self._add(memory)

        update = BookUpdate(
            new=self._new,
            changed=self._changed,
            unchanged=self._unchanged,
            retired=retired,
            kept=self._kept,
            deleted=self._deleted,
            renamed=self._renamed,
        )
        return self._changes, update

    def _retire(self, memories: Iterable[LongTermMemory]) -> list[str]:
        """Take out the memories that the book no longer has. Return their names."""
        return list(self._take_out(memories))

    def _take_out(self, memories: Iterable[LongTermMemory]) -> dict[str, None]:
        """Remove these memories unless the user changed them. Return the removed names."""
        changed_here: list[str] = []
        names: list[str] = []
        # Backwards, so that an undo brings them back in their order.
        for memory in reversed(list(memories)):
            if is_changed_here(memory):
                changed_here.append(memory.name)
                continue
            self._changes.append(TriggerRemoved(memory, "retired"))
            self._names.discard(memory.name)
            names.append(memory.name)
        self._kept += reversed(changed_here)
        return dict.fromkeys(reversed(names))

    def _add(self, memory: LongTermMemory) -> None:
        """Store an entry that the conversation does not have, unless the user deleted it here."""
        if EntryKey(self._book.book_id, uid_of(memory)) in self._book.deleted:
            self._deleted.append(memory.name)
            return
        stored = self._named(replace(memory, created_ms=memory.created_ms or self._now_ms))
        if self._is_off:
            was_imported_off = all(entry_of(entry).imported_off for entry in self._stored.values())
            stored = replace(
                stored,
                rules=replace(stored.rules, is_off=True),
                book=replace(entry_of(stored), imported_off=was_imported_off),
            )
        self._changes.append(TriggerSet(stored, None))
        self._new.append(stored.name)

    def _replace(self, memory: LongTermMemory, version: LongTermMemory) -> None:
        """Store an entry whose former version, of another title, was taken out."""
        stored = self._named(self._following(memory, version))
        self._changes.append(TriggerSet(stored, None))
        self._changed.append(stored.name)

    def _compare(self, memory: LongTermMemory, version: LongTermMemory) -> None:
        """Bring the entry that the conversation has up to date, unless the user changed it here."""
        is_same = entry_of(version).imported == entry_of(memory).imported
        # An import from before keys were data has no keys; nothing else changes.
        lacks_keys = version.keys is None and memory.keys is not None
        becomes_data = lacks_keys and not is_changed_here(version)

        if is_same and uid_of(version) == uid_of(memory) and not becomes_data:
            self._unchanged.append(version.name)

        # Only the number of the entry changed, and the user's changes stay.
        elif is_same and is_changed_here(version):
            renumbered = replace(version, book=replace(entry_of(version), uid=uid_of(memory)))
            self._changes.append(TriggerSet(renumbered, version))
            self._unchanged.append(version.name)

        elif is_changed_here(version):
            self._kept.append(version.name)

        else:
            stored = replace(self._following(memory, version), name=version.name)
            self._changes.append(TriggerSet(stored, version))
            names = self._unchanged if is_same else self._changed
            names.append(version.name)

    def _following(self, memory: LongTermMemory, version: LongTermMemory) -> LongTermMemory:
        """Return the memory as it follows its former version: with the same age, and switched off if the former version
        was."""
        rules = replace(memory.rules, is_off=version.rules.is_off)
        entry = replace(entry_of(memory), imported_off=entry_of(version).imported_off)
        return replace(
            memory,
            book=entry,
            created_ms=version.created_ms or self._now_ms,
            updated_ms=self._now_ms,
            rules=rules,
        )

    def _named(self, memory: LongTermMemory) -> LongTermMemory:
        """Return the memory with a name that no other memory has."""
        title = memory.name
        name = title[:MAX_NAME_CHARS]
        number = 1
        while name in self._names:
            ending = (
                f"{SEPARATOR}{self._book.name}"
                if number == 1
                else f"{SEPARATOR}{self._book.name} ({number})"
            )
            name = title[: max(0, MAX_NAME_CHARS - len(ending))] + ending[-MAX_NAME_CHARS:]
            number += 1
        self._names.add(name)
        if name != title:
            self._renamed.append(RenamedEntry(title, name))
        return replace(memory, name=name)


# --- switching ---------------------------------------------------------------------------------------------


def switching(memories: Iterable[LongTermMemory], *, is_off: bool) -> list[BookChange]:
    """Return the changes that switch memories off or on. Memories that are already so stay."""
    return [
        TriggerSet(replace(memory, rules=replace(memory.rules, is_off=is_off)), memory)
        for memory in memories
        if memory.rules.is_off != is_off
    ]


def is_switched_here(memory: LongTermMemory) -> bool:
    """Return whether the owner switched the memory of a book on or off after its import."""
    return memory.rules.is_off != entry_of(memory).imported_off


def as_its_client(memories: Iterable[LongTermMemory], *, is_off: bool) -> list[BookChange]:
    """Return the changes that switch the memories of a book as its client does now, except memories that the owner
    switched here."""
    return [
        TriggerSet(
            replace(
                memory,
                rules=replace(memory.rules, is_off=is_off),
                book=replace(entry_of(memory), imported_off=is_off),
            ),
            memory,
        )
        for memory in memories
        if memory.rules.is_off != is_off and not is_switched_here(memory)
    ]


def removing_book(memories: Sequence[LongTermMemory]) -> list[BookChange]:
    """Return the changes that take a book out. The last memory goes first, because an undo, which goes backwards,
    brings them back in their order."""
    return [TriggerRemoved(memory, "retired") for memory in reversed(memories)]


def entry_of(memory: LongTermMemory) -> BookEntry:
    """Return the book of a memory that is from a book."""
    assert memory.book is not None
    return memory.book
