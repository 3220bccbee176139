"""The clients that a server is installed into: where each keeps its settings on each system, and the entries in them
that start the server and run the hooks. Pure: systems and homes are arguments.

Only Claude Code was run. The rest is from documentation: cursor.com/docs/agent/hooks,
code.visualstudio.com/docs/agents/reference/hooks-reference, developers.openai.com/codex/mcp,
google-gemini/gemini-cli, docs.windsurf.com/windsurf/cascade/mcp.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from pathlib import Path, PurePath
from typing import Any, Literal

from languages import _
from memory_server.kernel.errors import InvalidInput
from memory_server.kernel.json_text import Fields, Json
from memory_server.kernel.text import words_between_commas
from memory_server.kernel.values import frozen

Client = Literal["claude-code", "claude-desktop", "cursor", "vscode", "codex", "gemini", "windsurf"]
System = Literal["linux", "macos", "windows"]

HOOK_EVENTS: Mapping[str, int | None] = {"SessionStart": 10, "UserPromptSubmit": 10, "Stop": 30}
"""The events, each with the seconds after which the client itself gives up; the hook gives up after `HOOK_SECONDS`."""
TOOL_EVENTS: Mapping[str, int | None] = {
    "PreToolUse": 5,
    "PostToolUse": 5,
    "PostToolUseFailure": 5,
}
"""The events of calls of tools of Claude Code, with the same seconds."""
CURSOR_EVENTS: Mapping[str, int | None] = {"sessionStart": None, "stop": None}
"""The events of Cursor. Its hook of a prompt cannot add to it, and sources disagree about its unit of time."""
MATCHERS: Mapping[str, str] = {
    "SessionStart": "startup|clear|compact",
    "PreToolUse": "Edit|Write|MultiEdit|NotebookEdit|Bash",
    "PostToolUse": "Read",
    "PostToolUseFailure": "Bash",
}
"""The kinds of an event that need the hook, if not all do: a continued session has its context."""
HOOKS_VARIABLE = {"MEMORY_SERVER_HOOKS": "true"}
"""The setting that tells a server that hooks recall and remember."""
PLUGIN = "memory-server"
"""The name of the plugin in distribution/claude-code, which has a server and hooks."""
_PASSING = ("/uv/archive-v", "/uv/builds-v", "/pip-run-", "/pipx/.cache/", "/pipx/cache/")
"""Folders of temporary environments."""
_OUR_PROGRAMS = frozenset(("memory-server", "memory-server.exe", "memory_server"))
"""The names by which a client starts this program: the command, and the module after `-m`."""


_FOLDERS = {
    "CODEX": ("CODEX_HOME", ".codex"),
    "CLAUDE": ("CLAUDE_CONFIG_DIR", ".claude"),
    "CLAUDE-OR-HOME": ("CLAUDE_CONFIG_DIR", ""),
    "linux": ("XDG_CONFIG_HOME", ".config"),
    "macos": ("", "Library/Application Support"),
    "windows": ("APPDATA", "AppData/Roaming"),
}
"""Folders of clients, and of the settings of all programs of a system (Electron: `appData`): the variable that names
each folder, and its usual place in the home."""


@frozen
class Form:
    """How a client keeps its servers: the file of a user, in the home (`~`) or in one of `_FOLDERS`; the file in a
    project, or None; the name of the list; whether an entry has a type; whether the file is TOML. `hooks` are the
    events that our hooks are for."""

    title: str
    file: str
    project: str | None = None
    listed: str = "mcpServers"
    typed: bool = False
    toml: bool = False
    hooks: Mapping[str, int | None] = field(default_factory=dict)


CLIENTS: Mapping[Client, Form] = {
    "claude-code": Form(
        "Claude Code",
        "CLAUDE-OR-HOME/.claude.json",
        ".mcp.json",
        typed=True,
        hooks={**HOOK_EVENTS, **TOOL_EVENTS},
    ),
    "claude-desktop": Form("Claude Desktop", "appData/Claude/claude_desktop_config.json"),
    "cursor": Form("Cursor", "~/.cursor/mcp.json", ".cursor/mcp.json", hooks=CURSOR_EVENTS),
    "vscode": Form(
        "VS Code",
        "appData/Code/User/mcp.json",
        ".vscode/mcp.json",
        "servers",
        True,
        hooks=HOOK_EVENTS,
    ),
    "codex": Form("Codex CLI", "CODEX/config.toml", ".codex/config.toml", "mcp_servers", toml=True),
    "gemini": Form("Gemini CLI", "~/.gemini/settings.json", ".gemini/settings.json"),
    "windsurf": Form("Windsurf", "~/.codeium/windsurf/mcp_config.json"),
}


@frozen
class Past:
    """The folder of a client's sessions, and patterns of its files, each of which is a session."""

    folder: str
    files: tuple[str, ...]


PASTS: Mapping[Client, Past] = {
    "claude-code": Past("CLAUDE/projects", ("*/*.jsonl",)),
    "codex": Past("CODEX/sessions", ("**/rollout-*.jsonl",)),
    "gemini": Past("~/.gemini/tmp", ("*/chats/session-*.json", "*/chats/session-*.jsonl")),
}
_OF_SUB_AGENTS = "agent-"
"""Prefix of the names of files of sub-agents, which older versions of Claude Code put next to the sessions."""
_HOOKS_FILES: Mapping[Client, str] = {
    "claude-code": "CLAUDE/settings.json",
    "cursor": "~/.cursor/hooks.json",
    "vscode": "~/.copilot/hooks/memory-server.json",
}


@frozen
class Machine:
    """The facts about a machine that decide the places. `packages` are folders of Claude Desktop as a packaged Windows
    program: such a program has its own roaming folder, and never reads the usual one (anthropics/claude-code issues
    25579 and 26073)."""

    system: System
    home: PurePath
    environment: Mapping[str, str]
    packages: tuple[PurePath, ...] = ()

    def folder(self, variable: str, usual: str) -> PurePath:
        """Return the folder that a variable of the environment names, or else the `usual` one in the home."""
        variable_value = self.environment.get(variable)
        if variable_value:
            return type(self.home)(variable_value)
        return self.home / usual

    def place(self, file: str) -> PurePath:
        """Return the path of a file whose first part is `~`, `appData` or one of `_FOLDERS`."""
        folder, _slash, rest = file.partition("/")
        if folder == "appData":
            folder = self.system
        variable, usual = _FOLDERS.get(folder, ("", ""))
        return self.folder(variable, usual) / rest


@frozen
class Server:
    """A server to install. `command` is an absolute path, with arguments if it needs some. `flags` by name, None for
    a flag without a value; `offer` has the flags that choose the tools. `hooks` means that Claude Code has our hooks.
    """

    name: str
    command: Sequence[str]
    flags: Mapping[str, str | None] = field(default_factory=dict)
    offer: Mapping[str, str | None] = field(default_factory=dict)
    hooks: bool = False


def past_sessions(past: Past, machine: Machine) -> int:
    """Count the sessions of a client, without those of its sub-agents."""
    folder = Path(str(machine.place(past.folder)))
    paths = [path for pattern in past.files for path in folder.glob(pattern)]
    return sum(not path.name.startswith(_OF_SUB_AGENTS) for path in paths)


def servers_file(client: Client, machine: Machine, project: PurePath | None = None) -> PurePath:
    """Return the file in which `client` lists its MCP servers, for the user or for one project. Raises InvalidInput
    if the client has no file for a project, or if it is not known which of several it uses."""
    form = CLIENTS[client]
    if project is not None:
        if form.project is None:
            raise InvalidInput(
                "{title} has no settings for a project; leave --project out.", form.title
            )
        return project / form.project

    if client != "claude-desktop" or not machine.packages:
        return machine.place(form.file)

    if len(machine.packages) > 1:
        names = ", ".join(package.name for package in machine.packages)
        raise InvalidInput(
            "There are several packages of Claude Desktop ({names}); use `memory-server install print` and "
            "paste what it prints into the file that Settings, Developer, Edit Config shows.",
            names,
        )
    return machine.packages[0] / "LocalCache" / "Roaming" / form.file.removeprefix("appData/")


def hooks_file(
    machine: Machine, project: PurePath | None = None, client: Client = "claude-code"
) -> PurePath:
    """Return the file in which `client` lists its hooks, for the user or for one project. Claude Code keeps the file
    of a project out of git, so it may hold paths of this machine. Raises InvalidInput if the client has no such file.
    """
    form = CLIENTS[client]
    if project is not None and client == "claude-code":
        return project / ".claude" / "settings.local.json"

    if project is not None or not form.hooks:
        clients = ", ".join(name for name, client_form in CLIENTS.items() if client_form.hooks)
        where = _("at all")
        flag = "--with-hooks"
        if project is not None:
            where = _("in a project")
            if form.hooks:
                flag = "--project"
        raise InvalidInput(
            "{title} does not support these hooks {project}; leave {project2} out (hooks are for {able}).",
            form.title,
            where,
            flag,
            clients,
        )

    return machine.place(_HOOKS_FILES[client])


def packages_folder(machine: Machine) -> PurePath | None:
    """Return the folder in which Windows keeps packaged programs, or None on other systems."""
    if machine.system != "windows":
        return None
    return machine.folder("LOCALAPPDATA", "AppData/Local") / "Packages"


def command_here(
    executable: PurePath, called_as: PurePath, system: System, exists: Callable[[PurePath], bool]
) -> Sequence[str]:
    """Return the command with which a client starts this installation: an absolute path, because clients do not know
    the user's PATH. `executable` is the interpreter, `called_as` how this process was called. Raises InvalidInput if
    this installation is temporary."""
    executable_text = str(executable).replace("\\", "/") + "/"
    if any(part in executable_text for part in _PASSING):
        raise InvalidInput(
            "This program runs from a temporary environment ({parent}) that will be deleted later; install "
            "the program permanently, for example with `uv tool install` or `pipx install`, and run the "
            "installed one.",
            executable.parent,
        )

    name = "memory-server"
    if system == "windows":
        name = "memory-server.exe"
    for candidate in (executable.parent / name, called_as):
        if candidate.name == name and candidate.is_absolute() and exists(candidate):
            return [str(candidate)]
    return [str(executable), "-m", "memory_server"]


def server_entry(server: Server, client: Client) -> Json:
    """Return the entry that starts the server, as the client's list of servers has it."""
    program, *arguments = server.command
    arguments += _written({**server.flags, **server.offer})
    entry: Json = {}
    if CLIENTS[client].typed:
        entry["type"] = "stdio"
    entry["command"] = program
    if client == "claude-code":
        # As the client's own command writes it, so that an existing entry is recognized.
        entry["args"] = arguments
        entry["env"] = HOOKS_VARIABLE if server.hooks else {}
    elif arguments:
        entry["args"] = arguments
    return entry


def is_our_server(entry: Any) -> bool:
    """Return whether an entry of a list of servers starts this program, from any installation."""
    if not isinstance(entry, Mapping):
        return False
    parts = [entry.get("command")]
    arguments = entry.get("args")
    if isinstance(arguments, list):
        parts += arguments
    file_names = [re.split(r"[/\\]", part)[-1] for part in parts if isinstance(part, str)]
    return not _OUR_PROGRAMS.isdisjoint(file_names)


def hook_entry(server: Server, event: str, system: System, client: Client = "claude-code") -> Json:
    """Make the entry that runs our hook, for the client's list of hooks of an event."""
    flags = dict(server.flags)
    toolsets = server.offer.get("toolsets") or ""
    if {"notes", "layers"} & set(words_between_commas(toolsets)):
        # Notes and layers come unasked where their toolset is on, so the hooks must know of it.
        flags["toolsets"] = toolsets

    command = [*server.command, *_written(flags), "hook"]
    run: Json = {"type": "command", "command": shell_line(command, system)}

    seconds = CLIENTS[client].hooks[event]
    if seconds is not None:
        run["timeout"] = seconds

    if client != "claude-code":
        return run
    entry: Json = {}
    if event in MATCHERS:
        entry["matcher"] = MATCHERS[event]
    entry["hooks"] = [run]
    return entry


def is_our_hook(entry: Any) -> bool:
    """Return whether `hook_entry` made an item of such a list, for any server."""
    match entry:
        case {"hooks": [{"command": str(command)}]} | {"command": str(command)}:
            return command.endswith(" hook") and (
                "memory-server" in command or "memory_server" in command
            )
    return False


def shell_line(command: Sequence[str], system: System) -> str:
    """Return `command` as one line for the shell in which Claude Code runs hooks: on Windows the shell of Git."""
    if system != "windows":
        return shlex.join(command)
    # Forward slashes and double quotes mean the same in Git's shell and in cmd.exe.
    program, *arguments = (part.replace("\\", "/") for part in command)
    parts = [f'"{program}"']
    for argument in arguments:
        if " " in argument:
            argument = f'"{argument}"'
        parts.append(argument)
    return " ".join(parts)


@frozen
class Presence:
    """Whether a client has our server, whether it has our hooks, and whether it has our hooks for calls of tools."""

    server: bool
    hooks: bool
    tool_hooks: bool = True


def present(servers: Any, settings: Any) -> Presence:
    """Return whether Claude Code has our server and our hooks for all projects, also from the plugin, by the parsed
    file of the servers and the parsed settings. A value of another form counts as empty."""
    for name, is_on in _inner(settings, "enabledPlugins").items():
        # The plugin brings server and hooks, and neither list shows them.
        if name.partition("@")[0] == PLUGIN and is_on is True:
            return Presence(server=True, hooks=True)
    entries = _inner(servers, CLIENTS["claude-code"].listed).values()
    hooks = _inner(settings, "hooks")
    return Presence(
        server=any(is_our_server(entry) for entry in entries),
        hooks=any(_has_our_hook(hooks.get(event)) for event in HOOK_EVENTS),
        tool_hooks=any(_has_our_hook(hooks.get(event)) for event in TOOL_EVENTS),
    )


def _has_our_hook(items: Any) -> bool:
    return isinstance(items, list) and any(is_our_hook(item) for item in items)


def _inner(value: Any, name: str) -> Fields:
    """Return the object `name` of an object; empty if it is missing."""
    if not isinstance(value, Mapping):
        return {}
    inner = value.get(name)
    if not isinstance(inner, Mapping):
        return {}
    return inner


def _written(flags: Mapping[str, str | None]) -> list[str]:
    """Return the flags as arguments of a command."""
    arguments: list[str] = []
    for name, value in flags.items():
        arguments.append(f"--{name}")
        if value is not None:
            arguments.append(value)
    return arguments
