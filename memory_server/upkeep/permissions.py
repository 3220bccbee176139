"""Who else may read what lies in a folder. Windows has no such bits and is not asked."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

from memory_server.core.findings import Finding

_OTHERS = stat.S_IRWXG | stat.S_IRWXO


def open_to_others(folder: Path, about: str) -> Iterator[Finding]:
    """A warning where the folder lets others in, and a file in it can be read by them, or belongs to somebody else."""
    if os.name == "nt" or not folder.exists():
        return
    facts = folder.stat()
    if facts.st_uid != os.geteuid():
        yield Finding("warning", about, f"{folder} belongs to another user; memories may not be written there.")
    if facts.st_mode & _OTHERS:
        yield Finding(
            "warning",
            about,
            f"Others may look into {folder} (its mode is {stat.S_IMODE(facts.st_mode):o}); `chmod 700` closes it.",
        )
