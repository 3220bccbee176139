"""A client's settings file on disk: read whole, edited, backed up, written whole or not at all, and put back."""

from __future__ import annotations

import difflib
import os
import shutil
import sys
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from memory_server.clients.edits import Edits, NameTaken, taken_back
from memory_server.clients.json_text import NotJson
from memory_server.errors import InvalidInput, StorageUnwritable

BACKUP_SUFFIX = ".before-memory-server"


@dataclass(frozen=True, slots=True)
class ClientFile:
    """A file of a client's, as it is now. `text` is empty where there is none; `before` is that of the backup."""

    path: Path
    text: str
    mark: bytes
    edits: Edits
    exists: bool
    before: str | None

    @classmethod
    def read(cls, path: object, file_edits: Edits) -> ClientFile:
        # A link stays a link: what it points to is edited.
        place = Path(str(path)).resolve()
        data, backup = bytes_of(place), bytes_of(place.with_name(place.name + BACKUP_SUFFIX))
        mark = b"\xef\xbb\xbf" if (data or b"").startswith(b"\xef\xbb\xbf") else b""
        try:
            text = (data or b"").removeprefix(mark).decode()
            made = cls(place, text, mark, file_edits, data is not None, None if backup is None else text_of(backup))
            with suppress(NameTaken):  # that is told by who puts it there
                file_edits.put(text)
        except (UnicodeDecodeError, NotJson) as error:
            why = str(error) if isinstance(error, NotJson) else "it is not UTF-8"
            raise InvalidInput(
                f"{place} was not changed, because {why}; correct it, or paste what `memory-server install print` "
                "shows."
            ) from error
        return made

    @property
    def backup(self) -> Path:
        return self.path.with_name(self.path.name + BACKUP_SUFFIX)

    @property
    def has_it(self) -> bool:
        """Whether something of ours is there."""
        return self.exists and self.edits.take(self.text) != self.text

    def put(self, *, dry_run: bool) -> bool:
        """Whether something changed.

        Raises:
            InvalidInput: the name is another server's.
            StorageUnwritable: the file cannot be written.
        """
        try:
            after = self.edits.put(self.text)
        except NameTaken as error:
            raise InvalidInput(f"{self.path} was not changed, because {error}.") from error
        if after == self.text:
            say(f"{self.path} has it already; nothing was changed.")
            return False
        if dry_run:
            self._show(after)
            return True
        if self.exists and not self.has_it:
            # As it was without us; a later change of options must not replace it.
            self._write(self.backup, self.text)
        self._write(self.path, after)
        say(f"{self.path} was changed." + (f" What it was is in {self.backup.name}." if self.exists else ""))
        return True

    def take(self, *, dry_run: bool) -> None:
        if not self.has_it:
            say(f"{self.path} does not have it; nothing was changed.")
            return
        after = taken_back(self.text, self.before, self.edits)
        if dry_run:
            self._show(after or "")
            return
        if after is None:
            self.path.unlink()
            say(f"{self.path} held nothing else and was removed.")
        else:
            self._write(self.path, after)
            say(f"{self.path} was changed back.")
        self.backup.unlink(missing_ok=True)

    def _show(self, after: str) -> None:
        lines = difflib.unified_diff(
            self.text.splitlines(), after.splitlines(), str(self.path), "as it would be", lineterm=""
        )
        sys.stdout.write("\n".join(lines) + "\n")

    def _write(self, path: Path, text: str) -> None:
        """All of it or nothing, with the rights that the file has."""
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            number, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
            try:
                with os.fdopen(number, "wb") as file:
                    file.write(self.mark + text.encode())
                    file.flush()
                    os.fsync(file.fileno())
                if self.exists:
                    shutil.copymode(self.path, name)
                Path(name).replace(path)
            except BaseException:
                Path(name).unlink(missing_ok=True)
                raise
        except OSError as error:
            raise StorageUnwritable(
                f"{path} cannot be written: {error.strerror}; nothing was changed.", path
            ) from error


def bytes_of(path: Path) -> bytes | None:
    """What a file holds; None where there is none.

    Raises:
        InvalidInput: it cannot be read.
    """
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise InvalidInput(f"{path} cannot be read: {error.strerror}; nothing was changed.") from error


def text_of(data: bytes) -> str:
    """The text of a file for comparing; what is no UTF-8 in it is replaced."""
    return data.decode("utf-8-sig", errors="replace")


def say(line: str) -> None:
    """A line for the user."""
    sys.stdout.write(f"{line}\n")
