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
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, NoReturn, assert_never

from languages import _
from sandbox.javascript.linting import lint
from sandbox.javascript.scope import unknown_names
from sandbox.javascript.syntax import parse, place_of_verdict
from sandbox.javascript.tracing import copy_of, key_words, operands
from sandbox.protocol import (
    MOST_FINDINGS,
    MOST_TEXT,
    MOST_WORDS,
    READ_BYTES,
    Decoder,
    Frame,
    Kind,
    ReadQuestion,
    encode,
    packed,
)
from sandbox.values import JsonObject, frozen
from sandbox.worker import hardening
from sandbox.worker.engine import Deadlines, EngineOutcome, Isolate, Row, initialise

REHEARSAL = (
    "new Date().toString() + new Date().toLocaleString()",
    "nope.a",
    "if (",
    "await 1",
)
"""Triggers that need all that a trigger may need."""
REHEARSAL_SECONDS = 5
"""Seconds that these may take, also on a busy machine."""
CLOSE_SECONDS = 0.25
"""A healthy isolate closes in 1-50 ms, also an isolate that runs promise jobs for ever."""
ROOM_MB = 64
"""MiB that must be left for the next isolate: what V8 itself allows the heap by default (SandboxLimits.heap_mb)."""
MOST_CLOSING = 3
"""Isolates of earlier requests that may still run: each takes processor time and memory from the next ones."""
NAMED_US = 1_000
"""Microseconds that a trigger has run: then the supervisor gets its number, in case it kills the worker."""
_LOADED = (
    "triggers",
    "original",
    "context",
    "now",
    "seed",
    "console",
    "probe",
    "apart",
    "names",
    "lastFired",
)
"""The fields of a frame EVALUATE that the isolate gets."""
_LINE = 4
"""The index of the line in the row of a failure (`Row` in engine.py)."""
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
        """Return the next frame, or None at the end of input. Raises ProtocolError."""
        while not self._frames:
            piece = os.read(self._reading, READ_BYTES)
            if not piece:
                return None
            self._frames.extend(self._decoder.feed(piece))
        return self._frames.popleft()

    def send(self, kind: Kind, **body: Any) -> None:
        """Write a frame that answers the request."""
        frame = Frame(kind, body | {"id": self.request})
        unsent = memoryview(encode(frame))
        while unsent:
            written = os.write(self._writing, unsent)
            unsent = unsent[written:]


@frozen
class _Run:
    """What an isolate did with the triggers of a request. `last`: its last outcome; `rows`: all verdicts;
    `unsent_rows`: verdicts that the supervisor does not have yet."""

    last: EngineOutcome
    rows: Sequence[Row]
    unsent_rows: Sequence[Row]


class Worker:
    """Holds one prepared isolate; every search gets a fresh one."""

    def __init__(self, channel: Channel, heap_mb: int) -> None:
        self.channel = channel
        self._heap_mb = heap_mb
        self._globals: Sequence[str] = ()
        self._ready: Isolate | None = None
        self._closing: list[threading.Thread] = []
        self.had_room = True

    async def rehearse(self, timezone: str | None) -> JsonObject:
        """Do all kinds of work once, while files can still be opened: load modules, codecs, time zones. Return what
        `describe` shows. Raises ValueError for a time zone that V8 does not know."""
        about = await self.prepare().describe(timezone)
        self._globals = about["globals"]
        job = {
            "triggers": REHEARSAL,
            "context": "null",
            "now": 0,
            "seed": 0,
            "singly": 0,
            "stride": len(REHEARSAL),
            "trigger_seconds": REHEARSAL_SECONDS,
            "parts": None,
            "search_seconds": REHEARSAL_SECONDS,
        }
        await self.evaluate(job)
        for question in ReadQuestion:
            self.read({"sources": ["a && match_keys([], ['b'])"], "now": 0, "wanted": question})

        self.discard()
        for thread in self._closing:
            thread.join()  # before the powers are given up: a thread that still runs would keep its powers

        return about

    def prepare(self) -> Isolate:
        """Return the isolate of the next search, and make it if necessary."""
        if self._ready is None:
            self._ready = Isolate(self._heap_mb)
        return self._ready

    def discard(self) -> None:
        """Let the isolate go, without waiting for its end."""
        if self._ready is not None:
            self._closing.append(self._ready.close())
            self._ready = None

    @property
    def clean(self) -> bool:
        """Whether all isolates of earlier requests have ended: if not, this process may die of an old isolate."""
        self._closing = [thread for thread in self._closing if thread.is_alive()]
        return not self._closing

    def next_frame(self) -> Frame | None:
        """Return the next request, or None at the end of input. Raises ProtocolError. Blocks on purpose: nothing else
        is to be done between two requests. When an isolate does not end, the process continues only while requests
        come at once; else it ends itself."""
        timer = threading.Timer(CLOSE_SECONDS, self._leave_unless_clean)
        timer.daemon = True
        if not self.clean:
            timer.start()
        frame = self.channel.receive()
        timer.cancel()
        return frame

    def _leave_unless_clean(self) -> None:
        if not self.clean:
            leave(0)

    async def answer(self, frame: Frame) -> None:
        """Answer a request and prepares for the next one. May end the process instead. Raises
        ValueError for a request of an unknown kind."""
        self.channel.request = frame.body.get("id")
        match frame.kind:
            case Kind.EVALUATE:
                await self.evaluate(frame.body)
            case Kind.READ:
                self.read(frame.body)
            case _:
                raise ValueError(f"the supervisor sent {frame.kind!r}")

        # A text that was only read has not touched the isolate.
        if frame.kind is not Kind.READ:
            self.discard()
        if len(self._closing) > MOST_CLOSING and not self.clean:
            leave(0)

        if self.had_room and not room():
            leave(
                0
            )  # V8's libraries do not give memory back, and the next isolate might have too little

        self.prepare()
        self.channel.send(Kind.READY, clean=self.clean)

    async def evaluate(self, job: JsonObject) -> None:
        """Run the triggers, up to the first after which the isolate must end. Answer the first `singly` one by one, the
        others `stride` by `stride`, and at last with where the texts that do not compile are broken, for which a
        stopped isolate is replaced."""
        over_at = time.monotonic() + float(job["search_seconds"])
        count = len(job["triggers"])
        isolate = self.prepare()
        await isolate.load({key: job[key] for key in _LOADED if key in job})
        run = await self._run(isolate, job, over_at)
        unsent_rows = run.unsent_rows
        details: dict[str, Any] = {}
        if run.last.ending == "budget" and run.last.done < count:
            details = {"over": True, "running": run.last.running_us}

        console = [note["c"] for note in isolate.notes if "c" in note]
        trace = [note for note in isolate.notes if "trace" in note]
        broken = _broken_texts(job["triggers"], run.rows)
        if broken:
            self.channel.send(
                Kind.PART, rows=unsent_rows
            )  # the process may die of a text that it compiles again
            unsent_rows = []
            if run.last.ending != "finished":
                self.discard()  # it was stopped
            details["places"] = await _places(self.prepare(), broken, over_at)

        self.channel.send(Kind.DONE, rows=unsent_rows, console=console, trace=trace, **details)

    async def _run(self, isolate: Isolate, job: JsonObject, over_at: float) -> _Run:
        """Run the triggers stride by stride, and send the verdicts meanwhile. End when all are
        done, the time is over, or a trigger after which the isolate cannot go on."""
        deadlines = Deadlines(job["trigger_seconds"], over_at, job["parts"])
        count = len(job["triggers"])
        rows: list[Row] = []

        def tell(outcome: EngineOutcome) -> None:
            rows.extend(outcome.rows)
            if outcome.rows:
                self.channel.send(Kind.PART, rows=outcome.rows)
            if outcome.ending == "running" and outcome.running_us >= NAMED_US:
                self.channel.send(Kind.STEP, index=outcome.done)

        done = 0
        while True:
            # It may run again if the supervisor allows: it was not the trigger that used up the time.
            stride = 1 if done < job["singly"] else job["stride"]
            outcome = await isolate.run(min(done + stride, count), deadlines, tell=tell)
            done = outcome.done
            rows += outcome.rows
            if done == count or outcome.ending not in ("finished", "timeout"):
                return _Run(outcome, rows, unsent_rows=outcome.rows)
            # Sent before the next attempt: the process may die in it.
            self.channel.send(Kind.PART, rows=outcome.rows)
            if outcome.ending == "timeout":
                may_go_on = deadlines.parts is not None and await isolate.skip()
                if not may_go_on:
                    return _Run(outcome, rows, unsent_rows=[])

    def read(self, job: JsonObject) -> None:
        """Read what the job wants of its sources (findings, words or readings), without running
        them, and send the answer."""
        sources = [str(source) for source in job["sources"]]
        question = ReadQuestion(job["wanted"])
        match question:
            case ReadQuestion.FINDINGS:
                answers: list[Any] = self._findings(sources, job)
            case ReadQuestion.WORDS:
                answers = [_words(source) for source in sources]
            case ReadQuestion.READING:
                answers = [_reading(source) for source in sources]
            case _:
                assert_never(question)
        self.channel.send(Kind.DONE, **{question.value: answers})

    def _findings(self, sources: Sequence[str], job: JsonObject) -> list[list[Row]]:
        """Return for each source the names that are unknown in it, and the first findings of the
        lint rules; none of these if a rule fails."""
        now = datetime.fromtimestamp(job["now"] / 1000, UTC)
        answers: list[list[Row]] = []
        for text in sources:
            source = parse(text)
            findings = unknown_names(source, self._globals)
            with suppress(Exception):  # a rule that fails must not keep a trigger from being stored
                findings += lint(source, now)[:MOST_FINDINGS]
            rows = [
                [finding.rule, packed(finding.message), *source.place(finding.start)]
                for finding in findings
            ]
            answers.append(rows)
        return answers


def _words(text: str) -> list[str]:
    """Return the key words of a trigger, as protocol.py reads them."""
    return [word[:MOST_TEXT] for word in key_words(text)[:MOST_WORDS]]


def _reading(text: str) -> list[Any]:
    """Return the operands of a trigger and its traced copy, as protocol.py reads them."""
    rows: list[Row] = []
    for operand in operands(parse(text)):
        row: Row = [
            operand.number,
            operand.depth,
            operand.role[:MOST_TEXT],
            operand.text[:MOST_TEXT],
        ]
        row += [operand.start, operand.end, operand.is_compared]
        rows.append(row)
    copy = copy_of(text)
    if copy is None:
        return [rows, None]
    return [rows, [copy.source, copy.probe]]


@frozen
class _BrokenText:
    """A trigger that does not compile. `form`: the form in which it was compiled (realm/forms.js)."""

    index: int
    source: str
    form: str


def _broken_texts(triggers: Sequence[str], rows: Sequence[Row]) -> list[_BrokenText]:
    """Return the triggers that do not compile: their rows have the form in place of the line."""
    broken: list[_BrokenText] = []
    for index, row in enumerate(rows):
        line = row[_LINE] if len(row) > _LINE else None
        if isinstance(line, str):
            broken.append(_BrokenText(index, triggers[index], form=line))
    return broken


async def _places(
    isolate: Isolate, broken: Sequence[_BrokenText], over_at: float
) -> list[list[int]]:
    """Return where texts fail to compile, as index, line and column, as far as the time goes."""
    places: list[list[int]] = []
    for text in broken:
        if time.monotonic() >= over_at:
            break
        if text.form == NO_VERDICT:  # not an error of V8: only the `return` is missing
            places.append([text.index, *place_of_verdict(parse(text.source))])
            continue
        try:
            position = await isolate.position(text.source, text.form)
        except TimeoutError:  # jobs that triggers left do not end
            break
        if position is not None:
            places.append([text.index, *position])
    return places


async def serve(channel: Channel, settings: JsonObject) -> None:
    """Rehearse, give up the powers of the process, and answer requests until the end of input. Raises
    PermissionError: a layer of protection is missing and was demanded."""
    heap_mb = int(settings["heap_mb"])
    initialise(heap_mb)
    # What is rehearsed must not be sent: the supervisor waits for HELLO.
    null = os.open(os.devnull, os.O_WRONLY)
    worker = Worker(Channel(null, null), heap_mb)
    about = await worker.rehearse(settings["timezone"])
    os.close(null)
    worker.channel = channel
    layers = hardening.give_up(
        data_mb=int(settings["data_mb"]),
        parent=int(settings["parent"]),
        without=settings["without"],
    )
    missing = [name for name, state in layers.items() if not state["holds"]]
    if missing and settings["required"]:
        raise PermissionError(
            _("a layer of protection is missing here: {layers}", ", ".join(missing))
        )

    # Prepared before HELLO, so that the first search does not wait for an isolate.
    worker.prepare()
    worker.had_room = room()
    channel.send(Kind.HELLO, pid=os.getpid(), layers=layers, **about)
    while True:
        frame = worker.next_frame()
        if frame is None:
            return
        await worker.answer(frame)


def room() -> bool:
    """Tell whether the system would give this process ROOM_MB more memory. True where it has no bound."""
    if sys.platform == "win32":
        return True
    try:
        mmap.mmap(-1, ROOM_MB * 2**20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS).close()
    except OSError:
        return False
    return True


def leave(code: int) -> NoReturn:
    """End the process at once: an ordinary exit may wait for an isolate for ever."""
    os._exit(code)


def main(settings: JsonObject) -> NoReturn:
    """Run until stdin ends. Called by the command line that process.py writes."""
    signal.signal(
        signal.SIGINT, signal.SIG_IGN
    )  # Ctrl-C in a terminal reaches children too; the parent decides
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
