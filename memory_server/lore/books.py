"""Lorebooks of a conversation as units: what one import of a book changes, and switching it on, off and out. Pure.

A book is known by its id, an entry of it by its uid. An entry that the user changed here stays as the user has it. The
names of memories are unique in a conversation: a second `Magic` becomes `Magic · Tale`, after its book.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field, replace
from typing import NamedTuple

from memory_server.kernel.messages import MAX_NAME_CHARS
from memory_server.kernel.values import dataclass, frozen
from memory_server.lore.forms import imported_fingerprint
from memory_server.lore.memory import (
    BookChange,
    BookEntry,
    ConversationMemories,
    LongTermMemory,
    TriggerRemoved,
    TriggerSet,
)

SEPARATOR = " · "
"""The mark between the name of an entry and the name of its book."""
_SAME_SHARE = 4
"""At least one in so many entries of the smaller book, and at least one entry, must be in both books of the same name
and file, because some programs give each exported lorebook the same name. Otherwise they are two books."""
_FEWEST_SAME = 3
"""Names that two books share, at least, before one may be a new version of the other."""


# --- whether two books are the same, and which entry is a version of which ---------------------------------


def is_another(stored: Sequence[LongTermMemory], memories: Sequence[LongTermMemory]) -> bool:
    """Return whether these memories are from another book than the stored memories, because too few have the same
    title, text or keys. Where one of both is empty, they are not."""
    fewer = min(len(stored), len(memories))
    if not fewer:
        return False

    titles = {memory.name[:MAX_NAME_CHARS] for memory in memories}
    prompts = {memory.prompt for memory in memories}
    keys = {_keys(memory) for memory in memories if not memory.is_constant}

    def is_in_both(memory: LongTermMemory) -> bool:
        return _title(memory) in titles or memory.prompt in prompts or _keys(memory) in keys

    in_both = sum(map(is_in_both, stored))
    return in_both == 0 or in_both * _SAME_SHARE < fewer


def _title(memory: LongTermMemory) -> str:
    """Return the name of a memory without the part that tells it from others of its title."""
    return (
        memory.name
        if memory.book is None
        else memory.name.removesuffix(f"{SEPARATOR}{memory.book.book_name}")
    )


def _keys(memory: LongTermMemory) -> str:
    """Return the trigger without its first line, which has the number and the title of its entry."""
    return memory.trigger.partition("\n")[2]


class UidKey(NamedTuple):
    """The uid of an entry, and how many entries before it have the same uid: no program forbids that."""

    uid: str
    number: int


def _by_uid_key(memories: Iterable[LongTermMemory]) -> dict[UidKey, LongTermMemory]:
    """Return the memories in their order. The number in a key tells memories of the same uid apart, and is 0 for the
    first."""
    memories_by_key: dict[UidKey, LongTermMemory] = {}
    counts: Counter[str] = Counter()
    for memory in memories:
        uid = uid_of(memory)
        key = UidKey(uid, number=counts[uid])
        memories_by_key[key] = memory
        counts[uid] += 1
    return memories_by_key


def versions_of(
    memories: Sequence[LongTermMemory], stored: Mapping[UidKey, LongTermMemory]
) -> list[LongTermMemory | None]:
    """For each memory of a book, return the entry of the conversation that is its former version, or None: the entry
    of its uid and title; otherwise an entry of its title, because programs number entries again; otherwise an entry
    of its uid, which had another title then."""
    unmatched = dict(stored)
    versions: dict[UidKey, LongTermMemory] = {}
    entries = _by_uid_key(memories)

    for key, memory in entries.items():
        if key in unmatched and has_title(unmatched[key], memory.name):
            versions[key] = unmatched.pop(key)

    # Titles are matched before uids: a number that moved to another entry must not take its text.
    for key, memory in entries.items():
        if key in versions:
            continue
        for version_key, version in unmatched.items():
            if has_title(version, memory.name):
                versions[key] = unmatched.pop(version_key)
                break

    for key in entries:
        if key not in versions and key in unmatched:
            versions[key] = unmatched.pop(key)

    return [versions.get(key) for key in entries]


def has_title(memory: LongTermMemory, title: str) -> bool:
    """Return whether a memory is stored under this title, or under it with the part that tells it from others."""
    title = title[:MAX_NAME_CHARS]
    return memory.name == title or memory.name.startswith(title + SEPARATOR)


def stored_entries(state: ConversationMemories, book_id: str) -> dict[UidKey, LongTermMemory]:
    """Return what the conversation has of a book."""
    return _by_uid_key(memories_of_book(state, book_id))


def uid_of(memory: LongTermMemory) -> str:
    """Return the uid of a memory in its book; empty if it has none."""
    return "" if memory.book is None else memory.book.uid


def is_changed_here(memory: LongTermMemory) -> bool:
    """Return whether the user changed what an import brought."""
    if memory.book is None or not memory.book.imported:
        return False
    return memory.book.imported != imported_fingerprint(memory)


@frozen
class EntryKey:
    """Names an entry of a book."""

    book_id: str
    uid: str


@frozen
class BookContents:
    """A book as a file has it, for one conversation. `is_update`: it is a new version of the book with its name.
    `deleted`: the entries that the user deleted here, each by the id of its book and its uid."""

    book_id: str
    name: str
    source: str
    memories: Sequence[LongTermMemory]
    is_update: bool = False
    deleted: frozenset[EntryKey] = frozenset()


@frozen
class RenamedEntry:
    """An entry that is stored under another name than its title, because another memory has that."""

    title: str
    name: str


@dataclass(slots=True)
class BookUpdate:
    """What an import of a book does, by the names of its memories. `retired`: the book no longer has them; `kept`: the
    book changed or retired them, but the user changed them here; `deleted`: the user deleted them here, so they stay
    out; `renamed`: another memory has their title. `stored_as` is the name of the book here if another book has its
    name, otherwise empty."""

    new: list[str] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)
    unchanged: list[str] = field(default_factory=list)
    retired: list[str] = field(default_factory=list)
    kept: list[str] = field(default_factory=list)
    deleted: list[str] = field(default_factory=list)
    renamed: list[RenamedEntry] = field(default_factory=list)
    stored_as: str = ""


@frozen
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
    """Return what a conversation has of a book, by its memories, of which there is at least one.
    The newest of them tells the name and source."""
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
    """Return the book with the id that it has in the conversation: of an update, the id of the stored book with its
    name, if there is one; otherwise its own, with a number beside a different book."""
    if not book.is_update:
        return _beside_others(state, book)
    books = books_of(state.conversation_id, state.long_term.values())
    for stored_book in books:
        if stored_book.name == book.name:
            book_id = stored_book.book_id
            memories = [
                replace(memory, book=replace(entry_of(memory), book_id=book_id))
                for memory in book.memories
            ]
            return replace(book, book_id=book_id, memories=memories)
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
    """Return the book with this number in its name and id, and in the ones that its memories have."""
    book_id = f"{book.book_id}-{number}"
    name = f"{book.name} ({number})"
    memories = [
        replace(memory, book=replace(entry_of(memory), book_id=book_id, book_name=name))
        for memory in book.memories
    ]
    return replace(book, book_id=book_id, name=name, memories=memories)


def older_version(state: ConversationMemories, book: BookContents) -> HeldBook | None:
    """Return another book of the conversation that has the names of at least half of these entries, because this book
    may be a new version of it, or None if there is no such book."""
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
        """Begin to bring what `state` has of a book up to date. Nothing is decided yet."""
        self._book = book
        self._now_ms = now_ms
        self._names = set(state.long_term)
        self._stored = stored_entries(state, book.book_id)
        self._is_off = bool(self._stored) and all(
            memory.rules.is_off for memory in self._stored.values()
        )
        self._changes: list[BookChange] = []
        self._update = BookUpdate()

    def decided(self) -> tuple[list[BookChange], BookUpdate]:
        """Return the changes that bring the conversation to the new book, and what became of each
        entry. Entries that the book lacks are removed; what the user changed or deleted stays
        so."""
        versions = versions_of(self._book.memories, self._stored)
        with_version = {id(version) for version in versions if version is not None}
        unmatched = [memory for memory in self._stored.values() if id(memory) not in with_version]
        # What the book no longer has is taken out.
        self._update.retired += self._take_out(unmatched)

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

        return self._changes, self._update

    def _take_out(self, memories: Iterable[LongTermMemory]) -> dict[str, None]:
        """Remove these memories, and return the names of those removed. What the user changed stays, and is noted as
        kept."""
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
        self._update.kept += reversed(changed_here)
        return dict.fromkeys(reversed(names))

    def _add(self, memory: LongTermMemory) -> None:
        """Store an entry that the conversation does not have, unless the user deleted it here. If the stored book is
        off, the entry is stored switched off."""
        if EntryKey(self._book.book_id, uid_of(memory)) in self._book.deleted:
            self._update.deleted.append(memory.name)
            return
        stored = self._with_free_name(replace(memory, created_ms=memory.created_ms or self._now_ms))
        if self._is_off:
            was_imported_off = all(entry_of(entry).imported_off for entry in self._stored.values())
            stored = replace(
                stored,
                rules=replace(stored.rules, is_off=True),
                book=replace(entry_of(stored), imported_off=was_imported_off),
            )
        self._changes.append(TriggerSet(stored, None))
        self._update.new.append(stored.name)

    def _replace(self, memory: LongTermMemory, version: LongTermMemory) -> None:
        """Store an entry whose former version, of another title, was taken out."""
        stored = self._with_free_name(self._following(memory, version))
        self._changes.append(TriggerSet(stored, None))
        self._update.changed.append(stored.name)

    def _compare(self, memory: LongTermMemory, version: LongTermMemory) -> None:
        """Bring the entry that the conversation has up to date, unless the user changed it here: then only its number
        follows, if the book has no other change of it."""
        is_same = entry_of(version).imported == entry_of(memory).imported
        # An import from before keys were data has no keys; nothing else changes.
        lacks_keys = version.keys is None and memory.keys is not None
        becomes_data = lacks_keys and not is_changed_here(version)

        if is_same and uid_of(version) == uid_of(memory) and not becomes_data:
            self._update.unchanged.append(version.name)

        # Only the number of the entry changed, and the user's changes stay.
        elif is_same and is_changed_here(version):
            renumbered = replace(version, book=replace(entry_of(version), uid=uid_of(memory)))
            self._changes.append(TriggerSet(renumbered, version))
            self._update.unchanged.append(version.name)

        elif is_changed_here(version):
            self._update.kept.append(version.name)

        else:
            stored = replace(self._following(memory, version), name=version.name)
            self._changes.append(TriggerSet(stored, version))
            names = self._update.unchanged if is_same else self._update.changed
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

    def _with_free_name(self, memory: LongTermMemory) -> LongTermMemory:
        """Return the memory with a name that no other memory has: its title, with the name of the
        book and a number if need be. A name that differs from the title is noted as renamed."""
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
            self._update.renamed.append(RenamedEntry(title, name))
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
