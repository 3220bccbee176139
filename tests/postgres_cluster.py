"""PostgreSQL servers of a test's own, which may crash: in a folder, on a loopback port and a socket."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

PROGRAMS = sorted(
    Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: float(path.parent.name)
)
_SETTINGS = (
    "max_connections=60",
    "shared_buffers=16MB",
    "max_wal_senders=4",
    "wal_level=replica",
    "fsync=on",
)


class Cluster:
    """A server; `copy_of`: as a standby of another one."""

    def __init__(self, folder: Path, copy_of: Cluster | None = None) -> None:
        self.folder = folder
        self.port = _free_port()
        self.data = folder / f"data-{self.port}"
        self.log = folder / f"log-{self.port}"
        if copy_of is None:
            self._run(
                "initdb",
                "-D",
                self.data,
                "-U",
                "postgres",
                "-A",
                "trust",
                "-E",
                "UTF8",
                "--no-sync",
            )
        else:
            where = f"host=127.0.0.1 port={copy_of.port} user=postgres application_name=copy"
            self._run(
                "pg_basebackup",
                "-D",
                self.data,
                "-R",
                "-X",
                "stream",
                "-c",
                "fast",
                "--no-sync",
                "-d",
                where,
            )

    @property
    def url(self) -> str:
        return f"postgresql://postgres@127.0.0.1:{self.port}/postgres"

    def start(self, *settings: str) -> None:
        where = (
            f"port={self.port}",
            f"unix_socket_directories={self.folder}",
            "listen_addresses=127.0.0.1",
        )
        flags = " ".join(f"-c {setting}" for setting in (*_SETTINGS, *where, *settings))
        self._run("pg_ctl", "-D", self.data, "-l", self.log, "-o", flags, "-w", "-s", "start")

    def stop(self, mode: str = "immediate") -> None:
        if (self.data / "postmaster.pid").exists():
            self._run("pg_ctl", "-D", self.data, "-m", mode, "-w", "-s", "stop")

    def promote(self) -> None:
        self._run("pg_ctl", "-D", self.data, "-w", "-s", "promote")

    def _run(self, name: str, *words: object) -> None:
        command = [str(PROGRAMS[-1] / name), *map(str, words)]
        if os.getuid() == 0:
            command = [
                "runuser",
                "-u",
                "postgres",
                "--",
                *command,
            ]  # the programs refuse to run as root
        done = subprocess.run(command, cwd=self.folder, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, (name, done.stdout[-2000:], done.stderr[-2000:])


@contextmanager
def clusters() -> Iterator[Cluster]:
    """A running server, whose standbys may be made in the same folder; all of them are stopped afterwards."""
    if not PROGRAMS:
        pytest.skip("no programs of PostgreSQL in /usr/lib/postgresql, so no server of its own")
    folder = Path(tempfile.mkdtemp(prefix="pg", dir="/tmp"))
    try:
        if os.getuid() == 0:
            shutil.chown(folder, "postgres")
        cluster = Cluster(folder)
        cluster.start()
        yield cluster
    finally:
        for pid_file in folder.glob("data-*/postmaster.pid"):
            stopped = Cluster.__new__(Cluster)
            stopped.folder = folder
            stopped.data = pid_file.parent
            stopped.stop()
        shutil.rmtree(folder, ignore_errors=True)


def _free_port() -> int:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        port: int = server.getsockname()[1]
        return port
