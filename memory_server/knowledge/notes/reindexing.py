"""What a reindex of notes merges and removes. The decisions are pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import get_args

from memory_server.kernel.errors import InvalidInput
from memory_server.kernel.values import dataclass
from memory_server.knowledge.entry import Change, Entry, Filter, Purge, Reason
from memory_server.knowledge.notes import duplicates
from memory_server.knowledge.notes.duplicates import Merge, Pair, ReindexedNotes
from memory_server.knowledge.ports import ScopeView


@dataclass(frozen=True, slots=True)
class NotesToReindex:
    """The live notes, and the archived ones that a reindex removes for good."""

    live: list[Entry]
    removable: list[Entry]


@dataclass(frozen=True, slots=True)
class ReindexPlan:
    """What a reindex will do with notes. `kept_apart`: alike, but with a fact in which they differ."""

    notes: NotesToReindex
    merges: Sequence[Merge]
    kept_apart: tuple[Pair, ...]

    @property
    def report(self) -> ReindexedNotes:
        """The report of this plan before it is carried out."""
        return ReindexedNotes(
            merged=tuple(merge.pair for merge in self.merges),
            kept_apart=self.kept_apart,
            removed=len(self.notes.removable),
            remaining=len(self.notes.live) - len(self.merges),
        )

    def purge(self, view: ScopeView) -> tuple[Sequence[Change], int]:
        """Decide to remove notes for good. Return the changes and their number. Only notes that did not change since
        the copy was set aside are removed, because another process may have changed some."""
        changes = []
        for note in self.notes.removable:
            present = view.get(id=note.id)
            if present is not None and present.version == note.version:
                changes.append(Purge(note.id))
        return changes, len(changes)

    def merge(self, view: ScopeView) -> tuple[Sequence[Change], None]:
        """Decide to merge notes. Raise InvalidInput if a note was changed meanwhile."""
        changed: dict[int, Entry] = {}
        for merge in self.merges:
            changed[merge.whole.id] = merge.whole
            changed[merge.removed.id] = merge.removed
        for note in changed.values():
            present = view.get(id=note.id)
            if present is None or present.version != note.version:
                raise InvalidInput(
                    "Notes were changed meanwhile; run `memory-server knowledge reindex` again."
                )
        return list(changed.values()), None


def notes_to_reindex(view: ScopeView, merged_by_ms: int) -> NotesToReindex:
    """Select the notes of a reindex. Notes that were merged after `merged_by_ms` stay in the archive."""
    other_reasons = tuple(reason for reason in get_args(Reason) if reason != "merged")
    removed = view.entries(Filter(archived=True, reasons=other_reasons))
    merged = view.entries(Filter(archived=True, archived_by_ms=merged_by_ms, reasons=("merged",)))
    return NotesToReindex(view.entries(Filter()), [*removed, *merged])


def reindex_plan(notes: NotesToReindex, now_ms: int) -> ReindexPlan:
    """Plan the reindex of these notes. The work grows with their number, even if all notes have the same form."""
    pairs = duplicates.pairs_among(notes.live)
    same = [pair for pair in pairs if not pair.differs]
    different = tuple(pair for pair in pairs if pair.differs)
    return ReindexPlan(notes, duplicates.merges(same, now_ms), different)
