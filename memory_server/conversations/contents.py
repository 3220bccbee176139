"""The contents of a conversation as one value, and the changes that bring them back, told apart by id and name.

A restore and an import are the same decision, made before anything is written. Pure: without files, clock and formats.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, replace

from memory_server.conversations.changes import Change, CleanedUp, Restored, memories_in, putting, removing
from memory_server.conversations.model import ConversationState, LongTermMemory, Memory, ShortTermMemory, marks_of
from memory_server.kernel.backups import MergeCounts, Mode
from memory_server.kernel.erasure import left_out_text


@dataclass(frozen=True, slots=True)
class Contents:
    """What one conversation holds at one moment. Ids and names are unique in it. `left_out` names each memory that is
    too large to be stored, and why; it is not brought back."""

    conversation_id: str
    short_term: tuple[ShortTermMemory, ...] = ()
    long_term: tuple[LongTermMemory, ...] = ()
    last_cleanup_ms: int | None = None
    left_out: tuple[str, ...] = ()

    @property
    def count(self) -> int:
        """Memories of both kinds."""
        return len(self.short_term) + len(self.long_term)


def without_erased(contents: Contents, erased: Callable[[Iterable[str]], bool]) -> Contents:
    """`contents` without what was erased for good, and with a sentence on that."""
    place = contents.conversation_id
    short = tuple(each for each in contents.short_term if not erased(marks_of(each, place)))
    long = tuple(each for each in contents.long_term if not erased(marks_of(each, place)))
    count = contents.count - len(short) - len(long)
    said = (*contents.left_out, left_out_text(count)) if count else contents.left_out
    return replace(contents, short_term=short, long_term=long, left_out=said)


def holds_erased(state: ConversationState, changes: Iterable[Change], erased: Callable[[Iterable[str]], bool]) -> bool:
    """Whether something that was erased for good is in `state` or in the past `changes` of its conversation."""
    memories = (*state.short_term.values(), *state.long_term.values(), *memories_in(changes))
    return erased({mark for memory in memories for mark in marks_of(memory, state.conversation_id)})


def contents_of(state: ConversationState) -> Contents:
    """A copy of what `state` holds now: call it before the next `await`."""
    return Contents(
        state.conversation_id, tuple(state.short_term.values()), tuple(state.long_term.values()), state.last_cleanup_ms
    )


def restore_changes(
    state: ConversationState, contents: Contents, mode: Mode, archived: Collection[str] = ()
) -> tuple[list[Change], MergeCounts]:
    """The changes that bring `contents` into `state`, and their counts. `archived`: ids of memories in the archive; one
    that comes back leaves it. Memories are the same by id (short-term) or name (long-term). Every change carries what
    it replaces, so that the whole can be undone; bringing the same contents again changes nothing."""
    changes: list[Change] = []
    counts: Counter[str] = Counter()
    for brought, known in (
        (contents.short_term, dict[str, Memory](state.short_term)),
        (contents.long_term, dict[str, Memory](state.long_term)),
    ):
        for memory in brought:
            before = known.pop(memory.key, None)
            if before == memory:
                counts["unchanged"] += 1
            elif before is not None and mode == "merge" and _changed_ms(memory) <= _changed_ms(before):
                counts["kept_newer"] += 1
            else:
                counts["added" if before is None else "replaced"] += 1
                if before is None and isinstance(memory, ShortTermMemory) and memory.id in archived:
                    counts["forgotten"] += 1
                    changes.append(Restored(memory, "undone"))
                else:
                    changes.append(putting(memory, before))
        if mode == "overwrite":
            counts["removed"] += len(known)
            changes += (removing(memory, "restored_over") for memory in known.values())
    cleaned, cleaned_before = contents.last_cleanup_ms, state.last_cleanup_ms
    if cleaned is not None and cleaned != cleaned_before and (cleaned_before is None or mode == "overwrite"):
        changes.append(CleanedUp(cleaned, cleaned_before))
    return changes, MergeCounts(**counts)


def _changed_ms(memory: Memory) -> int:
    updated_ms = memory.updated_ms if isinstance(memory, LongTermMemory) else None
    return memory.made_ms if updated_ms is None else max(memory.made_ms, updated_ms)
