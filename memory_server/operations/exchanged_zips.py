"""Read zip archives for `import`.

These are the data export of ChatGPT or Claude as it is sent, often with pictures of many gigabytes, which are not
unpacked; the backup of a user of SillyTavern; and a character card with its files.
"""

from __future__ import annotations

import lzma
import os
import zipfile
import zlib
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from languages import _
from memory_server.interchange import chat_exports, png_cards, sillytavern_folder, sillytavern_parts
from memory_server.interchange.forms import refusal_of_zip
from memory_server.interchange.incoming import NotThisFormat
from memory_server.kernel.files import MAX_FILE_BYTES
from memory_server.kernel.unpacking import UnpackingRoom
from memory_server.kernel.values import dataclass
from memory_server.operations.exchanged_files import MOST_FILES, Tree

_ENCRYPTED = 0x1
"""The bit of `flag_bits` that an entry with a password has (APPNOTE.TXT of PKWARE, 4.4.4)."""
_OF_MACOS = "__MACOSX"
"""The folder in which macOS keeps facts about the files of an archive."""
_CARD = "card.json"
_MODULE = "module.risum"


@dataclass(frozen=True, slots=True)
class ZippedCard:
    """A character card in a zip archive (CharX). `assets` counts the pictures and other files next to it.
    `has_module` means that it has a packed module of RisuAI, which only RisuAI reads."""

    card: bytes
    assets: int
    has_module: bool

    @property
    def size(self) -> int:
        """Bytes of the card, which alone is read."""
        return len(self.card)


@dataclass(frozen=True, slots=True)
class ZippedFolder:
    """The parts of a folder of SillyTavern in a zip archive."""

    tree: Tree

    @property
    def size(self) -> int:
        """Bytes of the files that are read."""
        return self.tree.size


@dataclass(frozen=True, slots=True)
class ZippedFile:
    """The only file in a zip archive that has memories or chats, as OpenMemory and Cherry Studio write it."""

    data: bytes


def read_zip(source: Path | BinaryIO) -> Tree | ZippedCard | ZippedFolder | ZippedFile:
    """Read an archive: a character card, the folder of a user of SillyTavern, a single file with memories, or the
    chats, projects and memories of an export. Raises NotThisFormat if it holds none of these, is damaged, has a
    password, or the parts are too large."""
    try:
        with zipfile.ZipFile(source) as archive:
            return _content_of(archive)
    except (
        zipfile.BadZipFile,
        EOFError,
        NotImplementedError,
        zlib.error,
        lzma.LZMAError,
        OSError,
        ValueError,
    ) as error:
        raise NotThisFormat(
            "is a zip archive that cannot be read ({reason}); download it again, or unpack it and import the folder.",
            error,
        ) from error


def _content_of(
    archive: zipfile.ZipFile,
) -> Tree | ZippedCard | ZippedFolder | ZippedFile:
    entries = [
        entry
        for entry in archive.infolist()
        if not entry.is_dir() and not _is_hidden(entry.filename)
    ]

    names = [entry.filename for entry in entries]

    if _CARD in names:
        cards = [entry for entry in entries if entry.filename == _CARD]

        # An archive may hold the same name several times.
        if sum(card.file_size for card in cards) > png_cards.MOST_BYTES:
            png_cards.refuse_large_card()
        card = _unpacked(archive, cards, names).files[_CARD]
        assets = [name for name in names if name not in (_CARD, _MODULE)]
        return ZippedCard(card, assets=len(assets), has_module=_MODULE in names)

    if sillytavern_folder.is_folder(names):
        parts = [
            entry for entry in entries if sillytavern_parts.part_of(entry.filename) is not None
        ]
        return ZippedFolder(_with_cards(_unpacked(archive, parts, names)))

    main_file = _main_file(names)
    if main_file:
        files = [entry for entry in entries if entry.filename == main_file]
        return ZippedFile(_unpacked(archive, files, names).files[main_file])

    parts = [entry for entry in entries if chat_exports.is_part(entry.filename)]
    if not parts:
        raise NotThisFormat(refusal_of_zip(names))
    return _unpacked(archive, parts, names)


def _main_file(names: Sequence[str]) -> str:
    """Return the name of the only file that has the memories or chats of an archive with these files, or an empty
    text."""
    if (
        "memories.jsonl.gz" in names and "memories.json" in names
    ):  # OpenMemory has the same facts in both
        return "memories.json"
    if "data.json" in names and not any(map(chat_exports.is_part, names)):  # Cherry Studio
        return "data.json"
    return ""


def _with_cards(tree: Tree) -> Tree:
    """Replace each picture by the card in it; leave out a picture without a card."""
    files: dict[str, bytes] = {}
    left_out: list[tuple[str, str]] = []
    for name, data in tree.files.items():
        if not data.startswith(png_cards.SIGNATURE):
            files[name] = data
            continue
        try:
            files[name] = png_cards.card_in(data)
        except NotThisFormat as error:
            left_out.append((name, _("it {reason}", error)))
    return Tree(files, tree.times, left_out)


def _unpacked(
    archive: zipfile.ZipFile, parts: Sequence[zipfile.ZipInfo], names: Sequence[str]
) -> Tree:
    """Unpack these parts of an archive. `names` are the names of all files in it."""
    # Parts may lie over one another in the archive, so that each has a size and all of them do not.
    packed_bytes = min(sum(entry.compress_size for entry in parts), _size_of(archive))
    room = UnpackingRoom(packed_bytes)
    most_bytes = min(room.free_bytes, MAX_FILE_BYTES)
    if len(parts) > MOST_FILES or sum(entry.file_size for entry in parts) > most_bytes:
        raise NotThisFormat(
            "holds more than {files:,} files or {max_file:,} bytes of chats; unpack it and import its parts "
            "one by one.",
            MOST_FILES,
            most_bytes,
        )

    # Archives that are written without dates still have a time of their own file.
    archive_time = _time_of_archive(archive)
    files: dict[str, bytes] = {}
    times: dict[str, int] = {}

    for entry in parts:
        if entry.flag_bits & _ENCRYPTED:
            raise NotThisFormat(
                "is a zip archive with a password; unpack it and import the folder."
            )
        with archive.open(entry) as file:
            # An archive may say that a file is smaller than it is.
            data = file.read(entry.file_size)

        if not room.fits(data):
            raise NotThisFormat(
                "holds {file}, which unpacks to far more than chats do; unpack it and import its parts one by one.",
                entry.filename,
            )
        files[entry.filename] = data
        times[entry.filename] = _time_of(entry) or archive_time

    return Tree(files, times, others=[name for name in names if name not in files])


def _size_of(archive: zipfile.ZipFile) -> int:
    """Return the bytes of the archive itself."""
    file = archive.fp
    if file is None:
        return 0
    return file.seek(0, os.SEEK_END)


def _time_of(entry: zipfile.ZipInfo) -> int | None:
    """Return when a file of the archive was changed. Return None for an impossible date, as in archives that are
    written without dates."""
    try:
        return round(datetime(*entry.date_time, tzinfo=UTC).timestamp() * 1000)
    except ValueError:
        return None


def _time_of_archive(archive: zipfile.ZipFile) -> int:
    """Return when the archive was changed; 0 if it came through a pipe."""
    if archive.filename is None:
        return 0
    return round(Path(archive.filename).stat().st_mtime * 1000)


def _is_hidden(name: str) -> bool:
    parts = PurePosixPath(name).parts
    return _OF_MACOS in parts or any(part.startswith(".") for part in parts)
