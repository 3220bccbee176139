"""Small files about a whole data folder, in `{data_dir}/.memory-server/`: whether it is paused, when upkeep last ran,
which events a hook has just answered, and what it gave. All processes see them at their next call."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import AsyncIterator, Collection, Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

from languages import Sentence, _
from memory_server.kernel import files as folders
from memory_server.kernel import json_text, times
from memory_server.kernel.errors import StorageUnwritable
from memory_server.kernel.messages import Session
from memory_server.kernel.private import Pause

log = logging.getLogger(__name__)
HOLDS_MS = 10_000
"""The time for which an event counts as answered: longer than a hook runs, shorter than people take to ask the same
again."""


class PauseNote:
    """`paused.json`: the pause of this folder."""

    def __init__(self, data_dir: Path) -> None:
        self._path = data_dir / folders.PRIVATE / "paused.json"

    def read(self, now_ms: int) -> Pause | None:
        """Return the pause at `now_ms`, or None without a pause, or after its end. A note that cannot be read is a
        pause: a broken file must not end a pause that a user asked for."""
        try:
            until = json_text.loads(folders.read_file(self._path))["until"]
            until_ms = None if until is None else json_text.milliseconds(until)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (OSError, ValueError, KeyError, TypeError):
            return Pause()
        if until_ms is not None and until_ms <= now_ms:
            return None
        return Pause(until_ms)

    def write(self, pause: Pause) -> None:
        """Begin a pause, or replace one. Raises StorageUnwritable if that failed."""
        until = None if pause.until_ms is None else times.iso(pause.until_ms)
        replace_small_file(self._path, {"until": until}, _("the pause was not begun"))

    def remove(self) -> None:
        """End the pause. Raises StorageUnwritable if it goes on."""
        remove_small_file(self._path, _("the pause goes on"))


def replace_small_file(path: Path, value: Mapping[str, Any], so: str) -> None:
    """Write `value` to `path` as JSON, in a folder that is made for it. Raises StorageUnwritable, which ends with `so`:
    the file is as it was."""
    try:
        folders.make_folder(path.parent)
        new_file = folders.write_aside(path, json_text.dumps(value) + b"\n")
        folders.take_name(new_file, path)
    except OSError as error:
        raise unwritable(path, error, so) from error
    _sync_names(path.parent)


def remove_small_file(path: Path, so: str) -> None:
    """Remove a file that need not be there. Raises StorageUnwritable, which ends with `so`: it is still there."""
    try:
        folders.remove_file(path)
    except (FileNotFoundError, NotADirectoryError):
        return
    except OSError as error:
        raise unwritable(path, error, so) from error
    _sync_names(path.parent)


def _sync_names(folder: Path) -> None:
    # The change is done and counts for all processes; only a power loss could take it back.
    try:
        folders.sync_folder(folder)
    except (FileNotFoundError, NotADirectoryError):
        pass  # without a folder there was nothing to remove
    except OSError as error:
        log.warning(
            "%s cannot be synced: %s; a power loss may take the last change back", folder, error
        )


def unwritable(path: Path, error: OSError, so: str) -> StorageUnwritable:
    """Return the error that `path` cannot be written; its sentence ends with `so`, which says what follows."""
    reason = error.strerror or str(error)
    return StorageUnwritable(
        Sentence("{path} cannot be written: {reason}; {so}.", path, reason, so), path
    )


class FolderLedger:
    """When upkeep last ran, and the lock that lets one process run it."""

    def __init__(self, data_dir: Path) -> None:
        self._folder = data_dir / folders.PRIVATE
        self._note = self._folder / "upkeep.json"

    @contextlib.asynccontextmanager
    async def turn(self) -> AsyncIterator[bool]:
        """Tell whether this process may run upkeep; True for only one process at a time."""
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
        """Return when upkeep last ended, in milliseconds since 1970, or None if it never ran."""
        try:
            return json_text.milliseconds(json_text.loads(folders.read_file(self._note))["lastRun"])
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def note_run(self, at_ms: int) -> None:
        try:
            folders.replace_file(self._note, json_text.dumps({"lastRun": times.iso(at_ms)}) + b"\n")
        except OSError as error:
            # The clean-up is done; upkeep will only run again sooner.
            log.warning("upkeep could not be noted: %s", error)


class AnsweredEvents:
    """The events that a hook has just answered, some hundred bytes. If the file is lost, an answer may come twice. If
    two hooks are installed, such as a plugin's and the user's own, both run for each event at the same time: the first
    one with an answer gives it."""

    def __init__(self, data_dir: Path) -> None:
        self._path = data_dir / folders.PRIVATE / "answered.json"

    def claim(self, event: str, now_ms: int) -> bool:
        """Mark `event` as answered. Return False if it was answered already."""
        try:
            with locked(self._path) as file:
                answered = _times_of(_object_of(file.read()))
                lately = {
                    name: at_ms
                    for name, at_ms in answered.items()
                    if abs(now_ms - at_ms) < HOLDS_MS
                }
                file.truncate(0)
                file.write(json_text.dumps({event: now_ms} | lately))
                return event not in lately
        except OSError:
            return True  # rather twice than not at all


MOST_SESSIONS = 16
"""The most sessions that are known."""
MOST_LINES = 1_000
"""The most lines of a session: some 30 bytes a line."""


class GivenLines:
    """The lines that hooks gave to the sessions, so that none comes twice into one context. If the file is lost, lines
    may come twice."""

    def __init__(self, data_dir: Path) -> None:
        self._path = data_dir / folders.PRIVATE / "given.json"

    def to(self, session: Session | None) -> set[str]:
        """Return the keys of the lines that `session` was given and still has in its context."""
        if session is None:
            return set()
        times_by_key = self._lines_by_session().get(session.id, {})
        since_ms = session.context_since_ms
        if since_ms is None:
            since_ms = -1
        return {key for key, at_ms in times_by_key.items() if at_ms >= since_ms}

    def note(
        self, session: Session | None, keys: Collection[str], now_ms: int, *, afresh: bool = False
    ) -> None:
        """`session` was given these lines; `afresh`: nothing of before is in its context any more."""
        if session is None or not (keys or afresh):
            return
        try:
            with locked(self._path) as file:
                sessions = _lines(file.read())
                times_by_key = sessions.pop(session.id, {})
                if afresh:
                    times_by_key = {}
                times_by_key |= dict.fromkeys(keys, now_ms)
                sessions[session.id] = _last_items(times_by_key, MOST_LINES)
                file.truncate(0)
                file.write(json_text.dumps(_last_items(sessions, MOST_SESSIONS)))
        except OSError:
            return  # rather twice than not at all

    def _lines_by_session(self) -> dict[str, dict[str, int]]:
        try:
            return _lines(folders.read_file(self._path))
        except OSError:
            return {}


@contextlib.contextmanager
def locked(path: Path) -> Iterator[BinaryIO]:
    """Open the private file at `path` from its beginning, for this process alone. It is not synced: a user waits."""
    folders.make_folder(path.parent)
    with folders.open_file(path, "a+b") as file:
        # Closing the file gives the lock back.
        folders.lock_file(file.fileno())
        file.seek(0)
        yield file


V = TypeVar("V")


def _last_items(items: Mapping[str, V], most: int) -> dict[str, V]:
    return dict(list(items.items())[-most:])


def _lines(data: bytes) -> dict[str, dict[str, int]]:
    """Return the times of the lines of each session."""
    sessions = _object_of(data)
    return {
        session_id: _times_of(lines)
        for session_id, lines in sessions.items()
        if isinstance(lines, dict)
    }


def _times_of(values: Mapping[str, Any]) -> dict[str, int]:
    return {name: at_ms for name, at_ms in values.items() if isinstance(at_ms, int)}


def _object_of(data: bytes) -> Mapping[str, Any]:
    """Parse the object in these bytes. Return an empty object if they hold anything else."""
    try:
        return json_text.load_object(data)
    except json_text.NotARecord:
        return {}
