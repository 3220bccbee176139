"""`where`: which folder and process holds what. It imports no engine and no tool, so that it answers at once."""

from __future__ import annotations

import asyncio
import os
import time
from argparse import Namespace
from pathlib import Path

from memory_server.cli.daemon import describe, running_for
from memory_server.cli.project_file import project_at
from memory_server.cli.terminal import console, escape, print_columns, write
from memory_server.composition import knowledge_of
from memory_server.config import Settings, default_config_file, home_of, named_config_file
from sandbox import padded
from sandbox.locale import _, joined

_MOST_REFUSED = 5
"""Refused turns that are named, the newest; --json names all."""


async def where(settings: Settings, flags: Namespace, folder: Path | None = None) -> None:
    """Print it; `folder` is the one in which the command was typed, by default the working directory."""
    home = home_of(settings, lambda: settings.now_ms or time.time_ns() // 1_000_000)
    knowledge = knowledge_of(settings, home, home.clock, lambda: None, folder=folder or Path())
    try:
        held = await knowledge.overview(layers=True)
        names, tenants = await home.conversations.conversations(), home.tenant_names()
        pause, project = home.pause.read(home.clock()), project_at(folder)
    finally:
        await knowledge.aclose()
        await home.aclose()
    layers = {f"layers/{layer.name}": layer.folder.place for layer in knowledge.layers.known}
    # In a thread, because the process that answers may be this one.
    shared = await asyncio.to_thread(running_for, home.shown)
    link = home.link.read()
    waiting, refused = len(home.outbox.waiting()), home.outbox.refused()
    if flags.json:
        write(
            {
                "linked": link and link.url,
                "waiting": waiting,
                "refused": [{"file": str(turn.path), "reason": turn.reason} for turn in refused],
                "memories": home.shown,
                "settings": str(_settings_file(flags)),
                "conversation": project and project.conversation,
                "paused": pause is not None,
                "sentForWords": settings.llm.names if settings.gives_words else "",
                "shared": [known for _place, known in shared if known],
                "conversations": {name: home.place_of(name) for name in names},
                "tenants": tenants,
                "knowledge": {name: {"entries": one.count, "archived": one.archived} for name, one in held.items()},
                "layers": {name: str(place) for name, place in layers.items()},
            }
        )
        return
    out, file = console(), _settings_file(flags)
    known = str(file) if file.is_file() else _("{path} (no such file: defaults apply)", file)
    if link is not None:
        out.print(
            _("linked    {url}: windows, hooks and commands use its memory, and not the one here", escape(link.url))
        )
    if waiting or refused:
        out.print(_("outbox    {waiting} wait to be delivered, {refused} were refused", waiting, len(refused)))
    for turn in refused[-_MOST_REFUSED:]:
        out.print(_("refused   {path}: {reason}", escape(str(turn.path)), escape(turn.reason)))
    if refused:
        out.print(_("          `memory-server link --retry-refused` sends them again"))
    out.print(_("memories  {place}\nsettings  {settings_file}", escape(home.shown), escape(known)))
    if settings.gives_words and settings.llm.providers:
        out.print(_("words     the clean-up sends memories to {models} for other words", escape(settings.llm.names)))
    if project is not None:
        out.print(
            _(
                "here      {conversation}, set by {path} for servers and hooks",
                escape(project.conversation),
                escape(str(project.path)),
            )
        )
    if pause is not None:
        out.print(escape(pause.text(settings.zone)))
    for place, told in shared:
        out.print(f"{padded('shared', 10)}{escape(describe(place, told))}")
    if tenants:
        out.print(_("tenants   {names}; --tenant NAME looks into one", escape(joined(", ", tenants))))
    if held:
        rows = [(_("family"), _("entries"), _("archived"), _("folder"))]
        for space, space_figures in held.items():
            folder_of_layer = str(layers.get(space, ""))
            rows.append((space, str(space_figures.count), str(space_figures.archived), folder_of_layer))
        print_columns(rows, cut=False)
    if names:
        print_columns([(_("conversation"), _("folder")), *((name, home.place_of(name)) for name in names)], cut=False)


def _settings_file(flags: Namespace) -> Path:
    given = getattr(flags, "config", None) or named_config_file(os.environ) or default_config_file()
    return Path(given).absolute()
