"""An `EntryFolder`: it finds, reads and writes a Markdown file for each entry, as people commit them (seed 003).

The files are the truth. Before each call the folder is looked at, and what changed goes into an index in memory. A file
is written beside its place and renamed; the lock is outside of the folder, so that `git status` shows entries only.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import re
import stat
import threading
import time
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass, field
from datetime import tzinfo
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any

from memory_server.kernel import files as folders
from memory_server.kernel.errors import InvalidInput, LockTimeout, StorageError, StorageUnwritable
from memory_server.kernel.files import FileLock, try_lock
from memory_server.kernel.folder_names import as_seen_carelessly, hashed_name, is_reserved
from memory_server.kernel.messages import without_surrogates
from memory_server.kernel.meter import Meter
from memory_server.kernel.scopes import Scope
from memory_server.kernel.text import Finding, visible
from memory_server.knowledge import front_matter
from memory_server.knowledge.entry import Archive, Entry, Operation, Purge, archived, difference
from memory_server.knowledge.layers import LAYER
from memory_server.knowledge.ports import Committed, Decide, ScopeView, T
from memory_server.storage.entries import schema
from memory_server.storage.entries.entry_files import ARCHIVE, ENDING, EntryFile, name_of, numbered, unusable
from memory_server.storage.entries.rows import ScopeRows
from memory_server.storage.entries.sqlite_rows import Connection
from memory_server.storage.entries.sqlite_work import run_in_thread
from memory_server.storage.projects import is_link, owners_in, refuse_foreign
from sandbox.locale import _, counted, n_

MAX_BYTES = 10_000_000
"""Bytes that are read of a layer, and as much of its archive: finding the words of a million takes 0.3 s."""
_LEAST_BYTES = 1_000
"""As which a smaller file counts, so that there are 10,000 files at most."""
_MOST_NAMED = 50
"""Files that cannot be read and are named; of more, their number."""
_LEFT_OUT = _("of a layer and of its archive, the newest files are read, up to {bytes:,} bytes", MAX_BYTES)
_PLAIN, _NAME_BYTES = re.compile(r"\w[\w.-]*"), 80
_SETTLED_NS = 2_000_000_000
"""A file that is younger is read again: a second change may have the same time and size."""
_PAUSE_SECONDS = 0.005
"""Before a waiter tries again: a write takes about a millisecond."""
_TIMES = {"created_at": "created_ms", "updated_at": "updated_ms", "archived_at": "archived_ms"}


@dataclass(eq=False)
class MarkdownFolder:
    """The entries in `place`. `locks`: a folder of this user for locks; `scope`: of the entries; `project`: the folder
    above `place` that may come from others; `zone`: of times in files that name none. Looks and changes have a thread
    each, so that a look does not wait for the lock, and a caller who gives up leaves no half of a change."""

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
        self._shown: dict[str, Entry] = {}
        self._moved: dict[str, str] = {}
        self._alone = threading.Lock()
        self._closed = False
        self._looks, self._writes = (ThreadPoolExecutor(1, f"layers-{name}") for name in ("look", "write"))

    @cached_property
    def _index(self) -> Connection:
        return schema.in_memory()

    async def commit(self, scope: Scope, decide: Decide[T], operation: Operation) -> Committed[T]:
        """As in `ports.Entries`. All changes are checked before the first file is written; a disk that then fails may
        have some of them, each file whole."""
        if self.read_only:
            raise StorageUnwritable(_("Nothing can be changed, because `read_only` is set."), self.place)

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
        def read(_held: ScopeView) -> dict[str, str]:
            troubles = {visible(name): file.trouble for name, file in sorted(self._files.items()) if file.trouble}
            here = [(name, said) for name, said in troubles.items() if name.startswith(ARCHIVE) == archive]
            named = [(name, said) for name, said in here if said != _LEFT_OUT][:_MOST_NAMED]
            if len(named) == len(here):
                return dict(named)
            more = [said for _, said in here if said == _LEFT_OUT] or [_("they are broken too")]
            return {**dict(named), counted(len(here) - len(named), "more file"): more[0]}

        return await self.read(self.scope, read)

    async def examine(self) -> list[Finding]:
        def said(_held: ScopeView) -> list[str]:
            return [
                visible(_("{path}: {what}.", self.place / name, file.trouble))
                if file.trouble
                else _(
                    "{place} has the key of a newer file, which counts; rename or delete one of them.",
                    self.place / name,
                )
                for name, file in sorted(self._files.items(), key=lambda each: (each[1].trouble is None, each[0]))
                if file.trouble or (file.entry is not None and name not in self._shown)
            ]

        try:
            found = [Finding("warning", _("layers"), each) for each in await self.read(self.scope, said)]
        except StorageError as error:
            return [Finding("error", _("layers"), str(error))]
        count = n_("{count:,} entry in {place}", "{count:,} entries in {place}", len(self._shown), self.place)
        whole = [Finding("ok", _("layers"), count)] if self._shown else []
        return found or whole

    async def aclose(self) -> None:
        await asyncio.to_thread(self._writes.shutdown)
        self._closed = True  # a look that nobody waits for any more ends at its next file
        await asyncio.to_thread(self._looks.shutdown)
        self._index.close()

    def _decide_and_write(self, decide: Decide[T]) -> Committed[T]:
        held = self._refreshed()
        given, result = decide(held)
        self._refuse_impossible(held, given)
        names: list[str] = []
        self._moved = {}
        try:
            for change in given:
                before = held.get(id=change.id) if change.id else None
                if isinstance(change, Archive) and before is not None:
                    change = archived(before, change.reason, change.at_ms)
                if isinstance(change, Entry):
                    names.append(self._write(change, before))
                elif before is not None:
                    self._remove(self._path(before))
        except OSError as error:
            said = _("{place} cannot be written: {advice_on}.", self.place, folders.advice_on(error))
            raise StorageUnwritable(said, self.place) from error
        finally:
            held = self._refreshed()
        self.meter.count("layers", "commits", int(bool(given)))
        return Committed(result, tuple(filter(None, (held.get(ref=name) for name in names))), None)

    def _refuse_impossible(self, held: ScopeRows, changes: Sequence[Entry | Archive | Purge]) -> None:
        """Raises InvalidInput: an entry does not exist any more, two live entries would have one key, or a file that
        cannot be read has the name of a change. StorageUnwritable: the archive is not a folder."""
        for change in changes:
            archives = isinstance(change, Archive) or (isinstance(change, Entry) and change.archived_ms is not None)
            if archives and os.path.lexists(self.archive) and not self.archive.is_dir():
                said = _("{archive} is not a folder; move it away and try again. Nothing was changed.", self.archive)
                raise StorageUnwritable(said, self.archive)
            if isinstance(change, Entry):
                before = held.get(id=change.id) if change.id else None
                if before is None or before.archived_ms != change.archived_ms:
                    self._refuse_unreadable(change)
        self._index.execute("SAVEPOINT trial")
        try:
            for change in changes:
                held.apply(change, mirror=True)
        finally:
            self._index.execute("ROLLBACK TO trial")
            self._index.execute("RELEASE trial")

    def _refuse_unreadable(self, entry: Entry) -> None:
        for stem in (entry.key or "", hashed_name(entry.key or "")):
            name = name_of(entry, stem)
            if (file := self._files.get(name)) is not None and file.trouble is not None:
                raise InvalidInput(
                    "{place} cannot be read, because {trouble}; mend it or move it away. Nothing was changed.",
                    self.place / name,
                    file.trouble,
                )

    def _refreshed(self) -> ScopeRows:
        """The index, brought to what the folder holds."""
        try:
            self._files = self._read_all()
        except OSError as error:
            raise StorageError(
                _("{name} cannot be read: {reason}.", self.place, folders.advice_on(error)), self.place
            ) from error
        held, shown = self._index.view(self.scope, make=True), self._counting()
        if shown != self._shown:
            self._index.execute("BEGIN")
            with self._index:
                for name in [name for name, entry in self._shown.items() if shown.get(name) != entry]:
                    if (gone := held.get(ref=name)) is not None:
                        held.apply(Purge(gone.id), mirror=True)
                for entry in [entry for name, entry in shown.items() if self._shown.get(name) != entry]:
                    self._refuse_closed()
                    held.apply(entry, mirror=True)
            self._shown = shown
        return held

    def _read_all(self) -> dict[str, EntryFile]:
        files, now_ns = {}, time.time_ns()
        owners = None if self.project is None else owners_in(self.project)
        for prefix in ("", ARCHIVE):
            room = MAX_BYTES
            for name, found in self._listed(prefix):
                self._refuse_closed()
                seen = (found.st_size, found.st_mtime_ns, found.st_ino)
                known, trouble = self._files.get(name), unusable(found, owners)
                room -= 0 if trouble else max(found.st_size, _LEAST_BYTES)
                if trouble is not None or room < 0:
                    files[name] = EntryFile(seen, False, None, trouble or _LEFT_OUT)
                elif known is not None and known.settled and known.seen == seen:
                    files[name] = known
                else:
                    with suppress(FileNotFoundError):
                        entry, trouble = self._read(name, found)
                        files[name] = EntryFile(seen, now_ns - found.st_mtime_ns > _SETTLED_NS, entry, trouble)
        return files

    def _refuse_closed(self) -> None:
        if self._closed:
            raise StorageError(f"{self.place} is closed.", self.place)

    def _counting(self) -> dict[str, Entry]:
        """The entries by file; of two live files of one key the newer one counts."""
        entries = {name: file.entry for name, file in sorted(self._files.items()) if file.entry is not None}
        newest: dict[str | None, Entry] = {}
        for entry in entries.values():
            if entry.archived_ms is None:
                there = newest.setdefault(entry.key, entry)
                newest[entry.key] = entry if there.updated_ms < entry.updated_ms else there
        return {
            name: entry
            for name, entry in entries.items()
            if entry.archived_ms is not None or newest[entry.key] is entry
        }

    def _listed(self, prefix: str) -> list[tuple[str, os.stat_result]]:
        """The files and links, changed last first."""
        folder, listed = self.place / prefix, []
        if self.project is not None:
            refuse_foreign(self.project, folder)
        with suppress(FileNotFoundError, NotADirectoryError), os.scandir(folder) as entries:
            for each in entries:
                if each.name.endswith(ENDING) and not each.name.startswith("."):
                    with suppress(FileNotFoundError):
                        found = each.stat(follow_symlinks=False)
                        if stat.S_ISREG(found.st_mode) or is_link(found):
                            listed.append((prefix + each.name, found))
        return sorted(listed, key=lambda each: (-each[1].st_mtime_ns, each[0]))

    def _read(self, name: str, found: os.stat_result) -> tuple[Entry | None, str | None]:
        """The entry of a file, or why it cannot be read."""
        if name != without_surrogates(name):
            return None, _("its name is not UTF-8; rename it")
        try:
            page = front_matter.read(folders.read_file(self.place / name, links=False))
        except FileNotFoundError:
            raise
        except (front_matter.Unreadable, OSError) as error:
            return None, str(error)
        return None if page is None else self._entry(name, page, found.st_mtime_ns // 1_000_000), None

    def _entry(self, name: str, page: front_matter.Page, changed_ms: int) -> Entry:
        given, tags = page.fields, page.fields.get("tags")
        written, metadata = given.get("key"), given.get("metadata")
        stem = name.removeprefix(ARCHIVE).removesuffix(ENDING)
        key = unicodedata.normalize("NFC", (written.strip() if isinstance(written, str) else "") or stem)
        listed = tags if isinstance(tags, list) else tags.split(",") if isinstance(tags, str) else []
        created_ms = front_matter.moment_ms(given.get("created_at"), self.zone)
        updated_ms = front_matter.moment_ms(given.get("updated_at"), self.zone) or created_ms or changed_ms
        archived_ms = front_matter.moment_ms(given.get("archived_at"), self.zone) or changed_ms
        return Entry(
            page.body,
            ref=name,
            key=key,
            title=key,
            tags=tuple(dict.fromkeys(tag for each in listed if isinstance(each, str) and (tag := each.strip()))),
            metadata=metadata if isinstance(metadata, dict) else {},
            created_ms=created_ms or updated_ms,
            updated_ms=updated_ms,
            archived_ms=archived_ms if name.startswith(ARCHIVE) else None,
        )

    def _write(self, entry: Entry, before: Entry | None) -> str:
        """Write the file of an entry; its name."""
        if before is not None and not difference(before, entry):
            return before.ref
        stays = before is not None and name_of(before, before.key or "") == name_of(entry, entry.key or "")
        name = before.ref if before is not None and stays else self._free_name(entry)
        path, old = self.place / name, None if before is None else self._path(before)
        there = b"" if old is None else folders.read_file(old, links=False)
        former = None if old is None else front_matter.read(there)
        fields: dict[str, Any] = {"key": entry.key, "tags": list(entry.tags)}
        for said, attribute in _TIMES.items():
            time_ms = getattr(entry, attribute)
            # A time that stays may be written in another form, such as with a zone: so its line stays.
            if former is None or said not in former.fields or getattr(before, attribute) != time_ms:
                fields[said] = front_matter.moment(time_ms, self.zone)
        if before is None and entry.metadata:
            fields["metadata"] = dict(entry.metadata)
        try:
            data = front_matter.write(entry.body.replace("\r\n", "\n").strip("\n"), fields, former)
        except front_matter.Unreadable as error:
            if old is None or entry.archived_ms is None:
                said = _(
                    "{path} was not written, because {reason}; give a plainer key, or leave some tags out.", path, error
                )
                raise InvalidInput(said) from error
            # Only the time of the move does not fit, and that of the file says it too: it must make room for others.
            data = there
        folders.make_folder(path.parent)
        # Its rights stay, but not that everybody may write it.
        mode = None if old is None else stat.S_IMODE(old.lstat().st_mode) & ~stat.S_IWOTH
        folders.replace_file(path, data, mode)
        if old is not None and old != path:
            # The copy is there: a crash now leaves both, and the live one counts.
            self._remove(old)
        return name

    def _path(self, entry: Entry) -> Path:
        """Where the file of an entry is, also if a change of this commit made room there."""
        return self.place / self._moved.get(entry.ref, entry.ref)

    def _remove(self, path: Path) -> None:
        folders.remove_file(path)
        folders.sync_folder(path.parent)

    def _free_name(self, entry: Entry) -> str:
        """A name that no other file has, on any file system."""
        key = entry.key or ""
        fits = len(key.encode(errors="surrogateescape")) <= _NAME_BYTES and not key.endswith(".")
        plain = fits and _PLAIN.fullmatch(key) and not is_reserved(key)
        usual = [*([key] if plain else []), hashed_name(key)]
        for name in (name_of(entry, stem) for stem in usual if entry.archived_ms is not None):
            if (there := self._files.get(name)) is not None and there.entry is not None and there.entry.key == key:
                # An older one of the key makes room, unless it is the copy of a move that was broken off.
                if difference(there.entry, entry).keys() - {"archived_ms", "ref", "reason"}:
                    room = self._first_free(entry, numbered(key, there.entry.archived_ms or 0))
                    (self.place / name).replace(self.place / room)
                    self._files[room], self._moved[name] = self._files.pop(name), room
                return name
        return self._first_free(entry, chain(usual, numbered(key, 2)))

    def _first_free(self, entry: Entry, stems: Iterator[str]) -> str:
        there = set[str]()
        with suppress(FileNotFoundError, NotADirectoryError):
            there = set(map(as_seen_carelessly, os.listdir((self.place / name_of(entry, "")).parent)))
        return name_of(entry, next(stem for stem in stems if as_seen_carelessly(stem + ENDING) not in there))

    def _locked(self) -> FileLock:
        """Raises LockTimeout: another process held the folder for too long."""
        name = hashlib.sha256(os.path.realpath(self.place).encode(errors="surrogateescape")).hexdigest()[:32]
        folder, waited = self.locks / name, 0
        deadline = time.monotonic() + self.wait_seconds
        try:
            folders.make_folder(folder)
            while (lock := try_lock(folder / "lock")) is None:
                if time.monotonic() > deadline:
                    said = _("Another process holds {place} for too long; nothing was changed, try again.", self.place)
                    raise LockTimeout(said, self.place)
                time.sleep(_PAUSE_SECONDS)
                waited = 1
        except OSError as error:
            raise StorageUnwritable(
                _("{place} cannot be written: {advice_on}.", folder, folders.advice_on(error)), folder
            ) from error
        self.meter.count("layers", "waits", waited)
        return lock
