"""What a search of short-term memories found."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from pathlib import Path

from memory_server.conversations.recall.selection import HeldBack, Recall
from memory_server.kernel.values import dataclass

NOTHING_SEARCHED = Recall((), (), (), HeldBack(0, 0), 0)


@dataclass(frozen=True, slots=True)
class Found:
    """The answer of a search. `changes`: the change ids of its reinforcements, by conversation. `unreinforced`:
    conversations that could not be written (locked, read-only). `unread`: those that could not be read, with the
    file."""

    recall: Recall
    changes: Mapping[str, str] = field(default_factory=dict)
    unreinforced: tuple[str, ...] = ()
    unread: Mapping[str, Path | None] = field(default_factory=dict)
    outdated: int = 0
    """Searched memories whose words were found with other settings: `doctor --reindex` finds them again."""
    unusable: int = 0
    """Stored records of what was searched that cannot be used: `doctor` names them."""
    only_words: str = ""
    """Why it searched only by words, where a model of meaning is named."""

    @property
    def reinforced(self) -> bool:
        """Whether every memory that should be reinforced was."""
        return not self.unreinforced

    @property
    def change_id(self) -> str | None:
        """The change id, if exactly one conversation was changed."""
        if len(self.changes) != 1:
            return None
        [change_id] = self.changes.values()
        return change_id
