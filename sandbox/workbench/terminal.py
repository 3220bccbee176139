"""What every command of the workbench shares: text for a terminal, a pipe or a log, by rich (colour only where it is
wanted, no encoding errors); one error for a wrong command; and one way to run a sandbox."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, TextIO, TypeVar

from languages import MessageError
from sandbox.errors import SandboxError

PIPE_WIDTH = 80
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
    """The output of a command. `width`: cells of a line."""

    def __init__(self, out: TextIO, width: int | None = None) -> None:
        from rich.console import Console

        if not width and not out.isatty():
            width = PIPE_WIDTH
        self._console = Console(file=out, width=width or None)
        self._encoding = out.encoding or "utf-8"
        self.width = self._console.width

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
        marks = max(6, min(self.width, 100) - cells(title) - 2)
        marks_before = marks // 2
        self.show(f"{mark * marks_before} {title} {mark * (marks - marks_before)}", style)


@contextmanager
def bar(total: int, noun: str, out: TextIO | None = None) -> Iterator[Callable[[int], None]]:
    """Show on a terminal (standard error) how many of `total` are done; disappears at the end."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    console = Console(file=out or sys.stderr)
    noun = noun
    columns = BarColumn(), MofNCompleteColumn(), TextColumn(noun)
    with Progress(
        *columns, console=console, transient=True, disable=not console.is_terminal
    ) as progress:
        task = progress.add_task(noun, total=total)
        yield lambda done: progress.update(task, completed=done)


def cells(text: str) -> int:
    """Terminal cells: two for a wide character, none for a combining one."""
    from rich.cells import cell_len

    return cell_len(text)


def fit(text: str, width: int) -> str:
    """Return `text` on one line of exactly `width` cells, cut with `...` or filled with blanks."""
    from rich.cells import set_cell_size

    line = " ".join(text.split())
    if cells(line) > width:
        line = set_cell_size(line, max(0, width - 3)).rstrip() + "..."
    return line + " " * (width - cells(line))
