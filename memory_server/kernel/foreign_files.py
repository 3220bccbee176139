"""Files and folders that others may have made: files of a project come with its repository, and folders above a working
folder may belong to another user.

A link in a repository leads where its author wants, so nothing is read or written through one. The owner of a folder
writes what is in it, so only folders of this user and of root count, as with git (`safe.directory`).
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Collection
from pathlib import Path

from languages import Sentence
from memory_server.kernel.files import FileRefused

_LINKS = (
    getattr(stat, "IO_REPARSE_TAG_SYMLINK", -1),
    getattr(stat, "IO_REPARSE_TAG_MOUNT_POINT", -1),
)
"""The marks of Windows for what leads elsewhere. Other tags are of files that are in a cloud."""


def nearest(folder: Path | None, fits: Callable[[Path], bool]) -> Path | None:
    """Return `folder` (by default the working directory), or the nearest folder above it, that fits."""
    try:
        start = (folder or Path()).absolute()
        return next(filter(fits, (start, *start.parents)), None)
    except OSError:
        return None  # the working directory was removed, or may not be read


def has_git(folder: Path) -> bool:
    """Return whether `folder` is the top of a repository of this user."""
    return is_ours(folder / ".git")


def is_ours(path: Path) -> bool:
    """Return whether `path` exists and is this user's or root's, in such a folder. In a folder of root that every user
    may write, others can replace only their own files if it has the sticky bit, as in /tmp. In a folder of this user,
    such as on a disk without rights, its owner says whose a file is. Windows has no such owners: return whether it
    exists."""
    try:
        facts = path.lstat()
        folder = path.parent.stat()
    except (OSError, ValueError):  # a path of a file of others may hold what no path can
        return False
    if not hasattr(os, "geteuid"):
        return True
    if not {facts.st_uid, folder.st_uid} <= {os.geteuid(), 0}:
        return False
    anybody_may_replace = folder.st_mode & stat.S_IWOTH and not folder.st_mode & stat.S_ISVTX
    return folder.st_uid == os.geteuid() or not anybody_may_replace


def owners_in(project: Path) -> Collection[int] | None:
    """Return the users whose files count in `project`: this user, root, and its owner, because it either was found as
    this user's or was named by this user. Return None on a system without owners."""
    if not hasattr(os, "geteuid"):
        return None
    try:
        return {os.geteuid(), 0, project.stat().st_uid}
    except OSError:
        return {os.geteuid(), 0}


def refuse_foreign(project: Path, path: Path) -> None:
    """Refuse a path in `project`, which need not be there, if a part of it below the project is a link, or belongs to
    another user. Raise FileRefused."""
    owners = owners_in(project)
    for part in reversed([path, *path.parents]):
        if project not in part.parents:
            continue
        try:
            facts = part.lstat()
        except (FileNotFoundError, NotADirectoryError):
            return
        reason = foreign(facts, owners)
        if reason is not None:
            raise FileRefused(part, str(reason))


def foreign(facts: os.stat_result, owners: Collection[int] | None) -> Sentence | None:
    """Return the reason why a file with these `lstat` facts is not used; it follows the file's name."""
    if is_link(facts):
        return Sentence("is a link, which may come from others and lead anywhere")
    if owners is not None and facts.st_uid not in owners:
        return Sentence("belongs to another user")
    return None


def is_link(facts: os.stat_result) -> bool:
    return stat.S_ISLNK(facts.st_mode) or getattr(facts, "st_reparse_tag", 0) in _LINKS
