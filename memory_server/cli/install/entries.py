"""What has to stand in a client's settings for it to start the server, and for Claude Code to run the hooks."""

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
"""Which of these events a hook is run for, where not for all: a session that goes on has its context."""
HOOKS_VARIABLE = {"MEMORY_SERVER_HOOKS": "true"}
"""What tells a server that hooks recall and remember by themselves."""

PLUGIN = "memory-server"
"""The name of the plugin in distribution/claude-code, which has a server and hooks."""


@dataclass(frozen=True, slots=True)
class Server:
    """A server to install. `command` is an absolute path, with arguments where it needs some. `flags` by name, None for
    one without a value; those of `offer` say which tools a client is offered. `hooks`: Claude Code has our hooks."""

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
        # As its own command writes it, so that what is there already is known again.
        return entry | {"args": arguments, "env": HOOKS_VARIABLE if server.hooks else {}}
    return entry | ({"args": arguments} if arguments else {})


def is_our_server(entry: Any) -> bool:
    """Whether an entry of a list of servers starts this program, installed by whom and wherever it may be."""
    if not isinstance(entry, Mapping):
        return False
    arguments = entry.get("args")
    parts = [entry.get("command"), *(arguments if isinstance(arguments, list) else [])]
    names = [re.split(r"[/\\]", part)[-1] for part in parts if isinstance(part, str)]
    return any(name in ("memory-server", "memory-server.exe", "memory_server") for name in names)


def hook_entry(server: Server, event: str, system: System) -> dict[str, Any]:
    """What stands in the list of the hooks of `event`."""
    command = [*server.command, *_written(server.flags), "hook"]
    matcher = {"matcher": MATCHERS[event]} if event in MATCHERS else {}
    run = {"type": "command", "command": shell_line(command, system), "timeout": HOOK_EVENTS[event]}
    return matcher | {"hooks": [run]}


def is_our_hook(entry: Any) -> bool:
    """Whether an item of such a list is one that `hook_entry` made, for whichever server."""
    hooks = entry.get("hooks") if isinstance(entry, Mapping) else None
    if not isinstance(hooks, list) or len(hooks) != 1 or not isinstance(hooks[0], Mapping):
        return False
    command = hooks[0].get("command")
    if not isinstance(command, str) or not command.endswith(" hook"):
        return False
    return "memory-server" in command or "memory_server" in command


def shell_line(command: Sequence[str], system: System) -> str:
    """`command` as one line for the shell that Claude Code runs hooks with: on Windows that of Git."""
    if system == "windows":
        # Slashes forward and double quotes mean the same to Git's shell and to cmd.exe.
        program, *arguments = (part.replace("\\", "/") for part in command)
        return " ".join([f'"{program}"', *(f'"{part}"' if " " in part else part for part in arguments)])
    return shlex.join(command)


def present(servers: Any, settings: Any) -> tuple[bool, bool]:
    """Whether Claude Code has a server of ours, and hooks of ours, for all projects, also by the plugin, as the parsed
    file of the servers and that of the settings say. What has another form holds nothing."""
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
