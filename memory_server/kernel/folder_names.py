"""The name of a conversation's folder: ids in, names out.

Two ids never have the same folder, on any file system. Some file systems ignore case and open `Work` as `work`; others
decompose and list `é` as two characters. So names are compared as they are listed, not by opening them.
"""

from __future__ import annotations

import hashlib
import os
import re
import unicodedata
from collections.abc import Iterable
from functools import cached_property
from pathlib import Path

_PLAIN = re.compile(r"[a-z0-9_-]{1,64}")
_NODE_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
_STEM_BYTES = 40
_SERIAL_PORTS = [f"com{number}" for number in range(1, 10)]
_PRINTER_PORTS = [f"lpt{number}" for number in range(1, 10)]
_RESERVED = frozenset(["con", "prn", "aux", "nul", *_SERIAL_PORTS, *_PRINTER_PORTS])
"""Device names that Windows does not let a folder have."""


def folder_name(conversation_id: str) -> str:
    """Return the name of a new conversation's folder: distinct for distinct ids, on case-insensitive and normalising
    file systems too.

    An id such as `work-2` is its own name. Any other id gets a readable stem of at most 40 bytes, `~` and a 128-bit
    hash: `小明~6d0a…`.
    """
    if _is_plain(conversation_id):
        return conversation_id
    return hashed_name(conversation_id)


def hashed_name(conversation_id: str) -> str:
    """Return the name with a hash, for an id that cannot be a name itself or whose name another id has."""
    digest = hashlib.sha256(conversation_id.encode()).hexdigest()[:32]
    readable = "".join(map(_folder_character, unicodedata.normalize("NFC", conversation_id)))
    stem = readable.encode()[:_STEM_BYTES].decode(errors="ignore")
    # UTF-8 on every disk, under any locale: os.fsdecode gives the name by which this process knows those bytes.
    return os.fsdecode(f"{stem}~{digest}".encode())


def _folder_character(character: str) -> str:
    if character.isalnum() or character in "_-":
        return character
    return "_"


def hash_in(name: str) -> str:
    """Return the hash in a name that `hashed_name` made. The hash alone identifies the conversation."""
    return name.rpartition("~")[2]


class FolderNames:
    """The names of the folders in a data folder, as a listing gives them."""

    def __init__(self, names: Iterable[str]) -> None:
        self._names = frozenset(names)

    def of(self, conversation_id: str) -> str:
        """Return the name of the folder of `conversation_id`, which need not be there. A folder that the Node original
        made for the id is its folder. A folder of ours stays the folder, even if the Node original makes another beside
        it later. `work` gets a name with a hash where a `Work` is listed, which may open as `work` too."""
        hashed = hashed_name(conversation_id)
        if hashed in self._names:
            return hashed
        listed_name = self._by_hash.get(hash_in(hashed))
        if listed_name is not None:
            return listed_name
        if _NODE_ID.fullmatch(conversation_id) and conversation_id in self._names:
            return conversation_id
        if _is_plain(conversation_id) and conversation_id not in self._careless:
            return conversation_id
        return hashed

    @cached_property
    def _by_hash(self) -> dict[str, str]:
        """Names with a hash, by the hash: some file systems list the rest of a name in another form than NFC, and a
        program under another locale once wrote it in other bytes."""
        return {hash_in(name): name for name in sorted(self._names) if "~" in name}

    @cached_property
    def _careless(self) -> frozenset[str]:
        return frozenset(map(as_seen_carelessly, self._names))


def as_seen_carelessly(name: str) -> str:
    """Return the name as it is compared by a file system that ignores case and normal form."""
    return unicodedata.normalize("NFC", unicodedata.normalize("NFD", name).casefold())


def is_reserved(name: str) -> bool:
    """Return whether Windows takes `name`, with any ending, for a device."""
    return name.partition(".")[0].casefold() in _RESERVED


def _is_plain(conversation_id: str) -> bool:
    return _PLAIN.fullmatch(conversation_id) is not None and conversation_id not in _RESERVED


def find_folder(data_dir: Path, conversation_id: str) -> Path:
    """Return the folder of a conversation, which need not exist; the Node original's folder if it made one. The data
    folder is listed, 10 ms with 10,000 conversations, only if a name alone does not tell whose it is."""
    hashed = data_dir / hashed_name(conversation_id)
    if hashed.is_dir():
        return hashed
    plain = data_dir / folder_name(conversation_id)
    if plain.is_dir() and not _opens_in_another_case(plain):
        return plain
    listed_names = FolderNames(folder.name for folder in subfolders(data_dir))
    return data_dir / listed_names.of(conversation_id)


def subfolders(folder: Path) -> list[Path]:
    """Return the folders in `folder`, sorted, with their names as the system lists them; empty if `folder` does not
    exist. Folders whose name begins with a dot are ours or the system's, and are left out. Raise PermissionError."""
    try:
        with os.scandir(folder) as entries:
            names = [entry.name for entry in entries if entry.name[0] != "." and entry.is_dir()]
    except (FileNotFoundError, NotADirectoryError):
        return []
    return sorted(folder / name for name in names)


def _opens_in_another_case(path: Path) -> bool:
    upper = path.with_name(path.name.upper())
    try:
        return upper.name != path.name and upper.samefile(path)
    except FileNotFoundError:
        return False
