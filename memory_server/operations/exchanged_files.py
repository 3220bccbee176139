"""Read and write files and folders for `export`, `import` and `convert`."""

from __future__ import annotations

import gzip
import lzma
import os
import stat
import zipfile
import zlib
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from languages import _
from memory_server.interchange import (
    chat_exports,
    folder_forms,
    png_cards,
    sillytavern_folder,
    sillytavern_parts,
)
from memory_server.interchange.forms import refusal_of_zip
from memory_server.interchange.incoming import NotThisFormat
from memory_server.kernel import files as folders
from memory_server.kernel.errors import InvalidInput
from memory_server.kernel.files import MAX_FILE_BYTES, reading, subfolders
from memory_server.kernel.unpacking import UnpackingRoom
from memory_server.kernel.values import frozen
from memory_server.operations.ports import Source
from sandbox import EncodingError, decode

_PIECE = 1024 * 1024
"""Bytes that are read at a time."""
MOST_FILES = 50_000
"""Files of a folder that are read."""
MOST_PAGE_BYTES = 1024 * 1024
"""Most bytes of a page; an entry that a tool writes has at most 100,000 characters."""

_SESSIONS = ("session-", "checkpoint-")
"""Prefixes of the names of JSON files of Gemini CLI that hold what was said."""


def content_of(source: Source, encoding: str | None) -> bytes:
    """Return the content of a file as UTF-8. If it is a pipe, wait for its end. Raises InvalidInput if it cannot be
    read, is too large, or does not have the given encoding."""
    if source.data is not None:
        return _utf8(source.name, source.data, encoding)
    with reading(source.name), Path(source.name).open("rb") as file:
        data = all_of(source.name, file)
    return _utf8(source.name, data, encoding)


def read_folder(folder: Path, encoding: str | None) -> dict[str, bytes]:
    """Read the memory files in a folder and in its subfolders, by their relative path. Raises InvalidInput if a file
    cannot be read, or if it is a data folder of this program, whose newest memories are in journals."""
    files: dict[str, bytes] = {}
    for searched_folder in (folder, *subfolders(folder)):
        if (searched_folder / folders.PRIVATE / "journal.jsonl").exists():
            raise InvalidInput(
                "{folder} is a data folder of memory-server; run `memory-server --data-dir {folder} export "
                "FILE` first, and import that file.",
                folder,
            )

        for name in (folder_forms.SHORT_TERM, folder_forms.LONG_TERM, folder_forms.FACTS):
            path = searched_folder / name
            with reading(path), suppress(FileNotFoundError):
                files[path.relative_to(folder).as_posix()] = _utf8(
                    str(path), folders.read_file(path), encoding
                )
    return files


@frozen
class Tree:
    """Markdown files, chats and transcripts of a folder or an archive, by their relative path, and the times at which
    they were changed. `left_out` has the path and the reason of each file that should be read and was not. `others`
    are the paths of files that no format reads."""

    files: Mapping[str, bytes]
    times: Mapping[str, int]
    left_out: Sequence[tuple[str, str]] = ()
    others: Sequence[str] = ()

    @property
    def size(self) -> int:
        """Bytes of the files that are read."""
        return sum(map(len, self.files.values()))


def read_tree(folder: Path) -> Tree:
    """Read the files in a folder and its subfolders that an import can use, and note the others. Follow no link and read
    no hidden file: a link could lead anywhere, also back. Raises InvalidInput if they are too many or too large."""
    tree_files = TreeFiles(folder)
    for parent, below, names in os.walk(folder):
        below[:] = sorted(name for name in below if not name.startswith("."))[: MOST_FILES + 1]
        for name in sorted(names):
            path = Path(parent, name)
            relative = path.relative_to(folder).as_posix()
            if _is_wanted(relative):
                tree_files.read(relative, path)
            else:
                tree_files.others.append(relative)
    return tree_files.tree()


class TreeFiles:
    """The files of a folder that were read so far. `others` are the paths of files that no format reads."""

    def __init__(self, folder: Path) -> None:
        self.others: list[str] = []
        self._folder = folder
        self._files: dict[str, bytes] = {}
        self._times: dict[str, int] = {}
        self._left_out: list[tuple[str, str]] = []
        self._free_bytes = folders.MAX_FILE_BYTES

    def tree(self) -> Tree:
        return Tree(self._files, self._times, left_out=self._left_out, others=self.others)

    def read(self, relative: str, path: Path) -> None:
        """Read a file that has the name `relative` in the folder, and of a picture only the card in it; or note why it
        is not read. Raises InvalidInput if the files are too many or too large."""
        facts = path.lstat()
        reason = _why_not(path.name, facts)
        if reason:
            self._left_out.append((relative, reason))
            return

        # Checked before reading, so that a huge folder cannot fill the memory.
        if facts.st_size > self._free_bytes or len(self._files) == MOST_FILES:
            raise InvalidInput(
                "{name} has more than {files:,} files or {max_file:,} bytes; import its parts one by one.",
                self._folder,
                MOST_FILES,
                folders.MAX_FILE_BYTES,
            )

        with reading(path):
            data = folders.read_file(path)
        if data.startswith(png_cards.SIGNATURE):
            try:
                data = png_cards.card_in(data)
            except NotThisFormat as error:
                self._left_out.append((relative, _("it {reason}", error)))
                return

        # Only the card of a picture counts, because only the card is kept.
        self._free_bytes -= len(data)
        self._files[relative] = data
        self._times[relative] = round(facts.st_mtime * 1000)


def _why_not(name: str, facts: os.stat_result) -> str:
    """Say why a file that should be read is not; empty if it is read."""
    if name.endswith(".jsonl.zst"):
        return _("it is compressed; unpack it with `zstd -d` and import the folder again")
    if chat_exports.is_archived_part(name):
        return _("it is a zip archive in the folder; import it separately")
    if not stat.S_ISREG(facts.st_mode):
        return _("it is a link, or is not a file")
    most = MOST_PAGE_BYTES if name.endswith(".md") else folders.MAX_FILE_BYTES
    if facts.st_size > most:
        return _("it has more than {file:,} bytes", most)
    return ""


def _is_wanted(path: str) -> bool:
    """Return whether a format of a folder reads files with such a name, or would if they were unpacked."""
    name = path.rpartition("/")[2]
    if name.endswith(".jsonl.zst") or chat_exports.is_archived_part(name):
        return True
    if name.startswith("."):
        return False
    is_session = name.startswith(_SESSIONS) and name.endswith(".json")
    return is_session or name.endswith((".md", ".jsonl")) or chat_exports.is_part(path)


def starts_with(path: Path, signature: bytes) -> bool:
    """Return whether a file begins with these bytes. False if it is not a file: its reader then reports that."""
    with suppress(OSError), folders.open_file(path, "rb") as file:
        return file.read(len(signature)) == signature
    return False


def write_file(name: str, parts: Iterable[bytes], *, force: bool) -> int:
    """Write a whole file, readable only by its owner; return the number of bytes. A name that ends with `.gz` makes a
    compressed file. A device or a pipe is written to and stays what it is. Raises InvalidInput if `name` exists and
    `force` is not given, or if it cannot be written."""
    data = b"".join(parts)
    if name.lower().endswith(".gz"):
        data = gzip.compress(data, mtime=0)

    path = Path(name).expanduser()
    if os.path.lexists(path) and (path.is_dir() or not force):
        raise InvalidInput(
            "{name} exists already; add --force to replace it, or choose another name.", name
        )

    try:
        # Replace a regular file as a whole; a device or a pipe can only be written to.
        if folders.refusal_of(path) is None:
            folders.replace_file(path, data)
        else:
            _write_into(path, data)
    except OSError as error:
        reason = error.strerror or error
        raise InvalidInput(
            "{name} cannot be written: {reason}; choose another place.", name, reason
        ) from error
    return len(data)


def _write_into(path: Path, data: bytes) -> None:
    """Write to a device or a pipe. A pipe without a reader is an error, because waiting for a reader could not be
    interrupted here. Raises OSError."""
    descriptor = os.open(
        path, os.O_WRONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0)
    )
    os.set_blocking(descriptor, True)
    with open(descriptor, "wb") as file:
        file.write(data)


def write_folder(name: str, files: Mapping[str, bytes]) -> int:
    """Write files into a new or empty folder; return the number of bytes. Raises InvalidInput if the folder is not
    empty, or cannot be written."""
    root = Path(name)

    try:
        if root.exists() and (not root.is_dir() or any(root.iterdir())):
            raise InvalidInput("{name} is not empty; choose a new folder.", name)
        for path, data in files.items():
            folders.make_folder((root / path).parent)
            folders.replace_file(root / path, data)
    except OSError as error:
        raise InvalidInput(
            "{name} cannot be written: {reason}; choose another place.", name, error.strerror
        ) from error
    return sum(map(len, files.values()))


def all_of(name: str, file: BinaryIO) -> bytes:
    """Read the content of a file; without a known size, as of a pipe, read only up to the limit.
    Raises InvalidInput if it has more than MAX_FILE_BYTES."""
    pieces: list[bytes] = []
    free_bytes = folders.MAX_FILE_BYTES
    while True:
        piece = file.read(_PIECE)
        if not piece:
            return b"".join(pieces)

        pieces.append(piece)
        free_bytes -= len(piece)
        if free_bytes < 0:
            raise InvalidInput(
                "{name} has more than {max_file:,} bytes; split it.", name, folders.MAX_FILE_BYTES
            )


def _utf8(name: str, data: bytes, encoding: str | None) -> bytes:
    """Return the data as UTF-8. Data that is not text stays as it is: incoming_files.py says what it is. Raises
    InvalidInput if it does not have the given encoding, or None and no encoding is found."""
    has_mark_of_utf16 = data.startswith((b"\xff\xfe", b"\xfe\xff"))

    if encoding is None and not has_mark_of_utf16:
        try:
            data.decode("utf-8")
        except UnicodeDecodeError:
            pass
        else:
            return data

        # Compressed data and pictures are read by other readers.
        if data[:2] in (b"\x1f\x8b", b"\x89P") or b"\0" in data[:1024]:
            return data
    try:
        return decode(data, encoding, flag=True).encode("utf-8", "surrogatepass")
    except EncodingError as error:
        raise InvalidInput("{file} {reason}.", name, error) from error


# --- zip archives ------------------------------------------------------------------------------------------------

# Read zip archives for `import`.
#
# These are the data export of ChatGPT or Claude as it is sent, often with pictures of many gigabytes, which are not
# unpacked; the backup of a user of SillyTavern; and a character card with its files.

_ENCRYPTED = 0x1
"""The bit of `flag_bits` that an entry with a password has (APPNOTE.TXT of PKWARE, 4.4.4)."""
_OF_MACOS = "__MACOSX"
"""The folder in which macOS keeps facts about the files of an archive."""
_CARD = "card.json"
_MODULE = "module.risum"


@frozen
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


@frozen
class ZippedFolder:
    """The parts of a folder of SillyTavern in a zip archive."""

    tree: Tree

    @property
    def size(self) -> int:
        """Bytes of the files that are read."""
        return self.tree.size


def read_zip(source: Path | BinaryIO) -> Tree | ZippedCard | ZippedFolder | bytes:
    """Read an archive: a character card, the folder of a user of SillyTavern, a single file with memories (`bytes`), or the
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
) -> Tree | ZippedCard | ZippedFolder | bytes:
    """Unpack what a zip archive holds: a CharX, a folder of SillyTavern, one main file (its bytes),
    or else an export of chats. Raises NotThisFormat if it is none of these, is too large, or has a
    password."""
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
        return _unpacked(archive, files, names).files[main_file]

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
    """Replace each picture by the card in it. A picture without a card is left out, with the
    reason."""
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
    """Unpack these parts of an archive. `names` are the names of all files in it. Raises
    NotThisFormat if there are too many or too large ones, or if one has a password."""
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
