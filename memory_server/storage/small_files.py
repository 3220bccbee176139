"""Small files about a whole data folder, in `{data_dir}/.memory-server/`: whether it is paused, when upkeep last ran,
which events a hook has just answered, what it gave, and the record of recalls. All processes see them at their next
call."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import BinaryIO, ClassVar, TypeVar

from memory_server.conversations.ports import LINES_AFTER_A_CUT, MOST_LINES, Line, LineChange
from memory_server.kernel import files as folders
from memory_server.kernel import json_text, times
from memory_server.kernel.errors import InvalidInput
from memory_server.kernel.files import folder_name
from memory_server.kernel.json_text import Fields
from memory_server.kernel.messages import Session
from memory_server.kernel.private import Pause

log = logging.getLogger(__name__)
HOLDS_MS = 10_000
"""The time for which an event counts as answered: longer than a hook runs, shorter than people take to ask the same
again."""


class PrivateFile:
    """A small file of a data folder, by its `name`."""

    name: ClassVar[str]

    def __init__(self, data_dir: Path) -> None:
        self._path = data_dir / folders.PRIVATE / self.name

    def remove(self) -> None:
        """Remove the file, which need not be there. Raises StorageUnwritable: it is still there."""
        with folders.unwritable(self._path), contextlib.suppress(NotADirectoryError):
            folders.remove_file(self._path)
        _sync_names(self._path.parent)

    def _replace(self, value: Fields) -> None:
        """Write `value` as JSON, in a folder that is made for it. Raises StorageUnwritable: it is as before."""
        with folders.unwritable(self._path):
            folders.make_folder(self._path.parent)
            new_file = folders.write_aside(self._path, json_text.dumps(value) + b"\n")
            folders.take_name(new_file, self._path)
        _sync_names(self._path.parent)


class PauseNote(PrivateFile):
    """`paused.json`: the pause of this folder."""

    name = "paused.json"

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
        self._replace({"until": until})


def _sync_names(folder: Path) -> None:
    """Sync a folder, so that a power loss does not take its last change back. An error is only logged."""
    # The change is done and counts for all processes; only a power loss could take it back.
    try:
        folders.sync_folder(folder)
    except (FileNotFoundError, NotADirectoryError):
        pass  # without a folder there was nothing to remove
    except OSError as error:
        log.warning(
            "%s cannot be synced: %s; a power loss may take the last change back", folder, error
        )


@contextlib.contextmanager
def turn_at(lock_path: Path) -> Iterator[bool]:
    """Yield whether it is the turn of this process: True for only one process at a time, False also if the folder of
    the lock cannot be written."""
    lock = None
    with contextlib.suppress(OSError):
        folders.make_folder(lock_path.parent)
        lock = folders.try_lock(lock_path)
    try:
        yield lock is not None
    finally:
        if lock is not None:
            lock.release()


class FolderLedger:
    """When upkeep last ran, and the lock that lets one process run it."""

    def __init__(self, data_dir: Path) -> None:
        self._folder = data_dir / folders.PRIVATE
        self._note = self._folder / "upkeep.json"

    @contextlib.asynccontextmanager
    async def turn(self) -> AsyncIterator[bool]:
        """Yield whether this process may run upkeep, as `turn_at` does."""
        with turn_at(self._folder / "upkeep.lock") as is_ours:
            yield is_ours

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


class AnsweredEvents(PrivateFile):
    """The events that a hook has just answered, some hundred bytes. If the file is lost, an answer may come twice. If
    two hooks are installed, such as a plugin's and the user's own, both run for each event at the same time: the first
    one with an answer gives it."""

    name = "answered.json"

    def claim(self, event: str, now_ms: int) -> bool:
        """Note `event` as answered. Return False if it was answered less than `HOLDS_MS` ago; True
        also if the note cannot be written."""
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
MOST_GIVEN_LINES = 1_000
"""The most lines of a session: some 30 bytes a line."""


class GivenLines(PrivateFile):
    """The lines that hooks gave to the sessions, so that none comes twice into one context. If the file is lost, lines
    may come twice."""

    name = "given.json"

    def to(self, session: Session | None) -> set[str]:
        """Return the keys of the lines that `session` was given and still has in its context."""
        if session is None:
            return set()
        try:
            sessions = _lines(folders.read_file(self._path))
        except OSError:
            return set()
        times_by_key = sessions.get(session.id, {})
        since_ms = session.context_since_ms
        if since_ms is None:
            since_ms = -1
        return {key for key, at_ms in times_by_key.items() if at_ms >= since_ms}

    def note(
        self, session: Session | None, keys: Collection[str], now_ms: int, *, afresh: bool = False
    ) -> None:
        """Note that `session` was given these lines. `afresh`: nothing of before is in its context
        any more. Do nothing without a session; a file that cannot be written is passed over."""
        if session is None or not (keys or afresh):
            return
        try:
            with locked(self._path) as file:
                sessions = _lines(file.read())
                times_by_key = sessions.pop(session.id, {})
                if afresh:
                    times_by_key = {}
                times_by_key |= dict.fromkeys(keys, now_ms)
                sessions[session.id] = _last_items(times_by_key, MOST_GIVEN_LINES)
                file.truncate(0)
                file.write(json_text.dumps(_last_items(sessions, MOST_SESSIONS)))
        except OSError:
            return  # rather twice than not at all


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


def _times_of(values: Fields) -> dict[str, int]:
    return {name: at_ms for name, at_ms in values.items() if isinstance(at_ms, int)}


def _object_of(data: bytes) -> Fields:
    """Parse the object in these bytes. Return an empty object if they hold anything else."""
    try:
        return json_text.load_object(data)
    except json_text.NotARecord:
        return {}


# --- recalls -----------------------------------------------------------------------------------------------------

# The record of recalls as files of JSON lines, one for each conversation, in `{data_dir}/.memory-server/recalls/`.

_NEVER_OLD = "9999-12-31T23:59:59.999Z"
_LEAST_LINE_BYTES = 50
"""The bytes that every line has: so the lines of a short file need not be counted."""


class RecallFiles:
    """As `RecallLog`. Lines are appended without a lock: a line that comes while a file is rewritten may be lost."""

    name = "recalls"
    """The name of the folder."""

    def __init__(self, data_dir: Path) -> None:
        self._data_dir = data_dir
        self._folder = data_dir / folders.PRIVATE / self.name

    def append(self, *lines: Line) -> None:
        """Append each line to the file of its conversation, and shorten a file of more than
        `MOST_LINES` to its last `LINES_AFTER_A_CUT`. Do nothing without a data folder. Raises
        OSError."""
        if not self._data_dir.is_dir():
            return  # nothing was ever stored: a question makes no folder
        folders.make_folder(self._folder)
        for line in lines:
            path = self._path(line["conversation"])
            size = folders.append(path, json_text.dumps(line) + b"\n")
            if (
                size > MOST_LINES * _LEAST_LINE_BYTES
                and folders.read_file(path).count(b"\n") > MOST_LINES
            ):
                self._rewrite(path, lambda raw: raw[-LINES_AFTER_A_CUT:])

    def lines(self, conversation_id: str | None = None) -> list[Line]:
        lines = []
        for path in self._paths(conversation_id):
            lines += _read(path)
        return lines

    def _paths(self, conversation_id: str | None) -> list[Path]:
        if conversation_id is not None:
            return [self._path(conversation_id)]
        return sorted(self._folder.glob("*.jsonl"))

    def rewrite(self, change: LineChange) -> None:
        for path in list(self._folder.glob("*.jsonl")):
            self._rewrite(path, lambda raw: [self._changed(line, change) for line in raw])

    def _changed(self, raw: bytes, change: LineChange) -> bytes:
        """Return a line after a change, or nothing if it goes. A line that was torn goes."""
        line = line_in(raw)
        after = change(line) if line is not None else None
        return json_text.dumps(after) if after else b""

    def _rewrite(self, path: Path, make: Callable[[list[bytes]], list[bytes]]) -> None:
        """Replace the lines of a file by the ones that `make` returns, without the empty ones, under the lock. Remove the
        file if none is left."""
        with locked(self._folder / "lock"):
            after = list(filter(None, make(_raw_lines(path))))
            if not after:
                folders.remove_file(path)
                return
            data = b"\n".join(after) + b"\n"
            if data != folders.read_file(path):
                folders.replace_file(path, data)

    def _path(self, conversation_id: str) -> Path:
        return self._folder / f"{folder_name(conversation_id)}.jsonl"


class QuestionFiles(RecallFiles):
    """The questions that `examine` asks again, which a person may edit, also beside memories in a database."""

    name = "questions"

    def append(self, *lines: Line) -> None:
        folders.make_folder(self._data_dir)
        super().append(*lines)

    def lines(self, conversation_id: str | None = None) -> list[Line]:
        """Return the lines of a conversation, or of all. Raises InvalidInput if a line cannot be
        read."""
        lines = super().lines(conversation_id)
        for path in self._paths(conversation_id):
            for number, data in enumerate(_raw_lines(path), 1):
                if line_in(data) is None:
                    raise InvalidInput(
                        "Line {number} of {path} is not a question; mend it, or delete the line.",
                        number,
                        path,
                    )
        return lines

    def _changed(self, raw: bytes, change: LineChange) -> bytes:
        """As `RecallFiles._changed`, but a line that cannot be read stays, so that a person can mend it, unless it goes as
        the text of a question would go: that is if it holds a text, or an id in quotation marks, that is erased."""
        if line_in(raw) is not None:
            return super()._changed(raw, change)
        text = raw.decode(errors="replace")
        question = {
            "at": _NEVER_OLD,
            "conversation": "",
            "said": text,
            "mustCome": text.split('"'),
            "raw": raw,
        }
        return raw if change(question) is not None else b""


def _raw_lines(path: Path) -> list[bytes]:
    return (folders.read_if_there(path) or b"").splitlines()


def _read(path: Path) -> list[Line]:
    """Read the lines of a file, without torn and broken lines."""
    lines = map(line_in, _raw_lines(path))
    return [line for line in lines if line is not None]


def line_in(data: bytes) -> Line | None:
    """Parse a line as it was written. Return None if it cannot be used."""
    try:
        line = json_text.load_object(data)
        json_text.milliseconds(line["at"])
        return {**line, "at": str(line["at"]), "conversation": str(line["conversation"])}
    except (json_text.NotARecord, KeyError):
        return None
