"""The contents of a conversation as one value, the changes that bring them back, and what a backup is: its name, facts.

A restore and an import are the same decision, made before anything is written. Pure: without files, clock and formats.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal

from memory_server.core.changes import Change, CleanedUp, Restored, putting, removing
from memory_server.core.errors import InvalidInput, StorageError
from memory_server.core.model import ConversationState, LongTermMemory, Memory, ShortTermMemory

Mode = Literal["merge", "overwrite"]
"""`merge` adds and replaces older ones; `overwrite` makes the conversation exactly what is brought."""


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


@dataclass(frozen=True, slots=True)
class MergeCounts:
    """How many memories were added, replaced, removed, there already, or kept because the stored one is newer."""

    added: int = 0
    replaced: int = 0
    removed: int = 0
    unchanged: int = 0
    kept_newer: int = 0


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


# --- backups -------------------------------------------------------------------------------------------------

MAX_NAME_BYTES = 120
"""UTF-8 bytes of a backup's name: file systems take 255 for a file, with our ending and room to spare."""

_NAME = re.compile(r"\w(?:[\w.-]*\w)?")
_RESERVED = re.compile(r"(?:con|prn|aux|nul|com\d|lpt\d)(?:\..*)?", re.IGNORECASE)
"""Device names that Windows does not let a file have, whatever follows their first dot."""


class BackupNotFound(InvalidInput):
    """There is no backup of that name."""


class BackupBroken(StorageError):
    """A backup is damaged, cut off or of a newer format; nothing of it was used."""


@dataclass(frozen=True, slots=True)
class Backup:
    """The facts of one backup. `problem`: why it cannot be used, None where its first line can be read."""

    name: str
    created_ms: int
    size_bytes: int
    conversations: int = 0
    short_term: int = 0
    long_term: int = 0
    problem: str | None = None


def backup_name(text: str) -> str:
    """`text` as the name of a backup, in NFC; never a path. Raises InvalidInput: it holds more than letters, digits,
    `_`, `-` and single dots between them, or is too long."""
    name = unicodedata.normalize("NFC", text)
    if not _NAME.fullmatch(name) or ".." in name or _RESERVED.fullmatch(name):
        raise InvalidInput(
            f"`{text}` cannot be the name of a backup; use letters, digits, `_`, `-` and dots between them, such as "
            "`before-move`, and not a path."
        )
    if len(name.encode()) > MAX_NAME_BYTES:
        raise InvalidInput(f"The name of the backup is too long; use at most {MAX_NAME_BYTES} bytes.")
    return name
