"""List the tools, the purpose of each toolset, and how to call one tool (`tools`)."""

from __future__ import annotations

import json
from argparse import Namespace
from collections.abc import Mapping
from typing import Any

from languages import _
from languages.columns import padded
from memory_server.cli.terminal import clipped, console, escape, hint, say
from memory_server.config import Settings
from memory_server.kernel.streams import write
from memory_server.tools import DEFAULT_TOOLS, PURPOSES, TOOLSETS, tool_named
from memory_server.tools.base.tool import Tool

_MESSAGES = [{"role": "user", "content": "My cat is called Miso."}]
_EXAMPLES: Mapping[str, Any] = {
    "messages": _MESSAGES,
    "recentMessages": _MESSAGES,
    "pattern": "mango",
    "words": ["mango"],
    "trigger": "match_keys(context.messages, ['mango']) > 0",
    "prompt": "Ask about the mango tree.",
    "type": "tech",
    "topic": "deploy",
    "content": "Deploy with fly.",
    "data": "Deploy with fly.",
    "query": "deploy",
    "name": "harvest",
    "on": False,
    "key": "api-auth-decision",
    "id": "3f2a81c0",
    "memory_id": "3f2a81c0",
    "changeId": "12-37a8",
    "confirm": True,
    "find": "Halloran",
    "replace": "O'Halloran",
}
"""The values of required arguments in examples."""
_ONE_OF: Mapping[str, Any] = {"forget": {"words": "mango"}, "explain_recall": {"text": "mango"}}
"""The argument in the example of a tool that needs any of several arguments."""


async def tools(_settings: Settings, flags: Namespace) -> None:
    """Print all toolsets, one toolset or one tool. Raises InvalidInput if no toolset or tool has the name."""
    if flags.name is None:
        toolsets = list(TOOLSETS)
    elif flags.name in TOOLSETS:
        toolsets = [flags.name]
    else:
        _print_tool(tool_named(flags.name), flags)
        return

    if flags.json:
        for toolset in toolsets:
            _write_toolset(toolset)
        return
    for toolset in toolsets:
        _print_toolset(toolset)
    hint(
        "* marks tools that are offered by default; `memory-server tools NAME` shows the arguments of a "
        "tool, and an example"
    )


def _write_toolset(toolset: str) -> None:
    for tool in TOOLSETS[toolset]:
        is_default = tool.name in DEFAULT_TOOLS
        write(
            {
                "toolset": toolset,
                "tool": tool.name,
                "title": tool.title.english,
                "default": is_default,
            }
        )


def _print_toolset(toolset: str) -> None:
    out = console()
    out.print(f"[bold]{toolset}[/]  {escape(_(PURPOSES[toolset]))}")
    for tool in TOOLSETS[toolset]:
        mark = "*" if tool.name in DEFAULT_TOOLS else " "
        out.print(f" {mark} {tool.name:<36}{escape(str(tool.title))}")


def _print_tool(tool: Tool, flags: Namespace) -> None:
    """Print a tool, its arguments and an example of a call, or with --json its schema."""
    schema = tool.input_schema()
    if flags.json:
        write(
            {
                "tool": tool.name,
                "title": tool.title.english,
                "description": tool.description,
                "arguments": schema,
            }
        )
        return

    out = console()
    toolset = next(name for name, members in TOOLSETS.items() if tool in members)
    out.print(
        f"[bold]{tool.name}[/]  {escape(str(tool.title))} ({toolset})\n{escape(tool.description)}\n"
    )

    for name, property_schema in schema["properties"].items():
        needed = " " * 10
        if name in schema.get("required", ()):
            needed = padded("required", 10)
        description = clipped(property_schema.get("description", ""), 90)
        out.print(f"  {name:<18}{needed}{escape(description)}", highlight=False)

    say("example:\n  memory-server {example}", example_of(tool))


def example_of(tool: Tool) -> str:
    """Return a call of the tool in a shell, with the arguments that it needs."""
    schema = tool.input_schema()
    arguments: dict[str, Any] = {}
    for name in schema.get("required", ()):
        if schema["properties"][name].get("type") == "integer":
            arguments[name] = 12
        else:
            arguments[name] = _EXAMPLES.get(name, "…")
    arguments |= _ONE_OF.get(tool.name, {})
    text = json.dumps(arguments, ensure_ascii=False).replace("'", "'\\''")
    return f"call {tool.name} '{text}'"
