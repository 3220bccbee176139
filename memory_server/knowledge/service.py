"""All knowledge of a home: its families (notes, refs, memories of users, layers) over one store, and what a prompt brings
to mind of them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection
from dataclasses import field, replace
from functools import cached_property

from memory_server.kernel.errors import InvalidInput, MemoryNotFound, StorageError
from memory_server.kernel.items import Scope, Space
from memory_server.kernel.json_text import without_surrogates
from memory_server.kernel.recalled_block import one_line
from memory_server.kernel.values import dataclass
from memory_server.knowledge.auto_recall import AutoRecallHit, lines_of, meant, question_of
from memory_server.knowledge.entry import Entry, Figures, Filter
from memory_server.knowledge.layers import LAYER, LayerOptions, Layers
from memory_server.knowledge.notes.notes import Notes
from memory_server.knowledge.policies import Options
from memory_server.knowledge.ports import Embeddings, Entries, EntryStore, Models, ScopeView
from memory_server.knowledge.projects import Project
from memory_server.knowledge.refs import RefOptions, Refs
from memory_server.knowledge.sessions.models import SessionOptions
from memory_server.knowledge.sessions.sessions import Sessions

log = logging.getLogger(__name__)
LAYERS_SECONDS = 2.0
"""The time for entries of layers that come without a request: a hook has 5 seconds, which other memories need too."""


@dataclass(eq=False)
class Knowledge:
    """The families of knowledge, over the entries of one store, and what is done with all of them at once."""

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
        return Refs(
            self.ref_options.store or self.store,
            self.clock,
            options=self.ref_options,
            refuse=self.options.refuse,
            secrets=self.options.secrets,
        )

    @cached_property
    def sessions(self) -> Sessions:
        """The memories of users, made at first use."""
        refuse = self.options.refuse
        return Sessions(
            self.store,
            self.clock,
            options=self.session_options,
            refuse=refuse,
            secrets=self.options.secrets,
            models=self.models,
            embeddings=self.embeddings,
        )

    @cached_property
    def layers(self) -> Layers:
        """The layers, made at first use."""
        return Layers(
            self.store,
            self.clock,
            options=self.layer_options,
            refuse=self.options.refuse,
            secrets=self.options.secrets,
        )

    async def places(self, space: Space | None = None) -> list[tuple[Scope, Entries]]:
        """Return each scope of the store and of a store that refs have for themselves, and each layer as
        `layers/project` or `layers/global`, with its store; with `space` only the scopes of this space."""
        layers = self.layers.known if space in (None, "layers") else []
        stores = [self.store]
        if self.ref_options.store is not None:
            stores.append(self.ref_options.store)
        places: list[tuple[Scope, Entries]] = []
        for store in stores:
            scopes = await store.scopes(space)
            places += [(scope, store) for scope in scopes if scope.space != "layers"]
        places += [(replace(LAYER, owner=layer.name), layer.folder) for layer in layers]
        return places

    async def overview(self, *, layers: bool = False) -> dict[str, Figures]:
        """Return counts by scope, such as `notes` or `refs/short-term`, without empty scopes; with `layers` also of
        the layers, and of a store that refs have for themselves."""
        figures_by_name: dict[str, Figures] = {}
        for scope, entries in await self.places():
            if layers or entries is self.store:
                figures_by_name[scope.place] = await entries.read(
                    scope, lambda view: view.figures()
                )
        return {
            name: figures
            for name, figures in figures_by_name.items()
            if figures.count or figures.archived
        }

    async def unasked(
        self, text: str, max_chars: int, toolsets: Collection[str], project: Project | None = None
    ) -> tuple[str, list[str]]:
        """Return lines about the notes and entries of layers that a prompt with `text` should have, and their names;
        both empty if no entry fits. `toolsets` names which of the two may come; `project` is as in `Notes`. No use is
        counted."""
        question = question_of(without_surrogates(text))
        if not question:
            return "", []
        candidates: list[AutoRecallHit] = []
        if "notes" in toolsets:
            candidates += await self._unasked_notes(question, project)
        if "layers" in toolsets:
            candidates += await self._unasked_layers(question)
        recalled = meant(candidates)
        lines = lines_of(recalled, max_chars)
        return lines, [entry.name for entry in recalled if entry.name in lines]

    async def _unasked_notes(self, question: str, project: Project | None) -> list[AutoRecallHit]:
        notes = await self.notes.recall(question, reinforce=False, project=project, unasked=True)
        return [AutoRecallHit(hit, f"note “{one_line(hit.entry.title)}”") for hit in notes.hits]

    async def _unasked_layers(self, question: str) -> list[AutoRecallHit]:
        """Return the entries of layers for a question, from the layers that could be read within
        `LAYERS_SECONDS`. The first layer that cannot be read ends it, with a warning in the log."""
        recalled: list[AutoRecallHit] = []

        try:
            async with asyncio.timeout(LAYERS_SECONDS):
                for layer in self.layers.known:
                    of_others = layer.folder.project is not None
                    hits = await layer.unasked(question)
                    recalled += [
                        AutoRecallHit(hit, one_line(layer.file_of(hit.entry)), of_others)
                        for hit in hits
                    ]
        except (TimeoutError, StorageError) as error:
            # A repository must not keep away what is this user's own.
            log.warning(
                "entries of layers could not be recalled: %s",
                error or f"it took {LAYERS_SECONDS:g} s",
            )
        return recalled

    async def found(self, name: str) -> tuple[Scope, Entry]:
        """Find an entry anywhere by its number, its id, the beginning of its id, or its key in a layer.

        Raises:
            MemoryNotFound: it does not exist. InvalidInput: several ids begin so, or several layers have the key.
        """
        number = 0
        if name.isascii() and name.isdecimal() and len(name) < 16:
            number = int(name)

        def by_number_or_ref(view: ScopeView) -> list[Entry]:
            numbered = view.get(id=number)
            if numbered is not None:
                return [numbered]
            return view.entries(Filter(archived=None, ref_prefix=name), limit=2)

        def by_key(view: ScopeView) -> list[Entry]:
            live_entry = view.keyed("", "", name)
            if live_entry is not None:
                return [live_entry]
            archived_entries = view.entries(Filter(archived=True), order="removed")
            return [entry for entry in archived_entries if entry.key == name][:1]

        matching: list[tuple[Scope, Entry]] = []
        for scope, store in await self.places():
            read = by_key if scope.space == "layers" else by_number_or_ref
            entries = await store.read(scope, read)
            matching += [(scope, entry) for entry in entries]
            # A number names a single entry of the store, even if an id begins with the same digits.
            if number and store is self.store and [entry.id for entry in entries] == [number]:
                return scope, entries[0]
        if len(matching) > 1:
            raise InvalidInput(
                "Several entries have the name {name}; write more of the id, or use the tools of a layer.",
                name,
            )
        if not matching:
            raise MemoryNotFound(
                "There is no entry {name}; `memory-server knowledge list` shows all entries.", name
            )
        return matching[0]

    async def aclose(self) -> None:
        """Finish and release everything; idempotent."""
        await self.notes.aclose()
        await self.layers.aclose()
        if "sessions" in self.__dict__:
            await self.sessions.meaning.aclose()
        if self.ref_options.store is not None:
            await self.ref_options.store.aclose()
        await self.store.aclose()
