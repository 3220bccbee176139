"""One V8 isolate: a locked realm that runs a batch of triggers under limits. The only importer of the V8 binding.

Pitfalls of mini-racer 0.14 that shape this file (each was seen to happen):
- A timeout ends the call but does not stop the isolate; closing may block for ever. So a thread closes it, and the
  process ends itself when an isolate does not stop (worker/main.py).
- Values of a trigger must never be converted to Python (with BigInt, lone surrogates or invalid dates the call never
  ends). The realm answers with small integers and writes the rest on the board.
- Calling a JavaScript function from Python blocks behind pending promise jobs. Only cancelable evaluation is used.
- The memory flag stays set once it is set, so an isolate that met its limit is never used again.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import threading
import time
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

from languages import _
from sandbox.javascript.positions import lines_of
from sandbox.javascript.spelling import UNSEEN, ideographs
from sandbox.protocol import LATER
from sandbox.values import JsonObject, frozen
from sandbox.worker import board

if TYPE_CHECKING:
    from py_mini_racer import MiniRacer

REALM_FILES = ("lock.js", "clock.js", "calendar.js", "keys.js", "trace.js", "forms.js", "board.js")
V8_FLAGS = ("--single-threaded", "--jitless")
POLL_SECONDS = 0.01
POLLS_PER_LIMIT = 5
"""The board is looked at every 10 ms, and at least 5 times within a trigger's limit: the precision of a time-out."""
REPORT_SECONDS = 0.05
"""Verdicts are reported this often: an ordinary search ends sooner, and a death loses little of a long one."""
STARVED_SECONDS = 0.3
"""How much longer than its limit a trigger may take on a busy machine; the others need time too."""
SKIP_SECONDS = 0.03
"""V8 stops within 5 ms, rarely 30, if it can be interrupted at all."""
SKIP_BYTES = 8 * 2**20
"""Bytes of the heap, garbage included: with more, the next triggers could be stopped for what others left."""
COMPILE_SECONDS = 0.25
"""For compiling a text of the greatest length once more: some ms."""
MOST_MESSAGE = 300
"""Characters of a message of V8, as realm/board.js cuts messages of triggers."""
REST = 1
"""The answer of board.js when promise jobs must run first."""
RESTED = -1
"""The answer of the empty call after that."""
HARD_HEAP_FACTOR = 2
"""V8's own heap limit over heap_mb: the gentle limit is seen only after a garbage collection."""

STRAY_SECONDS = 0.05
"""For jobs that triggers left unseen. They can change nothing any more; after this time the isolate is discarded."""

# V8 gives the position of a compile error only in the message for the host.
_REPORT = re.compile(
    r"^(?>[^\n]*?:(\d+): SyntaxError: )[^\n]*\n(?P<source>[^\n]*)\n(?P<caret> *)\^"
)
# `throw 0` comes first, so that no part of the text can run. realm/forms.js knows the same forms.
_RECOMPILE = {
    "script": ('"use strict";throw 0;', ""),
    "body": ('throw 0;(function(){"use strict";', "\n})"),
    "async": ('throw 0;(async function(){"use strict";', "\n})"),
}
Row = list[Any]
"""A verdict on the wire: [code, microseconds], for a failure followed by kind, message, line, column."""
Ending = Literal["running", "finished", "timeout", "out_of_memory", "budget", "broken", "stray"]
"""stray: stopped in jobs that belong to no trigger, before the next trigger began."""
_FAILURES = ("timeout", "out_of_memory", "broken")
"""Endings that are the failure of the trigger that ran."""


@frozen
class EngineOutcome:
    """What one isolate did since the last outcome: how it ended, and the verdicts since then. `done`: verdicts so far.
    `running_us`: how long the next trigger has run; 0 when no trigger was running."""

    ending: Ending
    rows: list[Row]
    done: int
    running_us: int
    message: str


@frozen
class Deadlines:
    """Seconds for each trigger, and the monotonic time at which all must be over. `parts`: a trigger gets at most the
    time that is left when it begins, divided by this number."""

    trigger: float
    over_at: float
    parts: int | None = None


def initialise(heap_mb: int) -> None:
    """Start V8 for this process; before the first isolate."""
    from py_mini_racer import _mini_racer, init_mini_racer

    # The binding's own setTimeout would leave a class as a global lexical, which no freezing reaches.
    setattr(_mini_racer, "INSTALL_SET_TIMEOUT", "0")  # noqa: B010 - not a public name of it
    init_mini_racer(flags=(*V8_FLAGS, f"--max-heap-size={heap_mb * HARD_HEAP_FACTOR}"))


@cache
def realm_source() -> str:
    """Return an expression that opens the realm, and whose value is its door, the function at the end of board.js.
    The files of the realm are one function in it, because they share names (see realm/)."""
    folder = (
        Path(__file__).parent / "realm"
    )  # not importlib.resources, which costs 10 ms of each start
    body = "\n".join((folder / name).read_text(encoding="utf-8") for name in REALM_FILES)
    constants = f"const IDEOGRAPHS = '{ideographs()}';\nconst UNSEEN_SIGNS = /{UNSEEN}/g;\n"
    return f"(() => {{'use strict';\n{constants}{body}\n}})()"


class _Watch:
    """Reads the board while V8 runs: which trigger runs, and for how long. Reports each verdict once."""

    def __init__(self, memory: memoryview, count: int) -> None:
        self._memory = memory
        self._count = count
        self._reported = 0
        """How many verdicts were reported."""
        self._noted = 0
        """How many characters of notes were read."""
        self._named = -1
        self.notes: list[dict[str, Any]] = []
        self.failures: dict[int, JsonObject] = {}

    def skip(self) -> None:
        """Pass over the trigger that was stopped: its verdict was reported and is not on the board."""
        self._reported += 1

    def begin(self, until: int, deadlines: Deadlines) -> None:
        """Begin to watch a run to trigger `until`."""
        self._until = until
        self._deadlines = deadlines
        self._started_ms = float(int(time.time() * 1000))
        self._began = time.monotonic()
        """When the time began that no outcome has reported yet."""
        self._running_since = self._began
        """When the trigger that runs was first seen to run."""
        self._processor_seconds_then = time.process_time()
        self._running = board.state(self._memory)
        """What ran at the last look."""

    def limit(self) -> float:
        """Return the seconds for the trigger that runs now, or for the jobs that belong to no trigger."""
        limit = self._deadlines.trigger
        if self._running.only_jobs_run:
            limit = min(limit, STRAY_SECONDS)
        if self._deadlines.parts is not None:
            seconds_left = max(0.0, self._deadlines.over_at - self._running_since)
            limit = min(limit, seconds_left / self._deadlines.parts)
        return limit

    def look(self) -> Ending | None:
        """Return why V8 must be stopped now, or None. Wall time counts. On a busy machine, where this process got
        less than half of that time, a trigger has its limit twice, but at most STARVED_SECONDS more."""
        now = time.monotonic()
        processor_seconds = time.process_time()
        running = board.state(self._memory)
        self._slow = running == self._running
        if not self._slow:
            self._running = running
            self._running_since = now
            self._processor_seconds_then = processor_seconds

        limit = self.limit()
        wall_seconds = now - self._running_since
        got_little_time = processor_seconds - self._processor_seconds_then < limit / 2
        is_starved = got_little_time and wall_seconds < limit + min(limit, STARVED_SECONDS)
        is_over = now >= self._deadlines.over_at
        if wall_seconds >= limit and (is_over or not is_starved):
            return "timeout"

        return "budget" if is_over else None

    def has_news(self) -> bool:
        """Tell whether to report: after REPORT_SECONDS, and when a trigger that was not named yet takes long."""
        index = self._running.trigger
        if self._slow and index != self._named:
            self._named = index
            return True
        return index > self._reported and time.monotonic() - self._began >= REPORT_SECONDS

    def outcome(self, ending: Ending, message: str = "") -> EngineOutcome:
        """Report what happened since the last outcome, for V8 that stopped with this ending, or still runs. An ending
        that is a failure adds the verdict on the trigger that ran, unless no trigger ran; `message` has the words of
        V8 about it."""
        now = time.monotonic()
        self.look()  # it notices a trigger that began after the last look
        only_jobs_run = board.state(self._memory).only_jobs_run
        state = board.read(self._memory, self._count, self._reported, self._noted)
        self.notes += state.notes
        for note in state.notes:
            if "k" in note:
                self.failures[int(note["i"])] = note

        if ending in _FAILURES:
            if only_jobs_run:
                ending = "stray"  # no trigger is to blame for jobs of others
            elif state.index >= self._until:
                ending = "finished"  # the last trigger has just ended, so none is to blame

        running_seconds = 0.0 if only_jobs_run else max(0.0, now - self._running_since)
        running_us = int(running_seconds * 1e6)
        spent_us = int((now - self._began) * 1e6)
        # The time of the trigger that still runs is not shared among the ended triggers.
        if ending != "finished":
            spent_us -= running_us

        rows = self._rows(state, spent_us)
        if rows:
            self._started_ms = state.ends_ms[len(rows) - 1]

        self._reported = state.index
        self._noted = state.noted
        self._began = now - running_seconds
        if ending in _FAILURES:
            others_ran_before = state.index > 0  # and may have left the memory full
            shown_message = LATER if ending == "out_of_memory" and others_ran_before else message
            rows.append([board.FAILED, running_us, ending, shown_message, None, None])

        return EngineOutcome(
            ending, rows, done=state.first + len(rows), running_us=running_us, message=message
        )

    def _rows(self, state: board.BoardState, total_us: int) -> list[Row]:
        """Return a row for each trigger that ended since the last outcome: verdict, microseconds,
        and of a failure what `_failure` gives. Together they took `total_us`, shared as
        `board.elapsed_us` says."""
        count = state.index - state.first
        rows: list[Row] = []
        for offset, elapsed_us in enumerate(
            board.elapsed_us(state.ends_ms[:count], self._started_ms, total_us)
        ):
            verdict = state.verdicts[offset]
            row: Row = [verdict, elapsed_us]
            if verdict == board.FAILED:
                row += self._failure(state.first + offset)
            rows.append(row)
        return rows

    def _failure(self, index: int) -> Row:
        """Return the kind, message, line and column of a failure. A text that does not compile has its form in place
        of the line, which is found later."""
        note = self.failures.get(index)
        if note is None:
            return ["thrown", "failed; its message had no room", None, None]
        line_and_column = note.get("p") or (note.get("f"), None)
        return [note["k"], note["m"], *line_and_column]


async def _stopped(
    call: asyncio.Future[Any], watch: _Watch, tell: Callable[[EngineOutcome], None] | None
) -> Ending | None:
    """Wait for a call of V8 and look at the board meanwhile. Stop the call when it has to be stopped, and return the
    reason, or None if the call has ended."""
    while True:
        seconds = min(POLL_SECONDS, watch.limit() / POLLS_PER_LIMIT)
        done, _pending = await asyncio.wait({call}, timeout=seconds)
        if done:
            return None
        ending = watch.look()
        if ending is not None:
            call.cancel()
            await asyncio.wait({call})
            return ending
        if tell is not None and watch.has_news():
            tell(watch.outcome("running"))


def _place_in_text(report: re.Match[str], text: str, head_length: int) -> tuple[int, int]:
    """Return the line and column of a compile error. `report`: the words of V8 about the text with a head of so many
    characters in its first line."""
    line = int(report[1])
    column = len(report["caret"]) + 1
    lines = lines_of(text)
    if line > len(lines):  # the closing brace after the text: the text ended too early
        return len(lines), len(lines[-1]) + 1
    if line == 1:
        column = max(1, column - head_length)
    return line, column


class Isolate:
    """One isolate, from its birth to its end. Must be made and used inside a running event loop."""

    def __init__(self, heap_mb: int) -> None:
        from py_mini_racer import mini_racer

        self._maker = mini_racer(asyncio.get_running_loop())
        self._racer: MiniRacer = self._maker.__enter__()
        self._watch: _Watch | None = None
        # A global lexical is not in any list of names, and this one cannot be guessed.
        self._door = f"door_{os.urandom(16).hex()}"
        self._racer.eval(f"const {self._door} = {realm_source()}; 0")
        self._racer.set_hard_memory_limit(heap_mb * 2**20)

    async def describe(self, timezone: str | None) -> JsonObject:
        """Return V8's version, and the global names a trigger can see. Raises ValueError for a zone that V8 does not
        know."""
        if timezone is not None and not await self._has_zone(timezone):
            raise ValueError(
                _(
                    "there is no time zone {timezone!r}; give an IANA name such as Asia/Shanghai",
                    timezone,
                )
            )
        names = await self._racer.eval_cancelable(f"{self._door}('globals')")
        return {"v8": self._racer.v8_version, "globals": str(names).split(), "timezone": timezone}

    async def _has_zone(self, timezone: str) -> bool:
        """Tell whether V8 knows a time zone."""
        code = (
            f"try{{new Intl.DateTimeFormat('en',{{timeZone:{json.dumps(timezone)}}}),1}}catch{{0}}"
        )
        return await self._racer.eval_cancelable(code) == 1

    async def load(self, job: JsonObject) -> None:
        """Load what is to run: `triggers`, `context` as JSON text, `now` ms, `seed`, `console`. For a traced copy
        also `original`, the text whose random numbers it gets, and `probe`, the name that it calls."""
        count = len(job["triggers"])
        units = board.note_units(count, console=bool(job.get("console")), traced="probe" in job)
        probe = job.get("probe")
        if probe:
            # Like the entry point: a global lexical that cannot be guessed, and is different in each isolate.
            await self._racer.eval_cancelable(f"const {probe} = {self._door}('probe'); 0")
        job_json = json.dumps({**job, "noteUnits": units}, ensure_ascii=True)
        literal = json.dumps(
            job_json, ensure_ascii=True
        )  # JSON of a text in ASCII is a literal of JavaScript too
        memory = cast(
            memoryview, await self._racer.eval_cancelable(f"{self._door}('load', {literal})")
        )
        self._watch = _Watch(memory, count)

    async def run(
        self,
        until: int,
        deadlines: Deadlines,
        tell: Callable[[EngineOutcome], None] | None = None,
    ) -> EngineOutcome:
        """Run to trigger `until`, and return how that ended: finished, stopped, out of memory or
        broken. Never raises for what a trigger does. `tell` gets outcomes meanwhile."""
        watch = self._watch
        assert watch is not None, "load() comes first"
        watch.begin(until, deadlines)
        go = f"{self._door}('go', {until})"
        code = go
        while True:
            call = asyncio.ensure_future(self._racer.eval_cancelable(code))
            ending = await _stopped(call, watch, tell)
            if ending is not None:
                return watch.outcome(ending)

            if self._racer.was_hard_memory_limit_reached():
                call.exception()  # retrieve it, or asyncio logs that it was never retrieved
                return watch.outcome("out_of_memory")

            try:
                answer = call.result()
            except Exception as error:
                message = _("{about}: {what}", type(error).__name__, error)
                return watch.outcome("broken", message[:MOST_MESSAGE])

            if answer == REST:
                # V8 answers it after the promise jobs: the time and the memory until then are theirs.
                code = "-1"
            elif answer == RESTED:
                code = go
            else:
                return watch.outcome("finished")

    async def skip(self) -> bool:
        """Continue after a trigger that was stopped. Return False when V8 does not stop soon, or the heap is rather
        full."""
        watch = self._watch
        assert watch is not None, "load() comes first"
        try:
            await asyncio.wait_for(
                self._racer.eval_cancelable(f"{self._door}('skip')"), SKIP_SECONDS
            )
        except Exception:
            return False
        watch.skip()
        return self.heap_bytes() <= SKIP_BYTES

    def heap_bytes(self) -> int:
        """Return the bytes in use on the heap, garbage included. Only for an isolate that is at rest."""
        return int(self._racer.heap_stats()["used_heap_size"])

    async def position(self, source: str, form: str) -> tuple[int, int] | None:
        """Return where a text fails to compile, by compiling it once more without running it, or None if it compiles or
        V8 does not say where. Raises TimeoutError after COMPILE_SECONDS."""
        head, tail = _RECOMPILE[form]
        text = source.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
        try:
            await asyncio.wait_for(self._racer.eval_cancelable(head + text + tail), COMPILE_SECONDS)
        except TimeoutError:
            raise
        except Exception as error:
            report = _REPORT.match(str(error))
            if report is not None:
                return _place_in_text(report, text, len(head))
        return None

    @property
    def notes(self) -> Sequence[JsonObject]:
        """All notes of the board so far: failures (`k`), console (`c`), `trace`."""
        if self._watch is None:
            return ()
        return self._watch.notes

    def close(self) -> threading.Thread:
        """Free the isolate in a thread. The thread does not end when V8 does not stop (worker/main.py)."""
        self._watch = None
        thread = threading.Thread(target=self._maker.__exit__, args=(None, None, None), daemon=True)
        thread.start()
        return thread
