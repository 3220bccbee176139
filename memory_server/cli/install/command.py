"""`install` and `uninstall`: the server in a client's settings, and out of them as if it had never been there."""

from __future__ import annotations

import json
import os
import sys
from argparse import Namespace
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from memory_server.cli.install import edits
from memory_server.cli.install.claude_command import Registration, claude_is_here
from memory_server.cli.install.client_files import ClientFile, bytes_of, say, text_of
from memory_server.cli.install.entries import HOOK_EVENTS, HOOKS_VARIABLE, Server, hook_entry, server_entry
from memory_server.cli.install.executable import command_here
from memory_server.cli.install.places import (
    Client,
    Machine,
    System,
    hooks_file,
    packages_folder,
    servers_file,
    servers_name,
)
from memory_server.cli.install.present import Present, present
from memory_server.cli.install.project_name import ProjectName
from memory_server.config import Settings
from memory_server.core.errors import InvalidInput

TITLES: dict[Client, str] = {
    "claude-code": "Claude Code",
    "claude-desktop": "Claude Desktop",
    "cursor": "Cursor",
    "vscode": "VS Code",
}
FLAGS = ("data-dir", "config", "conversation", "timezone")
"""Settings given to `install` that the server and its hooks are then started with."""
OFFER = ("toolsets", "tools", "exclude-tools", "read-only")
"""Likewise, but of no use to a hook."""
PATHS = ("data-dir", "config")


async def install(settings: Settings, flags: Namespace) -> int:
    """Put the server into the client's settings, or with `print` show what belongs there."""
    machine, server = _machine(), _server(flags)
    if flags.client == "print":
        _print(server, machine.system)
        return 0
    client: Client = flags.client
    if flags.with_hooks and client != "claude-code":
        raise InvalidInput(f"{TITLES[client]} has no hooks; --with-hooks is for claude-code.")
    steps = _steps(client, machine, server, _project(flags), hooks="wanted" if flags.with_hooks else "kept in step")
    for entry in _entries(steps):
        entry.with_it()  # none is changed where one cannot be
    changed = [step.put(dry_run=flags.dry_run) for step in steps]
    if any(changed) and not flags.dry_run:
        say(f"Start {TITLES[client]} anew to use it.")
    return 0


async def uninstall(settings: Settings, flags: Namespace) -> int:
    """Take the server out of the client's settings, and its hooks."""
    machine, server = _machine(), _server(flags)
    client: Client = flags.client
    steps = _steps(client, machine, server, _project(flags), hooks="taken out")
    for entry in _entries(steps):
        entry.without_it()  # none is changed where one cannot be
    for step in steps:
        step.take(dry_run=flags.dry_run)
    return 0


@dataclass(frozen=True, slots=True)
class Said:
    """A step that is not needed, and why."""

    why: str

    def put(self, *, dry_run: bool) -> bool:
        say(self.why)
        return False

    def take(self, *, dry_run: bool) -> None:
        """Nothing was put there."""


def _entries(steps: Sequence[Registration | ClientFile | ProjectName | Said]) -> list[Registration | ClientFile]:
    """Those that change what is a client's."""
    return [step for step in steps if isinstance(step, Registration | ClientFile)]


Hooks = Literal["wanted", "kept in step", "taken out"]


def _steps(
    client: Client, machine: Machine, server: Server, project: Path | None, *, hooks: Hooks
) -> Sequence[Registration | ClientFile | ProjectName | Said]:
    if client == "claude-code" and project is not None:
        return _steps_of_project(machine, server, project, hooks=hooks)
    if client != "claude-code":
        return [ClientFile.read(servers_file(client, machine, project), edits.of_server(server, client))]
    file = ClientFile.read(hooks_file(machine), edits.of_hooks(server, machine.system))
    # Hooks that are there are of the same memory as the server, whatever is changed about it; and it knows of them.
    with_hooks = hooks == "wanted" or file.has_it
    server = replace(server, hooks=with_hooks)
    listed: Registration | ClientFile = (
        Registration.of(server, machine)
        if claude_is_here()
        else ClientFile.read(servers_file(client, machine), edits.of_server(server, client))
    )
    return [listed, file] if with_hooks or hooks == "taken out" else [listed]


def _steps_of_project(
    machine: Machine, server: Server, project: Path, *, hooks: Hooks
) -> Sequence[ClientFile | ProjectName | Said]:
    """Those of Claude Code in one project. Its conversation stands in a file that every hook and server looks for: what
    is there for all projects is not put there a second time."""
    flags = dict(server.flags)
    steps: list[ClientFile | ProjectName | Said] = [ProjectName.read(project, flags.pop("conversation", None))]
    everywhere = _everywhere(machine)
    server = replace(server, flags=flags)
    file = ClientFile.read(hooks_file(machine, project), edits.of_hooks(server, machine.system))
    server = replace(server, hooks=hooks == "wanted" or file.has_it or everywhere.hooks)
    listed = ClientFile.read(servers_file("claude-code", machine, project), edits.of_server(server, "claude-code"))
    if hooks == "taken out":
        return [*steps, listed, file]
    if everywhere.server and not listed.has_it:
        steps.append(Said("Claude Code has the server for all projects already; no second one was put here."))
    else:
        steps.append(listed)
    if everywhere.hooks and not file.has_it:
        steps.append(Said("Claude Code has the hooks for all projects already; no second ones were put here."))
    elif hooks == "wanted" or file.has_it:
        steps.append(file)
    return steps


def _everywhere(machine: Machine) -> Present:
    def parsed(path: object) -> object:
        data = bytes_of(Path(str(path)))
        with suppress(ValueError):
            return None if data is None else json.loads(text_of(data))
        return None

    return present(parsed(servers_file("claude-code", machine)), parsed(hooks_file(machine)))


def _project(flags: Namespace) -> Path | None:
    return None if flags.project is None else Path(flags.project).absolute()


def _machine() -> Machine:
    system: System = "windows" if sys.platform == "win32" else "macos" if sys.platform == "darwin" else "linux"
    machine = Machine(system, Path.home(), os.environ)
    folder = packages_folder(machine)
    found = [] if folder is None else sorted(path for path in Path(folder).glob("Claude_*") if path.is_dir())
    return replace(machine, packages=tuple(found))


def _server(flags: Namespace) -> Server:
    executable, called_as = Path(sys.executable).absolute(), Path(sys.argv[0]).absolute()
    command = command_here(executable, called_as, _machine().system, os.path.exists)
    return Server(flags.name, command, _given(flags, FLAGS), _given(flags, OFFER))


def _given(flags: Namespace, names: Sequence[str]) -> dict[str, str | None]:
    given: dict[str, str | None] = {}
    for name in names:
        value = getattr(flags, name.replace("-", "_"), None)
        if name in PATHS and value is not None:
            # It is meant from here, but the client starts the server elsewhere.
            value = str(Path(value).expanduser().absolute())
        if value is not None:
            given[name] = None if value is True else value
    return given


def _print(server: Server, system: System) -> None:
    hooks_known = json.dumps(HOOKS_VARIABLE)
    blocks: list[tuple[str, object]] = [
        ("Claude Desktop (claude_desktop_config.json), Cursor (.cursor/mcp.json)", _list(server, "cursor")),
        ("VS Code (.vscode/mcp.json, or mcp.json of the user)", _list(server, "vscode")),
        ("Claude Code (.mcp.json of a project)", _list(server, "claude-code")),
        (
            f"Claude Code's hooks (.claude/settings.json of the user or a project; in the server's env: {hooks_known})",
            {"hooks": {event: [hook_entry(server, event, system)] for event in HOOK_EVENTS}},
        ),
    ]
    for title, block in blocks:
        say(f"# {title}\n{json.dumps(block, indent=2, ensure_ascii=False)}\n")


def _list(server: Server, client: Client) -> dict[str, object]:
    return {servers_name(client): {server.name: server_entry(server, client)}}
