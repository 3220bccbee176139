"""Whether two lorebooks of one name and file are the same book. Pure.

Some programs give each exported lorebook the same name: without this, the second book would replace the texts of the
first.
"""

from __future__ import annotations

from collections.abc import Sequence

from memory_server.kernel.messages import MAX_NAME_CHARS
from memory_server.lore.memory import LongTermMemory

SEPARATOR = " · "
"""The mark between the name of an entry and the name of its book."""
_SAME_SHARE = 4
"""At least one in so many entries of the smaller book, and at least one entry, must be in both books of the same name
and file. Otherwise they are two books."""


def is_another(stored: Sequence[LongTermMemory], memories: Sequence[LongTermMemory]) -> bool:
    """Return whether these memories are from another book than the stored memories, because too few have the same
    title, text or keys."""
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
