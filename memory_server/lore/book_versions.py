"""How the entries of a new version of a lorebook correspond to the entries that a conversation has. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from memory_server.kernel.messages import MAX_NAME_CHARS
from memory_server.lore.book_identity import SEPARATOR
from memory_server.lore.firing_forms import imported_fingerprint
from memory_server.lore.memory import ConversationMemories, LongTermMemory


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
    """For each memory of a book, return the entry of the conversation that is its former version: the entry of its uid
    and title; otherwise an entry of its title, because programs number entries again; otherwise an entry of its uid,
    which had another title then."""
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
        version_key = _key_of_title(unmatched, memory.name)
        if version_key is not None:
            versions[key] = unmatched.pop(version_key)

    for key in entries:
        if key not in versions and key in unmatched:
            versions[key] = unmatched.pop(key)

    return [versions.get(key) for key in entries]


def _key_of_title(entries: Mapping[UidKey, LongTermMemory], title: str) -> UidKey | None:
    """Return the key of the first entry with this title, or None."""
    for key, memory in entries.items():
        if has_title(memory, title):
            return key
    return None


def has_title(memory: LongTermMemory, title: str) -> bool:
    """Return whether a memory is stored under this title, or under it with the part that tells it from others."""
    title = title[:MAX_NAME_CHARS]
    return memory.name == title or memory.name.startswith(title + SEPARATOR)


def stored_entries(state: ConversationMemories, book_id: str) -> dict[UidKey, LongTermMemory]:
    """Return what the conversation has of a book."""
    return _by_uid_key(
        memory
        for memory in state.long_term.values()
        if memory.book is not None and memory.book.book_id == book_id
    )


def uid_of(memory: LongTermMemory) -> str:
    """Return the uid of a memory in its book; empty if it has none."""
    return "" if memory.book is None else memory.book.uid


def is_changed_here(memory: LongTermMemory) -> bool:
    """Return whether the user changed what an import brought."""
    if memory.book is None or not memory.book.imported:
        return False
    return memory.book.imported != imported_fingerprint(memory)
