"""The entrance of `memory-server`: it hands a client to the shared process of this user where there is one.

`serve` carries the bytes of standard input and output to that process and back (pump.py), and starts it if it does not
run. Other commands that are
`shared` (command_table.py) ask it, and do not start it (`recall --start` and `remember --start` do, and after an update
a hook, which does not wait for it). Whatever is in
doubt is done in this process, which is always right: several processes on one folder are normal. This module is what a
user waits for at each prompt: it imports only what it needs.
"""

from __future__ import annotations

import os
import stat
import sys

from memory_server.process.invocation import PER_SESSION_VARIABLES, Invocation, program_root
from memory_server.process.protocol import (
    ANSWERS,
    ASK_SECONDS,
    CONNECT_SECONDS,
    PROTOCOL,
    START_SECONDS,
    Answer,
    CannotShare,
    answer_of,
    ask,
    connected,
    folder,
    other_program_listens,
    socket_at,
)

TYPE_CHECKING = False  # `typing` would take a tenth of the time
if TYPE_CHECKING:
    from _socket import socket
    from collections.abc import Callable, Sequence
    from typing import TypeVar

    T = TypeVar("T")

RECALL_SECONDS = 0.5
"""How long a hook waits before it recalls by itself, which takes about as long."""
RECALLS = ("UserPromptSubmit", "SessionStart", "sessionStart", "BeforeAgent")
"""Events for which nothing is stored, so that they may be answered twice."""
AT_TOOLS = ("PreToolUse", "PostToolUse", "PostToolUseFailure", "AfterTool")
"""Events that only the shared process answers: each call of a tool waits for the hook, and a process of its own takes half
a second to begin."""
_LOCK_PAUSE_SECONDS = 0.005
"""The pause between two tries to get the lock of a process that starts."""
OF_TERMINAL = ("TERM", "COLORTERM", "NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "COLUMNS", "LINES")
"""Variables that say how output for people looks."""
waited = 0.0
"""Seconds that this process waited for the shared one in vain; they are subtracted from the timeout of a hook."""


class _RunningProcess:
    """A shared process that runs: a connection to it, and how many seconds it may take to answer."""

    __slots__ = ("connection", "seconds")

    def __init__(self, connection: socket, seconds: float) -> None:
        self.connection = connection
        self.seconds = seconds


def _started(path: str, invocation: Invocation) -> _RunningProcess:
    """Return a connection to the process at `path`, which is started if no process listens.

    The process that holds the lock binds and listens, and hands the listening socket to the shared process: the kernel
    queues all clients until that process accepts them. Raise CannotShare if the lock is held for too long.
    """
    try:
        seconds = _seconds_to_answer(path)
        return _RunningProcess(connected(path, CONNECT_SECONDS), seconds)
    except (FileNotFoundError, ConnectionRefusedError):
        pass

    # Only one of several commands that begin at the same time starts the process.
    lock = os.open(
        path.removesuffix(".sock") + ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600
    )
    try:
        _take_lock(lock)

        # Another command may have started it while this one waited for the lock.
        try:
            return _RunningProcess(connected(path, CONNECT_SECONDS), START_SECONDS)
        except (FileNotFoundError, ConnectionRefusedError):
            pass

        _listen_and_start(path, invocation)
        return _RunningProcess(connected(path, CONNECT_SECONDS), START_SECONDS)
    finally:
        os.close(lock)


def _seconds_to_answer(path: str) -> float:
    """Return how long the process at `path` may take to answer, which is longer while it starts. Raise
    FileNotFoundError if no process listens there."""
    import time

    status = os.stat(path)
    age_seconds = abs(time.time() - status.st_mtime)
    is_starting = stat.S_IMODE(status.st_mode) != ANSWERS and age_seconds < START_SECONDS
    if is_starting:
        return START_SECONDS
    return CONNECT_SECONDS


def _take_lock(lock: int) -> None:
    """Wait for the lock, which another command holds for as long as it takes to start a process. Raise CannotShare if
    it is held for too long."""
    import fcntl
    import time

    for _ in range(round(CONNECT_SECONDS / _LOCK_PAUSE_SECONDS)):
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(_LOCK_PAUSE_SECONDS)
        else:
            return
    raise CannotShare


def _listen_and_start(path: str, invocation: Invocation) -> None:
    """Listen at `path`, in place of a socket that was left there, and start the shared process, which takes over the
    listener. The caller holds the lock. Raises OSError."""
    import socket

    with socket.socket(socket.AF_UNIX) as listener:
        if os.path.lexists(path):
            os.unlink(path)
        listener.bind(path)
        os.chmod(path, 0o600)
        listener.listen(128)
        _start(listener.fileno(), path, invocation)


def _start(listener: int, path: str, invocation: Invocation) -> None:
    """Start the shared process in a session of its own, with the socket `listener` and a log beside
    `path`, and do not wait for it. Raises OSError if the log cannot be opened or no process can
    start."""
    import subprocess

    root = program_root()
    code = (
        "import sys; sys.path.insert(0, sys.argv.pop(1)); "
        "from memory_server.process.invocation import installed_packages_first; installed_packages_first(); "
        "from memory_server.cli.windows import main; main()"
    )

    # Variables of a session must not reach a process that serves several of them.
    environ = {
        name: value
        for name, value in invocation.environ.items()
        if name not in PER_SESSION_VARIABLES
    }

    log = os.open(
        path.removesuffix(".sock") + ".log",
        os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC,
        0o600,
    )

    # The folder `/` keeps no disk busy, and a new session keeps the process alive when this one ends.
    subprocess.Popen(
        [
            sys.executable,
            "-P",
            "-X",
            "utf8",
            "-c",
            code,
            root,
            path,
            str(listener),
            *invocation.flags,
        ],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=log,
        cwd="/",
        env=environ,
        pass_fds=[listener],
        start_new_session=True,
    )

    os.close(log)


def _say(template: str, *values: object) -> None:
    """Write an error message, in the language of this user, if standard error is open."""
    from contextlib import suppress

    from languages import _, speak
    from languages.command_line import language_of

    speak(language_of(sys.argv[1:], os.environ))
    with suppress(OSError):
        os.write(2, f"memory-server: {_(template, *values)}\n".encode())


def _served(path: str, invocation: Invocation, fields: Sequence[str]) -> int:
    """Carry the bytes of a window to and from the shared process, which is started if none listens, until the session
    ends; return its exit status. Raise ConnectionError if the process ended before it accepted, CannotShare if it
    refuses."""
    from memory_server.process.pump import Pump  # here: hooks do not wait for it

    process = _started(path, invocation)
    connection = process.connection
    try:
        connection.settimeout(process.seconds)
        ask(connection, fields)
        try:
            return Pump(connection).run()
        except OSError:
            _say("the shared process has ended; start the server again")
            return 1
    finally:
        connection.close()


def _shared(invocation: Invocation) -> int:
    """Return the exit status of the command in the shared process. Raise an exception if it was not done or may be done
    twice."""
    key = invocation.key()
    path = socket_at(folder(invocation.environ), key)
    fields = _request_fields(invocation, key)

    if invocation.command.shared == "window":
        return _try_twice(lambda: _served(path, invocation, fields))

    if not invocation.starts and not os.path.exists(path):
        if invocation.command.shared == "hook" and other_program_listens(path):
            # After an update the windows keep the process of the old code, so no other command would start one for
            # hooks.
            _started(path, invocation).connection.close()
        raise CannotShare

    if invocation.command.shared == "hook":
        _set_give_up_timer(invocation.timeout_seconds())
    try:
        if invocation.starts:
            answer = _try_twice(lambda: _answered_when_started(path, invocation, fields))
        else:
            answer = _answered(path, invocation, fields, seconds=ASK_SECONDS)
    finally:
        _set_give_up_timer(0)
    return _written(answer, invocation)


def _try_twice(ask: Callable[[], T]) -> T:
    """Return what `ask` returns. Call it a second time if the process was killed before it accepted, so that it did
    nothing, or while it answered a command that changes nothing. Raise what the second call raises."""
    try:
        return ask()
    except ConnectionError:
        return ask()


def _answered_when_started(path: str, invocation: Invocation, fields: Sequence[str]) -> Answer:
    """Start the shared process, and then ask it over a connection of its own."""
    process = _started(path, invocation)
    process.connection.close()
    return _answered(path, invocation, fields, seconds=process.seconds)


def _request_fields(invocation: Invocation, key: str) -> list[str]:
    """Return the fields of a request, as protocol.py describes them."""
    environ = invocation.environ
    window = [f"{name}={environ[name]}" for name in PER_SESSION_VARIABLES if name in environ]
    if invocation.command.shared == "look":
        window += terminal_of(environ)
    return [PROTOCOL, key, invocation.command.name, os.getcwd(), *window, "", *invocation.arguments]


def terminal_of(environ: dict[str, str]) -> list[str]:
    """Return the facts about this terminal for output for people: its variables, its width, and its standard streams."""
    variables = {name: environ[name] for name in OF_TERMINAL if name in environ}
    if variables.get("TERM", "").lower() not in ("dumb", "unknown"):
        width = _terminal_width()
        if width is not None:
            variables.setdefault("COLUMNS", str(width))
    variables["TERMINALS"] = "".join(
        str(descriptor) for descriptor in (1, 2) if os.isatty(descriptor)
    )
    return [f"{name}={value}" for name, value in variables.items()]


def _terminal_width() -> int | None:
    """Return the width of the first standard stream that is a terminal. Return None if none is."""
    for descriptor in (0, 1, 2):
        try:
            return os.get_terminal_size(descriptor).columns or 80
        except OSError:
            continue
    return None


def _answered(
    path: str, invocation: Invocation, fields: Sequence[str], *, seconds: float
) -> Answer:
    """Return the answer of the process at `path`. `seconds` is how long it may take to listen, which is longer when
    it starts. If it gives none, raises OSError or CannotShare, or fails a command that may have changed memories
    already."""
    standard_input = b""
    if invocation.reads_input:
        standard_input = _read_input()

    connection = connected(path, seconds)
    try:
        ask(connection, fields, standard_input)

        if invocation.command.shared == "hook":
            _wait_or_take_back(connection, standard_input)
        else:
            connection.settimeout(None)

        try:
            return answer_of(connection)
        except (OSError, CannotShare):
            # The command must not be done again by this process, because it may already have been done.
            if invocation.command.changes != "memories":
                raise
            _say(
                "the shared process ended, so this may or may not have been stored; look before you repeat it"
            )
            return Answer(1, b"", b"")
    finally:
        connection.close()


def _wait_or_take_back(connection: socket, event_text: bytes) -> None:
    """Wait for an answer to an event, and take the event back if no answer comes soon; the next read then fails, or
    finds an answer that was on its way. A turn that ended is not taken back: it must not be stored twice."""
    global waited
    import time
    from _socket import MSG_PEEK

    began = time.monotonic()
    connection.settimeout(RECALL_SECONDS)
    try:
        connection.recv(1, MSG_PEEK)
    except TimeoutError:
        import json
        from contextlib import suppress

        event = json.loads(event_text)
        # Only events for which nothing is stored may be answered by two processes.
        if event.get("hook_event_name", event.get("hookEventName")) in (*RECALLS, *AT_TOOLS):
            with suppress(OSError):  # it has just answered
                connection.sendall(b"t")
            connection.settimeout(ASK_SECONDS)
            waited = time.monotonic() - began
            return
    connection.settimeout(None)


def _written(answer: Answer, invocation: Invocation) -> int:
    """Write the answer to standard output and error, and return the exit status. If it cannot be written, this process
    must not do the work again."""
    try:
        _write_all(1, answer.output)
        _write_all(2, answer.errors)
    except BrokenPipeError:
        pass  # as with a command that does the work itself: the reader has what it wanted
    except OSError as error:
        _say("the answer could not be written: {reason}", error.strerror)
        if invocation.command.shared == "hook":
            return 0
        return 1
    return answer.status


def _write_all(descriptor: int, text: bytes) -> None:
    while text:
        written_bytes = os.write(descriptor, text)
        text = text[written_bytes:]


def _set_give_up_timer(seconds: float) -> None:
    """End this process after `seconds`, with status 0 and only a complaint: for the client, the hook then recalls
    nothing. 0 stops the timer."""
    # Not `signal`, which imports `enum`: 4 ms of each hook.
    import _signal as signal  # type: ignore[import-not-found]

    def give_up(*_: object) -> None:
        _say("hook: gave up after {seconds:g} s; --seconds allows a longer time", seconds)
        os._exit(0)

    signal.signal(signal.SIGALRM, give_up)
    signal.setitimer(signal.ITIMER_REAL, seconds)


def _read_input() -> bytes:
    """Read all of standard input, which can then be read again."""
    import io

    standard_input = sys.stdin.buffer.read()
    sys.stdin = io.TextIOWrapper(io.BytesIO(standard_input))
    return standard_input


def shared() -> int | None:
    """Let the shared process do what the command line asks for; return the exit status, or None if this process
    must do it."""
    status = _status_of_shared()
    if status is None and _is_hook_without_time() and _is_at_a_tool():
        return 0
    return status


def _is_hook_without_time() -> bool:
    """Return whether the command is a hook that names no time: only a hook may read standard input here."""
    try:
        invocation = Invocation(sys.argv[1:], {})
    except CannotShare:
        return False
    # In another locale this program starts once more in UTF-8, and must find its input unread.
    if sys.getfilesystemencoding() != "utf-8":
        return False
    names_time = any(word.startswith("--seconds") for word in invocation.arguments)
    return invocation.command.shared == "hook" and not names_time


def _is_at_a_tool() -> bool:
    """Return whether standard input, which can be read again, is an event at a call of a tool."""
    import json
    from contextlib import suppress

    # The command itself says what is not an event.
    with suppress(Exception):
        if not sys.stdin.isatty():
            return json.loads(_read_input())["hook_event_name"] in AT_TOOLS
    return False


def _status_of_shared() -> int | None:
    """Return what `shared` returns, without its exception for events at tools.

    A person at a terminal is not a client of the protocol, and what is typed there is read by this process.
    """
    if sys.platform not in ("linux", "darwin") or sys.getfilesystemencoding() != "utf-8":
        return None
    if None in (sys.stdin, sys.stdout, sys.stderr):
        return None
    try:
        invocation = Invocation(sys.argv[1:], os.environ)
        if invocation.command.shared == "look" and sys.stdout.encoding.lower() != "utf-8":
            return None  # the process answers in UTF-8
        if invocation.reads_input and sys.stdin.isatty():
            return None
        return _shared(invocation)
    except KeyboardInterrupt:
        return 130
    except Exception:  # the same in this process works, or says what is wrong
        return None
