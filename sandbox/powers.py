"""What the worker process gives up before it meets a trigger. (Portable rest for now.)"""

from __future__ import annotations


def give_up(*, data_mb: int, parent: int) -> dict[str, str]:
    """Gives up what this system lets a process give up. Returns a line of text per layer."""
    del data_mb, parent
    return {}
