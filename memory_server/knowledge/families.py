"""The families of knowledge over one store: notes, refs, memories of users, layers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field, replace
from functools import cached_property

from memory_server.kernel.scopes import Scope, Space
from memory_server.kernel.values import dataclass
from memory_server.knowledge.entry import Figures
from memory_server.knowledge.layers import LAYER, LayerOptions, Layers
from memory_server.knowledge.notes.notes import Notes
from memory_server.knowledge.policies import Options
from memory_server.knowledge.ports import Embeddings, Entries, EntryStore, Models
from memory_server.knowledge.refs import RefOptions, Refs
from memory_server.knowledge.sessions.models import SessionOptions
from memory_server.knowledge.sessions.sessions import Sessions


@dataclass(eq=False)
class Families:
    """The entries of `store` by family, and what the settings say of them."""

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
        """Return each scope of the store, and each layer as `layers/project` or `layers/global`, with its store."""
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
        """Return counts by scope, such as `notes` or `refs/short-term`, without empty scopes."""
        figures_by_name: dict[str, Figures] = {}
        for scope, entries in await self.places():
            if layers or entries is self.store:
                name = "/".join(filter(None, (scope.space, scope.owner)))
                figures_by_name[name] = await entries.read(scope, lambda view: view.figures())
        return {
            name: figures
            for name, figures in figures_by_name.items()
            if figures.count or figures.archived
        }

    async def aclose(self) -> None:
        """Finish and release everything; idempotent."""
        await self.notes.aclose()
        await self.layers.aclose()
        if "sessions" in self.__dict__:
            await self.sessions.meaning.aclose()
        if self.ref_options.store is not None:
            await self.ref_options.store.aclose()
        await self.store.aclose()
