"""An `EntryFolder`: a Markdown file for each entry, as people edit, diff and commit them (seed 003).

The files are the truth. Before each call the folder is looked at, and what changed goes into an index in memory. A file
is written beside its place and renamed; the lock is outside of the folder, so that `git status` shows entries only.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import re
import stat
import time
import unicodedata
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, tzinfo
from pathlib import Path
from typing import Any, TypeVar

from memory_server.core.errors import InvalidInput, LockTimeout, StorageError, StorageUnwritable
from memory_server.core.findings import Finding
from memory_server.core.meter import Meter
from memory_server.core.times import local, milliseconds
from memory_server.knowledge.entry import (
    Change,
    Entry,
    Figures,
    Filter,
    Hits,
    Operation,
    Order,
    Purge,
    Query,
    Scope,
    difference,
)
from memory_server.knowledge.ports import Committed, Decide, Held
from memory_server.storage.entries import front_matter
from memory_server.storage.entries.sqlite_store import SqliteStore
from memory_server.storage.partition import folders
from memory_server.storage.partition.folder_names import as_seen_carelessly, hashed_name, is_reserved
from memory_server.storage.partition.locking import FileLock, try_lock

T = TypeVar("T")
ARCHIVE, ENDING = "archive/", ".md"
MAX_FILE_BYTES = 1024 * 1024
"""Bytes of a file that is read: an entry has 100,000 characters at most."""
_PLAIN = re.compile(r"\w[\w.-]*")
_NAME_BYTES = 80
_SETTLED_NS = 2_000_000_000
"""A file that is younger is read again: a second change may have the same time and size."""
_LEFT_SECONDS = 60
"""A file beside an entry that is older was left by a process that was killed."""


_PAUSE_SECONDS = 0.005
"""Before a waiter tries again: a write takes about a millisecond."""


@dataclass(frozen=True, slots=True)
class _File:
    """A file as it was read. `entry` None: it is not an entry, or with a `trouble` cannot be read."""

    seen: tuple[int, int, int]
    settled: bool
    entry: Entry | None = None
    trouble: str | None = None


class MarkdownFolder:
    """The entries in `folder`, all of them in `scope`. `zone`: of times in files that name none. `locks`: a folder of
    this user for locks."""

    def __init__(
        self,
        folder: Path,
        clock: Callable[[], int],
        *,
        locks: Path,
        scope: Scope = Scope("layers"),  # noqa: B008 - a value
        zone: tzinfo | None = None,
        wait_seconds: float = 10.0,
        read_only: bool = False,
        meter: Meter | None = None,
    ) -> None:
        self.place = folder
        self._locks = locks
        self._scope = scope
        self._zone = zone
        self._wait_seconds = wait_seconds
        self._read_only = read_only
        self._meter = meter or Meter()
        self._index = SqliteStore(None, clock, mirror=True)
        self._files: dict[str, _File] = {}
        self._ids: dict[str, int] = {}
        self._looking, self._writing = asyncio.Lock(), asyncio.Lock()
        self._works: set[asyncio.Task[Any]] = set()

    async def commit(self, scope: Scope, decide: Decide[T], operation: Operation) -> Committed[T]:
        """As in `ports.Entries`. All changes are checked before the first file is written; a disk that then fails may
        have some of them, each file whole."""
        if self._read_only:
            raise StorageUnwritable("Nothing can be changed, because `read_only` is set.", self.place)
        return await self._to_the_end(self._commit(scope, decide, operation))

    async def get(self, scope: Scope, *, id: int | None = None, ref: str | None = None) -> Entry | None:
        await self._look()
        return await self._index.get(scope, id=id, ref=ref)

    async def search(self, scope: Scope, query: Query) -> Hits:
        await self._look()
        return await self._index.search(scope, query)

    async def page(
        self, scope: Scope, where: Filter, *, order: Order = "newest", limit: int | None = None, offset: int = 0
    ) -> tuple[list[Entry], int]:
        await self._look()
        return await self._index.page(scope, where, order=order, limit=limit, offset=offset)

    async def figures(self, scope: Scope) -> Figures:
        await self._look()
        return await self._index.figures(scope)

    async def unreadable(self) -> Mapping[str, str]:
        await self._look()
        return {name: file.trouble for name, file in sorted(self._files.items()) if file.trouble}

    async def examine(self) -> list[Finding]:
        try:
            troubles = await self.unreadable()
        except StorageError as error:
            return [Finding("error", "layers", str(error))]
        found = [Finding("warning", "layers", f"{self.place / name}: {said}.") for name, said in troubles.items()]
        for name, file in sorted(self._files.items()):
            if file.entry is not None and name not in self._ids:
                said = f"{self.place / name} has the key of a newer file, which counts; rename or delete one of them."
                found.append(Finding("warning", "layers", said))
        return found or ([Finding("ok", "layers", f"{len(self._ids):,} entries in {self.place}")] if self._ids else [])

    async def aclose(self) -> None:
        await asyncio.gather(*self._works, return_exceptions=True)
        await self._index.aclose()

    async def _to_the_end(self, work: Coroutine[Any, Any, T]) -> T:
        """`work`, also where the caller gives up: it leaves no lock, and no half of a change or a look."""
        task = asyncio.create_task(work)
        self._works.add(task)
        task.add_done_callback(self._works.discard)
        return await asyncio.shield(task)

    async def _commit(self, scope: Scope, decide: Decide[T], operation: Operation) -> Committed[T]:
        if scope != self._scope:
            raise StorageError(f"{self.place} holds entries of {self._scope.space} only.", self.place)
        async with self._writing:
            lock = await asyncio.to_thread(self._locked)
            try:
                async with self._looking:
                    return await self._decide_and_write(decide, operation)
            finally:
                await asyncio.to_thread(lock.release)

    async def _decide_and_write(self, decide: Decide[T], operation: Operation) -> Committed[T]:
        await self._refresh()

        def plan(held: Held) -> tuple[Sequence[Change], tuple[T, list[tuple[Change, Entry | None]]]]:
            changes, result = decide(held)
            checked = _checked(held, changes)
            self._refuse_unreadable(checked)
            return [], (result, checked)

        result, changes = (await self._index.commit(self._scope, plan, operation)).result
        names: list[str | None] = []
        try:
            for change, before in changes:
                names.append(await asyncio.to_thread(self._write, change, before))
        except OSError as error:
            raise StorageUnwritable(
                f"{self.place} cannot be written: {folders.advice_on(error)}.", self.place
            ) from error
        finally:
            await self._refresh()
        stored = [await self._index.get(self._scope, ref=name) for name in names if name is not None]
        self._meter.count("layers", "commits", int(bool(changes)))
        return Committed(result, tuple(filter(None, stored)), None)

    async def _look(self) -> None:
        async def look() -> None:
            async with self._looking:
                await self._refresh()

        await self._to_the_end(look())

    async def _refresh(self) -> None:
        """Bring the index to what the folder holds."""
        try:
            gone, changed = await asyncio.to_thread(self._changes)
        except OSError as error:
            raise StorageError(f"{self.place} cannot be read: {folders.advice_on(error)}.", self.place) from error
        if not gone and not changed:
            return
        purged = [Purge(self._ids.pop(name)) for name in gone]
        # What leaves frees its key first, and what was renamed first its name.
        order = {name: place for place, name in enumerate(self._ids)}
        changed.sort(key=lambda each: (each.archived_ms is None, order.get(each.ref, len(order))))
        puts = [replace(each, id=self._ids.get(each.ref, 0)) for each in changed]
        try:
            done = await self._index.commit(self._scope, lambda _: ([*purged, *puts], None), Operation("look"))
        except BaseException:
            self._files = {}  # so that all is read again
            raise
        self._ids |= {each.ref: each.id for each in done.entries}

    def _changes(self) -> tuple[list[str], list[Entry]]:
        """Names whose entries leave the index, and entries as they should be there."""
        listed, now_ns = self._listed(), time.time_ns()
        before, after = self._files, dict[str, _File]()
        for name, found in listed.items():
            seen = (found.st_size, found.st_mtime_ns, found.st_ino)
            known = before.get(name)
            if known is not None and known.settled and known.seen == seen:
                after[name] = known
            elif (file := self._read(name, found, seen, now_ns)) is not None:
                after[name] = file
        self._files = after
        counting = self._counting()
        keys = {name: file.entry.key for name, file in before.items() if file.entry is not None}
        gone = [name for name in self._ids if name not in counting or keys.get(name) != counting[name].key]
        stay = set(self._ids).difference(gone)
        return gone, [
            entry
            for name, entry in counting.items()
            if name not in stay or (former := before.get(name)) is None or former.entry != entry
        ]

    def _counting(self) -> dict[str, Entry]:
        """The entries by file; of two live files of one key the newer one counts."""
        newest: dict[str | None, Entry] = {}
        for name, file in sorted(self._files.items()):
            if file.entry is not None and not name.startswith(ARCHIVE):
                there = newest.get(file.entry.key)
                if there is None or there.updated_ms < file.entry.updated_ms:
                    newest[file.entry.key] = file.entry
        archived = (file.entry for name, file in self._files.items() if name.startswith(ARCHIVE))
        return {entry.ref: entry for entry in (*newest.values(), *filter(None, archived))}

    def _listed(self) -> dict[str, os.stat_result]:
        listed = {}
        for prefix in ("", ARCHIVE):
            with suppress(FileNotFoundError, NotADirectoryError), os.scandir(self.place / prefix) as entries:
                for each in entries:
                    if each.name.endswith(ENDING) and not each.name.startswith("."):
                        with suppress(FileNotFoundError):
                            found = each.stat()
                            if stat.S_ISREG(found.st_mode):
                                listed[prefix + each.name] = found
        return listed

    def _read(self, name: str, found: os.stat_result, seen: tuple[int, int, int], now_ns: int) -> _File | None:
        settled = now_ns - found.st_mtime_ns > _SETTLED_NS
        if found.st_size > MAX_FILE_BYTES:
            return _File(seen, settled, None, f"it has more than {MAX_FILE_BYTES:,} bytes")
        try:
            page = front_matter.read(folders.read_file(self.place / name))
        except FileNotFoundError:
            return None
        except (front_matter.Unreadable, OSError) as error:
            return _File(seen, settled, None, str(error))
        return _File(seen, settled, None if page is None else self._entry(name, page, found.st_mtime_ns // 1_000_000))

    def _entry(self, name: str, page: front_matter.Page, changed_ms: int) -> Entry:
        given, tags = page.fields, page.fields.get("tags")
        written = given.get("key")
        stem = name.removeprefix(ARCHIVE).removesuffix(ENDING)
        key = unicodedata.normalize("NFC", written.strip() if isinstance(written, str) and written.strip() else stem)
        listed = tags if isinstance(tags, list) else tags.split(",") if isinstance(tags, str) else []
        metadata = given.get("metadata")
        created_ms = self._moment_ms(given.get("created_at"))
        updated_ms = self._moment_ms(given.get("updated_at")) or created_ms or changed_ms
        archived = name.startswith(ARCHIVE)
        return Entry(
            page.body,
            ref=name,
            key=key,
            title=key,
            tags=tuple(dict.fromkeys(tag for each in listed if isinstance(each, str) and (tag := each.strip()))),
            metadata=metadata if isinstance(metadata, dict) else {},
            created_ms=created_ms or updated_ms,
            updated_ms=updated_ms,
            archived_ms=(self._moment_ms(given.get("archived_at")) or changed_ms) if archived else None,
        )

    def _moment_ms(self, text: Any) -> int | None:
        try:
            moment = datetime.fromisoformat(text)
            aware = (
                moment if moment.tzinfo else moment.replace(tzinfo=self._zone) if self._zone else moment.astimezone()
            )
            return milliseconds(aware)
        except (TypeError, ValueError, OverflowError, OSError):
            return None

    def _moment(self, time_ms: int | None) -> str | None:
        if time_ms is None:
            return None
        moment = local(time_ms, self._zone).replace(tzinfo=None)
        return moment.isoformat(timespec="milliseconds" if time_ms % 1000 else "seconds")

    def _write(self, change: Change, before: Entry | None) -> str | None:
        """Write the file of a change; its name, None where it was removed."""
        if before is not None and not isinstance(change, Purge) and not difference(before, change):
            return before.ref
        old = None if before is None else self.place / before.ref
        if isinstance(change, Purge):
            assert old is not None
            folders.remove_file(old)
            folders.sync_folder(old.parent)
            return None
        moves = (
            before is None or before.key != change.key or (before.archived_ms is None) != (change.archived_ms is None)
        )
        name = self._free_name(change) if before is None or moves else before.ref
        path = self.place / name
        former = None if old is None else front_matter.read(folders.read_file(old))
        fields: dict[str, Any] = {
            "key": change.key,
            "tags": list(change.tags),
            "created_at": self._moment(change.created_ms),
            "updated_at": self._moment(change.updated_ms),
            "archived_at": self._moment(change.archived_ms),
        }
        if before is None and change.metadata:
            fields["metadata"] = dict(change.metadata)
        if before is not None and former is not None:
            # Times in other forms, such as with a zone, stay as they are written.
            for field, was, now in (
                ("created_at", before.created_ms, change.created_ms),
                ("updated_at", before.updated_ms, change.updated_ms),
            ):
                if was == now and field in former.fields:
                    fields[field] = former.fields[field]
        data = front_matter.write(change.body.replace("\r\n", "\n").strip("\n"), fields, former)
        folders.make_folder(path.parent)
        self._remove_leftovers(path.parent)
        aside = folders.write_aside(path, data)
        if old is not None:
            with suppress(OSError):
                aside.chmod(stat.S_IMODE(old.stat().st_mode))
        folders.take_name(aside, path)
        folders.sync_folder(path.parent)
        if before is not None and old is not None and old != path:
            # The copy is there: a crash now leaves both, and the live one counts.
            folders.remove_file(old)
            folders.sync_folder(old.parent)
            self._renamed(before.ref, name)
        return name

    def _renamed(self, old: str, new: str) -> None:
        """The entry keeps its number under its new name."""
        if new not in self._ids and old in self._ids:
            self._ids[new], self._files[new] = self._ids.pop(old), self._files.pop(old)

    def _refuse_unreadable(self, changes: Sequence[tuple[Change, Entry | None]]) -> None:
        for change, before in changes:
            if isinstance(change, Purge) or (before is not None and before.archived_ms == change.archived_ms):
                continue
            prefix = ARCHIVE if change.archived_ms is not None else ""
            for name in (f"{prefix}{change.key}{ENDING}", f"{prefix}{hashed_name(change.key or '')}{ENDING}"):
                if (file := self._files.get(name)) is not None and file.trouble is not None:
                    raise InvalidInput(
                        f"{self.place / name} cannot be read, because {file.trouble}; mend it or move it away. "
                        "Nothing was changed."
                    )

    def _free_name(self, entry: Entry) -> str:
        """A name that no other file has, on any file system."""
        key, prefix = entry.key or "", ARCHIVE if entry.archived_ms is not None else ""
        hashed = prefix + hashed_name(key) + ENDING
        plain = prefix + key + ENDING
        if prefix and (there := self._files.get(plain)) is not None and there.entry is not None:
            # An older one of the key makes room, unless it is the copy of a move that was broken off.
            if there.entry.key == key and difference(there.entry, entry).keys() - {"archived_ms", "ref", "reason"}:
                aside = prefix + hashed_name(f"{key} {there.entry.archived_ms}") + ENDING
                (self.place / plain).replace(self.place / aside)
                self._renamed(plain, aside)
                return plain
            return plain if there.entry.key == key else hashed
        with suppress(FileNotFoundError, NotADirectoryError):
            taken = {as_seen_carelessly(name) for name in os.listdir(self.place / prefix)}
            if as_seen_carelessly(key + ENDING) in taken or not _is_plain(key):
                return hashed
        return plain if _is_plain(key) else hashed

    def _locked(self) -> FileLock:
        """Raises LockTimeout: another process held the folder for too long."""
        name = hashlib.sha256(os.path.realpath(self.place).encode(errors="surrogateescape")).hexdigest()[:32]
        folder, waited = self._locks / name, 0
        deadline = time.monotonic() + self._wait_seconds
        try:
            folders.make_folder(folder)
            while (lock := try_lock(folder / "lock")) is None:
                if time.monotonic() > deadline:
                    raise LockTimeout(
                        f"Another process holds {self.place} for too long; nothing was changed, try again.", self.place
                    )
                time.sleep(_PAUSE_SECONDS)
                waited = 1
        except OSError as error:
            raise StorageUnwritable(f"{folder} cannot be written: {folders.advice_on(error)}.", folder) from error
        self._meter.count("layers", "waits", waited)
        return lock

    def _remove_leftovers(self, folder: Path) -> None:
        """What a killed process left beside an entry; under the lock nobody else writes."""
        for path in folder.glob(f"*{ENDING}.next"):
            with suppress(OSError):
                if time.time() - path.stat().st_mtime > _LEFT_SECONDS:
                    folders.remove_file(path)


def _is_plain(key: str) -> bool:
    """Whether a key can be a file name everywhere."""
    fits = len(key.encode(errors="surrogateescape")) <= _NAME_BYTES
    return _PLAIN.fullmatch(key) is not None and fits and not is_reserved(key) and not key.endswith(".")


def _checked(held: Held, changes: Sequence[Change]) -> list[tuple[Change, Entry | None]]:
    """The changes, each with its entry as it is. Raises InvalidInput: an entry does not exist any more, or two live
    entries would have one key."""
    checked: list[tuple[Change, Entry | None]] = []
    free: set[str | None] = set()
    taken: set[str | None] = set()
    for change in changes:
        before = held.get(id=change.id, archived=None) if change.id else None
        if change.id and before is None:
            if isinstance(change, Purge):
                continue
            raise InvalidInput("An entry of that number does not exist any more; read it again.")
        leaves = isinstance(change, Purge) or change.archived_ms is not None
        if before is not None and before.archived_ms is None and (leaves or before.key != getattr(change, "key", None)):
            free.add(before.key)
        if not isinstance(change, Purge) and not leaves:
            other = held.keyed("", "", change.key or "")
            if change.key in taken or (other is not None and other.id != change.id and other.key not in free):
                raise InvalidInput("Another entry has that name now; rename or delete it first. Nothing was changed.")
            taken.add(change.key)
        checked.append((change, before))
    return checked
