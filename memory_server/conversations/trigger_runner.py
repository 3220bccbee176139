"""The sandbox as the `TriggerRunner` of the managers: its errors become errors of this package."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from copy import copy
from datetime import datetime
from typing import TYPE_CHECKING, Any, get_args

from languages import _, clause, joined
from memory_server.conversations.ports import Trial
from memory_server.kernel.errors import TriggersUnavailable
from memory_server.kernel.meter import Meter
from memory_server.kernel.text import Finding
from sandbox import (
    CheckReport,
    Failed,
    FailureKind,
    PatternError,
    SandboxError,
    SandboxUnavailable,
    TriggerSandbox,
    Verdict,
)

if TYPE_CHECKING:
    from sandbox import ProtectionLayer, TriggerRecord


class SandboxRunner:
    """Runs triggers and expressions in `sandbox`, which the caller opens and closes. See `ports.TriggerRunner`.

    `meter` counts verdicts by kind. A search waits for its turn of `turns`. `timezone` is the time zone of its
    searches, if it differs from the sandbox's own.
    """

    def __init__(
        self,
        sandbox: TriggerSandbox,
        meter: Meter | None = None,
        turns: AbstractAsyncContextManager[None] | None = None,
        timezone: str | None = None,
    ) -> None:
        self._sandbox = sandbox
        self._timezone = timezone
        self._meter = meter or Meter()
        self._meter.expect(
            "triggers", "searches", "fired", "quiet", "not_run", "run_us", *get_args(FailureKind)
        )
        self._turns = turns or contextlib.nullcontext()

    def in_zone(self, timezone: str) -> SandboxRunner:
        view = copy(self)
        view._timezone = timezone
        return view

    def gauge_workers(self) -> None:
        """Let the meter show the worker processes, which all tenants share."""
        self._meter.gauge("workers", "running", lambda: len(self._sandbox.pids), of_all=True)
        self._meter.gauge("workers", "started", lambda: self._sandbox.workers_started, of_all=True)
        self._meter.gauge(
            "workers", "replaced", lambda: self._sandbox.workers_replaced, of_all=True
        )

    async def evaluate(
        self,
        triggers: Sequence[str],
        context: Mapping[str, Any],
        *,
        now: datetime,
        seed: int,
        last_fired: Mapping[int, Mapping[str, int]] | None = None,
    ) -> Mapping[int, Verdict]:
        with sandbox_errors():
            async with self._turns:
                verdicts = await self._sandbox.judge(
                    triggers,
                    context,
                    now=now,
                    seed=seed,
                    last_fired=last_fired or {},
                    timezone=self._timezone,
                )

        self._meter.count("triggers", "searches")
        for kind, count in Counter(map(_kind_of, verdicts.values())).items():
            self._meter.count("triggers", kind, count)
        run_us = sum(verdict.elapsed_us for verdict in verdicts.values())
        self._meter.count("triggers", "run_us", run_us)

        not_run_count = len(triggers) - len(verdicts)
        self._meter.count("triggers", "quiet", not_run_count)
        self._meter.count("triggers", "not_run", not_run_count)
        return verdicts

    async def check(
        self, source: str, context: Mapping[str, Any] | None = None, *, now: datetime, seed: int
    ) -> CheckReport:
        with sandbox_errors():
            async with self._turns:
                return await self._sandbox.check(source, context, now=now, seed=seed)

    async def check_all(
        self, sources: Sequence[str], *, now: datetime, seed: int
    ) -> Sequence[CheckReport]:
        with sandbox_errors():
            async with self._turns:
                return await self._sandbox.check_all(sources, now=now, seed=seed)

    async def try_out(
        self, source: str, context: Mapping[str, Any], *, now: datetime, seed: int
    ) -> Trial:
        with sandbox_errors():
            async with self._turns:
                reading = await self._sandbox.read(source)
                report = await self._sandbox.run(
                    source, context, now=now, seed=seed, copy=reading.copy, timezone=self._timezone
                )
                if context["messages"] or isinstance(report.verdict, Failed):
                    check = await self._sandbox.check_after(source, report.verdict, now=now)
                else:  # on the messages of a sample
                    check = await self._sandbox.check(source, now=now, seed=seed)
        return Trial(report, reading.operands, check)

    async def words_of(self, sources: Sequence[str]) -> Sequence[Sequence[str]]:
        with sandbox_errors():
            async with self._turns:
                return await self._sandbox.words_of(sources)

    def record_of(self, source: str) -> TriggerRecord:
        return self._sandbox.record_of(source)

    async def match_texts(self, pattern: str, texts: Sequence[str]) -> tuple[bool, ...]:
        with sandbox_errors():
            async with self._turns:
                return await self._sandbox.match_texts(pattern, texts)


def _kind_of(verdict: Verdict) -> str:
    """Return the name of the counter for such verdicts."""
    if isinstance(verdict, Failed):
        return verdict.kind
    return type(verdict).__name__.lower()


async def examine_sandbox(sandbox: TriggerSandbox) -> list[Finding]:
    """Examine whether triggers run, and find each missing layer, as `trigger-sandbox doctor` shows it."""
    try:
        layers = await sandbox.layers()
    except SandboxError as error:
        return [Finding("error", _("triggers"), _("they cannot run here: {reason}", error))]
    missing = [layer for layer in layers if not layer.holds]
    if missing:
        return [Finding("warning", _("triggers"), _without(layer)) for layer in missing]
    walls = [layer.title for layer in layers if not layer.is_attempt]
    attempts = len(layers) - len(walls)
    active = _(
        "sandbox active: {walls} are isolated, all {attempts} escape tests were blocked",
        joined(", ", walls),
        attempts,
    )
    return [Finding("ok", _("triggers"), active)]


def _without(layer: ProtectionLayer) -> str:
    if layer.is_attempt:
        return _(
            "the sandbox runs, but an escape test was not blocked ({name}): {reason}",
            layer.title,
            layer.detail,
        )
    return _(
        "the sandbox runs, but without one layer ({name}): {reason}", layer.title, layer.detail
    )


@contextlib.contextmanager
def sandbox_errors() -> Iterator[None]:
    """Turn an error of the sandbox into TriggersUnavailable; a PatternError passes through."""
    try:
        yield
    except PatternError:
        # The caller's mistake: the manager that has the expression says what was not done because of it.
        raise
    except SandboxUnavailable as error:
        raise TriggersUnavailable(
            "Triggers cannot run now: {reason}; `memory-server doctor` says why.",
            clause(str(error)),
        ) from error
    except SandboxError as error:
        raise TriggersUnavailable(
            "Triggers cannot run now: {reason}.", clause(str(error))
        ) from error
