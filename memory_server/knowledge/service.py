"""All knowledge of a home: its toolsets over one store, their undo, their clean-up and their history."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

from memory_server.kernel.errors import InvalidInput, MemoryNotFound, StorageError
from memory_server.kernel.messages import without_surrogates
from memory_server.kernel.recalled_block import one_line
from memory_server.kernel.scopes import Scope, Space
from memory_server.knowledge.auto_recall import AutoRecalled, lines_of, meant, question_of
from memory_server.knowledge.entry import Entry, Figures, Filter, Hit
from memory_server.knowledge.layers import LAYER, LayerOptions, Layers
from memory_server.knowledge.notes.notes import Notes
from memory_server.knowledge.policies import Options
from memory_server.knowledge.ports import Embeddings, Entries, EntryStore, Models, ScopeView
from memory_server.knowledge.projects import Project
from memory_server.knowledge.refs import RefOptions, Refs
from memory_server.knowledge.sessions.models import SessionOptions
from memory_server.knowledge.sessions.sessions import Sessions

if TYPE_CHECKING:
    from memory_server.knowledge.lifecycle import KnowledgeLifecycle

log = logging.getLogger(__name__)
LAYERS_SECONDS = 2.0
"""For entries of layers that nobody asked for: a hook has 5 seconds, which other memories need too."""


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

    @cached_property
    def lifecycle(self) -> KnowledgeLifecycle:
        """The past of all of it."""
        from memory_server.knowledge.lifecycle import KnowledgeLifecycle

        return KnowledgeLifecycle(self)

    async def unasked(
        self, text: str, max_chars: int, toolsets: Collection[str], project: Project | None = None
    ) -> tuple[str, list[str]]:
        """Lines about the notes and entries of layers that `text` brings to mind, for a prompt, and the names of these;
        empty: none do. `toolsets` names which of the two may come; `project` as in `Notes`. Counts nothing."""
        if not (question := question_of(without_surrogates(text))):
            return "", []
        notes: tuple[Hit, ...] = ()
        if "notes" in toolsets:
            notes = (await self.notes.recall(question, reinforce=False, project=project, unasked=True)).hits
        found = [AutoRecalled(each, f"note “{one_line(each.entry.title)}”") for each in notes]
        try:
            async with asyncio.timeout(LAYERS_SECONDS):
                for layer in self.layers.known if "layers" in toolsets else ():
                    theirs = layer.folder.project is not None
                    hits = await layer.unasked(question)
                    found += [AutoRecalled(each, one_line(layer.file_of(each.entry)), theirs) for each in hits]
        except (TimeoutError, StorageError) as error:
            # A repository must not keep away what is this user's own.
            log.warning("entries of layers could not be recalled: %s", error or f"it took {LAYERS_SECONDS:g} s")
        lines = lines_of(coming := meant(found), max_chars)
        return lines, [each.name for each in coming if each.name in lines]

    async def places(self, space: Space | None = None) -> list[tuple[Scope, Entries]]:
        """Where entries are: each scope of the store, and each layer as `layers/project` or `layers/global`."""
        layers = self.layers.known if space in (None, "layers") else ()
        stores = [self.store] if self.ref_options.store is None else [self.store, self.ref_options.store]
        scopes = [(scope, each) for each in stores for scope in await each.scopes(space)]
        stored: list[tuple[Scope, Entries]] = [each for each in scopes if each[0].space != "layers"]
        return [*stored, *((replace(LAYER, owner=layer.name), layer.folder) for layer in layers)]

    async def found(self, name: str) -> tuple[Scope, Entry]:
        """The entry of a number, an id, the beginning of an id, or in a layer of a key, anywhere.

        Raises:
            MemoryNotFound: it does not exist. InvalidInput: several ids begin so, or several layers have the key.
        """
        number = int(name) if name.isascii() and name.isdecimal() and len(name) < 16 else 0

        def read(held: ScopeView) -> list[Entry]:
            exact = held.get(id=number)
            return held.entries(Filter(archived=None, ref_prefix=name), limit=2) if exact is None else [exact]

        def keyed(held: ScopeView) -> list[Entry]:
            there = held.keyed("", "", name)
            gone = (each for each in held.entries(Filter(archived=True), order="removed") if each.key == name)
            return [there] if there is not None else list(gone)[:1]

        matching: list[tuple[Scope, Entry]] = []
        for scope, store in await self.places():
            entries = await store.read(scope, keyed if scope.space == "layers" else read)
            matching += [(scope, entry) for entry in entries]
            if number and store is self.store and [each.id for each in entries] == [number]:
                return scope, entries[0]
        if len(matching) > 1:
            raise InvalidInput(
                "Several entries have the name {name}; write more of the id, or use the tools of a layer.", name
            )
        if not matching:
            raise MemoryNotFound("There is no entry {name}; `memory-server knowledge list` shows all entries.", name)
        return matching[0]

    async def overview(self, *, layers: bool = False) -> dict[str, Figures]:
        """Counts by scope, such as `notes` or `refs/short-term`, and with `layers` also of these; without scopes that
        have no entry."""
        found = {
            "/".join(filter(None, (scope.space, scope.owner))): await entries.read(scope, lambda held: held.figures())
            for scope, entries in await self.places()
            if layers or entries is self.store
        }
        return {name: each for name, each in found.items() if each.count or each.archived}

    async def aclose(self) -> None:
        """Finish and release everything; idempotent."""
        await self.notes.aclose()
        await self.layers.aclose()
        if "sessions" in self.__dict__:
            await self.sessions.meaning.aclose()
        if self.ref_options.store is not None:
            await self.ref_options.store.aclose()
        await self.store.aclose()
