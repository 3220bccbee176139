"""A disk that loses power: what was not synced is gone, bytes and names alike.

The real folder is what programs see. Beside it is kept what a sync made durable: the bytes of a file when it was
synced, the names of a folder when that was. `after_power_loss` builds the folder that the next start finds.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import pytest

Names = Literal["synced", "latest"]
"""Which names survive: only the synced ones, or all, because a disk may also write more than it must."""


class LosingDisk:
    """Watches `root`, which exists and whose own name is durable."""

    def __init__(self, root: Path, patch: pytest.MonkeyPatch) -> None:
        self._root = root
        self._bytes: dict[int, bytes] = {}
        self._names: dict[int, dict[str, int]] = {}
        self._descriptors: list[int] = []
        self.on_step: Callable[[], None] = lambda: None
        """Called before and after everything that changes what is durable, or a name."""
        self.synced: list[str] = []
        """What was synced, by its place in `root`, since somebody emptied this."""
        self.forgotten: int | None = None
        """Place in `synced` of one sync that somebody forgot."""
        for name in ("fsync", "fdatasync"):
            patch.setattr(os, name, self._syncing(getattr(os, name)))
        rename = Path.replace
        remove = Path.unlink

        def replace(path: Path, target: Path) -> Path:
            self.on_step()
            result = rename(path, target)
            self.on_step()
            return result

        def unlink(path: Path, missing_ok: bool = False) -> None:
            remove(path, missing_ok)
            self.on_step()

        patch.setattr(Path, "replace", replace)
        patch.setattr(Path, "unlink", unlink)

    def after_power_loss(self, image: Path, names: Names) -> Path:
        """The folder as the next start finds it, built at `image`."""
        self._build(self._root, image, names)
        return image

    def close(self) -> None:
        """Let go of the files that were kept open."""
        for descriptor in self._descriptors:
            os.close(descriptor)

    def _syncing(self, system_sync: Callable[[int], None]) -> Callable[[int], None]:
        def sync(descriptor: int) -> None:
            path = Path(f"/proc/self/fd/{descriptor}").readlink()
            self.synced.append(os.path.relpath(path, self._root))
            if self.forgotten == len(self.synced) - 1:
                return
            self.on_step()
            system_sync(descriptor)
            facts = os.fstat(descriptor)
            # Kept open, so that the file system does not give its number to another file.
            self._descriptors.append(os.dup(descriptor))
            if stat.S_ISDIR(facts.st_mode):
                self._names[facts.st_ino] = _listing(f"/proc/self/fd/{descriptor}")
            else:
                self._bytes[facts.st_ino] = Path(f"/proc/self/fd/{descriptor}").read_bytes()
            self.on_step()

        return sync

    def _build(self, folder: Path, image: Path, names: Names) -> None:
        image.mkdir(parents=True)
        latest = _listing(str(folder))
        survivors = latest
        if names == "synced":
            survivors = self._names.get(folder.stat().st_ino, {})
        for name, number in survivors.items():
            if (folder / name).is_dir():
                self._build(folder / name, image / name, names)
            else:
                (image / name).write_bytes(self._bytes.get(number, b""))


def _listing(folder: str) -> dict[str, int]:
    return {entry.name: entry.inode() for entry in os.scandir(folder)}


def unsynced(*arguments: Any) -> None:
    """A sync that somebody forgot."""
