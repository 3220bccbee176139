"""How clients and the shared process speak with each other, and where its socket is.

The protocol (2). Client: `<bytes> <bytes>\\n`, then fields between NULs (`PROTOCOL`, key, role, folder, the variables
of this window, an empty field, the arguments), then standard input for all but `serve`. The process replies `+`
(accepted) or `-` (refused). It starts only when the client confirms with `g`. Process: `<status> <bytes> <bytes>\\n`,
standard output, standard error. A hook sends `t` to take back what it asked for: if the process can no longer do this,
it answers; otherwise it closes the connection, and has done nothing that counts. A blank before the status is sent at
once where the answer may take longer: then the hook does not take it back.

For `serve` both sides send frames instead: a letter, four bytes with the length of the content, the content. Client:
pieces of standard input (`INPUT`), its end (`INPUT_ENDED`), or that the session must end (`END`), which the end of the
connection says too. Process: pieces of standard output and error (`OUTPUT`, `ERRORS`), and at the end of the session
the exit status (`STATUS_OF_WINDOW`).
"""

from __future__ import annotations

import os
import stat

TYPE_CHECKING = False  # `typing` would take a tenth of the time
if TYPE_CHECKING:
    from _socket import socket
    from collections.abc import Mapping, Sequence

PROTOCOL = "memory-server 2"
END_OF_PROGRAM = "--"
"""The line of a key between what is of the program, such as its version, and the settings of the user."""
STATUS = "status"
"""The request for the facts about a shared process, which is not the work of a client."""
STOP = "stop"
"""The request that a shared process ends."""
CONNECT_SECONDS = 3.0
"""How long `serve` waits for a process that runs, or for the lock of another command that starts one."""
START_SECONDS = 15.0
"""How long a command waits for a process that has just been started."""
ASK_SECONDS = 0.25
"""How long the commands other than `serve` wait for a process that runs."""
HOOK_SECONDS = 5.0
"""How long a hook waits for its answer, if the command line does not say."""
ANSWERS = 0o700
"""Mode of the socket of a process that has started; before, it is 0o600."""
PIECE_BYTES = 1 << 16
"""Bytes that are received at once, and of the content of a frame at most."""
FRAME_HEAD_BYTES = 5
"""Bytes of a frame before its content: the kind, and the length of the content."""
INPUT = b"i"
INPUT_ENDED = b"z"
END = b"x"
OUTPUT = b"o"
ERRORS = b"e"
STATUS_OF_WINDOW = b"s"
"""The kinds of frames."""
_CHECKSUM_DIGITS = 8
LONGEST_PATH = 100
"""Bytes of the path of a socket at most: the system allows 104 to 108."""


class CannotShare(Exception):
    """The shared process cannot serve this command; run it here."""


class Answer:
    """What a command did in the shared process: its exit status, and its bytes of standard output and error."""

    __slots__ = ("errors", "output", "status")

    def __init__(self, status: int, output: bytes, errors: bytes) -> None:
        self.status = status
        self.output = output
        self.errors = errors


def absolute(path: str) -> str:
    return os.path.abspath(os.path.expanduser(path))


def folder(environ: Mapping[str, str]) -> str:
    """Return the folder of the sockets, which only this user may enter; make it if it is missing. Raise CannotShare if it
    cannot be used."""
    user_id = os.getuid()
    try:
        path = _folder_of_user(environ, user_id)
        os.makedirs(path, 0o700, exist_ok=True)
        status = os.lstat(path)
    except OSError as error:
        raise CannotShare from error
    others_may_enter = status.st_mode & 0o077
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != user_id or others_may_enter:
        raise CannotShare
    return path


def _folder_of_user(environ: Mapping[str, str], user_id: int) -> str:
    runtime_folder = environ.get("XDG_RUNTIME_DIR", "")
    # After `su` or `sudo` it may belong to another user, who could not use what we make there.
    if runtime_folder.startswith("/") and os.stat(runtime_folder).st_uid == user_id:
        return f"{runtime_folder}/memory-server"
    temporary_folder = absolute(environ.get("TMPDIR") or "/tmp")
    return f"{temporary_folder}/memory-server-{user_id}"


def socket_at(folder_path: str, key: str) -> str:
    """Return the path of the socket for `key` in the folder; its name begins with the checksum of the settings. Raise
    CannotShare if it is too long for a socket."""
    program, _, settings = key.partition(f"\n{END_OF_PROGRAM}\n")
    path = f"{folder_path}/{_checksum(settings)}{_checksum(program)}.sock"
    if len(os.fsencode(path)) > LONGEST_PATH:
        raise CannotShare
    return path


def _checksum(text: str) -> str:
    import zlib

    return f"{zlib.crc32(text.encode('utf-8', 'surrogateescape')):0{_CHECKSUM_DIGITS}x}"


def other_program_listens(path: str) -> bool:
    """Return whether a process listens that has the settings of the socket at `path` and other code, as after an
    update."""
    folder_path, _, name = path.rpartition("/")
    for entry in os.listdir(folder_path):
        is_of_settings = entry.startswith(name[:_CHECKSUM_DIGITS]) and entry.endswith(".sock")
        if not is_of_settings or entry == name:
            continue
        try:
            connected(f"{folder_path}/{entry}", ASK_SECONDS).close()
        except OSError:
            continue  # it was killed, and left its socket
        return True
    return False


def connected(path: str, seconds: float) -> socket:
    """Connect to the process that listens at `path`; the caller closes the connection. Raise OSError if no process
    listens there."""
    # Not `socket`: it imports `enum` and `selectors`, 7 ms of each hook, beside 11 ms of an empty Python.
    from _socket import AF_UNIX, SOCK_STREAM, socket

    connection = socket(AF_UNIX, SOCK_STREAM)
    connection.settimeout(seconds)
    try:
        connection.connect(path)
    except BaseException:
        connection.close()
        raise
    return connection


def ask(connection: socket, fields: Sequence[str], standard_input: bytes = b"") -> None:
    """Send a request to the process at the other end, which then begins to work. Raise CannotShare if it refuses, and
    ConnectionError if it has ended; then it did nothing."""
    field_bytes = "\0".join(fields).encode("utf-8", "surrogateescape")
    head = b"%d %d\n" % (len(field_bytes), len(standard_input))
    connection.sendall(head + field_bytes + standard_input)
    reply = connection.recv(1)
    if not reply:
        raise ConnectionResetError
    if reply != b"+":
        raise CannotShare
    connection.sendall(b"g")


def answer_of(connection: socket) -> Answer:
    """Receive the answer to a request. Raise CannotShare if the process ended before its answer."""
    head, _, texts = _all_received(connection).partition(b"\n")
    numbers = [int(number) for number in head.split()]
    if len(numbers) != 3:
        raise CannotShare
    status, output_bytes, error_bytes = numbers
    if len(texts) != output_bytes + error_bytes:
        raise CannotShare
    return Answer(status, texts[:output_bytes], texts[output_bytes:])


def _all_received(connection: socket) -> bytes:
    """Receive all bytes until the process closes the connection."""
    data = bytearray()
    try:
        while piece := connection.recv(PIECE_BYTES):
            data += piece
    except ConnectionResetError:
        pass  # it did not read the last byte that it was sent, and may have answered
    return bytes(data)


def frame(kind: bytes, content: bytes = b"") -> bytes:
    """Return a frame of a window."""
    return kind + len(content).to_bytes(FRAME_HEAD_BYTES - 1, "big") + content


def length_in(head: bytes) -> int:
    """Return the length of the content of a frame that begins with `head`."""
    return int.from_bytes(head[1:FRAME_HEAD_BYTES], "big")
