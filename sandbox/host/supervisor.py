"""TriggerSandbox: runs untrusted triggers in worker processes and turns all that can happen there into verdicts.

It keeps the time budget of each search, replaces workers that die, and checks the form of each answer. It also keeps a
record of each trigger: how often it did harm, and when last. No trigger is ever disabled; harmful ones run last.
Records are kept in memory, by hash of the source: a trigger that was mended starts with an empty record.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import time
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TypeVar

from languages import _
from sandbox.errors import PatternError, ProtocolError
from sandbox.host.condition_index import ConditionIndex, read_all
from sandbox.host.pool import Lease, Pool, ZonePools
from sandbox.host.process import WorkerDied, WorkerProcess
from sandbox.host.reports import report_on
from sandbox.host.search import STOPPED, LastFirings, Scene, Search
from sandbox.limits import SandboxLimits
from sandbox.protocol import Finding, Frame, Kind, ReadQuestion, findings, message, reading, words
from sandbox.values import JsonObject, frozen
from sandbox.verdicts import (
    CheckReport,
    Failed,
    Fired,
    ProtectionLayer,
    Quiet,
    Reading,
    RunReport,
    TracedCopy,
    Verdict,
)

T = TypeVar("T")
READ_AT_ONCE = 200
"""Triggers that are read at once. A worker tells their key words in one request: a trigger that its parser cannot
take hides the words of all triggers of the request."""
GRACE_SECONDS = 1.0
"""How long after the end of the budget an answer may come before the worker is killed."""
CHECK_SEARCHES = 10
"""A check of many triggers may take this many times the time of a search, for triggers that hurt each other."""

SAMPLE_CONTEXT: JsonObject = {
    "messages": [
        {
            "role": "user",
            "content": "Good morning! 早上好",
            "timestamp": 1767225600000,
            "name": "user",
        },
        {
            "role": "assistant",
            "content": "Good morning. 你好吗",
            "timestamp": 1767225660000,
            "name": "char",
        },
    ],
    "conversation_id": "check",
    "participants": {},
}
"""What a trigger is tried on when the caller has no messages."""


class TriggerSandbox:
    """Owns the worker processes. Starts nothing until first used; close it with `aclose()` or `async with`. `timezone`:
    IANA name for `Date` and `Intl`, default the system's. `workers`: searches at the same time, default the number of
    cores but at most 4. `require_all_layers`: refuse to run where a layer of protection is missing. `without_layers`:
    leave these out, as on a system that lacks them (for tests; names as in `trigger-sandbox doctor`). `spare`: keep an
    idle worker beside the busy ones; one search alone has no use for it. `spellings_apart`: match_keys does not take
    Traditional and Simplified, full-width and plain characters for the same."""

    def __init__(
        self,
        limits: SandboxLimits = SandboxLimits(),  # noqa: B008 - frozen
        *,
        timezone: str | None = None,
        workers: int | None = None,
        require_all_layers: bool = False,
        without_layers: Collection[str] = (),
        spare: bool = True,
        spellings_apart: bool = False,
    ) -> None:
        """Prepare a sandbox; its workers start when a search needs them. Raises ValueError if
        `workers` is less than 1."""
        if workers is not None and workers < 1:
            raise ValueError(_("workers must be at least 1, not {workers!r}", workers))
        self.limits = limits
        self._records = TriggerRecords(limits.trigger_seconds)
        size = workers or min(4, os.cpu_count() or 1)
        start = partial(
            WorkerProcess.start, limits, all_layers=require_all_layers, without=without_layers
        )
        usual = Pool(partial(start, timezone), size, limits.max_waiting, spare=spare)

        def pool_of_zone(zone: str) -> Pool:
            return Pool(partial(start, zone), 1, limits.max_waiting, spare=False)

        self._pools = ZonePools(usual, timezone, pool_of_zone)
        self._spellings_apart = spellings_apart
        # Conditions know only one spelling of a key, and a sandbox for a single search has no use for them.
        has_conditions = spare and not spellings_apart
        self._conditions = ConditionIndex() if has_conditions else None
        self._reading: asyncio.Task[None] | None = None
        """Reads triggers that have run, for later searches."""

    async def __aenter__(self) -> TriggerSandbox:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Kill the workers, also busy ones. May be called again."""
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.gather(self._reading, return_exceptions=True)
        await self._pools.aclose()

    async def warm(self) -> None:
        """Start a worker and a spare, so that the first search does not wait for one. Raises SandboxUnavailable."""
        async with self._pools.worker(None) as lease:
            await lease.ready()

    @property
    def pids(self) -> tuple[int, ...]:
        return self._pools.pids

    @property
    def workers_started(self) -> int:
        """Worker processes started so far, also processes that replaced a dead one."""
        return self._pools.started

    @property
    def workers_replaced(self) -> int:
        """Worker processes so far that died, or were killed in the middle of a request."""
        return self._pools.replaced

    async def describe(self) -> JsonObject:
        """Return what a worker says of itself: pid, V8 version, layers of protection, visible names."""
        async with self._pools.worker(None) as lease:
            return (await lease.ready()).hello

    async def layers(self) -> tuple[ProtectionLayer, ...]:
        """Return each layer of protection, and whether it holds here. `doctor` of both programs shows them."""
        description = await self.describe()
        layers: list[ProtectionLayer] = []
        for name, state in description["layers"].items():
            detail = str(message(state["detail"]))
            layers.append(ProtectionLayer(name, state["holds"], detail))
        return tuple(layers)

    def record_of(self, source: str) -> TriggerRecord:
        """Return how often this source timed out, ran out of memory or killed its worker, and when last."""
        return self._records.of(source)

    async def evaluate(
        self,
        triggers: Sequence[str],
        context: JsonObject,
        *,
        now: datetime,
        seed: int,
        timezone: str | None = None,
    ) -> tuple[Verdict, ...]:
        """Return a verdict for each trigger, in their order. Never raises for anything a trigger is or does.
        `context`: messages, conversation_id, participants; any JSON. `now`: aware, or naive for the system's zone.
        `timezone`: the zone of this search, if not the sandbox's own. Raises TypeError or ValueError for a context
        that is not JSON; SandboxClosed, SandboxBusy, SandboxUnavailable."""
        ran = await self.judge(triggers, context, now=now, seed=seed, timezone=timezone)
        return tuple(ran.get(index, Quiet(0)) for index in range(len(triggers)))

    async def judge(
        self,
        triggers: Sequence[str],
        context: JsonObject,
        *,
        now: datetime,
        seed: int,
        last_fired: LastFirings | None = None,
        timezone: str | None = None,
    ) -> Mapping[int, Verdict]:
        """Return verdicts by index. Triggers without a verdict did not fire; a trigger may fire without running.
        `last_fired` has `context.last_fired` of a trigger, by index; null for the others. Raises as `evaluate`."""
        every_index = range(len(triggers))
        scene = self._scene(context, now=now, seed=seed, timezone=timezone)
        last_fired = {} if last_fired is None else last_fired
        if self._conditions is None:
            return await self._run_all(triggers, every_index, scene, last_fired=last_fired)

        most = self.limits.max_triggers
        selection = self._conditions.select(triggers[:most], context)
        running = [
            *selection.running,
            *every_index[most:],
        ]  # triggers over the limit get their refusal
        ran = await self._run_all(triggers, running, scene, last_fired=last_fired)
        # Only a trigger that ran without fault is read, for the next search.
        self._begin_reading(
            triggers[index] for index, verdict in ran.items() if not isinstance(verdict, Failed)
        )
        if not selection.firing:
            return ran

        # A search that refuses its context has a verdict for every trigger, which counts.
        verdicts: dict[int, Verdict] = dict.fromkeys(selection.firing, Fired(0)) | dict(ran)
        return dict(sorted(verdicts.items()))

    def _begin_reading(self, sources: Iterable[str]) -> None:
        """Begin to read triggers that ran without fault and were not read yet, beside later searches, unless such
        reading is still going on."""
        assert self._conditions is not None
        unread = self._conditions.unread(sources)
        if unread and (self._reading is None or self._reading.done()):
            self._reading = asyncio.create_task(self._read_conditions(self._conditions, unread))

    async def _read_conditions(self, conditions: ConditionIndex, sources: Sequence[str]) -> None:
        for start in range(0, len(sources), READ_AT_ONCE):
            part = sources[start : start + READ_AT_ONCE]
            for source, condition in zip(
                part, await asyncio.to_thread(read_all, part), strict=True
            ):
                conditions.learn(source, condition)

    async def has_read(self) -> None:
        """Wait until the triggers that ran were read."""
        if self._reading is not None:
            await self._reading

    async def _run_all(
        self,
        triggers: Sequence[str],
        among: Sequence[int],
        scene: Scene,
        *,
        last_fired: LastFirings = MappingProxyType({}),
    ) -> Mapping[int, Verdict]:
        """Run the triggers with an index of `among`, whether they could be true or not, and return their verdicts by
        index. Note those that did harm, which run last from now on. Raises as `evaluate`."""
        positions = self._records.order([triggers[index] for index in among], scene.seed)
        order = [among[position] for position in positions]
        search = Search(self.limits, triggers, scene, order=order, last_fired=last_fired)
        await self._perform(search)
        ran = search.by_index()
        for index, verdict in ran.items():
            self._records.note(triggers[index], verdict, scene.now)
        return ran

    def _scene(
        self, context: JsonObject, *, now: datetime, seed: int, timezone: str | None = None
    ) -> Scene:
        return Scene(context, now, seed, timezone=timezone, spellings_apart=self._spellings_apart)

    async def run(
        self,
        source: str,
        context: JsonObject,
        *,
        now: datetime,
        seed: int,
        copy: TracedCopy | None = None,
        timezone: str | None = None,
        last_fired: Mapping[str, int] | None = None,
    ) -> RunReport:
        """Evaluate a trigger for its author: the same verdict as `evaluate`, and its console output. `copy` runs
        after it, in its own realm, and gives the trace, so it cannot change the verdict. `last_fired`: the value of
        `context.last_fired`."""
        scene = self._scene(context, now=now, seed=seed, timezone=timezone)
        firings = {} if last_fired is None else {0: last_fired}
        search = Search.for_author(self.limits, source, scene, last_fired=firings)
        await self._perform(search)
        report = RunReport(search.verdicts()[0], tuple(search.console))
        if copy is None or not _compiles(report.verdict):
            return report  # a copy may compile where the trigger does not, by its parentheses
        traced = Search.of_copy(self.limits, copy, scene, last_fired=firings)
        await self._perform(traced)
        return replace(report, trace=tuple(traced.trace), traced=traced.verdicts()[0])

    async def check(
        self, source: str, context: JsonObject | None = None, *, now: datetime, seed: int
    ) -> CheckReport:
        """Say what is wrong with a trigger that is about to be stored. Tries it once on `context`, else on a sample.
        Raises as `evaluate` does, never for the source."""
        (report,) = await self.check_all([source], context, now=now, seed=seed)
        return report

    async def check_after(self, source: str, verdict: Verdict, *, now: datetime) -> CheckReport:
        """Check a trigger whose try has just given `verdict`: it is only read, and not run again. If it did not
        compile, or the worker that reads it dies or takes too long, the report has only what the verdict says: unlike
        `check`, it does not refuse a trigger that could not be read. Raises as `evaluate` does, never for the source."""
        findings_of_all: Sequence[Sequence[Finding]] | None = None
        if _compiles(verdict):
            findings_of_all = await self._lint([source], now)
        if not findings_of_all:
            return report_on(source, verdict)
        return report_on(source, verdict, findings_of_all[0])

    async def check_all(
        self,
        sources: Sequence[str],
        context: JsonObject | None = None,
        *,
        now: datetime,
        seed: int,
    ) -> tuple[CheckReport, ...]:
        """`check` each source, in two requests for all of them; triggers that hurt each other are tried again alone.
        Takes at most CHECK_SEARCHES times the `search_seconds` and two searches more, beside the start of a worker;
        the rest is then refused by name."""
        scene = self._scene(SAMPLE_CONTEXT if context is None else context, now=now, seed=seed)
        ran = await self._run_all(sources, range(len(sources)), scene)
        # It begins here: a worker had to start for the first try, which has a bound of its own.
        deadline = time.monotonic() + self._check_seconds
        verdicts = list(ran.values())
        if len(sources) > 1:
            await self._try_stopped_again(sources, verdicts, scene, deadline)

        compiled = [index for index, verdict in enumerate(verdicts) if _compiles(verdict)]
        findings_by_index: dict[int, Sequence[Finding]] = {}
        findings_of_all = await self._lint([sources[index] for index in compiled], now)
        # If the parser died of a source, each source is read alone, so that only the bad source fails.
        if findings_of_all is not None:
            findings_by_index.update(zip(compiled, findings_of_all, strict=True))
        else:
            is_only = len(compiled) == 1
            for index in compiled:
                findings_or_failure = await self._lint_alone(
                    sources[index], now, deadline, is_only=is_only
                )
                if isinstance(findings_or_failure, Failed):
                    verdicts[index] = findings_or_failure
                else:
                    findings_by_index[index] = findings_or_failure

        reports: list[CheckReport] = []
        for index, source in enumerate(sources):
            reports.append(report_on(source, verdicts[index], findings_by_index.get(index, ())))

        return tuple(reports)

    @property
    def _check_seconds(self) -> float:
        return CHECK_SEARCHES * self.limits.search_seconds

    def _too_late(self) -> Failed:
        """Return the verdict on a trigger that was not checked in time."""
        message = _("not checked: the {seconds:g} s were used up", self._check_seconds)
        return Failed("not_evaluated", message)

    async def _try_stopped_again(
        self, sources: Sequence[str], verdicts: list[Verdict], scene: Scene, deadline: float
    ) -> None:
        """Try triggers that were stopped again, alone, as others may be at fault. `deadline`: monotonic seconds."""
        for index, verdict in enumerate(verdicts):
            if not isinstance(verdict, Failed) or verdict.kind not in STOPPED:
                continue
            if time.monotonic() >= deadline:
                verdicts[index] = self._too_late()
            else:
                alone = await self._run_all([sources[index]], [0], scene)
                verdicts[index] = alone[0]

    async def _lint(self, sources: Sequence[str], now: datetime) -> list[list[Finding]] | None:
        """Return unknown names and lint findings of each source, or None when the worker did not survive or took too
        long."""
        if not sources:
            return []
        milliseconds = int(now.timestamp() * 1000)
        return await self._ask(
            ReadQuestion.FINDINGS, sources, partial(findings, count=len(sources)), now=milliseconds
        )

    async def _lint_alone(
        self, source: str, now: datetime, deadline: float, *, is_only: bool
    ) -> Sequence[Finding] | Failed:
        """Return the findings of a source of which nothing came when all were read at once. `is_only`: it was read
        alone already."""
        if time.monotonic() >= deadline:
            return self._too_late()
        findings_of_one = None if is_only else await self._lint([source], now)
        if findings_of_one is None:
            return Failed("killed", _("the trigger could not be analysed"))
        return findings_of_one[0]

    async def words_of(self, sources: Sequence[str]) -> tuple[tuple[str, ...], ...]:
        """Return the key words of each source, for people, as a worker reads them: a parser of native code does not
        run in the caller's process. A source has no words if the time of a search, from a ready worker on, did not
        suffice for it."""
        words_of_all: list[tuple[str, ...]] = []
        if not sources:
            return ()
        await self.warm()
        deadline = time.monotonic() + self.limits.search_seconds
        for start in range(0, len(sources), READ_AT_ONCE):
            part = sources[start : start + READ_AT_ONCE]
            words_of_part: list[tuple[str, ...]] | None = None
            if time.monotonic() < deadline:
                words_of_part = await self._ask(
                    ReadQuestion.WORDS, part, partial(words, count=len(part))
                )
            words_of_all += words_of_part or [()] * len(part)
        return tuple(words_of_all)

    async def read(self, source: str) -> Reading:
        """Return the operands of a trigger and its traced copy, for `run`; nothing if it could not be read. A worker
        reads it, as in `words_of`."""
        if len(source) > self.limits.max_source_chars:
            return Reading()
        return (
            await self._ask(ReadQuestion.READING, [source], partial(reading, original=source))
            or Reading()
        )

    async def _ask(
        self,
        wanted: ReadQuestion,
        sources: Sequence[str],
        checked: Callable[[JsonObject], T],
        **more: int,
    ) -> T | None:
        """Return what a worker reads in the sources, or None when it did not survive, took too long, or gave a wrong
        answer."""
        body = {"sources": list(sources), "wanted": wanted.value, **more}
        async with self._pools.worker(None) as lease:
            try:
                answer = await lease.ask(Frame(Kind.READ, body), self.limits.search_seconds)
                return checked(answer.body)
            except WorkerDied:
                return None
            except ProtocolError:
                await lease.end(healthy=False)
                return None

    async def match_texts(self, pattern: str, texts: Sequence[str]) -> tuple[bool, ...]:
        """Tell for each text whether a search expression matches: a word in any spelling, or `/expression/flags` as
        in JavaScript, as the text is written or as people see it. Raises PatternError when the expression is empty,
        invalid or too slow for `search_seconds` (per some hundred thousand characters of text); nothing partial is
        ever returned."""
        from sandbox.host.matching import (
            Looks,
            expression_of,
            holding,
            parts_of,
        )  # here: a search has no use for it

        expression = expression_of(pattern)
        if expression is None:
            return holding(pattern, texts)

        realm = Path(__file__).with_name("matching.js").read_text("utf-8")
        source = f"const [body, flags] = {json.dumps(expression)};{realm}"
        looks = Looks.of(texts)
        matches: list[bool] = []
        for part in parts_of(looks.all):
            matches += await self._match(source, part)

        return looks.either(matches)

    async def _match(self, source: str, texts: Sequence[str]) -> list[bool]:
        """Tell for each text whether it matches, as the trigger `source` (matching.js) writes it on its console.
        Raises PatternError."""
        limits = replace(
            self.limits, trigger_seconds=self.limits.search_seconds, max_context_chars=2**31
        )
        scene = Scene({"texts": texts}, datetime.now(UTC), seed=0)
        search = Search.for_author(limits, source, scene)
        await self._perform(search)
        (verdict,) = search.verdicts()
        if isinstance(verdict, Failed):
            raise self._pattern_error(verdict)
        answers = "".join(search.console)
        if len(answers) != len(texts) or set(answers) - {"0", "1"}:
            raise PatternError("the expression could not be tried")
        return [answer == "1" for answer in answers]

    def _pattern_error(self, failure: Failed) -> PatternError:
        """Return the error that says why a search expression could not be tried: it failed, took
        too long, or needed too much memory."""
        match failure.kind:
            case "thrown":
                return PatternError(failure.message.removeprefix("Threw "))
            case "timeout" | "not_evaluated":
                seconds = self.limits.search_seconds
                return PatternError(
                    "the expression took longer than {seconds:g} s; try a simpler one", seconds
                )
            case "out_of_memory":
                heap_mb = self.limits.heap_mb
                return PatternError(
                    "the expression needed more than {heap_mb} MB; try a simpler one", heap_mb
                )
            case _:
                return PatternError(
                    "the expression was too much for the worker process; try a simpler one"
                )

    async def _perform(self, search: Search) -> None:
        """Ask workers until all triggers of the search are decided or its time is over."""
        if not search.open:
            return

        async with self._pools.worker(search.timezone) as lease:
            # The wait for the first worker must not shorten the search.
            await lease.ready()
            search.begin()
            step = False
            while search.open and search.seconds_left() > 0:
                request = search.request(step=step)
                try:
                    await lease.converse(
                        request, search.take, search.seconds_left() + GRACE_SECONDS
                    )
                except WorkerDied as death:
                    step = search.died(death.code, clean=death.clean)
                else:
                    # Another process may be ready while this one makes a new isolate.
                    if search.open:
                        await lease.change()
                if search.open and not await _is_ready_in_time(lease, search):
                    break

            search.end()


async def _is_ready_in_time(lease: Lease, search: Search) -> bool:
    """Wait for the next worker of the search, whose budget grows by the wait. Return False if the wait took too long."""
    began = time.monotonic()
    try:
        async with asyncio.timeout(search.wait_seconds):
            await lease.ready()
    except TimeoutError:
        return False
    search.waited(time.monotonic() - began)
    return True


def _compiles(verdict: Verdict) -> bool:
    """Tell whether V8 took the text for a trigger, as far as its try says."""
    return not isinstance(verdict, Failed) or verdict.kind not in ("syntax", "not_evaluated")


MOST_RECORDS = 10_000
"""Sources remembered; the one whose last harm is oldest is forgotten first. About 3 MB."""


@frozen
class TriggerRecord:
    """How often one source timed out, ran out of memory or killed its worker, and when it last did (aware)."""

    timeouts: int = 0
    out_of_memory: int = 0
    killed: int = 0
    last: datetime | None = None

    @property
    def total(self) -> int:
        return self.timeouts + self.out_of_memory + self.killed


class TriggerRecords:
    """Records by hash of the source. `trigger_seconds`: the time that a trigger may take."""

    def __init__(self, trigger_seconds: float = 1.0) -> None:
        self._limit_us = int(trigger_seconds * 1e6)
        self._records: OrderedDict[bytes, TriggerRecord] = OrderedDict()

    def note(self, source: object, verdict: Verdict, at: datetime) -> None:
        """Count the verdict in the record of its source if the trigger did harm. Only a text has a record. A time-out
        with less than the time for one trigger does not count: the other triggers left it too little."""
        if not isinstance(verdict, Failed) or not isinstance(source, str):
            return

        record = self.of(source)
        match verdict.kind:
            case "timeout" if verdict.elapsed_us >= self._limit_us:
                record = replace(record, timeouts=record.timeouts + 1, last=at)
            case "out_of_memory":
                record = replace(record, out_of_memory=record.out_of_memory + 1, last=at)
            case "killed":
                record = replace(record, killed=record.killed + 1, last=at)
            case _:
                return

        key = _hash(source)
        self._records[key] = record
        self._records.move_to_end(key)
        if len(self._records) > MOST_RECORDS:
            self._records.popitem(last=False)

    def of(self, source: object) -> TriggerRecord:
        """Return the record of a source, or an empty record."""
        if not self._records or not isinstance(source, str):
            return TriggerRecord()
        return self._records.get(_hash(source), TriggerRecord())

    def order(self, sources: Sequence[object], seed: int) -> list[int]:
        """Return the order of evaluation: triggers that did harm come last, the worst at the end. `seed` says which
        trigger begins: a new process has no records, and where many triggers take all the time, the same triggers
        must not go without each time. Among equals, triggers with async syntax come last: before the first of them V8
        has to run all jobs that may be left (realm/board.js), and it is quicker to do so once."""
        first = seed % len(sources) if sources else 0
        indexes = (*range(first, len(sources)), *range(first))

        def rank(index: int) -> tuple[int, bool]:
            source = sources[index]
            is_async = isinstance(source, str) and ("async" in source or "await" in source)
            return self.of(source).total, is_async

        return sorted(indexes, key=rank)


def _hash(source: str) -> bytes:
    return hashlib.sha256(source.encode("utf-8", "surrogatepass")).digest()
