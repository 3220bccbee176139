"""The shared process is killed at any moment while windows start, write and end: what was acknowledged is there, every
window ends or goes on, and nothing stays behind."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

import pytest
from shared_process import ON_LINUX, is_gone, until
from stdio_process import Client, running, tool

from memory_server import open_memory

pytestmark = [
    pytest.mark.skipif(not ON_LINUX, reason="looks into /proc"),
    pytest.mark.usefixtures("shared"),
]
SEED = 20261127
WINDOWS = 3
MOST_SECONDS = 1.0
"""The latest moment of a kill, counted from the start of the windows, or from the first write."""
PATIENCE = 60.0
"""Seconds in which a window must end, on a machine that others use too."""


class Writer:
    """A client with a window of its own, which writes until it is told to stop or its window ends."""

    def __init__(self, data_dir: Path, name: str) -> None:
        self.name = name
        self.acknowledged: list[str] = []
        self.status: int | None = None
        self._data_dir = data_dir
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()

    def wait(self) -> None:
        self._thread.join(PATIENCE)
        assert not self._thread.is_alive(), f"the window of {self.name} hangs"

    def _run(self) -> None:
        with running(_command(self._data_dir, self.name)) as client:
            with suppress(AssertionError, OSError):  # its window has ended
                client.connect()
                self._write(client)
            with suppress(OSError):
                client.stdin.close()
            client.process.wait(PATIENCE)
            self.status = client.process.returncode

    def _write(self, client: Client) -> None:
        while not self._stop.is_set():
            text = f"{self.name} says {len(self.acknowledged)}"
            client.send(
                tool("write", "add_short_term_memory", messages=[{"role": "user", "content": text}])
            )
            answer = client.read()
            if "result" not in answer or answer["result"]["isError"]:
                return  # its process ends
            self.acknowledged.append(text)


def _command(data_dir: Path, name: str) -> list[str]:
    """A program that is started and not forked from the tests: the shared process is found by its arguments."""
    return [
        sys.executable,
        "-P",
        "-X",
        "utf8",
        "-m",
        "memory_server",
        "--data-dir",
        str(data_dir),
        "-c",
        name,
    ]


def processes(folder: Path) -> list[int]:
    """The processes that were started for this test, with the workers of their sandboxes."""
    mark = f"XDG_RUNTIME_DIR={folder}\0".encode()
    pids: list[int] = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal() and int(entry.name) != os.getpid():
            with suppress(OSError):
                if mark in (entry / "environ").read_bytes() and not is_gone(int(entry.name)):
                    pids.append(int(entry.name))
    return pids


def kill_shared(folder: Path) -> bool:
    """Kill the shared process, also one that is just starting; whether there was one."""
    for pid in processes(folder):
        with suppress(OSError):
            arguments = Path(f"/proc/{pid}/cmdline").read_bytes()
            if b"memory_server.cli.windows" in arguments:
                os.kill(pid, signal.SIGKILL)
                return True
    return False


async def texts_in(data_dir: Path, names: list[str]) -> dict[str, set[str]]:
    texts: dict[str, set[str]] = {name: set() for name in names}
    async with open_memory(data_dir) as memory:
        for name in names:
            state = await memory.store.read(name)
            for stored in state.short_term.values():
                texts[name].update(message.content for message in stored.messages)
    return texts


@pytest.mark.parametrize("kills", [2, pytest.param(1_000, marks=pytest.mark.full)])
def test_a_killed_shared_process_loses_nothing_and_leaves_nothing(
    tmp_path: Path, shared: Path, kills: int
) -> None:
    chance = random.Random(SEED)
    data_dir = tmp_path / "data"
    acknowledged: dict[str, list[str]] = {}
    killed = 0
    rounds = 0
    while killed < kills:
        rounds += 1
        assert rounds <= 10 + 4 * kills, (
            f"only {killed} processes were found and killed in {rounds} rounds"
        )
        writers = [Writer(data_dir, f"w{rounds}-{number}") for number in range(WINDOWS)]
        if rounds % 2:  # while they write; in the other rounds also while they start
            until(lambda writers=writers: any(writer.acknowledged for writer in writers), PATIENCE)  # type: ignore[misc]
        time.sleep(chance.uniform(0, MOST_SECONDS))
        killed += kill_shared(shared.parent)
        # A window that was not served yet starts another process, or does the work itself.
        for writer in writers:
            writer.stop()
        for writer in writers:
            writer.wait()
            assert writer.status in (0, 1), (
                f"the window of {writer.name} ended with {writer.status}"
            )
            acknowledged[writer.name] = writer.acknowledged
        if rounds % 4 == 0:  # the other rounds leave a process that serves the next windows
            killed += kill_shared(shared.parent)
    kill_shared(shared.parent)
    until(lambda: not processes(shared.parent), PATIENCE)
    assert sum(map(len, acknowledged.values())) > 0, (
        "windows were killed before they wrote anything"
    )
    stored = asyncio.run(texts_in(data_dir, list(acknowledged)))
    for name, texts in acknowledged.items():
        assert set(texts) <= stored[name], (
            f"{name} was told that something is stored which is not there"
        )
