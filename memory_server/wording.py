"""Numbers of things in the sentences that people read."""

from __future__ import annotations


def counted(count: int, noun: str) -> str:
    """`1 memory`, `3 memories`."""
    plural = noun[:-1] + "ies" if noun.endswith("y") else noun + "s"
    return f"{count} {noun if count == 1 else plural}"
