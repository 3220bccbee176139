"""A shared process for tests: windows that start it, and what is known of it from outside."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from stdio_process import PATIENCE, Client, command, running

from memory_server.cli.daemon import answer_at as told
from memory_server.cli.daemon import running as shared_processes
from memory_server.process.protocol import STOP


@contextmanager
def windows(data_dir: Path, count: int, *flags: str) -> Iterator[list[Client]]:
    """Connected windows of one shared process."""
    with ExitStack() as stack:
        yield [
            stack.enter_context(running(command(data_dir, *flags))).connect() for _ in range(count)
        ]


def only_process() -> dict[str, Any]:
    """What the only shared process says of itself."""
    ((_, figures),) = shared_processes()
    return figures


def end_shared() -> None:
    """End the shared processes, which then have written all files for people."""
    for address, figures in shared_processes():
        if figures:
            told(address, STOP)
            until(lambda pid=figures["pid"]: is_gone(pid))  # type: ignore[misc]


def until(true: Callable[[], object], seconds: float = PATIENCE) -> None:
    """Wait until something is true."""
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "it does not become true"
        time.sleep(0.02)


def descriptors(pid: int) -> int:
    return len(os.listdir(f"/proc/{pid}/fd"))


def threads(pid: int) -> int:
    return len(os.listdir(f"/proc/{pid}/task"))


def is_gone(pid: int) -> bool:
    """Whether no thread of the process is left. After a kill its first thread may end before others, which still hold
    the sockets and locks."""
    try:
        for thread in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{thread}/stat", encoding="ascii") as file:
                state = file.read().rpartition(")")[2].split()[0]
            if state not in "ZX":
                return False
    except OSError:
        # A thread ended while this looked: the first one is the last to leave.
        return not Path(f"/proc/{pid}").exists()
    return True


ON_LINUX = sys.platform == "linux"
