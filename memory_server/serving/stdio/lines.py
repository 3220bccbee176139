"""Lines between a client and the SDK's session, over two file descriptors or over a stream of bytes.

Unreadable lines are answered here (frames.py), so the session gets only messages. No more is read while the session has
not taken what was read before, or while `MOST_IN_FLIGHT` requests have no answer that the client has read.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Hashable
from concurrent.futures import CancelledError
from queue import SimpleQueue
from typing import Any, Protocol, Self

import anyio
import mcp_types as types
from mcp.shared.message import ServerMessageMetadata, SessionMessage

from memory_server.kernel.values import dataclass
from memory_server.serving.stdio.frames import Frame, Frames, Message, Refusal, encoded, error_line

MOST_IN_FLIGHT = 1_000
"""Requests whose answer the client has not read yet, at most."""
LASTING = frozenset({"subscriptions/listen"})
"""Methods whose answer comes only when the client ends them: nothing waits for it. The SDK bounds their number."""
_UNTAKEN = 16
"""Messages that wait for the session, at most."""
_AT_ONCE = 32
"""Lines written at once, if so many wait."""
_PIECE = 64 * 1024
"""Bytes read at once: what a pipe holds on Linux."""

Key = Hashable
"""What an answer belongs to: the id of a request, or the refusal of a line."""


@dataclass(frozen=True, slots=True)
class _Output:
    """A line for the client, and the request that it answers, or None."""

    line: bytes
    answered: Key


@dataclass(frozen=True, slots=True)
class Events:
    """What is called in the event loop: `ended` when the input ends, `broken` when the client reads no more output, and
    `first` when the first answer was written."""

    ended: Callable[[], None]
    broken: Callable[[], None]
    first: Callable[[], None]


class ByteStream(Protocol):
    """Input and output of a client in another process."""

    async def read(self) -> bytes:
        """Return the next bytes of the input, or no bytes if it has ended."""

    async def write(self, data: bytes) -> None:
        """Write to the output, as fast as the client reads it. Raises OSError: its reader has gone."""


class Lines(ABC):
    """The connection to one client: `incoming` is the read side for the SDK's session, and this object the write
    side."""

    def __init__(self, events: Events) -> None:
        self._deliver, self.incoming = anyio.create_memory_object_stream[
            SessionMessage | Exception
        ](_UNTAKEN)
        self._events = events
        self._unanswered: Counter[Key] = Counter()
        """Requests in flight; a client may use an id twice."""
        self._slots = asyncio.Semaphore(MOST_IN_FLIGHT)
        self._quiet = asyncio.Event()
        self._quiet.set()
        self._stopped = False
        self._wrote = False

    @abstractmethod
    def start(self) -> None:
        """Begin to read and to write."""

    @abstractmethod
    async def drain(self, seconds: float) -> None:
        """Wait until all answers have been written, at most `seconds`. Nothing is written after that."""

    @abstractmethod
    def _put(self, output: _Output) -> None:
        """Queue a line for the client."""

    def stop(self) -> None:
        self._stopped = True

    def end(self) -> None:
        self._deliver.close()

    async def quiet(self, seconds: float) -> None:
        """Wait until all requests except the lasting ones have been answered, at most `seconds`."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._quiet.wait(), seconds)

    async def send(self, item: SessionMessage, /) -> None:
        """Queue a message of the session."""
        match item.message:
            case types.JSONRPCResponse(id=id_, result=result):
                # The session gives plain values; pydantic's own way takes three times as long.
                plain: dict[str, Any] = {"jsonrpc": "2.0", "id": id_, "result": result}
            case message:
                plain = message.model_dump(by_alias=True, mode="json", exclude_unset=True)
        answered = None
        if "method" not in plain:
            answered = plain.get("id")
        try:
            line = encoded(plain)
        except TypeError as error:
            line = error_line(
                types.INTERNAL_ERROR, f"The answer cannot be written as JSON: {error}.", answered
            )
        self._put(_Output(line, answered))

    async def aclose(self) -> None:  # noqa: B027 - the SDK wants it
        """Leave what was sent, which is still written; `drain` waits for it."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        return None

    async def _take(self, frames: list[Frame]) -> None:
        """Give the messages to the session, and answer the others; waits if all slots are taken."""
        try:
            for frame in frames:
                if self._stopped:
                    return
                if isinstance(frame, Refusal):
                    await self._enter(frame)
                    self._put(_Output(frame.line, answered=frame))
                    continue
                is_request = "id" in frame and "method" in frame
                if is_request and frame["method"] not in LASTING:
                    await self._enter(frame["id"])
                message = self._session_message(frame)
                if message is not None:
                    await self._deliver.send(message)
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            self.stop()  # the session has ended

    async def _enter(self, key: Key) -> None:
        await self._slots.acquire()
        self._unanswered[key] += 1
        self._quiet.clear()

    def _leave(self, key: Key) -> None:
        """Free the slot of a request that was answered, or never will be."""
        if key not in self._unanswered:
            return
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
                return SessionMessage(
                    types.jsonrpc_message_adapter.validate_python(fields, by_name=False)
                )
            return None
        content: dict[str, Any] = {
            "jsonrpc": "2.0",
            "method": fields["method"],
            "params": fields.get("params"),
        }
        if "id" not in fields:
            return SessionMessage(types.JSONRPCNotification.model_construct(**content))

        async def leave() -> None:
            self._leave(fields["id"])

        request = types.JSONRPCRequest.model_construct(id=fields["id"], **content)
        return SessionMessage(request, ServerMessageMetadata(on_request_unanswered=leave))

    def _note_written(self, answered: list[Key]) -> None:
        """Note that lines were written. `answered`: the request that each of them answers."""
        for key in answered:
            self._leave(key)
        if answered and not self._wrote:
            self._wrote = True
            self._events.first()

    def _note_lost(self) -> None:
        """Note that the reader of the output has gone."""
        self.stop()
        self._events.broken()


class DescriptorLines(Lines):
    """Lines over two file descriptors, with a thread that reads and a thread that writes: a descriptor may be of any
    kind, and not every system can wait for it in an event loop."""

    def __init__(self, reading: int, writing: int, events: Events) -> None:
        super().__init__(events)
        self._reading = reading
        self._writing = writing
        self._loop = asyncio.get_running_loop()
        self._queue: SimpleQueue[_Output | None] = SimpleQueue()
        """Lines to write, with None after the last line."""
        self._drained = threading.Event()

    def start(self) -> None:
        # Daemon threads: a read cannot be interrupted on every system, and must not keep the process alive.
        for work, name in ((self._reader, "stdin"), (self._writer, "stdout")):
            threading.Thread(target=work, name=name, daemon=True).start()

    async def drain(self, seconds: float) -> None:
        self._queue.put(None)
        await asyncio.to_thread(self._drained.wait, seconds)
        self.stop()
        self._slots.release()  # the reader may wait for a place among the requests in flight

    def _put(self, output: _Output) -> None:
        self._queue.put(output)

    def _tell(self, call: Callable[..., object], *arguments: Any) -> None:
        with contextlib.suppress(RuntimeError):  # the event loop was closed
            self._loop.call_soon_threadsafe(call, *arguments)

    def _reader(self) -> None:
        frames = Frames()
        # An OSError is the same as the end.
        with contextlib.suppress(OSError):
            while not self._stopped:
                data = os.read(self._reading, _PIECE)
                if not data:
                    break
                self._hand_over(frames.feed(data))
            self._hand_over(frames.end())
        self._tell(self._events.ended)

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
        """Write the lines of the queue until None comes, some at once."""
        is_last_batch = False
        try:
            while not is_last_batch:
                batch = [self._queue.get()]
                while len(batch) < _AT_ONCE and not self._queue.empty():
                    batch.append(self._queue.get())
                is_last_batch = None in batch
                outputs = [output for output in batch if output is not None]
                rest = memoryview(b"".join([output.line for output in outputs]))
                while rest:
                    written_bytes = os.write(self._writing, rest)
                    rest = rest[written_bytes:]
                self._tell(self._note_written, [output.answered for output in outputs])
        except OSError:
            self._tell(self._note_lost)
        finally:
            self._drained.set()


class StreamLines(Lines):
    """Lines over a stream of bytes, in the event loop."""

    def __init__(self, stream: ByteStream, events: Events) -> None:
        super().__init__(events)
        self._stream = stream
        self._queue: asyncio.Queue[_Output | None] = asyncio.Queue()
        """Lines to write, with None after the last line."""
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        self._tasks = [
            asyncio.create_task(self._read_lines()),
            asyncio.create_task(self._write_lines()),
        ]

    async def drain(self, seconds: float) -> None:
        self._queue.put_nowait(None)
        _reading, writing = self._tasks
        await asyncio.wait([writing], timeout=seconds)
        self.stop()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _put(self, output: _Output) -> None:
        self._queue.put_nowait(output)

    async def _read_lines(self) -> None:
        frames = Frames()
        while not self._stopped:
            data = await self._stream.read()
            if not data:
                break
            await self._take(frames.feed(data))
        await self._take(frames.end())
        self._events.ended()

    async def _write_lines(self) -> None:
        """Write the lines of the queue until None comes, some at once."""
        is_last_batch = False
        while not is_last_batch:
            batch = [await self._queue.get()]
            while len(batch) < _AT_ONCE and not self._queue.empty():
                batch.append(self._queue.get_nowait())
            is_last_batch = None in batch
            outputs = [output for output in batch if output is not None]
            try:
                await self._stream.write(b"".join([output.line for output in outputs]))
            except OSError:
                self._note_lost()
                return
            self._note_written([output.answered for output in outputs])
