"""Where the work of a window is. The folder of its process may be another folder: clients start the servers of their
global settings in the home folder, and say in variables, or when they are asked (`roots/list`), which folder is open.

CLAUDE_PROJECT_DIR is of Claude Code, WORKSPACE_FOLDER_PATHS and CURSOR_PROJECT_DIR are of Cursor, GEMINI_PROJECT_DIR is
of Gemini CLI; each names the folder of the project, the second variable perhaps several.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import url2pathname

from memory_server.config import Settings
from memory_server.config.project_file import in_folder, project_at
from memory_server.kernel.values import frozen
from memory_server.process.invocation import FOLDER_VARIABLES
from memory_server.runtime.homes import checkout_at

_BETWEEN_FOLDERS = re.compile(f"[,{re.escape(os.pathsep)}]")


@frozen
class Workspace:
    """The folder of the work. `variable` names it; if it is empty, the folder is the folder of the process."""

    folder: Path
    variable: str = ""

    @property
    def is_certain(self) -> bool:
        """Whether the client need not be asked: a variable or a file of the project says it, or it is a repository."""
        if self.variable or checkout_at(self.folder) is not None:
            return True
        return project_at(self.folder) is not None


def workspace_of(environ: Mapping[str, str], folder: Path | None = None) -> Workspace:
    """Return where a process with these variables works: in the first folder here that a client names in one of them,
    otherwise in `folder` (by default the working directory)."""
    for variable in FOLDER_VARIABLES:
        value = environ.get(variable, "")
        named_folder = _first_folder([value, *_BETWEEN_FOLDERS.split(value)])
        if named_folder is not None:
            return Workspace(named_folder, variable)
    return Workspace(folder or Path())


def _first_folder(texts: Iterable[str]) -> Path | None:
    """Return the first of the texts that is the path of a folder here, or None. A client of another system, as beside
    WSL, names paths that mean nothing here."""
    for text in texts:
        path = Path(text.strip())
        with suppress(OSError, ValueError):  # a name that is too long
            if path.is_absolute() and path.is_dir():
                return path
    return None


def folder_of_roots(uris: Iterable[str]) -> Path | None:
    """Return the folder that is open by the word of a client, from the URIs that it names, or None if no such folder is
    here."""
    paths: list[str] = []
    for uri in uris:
        # The text may not be a URI.
        with suppress(ValueError, OSError):
            parts = urlsplit(uri)
            if parts.scheme == "file":
                paths.append(url2pathname(parts.path))
    return _first_folder(paths)


def settings_of_roots(
    settings: Settings,
) -> Callable[[Iterable[str]], tuple[Path, Settings] | None]:
    """Return what a window does with the answer to `roots/list`: it finds the folder, and the settings there."""
    return partial(_placed, settings)


def _placed(settings: Settings, uris: Iterable[str]) -> tuple[Path, Settings] | None:
    folder = folder_of_roots(uris)
    if folder is None:
        return None
    return folder, in_folder(settings, folder)
