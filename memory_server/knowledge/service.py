"""All knowledge of a home: its families, what a prompt brings to mind of them, and their past."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from memory_server.kernel.errors import InvalidInput, MemoryNotFound, StorageError
from memory_server.kernel.messages import without_surrogates
from memory_server.kernel.recalled_block import one_line
from memory_server.kernel.scopes import Scope
from memory_server.knowledge.auto_recall import AutoRecalled, lines_of, meant, question_of
from memory_server.knowledge.entry import Entry, Filter, Hit
from memory_server.knowledge.families import Families
from memory_server.knowledge.ports import ScopeView
from memory_server.knowledge.projects import Project

if TYPE_CHECKING:
    from memory_server.knowledge.lifecycle import KnowledgeLifecycle

log = logging.getLogger(__name__)
LAYERS_SECONDS = 2.0
"""For entries of layers that nobody asked for: a hook has 5 seconds, which other memories need too."""


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
