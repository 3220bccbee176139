"""The tools: names, descriptions, schemas, results and error messages. One file per toolset.

`TOOLSETS` is a table of values: a new family of memories adds a row, with the tools of its file in their order there.
This package does not import MCP, so that `memory-server call` starts quickly; `server.py` serves the table over MCP.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from types import ModuleType

from memory_server.kernel.errors import InvalidInput
from memory_server.tools import (
    admin,
    archive,
    backup,
    insight,
    layers,
    long_term,
    notes,
    one_memory,
    refs,
    sessions,
    short_term,
    turn,
)
from memory_server.tools.base.tool import Tool
from sandbox.locale import _


def _tools_of(module: ModuleType) -> tuple[Tool, ...]:
    return tuple(value for value in vars(module).values() if isinstance(value, Tool))


TOOLSETS: Mapping[str, tuple[Tool, ...]] = {
    "short-term": _tools_of(short_term),
    "long-term": _tools_of(long_term),
    "archive": (*_tools_of(archive), *_tools_of(one_memory)),
    "backup": _tools_of(backup),
    "insight": _tools_of(insight),
    "admin": _tools_of(admin),
    "turn": _tools_of(turn),
    "notes": _tools_of(notes),
    "sessions": _tools_of(sessions),
    "layers": layers.LAYERS,
    "refs": _tools_of(refs),
}
PURPOSES: Mapping[str, str] = {
    "short-term": _("exchanges of a chat: store, search and delete them"),
    "long-term": _("what comes to mind when a condition is met, a trigger in JavaScript"),
    "archive": _("take back: history, undo, pins, and what was forgotten"),
    "backup": _("copies of all memories: make, list, restore and delete them"),
    "insight": _("why a memory comes or not, searches by words and dates, and figures"),
    "admin": _("figures and health of this server"),
    "turn": _("recall before an answer, remember after it, and forget, each in one call"),
    "notes": _("notes of a project, found by words; its `recall` and `remember` are not those of turns"),
    "sessions": _("facts about the users of an assistant, each user's apart"),
    "layers": _("Markdown files of a project and of all projects, which other agents read too"),
    "refs": _("long outputs that are kept out of the context, and found again by a reference"),
}
"""What each toolset is for."""
KNOWLEDGE = frozenset({"notes", "sessions", "layers", "refs"})
"""Toolsets that are no part of `all`, because they are a memory of their own: a client is offered them by name."""
DEFAULT_TOOLSETS = "default"
"""Stands for the tools that a model is offered by default: it pays for every tool in every conversation."""
_DEFAULT = (
    "add_long_term_memory",
    "update_long_term_memory",
    "delete_long_term_memory",
    "recall_turn",
    "remember_turn",
    "forget",
)
ALL = "all"
"""Stands for the names of all toolsets of conversations."""
TOOLS: Mapping[str, Tool] = {tool.name: tool for toolset in TOOLSETS.values() for tool in toolset}
"""All tools, as `memory-server call` offers them."""


def offered(
    toolsets: str | None = None, tools: str | None = None, exclude_tools: str | None = None, *, read_only: bool = False
) -> Mapping[str, Tool]:
    """The tools that a client is offered, in the order of the table; the arguments are the settings of that name.
    Raises InvalidInput: a name is unknown, two tools differ only in spelling, or nothing is left."""
    if toolsets is None:
        toolsets = "" if tools else DEFAULT_TOOLSETS
    chosen = set(_named(toolsets, [DEFAULT_TOOLSETS, *TOOLSETS, ALL], _("toolset")))
    also, never = _named(tools, TOOLS, _("tool")), _named(exclude_tools, TOOLS, _("tool"))
    found = {
        tool.name: tool
        for name, members in TOOLSETS.items()
        for tool in members
        if name in chosen
        or (ALL in chosen and name not in KNOWLEDGE)
        or tool.name in also
        or (DEFAULT_TOOLSETS in chosen and tool.name in _DEFAULT)
        if tool.name not in never
        if tool.only_reads or not read_only
    }
    if not found:
        raise InvalidInput(
            "No tool is left to offer; name some with the settings `toolsets` ({value}) and `tools`, or exclude fewer.",
            ", ".join([DEFAULT_TOOLSETS, *TOOLSETS, ALL]),
        )
    _refuse_twins(found)
    return found


def _refuse_twins(names: Iterable[str]) -> None:
    """Raises InvalidInput: two names differ only in spelling, so that a model would take one for the other."""
    home = {tool.name: toolset for toolset, members in TOOLSETS.items() for tool in members}
    known: dict[str, str] = {}
    for name in names:
        other = known.setdefault(name.replace("_", "").casefold(), name)
        if other != name:
            raise InvalidInput(
                "`{other}` and `{name}` differ only in spelling; offer `{home}` and `{home2}` from two server entries.",
                other,
                name,
                home[other],
                home[name],
            )


def tool_named(name: str) -> Tool:
    """The tool. Raises InvalidInput: there is none of this name."""
    if (tool := TOOLS.get(name)) is None:
        lists = _("`memory-server tools` lists all.")
        if close := difflib.get_close_matches(name, [*TOOLS, *TOOLSETS], n=1):
            raise InvalidInput("There is no tool `{tool}`; did you mean `{near}`? {lists}", name, close[0], lists)
        raise InvalidInput("There is no tool `{tool}`; {lists}", name, lists)
    return tool


def _named(names: str | None, known: Iterable[str], what: str) -> list[str]:
    """The names of a list with commas. Raises InvalidInput: a name is not known."""
    found = [name for part in (names or "").split(",") if (name := part.strip())]
    known = list(known)
    for name in found:
        if name not in known:
            close = difflib.get_close_matches(name, known, n=1)
            hint = _("did you mean `{near}`?", close[0]) if close else _("there are {known}.", ", ".join(known))
            raise InvalidInput("There is no {what} `{name}`; {hint}", what, name, hint)
    return found


DEFAULT_TOOLS = offered()
ANSWERED_TOOLS = {**DEFAULT_TOOLS, **offered("short-term,long-term"), "undo_change": TOOLS["undo_change"]}
"""Tools that a server with the default tools answers: also the twelve of the Node original, which programs call without
looking at the list, and what takes back a `forget`."""


def keeps_conversations(tools: Iterable[str]) -> bool:
    """Whether any of these tools works with conversations, and so with dictionary and sandbox."""
    apart = {tool.name for name in KNOWLEDGE for tool in TOOLSETS[name]}
    return any(name not in apart for name in tools)
