"""Knowledge and its models, put together as the settings say."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from memory_server.config import Settings
from memory_server.kernel.errors import InvalidInput, StorageError
from memory_server.kernel.files import has_git, is_ours, nearest
from memory_server.kernel.options import extended
from memory_server.kernel.values import frozen
from memory_server.knowledge.layers import LayerName, LayerOptions
from memory_server.knowledge.policies import Options
from memory_server.knowledge.projects import Project, named_by_user
from memory_server.knowledge.refs import RefOptions
from memory_server.knowledge.service import Knowledge
from memory_server.knowledge.sessions.models import SessionOptions
from memory_server.storage.repositories import project_at

if TYPE_CHECKING:
    from memory_server.knowledge.ports import Embeddings, EntryFolder, ModelLedger, Models
    from memory_server.llm.chain import ProviderClient
    from memory_server.memories.memories import Memories
    from memory_server.memories.recalls import Recalls
    from memory_server.memories.word_giver import WordGiver
    from memory_server.runtime.upkeep import Maintenance
    from memory_server.storage.data_dir import Home

WORDS_SECONDS = 60.0
"""The timeout of a request for the words of 30 memories, some 2,400 tokens: models of this machine write 40 a second,
and no caller waits."""


def knowledge_of(
    settings: Settings,
    home: Home,
    clock: Callable[[], int],
    refuse: Callable[[], None],
    *,
    folder: Path | None,
    layers: bool = True,
) -> Knowledge:
    """Open the knowledge of `home`, for a client that was started in `folder`. If `folder` is None, the data folder is
    one of many, and nothing outside of it is looked at. `layers` says whether its layers are part of it. `refuse`
    raises if nothing may be stored."""
    user_options = settings.knowledge
    documents = settings.notes.documents

    project: Project | None = None
    if user_options.project:
        project = named_by_user(user_options.project)
    elif user_options.project is None and folder is not None:
        project = project_at(folder, on_several_machines=home.on_several_machines)

    # Pages are written only for the user of this machine.
    publish = None
    if documents is not None and folder is not None:
        publish = partial(home.publish, documents)

    options = extended(
        Options,
        user_options,
        here=project,
        needs_project=folder is not None and user_options.project is None,
        is_elsewhere=partial(_has_other_folder, home),
        keep_ms=settings.storage.keep_ms,
        refuse=refuse,
        secrets=settings.secret_filter,
        publish=publish,
    )

    store = home.entries(
        durability=user_options.durability,
        cache_mb=user_options.cache_mb,
        embeds=settings.llm.embeddings.model,
    )

    configured = _models(settings, clock, store)
    return Knowledge(
        store,
        clock,
        options,
        _ref_options(settings, home),
        _layer_options(settings, home, folder) if layers else LayerOptions(),
        _session_options(settings),
        configured.models,
        configured.embeddings,
    )


def word_giver_of(settings: Settings, memories: Memories) -> WordGiver:
    """Return what asks the models of the settings for the other words of memories, as far as they may be asked."""
    from memory_server.memories.word_giver import WordGiver

    knowledge = memories.knowledge
    models = knowledge.models
    if models is not None:
        models = models.patient(WORDS_SECONDS)
    return WordGiver(
        memories.conversations,
        memories.services,
        knowledge.store,
        models,
        enabled=settings.gives_words,
        tokens_per_day=settings.llm.tokens_per_day,
    )


def maintenance_of(
    settings: Settings, home: Home, memories: Memories, recalls: Recalls
) -> Maintenance:
    """Return the upkeep of a home: its engines, the record of recalls, vectors and other words."""
    from memory_server.operations.examining import drop_unrecorded
    from memory_server.runtime.upkeep import Maintenance

    clock = memories.services.clock

    async def tidy(seen_from_ms: int) -> None:
        """Tidy the record of recalls and its questions, and vectors of users' memories and of conversations, which are
        in one table."""
        with suppress(OSError):
            await asyncio.to_thread(recalls.tidy, seen_from_ms, home.questions)
            with suppress(InvalidInput):  # a line that a person has to mend
                if await asyncio.to_thread(home.questions.lines):
                    await drop_unrecorded(home.questions, memories.services, recalls, clock())
        meaning = memories.knowledge.sessions.meaning
        await meaning.make_missing()
        if meaning.embeddings is not None:
            await memories.conversations.tidy_vectors(meaning)
        else:  # another process may still use them
            await memories.knowledge.store.forget_vectors(
                [], seen_from_ms - settings.storage.keep_ms
            )

    async def give_words() -> None:
        if settings.gives_words:
            await word_giver_of(settings, memories).keep_up()

    return Maintenance(lambda: memories.engines, home.ledger, clock, tidy, give_words)


@frozen
class _ConfiguredModels:
    """The models of the settings, or None without models."""

    models: Models | None = None
    embeddings: Embeddings | None = None


def _models(settings: Settings, clock: Callable[[], int], ledger: ModelLedger) -> _ConfiguredModels:
    """Return the models that the settings name; none if the settings are read-only, because
    spending could not be counted then. Nothing is imported without models."""
    llm = settings.llm
    # A server that may not write could not count what it spends.
    if settings.read_only:
        return _ConfiguredModels()

    if not llm.providers and not llm.embeddings.model:
        return _ConfiguredModels()
    from memory_server.llm.chain import Embedder, FallbackChain, ProviderClient
    from memory_server.llm.wire import Provider

    def client_of(values: dict[str, Any]) -> ProviderClient:
        return ProviderClient(Provider(**values), ledger, clock, os.environ, llm.tokens_per_day)

    models = None
    if llm.providers:
        clients = [client_of(provider.model_dump()) for provider in llm.providers]
        models = FallbackChain(clients, llm.seconds, llm.total_seconds)

    embeddings = None
    if llm.embeddings.model:
        embeddings = Embedder(client_of({"kind": "openai", **llm.embeddings.model_dump()}))

    return _ConfiguredModels(models, embeddings)


def _ref_options(settings: Settings, home: Home) -> RefOptions:
    """Return the options of refs, with a store of their own if they are kept only in memory."""
    store = None
    if settings.refs.backend == "memory":
        store = home.passing_entries()
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
    """Return the bytes of the JSON of a page, which must fit into a result with the fields around it."""
    return settings.results.max_bytes * 4 // 5


def _layer_options(settings: Settings, home: Home, folder: Path | None) -> LayerOptions:
    """Return the options of layers, with a function that opens the folder of each. For a tenant
    (`folder` None) they are in the data folder; else in the user's home and in the project of
    `folder`, where these exist."""
    layers = settings.layers
    paths: dict[LayerName, Path] = {}

    project: Path | None = None
    # A tenant sees no folders of this machine, only its own data folder.
    if folder is None:
        paths["global"] = home.layers / "global"
        paths["project"] = home.layers / "project"
    else:
        # This user may have no home folder.
        with suppress(RuntimeError):
            paths["global"] = Path.home() / layers.folder / "memory"
        if layers.project_dir is not None:
            project = layers.project_dir.absolute()
        else:
            project = _project_folder(layers.folder, folder, paths.get("global"))
        if project is not None:
            paths["project"] = project / layers.folder / (layers.session_id or "") / "memory"

    folders: dict[LayerName, Callable[[], EntryFolder]] = {}
    for name, path in paths.items():
        project_of_layer = None
        if name == "project":
            project_of_layer = project
        folders[name] = partial(home.layer, path, settings.zone, project_of_layer)

    return extended(
        LayerOptions,
        layers,
        folders=folders,
        tidy=settings.names_toolset("layers"),
        least_share=settings.knowledge.least_share,
    )


async def _has_other_folder(home: Home, name: str, project: Project) -> bool:
    """Return whether something was said in a folder that has this name and belongs to another project, as the
    conversations of `home` hold it. This reads all conversations, but only while notes have only a name."""
    folders: set[str] = set()
    for conversation_id in await home.conversations.conversations():
        try:
            state = await home.conversations.read(conversation_id)
        except StorageError:
            # Without this conversation it cannot be known.
            return True
        folders |= {memory.folder for memory in state.short_term.values() if memory.folder}

    folders_of_name = [Path(folder) for folder in folders if re.split(r"[/\\]", folder)[-1] == name]

    # Such a folder is on another machine.
    if not all(folder.is_absolute() for folder in folders_of_name):
        return True

    for folder in folders_of_name:
        project_of_folder = project_at(folder, on_several_machines=home.on_several_machines)
        if project_of_folder is None or project_of_folder.key != project.key:
            return True
    return False


def _project_folder(folder_name: str, start: Path, global_layer: Path | None) -> Path | None:
    """Return the nearest folder of this user, from `start` upwards, with `.git`, or with a folder of layers
    (`folder_name`) that is not the folder of all projects (`global_layer`)."""

    def is_project(folder: Path) -> bool:
        if has_git(folder):
            return True
        folder_of_layers = folder / folder_name
        return folder_of_layers / "memory" != global_layer and is_ours(folder_of_layers)

    return nearest(start, is_project)
