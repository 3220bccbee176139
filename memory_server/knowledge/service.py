"""All knowledge of a home: its families, what a prompt brings to mind of them, and their past."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection
from functools import cached_property
from typing import TYPE_CHECKING

from memory_server.kernel.errors import InvalidInput, MemoryNotFound, StorageError
from memory_server.kernel.messages import without_surrogates
from memory_server.kernel.recalled_block import one_line
from memory_server.kernel.scopes import Scope
from memory_server.kernel.values import dataclass
from memory_server.knowledge.auto_recall import AutoRecalled, lines_of, meant, question_of
from memory_server.knowledge.entry import Entry, Filter
from memory_server.knowledge.families import Families
from memory_server.knowledge.ports import ScopeView
from memory_server.knowledge.projects import Project

if TYPE_CHECKING:
    from memory_server.knowledge.lifecycle import KnowledgeLifecycle

log = logging.getLogger(__name__)
LAYERS_SECONDS = 2.0
"""The time for entries of layers that come without a request: a hook has 5 seconds, which other memories need too."""


@dataclass(eq=False)
class Knowledge(Families):
    """The families of knowledge, with what is done with all of them at once."""

    @cached_property
    def lifecycle(self) -> KnowledgeLifecycle:
        """The past of all of it."""
        from memory_server.knowledge.lifecycle import KnowledgeLifecycle

        return KnowledgeLifecycle(self)

    async def unasked(
        self, text: str, max_chars: int, toolsets: Collection[str], project: Project | None = None
    ) -> tuple[str, list[str]]:
        """Return lines about the notes and entries of layers that a prompt with `text` should have, and their names;
        both empty if no entry fits. `toolsets` names which of the two may come; `project` is as in `Notes`. No use is
        counted."""
        question = question_of(without_surrogates(text))
        if not question:
            return "", []
        candidates: list[AutoRecalled] = []
        if "notes" in toolsets:
            candidates += await self._unasked_notes(question, project)
        if "layers" in toolsets:
            candidates += await self._unasked_layers(question)
        recalled = meant(candidates)
        lines = lines_of(recalled, max_chars)
        return lines, [entry.name for entry in recalled if entry.name in lines]

    async def _unasked_notes(self, question: str, project: Project | None) -> list[AutoRecalled]:
        notes = await self.notes.recall(question, reinforce=False, project=project, unasked=True)
        return [AutoRecalled(hit, f"note “{one_line(hit.entry.title)}”") for hit in notes.hits]

    async def _unasked_layers(self, question: str) -> list[AutoRecalled]:
        """Return the entries of layers for a question, from the layers that could be read in time."""
        recalled: list[AutoRecalled] = []

        try:
            async with asyncio.timeout(LAYERS_SECONDS):
                for layer in self.layers.known:
                    of_others = layer.folder.project is not None
                    hits = await layer.unasked(question)
                    recalled += [
                        AutoRecalled(hit, one_line(layer.file_of(hit.entry)), of_others)
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
