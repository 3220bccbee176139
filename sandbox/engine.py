"""One V8 isolate: a locked realm that runs a batch of triggers under limits. The only importer of the V8 binding.

Pitfalls of mini-racer 0.14 that shape this file (each was seen to happen):
- A timeout gives the call back, it does not stop the isolate; closing may block for ever. So closing has a deadline,
  and an isolate that is deaf to it costs the process its life (worker.py).
- Values that a trigger could choose must never be converted to Python (BigInt, lone surrogates, invalid dates leave the
  call waiting for ever). The realm answers with small integers and writes the rest on the board.
- Calling a JavaScript function from Python blocks behind pending promise jobs. Only cancelable evaluation is used.
- The memory flag stays set once it is set, so an isolate that met its limit is never used again.
"""

from __future__ import annotations

import asyncio
import json
import re
import secrets
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any, Literal, cast

from . import board

if TYPE_CHECKING:
    from py_mini_racer import MiniRacer

REALM_FILES = ("lock.js", "clock.js", "keys.js", "trace.js", "forms.js", "board.js")
V8_FLAGS = ("--single-threaded", "--jitless")
POLL_SECONDS = 0.01
POLLS_PER_LIMIT = 20
"""The board is looked at every 10 ms, and at least 20 times within a trigger's limit: the precision of a time-out."""
CLOSE_SECONDS = 0.25
"""A healthy isolate closes in 1-16 ms, also one that runs promise jobs for ever."""
STARVED_SECONDS = 0.3
"""How much longer than its limit a trigger may take on a machine that does not let it run; the others need time too."""
REST, RESTED = 1, -1
"""What board.js answers when promise jobs must run first, and what the empty call after it answers."""
HARD_HEAP_FACTOR = 2
"""V8's own heap limit over heap_mb: the gentle limit is seen only after a garbage collection."""

STRAY_SECONDS = 0.05
"""For jobs that triggers left behind unseen. They can change nothing any more; then the isolate is thrown away."""

Ending = Literal["finished", "timeout", "out_of_memory", "budget", "broken", "stray"]
"""stray: stopped in jobs that belong to no trigger, before the one at `index` began."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one isolate did: how it ended, at which trigger, and a copy of its board."""

    ending: Ending
    snapshot: board.Snapshot
    started_ms: float
    total_us: int
    running_us: int  # how long the trigger at snapshot.index had run; 0 when none was at work
    message: str = ""


@dataclass(frozen=True, slots=True)
class Deadlines:
    """Seconds for the trigger at `solo` and for every other, and the monotonic time at which all must be over."""

    trigger: float
    over_at: float


def initialise(heap_mb: int) -> None:
    """Loads V8 with its flags; once per process, before the first isolate."""
    from py_mini_racer import _mini_racer, init_mini_racer

    # The binding's own setTimeout would leave a class as a global lexical, which no freezing reaches.
    setattr(_mini_racer, "INSTALL_SET_TIMEOUT", "0")  # noqa: B010 - not one of its public names
    init_mini_racer(flags=(*V8_FLAGS, f"--max-heap-size={heap_mb * HARD_HEAP_FACTOR}"))


@cache
def realm_source() -> str:
    """The realm's files as one function body (they share names, see realm/)."""
    folder = resources.files("sandbox") / "realm"
    parts = [(folder / name).read_text(encoding="utf-8") for name in REALM_FILES]
    return "(() => {'use strict';\n" + "\n".join(parts) + "\n})()"


class _Watch:
    """Looks at the board while V8 is at work: which trigger runs, and for how long."""

    def __init__(self, memory: memoryview, count: int, deadlines: Deadlines) -> None:
        self._memory = memory
        self._count = count
        self._deadlines = deadlines
        self._started_ms = float(int(time.time() * 1000))
        self._began = self._since = time.monotonic()
        self._worked = time.process_time()
        self._index = self._state()

    def _state(self) -> tuple[int, bool]:
        return board.running(self._memory), board.nobody_runs(self._memory)

    def look(self) -> Ending | None:
        """Why V8 must be stopped now, or None.

        A trigger is late by the clock on the wall, unless the machine was so busy with other things that this process
        got less than half of the time; then it has up to STARVED_SECONDS more.
        """
        now, worked, index = time.monotonic(), time.process_time(), self._state()
        if index != self._index:
            self._index, self._since, self._worked = index, now, worked
        ran, limit = now - self._since, self._deadlines.trigger
        limit = min(limit, STRAY_SECONDS) if index[1] else limit
        over = now >= self._deadlines.over_at
        if ran >= limit and (over or worked - self._worked >= limit / 2 or ran >= limit + STARVED_SECONDS):
            return "timeout"
        return "budget" if over else None

    def outcome(self, ending: Ending, message: str = "") -> Outcome:
        now = time.monotonic()
        self.look()
        harmed = ending in ("timeout", "out_of_memory", "broken")
        return Outcome(
            "stray" if harmed and board.nobody_runs(self._memory) else ending,
            board.read(self._memory, self._count),
            self._started_ms,
            int((now - self._began) * 1e6),
            0 if board.nobody_runs(self._memory) else max(0, int((now - self._since) * 1e6)),
            message,
        )


class Isolate:
    """One isolate, from its birth to its end. Must be made and used inside a running event loop."""

    def __init__(self, heap_mb: int) -> None:
        from py_mini_racer import mini_racer

        self._maker = mini_racer(asyncio.get_running_loop())
        self._racer: MiniRacer = self._maker.__enter__()
        self._memory: memoryview | None = None
        self._count = 0
        # A global lexical is in no list of names, and this one cannot be guessed.
        self._door = f"door_{secrets.token_hex(16)}"
        self._racer.eval(f"const {self._door} = {realm_source()}; 0")
        self._racer.set_hard_memory_limit(heap_mb * 2**20)

    @property
    def v8_version(self) -> str:
        return self._racer.v8_version

    async def globals(self) -> tuple[str, ...]:
        """The global names a trigger can see."""
        return tuple(str(await self._racer.eval_cancelable(f"{self._door}('globals')")).split())

    async def knows_zone(self, timezone: str) -> bool:
        """Whether V8 has this IANA zone."""
        name = json.dumps(timezone)
        code = f"try{{new Intl.DateTimeFormat('en',{{timeZone:{name}}}),1}}catch{{0}}"
        return await self._racer.eval_cancelable(code) == 1

    async def load(self, job: Mapping[str, Any]) -> None:
        """Hands over what is to be run (`triggers`, `scenes`, `turns`, `console`).

        A scene: `context` as JSON text, `now` ms, `seed`. A turn: the numbers of a trigger and of its scene.
        For traced copies also `originals`, `trace` (realm/trace.js knows the modes) and `probe`, the name they call.
        """
        self._count = len(job["turns"])
        units = board.note_units(self._count, console=bool(job.get("console")), values=job.get("trace") == "values")
        if probe := job.get("probe"):
            # As the door: a global lexical that nobody guesses, and that no other isolate has.
            await self._racer.eval_cancelable(f"const {probe} = {self._door}('probe'); 0")
        text = json.dumps(json.dumps({**job, "noteUnits": units}, ensure_ascii=True), ensure_ascii=True)
        self._memory = cast(memoryview, await self._racer.eval_cancelable(f"{self._door}('load', {text})"))

    async def run(self, until: int, deadlines: Deadlines, step: Literal["go", "match"] = "go") -> Outcome:
        """Runs to trigger `until`. Never raises for what a trigger does."""
        memory = self._memory
        assert memory is not None, "load() comes first"
        watch = _Watch(memory, self._count, deadlines)
        code = f"{self._door}('{step}', {until})"
        pause = min(POLL_SECONDS, deadlines.trigger / POLLS_PER_LIMIT)
        while True:
            call = asyncio.ensure_future(self._racer.eval_cancelable(code))
            while not call.done():
                await asyncio.wait({call}, timeout=pause)
                if (ending := watch.look()) is not None and not call.done():
                    call.cancel()
                    await asyncio.wait({call})
                    return watch.outcome(ending)
            if self._racer.was_hard_memory_limit_reached():
                call.exception()
                return watch.outcome("out_of_memory")
            try:
                answer = call.result()
            except Exception as error:
                return watch.outcome("broken", f"{type(error).__name__}: {error}"[:300])
            if answer == REST:
                # Answered when V8 has run the promise jobs: the time and the memory until then are theirs.
                code = "-1"
            elif answer == RESTED:
                code = f"{self._door}('{step}', {until})"
            else:
                return watch.outcome("finished")

    def heap_bytes(self) -> int:
        """Bytes in use on the heap, garbage included. Only for an isolate that is at rest."""
        return int(self._racer.heap_stats()["used_heap_size"])

    async def position(self, source: str, form: str) -> tuple[int, int] | None:
        """Where a text fails to compile, by compiling it once more without running it."""
        return await _position(self._racer, source, form)

    async def close(self) -> bool:
        """Frees the isolate. False when V8 does not stop: then only the end of the process stops it."""
        self._memory = None
        loop = asyncio.get_running_loop()
        closed = asyncio.Event()

        def work() -> None:
            self._maker.__exit__(None, None, None)
            loop.call_soon_threadsafe(closed.set)

        threading.Thread(target=work, daemon=True).start()
        try:
            await asyncio.wait_for(closed.wait(), CLOSE_SECONDS)
        except TimeoutError:
            return False
        return True


# V8 puts the position of a compile error only into the message for the host.
_REPORT = re.compile(r"^[^\n]*?:(\d+): SyntaxError: [^\n]*\n(?P<source>[^\n]*)\n(?P<caret> *)\^")
# `throw 0` comes first, so that nothing of the text runs however it is made. realm/forms.js knows the same forms.
_RECOMPILE = {
    "script": ('"use strict";throw 0;', ""),
    "body": ('throw 0;(function(){"use strict";', "\n})"),
    "async": ('throw 0;(async function(){"use strict";', "\n})"),
}


async def _position(racer: MiniRacer, source: str, form: str) -> tuple[int, int] | None:
    if form not in _RECOMPILE:
        return None
    head, tail = _RECOMPILE[form]
    text = source.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    try:
        await asyncio.wait_for(racer.eval_cancelable(head + text + tail), CLOSE_SECONDS)
    except Exception as error:
        found = _REPORT.match(str(error))
        if found is None:
            return None
        line, column = int(found[1]), len(found["caret"]) + 1
        lines = re.split("\r\n|[\n\r\u2028\u2029]", text)
        if line > len(lines):  # the wrapper's own closing brace: the text ended too early
            return len(lines), len(lines[-1]) + 1
        return line, max(1, column - len(head)) if line == 1 else column
    return None


def positions_of(notes: Sequence[Mapping[str, Any]]) -> dict[int, Mapping[str, Any]]:
    """The failure note of each trigger that has one."""
    return {int(note["i"]): note for note in notes if "k" in note}
