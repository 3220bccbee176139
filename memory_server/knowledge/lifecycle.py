"""The lifecycle of knowledge: what notes, refs, sessions and layers together can do with their past."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from functools import partial
from pathlib import Path
from typing import Literal

from memory_server.kernel.backups import BackupStore, BackupWriter, MergeCounts, Mode
from memory_server.kernel.erasure import Erasure, left_out_text
from memory_server.kernel.errors import InvalidInput, MemoryServerError, StorageError
from memory_server.kernel.items import Family, Item, Sought
from memory_server.kernel.lifecycle import (
    HISTORY_PAGE,
    Cleaned,
    Copied,
    Examine,
    HistoryStep,
    Leaving,
    PastChange,
    RestoredPlace,
    Undone,
)
from memory_server.kernel.scopes import Scope
from memory_server.kernel.text import beginning
from memory_server.kernel.times import DAY_MS
from memory_server.knowledge import erasing
from memory_server.knowledge.entry import (
    EVERYTHING,
    LIVE,
    Change,
    Entry,
    Filter,
    Operation,
    Purge,
    Reason,
    change_id,
    is_change_id,
    seq_of,
)
from memory_server.knowledge.families import Families
from memory_server.knowledge.items import FAMILIES, SPACES, admitted, item_of, past_of, place_of
from memory_server.knowledge.layers import LAYER, Layer
from memory_server.knowledge.notes.settling import NOTES
from memory_server.knowledge.options import NAMESPACES
from memory_server.knowledge.policies import arriving, as_later, expired, over_limit, taking_back, to_archive, to_purge
from memory_server.knowledge.ports import REPLACED, Entries, EntryStore, ScopeView
from sandbox.locale import _, clause

log = logging.getLogger(__name__)
_TEXTS = 50  # entries whose beginnings a history has: those of its newest changes


class KnowledgeLifecycle:
    """The past of `families`: one sequence of operations over all families, so an id is enough to find a change."""

    keeps: Literal["knowledge"] = "knowledge"

    def __init__(self, families: Families) -> None:
        self._families = families
        self._store, self._clock, self._options = families.store, families.clock, families.options

    def made(self, change: str) -> bool:
        return is_change_id(change)

    async def places(self) -> list[str]:
        return sorted(map(place_of, await self._store.scopes()))

    async def find(self, sought: Sought) -> list[Item]:
        found: list[Item] = []
        where = Filter(archived=sought.archived)
        projects = await self._families.notes.project_names()
        for scope, store in await self._families.places():
            if sought.looks_in(place_of(scope), FAMILIES[scope.space]):
                entries = await store.read(scope, lambda held: held.entries(where))
                found += await asyncio.to_thread(sought.among, [item_of(scope, entry, projects) for entry in entries])
        return sorted(found, key=lambda item: -item.at_ms)

    async def forget(self, items: Collection[Item], *, by: str) -> int:
        """As `Lifecycle.forget`. Files of layers have no history: so a note of the operation names them."""
        count, now_ms = 0, self._clock()
        for scope, store in await self._families.places():
            names = {item.id for item in items if item.place == place_of(scope)}

            def decide(held: ScopeView) -> tuple[Sequence[Change], list[Entry]]:
                there = [each for each in held.entries(Filter()) if item_of(scope, each).id in names]  # noqa: B023
                return to_archive([(each, "deleted") for each in there], now_ms), there

            gone = (await store.commit(scope, decide, Operation("forget", by))).result if names else []
            if gone and scope.space == "layers":
                layer = self._layer(scope)
                detail = {"keys": [each.key for each in gone], "folder": str(layer.folder.place)}
                await self._store.log_operation(scope, Operation("forget", by, detail=detail))
            count += len(gone)
        self._families.notes.changed()
        return count

    def _layer(self, scope: Scope) -> Layer:
        return self._families.layers["global" if scope.owner == "global" else "project"]

    async def _bring_back(self, scope: Scope, operation: Operation, by: str) -> Undone:
        """Take back that entries of a layer were forgotten, whose files were moved into its archive."""
        change, layer = change_id(operation.seq), self._layer(scope)
        if operation.op != "forget":
            raise InvalidInput(
                "{change} brought back files of a layer; `memory-server forget` takes them again.", change
            )
        if operation.detail.get("folder") != str(layer.folder.place):
            raise InvalidInput("{change} was made in another folder; run undo in that project.", change)
        back = [await layer.restore(key, by=by) for key in operation.detail["keys"]]
        detail = {"change": change, "keys": operation.detail["keys"]}
        made = await self._store.log_operation(scope, Operation("undo", by, detail=detail))
        return Undone(change_id(made), tuple(HistoryStep(_("knowledge"), each.key) for each in back))

    async def texts_of(self, items: Collection[Item]) -> set[str]:
        return await erasing.texts_of(self._families, items)

    async def past_texts(self, words: Sequence[str]) -> set[str]:
        return await erasing.past_texts(self._families, words)

    async def erase(self, erasure: Erasure) -> None:
        await erasing.erase(self._families, erasure)

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
        found: list[PastChange] = []
        seq = None if before is None else await self._made(before)
        while len(found) < limit:
            page = await self._store.operations(before=seq, limit=limit)
            mine = [(scope, done) for scope, done in page if place in (None, place_of(scope))]
            texts = {} if found else await self._beginnings(mine)
            found += [past_of(scope, operation, texts, most_steps) for scope, operation in mine]
            if place is None or len(page) < limit:
                break
            seq = page[-1][1].seq
        return found[:limit]

    async def _beginnings(self, operations: Sequence[tuple[Scope, Operation]]) -> dict[object, str]:
        """How the newest `_TEXTS` entries of these operations begin, by id; of those that are still there."""
        named = [(scope, id_) for scope, done in operations for id_ in done.entries][:_TEXTS]
        found = dict[object, str]()
        for scope in {scope for scope, _id in named}:

            def read(held: ScopeView, scope: Scope = scope) -> list[Entry]:
                return [entry for one, id_ in named if one == scope and (entry := held.get(id=id_)) is not None]

            found |= {each.id: beginning(each.title or each.body) for each in await self._store.read(scope, read)}
        return found

    async def undo(self, change: str, place: str | None = None, *, by: str = "api") -> Undone:
        """As `Lifecycle.undo`; its entries are as they are now."""
        seq = await self._made(change)
        [(scope, operation)] = await self._store.operations(before=seq + 1, limit=1)
        if place not in (None, where := place_of(scope)):
            raise InvalidInput(
                "The change {change} was made in {place}, not in {place2}; leave -c out.", change, where, place
            )
        if scope.space == "layers":
            return await self._bring_back(scope, operation, by)
        if REPLACED in operation.detail:
            former = Path(operation.detail[REPLACED])
            if not await self._store.has_copy(former):
                raise InvalidInput("{change} is too long ago: what was there before it is not kept any more.", change)
            undo = Operation("undo", by, detail={"change": change})
            later = partial(as_later, since=seq, now_ms=self._clock())
            made, _former = await self._store.replace_by(former, NOTES, undo, lambda *held: (later(*held), None))
            self._families.notes.changed()
            return Undone(change_id(made), ())

        def decide(held: ScopeView) -> tuple[Sequence[Change], None]:
            return taking_back(held, seq, self._clock()), None

        done = await self._store.commit(scope, decide, Operation("undo", by, detail={"change": change}))
        self._families.notes.changed()
        steps = (HistoryStep(_("knowledge"), each.ref, beginning(each.title or each.body)) for each in done.entries)
        return Undone(done.change_id or change, tuple(steps))

    async def _made(self, change: str) -> int:
        """The number of a change. Raises InvalidInput: there is no such change."""
        seq = seq_of(change)
        found = await self._store.operations(before=seq + 1, limit=1)
        if not found or found[0][1].seq != seq:
            raise InvalidInput("There is no change {change}; `memory-server history` lists all changes.", change)
        return seq

    async def clean_up(
        self, place: str | None = None, *, dry_run: bool = False, by: str = "cleanup", seen_from_ms: int | None = None
    ) -> AsyncIterator[Cleaned]:
        """As `Lifecycle.clean_up`, and delete for good what is kept no longer, as seen from `seen_from_ms`. The present
        is at most a day after the last operation, also for `seen_from_ms` None: so a clock that is years ahead, or a
        long leave, archives nothing before the next write."""
        layers = [f"layers/{layer.name}" for layer in self._families.layers.known]
        if place not in (None, *await self.places(), *layers):
            raise InvalidInput("There is no place {place}; `memory-server where` shows what holds entries.", place)
        done = [operation for _, operation in await self._store.operations()]
        last = next((each for each in done if each.op != "cleanup"), done[-1] if done else None)
        now_ms = self._clock() if last is None else min(self._clock(), last.at_ms + DAY_MS)
        seen_from_ms = now_ms if seen_from_ms is None else seen_from_ms
        kept_from_ms = seen_from_ms - self._options.keep_ms
        for scope in await self._store.scopes():
            if place in (None, place_of(scope)):
                yield _cleaned(place_of(scope), await self._clean_up(scope, now_ms, kept_from_ms, by, dry_run=dry_run))
        tidies = self._families.layer_options.tidy or by == "cleanup"
        for layer in self._families.layers.known if tidies else ():
            if place in (None, name := f"layers/{layer.name}"):
                yield _cleaned(name, await layer.clean_up(dry_run=dry_run, by=by))
        if not dry_run:
            await self._families.refs.summarize(by=by)
        if not dry_run and place is None:
            done_ms = seen_from_ms - round(self._options.audit_days * DAY_MS)
            await self._store.tidy(texts_before_ms=kept_from_ms, operations_before_ms=done_ms)

    async def _clean_up(
        self, scope: Scope, now_ms: int, kept_from_ms: int, by: str, *, dry_run: bool
    ) -> list[tuple[Entry, Reason]]:
        most = {Scope("refs", name): self._families.ref_options.bounds(name).entries for name in NAMESPACES}.get(scope)

        def decide(held: ScopeView) -> tuple[Sequence[Change], list[tuple[Entry, Reason]]]:
            due = expired(held, now_ms) + ([] if most is None else over_limit(held, most, now_ms=now_ms))
            purged = to_purge(held, kept_from_ms)
            return [*to_archive(due, now_ms), *purged], due

        if dry_run:
            return await self._store.read(scope, lambda held: decide(held)[1])
        return (await self._store.commit(scope, decide, Operation("cleanup", by, now_ms))).result

    async def keep_up(self, seen_from_ms: int) -> int:
        count = 0
        try:
            async for cleaned in self.clean_up(by="upkeep", seen_from_ms=seen_from_ms):
                count += len(cleaned.left)
        except MemoryServerError as error:
            log.warning("upkeep skipped the knowledge: %s", error)
        return count

    async def examinations(self) -> list[Examine]:
        """One of the store, and one of the files of each layer."""
        return [self._store.examine, *(layer.folder.examine for layer in self._families.layers.known)]

    async def copy_to(self, backup: BackupWriter, only: str | None, advance: Callable[[], None]) -> Copied:
        if only is not None:
            return Copied()
        try:
            held = await self._families.overview()
            entries = sum(figures.count + figures.archived for figures in held.values())
            if entries:
                await self._store.copy_to(await asyncio.to_thread(backup.beside))
        except StorageError as error:
            if not any(finding.grade == "error" for finding in await self._store.examine()):
                raise  # the copy cannot be written, and the store is as it should be
            log.warning("left out of the backup: %s", error)
            return Copied(left_out=(str(error),))
        return Copied(entries)

    async def check_backup(self, backups: BackupStore, name: str, only: str | None) -> None:
        copy = backups.knowledge_of(name)
        if only is not None or not await asyncio.to_thread(copy.exists):
            return
        other = self._store.copy_at(copy)
        try:
            broken = [finding.what for finding in await other.examine() if finding.grade == "error"]
        finally:
            await other.aclose()
        if broken:
            raise StorageError(_("The knowledge of the backup {name} cannot be used: {reason}", name, broken[0]), copy)

    async def restore(
        self, backups: BackupStore, name: str, mode: Mode, *, dry_run: bool, only: str | None, by: str
    ) -> AsyncIterator[RestoredPlace]:
        """As `Lifecycle.restore`, from the copy of the store that is beside a backup."""
        copy = backups.knowledge_of(name)
        if only is None and await asyncio.to_thread(copy.exists):
            async for restored in self.bring(copy, mode, dry_run=dry_run, by=by):
                yield restored

    async def bring(
        self, copy: Path, mode: Mode = "merge", *, dry_run: bool = False, by: str = "restore"
    ) -> AsyncIterator[RestoredPlace]:
        """Bring back the entries of a copy of the store: by ref, the newer one wins, as one change for each scope;
        `overwrite` makes the store equal to the copy, as one change. Raises StorageError: the copy cannot be used;
        nothing was changed."""
        other, overwrite = self._store.copy_at(copy), mode == "overwrite"
        erased, erased_before = list[Entry](), list[Entry]()
        try:
            for scope in [each for each in await other.scopes() if each.space != "layers"]:
                if overwrite:
                    count, change = (await other.read(scope, lambda held: held.figures())).count, None
                else:
                    count, change = await self._merge(other, scope, dry_run=dry_run, by=by)
                again = await other.read(scope, self._again)
                erased += again
                erased_before += await other.read(scope, self._again_before) if overwrite else ()
                said = (left_out_text(len(again)),) if again else ()
                count -= len(again) if overwrite else 0
                yield RestoredPlace(self.keeps, place_of(scope), MergeCounts(added=count), said, change)
        finally:
            await other.aclose()
        if overwrite and not dry_run:
            purge = lambda _, held: ([Purge(each.id) for each in self._again(held)], None)  # noqa: E731
            await self._store.replace_by(copy, NOTES, Operation("overwrite", by), purge if erased else None)
            bodies = tuple(entry.body for entry in (*erased, *erased_before))
            if bodies:  # also from the past and the free pages
                await self._store.erase(Erasure((), bodies))
        self._families.notes.changed()

    def _again(self, held: ScopeView) -> list[Entry]:
        """The entries that were erased here for good."""
        return erasing.erased_among(held.entries(EVERYTHING), self._store.erased)

    def _again_before(self, held: ScopeView) -> list[Entry]:
        """The entries as they were before changes, where that was erased here for good."""
        return erasing.erased_among(held.former_entries(), self._store.erased)

    async def _merge(self, other: EntryStore, scope: Scope, *, dry_run: bool, by: str) -> tuple[int, str | None]:
        theirs = await other.read(scope, lambda held: held.entries(Filter(archived=None), order="oldest"))
        counts, change = await self._take(self._store, scope, theirs, dry_run=dry_run, by=by)
        return counts.added + counts.replaced, change

    async def _take(
        self, entries: Entries, scope: Scope, theirs: Sequence[Entry], *, dry_run: bool, by: str
    ) -> tuple[MergeCounts, str | None]:
        if scope.space == "refs":
            theirs = [self._families.refs.with_summary(entry) for entry in theirs]

        def decide(held: ScopeView) -> tuple[Sequence[Change], MergeCounts]:
            wanted = [entry for entry in theirs if not self._store.erased(erasing.marks_of(entry))]
            outcomes = [arriving(held, entry) for entry in wanted]
            coming = [outcome for outcome in outcomes if isinstance(outcome, Entry)]
            added = sum(not entry.id for entry in coming)
            return coming, MergeCounts(
                added, len(coming) - added, unchanged=outcomes.count("unchanged"), kept_newer=outcomes.count("newer")
            )

        if dry_run:
            return await entries.read(scope, lambda held: decide(held)[1]), None
        done = await entries.commit(scope, decide, Operation("restore", by))
        return done.result, done.change_id

    async def take(self, place: str, entries: Sequence[Entry], *, dry_run: bool, by: str = "import") -> RestoredPlace:
        """Bring in entries for a place, as `restore` does, as one change; what cannot be of this place is left out."""
        name, _slash, owner = place.partition("/")
        scope, left_out, once = Scope(SPACES[name], owner), list[str](), dict[tuple[str, ...], Entry]()
        layers = {layer.name: layer.folder for layer in self._families.layers.known} if name == "layers" else {}
        for number, each in enumerate(entries):
            try:
                entry = admitted(scope, each, layers)
                once[entry.ref or entry.key or str(number), entry.kind, entry.project] = entry
            except InvalidInput as error:
                left_out.append(clause(str(error)))
        counts, change = MergeCounts(), None
        if once:
            store, within = (layers[owner], LAYER) if owner in layers else (self._store, scope)
            counts, change = await self._take(store, within, list(once.values()), dry_run=dry_run, by=by)
            self._families.notes.changed()
        return RestoredPlace(self.keeps, place, counts, tuple(left_out), change)

    async def live(self, family: Family | None = None, where: Filter = LIVE) -> list[tuple[str, Entry]]:
        """The live entries that meet `where`, each with its place, those made first coming first."""
        found: list[tuple[str, Entry]] = []
        for scope, entries in await self._families.places():
            if family in (None, FAMILIES[scope.space]):
                held = await entries.read(scope, lambda held: held.entries(where))
                found += ((place_of(scope), entry) for entry in held)
        return sorted(found, key=lambda each: (each[0], each[1].created_ms, each[1].key or "", each[1].ref))


def _cleaned(place: str, due: Sequence[tuple[Entry, Reason]]) -> Cleaned:
    left = (Leaving(str(entry.id), entry.updated_ms, reason, entry.title or entry.body) for entry, reason in due)
    return Cleaned(place, tuple(left))
