"""Whole files on disk: how a file is replaced so that a crash leaves the
old one or the new one, and a lock across processes. Knows nothing of memories.

A missing `fsync` here loses acknowledged writes on power loss: contents need one on their file, then names one on their
folder.

Others may have made files and folders too: files of a project come with its repository, and folders above a working
folder may belong to another user. A link in a repository leads where its author wants, so nothing is read or written
through one. The owner of a folder writes what is in it, so only folders of this user and of root count, as with git
(`safe.directory`).

Two conversations never have the same folder, on any file system. Some file systems ignore case and open `Work` as
`work`; others decompose and list `é` as two characters. So names of folders are compared as they are listed, not by
opening them.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import re
import secrets
import stat
import sys
import time
import unicodedata
from collections.abc import Callable, Collection, Iterable, Iterator
from functools import cached_property, partial
from pathlib import Path
from typing import BinaryIO, TypeVar, cast

from languages import N_, Sentence, _
from memory_server.kernel.errors import InvalidInput, LockTimeout, StorageUnwritable

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
_LOCK_PAUSE_SECONDS = 0.005
"""The time before a waiter tries a lock again: a write takes about a millisecond."""
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
    """Return the reason of an error of the disk and the advice what to do, without a full stop."""
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
    """Turn every error of the system about a disk into a sentence for people. Raise StorageUnwritable."""
    try:
        yield
    except OSError as error:
        raise refused_by(error, path) from error


def refused_by(error: OSError, path: Path) -> StorageUnwritable:
    """Return an error of the system as a sentence for people, which names the file of the error, or `path`."""
    file = Path(error.filename or path)
    shown_path = file
    if isinstance(error, FileRefused) or NEXT.fullmatch(file.name):
        shown_path = path
    message = _("Nothing was changed in {place}: {advice_on}.", shown_path, advice_on(error))
    return StorageUnwritable(message, file)


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
        descriptor = patiently(partial(os.open, path, flags | _AT_ONCE, 0o600))
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
    """Read all of a file, or None if it does not exist. Raise FileRefused as `read_file` does."""
    try:
        return read_file(path)
    except FileNotFoundError:
        return None


def take_name(aside: Path, path: Path) -> None:
    """Rename `aside` over `path`, and wait on Windows for other programs, such as a virus scanner.
    Raises OSError: FileRefused if `path` is not a regular file."""
    try:
        patiently(partial(aside.replace, path))
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
    patiently(partial(path.unlink, missing_ok=True))


def patiently(call: Callable[[], T]) -> T:
    """Call `call`, and try again while another program holds the file: after 20 ms, then twice as long each time up to
    500 ms, for about 2.5 s in all. On Windows any program can hold a file, on Linux one with a lease, such as Samba.
    Source: the pauses that other programs use against virus scanners, indexers and OneDrive."""
    for pause in _PAUSES:
        try:
            return call()
        except BlockingIOError:
            time.sleep(pause)
        except OSError as error:
            if getattr(error, "winerror", None) not in _HELD:
                raise
            time.sleep(pause)
    return call()


def append_durably(path: Path, data: bytes) -> None:
    """Append as `append` does, so that the lines survive a power loss."""
    is_new = not path.exists()
    append(path, data, sync=True)
    if is_new:
        sync_folder(path.parent)


def append(path: Path, data: bytes, *, sync: bool = False) -> int:
    """Append whole lines to the file at `path`, made where it is missing, and return its new size. If a crash left a
    torn line at the end, that line is ended first, so that it does not damage the next. With `sync` the file is on the
    disk when this returns."""
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
        """Lock an open file for this process and return True, or return False if the lock is not free. Raise OSError
        if the disk does not support locks."""
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
        """Lock an open file for this process and return True, or return False if the lock is not free. Raise OSError
        if the disk does not support locks."""
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


def lock_within(path: Path, seconds: float, place: Path) -> FileLock:
    """Return the lock on `path`, for which this waits so many seconds. Raise LockTimeout, whose sentence names `place`,
    if another process held it all the time; OSError as `try_lock` does."""
    deadline = time.monotonic() + seconds
    lock = try_lock(path)
    while lock is None:
        if time.monotonic() > deadline:
            raise LockTimeout(
                Sentence(
                    "Another process holds {place} for too long; nothing was changed, try again.",
                    place,
                ),
                place,
            )
        time.sleep(_LOCK_PAUSE_SECONDS)
        lock = try_lock(path)
    return lock


def locks_fail(path: Path) -> OSError:
    """Return the error for a disk whose locks fail or keep no other process out."""
    return OSError(errno.ENOLCK, os.strerror(errno.ENOLCK), str(path))


@contextlib.contextmanager
def reading(name: object) -> Iterator[None]:
    """Raise InvalidInput, which names the file `name`, in place of an OSError of the block."""
    try:
        yield
    except OSError as error:
        raise InvalidInput(
            "{name} cannot be read: {reason}.", name, error.strerror or error
        ) from error


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


# --- names of folders -----------------------------------------------------------------------------

_PLAIN = re.compile(r"[a-z0-9_-]{1,64}")
_NODE_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
_STEM_BYTES = 40
_SERIAL_PORTS = [f"com{number}" for number in range(1, 10)]
_PRINTER_PORTS = [f"lpt{number}" for number in range(1, 10)]
_RESERVED = frozenset(["con", "prn", "aux", "nul", *_SERIAL_PORTS, *_PRINTER_PORTS])
"""Device names that Windows does not let a folder have."""


def folder_name(conversation_id: str) -> str:
    """Return the name of a new conversation's folder: distinct for distinct ids, on case-insensitive and normalising
    file systems too.

    An id such as `work-2` is its own name. Any other id gets a readable stem of at most 40 bytes, `~` and a 128-bit
    hash: `小明~6d0a…`.
    """
    if _is_plain(conversation_id):
        return conversation_id
    return hashed_name(conversation_id)


def hashed_name(conversation_id: str) -> str:
    """Return the name with a hash, for an id that cannot be a name itself or whose name another id has."""
    digest = hashlib.sha256(conversation_id.encode()).hexdigest()[:32]
    readable = "".join(map(_folder_character, unicodedata.normalize("NFC", conversation_id)))
    stem = readable.encode()[:_STEM_BYTES].decode(errors="ignore")
    # UTF-8 on every disk, under any locale: os.fsdecode gives the name by which this process knows those bytes.
    return os.fsdecode(f"{stem}~{digest}".encode())


def _folder_character(character: str) -> str:
    if character.isalnum() or character in "_-":
        return character
    return "_"


def hash_in(name: str) -> str:
    """Return the hash in a name that `hashed_name` made. The hash alone identifies the conversation."""
    return name.rpartition("~")[2]


class FolderNames:
    """The names of the folders in a data folder, as a listing gives them."""

    def __init__(self, names: Iterable[str]) -> None:
        self._names = frozenset(names)

    def of(self, conversation_id: str) -> str:
        """Return the name of the folder of `conversation_id`, which need not be there. A folder that the Node original
        made for the id is its folder. A folder of ours stays the folder, even if the Node original makes another beside
        it later. `work` gets a name with a hash where a `Work` is listed, which may open as `work` too."""
        hashed = hashed_name(conversation_id)
        if hashed in self._names:
            return hashed
        listed_name = self._by_hash.get(hash_in(hashed))
        if listed_name is not None:
            return listed_name
        if _NODE_ID.fullmatch(conversation_id) and conversation_id in self._names:
            return conversation_id
        if _is_plain(conversation_id) and conversation_id not in self._careless:
            return conversation_id
        return hashed

    @cached_property
    def _by_hash(self) -> dict[str, str]:
        """Names with a hash, by the hash: some file systems list the rest of a name in another form than NFC, and a
        program under another locale once wrote it in other bytes."""
        return {hash_in(name): name for name in sorted(self._names) if "~" in name}

    @cached_property
    def _careless(self) -> frozenset[str]:
        return frozenset(map(as_seen_carelessly, self._names))


def as_seen_carelessly(name: str) -> str:
    """Return the name as it is compared by a file system that ignores case and normal form."""
    return unicodedata.normalize("NFC", unicodedata.normalize("NFD", name).casefold())


def is_reserved(name: str) -> bool:
    """Return whether Windows takes `name`, with any ending, for a device."""
    return name.partition(".")[0].casefold() in _RESERVED


def _is_plain(conversation_id: str) -> bool:
    return _PLAIN.fullmatch(conversation_id) is not None and conversation_id not in _RESERVED


def find_folder(data_dir: Path, conversation_id: str) -> Path:
    """Return the folder of a conversation, which need not exist; the Node original's folder if it made one. The data
    folder is listed, 10 ms with 10,000 conversations, only if a name alone does not tell whose it is."""
    hashed = data_dir / hashed_name(conversation_id)
    if hashed.is_dir():
        return hashed
    plain = data_dir / folder_name(conversation_id)
    if plain.is_dir() and not _opens_in_another_case(plain):
        return plain
    listed_names = FolderNames(folder.name for folder in subfolders(data_dir))
    return data_dir / listed_names.of(conversation_id)


def subfolders(folder: Path) -> list[Path]:
    """Return the folders in `folder`, sorted, with their names as the system lists them; empty if `folder` does not
    exist. Folders whose name begins with a dot are ours or the system's, and are left out. Raise PermissionError."""
    try:
        with os.scandir(folder) as entries:
            names = [entry.name for entry in entries if entry.name[0] != "." and entry.is_dir()]
    except (FileNotFoundError, NotADirectoryError):
        return []
    return sorted(folder / name for name in names)


def _opens_in_another_case(path: Path) -> bool:
    """Tell whether the file system takes the name of this path in upper case for the same; False if nothing is
    there."""
    upper = path.with_name(path.name.upper())
    try:
        return upper.name != path.name and upper.samefile(path)
    except FileNotFoundError:
        return False
