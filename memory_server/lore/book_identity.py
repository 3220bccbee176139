"""Whether two lorebooks of one name and file are the same book. Pure.

There are programs that give each exported lorebook the same name: without this, the second one would replace the texts
of the first.
"""

from __future__ import annotations

from collections.abc import Sequence

from memory_server.kernel.messages import MAX_NAME_CHARS
from memory_server.lore.book_entry import is_constant
from memory_server.lore.memory import LongTermMemory

SEPARATOR = " · "
"""What stands between the name of an entry and that of its book."""
_SAME_SHARE = 4
"""One entry in so many of the smaller of two books of one name and file must be in both, but at least one, or they are
two books."""


def is_another(stored: Sequence[LongTermMemory], memories: Sequence[LongTermMemory]) -> bool:
    """Whether these memories are of another book than those that are stored: too few have the same title, text or
    keys."""
    fewer = min(len(stored), len(memories))
    if not fewer:
        return False
    titles = {memory.name[:MAX_NAME_CHARS] for memory in memories}
    prompts = {memory.prompt for memory in memories}
    keys = {_keys(memory) for memory in memories if not is_constant(memory.trigger)}

    def is_in_both(memory: LongTermMemory) -> bool:
        return _title(memory) in titles or memory.prompt in prompts or _keys(memory) in keys

    in_both = sum(map(is_in_both, stored))
    return in_both == 0 or in_both * _SAME_SHARE < fewer


def _title(memory: LongTermMemory) -> str:
    """The name of a memory without what tells it from others of its title."""
    return (
        memory.name
        if memory.book is None
        else memory.name.removesuffix(f"{SEPARATOR}{memory.book.book_name}")
    )


def _keys(memory: LongTermMemory) -> str:
    """The trigger without its first line, which has the number and the title of its entry."""
    return memory.trigger.partition("\n")[2]
