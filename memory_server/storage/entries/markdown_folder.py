"""An `EntryFolder`: it finds, reads and writes a Markdown file for each entry, as people commit them (seed 003).

The files are the truth. Before each call the folder is looked at, and what changed goes into an index in memory. A file
is written beside its place and renamed; the lock is outside of the folder, so that `git status` shows entries only.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import stat
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import KW_ONLY, field
from datetime import tzinfo
from functools import cached_property
from itertools import chain
from pathlib import Path

from languages import Sentence, _, counted, n_
from memory_server.kernel import files as folders
from memory_server.kernel.errors import InvalidInput, LockTimeout, StorageError, StorageUnwritable
from memory_server.kernel.files import FileLock, try_lock
from memory_server.kernel.folder_names import as_seen_carelessly, hashed_name
from memory_server.kernel.foreign_files import owners_in, refuse_foreign
from memory_server.kernel.meter import Meter
from memory_server.kernel.scopes import Scope
from memory_server.kernel.text import Finding, visible
from memory_server.kernel.values import dataclass
from memory_server.knowledge.entry import (
    Archive,
    Change,
    Entry,
    Operation,
    Purge,
    archived,
    difference,
)
from memory_server.knowledge.layers import LAYER
from memory_server.knowledge.ports import Committed, Decide, ScopeView, T
from memory_server.storage.entries import schema
from memory_server.storage.entries.entry_files import (
    ARCHIVE,
    ENDING,
    EntryFile,
    ListedFile,
    changed_file,
    entries_that_count,
    is_plain,
    listed_files,
    name_of,
    new_file,
    numbered,
    read_entry,
    unusable,
)
from memory_server.storage.entries.rows import ScopeRows
from memory_server.storage.entries.sqlite_rows import Connection
from memory_server.storage.entries.sqlite_work import run_in_thread

MAX_BYTES = 10_000_000
"""The most bytes that are read of a layer, and as much of its archive: finding the words of a million takes 0.3 s."""
_LEAST_BYTES = 1_000
"""The bytes as which a smaller file counts, so that there are 10,000 files at most."""
_MOST_NAMED = 50
"""The most files that cannot be read and are named; of more, their number."""
_LEFT_OUT = Sentence(
    "of a layer and of its archive, the newest files are read, up to {bytes:,} bytes", MAX_BYTES
)
_SETTLED_NS = 2_000_000_000
"""A file that is younger is read again: a second change may have the same time and size."""
_PAUSE_SECONDS = 0.005
"""The time before a waiter tries again: a write takes about a millisecond."""


@dataclass(eq=False)
class MarkdownFolder:
    """The entries in `place`. `locks`: a folder of this user for locks; `scope`: the scope of the entries; `project`:
    the folder above `place` that may come from others; `zone`: the zone of times in files that name no zone. Looks
    and changes have a thread each, so that a look does not wait for the lock, and a caller who gives up leaves no
    half of a change."""

    place: Path
    _: KW_ONLY
    locks: Path
    scope: Scope = LAYER
    project: Path | None = None
    zone: tzinfo | None = None
    wait_seconds: float = 10.0
    read_only: bool = False
    meter: Meter = field(default_factory=Meter)

    def __post_init__(self) -> None:
        self.archive = self.place / ARCHIVE
        self._files: dict[str, EntryFile] = {}
        self._indexed: dict[str, Entry] = {}
        self._moved: dict[str, str] = {}
        self._alone = threading.Lock()
        self._closed = False
        self._looks = ThreadPoolExecutor(1, "layers-look")
        self._writes = ThreadPoolExecutor(1, "layers-write")

    @cached_property
    def _index(self) -> Connection:
        return schema.in_memory()

    async def commit(self, scope: Scope, decide: Decide[T], operation: Operation) -> Committed[T]:
        """Do as `ports.Entries` says. All changes are checked before the first file is written; a disk that then
        fails may have some of them, each file whole."""
        if self.read_only:
            raise StorageUnwritable(
                Sentence("Nothing can be changed, because `read_only` is set."), self.place
            )

        def work() -> Committed[T]:
            lock = self._locked()
            try:
                with self._alone:
                    return self._decide_and_write(decide)
            finally:
                lock.release()

        return await run_in_thread(self._writes, work, self.place)

    async def read(self, scope: Scope, read: Callable[[ScopeView], T]) -> T:
        def work() -> T:
            with self._alone:
                return read(self._refreshed())

        return await run_in_thread(self._looks, work, self.place)

    async def unreadable(self, *, archive: bool = False) -> Mapping[str, str]:
        def read(_view: ScopeView) -> dict[str, str]:
            troubles: dict[str, str] = {}
            for name, file in sorted(self._files.items()):
                if file.trouble and name.startswith(ARCHIVE) == archive:
                    troubles[visible(name)] = str(file.trouble)
            left_out = str(_LEFT_OUT)
            broken = [name for name, trouble in troubles.items() if trouble != left_out]
            named = {name: troubles[name] for name in broken[:_MOST_NAMED]}
            unnamed = len(troubles) - len(named)
            if unnamed == 0:
                return named
            reason = left_out if left_out in troubles.values() else _("they are broken too")
            return {**named, counted(unnamed, "more file"): reason}

        return await self.read(self.scope, read)

    async def examine(self) -> list[Finding]:
        try:
            sentences = await self.read(self.scope, lambda _view: list(self._trouble_sentences()))
        except StorageError as error:
            return [Finding("error", _("layers"), str(error))]
        if sentences:
            return [Finding("warning", _("layers"), sentence) for sentence in sentences]
        if not self._indexed:
            return []
        count = n_(
            "{count:,} entry in {place}",
            "{count:,} entries in {place}",
            len(self._indexed),
            self.place,
        )
        return [Finding("ok", _("layers"), count)]

    def _trouble_sentences(self) -> Iterator[str]:
        """Say what is wrong with files: first the files that cannot be read, then files whose key another file has."""
        in_order = sorted(self._files.items())
        for name, file in in_order:
            if file.trouble:
                yield visible(_("{path}: {what}.", self.place / name, file.trouble))
        for name, file in in_order:
            if not file.trouble and file.entry is not None and name not in self._indexed:
                yield _(
                    "{place} has the key of a newer file, which counts; rename or delete one of them.",
                    self.place / name,
                )

    async def aclose(self) -> None:
        await asyncio.to_thread(self._writes.shutdown)
        self._closed = True  # a look whose caller has gone ends at its next file
        await asyncio.to_thread(self._looks.shutdown)
        self._index.close()

    def _decide_and_write(self, decide: Decide[T]) -> Committed[T]:
        view = self._refreshed()
        changes, result = decide(view)
        self._refuse_impossible(view, changes)
        names: list[str] = []
        self._moved = {}
        try:
            for change in changes:
                name = self._store(view, change)
                if name is not None:
                    names.append(name)
        except OSError as error:
            raise StorageUnwritable(
                Sentence(
                    "{place} cannot be written: {advice_on}.", self.place, folders.advice_on(error)
                ),
                self.place,
            ) from error
        finally:
            # Also after an error: some of the files may have been written.
            view = self._refreshed()

        self.meter.count("layers", "commits", int(bool(changes)))
        stored = [view.get(ref=name) for name in names]
        return Committed(result, tuple(filter(None, stored)), None)

    def _store(self, view: ScopeRows, change: Change) -> str | None:
        """Write or remove the file of a change; the name of the file that was written."""
        before = view.get(id=change.id) if change.id else None
        if isinstance(change, Archive) and before is not None:
            change = archived(before, change.reason, change.at_ms)
        if isinstance(change, Entry):
            return self._write(change, before)
        if before is not None:
            self._remove(self._path(before))
        return None

    def _refuse_impossible(self, view: ScopeRows, changes: Sequence[Change]) -> None:
        """Raise InvalidInput if an entry does not exist any more, two live entries would have the same key, or a file
        that cannot be read has the name of a change; StorageUnwritable if the archive is not a folder."""
        for change in changes:
            if isinstance(change, Archive):
                self._refuse_without_archive()
            if isinstance(change, Entry):
                if change.archived_ms is not None:
                    self._refuse_without_archive()
                before = view.get(id=change.id) if change.id else None
                if before is None or before.archived_ms != change.archived_ms:
                    self._refuse_unreadable(change)

        # The index refuses what the folder cannot hold, so the changes are tried there before a file is written.
        self._index.execute("SAVEPOINT trial")
        try:
            for change in changes:
                view.apply(change, mirror=True)
        finally:
            self._index.execute("ROLLBACK TO trial")
            self._index.execute("RELEASE trial")

    def _refuse_without_archive(self) -> None:
        """Raise StorageUnwritable if something else is where the archive should be."""
        if os.path.lexists(self.archive) and not self.archive.is_dir():
            raise StorageUnwritable(
                Sentence(
                    "{archive} is not a folder; move it away and try again. Nothing was changed.",
                    self.archive,
                ),
                self.archive,
            )

    def _refuse_unreadable(self, entry: Entry) -> None:
        """Raise InvalidInput if a file that cannot be read has a name of the entry."""
        for stem in (entry.key or "", hashed_name(entry.key or "")):
            name = name_of(entry, stem)
            file = self._files.get(name)
            if file is not None and file.trouble is not None:
                raise InvalidInput(
                    "{place} cannot be read, because {trouble}; repair it or move it away. Nothing was changed.",
                    self.place / name,
                    file.trouble,
                )

    def _refreshed(self) -> ScopeRows:
        """Bring the index to what the folder holds, and return it."""
        try:
            self._files = self._read_all()
        except OSError as error:
            raise StorageError(
                Sentence("{name} cannot be read: {reason}.", self.place, folders.advice_on(error)),
                self.place,
            ) from error

        view = self._index.view(self.scope, make=True)
        entries = entries_that_count(self._files)
        if entries == self._indexed:
            return view

        outdated = [name for name, entry in self._indexed.items() if entries.get(name) != entry]
        changed = [entry for name, entry in entries.items() if self._indexed.get(name) != entry]
        self._index.execute("BEGIN")
        with self._index:
            # Removed before others are added: a renamed file has the key of its former name.
            for name in outdated:
                indexed = view.get(ref=name)
                if indexed is not None:
                    view.apply(Purge(indexed.id), mirror=True)
            for entry in changed:
                self._refuse_closed()
                view.apply(entry, mirror=True)

        self._indexed = entries
        return view

    def _read_all(self) -> dict[str, EntryFile]:
        """Read the files of the folder and of its archive. Of each, the newest are read as far as there is room."""
        files: dict[str, EntryFile] = {}
        now_ns = time.time_ns()
        owners = None if self.project is None else owners_in(self.project)
        for prefix in ("", ARCHIVE):
            if self.project is not None:
                refuse_foreign(self.project, self.place / prefix)
            room = MAX_BYTES
            for file in listed_files(self.place, prefix):
                self._refuse_closed()
                trouble = unusable(file.facts, owners)
                if trouble is None:
                    room -= max(file.facts.st_size, _LEAST_BYTES)
                    if room < 0:
                        trouble = _LEFT_OUT
                with suppress(FileNotFoundError):
                    files[file.name] = self._looked_at(file, trouble, now_ns)

        return files

    def _looked_at(self, file: ListedFile, trouble: Sentence | None, now_ns: int) -> EntryFile:
        """Return a file as it is now, read again only where it may have changed. Raises FileNotFoundError: it was
        removed."""
        seen = (file.facts.st_size, file.facts.st_mtime_ns, file.facts.st_ino)
        if trouble is not None:
            return EntryFile(seen, False, entry=None, trouble=trouble)
        former = self._files.get(file.name)
        if former is not None and former.settled and former.seen == seen:
            return former
        settled = now_ns - file.facts.st_mtime_ns > _SETTLED_NS
        content = read_entry(self.place, file, self.zone)
        return EntryFile(seen, settled, entry=content.entry, trouble=content.trouble)

    def _refuse_closed(self) -> None:
        if self._closed:
            raise StorageError(f"{self.place} is closed.", self.place)

    def _write(self, entry: Entry, before: Entry | None) -> str:
        """Write the file of an entry; its name."""
        if before is None:
            name = self._free_name(entry)
            self._replace_file(
                self.place / name, new_file(self.place / name, entry, self.zone), None
            )
            return name

        if not difference(before, entry):
            return before.ref

        name = before.ref
        if name_of(before, before.key or "") != name_of(entry, entry.key or ""):
            name = self._free_name(entry)

        path = self.place / name
        former_path = self._path(before)
        data = changed_file(
            path,
            entry,
            before=before,
            former_data=folders.read_file(former_path, links=False),
            zone=self.zone,
        )
        # Its rights stay, but not that everybody may write it.
        mode = stat.S_IMODE(former_path.lstat().st_mode) & ~stat.S_IWOTH
        self._replace_file(path, data, mode)
        if former_path != path:
            # The copy is there: a crash now leaves both, and the live one counts.
            self._remove(former_path)

        return name

    def _replace_file(self, path: Path, data: bytes, mode: int | None) -> None:
        folders.make_folder(path.parent)
        folders.replace_file(path, data, mode)

    def _path(self, entry: Entry) -> Path:
        """Return the path of the file of an entry, also if a change of this commit made room there."""
        return self.place / self._moved.get(entry.ref, entry.ref)

    def _remove(self, path: Path) -> None:
        folders.remove_file(path)
        folders.sync_folder(path.parent)

    def _free_name(self, entry: Entry) -> str:
        """Return a name that no other file has, on any file system."""
        key = entry.key or ""
        stems = [hashed_name(key)]
        if is_plain(key):
            stems.insert(0, key)
        if entry.archived_ms is not None:
            for stem in stems:
                name = name_of(entry, stem)
                file = self._files.get(name)
                if file is not None and file.entry is not None and file.entry.key == key:
                    self._make_room(name, file.entry, entry)
                    return name
        return self._first_free(entry, chain(stems, numbered(key, 2)))

    def _make_room(self, name: str, older: Entry, entry: Entry) -> None:
        """Move an older archived file of the key, unless it is the copy of a move that was broken off."""
        if difference(older, entry).keys() <= {"archived_ms", "ref", "reason"}:
            return
        new_name = self._first_free(entry, numbered(older.key or "", older.archived_ms or 0))
        (self.place / name).replace(self.place / new_name)
        self._files[new_name] = self._files.pop(name)
        self._moved[name] = new_name

    def _first_free(self, entry: Entry, stems: Iterator[str]) -> str:
        taken: set[str] = set()
        folder = (self.place / name_of(entry, "")).parent
        with suppress(FileNotFoundError, NotADirectoryError):
            taken = set(map(as_seen_carelessly, os.listdir(folder)))
        stem = next(stem for stem in stems if as_seen_carelessly(stem + ENDING) not in taken)
        return name_of(entry, stem)

    def _locked(self) -> FileLock:
        """Take the lock. Raises LockTimeout: another process held the folder for too long."""
        # The lock is not in the folder itself, which may be a part of a repository.
        place_bytes = os.path.realpath(self.place).encode(errors="surrogateescape")
        folder = self.locks / hashlib.sha256(place_bytes).hexdigest()[:32]
        deadline = time.monotonic() + self.wait_seconds
        waited = 0
        try:
            folders.make_folder(folder)
            lock = try_lock(folder / "lock")
            while lock is None:
                if time.monotonic() > deadline:
                    raise LockTimeout(
                        Sentence(
                            "Another process holds {place} for too long; nothing was changed, try again.",
                            self.place,
                        ),
                        self.place,
                    )
                time.sleep(_PAUSE_SECONDS)
                waited = 1
                lock = try_lock(folder / "lock")
        except OSError as error:
            raise StorageUnwritable(
                Sentence(
                    "{place} cannot be written: {advice_on}.", folder, folders.advice_on(error)
                ),
                folder,
            ) from error

        self.meter.count("layers", "waits", waited)
        return lock
