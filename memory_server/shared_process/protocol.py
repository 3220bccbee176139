"""How clients and the shared process speak with each other, and where its socket is.

The protocol (1). Client: `<bytes> <bytes>\\n`, then fields between NULs (`PROTOCOL`, key, role, folder, the variables
of this window, an empty field, the arguments), then standard input for all but `serve`, which sends descriptors 0, 1, 2
with the first byte. The process replies `+` (accepted) or `-` (refused). It starts only when the client confirms
with `g`. Process: `<status> <bytes> <bytes>\\n`, standard output, standard error; for `serve` when the session has
ended. A client that has shut down its side wants its session to end. A hook sends `t` to take back what it asked for:
where the process can no longer do this, it answers; else it closes the connection, and has done nothing that counts.
A blank before the status is sent at once where the answer may take longer: then the hook does not take it back.
"""

from __future__ import annotations

import os
import stat

TYPE_CHECKING = False  # `typing` would take a tenth of the time
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from socket import socket

PROTOCOL = "memory-server 1"
STATUS, STOP = "status", "stop"
"""What can be asked of a shared process besides the work of a client."""
# How long `serve` waits for a process that runs, or for the lock of one that starts another; for one that it has just
# started; how long the other commands wait for it; and a hook for its answer, if it does not say.
CONNECT_SECONDS, START_SECONDS, ASK_SECONDS, HOOK_SECONDS = 3.0, 15.0, 0.25, 5.0
ANSWERS = 0o700
"""Mode of the socket of a process that has started; before, it is 0o600."""
LONGEST_PATH = 100
"""Bytes of the path of a socket at most: the system allows 104 to 108."""


class CannotShare(Exception):
    """The shared process cannot serve this command; run it here."""


def absolute(path: str) -> str:
    return os.path.abspath(os.path.expanduser(path))


def folder(environ: Mapping[str, str]) -> str:
    """The folder of the sockets, which only this user may enter. Raises CannotShare: it cannot be used."""
    own, user = environ.get("XDG_RUNTIME_DIR", ""), os.getuid()
    try:
        # After `su` or `sudo` it may be that of another user, who could not use what we make there.
        is_own = own.startswith("/") and os.stat(own).st_uid == user
        other = absolute(environ.get("TMPDIR") or "/tmp")
        place = f"{own}/memory-server" if is_own else f"{other}/memory-server-{user}"
        os.makedirs(place, 0o700, exist_ok=True)
        found = os.lstat(place)
    except OSError as error:
        raise CannotShare from error
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != user or found.st_mode & 0o077:
        raise CannotShare
    return place


def socket_at(place: str, key: str) -> str:
    """The path of the socket for `key` in the folder `place`. Raises CannotShare: it is too long for a socket."""
    import zlib

    path = f"{place}/{zlib.crc32(key.encode('utf-8', 'surrogateescape')):08x}.sock"
    if len(os.fsencode(path)) > LONGEST_PATH:
        raise CannotShare
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


def ask(connection: socket, fields: Sequence[str], given: bytes = b"", *, descriptors: bool = False) -> None:
    """Ask the process at the other end; afterwards it works. Raises CannotShare: it refuses; ConnectionError: it has
    ended. Then it did nothing."""
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
        raise CannotShare
    connection.sendall(b"g")


def answer_of(connection: socket) -> tuple[int, bytes, bytes]:
    """The status, the output and the errors of what was asked. Raises CannotShare: the process ended before its
    answer."""
    data = b""
    try:
        while piece := connection.recv(1 << 16):
            data += piece
    except ConnectionResetError:
        pass  # it did not read the last byte that it was sent, and may have answered
    head, _, rest = data.partition(b"\n")
    sizes = [int(each) for each in head.split()]
    if len(sizes) != 3 or len(rest) != sizes[1] + sizes[2]:
        raise CannotShare
    return sizes[0], rest[: sizes[1]], rest[sizes[1] :]
