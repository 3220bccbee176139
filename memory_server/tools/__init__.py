"""The tools: names, descriptions, schemas, results and how errors read. One file per toolset.

`TOOLSETS` is a table of values: a later family of memories adds a row. Nothing in here imports an MCP package,
so that `memory-server call` starts quickly; `server.py` puts the table on the wire.
"""

from __future__ import annotations

from collections.abc import Mapping

from memory_server.tools.backup import BACKUP
from memory_server.tools.long_term import LONG_TERM
from memory_server.tools.short_term import SHORT_TERM
from memory_server.tools.tool import Tool

TOOLSETS: Mapping[str, tuple[Tool, ...]] = {"short-term": SHORT_TERM, "long-term": LONG_TERM, "backup": BACKUP}
DEFAULT_TOOLSETS = ("short-term", "long-term")
"""What a model is offered unless somebody asks for more: it pays for every tool in every conversation."""
TOOLS: Mapping[str, Tool] = {tool.name: tool for toolset in TOOLSETS.values() for tool in toolset}
"""All of them, as `memory-server call` has them."""
DEFAULT_TOOLS: Mapping[str, Tool] = {tool.name: tool for name in DEFAULT_TOOLSETS for tool in TOOLSETS[name]}
