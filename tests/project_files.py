"""The files that belong to this project: those that git tracks or would add, and none that a command has made.

`make demo`, `make setup` and `make dist` leave environments and packages in the clone. A test that walks the clone by
itself reads those too, and fails for what other projects wrote.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
MADE = {"node_modules", "dist", "build", "__pycache__"}
"""Folders that commands make, for a copy of the project that is not a checkout; hidden folders count as made too."""


def project_files(root: Path = ROOT) -> list[Path]:
    """The files of the project at `root`, sorted. Outside a git checkout these are all files that do not lie in a
    hidden folder or in one of `MADE`."""
    if not (root / ".git").exists():
        return sorted(_files_of_a_copy(root))
    command = [
        "git",
        "-C",
        str(root),
        "ls-files",
        "-z",
        "--cached",
        "--others",
        "--exclude-standard",
    ]
    listing = subprocess.run(command, check=True, capture_output=True).stdout.decode()
    names = listing.split("\0")[:-1]
    return sorted({root / name for name in names if (root / name).is_file()})


def _files_of_a_copy(root: Path) -> Iterator[Path]:
    for path in root.rglob("*"):
        folders = path.relative_to(root).parts[:-1]
        is_made = any(folder in MADE or folder.startswith(".") for folder in folders)
        if path.is_file() and not is_made:
            yield path
