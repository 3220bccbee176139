"""The settings in a folder: hooks and servers use the conversation that its `.memory-server.toml` names."""

from __future__ import annotations

from pathlib import Path

from memory_server.cli.project_file import ProjectFile, find
from memory_server.cli.terminal import complain
from memory_server.config import Settings


def project_at(folder: str | None = None) -> ProjectFile | None:
    """The file that counts in `folder`, by default the one of this process; None where there is none.

    Raises:
        InvalidInput: it cannot be used.
    """
    try:
        place = Path(folder or ".").absolute()
    except OSError:
        return None  # our own folder was removed
    return find(place)


def in_folder(settings: Settings, folder: str | None = None) -> Settings:
    """`settings` with the conversation that is meant in `folder`, by default the one of this process. What the folder
    says counts before what a server or a hook for all folders was installed with.

    Raises:
        InvalidInput: the file of the folder cannot be used.
    """
    project = project_at(folder)
    if project is None:
        return settings
    if project.ignored:
        complain(f"{project.path}: only `conversation` counts there, and not {', '.join(project.ignored)}")
    return settings.model_copy(update={"conversation": project.conversation})
