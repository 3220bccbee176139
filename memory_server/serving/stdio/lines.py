"""Lines between a client and the SDK's session, over a stream of bytes, such as two file descriptors.

Unreadable lines are answered here (frames.py), so the session gets only messages. No more is read while the session has
not taken what was read before, or while `MOST_IN_FLIGHT` requests have no answer that the client has read.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
from collections import Counter
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from functools import partial
from queue import SimpleQueue
from typing import Any, Protocol, Self

import anyio
import mcp_types as types
from mcp.shared.message import ServerMessageMetadata, SessionMessage

from memory_server.kernel.values import frozen
from memory_server.serving.fair_threads import Job
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


@frozen
class _Output:
    """A line for the client, and the request that it answers, or None."""

    line: bytes
    answered: Key


@frozen
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


class Lines:
    """The connection to one client: `incoming` is the read side for the SDK's session, and this object the write
    side."""

    def __init__(self, stream: ByteStream, events: Events) -> None:
        """Prepare to read and write on `stream`. The session takes its messages from `incoming`."""
        self._stream = stream
        self._queue: asyncio.Queue[_Output | None] = asyncio.Queue()
        """Lines to write, with None after the last line."""
        self._tasks: list[asyncio.Task[None]] = []
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

    def start(self) -> None:
        """Begin to read and to write."""
        self._tasks = [
            asyncio.create_task(self._read_lines()),
            asyncio.create_task(self._write_lines()),
        ]

    async def drain(self, seconds: float) -> None:
        """Wait until all answers have been written, at most `seconds`. Nothing is written after that."""
        self._queue.put_nowait(None)
        _reading, writing = self._tasks
        await asyncio.wait([writing], timeout=seconds)
        self.stop()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _put(self, output: _Output) -> None:
        """Queue a line for the client."""
        self._queue.put_nowait(output)

    def stop(self) -> None:
        self._stopped = True

    def end(self) -> None:
        self._deliver.close()

    async def quiet(self, seconds: float) -> None:
        """Wait until all requests except the lasting ones have been answered, at most `seconds`."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._quiet.wait(), seconds)

    async def send(self, item: SessionMessage, /) -> None:
        """Queue a message of the session as a line. An answer that cannot be written as JSON
        becomes an error."""
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

    async def aclose(self) -> None:
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
        """Wait for a free place, and count one more request under this key that has no answer yet."""
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
        """Return the message of a line for the session, or None if it is an answer that is not
        valid. A request that the session does not answer frees its slot."""
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

    async def _read_lines(self) -> None:
        """Read lines and give them to the session until the input ends or this is stopped; then tell `events`."""
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
                # The reader of the output has gone.
                self.stop()
                self._events.broken()
                return
            self._note_written([output.answered for output in outputs])

    def _note_written(self, answered: list[Key]) -> None:
        """Note that lines were written; the first answer is an event. `answered`: the request that each of them
        answers."""
        for key in answered:
            self._leave(key)
        if answered and not self._wrote:
            self._wrote = True
            self._events.first()


class Descriptors:
    """Two file descriptors as a stream, with a thread that reads and a thread that writes: a descriptor may be of any
    kind, and not every system can wait for it in an event loop."""

    def __init__(self, reading: int, writing: int) -> None:
        self._reading = _Thread("stdin", partial(_read, reading))
        self._writing = _Thread("stdout", partial(_write, writing))

    async def read(self) -> bytes:
        data: bytes = await self._reading.ask()
        return data

    async def write(self, data: bytes) -> None:
        await self._writing.ask(data)


def _read(descriptor: int) -> bytes:
    # An OSError is the same as the end.
    with contextlib.suppress(OSError):
        return os.read(descriptor, _PIECE)
    return b""


def _write(descriptor: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        written_bytes = os.write(descriptor, rest)
        rest = rest[written_bytes:]


class _Thread:
    """A thread that does one kind of work. It is a daemon: a read cannot be interrupted on every system, and must not
    keep the process alive."""

    def __init__(self, name: str, work: Callable[..., Any]) -> None:
        self._work = work
        self._jobs: SimpleQueue[Job] = SimpleQueue()
        threading.Thread(target=self._run, name=name, daemon=True).start()

    def _run(self) -> None:
        while True:
            self._jobs.get().carry_out()

    async def ask(self, *arguments: Any) -> Any:
        """Let the thread work, and return what came of it."""
        future: Future[Any] = Future()
        self._jobs.put(Job(future, partial(self._work, *arguments)))
        return await asyncio.wrap_future(future)
