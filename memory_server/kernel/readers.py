"""Who reads a sentence: a person at a shell, who has commands, or a model or program, which has tools."""

from __future__ import annotations

from contextvars import ContextVar

from languages import _

AT_A_SHELL: ContextVar[bool] = ContextVar("AT_A_SHELL", default=False)
"""Whether a person at a shell reads the sentences of this task. The command line sets it for all commands except the
`for_tools` commands (command_table.py)."""


def way(tool: str, command: str) -> str:
    """Return the way for the reader to do something: the `command` at a shell, elsewhere the `tool`."""
    if AT_A_SHELL.get():
        return f"`{command}`"
    return tool


def way_for_both(tool: str, command: str) -> str:
    """Return the way as `way` names it, but tell a reader with tools the command too: the tool may not be offered, and
    a model can tell its user."""
    return way(_("{tool} (in a shell `{command}`)", tool, command), command)
