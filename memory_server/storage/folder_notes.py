"""Notes about a whole data folder, in `{data_dir}/.memory-server/`: whether it is paused, when upkeep last ran, and
which events a hook has just answered. All processes see them at their next call."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator
from pathlib import Path

import portalocker

from memory_server.core import times
from memory_server.core.errors import StorageUnwritable
from memory_server.core.private import Pause
from memory_server.storage.json_store import codec
from memory_server.storage.partition import folders
from memory_server.storage.partition.folders import try_lock

log = logging.getLogger(__name__)

HOLDS_MS = 10_000
"""How long an event counts as answered: longer than a hook runs, shorter than people take to ask the same again."""


class PauseNote:
    """Whether the folder is paused."""

    def __init__(self, data_dir: Path) -> None:
        self._path = data_dir / folders.PRIVATE / "paused.json"

    def read(self, now_ms: int) -> Pause | None:
        """The pause at `now_ms`; None without a pause, or after its end.

        A note that cannot be read is a pause: a broken file must not end a pause that somebody asked for.
        """
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
            raise self._unwritable(error, "the pause was not begun") from error

    def remove(self) -> None:
        """End the pause. Raises StorageUnwritable if it goes on."""
        try:
            folders.remove_file(self._path)
            folders.sync_folder(self._path.parent)
        except (FileNotFoundError, NotADirectoryError):
            pass
        except OSError as error:
            raise self._unwritable(error, "the pause goes on") from error

    def _unwritable(self, error: OSError, so: str) -> StorageUnwritable:
        return StorageUnwritable(f"{self._path} cannot be written: {error.strerror}; {so}.", self._path)


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
            lock = try_lock(self._folder / "upkeep.lock")
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
    """Which events a hook has just answered, some hundred bytes. If the file is lost, an answer may come twice.

    If two hooks are installed, such as a plugin's and the user's own, both run for each event at the same time: the
    first one with an answer gives it.
    """

    def __init__(self, data_dir: Path) -> None:
        self._path = data_dir / folders.PRIVATE / "answered.json"

    def claim(self, event: str, now_ms: int) -> bool:
        """Whether `event` has not been answered yet; from now on it has."""
        try:
            folders.make_folder(self._path.parent)
            with folders.open_file(self._path, "a+b") as file:
                # Closing the file gives the lock back.
                portalocker.lock(file.fileno(), portalocker.LockFlags.EXCLUSIVE)
                file.seek(0)
                lately = {name: at_ms for name, at_ms in _read(file.read()).items() if abs(now_ms - at_ms) < HOLDS_MS}
                file.truncate(0)
                file.write(codec.dumps({event: now_ms} | lately))
                return event not in lately
        except OSError:
            return True  # rather twice than not at all


def _read(data: bytes) -> dict[str, int]:
    try:
        return {name: at_ms for name, at_ms in codec.load_object(data).items() if isinstance(at_ms, int)}
    except codec.NotARecord:
        return {}
