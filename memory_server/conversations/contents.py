"""The contents of a conversation as one value, and the changes that bring them back, told apart by id and name.

A restore and an import are the same decision, made before anything is written. Pure: without files, clock and formats.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import replace

from memory_server.conversations.changes import (
    Change,
    CleanedUp,
    Restored,
    memories_in,
    putting,
    removing,
)
from memory_server.conversations.earlier_turns import TakenBackTurn
from memory_server.conversations.model import (
    ConversationState,
    Memory,
    ShortTermMemory,
    UnusableRecord,
    marks_of,
    marks_of_unusable,
)
from memory_server.kernel.backups import MergeCounts, Mode
from memory_server.kernel.erasure import left_out_text
from memory_server.kernel.values import frozen
from memory_server.lore import LongTermMemory


@frozen
class Contents:
    """What one conversation holds at one moment. Ids and names are unique in it."""

    conversation_id: str
    short_term: tuple[ShortTermMemory, ...] = ()
    long_term: tuple[LongTermMemory, ...] = ()
    last_cleanup_ms: int | None = None
    unusable: tuple[UnusableRecord, ...] = ()
    """The records that cannot be used, and are kept with the others."""
    left_out: tuple[str, ...] = ()
    """A sentence for each record that cannot be used, or is too large to be stored, and so is not brought back."""
    taken_back: frozenset[TakenBackTurn] = frozenset()
    """The turns that their user took back: what an earlier import or a hook stored of them is retired."""

    @property
    def count(self) -> int:
        """Memories of both kinds."""
        return len(self.short_term) + len(self.long_term)


def without_erased(contents: Contents, erased: Callable[[Iterable[str]], bool]) -> Contents:
    """Return `contents` without the memories that were erased for good, and with a sentence that
    counts them."""

    def stays(memory: Memory) -> bool:
        return not erased(marks_of(memory, contents.conversation_id))

    short_term = tuple(filter(stays, contents.short_term))
    long_term = tuple(filter(stays, contents.long_term))
    left_out = contents.left_out
    erased_count = contents.count - len(short_term) - len(long_term)
    if erased_count:
        left_out += (left_out_text(erased_count),)
    return replace(contents, short_term=short_term, long_term=long_term, left_out=left_out)


def holds_erased(
    state: ConversationState, changes: Iterable[Change], erased: Callable[[Iterable[str]], bool]
) -> bool:
    """Return whether something that was erased for good is in `state` or in the past `changes` of its conversation."""
    memories = (*state.short_term.values(), *state.long_term.values(), *memories_in(changes))
    marks: set[str] = set()
    for memory in memories:
        marks.update(marks_of(memory, state.conversation_id))
    for row in state.unusable:
        marks.update(marks_of_unusable(row, state.conversation_id))
    return erased(marks)


def contents_of(state: ConversationState) -> Contents:
    """Copy what `state` holds now: call it before the next `await`."""
    return Contents(
        state.conversation_id,
        short_term=tuple(state.short_term.values()),
        long_term=tuple(state.long_term.values()),
        last_cleanup_ms=state.last_cleanup_ms,
        unusable=tuple(row for row in state.unusable if row.kind != "change"),
    )


def restore_changes(
    state: ConversationState, contents: Contents, mode: Mode, archived: Collection[str] = ()
) -> tuple[list[Change], MergeCounts]:
    """Return the changes that bring `contents` into `state`, and their counts. `merge` leaves what is newer here;
    `overwrite` replaces it, and removes what `contents` has not, except what could not be read there. `archived` has
    the ids of memories in the archive; a restored memory leaves the archive. Memories are the same by id (short-term)
    or name (long-term). Every change carries what it replaces, so that the whole can be undone; bringing the same
    contents again changes nothing."""
    changes: list[Change] = []
    counts: Counter[str] = Counter()
    unreadable = {row.key for row in contents.unusable}
    changes += _restore_kind(
        contents.short_term, state.short_term, mode, unreadable, archived=archived, counts=counts
    )
    changes += _restore_kind(
        contents.long_term, state.long_term, mode, unreadable, archived=archived, counts=counts
    )
    cleanup_ms = contents.last_cleanup_ms
    may_replace = state.last_cleanup_ms is None or mode == "overwrite"
    if cleanup_ms is not None and cleanup_ms != state.last_cleanup_ms and may_replace:
        changes.append(CleanedUp(cleanup_ms, state.last_cleanup_ms))
    return changes, MergeCounts(**counts)


def _restore_kind(
    memories: Iterable[Memory],
    present: Mapping[str, Memory],
    mode: Mode,
    unreadable: Collection[str | None],
    *,
    archived: Collection[str],
    counts: Counter[str],
) -> Iterator[Change]:
    """Yield the changes that bring memories of the same kind, and count them in `counts`. `present` has the stored
    memories by key. A stored memory stays if its record in the contents is `unreadable`."""
    not_brought = dict(present)
    for memory in memories:
        before = not_brought.pop(memory.key, None)
        if before == memory:
            counts["unchanged"] += 1
        elif before is None:
            counts["added"] += 1
            if isinstance(memory, ShortTermMemory) and memory.id in archived:
                counts["forgotten"] += 1
                yield Restored(memory, "undone")
            else:
                yield putting(memory, None)
        elif mode == "merge" and _changed_ms(memory) <= _changed_ms(before):
            counts["kept_newer"] += 1
        else:
            counts["replaced"] += 1
            yield putting(memory, before)

    # A record that cannot be read may be the memory itself, so that memory is not removed.
    if mode == "overwrite":
        for memory in not_brought.values():
            if memory.key not in unreadable:
                counts["removed"] += 1
                yield removing(memory, "restored_over")


def _changed_ms(memory: Memory) -> int:
    """Return when a memory was made or last changed, in milliseconds since 1970."""
    if isinstance(memory, ShortTermMemory) or memory.updated_ms is None:
        return memory.made_ms
    return max(memory.made_ms, memory.updated_ms)
