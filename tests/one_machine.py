"""What keeps tests from other machines, and from each other's processor time."""

from __future__ import annotations

import ipaddress
import os
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import portalocker
from portalocker import LockFlags

REFUSED = "A test opens no connection to another machine"
OUTSIDE: list[str] = []
"""The addresses of other machines that the running test tried to connect to."""


def is_loopback(host: str) -> bool:
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return host == "localhost"
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return (mapped or address).is_loopback


def guard_connections() -> None:
    """Refuse, in this process, each connection over IP that leaves the machine, and note it in `OUTSIDE`."""
    socket.socket.connect = _guarded(socket.socket.connect)  # type: ignore[method-assign]
    socket.socket.connect_ex = _guarded(socket.socket.connect_ex)  # type: ignore[method-assign]


def _guarded(connect: Callable[[socket.socket, Any], Any]) -> Callable[[socket.socket, Any], Any]:
    def guarded(self: socket.socket, address: Any) -> Any:
        if self.family in (socket.AF_INET, socket.AF_INET6) and not is_loopback(str(address[0])):
            OUTSIDE.append(f"{address[0]} port {address[1]}")
            raise ConnectionRefusedError(f"{REFUSED}: {OUTSIDE[-1]}.")
        return connect(self, address)

    return guarded


@contextmanager
def turn(folder: Path, alone: bool) -> Iterator[None]:
    """The right to run one test: beside those of other workers, or alone. Who comes next holds the gate, so a test that
    waits to be alone waits only for the tests that already run."""
    with (folder / "gate").open("a") as gate, (folder / "room").open("a") as room:
        portalocker.lock(gate, LockFlags.EXCLUSIVE)
        portalocker.lock(room, LockFlags.EXCLUSIVE if alone else LockFlags.SHARED)
        portalocker.unlock(gate)
        try:
            yield
        finally:
            # A child that a test forked may still hold the file open, so closing it here would not release the lock.
            portalocker.unlock(room)


class TimeAlone:
    """The right of this process to run tests alone, which it keeps from one such test to the next."""

    def __init__(self) -> None:
        self._held: ExitStack | None = None

    @contextmanager
    def turn(self, folder: Path, *, is_kept: bool) -> Iterator[None]:
        """As `turn`. `is_kept`: the next test of this process is to be alone, too."""
        if self._held is None:
            self._held = ExitStack()
            self._held.enter_context(turn(folder, alone=True))
        try:
            yield
        finally:
            if not is_kept:
                self._held.close()
                self._held = None


def children_seconds() -> float:
    """Return the processor seconds of all child processes that have ended. A busy machine changes them little, unlike
    the seconds of a clock."""
    times = os.times()
    return times.children_user + times.children_system
