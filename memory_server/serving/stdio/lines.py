"""Two threads between file descriptors and the SDK's session: one reads lines, one writes them.

Unreadable lines are answered here (frames.py), so the session gets only messages. Reading stops while `MOST_IN_FLIGHT`
requests, or `MOST_BYTES` of them, have no answer that the client has read. It also stops while `MOST_UNTAKEN` messages
wait for the session.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Hashable
from queue import Empty, SimpleQueue
from typing import Any, Self

import mcp_types as types
from mcp.shared.message import ServerMessageMetadata, SessionMessage

from memory_server.serving.stdio.frames import (
    INVALID_REQUEST,
    LONGEST_LINE,
    Frame,
    Frames,
    Notification,
    Refusal,
    Reply,
    Request,
    encoded,
    error_line,
)

MOST_IN_FLIGHT = 1_000
"""Requests whose answer the client has not read yet, at most."""
MOST_BYTES = 64 * 1024 * 1024
"""Bytes of the lines of those requests, and of answers that wait to be written."""
LASTING = frozenset({"subscriptions/listen"})
"""Methods whose answer comes only when the client ends them: nothing waits for it."""
MOST_LASTING = 500
"""Lasting requests at the same time; one more is refused. A client needs only one."""
MOST_LASTING_BYTES = 8 * 1024 * 1024
"""Bytes of the lines of lasting requests, which are kept while these last."""
MOST_UNTAKEN = 1_000
"""Notifications and replies that wait for the session, at most."""
MOST_UNTAKEN_BYTES = LONGEST_LINE
"""Bytes of their lines; as values they take up to twenty times as much."""
_AT_ONCE = 16
"""Messages that the session takes in a row before other tasks have a turn: otherwise it would take all that wait, and
start a task for each."""
_PIECE = 64 * 1024
"""Bytes read or written at once: what a pipe holds on Linux."""


Key = Hashable
"""What an answer belongs to: the id of a request, or the refusal of a line."""


class Pool:
    """What is held of one kind: at most `most`, with at most `most_bytes`, but one is always allowed."""

    def __init__(self, most: int, most_bytes: int) -> None:
        self._most, self._most_bytes = most, most_bytes
        self.count = self.bytes = 0

    def has_room(self, size: int) -> bool:
        return not self.count or (self.count < self._most and self.bytes + size <= self._most_bytes)


class InFlight:
    """What was read and is not finished, shared by both threads and the event loop: requests whose answer was not
    written, lasting requests separately, and messages that the session has not taken."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self.asked = Pool(MOST_IN_FLIGHT, MOST_BYTES)
        self.lasting = Pool(MOST_LASTING, MOST_LASTING_BYTES)
        self.untaken = Pool(MOST_UNTAKEN, MOST_UNTAKEN_BYTES)
        self._held: dict[Key, list[tuple[Pool, int]]] = {}
        """Pool and size of everything with that key: a client may use an id twice."""
        self._closed = False
        self._when_quiet: Callable[[], None] | None = None

    def enter(self, key: Key, size: int, pool: Pool, *, wait: bool) -> bool:
        """Hold one item of `size` bytes in `pool`. False: there is no room, and `wait` is not set."""
        with self._changed:
            if not pool.has_room(size):
                if not wait:
                    return False
                self._changed.wait_for(lambda: self._closed or pool.has_room(size))
            self._held.setdefault(key, []).append((pool, size))
            pool.count, pool.bytes = pool.count + 1, pool.bytes + size
            return True

    def leave(self, key: Key) -> None:
        """Release an item that was answered, will never be answered, or was taken."""
        with self._changed:
            same = self._held.get(key)
            if not same:
                return
            pool, size = same.pop()
            if not same:
                del self._held[key]
            pool.count, pool.bytes = pool.count - 1, pool.bytes - size
            self._changed.notify_all()
            if self._when_quiet is not None and not self.asked.count:
                self._when_quiet()

    def close(self) -> None:
        """Wake all waiting threads."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def tell_when_quiet(self, tell: Callable[[], None]) -> None:
        """Call `tell` when all requests except the lasting ones are answered; in any thread, maybe more than once."""
        with self._changed:
            self._when_quiet = tell
            if not self.asked.count:
                tell()


class Incoming:
    """The read side for the SDK's session: messages of the client, until the input ends. `taken` is called with the key
    of each message that has one."""

    last_context = None

    def __init__(self, taken: Callable[[Key], None]) -> None:
        self._messages: deque[tuple[SessionMessage, Key | None]] = deque()
        self._taken = taken
        self._in_a_row = 0
        self._more: asyncio.Future[None] | None = None
        self._ended = False

    def deliver(self, messages: list[tuple[SessionMessage, Key | None]]) -> None:
        if not self._ended:
            self._messages.extend(messages)
            self._wake()

    def end(self) -> None:
        """End the stream; waiting messages are dropped."""
        self._ended = True
        self._messages.clear()
        self._wake()

    def _wake(self) -> None:
        if self._more is not None and not self._more.done():
            self._more.set_result(None)

    async def receive(self) -> SessionMessage | Exception:
        return await self.__anext__()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        self._in_a_row += 1
        if self._in_a_row > _AT_ONCE:
            self._in_a_row = 0
            await asyncio.sleep(0)
        while not self._messages:
            if self._ended:
                raise StopAsyncIteration
            self._more = asyncio.get_running_loop().create_future()
            await self._more
            self._in_a_row = 0
        message, key = self._messages.popleft()
        if key is not None:
            self._taken(key)
        return message

    async def aclose(self) -> None:
        self.end()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.end()


class Outgoing:
    """The write side for the SDK's session."""

    def __init__(self, write: Callable[[types.JSONRPCMessage], Awaitable[None]]) -> None:
        self._write = write

    async def send(self, item: SessionMessage, /) -> None:
        await self._write(item.message)

    async def aclose(self) -> None:
        """What was sent is still written; `Lines.drain` waits for it."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        return None


class Lines:
    """The connection to one client over two file descriptors.

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
    ) -> None:
        self.in_flight = InFlight()
        self.incoming = Incoming(self.in_flight.leave)
        self.outgoing = Outgoing(self._write)
        self._reading, self._writing = reading, writing
        self._ended, self._broken, self._first = ended, broken, first
        self._loop = asyncio.get_running_loop()
        self._queue: SimpleQueue[tuple[bytes, Key] | None] = SimpleQueue()
        self._waiting = 0
        """Bytes in the queue."""
        self._room = asyncio.Event()
        self._room.set()
        self._stopped = self._gone = False
        """Whether nothing more is read; whether nothing more can be written."""
        self._drained = threading.Event()
        self._wrote = False

    def start(self) -> None:
        # Daemon threads: a read cannot be interrupted on every system, and must not keep the process alive.
        for work, name in ((self._reader, "stdin"), (self._writer, "stdout")):
            threading.Thread(target=work, name=name, daemon=True).start()

    def stop(self) -> None:
        """Accept no further requests."""
        self._stopped = True
        self.in_flight.close()

    async def quiet(self, seconds: float) -> None:
        """Wait until all requests have been answered, at most `seconds`."""
        quiet = asyncio.Event()
        self.in_flight.tell_when_quiet(lambda: self._tell(quiet.set))
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(quiet.wait(), seconds)

    async def drain(self, seconds: float) -> None:
        """Wait until all answers have been written, at most `seconds`. Nothing is written after that."""
        self._queue.put(None)
        await asyncio.to_thread(self._drained.wait, seconds)

    async def _write(self, message: types.JSONRPCMessage) -> None:
        """Queue a message; waits while the client does not read."""
        match message:
            case types.JSONRPCResponse(id=id_, result=result):
                # The session gives plain values; pydantic's own way takes three times as long.
                plain: dict[str, Any] = {"jsonrpc": "2.0", "id": id_, "result": result}
            case _:
                plain = message.model_dump(by_alias=True, mode="json", exclude_unset=True)
        answered = None if "method" in plain else plain.get("id")
        try:
            line = encoded(plain)
        except TypeError as error:
            line = error_line(types.INTERNAL_ERROR, f"The answer cannot be written as JSON: {error}.", answered)
        self._put(line, answered)
        while self._waiting > MOST_BYTES and not self._gone:
            self._room.clear()
            await self._room.wait()

    def _put(self, line: bytes, answered: Key) -> None:
        self._waiting += len(line)
        self._queue.put((line, answered))

    def _tell(self, call: Callable[..., None], *arguments: Any) -> None:
        with contextlib.suppress(RuntimeError):  # the event loop was closed
            self._loop.call_soon_threadsafe(call, *arguments)

    # --- the thread that reads -----------------------------------------------------------------------------

    def _reader(self) -> None:
        frames = Frames()
        # An OSError is the same as the end.
        with contextlib.suppress(OSError):
            while not self._stopped and (data := os.read(self._reading, _PIECE)):
                self._take(frames.feed(data))
            self._take(frames.end())
        self._tell(self._ended)

    def _take(self, frames: list[Frame]) -> None:
        messages: list[tuple[SessionMessage, Key | None]] = []
        for read in frames:
            frame, key, size, pool = self._placed(read)
            if not self.in_flight.enter(key, size, pool, wait=False):
                # An earlier message may make room.
                self._tell(self.incoming.deliver, messages)
                messages = []
                self.in_flight.enter(key, size, pool, wait=True)
            if self._stopped:
                return
            if isinstance(frame, Refusal):
                self._tell(self._put, frame.line, key)
            elif (message := self._message(frame)) is None:
                self.in_flight.leave(key)
            else:
                messages.append((message, key if pool is self.in_flight.untaken else None))
        if messages:
            self._tell(self.incoming.deliver, messages)

    def _placed(self, frame: Frame) -> tuple[Frame, Key, int, Pool]:
        """A frame with its key, its size and its pool. One lasting request too many becomes a refusal: if it waited for
        room, the message that makes room would never be read."""
        held = self.in_flight
        match frame:
            case Notification(size=size) | Reply(size=size):
                return frame, object(), size, held.untaken
            case Request(id_, method, _, size) if method not in LASTING:
                return frame, id_, size, held.asked
            case Request(id_, _, _, size) if held.lasting.has_room(size):
                return frame, id_, size, held.lasting
            case Request(id_, method):
                why = f"At most {MOST_LASTING} requests {method} can be open at once; cancel one first."
                frame = Refusal(error_line(INVALID_REQUEST, why, id_))
        return frame, frame, len(frame.line), held.asked

    def _message(self, frame: Request | Notification | Reply) -> SessionMessage | None:
        # Without validation: frames.py has checked everything that the models would check.
        match frame:
            case Request(id_, method, params):
                request = types.JSONRPCRequest.model_construct(jsonrpc="2.0", id=id_, method=method, params=params)
                return SessionMessage(request, ServerMessageMetadata(on_request_unanswered=self._unanswered(id_)))
            case Notification(method, params):
                notification = types.JSONRPCNotification.model_construct(jsonrpc="2.0", method=method, params=params)
                return SessionMessage(notification)
            case Reply(message):
                with contextlib.suppress(ValueError):
                    return SessionMessage(types.jsonrpc_message_adapter.validate_python(message, by_name=False))
                return None

    def _unanswered(self, id_: str | int) -> Callable[[], Awaitable[None]]:
        async def leave() -> None:
            self.in_flight.leave(id_)

        return leave

    # --- the thread that writes ----------------------------------------------------------------------------

    def _writer(self) -> None:
        try:
            while batch := self._batch():
                self._write_all(b"".join(line for line, _ in batch))
                for _, answered in batch:
                    self.in_flight.leave(answered)
                self._tell(self._written, sum(len(line) for line, _ in batch))
        except OSError:
            self._tell(self._lost)
        finally:
            self._drained.set()

    def _batch(self) -> list[tuple[bytes, Key]]:
        """The waiting lines, in pieces of a good size for a pipe; empty at the end."""
        batch: list[tuple[bytes, Key]] = []
        size = 0
        item = self._queue.get()
        while item is not None:
            batch.append(item)
            size += len(item[0])
            if size >= _PIECE:
                return batch
            try:
                item = self._queue.get_nowait()
            except Empty:
                return batch
        if batch:
            self._queue.put(None)  # the end comes after these
        return batch

    def _write_all(self, data: bytes) -> None:
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(self._writing, rest) :]

    def _written(self, size: int) -> None:
        self._waiting -= size
        self._room.set()
        if not self._wrote:
            self._wrote = True
            self._first()

    def _lost(self) -> None:
        self._gone = True
        self._room.set()
        self.stop()
        self._broken()
