"""The tools: names, descriptions, schemas, results and how errors read. One file per toolset.

`TOOLSETS` is a table of values: a later family of memories adds a row. Nothing in here imports an MCP package,
so that `memory-server call` starts quickly; `server.py` puts the table on the wire.
"""

from __future__ import annotations

from collections.abc import Mapping

from memory_server.errors import InvalidInput
from memory_server.tools.archive import ARCHIVE
from memory_server.tools.backup import BACKUP
from memory_server.tools.long_term import LONG_TERM
from memory_server.tools.short_term import SHORT_TERM
from memory_server.tools.tool import Tool

TOOLSETS: Mapping[str, tuple[Tool, ...]] = {
    "short-term": SHORT_TERM,
    "long-term": LONG_TERM,
    "archive": ARCHIVE,
    "backup": BACKUP,
}
DEFAULT_TOOLSETS = "short-term,long-term"
"""What a model is offered unless somebody asks for more: it pays for every tool in every conversation."""
TOOLS: Mapping[str, Tool] = {tool.name: tool for toolset in TOOLSETS.values() for tool in toolset}
"""All of them, as `memory-server call` has them."""


def offered(toolsets: str) -> Mapping[str, Tool]:
    """The tools of `toolsets`, a list with commas as the setting has it.

    Raises:
        InvalidInput: a toolset is unknown, or none is named.
    """
    names = [name for part in toolsets.split(",") if (name := part.strip())]
    unknown = [name for name in names if name not in TOOLSETS]
    if unknown or not names:
        what = f"There is no toolset `{unknown[0]}`" if unknown else "No toolset is named"
        raise InvalidInput(f"{what}; the setting `toolsets` takes some of {','.join(TOOLSETS)}.")
    return {tool.name: tool for name in TOOLSETS if name in names for tool in TOOLSETS[name]}


DEFAULT_TOOLS = offered(DEFAULT_TOOLSETS)
