"""Standard input, output and error of a command that runs in the process of another one."""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass


@dataclass(slots=True)
class CapturedIO:
    """What the command reads, and what it has written so far."""

    input: bytes = b""
    output: bytes = b""
    errors: bytes = b""


CAPTURED_IO: ContextVar[CapturedIO | None] = ContextVar("captured_io", default=None)
"""Those of the command that runs in this context; None: the process's own."""
