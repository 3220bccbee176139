"""No test asks another machine, and a test that measures time has the machine for itself."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import httpx2 as httpx
import portalocker
import pytest
from one_machine import TimeAlone, is_loopback, turn
from portalocker import LockFlags

ELSEWHERE = "192.0.2.1"
"""An address for documentation (RFC 5737): no machine has it."""


def test_a_connection_to_another_machine_is_refused(outside: list[str]) -> None:
    refusal = re.escape(f"{ELSEWHERE} port 80.")
    with socket.socket() as connection, pytest.raises(ConnectionRefusedError, match=refusal):
        connection.connect((ELSEWHERE, 80))
    with (
        socket.socket(socket.AF_INET6) as connection,
        pytest.raises(ConnectionRefusedError, match="2001:db8::1 port 443"),
    ):
        connection.connect_ex(("2001:db8::1", 443))
    with pytest.raises(httpx.ConnectError):
        httpx.get(f"http://{ELSEWHERE}/", trust_env=False)
    assert outside == [f"{ELSEWHERE} port 80", "2001:db8::1 port 443", f"{ELSEWHERE} port 80"]
    outside.clear()


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.8.8", "::1", "::ffff:127.0.0.1", "localhost"])
def test_this_machine_may_be_asked(host: str) -> None:
    assert is_loopback(host)


@pytest.mark.parametrize(
    "host",
    ["0.0.0.0", "10.0.0.1", "169.254.169.254", "::ffff:10.0.0.1", "fe80::1%eth0", "elsewhere"],
)
def test_no_other_machine_may_be_asked(host: str) -> None:
    assert not is_loopback(host)


def test_a_test_whose_program_copes_with_the_refusal_fails_with_one_sentence(
    tmp_path: Path,
) -> None:
    (tmp_path / "test_it.py").write_text(
        "import contextlib, socket\n"
        "def test_it():\n"
        "    with contextlib.suppress(OSError):\n"
        f"        socket.create_connection(({ELSEWHERE!r}, 80))\n"
    )
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith("PYTEST")
    }
    flags = (
        "-q",
        "-p",
        "conftest",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:schemathesis",
        "-c",
        os.devnull,
    )
    ran = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            *flags,
            "--basetemp",
            tmp_path / "base",
            tmp_path / "test_it.py",
        ],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env=environment | {"PYTHONPATH": str(Path(__file__).parent)},
    )
    assert ran.returncode == 1, ran.stdout + ran.stderr
    sentence = (
        f"A test opens no connection to another machine, but this one tried {ELSEWHERE} port 80"
    )
    assert sentence in ran.stdout
    assert "1 passed, 1 error" in ran.stdout


def test_tests_that_are_alone_keep_the_room_from_one_to_the_next(tmp_path: Path) -> None:
    def room_is_free() -> bool:
        with (tmp_path / "room").open("a") as room:
            try:
                portalocker.lock(room, LockFlags.SHARED | LockFlags.NON_BLOCKING)
            except portalocker.LockException:
                return False
            portalocker.unlock(room)
            return True

    time_alone = TimeAlone()
    for is_kept in (True, False, True, False):
        with time_alone.turn(tmp_path, is_kept=is_kept):
            assert not room_is_free()
        assert room_is_free() != is_kept


def test_a_test_that_is_alone_waits_for_the_others_and_is_not_overtaken(tmp_path: Path) -> None:
    order: list[str] = []

    def take(name: str, alone: bool) -> None:
        with turn(tmp_path, alone):
            order.append(name)

    def gate_is_free() -> bool:
        with (tmp_path / "gate").open("a") as gate:
            try:
                portalocker.lock(gate, LockFlags.EXCLUSIVE | LockFlags.NON_BLOCKING)
            except portalocker.LockException:
                return False
            portalocker.unlock(gate)
            return True

    alone = threading.Thread(target=take, args=("alone", True))
    later = threading.Thread(target=take, args=("later", False))
    with turn(tmp_path, alone=False), turn(tmp_path, alone=False):  # two at once
        alone.start()
        until = time.monotonic() + 60
        while gate_is_free():
            assert time.monotonic() < until
        later.start()
        order.append("first")
    for thread in (alone, later):
        thread.join(60)
    assert order == ["first", "alone", "later"]
