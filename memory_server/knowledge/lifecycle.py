"""The lifecycle of knowledge: what notes, refs, sessions and layers together can do with their past."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Literal

from languages import N_, Sentence, _, counted
from memory_server.kernel.backups import BackupStore, BackupWriter, Mode
from memory_server.kernel.erasure import Erasure
from memory_server.kernel.errors import InvalidInput, MemoryServerError, StorageError
from memory_server.kernel.items import Family, Item, ItemFilter, Scope
from memory_server.kernel.lifecycle import (
    HISTORY_PAGE,
    CleanupItem,
    CopyResult,
    Examine,
    HistoryStep,
    PastChange,
    PlaceCleanup,
    RestoredPlace,
    Undone,
)
from memory_server.kernel.messages import NOTHING
from memory_server.kernel.text import Finding, beginning
from memory_server.kernel.times import DAY_MS
from memory_server.kernel.values import frozen
from memory_server.knowledge.entry import (
    EVERYTHING,
    LIVE,
    Entry,
    Filter,
    Operation,
    Purge,
    Reason,
    change_id,
    is_change_id,
    seq_of,
)
from memory_server.knowledge.incoming import IncomingEntries
from memory_server.knowledge.items import SPACES, item_of, past_of
from memory_server.knowledge.layers import Layer
from memory_server.knowledge.notes.settling import NOTES
from memory_server.knowledge.options import NAMESPACES
from memory_server.knowledge.policies import (
    as_later,
    expired,
    over_limit,
    taking_back,
    to_archive,
    to_purge,
)
from memory_server.knowledge.ports import REPLACED, Decided, Entries, ScopeView
from memory_server.knowledge.projects import public_key
from memory_server.knowledge.service import Knowledge

log = logging.getLogger(__name__)
_MOST_BEGINNINGS = 50
"""The number of entries whose beginnings a history has. They belong to its newest changes."""


@frozen
class FoundEntry:
    """An entry that was looked for, as people see it and with all its fields."""

    item: Item
    entry: Entry


class KnowledgeLifecycle:
    """The past of `knowledge`: one sequence of operations over all knowledge, so an id is enough to find a change."""

    keeps: Literal["knowledge"] = "knowledge"

    def __init__(self, knowledge: Knowledge) -> None:
        self._knowledge = knowledge
        self._store = knowledge.store
        self._clock = knowledge.clock
        self._options = knowledge.options

    def made(self, change: str) -> bool:
        return is_change_id(change)

    async def places(self) -> list[str]:
        return sorted([scope.place for scope in await self._store.scopes()])

    async def find(self, sought: ItemFilter) -> list[Item]:
        return [row.item for row in await self.found_entries(sought)]

    async def found_entries(self, sought: ItemFilter) -> list[FoundEntry]:
        """Return the items of `find` with their entries, newest first."""
        found: list[FoundEntry] = []
        where = Filter(archived=sought.archived)
        projects: Mapping[str, str] = NOTHING
        for scope, store in await self._knowledge.places():
            if not sought.looks_in(scope.place, SPACES[scope.space]):
                continue
            entries = await store.read(scope, lambda view: view.entries(where))
            if entries and scope.space == "notes":
                projects = await self._knowledge.notes.project_names()
            rows = [FoundEntry(item_of(scope, entry, projects), entry) for entry in entries]
            items = await asyncio.to_thread(sought.among, [row.item for row in rows])
            wanted_ids = set(map(id, items))
            found += [row for row in rows if id(row.item) in wanted_ids]
        return sorted(found, key=lambda row: -row.item.at_ms)

    async def forget(self, items: Collection[Item], *, by: str) -> int:
        """Move these items into the archive, as `Lifecycle.forget` says, and return their number.
        Files of layers have no history, so a note of the operation names them."""
        count = 0
        now_ms = self._clock()
        for scope, store in await self._knowledge.places():
            names = {item.id for item in items if item.place == scope.place}
            if not names:
                continue
            forgotten = await self._forget_in(scope, store, names, now_ms=now_ms, by=by)
            if forgotten and scope.space == "layers":
                folder = self._layer(scope).folder.place
                detail = {"keys": [entry.key for entry in forgotten], "folder": str(folder)}
                await self._store.log_operation(scope, Operation("forget", by, detail=detail))
            count += len(forgotten)
        self._knowledge.notes.changed()
        return count

    async def _forget_in(
        self, scope: Scope, store: Entries, names: Collection[str], *, now_ms: int, by: str
    ) -> list[Entry]:
        """Archive the live entries of a scope whose items have these names. Return these entries."""

        def decide(view: ScopeView) -> Decided[list[Entry]]:
            entries = [
                entry for entry in view.entries(Filter()) if item_of(scope, entry).id in names
            ]
            return to_archive([(entry, "deleted") for entry in entries], now_ms), entries

        committed = await store.commit(scope, decide, Operation("forget", by))
        return committed.result

    def _layer(self, scope: Scope) -> Layer:
        if scope.owner == "global":
            return self._knowledge.layers["global"]
        return self._knowledge.layers["project"]

    async def _bring_back(self, scope: Scope, operation: Operation, by: str) -> Undone:
        """Undo the forgetting of entries of a layer, whose files were moved into its archive.
        Raises InvalidInput if the operation did not forget, or was made in the folder of another
        project."""
        change = change_id(operation.seq)
        layer = self._layer(scope)
        if operation.op != "forget":
            raise InvalidInput(
                "{change} brought back files of a layer; run `memory-server forget` to forget them again.",
                change,
            )

        # The folder of another project may have entries with the same keys.
        if operation.detail.get("folder") != str(layer.folder.place):
            raise InvalidInput(
                "{change} was made in another folder; run undo in that project.", change
            )

        keys = operation.detail["keys"]
        restored = [await layer.restore(key, by=by) for key in keys]
        undo = Operation("undo", by, detail={"change": change, "keys": keys})
        # Files have no history of their own, so a note of the operation is the change.
        seq = await self._store.log_operation(scope, undo)
        steps = [HistoryStep(N_("knowledge"), entry.key) for entry in restored]
        return Undone(change_id(seq), tuple(steps))

    async def texts_of(self, items: Collection[Item]) -> set[str]:
        texts: set[str] = set()
        for scope, store in await self._knowledge.places():
            names = {item.id for item in items if item.place == scope.place}
            if names:
                texts.update(await store.read(scope, partial(_texts_of_items, scope, names)))
        return texts

    async def past_texts(self, words: Sequence[str]) -> set[str]:
        """Return the texts of former entries that hold these words, as `Lifecycle.past_texts` says. Layers have no
        past here."""
        erasure = Erasure((), (), words=tuple(words))
        texts: set[str] = set()
        for scope, store in await self._knowledge.places():
            if scope.space == "layers":
                continue
            former_entries = await store.read(scope, lambda view: view.former_entries())
            for entry in former_entries:
                if erasure.means(item_of(scope, entry)):
                    texts.update(_texts_in(scope, entry))
        return texts

    async def erase(self, erasure: Erasure) -> None:
        """Erase from the files of layers and from the databases, as `Lifecycle.erase` says. A repository keeps its own
        past of the files of a layer."""
        for scope, store in await self._knowledge.places():
            names = erasure.in_place(scope.place)
            if scope.space == "layers" and names:
                await store.commit(scope, partial(_purging, names), Operation("erase"))
        await self._store.erase(erasure)
        if self._knowledge.ref_options.store is not None:
            await self._knowledge.ref_options.store.erase(erasure)
        self._knowledge.notes.changed()

    async def erase_in(self, backups: BackupStore, name: str, erasure: Erasure) -> None:
        if await asyncio.to_thread(backups.knowledge_of(name).exists):
            await self._store.erase(erasure, backups.knowledge_of(name))

    async def history(
        self,
        place: str | None = None,
        *,
        before: str | None = None,
        limit: int = HISTORY_PAGE,
        most_steps: int | None = None,
    ) -> list[PastChange]:
        """Return at most `limit` changes of a place, or of all, the newest first, before the change
        `before`. Raises InvalidInput if that change does not exist. Only the newest changes have
        the beginnings of texts."""
        changes: list[PastChange] = []
        seq = None if before is None else await self._seq_of(before)

        # The store pages over all places, so a page may have few changes of this place.
        while len(changes) < limit:
            page = await self._store.operations(before=seq, limit=limit)
            meant = [
                (scope, operation) for scope, operation in page if place in (None, scope.place)
            ]
            texts: Mapping[object, str] = {}
            # Only the newest page has beginnings: each of them costs a read.
            if not changes:
                texts = await self._beginnings(meant)
            changes += [
                past_of(scope, operation, texts=texts, most_steps=most_steps)
                for scope, operation in meant
            ]
            if place is None or len(page) < limit:
                break

            _scope, last_operation = page[-1]
            seq = last_operation.seq
        return changes[:limit]

    async def _beginnings(self, operations: Sequence[tuple[Scope, Operation]]) -> dict[object, str]:
        """Return the beginnings of the newest `_MOST_BEGINNINGS` entries of these operations that still exist, by id."""
        named: list[tuple[Scope, int]] = []
        for scope, operation in operations:
            named += [(scope, entry_id) for entry_id in operation.entries]
        ids_by_scope: dict[Scope, list[int]] = {}
        for scope, entry_id in named[:_MOST_BEGINNINGS]:
            ids_by_scope.setdefault(scope, []).append(entry_id)
        beginnings: dict[object, str] = {}
        for scope, entry_ids in ids_by_scope.items():
            entries = await self._store.read(scope, partial(_present, entry_ids))
            for entry in entries:
                beginnings[entry.id] = beginning(entry.title or entry.body)
        return beginnings

    async def undo(self, change: str, place: str | None = None, *, by: str = "api") -> Undone:
        """Take back a change, as `Lifecycle.undo` says, and return its entries as they are now.
        Raises InvalidInput if the change does not exist, is of another place, or its entries were
        changed since."""
        seq = await self._seq_of(change)
        [(scope, operation)] = await self._store.operations(before=seq + 1, limit=1)
        place_of_change = scope.place
        if place not in (None, place_of_change):
            raise InvalidInput(
                "The change {change} was made in {place}, not in {place2}; leave -c out.",
                change,
                place_of_change,
                place,
            )

        # Files and whole stores cannot be taken back entry by entry.
        if scope.space == "layers":
            return await self._bring_back(scope, operation, by)

        undo = Operation("undo", by, detail={"change": change})
        if REPLACED in operation.detail:
            former_copy = Path(operation.detail[REPLACED])
            return await self._undo_replacement(former_copy, seq, undo)

        def decide(view: ScopeView) -> Decided[None]:
            return taking_back(view, seq, self._clock()), None

        committed = await self._store.commit(scope, decide, undo)
        self._knowledge.notes.changed()

        steps = [
            HistoryStep(N_("knowledge"), entry.ref, beginning(entry.title or entry.body))
            for entry in committed.entries
        ]
        return Undone(committed.change_id or change, tuple(steps))

    async def _undo_replacement(self, former_copy: Path, seq: int, undo: Operation) -> Undone:
        """Undo the operation `seq`, which replaced the whole store: the store becomes `former_copy`, the copy from
        before that operation, with everything that was changed after it. `undo` is the operation that the history
        records. Raises InvalidInput: the copy is not kept any more."""
        if not await self._store.has_copy(former_copy):
            raise InvalidInput(
                "{change} is too long ago: what was there before it is not kept any more.",
                change_id(seq),
            )

        def changes_after_it(present: ScopeView, former: ScopeView) -> Decided[None]:
            return as_later(present, former, since=seq, now_ms=self._clock()), None

        undo_seq, _replaced_copy = await self._store.replace_by(
            former_copy, NOTES, operation=undo, later=changes_after_it
        )
        self._knowledge.notes.changed()
        return Undone(change_id(undo_seq), ())

    async def _seq_of(self, change: str) -> int:
        """Return the number of a change. Raise InvalidInput if this is not a change id of knowledge, or the history has
        no such change (any more)."""
        seq = seq_of(change)
        newest = await self._store.operations(before=seq + 1, limit=1)
        seqs = [operation.seq for _scope, operation in newest]
        if seqs != [seq]:
            raise InvalidInput(
                "There is no change {change}; `memory-server history` lists all changes.", change
            )
        return seq

    async def clean_up(
        self,
        place: str | None = None,
        *,
        dry_run: bool = False,
        by: str = "cleanup",
        seen_from_ms: int | None = None,
    ) -> AsyncIterator[PlaceCleanup]:
        """Clean up as `Lifecycle.clean_up` says, and delete for good what is no longer kept, as seen from
        `seen_from_ms`. The present is at most a day after the last operation, also if `seen_from_ms` is None. So a
        clock that is years ahead, or a long leave, archives nothing before the next write. Raises InvalidInput for an
        unknown place."""
        layer_places = [f"layers/{layer.name}" for layer in self._knowledge.layers.known]
        if place not in (None, *await self.places(), *layer_places):
            raise InvalidInput(
                "There is no place {place}; `memory-server where` shows what holds entries.", place
            )

        now_ms = await self._present_ms()
        if seen_from_ms is None:
            seen_from_ms = now_ms
        kept_from_ms = seen_from_ms - self._options.keep_ms

        for scope in await self._store.scopes():
            if place in (None, scope.place):
                due = await self._clean_up(
                    scope, now_ms, kept_from_ms=kept_from_ms, by=by, dry_run=dry_run
                )
                yield _cleaned(scope.place, due)

        # Without the toolset, the files may be another program's, so only a person's clean-up moves them.
        if self._knowledge.layer_options.tidy or by == "cleanup":
            for layer in self._knowledge.layers.known:
                layer_place = f"layers/{layer.name}"
                if place in (None, layer_place):
                    yield _cleaned(layer_place, await layer.clean_up(dry_run=dry_run, by=by))

        if dry_run:
            return
        if place is None:
            # Only a clean-up of all places tidies, because texts of all places are in the same tables.
            audit_ms = round(self._options.audit_days * DAY_MS)
            await self._store.tidy(
                texts_before_ms=kept_from_ms, operations_before_ms=seen_from_ms - audit_ms
            )

    async def _present_ms(self) -> int:
        """Return the present, but at most a day after the last operation that was not a clean-up, in milliseconds since
        1970."""
        operations = [operation for _scope, operation in await self._store.operations()]
        if not operations:
            return self._clock()
        last = next(
            (operation for operation in operations if operation.op != "cleanup"), operations[-1]
        )
        return min(self._clock(), last.at_ms + DAY_MS)

    async def _clean_up(
        self, scope: Scope, now_ms: int, kept_from_ms: int, by: str, *, dry_run: bool
    ) -> list[tuple[Entry, Reason]]:
        """Archive the entries of a scope that are expired or above its limit, and delete for good
        those archived until `kept_from_ms`. Return what was archived; with `dry_run` only return
        it."""
        bounds = {
            Scope("refs", name): self._knowledge.ref_options.bounds(name) for name in NAMESPACES
        }

        def decide(view: ScopeView) -> Decided[list[tuple[Entry, Reason]]]:
            due = expired(view, now_ms)
            if scope in bounds:
                due += over_limit(view, bounds[scope].entries, now_ms=now_ms)
            return [*to_archive(due, now_ms), *to_purge(view, kept_from_ms)], due

        if dry_run:
            return await self._store.read(scope, lambda view: decide(view)[1])
        committed = await self._store.commit(scope, decide, Operation("cleanup", by, now_ms))
        return committed.result

    async def keep_up(self, seen_from_ms: int) -> int:
        """Clean up all knowledge, and return how many entries were archived. A failure is only logged."""
        count = 0
        try:
            async for cleaned in self.clean_up(by="upkeep", seen_from_ms=seen_from_ms):
                count += len(cleaned.left)
        except MemoryServerError as error:
            log.warning("upkeep skipped the knowledge: %s", error)
        return count

    async def examinations(self) -> list[Examine]:
        """Return the examinations of the store, and of the files of each layer."""
        return [
            self._store.examine,
            self._examine_projects,
            *(layer.folder.examine for layer in self._knowledge.layers.known),
        ]

    async def _examine_projects(self) -> list[Finding]:
        """Return a warning if the key of a project holds a password or token. Its notes are counted and not named."""
        try:
            counts = await self._knowledge.notes.project_counts()
        except StorageError:
            return []  # the examination of the store says so
        count = sum(counts[key] for key in counts if public_key(key) != key)
        if not count:
            return []
        finding = _(
            "{notes} of projects are stored under a URL with a password or token, as an older version took it from git. Run "
            "`memory-server knowledge projects`, then in the folder of each such project `memory-server knowledge "
            "assign KEY`, and replace the token.",
            counted(count, "note"),
        )
        return [Finding("warning", _("knowledge"), finding)]

    async def copy_to(
        self, backup: BackupWriter, only: str | None, advance: Callable[[], None]
    ) -> CopyResult:
        """Put a copy of the knowledge beside `backup`, and return its number of entries; nothing if
        there are none, or with `only`. Damaged knowledge is left out, with the reason; raises
        StorageError if the copy cannot be written."""
        if only is not None:
            return CopyResult()
        try:
            overview = await self._knowledge.overview()
            entries = sum(figures.count + figures.archived for figures in overview.values())
            if entries:
                await self._store.copy_to(await asyncio.to_thread(backup.beside))
        except StorageError as error:
            findings = await self._store.examine()
            if not any(finding.grade == "error" for finding in findings):
                raise  # the copy cannot be written, and the store is as it should be
            log.warning("left out of the backup: %s", error)
            return CopyResult(left_out=(str(error),))
        return CopyResult(entries)

    async def check_backup(self, backups: BackupStore, name: str, only: str | None) -> None:
        """Raise StorageError if the knowledge of the backup `name` is damaged. With `only`, or
        without knowledge in the backup, do nothing."""
        copy = backups.knowledge_of(name)
        if only is not None or not await asyncio.to_thread(copy.exists):
            return
        copied_store = self._store.copy_at(copy)
        try:
            findings = await copied_store.examine()
        finally:
            await copied_store.aclose()

        errors = [finding.what for finding in findings if finding.grade == "error"]
        if errors:
            raise StorageError(
                Sentence(
                    "The knowledge of the backup {name} cannot be used: {reason}", name, errors[0]
                ),
                copy,
            )

    async def restore(
        self,
        backups: BackupStore,
        name: str,
        mode: Mode,
        *,
        dry_run: bool,
        only: str | None,
        by: str,
    ) -> AsyncIterator[RestoredPlace]:
        """Restore from the copy of the store that is beside a backup, as `Lifecycle.restore` says.
        With `only`, or without a copy, do nothing."""
        copy = backups.knowledge_of(name)
        if only is None and await asyncio.to_thread(copy.exists):
            async for restored in IncomingEntries(self._knowledge).bring(
                copy, mode, dry_run=dry_run, by=by
            ):
                yield restored

    async def live(
        self, family: Family | None = None, where: Filter = LIVE
    ) -> list[tuple[str, Entry]]:
        """Return the live entries that meet `where`, each with its place, first made first."""
        placed: list[tuple[str, Entry]] = []
        for scope, store in await self._knowledge.places():
            if family in (None, SPACES[scope.space]):
                entries = await store.read(scope, lambda view: view.entries(where))
                placed += [(scope.place, entry) for entry in entries]
        return sorted(placed, key=_by_place_and_age)


def _texts_of_items(scope: Scope, names: Collection[str], view: ScopeView) -> list[str]:
    """Return the present and former texts of the entries of a scope whose items have these names."""
    texts: list[str] = []
    entries = [entry for entry in view.entries(EVERYTHING) if item_of(scope, entry).id in names]
    if scope.space != "layers":  # files have no history
        texts += view.former_texts([entry.id for entry in entries])
    for entry in entries:
        texts += _texts_in(scope, entry)
    return texts


def _texts_in(scope: Scope, entry: Entry) -> tuple[str, ...]:
    """Return the texts of an entry in this version."""
    item = item_of(scope, entry)
    return (entry.body, entry.title, *item.also)


def _purging(names: Collection[str], view: ScopeView) -> Decided[None]:
    """Decide to remove the entries of a layer that have these names."""
    changes = [
        Purge(entry.id) for entry in view.entries(EVERYTHING) if (entry.key or entry.ref) in names
    ]
    return changes, None


def _by_place_and_age(placed: tuple[str, Entry]) -> tuple[str, int, str, str]:
    place, entry = placed
    return place, entry.created_ms, entry.key or "", entry.ref


def _present(entry_ids: Sequence[int], view: ScopeView) -> list[Entry]:
    """Return the entries of these ids that still exist."""
    entries = [view.get(id=entry_id) for entry_id in entry_ids]
    return [entry for entry in entries if entry is not None]


def _cleaned(place: str, due: Sequence[tuple[Entry, Reason]]) -> PlaceCleanup:
    return PlaceCleanup(place, tuple(_leaving(entry, reason) for entry, reason in due))


def _leaving(entry: Entry, reason: Reason) -> CleanupItem:
    text = entry.title or entry.body
    return CleanupItem(str(entry.id), entry.updated_ms, reason=reason, text=text)
