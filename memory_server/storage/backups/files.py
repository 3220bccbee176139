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

from memory_server.conversations import record_lines
from memory_server.conversations.contents import Contents
from memory_server.kernel import files as folders
from memory_server.kernel import json_text, times
from memory_server.kernel.backups import Backup, BackupBroken, BackupNotFound, backup_name, pauses
from memory_server.kernel.errors import InvalidInput, StorageUnwritable
from memory_server.kernel.files import FileLock, advice_on
from memory_server.kernel.readers import way
from memory_server.kernel.text import visible
from sandbox.locale import _

ENDING = ".backup.gz"
FORMAT = "memory-server backup"
VERSION = 1
LEVEL = 6
"""gzip's usual level: 9 takes twice the time for 1 % less."""
MAX_FACTS_BYTES = 64 * 1024
"""Most bytes of the line of facts; it has about 250."""
MOST_UNPACKED = 200
"""Bytes to which one byte of a backup may unpack: memories have 4 to 30, and gzip's maximum is 1,030."""
LEAST_UNPACKED_BYTES = 64 * 1024 * 1024
"""Bytes to which any backup may unpack, some 40,000 memories: too few to need another bound."""
_BLOCK = 1024 * 1024
_LEFT = re.compile(r"\.[0-9a-f]{16}\.next(-journal)?|\..+\.body")
_LEFT_SECONDS = 86_400
"""Such a file of a backup that is older was left by a process that was killed."""


KNOWLEDGE_ENDING = ".knowledge.sqlite3"


class BackupFolder:
    """The backups in `folder`, which the first backup makes. Blocking calls; each may raise `StorageError`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def begin(self, name: str, created_ms: int, *, numbered: bool = False) -> BackupFileWriter:
        """Begin the backup called `name`; `numbered`: where another has that name, it gets a number. What killed
        processes left is removed. Raises InvalidInput: a backup has that name already."""
        path = self._path(name)
        if os.path.lexists(path) and not numbered:
            raise _taken(name)
        with contextlib.suppress(OSError):
            for left in filter(_LEFT.fullmatch, os.listdir(self.folder)):
                if time.time() - (self.folder / left).lstat().st_mtime > _LEFT_SECONDS:
                    folders.remove_file(self.folder / left)
        return BackupFileWriter(self, name, created_ms, numbered)

    def try_hold(self, name: str) -> Callable[[], None] | None:
        """Let nobody delete or restore the backup called `name` before what this gives is called; None: another process
        does that now. Does not wait."""
        path = self.folder.with_name(f"{self.folder.name}.{backup_name(name)}.lock")
        if not self.folder.is_dir():
            return lambda: None  # there is no backup
        if (lock := _try_lock(path)) is None:
            return None

        def release() -> None:
            with contextlib.suppress(OSError):
                path.unlink()  # before it is free: who gets it then sees that it is no longer the file of that name
            lock.release()

        return release

    @contextlib.contextmanager
    def exclusively(self) -> Iterator[None]:
        """Let nobody else give a backup its name or delete one: for moments only. Raises LockTimeout."""
        lock, tries = None, pauses()
        while self.folder.is_dir() and (lock := _try_lock(self.folder.with_name(f"{self.folder.name}.lock"))) is None:
            time.sleep(next(tries))
        try:
            yield
        finally:
            if lock is not None:
                lock.release()

    @contextlib.contextmanager
    def open(self, name: str) -> Iterator[tuple[Backup, Iterator[Contents]]]:
        """The facts of a backup and its conversations, one after the other. The whole backup is checked first. Raises
        BackupNotFound; BackupBroken: it is damaged, cut off or of a newer format."""
        path = self._path(name)
        with self._opened(path, name) as file:
            try:
                backup, fields = _facts(file, path, name)
                start = file.tell()
                if hashlib.file_digest(file, "sha256").hexdigest() != fields.get("sha256"):
                    raise json_text.NotARecord("its checksum does not match")
                # Read once before anything is used: a wrong record may have a right checksum, if written by hand.
                for _conversation in _conversations(file, start):
                    pass
            except (json_text.NotARecord, OSError, EOFError, zlib.error) as error:
                raise BackupBroken(
                    _(
                        "The backup {name} cannot be used: {reason}. Nothing was changed; choose another backup.",
                        name,
                        error,
                    ),
                    path,
                ) from error
            yield backup, _conversations(file, start)

    def rewrite(self, name: str, change: Callable[[Contents], Contents]) -> None:
        with self.open(name) as (backup, conversations):
            writer = BackupFileWriter(self, name, backup.created_ms, numbered=False)
            try:
                for contents in conversations:
                    writer.add(change(contents))
                writer.finish(anew=True)
            finally:
                writer.discard()

    def knowledge_of(self, name: str) -> Path:
        """Where the knowledge of that backup is, or would be: a file beside it."""
        return self.folder / f"{backup_name(name)}{KNOWLEDGE_ENDING}"

    def listed(self) -> list[Backup]:
        """All backups, newest first; one that cannot be read has a `problem`."""
        if not self.folder.is_dir():
            return []
        found = [self._backup(path) for path in self.folder.iterdir() if path.name.endswith(ENDING)]
        return sorted(found, key=lambda backup: (-backup.created_ms, backup.name))

    def delete(self, name: str) -> None:
        """Delete a backup. Raises BackupNotFound: no backup has that name."""
        path, tries = self._path(name), pauses()
        while (release := self.try_hold(name)) is None:
            time.sleep(next(tries))
        try:
            with self.exclusively():
                folders.patiently(path.unlink)
                folders.remove_file(self.knowledge_of(name))
        except FileNotFoundError as error:
            raise self._missing(name) from error
        except OSError as error:
            raise StorageUnwritable(
                _("The backup {name} was not deleted: {advice_on}.", name, advice_on(error)), path
            ) from error
        finally:
            release()
        folders.sync_folder(self.folder)

    def _path(self, name: str) -> Path:
        return self.folder / (backup_name(name) + ENDING)

    @contextlib.contextmanager
    def _opened(self, path: Path, name: str) -> Iterator[BufferedReader]:
        try:
            # A link could lead anywhere; only files in this folder are read.
            flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
            descriptor = folders.open_descriptor(path, flags)
        except FileNotFoundError as error:
            raise self._missing(name) from error
        except OSError as error:
            reason = _("it is a link") if error.errno == errno.ELOOP else error.strerror
            raise BackupBroken(_("The backup {name} cannot be read: {reason}.", name, reason), path) from error
        with os.fdopen(descriptor, "rb") as file:
            yield file

    def _backup(self, path: Path) -> Backup:
        name = visible(path.name.removesuffix(ENDING))
        try:
            backup_name(name)
            with self._opened(path, name) as file:
                return _facts(file, path, name)[0]
        except (json_text.NotARecord, BackupBroken, InvalidInput, OSError, EOFError, zlib.error) as error:
            facts = path.lstat() if os.path.lexists(path) else None
            size, made = (facts.st_size, facts.st_mtime_ns // 1_000_000) if facts else (0, 0)
            return Backup(name, made, size, problem=visible(str(error)))

    def _missing(self, name: str) -> BackupNotFound:
        names = [backup.name for backup in self.listed()[:5]]
        known = (
            _("there are {names}", ", ".join(names))
            if names
            else _("there are none yet; make one with {how}", way("backup_memories", "memory-server backup"))
        )
        return BackupNotFound("There is no backup called `{name}`; {known}.", name, known)


class BackupFileWriter:
    """A backup that is being written; it cannot be seen before `finish`. The conversations go to a file without a name,
    because the facts, which come first, need their hash."""

    def __init__(self, store: BackupFolder, name: str, created_ms: int, numbered: bool) -> None:
        self._store, self._name, self._created_ms, self._numbered = store, name, created_ms, numbered
        self._path = path = store.folder / f"{name}{ENDING}"
        self._aside = path.with_name(f".{secrets.token_hex(8)}.next")
        self._knowledge = path.with_name(f".{secrets.token_hex(8)}.next")
        self._counts = [0, 0, 0]
        with _storage_errors(path.parent):
            folders.make_folder(path.parent)
            self._file = tempfile.TemporaryFile(dir=path.parent, prefix=".", suffix=".body")  # noqa: SIM115 (discard closes it)
            self._gzip = gzip.GzipFile(filename="", mode="wb", compresslevel=LEVEL, fileobj=self._file, mtime=0)
            self._gzip.write(record_lines.first_line(created_ms))

    def add(self, contents: Contents) -> None:
        with _storage_errors(self._path.parent):
            self._gzip.writelines(record_lines.conversation_lines(contents))
        for place, more in enumerate((1, len(contents.short_term), len(contents.long_term))):
            self._counts[place] += more

    def finish(self, *, anew: bool = False) -> Backup:
        """Make the backup durable and visible; `anew`: in place of the one of its name. Raises InvalidInput: another
        backup took the name meanwhile."""
        conversations, short, long = self._counts
        with _storage_errors(self._path.parent):
            self._gzip.write(record_lines.last_line(conversations))
            self._gzip.close()
            self._file.seek(0)
            facts = {
                "format": FORMAT,
                "version": VERSION,
                "created": times.iso(self._created_ms),
                "conversations": conversations,
                "shortTerm": short,
                "longTerm": long,
                "sha256": hashlib.file_digest(self._file, "sha256").hexdigest(),
            }
            self._file.seek(0)
            with folders.open_file(self._aside, "xb") as whole:
                whole.write(gzip.compress(json_text.dumps(facts) + b"\n", mtime=0))
                shutil.copyfileobj(self._file, whole, _BLOCK)
                whole.flush()
                folders.sync_file(whole.fileno())
                size = whole.tell()
            with self._store.exclusively():
                if anew:
                    folders.take_name(self._aside, self._path)
                    folders.sync_folder(self._path.parent)
                else:
                    self._publish()
            self.discard()
        return Backup(self._name, self._created_ms, size, conversations, short, long)

    def beside(self) -> Path:
        """A path for a copy of the knowledge, which gets its name with the backup."""
        return self._knowledge

    def discard(self) -> None:
        """Remove what was written aside; does nothing after `finish`."""
        # Closing flushes, which fails again on a full disk.
        for part in (self._gzip, self._file):
            with contextlib.suppress(OSError, ValueError):
                part.close()
        with contextlib.suppress(OSError):  # the next backup removes what is left; the first error is the one to say
            folders.remove_file(self._aside)
            folders.remove_file(self._knowledge)

    def _publish(self) -> None:
        """Give the file its name, unless that is taken: then a link fails, where renaming would replace the other. The
        copy of the knowledge is there before it: a backup that can be seen is whole."""
        others = map(f"{self._name}-{{}}".format, count(2))
        while os.path.lexists(self._path):
            if not self._numbered:
                raise _taken(self._name)
            self._name = next(others)
            self._path = self._path.with_name(self._name + ENDING)
        if self._knowledge.exists():
            beside = self._path.with_name(f"{self._name}{KNOWLEDGE_ENDING}")
            folders.patiently(lambda: self._knowledge.replace(beside))
        try:
            folders.patiently(lambda: os.link(self._aside, self._path))
        except FileExistsError as error:
            raise _taken(self._name) from error
        except OSError:
            if os.path.lexists(self._path):
                raise _taken(self._name) from None
            folders.patiently(lambda: self._aside.rename(self._path))
        folders.sync_folder(self._path.parent)


def _facts(file: BufferedReader, path: Path, name: str) -> tuple[Backup, dict[str, Any]]:
    """The facts of a backup; `file` stands after them. Raises NotARecord, zlib.error."""
    unpacked = zlib.decompressobj(wbits=31)
    packed = file.read(MAX_FACTS_BYTES)
    try:
        line = unpacked.decompress(packed, MAX_FACTS_BYTES)
    except zlib.error as error:
        raise json_text.NotARecord("it is not a backup of memory-server, or its first part is damaged") from error
    if not unpacked.eof:
        raise json_text.NotARecord("its first part is damaged")
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


def _conversations(file: BufferedReader, start: int) -> Iterator[Contents]:
    packed = file.seek(0, os.SEEK_END) - start
    file.seek(start)
    with gzip.GzipFile(fileobj=file, mode="rb") as body:
        yield from record_lines.parse(_lines(body, max(LEAST_UNPACKED_BYTES, packed * MOST_UNPACKED)))


def _lines(body: gzip.GzipFile, most: int) -> Iterator[bytes]:
    """The lines of a file that unpacks to at most `most` bytes. Raises zlib.error before more is unpacked."""
    while line := body.readline(record_lines.LONGEST_LINE + 1):
        most -= len(line)
        if most < 0 or len(line) > record_lines.LONGEST_LINE:
            raise zlib.error(_("it unpacks to far more than memories do"))
        yield line


def _taken(name: str) -> InvalidInput:
    return InvalidInput(
        "There is a backup called `{name}` already; choose another name, or delete that one first.", name
    )


def _try_lock(path: Path) -> FileLock | None:
    try:
        return folders.try_lock(path)
    except OSError as error:
        raise StorageUnwritable(_("{place} cannot be written: {advice_on}.", path, advice_on(error)), path) from error


@contextlib.contextmanager
def _storage_errors(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StorageUnwritable(
            _("The backup was not made in {folder}: {advice_on}.", folder, advice_on(error)), folder
        ) from error
