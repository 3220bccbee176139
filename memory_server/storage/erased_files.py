"""What was erased for good, as files in `{data_dir}/.memory-server/`; and where in a folder given bytes stand.

`erased.jsonl` has a hash of each text, `erased.key` the key of the hashes, and `erasing.json` what is being erased
now.
"""

from __future__ import annotations

import os
import re
import secrets
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

from memory_server.kernel import files as folders
from memory_server.kernel.erasure import Erasure
from memory_server.kernel.items import Item
from memory_server.storage.json_store import codec

_LEFT = re.compile(r"\.(.{0,255}\.)?[0-9a-f]{16}\.next(-journal)?|\..{1,255}\.body", re.DOTALL)
"""Files that a killed process left beside those that it was writing."""


class ErasedFiles:
    """As `kernel.erasure.Tombstones`."""

    def __init__(self, data_dir: Path) -> None:
        private = data_dir / folders.PRIVATE
        self._hashes, self._key, self._now = private / "erased.jsonl", private / "erased.key", private / "erasing.json"
        self._known: tuple[object, bytes, frozenset[str]] = None, b"", frozenset()

    def begin(self, erasure: Erasure) -> None:
        folders.make_folder(self._now.parent)
        folders.replace_file(self._now, codec.dumps(asdict(erasure)))
        if not self._key.exists():
            folders.replace_file(self._key, secrets.token_bytes(32))
        key = folders.read_file(self._key)
        self._add({hash_of(key, text) for text in erasure.marks})

    def _add(self, hashes: Iterable[str]) -> None:
        lines = sorted(set(hashes) - self.known()[1])
        folders.append_durably(self._hashes, b"".join(f'"{line}"\n'.encode() for line in lines))

    def known(self) -> tuple[bytes, frozenset[str]]:
        lines = (folders.read_if_there(self._hashes) or b"").decode().split()
        return folders.read_if_there(self._key) or b"", frozenset(line.strip('"') for line in lines)

    def adopt(self, key: bytes, hashes: Iterable[str]) -> bool:
        folders.make_folder(self._key.parent)
        if not self._key.exists():
            folders.replace_file(self._key, key)
        if folders.read_file(self._key) != key:
            return False
        self._add(hashes)
        return True

    def begun(self) -> Erasure | None:
        data = folders.read_if_there(self._now)
        return None if data is None else begun_of(data)

    def end(self) -> None:
        folders.remove_file(self._now)
        folders.sync_folder(self._now.parent)

    def holds(self, texts: Iterable[str]) -> bool:
        try:
            found = self._hashes.stat()
        except OSError:
            return False
        seen = (found.st_mtime_ns, found.st_size)
        if self._known[0] != seen:
            self._known = seen, *self.known()
        _, key, known = self._known
        return any(hash_of(key, text) in known for text in texts if text)


def begun_of(data: bytes) -> Erasure:
    """What was begun, of the JSON that was kept of it."""
    found = codec.load_object(data)
    items = (Item(**{**item, "aliases": (), "also": (), "said": ()}) for item in found.pop("items"))
    texts = {name: tuple(found[name]) for name in ("texts", "pieces", "words")}
    return Erasure(tuple(items), texts["texts"], texts["pieces"], texts["words"], found["user"])


def hash_of(key: bytes, text: str) -> str:
    """By which a text is known again."""
    import hmac  # here, as below: a hook seldom needs it, and waits for what is imported

    from nlp.index_terms import index_form

    return hmac.new(key, " ".join(index_form(text).split()).encode(errors="replace"), "sha256").hexdigest()


def holding(folder: Path, held_in: Callable[[bytes], bool]) -> list[Path]:
    """The files in `folder` whose bytes, unpacked where they are packed, are held. What killed processes left of a
    write is removed where it is held."""
    found: list[Path] = []
    for place, _, names in os.walk(folder):
        for path in (Path(place, name) for name in names):
            with suppress(FileNotFoundError, folders.FileRefused):
                if any(map(held_in, _contents(path))):
                    if _LEFT.fullmatch(path.name):
                        folders.remove_file(path)
                    else:
                        found.append(path)
    return sorted(found)


def _contents(path: Path) -> Iterator[bytes]:
    """The bytes of a file, and what is packed in it."""
    import gzip
    import zipfile

    data = folders.read_file(path)
    yield data
    with suppress(OSError, EOFError, zlib.error, zipfile.BadZipFile):
        if data.startswith(b"\x1f\x8b"):
            yield gzip.decompress(data)
        elif path.suffix == ".zlib":
            yield zlib.decompress(data)
        elif data.startswith(b"PK\x03\x04"):
            with zipfile.ZipFile(path) as packed:
                yield from map(packed.read, packed.namelist())
