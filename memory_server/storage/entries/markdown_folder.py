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
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import KW_ONLY, field
from datetime import tzinfo
from functools import cached_property
from itertools import chain, count
from pathlib import Path
from typing import Any

from languages import Sentence, _, counted, n_
from memory_server.kernel import files as folders
from memory_server.kernel.errors import InvalidInput, StorageError, StorageUnwritable
from memory_server.kernel.files import (
    FileLock,
    as_seen_carelessly,
    foreign,
    hashed_name,
    is_link,
    is_reserved,
    owners_in,
    refuse_foreign,
    try_lock,
)
from memory_server.kernel.items import Scope
from memory_server.kernel.json_text import without_surrogates
from memory_server.kernel.meter import Meter
from memory_server.kernel.text import Finding, visible
from memory_server.kernel.values import dataclass, frozen
from memory_server.knowledge import front_matter
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
from memory_server.knowledge.notes.pages import MARK
from memory_server.knowledge.ports import Committed, Decide, ScopeView, T
from memory_server.storage.entries import schema
from memory_server.storage.entries.rows import ScopeRows
from memory_server.storage.entries.schema import Connection
from memory_server.storage.entries.sqlite_store import run_in_thread
from memory_server.storage.entries.store import read_only_refusal

# --- a file ------------------------------------------------------------------------------------------------------

# One file of a Markdown folder: its name, why it is not read, and what was read of it.

ARCHIVE = "archive/"
ENDING = ".md"
MAX_FILE_BYTES = 1024 * 1024
"""The most bytes of a file that is read: an entry has 100,000 characters at most."""


_PLAIN = re.compile(r"\w[\w.-]*")
_NAME_BYTES = 80
_TIMES = {"created_at": "created_ms", "updated_at": "updated_ms", "archived_at": "archived_ms"}


@frozen
class EntryFile:
    """A file as it was read. `entry` None: it is not an entry, or with a `trouble` cannot be read."""

    seen: tuple[int, int, int]
    settled: bool
    entry: Entry | None = None
    trouble: Sentence | None = None


def unusable(facts: os.stat_result, owners: Collection[int] | None) -> Sentence | None:
    """Say why a file is not read. Return None if it is."""
    reason = foreign(facts, owners)
    if reason is not None:
        return Sentence("it {reason}", reason)
    if facts.st_size > MAX_FILE_BYTES:
        return Sentence("it has more than {file:,} bytes", MAX_FILE_BYTES)
    return None


def numbered(key: str, first: int) -> Iterator[str]:
    """Yield names for further files of a key, from this number on."""
    return (hashed_name(f"{key} {number}") for number in count(first))


def name_of(entry: Entry, stem: str) -> str:
    """Return the name of the file of an entry, live or archived."""
    if entry.archived_ms is None:
        return f"{stem}{ENDING}"
    return f"{ARCHIVE}{stem}{ENDING}"


@frozen
class ListedFile:
    """A file or link of a folder, by its name in the folder of the entries."""

    name: str
    facts: os.stat_result


def listed_files(folder: Path, prefix: str) -> list[ListedFile]:
    """List the files and links of a folder that may be entries, changed last first."""
    files = []
    with suppress(FileNotFoundError, NotADirectoryError), os.scandir(folder / prefix) as directory:
        for item in directory:
            if not item.name.endswith(ENDING) or item.name.startswith("."):
                continue
            with suppress(FileNotFoundError):
                facts = item.stat(follow_symlinks=False)
                if stat.S_ISREG(facts.st_mode) or is_link(facts):
                    files.append(ListedFile(prefix + item.name, facts))
    return sorted(files, key=lambda file: (-file.facts.st_mtime_ns, file.name))


@frozen
class FileContent:
    """The entry of a file (None: it has none), and why it cannot be read."""

    entry: Entry | None
    trouble: Sentence | None = None


def read_entry(folder: Path, file: ListedFile, zone: tzinfo | None) -> FileContent:
    """Return the entry of a file, without one if the file has no front matter, or the reason why it
    cannot be read. Raises FileNotFoundError if it was removed."""
    if file.name != without_surrogates(file.name):
        return FileContent(None, Sentence("its name is not UTF-8; rename it"))

    try:
        page = front_matter.read(folders.read_file(folder / file.name, links=False))
    except FileNotFoundError:
        raise
    except front_matter.Unreadable as error:
        return FileContent(None, error.sentence)
    except OSError as error:
        return FileContent(None, Sentence(str(error)))

    if page is None:
        return FileContent(None)

    wrong = next(
        (name for name, is_right in _FORMS.items() if not is_right(page.fields.get(name))), ""
    )
    if wrong:
        return FileContent(None, Sentence("its `{name}` is of the wrong kind", wrong))

    return FileContent(_entry_of(file, page, zone))


def _is_text(value: Any) -> bool:
    return value is None or isinstance(value, str)


def _are_tags(value: Any) -> bool:
    """Tell whether a value is a text, or a list of texts."""
    return all(map(_is_text, value)) if isinstance(value, list) else _is_text(value)


def _is_metadata(value: Any) -> bool:
    """Tell whether a value is an object, or nothing."""
    return isinstance(value, dict) or value in (None, "", "null", "~")


_FORMS: dict[str, Callable[[Any], bool]] = {
    "key": _is_text,
    "tags": _are_tags,
    "metadata": _is_metadata,
}
"""What the fields of a file must be, that an entry takes."""


def _entry_of(file: ListedFile, page: front_matter.Page, zone: tzinfo | None) -> Entry:
    """Return the entry of a file that was read; it is archived if the file is in the archive. A
    missing or wrong time is taken from the other one, or else is the time at which the file was
    changed."""
    # A file that a person wrote need not have times: the file system has one.
    changed_ms = file.facts.st_mtime_ns // 1_000_000
    created_ms = front_matter.moment_ms(page.fields.get("created_at"), zone)
    updated_ms = (
        front_matter.moment_ms(page.fields.get("updated_at"), zone) or created_ms or changed_ms
    )
    archived_ms = None
    if file.name.startswith(ARCHIVE):
        archived_ms = front_matter.moment_ms(page.fields.get("archived_at"), zone) or changed_ms

    metadata = page.fields.get("metadata")
    key = _key_of(file.name, page.fields.get("key"))
    return Entry(
        page.body,
        ref=file.name,
        key=key,
        title=key,
        tags=_tags_of(page.fields.get("tags")),
        metadata=metadata if isinstance(metadata, dict) else {},
        created_ms=created_ms or updated_ms,
        updated_ms=updated_ms,
        archived_ms=archived_ms,
    )


def _key_of(name: str, written_key: Any) -> str:
    """Return the key in a file, or else the name of the file."""
    key = ""
    if isinstance(written_key, str):
        key = written_key.strip()
    stem = name.removeprefix(ARCHIVE).removesuffix(ENDING)
    return unicodedata.normalize("NFC", key or stem)


def _tags_of(written_tags: Any) -> tuple[str, ...]:
    """Return the tags, each once, of a list or of a text with commas; none of anything else."""
    tags = written_tags
    if isinstance(tags, str):
        tags = tags.split(",")
    if not isinstance(tags, list):
        return ()
    stripped = [tag.strip() for tag in tags if isinstance(tag, str)]
    return tuple(dict.fromkeys(filter(None, stripped)))


def entries_that_count(files: Mapping[str, EntryFile]) -> dict[str, Entry]:
    """Return the entries by file. Of two live files with the same key the newer file counts."""
    entries = {name: file.entry for name, file in sorted(files.items()) if file.entry is not None}
    newest: dict[str | None, Entry] = {}
    for entry in entries.values():
        if entry.archived_ms is None:
            newest_before = newest.setdefault(entry.key, entry)
            if newest_before.updated_ms < entry.updated_ms:
                newest[entry.key] = entry

    def counts(entry: Entry) -> bool:
        return entry.archived_ms is not None or newest[entry.key] is entry

    return {name: entry for name, entry in entries.items() if counts(entry)}


def content_of(
    path: Path, entry: Entry, before: Entry | None, former_data: bytes | None, zone: tzinfo | None
) -> bytes:
    """Return the content of a new file, or of a file that changes, whose lines of fields that stay are kept as they
    are. Raises InvalidInput if it could not be read again, unless an entry goes into the archive: then the content
    stays."""
    former = None
    if former_data is not None:
        former = front_matter.read(former_data)
    fields: dict[str, Any] = {"key": entry.key, "tags": list(entry.tags)}
    for name, attribute in _TIMES.items():
        time_ms = getattr(entry, attribute)
        # A time that stays may be written in another form, such as with a zone: so its line stays.
        if former is None or name not in former.fields or getattr(before, attribute) != time_ms:
            fields[name] = front_matter.moment(time_ms, zone)
    if former is None and entry.metadata:
        fields["metadata"] = dict(entry.metadata)
    body = entry.body.replace("\r\n", "\n").strip("\n")
    try:
        return front_matter.write(body, fields, former)
    except front_matter.Unreadable as error:
        if former_data is None or entry.archived_ms is None:
            raise InvalidInput(
                "{path} was not written, because {reason}; give a plainer key, or leave some tags out.",
                path,
                error,
            ) from error
        # Only the time of the move does not fit, and the time of the file says it too: it must make room for others.
        return former_data


def is_plain(key: str) -> bool:
    """Tell whether a key can be the name of a file as it is."""
    if len(key.encode(errors="surrogateescape")) > _NAME_BYTES or key.endswith("."):
        return False
    return _PLAIN.fullmatch(key) is not None and not is_reserved(key)


# --- the folder --------------------------------------------------------------------------------------------------

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

        # By the name of the file below `place`: all that were read, and the entries of those that count.
        self._files: dict[str, EntryFile] = {}
        self._indexed: dict[str, Entry] = {}

        # The new names of files that the present commit moved, by their former names.
        self._moved: dict[str, str] = {}

        # Held while the files and the index are looked at or changed: both threads use them.
        self._alone = threading.Lock()
        self._closed = False
        self._looks = ThreadPoolExecutor(1, "layers-look")
        self._writes = ThreadPoolExecutor(1, "layers-write")

    @cached_property
    def _index(self) -> Connection:
        return schema.in_memory()

    async def commit(self, scope: Scope, decide: Decide[T], operation: Operation) -> Committed[T]:
        """Decide and write under the lock of the folder, as `ports.Entries` says. Raises
        StorageUnwritable if the folder is read-only, and as `_decide_and_write` does: if a disk
        fails after the check, some of the files may be written, each of them whole."""
        if self.read_only:
            raise read_only_refusal(self.place)

        def work() -> Committed[T]:
            lock = self._take_lock()
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
        """Return why each unreadable file of the folder, or of its archive, is left alone, by its
        name. At most `_MOST_NAMED` files are named; the last item counts the others. Raises
        StorageError if the folder cannot be read."""

        def read(_view: ScopeView) -> dict[str, str]:
            """Return the reasons by file name; the files beyond `_MOST_NAMED` are counted
            together."""
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
        """Return a warning for each file that does not count; without any, the number of entries,
        or nothing if none exist. If the folder cannot be read, return that as an error."""
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
        """Read the folder again, decide, and write the files of the changes. Raises InvalidInput if
        a change is not possible, before a file is written; StorageUnwritable if a file cannot be
        written, when some of the others may have been."""
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
        """Write or remove the file of a change. Return the name of the file that was written, or None."""
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
        """Bring the index to what the folder holds, and return it. Raises StorageError if the
        folder cannot be read."""
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
        """Return a file as it is now: the former one if its size, time and number are the same and
        it is not new, else read again. With `trouble` it is not read. Raises FileNotFoundError if
        it was removed."""
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
        """Write the file of an entry if it differs from `before`, and return its name, which
        changes with the key. Raises OSError, InvalidInput if the file could not be read again."""
        if before is None:
            name = self._free_name(entry)
            path = self.place / name
            self._replace_file(path, content_of(path, entry, None, None, self.zone), None)
            return name

        if not difference(before, entry):
            return before.ref

        name = before.ref
        if name_of(before, before.key or "") != name_of(entry, entry.key or ""):
            name = self._free_name(entry)

        path = self.place / name
        former_path = self._path(before)
        former_data = folders.read_file(former_path, links=False)
        data = content_of(path, entry, before, former_data, self.zone)
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
        """Return a name that no other file has, on any file system: the key if it is plain, else
        its hash, with a number if need be. An archived entry takes the place of the archived one of
        its key."""
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
        """Return the name for the file of an entry, with the first of the stems that no other file there has, whatever
        the case of its letters."""
        taken: set[str] = set()
        folder = (self.place / name_of(entry, "")).parent
        with suppress(FileNotFoundError, NotADirectoryError):
            taken = set(map(as_seen_carelessly, os.listdir(folder)))
        stem = next(stem for stem in stems if as_seen_carelessly(stem + ENDING) not in taken)
        return name_of(entry, stem)

    def _take_lock(self) -> FileLock:
        """Take the lock. Raises LockTimeout: another process held the folder for too long."""
        # The lock is not in the folder itself, which may be a part of a repository.
        place_bytes = os.path.realpath(self.place).encode(errors="surrogateescape")
        folder = self.locks / hashlib.sha256(place_bytes).hexdigest()[:32]
        path = folder / "lock"
        with folders.unwritable(folder):
            folders.make_folder(folder)
            lock = try_lock(path)
            self.meter.count("layers", "waits", int(lock is None))
            return lock or folders.lock_within(path, self.wait_seconds, self.place)


# --- pages -------------------------------------------------------------------------------------------------------

# Pages of notes as files in a folder of the user.


def pages_in(*folders_of_pages: Path) -> list[Path]:
    """List the files in these folders that `write_pages` made; a folder may be missing."""
    paths: list[Path] = []
    for folder in dict.fromkeys(folders_of_pages):
        for path in sorted(folder.glob("*.md")):
            with suppress(OSError):
                if folders.read_file(path, links=False).startswith(MARK.encode()):
                    paths.append(path)
    return paths


def write_pages(folder: Path, pages: Mapping[str, str], *, force: bool = False) -> list[Path]:
    """Write each page as `NAME.md`. Return the files. A file that is as it should be is not touched, so that git
    stays quiet.

    Raises:
        InvalidInput: a file was made by a person, and `force` is not given; no page was written.
        StorageUnwritable: a page cannot be written, or the folder is in a project, which a link leads out of.
    """
    folder = folder.expanduser().absolute()
    files = {folder / f"{name}.md": text.encode() for name, text in pages.items()}
    try:
        for project in folder.parents:
            if os.path.lexists(
                project / ".git"
            ):  # also of another user, who may have made a link for us
                refuse_foreign(project, folder)

        # All files are read before the first is written, so a refusal changes nothing.
        present = {
            path: folders.read_file(path, links=False) for path in files if os.path.lexists(path)
        }
        own_paths = [path for path, data in present.items() if _is_own(data)]
        if own_paths and not force:
            raise InvalidInput(
                "{own} was not made by `knowledge document`; move it away, choose another --output, or add "
                "--force. No page was written.",
                own_paths[0],
            )

        for path, data in files.items():
            if present.get(path) != data:
                folders.make_folder(folder)
                folders.replace_file(path, data)
    except OSError as error:
        raise StorageUnwritable(
            Sentence(
                "The pages in {folder} cannot be written: {advice_on}.",
                folder,
                folders.advice_on(error),
            ),
            folder,
        ) from error

    return list(files)


def _is_own(data: bytes) -> bool:
    """Tell whether a file was made by a person, and is not empty."""
    return bool(data.strip()) and not data.startswith(MARK.encode())
