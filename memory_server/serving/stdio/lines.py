"""Two threads between file descriptors and the SDK's session: one reads lines, one writes them.

Unreadable lines are answered here (frames.py), so the session gets only messages. No more is read while the session has
not taken what was read before, or while `MOST_IN_FLIGHT` requests have no answer that the client has read.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import select
import threading
from collections import Counter
from collections.abc import Callable, Hashable
from concurrent.futures import CancelledError
from queue import SimpleQueue
from socket import SHUT_RD, socket
from typing import Any, Self

import anyio
import mcp_types as types
from mcp.shared.message import ServerMessageMetadata, SessionMessage

from memory_server.serving.stdio.frames import Frame, Frames, Message, Refusal, encoded, error_line

MOST_IN_FLIGHT = 1_000
"""Requests whose answer the client has not read yet, at most."""
LASTING = frozenset({"subscriptions/listen"})
"""Methods whose answer comes only when the client ends them: nothing waits for it. The SDK bounds their number."""
_UNTAKEN = 16
"""Messages that wait for the session, at most."""
_AT_ONCE = 32
"""Lines written at once, if so many wait."""
_WAIT_MS = 200
"""Milliseconds between two looks whether somebody still waits for the output."""
_PIECE = 64 * 1024
"""Bytes read at once: what a pipe holds on Linux."""

Key = Hashable
"""What an answer belongs to: the id of a request, or the refusal of a line."""


class Lines:
    """The connection to one client over two file descriptors: `incoming` is the read side for the SDK's session, and
    this object the write side.

    `control` is a socket that can be read when the input must end; with it, the threads end with the connection.
    In the event loop, `ended` is called when the input ends, `broken` when the client reads no more output, and `first`
    when the first answer was written.
    """

    def __init__(
        self,
        reading: int,
        writing: int,
        *,
        ended: Callable[[], None],
        broken: Callable[[], None],
        first: Callable[[], None],
        control: socket | None = None,
    ) -> None:
        self._deliver, self.incoming = anyio.create_memory_object_stream[SessionMessage | Exception](_UNTAKEN)
        self._reading, self._writing = reading, writing
        self._ended, self._broken, self._first = ended, broken, first
        self._control = control
        self._threads: list[threading.Thread] = []
        self._abandoned = False
        self._loop = asyncio.get_running_loop()
        self._unanswered: Counter[Key] = Counter()
        """Requests in flight; a client may use an id twice."""
        self._slots = asyncio.Semaphore(MOST_IN_FLIGHT)
        self._quiet = asyncio.Event()
        self._quiet.set()
        self._stopped = self._wrote = False
        self._queue: SimpleQueue[tuple[bytes, Key] | None] = SimpleQueue()
        self._drained = threading.Event()

    def start(self) -> None:
        # Daemon threads: a read cannot be interrupted on every system, and must not keep the process alive.
        for work, name in ((self._reader, "stdin"), (self._writer, "stdout")):
            thread = threading.Thread(target=work, name=name, daemon=True)
            thread.start()
            self._threads.append(thread)

    def stop(self) -> None:
        self._stopped = True

    def end(self) -> None:
        self._deliver.close()

    async def quiet(self, seconds: float) -> None:
        """Wait until all requests except the lasting ones have been answered, at most `seconds`."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._quiet.wait(), seconds)

    async def drain(self, seconds: float) -> None:
        """Wait until all answers have been written, at most `seconds`. Nothing is written after that."""
        self._queue.put(None)
        await asyncio.to_thread(self._drained.wait, seconds)
        self._abandoned = True
        self.stop()
        self._slots.release()  # the reader may wait for a place among the requests in flight
        if self._control is not None:
            self._control.shutdown(SHUT_RD)  # this ends the reader
            for thread in self._threads:
                await asyncio.to_thread(thread.join, seconds)

    async def send(self, item: SessionMessage, /) -> None:
        """Queue a message of the session."""
        match item.message:
            case types.JSONRPCResponse(id=id_, result=result):
                # The session gives plain values; pydantic's own way takes three times as long.
                plain: dict[str, Any] = {"jsonrpc": "2.0", "id": id_, "result": result}
            case message:
                plain = message.model_dump(by_alias=True, mode="json", exclude_unset=True)
        answered = None if "method" in plain else plain.get("id")
        try:
            line = encoded(plain)
        except TypeError as error:
            line = error_line(types.INTERNAL_ERROR, f"The answer cannot be written as JSON: {error}.", answered)
        self._queue.put((line, answered))

    async def aclose(self) -> None:
        """What was sent is still written; `drain` waits for it."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        return None

    async def _take(self, frames: list[Frame]) -> None:
        """Give the messages to the session, and answer the others; waits where there is no room."""
        try:
            for frame in frames:
                if self._stopped:
                    return
                if isinstance(frame, Refusal):
                    await self._enter(frame)
                    self._queue.put((frame.line, frame))
                    continue
                if "id" in frame and "method" in frame and frame["method"] not in LASTING:
                    await self._enter(frame["id"])
                if (message := self._session_message(frame)) is not None:
                    await self._deliver.send(message)
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            self.stop()  # the session has ended

    async def _enter(self, key: Key) -> None:
        await self._slots.acquire()
        self._unanswered[key] += 1
        self._quiet.clear()

    def _leave(self, key: Key) -> None:
        """A request was answered, or never will be."""
        if key in self._unanswered:
            self._unanswered[key] -= 1
            if not self._unanswered[key]:
                del self._unanswered[key]
            self._slots.release()
            if not self._unanswered:
                self._quiet.set()

    def _session_message(self, fields: Message) -> SessionMessage | None:
        # Requests and notifications without validation: frames.py has checked everything that the models would check.
        if "method" not in fields:
            with contextlib.suppress(ValueError):
                return SessionMessage(types.jsonrpc_message_adapter.validate_python(fields, by_name=False))
            return None
        said: dict[str, Any] = {"jsonrpc": "2.0", "method": fields["method"], "params": fields.get("params")}
        if "id" not in fields:
            return SessionMessage(types.JSONRPCNotification.model_construct(**said))

        async def leave() -> None:
            self._leave(fields["id"])

        request = types.JSONRPCRequest.model_construct(id=fields["id"], **said)
        return SessionMessage(request, ServerMessageMetadata(on_request_unanswered=leave))

    def _written(self, answered: list[Key]) -> None:
        for key in answered:
            self._leave(key)
        if answered and not self._wrote:
            self._wrote = True
            self._first()

    def _lost(self) -> None:
        self.stop()
        self._broken()

    # --- the two threads -----------------------------------------------------------------------------------

    def _tell(self, call: Callable[..., object], *arguments: Any) -> None:
        with contextlib.suppress(RuntimeError):  # the event loop was closed
            self._loop.call_soon_threadsafe(call, *arguments)

    def _reader(self) -> None:
        frames = Frames()
        # An OSError is the same as the end.
        with contextlib.suppress(OSError):
            while not self._stopped and (data := self._read()):
                self._hand_over(frames.feed(data))
            self._hand_over(frames.end())
        self._tell(self._ended)

    def _read(self) -> bytes:
        if self._control is not None:
            poll = select.poll()
            poll.register(self._reading, select.POLLIN)
            poll.register(self._control, select.POLLIN)
            if any(number == self._control.fileno() for number, _ in poll.poll()):
                return b""
        return os.read(self._reading, _PIECE)

    def _write(self, data: memoryview) -> int:
        """Write some of `data`; with a control descriptor without waiting for a client that does not read."""
        if self._control is None:
            return os.write(self._writing, data)
        poll = select.poll()
        poll.register(self._writing, select.POLLOUT)
        while not poll.poll(_WAIT_MS) and not self._abandoned:
            pass
        if self._abandoned:  # the number may soon be that of another client's file
            raise BrokenPipeError
        return os.write(self._writing, data[: select.PIPE_BUF])

    def _hand_over(self, frames: list[Frame]) -> None:
        """Give the frames to the event loop, and wait until it has taken them."""
        if not frames:
            return
        taking = self._take(frames)
        try:
            asyncio.run_coroutine_threadsafe(taking, self._loop).result()
        except (RuntimeError, CancelledError):  # the event loop was closed, or is being closed
            taking.close()
            self.stop()

    def _writer(self) -> None:
        try:
            batch: list[tuple[bytes, Key] | None] = []
            while None not in batch:
                batch = [self._queue.get()]
                while len(batch) < _AT_ONCE and not self._queue.empty():
                    batch.append(self._queue.get())
                lines = [item for item in batch if item is not None]
                rest = memoryview(b"".join(line for line, _ in lines))
                while rest:
                    rest = rest[self._write(rest) :]
                self._tell(self._written, [answered for _, answered in lines])
        except OSError:
            self._tell(self._lost)
        finally:
            self._drained.set()
