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


def _open() -> None:
    os.close(os.open(sys.executable, os.O_RDONLY))


def _write() -> None:
    # Not from tempfile: importing it takes 10 ms of each start.
    scratch = os.environ.get("TMPDIR") or os.environ.get("TEMP") or f"{os.sep}tmp"
    path = Path(scratch) / f"trigger-sandbox-{os.getpid()}"
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    path.unlink()


def _list() -> None:
    os.listdir(os.sep)


def _socket() -> None:
    socket.socket(socket.AF_INET, socket.SOCK_STREAM).close()


def _fork() -> None:
    if os.fork() == 0:
        os._exit(0)


def _exec() -> None:
    # Refused calls never look at the path; an allowed one finds nothing there.
    os.execv(os.path.join(os.sep, "no-such-folder", "no-such-program"), ["x"])  # noqa: PTH118


def _kill() -> None:
    os.kill(os.getppid(), 0)


def _limits() -> None:
    import resource

    # What is there is set again, so that nothing is changed where it works.
    held = resource.prlimit(os.getppid(), resource.RLIMIT_CORE)
    resource.prlimit(os.getppid(), resource.RLIMIT_CORE, held)


class SelfTest:
    """Made before the powers are given up (it needs a socket to try `connect` with), run after."""

    def __init__(self) -> None:
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)

    def run(self) -> dict[str, bool]:
        """Attempt -> whether it was refused."""
        attempts: dict[str, Callable[[], None]] = {
            "open": _open,
            "write": _write,
            "list a folder": _list,
            "socket": _socket,
            "connect": lambda: self._socket.connect(("127.0.0.1", 9)),
            "exec": _exec,
            "kill": _kill,
        }
        if hasattr(os, "fork"):
            attempts["fork"] = _fork
        if sys.platform == "linux":
            attempts["limits of the parent"] = _limits
        try:
            return {name: _refused(attempt) for name, attempt in attempts.items()}
        finally:
            self._socket.close()


def _refused(attempt: Callable[[], None]) -> bool:
    try:
        attempt()
    except OSError as error:
        return error.errno in _REFUSALS
    return False
