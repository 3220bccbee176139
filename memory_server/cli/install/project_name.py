"""The file that gives a project a conversation of its own: `install --project` makes it, `uninstall` removes it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from memory_server.cli.install.client_files import bytes_of, say
from memory_server.cli.project_file import NAME, ProjectFile, read, text_of
from memory_server.core.errors import InvalidInput, StorageUnwritable
from memory_server.core.model import conversation_id_of


@dataclass(frozen=True, slots=True)
class ProjectName:
    """The file of a project. `wanted` is the conversation that it is to name; None: whatever it names, or none."""

    path: Path
    wanted: str | None
    there: ProjectFile | None

    @classmethod
    def read(cls, project: Path, wanted: str | None) -> ProjectName:
        """The file of `project`, where there may be none.

        Raises:
            InvalidInput: it cannot be used, or names another conversation than is wanted.
        """
        path = project / NAME
        there = read(path) if path.is_file() else None
        wanted = None if wanted is None else conversation_id_of(wanted)
        if there is not None and wanted not in (None, there.conversation):
            raise InvalidInput(
                f"{path} names the conversation `{there.conversation}`; change it there, or leave --conversation out."
            )
        return cls(path, wanted, there)

    def put(self, *, dry_run: bool) -> bool:
        """Whether something changed.

        Raises:
            StorageUnwritable: the file cannot be written.
        """
        if self.there is not None:
            say(f"In this folder the conversation is `{self.there.conversation}`, as {self.path} says.")
            return False
        if self.wanted is None:
            return False
        if dry_run:
            say(f"+++ {self.path}\n{text_of(self.wanted)}")
            return True
        try:
            self.path.write_text(text_of(self.wanted), encoding="utf-8", newline="\n")
        except OSError as error:
            raise StorageUnwritable(f"{self.path} cannot be written: {error.strerror}.", self.path) from error
        say(f"{self.path} was made: in this folder the conversation is `{self.wanted}`.")
        return True

    def take(self, *, dry_run: bool) -> None:
        """
        Raises:
            StorageUnwritable: the file cannot be removed.
        """
        if self.there is None:
            return
        if bytes_of(self.path) != text_of(self.there.conversation).encode():
            say(f"{self.path} is not as it was made; it stays.")
        elif dry_run:
            say(f"--- {self.path}")
        else:
            try:
                self.path.unlink()
            except OSError as error:
                raise StorageUnwritable(f"{self.path} cannot be removed: {error.strerror}.", self.path) from error
            say(f"{self.path} was removed.")
