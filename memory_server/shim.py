"""The entrance of `memory-server`: it hands a client to the shared process of this user where there is one.

`serve` gives its standard input and output to that process, and starts it if it does not run; `hook`, `recall` and
`remember` ask it, and never start it. Whatever is in doubt is done in this process, which is always right: several
processes on one folder are normal. This module is what a user waits for at each prompt: it imports only what it needs.

The protocol (1). Client: `<bytes> <bytes>\\n`, then fields between NULs (`PROTOCOL`, key, role, folder, the variables
of this window, an empty field, the arguments), then standard input for all but `serve`, which sends descriptors 0, 1, 2
with the first byte. Process: `+`, or `-`. Client: `g`, after which the process works; without it nothing was
done. Process: `<status> <bytes> <bytes>\\n`, standard output, standard error; for `serve` when the session has ended. A
client that has shut down its side wants its session to end. A hook sends `t` to take back what it asked for: where the
process can no longer do this, it answers; else it closes the connection, and has done nothing that counts.
"""

from __future__ import annotations

import os
import stat
import sys

from memory_server.version import __version__

TYPE_CHECKING = False  # `typing` would take a tenth of the time
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from socket import socket

PROTOCOL = "memory-server 1"
COMMANDS = ("serve", "hook", "recall", "remember")
SETTINGS = ("data-dir", "config", "timezone", "log-level", "now", "seed", "language")
"""Flags with a value that make another process."""
OF_WINDOW = ("conversation", "toolsets", "tools", "exclude-tools")
"""Flags with a value that windows of one process may have different."""
VARIABLES_OF_WINDOW = tuple(f"MEMORY_SERVER_{name.upper().replace('-', '_')}" for name in (*OF_WINDOW, "hooks"))
_WITH_A_VALUE = ("--chars", "--flashbacks", "--seconds", "--session", "--turn")
"""Flags of the commands that a value follows."""
_PLACES = ("data-dir", "config")
_PLACES_IN_ENVIRONMENT = ("MEMORY_SERVER_DATA_DIR", "MEMORY_SERVER_CONFIG")
_PREFIXES = ("MEMORY_SERVER_", "MCP_MEMORY_", "XDG_", "LC_", "PYTHON", "SSL")
_NAMES = ("HOME", "LANG", "LANGUAGE", "TZ")
_ENDINGS = ("_PROXY", "_proxy", "_CA_BUNDLE")
"""With SSL: by what way models are reached, and which certificates count."""
_PACKAGES = ("memory_server", "sandbox", "nlp")
_OFF = ("0", "f", "n", "no", "off", "false")

# How long `serve` waits for a process that runs, or for the lock of one that starts another; for one that it has just
# started; how long the other commands wait for it; and a hook for its answer, if it does not say.
CONNECT_SECONDS, START_SECONDS, ASK_SECONDS, HOOK_SECONDS = 3.0, 15.0, 0.25, 5.0
RECALL_SECONDS = 0.5
"""How long a hook waits before it recalls by itself, which takes about as long."""
RECALLS = ("UserPromptSubmit", "SessionStart", "sessionStart")
"""Events for which nothing is stored, so that they may be answered twice."""
END_SECONDS = LOOK_SECONDS = 1.0
"""How long a session has to end after a signal, and the time between two looks for the parent: one system call."""
ANSWERS = 0o700
"""Mode of the socket of a process that has started; before, it is 0o600."""
LONGEST_PATH = 100
"""Bytes of the path of a socket at most: the system allows 104 to 108."""


waited = 0.0
"""Seconds that this process waited for the shared one in vain: a hook has so much less patience left."""


class Doubt(Exception):
    """The shared process cannot be used: this process does the work."""


class Asked:
    """What the command line and the environment ask for. Raises Doubt: it is not for the shared process, or cannot be
    understood here.

    `arguments` and `environ` have absolute paths; `flags` are those that make another process. With words, `recall` and
    `remember` do not read standard input.
    """

    def __init__(self, arguments: Sequence[str], environ: Mapping[str, str]) -> None:
        self.arguments, self.environ = list(arguments), dict(environ)
        self.flags: list[str] = []
        self.command, self.has_words, place = "", False, 0
        while place < len(self.arguments):
            place = self._take(place)
        self.command = self.command or "serve"
        for name in _PLACES_IN_ENVIRONMENT:
            if self.environ.get(name):
                self.environ[name] = _absolute(self.environ[name])
        if self.environ.get("MEMORY_SERVER_DAEMON__ENABLED", "").lower() in _OFF:
            raise Doubt

    def _take(self, place: int) -> int:
        """Read the argument at `place`; gives the place of the next one."""
        word = self.arguments[place]
        name, equals, value = word.removeprefix("--").partition("=")
        if word.startswith("--") and name in SETTINGS + OF_WINDOW:
            if not equals and place + 1 == len(self.arguments):
                raise Doubt
            value = value if equals else self.arguments.pop(place + 1)
            value = _absolute(value) if name in _PLACES and value else value
            self.arguments[place] = f"--{name}={value}"
            if name in SETTINGS:
                self.flags.append(self.arguments[place])
            return place + 1
        if word == "-c":
            return place + 2
        if word == "--read-only":
            self.flags.append(word)
        elif self.command and (not word.startswith("-") or word == "--"):
            self.has_words = True
        elif not word.startswith("-"):
            if word not in COMMANDS:
                raise Doubt
            self.command = word
        elif word in _WITH_A_VALUE and self.command:
            return place + 2
        elif self.command in ("", "serve") or word in ("-h", "--help", "--no-daemon") or word.startswith("--te"):
            raise Doubt
        return place + 1

    def key(self) -> str:
        """All that must be equal for two commands to share a process. Raises Doubt: the settings file turns it off."""
        named = [flag.removeprefix("--config=") for flag in self.flags if flag.startswith("--config=")]
        file = (named or [self.environ.get("MEMORY_SERVER_CONFIG") or default_config_file(self.environ)])[-1]
        stamp, settings = "", b""
        try:
            found = os.stat(file)
            stamp = f"{found.st_size} {found.st_mtime_ns}"
            with open(file, "rb") as opened:
                settings = opened.read()
        except OSError:
            pass
        if _turns_off(settings):
            raise Doubt
        root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
        parts = [PROTOCOL, __version__, root, _code_stamp(root), sys.executable, file, stamp, *sorted(self.flags)]
        keys = self._keys_of_models(settings)
        parts += [
            f"{name}={value}"
            for name, value in sorted(self.environ.items())
            if (name.startswith(_PREFIXES) or name.endswith(_ENDINGS) or name in _NAMES or name in keys)
            and name not in VARIABLES_OF_WINDOW
        ]
        return "\n".join(parts)

    def _keys_of_models(self, settings: bytes) -> list[str]:
        """The variables that `key_env` may name: those whose names stand in quotes in the settings, which need not be
        parsed for it."""
        ours = (each for each in self.environ.items() if each[0].startswith("MEMORY_SERVER_"))
        said = [settings.decode("utf-8", "replace"), *(f'{name} = "{value}" {value}' for name, value in ours)]
        text = "\n".join(said)
        if "key_env" not in text.lower():
            return []
        return [name for name in self.environ if f'"{name}"' in text or f"'{name}'" in text]

    def patience(self) -> float:
        """How long a hook waits for its answer."""
        words = [part for word in self.arguments for part in word.split("=", 1)]
        try:
            return float(words[words.index("--seconds") + 1])
        except (ValueError, IndexError):
            return HOOK_SECONDS


def _turns_off(settings: bytes) -> bool:
    if b"daemon" not in settings:
        return False
    import tomllib

    daemon = tomllib.loads(settings.decode("utf-8-sig")).get("daemon")
    return isinstance(daemon, dict) and daemon.get("enabled") is False


def _code_stamp(root: str) -> str:
    """The sum of the times of all files of the program: another one after an update, also of one that keeps the number
    of the version. Some 260 files, which takes a millisecond. Raises OSError: it is just being replaced."""
    times, folders = 0, [f"{root}/{name}" for name in _PACKAGES]
    for each in folders:
        with os.scandir(each) as found:
            for entry in found:
                if entry.is_dir(follow_symlinks=False):
                    if entry.name != "__pycache__":  # made by whatever is imported first
                        folders.append(entry.path)
                elif not entry.name.startswith("."):  # what editors leave beside a file
                    times += entry.stat(follow_symlinks=False).st_mtime_ns
    return str(times)


def _absolute(path: str) -> str:
    return os.path.abspath(os.path.expanduser(path))


def default_config_file(environ: Mapping[str, str]) -> str:
    """Where platformdirs puts the settings file, without importing it."""
    home = environ.get("HOME", "")
    if sys.platform == "darwin":
        return f"{home}/Library/Application Support/memory-server/memory-server.toml"
    return f"{environ.get('XDG_CONFIG_HOME', '').strip() or home + '/.config'}/memory-server/memory-server.toml"


def folder(environ: Mapping[str, str]) -> str:
    """The folder of the sockets, which only this user may enter. Raises Doubt: it cannot be used."""
    own, user = environ.get("XDG_RUNTIME_DIR", ""), os.getuid()
    try:
        # After `su` or `sudo` it may be that of another user, who could not use what we make there.
        is_own = own.startswith("/") and os.stat(own).st_uid == user
        other = _absolute(environ.get("TMPDIR") or "/tmp")
        place = f"{own}/memory-server" if is_own else f"{other}/memory-server-{user}"
        os.makedirs(place, 0o700, exist_ok=True)
        found = os.lstat(place)
    except OSError as error:
        raise Doubt from error
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != user or found.st_mode & 0o077:
        raise Doubt
    return place


def socket_at(place: str, key: str) -> str:
    """The path of the socket for `key` in the folder `place`. Raises Doubt: it is too long for a socket."""
    import zlib

    path = f"{place}/{zlib.crc32(key.encode('utf-8', 'surrogateescape')):08x}.sock"
    if len(os.fsencode(path)) > LONGEST_PATH:
        raise Doubt
    return path


def connected(path: str, seconds: float) -> socket:
    """A connection to the process that listens at `path`. Raises OSError: nobody listens there."""
    import socket

    connection = socket.socket(socket.AF_UNIX)
    connection.settimeout(seconds)
    try:
        connection.connect(path)
    except BaseException:
        connection.close()
        raise
    return connection


def _started(path: str, asked: Asked) -> tuple[socket, float]:
    """A connection to the process at `path`, and how long it may take to answer; starts it if nobody listens.

    Who holds the lock binds and listens, and hands the listening socket to the process: the kernel queues all clients
    until the process accepts them. Raises Doubt: the lock is held for too long.
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
            raise Doubt
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


def _start(listener: int, path: str, asked: Asked) -> None:
    import subprocess

    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    code = "import sys; sys.path.insert(0, sys.argv.pop(1)); from memory_server.cli.shared_process import main; main()"
    log = os.open(path.removesuffix(".sock") + ".log", os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    subprocess.Popen(
        [sys.executable, "-P", "-X", "utf8", "-c", code, root, path, str(listener), *asked.flags],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=log,
        cwd="/",
        env={name: value for name, value in asked.environ.items() if name not in VARIABLES_OF_WINDOW},
        pass_fds=[listener],
        start_new_session=True,
    )
    os.close(log)


def ask(connection: socket, fields: Sequence[str], given: bytes = b"", *, descriptors: bool = False) -> None:
    """Ask the process at the other end; afterwards it works. Raises Doubt: it refuses; ConnectionError: it has ended.
    Then it did nothing."""
    import socket

    said = "\0".join(fields).encode("utf-8", "surrogateescape")
    data = b"%d %d\n" % (len(said), len(given)) + said + given
    if descriptors:
        socket.send_fds(connection, [data[:1]], [0, 1, 2])
        data = data[1:]
    connection.sendall(data)
    if not (answer := connection.recv(1)):
        raise ConnectionResetError
    if answer != b"+":
        raise Doubt
    connection.sendall(b"g")


def answer_of(connection: socket) -> tuple[int, bytes, bytes]:
    """The status, the output and the errors of what was asked. Raises Doubt: the process ended before its answer."""
    data = b""
    try:
        while piece := connection.recv(1 << 16):
            data += piece
    except ConnectionResetError:
        pass  # it did not read the last byte that it was sent, and may have answered
    head, _, rest = data.partition(b"\n")
    sizes = [int(each) for each in head.split()]
    if len(sizes) != 3 or len(rest) != sizes[1] + sizes[2]:
        raise Doubt
    return sizes[0], rest[: sizes[1]], rest[sizes[1] :]


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

    from sandbox.language import language_of
    from sandbox.locale import _, speak, translated

    speak(language_of(sys.argv[1:], os.environ), os.path.dirname(__file__))
    with suppress(OSError):
        os.write(2, f"memory-server: {translated(_(template, *values))}\n".encode())


def _served(path: str, asked: Asked, fields: Sequence[str]) -> int:
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


def _shared(asked: Asked) -> int:
    """The exit status of what the shared process did. Raises an exception: it was not done, or may be done twice."""
    key = asked.key()
    path = socket_at(folder(asked.environ), key)
    window = [f"{name}={asked.environ[name]}" for name in VARIABLES_OF_WINDOW if name in asked.environ]
    fields = [PROTOCOL, key, asked.command, os.getcwd(), *window, "", *asked.arguments]
    if asked.command == "serve":
        try:
            return _served(path, asked, fields)
        except ConnectionError:  # it was killed before it accepted, and so did nothing
            return _served(path, asked, fields)
    if not os.path.exists(path):
        raise Doubt
    _give_up_after(asked.patience() if asked.command == "hook" else 0)
    try:
        status, output, errors = _answered(path, asked, fields)
    finally:
        _give_up_after(0)
    return _written(asked, status, output, errors)


def _answered(path: str, asked: Asked, fields: Sequence[str]) -> tuple[int, bytes, bytes]:
    given = b"" if asked.has_words and asked.command != "hook" else _read_input()
    with connected(path, ASK_SECONDS) as connection:
        ask(connection, fields, given)
        if asked.command == "hook":
            _wait_or_take_back(connection, given)
        else:
            connection.settimeout(None)
        try:
            return answer_of(connection)
        except (OSError, Doubt):
            if asked.command != "remember":
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


def _written(asked: Asked, status: int, *texts: bytes) -> int:
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
        return 0 if asked.command == "hook" else 1
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

    A person at a terminal is not a client of the protocol.
    """
    if sys.platform not in ("linux", "darwin") or sys.getfilesystemencoding() != "utf-8":
        return None
    if None in (sys.stdin, sys.stdout, sys.stderr) or sys.stdin.isatty():
        return None
    try:
        return _shared(Asked(sys.argv[1:], os.environ))
    except KeyboardInterrupt:
        return 130
    except Exception:  # the same in this process works, or says what is wrong
        return None
