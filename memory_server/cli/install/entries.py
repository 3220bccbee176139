"""The entries in a client's settings that start the server, and that make Claude Code run the hooks."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from memory_server.cli.install.places import Client, System, servers_name

HOOK_EVENTS: Mapping[str, int] = {"SessionStart": 10, "UserPromptSubmit": 10, "Stop": 30}
"""The events, each with the seconds after which Claude Code itself gives up; the hook does so after 5."""
MATCHERS: Mapping[str, str] = {"SessionStart": "startup|clear|compact"}
"""The kinds of an event that need the hook, if not all do: a continued session has its context."""
HOOKS_VARIABLE = {"MEMORY_SERVER_HOOKS": "true"}
"""The setting that tells a server that hooks recall and remember."""

PLUGIN = "memory-server"
"""The name of the plugin in distribution/claude-code, which has a server and hooks."""


@dataclass(frozen=True, slots=True)
class Server:
    """A server to install. `command` is an absolute path, with arguments if it needs some. `flags` by name, None for a
    flag without a value; `offer` has those that choose the tools. `hooks`: Claude Code has our hooks."""

    name: str
    command: Sequence[str]
    flags: Mapping[str, str | None] = field(default_factory=dict)
    offer: Mapping[str, str | None] = field(default_factory=dict)
    hooks: bool = False


def server_entry(server: Server, client: Client) -> dict[str, Any]:
    """The entry under the server's name in the list of `client`."""
    program, *arguments = server.command
    entry: dict[str, Any] = {"type": "stdio"} if client in ("vscode", "claude-code") else {}
    entry["command"] = program
    arguments += _written({**server.flags, **server.offer})
    if client == "claude-code":
        # As the client's own command writes it, so that an existing entry is recognized.
        return entry | {"args": arguments, "env": HOOKS_VARIABLE if server.hooks else {}}
    return entry | ({"args": arguments} if arguments else {})


def is_our_server(entry: Any) -> bool:
    """Whether an entry of a list of servers starts this program, from any installation."""
    if not isinstance(entry, Mapping):
        return False
    arguments = entry.get("args")
    parts = [entry.get("command"), *(arguments if isinstance(arguments, list) else [])]
    names = [re.split(r"[/\\]", part)[-1] for part in parts if isinstance(part, str)]
    return any(name in ("memory-server", "memory-server.exe", "memory_server") for name in names)


def hook_entry(server: Server, event: str, system: System) -> dict[str, Any]:
    """The entry in the list of the hooks of `event`."""
    chosen = server.offer.get("toolsets") or ""
    # Notes come unasked where their toolset is on, so the hooks must know of it.
    offer = {"toolsets": chosen} if "notes" in chosen.split(",") else {}
    command = [*server.command, *_written({**server.flags, **offer}), "hook"]
    matcher = {"matcher": MATCHERS[event]} if event in MATCHERS else {}
    run = {"type": "command", "command": shell_line(command, system), "timeout": HOOK_EVENTS[event]}
    return matcher | {"hooks": [run]}


def is_our_hook(entry: Any) -> bool:
    """Whether `hook_entry` made an item of such a list, for any server."""
    hooks = entry.get("hooks") if isinstance(entry, Mapping) else None
    if not isinstance(hooks, list) or len(hooks) != 1 or not isinstance(hooks[0], Mapping):
        return False
    command = hooks[0].get("command")
    if not isinstance(command, str) or not command.endswith(" hook"):
        return False
    return "memory-server" in command or "memory_server" in command


def shell_line(command: Sequence[str], system: System) -> str:
    """`command` as one line for the shell in which Claude Code runs hooks: on Windows the shell of Git."""
    if system == "windows":
        # Forward slashes and double quotes mean the same in Git's shell and in cmd.exe.
        program, *arguments = (part.replace("\\", "/") for part in command)
        return " ".join([f'"{program}"', *(f'"{part}"' if " " in part else part for part in arguments)])
    return shlex.join(command)


def present(servers: Any, settings: Any) -> tuple[bool, bool]:
    """Whether Claude Code has our server and our hooks for all projects, also from the plugin, by the parsed file of
    the servers and the parsed settings. A value of another form counts as empty."""
    enabled = _inner(settings, "enabledPlugins").items()
    plugin = any(name.partition("@")[0] == PLUGIN and is_on is True for name, is_on in enabled)
    hooks = (_inner(settings, "hooks").get(event) for event in HOOK_EVENTS)
    return (
        plugin or any(map(is_our_server, _inner(servers, servers_name("claude-code")).values())),
        plugin or any(is_our_hook(item) for items in hooks if isinstance(items, list) for item in items),
    )


def _inner(value: Any, name: str) -> Mapping[str, Any]:
    inner = value.get(name) if isinstance(value, Mapping) else None
    return inner if isinstance(inner, Mapping) else {}


def _written(flags: Mapping[str, str | None]) -> list[str]:
    return [part for name, value in flags.items() for part in (f"--{name}", value) if part is not None]
