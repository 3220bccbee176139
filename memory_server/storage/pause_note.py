"""Whether a data folder is paused: a note in `{data_dir}/.memory-server/`, seen by all processes at their next call."""

from __future__ import annotations

from pathlib import Path

from memory_server.core import times
from memory_server.core.errors import StorageUnwritable
from memory_server.core.pause import Pause
from memory_server.storage.json_store import codec
from memory_server.storage.partition import folders


class PauseNote:
    """The note of one data folder."""

    def __init__(self, data_dir: Path) -> None:
        self._path = data_dir / folders.PRIVATE / "paused.json"

    def read(self, now_ms: int) -> Pause | None:
        """The pause that lasts at `now_ms`; None where there is none, or it is over.

        A note that cannot be read is a pause: who asked for one must not be remembered because of a broken file.
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
        """Begin a pause, in place of one that lasts.

        Raises:
            StorageUnwritable: it was not begun.
        """
        until = None if pause.until_ms is None else times.iso(pause.until_ms)
        try:
            folders.make_folder(self._path.parent)
            folders.replace_file(self._path, codec.dumps({"until": until}) + b"\n")
        except OSError as error:
            raise self._unwritable(error, "the pause was not begun") from error

    def remove(self) -> None:
        """End the pause.

        Raises:
            StorageUnwritable: it goes on.
        """
        try:
            folders.remove_file(self._path)
            folders.sync_folder(self._path.parent)
        except (FileNotFoundError, NotADirectoryError):
            pass
        except OSError as error:
            raise self._unwritable(error, "the pause goes on") from error

    def _unwritable(self, error: OSError, so: str) -> StorageUnwritable:
        return StorageUnwritable(f"{self._path} cannot be written: {error.strerror}; {so}.", self._path)
