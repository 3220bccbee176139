"""Standard input, output and error of a command that runs in the process of another one."""

from __future__ import annotations

from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field


@dataclass(slots=True)
class CapturedIO:
    """What the command reads, and what it has written so far. `terminal`: the variables that say how output for people
    looks; `TERMINALS` names the descriptors, of 1 and 2, that are a terminal."""

    input: bytes = b""
    output: bytes = b""
    errors: bytes = b""
    terminal: Mapping[str, str] = field(default_factory=dict)


CAPTURED_IO: ContextVar[CapturedIO | None] = ContextVar("captured_io", default=None)
"""Those of the command that runs in this context; None: the process's own."""
