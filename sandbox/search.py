"""One search: which triggers are decided, what to ask next, and who is to blame when a worker dies. No I/O but a clock.

A worker answers in the order it was asked. When it dies without warning, the undecided triggers are asked for again in
step mode, where each is named before it runs and answered after. One that dies as the first of its process is the
culprit. One that dies later, or runs out of memory later, is a suspect only (those before it may have left the memory
full): the others go on without it, and it is tried once more at the end, alone.

A search of several scenes is for authors' long chats: the same triggers on one context after the other, in one
request. As soon as one of them has to be stopped it ends, `disturbed`, and counts for nothing: each scene is then a
search of its own. So what it does say is what a search per scene would have said.
"""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from . import answers, board
from .errors import ProtocolError
from .limits import Limits
from .pointing import place_of_name
from .protocol import LATER, Frame, Kind
from .verdicts import Failed, Fired, Quiet, TracedCopy, Verdict

PORTION_CHARACTERS = 1_000_000
"""Of trigger sources in one request: a few MB of the V8 heap."""
MOST_TRACED = 401
"""Notes of one traced copy: 400 of its values and calls (realm/trace.js), and one of counts or bits."""


STOPPED = ("timeout", "out_of_memory", "killed", "not_evaluated")
"""Failures that depend on what ran before: not on the trigger and its context alone."""


@dataclass(frozen=True, slots=True)
class Scene:
    """What the triggers of a search are given: any JSON, the instant of their clock, the seed of their dice."""

    context: Mapping[str, Any]
    now: datetime
    seed: int


class Search:
    """Holds the verdicts of one search until all are there."""

    def __init__(
        self,
        limits: Limits,
        triggers: Sequence[str],
        scenes: Sequence[Scene],
        order: Sequence[int],
        *,
        console: bool = False,
        copies: Sequence[TracedCopy] = (),
        trace: Literal["values", "bits"] = "values",
    ) -> None:
        """`copies` are run as further triggers, after the others; their verdicts come after the others' too.

        A verdict's index counts all of the first scene, then all of the second, and so on.
        """
        self._limits = limits
        self._sources: tuple[object, ...] = (*triggers, *(copy.source for copy in copies))
        self._originals = {len(triggers) + number: copy.original for number, copy in enumerate(copies)}
        self._scenes = [
            {
                "context": context_json(scene.context),
                "now": int(scene.now.timestamp() * 1000),
                "seed": scene.seed % 2**32,
            }
            for scene in scenes
        ]
        self._verdicts: list[Verdict | None] = [
            self._refused(source, len(str(scene["context"])))
            for scene in self._scenes
            for source in range(len(self._sources))
        ]
        width = len(self._sources)
        asked = (number * width + one for number in range(len(scenes)) for one in (*order, *self._originals))
        self._pending = dict.fromkeys(index for index in asked if self._verdicts[index] is None)
        self._body = {
            "scenes": self._scenes,
            "console": console,
            "after_timeout_seconds": min(limits.after_timeout_seconds, limits.trigger_seconds),
            "heap": console,
        }
        if copies:
            self._body |= {"trace": trace, "probe": copies[0].probe}
        self._asked: list[int] = []
        self._answered = 0
        self._frames = 0
        self._stepping = False
        self._suspects: list[tuple[int, Failed]] = []
        self._excused = False
        self._slow = False
        self._reduced: set[int] = set()
        self._interrupted: tuple[int, int] | None = None
        self._over_at = time.monotonic() + limits.search_seconds
        self.console: list[str] = []
        self.heap_bytes: int | None = None
        self.traces: list[tuple[int, Mapping[str, Any]]] = []
        """Notes of traced copies, each with the index of the verdict of its copy."""

    @property
    def open(self) -> bool:
        """Whether a trigger is still undecided."""
        return bool(self._pending or self._suspects)

    def begin(self) -> None:
        """Starts the time budget: waiting for a worker does not count."""
        self._over_at = time.monotonic() + self._limits.search_seconds

    def seconds_left(self) -> float:
        return max(0.0, self._over_at - time.monotonic())

    @property
    def excused(self) -> frozenset[int]:
        """Those that timed out only because another's time-out had left them less time: no offence of theirs."""
        return frozenset(self._reduced)

    @property
    def disturbed(self) -> bool:
        """Whether one of several scenes had a trigger that was stopped: then no verdict of theirs counts."""
        return len(self._scenes) > 1 and any(isinstance(one, Failed) and one.kind in STOPPED for one in self._verdicts)

    def verdicts(self) -> tuple[Verdict, ...]:
        """All of them, once `open` is false."""
        return tuple(verdict for verdict in self._verdicts if verdict is not None)

    def request(self, *, step: bool) -> Frame:
        """Asks for all that is undecided; for the suspects, one at a time, when nothing else is."""
        self._asked = list(self._portion()) or [self._suspects[0][0]]
        self._answered = 0
        self._frames = 0
        self._stepping = step
        places: dict[int, int] = {}
        turns = [
            [places.setdefault(source, len(places)), scene]
            for scene, source in (divmod(index, len(self._sources)) for index in self._asked)
        ]
        allowance = self._body["after_timeout_seconds"] if self._slow else self._limits.trigger_seconds
        return Frame(
            Kind.EVALUATE,
            {
                **self._body,
                "triggers": [self._sources[source] for source in places],
                "originals": [self._originals.get(source) for source in places] if self._originals else [],
                "turns": turns,
                "trigger_seconds": allowance,
                "search_seconds": self.seconds_left(),
                "step": step,
            },
        )

    def _portion(self) -> Iterator[int]:
        """As many of the undecided as one isolate can hold."""
        size, counted = 0, set[int]()
        for index in self._pending:
            source = index % len(self._sources)
            size += 0 if source in counted else len(str(self._sources[source]))
            counted.add(source)
            if size > PORTION_CHARACTERS + self._limits.max_source_chars:
                return
            yield index

    def take(self, frame: Frame) -> bool:
        """Takes an answer in; True when the request is answered. Raises ProtocolError for nonsense, nothing else."""
        try:
            return self._take(frame)
        except (TypeError, ValueError, LookupError, AttributeError, OverflowError) as error:
            raise ProtocolError("an answer that makes no sense") from error

    def _take(self, frame: Frame) -> bool:
        # A step, an answer and an interruption for each trigger, and as much again where an isolate is thrown away.
        self._frames += 1
        if self._frames > 4 * len(self._asked) + 8:
            raise ProtocolError("more answers than there can be")
        match frame.kind:
            case Kind.STEP:
                if _index(frame.body.get("index"), len(self._asked)) != self._answered:
                    raise ProtocolError("a step out of order")
                return False
            case Kind.PART | Kind.DONE:
                for row in answers.sequence(frame.body.get("rows", []), len(self._asked)):
                    self._decide(_verdict(row, self._limits), suspected=row[2:4] == ["out_of_memory", LATER])
                for index, line, column in answers.sequence(frame.body.get("places", []), len(self._asked)):
                    self._place(_index(index, len(self._asked)), _place(line), _place(column))
                self._take_notes(frame.body)
                if frame.kind is Kind.DONE and self._answered < len(self._asked):
                    if running := answers.elapsed(frame.body.get("running", 0)):
                        self._interrupted = self._asked[self._answered], running
                    self.end()  # the worker had no time left for the rest
                return frame.kind is Kind.DONE
            case _:
                raise ProtocolError(f"an answer of kind {frame.kind!r}")

    def _take_notes(self, body: Mapping[str, Any]) -> None:
        """Console, traces and heap: only where they were asked for."""
        room = answers.MOST_CONSOLE_LINES - len(self.console) if self._body["console"] else 0
        self.console += [answers.text(line) for line in answers.sequence(body.get("console", []), room)]
        room = MOST_TRACED * len(self._originals) * len(self._scenes) - len(self.traces)
        for index, note in answers.sequence(body.get("traces", []), room):
            self.traces.append((self._asked[_index(index, len(self._asked))], dict(note)))
        if self._body["heap"] and body.get("heap") is not None:
            self.heap_bytes = answers.whole(body["heap"], 0, 2**40)

    def died(self, code: int | None) -> bool:
        """The worker is gone. Blames a trigger if one can be named; True when the rest needs step mode to find it."""
        if len(self._scenes) > 1:
            self.end()  # whoever it was: each scene is tried alone
            return False
        if self._answered >= len(self._asked) or (code == 0 and self._answered > 0):
            return False  # it ended itself after it had sent a time-out that V8 would not stop for
        if not self._stepping and len(self._asked) - self._answered > 1:
            return True
        if code == -9 and not self._excused:
            self._excused = True  # somebody may have killed the worker from outside: once that is nobody's fault
            return self._stepping
        suspect = self._asked[self._answered]
        verdict = Failed("killed", _last_words(code), None, None, 0)
        if self._answered == 0:
            self._settle(suspect, verdict)
        else:
            self._suspect(suspect, verdict)
        return False

    def end(self) -> None:
        """The budget is used up or all is done: names what was not evaluated."""
        for suspect, verdict in tuple(self._suspects):
            self._settle(suspect, verdict)
        message = f"not evaluated: the {self._limits.search_seconds:g} s of this search were used up"
        if self._interrupted is not None and self._interrupted[0] in self._pending:
            index, ran = self._interrupted
            ended = f"was running when the {self._limits.search_seconds:g} s of this search ended"
            self._settle(index, Failed("not_evaluated", f"not evaluated to its end: it {ended}", None, None, ran))
        for index in tuple(self._pending):
            self._settle(index, Failed("not_evaluated", message, None, None, 0))

    def _suspect(self, index: int, verdict: Failed) -> None:
        """Puts a trigger off to the end; the verdict is what it gets if there is no time left to try it alone."""
        self._pending.pop(index, None)
        self._suspects.append((index, verdict))

    def _settle(self, index: int, verdict: Verdict) -> None:
        self._verdicts[index] = verdict
        self._pending.pop(index, None)
        if self._suspects:
            self._suspects = [one for one in self._suspects if one[0] != index]

    def _decide(self, verdict: Verdict, *, suspected: bool) -> None:
        if self._answered >= len(self._asked):
            raise ProtocolError("more verdicts than triggers")
        index = self._asked[self._answered]
        self._answered += 1
        if suspected and isinstance(verdict, Failed):
            self._suspect(index, verdict)
            return
        if isinstance(verdict, Failed) and verdict.kind == "reference" and verdict.line and verdict.column:
            source = str(self._sources[index % len(self._sources)])
            place = place_of_name(source, verdict.message, verdict.line, verdict.column)
            verdict = Failed(verdict.kind, verdict.message, *place, verdict.elapsed_us)
        self._settle(index, verdict)
        if isinstance(verdict, Failed) and verdict.kind == "timeout":
            if self._slow and self._limits.after_timeout_seconds < self._limits.trigger_seconds:
                self._reduced.add(index)
            self._slow = True

    def _place(self, asked: int, line: int | None, column: int | None) -> None:
        index = self._asked[asked]
        verdict = self._verdicts[index]
        if isinstance(verdict, Failed) and line and column:
            self._verdicts[index] = Failed(verdict.kind, verdict.message, line, column, verdict.elapsed_us)

    def _refused(self, index: int, context_chars: int) -> Verdict | None:
        source = self._sources[index]
        if context_chars > self._limits.max_context_chars:
            message = f"not evaluated: the context has {context_chars} characters of JSON"
            message += f", at most {self._limits.max_context_chars} are allowed"
            return Failed("not_evaluated", message, None, None, 0)
        if not isinstance(source, str):
            return Failed("syntax", f"a trigger is a text, not {type(source).__name__}", None, None, 0)
        if len(source) > self._limits.max_source_chars:
            message = f"not evaluated: {len(source)} characters, at most {self._limits.max_source_chars} are allowed"
            return Failed("not_evaluated", message, None, None, 0)
        if index >= self._limits.max_triggers:
            message = f"not evaluated: a search takes at most {self._limits.max_triggers} triggers"
            return Failed("not_evaluated", message, None, None, 0)
        return None


def _index(value: object, bound: int) -> int:
    return answers.whole(value, 0, bound)


def _place(value: object) -> int | None:
    """A line or column: a trigger may have had a hand in it, by names and line numbers of its own."""
    return value if type(value) is int and 1 <= value < 2**31 else None


def _verdict(row: Sequence[Any], limits: Limits) -> Verdict:
    """One row of worker.py as a value. Raises ProtocolError."""
    if type(row[0]) is not int:
        raise ProtocolError("a row that is no verdict")
    if len(row) == 2:  # thousands of these in a search, and `match` is slow
        if row[0] == board.FIRED:
            return Fired(answers.elapsed(row[1]))
        if row[0] == board.QUIET:
            return Quiet(answers.elapsed(row[1]))
    match row:
        case [board.FAILED, took, str(kind), said, line, column]:
            elapsed, message = answers.elapsed(took), answers.text(said)
            place = (_place(line), _place(column)) if _place(line) and _place(column) else (None, None)
            match kind:
                case "timeout":
                    return Failed("timeout", f"stopped after {elapsed / 1e6:.2f} s", *place, elapsed)
                case "out_of_memory":
                    return Failed("out_of_memory", f"used more than {limits.heap_mb} MB of heap", *place, elapsed)
                case "syntax" | "reference" | "thrown":
                    return Failed(kind, message or "failed without a message", *place, elapsed)
                case _:
                    return Failed("killed", message or "V8 gave up while this trigger ran", *place, elapsed)
        case _:
            raise ProtocolError("a row that is no verdict")


def _last_words(code: int | None) -> str:
    how = "was stopped"
    if code is not None and code < 0:
        try:
            how = f"died of {signal.Signals(-code).name}"
        except ValueError:
            how = f"died of signal {-code}"
    elif code is not None:
        how = f"ended with code {code}"
    return f"the worker process {how} while this trigger ran; it probably asked for too much memory at once"


def context_json(context: Mapping[str, Any]) -> str:
    """The context as JSON text in ASCII; NaN and the infinities become null. Raises TypeError, ValueError."""
    try:
        try:
            return json.dumps(context, allow_nan=False, default=_plain)
        except ValueError:
            return json.dumps(_finite(context), allow_nan=False, default=_plain)
    except RecursionError as error:
        raise ValueError("the context of a search must be JSON; it holds itself, or is nested too deeply") from error


def _plain(value: object) -> object:
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"the context of a search must be JSON; it holds a {type(value).__name__}")


def _finite(value: Any) -> Any:
    match value:
        case float() if value != value or value in (float("inf"), float("-inf")):
            return None
        case Mapping():
            return {key: _finite(item) for key, item in value.items()}
        case list() | tuple():
            return [_finite(item) for item in value]
        case _:
            return value
