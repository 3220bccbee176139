"""Output for people: tables, progress bars and colours on a terminal, plain text in a pipe or with NO_COLOR."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import tzinfo
from functools import partial
from io import TextIOWrapper
from typing import TYPE_CHECKING, Any, TypeVar

from languages import _, counted
from memory_server.kernel import times
from memory_server.kernel.messages import with_roles
from memory_server.kernel.streams import CAPTURED_IO, OBEYED, CapturedStream

if TYPE_CHECKING:
    from rich.console import Console

T = TypeVar("T")
TEXT_CELLS = 70
"""Columns of a memory's text in a list."""


def console(*, stderr: bool = False) -> Console:
    """Return a console of Rich for standard output, or standard error, of this process or of the command that it serves
    (`CAPTURED_IO`). It prints no control characters. Lines are not wrapped: in a pipe `grep` finds whole lines, and a
    terminal breaks a Chinese sentence at its edge, while Rich would look for a blank."""
    from rich.console import Console

    class _Console(Console):
        def print(self, *objects: Any, **options: Any) -> None:
            if streams is None:
                self._print_now(objects, options)
            else:
                streams.do(partial(self._print_now, objects, options))

        def _print_now(self, objects: Sequence[Any], options: Mapping[str, Any]) -> None:
            super().print(*map(_unobeyed, objects), **options)

        def on_broken_pipe(self) -> None:
            # Rich would end the process with status 1; but it is not a failure if the reader stops reading.
            raise BrokenPipeError

    streams = CAPTURED_IO.get()

    options: dict[str, Any] = {
        "soft_wrap": True,
        "highlight": False,
        "emoji": False,  # `:cat:` may stand in a text
        "stderr": stderr,
    }
    if streams is not None:
        file: Any = CapturedStream(streams, stderr=stderr)
        options["file"] = file
        options["_environ"] = streams.terminal
    elif stderr:
        file = sys.stderr
    else:
        file = sys.stdout

    # A pipe has no edge at which to break a line.
    if not file.isatty():
        options["width"] = 10_000
    return _Console(**options)


def _unobeyed(printed: Any) -> Any:
    """Return an object to print, without the characters that a terminal obeys: it may hold text of other people."""
    from rich.text import Text

    if isinstance(printed, str):
        return printed.translate(OBEYED)
    if isinstance(printed, Text):
        printed.plain = printed.plain.translate(
            OBEYED
        )  # of the same length, so that styles stay where they are
    return printed


@contextlib.contextmanager
def progress(title: str, total: int) -> Iterator[Callable[..., None]]:
    """Show a progress bar on standard error that disappears at the end, or nothing if that is not a terminal of this
    process. `title` may hold any name. Yields a function that advances the bar by one, or by its argument; `total` is
    the number of such steps."""
    if CAPTURED_IO.get() is not None:
        # The output goes to another process, which shows no bar.
        yield lambda *_: None
        return

    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
    )

    out = Console(stderr=True)
    with Progress(*columns, console=out, transient=True, disable=not out.is_terminal) as bar:
        task_id = bar.add_task(_unobeyed(_(title)), total=total)
        yield partial(bar.advance, task_id)


def watched(title: str, steps: Iterable[T], total: int) -> Iterator[T]:
    """Yield the same steps, with a progress bar that advances with each."""
    with progress(title, total) as advance:
        for step in steps:
            yield step
            advance()


def spoken(text: str) -> str:
    """Translate the roles in a text of `role: content` lines into the reader's language."""
    return with_roles(text)


def escape(text: str) -> str:
    """Escape a text or a message so that Rich shows it as it is."""
    from rich.markup import escape

    return escape(text)


def say(template: str, *values: object) -> None:
    """Print a message in the reader's language. The template may have marks of Rich; what comes to its places is shown as
    it is."""
    shown = [value if isinstance(value, int | float) else escape(str(value)) for value in values]
    console().print(_(template, *shown))


def print_plain(text: object) -> None:
    """Print a text as it is."""
    console().print(escape(str(text)))


def print_columns(
    rows: Sequence[Sequence[str]], marked: Sequence[str] = (), *, cut: bool = True
) -> None:
    """Print rows below the first, which holds the headings. On a terminal, cut the last column at its edge if `cut`,
    and highlight the words `marked`."""
    from rich.cells import cell_len
    from rich.text import Text

    headings = [_(heading) for heading in rows[0]]
    table = [headings, *rows[1:]]
    out = console()

    widths = [max(map(cell_len, column)) for column in zip(*table, strict=True)][:-1]
    room = max(20, out.width - sum(widths) - 2 * len(widths))

    for number, (*cells, last) in enumerate(table):
        padded_cells = [
            cell + " " * (width - cell_len(cell)) for cell, width in zip(cells, widths, strict=True)
        ]

        if cut:
            last = clipped(last, room)
        line = Text("  ".join([*padded_cells, last]).rstrip())
        if number == 0:
            line.style = "bold"
        elif marked:  # without words each position would be marked, which takes seconds
            line.highlight_words(marked, "reverse", case_sensitive=False)
        out.print(line)


def size_text(size: int) -> str:
    """Format a size for people: `633 bytes`, `1.2 kB`."""
    from rich.filesize import decimal

    if size < 1_000:
        return counted(size, "byte")
    return decimal(size)


def time_text(time_ms: int | None, zone: tzinfo | None) -> str:
    """Format a time for people, to the minute, in `zone` (None means the system's)."""
    if time_ms is None:
        return "-"
    return f"{times.local(time_ms, zone):%Y-%m-%d %H:%M}"


def clipped(text: str, cells: int) -> str:
    """Return the text on one line, at most `cells` columns wide; a Chinese character takes two."""
    from rich.cells import cell_len, set_cell_size

    line = " ".join(text.split())
    if cell_len(line) <= cells:
        return line
    return set_cell_size(line, cells - 1).rstrip() + "…"


def show_all_characters() -> None:
    """Let standard output and error write characters that the console lacks (an emoji in GBK) as escapes."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def hint(message: str, *values: object) -> None:
    """Say on standard error how to see more, so that it is not part of a list that a program reads."""
    console(stderr=True).print(escape(_(message, *values)))


def write_target(name: str, parts: Iterable[bytes], *, force: bool) -> int:
    """Write a file, or standard output if its name is `-`; return the number of bytes. Raises InvalidInput as
    `write_file`."""

    from memory_server.operations.exchanged_files import write_file  # a hook does not need it

    if name != "-":
        return write_file(name, parts, force=force)
    data = b"".join(parts)
    sys.stdout.buffer.write(data)
    return len(data)
