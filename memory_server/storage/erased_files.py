"""What was erased for good, as files in `{data_dir}/.memory-server/`; and where in a folder it still stands.

`erased.jsonl` has a hash of each text, `erased.key` the key of the hashes, and `erasing.json` what is being erased
now.
"""

from __future__ import annotations

import gzip
import lzma
import os
import re
import secrets
import zipfile
import zlib
from collections.abc import Collection, Iterable, Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from memory_server.kernel import files as folders
from memory_server.kernel import json_text
from memory_server.kernel.erasure import Erasure, Trace, Traces
from memory_server.kernel.items import Item
from memory_server.kernel.unpacking import UnpackingRoom, unpacked
from memory_server.kernel.values import frozen
from memory_server.storage.entries import searching

_LEFTOVER = re.compile(r"\.(.{0,255}\.)?[0-9a-f]{16}\.next(-journal)?|\..{1,255}\.body", re.DOTALL)
"""Files that a killed process left beside the files that it was writing."""
_OF_DATABASE = ("-wal", "-shm", "-journal")
"""Endings of files beside a database of SQLite. The first holds pages, which are searched for texts; the rows are
looked through in the database. Another has its locks, which closing it would end."""


_LEAST_UNPACKED_BYTES = 64 * 1024 * 1024
_MOST_UNPACKED = 100
"""How far what is packed is unpacked to look into it, as backups are (backups/files.py)."""
_DAMAGED = (
    gzip.BadGzipFile,
    EOFError,
    zlib.error,
    lzma.LZMAError,
    zipfile.BadZipFile,
    searching.NotSearched,
)


@frozen
class _ReadHashes:
    """The hashes as they were read, with their key. `state`: time and size of the file then."""

    state: tuple[int, int] | None = None
    key: bytes = b""
    hashes: frozenset[str] = frozenset()


class ErasedFiles:
    """As `kernel.erasure.Tombstones`."""

    def __init__(self, data_dir: Path) -> None:
        private = data_dir / folders.PRIVATE
        self._hashes = private / "erased.jsonl"
        self._key = private / "erased.key"
        self._now = private / "erasing.json"
        self._read_hashes = _ReadHashes()

    def begin(self, erasure: Erasure) -> None:
        """Keep the erasure until `end`, and the hashes of its texts for good. Raises StorageUnwritable."""
        with folders.unwritable(self._now.parent):
            folders.make_folder(self._now.parent)
            folders.replace_file(self._now, json_text.dumps(asdict(erasure)))
            if not self._key.exists():
                folders.replace_file(self._key, secrets.token_bytes(32))
            key = folders.read_file(self._key)
            self._add({hash_of(key, text) for text in erasure.marks})

    def _add(self, hashes: Iterable[str]) -> None:
        """Append the hashes that the file does not have yet."""
        _key, known_hashes = self.known()
        new_hashes = sorted(set(hashes) - known_hashes)
        folders.append_durably(
            self._hashes, b"".join(f'"{new_hash}"\n'.encode() for new_hash in new_hashes)
        )

    def known(self) -> tuple[bytes, frozenset[str]]:
        with folders.unwritable(self._hashes.parent):
            lines = (folders.read_if_there(self._hashes) or b"").decode().split()
            key = folders.read_if_there(self._key) or b""
        return key, frozenset(line.strip('"') for line in lines)

    def adopt(self, key: bytes, hashes: Iterable[str]) -> bool:
        """Add the hashes of another home. Return False, and add none, if this one has a key of its own. Raises
        StorageUnwritable."""
        with folders.unwritable(self._key.parent):
            folders.make_folder(self._key.parent)
            if not self._key.exists():
                folders.replace_file(self._key, key)
            if folders.read_file(self._key) != key:
                return False
            self._add(hashes)
            return True

    def begun(self) -> Erasure | None:
        with folders.unwritable(self._now.parent):
            data = folders.read_if_there(self._now)
        if data is None:
            return None
        return begun_of(data)

    def end(self) -> None:
        with folders.unwritable(self._now.parent):
            folders.remove_file(self._now)
            folders.sync_folder(self._now.parent)

    def holds(self, texts: Iterable[str]) -> bool:
        """Return whether at least one of these texts was erased; empty texts do not count. Return
        False if there is no file of hashes. The hashes are read again if the file has changed."""
        try:
            facts = self._hashes.stat()
        except OSError:
            return False
        state = (facts.st_mtime_ns, facts.st_size)
        if self._read_hashes.state != state:
            key, hashes = self.known()
            self._read_hashes = _ReadHashes(state, key, hashes)
        erased = self._read_hashes
        return any(
            not erased.hashes.isdisjoint(hashes_of(erased.key, text)) for text in texts if text
        )


def begun_of(data: bytes) -> Erasure:
    """Return the erasure that was begun, from the JSON that was kept of it."""
    values = json_text.load_object(data)
    not_kept: dict[str, Any] = {"aliases": (), "also": (), "said": (), "other_words": ()}
    return Erasure(
        tuple(Item(**{**item, **not_kept}) for item in values["items"]),
        tuple(values["texts"]),
        pieces=tuple(values["pieces"]),
        words=tuple(values["words"]),
        user=values["user"],
    )


def hash_of(key: bytes, text: str) -> str:
    """Return the hash by which a text is recognized; invisible characters do not count."""
    from nlp.index_terms import (
        seen_form,
    )  # here, as below: a hook seldom needs it, and waits for what is imported

    return _hash(key, seen_form(text))


def hashes_of(key: bytes, text: str) -> set[str]:
    """Return the hashes by which a text may be known: older versions counted invisible characters."""
    from nlp.index_terms import form_with_unseen

    return {hash_of(key, text), _hash(key, form_with_unseen(text))}


def _hash(key: bytes, form: str) -> str:
    """Return the hash of a form with this key; how its words are spaced does not count."""
    import hmac

    text = " ".join(form.split())
    return hmac.new(key, text.encode(errors="replace"), "sha256").hexdigest()


def holding(folder: Path, erasure: Erasure, *, without: Collection[Path] = ()) -> Traces:
    """Find the files in `folder`, which may be a file, that still contain something that is erased. The folders
    `without` are left out."""
    texts: list[Path] = []
    names: list[Path] = []
    unread: list[Path] = []
    for path in _files_in(folder, without):
        try:
            trace = searching.strongest(_traces_in(path, folder, erasure))
        except FileNotFoundError:  # it was removed meanwhile
            continue
        except (folders.FileRefused, PermissionError, *_DAMAGED):
            unread.append(path)
            continue
        if trace == "name":
            names.append(path)
        elif trace == "text":
            texts.append(path)

    return Traces(tuple(sorted(texts)), tuple(sorted(names)), tuple(sorted(unread)))


def without_leftovers(traces: Traces) -> Traces:
    """Remove the files that killed processes left of a write, and return the other traces."""
    leftovers = {path for path in traces.texts if _LEFTOVER.fullmatch(path.name)}
    for path in leftovers:
        folders.remove_file(path)
    remaining = tuple(path for path in traces.texts if path not in leftovers)
    return replace(traces, texts=remaining)


def _files_in(folder: Path, without: Collection[Path]) -> Iterator[Path]:
    """Yield the files in `folder` at any depth, or `folder` if it is a file; none below the folders `without`."""
    if folder.is_file():
        yield folder
    for parent, subfolders, names in os.walk(folder):
        subfolders[:] = [name for name in subfolders if Path(parent, name) not in without]
        for name in names:
            if not name.endswith("-shm"):
                yield Path(parent, name)


def _traces_in(path: Path, folder: Path, erasure: Erasure) -> Iterator[Trace | None]:
    """Yield where a file has what is erased: in its path below `folder`, in its bytes, and in what is packed in it.
    Raises an error of `_DAMAGED` if it cannot be unpacked."""
    if any(map(erasure.has_words, path.relative_to(folder).parts)):
        yield "name"
    is_of_database = path.name.endswith(_OF_DATABASE)
    for number, data in enumerate(_contents(path)):
        if erasure.held_in(data):
            yield "text"
        elif erasure.words and not is_of_database:
            yield searching.trace_in(data, erasure, None if number else path)


def _contents(path: Path) -> Iterator[bytes]:
    """Yield the bytes of a file, and what is packed in it. Raises an error of `_DAMAGED`: it cannot be unpacked."""
    data = folders.read_file(path)
    yield data
    most_bytes = UnpackingRoom(
        len(data), least_bytes=_LEAST_UNPACKED_BYTES, most_ratio=_MOST_UNPACKED
    ).free_bytes
    # By their first bytes, because the name of an export is free.
    if data.startswith(b"\x1f\x8b"):
        yield unpacked(data, wbits=31, most_bytes=most_bytes)
    elif path.suffix == ".zlib":
        yield unpacked(data, wbits=15, most_bytes=most_bytes)
    elif data.startswith(b"PK\x03\x04"):
        with zipfile.ZipFile(path) as archive:
            if sum(entry.file_size for entry in archive.infolist()) > most_bytes:
                raise zipfile.BadZipFile("it unpacks to too much")
            for name in archive.namelist():
                yield _member_of(archive, name)


def _member_of(archive: zipfile.ZipFile, name: str) -> bytes:
    """Read a file in an archive. Raises BadZipFile: it has a password, or is packed in an unknown way."""
    try:
        return archive.read(name)
    except (RuntimeError, NotImplementedError) as error:
        raise zipfile.BadZipFile(str(error)) from error
