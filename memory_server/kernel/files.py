"""Whole files on disk: how a file is replaced so that a crash leaves the
old one or the new one, and a lock across processes. Knows nothing of memories.

A missing `fsync` here loses acknowledged writes on power loss: contents need one on their file, then names one on their
folder.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import secrets
import stat
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO, TypeVar, cast

from languages import N_, _
from memory_server.kernel.errors import InvalidInput, StorageUnwritable

PRIVATE = ".memory-server"
"""The subfolder of a conversation and of the data folder for files that people need not read."""

MAX_FILE_BYTES = 1024**3
"""Largest file that is read whole, in bytes: some 600,000 memories, which need about as much memory again."""

_NO_LINK: int = getattr(os, "O_NOFOLLOW", 0)
NEXT = re.compile(r"\..*\.[0-9a-f]{16}\.next", re.DOTALL)
"""The name of a file that is written to be renamed. Its name cannot be foreseen, so no other program can put a link
there."""
_STEM_CHARS = 50
"""Characters that a neighbour takes from the name of its file: a name has 255 bytes at most."""
_LEFT_SECONDS = 60
"""The age from which such a file was left behind by a process that was killed."""
_AT_ONCE = getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0)
"""Opening must not wait: the opening of a named pipe waits for a writer, perhaps for ever."""
_KINDS = {
    stat.S_IFDIR: N_("a folder"),
    stat.S_IFIFO: N_("a named pipe"),
    stat.S_IFSOCK: N_("a socket"),
    stat.S_IFCHR: N_("a device"),
    stat.S_IFBLK: N_("a device"),
}
_HELD = (5, 32, 33)
"""Windows: access denied, sharing violation, lock violation."""
_PAUSES = (0.02, 0.04, 0.08, 0.16, 0.32, 0.5, 0.5, 0.5, 0.38)
"""Seconds between tries."""
T = TypeVar("T")


class FileRefused(OSError):
    """A file that is not read. `reason` follows its name, such as `is a named pipe and not a file`."""

    def __init__(self, path: Path | str, reason: str) -> None:
        super().__init__(errno.EINVAL, _("it {reason}; move it away", reason), str(path))
        self._reason = reason

    def __str__(self) -> str:
        return _("{filename} {reason}; move it away and try again", self.filename, self._reason)


def advice_on(error: OSError) -> str:
    """Return the reason of an error and the advice what to do, without a full stop."""
    if isinstance(error, FileRefused):
        return str(error)
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        # Without locks, two processes would write at the same time and lose changes.
        return _("the disk is full; make room and try again")
    if error.errno == errno.ENOLCK:
        return _(
            "locks do not work on this disk, so two programs could lose each other's writes; choose another --data-dir"
        )
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return _(
            "it cannot be written; check its owner and permissions or choose another --data-dir"
        )
    return _(
        "{reason}; see that it is a folder on a disk that works, or choose another --data-dir",
        error.strerror or error,
    )


@contextlib.contextmanager
def unwritable(path: Path) -> Iterator[None]:
    """Turn every error of the system about a disk into a sentence for people, which names the file of the error, or
    `path`. Raise StorageUnwritable."""
    try:
        yield
    except OSError as error:
        file = Path(error.filename or path)
        shown_path = file
        if isinstance(error, FileRefused) or NEXT.fullmatch(file.name):
            shown_path = path
        message = _("Nothing was changed in {place}: {advice_on}.", shown_path, advice_on(error))
        raise StorageUnwritable(message, file) from error


def make_folder(folder: Path) -> None:
    """Make `folder` (owner only) and its parents, durable by name."""
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    for path in reversed(missing):
        path.mkdir(mode=0o700, exist_ok=True)
        sync_folder(path.parent)


def write_aside(path: Path, data: bytes, mode: int | None = None) -> Path:
    """Write `data` durably to a new neighbour of `path`, to be renamed over it later. Return the neighbour's path. Only
    its owner may open it, unless `mode` gives other rights. Files that killed processes left in the folder are removed.
    """
    _remove_leftovers(path.parent)
    aside = path.with_name(f".{path.name[:_STEM_CHARS]}.{secrets.token_hex(8)}.next")
    try:
        with open_file(aside, "xb") as file:
            file.write(data)
            file.flush()
            if mode is not None:
                aside.chmod(mode)
            sync_file(file.fileno())
    except OSError:
        # On a full disk half a file would take what room there is.
        with contextlib.suppress(OSError):
            remove_file(aside)
        raise
    return aside


def _remove_leftovers(folder: Path) -> None:
    with contextlib.suppress(OSError):
        for name in os.listdir(folder):
            if NEXT.fullmatch(name):
                _remove_if_left(folder / name)


def _remove_if_left(path: Path) -> None:
    with contextlib.suppress(OSError):
        age_seconds = time.time() - path.lstat().st_mtime
        if age_seconds > _LEFT_SECONDS:
            remove_file(path)


def replace_file(path: Path, data: bytes, mode: int | None = None) -> None:
    """Replace what is at `path` by a file of `data`: after a crash there is the whole old file or the whole new file. A
    link is replaced and not followed. `mode` as in `write_aside`."""
    take_name(write_aside(path, data, mode), path)
    sync_folder(path.parent)


def open_file(path: Path, mode: str, buffering: int = -1) -> BinaryIO:
    """Open a file as `open_descriptor` does, for a binary `mode`."""
    return cast(BinaryIO, open(path, mode, buffering, opener=open_descriptor))


def open_descriptor(path: Path | str, flags: int) -> int:
    """Open a file, waiting a little while another program holds it. Only its owner may open a new file. A link is
    followed only to read, without O_NOFOLLOW in `flags`. Every file in a data folder is opened here. Raises FileRefused
    if it is not a regular file: reading it might never end."""
    if flags & (os.O_WRONLY | os.O_RDWR):
        flags |= _NO_LINK

    try:
        descriptor = patiently(lambda: os.open(path, flags | _AT_ONCE, 0o600))
    # Most files that are looked for do not exist.
    except FileNotFoundError:
        raise
    except OSError as error:
        # For a socket, or a pipe without a reader, the system's message does not always say so.
        refusal = refusal_of(path)
        if refusal is not None:
            raise refusal from error
        if error.errno == errno.ELOOP:
            raise FileRefused(path, _("is a link and not a file")) from error
        raise

    kind = stat.S_IFMT(os.fstat(descriptor).st_mode)
    if kind != stat.S_IFREG:
        os.close(descriptor)
        raise _refusal_of_kind(path, kind)
    # Only now is it certain that a read of the file ends.
    return descriptor


def read_file(path: Path, *, links: bool = True) -> bytes:
    """Read all of a file; with `links` also through a link. Raise FileNotFoundError, or FileRefused if it is not a
    regular file or is too large."""
    flags = os.O_RDONLY | getattr(os, "O_BINARY", 0)
    if not links:
        flags |= _NO_LINK
    with os.fdopen(open_descriptor(path, flags), "rb") as file:
        if os.fstat(file.fileno()).st_size > MAX_FILE_BYTES:
            raise FileRefused(path, _("has more than {file:,} bytes", MAX_FILE_BYTES))
        return file.read()


def read_if_there(path: Path) -> bytes | None:
    """Read all of a file; None if it does not exist. Raise FileRefused as `read_file` does."""
    try:
        return read_file(path)
    except FileNotFoundError:
        return None


def take_name(aside: Path, path: Path) -> None:
    """Rename `aside` over `path`, waiting on Windows for other programs, such as a virus scanner."""
    try:
        patiently(lambda: aside.replace(path))
    except OSError as error:
        refusal = refusal_of(path)
        if refusal is not None:
            raise refusal from error
        raise


def refusal_of(path: Path | str) -> FileRefused | None:
    """Return why `path` cannot be opened as a file, or None if it is a regular file or does not exist."""
    try:
        kind = stat.S_IFMT(Path(path).stat().st_mode)
    except OSError:
        return None
    if kind == stat.S_IFREG:
        return None
    return _refusal_of_kind(path, kind)


def _refusal_of_kind(path: Path | str, kind: int) -> FileRefused:
    kind_name = _(_KINDS.get(kind, N_("something else")))
    return FileRefused(path, _("is {kinds} and not a file", kind_name))


def remove_file(path: Path) -> None:
    patiently(lambda: path.unlink(missing_ok=True))


def patiently(call: Callable[[], T], sleep: Callable[[float], object] = time.sleep) -> T:
    """Call `call`, and try again while another program holds the file: after 20 ms, then twice as long each time up to
    500 ms, for about 2.5 s in all. On Windows any program can hold a file, on Linux one with a lease, such as Samba.
    Source: the pauses that other programs use against virus scanners, indexers and OneDrive."""
    for pause in _PAUSES:
        try:
            return call()
        except BlockingIOError:
            sleep(pause)
        except OSError as error:
            if getattr(error, "winerror", None) not in _HELD:
                raise
            sleep(pause)
    return call()


def append_durably(path: Path, data: bytes) -> None:
    """Append as `append` does, so that the lines survive a power loss."""
    is_new = not path.exists()
    append(path, data, sync=True)
    if is_new:
        sync_folder(path.parent)


def append(path: Path, data: bytes, *, sync: bool = False) -> int:
    """Append whole lines to the file at `path`, made where it is missing, and return its bytes. If a crash left a torn
    line at the end, that line is ended first, so that it does not damage the next."""
    with open_file(path, "a+b") as file:
        if file.seek(0, os.SEEK_END) > 0:
            file.seek(-1, os.SEEK_END)
            if file.read(1) != b"\n":
                data = b"\n" + data
        file.write(data)
        file.flush()
        if sync:
            sync_file(file.fileno())
        return file.tell()


def overwrite_durably(path: Path, data: bytes) -> None:
    """Write `data` over the beginning of the file at `path`, which takes no room."""
    with open_file(path, "r+b") as file:
        file.write(data)
        file.flush()
        sync_file(file.fileno())


def sync_file(descriptor: int) -> None:
    """Make the contents of an open file survive a power loss, if the disk does what it reports."""
    if hasattr(os, "fdatasync"):
        os.fdatasync(descriptor)
    else:
        os.fsync(descriptor)


def sync_folder(folder: Path) -> None:
    """Make the names in `folder` survive a power loss; Windows has no such call and needs none."""
    if os.name == "nt":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


# --- a lock across processes, on a file of its own; the system releases it when the process that holds it ends

if sys.platform == "win32":

    def lock_file(descriptor: int) -> None:
        """Lock an open file for this process, after all that have the lock. Closing the file gives it back. Raise
        OSError if the disk does not support locks, or another process keeps the lock for 10 s."""
        import portalocker  # here: its import takes as long as reading a conversation

        try:
            portalocker.lock(descriptor, portalocker.LockFlags.EXCLUSIVE)
        except portalocker.exceptions.LockException as error:
            raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK)) from error

    def try_lock_file(descriptor: int) -> bool:
        """Lock an open file for this process if the lock is free. Raise OSError if the disk does not support locks."""
        import portalocker

        flags = portalocker.LockFlags.EXCLUSIVE | portalocker.LockFlags.NON_BLOCKING
        try:
            portalocker.lock(descriptor, flags)
        except portalocker.exceptions.AlreadyLocked:
            return False
        except portalocker.exceptions.LockException as error:
            raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK)) from error
        return True

    def unlock_file(descriptor: int) -> None:
        """Give the lock back."""
        import portalocker

        portalocker.unlock(descriptor)

else:
    import fcntl

    def lock_file(descriptor: int) -> None:
        """Lock an open file for this process, after all that have the lock. Closing the file gives it back. Raise
        OSError if the disk does not support locks."""
        fcntl.flock(descriptor, fcntl.LOCK_EX)

    def try_lock_file(descriptor: int) -> bool:
        """Lock an open file for this process if the lock is free. Raise OSError if the disk does not support locks."""
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno in (
                errno.EAGAIN,
                errno.EACCES,
            ):  # which of the two, the file system decides
                return False
            raise
        return True

    def unlock_file(descriptor: int) -> None:
        """Give the lock back, also where a process that is being started still shares the open file."""
        fcntl.flock(descriptor, fcntl.LOCK_UN)


class FileLock:
    """A held lock; `release` gives it back."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor: int | None = descriptor

    def release(self) -> None:
        """Give the lock back; idempotent, in any thread."""
        descriptor = self._descriptor
        self._descriptor = None
        if descriptor is not None:
            unlock_file(descriptor)
            os.close(descriptor)


def try_lock(path: Path) -> FileLock | None:
    """Return the lock on `path` if it is free now. Return None if it is not, or if the file was removed meanwhile, for
    example with its folder: a lock on a removed file keeps no other process out. Raise OSError if the lock file cannot
    be opened for writing, or the disk does not support locks."""
    descriptor = open_descriptor(path, os.O_RDWR | os.O_CREAT)
    try:
        is_ours = try_lock_file(descriptor)
    except OSError as error:
        os.close(descriptor)
        raise locks_fail(path) from error
    if not is_ours:
        os.close(descriptor)
        return None
    lock = FileLock(descriptor)
    with contextlib.suppress(FileNotFoundError):
        if os.path.samestat(os.fstat(descriptor), path.stat()):
            return lock
    lock.release()
    return None


def locks_fail(path: Path) -> OSError:
    """Return the error for a disk whose locks fail or keep no other process out."""
    return OSError(errno.ENOLCK, os.strerror(errno.ENOLCK), str(path))


@contextlib.contextmanager
def reading(name: object) -> Iterator[None]:
    """Turn an error of reading the file `name` into a sentence. Raise InvalidInput."""
    try:
        yield
    except OSError as error:
        raise InvalidInput("{name} cannot be read: {reason}.", name, error.strerror) from error
