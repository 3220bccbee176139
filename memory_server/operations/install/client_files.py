"""Change the files of clients that name the server: each change is a plan, which is carried out if all plans are
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
from pathlib import Path

from languages import _
from memory_server.kernel import files as folders
from memory_server.kernel.errors import InvalidInput, MemoryServerError
from memory_server.kernel.values import frozen
from memory_server.operations.install.edits import (
    Edit,
    Edits,
    NameTaken,
    NotJson,
    NotStrictJson,
    edited,
    taken_back,
)

BACKUP_SUFFIX = ".before-memory-server"
CLIENT_SECONDS = 60.0
"""Seconds that a client's own command may take; it usually takes one."""


class ClientFailed(MemoryServerError):
    """The client's own command failed."""


@frozen
class InstallPlan:
    """A step: `report` is printed after it was done, `shown` in a dry run; without `act` nothing changes."""

    report: str = ""
    shown: str = ""
    act: Callable[[], None] | None = None


@frozen
class OwnCommands:
    """The client's own commands that add and remove an entry; empty if it has no such command."""

    add: Sequence[str] = ()
    remove: Sequence[str] = ()


@frozen
class ClientFile:
    """A file of a client as it is now; `text` is empty if the file does not exist. `mark` is the byte order mark before the
    text."""

    path: Path
    text: str
    mark: bytes
    edits: Edits
    exists: bool
    commands: OwnCommands

    @classmethod
    def read(
        cls,
        path: Path,
        edits: Edits,
        commands: OwnCommands = OwnCommands(),
    ) -> ClientFile:
        """Read the file at `path`, which need not exist. Raises InvalidInput if it cannot be used."""
        data = bytes_of(path)
        content = data or b""
        mark = b""
        if content.startswith(codecs.BOM_UTF8):
            mark = codecs.BOM_UTF8

        try:
            text = content.removeprefix(mark).decode()
        except UnicodeDecodeError as error:
            raise InvalidInput(
                "{place} was not changed, because it is not UTF-8; correct it, or paste what "
                "`memory-server install print` shows.",
                path,
            ) from error

        return cls(
            path=path,
            text=text,
            mark=mark,
            edits=edits,
            exists=data is not None,
            commands=commands,
        )

    @property
    def has_it(self) -> bool:
        """Whether the file has the entry."""
        try:
            return self._edited(self.text, self.edits.take) != self.text
        except NotJson:
            return self.edits.trace.search(self.text) is not None

    def put(self) -> InstallPlan:
        """Plan to add the entry. Raises InvalidInput, which says what the owner can do, if the file cannot be
        changed."""
        after = self._with_entry()
        if after == self.text:
            return InstallPlan(_("{path} has the entry already; nothing was changed.", self.path))
        # The copy is the file without our entry; a later change of options must not replace it.
        makes_copy = self.exists and not self.commands.remove and not self.has_it

        copy = ""
        if makes_copy:
            copy = _(" A copy of the former file is in {name}.", self._backup.name)
        report = _("{path} was changed.{copy}", self.path, copy)

        def copy_former_file() -> None:
            if makes_copy:
                self._write(self._backup, self.text)

        def write() -> None:
            copy_former_file()
            self._write(self.path, after)

        # A running client may write the file at the same time, so its own command changes it if there is one.
        if not self.commands.add:
            return InstallPlan(report, self._difference(after), write)

        commands = [self.commands.add]
        if self.has_it:
            # The client may refuse to add a name that exists.
            commands.insert(0, self.commands.remove)
        return _run(commands, report, first=copy_former_file)

    def _with_entry(self) -> str:
        """Return the text with the entry; empty if the client's own command adds it to a file that is not strict
        JSON. Raises InvalidInput if neither is possible."""
        try:
            return self._edited(self.text, self.edits.put)
        except NameTaken as error:
            raise InvalidInput(
                "{path} was not changed, because {reason}.", self.path, error
            ) from error
        except NotJson as error:
            if self.edits.strict and isinstance(error, NotStrictJson):
                advice = _(
                    "Claude Code ignores such a file as a whole; correct that place, then install again"
                )
                raise InvalidInput(
                    "{path} was not changed, because {reason}. {advice}.", self.path, error, advice
                ) from error
            if not self.commands.add:
                advice = _(
                    "paste this into it yourself, as `memory-server install print` shows it:"
                )
                block = self._edited("", self.edits.put).rstrip()
                raise InvalidInput(
                    "{path} was not changed, because {reason}; {advice}\n{block}",
                    self.path,
                    error,
                    advice,
                    block,
                ) from error
            return ""  # the client reads its own form of JSON

    def take(self) -> InstallPlan:
        """Plan to remove the entry. Raises InvalidInput, which says what the owner can do, if the file cannot be
        changed."""
        if not self.has_it:
            return InstallPlan(_("{path} does not have the entry; nothing was changed.", self.path))
        if self.commands.remove:
            return _run([self.commands.remove], _("{path} was changed back.", self.path))

        after = self._without_entry()
        if after is None:
            sentence = _("{path} had no other content and was removed.", self.path)
            return InstallPlan(sentence, self._difference(""), self._remove)

        # The copy has served its purpose once the entry is gone.
        def write() -> None:
            self._backup.unlink(missing_ok=True)
            self._write(self.path, after)

        return InstallPlan(_("{path} was changed back.", self.path), self._difference(after), write)

    def _without_entry(self) -> str | None:
        """Return the text without the entry, or None if the file should be removed. Raises InvalidInput if it cannot
        be changed."""
        backup = bytes_of(self._backup, links=False)
        before = None
        if backup is not None:
            before = backup.decode("utf-8-sig", errors="replace")
        try:
            return taken_back(self.text, before, self.edits)
        except NotJson as error:
            advice = _("remove {entry} yourself", self.edits.entry)
            raise InvalidInput(
                "{path} was not changed, because {reason}; {advice}.", self.path, error, advice
            ) from error

    def _remove(self) -> None:
        """Remove the file, its copy, and the folders of the client that are empty then."""
        self._backup.unlink(missing_ok=True)
        self.path.unlink()
        with suppress(OSError):  # a folder that holds something else
            for folder in _folders_of_client(self.path):
                folder.rmdir()

    def _edited(self, text: str, edit: Edit) -> str:
        return edited(text, edit, toml=self.edits.toml)

    @property
    def _backup(self) -> Path:
        return self.path.with_name(self.path.name + BACKUP_SUFFIX)

    def _difference(self, after: str) -> str:
        former_lines = self.text.splitlines()
        lines = after.splitlines()
        titles = (str(self.path), _("after the change"))
        return "\n".join(difflib.unified_diff(former_lines, lines, *titles, lineterm=""))

    def _write(self, path: Path, text: str) -> None:
        """Write all of the text or nothing, and keep the rights of the file."""
        with folders.unwritable(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            mode = None
            if self.exists:
                mode = stat.S_IMODE(self.path.stat().st_mode)
            folders.replace_file(path, self.mark + text.encode(), mode)


def _run(
    commands: Sequence[Sequence[str]], report: str, *, first: Callable[[], None] | None = None
) -> InstallPlan:
    """Plan to run the commands of a client that are not empty, one after the other, after `first`.
    The plan raises ClientFailed if a command fails."""
    commands_to_run = [command for command in commands if command]

    def act() -> None:
        if first is not None:
            first()
        for command in commands_to_run:
            _run_command(command)

    lines = [_("would run: {command}", shlex.join(command)) for command in commands_to_run]
    return InstallPlan(report, "\n".join(lines), act)


def _run_command(command: Sequence[str]) -> None:
    """Run a client's own command. Raises ClientFailed, which names the command without its scope and its JSON."""
    name = " ".join(itertools.takewhile(lambda word: word != "--scope" and word[0] != "{", command))

    program = [shutil.which(command[0]) or command[0], *command[1:]]
    try:
        process = subprocess.run(
            program,
            capture_output=True,
            stdin=subprocess.DEVNULL,
            timeout=CLIENT_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ClientFailed("`{name}` could not be run: {reason}.", name, error) from error

    if process.returncode:
        output = (process.stderr or process.stdout).decode(errors="replace")
        reason = " ".join(output.split()).rstrip(".") or _("status {status}", process.returncode)
        raise ClientFailed("`{name}` failed: {why}.", name, reason)


def _folders_of_client(path: Path) -> Sequence[Path]:
    """Return the folders of `path` up to a hidden one such as `.cursor`, the innermost first, or an empty sequence."""
    if path.name.startswith("."):
        return ()
    above = list(path.parents)[:3]
    for number, folder in enumerate(above, 1):
        if folder.name.startswith("."):
            return above[:number]
    return ()


def bytes_of(path: Path, *, links: bool = True) -> bytes | None:
    """Return the content of a file, or None if it does not exist. With `links`, follow a link. Raises InvalidInput if
    it cannot be read."""
    with folders.reading(path):
        return folders.read_if_there(path, links=links)
