"""All knowledge of a home: its toolsets over one store, their undo, their clean-up and their history."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

from memory_server.core.errors import InvalidInput, MemoryNotFound, StorageError
from memory_server.core.model import without_surrogates
from memory_server.core.phrases import Finding
from memory_server.knowledge.entry import Change, Entry, Figures, Filter, Operation, Reason, Scope, Space, seq_of
from memory_server.knowledge.layers import LAYER, LayerOptions, Layers
from memory_server.knowledge.notes import NOTES, Notes
from memory_server.knowledge.policies import Options, expired, over_limit, taking_back, to_archive, to_purge
from memory_server.knowledge.ports import Committed, Embeddings, Entries, EntryStore, Held, Models
from memory_server.knowledge.refs import NAMESPACES, RefOptions, Refs
from memory_server.knowledge.sessions import SessionOptions, Sessions
from memory_server.knowledge.unasked import lines_of, meant, question_of

_REPLACED = "replaced"
"""In the detail of an operation: the copy of the store as it was before."""


@dataclass(eq=False)
class Knowledge:
    """The entries of `store`, and what the settings say of them."""

    store: EntryStore
    clock: Callable[[], int]
    options: Options = field(default_factory=Options)
    ref_options: RefOptions = field(default_factory=RefOptions)
    layer_options: LayerOptions = field(default_factory=LayerOptions)
    session_options: SessionOptions = field(default_factory=SessionOptions)
    models: Models | None = None
    embeddings: Embeddings | None = None

    @cached_property
    def notes(self) -> Notes:
        """The notes, made at first use."""
        return Notes(self.store, self.clock, self.options)

    @cached_property
    def refs(self) -> Refs:
        """The refs, made at first use."""
        return Refs(self.ref_options.store or self.store, self.clock, self.ref_options, self.options.refuse)

    @cached_property
    def sessions(self) -> Sessions:
        """The memories of users, made at first use."""
        refuse = self.options.refuse
        return Sessions(self.store, self.clock, self.session_options, refuse, self.models, self.embeddings)

    @cached_property
    def layers(self) -> Layers:
        """The layers, made at first use."""
        return Layers(self.store, self.clock, self.layer_options, self.options.refuse)

    async def unasked(self, text: str, max_chars: int, toolsets: Collection[str]) -> str:
        """Lines about the notes and entries of layers that `text` brings to mind, for a prompt; empty: none do.
        `toolsets` names which of the two may come. Counts nothing."""
        if not (question := question_of(without_surrogates(text))):
            return ""
        found = [*(await self.notes.recall(question, reinforce=False)).hits] if "notes" in toolsets else []
        for layer in self.layers.known if "layers" in toolsets else ():
            found += (await layer.retrieve(question, reinforce=False)).hits
        return lines_of(meant(sorted(found, key=lambda each: -each.score)), max_chars)

    async def undo(self, change: str, *, by: str = "api") -> Committed[None]:
        """Take a change such as `k42` back; its entries are as they are now.

        Raises:
            InvalidInput: it is not a change, something was changed again after it, or it is too long ago.
        """
        seq = seq_of(change)
        found = await self.store.operations(before=seq + 1, limit=1)
        if not found or found[0][1].seq != seq:
            raise InvalidInput(f"There is no change {change}; `memory-server knowledge history` lists all changes.")
        scope, operation = found[0]
        if _REPLACED in operation.detail:
            former = Path(operation.detail[_REPLACED])
            if not await asyncio.to_thread(former.exists):
                raise InvalidInput(f"{change} is too long ago: what was there before it is not kept any more.")
            return Committed(None, (), await self._replace(former, Operation("undo", by, detail={"change": change})))

        def decide(held: Held) -> tuple[Sequence[Change], None]:
            return taking_back(held, seq, self.clock()), None

        done = await self.store.commit(scope, decide, Operation("undo", by, detail={"change": change}))
        self.notes.changed()
        return done

    async def clean_up(self, *, dry_run: bool = False, by: str = "cleanup") -> list[tuple[Entry, Reason]]:
        """Archive what is over or too much, remove what is in the archive for longer than it is kept, and forget old
        texts and operations; what was archived, or with `dry_run` would be."""
        now_ms = self.clock()
        moved: list[tuple[Entry, Reason]] = []
        for scope in await self.store.scopes():
            moved += await self._clean_up(scope, now_ms, by, dry_run=dry_run)
        for layer in self.layers.known if self.layer_options.tidy or by == "cleanup" else ():
            moved += await layer.clean_up(dry_run=dry_run, by=by)
        if not dry_run:
            await self.store.tidy(
                texts_before_ms=now_ms - self.options.keep_ms, operations_before_ms=now_ms - self.options.audit_ms
            )
        return moved

    async def _clean_up(self, scope: Scope, now_ms: int, by: str, *, dry_run: bool) -> list[tuple[Entry, Reason]]:
        most = {Scope("refs", name): self.ref_options.bounds(name).entries for name in NAMESPACES}.get(scope)

        def decide(held: Held) -> tuple[Sequence[Change], list[tuple[Entry, Reason]]]:
            due = expired(held, now_ms) + ([] if most is None else over_limit(held, most, now_ms=now_ms))
            purged = to_purge(held, now_ms - self.options.keep_ms)
            return [] if dry_run else [*to_archive(due, now_ms), *purged], due

        return (await self.store.commit(scope, decide, Operation("cleanup", by))).result

    async def places(self, space: Space | None = None) -> list[tuple[Scope, Entries]]:
        """Where entries are: each scope of the store, and each layer as `layers/project` or `layers/global`."""
        layers = self.layers.known if space in (None, "layers") else ()
        stored: list[tuple[Scope, Entries]] = [(scope, self.store) for scope in await self.store.scopes(space)]
        return [*stored, *((replace(LAYER, owner=layer.name), layer.folder) for layer in layers)]

    async def found(self, name: str) -> tuple[Scope, Entry]:
        """The entry of a number, an id, the beginning of an id, or in a layer of a key, anywhere.

        Raises:
            MemoryNotFound: it does not exist. InvalidInput: several ids begin so, or several layers have the key.
        """
        number = int(name) if name.isascii() and name.isdecimal() and len(name) < 16 else 0

        def read(held: Held) -> list[Entry]:
            exact = held.get(id=number)
            return held.entries(Filter(archived=None, ref_prefix=name), limit=2) if exact is None else [exact]

        def keyed(held: Held) -> list[Entry]:
            there = held.keyed("", "", name)
            gone = (each for each in held.entries(Filter(archived=True), order="removed") if each.key == name)
            return [there] if there is not None else list(gone)[:1]

        matching: list[tuple[Scope, Entry]] = []
        for scope, store in await self.places():
            entries = await store.look(scope, keyed if scope.space == "layers" else read)
            matching += [(scope, entry) for entry in entries]
            if number and store is self.store and [each.id for each in entries] == [number]:
                return scope, entries[0]
        if len(matching) > 1:
            raise InvalidInput(
                f"Several entries have the name {name}; write more of the id, or use the tools of a layer."
            )
        if not matching:
            raise MemoryNotFound(f"There is no entry {name}; `memory-server knowledge list` shows all entries.")
        return matching[0]

    async def overview(self) -> dict[str, Figures]:
        """Counts by scope, such as `notes` or `refs/short-term`."""
        scopes = await self.store.scopes()
        found = [await self.store.look(each, lambda held: held.figures()) for each in scopes]
        names = ["/".join(filter(None, (each.space, each.owner))) for each in scopes]
        return dict(zip(names, found, strict=True))

    async def restore(self, copy: Path, *, overwrite: bool = False, dry_run: bool = False, by: str = "restore") -> int:
        """Bring back the entries of a copy of the store: by ref, the newer one wins, as one change for each scope;
        `overwrite` makes the store equal to the copy, as one change. How many come, or with `dry_run` would.

        Raises:
            StorageError: the copy cannot be used; nothing was changed.
        """
        other, count = self.store.copy_at(copy), 0
        try:
            for scope in await other.scopes():
                if overwrite:
                    count += (await other.look(scope, lambda held: held.figures())).count
                else:
                    count += await self._merge(other, scope, dry_run=dry_run, by=by)
        finally:
            await other.aclose()
        if overwrite and not dry_run:
            await self._replace(copy, Operation("overwrite", by))
        self.notes.changed()
        return count

    async def _replace(self, copy: Path, operation: Operation) -> int:
        """Make the store equal to a copy, and note that in it; the number of the operation."""
        try:
            former = await self.store.set_aside()
        except StorageError:
            former = None  # what is damaged can be replaced, but not brought back
        await self.store.replace_by(copy)
        detail = {**operation.detail} | ({} if former is None else {_REPLACED: str(former)})
        self.notes.changed()
        return await self.store.note(NOTES, replace(operation, detail=detail))

    async def _merge(self, other: EntryStore, scope: Scope, *, dry_run: bool, by: str) -> int:
        theirs = await other.look(scope, lambda held: held.entries(Filter(archived=None), order="oldest"))

        def decide(held: Held) -> tuple[Sequence[Change], int]:
            coming = [entry for each in theirs if (entry := _newer(held, each)) is not None]
            return [] if dry_run else coming, len(coming)

        return (await self.store.commit(scope, decide, Operation("restore", by))).result

    async def examine(self) -> list[Finding]:
        """What is wrong with the store, and with the files of layers."""
        found = [await each.examine() for each in (self.store, *(layer.folder for layer in self.layers.known))]
        return [finding for findings in found for finding in findings]

    async def aclose(self) -> None:
        """Finish and release everything; idempotent."""
        await self.notes.aclose()
        await self.layers.aclose()
        if "sessions" in self.__dict__:
            await self.sessions.meaning.aclose()
        if self.ref_options.store is not None:
            await self.ref_options.store.aclose()
        await self.store.aclose()


def _newer(held: Held, theirs: Entry) -> Entry | None:
    """Their entry as it would be stored here; None where ours is as new. One that was deleted here comes back, unless
    another has its key now."""
    ours = held.get(ref=theirs.ref)
    if theirs.key is not None and theirs.archived_ms is None:
        ours = held.keyed(theirs.kind, theirs.project, theirs.key) or ours
    if ours is None:
        return replace(theirs, id=0)
    comes_back = ours.archived_ms is not None and theirs.archived_ms is None and ours.reason != "merged"
    if ours.updated_ms >= theirs.updated_ms and not comes_back:
        return None
    return replace(theirs, id=ours.id, ref=ours.ref)
