"""Say which folder and process holds what (`where`). This module imports no engine and no tool, so that it answers at
once."""

from __future__ import annotations

import asyncio
import os
import time
from argparse import Namespace
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from languages import N_, _
from languages.columns import padded
from memory_server.cli.daemon import describe, running_for
from memory_server.cli.terminal import console, escape, print_columns, print_plain, say
from memory_server.config import Settings, default_config_file, named_config_file
from memory_server.config.project_file import ProjectFile, project_at
from memory_server.kernel.streams import write
from memory_server.kernel.values import JsonObject, frozen
from memory_server.process.hosts import Host
from memory_server.process.workspace import Workspace, workspace_of
from memory_server.runtime.composition import knowledge_of
from memory_server.runtime.homes import copies_text, home_of

if TYPE_CHECKING:
    from memory_server.kernel.link import Link
    from memory_server.kernel.private import Pause
    from memory_server.knowledge.entry import Figures
    from memory_server.knowledge.projects import Project
    from memory_server.runtime.homes import Home, RefusedTurn

_MOST_REFUSED = 5
"""Refused turns that are named, the newest; --json names all."""


@frozen
class _Places:
    """All that the command shows of a data folder. `figures` are by family name; `layers` holds the folder of each
    layer. `notes_of` is the project whose notes come here, or None if it is not known. `shared` holds the sockets of
    shared processes with their facts, which are empty if the process does not answer."""

    home: Home
    settings_file: Path
    figures: Mapping[str, Figures]
    conversation_ids: Sequence[str]
    tenants: Sequence[str]
    layers: Mapping[str, Path]
    pause: Pause | None
    project: ProjectFile | None
    workspace: Workspace
    notes_of: Project | None
    shared: Sequence[tuple[Path, dict[str, Any]]]
    link: Link | None
    waiting: int
    refused: Sequence[RefusedTurn]
    copies: Sequence[Path]


async def where(settings: Settings, flags: Namespace, host: Host) -> None:
    """Print which folder and process holds what, or with --json write it."""
    workspace = workspace_of(os.environ, host.folder)
    places = await _places(settings, _settings_file(flags), workspace)
    if flags.json:
        write(_json_of(places, settings))
    else:
        _print(places, settings)


async def _places(settings: Settings, settings_file: Path, workspace: Workspace) -> _Places:
    """Find out what `where` tells of: counts, conversations, tenants, pause, project, link,
    processes. Raises InvalidInput if a file of the folder or the link cannot be used."""
    work_folder = workspace.folder
    home = home_of(settings, lambda: settings.now_ms or time.time_ns() // 1_000_000)

    knowledge = knowledge_of(settings, home, home.clock, lambda: None, folder=work_folder)

    try:
        figures = await knowledge.overview(layers=True)
        conversation_ids = await home.conversations.conversations()
        tenants = home.tenant_names()
        pause = home.pause.read(home.clock())
        project = project_at(work_folder)
    finally:
        await knowledge.aclose()
        await home.aclose()

    return _Places(
        home=home,
        settings_file=settings_file,
        figures=figures,
        conversation_ids=conversation_ids,
        tenants=tenants,
        layers={f"layers/{layer.name}": layer.folder.place for layer in knowledge.layers.known},
        pause=pause,
        project=project,
        workspace=workspace,
        notes_of=knowledge.notes.project_of(),
        # In a thread, because the process that answers may be this one.
        shared=await asyncio.to_thread(running_for, home.shown),
        link=home.link.read(),
        waiting=len(home.outbox.waiting()),
        refused=home.outbox.refused(),
        copies=await asyncio.to_thread(home.conflict_copies),
    )


def _json_of(places: _Places, settings: Settings) -> JsonObject:
    """Return the places as `where --json` prints them."""
    home = places.home
    sent_for_words = ""
    if settings.gives_words:
        sent_for_words = settings.llm.names

    return {
        "linked": places.link and places.link.url,
        "waiting": places.waiting,
        "refused": [{"file": str(turn.path), "reason": turn.reason} for turn in places.refused],
        "memories": home.shown,
        "conflictCopies": [str(path) for path in places.copies],
        "settings": str(places.settings_file),
        "conversation": places.project and places.project.conversation,
        "folder": str(places.workspace.folder.absolute()),
        "folderFrom": places.workspace.variable or None,
        "project": places.notes_of and places.notes_of.key,
        "paused": places.pause is not None,
        "sentForWords": sent_for_words,
        "shared": [facts for _socket, facts in places.shared if facts],
        "conversations": {name: home.place_of(name) for name in places.conversation_ids},
        "tenants": places.tenants,
        "knowledge": {
            name: {"entries": figures.count, "archived": figures.archived}
            for name, figures in places.figures.items()
        },
        "layers": {name: str(path) for name, path in places.layers.items()},
    }


def _print(places: _Places, settings: Settings) -> None:
    """Print the places for people; what does not exist has no line."""
    out = console()

    _print_link_and_outbox(places)
    file_text = str(places.settings_file)
    if not places.settings_file.is_file():
        file_text = _("{path} (no such file: defaults apply)", places.settings_file)

    say("memories  {place}\nsettings  {settings_file}", places.home.shown, file_text)

    if places.copies:
        say("synced    {sentence}", copies_text(places.copies))

    # The user should know which texts leave this machine.
    if settings.gives_words and settings.llm.providers:
        say("words     the clean-up sends memories to {models} for other words", settings.llm.names)

    if places.project is not None:
        say(
            "here      {conversation}, set by {path} for servers and hooks",
            places.project.conversation,
            str(places.project.path),
        )
    _print_project(places, settings)
    if places.pause is not None:
        print_plain(places.pause.text(settings.zone))

    for socket_path, facts in places.shared:
        out.print(f"{padded('shared', 10)}{escape(describe(socket_path, facts))}")
    if places.tenants:
        say("tenants   {names}; use --tenant NAME for one of them", ", ".join(places.tenants))

    if places.figures:
        family_table = [N_(("family", "entries", "archived", "folder"))]
        for name, figures in places.figures.items():
            layer_folder = str(places.layers.get(name, ""))
            family_table.append((name, str(figures.count), str(figures.archived), layer_folder))
        print_columns(family_table, cut=False)

    if places.conversation_ids:
        conversation_table = [(_("conversation"), _("folder"))]
        conversation_table += [
            (name, places.home.place_of(name)) for name in places.conversation_ids
        ]
        print_columns(conversation_table, cut=False)


def _print_project(places: _Places, settings: Settings) -> None:
    """Print whose notes come here, and how that was found."""
    project = places.notes_of
    if project is None:
        key = _("not known here; what belongs to a project is refused")
    elif settings.knowledge.project:
        key = _("{project}, by the setting {name}", project.key, "knowledge.project")
    elif places.workspace.variable:
        key = _("{project}, by the variable {name}", project.key, places.workspace.variable)
    else:
        key = _("{project}, by the working folder", project.key)
    say("project   {project}", key)


def _print_link_and_outbox(places: _Places) -> None:
    """Print to which server this machine is linked, and what its server has not taken yet."""
    if places.link is not None:
        say(
            "linked    {url}: windows, hooks and commands use its memory, not that of this machine",
            places.link.url,
        )

    if places.waiting or places.refused:
        say(
            "outbox    {waiting} waiting to be delivered, {refused} refused",
            places.waiting,
            len(places.refused),
        )
    for turn in places.refused[-_MOST_REFUSED:]:
        say("refused   {path}: {reason}", str(turn.path), _(turn.reason))
    if places.refused:
        say("          `memory-server link --retry-refused` sends them again")


def _settings_file(flags: Namespace) -> Path:
    path = getattr(flags, "config", None) or named_config_file(os.environ) or default_config_file()
    return Path(path).absolute()
