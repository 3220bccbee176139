"""Backups as files in one folder.

`{name}.backup.gz` is two gzip members, so that `gunzip -c` shows all of it: one line of facts with the SHA-256 of the
second member, and the conversations (conversations/record_lines.py). A backup is written aside and gets its name when
it is whole; a backup that exists is never replaced. A name cannot lead out of the folder, and links are not followed.
"""

from __future__ import annotations

import contextlib
import errno
import gzip
import hashlib
import os
import re
import secrets
import shutil
import tempfile
import time
import zlib
from collections.abc import Callable, Iterator
from io import BufferedReader
from itertools import count
from pathlib import Path
from typing import Any

from languages import Sentence, _
from memory_server.conversations import record_lines
from memory_server.conversations.contents import Contents
from memory_server.kernel import files as folders
from memory_server.kernel import json_text, times
from memory_server.kernel.backups import Backup, BackupBroken, BackupNotFound, backup_name, pauses
from memory_server.kernel.errors import InvalidInput, StorageUnwritable
from memory_server.kernel.files import FileLock, advice_on
from memory_server.kernel.readers import way
from memory_server.kernel.text import visible
from memory_server.kernel.unpacking import UnpackingRoom

# --- reading -----------------------------------------------------------------------------------------------------

# The two parts of a backup file, as they are read: its facts, and its conversations.

FORMAT = "memory-server backup"
VERSION = 1
MAX_FACTS_BYTES = 64 * 1024
"""The most bytes of the line of facts; it has about 250."""
MOST_UNPACKED = 100
"""The most bytes to which one byte of a backup may unpack: memories have 4 to 30, and gzip's maximum is 1,030."""
LEAST_UNPACKED_BYTES = 64 * 1024 * 1024
"""The bytes to which any backup may unpack, some 40,000 memories: too few to need another bound."""


def facts_in(file: BufferedReader, path: Path, name: str) -> tuple[Backup, dict[str, Any]]:
    """Read the facts of a backup, also as the fields of their JSON, and leave `file` at the end of them. Raises
    NotARecord if it is not a backup, damaged there, or of a newer format."""
    unpacked = zlib.decompressobj(wbits=31)
    packed = file.read(MAX_FACTS_BYTES)
    try:
        line = unpacked.decompress(packed, MAX_FACTS_BYTES)
    except zlib.error as error:
        raise json_text.NotARecord(
            "it is not a backup of memory-server, or its first part is damaged"
        ) from error

    if not unpacked.eof:
        raise json_text.NotARecord("its first part is damaged")

    # The facts are a gzip member of their own; `conversations_in` reads on after it.
    file.seek(len(packed) - len(unpacked.unused_data))
    try:
        fields = json_text.loads(line)
        if not isinstance(fields, dict) or fields.get("format") != FORMAT:
            raise json_text.NotARecord("it is not a backup of memory-server")
        if fields["version"] > VERSION:
            raise json_text.NotARecord("it is of a newer memory-server; update this one to use it")
        created = json_text.milliseconds(fields["created"])
        counts = (int(fields["conversations"]), int(fields["shortTerm"]), int(fields["longTerm"]))
    except json_text.NotARecord:
        raise
    except (ValueError, KeyError, TypeError) as error:
        raise json_text.NotARecord("its first part is damaged") from error

    return Backup(name, created, path.stat().st_size, *counts), fields


def conversations_in(file: BufferedReader, start: int) -> Iterator[Contents]:
    """Read the conversations of a backup, whose first member ends at `start`. Raises NotARecord, zlib.error."""
    packed = file.seek(0, os.SEEK_END) - start
    file.seek(start)
    with gzip.GzipFile(fileobj=file, mode="rb") as body:
        room = UnpackingRoom(packed, least_bytes=LEAST_UNPACKED_BYTES, most_ratio=MOST_UNPACKED)
        yield from record_lines.parse(_lines(body, room))


def _lines(body: gzip.GzipFile, room: UnpackingRoom) -> Iterator[bytes]:
    """Read the lines of a file, as far as `room` goes. Raises zlib.error before more is unpacked."""
    line = body.readline(record_lines.LONGEST_LINE + 1)
    while line:
        if line.startswith(record_lines.HEAD_START):
            room.let_go()  # one conversation is held at a time
        if not room.fits(line) or len(line) > record_lines.LONGEST_LINE:
            raise zlib.error(_("it unpacks to far more than memories do"))
        yield line
        line = body.readline(record_lines.LONGEST_LINE + 1)


# --- the folder of backups ---------------------------------------------------------------------------------------

ENDING = ".backup.gz"
LEVEL = 6
"""The usual level of gzip: 9 takes twice the time for 1 % less."""
_BLOCK = 1024 * 1024
_LEFT = re.compile(r"\.[0-9a-f]{16}\.next(-journal)?|\..+\.body")
_LEFT_SECONDS = 86_400
"""The age of such a file of a backup from which it was left by a process that was killed."""


KNOWLEDGE_ENDING = ".knowledge.sqlite3"


class BackupFolder:
    """The backups in `folder`, which the first backup makes. Blocking calls; each may raise `StorageError`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def must_be_possible(self) -> None:
        """Refuse backups of a store that has other means for them. Raises InvalidInput."""

    def begin(self, name: str, created_ms: int, *, numbered: bool = False) -> BackupFileWriter:
        """Begin the backup called `name`; `numbered`: where another has that name, it gets a number. What killed
        processes left is removed. Raises InvalidInput: a backup has that name already."""
        path = self._path(name)
        if os.path.lexists(path) and not numbered:
            raise _taken(name)
        with contextlib.suppress(OSError):
            self._remove_leftovers()
        return BackupFileWriter(self, name, created_ms=created_ms, numbered=numbered)

    def _remove_leftovers(self) -> None:
        """Remove the unfinished backups that a killed process left a while ago."""
        for name in filter(_LEFT.fullmatch, os.listdir(self.folder)):
            path = self.folder / name
            if time.time() - path.lstat().st_mtime > _LEFT_SECONDS:
                folders.remove_file(path)

    def try_hold(self, name: str) -> Callable[[], None] | None:
        """Keep other processes from deleting or restoring the backup `name`. Return a function that ends this, or
        None if another process deletes or restores the backup now. Does not wait."""
        path = self.folder.with_name(f"{self.folder.name}.{backup_name(name)}.lock")
        if not self.folder.is_dir():
            return lambda: None  # without a folder there are no backups
        lock = _try_lock(path)
        if lock is None:
            return None

        def release() -> None:
            with contextlib.suppress(OSError):
                path.unlink()  # before it is free: who gets it then sees that it is no longer the file of that name
            lock.release()

        return release

    @contextlib.contextmanager
    def exclusively(self) -> Iterator[None]:
        """Lock the folder, if it exists, while a backup gets its name or is deleted: for moments only. Raises
        LockTimeout."""
        lock = self._lock()
        try:
            yield
        finally:
            if lock is not None:
                lock.release()

    def _lock(self) -> FileLock | None:
        """Return the lock on the folder, or None without a folder. Raises LockTimeout."""
        path = self.folder.with_name(f"{self.folder.name}.lock")
        tries = pauses()
        while self.folder.is_dir():
            lock = _try_lock(path)
            if lock is not None:
                return lock
            time.sleep(next(tries))
        return None

    @contextlib.contextmanager
    def open(self, name: str) -> Iterator[tuple[Backup, Iterator[Contents]]]:
        """Read the facts of a backup and its conversations, one after the other. The whole backup is checked first.
        Raises BackupNotFound; BackupBroken: it is damaged, cut off or of a newer format."""
        path = self._path(name)
        with self._opened(path, name) as file:
            try:
                backup, fields = facts_in(file, path, name)
                start = file.tell()
                if hashlib.file_digest(file, "sha256").hexdigest() != fields.get("sha256"):
                    raise json_text.NotARecord("its checksum does not match")
                # Read once before anything is used: a wrong record may have a right checksum, if written by hand.
                for _conversation in conversations_in(file, start):
                    pass
            except (json_text.NotARecord, OSError, EOFError, zlib.error) as error:
                raise BackupBroken(
                    Sentence(
                        "The backup {name} cannot be used: {reason}. Nothing was changed; choose another backup.",
                        name,
                        error,
                    ),
                    path,
                ) from error

            yield backup, conversations_in(file, start)

    def rewrite(self, name: str, change: Callable[[Contents], Contents]) -> None:
        """Replace a backup by one of its changed contents, made at the same time. If that fails, it stays as it is."""
        with self.open(name) as (backup, conversations):
            writer = BackupFileWriter(self, name, backup.created_ms, numbered=False)
            try:
                for contents in conversations:
                    writer.add(change(contents))
                writer.finish(replaces=True)
            finally:
                writer.discard()

    def knowledge_of(self, name: str) -> Path:
        """Return the path of the knowledge of that backup: a file beside it, which may be missing."""
        return self.folder / f"{backup_name(name)}{KNOWLEDGE_ENDING}"

    def listed(self) -> list[Backup]:
        """List all backups, newest first. A backup that cannot be read has a `problem`."""
        if not self.folder.is_dir():
            return []
        backups = [
            self._backup(path) for path in self.folder.iterdir() if path.name.endswith(ENDING)
        ]
        return sorted(backups, key=lambda backup: (-backup.created_ms, backup.name))

    def delete(self, name: str) -> None:
        """Delete a backup with its knowledge. If a process was killed between the two, delete the knowledge that it
        left. Raises BackupNotFound if no backup has that name, LockTimeout if it is being restored, StorageUnwritable
        if it cannot be deleted."""
        path = self._path(name)
        release = self._hold(name)
        try:
            with self.exclusively():
                is_there = os.path.lexists(path)
                folders.remove_file(path)
                folders.remove_file(self.knowledge_of(name))
                if not is_there:
                    raise self._missing(name)
        except OSError as error:
            raise StorageUnwritable(
                Sentence("The backup {name} was not deleted: {advice_on}.", name, advice_on(error)),
                path,
            ) from error
        finally:
            release()
        folders.sync_folder(self.folder)

    def _hold(self, name: str) -> Callable[[], None]:
        """Do as `try_hold`, but wait until it succeeds. Raises LockTimeout after a while."""
        tries = pauses()
        release = self.try_hold(name)
        while release is None:
            time.sleep(next(tries))
            release = self.try_hold(name)
        return release

    def _path(self, name: str) -> Path:
        return self.folder / (backup_name(name) + ENDING)

    @contextlib.contextmanager
    def _opened(self, path: Path, name: str) -> Iterator[BufferedReader]:
        """Yield the file at `path`, opened for reading. Raises BackupNotFound if it does not exist,
        and BackupBroken if it is a link or cannot be opened."""
        try:
            # A link could lead anywhere; only files in this folder are read.
            flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
            descriptor = folders.open_descriptor(path, flags)
        except FileNotFoundError as error:
            raise self._missing(name) from error
        except OSError as error:
            reason = _("it is a link") if error.errno == errno.ELOOP else error.strerror
            raise BackupBroken(
                Sentence("The backup {name} cannot be read: {reason}.", name, reason), path
            ) from error
        with os.fdopen(descriptor, "rb") as file:
            yield file

    def _backup(self, path: Path) -> Backup:
        """Return the facts in the first record of the backup at `path`, without checking the rest.
        If they cannot be read, return its time and size on disk, with the reason as `problem`."""
        name = visible(path.name.removesuffix(ENDING))
        try:
            backup_name(name)
            with self._opened(path, name) as file:
                backup, _fields = facts_in(file, path, name)
                return backup
        except (
            json_text.NotARecord,
            BackupBroken,
            InvalidInput,
            OSError,
            EOFError,
            zlib.error,
        ) as error:
            problem = visible(str(error))

        # It was deleted while it was read, so the disk knows neither its size nor its age.
        if not os.path.lexists(path):
            return Backup(name, 0, 0, problem=problem)

        facts = path.lstat()
        return Backup(name, facts.st_mtime_ns // 1_000_000, facts.st_size, problem=problem)

    def _missing(self, name: str) -> BackupNotFound:
        """Return the error for a backup that does not exist, with the names of the newest ones."""
        names = [backup.name for backup in self.listed()[:5]]
        if names:
            advice = _("there are {names}", ", ".join(names))
        else:
            how = way("backup_memories", "memory-server backup")
            advice = _("there are none yet; make one with {how}", how)
        return BackupNotFound("There is no backup called `{name}`; {known}.", name, advice)


class BackupFileWriter:
    """A backup that is being written; it cannot be seen before `finish`. The conversations go to a file without a name,
    because the facts, which come first, need their hash."""

    def __init__(self, store: BackupFolder, name: str, created_ms: int, numbered: bool) -> None:
        """Make the folder of the backups if it is missing, and begin the file without a name.
        Raises StorageUnwritable if that is not possible."""
        self._store = store
        self._name = name
        self._created_ms = created_ms
        self._numbered = numbered
        self._path = store.folder / f"{name}{ENDING}"
        self._aside = self._path.with_name(f".{secrets.token_hex(8)}.next")
        self._knowledge = self._path.with_name(f".{secrets.token_hex(8)}.next")
        self._conversations = 0
        self._short_term = 0
        self._long_term = 0
        folder = store.folder
        with folders.unwritable(folder):
            folders.make_folder(folder)
            self._file = tempfile.TemporaryFile(dir=folder, prefix=".", suffix=".body")  # noqa: SIM115 (discard closes it)
            self._gzip = gzip.GzipFile(
                filename="", mode="wb", compresslevel=LEVEL, fileobj=self._file, mtime=0
            )
            self._gzip.write(record_lines.first_line(created_ms))

    def add(self, contents: Contents) -> None:
        with folders.unwritable(self._path.parent):
            self._gzip.writelines(record_lines.conversation_lines(contents))
        self._conversations += 1
        self._short_term += len(contents.short_term)
        self._long_term += len(contents.long_term)

    def finish(self, *, replaces: bool = False) -> Backup:
        """Make the backup durable and visible. With `replaces` it takes the place of the backup of its name. Raises
        InvalidInput: another backup took the name meanwhile."""
        with folders.unwritable(self._path.parent):
            self._gzip.write(record_lines.last_line(self._conversations))
            self._gzip.close()
            size = self._write_aside()
            # Two processes must not take the same name at the same time.
            with self._store.exclusively():
                if replaces:
                    folders.take_name(self._aside, self._path)
                    folders.sync_folder(self._path.parent)
                else:
                    self._publish()
            self.discard()

        return Backup(
            self._name,
            self._created_ms,
            size_bytes=size,
            conversations=self._conversations,
            short_term=self._short_term,
            long_term=self._long_term,
        )

    def _write_aside(self) -> int:
        """Write the facts and the conversations durably to a new file beside the backup, and return
        its bytes. Raises OSError."""
        self._file.seek(0)
        facts = {
            "format": FORMAT,
            "version": VERSION,
            "created": times.iso(self._created_ms),
            "conversations": self._conversations,
            "shortTerm": self._short_term,
            "longTerm": self._long_term,
            "sha256": hashlib.file_digest(self._file, "sha256").hexdigest(),
        }
        # The checksum is in the first line, so that line is written when the rest is known.
        self._file.seek(0)
        with folders.open_file(self._aside, "xb") as backup:
            backup.write(gzip.compress(json_text.dumps(facts) + b"\n", mtime=0))
            shutil.copyfileobj(self._file, backup, _BLOCK)
            backup.flush()
            folders.sync_file(backup.fileno())
            return backup.tell()

    def beside(self) -> Path:
        """Return a path for a copy of the knowledge, which gets its name with the backup."""
        return self._knowledge

    def discard(self) -> None:
        """Remove what was written aside; does nothing after `finish`."""
        # Closing flushes, which fails again on a full disk.
        for part in (self._gzip, self._file):
            with contextlib.suppress(OSError, ValueError):
                part.close()
        with contextlib.suppress(
            OSError
        ):  # the next backup removes what is left; the first error is the one to say
            folders.remove_file(self._aside)
            folders.remove_file(self._knowledge)

    def _publish(self) -> None:
        """Give the file and the knowledge beside it their name, or if that is taken and it is `numbered`, the name
        with a number (`_name` and `_path` then have it); else raises InvalidInput. The caller holds the lock of the
        folder; against programs that do not take it a link is tried first, because renaming would replace another
        backup. Raises OSError."""
        further_names = map(f"{self._name}-{{}}".format, count(2))
        while os.path.lexists(self._path):
            if not self._numbered:
                raise _taken(self._name)
            self._name = next(further_names)
            self._path = self._path.with_name(self._name + ENDING)

        # The knowledge first: a backup that can be seen must be whole. A process that was killed while it deleted or
        # made a backup of this name may have left other knowledge there.
        beside = self._path.with_name(f"{self._name}{KNOWLEDGE_ENDING}")
        if self._knowledge.exists():
            folders.patiently(lambda: self._knowledge.replace(beside))
        else:
            folders.remove_file(beside)

        try:
            folders.patiently(lambda: os.link(self._aside, self._path))
        except FileExistsError as error:
            raise _taken(self._name) from error
        except OSError:
            if os.path.lexists(self._path):
                raise _taken(self._name) from None
            # Some file systems have no hard links.
            folders.patiently(lambda: self._aside.rename(self._path))

        folders.sync_folder(self._path.parent)


def _taken(name: str) -> InvalidInput:
    """Return the refusal of a name that another backup has."""
    return InvalidInput(
        "There is a backup called `{name}` already; choose another name, or delete that one first.",
        name,
    )


def _try_lock(path: Path) -> FileLock | None:
    with folders.unwritable(path):
        return folders.try_lock(path)
