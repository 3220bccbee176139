"""The child process: gives up its powers, then answers frames one after the other until stdin ends.

The supervisor does not trust it: it checks each answer, and may kill the process at any moment.
"""

from __future__ import annotations

import asyncio
import mmap
import os
import signal
import sys
import threading
import time
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, NoReturn, assert_never

from sandbox.javascript.linting import lint
from sandbox.javascript.scope import unknown_names
from sandbox.javascript.syntax import parse, place_of_verdict
from sandbox.javascript.tracing import copy_of, key_words, operands
from sandbox.locale import _, packed
from sandbox.protocol import MOST_FINDINGS, MOST_TEXT, MOST_WORDS, READ_BYTES, Decoder, Frame, Kind, Wanted, encode
from sandbox.worker import hardening
from sandbox.worker.engine import Deadlines, EngineOutcome, Isolate, Row, initialise

REHEARSAL = (
    "new Date().toString() + new Date().toLocaleString()",
    "nope.a",
    "if (",
    "await 1",
)
CLOSE_SECONDS = 0.25
"""A healthy isolate closes in 1-50 ms, also one that runs promise jobs for ever."""
ROOM_MB = 64
"""MiB that must be left for the next isolate: what V8 itself allows the heap by default (SandboxLimits.heap_mb)."""
MOST_CLOSING = 3
"""Isolates of earlier requests that may still run: each takes processor time and memory from the next ones."""
NAMED_US = 1_000
"""Microseconds that a trigger has run: then the supervisor gets its number, in case it kills the worker."""
NO_VERDICT = "none"
"""The form of several statements with `await` and without `return`, in realm/forms.js."""


class Channel:
    """Blocking frames on two file descriptors that only this class knows."""

    def __init__(self, reading: int, writing: int) -> None:
        self._reading = reading
        self._writing = writing
        self._decoder = Decoder()
        self._frames: deque[Frame] = deque()
        self.request: object = None  # named in every answer, see process.py

    def receive(self) -> Frame | None:
        """The next frame, or None at the end of input. Raises ProtocolError."""
        while not self._frames:
            piece = os.read(self._reading, READ_BYTES)
            if not piece:
                return None
            self._frames.extend(self._decoder.feed(piece))
        return self._frames.popleft()

    def send(self, kind: Kind, **body: Any) -> None:
        left = memoryview(encode(Frame(kind, body | {"id": self.request})))
        while left:
            left = left[os.write(self._writing, left) :]


class Worker:
    """Holds one prepared isolate; every search gets a fresh one."""

    def __init__(self, channel: Channel, heap_mb: int) -> None:
        self.channel = channel
        self._heap_mb = heap_mb
        self._globals: Sequence[str] = ()
        self._ready: Isolate | None = None
        self._closing: list[threading.Thread] = []
        self.had_room = True

    async def rehearse(self, timezone: str | None) -> dict[str, Any]:
        """Does all kinds of work once, while files can still be opened: loads modules, codecs, time zones. Returns what
        `describe` shows. Raises ValueError for a time zone that V8 does not know."""
        about = await self.prepare().describe(timezone)
        self._globals = about["globals"]
        job = {"triggers": REHEARSAL, "context": "null", "now": 0, "seed": 0, "singly": 0, "stride": len(REHEARSAL)}
        await self.evaluate({**job, "trigger_seconds": 5, "parts": None, "search_seconds": 5})
        for wanted in Wanted:
            self.read({"sources": ["a && match_keys([], ['b'])"], "now": 0, "wanted": wanted})
        self.discard()
        for thread in self._closing:
            thread.join()  # before the powers are given up: a thread that still runs would keep its powers
        return about

    def prepare(self) -> Isolate:
        if self._ready is None:
            self._ready = Isolate(self._heap_mb)
        return self._ready

    def discard(self) -> None:
        """Lets the isolate go, without waiting for its end."""
        if self._ready is not None:
            self._closing.append(self._ready.close())
            self._ready = None

    @property
    def clean(self) -> bool:
        """Whether all isolates of earlier requests have ended: if not, this process may die of one of them."""
        self._closing = [thread for thread in self._closing if thread.is_alive()]
        return not self._closing

    def next_frame(self) -> Frame | None:
        """The next request, or None at the end of input. Raises ProtocolError. Blocks on purpose: there is no other
        work between two requests. When an isolate does not end, the process continues only while requests come at once;
        else it ends itself."""
        timer = threading.Timer(CLOSE_SECONDS, lambda: self.clean or leave(0))
        timer.daemon = True
        if not self.clean:
            timer.start()
        frame = self.channel.receive()
        timer.cancel()
        return frame

    async def answer(self, frame: Frame) -> None:
        self.channel.request = frame.body.get("id")
        match frame.kind:
            case Kind.EVALUATE:
                await self.evaluate(frame.body)
            case Kind.READ:
                self.read(frame.body)
            case _:
                raise ValueError(f"the supervisor sent {frame.kind!r}")
        if frame.kind is not Kind.READ:
            self.discard()
        if len(self._closing) > MOST_CLOSING and not self.clean:
            leave(0)
        if self.had_room and not room():
            leave(0)  # V8's libraries do not give memory back, and the next isolate might have too little
        self.prepare()
        self.channel.send(Kind.READY, clean=self.clean)

    async def evaluate(self, job: Mapping[str, Any]) -> None:
        """Runs the triggers, up to the first one after which the isolate must end. Answers the first `singly` one by
        one, the others `stride` by `stride`."""
        over_at = time.monotonic() + float(job["search_seconds"])
        deadlines = Deadlines(job["trigger_seconds"], over_at, job["parts"])
        count = len(job["triggers"])
        isolate = self.prepare()
        given = ("triggers", "original", "context", "now", "seed", "console", "probe", "apart")
        await isolate.load({key: job[key] for key in given if key in job})

        all_rows: list[Row] = []

        def tell(outcome: EngineOutcome) -> None:
            all_rows.extend(outcome.rows)
            if outcome.rows:
                self.channel.send(Kind.PART, rows=outcome.rows)
            if outcome.ending == "running" and outcome.running_us >= NAMED_US:
                self.channel.send(Kind.STEP, index=outcome.done)

        done = 0
        while True:
            until = min(done + (1 if done < job["singly"] else job["stride"]), count)
            outcome = await isolate.run(until, deadlines, tell=tell)
            rows, done = outcome.rows, outcome.done
            all_rows += rows
            if done == count or outcome.ending not in ("finished", "timeout"):
                break
            # Sent before the next attempt: the process may die in it.
            self.channel.send(Kind.PART, rows=rows)
            rows = []
            if outcome.ending == "timeout" and (deadlines.parts is None or not await isolate.skip()):
                break
        more: dict[str, Any] = {}
        if outcome.ending == "budget" and done < count:
            more = {"over": True, "running": outcome.running_us}
        console = [note["c"] for note in isolate.notes if "c" in note]
        trace = [note for note in isolate.notes if "trace" in note]
        # A text that does not compile has its form in place of the line.
        forms = {index: row[4] for index, row in enumerate(all_rows) if len(row) > 4 and isinstance(row[4], str)}
        if forms:
            self.channel.send(Kind.PART, rows=rows)  # the process may die of a text that it compiles again
            rows = []
            broken = [(index, job["triggers"][index], form) for index, form in forms.items()]
            if outcome.ending != "finished":
                self.discard()  # it was stopped
            more["places"] = await _places(self.prepare(), broken, over_at)
        self.channel.send(Kind.DONE, rows=rows, console=console, trace=trace, **more)

    def read(self, job: Mapping[str, Any]) -> None:
        """What is wanted of each of `sources`, which are not run."""
        sources = [str(source) for source in job["sources"]]
        wanted = Wanted(job["wanted"])
        match wanted:
            case Wanted.FINDINGS:
                answers: list[Any] = self._findings(sources, job)
            case Wanted.WORDS:
                answers = [[word[:MOST_TEXT] for word in key_words(source)[:MOST_WORDS]] for source in sources]
            case Wanted.READING:
                answers = [_reading(source) for source in sources]
            case _:
                assert_never(wanted)
        self.channel.send(Kind.DONE, **{wanted.value: answers})

    def _findings(self, sources: Sequence[str], job: Mapping[str, Any]) -> list[list[Row]]:
        """Unknown names in each source, and what lint rules find."""
        now = datetime.fromtimestamp(job["now"] / 1000, UTC)
        findings: list[list[Row]] = []
        for text in sources:
            source = parse(text)
            found = unknown_names(source, self._globals)
            with suppress(Exception):  # a rule that fails must not keep a trigger from being stored
                found += lint(source, now)[:MOST_FINDINGS]
            findings.append([[one.rule, packed(one.message), *source.place(one.start)] for one in found])
        return findings


def _reading(text: str) -> list[Any]:
    """The operands of a trigger and its traced copy, as protocol.py reads them."""
    rows = []
    for operand in operands(parse(text)):
        shown = operand.role[:MOST_TEXT], operand.text[:MOST_TEXT]
        rows.append([operand.number, operand.depth, *shown, operand.start, operand.end, operand.is_compared])
    copy = copy_of(text)
    return [rows, None if copy is None else [copy.source, copy.probe]]


async def _places(isolate: Isolate, broken: Sequence[tuple[int, str, str]], over_at: float) -> list[list[int]]:
    """Where texts fail to compile, as index, line and column, as far as the time goes. `broken`: index, text, form."""
    found: list[list[int]] = []
    for index, source, form in broken:
        if time.monotonic() >= over_at:
            break
        if form == NO_VERDICT:  # not an error of V8: only the `return` is missing
            found.append([index, *place_of_verdict(parse(source))])
            continue
        try:
            place = await isolate.position(source, form)
        except TimeoutError:  # jobs that triggers left do not end
            break
        if place is not None:
            found.append([index, *place])
    return found


async def serve(channel: Channel, settings: Mapping[str, Any]) -> None:
    heap_mb = int(settings["heap_mb"])
    initialise(heap_mb)
    null = os.open(os.devnull, os.O_WRONLY)
    worker = Worker(Channel(null, null), heap_mb)
    about = await worker.rehearse(settings["timezone"])
    os.close(null)
    worker.channel = channel
    layers = hardening.give_up(
        data_mb=int(settings["data_mb"]), parent=int(settings["parent"]), without=settings["without"]
    )
    missing = [name for name, state in layers.items() if not state["holds"]]
    if missing and settings["required"]:
        raise PermissionError(_("a layer of protection is missing here: {layers}", ", ".join(missing)))
    worker.prepare()
    worker.had_room = room()
    channel.send(Kind.HELLO, pid=os.getpid(), layers=layers, **about)
    while True:
        frame = worker.next_frame()
        if frame is None:
            return
        await worker.answer(frame)


def room() -> bool:
    """Whether the system would give this process ROOM_MB more memory. True where it has no bound."""
    if sys.platform == "win32":
        return True
    try:
        mmap.mmap(-1, ROOM_MB * 2**20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS).close()
    except OSError:
        return False
    return True


def leave(code: int) -> NoReturn:
    """Ends the process at once: an ordinary exit may wait for an isolate for ever."""
    os._exit(code)


def main(settings: Mapping[str, Any]) -> NoReturn:
    """Runs until stdin ends. Called by the command line that process.py writes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C in a terminal reaches children too; the parent decides
    channel = Channel(os.dup(0), os.dup(1))
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):  # V8 prints its last words on these
        os.dup2(null, descriptor)
    try:
        asyncio.run(serve(channel, settings))
    except BrokenPipeError:
        leave(0)
    except BaseException as error:
        try:
            channel.send(Kind.REFUSAL, message=_("{about}: {what}", type(error).__name__, error))
        finally:
            leave(1)
    leave(0)
