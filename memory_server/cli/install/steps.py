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
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from memory_server.cli.install.edits import Edit, Edits, NameTaken, NotJson, NotStrictJson, edited, taken_back
from memory_server.cli.project_file import NAME, read, text_of
from memory_server.conversations.model import conversation_id_of
from memory_server.kernel import files as folders
from memory_server.kernel.errors import InvalidInput, MemoryServerError, StorageUnwritable
from memory_server.storage.projects import is_ours, refuse_foreign
from sandbox.locale import _, joined, translated

BACKUP_SUFFIX = ".before-memory-server"
CLIENT_SECONDS = 60.0
"""Seconds that a client's own command may take; it usually takes one."""


class ClientFailed(MemoryServerError):
    """The client's own command failed."""


@dataclass(frozen=True, slots=True)
class InstallPlan:
    """A step: `said` is printed when it was done, `shown` in a dry run; without `act` nothing changes."""

    said: str = ""
    shown: str = ""
    act: Callable[[], None] | None = None


@dataclass(frozen=True, slots=True)
class ClientFile:
    """A file of a client as it is now; `text` is empty if there is no file. `add` and `remove`: the client's own
    commands for the entry, where there are any."""

    path: Path
    text: str
    mark: bytes
    edits: Edits
    exists: bool
    add: Sequence[str]
    remove: Sequence[str]

    @classmethod
    def read(
        cls,
        path: object,
        edits: Edits,
        project: Path | None = None,
        add: Sequence[str] = (),
        remove: Sequence[str] = (),
    ) -> ClientFile:
        """The file at `path`, in `project` or the user's, which need not exist. Raises InvalidInput if it cannot be
        used."""
        place = _place_of(Path(str(path)), project)
        data = bytes_of(place)
        mark = codecs.BOM_UTF8 if (data or b"").startswith(codecs.BOM_UTF8) else b""
        try:
            text = (data or b"").removeprefix(mark).decode()
        except UnicodeDecodeError as error:
            raise InvalidInput(
                "{place} was not changed, because it is not UTF-8; correct it, or paste what "
                "`memory-server install print` shows.",
                place,
            ) from error
        return cls(place, text, mark, edits, data is not None, add, remove)

    @property
    def has_it(self) -> bool:
        try:
            return self._edited(self.text, self.edits.take) != self.text
        except NotJson:
            return self.edits.trace.search(self.text) is not None

    def put(self) -> InstallPlan:
        """The plan to add the entry. Raises InvalidInput, with what its owner can do: the file cannot be changed."""
        try:
            after = self._edited(self.text, self.edits.put)
        except NameTaken as error:
            raise InvalidInput("{path} was not changed, because {reason}.", self.path, error) from error
        except NotJson as error:
            if self.edits.strict and isinstance(error, NotStrictJson):
                advice = _("Claude Code ignores such a file as a whole; correct that place, then install again")
                raise InvalidInput(
                    "{path} was not changed, because {reason}. {advice}.", self.path, error, advice
                ) from error
            if not self.add:
                advice = _("paste this into it yourself, as `memory-server install print` shows it:")
                block = self._edited("", self.edits.put).rstrip()
                raise InvalidInput(
                    "{path} was not changed, because {reason}; {advice}\n{block}", self.path, error, advice, block
                ) from error
            after = ""  # the client reads its own form of JSON
        if after == self.text:
            return InstallPlan(_("{path} has the entry already; nothing was changed.", self.path))
        with_copy = self.exists and not self.remove

        def act() -> None:
            if with_copy and not self.has_it:
                # The copy is the file without our entry; a later change of options must not replace it.
                self._write(self._backup, self.text)
            if not self.add:
                self._write(self.path, after)

        copy = _(" A copy of the former file is in {name}.", self._backup.name) if with_copy else ""
        said = _("{path} was changed.{copy}", self.path, copy)
        if not self.add:
            return InstallPlan(said, self._difference(after), act)
        return _run([self.remove if self.has_it else (), self.add], said, act)

    def take(self) -> InstallPlan:
        """The plan to remove the entry. Raises InvalidInput, with what its owner can do: the file cannot be changed."""
        if not self.has_it:
            return InstallPlan(_("{path} does not have the entry; nothing was changed.", self.path))
        if self.remove:
            return _run([self.remove], _("{path} was changed back.", self.path))
        backup = bytes_of(self._backup, links=False)
        before = None if backup is None else backup.decode("utf-8-sig", errors="replace")
        try:
            after = taken_back(self.text, before, self.edits)
        except NotJson as error:
            advice = _("remove {entry} yourself", self.edits.entry)
            raise InvalidInput(
                "{path} was not changed, because {reason}; {advice}.", self.path, error, advice
            ) from error

        def act() -> None:
            self._backup.unlink(missing_ok=True)
            if after is not None:
                self._write(self.path, after)
                return
            self.path.unlink()
            with suppress(OSError):  # a folder that holds something else
                for folder in _folders_of_client(self.path):
                    folder.rmdir()

        back, gone = _("{path} was changed back.", self.path), _("{path} held nothing else and was removed.", self.path)
        return InstallPlan(gone if after is None else back, self._difference(after or ""), act)

    def _edited(self, text: str, edit: Edit) -> str:
        return edited(text, edit, toml=self.edits.toml)

    @property
    def _backup(self) -> Path:
        return self.path.with_name(self.path.name + BACKUP_SUFFIX)

    def _difference(self, after: str) -> str:
        lines = self.text.splitlines(), after.splitlines()
        return "\n".join(difflib.unified_diff(*lines, str(self.path), translated(_("after the change")), lineterm=""))

    def _write(self, path: Path, text: str) -> None:
        """Write all of it or nothing, and keep the rights of the file."""
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            mode = stat.S_IMODE(self.path.stat().st_mode) if self.exists else None
            folders.replace_file(path, self.mark + text.encode(), mode)
        except OSError as error:
            raise StorageUnwritable(
                _("{path} cannot be written: {reason}; nothing was changed.", path, error.strerror), path
            ) from error


def _place_of(path: Path, project: Path | None) -> Path:
    """Where the file `path` is. A link in the settings of the user, such as into a folder of dotfiles, stays a link:
    the file that it leads to is edited. In a project nothing is followed, because its links may come with its
    repository. Raises InvalidInput: the link, or the file, is not this user's, or the link leads to itself."""
    if project is not None:
        try:
            refuse_foreign(project, path)
        except folders.FileRefused as error:
            raise InvalidInput("{reason}; nothing was changed.", error) from error
        return path
    try:
        place = path.resolve()
    except (OSError, RuntimeError) as error:  # RuntimeError up to Python 3.12
        raise InvalidInput(
            "{path} was not changed, because it is a link that leads to itself; remove it.", path
        ) from error
    there = next(each for each in (place, *place.parents) if each.exists())
    if path.is_symlink() and not (is_ours(path) and is_ours(there)):
        raise InvalidInput(
            "{path} was not changed, because it is a link of, or to, another user; edit {place} yourself.", path, place
        )
    return place


def _run(commands: Sequence[Sequence[str]], said: str, first: Callable[[], None] = lambda: None) -> InstallPlan:
    """The plan to run the commands of a client that are not empty, one after the other, after `first`."""
    wanted = list(filter(None, commands))

    def act() -> None:
        first()
        for command in wanted:
            name = " ".join(itertools.takewhile(lambda word: word != "--scope" and word[0] != "{", command))
            program = [shutil.which(command[0]) or command[0], *command[1:]]
            try:
                done = subprocess.run(
                    program, capture_output=True, stdin=subprocess.DEVNULL, timeout=CLIENT_SECONDS, check=False
                )
            except (OSError, subprocess.TimeoutExpired) as error:
                raise ClientFailed("`{name}` could not be run: {reason}.", name, error) from error
            if done.returncode:
                why = " ".join((done.stderr or done.stdout).decode(errors="replace").split()).rstrip(".")
                raise ClientFailed("`{name}` failed: {why}.", name, why or _("status {status}", done.returncode))

    return InstallPlan(said, joined("\n", (_("would run: {command}", shlex.join(command)) for command in wanted)), act)


def project_named(project: Path, wanted: str | None) -> InstallPlan:
    """The plan to make the file that gives a project the conversation `wanted` (None: none of its own). Raises
    InvalidInput if the file is there and cannot be used, or names another conversation."""
    path = _place_of(project / NAME, project)
    there = read(path).conversation if path.is_file() else None
    wanted = there if wanted is None else conversation_id_of(wanted)
    if wanted is None:
        return InstallPlan()
    if there is None:
        text, said = text_of(wanted), _("{path} was made: in this folder the conversation is `{wanted}`.", path, wanted)
        return InstallPlan(said, f"+++ {path}\n{text}", partial(_change, path, text))
    if there != wanted:
        raise InvalidInput(
            "{path} names the conversation `{there}`; change it there, or leave --conversation out.", path, there
        )
    return InstallPlan(_("{path} already says that the conversation in this folder is `{there}`.", path, there))


def project_unnamed(project: Path) -> InstallPlan:
    """The plan to remove that file if it was not changed. Raises InvalidInput if it cannot be used."""
    path = _place_of(project / NAME, project)
    if not path.is_file():
        return InstallPlan()
    if bytes_of(path) != text_of(read(path).conversation).encode():
        return InstallPlan(_("{path} was changed since it was made, so it stays.", path))
    return InstallPlan(_("{path} was removed.", path), f"--- {path}", partial(_change, path, None))


def _change(path: Path, text: str | None) -> None:
    try:
        if text is None:
            path.unlink()
        else:
            folders.replace_file(path, text.encode())
    except OSError as error:
        raise StorageUnwritable(_("{path} cannot be changed: {reason}.", path, error.strerror), path) from error


def _folders_of_client(path: Path) -> Sequence[Path]:
    """The folders of `path` up to one such as `.cursor`, the innermost first; none if it is in no such folder."""
    above = [] if path.name.startswith(".") else list(path.parents)[:3]
    dots = [number for number, folder in enumerate(above, 1) if folder.name.startswith(".")]
    return above[: dots[0] if dots else 0]


def is_kept_out_of_git(path: Path) -> bool:
    """Whether git ignores the file, or there is no git or no repository: nobody commits it."""
    with suppress(OSError, subprocess.TimeoutExpired):
        # A file that git tracks does not count as ignored. 1: not ignored; 128: not in a repository.
        folder = next(folder for folder in path.parents if folder.is_dir())
        command = ("git", "-C", str(folder), "check-ignore", "-q", str(path))
        return subprocess.run(command, capture_output=True, timeout=CLIENT_SECONDS, check=False).returncode != 1
    return True


def bytes_of(path: Path, *, links: bool = True) -> bytes | None:
    """The content of a file; `links`: also of one that a link leads to. None if there is no file. Raises InvalidInput
    if it cannot be read."""
    try:
        return folders.read_file(path, links=links)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise InvalidInput("{path} cannot be read: {reason}; nothing was changed.", path, error.strerror) from error
