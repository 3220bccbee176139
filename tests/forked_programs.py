"""Processes of `memory-server` that begin with its modules already imported.

The imports of a server take 1.3 s of processor time, and hundreds of tests start one. A template process of the test
run imports them once. For each program it forks a child, which gets arguments, environment, folder and pipes of its
own and then runs as `python -m memory_server` does. Real ones are started by tests/clients, tests/hosts and
tests/e2e/test_stdio_server, by the benchmarks, and by everything here on a system that is not Linux."""

from __future__ import annotations

import array
import inspect
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from memory_server.process.invocation import PER_SESSION_VARIABLES, Invocation

PATIENCE = 60.0
"""Seconds until the template has imported everything, on a machine that others use too."""
MOST_REQUEST_BYTES = 1 << 20
_CAN_FORK = sys.platform == "linux" and "PYTEST_VERSION" in os.environ
"""Whether this is a test on a system where it works."""
_ASKING = threading.Lock()
"""Held while one program is asked for; tests start programs in several threads."""
_SIGNATURE = inspect.signature(subprocess.Popen._execute_child)  # type: ignore[attr-defined]


@dataclass(frozen=True, slots=True)
class Template:
    """The process that forks, and the socket that takes requests."""

    process: subprocess.Popen[bytes]
    control: socket.socket


@cache
def _template() -> Template:
    """The template of this test process."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    tests = Path(__file__).resolve().parent
    code = f"import sys; sys.path[:0] = [{str(tests.parent)!r}, {str(tests)!r}]; import forked_programs as f; f.serve()"
    command = [sys.executable, "-P", "-c", code, str(theirs.fileno())]
    nothing = subprocess.DEVNULL
    process = subprocess.Popen(
        command, stdin=nothing, stdout=nothing, stderr=nothing, pass_fds=[theirs.fileno()]
    )
    theirs.close()
    ours.settimeout(PATIENCE)
    assert ours.recv(1) == b"r", "the template does not start"
    return Template(process, ours)


def end_template() -> None:
    if _template.cache_info().currsize:
        template = _template()
        template.control.close()
        template.process.wait(PATIENCE)
        _template.cache_clear()


class Program(subprocess.Popen[bytes]):
    """`subprocess.Popen` of `python -m memory_server` with these arguments, forked from the template."""

    def __init__(self, arguments: Sequence[str | Path], **options: Any) -> None:
        self._status: int | None = None
        """Where the template writes the exit status: a file descriptor."""
        super().__init__([sys.executable, "-m", "memory_server", *map(str, arguments)], **options)

    def _execute_child(self, *values: Any) -> None:
        if not _CAN_FORK:
            super()._execute_child(*values)  # type: ignore[misc]
            return
        options = _SIGNATURE.bind(self, *values).arguments
        with _ASKING:
            control = _template().control
        status, status_of_template = os.pipe()
        environment = os.environ if options["env"] is None else options["env"]
        request = {
            "arguments": options["args"][3:],
            "environment": dict(environment),
            "folder": Path.cwd().as_posix() if options["cwd"] is None else str(options["cwd"]),
        }
        own = [options["p2cread"], options["c2pwrite"], options["errwrite"]]
        pipes = [
            number if descriptor == -1 else descriptor for number, descriptor in enumerate(own)
        ]
        data = json.dumps(request).encode()
        assert len(data) <= MOST_REQUEST_BYTES
        rights = array.array("i", [*pipes, status_of_template])
        with _ASKING:
            control.sendmsg([data], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)])
            self.pid = int(control.recv(32))
        self._child_created = True
        self._status = status
        os.close(status_of_template)
        ends = ("p2cread", "p2cwrite", "c2pread", "c2pwrite", "errread", "errwrite")
        self._close_pipe_fds(*(options[end] for end in ends))  # type: ignore[attr-defined]

    def _try_wait(self, flags: int) -> tuple[int, int]:
        """As `os.waitpid`, of which the template tells."""
        if self._status is None:
            result: tuple[int, int] = super()._try_wait(flags)  # type: ignore[misc]
            return result
        if flags & os.WNOHANG and not select.select([self._status], [], [], 0)[0]:
            return 0, 0
        status = int(os.read(self._status, 32) or b"0")
        os.close(self._status)
        return self.pid, status

    def _internal_poll(self, _deadstate: int | None = None, **_: Any) -> int | None:
        if self._status is None:
            code: int | None = super()._internal_poll(_deadstate)  # type: ignore[misc]
            return code
        is_waited_for = not self._waitpid_lock.acquire(False)  # type: ignore[attr-defined]
        if is_waited_for:
            return None  # by another thread, which reads the status
        try:
            if self.returncode is None:
                pid, status = self._try_wait(os.WNOHANG)
                if pid == self.pid:
                    self._handle_exitstatus(status)  # type: ignore[attr-defined]
            return self.returncode
        finally:
            self._waitpid_lock.release()  # type: ignore[attr-defined]


def run(
    arguments: Sequence[str | Path], stdin: bytes = b"", timeout: float = PATIENCE, **options: Any
) -> Any:
    """As `subprocess.run` of `python -m memory_server`, with its output."""
    pipe = subprocess.PIPE
    with Program(arguments, stdin=pipe, stdout=pipe, stderr=pipe, **options) as program:
        try:
            out, err = program.communicate(stdin, timeout)
        except BaseException:
            program.kill()
            raise
        return subprocess.CompletedProcess(program.args, program.returncode, out, err)


def serve() -> None:
    """The template: import what servers need, then fork a program for each request. Ends with the test process."""
    control = socket.socket(fileno=int(sys.argv[1]))
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    import gc

    import forked_workers  # noqa: F401 - imports what a trigger worker needs
    import numpy  # noqa: F401 - the search of many memories needs it
    import uvicorn.protocols.http.h11_impl
    import uvicorn.protocols.websockets.auto  # noqa: F401

    import memory_server.__main__
    import memory_server.cli.serve
    import memory_server.cli.windows
    import memory_server.process.http_service
    import memory_server.tools
    import nlp

    nlp.load()
    gc.collect()
    gc.freeze()
    waking, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    statuses: dict[int, int] = {}
    control.send(b"r")
    while True:
        ready, _, _ = select.select([control, waking], [], [])
        if waking in ready:
            os.read(waking, 1024)
            _tell_of_ends(statuses)
        if control in ready:
            data, ancillary, _, _ = control.recvmsg(MOST_REQUEST_BYTES, socket.CMSG_SPACE(4 * 4))
            if not data:
                os._exit(0)
            descriptors = array.array("i")
            descriptors.frombytes(ancillary[0][2])
            pid = os.fork()
            if pid == 0:
                signal.set_wakeup_fd(-1)
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                for descriptor in (
                    control.detach(),
                    waking,
                    wake,
                    descriptors[3],
                    *statuses.values(),
                ):
                    os.close(descriptor)
                _become(json.loads(data), list(descriptors[:3]))
                raise SystemExit(memory_server.__main__.main())
            statuses[pid] = descriptors[3]
            for descriptor in descriptors[:3]:
                os.close(descriptor)
            control.send(str(pid).encode())
            _tell_of_ends(statuses)


def _tell_of_ends(statuses: dict[int, int]) -> None:
    """Write the exit status of each child that has ended."""
    while statuses:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid == 0:
            return
        descriptor = statuses.pop(pid)
        with suppress(BrokenPipeError):  # nobody waits for it
            os.write(descriptor, str(status).encode())
        os.close(descriptor)


def _become(request: Mapping[str, Any], pipes: Sequence[int]) -> None:
    """Take the pipes, environment, folder and arguments of the program."""
    import random

    import forked_workers

    import memory_server
    from memory_server.process import entrance

    for number, descriptor in enumerate(pipes):
        os.dup2(descriptor, number)
    for descriptor in pipes:
        os.close(descriptor)
    # The streams of the template remember what it had for input and output.
    sys.stdin = sys.__stdin__ = _stream(0, "r")  # type: ignore[misc]
    sys.stdout = sys.__stdout__ = _stream(1, "w")  # type: ignore[misc]
    sys.stderr = sys.__stderr__ = _stream(2, "w", errors="backslashreplace", buffering=1)  # type: ignore[misc]
    os.environ.clear()
    os.environ.update(request["environment"])
    time.tzset()
    random.seed()
    os.chdir(request["folder"])
    sys.argv[:] = [
        str(Path(memory_server.__file__).with_name("__main__.py")),
        *request["arguments"],
    ]
    entrance._start = _start_shared_process
    forked_workers.fork_workers()


def _start_shared_process(listener: int, path: str, invocation: Invocation) -> None:
    """In place of `entrance._start`: the shared process is forked from the window that starts it."""
    from memory_server.cli import windows

    if os.fork() != 0:
        return
    os.setsid()
    os.chdir("/")
    log = os.open(
        path.removesuffix(".sock") + ".log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600
    )
    nothing = os.open(os.devnull, os.O_RDWR)
    for number, descriptor in enumerate((nothing, nothing, log)):
        os.dup2(descriptor, number)
    os.closerange(3, listener)
    os.closerange(listener + 1, os.sysconf("SC_OPEN_MAX"))
    environment = {
        name: value
        for name, value in invocation.environ.items()
        if name not in PER_SESSION_VARIABLES
    }
    os.environ.clear()
    os.environ.update(environment)
    sys.argv[:] = ["-c", path, str(listener), *invocation.flags]
    windows.main()


def _stream(descriptor: int, mode: str, *, errors: str = "strict", buffering: int = -1) -> Any:
    """A standard stream, made as Python makes it at its start."""
    return open(descriptor, mode, buffering, "utf-8", errors, closefd=False)
