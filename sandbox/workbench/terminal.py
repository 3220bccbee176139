"""Text for a terminal, a pipe or a log: colour only where it is wanted, columns that align, no character that fails."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TextIO

_CODES = {"red": "31", "green": "32", "yellow": "33", "bold": "1", "faint": "2"}


class Terminal:
    """Where a command writes. `width`: cells of a line."""

    def __init__(self, out: TextIO, width: int | None = None) -> None:
        self.out = out
        # https://no-color.org: set to anything but nothing.
        self._colour = out.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
        self.width = width or _width(out)

    def say(self, text: str = "", style: str | None = None, *, end: str = "\n") -> None:
        """Writes a line. A character that the terminal cannot show becomes `?`, one for each of its cells."""
        shown = _encodable(text, self.out.encoding or "utf-8")
        if style and self._colour and shown:
            shown = f"\x1b[{_CODES[style]}m{shown}\x1b[0m"
        self.out.write(shown + end)
        self.out.flush()

    @property
    def painter(self) -> Callable[[str], str] | None:
        """Makes a part of a line stand out; None where colour is not wanted."""
        return _reversed if self._colour else None

    def rule(self, title: str, style: str | None = None, mark: str = "=") -> None:
        """A line of `mark` with a title in its middle."""
        room = max(6, min(self.width, 100) - cells(title) - 2)
        left = room // 2
        self.say(f"{mark * left} {title} {mark * (room - left)}", style)


def _encodable(text: str, encoding: str) -> str:
    """Columns stay where they are: a wide character that cannot be shown takes two cells as well."""
    try:
        text.encode(encoding)
        return text
    except UnicodeEncodeError:
        pass
    shown: list[str] = []
    for char in text:
        try:
            char.encode(encoding)
            shown.append(char)
        except UnicodeEncodeError:
            shown.append("?" * cells(char))
    return "".join(shown)


def _reversed(text: str) -> str:
    """Bold yellow, which is read on dark and on light backgrounds alike when it is turned round."""
    return f"\x1b[1;7;33m{text}\x1b[0m"


def _width(out: TextIO) -> int:
    if out.isatty():
        try:
            return os.get_terminal_size(out.fileno()).columns or 80
        except OSError:
            pass
    return 80


def counted(number: int, noun: str) -> str:
    """`1 message`, `2 messages`."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def cells(text: str) -> int:
    """Terminal cells: two for a wide character, none for a combining one."""
    from rich.cells import cell_len

    return cell_len(text)


def fit(text: str, width: int) -> str:
    """`text` on one line in at most `width` cells, cut with `...`, filled with blanks."""
    from rich.cells import set_cell_size

    line = " ".join(text.split())
    if cells(line) > width:
        line = set_cell_size(line, max(0, width - 3)).rstrip() + "..."
    return line + " " * (width - cells(line))
