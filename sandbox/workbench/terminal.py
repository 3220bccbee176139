"""What every command of the workbench shares: text for a terminal, a pipe or a log, by rich (colour only where it is
wanted, no encoding errors); one error for a wrong command; and one way to run a sandbox."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TextIO, TypeVar

from languages import MessageError
from languages.columns import cells
from sandbox.errors import SandboxError

_PIPE_WIDTH = 80
"""Cells of a line where the width is not known."""


Result = TypeVar("Result")


class UsageError(MessageError):
    """The command cannot be carried out; the message says in one sentence what to do."""


def settled(work: Coroutine[Any, Any, Result]) -> Result:
    """Return the result of `work`. Raises UsageError when no trigger can be run here."""
    try:
        return asyncio.run(work)
    except* SandboxError as group:
        raise UsageError(str(group.exceptions[0])) from group


class Terminal:
    """The output of a command."""

    def __init__(self, out: TextIO) -> None:
        from rich.console import Console

        width = None
        if not out.isatty():
            width = _PIPE_WIDTH
        self._console = Console(file=out, width=width)
        self._encoding = out.encoding or "utf-8"

    def show(self, text: str = "", style: str | None = None, *, end: str = "\n") -> None:
        """Write a line. A character that the terminal cannot show becomes `?`, once for each of its cells."""
        if not self._can_show(text):
            text = "".join(char if self._can_show(char) else "?" * cells(char) for char in text)
        self._console.out(text, style=style, highlight=False, end=end)
        self._console.file.flush()

    def _can_show(self, text: str) -> bool:
        return text.encode(self._encoding, "ignore").decode(self._encoding) == text

    def rule(self, title: str, style: str | None = None, mark: str = "=") -> None:
        """Write a line of `mark` with a title in its middle."""
        marks = max(6, min(self._console.width, 100) - cells(title) - 2)
        marks_before = marks // 2
        self.show(f"{mark * marks_before} {title} {mark * (marks - marks_before)}", style)


def fit(text: str, width: int) -> str:
    """Return `text` on one line of exactly `width` cells, cut with `...` or filled with blanks."""
    from rich.cells import set_cell_size

    line = " ".join(text.split())
    if cells(line) > width:
        line = set_cell_size(line, max(0, width - 3)).rstrip() + "..."
    return line + " " * (width - cells(line))
