"""`install` and `uninstall`: put the server into a client's settings, and remove it without a trace."""

from __future__ import annotations

import json
import os
import shutil
import sys
from argparse import Namespace
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from memory_server.cli.install import edits
from memory_server.cli.install.clients import (
    CLIENTS,
    HOOK_EVENTS,
    HOOKS_VARIABLE,
    Client,
    Machine,
    Server,
    System,
    command_here,
    hook_entry,
    hooks_file,
    packages_folder,
    present,
    server_entry,
    servers_file,
)
from memory_server.cli.install.steps import ClientFile, Own, Plan, ProjectName, bytes_of
from memory_server.config import Settings
from memory_server.core.errors import InvalidInput

FLAGS = ("data-dir", "config", "conversation", "timezone")
"""Settings given to `install`: the server and its hooks are started with them."""
OFFER = ("toolsets", "tools", "exclude-tools", "read-only")
"""The same, but only for the server."""
PATHS = ("data-dir", "config")

Hooks = Literal["wanted", "kept in step", "taken out"]
Step = ClientFile | ProjectName


async def install(settings: Settings, flags: Namespace) -> None:
    """Put the server into the client's settings, or with `print` show what belongs there."""
    machine, server = _machine(), _server(flags)
    if flags.client == "print":
        _print(server, machine.system)
        return
    client: Client = flags.client
    if flags.with_hooks and client != "claude-code":
        raise InvalidInput(f"{CLIENTS[client].title} has no hooks; --with-hooks is for claude-code.")
    steps, said = _steps(client, machine, server, _project(flags), "wanted" if flags.with_hooks else "kept in step")
    changed = _do([*(step.put() for step in steps), *map(Plan, said)], dry_run=flags.dry_run)
    if changed and not flags.dry_run:
        _say(f"Restart {CLIENTS[client].title} to use it.")


async def uninstall(settings: Settings, flags: Namespace) -> None:
    """Take the server out of the client's settings, and its hooks."""
    steps, _ = _steps(flags.client, _machine(), _server(flags), _project(flags), "taken out")
    _do([step.take() for step in steps], dry_run=flags.dry_run)


def _do(plans: Sequence[Plan], *, dry_run: bool) -> bool:
    """Carry out the plans, or only show them; returns whether something changes. All plans are made before the first is
    carried out: if one is not possible, nothing is changed."""
    for plan in plans:
        if plan.act is not None and not dry_run:
            plan.act()
        if line := plan.shown if dry_run and plan.act else plan.said:
            _say(line)
    return any(plan.act for plan in plans)


def _steps(
    client: Client, machine: Machine, server: Server, project: Path | None, hooks: Hooks
) -> tuple[list[Step], list[str]]:
    """The steps, and sentences on what need not be changed."""
    if client == "claude-code" and project is not None:
        return _steps_of_project(machine, server, project, hooks)
    if client != "claude-code":
        place, own = servers_file(client, machine, project), None
        if client == "vscode" and project is None and shutil.which("code"):
            own = Own(("code", "--add-mcp", json.dumps({"name": server.name, **server_entry(server, client)})))
        return [ClientFile.read(place, edits.of_server(server, client), own)], []
    file = ClientFile.read(hooks_file(machine), edits.of_hooks(server, machine.system))
    # Existing hooks must use the same memory as the server, also after a change; and the server must know of them.
    with_hooks = hooks == "wanted" or file.has_it
    server = replace(server, hooks=with_hooks)
    own = None
    if shutil.which("claude"):
        # The client writes this file all the time, so both programs could write at once.
        entry, scope = json.dumps(server_entry(server, client), ensure_ascii=False), ("--scope", "user", server.name)
        own = Own(("claude", "mcp", "add-json", *scope, entry), ("claude", "mcp", "remove", *scope))
    listed = ClientFile.read(servers_file(client, machine), edits.of_server(server, client), own)
    return [listed, file] if with_hooks or hooks == "taken out" else [listed], []


def _steps_of_project(machine: Machine, server: Server, project: Path, hooks: Hooks) -> tuple[list[Step], list[str]]:
    """The steps for Claude Code in one project. Its conversation is in a file that every hook and server looks for: so
    a server or hooks for all projects are not added a second time."""
    flags = dict(server.flags)
    name = ProjectName.read(project, flags.pop("conversation", None))
    has_server, has_hooks = present(_parsed(servers_file("claude-code", machine)), _parsed(hooks_file(machine)))
    server = replace(server, flags=flags)
    file = ClientFile.read(hooks_file(machine, project), edits.of_hooks(server, machine.system))
    server = replace(server, hooks=hooks == "wanted" or file.has_it or has_hooks)
    listed = ClientFile.read(servers_file("claude-code", machine, project), edits.of_server(server, "claude-code"))
    if hooks == "taken out":
        return [name, listed, file], []
    steps, said = list[Step]([name]), []
    if has_server and not listed.has_it:
        said.append("Claude Code has the server for all projects already; none was added here.")
    else:
        steps.append(listed)
    if has_hooks and not file.has_it:
        said.append("Claude Code has the hooks for all projects already; none were added here.")
    elif hooks == "wanted" or file.has_it:
        steps.append(file)
    return steps, said


def _parsed(path: object) -> Any:
    with suppress(ValueError):
        return json.loads(bytes_of(Path(str(path))) or b"null")
    return None


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
            # The path is relative to here, but the client starts the server elsewhere.
            value = str(Path(value).expanduser().absolute())
        if value is not None:
            given[name] = None if value is True else value
    return given


def _print(server: Server, system: System) -> None:
    listed = {client: {form.listed: {server.name: server_entry(server, client)}} for client, form in CLIENTS.items()}
    hooks = {"hooks": {event: [hook_entry(server, event, system)] for event in HOOK_EVENTS}}
    in_env = f"in the server's env: {json.dumps(HOOKS_VARIABLE)}"
    for title, block in (
        ("Claude Desktop (claude_desktop_config.json), Cursor (.cursor/mcp.json)", listed["cursor"]),
        ("VS Code (.vscode/mcp.json, or mcp.json of the user)", listed["vscode"]),
        ("Claude Code (.mcp.json of a project)", listed["claude-code"]),
        (f"Claude Code's hooks (.claude/settings.json of the user or a project; {in_env})", hooks),
    ):
        _say(f"# {title}\n{json.dumps(block, indent=2, ensure_ascii=False)}\n")


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
