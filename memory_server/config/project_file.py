"""`.memory-server.toml`: the conversation of a folder and everything below it.

The file may come with another person's repository. So it can only give a name: it cannot say where memories are kept or
what is run. A file that cannot be used is an error and is never skipped: otherwise the memories of that folder would be
stored in the usual conversation.
"""

from __future__ import annotations

import tomllib
from contextlib import suppress
from pathlib import Path

from languages import N_, _
from memory_server.config import Settings
from memory_server.conversations.model import conversation_id_of
from memory_server.kernel.errors import InvalidInput
from memory_server.kernel.files import is_ours, reading
from memory_server.kernel.streams import complain
from memory_server.kernel.values import frozen

NAME = ".memory-server.toml"
MOST_BYTES = 10_000
_WANTED = N_('write `conversation = "my-project"` into it, or remove it')


@frozen
class ProjectFile:
    """`ignored` are the names in it that have no effect."""

    path: Path
    conversation: str
    ignored: tuple[str, ...] = ()


def project_at(folder: str | Path | None) -> ProjectFile | None:
    """Return the nearest file in `folder` or above it (by default the working directory), or None if no file is
    found. Raise InvalidInput if it cannot be used."""
    try:
        start = Path(folder or ".").absolute()
    except OSError:
        return None  # the working directory was removed
    for parent in (start, *start.parents):
        path = parent / NAME
        if _may_be_used(path):
            return read(path)
    return None


def _may_be_used(path: Path) -> bool:
    """Return whether the file exists and is this user's or root's: any user may put a file into /tmp. A file of
    another user is complained about. Raise InvalidInput if it is a link elsewhere than in the home folder, where this
    user made it."""
    try:
        if not path.is_file():  # also a pipe, which has no end
            return False
    except OSError:
        return False  # its folder may not be read

    if not is_ours(path):
        complain("{path} is not used, because it, or its folder, belongs to another user", path)
        return False

    with suppress(RuntimeError):  # this user has no home folder
        # Links in the home folder are this user's own.
        if path.parent == Path.home():
            return True

    if path.is_symlink():
        raise InvalidInput(
            "{path} is a link, which may come with a repository; {wanted}.", path, _(_WANTED)
        )
    return True


def in_folder(settings: Settings, folder: str | Path | None) -> Settings:
    """Return `settings` with the conversation of the nearest project file in `folder` (with None
    the working directory) or above it; unchanged if none exists. The file wins over the settings
    that a server or hook for all folders was installed with. Raises InvalidInput if it cannot be
    used."""
    project = project_at(folder)
    if project is None:
        return settings
    if project.ignored:
        complain(
            "{path}: only `conversation` is read there; {ignored} has no effect",
            project.path,
            ", ".join(project.ignored),
        )
    return settings.model_copy(update={"conversation": project.conversation})


def read(path: Path) -> ProjectFile:
    """Return the conversation that the file at `path` names, and the names of other fields, which
    are ignored. Raises InvalidInput if it cannot be read, is too long or not TOML, or names no
    usable conversation."""
    with reading(path), path.open("rb") as file:
        # A byte more than is allowed shows that the file is too long.
        data = file.read(MOST_BYTES + 1)

    if len(data) > MOST_BYTES:
        raise InvalidInput(
            "{path} has more than {bytes:,} bytes; {wanted}.", path, MOST_BYTES, _(_WANTED)
        )

    try:
        values = tomllib.loads(data.decode("utf-8-sig"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidInput("{path} is not valid TOML; {wanted}.", path, _(_WANTED)) from error

    conversation = values.pop("conversation", None)
    if not isinstance(conversation, str):
        raise InvalidInput("{path} does not name a conversation; {wanted}.", path, _(_WANTED))

    try:
        return ProjectFile(path, conversation_id_of(conversation), tuple(values))
    except InvalidInput as error:
        raise InvalidInput("{path} cannot be used: {reason}", path, error) from error


def text_of(conversation: str) -> str:
    quoted = "".join(f"\\{char}" if char in '"\\' else char for char in conversation)
    return f'# Which conversation memory-server uses in this folder.\nconversation = "{quoted}"\n'
