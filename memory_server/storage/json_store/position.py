"""How far a process has read a conversation, and what it found when it opened one."""

from __future__ import annotations

from collections.abc import Mapping

from memory_server.conversations.changes import Commit
from memory_server.conversations.model import ConversationState
from memory_server.kernel.values import dataclass
from memory_server.storage.json_store import snapshots
from memory_server.storage.partition import journal


@dataclass(slots=True)
class Position:
    """The position up to which a process has read a conversation. `header` and `journal_end` are None if there is not a
    journal yet, or if its first line is broken."""

    header: journal.Header | None
    journal_end: journal.Place | None
    marks: Mapping[str, snapshots.Mark]
    torn: bytes = b""
    edit: snapshots.HandEdit | None = None
    """The edit of snapshots that is not in the journal yet; the state holds it already."""
    unsettled: bool = False
    """Whether a snapshot cannot be read because somebody may be saving it now; the state is without it."""
    damaged: bool = False
    """Whether lines of the journal do not count, or `conversation.json` does not name the conversation."""

    @property
    def newer(self) -> bool:
        """Whether a newer memory-server wrote the journal: this one must not write."""
        return self.header is not None and self.header.format > journal.FORMAT

    @property
    def pending(self) -> bool:
        """Whether `absorb` has work to do."""
        return self.edit is not None or self.damaged

    @property
    def journal_size(self) -> int:
        """Bytes of the journal's lines that were read."""
        if self.journal_end is None:
            return 0
        return self.journal_end.offset


@dataclass(frozen=True, slots=True)
class Opened:
    """An opened conversation. `named`: whether `conversation.json` names the conversation, where it must."""

    state: ConversationState
    position: Position
    tail: journal.Tail
    commits: tuple[Commit, ...]
    snapshots: Mapping[str, snapshots.Snapshot]
    named: bool
