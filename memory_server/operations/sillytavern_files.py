"""Read the files of a folder of SillyTavern for `import` and `convert`.

These are chats, groups, lorebooks, settings, and of each picture of a character only its card. Nothing else of the
folder is opened, such as the keys of services.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

from languages import _
from memory_server.interchange import png_cards, sillytavern_folder, sillytavern_parts
from memory_server.interchange.incoming import NotThisFormat
from memory_server.kernel import files as folders
from memory_server.kernel.errors import InvalidInput
from memory_server.kernel.files import reading
from memory_server.operations.exchanged_files import MOST_FILES, Tree

_NOT_OF_A_USER = ("node_modules", "backups", "thumbnails", "assets")
"""Folders without anything that a user said; some have very many files."""


def is_sillytavern(folder: Path) -> bool:
    """Return whether the names of the files in a folder are the names in a SillyTavern folder."""
    return sillytavern_folder.is_folder(relative for relative, _path in _parts(folder))


def read_sillytavern(folder: Path) -> Tree:
    """Read the parts of such a folder. Raises InvalidInput if they are too many or too large."""
    files: dict[str, bytes] = {}
    times: dict[str, int] = {}
    left_out: list[tuple[str, str]] = []
    room = folders.MAX_FILE_BYTES

    for relative, path in _parts(folder):
        facts = path.lstat()
        if not stat.S_ISREG(facts.st_mode):
            left_out.append((relative, _("it is a link, or is not a file")))
            continue
        if facts.st_size > folders.MAX_FILE_BYTES:
            left_out.append(
                (relative, _("it has more than {file:,} bytes", folders.MAX_FILE_BYTES))
            )
            continue

        with reading(path):
            data = folders.read_file(path)
        if data.startswith(png_cards.SIGNATURE):
            try:
                data = png_cards.card_in(data)
            except NotThisFormat as error:
                left_out.append((relative, _("it {reason}", error)))
                continue

        # Only the card of a picture counts, because only the card is kept.
        room -= len(data)
        if room < 0 or len(files) == MOST_FILES:
            raise InvalidInput(
                "{name} has more than {files:,} files or {max_file:,} bytes; import its parts one by one.",
                folder,
                MOST_FILES,
                folders.MAX_FILE_BYTES,
            )

        files[relative] = data
        times[relative] = round(facts.st_mtime * 1000)
    return Tree(files, times, left_out)


def _parts(folder: Path) -> Iterator[tuple[str, Path]]:
    """Yield the files that are parts of such a folder, with their paths in it. If the user gave only the folder of
    all worlds or characters, its own name is a part of the paths."""
    base = folder.resolve().name
    prefix = ""
    if base in sillytavern_parts.BOOK_FOLDERS:
        prefix = f"{base}/"
    for subfolder, below, names in os.walk(folder):
        # `os.walk` does not enter folders that are removed from its list.
        below[:] = sorted(
            name for name in below if not name.startswith(".") and name not in _NOT_OF_A_USER
        )
        for name in sorted(names):
            path = Path(subfolder, name)
            relative = prefix + path.relative_to(folder).as_posix()
            if not name.startswith(".") and sillytavern_parts.part_of(relative) is not None:
                yield relative, path
