"""Who reads a sentence: a person at a shell, who has commands, or a model or program, which has tools."""

from __future__ import annotations

from contextvars import ContextVar

AT_A_SHELL: ContextVar[bool] = ContextVar("AT_A_SHELL", default=False)
"""Whether a person at a shell reads what is said in this task. The command line sets it for all commands except `serve`
and `call`, whose readers use tools."""
TOOLS_READERS = ("serve", "call")


def way(tool: str, command: str) -> str:
    """How the reader does something: by the `command` at a shell, elsewhere by the `tool`."""
    return f"`{command}`" if AT_A_SHELL.get() else tool
