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
from pathlib import Path, PurePath
from typing import Any, Literal

from memory_server.app import offered_tools
from memory_server.cli.daemon import running_for
from memory_server.cli.install import edits, sillytavern
from memory_server.cli.install.clients import (
    CLIENTS,
    Client,
    Machine,
    Server,
    System,
    command_here,
    hooks_file,
    packages_folder,
    present,
    server_entry,
    servers_file,
)
from memory_server.cli.install.steps import (
    ClientFile,
    InstallPlan,
    bytes_of,
    is_kept_out_of_git,
    project_named,
    project_unnamed,
)
from memory_server.config import ENVIRONMENT_PREFIX, Settings, load
from memory_server.kernel.errors import InvalidInput
from sandbox.locale import _, translated

FLAGS = ("data-dir", "config", "conversation", "timezone")
"""Settings given to `install`: the server and its hooks are started with them."""
OFFER = ("toolsets", "tools", "exclude-tools", "read-only")
"""The same, but only for the server."""
PATHS = ("data-dir", "config")

Hooks = Literal["wanted", "kept in step", "taken out"]


async def install(settings: Settings, flags: Namespace) -> None:
    """Put the server into the client's settings, or with `print` show what belongs there."""
    if _of_sillytavern(settings, flags, out=False):
        return
    machine, server = _machine(), _server(flags)
    offered_tools(_settings_of(server))  # a wrong name is refused here too, in the server's own words
    if flags.client == "print":
        _print(replace(server, hooks=flags.with_hooks), machine.system)
        return
    client: Client = flags.client
    plans = _plans(client, machine, server, _project(flags), "wanted" if flags.with_hooks else "kept in step")
    changed = _do(plans, dry_run=flags.dry_run)
    if not changed:
        return
    if flags.with_hooks:
        folder = settings.folder.expanduser().absolute()
        _say(
            _(
                "The hooks store each finished turn as readable text in {folder}. `memory-server pause` stops "
                "that for a while, and text between <private> and </private> is never stored.",
                folder,
            )
        )
        _say(
            _(
                "All folders share one memory. Where you left off is told in the folder where it was; "
                "--project --conversation NAME gives a folder a memory of its own."
            )
        )
    if client == "claude-code":
        rule = f'{{"permissions": {{"allow": ["mcp__{server.name}"]}}}}'
        _say(_("Claude Code asks before it uses a tool; with {rule} in its settings.json it does not ask.", rule))
    if lost := _not_carried_over(flags):
        _say(_("Not carried over from this shell: {lost}. Give the flag of the same name, such as --data-dir.", lost))
    if not flags.dry_run:
        _say(_("Restart {title} to use it.", CLIENTS[client].title))


async def uninstall(settings: Settings, flags: Namespace) -> None:
    if _of_sillytavern(settings, flags, out=True):
        return
    client: Client = flags.client
    machine, project = _machine(), _project(flags)
    folder = _folder_of(client, machine, project, flags.name) or settings.folder
    changed = _do(_plans(client, machine, _server(flags), project, "taken out"), dry_run=flags.dry_run)
    if changed and not flags.dry_run:
        _say_what_stays(folder.expanduser().absolute(), settings.daemon.idle_minutes)


def _folder_of(client: Client, machine: Machine, project: Path | None, name: str) -> Path | None:
    """The data folder that the client's entry of this name gives the server; None: it gives none."""
    try:
        text = (bytes_of(Path(str(servers_file(client, machine, project)))) or b"").decode()
        servers = edits.parsed(text, toml=CLIENTS[client].toml).get(CLIENTS[client].listed)
    except (edits.NotJson, UnicodeDecodeError, RecursionError):
        return None
    entry = servers.get(name) if isinstance(servers, dict) else None
    arguments = entry.get("args") if isinstance(entry, dict) else None
    if not isinstance(arguments, list) or "--data-dir" not in arguments[:-1]:
        return None
    return Path(str(arguments[arguments.index("--data-dir") + 1]))


def _say_what_stays(folder: Path, idle_minutes: float) -> None:
    """Say where the memories stay, and that a process which windows share runs for some minutes more."""
    if folder.is_dir():
        _say(_("The memories stay in {folder}. To remove them, delete this folder.", folder))
    if running_for(str(folder)):
        sentence = _(
            "The shared process ends {minutes:g} minutes after its last window; `memory-server daemon stop` ends it "
            "now.",
            idle_minutes,
        )
        _say(sentence)


def _of_sillytavern(settings: Settings, flags: Namespace, *, out: bool) -> bool:
    """Whether the client is SillyTavern, which does not speak MCP and has a folder of its own."""
    if flags.client != sillytavern.NAME:
        if flags.folder is not None:
            raise InvalidInput("Only sillytavern takes a folder; leave {folder} out.", flags.folder)
        return False
    _do(sillytavern.plans(settings, flags, os.environ, out=out), dry_run=flags.dry_run)
    return True


def _settings_of(server: Server) -> Settings:
    """What the installed server will have: its flags and the settings file, and nothing of this shell."""
    given = {name.replace("-", "_"): value or True for name, value in {**server.flags, **server.offer}.items()}
    file = given.pop("config", None)
    return load({}, given, None if file is None else Path(str(file)))


def _do(plans: Sequence[InstallPlan], *, dry_run: bool) -> bool:
    """Carry out the plans, or only show them; returns whether something changes. All plans are made before the first is
    carried out: if one is not possible, nothing is changed."""
    for plan in plans:
        if plan.act is not None and not dry_run:
            plan.act()
        if line := plan.shown if dry_run and plan.act else plan.said:
            _say(line)
    return any(plan.act for plan in plans)


def _plans(client: Client, machine: Machine, server: Server, project: Path | None, hooks: Hooks) -> list[InstallPlan]:
    """The plans for all files, and sentences on what need not be changed."""
    if client == "claude-code" and project is not None:
        return _of_project(machine, server, project, hooks)
    place = servers_file(client, machine, project)
    server, said = _for_others_too(server, place, project)
    file: ClientFile | None = None
    if hooks == "wanted" or (project is None and CLIENTS[client].hooks):
        hooked = hooks_file(machine, project, client)
        file = ClientFile.read(hooked, edits.of_hooks(server, machine.system, client), project)
    # Existing hooks must use the same memory as the server, also after a change; and the server must know of them.
    with_hooks = file is not None and (hooks == "wanted" or file.has_it)
    server = replace(server, hooks=with_hooks)
    own = [] if project is not None else _own_commands(client, server)
    files = [ClientFile.read(place, edits.of_server(server, client), project, *own)]
    if file is not None and (with_hooks or (hooks == "taken out" and client == "claude-code")):
        files.append(file)
    return [one.take() for one in files] if hooks == "taken out" else [*(one.put() for one in files), *said]


def _own_commands(client: Client, server: Server) -> list[list[str]]:
    """The client's own commands to add the server and to remove it, as far as it has some."""
    entry = server_entry(server, client)
    if client == "vscode" and shutil.which("code"):
        return [["code", "--add-mcp", json.dumps({"name": server.name, **entry})]]
    if client == "claude-code" and shutil.which("claude"):
        # The client writes this file all the time, so both programs could write at once.
        begin, scope = ["claude", "mcp"], ["--scope", "user", server.name]
        return [[*begin, "add-json", *scope, json.dumps(entry, ensure_ascii=False)], [*begin, "remove", *scope]]
    return []


def _of_project(machine: Machine, server: Server, project: Path, hooks: Hooks) -> list[InstallPlan]:
    """The plans for Claude Code in one project. Its conversation is in a file that every hook and server looks for: so
    a server or hooks for all projects are not added a second time."""
    flags = dict(server.flags)
    conversation = flags.pop("conversation", None)
    server = replace(server, flags=flags)
    file = ClientFile.read(hooks_file(machine, project), edits.of_hooks(server, machine.system), project)
    has_server, has_hooks = present(_parsed(servers_file("claude-code", machine)), _parsed(hooks_file(machine)))
    server = replace(server, hooks=hooks == "wanted" or file.has_it or has_hooks)
    place = servers_file("claude-code", machine, project)
    shared, said = _for_others_too(server, place, project)
    listed = ClientFile.read(place, edits.of_server(shared, "claude-code"), project)
    if hooks == "taken out":
        # Earlier versions put the hooks into the file that is committed.
        former = ClientFile.read(file.path.with_name("settings.json"), file.edits, project)
        return [
            project_unnamed(project),
            *(one.take() for one in (listed, file, former) if one != former or one.has_it),
        ]
    plans = [project_named(project, conversation)]
    if has_server and not listed.has_it:
        said = [InstallPlan(_("Claude Code has the server for all projects already; none was added here."))]
    else:
        plans.append(listed.put())
    if has_hooks and not file.has_it:
        said.append(InstallPlan(_("Claude Code has the hooks for all projects already; none were added here.")))
    elif hooks == "wanted" or file.has_it:
        plans.append(file.put())
        said += _warned(file.path)
    return plans + said


def _for_others_too(server: Server, place: PurePath, project: Path | None) -> tuple[Server, list[InstallPlan]]:
    """The server for a file of a project, which people commit: with the name of the program instead of its path if it
    is on the PATH; and a sentence if paths are left that git would keep."""
    if project is None:
        return server, []
    (program, *arguments), found = server.command, shutil.which("memory-server")
    if found and not arguments and Path(found).resolve() == Path(program).resolve():
        server = replace(server, command=["memory-server"])
    parts = [*server.command, *(server.flags.get(name) or "" for name in PATHS)]
    return server, _warned(Path(place)) if any(map(os.path.isabs, parts)) else []


def _warned(path: Path) -> list[InstallPlan]:
    if is_kept_out_of_git(path):
        return []
    return [InstallPlan(_("{path} holds paths of this machine, and git does not ignore it; do not commit it.", path))]


def _not_carried_over(flags: Namespace) -> str:
    """The settings of this shell's environment that the installed server will not have."""
    given = {ENVIRONMENT_PREFIX + name.upper() for name in vars(flags)}
    return ", ".join(sorted(name for name in os.environ if name.startswith(ENVIRONMENT_PREFIX) and name not in given))


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
    desktop = "Claude Desktop (claude_desktop_config.json), Cursor, Gemini CLI, Windsurf"
    shown = {
        desktop: edits.of_server(server, "cursor"),
        "VS Code (.vscode/mcp.json, or mcp.json of the user)": edits.of_server(server, "vscode"),
        "Codex CLI (~/.codex/config.toml)": edits.of_server(server, "codex"),
        "Claude Code (.mcp.json of a project)": edits.of_server(server, "claude-code"),
    }
    if server.hooks:
        claude = _("Hooks of Claude Code (~/.claude/settings.json), which VS Code reads too")
        shown[claude] = edits.of_hooks(server, system)
        shown[_("Hooks of Cursor (~/.cursor/hooks.json)")] = edits.of_hooks(server, system, "cursor")
    for title, edit in shown.items():
        _say("# " + title + "\n" + edits.edited("", edit.put, toml=edit.toml))


def _say(line: str) -> None:
    sys.stdout.write(f"{translated(line)}\n")
