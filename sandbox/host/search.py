"""A search: which triggers are decided, what to ask next, and which trigger killed a worker. No I/O but a clock.

No trigger may take another's time, so a search has three rounds. In the first, all triggers run one after the other,
each for a sprint. A trigger that needs more runs again when all others are decided, alone in a new isolate: in the
second round a little longer, in the third as long as a trigger may.

A worker answers in the order of the request, up to the first trigger that has to be stopped. When the worker dies,
the search asks for the rest again in step mode: a report comes after every few triggers, and after each one when the
culprit is known to be among these few. A trigger that dies as the first of its process is the culprit. A trigger that
dies later, or runs out of memory later, is only a suspect (others may have filled the memory before it): it is tried
once more, alone, after the others of the first round."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import IntEnum
from types import MappingProxyType
from typing import Any, TypeAlias

from languages import _
from sandbox import protocol
from sandbox.conditions import speaker_names
from sandbox.errors import ProtocolError
from sandbox.javascript.positions import place_of_name
from sandbox.limits import SandboxLimits
from sandbox.protocol import LATER, Frame, Kind
from sandbox.values import JsonObject, frozen
from sandbox.verdicts import Failed, Fired, Quiet, TracedCopy, Verdict
from sandbox.worker import board


def place_of_failure(value: object) -> int | None:
    """Return a line or column, or None for a wrong number, which a trigger can cause by names and line numbers of its
    own."""
    if type(value) is int and 1 <= value < 2**31:
        return value
    return None


def verdict_of(row: Sequence[Any], limits: SandboxLimits) -> Verdict:
    """Read a row of worker/main.py as a verdict. Raises ProtocolError if it has another form."""
    if not row or type(row[0]) is not int:
        raise ProtocolError(_("a row that is not a verdict"))

    if len(row) == 2:  # a search has thousands of these, and `match` is slow
        if row[0] == board.FIRED:
            return Fired(protocol.elapsed(row[1]))
        if row[0] == board.QUIET:
            return Quiet(protocol.elapsed(row[1]))

    match row:
        case [board.FAILED, elapsed_us, str(wire_kind), text, line, column]:
            return _failure(
                kind=wire_kind,
                text=protocol.text(text),
                line=place_of_failure(line),
                column=place_of_failure(column),
                elapsed_us=protocol.elapsed(elapsed_us),
                limits=limits,
            )
        case _:
            raise ProtocolError(_("a row that is not a verdict"))


def _failure(
    *,
    kind: str,
    text: str,
    line: int | None,
    column: int | None,
    elapsed_us: int,
    limits: SandboxLimits,
) -> Failed:
    """Return the failure that a worker reported. `text`: the words of V8 about it."""
    # A line is of no use without a column, nor a column without a line.
    if line is None or column is None:
        line = None
        column = None
    match kind:
        case "timeout":
            message = _("stopped after {elapsed:.2f} s", elapsed_us / 1e6)
            return Failed("timeout", message, line, column, elapsed_us)
        case "out_of_memory":
            message = _("used more than {heap_mb} MB of heap", limits.heap_mb)
            return Failed("out_of_memory", message, line, column, elapsed_us)
        case "syntax" | "reference" | "thrown":
            return Failed(kind, text or _("failed without a message"), line, column, elapsed_us)
        case _:
            return Failed(
                "killed", text or _("V8 gave up while this trigger ran"), line, column, elapsed_us
            )


def last_words(code: int | None) -> str:
    """Return the message about a trigger of which its worker died. `code`: the exit code, negative for a signal."""
    how = _("was stopped")
    if code is not None and code < 0:
        try:
            how = _("died of {name}", signal.Signals(-code).name)
        except ValueError:
            how = _("died of signal {code}", -code)
    elif code is not None:
        how = _("ended with code {code}", code)
    return _(
        "the worker process {how} while this trigger ran; it probably asked for too much memory at once",
        how,
    )


def context_json(context: JsonObject) -> str:
    """Write the context as JSON text in ASCII; NaN and the infinities become null. Raises TypeError or ValueError if it
    is not JSON."""
    try:
        try:
            return json.dumps(context, allow_nan=False, default=_plain)
        except ValueError:
            with_constants = json.dumps(context, default=_plain)  # NaN, Infinity and -Infinity
            return json.dumps(json.loads(with_constants, parse_constant=lambda _constant: None))
    except (RecursionError, ValueError) as error:
        message = _(
            "the context of a search must be JSON; it holds itself, is nested too deeply or has too long a number"
        )
        raise ValueError(message) from error


def _plain(value: object) -> object:
    """Return a mapping as a dict, which JSON can write. Raises TypeError for anything else."""
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(
        _("the context of a search must be JSON; it holds a {name}", type(value).__name__)
    )


PORTION_CHARACTERS = 1_000_000
"""Characters of trigger sources in one request: a few MB of the V8 heap."""
FEW = 50
"""Triggers between two reports in step mode: a report costs as much as some ten triggers."""
SPRINT_PARTS = 30
"""A sprint is at most this part of the time that is left. So after many long sprints the others get shorter ones, but
they get some."""
MOST_NOTES = 21
"""Notes of a traced copy: 20 for calls and one for values (realm/trace.js)."""


class Round(IntEnum):
    """The rounds of a search, in their order."""

    FIRST = 0
    """All triggers, one after the other, each for a sprint."""
    AGAIN = 1
    """The suspects of the first round, each alone: a suspect may have killed a worker or filled its memory."""
    SECOND = 2
    """Each trigger that needs more than a sprint, alone and a little longer."""
    THIRD = 3
    """Each trigger that needs still more, alone and for as long as a trigger may run."""


STOPPED = ("timeout", "out_of_memory", "killed", "not_evaluated")
"""Failures that depend on what ran before: not on the trigger and its context alone."""


@frozen
class Scene:
    """What the triggers of a search are given: any JSON, the instant of their clock, the seed of their dice, and the
    time zone, if it is not the zone of the sandbox. `spellings_apart`: match_keys takes each spelling for a word of
    its own."""

    context: JsonObject
    now: datetime
    seed: int
    timezone: str | None = None
    spellings_apart: bool = False


LastFirings: TypeAlias = Mapping[int, Mapping[str, int]]
"""What `context.last_fired` is for a trigger, by index; null for the others."""


@frozen
class Output:
    """What a search keeps beside its verdicts: at most so many lines of the console and notes of a traced copy."""

    most_lines: int = 0
    most_notes: int = 0


_NO_OUTPUT = Output()


@dataclass(slots=True)
class _Request:
    """One request to a worker, and how far the worker has answered it."""

    round: Round = Round.FIRST
    asked: Sequence[int] = ()
    """The indexes of its triggers, in the order in which the worker runs them."""
    after_timeout: Round | None = None
    """The round in which a trigger runs again after a time-out, or None if a time-out is final."""
    is_stepping: bool = False
    """The worker reports after every few triggers, because the worker before it died."""
    announced: int = 0
    """The worker announces so many of the first triggers, each before it runs."""
    answered: int = 0
    """So many of the triggers have a verdict."""
    frames: int = 0
    """So many frames have come."""
    names_culprit: bool = False
    """The worker has announced the trigger that it runs now, so this is the culprit if the worker dies."""

    @property
    def unanswered(self) -> int:
        """How many of the triggers have no verdict yet."""
        return len(self.asked) - self.answered


@frozen
class _Allowance:
    """How long a trigger may run, and the round in which it runs again if it needs more."""

    seconds: float
    after_timeout: Round | None


@dataclass(slots=True)
class _Budget:
    """The time of a search."""

    seconds: float
    over_at: float
    """The moment of the monotonic clock at which the time is used up."""
    added: float = 0.0
    """Seconds that were added because the search waited for a later worker."""

    @classmethod
    def from_now(cls, seconds: float) -> _Budget:
        return cls(seconds, time.monotonic() + seconds)

    @property
    def spare_seconds(self) -> float:
        """Seconds of waiting that may still be added: up to half of the time of a search."""
        return self.seconds / 2 - self.added

    def left(self) -> float:
        """Return the seconds until the time is used up."""
        return max(0.0, self.over_at - time.monotonic())

    def add(self, seconds: float) -> None:
        self.over_at += seconds
        self.added += seconds


@dataclass(slots=True)
class _Deaths:
    """What the deaths of workers have told so far about the trigger that causes them."""

    is_narrowed: bool = False
    """The culprit is among the triggers between two reports, so the next worker announces each of them."""
    is_excused: bool = False
    """A worker was killed once without blame, because another program may have killed it."""


@frozen
class _InterruptedTrigger:
    """The trigger that was running when the time of the search was used up."""

    index: int
    ran_us: int


class Search:
    """Holds the verdicts of a search until all are there. `order`: the indexes of the triggers that run, as they are
    asked for. An author's trigger runs in a search of its own: `for_author`, `of_copy`."""

    def __init__(
        self,
        limits: SandboxLimits,
        triggers: Sequence[str],
        scene: Scene,
        order: Iterable[int],
        *,
        last_fired: LastFirings = MappingProxyType({}),
        output: Output = _NO_OUTPUT,
    ) -> None:
        """Prepare a search that runs the triggers in this order. A trigger that must not run has
        its verdict at once. Raises TypeError or ValueError if the context cannot be JSON."""
        self._limits = limits
        self.timezone = scene.timezone
        self._sources: tuple[object, ...] = tuple(triggers)
        context = context_json(scene.context)
        self._fields: dict[str, object] = {
            "context": context,
            "now": int(scene.now.timestamp() * 1000),
            "seed": scene.seed % 2**32,
            "console": output.most_lines > 0,
            "apart": scene.spellings_apart,
            "names": speaker_names(scene.context),
        }
        """The fields of every request."""
        self._last_fired = last_fired
        self._output = output
        self.console: list[str] = []
        self.trace: list[JsonObject] = []
        if len(context) > limits.max_context_chars:
            order = range(len(triggers))  # every trigger is refused

        self._verdicts: dict[int, Verdict | None] = {}
        undecided: dict[int, Failed | None] = {}
        for index in order:
            refusal = self._refused(index, triggers[index], len(context))
            self._verdicts[index] = refusal
            if refusal is None:
                undecided[index] = None

        self._rounds: tuple[dict[int, Failed | None], ...] = (undecided, {}, {}, {})
        """The undecided, each with the failure for which it was put off."""
        self._request = _Request()
        """What a worker was asked last."""
        self._deaths = _Deaths()
        self._interrupted: _InterruptedTrigger | None = None
        self._budget = _Budget.from_now(limits.search_seconds)

    @classmethod
    def for_author(
        cls,
        limits: SandboxLimits,
        source: str,
        scene: Scene,
        *,
        last_fired: LastFirings = MappingProxyType({}),
    ) -> Search:
        """Make a search of a single trigger that keeps what the trigger writes on the console."""
        output = Output(most_lines=protocol.MOST_CONSOLE_LINES)
        return cls(limits, [source], scene, order=[0], last_fired=last_fired, output=output)

    @classmethod
    def of_copy(
        cls,
        limits: SandboxLimits,
        copy: TracedCopy,
        scene: Scene,
        *,
        last_fired: LastFirings = MappingProxyType({}),
    ) -> Search:
        """Make a search that runs only a traced copy, and keeps its notes and console."""
        output = Output(most_lines=protocol.MOST_CONSOLE_LINES, most_notes=MOST_NOTES)
        search = cls(limits, [copy.source], scene, order=[0], last_fired=last_fired, output=output)
        search._fields |= {"original": copy.original, "probe": copy.probe}
        return search

    @property
    def open(self) -> bool:
        """Whether a trigger is undecided."""
        return any(self._rounds)

    def begin(self) -> None:
        """Start the time budget. The wait for the first worker does not count."""
        self._budget = _Budget.from_now(self._limits.search_seconds)

    @property
    def wait_seconds(self) -> float:
        """Seconds to wait for the next worker."""
        return self._budget.left() + self._spare_seconds

    def waited(self, seconds: float) -> None:
        """Add the wait for a later worker to the budget in the first round, up to half of the time of a search."""
        self._budget.add(min(seconds, self._spare_seconds))

    @property
    def _spare_seconds(self) -> float:
        """Seconds of waiting that may still be added to the budget."""
        is_first_round = bool(self._rounds[Round.FIRST] or self._rounds[Round.AGAIN])
        if not is_first_round:
            return 0.0
        return self._budget.spare_seconds

    def seconds_left(self) -> float:
        """Return the seconds until the budget is used up."""
        return self._budget.left()

    def verdicts(self) -> tuple[Verdict, ...]:
        """Return all verdicts, once `open` is false."""
        return tuple(self.by_index().values())

    def by_index(self) -> dict[int, Verdict]:
        """Return the verdicts by the index of each trigger, in that order."""
        return {
            index: verdict
            for index, verdict in sorted(self._verdicts.items())
            if verdict is not None
        }

    def request(self, *, step: bool) -> Frame:
        """Return what to ask next, while `open`: all of the first round, else one trigger of a later round."""
        current = Round(next(number for number, waiting in enumerate(self._rounds) if waiting))
        if current is Round.FIRST:
            asked = list(self._portion())
        else:
            asked = list(self._rounds[current])[:1]

        allowance = self._allowance(current)
        # Each trigger is announced as soon as the culprit is known to be among a few.
        culprit_is_among_few = self._deaths.is_narrowed or len(asked) <= FEW
        self._request = _Request(
            round=current,
            asked=asked,
            after_timeout=allowance.after_timeout,
            is_stepping=step,
            announced=FEW if step and culprit_is_among_few else 0,
        )

        fields = {
            **self._fields,
            "triggers": [self._sources[index] for index in asked],
            "trigger_seconds": allowance.seconds,
            "parts": SPRINT_PARTS if allowance.after_timeout is Round.SECOND else None,
            "search_seconds": self.seconds_left(),
            "singly": self._request.announced,
            "stride": FEW if step else len(asked),
        }
        last_firings = self._last_firings()
        if last_firings:
            fields["lastFired"] = last_firings

        return Frame(Kind.EVALUATE, fields)

    def _last_firings(self) -> dict[str, Mapping[str, int]]:
        """Return when the triggers of the request last fired, by their position in it, as far as any of them asks."""
        firings: dict[str, Mapping[str, int]] = {}
        for position, index in enumerate(self._request.asked):
            firing = self._last_fired.get(index)
            if firing is not None:
                firings[str(position)] = firing
        return firings

    def _allowance(self, current: Round) -> _Allowance:
        """Return how long each trigger of this round may run, and the round in which it runs again
        after that time. The only trigger that is left may run as long as any may."""
        limits = self._limits
        seconds_by_round = {
            Round.FIRST: limits.sprint_seconds,
            Round.AGAIN: limits.sprint_seconds,
            Round.SECOND: limits.after_timeout_seconds,
            Round.THIRD: limits.trigger_seconds,
        }
        seconds = seconds_by_round[current]
        is_only_trigger = sum(map(len, self._rounds)) == 1
        if is_only_trigger or seconds >= limits.trigger_seconds:
            return _Allowance(limits.trigger_seconds, after_timeout=None)
        return _Allowance(seconds, Round.THIRD if current is Round.SECOND else Round.SECOND)

    def _portion(self) -> Iterator[int]:
        """Yield as many triggers of the first round as one isolate can hold."""
        size = 0
        for index in self._rounds[Round.FIRST]:
            size += len(str(self._sources[index]))
            if size > PORTION_CHARACTERS + self._limits.max_source_chars:
                return
            yield index

    def take(self, frame: Frame) -> bool:
        """Take an answer in. Return True when the request is answered. Raises only ProtocolError, for a wrong answer."""
        # A step, an answer and an interruption for each trigger, and as much again where an isolate is thrown away.
        request = self._request
        request.frames += 1
        if request.frames > 4 * len(request.asked) + 8:
            raise ProtocolError(_("more answers than there can be"))

        try:
            match frame.kind:
                case Kind.STEP:
                    announced = protocol.whole(frame.body.get("index"), 0, len(request.asked))
                    if announced != request.answered:
                        raise ProtocolError(_("a step out of order"))
                    request.names_culprit = True
                case Kind.PART | Kind.DONE:
                    self._take_verdicts(frame.body, done=frame.kind is Kind.DONE)
                case _:
                    raise ProtocolError(_("an answer of kind {kind!r}", frame.kind))
        except (TypeError, ValueError, LookupError, AttributeError, OverflowError) as error:
            raise ProtocolError(_("an answer of the wrong form")) from error

        return frame.kind is Kind.DONE

    def _take_verdicts(self, body: JsonObject, *, done: bool) -> None:
        """Take in the verdicts, places and notes of an answer. `done`: the isolate has ended,
        because all is done, a trigger was stopped, or the time is over. Raises ProtocolError if it
        has ended without a verdict, though time was left."""
        request = self._request
        count = len(request.asked)
        for row in protocol.sequence(body.get("rows", []), count):
            self._take_row(row)

        # The line and column of a syntax error are found after the run, by compiling once more.
        for index, line, column in protocol.sequence(body.get("places", []), count):
            self._locate_failure(
                protocol.whole(index, 0, count), place_of_failure(line), place_of_failure(column)
            )

        console = protocol.sequence(
            body.get("console", []), self._output.most_lines - len(self.console)
        )
        self.console += map(protocol.text, console)
        trace = protocol.sequence(body.get("trace", []), self._output.most_notes - len(self.trace))
        self.trace += map(dict, trace)
        running = protocol.elapsed(body.get("running", 0))
        # The trigger that was running when the time was over is named, since it may be slow.
        if done and request.unanswered:
            if body.get("over") is True:
                self._interrupted = _InterruptedTrigger(request.asked[request.answered], running)
                self.end()
            elif request.answered == 0:
                raise ProtocolError(_("an answer without a verdict"))

    def died(self, code: int | None, *, clean: bool = True) -> bool:
        """Blame a trigger for the death of the worker if the culprit is known. Return True when the rest is asked in
        step mode. `clean`: nothing of an earlier request was still running in the worker, of which it may have died."""
        request = self._request
        ended_itself = code == 0 or request.unanswered == 0
        if ended_itself:
            return request.is_stepping

        is_certain = request.unanswered == 1 or request.answered < request.announced
        if not is_certain and not request.names_culprit:
            self._deaths.is_narrowed = request.is_stepping
            return True

        self._deaths.is_narrowed = False

        # Another program may have killed the worker: the first time no trigger is blamed.
        if code == -9 and not self._deaths.is_excused:
            self._deaths.is_excused = True
            return request.is_stepping

        suspect = request.asked[request.answered]
        verdict = Failed("killed", last_words(code))
        if is_certain and clean and request.answered == 0:
            self._settle(suspect, verdict)
        else:
            self._put_off(Round.AGAIN, suspect, verdict)

        return request.is_stepping

    def end(self) -> None:
        """End the search: all is done, or the budget is used up, and the rest gets the verdict `not_evaluated`."""
        for waiting in self._rounds:
            for index, failure in waiting.items():
                self._verdicts[index] = self._not_evaluated(index, failure)
            waiting.clear()

    def _not_evaluated(self, index: int, failure: Failed | None) -> Failed:
        """Return the verdict on a trigger that was undecided when the time was over. `failure`: the failure for which
        it was put off, if it ran before."""
        whole = _("the {search_seconds:g} s of this search", self._limits.search_seconds)
        if self._interrupted is not None and index == self._interrupted.index:
            message = _("not evaluated to its end: it was running when {whole} ended", whole)
            return Failed("not_evaluated", message, elapsed_us=self._interrupted.ran_us)
        if failure is not None:
            message = _(
                "not evaluated to its end ({message}): {whole} were used up", failure.message, whole
            )
            return Failed("not_evaluated", message, elapsed_us=failure.elapsed_us)
        return Failed("not_evaluated", _("not evaluated: {whole} were used up", whole))

    def _put_off(self, later: Round, index: int, verdict: Failed) -> None:
        """Move a trigger to a later round; `verdict` is what is known of it until then."""
        self._rounds[self._request.round].pop(index, None)
        self._rounds[later][index] = verdict

    def _settle(self, index: int, verdict: Verdict) -> None:
        """Make a verdict final."""
        self._verdicts[index] = verdict
        self._rounds[self._request.round].pop(index, None)

    def _take_row(self, row: Sequence[Any]) -> None:
        """Take in the verdict on the next trigger of the request: the verdict is final, or the trigger runs again in
        a later round. Raises ProtocolError."""
        request = self._request
        if not request.unanswered:
            raise ProtocolError(_("more verdicts than triggers"))

        index = request.asked[request.answered]
        verdict = verdict_of(row, self._limits)
        request.answered += 1
        request.names_culprit = False
        if not isinstance(verdict, Failed):
            self._settle(index, verdict)
            return

        was_first_in_isolate = row[3] != LATER
        later_round = self._round_after(verdict, was_first_in_isolate=was_first_in_isolate)
        if later_round is not None:
            self._put_off(later_round, index, verdict)
            return

        # Only one trigger may take the long time of the third round.
        if verdict.kind == "timeout":
            self._end_third_round()
        elif verdict.kind == "reference" and verdict.line and verdict.column:
            # V8 points at the beginning of the statement, not at the unknown name.
            source = str(self._sources[index])
            line, column = place_of_name(source, verdict.message, verdict.line, verdict.column)
            verdict = replace(verdict, line=line, column=column)

        self._settle(index, verdict)

    def _round_after(self, failure: Failed, *, was_first_in_isolate: bool) -> Round | None:
        """Return the round in which a trigger runs again after this failure, or None if the failure is final."""
        if failure.kind == "timeout":
            return self._request.after_timeout
        ran_alone = was_first_in_isolate or len(self._request.asked) == 1
        if failure.kind == "out_of_memory" and not ran_alone:
            return Round.AGAIN
        return None

    def _end_third_round(self) -> None:
        """End the third round after its first time-out: its other triggers keep the failure of the second round."""
        self._verdicts.update(self._rounds[Round.THIRD])
        self._rounds[Round.THIRD].clear()

    def _locate_failure(self, position: int, line: int | None, column: int | None) -> None:
        """Set the place of the failure of a trigger. `position`: the position of the trigger in the request."""
        index = self._request.asked[position]
        verdict = self._verdicts[index]
        if isinstance(verdict, Failed) and line and column:
            self._verdicts[index] = replace(verdict, line=line, column=column)

    def _refused(self, index: int, source: object, context_chars: int) -> Verdict | None:
        """Return the verdict on a trigger that must not run, as it or its context is too much, or None if it may run."""
        limits = self._limits
        if context_chars > limits.max_context_chars:
            why = _(
                "the context has {context} characters of JSON, at most {max_context} are allowed",
                context_chars,
                limits.max_context_chars,
            )
        elif not isinstance(source, str):
            return Failed("syntax", _("a trigger is a text, not {name}", type(source).__name__))
        elif len(source) > limits.max_source_chars:
            why = _(
                "{source} characters, at most {max_source} are allowed",
                len(source),
                limits.max_source_chars,
            )
        elif index >= limits.max_triggers:
            why = _("a search takes at most {max_triggers} triggers", limits.max_triggers)
        else:
            return None

        return Failed("not_evaluated", _("not evaluated: {why}", why))
