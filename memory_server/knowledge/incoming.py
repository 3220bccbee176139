"""Entries that come from a copy of the store or from another program, and what of them is stored here."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Final

from languages import clause
from memory_server.kernel.backups import MergeCounts, Mode
from memory_server.kernel.erasure import Erasure, left_out_text
from memory_server.kernel.errors import InvalidInput
from memory_server.kernel.items import Scope
from memory_server.kernel.lifecycle import RestoredPlace
from memory_server.kernel.values import dataclass, frozen
from memory_server.knowledge import erasing
from memory_server.knowledge.entry import EVERYTHING, Entry, Filter, Operation, Purge
from memory_server.knowledge.items import SPACES, admitted
from memory_server.knowledge.layers import LAYER
from memory_server.knowledge.notes.settling import NOTES
from memory_server.knowledge.policies import arriving
from memory_server.knowledge.ports import Decided, Entries, EntryStore, ScopeView
from memory_server.knowledge.service import Knowledge

KEEPS: Final = "knowledge"
"""What the engine of these entries keeps, as `Lifecycle.keeps`."""


@frozen
class Taken:
    """What happened to entries that came. `change`: the id of the change; It is None if nothing was changed."""

    counts: MergeCounts
    change: str | None = None


@frozen
class _AcceptedEntries:
    """The entries of a file that may be stored in a place, and why others are left out."""

    entries: list[Entry]
    left_out: tuple[str, ...]


@dataclass(frozen=True, eq=False, slots=True)
class IncomingEntries:
    """Brings entries into `knowledge`. What was erased here for good does not come again."""

    knowledge: Knowledge

    async def bring(
        self, copy: Path, mode: Mode = "merge", *, dry_run: bool = False, by: str = "restore"
    ) -> AsyncIterator[RestoredPlace]:
        """Bring back the entries of a copy of the store: the newer entry of a ref wins, as one change for each scope.
        `overwrite` makes the store equal to the copy, as one change. Raise StorageError if the copy cannot be used;
        then nothing was changed."""
        copied_store = self.knowledge.store.copy_at(copy)
        erased_entries: list[Entry] = []
        erased_former_entries: list[Entry] = []
        try:
            for scope in await copied_store.scopes():
                if scope.space == "layers":
                    continue
                erased_here = await copied_store.read(scope, self._erased_among_present)
                erased_entries += erased_here
                if mode == "overwrite":
                    erased_former_entries += await copied_store.read(
                        scope, self._erased_among_former
                    )

                    figures = await copied_store.read(scope, lambda view: view.figures())
                    count = figures.count - len(erased_here)
                    change = None
                else:
                    taken = await self._merge(copied_store, scope, dry_run=dry_run, by=by)
                    count = taken.counts.added + taken.counts.replaced
                    change = taken.change

                left_out = (left_out_text(len(erased_here)),) if erased_here else ()
                yield RestoredPlace(
                    KEEPS,
                    scope.place,
                    counts=MergeCounts(added=count),
                    left_out=left_out,
                    change_id=change,
                )
        finally:
            await copied_store.aclose()

        # The copy replaces the store only after all its places were counted.
        if mode == "overwrite" and not dry_run:
            await self._replace_store(copy, by, purges=bool(erased_entries))
            erased_bodies = tuple(entry.body for entry in (*erased_entries, *erased_former_entries))
            # The copy also has them in its past and its free pages.
            if erased_bodies:
                await self.knowledge.store.erase(Erasure((), erased_bodies))

        self.knowledge.notes.changed()

    async def _replace_store(self, copy: Path, by: str, *, purges: bool) -> None:
        """Make the store equal to a copy. `purges`: entries of it were erased here for good."""

        def purge(_present: ScopeView, copied: ScopeView) -> Decided[None]:
            return [Purge(entry.id) for entry in self._erased_among_present(copied)], None

        later = purge if purges else None
        await self.knowledge.store.replace_by(
            copy, NOTES, operation=Operation("overwrite", by), later=later
        )

    def _erased_among_present(self, view: ScopeView) -> list[Entry]:
        """Return the entries that were erased here for good."""
        return erasing.erased_among(view.entries(EVERYTHING), self.knowledge.store.erased)

    def _erased_among_former(self, view: ScopeView) -> list[Entry]:
        """Return the former versions of entries that were erased here for good."""
        return erasing.erased_among(view.former_entries(), self.knowledge.store.erased)

    async def _merge(
        self, copied_store: EntryStore, scope: Scope, *, dry_run: bool, by: str
    ) -> Taken:
        """Store the entries of a scope of a copy, archived ones too, as `_store` does."""
        entries = await copied_store.read(
            scope, lambda view: view.entries(Filter(archived=None), order="oldest")
        )
        return await self._store(self.knowledge.store, scope, entries, dry_run=dry_run, by=by)

    async def _store(
        self, store: Entries, scope: Scope, entries: Sequence[Entry], *, dry_run: bool, by: str
    ) -> Taken:
        """Store entries in a scope as one change, and return the counts and the id of the change;
        with `dry_run` only the counts. Of two of the same ref or key, the newer one stays; what was
        erased for good is left out."""
        if scope.space == "refs":
            entries = [self.knowledge.refs.with_summary(entry) for entry in entries]

        def decide(view: ScopeView) -> Decided[MergeCounts]:
            """Store the entries that are new or newer and were not erased for good, and count all
            of them."""
            erased = self.knowledge.store.erased
            allowed = [entry for entry in entries if not erased(erasing.marks_of(entry))]
            outcomes = [arriving(view, entry) for entry in allowed]
            stored = [outcome for outcome in outcomes if isinstance(outcome, Entry)]
            added = sum(not entry.id for entry in stored)
            counts = MergeCounts(
                added,
                len(stored) - added,
                unchanged=outcomes.count("unchanged"),
                kept_newer=outcomes.count("newer"),
            )
            return stored, counts

        if dry_run:
            return Taken(await store.read(scope, lambda view: decide(view)[1]))
        committed = await store.commit(scope, decide, Operation("restore", by))
        return Taken(committed.result, committed.change_id)

    async def take(self, place: str, entries: Sequence[Entry], *, dry_run: bool) -> RestoredPlace:
        """Store entries for a place as one change, as `restore` does, and return what became of
        them; with `dry_run` only return it. What cannot be of this place is left out, with the
        reason."""
        space, _slash, owner = place.partition("/")
        scope = Scope(SPACES[space], owner)
        layers: dict[str, Entries] = {}
        if scope.space == "layers":
            layers = {layer.name: layer.folder for layer in self.knowledge.layers.known}
        addressed = _addressed(scope, entries, layers)

        taken = Taken(MergeCounts())
        if addressed.entries:
            # Layers are folders of files, all other places are in the store.
            if owner in layers:
                taken = await self._store(
                    layers[owner], LAYER, addressed.entries, dry_run=dry_run, by="import"
                )
            else:
                taken = await self._store(
                    self.knowledge.store, scope, addressed.entries, dry_run=dry_run, by="import"
                )
            self.knowledge.notes.changed()
        return RestoredPlace(
            KEEPS, place, counts=taken.counts, left_out=addressed.left_out, change_id=taken.change
        )


def _addressed(
    scope: Scope, entries: Sequence[Entry], layers: dict[str, Entries]
) -> _AcceptedEntries:
    """Return the entries that a scope can hold, of several with the same ref or key the last, and
    the reason for each one that it cannot."""
    left_out: list[str] = []
    unique: dict[tuple[str, str, str], Entry] = {}
    for number, incoming in enumerate(entries):
        try:
            entry = admitted(scope, incoming, layers)
        except InvalidInput as error:
            left_out.append(clause(str(error)))
            continue
        identity = entry.ref or entry.key or str(number)
        unique[identity, entry.kind, entry.project] = entry
    return _AcceptedEntries(list(unique.values()), tuple(left_out))
