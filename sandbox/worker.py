"""The child process: gives up its powers, then answers frames one after the other until stdin ends.

It is trusted less than the supervisor: whatever it answers is checked there, and it may be killed at any moment.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from . import board, powers, scope
from .engine import Deadlines, Isolate, Outcome, initialise, positions_of
from .pointing import place_of_verdict
from .protocol import LATER, READ_BYTES, Decoder, Frame, Kind, encode

Row = list[Any]
"""A verdict on the wire: [code, microseconds], for a failure followed by kind, message, line, column."""

REHEARSAL = (
    "new Date().toString() + new Date().toLocaleString()",
    "nope.a",
    "if (",
    "await 1",
)
NOWHERE = {"context": "null", "now": 0, "seed": 0}
NO_VERDICT = "none"
"""What realm/forms.js calls the form of several statements with `await` and no `return`."""


class Channel:
    """Blocking frames on two file descriptors that nothing else in the process knows."""

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

    async def rehearse(self, timezone: str | None) -> dict[str, Any]:
        """Does once all that work will ask for, while files can still be opened: modules, codecs, time zones.

        Returns what a worker says of itself. Raises ValueError for a time zone that V8 does not know.
        """
        isolate = self.prepare()
        self._globals = await isolate.globals()
        if timezone is not None and not await isolate.knows_zone(timezone):
            raise ValueError(f"there is no time zone {timezone!r}; give an IANA name such as Asia/Shanghai")
        about = {"v8": isolate.v8_version, "globals": self._globals, "timezone": timezone}
        turns = [[number, 0] for number in range(len(REHEARSAL))]
        job = {"triggers": REHEARSAL, "turns": turns, "scenes": [NOWHERE], "console": False, "step": False}
        await self.evaluate({**job, "trigger_seconds": 5, "after_timeout_seconds": 5, "search_seconds": 5})
        self.unknown_names({"sources": ["a"]})
        await self.discard()
        return about

    def prepare(self) -> Isolate:
        if self._ready is None:
            self._ready = Isolate(self._heap_mb)
        return self._ready

    async def discard(self) -> None:
        """Closes the isolate. Ends the process when V8 does not let go: what it had to say has been sent."""
        isolate, self._ready = self._ready, None
        if isolate is not None and not await isolate.close():
            leave(0)

    async def answer(self, frame: Frame) -> None:
        self.channel.request = frame.body.get("id")
        match frame.kind:
            case Kind.EVALUATE:
                await self.evaluate(frame.body)
            case Kind.MATCH:
                await self.match_texts(frame.body)
            case Kind.NAMES:
                self.unknown_names(frame.body)
            case _:
                raise ValueError(f"the supervisor sent {frame.kind!r}")
        if frame.kind is not Kind.NAMES:
            await self.discard()
        self.prepare()
        self.channel.send(Kind.READY)

    async def evaluate(self, job: Mapping[str, Any]) -> None:
        """Takes all turns, each a trigger in a scene, going on in a new isolate after each that had to be stopped.

        With several scenes it ends there: search.py asks again, scene by scene.
        """
        over_at = time.monotonic() + float(job["search_seconds"])
        allowance = float(job["trigger_seconds"])
        sources: list[str] = job["triggers"]
        turns: list[list[int]] = job["turns"]
        alone = len(job["scenes"]) == 1
        unplaced: dict[int, str] = {}
        done = 0
        while True:
            isolate = self.prepare()
            given = {
                key: job[key] for key in ("triggers", "originals", "scenes", "console", "trace", "probe") if key in job
            }
            await isolate.load({**given, "turns": turns[done:]})
            heap_before = isolate.heap_bytes() if job.get("heap") else 0
            first, until = done, 0
            while True:
                until = until + 1 if job["step"] else len(turns) - first
                if job["step"]:
                    self.channel.send(Kind.STEP, index=done)
                outcome = await isolate.run(until, Deadlines(allowance, over_at))
                rows = _rows(outcome)[done - first :]
                unplaced |= {first + index: form for index, form in _forms(outcome).items()}
                done += len(rows)
                if outcome.ending != "finished" or done == len(turns):
                    break
                self.channel.send(Kind.PART, rows=rows)
            lines = [note["c"] for note in outcome.snapshot.notes if "c" in note]
            traces = [[first + int(note["i"]), note] for note in outcome.snapshot.notes if "t" in note]
            if outcome.ending == "timeout":
                allowance = min(allowance, float(job["after_timeout_seconds"]))
            if done == len(turns) or outcome.ending == "budget" or not (alone or outcome.ending == "stray"):
                break
            # Sent before the isolate is closed: closing may be the last thing this process does.
            self.channel.send(Kind.PART, rows=rows, console=lines, traces=traces)
            await self.discard()
        at_rest = bool(job.get("heap")) and outcome.ending == "finished"
        heap = max(0, isolate.heap_bytes() - heap_before) if at_rest else None
        if unplaced and outcome.ending != "finished":
            await self.discard()
        places = [
            [index, *place]
            for index, form in unplaced.items()
            if (place := await self._place(sources[turns[index][0]], form)) is not None
        ]
        running = outcome.running_us if outcome.ending == "budget" and done < len(turns) else 0
        self.channel.send(Kind.DONE, rows=rows, console=lines, places=places, traces=traces, heap=heap, running=running)

    async def _place(self, source: str, form: str) -> tuple[int, int] | None:
        """Where a text fails to compile in this form. NO_VERDICT is no form of V8's: nothing is wrong but the end."""
        return place_of_verdict(source) if form == NO_VERDICT else await self.prepare().position(source, form)

    async def match_texts(self, job: Mapping[str, Any]) -> None:
        isolate = self.prepare()
        texts: list[str] = job["texts"]
        await isolate.load(
            {
                "triggers": texts,
                "turns": [[number, 0] for number in range(len(texts))],
                "scenes": [NOWHERE],
                "matching": [job["pattern"], job["flags"]],
            }
        )
        seconds = float(job["seconds"])
        outcome = await isolate.run(len(texts), Deadlines(seconds, time.monotonic() + seconds), "match")
        failed = positions_of(outcome.snapshot.notes).get(0)
        self.channel.send(
            Kind.DONE,
            ending="invalid" if failed else outcome.ending,
            message=failed["m"] if failed else outcome.message,
            matched=[code == board.FIRED for code in outcome.snapshot.verdicts[: len(texts)]],
        )

    def unknown_names(self, job: Mapping[str, Any]) -> None:
        """The unknown names of each of `sources`."""
        names = [
            [
                {"name": one.name, "line": one.line, "column": one.column, "nearest": one.nearest}
                for one in scope.unknown_names(str(source), self._globals)
            ]
            for source in job["sources"]
        ]
        self.channel.send(Kind.DONE, unknown=names)


def _forms(outcome: Outcome) -> dict[int, str]:
    """The form in which each trigger failed to compile: what engine.py needs to find the position."""
    return {index: str(note.get("f")) for index, note in positions_of(outcome.snapshot.notes).items() if note.get("f")}


def _rows(outcome: Outcome) -> list[Row]:
    """The verdicts of one isolate, the last one being that of the trigger that had to be stopped."""
    shot = outcome.snapshot
    total = outcome.total_us - (0 if outcome.ending == "finished" else outcome.running_us)
    spans = board.elapsed_us(shot.ends_ms[: shot.index], outcome.started_ms, total)
    notes = positions_of(shot.notes)
    rows: list[Row] = []
    for index in range(shot.index):
        code = shot.verdicts[index]
        if code == board.FAILED:
            note = notes.get(index, {"k": "thrown", "m": "failed; no room was left for its message"})
            rows.append([code, spans[index], note["k"], note["m"], *(note.get("p") or (None, None))])
        else:
            rows.append([code, spans[index]])
    match outcome.ending:
        case "out_of_memory":
            # The supervisor is told when others ran before it and may have left the memory full.
            message = LATER if shot.index > 0 else ""
            rows.append([board.FAILED, outcome.running_us, outcome.ending, message, None, None])
        case "timeout" | "broken":
            rows.append([board.FAILED, outcome.running_us, outcome.ending, outcome.message, None, None])
        case "finished" | "budget" | "stray":
            pass
    return rows


async def serve(channel: Channel, settings: Mapping[str, Any]) -> None:
    heap_mb = int(settings["heap_mb"])
    initialise(heap_mb)
    null = os.open(os.devnull, os.O_WRONLY)
    worker = Worker(Channel(null, null), heap_mb)
    about = await worker.rehearse(settings["timezone"])
    os.close(null)
    worker.channel = channel
    layers = powers.give_up(
        data_mb=int(settings["data_mb"]), parent=int(settings["parent"]), without=settings["without"]
    )
    missing = [name for name, state in layers.items() if not state["holds"]]
    if missing and settings["required"]:
        raise PermissionError(f"a layer of protection is missing here: {', '.join(missing)}")
    worker.prepare()
    channel.send(Kind.HELLO, pid=os.getpid(), layers=layers, **about)
    while True:
        # Blocking on purpose: nothing else is to be done between two requests.
        frame = channel.receive()
        if frame is None:
            return
        await worker.answer(frame)


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
            channel.send(Kind.REFUSAL, message=f"{type(error).__name__}: {error}")
        finally:
            leave(1)
    leave(0)


if __name__ == "__main__":
    import json

    main(json.loads(sys.argv[1]))
