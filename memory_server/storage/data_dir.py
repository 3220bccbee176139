"""A home of memories, named by a URL: the conversations, the backups and the notes that are kept there.

Only `storage/` knows that it is a folder of this machine. Another kind of home would begin here. The notes are about
the whole folder, in `{data_dir}/.memory-server/`: whether it is paused, when upkeep last ran, and which events a hook
has just answered. All processes see them at their next call.
"""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Callable, Collection, Iterator, Mapping
from datetime import tzinfo
from errno import ENOSPC
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO
from urllib.parse import urlsplit
from urllib.request import url2pathname

import portalocker

from memory_server.kernel import files as folders
from memory_server.kernel import times
from memory_server.kernel.errors import InvalidInput, StorageUnwritable
from memory_server.kernel.messages import Session
from memory_server.kernel.meter import Meter
from memory_server.kernel.private import Pause
from memory_server.kernel.text import Finding
from memory_server.storage.json_store import codec
from memory_server.storage.json_store.store import JsonFileStore, StoreParameters
from memory_server.storage.token_file import named
from sandbox.locale import _

if TYPE_CHECKING:
    from memory_server.knowledge.ports import EntryFolder, EntryStore
    from memory_server.storage.backups.files import BackupFolder
    from memory_server.storage.json_store.examination import Plan

__all__ = ["Home", "StoreParameters", "open_home"]

log = logging.getLogger(__name__)

LEAST_FREE_BYTES = 1_000_000
"""Below this a disk counts as full: a write of one call, with the files that SQLite needs for it, would not fit."""


def open_home(
    url: str | Path, clock: Callable[[], int], parameters: StoreParameters | None = None, meter: Meter | None = None
) -> Home:
    """The home at `url`: `file:///…`, or the path of a folder, which need not exist yet. Touches no disk. Raises
    InvalidInput if memories cannot be kept at such a URL."""
    parts = urlsplit(str(url))
    if parts.scheme == "file":
        url = url2pathname(parts.path)
    elif len(parts.scheme) > 1 and f"{parts.scheme}:/" in str(url):
        raise InvalidInput(
            "Memories cannot be kept at `{url}`; give a folder, or a URL that begins with file:///.", url
        )
    return Home(Path(url).expanduser().absolute(), clock, parameters, meter)


def tokens_at(place: Path) -> Path:
    """Where the tokens of a home are, if no other file is set."""
    return place.expanduser().absolute() / folders.PRIVATE / "tokens.jsonl"


class Home:
    """What is kept in the folder `place`. Examinations and repairs are blocking calls; they and backups are imported
    when they are used, because short commands do not need them."""

    def __init__(
        self, place: Path, clock: Callable[[], int], parameters: StoreParameters | None, meter: Meter | None
    ) -> None:
        self.place = place
        self._clock = clock
        self._parameters = parameters or StoreParameters()
        self._meter = meter or Meter()
        self.conversations = JsonFileStore(place, clock, parameters, meter)
        self.ledger = FolderLedger(place)
        self.pause = PauseNote(place)
        self.answered = Answered(place)
        self.given = Given(place)

    @cached_property
    def backups(self) -> BackupFolder:
        from memory_server.storage.backups.files import BackupFolder

        return BackupFolder(self.place / folders.PRIVATE / "backups")

    def entries(self, *, durability: str, cache_mb: int, embeds: str = "") -> EntryStore:
        """Where knowledge is kept; `embeds` is the model of its vectors. Touches no disk."""
        from memory_server.storage.entries.sqlite_store import SqliteStore

        given = self._parameters
        return SqliteStore(
            self.place / folders.PRIVATE / "knowledge.sqlite3",
            self._clock,
            wait_seconds=given.wait_seconds,
            durability=durability,
            cache_mb=cache_mb,
            keep_ms=given.keep_ms,
            read_only=given.read_only,
            embeds=embeds,
            meter=self._meter,
        )

    def layer(self, folder: Path, zone: tzinfo | None, project: Path | None = None) -> EntryFolder:
        """Entries as Markdown files in `folder`, which is not part of the home, but may be in `project`. Touches no
        disk."""
        from platformdirs import user_cache_path

        from memory_server.storage.entries.markdown_folder import MarkdownFolder

        given = self._parameters
        return MarkdownFolder(
            folder,
            locks=user_cache_path("memory-server", appauthor=False) / "locks",
            project=project,
            zone=zone,
            wait_seconds=given.wait_seconds,
            read_only=given.read_only,
            meter=self._meter,
        )

    def passing_entries(self) -> EntryStore:
        """A place of entries that are forgotten when this process ends, and have no history."""
        from memory_server.storage.entries.sqlite_store import SqliteStore

        return SqliteStore(None, self._clock, mirror=True)

    def publish(self, folder: Path, pages: Mapping[str, str]) -> None:
        """Write pages for people into a folder of theirs."""
        from memory_server.storage.entries.pages import write_pages

        write_pages(folder, pages)

    def made(self) -> Path:
        """The folder, which is there after this."""
        folders.make_folder(self.place)
        return self.place

    def size(self) -> int:
        """Bytes of all its files. One that is removed meanwhile does not count."""
        count = 0
        for folder, _folders, names in os.walk(self.place):
            for name in names:
                with contextlib.suppress(OSError):
                    count += Path(folder, name).lstat().st_size
        return count

    def refuse_without_room(self) -> None:
        """Raises OSError: the folder cannot be made, or there is no room for a write."""
        import shutil

        if shutil.disk_usage(self.made()).free < LEAST_FREE_BYTES:
            raise OSError(ENOSPC, os.strerror(ENOSPC))

    @property
    def layers(self) -> Path:
        """The folder of layers that belong to this home alone."""
        return self.place / folders.PRIVATE / "layers"

    def tenant(self, name: str) -> Path:
        """The home of a tenant. Raises InvalidInput: a tenant cannot be called that."""
        return folders.find_folder(self._tenants, named(name, "tenant"))

    def tenants(self) -> list[Path]:
        return folders.subfolders(self._tenants)

    @property
    def _tenants(self) -> Path:
        return self.place / folders.PRIVATE / "tenants"

    def examine(self) -> list[Finding]:
        from memory_server.storage.json_store.examination import examine_folder

        now_ms = self._clock()
        return list(examine_folder(self.place, now_ms, self.pause.read(now_ms), self.ledger.last_run_ms()))

    def examinations(self) -> list[Callable[[], list[Finding]]]:
        """A call for each conversation, which gives the findings about it."""
        from memory_server.storage.json_store.examination import examine_conversation

        try:
            there = folders.subfolders(self.place)
        except PermissionError:
            return []  # `examine` reports it
        return [partial(examine_conversation, self.place, folder, self._clock()) for folder in there]

    def repairs(self, wanted: str | None = None, *, dry_run: bool = False) -> list[Callable[[], Plan | None]]:
        """A call for each conversation, which mends it, or with `dry_run` says what it would mend; None if nothing is
        broken, or if another conversation is `wanted`. A call raises `StorageError` if it mended nothing."""
        from memory_server.storage.json_store.examination import repair

        return [
            partial(repair, folder, self._clock(), wanted=wanted, dry_run=dry_run)
            for folder in folders.subfolders(self.place)
        ]


# --- notes about the whole folder ---------------------------------------------------------------------------

HOLDS_MS = 10_000
"""How long an event counts as answered: longer than a hook runs, shorter than people take to ask the same again."""


class PauseNote:
    def __init__(self, data_dir: Path) -> None:
        self._path = data_dir / folders.PRIVATE / "paused.json"

    def read(self, now_ms: int) -> Pause | None:
        """The pause at `now_ms`; None without a pause, or after its end. A note that cannot be read is a pause: a
        broken file must not end a pause that somebody asked for."""
        try:
            until = codec.loads(folders.read_file(self._path))["until"]
            until_ms = None if until is None else codec.milliseconds(until)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (OSError, ValueError, KeyError, TypeError):
            return Pause()
        return None if until_ms is not None and until_ms <= now_ms else Pause(until_ms)

    def write(self, pause: Pause) -> None:
        """Begin a pause, or replace one. Raises StorageUnwritable if that failed."""
        until = None if pause.until_ms is None else times.iso(pause.until_ms)
        try:
            folders.make_folder(self._path.parent)
            folders.replace_file(self._path, codec.dumps({"until": until}) + b"\n")
        except OSError as error:
            raise self._unwritable(error, _("the pause was not begun")) from error

    def remove(self) -> None:
        """End the pause. Raises StorageUnwritable if it goes on."""
        try:
            folders.remove_file(self._path)
            folders.sync_folder(self._path.parent)
        except (FileNotFoundError, NotADirectoryError):
            pass
        except OSError as error:
            raise self._unwritable(error, _("the pause goes on")) from error

    def _unwritable(self, error: OSError, so: str) -> StorageUnwritable:
        return StorageUnwritable(
            _("{path} cannot be written: {reason}; {so}.", self._path, error.strerror, so), self._path
        )


class FolderLedger:
    """When upkeep last ran, and the lock that lets one process run it."""

    def __init__(self, data_dir: Path) -> None:
        self._folder = data_dir / folders.PRIVATE
        self._note = self._folder / "upkeep.json"

    @contextlib.contextmanager
    def turn(self) -> Iterator[bool]:
        """Whether this process may run upkeep; True for only one process at a time."""
        try:
            folders.make_folder(self._folder)
            lock = folders.try_lock(self._folder / "upkeep.lock")
        except OSError:
            # A read-only data folder has no upkeep.
            lock = None
        try:
            yield lock is not None
        finally:
            if lock is not None:
                lock.release()

    def last_run_ms(self) -> int | None:
        """When upkeep last ended, in milliseconds since 1970; None: never."""
        try:
            return codec.milliseconds(codec.loads(folders.read_file(self._note))["lastRun"])
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def note_run(self, at_ms: int) -> None:
        try:
            folders.replace_file(self._note, codec.dumps({"lastRun": times.iso(at_ms)}) + b"\n")
        except OSError as error:
            # The clean-up is done; upkeep will only run again sooner.
            log.warning("upkeep could not be noted: %s", error)


class Answered:
    """Which events a hook has just answered, some hundred bytes. If the file is lost, an answer may come twice. If two
    hooks are installed, such as a plugin's and the user's own, both run for each event at the same time: the first one
    with an answer gives it."""

    def __init__(self, data_dir: Path) -> None:
        self._path = data_dir / folders.PRIVATE / "answered.json"

    def claim(self, event: str, now_ms: int) -> bool:
        """Whether `event` has not been answered yet; from now on it has."""
        try:
            with _locked(self._path) as file:
                lately = {name: at_ms for name, at_ms in _read(file.read()).items() if abs(now_ms - at_ms) < HOLDS_MS}
                file.truncate(0)
                file.write(codec.dumps({event: now_ms} | lately))
                return event not in lately
        except OSError:
            return True  # rather twice than not at all


MOST_SESSIONS, MOST_LINES = 16, 1_000
"""Sessions that are known, and lines of each: some 30 bytes a line."""


class Given:
    """Which lines hooks gave to the sessions, so that none comes twice into one context. If the file is lost, lines may
    come twice."""

    def __init__(self, data_dir: Path) -> None:
        self._path = data_dir / folders.PRIVATE / "given.json"

    def to(self, session: Session | None) -> set[str]:
        """The keys of the lines that `session` was given and still has in its context."""
        since_ms = -1 if session is None or session.context_since_ms is None else session.context_since_ms
        known = {} if session is None else self._known().get(session.id, {})
        return {key for key, at_ms in known.items() if at_ms >= since_ms}

    def note(self, session: Session | None, keys: Collection[str], now_ms: int, *, afresh: bool = False) -> None:
        """`session` was given these lines; `afresh`: nothing of before is in its context any more."""
        if session is None or not (keys or afresh):
            return
        try:
            with _locked(self._path) as file:
                known = _lines(file.read())
                before = known.pop(session.id, {})
                of_it = ({} if afresh else before) | dict.fromkeys(keys, now_ms)
                known[session.id] = dict(list(of_it.items())[-MOST_LINES:])
                file.truncate(0)
                file.write(codec.dumps(dict(list(known.items())[-MOST_SESSIONS:])))
        except OSError:
            return  # rather twice than not at all

    def _known(self) -> dict[str, dict[str, int]]:
        try:
            return _lines(folders.read_file(self._path))
        except OSError:
            return {}


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[BinaryIO]:
    """The private file at `path` from its beginning, for this process alone. It is not synced: a user waits."""
    folders.make_folder(path.parent)
    with folders.open_file(path, "a+b") as file:
        # Closing the file gives the lock back.
        portalocker.lock(file.fileno(), portalocker.LockFlags.EXCLUSIVE)
        file.seek(0)
        yield file


def _lines(data: bytes) -> dict[str, dict[str, int]]:
    try:
        found = codec.load_object(data)
    except codec.NotARecord:
        return {}
    return {
        name: {key: at_ms for key, at_ms in lines.items() if isinstance(at_ms, int)}
        for name, lines in found.items()
        if isinstance(lines, dict)
    }


def _read(data: bytes) -> dict[str, int]:
    try:
        return {name: at_ms for name, at_ms in codec.load_object(data).items() if isinstance(at_ms, int)}
    except codec.NotARecord:
        return {}
