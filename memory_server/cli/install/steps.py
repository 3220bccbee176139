"""The steps of `install` and `uninstall`: each makes a plan, which is carried out if the plans of all steps are
possible."""

from __future__ import annotations

import codecs
import difflib
import itertools
import shlex
import shutil
import stat
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from memory_server.cli.install.edits import Edits, NameTaken, NotJson, edited, taken_back
from memory_server.cli.project_file import NAME, ProjectFile, read, text_of
from memory_server.core.errors import InvalidInput, MemoryServerError, StorageUnwritable
from memory_server.core.model import conversation_id_of
from memory_server.storage.partition import folders

BACKUP_SUFFIX = ".before-memory-server"
CLIENT_SECONDS = 60.0
"""Seconds that a client's own command may take; it usually takes one."""


class ClientFailed(MemoryServerError):
    """The client's own command failed."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The plan of a step: `said` is printed when it was done, `shown` in a dry run. `act` is None if nothing
    changes."""

    said: str = ""
    shown: str = ""
    act: Callable[[], None] | None = None


@dataclass(frozen=True, slots=True)
class Own:
    """The commands of a client that add a server to its list and, if the client has such a command, remove it."""

    add: Sequence[str]
    remove: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class ClientFile:
    """A file of a client as it is now; `text` is empty if there is no file. `own`: the client changes it itself."""

    path: Path
    text: str
    mark: bytes
    edits: Edits
    exists: bool
    own: Own | None

    @classmethod
    def read(cls, path: object, edits: Edits, own: Own | None = None) -> ClientFile:
        """The file at `path`, which need not exist. Raises InvalidInput if it cannot be read."""
        # A link stays a link: the file that it points to is edited.
        place = Path(str(path)).resolve()
        data = bytes_of(place)
        mark = codecs.BOM_UTF8 if (data or b"").startswith(codecs.BOM_UTF8) else b""
        try:
            text = (data or b"").removeprefix(mark).decode()
        except UnicodeDecodeError as error:
            raise InvalidInput(
                f"{place} was not changed, because it is not UTF-8; correct it, or paste what `memory-server install "
                "print` shows."
            ) from error
        return cls(place, text, mark, edits, data is not None, own)

    @property
    def has_it(self) -> bool:
        """Whether the file has our entry."""
        try:
            return edited(self.text, self.edits.take) != self.text
        except NotJson:
            return self.edits.trace.search(self.text) is not None

    def put(self) -> Plan:
        """The plan to add the entry. Raises InvalidInput if the file cannot be changed; the message says what its owner
        can do."""
        try:
            after = edited(self.text, self.edits.put)
        except NameTaken as error:
            raise InvalidInput(f"{self.path} was not changed, because {error}.") from error
        except NotJson as error:
            if self.own is None:
                advice = "paste this into it yourself, as `memory-server install print` shows it:"
                block = edited("", self.edits.put).rstrip()
                raise InvalidInput(f"{self.path} was not changed, because {error}; {advice}\n{block}") from error
            after = ""  # the client reads its own form of JSON
        if after == self.text:
            return Plan(f"{self.path} has the entry already; nothing was changed.")
        with_copy = self.exists and not (self.own and self.own.remove)

        def act() -> None:
            if with_copy and not self.has_it:
                # The copy is the file without our entry; a later change of options must not replace it.
                self._write(self._backup, self.text)
            if self.own is None:
                self._write(self.path, after)

        copy = f" A copy of the former file is in {self._backup.name}." if with_copy else ""
        said = f"{self.path} was changed.{copy}"
        if self.own is None:
            return Plan(said, self._difference(after), act)
        return _run([*([self.own.remove] if self.own.remove and self.has_it else []), self.own.add], said, act)

    def take(self) -> Plan:
        """The plan to remove the entry. Raises InvalidInput if the file cannot be changed; the message says what its
        owner can do."""
        if not self.has_it:
            return Plan(f"{self.path} does not have the entry; nothing was changed.")
        if self.own and self.own.remove:
            return _run([self.own.remove], f"{self.path} was changed back.")
        backup = bytes_of(self._backup)
        before = None if backup is None else backup.decode("utf-8-sig", errors="replace")
        try:
            after = taken_back(self.text, before, self.edits)
        except NotJson as error:
            advice = f"remove {self.edits.entry} yourself"
            raise InvalidInput(f"{self.path} was not changed, because {error}; {advice}.") from error

        def act() -> None:
            if after is None:
                self.path.unlink()
            else:
                self._write(self.path, after)
            self._backup.unlink(missing_ok=True)

        said = "held nothing else and was removed" if after is None else "was changed back"
        return Plan(f"{self.path} {said}.", self._difference(after or ""), act)

    @property
    def _backup(self) -> Path:
        return self.path.with_name(self.path.name + BACKUP_SUFFIX)

    def _difference(self, after: str) -> str:
        lines = self.text.splitlines(), after.splitlines()
        return "\n".join(difflib.unified_diff(*lines, str(self.path), "after the change", lineterm=""))

    def _write(self, path: Path, text: str) -> None:
        """Write all of it or nothing, and keep the rights of the file."""
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            mode = stat.S_IMODE(self.path.stat().st_mode) if self.exists else None
            folders.replace_file(path, self.mark + text.encode())
            if mode is not None:
                path.chmod(mode)
        except OSError as error:
            raise StorageUnwritable(
                f"{path} cannot be written: {error.strerror}; nothing was changed.", path
            ) from error


def _run(commands: Sequence[Sequence[str]], said: str, first: Callable[[], None] = lambda: None) -> Plan:
    """The plan to run the commands of a client, one after the other, after `first`."""

    def act() -> None:
        first()
        for command in commands:
            name = " ".join(itertools.takewhile(lambda word: word != "--scope" and word[0] != "{", command))
            program = [shutil.which(command[0]) or command[0], *command[1:]]
            try:
                done = subprocess.run(
                    program, capture_output=True, stdin=subprocess.DEVNULL, timeout=CLIENT_SECONDS, check=False
                )
            except (OSError, subprocess.TimeoutExpired) as error:
                raise ClientFailed(f"`{name}` could not be run: {error}.") from error
            if done.returncode:
                why = " ".join((done.stderr or done.stdout).decode(errors="replace").split()).rstrip(".")
                raise ClientFailed(f"`{name}` failed: {why or f'status {done.returncode}'}.")

    return Plan(said, "\n".join(f"would run: {shlex.join(command)}" for command in commands), act)


@dataclass(frozen=True, slots=True)
class ProjectName:
    """The file that gives a project a conversation of its own. `wanted` is the conversation that it should name; None:
    the one that it names, if any."""

    path: Path
    wanted: str | None
    there: ProjectFile | None

    @classmethod
    def read(cls, project: Path, wanted: str | None) -> ProjectName:
        """The file of `project`, which need not exist. Raises InvalidInput if it cannot be used, or names another
        conversation than is wanted."""
        path = project / NAME
        there = read(path) if path.is_file() else None
        wanted = None if wanted is None else conversation_id_of(wanted)
        if there is not None and wanted not in (None, there.conversation):
            raise InvalidInput(
                f"{path} names the conversation `{there.conversation}`; change it there, or leave --conversation out."
            )
        return cls(path, wanted, there)

    def put(self) -> Plan:
        """The plan to make the file if there is none."""
        if self.there is not None:
            said = f"already says that the conversation in this folder is `{self.there.conversation}`."
            return Plan(f"{self.path} {said}")
        if self.wanted is None:
            return Plan()
        text = text_of(self.wanted)
        said = f"{self.path} was made: in this folder the conversation is `{self.wanted}`."
        return Plan(said, f"+++ {self.path}\n{text}", lambda: self._change(text))

    def take(self) -> Plan:
        """The plan to remove the file if it was not changed."""
        if self.there is None:
            return Plan()
        if bytes_of(self.path) != text_of(self.there.conversation).encode():
            return Plan(f"{self.path} was changed since it was made, so it stays.")
        return Plan(f"{self.path} was removed.", f"--- {self.path}", lambda: self._change(None))

    def _change(self, text: str | None) -> None:
        try:
            if text is None:
                self.path.unlink()
            else:
                self.path.write_text(text, encoding="utf-8", newline="\n")
        except OSError as error:
            raise StorageUnwritable(f"{self.path} cannot be changed: {error.strerror}.", self.path) from error


def bytes_of(path: Path) -> bytes | None:
    """The content of a file; None if there is no file. Raises InvalidInput if it cannot be read."""
    try:
        return folders.read_file(path)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise InvalidInput(f"{path} cannot be read: {error.strerror}; nothing was changed.") from error
