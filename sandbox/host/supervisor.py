"""TriggerSandbox: runs untrusted triggers in worker processes and turns all that can happen there into verdicts.

It keeps the time budget of each search, replaces workers that die, and checks the form of each answer.
"""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from sandbox.errors import PatternError, ProtocolError
from sandbox.host.candidates import Candidates
from sandbox.host.pool import Pool
from sandbox.host.process import WorkerDied, WorkerProcess
from sandbox.host.records import TriggerRecord, TriggerRecords
from sandbox.host.reports import report_on
from sandbox.host.search import STOPPED, Scene, Search
from sandbox.limits import SandboxLimits
from sandbox.locale import _
from sandbox.protocol import Finding, Frame, Kind, Wanted, findings, message, reading, words
from sandbox.verdicts import (
    CheckReport,
    Failed,
    ProtectionLayer,
    Quiet,
    Reading,
    RunReport,
    TracedCopy,
    Verdict,
)

T = TypeVar("T")
READ_AT_ONCE = 200
"""Triggers whose key words are asked for in one request: one that the parser cannot take hides those of so many."""
GRACE_SECONDS = 1.0
"""How long after the end of the budget an answer may come before the worker is killed."""
CHECK_SEARCHES = 10
"""A check of many triggers may take this many times the time of one search, for those that hurt each other."""
READ_SECONDS, PAUSE_SECONDS = 0.002, 0.008
"""Triggers are read after the answer of a search, for so long at a time, with pauses: 5,000 take some 3 s."""

SAMPLE_CONTEXT: Mapping[str, Any] = {
    "messages": [
        {"role": "user", "content": "Good morning! 早上好", "timestamp": 1767225600000, "name": "user"},
        {"role": "assistant", "content": "Good morning. 你好吗", "timestamp": 1767225660000, "name": "char"},
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
        if workers is not None and workers < 1:
            raise ValueError(_("workers must be at least 1, not {workers!r}", workers))
        self.limits = limits
        self._records = TriggerRecords(limits.trigger_seconds)
        size = workers or min(4, os.cpu_count() or 1)
        start = partial(WorkerProcess.start, limits, timezone, all_layers=require_all_layers, without=without_layers)
        self._pool = Pool(start, size, limits.max_waiting, spare=spare)
        self._apart = spellings_apart
        self._candidates = Candidates() if spare else None
        self._unread: dict[str, None] = {}
        self._reading: asyncio.Task[None] | None = None

    async def __aenter__(self) -> TriggerSandbox:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Kills the workers, also busy ones. May be called again."""
        if self._reading is not None:
            self._reading.cancel()
        await self._pool.aclose()

    async def warm(self) -> None:
        """Starts a worker and a spare, so that the first search does not wait for one. Raises SandboxUnavailable."""
        async with self._pool.worker() as lease:
            await lease.ready()

    @property
    def pids(self) -> tuple[int, ...]:
        return self._pool.pids

    @property
    def workers_started(self) -> int:
        """Worker processes started so far, also those that replaced a dead one."""
        return self._pool.started

    @property
    def workers_replaced(self) -> int:
        """Worker processes so far that died, or were killed in the middle of a request."""
        return self._pool.replaced

    async def describe(self) -> Mapping[str, Any]:
        """What a worker says of itself: pid, V8 version, layers of protection, visible names."""
        async with self._pool.worker() as lease:
            return (await lease.ready()).hello

    async def layers(self) -> tuple[ProtectionLayer, ...]:
        """Each layer of protection, and whether it holds here. `doctor` of both programs shows them."""
        states = (await self.describe())["layers"]
        return tuple(ProtectionLayer(name, state["holds"], message(state["detail"])) for name, state in states.items())

    def record_of(self, source: str) -> TriggerRecord:
        """How often this source timed out, ran out of memory or killed its worker, and when last."""
        return self._records.of(source)

    async def evaluate(
        self, triggers: Sequence[str], context: Mapping[str, Any], *, now: datetime, seed: int
    ) -> tuple[Verdict, ...]:
        """One verdict per trigger, in their order. Never raises for anything a trigger is or does. `context`: messages,
        conversation_id, participants; any JSON. `now`: aware, or naive for the system's zone. Raises TypeError or
        ValueError for a context that is not JSON; SandboxClosed, SandboxBusy, SandboxUnavailable."""
        ran = await self.judge(triggers, context, now=now, seed=seed)
        return tuple(ran.get(index, Quiet(0)) for index in range(len(triggers)))

    async def judge(
        self, triggers: Sequence[str], context: Mapping[str, Any], *, now: datetime, seed: int
    ) -> Mapping[int, Verdict]:
        """The verdicts of those triggers that had to run, by index; the others are quiet. Raises as `evaluate`."""
        among: Sequence[int] = range(len(triggers))
        if self._candidates is not None:
            most = self.limits.max_triggers
            among = [*self._candidates.among(triggers[:most], context, now), *among[most:]]
        ran = await self._run_all(triggers, among, Scene(context, now, seed))
        if self._candidates is not None:
            sound = (triggers[index] for index, verdict in ran.items() if not isinstance(verdict, Failed))
            self._unread.update(dict.fromkeys(source for source in sound if source not in self._candidates))
            if self._unread and (self._reading is None or self._reading.done()):
                self._reading = asyncio.create_task(self._read_needs(self._candidates))
        return ran

    async def _run_all(self, triggers: Sequence[str], among: Sequence[int], scene: Scene) -> Mapping[int, Verdict]:
        """Runs those with an index of `among`, whether they could be true or not."""
        order = self._records.order([triggers[index] for index in among], scene.seed)
        search = Search(self.limits, triggers, scene, [among[place] for place in order], apart=self._apart)
        await self._perform(search)
        ran = search.by_index()
        for index, verdict in ran.items():
            self._records.note(triggers[index], verdict, scene.now)
        return ran

    async def _read_needs(self, candidates: Candidates) -> None:
        while self._unread:
            await asyncio.sleep(PAUSE_SECONDS)
            until = time.monotonic() + READ_SECONDS
            while self._unread and time.monotonic() < until:
                candidates.read(self._unread.popitem()[0])

    async def run(
        self, source: str, context: Mapping[str, Any], *, now: datetime, seed: int, copy: TracedCopy | None = None
    ) -> RunReport:
        """Evaluates one trigger for its author: the same verdict as `evaluate`, and its console output. `copy` runs
        after it, in its own realm, and gives the trace, so it cannot change the verdict."""
        scene = Scene(context, now, seed)
        search = Search(self.limits, [source], scene, [0], console=True, apart=self._apart)
        await self._perform(search)
        report = RunReport(search.verdicts()[0], tuple(search.console))
        hopeless = isinstance(report.verdict, Failed) and report.verdict.kind in ("syntax", "not_evaluated")
        if copy is None or hopeless:  # a copy may compile where the trigger does not, by its parentheses
            return report
        traced = Search(self.limits, [copy.source], scene, [0], console=True, copy=copy, apart=self._apart)
        await self._perform(traced)
        return replace(report, trace=tuple(traced.trace), traced=traced.verdicts()[0])

    async def check(
        self, source: str, context: Mapping[str, Any] | None = None, *, now: datetime, seed: int
    ) -> CheckReport:
        """What is wrong with a trigger that is about to be stored. Tries it once on `context`, else on a sample. Raises
        as `evaluate` does, never for the source."""
        (report,) = await self.check_all([source], context, now=now, seed=seed)
        return report

    async def check_after(self, source: str, verdict: Verdict, *, now: datetime) -> CheckReport:
        """As `check`, of a trigger whose try has just given `verdict`: it is only read, and not run again."""
        compiles = not (isinstance(verdict, Failed) and verdict.kind in ("syntax", "not_evaluated"))
        read = await self._read([source], now) if compiles else []
        return report_on(source, verdict, read[0] if read else ())

    async def check_all(
        self, sources: Sequence[str], context: Mapping[str, Any] | None = None, *, now: datetime, seed: int
    ) -> tuple[CheckReport, ...]:
        """`check` of each source, in two requests for all of them; those that hurt each other are tried again alone.
        Takes at most CHECK_SEARCHES times the `search_seconds` and one search more; the rest is then refused by
        name."""
        seconds = CHECK_SEARCHES * self.limits.search_seconds
        over_at = time.monotonic() + seconds
        late = Failed("not_evaluated", _("not checked: the {seconds:g} s were used up", seconds), None, None, 0)
        given = SAMPLE_CONTEXT if context is None else context

        async def tried(part: Sequence[str]) -> Sequence[Verdict]:
            if time.monotonic() >= over_at:
                return [late]
            return tuple((await self._run_all(part, range(len(part)), Scene(given, now, seed))).values())

        verdicts = list(await tried(sources))
        for index, verdict in enumerate(verdicts if len(sources) > 1 else ()):
            if isinstance(verdict, Failed) and verdict.kind in STOPPED:
                (verdicts[index],) = await tried([sources[index]])
        compiled = [
            index
            for index, verdict in enumerate(verdicts)
            if not (isinstance(verdict, Failed) and verdict.kind in ("syntax", "not_evaluated"))
        ]
        read = await self._read([sources[index] for index in compiled], now)
        known = dict(zip(compiled, read or (), strict=False))
        for index in compiled if read is None else ():
            if time.monotonic() >= over_at:
                verdicts[index] = late
            elif len(compiled) == 1 or (alone := await self._read([sources[index]], now)) is None:
                verdicts[index] = Failed("killed", _("the trigger could not be analysed"), None, None, 0)
            else:
                (known[index],) = alone
        return tuple(
            report_on(source, verdict, known.get(index, ()))
            for index, (source, verdict) in enumerate(zip(sources, verdicts, strict=True))
        )

    async def _read(self, sources: Sequence[str], now: datetime) -> list[list[Finding]] | None:
        """Unknown names and lint findings of each source; None when the worker did not survive or took too long."""
        if not sources:
            return []
        more = {"now": int(now.timestamp() * 1000)}
        return await self._ask(Wanted.FINDINGS, sources, lambda body: findings(body, len(sources)), **more)

    async def words_of(self, sources: Sequence[str]) -> tuple[tuple[str, ...], ...]:
        """The key words of each source, for people; none of a source that could not be read within the time of one
        search. The worker reads them: a parser of native code does not run in the caller's process."""
        over_at = time.monotonic() + self.limits.search_seconds
        known: list[tuple[str, ...]] = []
        for first in range(0, len(sources), READ_AT_ONCE):
            part = sources[first : first + READ_AT_ONCE]
            read = None
            if time.monotonic() < over_at:
                read = await self._ask(Wanted.WORDS, part, partial(words, count=len(part)))
            known += read or [()] * len(part)
        return tuple(known)

    async def read(self, source: str) -> Reading:
        """The operands of a trigger and its traced copy, for `run`; nothing if it could not be read. A worker reads it,
        as in `words_of`."""
        if len(source) > self.limits.max_source_chars:
            return Reading()
        return await self._ask(Wanted.READING, [source], partial(reading, original=source)) or Reading()

    async def _ask(
        self, wanted: Wanted, sources: Sequence[str], checked: Callable[[Mapping[str, Any]], T], **more: int
    ) -> T | None:
        """What a worker reads in the sources; None when it did not survive, took too long, or gave a wrong answer."""
        body = {"sources": list(sources), "wanted": wanted.value, **more}
        async with self._pool.worker() as lease:
            try:
                answer = await lease.ask(Frame(Kind.READ, body), self.limits.search_seconds)
                return checked(answer.body)
            except WorkerDied:
                return None
            except ProtocolError:
                await lease.end(healthy=False)
                return None

    async def match_texts(self, pattern: str, texts: Sequence[str]) -> tuple[bool, ...]:
        """Which texts a search expression matches: a word in any spelling, or `/expression/flags` as in JavaScript, as
        the text is written or as people see it. Raises PatternError when the expression is empty, invalid or too slow
        for `search_seconds` (per some hundred thousand characters of text); nothing partial is ever returned."""
        from sandbox.host.matching import Looks, expression_of, holding, parts_of  # here: a search has no use for it

        expression = expression_of(pattern)
        if expression is None:
            return holding(pattern, texts)
        realm = Path(__file__).with_name("matching.js").read_text("utf-8")
        source = f"const [body, flags] = {json.dumps(expression)};{realm}"
        looks = Looks.of(texts)
        matches = [is_match for part in parts_of(looks.all) for is_match in await self._match(source, part)]
        return looks.either(matches)

    async def _match(self, source: str, texts: Sequence[str]) -> list[bool]:
        seconds = self.limits.search_seconds
        limits = replace(self.limits, trigger_seconds=seconds, max_context_chars=2**31)
        search = Search(limits, [source], Scene({"texts": texts}, datetime.now(UTC), 0), [0], console=True)
        await self._perform(search)
        (verdict,), said = search.verdicts(), "".join(search.console)
        match verdict:
            case Failed(kind="thrown", message=thrown):
                raise PatternError(thrown.removeprefix("Threw "))
            case Failed(kind="timeout" | "not_evaluated"):
                raise PatternError("the expression took longer than {seconds:g} s; try a simpler one", seconds)
            case Failed(kind="out_of_memory"):
                raise PatternError(
                    "the expression needed more than {heap_mb} MB; try a simpler one", self.limits.heap_mb
                )
            case Failed():
                raise PatternError("the expression was too much for the worker process; try a simpler one")
        if len(said) != len(texts) or set(said) - {"0", "1"}:
            raise PatternError("the expression could not be tried")
        return [one == "1" for one in said]

    async def _perform(self, search: Search) -> None:
        if not search.open:
            return
        async with self._pool.worker() as lease:
            await lease.ready()
            search.begin()
            step = False
            while search.open and search.seconds_left() > 0:
                try:
                    await lease.converse(search.request(step=step), search.take, search.seconds_left() + GRACE_SECONDS)
                except WorkerDied as death:
                    step = search.died(death.code, clean=death.clean)
                else:
                    if search.open:
                        await lease.change()
                if search.open:
                    began = time.monotonic()
                    try:
                        async with asyncio.timeout(search.wait_seconds):
                            await lease.ready()
                    except TimeoutError:
                        break
                    search.waited(time.monotonic() - began)
            search.end()
