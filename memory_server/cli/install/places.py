"""Find the files that `install` changes, and write the file of a project."""

from __future__ import annotations

import subprocess
from contextlib import suppress
from functools import partial
from pathlib import Path, PurePath

from languages import Sentence, _
from memory_server.config.project_file import NAME, read, text_of
from memory_server.conversations.model import conversation_id_of
from memory_server.kernel import files as folders
from memory_server.kernel.errors import InvalidInput, StorageUnwritable
from memory_server.kernel.files import is_ours, refuse_foreign
from memory_server.operations.install.client_files import CLIENT_SECONDS, InstallPlan, bytes_of


def place_of(file: PurePath, project: Path | None = None) -> Path:
    """Return the path of a file to change. In the settings of the user, a link (such as into a folder of dotfiles)
    stays a link, and its target is edited. In a project no link is followed, because links may come with its
    repository. Raises InvalidInput if the link or the file belongs to another user, or if the link leads to itself."""
    path = Path(str(file))
    if project is not None:
        try:
            refuse_foreign(project, path)
        except folders.FileRefused as error:
            raise InvalidInput("{reason}; nothing was changed.", error) from error
        return path
    try:
        target = path.resolve()
    except (OSError, RuntimeError) as error:  # RuntimeError up to Python 3.12
        raise InvalidInput(
            "{path} was not changed, because it is a link that leads to itself; remove it.", path
        ) from error

    existing = next(parent for parent in (target, *target.parents) if parent.exists())
    if path.is_symlink() and not (is_ours(path) and is_ours(existing)):
        raise InvalidInput(
            "{path} was not changed, because it is a link of, or to, another user; edit {place} yourself.",
            path,
            target,
        )
    return target


def project_named(project: Path, conversation: str | None) -> InstallPlan:
    """Plan to make the file that gives a project this conversation. The plan is empty for None, unless the file exists.
    Raises InvalidInput if it exists and cannot be used, or names another conversation."""
    path = place_of(project / NAME, project)
    present = None
    if path.is_file():
        present = read(path).conversation

    conversation_id = present
    if conversation is not None:
        conversation_id = conversation_id_of(conversation)
    if conversation_id is None:
        return InstallPlan()

    if present is None:
        text = text_of(conversation_id)
        report = _(
            "{path} was made: the conversation of this folder is `{wanted}`.", path, conversation_id
        )
        return InstallPlan(report, f"+++ {path}\n{text}", partial(_change, path, text))

    if present != conversation_id:
        raise InvalidInput(
            "{path} names the conversation `{there}`; change it there, or leave --conversation out.",
            path,
            present,
        )
    return InstallPlan(
        _("{path} already says that the conversation in this folder is `{there}`.", path, present)
    )


def project_unnamed(project: Path) -> InstallPlan:
    """Plan to remove the file that gives a project its conversation, unless it was changed since it was made. Raises
    InvalidInput if it cannot be used."""
    path = place_of(project / NAME, project)
    if not path.is_file():
        return InstallPlan()
    if bytes_of(path) != text_of(read(path).conversation).encode():
        return InstallPlan(_("{path} was changed after it was made, so it stays.", path))
    return InstallPlan(_("{path} was removed.", path), f"--- {path}", partial(_change, path, None))


def _change(path: Path, text: str | None) -> None:
    """Write a text to a file, or remove the file if there is no text. Raises StorageUnwritable."""
    try:
        if text is None:
            path.unlink()
        else:
            folders.replace_file(path, text.encode())
    except OSError as error:
        raise StorageUnwritable(
            Sentence("{path} cannot be changed: {reason}.", path, error.strerror), path
        ) from error


def is_kept_out_of_git(path: Path) -> bool:
    """Return whether git ignores the file; also True without git or a repository, because then it is not committed."""
    with suppress(OSError, subprocess.TimeoutExpired):
        # A file that git tracks does not count as ignored. 1: not ignored; 128: not in a repository.
        folder = next(folder for folder in path.parents if folder.is_dir())
        command = ("git", "-C", str(folder), "check-ignore", "-q", str(path))
        return (
            subprocess.run(
                command, capture_output=True, timeout=CLIENT_SECONDS, check=False
            ).returncode
            != 1
        )
    return True
