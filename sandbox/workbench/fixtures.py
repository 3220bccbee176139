"""Fixture files: found in folders, read, and turned into cases together with the files they name."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from datetime import UTC, tzinfo
from functools import lru_cache
from pathlib import Path

from .. import chat
from .cases import Case, CaseError, Unusable, cases
from .files import UsageError, read_chat, read_text, zone_of
from .packs import memory_named, read_usable
from .terminal import Terminal
from .yaml_forms import FormError, load_json, load_yaml

SUFFIXES = (".trigger.yaml", ".trigger.yml", ".trigger.json")


def fixture_files(paths: Sequence[str]) -> list[Path]:
    """The files given, and those in the folders given and below, sorted, each once. Raises UsageError."""
    found: dict[Path, None] = {}
    for name in paths:
        path = Path(name)
        if path.is_dir():
            inside = sorted(one for one in path.rglob("*") if one.name.endswith(SUFFIXES) and one.is_file())
            if not inside:
                raise UsageError(f"{name} holds no fixture; a fixture's name ends in .trigger.yaml")
            found.update(dict.fromkeys(inside))
        elif not path.exists():
            raise UsageError(f"{name} does not exist; give a fixture (*.trigger.yaml) or a folder of them")
        elif not path.name.endswith((".yaml", ".yml", ".json")):
            raise UsageError(f"{name} is no fixture; a fixture's name ends in .trigger.yaml")
        else:
            found[path] = None
    return list(found)


def fixtures_beside(pack: str) -> list[Path]:
    """The fixture files in the folder of a pack, sorted."""
    return sorted(path for path in Path(pack).parent.iterdir() if path.name.endswith(SUFFIXES) and path.is_file())


Stamp = tuple[int, int, int] | None
"""What changes when a file does: time, size and number of the file; None for one that is not there."""


def stamp(path: Path) -> Stamp:
    """Of the file as it is now."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


def read_fixture(
    path: Path, encoding: str | None = None, opened: dict[Path, Stamp] | None = None
) -> list[Case | Unusable]:
    """The cases of a file. `encoding`: of it and the files that it names. Raises UsageError.

    `opened`: gets the files that it names, as they were before they were read.
    """
    text = read_text(path, encoding)
    try:
        document = load_json(text) if path.suffix == ".json" else load_yaml(text)
        return cases(str(path), document, Beside(path.parent, str(path), encoding, opened))
    except FormError as error:
        raise UsageError(f"{path} is no {'JSON' if path.suffix == '.json' else 'YAML'}: {error}") from error
    except CaseError as error:
        raise UsageError(f"{path}: {error}") from error


class Beside:
    """The files that a fixture names, relative to its folder; each is read once. Implements cases.Nearby."""

    def __init__(
        self, folder: Path, file: str = "", encoding: str | None = None, opened: dict[Path, Stamp] | None = None
    ) -> None:
        self._folder = folder
        self._opened = {} if opened is None else opened
        self._file = file
        self._encoding = encoding
        self._pack = lru_cache(maxsize=None)(read_usable)
        self._chat = lru_cache(maxsize=None)(read_chat)

    def tell(self, sentence: str) -> None:
        Terminal(sys.stderr).say(f"{self._file}: {sentence}", "yellow")

    def _named(self, name: str) -> Path:
        path = self._folder / name
        of_several = Path(str(path).rpartition("#")[0])  # chat.json#2
        file = of_several if not path.exists() and of_several.is_file() else path
        if file.exists() and not file.is_file():
            raise CaseError(f"{file} is not a file; name a file")  # a pipe would be waited for
        self._opened.setdefault(file, stamp(file))
        return path

    def text(self, name: str) -> str:
        try:
            return read_text(self._named(name), self._encoding)
        except UsageError as error:
            raise CaseError(str(error)) from error

    def chat(self, name: str, encoding: str | None, zone: tzinfo) -> Sequence[chat.Message]:
        try:
            return self._chat(str(self._named(name)), encoding or self._encoding, zone)
        except UsageError as error:
            raise CaseError(str(error)) from error

    def trigger_of(self, pack: str, memory: str) -> str:
        try:
            found, wrong = self._pack(str(self._named(pack)), self._encoding)
            if about := [one for one in wrong if f"({memory!r})" in one]:
                raise CaseError(f"{pack}: {about[0]}")
            return memory_named(found, memory).trigger
        except (UsageError, LookupError) as error:
            raise CaseError(f"{pack}: {error}" if isinstance(error, LookupError) else str(error)) from error

    def zone(self, name: str) -> tzinfo:
        try:
            return zone_of(name) or UTC
        except UsageError as error:
            raise CaseError(f"`tz`: {error}") from error
