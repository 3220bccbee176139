"""Put the server into a client's settings, and remove it without a trace (`install` and `uninstall`)."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import sys
from argparse import Namespace
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path, PurePath
from typing import Any, Literal

from languages import _, counted
from memory_server.cli.daemon import running_for
from memory_server.cli.install import sillytavern
from memory_server.cli.install.places import (
    is_kept_out_of_git,
    place_of,
    project_named,
    project_unnamed,
)
from memory_server.cli.terminal import print_plain, say
from memory_server.config import ENVIRONMENT_PREFIX, Settings, load
from memory_server.kernel.errors import InvalidInput
from memory_server.kernel.text import Finding
from memory_server.operations.install import edits
from memory_server.operations.install.client_files import (
    ClientFile,
    InstallPlan,
    OwnCommands,
    bytes_of,
)
from memory_server.operations.install.clients import (
    CLIENTS,
    PASTS,
    Client,
    Machine,
    Server,
    System,
    command_here,
    hooks_file,
    packages_folder,
    past_sessions,
    present,
    server_entry,
    servers_file,
)
from memory_server.runtime.app import offered_tools

FLAGS = ("data-dir", "config", "conversation", "timezone")
"""The flags of settings that `install` writes for the server and its hooks."""
OFFER = ("toolsets", "tools", "exclude-tools", "read-only")
"""The flags of settings that only the server gets."""
PATHS = ("data-dir", "config")
"""The flags whose values are paths."""

Hooks = Literal["wanted", "wanted for prompts", "kept in step", "taken out"]
_AT_TOOLS: Mapping[Hooks, edits.HooksAtTools] = {
    "wanted": "wanted",
    "wanted for prompts": "left out",
}
_WANTED = tuple(_AT_TOOLS)


async def install(settings: Settings, flags: Namespace) -> None:
    """Put the server into the client's settings, or with `print` show what belongs there. Raises
    InvalidInput if a setting, a name of a tool or the folder cannot be used."""
    if _of_sillytavern(settings, flags, out=False):
        return

    machine = _machine()
    server = _server(flags)
    installed_settings = _settings_of(server)
    offered_tools(installed_settings)  # a wrong name is refused here too, in the server's own words

    if flags.client == "print":
        at_tools: edits.HooksAtTools = "wanted" if flags.hooks == "all" else "left out"
        _print(replace(server, hooks=flags.with_hooks), machine.system, at_tools)
        return

    client: Client = flags.client
    hooks: Hooks = "kept in step"

    if flags.with_hooks:
        hooks = "wanted" if flags.hooks == "all" else "wanted for prompts"

    plans = _plans(client, machine, server, project=_project(flags), hooks=hooks)
    if not _carry_out(plans, dry_run=flags.dry_run):
        return
    if flags.with_hooks:
        _say_what_hooks_do(installed_settings.folder.expanduser().absolute())
    if client == "claude-code":
        rule = f'{{"permissions": {{"allow": ["mcp__{server.name}"]}}}}'
        say(
            "Claude Code asks before it uses a tool; with {rule} in its settings.json it does not ask.",
            rule,
        )

    lost = _not_carried_over(flags)
    if lost:
        say(
            "This shell sets {lost}, and the client may not: they are not in its settings. Give them as flags, "
            "such as --data-dir FOLDER, and install again.",
            lost,
        )

    _say_what_was_said_before(client, machine, server)
    if not flags.dry_run:
        say("Restart {title} to use it.", CLIENTS[client].title)


def _say_what_was_said_before(client: Client, machine: Machine, server: Server) -> None:
    """Name the command that imports the sessions of the client, if it has some. Nothing is imported unasked."""
    past = PASTS.get(client)
    if past is None:
        return
    sessions = past_sessions(past, machine)
    if not sessions:
        return

    words = ["memory-server"]
    for name in ("config", "data-dir"):
        if name in server.flags:
            words += [f"--{name}", str(server.flags[name])]
    words += ["import", str(machine.place(past.folder))]
    if "conversation" in server.flags:
        words += ["-c", str(server.flags["conversation"])]

    say(
        "{title} has {sessions} from before; to remember them too, run `{command}`.",
        CLIENTS[client].title,
        counted(sessions, "session"),
        shlex.join(words),
    )


def tool_hooks_finding() -> Finding | None:
    """Offer the hooks for calls of tools if Claude Code has the other hooks. Return None if there is nothing to
    offer."""
    machine = _machine()
    hosts = present(_parsed(servers_file("claude-code", machine)), _parsed(hooks_file(machine)))
    if not hosts.hooks or hosts.tool_hooks:
        return None
    sentence = _(
        "Claude Code can also be told what was said about a file before it is changed, and what helped when a command "
        "failed before: `memory-server install claude-code --with-hooks`"
    )
    return Finding("note", _("hooks"), sentence)


def _say_what_hooks_do(folder: Path) -> None:
    say(
        "The hooks store each finished turn as readable text in {folder}. `memory-server pause` stops "
        "that for a while, and text between <private> and </private> is never stored.",
        folder,
    )
    say(
        "All folders share one memory, but “where you left off” is shown only in the repository (or folder) "
        "where you worked. --project --conversation NAME gives a folder its own memory."
    )


async def uninstall(settings: Settings, flags: Namespace) -> None:
    """Remove the server and its hooks from the client's settings, and say what stays; with
    --dry-run only show it. Raises InvalidInput if a file cannot be changed."""
    if _of_sillytavern(settings, flags, out=True):
        return
    client: Client = flags.client
    machine = _machine()
    project = _project(flags)
    # Read first: afterwards the entry, which names the folder, is not there.
    folder = _folder_of(client, machine, project, flags.name) or settings.folder
    plans = _plans(client, machine, _server(flags), project=project, hooks="taken out")

    changed = _carry_out(plans, dry_run=flags.dry_run)
    if changed and not flags.dry_run:
        _say_what_stays(folder.expanduser().absolute(), settings.daemon.idle_minutes)


def _folder_of(client: Client, machine: Machine, project: Path | None, name: str) -> Path | None:
    """Return the data folder that the client's entry of this name gives the server, or None."""
    form = CLIENTS[client]
    path = Path(str(servers_file(client, machine, project)))
    data = bytes_of(path) or b""
    try:
        document = edits.parsed(data.decode(), toml=form.toml)
    except (edits.NotJson, UnicodeDecodeError, RecursionError):
        return None

    servers = document.get(form.listed)
    if not isinstance(servers, dict):
        return None
    entry = servers.get(name)
    if not isinstance(entry, dict):
        return None

    arguments = entry.get("args")
    if not isinstance(arguments, list) or "--data-dir" not in arguments[:-1]:
        return None
    value = arguments[arguments.index("--data-dir") + 1]
    return Path(str(value))


def _say_what_stays(folder: Path, idle_minutes: float) -> None:
    """Say where the memories stay, and that a process which windows share runs for some minutes more."""
    if folder.is_dir():
        say("The memories stay in {folder}. To remove them, delete this folder.", folder)
    if running_for(str(folder)):
        sentence = _(
            "The shared process ends {minutes:g} minutes after its last window; `memory-server daemon stop` ends it "
            "now.",
            idle_minutes,
        )
        print_plain(sentence)


def _of_sillytavern(settings: Settings, flags: Namespace, *, out: bool) -> bool:
    """Return whether the client is SillyTavern, which does not speak MCP and has its own folder; if
    so, carry out its plans too. `out` means that they remove it. Raises InvalidInput if another
    client was typed with a folder."""
    if flags.client != sillytavern.NAME:
        if flags.folder is not None:
            raise InvalidInput("Only sillytavern takes a folder; leave {folder} out.", flags.folder)
        return False
    _carry_out(sillytavern.plans(settings, flags, os.environ, out=out), dry_run=flags.dry_run)
    return True


def _settings_of(server: Server) -> Settings:
    """Load the settings of the installed server: its flags and the settings file, and nothing of this shell."""
    values: dict[str, Any] = {}
    for name, value in {**server.flags, **server.offer}.items():
        values[name.replace("-", "_")] = value or True
    file = values.pop("config", None)
    if file is not None:
        file = Path(str(file))
    return load({}, values, file)


def _carry_out(plans: Sequence[InstallPlan], *, dry_run: bool) -> bool:
    """Carry out the plans, or only show them; return whether something changes. All plans are made before the first
    is carried out: if a plan is not possible, nothing is changed."""
    any_change = False
    for plan in plans:
        line = plan.report
        if plan.act is not None:
            any_change = True
            if dry_run:
                line = plan.shown
            else:
                plan.act()
        if line:
            print_plain(line)
    return any_change


def _plans(
    client: Client, machine: Machine, server: Server, *, project: Path | None, hooks: Hooks
) -> list[InstallPlan]:
    """Make the plans for all files, and sentences on what need not be changed. Raises InvalidInput
    if the client has no such file, or a file cannot be changed."""
    if client == "claude-code" and project is not None:
        return _of_project(machine, server, project, hooks)

    path = servers_file(client, machine, project)
    server, warnings = _for_others_too(server, path, project)
    hooks_client_file: ClientFile | None = None
    if hooks in _WANTED or (project is None and CLIENTS[client].hooks):
        at_tools = _AT_TOOLS.get(hooks, "kept")
        edits_of_hooks = edits.of_hooks(server, machine.system, client, at_tools)
        path_of_hooks = place_of(hooks_file(machine, project, client), project)
        hooks_client_file = ClientFile.read(path_of_hooks, edits_of_hooks)
    # Existing hooks must use the same memory as the server, also after a change; and the server must know of them.
    with_hooks = hooks_client_file is not None and (hooks in _WANTED or hooks_client_file.has_it)
    server = replace(server, hooks=with_hooks)

    commands = OwnCommands()
    if project is None:
        commands = _own_commands(client, server)
    servers_path = place_of(path, project)
    files = [ClientFile.read(servers_path, edits.of_server(server, client), commands)]
    if hooks_client_file is not None and (
        with_hooks or (hooks == "taken out" and client == "claude-code")
    ):
        files.append(hooks_client_file)

    if hooks == "taken out":
        return [file.take() for file in files]
    return [*(file.put() for file in files), *warnings]


def _own_commands(client: Client, server: Server) -> OwnCommands:
    """Return the client's own commands that add the server and remove it, if it has some."""
    entry = server_entry(server, client)
    if client == "vscode" and shutil.which("code"):
        return OwnCommands(add=["code", "--add-mcp", json.dumps({"name": server.name, **entry})])
    if client == "claude-code" and shutil.which("claude"):
        # The client writes this file all the time, so both programs could write at once.
        scope = ["--scope", "user", server.name]
        return OwnCommands(
            add=["claude", "mcp", "add-json", *scope, json.dumps(entry, ensure_ascii=False)],
            remove=["claude", "mcp", "remove", *scope],
        )
    return OwnCommands()


def _of_project(machine: Machine, server: Server, project: Path, hooks: Hooks) -> list[InstallPlan]:
    """Make the plans for Claude Code in one project. The conversation is in a file that every hook
    and server reads, so a server or hooks for all projects are not added again. Raises InvalidInput
    if a file cannot be changed, or the project names another conversation."""
    flags = dict(server.flags)

    # The conversation is in its own file, so it is not a flag of the server.
    conversation = flags.pop("conversation", None)
    server = replace(server, flags=flags)

    path_of_hooks = place_of(hooks_file(machine, project), project)
    edits_of_hooks = edits.of_hooks(server, machine.system, at_tools=_AT_TOOLS.get(hooks, "kept"))
    hooks_client_file = ClientFile.read(path_of_hooks, edits_of_hooks)

    for_all = present(_parsed(servers_file("claude-code", machine)), _parsed(hooks_file(machine)))
    server = replace(server, hooks=hooks in _WANTED or hooks_client_file.has_it or for_all.hooks)

    servers_path = servers_file("claude-code", machine, project)
    shared_server, warnings = _for_others_too(server, servers_path, project)
    servers_client_file = ClientFile.read(
        place_of(servers_path, project), edits.of_server(shared_server, "claude-code")
    )

    if hooks == "taken out":
        return [project_unnamed(project), servers_client_file.take(), hooks_client_file.take()]

    plans = [project_named(project, conversation)]
    if for_all.server and not servers_client_file.has_it:
        warnings = [
            InstallPlan(
                _("Claude Code has the server for all projects already; none was added here.")
            )
        ]
    else:
        plans.append(servers_client_file.put())
    if for_all.hooks and not hooks_client_file.has_it:
        warnings.append(
            InstallPlan(
                _("Claude Code has the hooks for all projects already; none were added here.")
            )
        )
    elif hooks in _WANTED or hooks_client_file.has_it:
        plans.append(hooks_client_file.put())
        warnings += _warned(hooks_client_file.path)
    return plans + warnings


def _for_others_too(
    server: Server, path: PurePath, project: Path | None
) -> tuple[Server, list[InstallPlan]]:
    """Return the server for a file of a project, which people commit. Use the program's name instead of its path if
    it is on the PATH, and add a sentence if other paths remain that git would keep."""
    if project is None:
        return server, []
    program, *arguments = server.command
    on_path = shutil.which("memory-server")
    if on_path and not arguments and Path(on_path).resolve() == Path(program).resolve():
        server = replace(server, command=["memory-server"])
    parts = list(server.command)
    parts += [server.flags.get(name) or "" for name in PATHS]
    if any(map(os.path.isabs, parts)):
        return server, _warned(Path(path))
    return server, []


def _warned(path: Path) -> list[InstallPlan]:
    """Return a plan that only says that the file must not be committed; none if git ignores it."""
    if is_kept_out_of_git(path):
        return []
    return [
        InstallPlan(
            _(
                "{path} holds paths of this machine, and git does not ignore it; do not commit it.",
                path,
            )
        )
    ]


def _not_carried_over(flags: Namespace) -> str:
    """Name the settings of this shell's environment that the installed server will not have."""
    typed = {ENVIRONMENT_PREFIX + name.upper() for name in vars(flags)}
    set_here = {name for name in os.environ if name.startswith(ENVIRONMENT_PREFIX)}
    return ", ".join(sorted(set_here - typed))


def _parsed(path: object) -> Any:
    with suppress(ValueError):
        return json.loads(bytes_of(Path(str(path))) or b"null")
    return None


def _project(flags: Namespace) -> Path | None:
    if flags.project is None:
        return None
    return Path(flags.project).absolute()


def _system() -> System:
    if sys.platform == "win32":
        return "windows"
    if sys.platform == "darwin":
        return "macos"
    return "linux"


def _machine() -> Machine:
    machine = Machine(_system(), Path.home(), os.environ)
    folder = packages_folder(machine)
    if folder is None:
        return machine
    packages = sorted(path for path in Path(folder).glob("Claude_*") if path.is_dir())
    return replace(machine, packages=tuple(packages))


def _server(flags: Namespace) -> Server:
    executable = Path(sys.executable).absolute()
    called_as = Path(sys.argv[0]).absolute()
    command = command_here(executable, called_as, _system(), exists=os.path.exists)
    return Server(flags.name, command, flags=_typed(flags, FLAGS), offer=_typed(flags, OFFER))


def _typed(flags: Namespace, names: Sequence[str]) -> dict[str, str | None]:
    """Return the flags that were typed, with None as the value of a flag without a value."""
    typed: dict[str, str | None] = {}
    for name in names:
        value = getattr(flags, name.replace("-", "_"), None)
        if value is None:
            continue
        if value is True:
            typed[name] = None
        elif name in PATHS:
            # The path is relative to here, but the client starts the server elsewhere.
            typed[name] = str(Path(value).expanduser().absolute())
        else:
            typed[name] = value
    return typed


def _print(server: Server, system: System, at_tools: edits.HooksAtTools) -> None:
    """Print the text for the settings of each client, below a heading."""
    desktop = "Claude Desktop (claude_desktop_config.json), Cursor, Gemini CLI, Windsurf"
    edits_of_titles = {
        desktop: edits.of_server(server, "cursor"),
        "VS Code (.vscode/mcp.json, or mcp.json of the user)": edits.of_server(server, "vscode"),
        "Codex CLI (~/.codex/config.toml)": edits.of_server(server, "codex"),
        "Claude Code (.mcp.json of a project)": edits.of_server(server, "claude-code"),
    }

    if server.hooks:
        claude = _("Hooks of Claude Code (~/.claude/settings.json), which VS Code reads too")
        edits_of_titles[claude] = edits.of_hooks(server, system, at_tools=at_tools)
        edits_of_titles[_("Hooks of Cursor (~/.cursor/hooks.json)")] = edits.of_hooks(
            server, system, "cursor"
        )

    for title, edit in edits_of_titles.items():
        text = edits.edited("", edit.put, toml=edit.toml)
        print_plain(f"# {title}\n{text}")
