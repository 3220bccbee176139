"""The command that clients have to start: an absolute path, because they do not know the user's PATH."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import PurePath

from memory_server.cli.install.places import System
from memory_server.core.errors import InvalidInput

_PASSING = ("/uv/archive-v", "/uv/builds-v", "/pip-run-", "/pipx/.cache/", "/pipx/cache/")
"""Folders of environments that their makers throw away."""


def command_here(
    executable: PurePath, called_as: PurePath, system: System, exists: Callable[[PurePath], bool]
) -> Sequence[str]:
    """How a client starts this installation: `executable` is the interpreter, `called_as` how this process was called.

    Raises:
        InvalidInput: this installation is one that will be thrown away.
    """
    place = str(executable).replace("\\", "/")
    if any(part in f"{place}/" for part in _PASSING):
        raise InvalidInput(
            f"This runs from a temporary environment ({executable.parent}) that will be gone one day; "
            "install it for good, such as with `uv tool install` or `pipx install`, and run that."
        )
    name = "memory-server.exe" if system == "windows" else "memory-server"
    for candidate in (executable.parent / name, called_as):
        if candidate.name == name and candidate.is_absolute() and exists(candidate):
            return [str(candidate)]
    return [str(executable), "-m", "memory_server"]
