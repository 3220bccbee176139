"""Which events a hook has answered just now. Where two hooks are installed, such as a plugin's and the user's own, both
are run for each event, at the same time: the first one that has an answer gives it."""

from __future__ import annotations

import os
from pathlib import Path

import portalocker

from memory_server.storage.json_store import codec
from memory_server.storage.partition import folders

HOLDS_MS = 10_000
"""How long an event counts as answered: longer than a hook lives, shorter than the same is asked twice."""


class Answered:
    """A note in `{data_dir}/.memory-server/`, some hundred bytes long. It may be lost: then something is said twice."""

    def __init__(self, data_dir: Path) -> None:
        self._path = data_dir / folders.PRIVATE / "answered.json"

    def claim(self, event: str, now_ms: int) -> bool:
        """Whether nobody has answered `event` just now; from now on somebody has."""
        try:
            folders.make_folder(self._path.parent)
            descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | getattr(os, "O_BINARY", 0), 0o600)
        except OSError:
            return True  # rather twice than not at all
        with os.fdopen(descriptor, "r+b") as file:
            portalocker.lock(descriptor, portalocker.LockFlags.EXCLUSIVE)
            try:
                lately = {name: at_ms for name, at_ms in _read(file.read()).items() if abs(now_ms - at_ms) < HOLDS_MS}
                first = event not in lately
                file.seek(0)
                file.truncate()
                file.write(codec.dumps({event: now_ms} | lately))
                file.flush()
                return first
            except OSError:
                return True
            finally:
                portalocker.unlock(descriptor)


def _read(data: bytes) -> dict[str, int]:
    try:
        value = codec.loads(data)
    except ValueError:
        return {}
    items = value.items() if isinstance(value, dict) else ()
    return {name: at_ms for name, at_ms in items if isinstance(at_ms, int)}
