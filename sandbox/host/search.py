"""One search: which triggers are decided, what to ask next, and which trigger killed a worker. No I/O but a clock.

No trigger may take another's time, so a search has three rounds. In the first, all triggers run one after the other,
each for a sprint. A trigger that needs more runs again when all others are decided, alone in a new isolate: in the
second round a little longer, in the third as long as a trigger may.

A worker answers in the order of the request, up to the first trigger that has to be stopped. When the worker dies, the
search asks for the rest again in step mode: a report comes after every few triggers, and after each one when the
culprit is known to be among these few. A trigger that dies as the first of its process is the culprit. One that dies
later, or runs out of memory later, is only a suspect (others may have filled the memory before it): it is tried once
more, alone, after the others of the first round.
"""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sandbox import protocol
from sandbox.errors import ProtocolError
from sandbox.javascript.positions import place_of_name
from sandbox.limits import SandboxLimits
from sandbox.locale import _
from sandbox.protocol import LATER, Frame, Kind
from sandbox.verdicts import Failed, Fired, Quiet, TracedCopy, Verdict
from sandbox.worker import board

PORTION_CHARACTERS = 1_000_000
"""Of trigger sources in one request: a few MB of the V8 heap."""
FEW = 50
"""Triggers between two reports in step mode: a report costs as much as some ten triggers."""
SPRINT_PARTS = 30
"""A sprint is at most this part of the time that is left. So after many long sprints the others get shorter ones, but
they get some."""
FIRST, AGAIN, SECOND, THIRD = range(4)
"""The rounds. AGAIN: the suspects of the first."""
MOST_NOTES = 21
"""Notes of a traced copy: 20 of calls and one of values (realm/trace.js)."""
STOPPED = ("timeout", "out_of_memory", "killed", "not_evaluated")
"""Failures that depend on what ran before: not on the trigger and its context alone."""


@dataclass(frozen=True, slots=True)
class Scene:
    """What the triggers of a search are given: any JSON, the instant of their clock, the seed of their dice."""

    context: Mapping[str, Any]
    now: datetime
    seed: int


class Search:
    """Holds the verdicts of one search until all are there. `order`: the indexes of the triggers that run, as they are
    asked for. For authors, `console`: keep what triggers write there; `copy`: what `triggers`, a single one, is a
    traced copy of. `apart`: match_keys takes each spelling for a word of its own."""

    def __init__(
        self,
        limits: SandboxLimits,
        triggers: Sequence[str],
        scene: Scene,
        order: Iterable[int],
        *,
        console: bool = False,
        copy: TracedCopy | None = None,
        apart: bool = False,
    ) -> None:
        self._limits = limits
        self._sources: tuple[object, ...] = tuple(triggers)
        context = context_json(scene.context)
        self._given = {
            "context": context,
            "now": int(scene.now.timestamp() * 1000),
            "seed": scene.seed % 2**32,
            "console": console,
            "apart": apart,
            **({"original": copy.original, "probe": copy.probe} if copy else {}),
        }
        self._most_lines = protocol.MOST_CONSOLE_LINES if console else 0
        self._most_notes = MOST_NOTES if copy else 0
        self.console: list[str] = []
        self.trace: list[Mapping[str, Any]] = []
        if len(context) > limits.max_context_chars:
            order = range(len(triggers))
        self._verdicts: dict[int, Verdict | None] = {
            index: self._refused(index, triggers[index], len(context)) for index in order
        }
        undecided: dict[int, Failed | None] = {index: None for index, one in self._verdicts.items() if one is None}
        self._rounds: tuple[dict[int, Failed | None], ...] = (undecided, {}, {}, {})
        """The undecided, each with the failure for which it was put off."""
        self._round = FIRST
        self._next_round: int | None = None
        self._asked: list[int] = []
        self._answered = 0
        self._named = False
        self._frames = 0
        self._stepping = False
        self._narrowed = False
        self._singly = 0
        self._excused = False
        self._interrupted: tuple[int, int] | None = None
        self._over_at = time.monotonic() + limits.search_seconds
        self._waited = 0.0

    @property
    def open(self) -> bool:
        return any(self._rounds)

    def begin(self) -> None:
        """Starts the time budget. The wait for the first worker does not count."""
        self._over_at = time.monotonic() + self._limits.search_seconds

    @property
    def wait_seconds(self) -> float:
        """Seconds to wait for the next worker."""
        return self.seconds_left() + self._spare_seconds

    def waited(self, seconds: float) -> None:
        """Adds the wait for a later worker to the budget in the first round, up to half of the time of a search."""
        given = min(seconds, self._spare_seconds)
        self._over_at += given
        self._waited += given

    @property
    def _spare_seconds(self) -> float:
        first = self._rounds[FIRST] or self._rounds[AGAIN]
        return self._limits.search_seconds / 2 - self._waited if first else 0.0

    def seconds_left(self) -> float:
        return max(0.0, self._over_at - time.monotonic())

    def verdicts(self) -> tuple[Verdict, ...]:
        """All of them, once `open` is false."""
        return tuple(self.by_index().values())

    def by_index(self) -> dict[int, Verdict]:
        """The same with the index of each trigger, in that order."""
        return {index: verdict for index, verdict in sorted(self._verdicts.items()) if verdict is not None}

    def request(self, *, step: bool) -> Frame:
        """What to ask next, while `open`: all of the first round, else one trigger of a later round."""
        self._answered = self._frames = 0
        self._named = False
        self._round = next(number for number, waiting in enumerate(self._rounds) if waiting)
        self._asked = list(self._portion()) if self._round == FIRST else list(self._rounds[self._round])[:1]
        self._stepping = step
        many = len(self._asked) > FEW
        self._singly = 0 if not step or (many and not self._narrowed) else FEW
        allowance = self._allowance()
        return Frame(
            Kind.EVALUATE,
            {
                **self._given,
                "triggers": [self._sources[index] for index in self._asked],
                "trigger_seconds": allowance,
                "parts": SPRINT_PARTS if self._next_round == SECOND else None,
                "search_seconds": self.seconds_left(),
                "singly": self._singly,
                "stride": FEW if step else len(self._asked),
            },
        )

    def _allowance(self) -> float:
        """Seconds for each trigger of the request. Sets the round of those that need more."""
        limits = self._limits
        most = limits.trigger_seconds
        sprint = limits.sprint_seconds
        given = (sprint, sprint, limits.after_timeout_seconds, most)[self._round]
        if sum(map(len, self._rounds)) == 1:
            given = most  # no other trigger waits
        self._next_round = None if given >= most else THIRD if self._round == SECOND else SECOND
        return min(given, most)

    def _portion(self) -> Iterator[int]:
        """As many of the undecided as one isolate can hold."""
        size = 0
        for index in self._rounds[FIRST]:
            size += len(str(self._sources[index]))
            if size > PORTION_CHARACTERS + self._limits.max_source_chars:
                return
            yield index

    def take(self, frame: Frame) -> bool:
        """Takes an answer in; True when the request is answered. Raises only ProtocolError, for a wrong answer."""
        # A step, an answer and an interruption for each trigger, and as much again where an isolate is thrown away.
        self._frames += 1
        if self._frames > 4 * len(self._asked) + 8:
            raise ProtocolError(_("more answers than there can be"))
        try:
            match frame.kind:
                case Kind.STEP:
                    if protocol.whole(frame.body.get("index"), 0, len(self._asked)) != self._answered:
                        raise ProtocolError(_("a step out of order"))
                    self._named = True
                case Kind.PART | Kind.DONE:
                    self._take_verdicts(frame.body, done=frame.kind is Kind.DONE)
                case _:
                    raise ProtocolError(_("an answer of kind {kind!r}", frame.kind))
        except (TypeError, ValueError, LookupError, AttributeError, OverflowError) as error:
            raise ProtocolError(_("an answer of the wrong form")) from error
        return frame.kind is Kind.DONE

    def _take_verdicts(self, body: Mapping[str, Any], *, done: bool) -> None:
        """`done`: the isolate has ended, because all is done, a trigger was stopped, or the time is over."""
        count = len(self._asked)
        for row in protocol.sequence(body.get("rows", []), count):
            self._decide(row)
        for index, line, column in protocol.sequence(body.get("places", []), count):
            self._place(protocol.whole(index, 0, count), _place(line), _place(column))
        console = protocol.sequence(body.get("console", []), self._most_lines - len(self.console))
        self.console += map(protocol.text, console)
        trace = protocol.sequence(body.get("trace", []), self._most_notes - len(self.trace))
        self.trace += map(dict, trace)
        running = protocol.elapsed(body.get("running", 0))
        if done and self._answered < count:
            if body.get("over") is True:
                self._interrupted = self._asked[self._answered], running
                self.end()
            elif self._answered == 0:
                raise ProtocolError(_("an answer without a verdict"))

    def died(self, code: int | None, *, clean: bool = True) -> bool:
        """The worker has died. Blames a trigger if the culprit is known; True when the rest is asked in step mode.
        `clean`: nothing of an earlier request was still running in it, of which it may have died."""
        left = len(self._asked) - self._answered
        if left == 0 or code == 0:
            return self._stepping  # it ended itself, between two requests
        certain = left == 1 or self._answered < self._singly
        if not certain and not self._named:
            self._narrowed = self._stepping
            return True
        self._narrowed = False
        if code == -9 and not self._excused:
            self._excused = True  # another program may have killed the worker: the first time no trigger is blamed
            return self._stepping
        suspect = self._asked[self._answered]
        verdict = Failed("killed", _last_words(code), None, None, 0)
        if certain and clean and self._answered == 0:
            self._settle(suspect, verdict)
        else:
            self._put_off(AGAIN, suspect, verdict)
        return self._stepping

    def end(self) -> None:
        """All is done, or the budget is used up: then the rest gets the verdict `not_evaluated`."""
        whole = _("the {search_seconds:g} s of this search", self._limits.search_seconds)
        for waiting in self._rounds:
            for index, before in waiting.items():
                said, took = _("not evaluated: {whole} were used up", whole), 0
                if self._interrupted is not None and index == self._interrupted[0]:
                    said = _("not evaluated to its end: it was running when {whole} ended", whole)
                    took = self._interrupted[1]
                elif before is not None:
                    said = _("not evaluated to its end ({message}): {whole} were used up", before.message, whole)
                    took = before.elapsed_us
                self._verdicts[index] = Failed("not_evaluated", said, None, None, took)
            waiting.clear()

    def _put_off(self, later: int, index: int, verdict: Failed) -> None:
        """Moves a trigger to a later round; `verdict` is what is known of it until then."""
        self._rounds[self._round].pop(index, None)
        self._rounds[later][index] = verdict

    def _settle(self, index: int, verdict: Verdict) -> None:
        self._verdicts[index] = verdict
        self._rounds[self._round].pop(index, None)

    def _decide(self, row: Sequence[Any]) -> None:
        if self._answered >= len(self._asked):
            raise ProtocolError(_("more verdicts than triggers"))
        index = self._asked[self._answered]
        verdict = _verdict(row, self._limits)
        self._answered += 1
        self._named = False
        if isinstance(verdict, Failed):
            if verdict.kind == "out_of_memory" and row[3] == LATER and len(self._asked) > 1:
                self._put_off(AGAIN, index, verdict)
                return
            if verdict.kind == "timeout" and self._next_round is not None:
                self._put_off(self._next_round, index, verdict)
                return
            if verdict.kind == "timeout":
                # After the first time-out of the third round the others keep the verdict of the second.
                for later, before in self._rounds[THIRD].items():
                    self._verdicts[later] = before
                self._rounds[THIRD].clear()
            if verdict.kind == "reference" and verdict.line and verdict.column:
                source = str(self._sources[index])
                place = place_of_name(source, verdict.message, verdict.line, verdict.column)
                verdict = Failed(verdict.kind, verdict.message, *place, verdict.elapsed_us)
        self._settle(index, verdict)

    def _place(self, asked: int, line: int | None, column: int | None) -> None:
        index = self._asked[asked]
        verdict = self._verdicts[index]
        if isinstance(verdict, Failed) and line and column:
            self._verdicts[index] = Failed(verdict.kind, verdict.message, line, column, verdict.elapsed_us)

    def _refused(self, number: int, source: object, context_chars: int) -> Verdict | None:
        limits = self._limits
        if context_chars > limits.max_context_chars:
            why = _(
                "the context has {context} characters of JSON, at most {max_context} are allowed",
                context_chars,
                limits.max_context_chars,
            )
        elif not isinstance(source, str):
            return Failed("syntax", _("a trigger is a text, not {name}", type(source).__name__), None, None, 0)
        elif len(source) > limits.max_source_chars:
            why = _("{source} characters, at most {max_source} are allowed", len(source), limits.max_source_chars)
        elif number >= limits.max_triggers:
            why = _("a search takes at most {max_triggers} triggers", limits.max_triggers)
        else:
            return None
        return Failed("not_evaluated", _("not evaluated: {why}", why), None, None, 0)


def _place(value: object) -> int | None:
    """A line or column; None for a wrong one, which a trigger can cause by names and line numbers of its own."""
    return value if type(value) is int and 1 <= value < 2**31 else None


def _verdict(row: Sequence[Any], limits: SandboxLimits) -> Verdict:
    """One row of worker/main.py as a value. Raises ProtocolError."""
    if type(row[0]) is not int:
        raise ProtocolError(_("a row that is not a verdict"))
    if len(row) == 2:  # a search has thousands of these, and `match` is slow
        if row[0] == board.FIRED:
            return Fired(protocol.elapsed(row[1]))
        if row[0] == board.QUIET:
            return Quiet(protocol.elapsed(row[1]))
    match row:
        case [board.FAILED, took, str(kind), said, line, column]:
            elapsed, message = protocol.elapsed(took), protocol.text(said)
            place = (_place(line), _place(column)) if _place(line) and _place(column) else (None, None)
            match kind:
                case "timeout":
                    return Failed("timeout", _("stopped after {elapsed:.2f} s", elapsed / 1e6), *place, elapsed)
                case "out_of_memory":
                    return Failed(
                        "out_of_memory", _("used more than {heap_mb} MB of heap", limits.heap_mb), *place, elapsed
                    )
                case "syntax" | "reference" | "thrown":
                    return Failed(kind, message or _("failed without a message"), *place, elapsed)
                case _:
                    return Failed("killed", message or _("V8 gave up while this trigger ran"), *place, elapsed)
        case _:
            raise ProtocolError(_("a row that is not a verdict"))


def _last_words(code: int | None) -> str:
    how = _("was stopped")
    if code is not None and code < 0:
        try:
            how = _("died of {name}", signal.Signals(-code).name)
        except ValueError:
            how = _("died of signal {code}", -code)
    elif code is not None:
        how = _("ended with code {code}", code)
    return _("the worker process {how} while this trigger ran; it probably asked for too much memory at once", how)


def context_json(context: Mapping[str, Any]) -> str:
    """The context as JSON text in ASCII; NaN and the infinities become null. Raises TypeError, ValueError."""
    try:
        try:
            return json.dumps(context, allow_nan=False, default=_plain)
        except ValueError:
            return json.dumps(json.loads(json.dumps(context, default=_plain), parse_constant=lambda _: None))
    except (RecursionError, ValueError) as error:
        message = _(
            "the context of a search must be JSON; it holds itself, is nested too deeply or has too long a number"
        )
        raise ValueError(message) from error


def _plain(value: object) -> object:
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(_("the context of a search must be JSON; it holds a {name}", type(value).__name__))
