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

from memory_server.cli.install.edits import Edits, HasComments, NameTaken, NotJson, edited, pasted, taken_back
from memory_server.core.errors import InvalidInput, StorageUnwritable
from memory_server.storage.partition import folders

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
        """The file at `path`, where there may be none.

        Raises:
            InvalidInput: it cannot be read, is not JSON, also not with comments, or has another form.
        """
        # A link stays a link: what it points to is edited.
        place = Path(str(path)).resolve()
        data, backup = bytes_of(place), bytes_of(place.with_name(place.name + BACKUP_SUFFIX))
        mark = b"\xef\xbb\xbf" if (data or b"").startswith(b"\xef\xbb\xbf") else b""
        try:
            text = (data or b"").removeprefix(mark).decode()
            with suppress(NameTaken, HasComments):  # told by who would put it there
                edited(text, file_edits.put)
        except (UnicodeDecodeError, NotJson) as error:
            why = str(error) if isinstance(error, NotJson) else "it is not UTF-8"
            raise InvalidInput(
                f"{place} was not changed, because {why}; correct it, or paste what `memory-server install print` "
                "shows."
            ) from error
        return cls(place, text, mark, file_edits, data is not None, None if backup is None else text_of(backup))

    @property
    def backup(self) -> Path:
        return self.path.with_name(self.path.name + BACKUP_SUFFIX)

    @property
    def has_it(self) -> bool:
        """Whether something of ours is there."""
        try:
            return self.exists and edited(self.text, self.edits.take) != self.text
        except HasComments:
            return True

    def with_it(self) -> str:
        """Its text as it is to be once ours is there.

        Raises:
            InvalidInput: it cannot be changed; what its owner can do is said.
        """
        try:
            return edited(self.text, self.edits.put)
        except HasComments as error:
            advice = f"paste this into it yourself:\n{pasted(self.edits.put)}".rstrip()
            raise InvalidInput(f"{self.path} was not changed, because {error}; {advice}") from error
        except NameTaken as error:
            raise InvalidInput(f"{self.path} was not changed, because {error}.") from error

    def without_it(self) -> str | None:
        """Its text as it is to be without ours; None where it is to be removed.

        Raises:
            InvalidInput: it cannot be changed; what its owner can do is said.
        """
        if not self.has_it:
            return self.text
        try:
            return taken_back(self.text, self.before, self.edits)
        except HasComments as error:
            advice = f"take out {self.edits.entry} yourself"
            raise InvalidInput(f"{self.path} was not changed, because {error}; {advice}.") from error

    def put(self, *, dry_run: bool) -> bool:
        """Whether something changed.

        Raises:
            InvalidInput: it cannot be changed.
            StorageUnwritable: the file cannot be written.
        """
        after = self.with_it()
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
        """
        Raises:
            InvalidInput: it cannot be changed.
            StorageUnwritable: the file cannot be written.
        """
        after = self.without_it()
        if after == self.text:
            say(f"{self.path} does not have it; nothing was changed.")
            return
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
        return folders.read_file(path)
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
