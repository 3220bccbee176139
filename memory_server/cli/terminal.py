"""Output for people: tables, progress bars and colours on a terminal, plain text in a pipe or with NO_COLOR."""

from __future__ import annotations

import contextlib
import re
import sys
from argparse import Namespace
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import tzinfo
from functools import partial
from io import TextIOBase, TextIOWrapper
from typing import TYPE_CHECKING, Any, TypeVar

from languages import N_, _, counted
from memory_server.kernel import times
from memory_server.kernel.captured_io import CAPTURED_IO, CapturedIO
from memory_server.kernel.errors import InvalidInput, MemoryServerError
from memory_server.kernel.messages import with_roles

if TYPE_CHECKING:
    from rich.console import Console

T = TypeVar("T")
ASKER = N_("command")
"""The name under which the record of recalls has what a command recalls."""
TEXT_CELLS = 70
"""Columns of a memory's text in a list."""
_OBEYED = dict.fromkeys((*range(9), *range(11, 32), *range(127, 160)), "\ufffd")
"""Characters that a terminal obeys, besides tab and the end of a line: one may write to the clipboard."""
_ESCAPED = {code: f"\\u{code:04x}" for code in range(127, 160)}
"""The same in JSON, where only these stand as they are."""
_COLOUR_OR_OBEYED = re.compile("(\x1b\\[[0-9;]{0,40}m)|[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def console(*, stderr: bool = False) -> Console:
    """Standard output, or standard error. Lines are not wrapped: in a pipe `grep` finds whole lines, and a terminal
    breaks a Chinese sentence at its edge, while Rich would look for a blank."""
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
    options: dict[str, Any] = {"soft_wrap": True, "highlight": False, "stderr": stderr}
    if streams is not None:
        file: Any = _Captured(streams, stderr=stderr)
        options["file"] = file
        options["_environ"] = streams.terminal
    elif stderr:
        file = sys.stderr
    else:
        file = sys.stdout
    if not file.isatty():
        options["width"] = 10_000
    return _Console(**options)


def _unobeyed(printed: Any) -> Any:
    """An object to print, without the characters that a terminal obeys: it holds what others have said."""
    from rich.text import Text

    if isinstance(printed, str):
        return printed.translate(_OBEYED)
    if isinstance(printed, Text):
        printed.plain = printed.plain.translate(
            _OBEYED
        )  # of the same length, so that styles stay where they are
    return printed


def from_afar(text: str) -> str:
    """What a server has printed: it may have colours, and nothing else that a terminal obeys."""
    return _COLOUR_OR_OBEYED.sub(lambda match: match[1] or "\ufffd", text)


class _Captured(TextIOBase):
    """Standard output or error of the command whose `streams` these are."""

    def __init__(self, streams: CapturedIO, *, stderr: bool) -> None:
        self._streams = streams
        self._stderr = stderr

    def isatty(self) -> bool:
        descriptor = "2" if self._stderr else "1"
        return descriptor in self._streams.terminal.get("TERMINALS", "")

    def write(self, text: str) -> int:
        data = text.encode("utf-8", "backslashreplace")
        if self._stderr:
            self._streams.errors += data
        else:
            self._streams.output += data
        return len(text)


@contextlib.contextmanager
def progress(title: str, total: int) -> Iterator[Callable[..., None]]:
    """A progress bar on standard error that disappears at the end; nothing if that is not a terminal of this process.
    Gives a function that advances it by one, or by its argument."""
    if CAPTURED_IO.get() is not None:
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
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
    )
    out = Console(stderr=True)
    with Progress(*columns, console=out, transient=True, disable=not out.is_terminal) as bar:
        task_id = bar.add_task(_(title), total=total)
        yield partial(bar.advance, task_id)


def watched(title: str, steps: Iterable[T], total: int) -> Iterator[T]:
    """The same steps, with a progress bar that advances with each."""
    with progress(title, total) as advance:
        for step in steps:
            yield step
            advance()


def spoken(text: str) -> str:
    """A text of `role: content` lines with the roles in the reader's language."""
    return with_roles(text)


def escape(text: str) -> str:
    """A text or a message in the reader's language, which Rich shows as it is."""
    from rich.markup import escape

    return escape(text)


def print_columns(
    rows: Sequence[Sequence[str]], marked: Sequence[str] = (), *, cut: bool = True
) -> None:
    """Print rows below the first, which are the headings. On a terminal the last column is cut at its edge if `cut`,
    and the words `marked` stand out."""
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
    """A size for people: `633 bytes`, `1.2 kB`."""
    from rich.filesize import decimal

    if size < 1_000:
        return counted(size, "byte")
    return decimal(size)


def time_text(time_ms: int | None, zone: tzinfo | None) -> str:
    """A time for people, to the minute, in `zone` (None: the system's)."""
    if time_ms is None:
        return "-"
    return f"{times.local(time_ms, zone):%Y-%m-%d %H:%M}"


def clipped(text: str, cells: int) -> str:
    """The text on one line, at most `cells` columns wide; a Chinese character takes two."""
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


def write(result: object) -> None:
    """Write a text or a JSON value for a program: in UTF-8 in every locale, because JSON is UTF-8 and a pipe under
    Windows in China would be GBK. A terminal keeps its own encoding."""
    from memory_server.kernel import json_text

    if isinstance(result, str):
        text = result
    else:
        text = json_text.dumps(result).decode().translate(_ESCAPED)
    line = text + "\n"
    streams = CAPTURED_IO.get()
    if streams is not None:
        streams.do(partial(_write_captured, streams, line, stderr=False))
        return
    if isinstance(sys.stdout, TextIOWrapper) and not sys.stdout.isatty():
        sys.stdout.reconfigure(encoding="utf-8")
    sys.stdout.write(line)


def standard_input() -> bytes:
    streams = CAPTURED_IO.get()
    if streams is None:
        return sys.stdin.buffer.read()
    return streams.input


@contextlib.contextmanager
def reading(name: object) -> Iterator[None]:
    """Makes an error of reading the file `name` a sentence: raises InvalidInput."""
    try:
        yield
    except OSError as error:
        raise InvalidInput("{name} cannot be read: {reason}.", name, error.strerror) from error


def confirmed(question: str, *, otherwise: str) -> bool:
    """Whether a person at this terminal agrees. Raises InvalidInput with `otherwise`: nobody is there."""
    if CAPTURED_IO.get() is not None or sys.stdin is None or not sys.stdin.isatty():
        raise InvalidInput(otherwise)
    sys.stderr.write(f"{question} [y/N] ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().casefold() in ("y", "yes", "是")


def complain(sentence: str) -> None:
    write_errors(f"memory-server: {sentence.translate(_OBEYED)}\n")


def write_errors(text: str) -> None:
    streams = CAPTURED_IO.get()
    if streams is None:
        sys.stderr.write(text)
    else:
        streams.do(partial(_write_captured, streams, text, stderr=True))


def _write_captured(streams: CapturedIO, text: str, *, stderr: bool) -> None:
    _Captured(streams, stderr=stderr).write(text)


def refuse(error: MemoryServerError, flags: Namespace) -> int:
    """Say why a command failed, as JSON where its result would be; returns its exit status."""
    if flags.command.name in ("recall", "remember") and flags.json:
        from memory_server.serving.http.refusals import refused_for

        write({"error": {"kind": refused_for(error).kind, "message": str(error)}})
    else:
        complain(str(error.sentence))
    if isinstance(error, InvalidInput):
        return 2
    return 1


def hint(sentence: str) -> None:
    """Say on standard error how to see more; it belongs to no list that a program reads."""
    console(stderr=True).print(escape(sentence))


def say_if_waiting(input_name: str) -> None:
    """Tell a person at a terminal what is read there, and how to end it."""
    if CAPTURED_IO.get() is None and sys.stdin is not None and sys.stdin.isatty():
        complain(
            _("reading {what} from this terminal; Ctrl-D ends it, --help says more", input_name)
        )
