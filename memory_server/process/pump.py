"""The command's half of a window: it carries the bytes of standard input to the shared process, and what that writes to
standard output and error, until the session ends. `WindowStream` (windows.py) is the other half.

At most one piece waits in each direction: a side that does not read is not read from. This module imports only what it
needs, because it is a part of the entrance.
"""

from __future__ import annotations

import os
import select
import signal
import time
from contextlib import suppress

from memory_server.process.protocol import (
    END,
    ERRORS,
    FRAME_HEAD_BYTES,
    INPUT,
    INPUT_ENDED,
    OUTPUT,
    PIECE_BYTES,
    STATUS_OF_WINDOW,
    frame,
    length_in,
)

TYPE_CHECKING = False  # `typing` would take a tenth of the time
if TYPE_CHECKING:
    from _socket import socket

END_SECONDS = 1.0
"""How long a session has to end after a signal, and how long the last output waits for a reader before it is given up.
"""
LOOK_SECONDS = 1.0
"""The time between two looks for the parent, each of which is one system call."""
_INPUT = 0
_OUTPUT = 1
_ERRORS = 2
"""The numbers of the standard streams."""
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Pump:
    """Carries the bytes of a window over `connection`, until the process at its other end tells the exit status."""

    def __init__(self, connection: socket) -> None:
        """Prepare to carry bytes over `connection`, which no longer blocks."""
        self._connection = connection
        self._connection.setblocking(False)

        self._parent = os.getppid()
        self._wake_reading, self._wake_writing = os.pipe()

        self._to_process = b""
        """What the process has not taken yet."""
        self._to_output = memoryview(b"")
        """What was not read from standard output yet."""
        self._received = b""
        """The beginning of a frame whose end has not come yet."""

        self._input_is_open = True
        self._process_is_there = True
        self._is_ending = False
        """A signal came, or the output has no reader, or the parent is gone."""

        self._status: int | None = None
        self._deadline: float | None = None

    def run(self) -> int:
        """Carry bytes until the session ends, and return its exit status. Raise ConnectionError if the process has
        ended."""
        for number in _SIGNALS:
            if signal.getsignal(number) is not signal.SIG_IGN:  # as nohup does
                signal.signal(number, self._wake)
        while self._status is None or self._to_output:
            if self._deadline is not None and time.monotonic() > self._deadline:
                return self._status_after_deadline()
            ready = self._wait()
            if self._parent > 1 and os.getppid() != self._parent:
                self._end()
            self._carry(ready)
        return self._status

    def _status_after_deadline(self) -> int:
        """Return the exit status if the session did not end in time. Raise ConnectionResetError if it was not to end."""
        if self._status is None and self._input_is_open and not self._is_ending:
            raise ConnectionResetError
        return self._status or 0

    def _wake(self, *_: object) -> None:
        """Let the next wait return; this is all that a handler of signals may do here."""
        os.write(self._wake_writing, b"\0")

    def _wait(self) -> dict[int, int]:
        """Wait until something can be carried, at most LOOK_SECONDS. Return the events of each
        descriptor that has some. While a piece waits, its side is not read."""
        poll = select.poll()
        poll.register(self._wake_reading, select.POLLIN)

        # At most one piece waits in each direction.
        if self._input_is_open and not self._to_process:
            poll.register(_INPUT, select.POLLIN)

        if self._process_is_there and self._status is None:
            # Also without an event to wait for: the end of the process is always told.
            events = 0
            if not self._to_output:
                events |= select.POLLIN
            if self._to_process:
                events |= select.POLLOUT
            poll.register(self._connection, events)

        if self._to_output:
            poll.register(_OUTPUT, select.POLLOUT)

        seconds = LOOK_SECONDS
        if self._deadline is not None:
            seconds = min(seconds, max(0.0, self._deadline - time.monotonic()))
        return dict(poll.poll(seconds * 1000))

    def _carry(self, ready: dict[int, int]) -> None:
        """Carry what can be carried without waiting. Raises ConnectionResetError if the process has
        ended."""
        if self._wake_reading in ready:
            os.read(self._wake_reading, PIECE_BYTES)
            self._end()

        if _OUTPUT in ready:
            self._write_output()

        events = ready.get(self._connection.fileno(), 0)
        if events & select.POLLOUT:
            self._send()

        if self._status is None and events & (select.POLLIN | select.POLLHUP | select.POLLERR):
            if not self._to_output:
                self._receive()
            else:
                # What the process has written before its end can be read when there is room for it.
                self._process_is_there = False
                self._extend_deadline()

        if _INPUT in ready and self._input_is_open and not self._to_process:
            self._read_input()

    def _end(self) -> None:
        """Ask the process to end the session, which has some time for it."""
        if not self._is_ending:
            self._is_ending = True
            self._deadline = time.monotonic() + END_SECONDS
            self._input_is_open = False
            self._to_process += frame(END)

    def _extend_deadline(self) -> None:
        """Give the reader of the output `END_SECONDS` from now for the next piece. After a signal the deadline stays as
        it is."""
        if not self._is_ending:
            self._deadline = time.monotonic() + END_SECONDS

    def _read_input(self) -> None:
        """Read a piece of standard input as a frame to send. Its end, or an error, is a frame too."""
        try:
            data = os.read(_INPUT, PIECE_BYTES)
        except OSError:  # as the end
            data = b""
        if data:
            self._to_process = frame(INPUT, data)
        else:
            self._input_is_open = False
            self._to_process = frame(INPUT_ENDED)

    def _send(self) -> None:
        """Send some of what waits for the process. If the process takes no more, drop it and read no more input."""
        try:
            sent_bytes = self._connection.send(self._to_process)
        except OSError:  # the session has ended, and its exit status can still be read
            self._input_is_open = False
            self._to_process = b""
            return
        self._to_process = self._to_process[sent_bytes:]

    def _write_output(self) -> None:
        """Write some of the output, so many bytes as a pipe with room takes at once without
        waiting. End the session if the client reads it no more."""
        try:
            written_bytes = os.write(_OUTPUT, self._to_output[: select.PIPE_BUF])
        except OSError:
            # The output has no reader any more.
            self._to_output = memoryview(b"")
            self._end()
            return
        self._to_output = self._to_output[written_bytes:]
        if self._deadline is not None:
            self._extend_deadline()
        if not self._to_output:
            self._process_is_there = True  # now what it has written is read

    def _receive(self) -> None:
        """Read a piece from the process, and carry out the frames that are complete. It is called while no output
        waits, so the output of this piece is all that waits afterwards. Raise ConnectionResetError if the process has
        ended."""
        piece = self._connection.recv(PIECE_BYTES)
        if not piece:
            raise ConnectionResetError

        # A frame may come in several pieces.
        self._received += piece

        outputs: list[bytes] = []
        while len(self._received) >= FRAME_HEAD_BYTES:
            frame_end = FRAME_HEAD_BYTES + length_in(self._received)
            if len(self._received) < frame_end:
                break

            kind = self._received[:1]
            content = self._received[FRAME_HEAD_BYTES:frame_end]
            self._received = self._received[frame_end:]

            if kind == OUTPUT:
                outputs.append(content)
            elif kind == ERRORS:
                _write_errors(content)
            elif kind == STATUS_OF_WINDOW:
                self._status = int(content)
                self._extend_deadline()

        self._to_output = memoryview(b"".join(outputs))


def _write_errors(text: bytes) -> None:
    """Write to standard error, if it has room."""
    poll = select.poll()
    poll.register(_ERRORS, select.POLLOUT)
    if poll.poll(0):
        with suppress(OSError):
            os.write(_ERRORS, text[: select.PIPE_BUF])
