"""Zip archives that `import` reads: the data export of ChatGPT or Claude as it is sent, often with pictures of many
gigabytes, of which nothing is unpacked."""

from __future__ import annotations

import lzma
import zipfile
import zlib
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from memory_server.cli.exchanged_files import MOST_FILES, Tree
from memory_server.interchange import chat_exports
from memory_server.interchange.forms import refusal_of_zip
from memory_server.interchange.incoming import NotThisFormat
from memory_server.kernel.files import MAX_FILE_BYTES

_ENCRYPTED = 0x1
"""The bit of `flag_bits` that an entry with a password has (APPNOTE.TXT of PKWARE, 4.4.4)."""
_OF_MACOS = "__MACOSX"
"""The folder in which macOS keeps facts about the files of an archive."""


def read_zip(source: Path | BinaryIO) -> Tree:
    """The chats, projects and memories of an export in this archive. Raises NotThisFormat: it has none, is damaged, has
    a password, or they are too large."""
    try:
        with zipfile.ZipFile(source) as archive:
            return _tree_of(archive)
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
            "is a zip archive that cannot be read ({reason}); load it again, or unpack it and give the folder.", error
        ) from error


def _tree_of(archive: zipfile.ZipFile) -> Tree:
    entries = [entry for entry in archive.infolist() if not entry.is_dir() and not _is_hidden(entry.filename)]
    parts = [entry for entry in entries if chat_exports.is_part(entry.filename)]
    if not parts:
        raise NotThisFormat(refusal_of_zip([entry.filename for entry in entries]))
    if len(parts) > MOST_FILES or sum(entry.file_size for entry in parts) > MAX_FILE_BYTES:
        raise NotThisFormat(
            "holds more than {files:,} files or {max_file:,} bytes of chats; unpack it and give its parts one by one.",
            MOST_FILES,
            MAX_FILE_BYTES,
        )
    files: dict[str, bytes] = {}
    times: dict[str, int] = {}
    for entry in parts:
        if entry.flag_bits & _ENCRYPTED:
            raise NotThisFormat("is a zip archive with a password; unpack it and give the folder.")
        with archive.open(entry) as file:
            # An archive may say that a file is smaller than it is.
            files[entry.filename] = file.read(entry.file_size)
        times[entry.filename] = round(datetime(*entry.date_time, tzinfo=UTC).timestamp() * 1000)
    return Tree(files, times, others=[entry.filename for entry in entries if entry.filename not in files])


def _is_hidden(name: str) -> bool:
    parts = PurePosixPath(name).parts
    return _OF_MACOS in parts or any(part.startswith(".") for part in parts)
