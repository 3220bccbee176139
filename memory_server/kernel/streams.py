"""The standard streams of a command: the streams of this process, or streams that its host captures.

Complaints go to standard error as one sentence a line; what a program reads goes to standard output in UTF-8.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import field
from functools import partial
from io import TextIOBase, TextIOWrapper

from languages import _
from memory_server.kernel.errors import InvalidInput
from memory_server.kernel.values import dataclass


@dataclass(slots=True)
class CapturedIO:
    """What the command reads, and what it has written so far. `terminal` has the variables that say how output for
    people looks; `TERMINALS` names which of the descriptors 1 and 2 are a terminal. `waiting` has what is still to be
    laid out and written, in order, in a process that serves others meanwhile; if it is None, output is written at once.
    """

    input: bytes = b""
    output: bytearray = field(default_factory=bytearray)
    errors: bytearray = field(default_factory=bytearray)
    terminal: Mapping[str, str] = field(default_factory=dict)
    waiting: list[Callable[[], None]] | None = None

    def do(self, writing: Callable[[], None]) -> None:
        """Write something now, or when `write_all` is called."""
        if self.waiting is None:
            writing()
        else:
            self.waiting.append(writing)

    def write_all(self) -> None:
        """Write what waits. To lay out thousands of rows takes seconds, so a server calls it in a thread."""
        writings = self.waiting or []
        self.waiting = None
        for writing in writings:
            writing()


CAPTURED_IO: ContextVar[CapturedIO | None] = ContextVar("captured_io", default=None)
"""The streams of the command that runs in this context, or None if it uses the streams of the process."""


OBEYED = dict.fromkeys((*range(9), *range(11, 32), *range(127, 160)), "\ufffd")
"""Characters that a terminal obeys, besides tab and the end of a line: one may write to the clipboard."""
_ESCAPED = {code: f"\\u{code:04x}" for code in range(127, 160)}
"""The same in JSON, which escapes all other control characters by itself."""
_COLOUR_OR_OBEYED = re.compile("(\x1b\\[[0-9;]{0,40}m)|[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def from_afar(text: str) -> str:
    """Return what a server has printed: it may have colours, and nothing else that a terminal obeys."""
    return _COLOUR_OR_OBEYED.sub(lambda match: match[1] or "\ufffd", text)


class CapturedStream(TextIOBase):
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


def confirmed(question: str, *, otherwise: str) -> bool:
    """Ask the person at this terminal, and tell whether they agree. Raises InvalidInput with `otherwise` if no person
    sits at a terminal."""
    if CAPTURED_IO.get() is not None or sys.stdin is None or not sys.stdin.isatty():
        raise InvalidInput(otherwise)
    sys.stderr.write(f"{question} [y/N] ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().casefold() in ("y", "yes", "是")


def complain(message: str, *values: object) -> None:
    """Write a message with these values to standard error, in the reader's language."""
    write_errors(f"memory-server: {_(message, *values).translate(OBEYED)}\n")


def write_errors(text: str) -> None:
    streams = CAPTURED_IO.get()
    if streams is None:
        sys.stderr.write(text)
    else:
        streams.do(partial(_write_captured, streams, text, stderr=True))


def _write_captured(streams: CapturedIO, text: str, *, stderr: bool) -> None:
    CapturedStream(streams, stderr=stderr).write(text)


def say_if_waiting(input_name: str) -> None:
    """Tell a person at a terminal what is read there, and how to end it."""
    if CAPTURED_IO.get() is None and sys.stdin is not None and sys.stdin.isatty():
        complain("reading {what} from this terminal; Ctrl-D ends it, --help says more", input_name)
