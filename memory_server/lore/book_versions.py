"""Which entry of a new version of a lorebook is which of those that a conversation has. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from memory_server.kernel.messages import MAX_NAME_CHARS
from memory_server.lore.book_identity import SEPARATOR
from memory_server.lore.firing_forms import imported_fingerprint
from memory_server.lore.memory import ConversationMemories, LongTermMemory

_NUMBERED = re.compile(r" \(\d+\)$")
"""What told entries of one title apart before memories knew their book."""
_IMPORTED_BEFORE = "// World info entry "
"""How the triggers begin that were imported before memories knew their book."""


class UidKey(NamedTuple):
    """The uid of an entry, and how many entries before it have the same one: no program forbids that."""

    uid: str
    number: int


def _by_uid_key(memories: Iterable[LongTermMemory]) -> dict[UidKey, LongTermMemory]:
    """The memories in their order; the number in a key tells those of one uid apart, and is 0 for the first one."""
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
    """For each memory of a book what the conversation has of it: the entry of its uid and title; else one of its title,
    because programs number entries again; else one of its uid, which had another title then."""
    unmatched = dict(stored)
    versions: dict[UidKey, LongTermMemory] = {}
    entries = _by_uid_key(memories)
    for key, memory in entries.items():
        if key in unmatched and has_title(unmatched[key], memory.name):
            versions[key] = unmatched.pop(key)
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
    """The key of the first entry with this title; None: there is none."""
    for key, memory in entries.items():
        if has_title(memory, title):
            return key
    return None


def has_title(memory: LongTermMemory, title: str) -> bool:
    """Whether a memory is stored under this title, or under it with what tells it from others."""
    if memory.book is None:
        return memory.name == title or _NUMBERED.sub("", memory.name) == title
    title = title[:MAX_NAME_CHARS]
    return memory.name == title or memory.name.startswith(title + SEPARATOR)


def stored_entries(
    state: ConversationMemories, book_id: str, source: str, memories: Iterable[LongTermMemory]
) -> dict[UidKey, LongTermMemory]:
    """What the conversation has of a book, of which these are the memories now; also what was imported before memories
    knew their book."""
    entries = _by_uid_key(memory for memory in state.long_term.values() if _is_of(memory, book_id))
    titles = {uid_of(memory): memory.name for memory in memories}
    for memory in state.long_term.values():
        if memory.book is not None:
            continue
        uid = _uid_before(memory, source)
        if uid is not None and has_title(memory, titles.get(uid, memory.name)):
            entries.setdefault(UidKey(uid, 0), memory)
    return entries


def _is_of(memory: LongTermMemory, book_id: str) -> bool:
    return memory.book is not None and memory.book.book_id == book_id


def _uid_before(memory: LongTermMemory, source: str) -> str | None:
    """The uid of an entry that was imported from `source` before memories knew their book; None: it was not."""
    if not memory.trigger.startswith(_IMPORTED_BEFORE) or not memory.created_context.startswith(
        source
    ):
        return None
    return memory.trigger.removeprefix(_IMPORTED_BEFORE).partition(":")[0]


def uid_of(memory: LongTermMemory) -> str:
    """The uid of a memory in its book; "": it has none."""
    return "" if memory.book is None else memory.book.uid


def is_changed_here(memory: LongTermMemory) -> bool:
    """Whether the user changed what an import brought."""
    if memory.book is None:
        return memory.updated_ms is not None
    if not memory.book.imported:
        return False
    return memory.book.imported != imported_fingerprint(memory.prompt, memory.trigger, memory.rules)


def imported_of(memory: LongTermMemory) -> str:
    """The fingerprint of a memory as its book had it; "": it is not known."""
    return "" if memory.book is None else memory.book.imported
