"""What a command leaves: its exit status and what it printed."""

from __future__ import annotations

from typing import NamedTuple


class Outcome(NamedTuple):
    """The exit status of a command, its standard output and its standard error."""

    status: int
    out: str
    err: str

    @property
    def told(self) -> str:
        """All that it printed."""
        return self.out + self.err

    @property
    def in_one(self) -> tuple[int, str]:
        """The exit status, and all that it printed."""
        return self.status, self.told
