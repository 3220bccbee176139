"""The entrance of `memory-server`: it hands a client to the shared process of this user where there is one.

`serve` gives its standard input and output to that process, and starts it if it does not run. Other commands that are
`shared` (command_table.py) ask it, and do not start it (`recall --start` and `remember --start` do). Whatever is in
doubt is done in this process, which is always right: several processes on one folder are normal. This module is what a
user waits for at each prompt: it imports only what it needs.
"""

from __future__ import annotations

import os
import stat
import sys

from memory_server.shared_process.invocation import PER_SESSION_VARIABLES, Invocation, program_root
from memory_server.shared_process.protocol import (
    ANSWERS,
    ASK_SECONDS,
    CONNECT_SECONDS,
    PROTOCOL,
    START_SECONDS,
    CannotShare,
    answer_of,
    ask,
    connected,
    folder,
    socket_at,
)

TYPE_CHECKING = False  # `typing` would take a tenth of the time
if TYPE_CHECKING:
    from collections.abc import Sequence
    from socket import socket

RECALL_SECONDS = 0.5
"""How long a hook waits before it recalls by itself, which takes about as long."""
RECALLS = ("UserPromptSubmit", "SessionStart", "sessionStart")
"""Events for which nothing is stored, so that they may be answered twice."""
END_SECONDS = LOOK_SECONDS = 1.0
"""How long a session has to end after a signal, and the time between two looks for the parent: one system call."""
OF_TERMINAL = ("TERM", "COLORTERM", "NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "COLUMNS", "LINES")
"""Variables that say how output for people looks."""
waited = 0.0
"""Seconds that this process waited for the shared one in vain: a hook has so much less patience left."""


def _started(path: str, asked: Invocation) -> tuple[socket, float]:
    """A connection to the process at `path`, and how long it may take to answer; starts it if nobody listens.

    Who holds the lock binds and listens, and hands the listening socket to the process: the kernel queues all clients
    until the process accepts them. Raises CannotShare: the lock is held for too long.
    """
    import fcntl
    import socket
    import time

    try:
        found = os.stat(path)
        starts = stat.S_IMODE(found.st_mode) != ANSWERS and abs(time.time() - found.st_mtime) < START_SECONDS
        return connected(path, CONNECT_SECONDS), START_SECONDS if starts else CONNECT_SECONDS
    except (FileNotFoundError, ConnectionRefusedError):
        pass
    lock = os.open(path.removesuffix(".sock") + ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        for _ in range(round(CONNECT_SECONDS / 0.005)):
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # held for as long as it takes to start a process
                break
            except BlockingIOError:
                time.sleep(0.005)
        else:
            raise CannotShare
        try:
            return connected(path, CONNECT_SECONDS), START_SECONDS
        except (FileNotFoundError, ConnectionRefusedError):
            pass
        with socket.socket(socket.AF_UNIX) as listener:
            if os.path.lexists(path):
                os.unlink(path)
            listener.bind(path)
            os.chmod(path, 0o600)
            listener.listen(128)
            _start(listener.fileno(), path, asked)
        return connected(path, CONNECT_SECONDS), START_SECONDS
    finally:
        os.close(lock)


def _start(listener: int, path: str, asked: Invocation) -> None:
    import subprocess

    root = program_root()
    code = (
        "import sys; sys.path.insert(0, sys.argv.pop(1)); "
        "from memory_server.shared_process.invocation import installed_packages_first; installed_packages_first(); "
        "from memory_server.cli.windows import main; main()"
    )
    log = os.open(path.removesuffix(".sock") + ".log", os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    subprocess.Popen(
        [sys.executable, "-P", "-X", "utf8", "-c", code, root, path, str(listener), *asked.flags],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=log,
        cwd="/",
        env={name: value for name, value in asked.environ.items() if name not in PER_SESSION_VARIABLES},
        pass_fds=[listener],
        start_new_session=True,
    )
    os.close(log)


def _session(connection: socket) -> int:
    """The exit status of a session, when it has ended. A signal, or the end of the parent, ends it."""
    import signal
    import socket
    import time

    ends, parent, answer = 0.0, os.getppid(), b""

    def end(*_: object) -> None:
        nonlocal ends
        if not ends:
            ends = time.monotonic() + END_SECONDS
            connection.shutdown(socket.SHUT_WR)

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:  # as nohup does
            signal.signal(number, end)
    connection.settimeout(LOOK_SECONDS)
    while not answer.endswith(b"\n"):
        try:
            data = connection.recv(64)
        except TimeoutError:
            if ends and time.monotonic() > ends:
                return 0
            if parent > 1 and os.getppid() != parent:
                end()
            continue
        if not data:
            raise ConnectionResetError
        answer += data
    return int(answer.split()[0])


def _say(template: str, *values: object) -> None:
    """Write an error message, in the language of this user, if anybody reads it."""
    from contextlib import suppress

    from sandbox import language_of
    from sandbox.locale import _, speak, translated

    speak(language_of(sys.argv[1:], os.environ), os.path.join(program_root(), "memory_server"))
    with suppress(OSError):
        os.write(2, f"memory-server: {translated(_(template, *values))}\n".encode())


def _served(path: str, asked: Invocation, fields: Sequence[str]) -> int:
    """The exit status of a session. Raises ConnectionError: the process ended before it accepted."""
    connection, seconds = _started(path, asked)
    with connection:
        connection.settimeout(seconds)
        ask(connection, fields, descriptors=True)
        try:
            return _session(connection)
        except OSError:
            _say("the shared process has ended; start the server again")
            return 1


def _shared(asked: Invocation) -> int:
    """The exit status of what the shared process did. Raises an exception: it was not done, or may be done twice."""
    key = asked.key()
    path = socket_at(folder(asked.environ), key)
    window = [f"{name}={asked.environ[name]}" for name in PER_SESSION_VARIABLES if name in asked.environ]
    if asked.command.shared == "look":
        window += terminal_of(asked.environ)
    fields = [PROTOCOL, key, asked.command.name, os.getcwd(), *window, "", *asked.arguments]
    if asked.command.shared == "window":
        try:
            return _served(path, asked, fields)
        except ConnectionError:  # it was killed before it accepted, and so did nothing
            return _served(path, asked, fields)
    seconds = ASK_SECONDS
    if asked.starts:
        connection, seconds = _started(path, asked)
        connection.close()
    elif not os.path.exists(path):
        raise CannotShare
    _give_up_after(asked.timeout_seconds() if asked.command.shared == "hook" else 0)
    try:
        status, output, errors = _answered(path, asked, fields, seconds)
    finally:
        _give_up_after(0)
    return _written(asked, status, output, errors)


def terminal_of(environ: dict[str, str]) -> list[str]:
    """What output for people must know of this terminal: its variables and width, and which streams are one."""
    known = {name: environ[name] for name in OF_TERMINAL if name in environ}
    for each in (0, 1, 2) if known.get("TERM", "").lower() not in ("dumb", "unknown") else ():
        try:
            known.setdefault("COLUMNS", str(os.get_terminal_size(each).columns or 80))
        except OSError:
            continue
    known["TERMINALS"] = "".join(str(each) for each in (1, 2) if os.isatty(each))
    return [f"{name}={value}" for name, value in known.items()]


def _answered(path: str, asked: Invocation, fields: Sequence[str], seconds: float) -> tuple[int, bytes, bytes]:
    """`seconds`: how long the process may take to listen, which is more when it starts."""
    given = _read_input() if asked.reads_input else b""
    with connected(path, seconds) as connection:
        ask(connection, fields, given)
        if asked.command.shared == "hook":
            _wait_or_take_back(connection, given)
        else:
            connection.settimeout(None)
        try:
            return answer_of(connection)
        except (OSError, CannotShare):
            if asked.command.changes != "memories":
                raise
            _say("the shared process ended, so this may or may not have been stored; look before you repeat it")
            return 1, b"", b""


def _wait_or_take_back(connection: socket, given: bytes) -> None:
    """Wait for an answer to the event `given`, and take it back if none comes soon; the next read then fails, or finds
    an answer that was on its way. A turn that ended is not taken back: it must not be stored twice."""
    global waited
    import socket
    import time
    from contextlib import suppress

    began = time.monotonic()
    connection.settimeout(RECALL_SECONDS)
    try:
        connection.recv(1, socket.MSG_PEEK)
    except TimeoutError:
        import json

        event = json.loads(given)
        if event.get("hook_event_name", event.get("hookEventName")) in RECALLS:
            with suppress(OSError):  # it has just answered
                connection.sendall(b"t")
            connection.settimeout(ASK_SECONDS)
            waited = time.monotonic() - began
            return
    connection.settimeout(None)


def _written(asked: Invocation, status: int, *texts: bytes) -> int:
    """The exit status after `texts` were written to standard output and error. What cannot be written must not let this
    process do the work again."""
    try:
        for descriptor, text in zip((1, 2), texts, strict=True):
            while text:
                text = text[os.write(descriptor, text) :]
    except BrokenPipeError:
        pass  # as with a command that does the work itself: the reader has what it wanted
    except OSError as error:
        _say("the answer could not be written: {reason}", error.strerror)
        return 0 if asked.command.shared == "hook" else 1
    return status


def _give_up_after(seconds: float) -> None:
    """End this process after `seconds` without output, which means "nothing"; 0: do not."""
    import signal

    def give_up(*_: object) -> None:
        _say("hook: gave up after {seconds:g} s; --seconds allows more", seconds)
        os._exit(0)

    signal.signal(signal.SIGALRM, give_up)
    signal.setitimer(signal.ITIMER_REAL, seconds)


def _read_input() -> bytes:
    """What standard input holds; who reads it afterwards finds the same."""
    import io

    given = sys.stdin.buffer.read()
    sys.stdin = io.TextIOWrapper(io.BytesIO(given))
    return given


def shared() -> int | None:
    """Let the shared process do what the command line asks for; the exit status. None: it does not, this one does.

    A person at a terminal is not a client of the protocol, and what is typed there is read by this process.
    """
    if sys.platform not in ("linux", "darwin") or sys.getfilesystemencoding() != "utf-8":
        return None
    if None in (sys.stdin, sys.stdout, sys.stderr):
        return None
    try:
        asked = Invocation(sys.argv[1:], os.environ)
        if asked.command.shared == "look" and sys.stdout.encoding.lower() != "utf-8":
            return None  # the process answers in UTF-8
        if asked.reads_input and sys.stdin.isatty():
            return None
        return _shared(asked)
    except KeyboardInterrupt:
        return 130
    except Exception:  # the same in this process works, or says what is wrong
        return None
