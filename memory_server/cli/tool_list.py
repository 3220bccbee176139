"""`tools`: which tools there are, what a toolset is for, and how one tool is called."""

from __future__ import annotations

import json
from argparse import Namespace
from collections.abc import Mapping
from typing import Any

from memory_server.cli.terminal import clipped, console, escape, hint, write
from memory_server.config import Settings
from memory_server.tools import DEFAULT_TOOLS, PURPOSES, TOOLSETS, tool_named
from memory_server.tools.base.tool import Tool
from sandbox import padded
from sandbox.locale import _, term

_SAID = [{"role": "user", "content": "My cat is called Miso."}]
_EXAMPLES: Mapping[str, Any] = {
    "messages": _SAID,
    "recentMessages": _SAID,
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
    "key": "api-auth-decision",
    "id": "3f2a81c0",
    "memory_id": "3f2a81c0",
    "changeId": "12-37a8",
    "confirm": True,
    "find": "Halloran",
    "replace": "O'Halloran",
}
"""What each argument that a tool needs is in its example."""
_ONE_OF: Mapping[str, Any] = {"forget": {"words": "mango"}, "explain_recall": {"text": "mango"}}
"""Of tools that need one of several arguments, that of the example."""


async def tools(_settings: Settings, flags: Namespace) -> None:
    """Print all toolsets, one toolset or one tool. Raises InvalidInput: there is none of this name."""
    named, out = flags.name, console()
    if named is not None and named not in TOOLSETS:
        _print_tool(tool_named(named), flags)
        return
    for name in TOOLSETS if named is None else (named,):
        if not flags.json:
            out.print(f"[bold]{name}[/]  {escape(PURPOSES[name])}")
        for tool in TOOLSETS[name]:
            if flags.json:
                write({"toolset": name, "tool": tool.name, "title": tool.title, "default": tool.name in DEFAULT_TOOLS})
            else:
                offered = "*" if tool.name in DEFAULT_TOOLS else " "
                out.print(f" {offered} {tool.name:<36}{escape(term(tool.title))}")
    if not flags.json:
        hint(_("* is offered by default; `memory-server tools NAME` shows the arguments of a tool, and an example"))


def _print_tool(tool: Tool, flags: Namespace) -> None:
    schema, out = tool.input_schema(), console()
    if flags.json:
        write({"tool": tool.name, "title": tool.title, "description": tool.description, "arguments": schema})
        return
    toolset = next(name for name, members in TOOLSETS.items() if tool in members)
    out.print(f"[bold]{tool.name}[/]  {escape(term(tool.title))} ({toolset})\n{escape(tool.description)}\n")
    for name, about in schema["properties"].items():
        needed = padded("needed", 8) if name in schema.get("required", ()) else " " * 8
        out.print(f"  {name:<18}{needed}{escape(clipped(about.get('description', ''), 90))}", highlight=False)
    out.print(_("example:\n  memory-server {example}", escape(example_of(tool))))


def example_of(tool: Tool) -> str:
    """A call of the tool in a shell, with the arguments that it needs."""
    schema = tool.input_schema()
    types = {name: about.get("type") for name, about in schema["properties"].items()}
    given = {name: 12 if types[name] == "integer" else _EXAMPLES.get(name, "…") for name in schema.get("required", ())}
    given |= _ONE_OF.get(tool.name, {})
    text = json.dumps(given, ensure_ascii=False).replace("'", "'\\''")
    return f"call {tool.name} '{text}'"
