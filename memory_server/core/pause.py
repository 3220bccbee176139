"""A pause of a memory: while it lasts, nothing is stored and hooks do not recall."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import tzinfo

from memory_server.core.times import local


@dataclass(frozen=True, slots=True)
class Pause:
    """It ends at `until_ms` (milliseconds since 1970); None: it lasts until somebody ends it."""

    until_ms: int | None = None

    def text(self, zone: tzinfo | None) -> str:
        """How long it lasts and what ends it, as text for people in `zone` (None: the system's)."""
        if self.until_ms is None:
            return "paused until `memory-server resume`"
        return f"paused until {local(self.until_ms, zone):%Y-%m-%d %H:%M}, or until `memory-server resume`"
