"""Standard input, output and error of a command that runs in the process of another one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import field

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
