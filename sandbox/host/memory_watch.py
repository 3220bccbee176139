"""Where the kernel does not bound the worker's memory, the parent looks at it and kills. Portable, by psutil."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from importlib import import_module
from typing import Any

POLL_SECONDS = 0.02
"""V8 can fill some 2 GB a second, so up to 40 MB may be missed between two looks."""
KILL = getattr(signal, "SIGKILL", signal.SIGTERM)  # on Windows either ends the process at once
BASE_MB = 100
"""MiB a worker has resident before it meets a trigger; what a search may add is `Limits.data_mb`."""


def resident_mb(pid: int) -> float:
    """MiB of memory that the process has resident; 0.0 when it is gone."""
    psutil: Any = import_module("psutil")  # only where it is needed, and it has no types
    try:
        return float(psutil.Process(pid).memory_info().rss) / 2**20
    except psutil.Error:
        return 0.0


@asynccontextmanager
async def watched(pid: int, most_mb: int, *, needed: bool) -> AsyncIterator[None]:
    """Kills the process inside this context when it has more than `most_mb` MiB resident. Nothing, if not needed."""
    if not needed:
        yield
        return
    task = asyncio.ensure_future(_watch(pid, most_mb))
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def _watch(pid: int, most_mb: int) -> None:
    # Nobody tells when a process grows.
    while resident_mb(pid) <= most_mb:  # noqa: ASYNC110
        await asyncio.sleep(POLL_SECONDS)
    with suppress(ProcessLookupError, PermissionError):
        os.kill(pid, KILL)
