"""Where each client keeps its settings on each system, and the command that it must start."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Literal, assert_never

from memory_server.core.errors import InvalidInput

Client = Literal["claude-code", "claude-desktop", "cursor", "vscode"]
System = Literal["linux", "macos", "windows"]

CLAUDE_DESKTOP_FILE = "claude_desktop_config.json"
_PASSING = ("/uv/archive-v", "/uv/builds-v", "/pip-run-", "/pipx/.cache/", "/pipx/cache/")
"""Folders of temporary environments."""


@dataclass(frozen=True, slots=True)
class Machine:
    """The facts about a machine that decide the places. `packages` are folders of Claude Desktop as a packaged Windows
    program: such a program has its own roaming folder, and never reads the usual one (anthropics/claude-code issues
    25579 and 26073)."""

    system: System
    home: PurePath
    environment: Mapping[str, str]
    packages: tuple[PurePath, ...] = ()


def settings_folder(machine: Machine) -> PurePath:
    """The folder in which programs of this system keep their settings; Electron calls it `appData`."""
    match machine.system:
        case "windows":
            roaming = machine.environment.get("APPDATA")
            return type(machine.home)(roaming) if roaming else machine.home / "AppData" / "Roaming"
        case "macos":
            return machine.home / "Library" / "Application Support"
        case "linux":
            chosen = machine.environment.get("XDG_CONFIG_HOME")
            return type(machine.home)(chosen) if chosen else machine.home / ".config"
        case other:
            assert_never(other)


def packages_folder(machine: Machine) -> PurePath | None:
    """The folder in which Windows keeps packaged programs; None on other systems."""
    if machine.system != "windows":
        return None
    local = machine.environment.get("LOCALAPPDATA")
    return (type(machine.home)(local) if local else machine.home / "AppData" / "Local") / "Packages"


def servers_file(client: Client, machine: Machine, project: PurePath | None = None) -> PurePath:
    """The file in which `client` lists its MCP servers, for the user or for one project.

    Raises:
        InvalidInput: the client has no file for a project, or it is not known which of several it uses.
    """
    match client:
        case "claude-code":
            return project / ".mcp.json" if project else _claude_code_state(machine)
        case "cursor":
            return (project or machine.home) / ".cursor" / "mcp.json"
        case "vscode":
            return project / ".vscode" / "mcp.json" if project else settings_folder(machine) / "Code/User/mcp.json"
        case "claude-desktop":
            if project:
                raise InvalidInput("Claude Desktop has no settings for a project; leave --project out.")
            return _claude_desktop_file(machine)
        case other:
            assert_never(other)


def hooks_file(machine: Machine, project: PurePath | None = None) -> PurePath:
    """The file in which Claude Code lists its hooks, for the user or for one project."""
    return (project / ".claude" if project else _claude_folder(machine)) / "settings.json"


def servers_name(client: Client) -> str:
    """The name of the list of servers in that file."""
    return "servers" if client == "vscode" else "mcpServers"


def _claude_folder(machine: Machine) -> PurePath:
    chosen = machine.environment.get("CLAUDE_CONFIG_DIR")
    return type(machine.home)(chosen) if chosen else machine.home / ".claude"


def _claude_code_state(machine: Machine) -> PurePath:
    chosen = machine.environment.get("CLAUDE_CONFIG_DIR")
    return (type(machine.home)(chosen) if chosen else machine.home) / ".claude.json"


def _claude_desktop_file(machine: Machine) -> PurePath:
    match machine.packages:
        case ():
            return settings_folder(machine) / "Claude" / CLAUDE_DESKTOP_FILE
        case (package,):
            return package / "LocalCache" / "Roaming" / "Claude" / CLAUDE_DESKTOP_FILE
        case several:
            names = ", ".join(package.name for package in several)
            raise InvalidInput(
                f"There are several packages of Claude Desktop ({names}); use `memory-server install print` and paste "
                "what it prints into the file that Settings, Developer, Edit Config shows."
            )


def command_here(
    executable: PurePath, called_as: PurePath, system: System, exists: Callable[[PurePath], bool]
) -> Sequence[str]:
    """How a client starts this installation: an absolute path, because clients do not know the user's PATH.
    `executable` is the interpreter, `called_as` how this process was called.

    Raises:
        InvalidInput: this installation is temporary.
    """
    place = str(executable).replace("\\", "/")
    if any(part in f"{place}/" for part in _PASSING):
        raise InvalidInput(
            f"This program runs from a temporary environment ({executable.parent}) that will be deleted one day; "
            "install it for good, such as with `uv tool install` or `pipx install`, and run that one."
        )
    name = "memory-server.exe" if system == "windows" else "memory-server"
    for candidate in (executable.parent / name, called_as):
        if candidate.name == name and candidate.is_absolute() and exists(candidate):
            return [str(candidate)]
    return [str(executable), "-m", "memory_server"]
