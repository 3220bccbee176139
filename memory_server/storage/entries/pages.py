"""Pages of notes as files in a folder of the user."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from languages import Sentence
from memory_server.kernel import files as folders
from memory_server.kernel.errors import InvalidInput, StorageUnwritable
from memory_server.kernel.foreign_files import refuse_foreign
from memory_server.knowledge.notes.pages import MARK


def pages_in(*folders_of_pages: Path) -> list[Path]:
    """List the files in these folders that `write_pages` made; a folder may be missing."""
    paths: list[Path] = []
    for folder in dict.fromkeys(folders_of_pages):
        for path in sorted(folder.glob("*.md")):
            with suppress(OSError):
                if folders.read_file(path, links=False).startswith(MARK.encode()):
                    paths.append(path)
    return paths


def write_pages(folder: Path, pages: Mapping[str, str], *, force: bool = False) -> list[Path]:
    """Write each page as `NAME.md`. Return the files. A file that is as it should be is not touched, so that git
    stays quiet.

    Raises:
        InvalidInput: a file was made by a person, and `force` is not given; no page was written.
        StorageUnwritable: a page cannot be written, or the folder is in a project, which a link leads out of.
    """
    folder = folder.expanduser().absolute()
    files = {folder / f"{name}.md": text.encode() for name, text in pages.items()}
    try:
        for project in folder.parents:
            if os.path.lexists(
                project / ".git"
            ):  # also of another user, who may have made a link for us
                refuse_foreign(project, folder)

        # All files are read before the first is written, so a refusal changes nothing.
        present = {
            path: folders.read_file(path, links=False) for path in files if os.path.lexists(path)
        }
        own_paths = [path for path, data in present.items() if _is_own(data)]
        if own_paths and not force:
            raise InvalidInput(
                "{own} was not made by `knowledge document`; move it away, choose another --output, or add "
                "--force. No page was written.",
                own_paths[0],
            )

        for path, data in files.items():
            if present.get(path) != data:
                folders.make_folder(folder)
                folders.replace_file(path, data)
    except OSError as error:
        raise StorageUnwritable(
            Sentence(
                "The pages in {folder} cannot be written: {advice_on}.",
                folder,
                folders.advice_on(error),
            ),
            folder,
        ) from error

    return list(files)


def _is_own(data: bytes) -> bool:
    """Tell whether a file was made by a person, and is not empty."""
    return bool(data.strip()) and not data.startswith(MARK.encode())
