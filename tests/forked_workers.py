"""Trigger workers of forked programs: each is forked from the server that needs it, and has its modules already.

A worker takes 0.3 s of processor time to start, of which the fork saves two thirds. It gives up the same powers as a
real one. Its bound of memory is higher by what the server has, since the fork shares that."""

from __future__ import annotations

import gc
import os
import resource
import signal
import sys
import time
from asyncio import events
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import py_mini_racer  # noqa: F401 - imported once for all workers
from connected_process import ConnectedProcess

from sandbox.host import process as host_process
from sandbox.worker import main as worker_main

_SIGNALS = (signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD, signal.SIGQUIT, signal.SIGUSR1)
"""Those that a server may handle; a worker does not."""


def fork_workers() -> None:
    """From now on the sandboxes of this process fork their workers."""
    host_process._run_program = _fork_program  # type: ignore[assignment]


@dataclass
class ForkedProgram:
    """What `ConnectedProcess` needs of `subprocess.Popen`."""

    pid: int
    stdin: IO[bytes] | None
    stdout: IO[bytes] | None
    returncode: int | None = None

    def poll(self) -> int | None:
        return self._waited(os.WNOHANG)

    def wait(self) -> int | None:
        return self._waited(0)

    def kill(self) -> None:
        if self.poll() is None:
            os.kill(self.pid, signal.SIGKILL)

    def _waited(self, flags: int) -> int | None:
        if self.returncode is None:
            pid, status = os.waitpid(self.pid, flags)
            if pid:
                self.returncode = os.waitstatus_to_exitcode(status)
        return self.returncode


async def _fork_program(settings: Mapping[str, Any], timezone: str | None) -> ConnectedProcess:
    """In place of the function of this name."""
    environment = host_process.environment(timezone)
    data_mb = settings["data_mb"] + _data_mb()
    requests, requests_of_server = os.pipe()
    answers_of_server, answers = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            _become_worker({**settings, "data_mb": data_mb}, environment, requests, answers)
        finally:
            os._exit(1)
    os.close(requests)
    os.close(answers)
    program = ForkedProgram(
        pid, os.fdopen(requests_of_server, "wb", 0), os.fdopen(answers_of_server, "rb", 0)
    )
    return await ConnectedProcess.connected(program, "")


def _data_mb() -> int:
    """MiB of private memory that this process has."""
    lines = Path("/proc/self/status").read_text().splitlines()
    (data,) = (line for line in lines if line.startswith("VmData:"))
    return int(data.split()[1]) // 1024 + 1


def _become_worker(
    settings: Mapping[str, Any], environment: Mapping[str, str], requests: int, answers: int
) -> None:
    """Runs worker/main.py in this process, which has just been forked."""
    gc.freeze()  # what the server no longer needs would close descriptors that are in use here
    signal.set_wakeup_fd(-1)
    for number in _SIGNALS:
        signal.signal(number, signal.SIG_DFL)
    os.dup2(requests, 0)
    os.dup2(answers, 1)
    os.closerange(3, resource.getrlimit(resource.RLIMIT_NOFILE)[0])
    os.environ.clear()
    os.environ.update(environment)
    time.tzset()
    events._set_running_loop(None)
    sys.stdout = sys.stderr = os.fdopen(os.open(os.devnull, os.O_WRONLY), "w")
    worker_main.main(settings)
