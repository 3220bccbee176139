"""Tries what a trigger must never be able to do, in the worker itself, after it gave up its powers.

A claim about a filter is worth what its test is worth: each attempt must be refused by the kernel.
"""

from __future__ import annotations

import errno
import os
import socket
import sys
from collections.abc import Callable
from pathlib import Path

_REFUSALS = (errno.EPERM, errno.EACCES)


def _write() -> None:
    # Not from tempfile: importing it takes 10 ms of each start.
    scratch = os.environ.get("TMPDIR") or os.environ.get("TEMP") or f"{os.sep}tmp"
    path = Path(scratch) / f"trigger-sandbox-{os.getpid()}"
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    path.unlink()


def _fork() -> None:
    if os.fork() == 0:
        os._exit(0)


def _limits() -> None:
    import resource

    # What is there is set again, so that nothing is changed where it works.
    held = resource.prlimit(os.getppid(), resource.RLIMIT_CORE)
    resource.prlimit(os.getppid(), resource.RLIMIT_CORE, held)


def attempts() -> dict[str, Callable[[], object]]:
    """Made before the powers are given up (`connect` needs a socket), tried after."""
    given = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    # Refused calls never look at the path; an allowed one finds nothing there.
    nowhere = os.path.join(os.sep, "no-such-folder", "no-such-program")  # noqa: PTH118
    made: dict[str, Callable[[], object]] = {
        "open": lambda: os.close(os.open(sys.executable, os.O_RDONLY)),
        "write": _write,
        "list a folder": lambda: os.listdir(os.sep),
        "socket": lambda: socket.socket(socket.AF_INET, socket.SOCK_STREAM).close(),
        "connect": lambda: given.connect(("127.0.0.1", 9)),
        "exec": lambda: os.execv(nowhere, ["x"]),
        "kill": lambda: os.kill(os.getppid(), 0),
    }
    if hasattr(os, "fork"):
        made["fork"] = _fork
    if sys.platform == "linux":
        made["limits of the parent"] = _limits
    return made


def is_refused(attempt: Callable[[], object]) -> bool:
    """Whether the kernel refuses it. It is tried."""
    try:
        attempt()
    except OSError as error:
        return error.errno in _REFUSALS
    return False
