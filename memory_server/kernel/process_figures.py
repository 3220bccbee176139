"""Figures of this process and of the files that it keeps, for the meter: memory, processor time, threads, bytes.

Each is measured only when it is asked for.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from memory_server.kernel.meter import Meter
from memory_server.kernel.values import dataclass

AGAIN_SECONDS: Final = 60.0
"""How long measured sizes of files count: a folder may have 100,000 files, which take some 0.4 s."""
LOOK_SHARE: Final = 0.01
"""The share of the time that looking at files may take."""


class FolderSize(NamedTuple):
    """How many files there are, and their bytes."""

    files: int
    size_bytes: int


def gauge(meter: Meter, look: Callable[[], FolderSize], *, of_process: bool) -> None:
    """Let the meter show the files that `look` counts and, with `of_process`, what this process uses."""
    gauge_files(meter, look)
    if of_process:
        gauge_process(meter)


def gauge_process(meter: Meter) -> None:
    """Let the meter show what this process uses."""
    meter.gauge("process", "memory_bytes", _memory_bytes)
    meter.gauge("process", "cpu_ms", lambda: round(time.process_time() * 1000))
    meter.gauge("process", "threads", threading.active_count)


def gauge_files(
    meter: Meter, look: Callable[[], FolderSize], now: Callable[[], float] = time.monotonic
) -> None:
    """Let the meter show the number and the bytes of files, as `look` counts them now and then."""
    sizes = _Sizes(look, now)
    # The folder of the owner includes the folders of the tenants.
    meter.gauge("files", "count", lambda: sizes.current().files, of_all=True)
    meter.gauge("files", "bytes", lambda: sizes.current().size_bytes, of_all=True)


def _memory_bytes() -> int:
    import psutil  # type: ignore[import-untyped]  # 20 ms, and only figures need it

    process: Any = psutil.Process()
    return int(process.memory_info().rss)


@dataclass(eq=False)
class _Sizes:
    """The size of a folder, which is measured again when the last figure is too old."""

    look: Callable[[], FolderSize]
    now: Callable[[], float]
    size: FolderSize | None = None
    due: float = 0.0

    def current(self) -> FolderSize:
        began = self.now()
        if self.size is None or began >= self.due:
            self.size = self.look()
            seconds = self.now() - began
            self.due = began + max(AGAIN_SECONDS, seconds / LOOK_SHARE)
        return self.size
