"""Processes of `memory-server` that begin with its modules already imported.

The imports of a server take 1.3 s of processor time, and hundreds of tests start one. A template process of the test
run imports them once. For each program it forks a child, which gets arguments, environment, folder and pipes of its
own and then runs as `python -m memory_server` does. Real ones are started by tests/clients, tests/hosts and
tests/e2e/test_stdio_server, by the benchmarks, and by everything here on a system that is not Linux."""

from __future__ import annotations

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
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import IO, Any

from memory_server.process.invocation import PER_SESSION_VARIABLES, Invocation

PATIENCE = 60.0
"""Seconds until the template has imported everything, on a machine that others use too."""
MOST_REQUEST_BYTES = 1 << 20
_CAN_FORK = sys.platform == "linux" and "PYTEST_VERSION" in os.environ
"""Whether this is a test on a system where it works."""
_ASKING = threading.Lock()
"""Held while one program is asked for; tests start programs in several threads."""
Stream = int | IO[bytes] | None
"""A standard stream as `subprocess.Popen` takes it: a descriptor, one of its constants, a file, or that of this process."""


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


def start(
    arguments: Sequence[str | Path], **options: Any
) -> ForkedProgram | subprocess.Popen[bytes]:
    """Start `python -m memory_server` with these arguments; the options are those of `subprocess.Popen`."""
    if _CAN_FORK:
        return ForkedProgram(arguments, **options)
    return subprocess.Popen(
        [sys.executable, "-m", "memory_server", *map(str, arguments)], **options
    )


class ForkedProgram:
    """A program that the template forked, with what tests use of `subprocess.Popen`."""

    def __init__(
        self,
        arguments: Sequence[str | Path],
        *,
        stdin: Stream = None,
        stdout: Stream = None,
        stderr: Stream = None,
        env: Mapping[str, str] | None = None,
        cwd: str | Path | None = None,
    ) -> None:
        self.returncode: int | None = None
        self._reading_status = threading.Lock()
        input_end, self.stdin = _stream_of_program(0, stdin)
        output_end, self.stdout = _stream_of_program(1, stdout)
        if stderr == subprocess.STDOUT:
            stderr = output_end
        error_end, self.stderr = _stream_of_program(2, stderr)
        self._status, status_of_template = os.pipe()
        """The template writes the exit status into this pipe."""

        request = {
            "arguments": [str(argument) for argument in arguments],
            "environment": dict(os.environ if env is None else env),
            "folder": str(Path.cwd() if cwd is None else cwd),
        }
        data = json.dumps(request).encode()
        assert len(data) <= MOST_REQUEST_BYTES
        given = [input_end, output_end, error_end, status_of_template]
        with _ASKING:
            control = _template().control
            socket.send_fds(control, [data], given)
            self.pid = int(control.recv(32))
        for descriptor in given:
            os.close(descriptor)

    def __enter__(self) -> ForkedProgram:
        return self

    def __exit__(self, *_: object) -> None:
        """Close the pipes and wait for the end of the program."""
        try:
            for pipe in (self.stdout, self.stderr, self.stdin):
                if pipe is not None:
                    pipe.close()
        finally:
            self.wait()

    def poll(self) -> int | None:
        """Return the exit status, or None while the program runs, and while another thread waits for it."""
        if self._reading_status.acquire(blocking=False):
            try:
                self._read_status(0)
            finally:
                self._reading_status.release()
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Return the exit status. Raise `subprocess.TimeoutExpired` if the program does not end in time."""
        with self._reading_status:
            self._read_status(timeout)
        if self.returncode is None:
            raise subprocess.TimeoutExpired("memory-server", timeout or 0)
        return self.returncode

    def _read_status(self, timeout: float | None) -> None:
        """Store the exit status if the template tells it within `timeout` seconds."""
        if self.returncode is not None:
            return
        is_told, _, _ = select.select([self._status], [], [], timeout)
        if is_told:
            status = int(os.read(self._status, 32) or b"0")
            os.close(self._status)
            self.returncode = os.waitstatus_to_exitcode(status)

    def communicate(
        self, given: bytes | None = None, timeout: float = PATIENCE
    ) -> tuple[bytes, bytes]:
        """Write `given` to standard input, and return all that the program writes. End it if it takes too long."""
        late = threading.Timer(timeout, self.kill)
        late.start()
        try:
            with ThreadPoolExecutor(2) as readers:
                output, errors = (
                    readers.submit(_read_to_end, pipe) for pipe in (self.stdout, self.stderr)
                )
                if self.stdin is not None:
                    with suppress(BrokenPipeError), self.stdin:
                        self.stdin.write(given or b"")
                texts = output.result(), errors.result()
            self.wait()
        finally:
            late.cancel()
        return texts

    def send_signal(self, number: int) -> None:
        # The template may have waited for the program before it tells that it ended.
        if self.poll() is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


def _read_to_end(pipe: IO[bytes] | None) -> bytes:
    if pipe is None:
        return b""
    with pipe:
        return pipe.read()


def _stream_of_program(number: int, wanted: Stream) -> tuple[int, IO[bytes] | None]:
    """Return the descriptor that the program gets as this standard stream, and our end if the stream is a pipe."""
    if wanted is None:
        return os.dup(number), None
    if wanted == subprocess.DEVNULL:
        return os.open(os.devnull, os.O_RDWR), None
    if wanted != subprocess.PIPE:
        return os.dup(wanted if isinstance(wanted, int) else wanted.fileno()), None
    reader, writer = os.pipe()
    if number == 0:
        return reader, os.fdopen(writer, "wb")
    return writer, os.fdopen(reader, "rb")


def run(
    arguments: Sequence[str | Path], stdin: bytes = b"", timeout: float = PATIENCE, **options: Any
) -> subprocess.CompletedProcess[bytes]:
    """As `subprocess.run` of `python -m memory_server`, with its output."""
    pipe = subprocess.PIPE
    with start(arguments, stdin=pipe, stdout=pipe, stderr=pipe, **options) as program:
        output, errors = program.communicate(stdin, timeout)
    return subprocess.CompletedProcess(arguments, program.returncode, output, errors)


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
            data, descriptors, _, _ = socket.recv_fds(control, MOST_REQUEST_BYTES, 4)
            if not data:
                os._exit(0)
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
                _become(json.loads(data), descriptors[:3])
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
