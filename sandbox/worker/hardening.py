"""The powers that the worker process gives up before it runs a trigger, layer by layer, and the test of each.

A layer that this system does not offer is reported. With `require_all_layers` the worker then refuses to start.
"""

from __future__ import annotations

import errno
import os
import signal
import socket
import sys
from collections.abc import Callable, Collection
from pathlib import Path
from typing import TypedDict

from sandbox.errors import LayerMissing
from sandbox.worker.layers.kernel import die_with_parent, forbid_files, limit_files, limit_memory, no_new_privileges
from sandbox.worker.layers.seccomp import allow_calls


class LayerState(TypedDict):
    """One line of `trigger-sandbox doctor`."""

    holds: bool
    detail: str


def give_up(*, data_mb: int, parent: int, without: Collection[str] = ()) -> dict[str, LayerState]:
    """Gives up all powers that this system lets it give up, for ever. Returns for each layer whether it holds.

    `without`: layers to leave out, as on a system that lacks them (for tests).
    """
    # In this order: a filter must not forbid what a later layer needs.
    layers: dict[str, Callable[[], str]] = {
        "parent": lambda: die_with_parent(parent),
        "files": limit_files,
        "memory": lambda: limit_memory(data_mb),
        "privileges": no_new_privileges,
        "landlock": forbid_files,
        "seccomp": allow_calls,
    }
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as given:  # afterwards no socket can be made
        states = {name: _state(name, apply, without) for name, apply in layers.items()}
        # A refused write must be an error and not a signal, also when the limit for files refuses it.
        if hasattr(signal, "SIGXFSZ"):
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        for name, attempt in _attempts(given).items():
            refused = _is_refused(attempt)
            states[f"no {name}"] = {"holds": refused, "detail": "tried and refused" if refused else "tried: it works"}
    return states


def _state(name: str, apply: Callable[[], str], without: Collection[str]) -> LayerState:
    if name in without:
        return {"holds": False, "detail": "left out on request"}
    try:
        return {"holds": True, "detail": apply()}
    except LayerMissing as missing:
        return {"holds": False, "detail": str(missing)}


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


def _attempts(given: socket.socket) -> dict[str, Callable[[], object]]:
    """What a trigger must never be able to do. `given`: a socket to connect."""
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


def _is_refused(attempt: Callable[[], object]) -> bool:
    """Tries it: a claim about a filter is worth what its test is worth."""
    try:
        attempt()
    except OSError as error:
        return error.errno in (errno.EPERM, errno.EACCES)
    return False
