"""Knowledge and its models, put together as the settings say."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from memory_server.config import Settings
from memory_server.kernel.errors import StorageError
from memory_server.kernel.options import extended
from memory_server.knowledge.layers import LayerName, LayerOptions
from memory_server.knowledge.policies import Options
from memory_server.knowledge.projects import Project, named_by_user
from memory_server.knowledge.refs import RefOptions
from memory_server.knowledge.service import Knowledge
from memory_server.knowledge.sessions.models import SessionOptions
from memory_server.storage.projects import has_git, is_ours, nearest
from memory_server.storage.repositories import project_at

if TYPE_CHECKING:
    from memory_server.knowledge.ports import Embeddings, ModelLedger, Models
    from memory_server.llm.chain import ProviderClient
    from memory_server.memories.memories import Memories
    from memory_server.memories.recalls import Recalls
    from memory_server.memories.word_giver import WordGiver
    from memory_server.storage.data_dir import Home
    from memory_server.upkeep import Maintenance

WORDS_SECONDS = 60.0
"""For the words of 30 memories, some 2,400 tokens: models of this machine write 40 a second, and nobody waits."""


def knowledge_of(
    settings: Settings, home: Home, clock: Callable[[], int], refuse: Callable[[], None], *, folder: Path | None
) -> Knowledge:
    """The knowledge of `home`, for a client that was started in `folder`. None: the data folder is one of many, and
    nothing outside of it is looked at. `refuse` raises where nothing may be stored."""
    given, notes = settings.knowledge, settings.notes
    here: Project | None = None
    if given.project:
        here = named_by_user(given.project)
    elif given.project is None and folder is not None:
        here = project_at(folder, on_several_machines=home.on_several_machines)
    options = extended(
        Options,
        given,
        here=here,
        is_elsewhere=_KnownFolders(home).has_other,
        keep_ms=settings.storage.keep_ms,
        refuse=refuse,
        publish=None if notes.documents is None or folder is None else partial(home.publish, notes.documents),
    )
    embeds = settings.llm.embeddings.model
    store = home.entries(durability=given.durability, cache_mb=given.cache_mb, embeds=embeds)
    families = _ref_options(settings, home), _layer_options(settings, home, folder), _session_options(settings)
    return Knowledge(store, clock, options, *families, *_models(settings, clock, store))


def word_giver_of(settings: Settings, memories: Memories) -> WordGiver:
    """What asks the models of the settings for the other words of memories, as far as they may be asked."""
    from memory_server.memories.word_giver import WordGiver

    given, knowledge = settings.llm, memories.knowledge
    models = knowledge.models
    if models is not None:
        models = models.patient(WORDS_SECONDS)
    enabled = settings.gives_words
    return WordGiver(memories.conversations, memories.services, knowledge.store, models, enabled, given.tokens_per_day)


def maintenance_of(settings: Settings, home: Home, memories: Memories, recalls: Recalls) -> Maintenance:
    """The upkeep of a home: its engines, the record of recalls, vectors and other words."""
    from memory_server.upkeep import Maintenance

    clock = memories.services.clock

    async def tidy() -> None:
        """The record of recalls; vectors of users' memories and of conversations, which are in one table."""
        with suppress(OSError):
            await asyncio.to_thread(recalls.tidy)
        meaning = memories.knowledge.sessions.meaning
        await meaning.make_missing()
        if meaning.embeddings is not None:
            await memories.conversations.tidy_vectors(meaning)
        else:  # another process may still use them
            await memories.knowledge.store.forget_vectors([], clock() - settings.storage.keep_ms)

    async def give_words() -> None:
        if settings.gives_words:
            await word_giver_of(settings, memories).keep_up()

    return Maintenance(lambda: memories.engines, home.ledger, clock, tidy, give_words)


def _models(
    settings: Settings, clock: Callable[[], int], ledger: ModelLedger
) -> tuple[Models | None, Embeddings | None]:
    """The models of the settings; None: there are none. Nothing is imported where there is neither."""
    given, embeds = settings.llm, settings.llm.embeddings
    if settings.read_only or not (given.providers or embeds.model):
        return None, None  # a server that may not write could not count what it spends
    from memory_server.llm.chain import Embedder, FallbackChain, ProviderClient
    from memory_server.llm.wire import Provider

    def line(values: dict[str, Any]) -> ProviderClient:
        return ProviderClient(Provider(**values), ledger, clock, os.environ, given.tokens_per_day)

    lines = [line(each.model_dump()) for each in given.providers]
    embedder = Embedder(line({"kind": "openai"} | embeds.model_dump())) if embeds.model else None
    return FallbackChain(lines, given.seconds, given.total_seconds) if lines else None, embedder


def _ref_options(settings: Settings, home: Home) -> RefOptions:
    store = home.passing_entries() if settings.refs.backend == "memory" else None
    return extended(RefOptions, settings.refs, page_bytes=_page_bytes(settings), store=store)


def _session_options(settings: Settings) -> SessionOptions:
    return extended(
        SessionOptions,
        settings.sessions,
        least_share=settings.knowledge.least_share,
        page_bytes=_page_bytes(settings),
        **settings.llm.model_dump(include={"extraction_prompt", "merge_prompt", "total_seconds"}),
    )


def _page_bytes(settings: Settings) -> int:
    """Of the JSON of a page, which must fit into a result with what stands around it."""
    return settings.results.max_bytes * 4 // 5


def _layer_options(settings: Settings, home: Home, folder: Path | None) -> LayerOptions:
    given = settings.layers
    folders: dict[LayerName, Path] = {}
    project: Path | None = None
    if folder is None:
        folders = {"global": home.layers / "global", "project": home.layers / "project"}
    else:
        with suppress(RuntimeError):  # this user has no home folder
            folders["global"] = Path.home() / given.folder / "memory"
        named = None if given.project_dir is None else given.project_dir.absolute()
        if (project := named or _project_folder(given.folder, folder, folders.get("global"))) is not None:
            folders["project"] = project / given.folder / (given.session_id or "") / "memory"
    return extended(
        LayerOptions,
        given,
        folders={
            name: partial(home.layer, place, settings.zone, project if name == "project" else None)
            for name, place in folders.items()
        },
        tidy=settings.names_toolset("layers"),
        least_share=settings.knowledge.least_share,
    )


@dataclass(frozen=True, slots=True)
class _KnownFolders:
    """The folders in which something was said that the conversations of `home` hold."""

    home: Home

    async def has_other(self, name: str, project: Project) -> bool:
        """Whether one of them has this name and is of another project. This reads all conversations, but only while
        notes have nothing but a name."""
        folders: set[str] = set()
        for conversation_id in await self.home.conversations.conversations():
            try:
                state = await self.home.conversations.read(conversation_id)
            except StorageError:
                return True  # it cannot be known
            folders |= {memory.folder for memory in state.short_term.values() if memory.folder}
        named = [Path(folder) for folder in folders if re.split(r"[/\\]", folder)[-1] == name]
        if not all(folder.is_absolute() for folder in named):
            return True  # one of another machine
        several = self.home.on_several_machines
        projects = [project_at(folder, on_several_machines=several) for folder in named]
        return any(other is None or other.key != project.key for other in projects)


def _project_folder(name: str, folder: Path, everywhere: Path | None) -> Path | None:
    """The nearest folder upwards with `.git`, or with a folder of layers (`name`) that is not the one of all projects;
    of this user."""
    return nearest(
        folder, lambda each: has_git(each) or (each / name / "memory" != everywhere and is_ours(each / name))
    )
