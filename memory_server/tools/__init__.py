"""The tools: names, descriptions, schemas, results and error messages. One file per toolset.

`TOOLSETS` is a table of values: a new family of memories adds a row, with the tools of its file in their order there.
This package does not import MCP, so that `memory-server call` starts quickly; `server.py` serves the table over MCP.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable, Mapping
from types import ModuleType

from languages import N_, _
from memory_server.kernel.errors import InvalidInput
from memory_server.kernel.text import words_between_commas
from memory_server.tools import (
    admin,
    archive,
    backup,
    books,
    insight,
    layers,
    long_term,
    notes,
    refs,
    sessions,
    short_term,
    turn,
)
from memory_server.tools.base.tool import Tool


def _tools_of(module: ModuleType) -> tuple[Tool, ...]:
    return tuple(value for value in vars(module).values() if isinstance(value, Tool))


TOOLSETS: Mapping[str, tuple[Tool, ...]] = {
    "short-term": _tools_of(short_term),
    "long-term": _tools_of(long_term),
    "archive": _tools_of(archive),
    "backup": _tools_of(backup),
    "books": _tools_of(books),
    "insight": _tools_of(insight),
    "admin": _tools_of(admin),
    "turn": _tools_of(turn),
    "notes": _tools_of(notes),
    "sessions": _tools_of(sessions),
    "layers": layers.LAYERS,
    "refs": _tools_of(refs),
}
PURPOSES: Mapping[str, str] = N_(
    {
        "short-term": "exchanges of a chat: store, search and delete them",
        "long-term": "memories that come when a condition, a trigger in JavaScript, is met",
        "archive": "history, undo, pins, and restoring of forgotten memories",
        "backup": "copies of all memories: make, list, restore and delete them",
        "books": "whole lorebooks: list them, show one, switch it off or on, remove it",
        "insight": "why a memory comes or not, searches by words and dates, and statistics",
        "admin": "statistics and health of this server",
        "turn": "recall before an answer, remember after it, and forget, each in one call",
        "notes": "notes of a project, found by words; its tools `recall` and `remember` differ from those for turns",
        "sessions": "facts about the users of an assistant, separate for each user",
        "layers": "Markdown files of a project and of all projects, which other agents read too",
        "refs": "long outputs that are kept out of the context, and found again by a reference",
    }
)
"""What each toolset is for."""
KNOWLEDGE = frozenset({"notes", "sessions", "layers", "refs"})
"""Toolsets that are not part of `all`, because they are a memory of their own: a client is offered them by name."""
DEFAULT_TOOLSETS = "default"
"""The name for the tools that a model is offered by default: it pays for every tool in every conversation."""
_DEFAULT = (
    "add_long_term_memory",
    "update_long_term_memory",
    "delete_long_term_memory",
    "recall_turn",
    "remember_turn",
    "forget",
)
ALL = "all"
"""The name for all toolsets of conversations."""
TOOLS: Mapping[str, Tool] = {tool.name: tool for toolset in TOOLSETS.values() for tool in toolset}
"""All tools, as `memory-server call` offers them."""


def offered(
    toolsets: str | None = None,
    tools: str | None = None,
    exclude_tools: str | None = None,
    *,
    read_only: bool = False,
) -> Mapping[str, Tool]:
    """Return the tools that a client is offered, in the order of the table; the arguments are the settings of that
    name. Raise InvalidInput if a name is unknown, two tools differ only in spelling, or nothing is left."""
    # A client that names single tools gets only these, and not the usual ones too.
    if toolsets is None:
        toolsets = "" if tools else DEFAULT_TOOLSETS
    chosen_toolsets = _named(toolsets, [DEFAULT_TOOLSETS, *TOOLSETS, ALL], _("toolset"))
    added = _named(tools, TOOLS, _("tool"))
    excluded = _named(exclude_tools, TOOLS, _("tool"))

    offered_tools: dict[str, Tool] = {}
    for toolset, members in TOOLSETS.items():
        for tool in members:
            is_chosen = tool.name in added or _is_in(chosen_toolsets, toolset, tool)
            is_allowed = tool.name not in excluded and (tool.only_reads or not read_only)
            if is_chosen and is_allowed:
                offered_tools[tool.name] = tool

    if not offered_tools:
        raise InvalidInput(
            "No tool is left to offer; name some with the settings `toolsets` ({value}) and `tools`, or exclude fewer.",
            ", ".join([DEFAULT_TOOLSETS, *TOOLSETS, ALL]),
        )

    _refuse_twins(offered_tools)
    return offered_tools


def _is_in(chosen_toolsets: Collection[str], toolset: str, tool: Tool) -> bool:
    """Return whether a tool of `toolset` is in the chosen toolsets, `all` and `default` included."""
    if toolset in chosen_toolsets:
        return True
    if ALL in chosen_toolsets and toolset not in KNOWLEDGE:
        return True
    return DEFAULT_TOOLSETS in chosen_toolsets and tool.name in _DEFAULT


def _refuse_twins(names: Iterable[str]) -> None:
    """Raise InvalidInput if two names differ only in spelling, so that a model would confuse them."""
    name_of_letters: dict[str, str] = {}
    for name in names:
        letters = name.replace("_", "").casefold()
        twin = name_of_letters.setdefault(letters, name)
        if twin != name:
            raise InvalidInput(
                "`{other}` and `{name}` differ only in spelling; offer `{home}` and `{home2}` from two server entries.",
                twin,
                name,
                _toolset_of(twin),
                _toolset_of(name),
            )


def _toolset_of(name: str) -> str:
    return next(toolset for toolset, members in TOOLSETS.items() if TOOLS[name] in members)


def tool_named(name: str) -> Tool:
    """Return the tool. Raise InvalidInput if no tool has this name."""
    if name in TOOLS:
        return TOOLS[name]
    lists = _("`memory-server tools` lists all.")
    close = difflib.get_close_matches(name, [*TOOLS, *TOOLSETS], n=1)
    if close:
        raise InvalidInput(
            "There is no tool `{tool}`; did you mean `{near}`? {lists}", name, close[0], lists
        )
    raise InvalidInput("There is no tool `{tool}`; {lists}", name, lists)


def _named(text: str | None, existing: Iterable[str], noun: str) -> list[str]:
    """Return the names of a list with commas. `noun` says what they name. Raise InvalidInput if a name is not in
    `existing`."""
    names = words_between_commas(text or "")
    existing_names = list(existing)
    for name in names:
        if name not in existing_names:
            close = difflib.get_close_matches(name, existing_names, n=1)
            if close:
                hint = _("did you mean `{near}`?", close[0])
            else:
                hint = _("there are {known}.", ", ".join(existing_names))
            raise InvalidInput("There is no {what} `{name}`; {hint}", noun, name, hint)
    return names


DEFAULT_TOOLS = offered()
ANSWERED_TOOLS = {
    **DEFAULT_TOOLS,
    **offered("short-term,long-term"),
    "undo_change": TOOLS["undo_change"],
}
"""Tools that a server with the default tools answers: also the twelve of the Node original, which programs call without
looking at the list, and what takes back a `forget`."""


def keeps_conversations(tools: Iterable[str]) -> bool:
    """Return whether any of these tools works with conversations, and so with dictionary and sandbox."""
    knowledge_tools: set[str] = set()
    for toolset in KNOWLEDGE:
        knowledge_tools.update(tool.name for tool in TOOLSETS[toolset])
    return any(name not in knowledge_tools for name in tools)
