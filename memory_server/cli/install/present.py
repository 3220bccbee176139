"""What of ours Claude Code has already for all projects, read from its settings. Pure: they are read elsewhere."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from memory_server.cli.install.entries import HOOK_EVENTS, is_our_hook, is_our_server
from memory_server.cli.install.places import servers_name

PLUGIN = "memory-server"
"""The name of the plugin in distribution/claude-code, which has a server and hooks."""


@dataclass(frozen=True, slots=True)
class Present:
    """Whether there is a server of ours, and whether there are hooks of ours, by whichever way they came."""

    server: bool = False
    hooks: bool = False


def present(servers: Any, settings: Any) -> Present:
    """What the parsed file of the servers and that of the settings hold; what has another form holds nothing."""
    plugin = any(
        name.partition("@")[0] == PLUGIN and is_on is True for name, is_on in _inner(settings, "enabledPlugins").items()
    )
    listed = _inner(servers, servers_name("claude-code")).values()
    hooks = (_inner(settings, "hooks").get(event) for event in HOOK_EVENTS)
    return Present(
        server=plugin or any(map(is_our_server, listed)),
        hooks=plugin or any(is_our_hook(item) for items in hooks if isinstance(items, list) for item in items),
    )


def _inner(value: Any, name: str) -> Mapping[str, Any]:
    inner = value.get(name) if isinstance(value, Mapping) else None
    return inner if isinstance(inner, Mapping) else {}
