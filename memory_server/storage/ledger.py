"""When upkeep last ran on a data folder, and the lock that lets one process run it: a `managers.maintenance.Ledger`."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator
from pathlib import Path

from memory_server.core import times
from memory_server.storage.json_store import codec
from memory_server.storage.partition import folders
from memory_server.storage.partition.locking import try_lock

log = logging.getLogger(__name__)


class FolderLedger:
    """Kept in `{data_dir}/.memory-server/`, beside the conversations."""

    def __init__(self, data_dir: Path) -> None:
        self._folder = data_dir / folders.PRIVATE
        self._note = self._folder / "upkeep.json"

    @contextlib.contextmanager
    def turn(self) -> Iterator[bool]:
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
        try:
            return codec.milliseconds(codec.loads(folders.read_file(self._note))["lastRun"])
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def note_run(self, at_ms: int) -> None:
        try:
            folders.replace_file(self._note, codec.dumps({"lastRun": times.iso(at_ms)}) + b"\n")
        except OSError as error:
            # What was cleaned up stays so; upkeep will only come again sooner.
            log.warning("upkeep could not be noted: %s", error)
