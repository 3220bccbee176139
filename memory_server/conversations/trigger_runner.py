"""The sandbox as the `TriggerRunner` of the managers: its errors become errors of this package."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import datetime
from typing import TYPE_CHECKING, Any

from memory_server.conversations.ports import Trial
from memory_server.kernel.errors import TriggersUnavailable
from memory_server.kernel.meter import Meter
from memory_server.kernel.text import Finding
from sandbox import CheckReport, Failed, PatternError, SandboxError, SandboxUnavailable, TriggerSandbox, Verdict
from sandbox.locale import _, clause, joined

if TYPE_CHECKING:
    from sandbox import TriggerRecord


class SandboxRunner:
    """Runs triggers and expressions in `sandbox`, which the caller opens and closes. See `ports.TriggerRunner`.

    `meter` counts verdicts by kind. A search waits for its turn of `turns`.
    """

    def __init__(
        self,
        sandbox: TriggerSandbox,
        meter: Meter | None = None,
        turns: AbstractAsyncContextManager[None] | None = None,
    ) -> None:
        self._sandbox = sandbox
        self._meter = meter or Meter()
        self._turns = turns or contextlib.nullcontext()

    async def evaluate(
        self, triggers: Sequence[str], context: Mapping[str, Any], *, now: datetime, seed: int
    ) -> Mapping[int, Verdict]:
        with sandbox_errors():
            async with self._turns:
                ran = await self._sandbox.judge(triggers, context, now=now, seed=seed)
        self._meter.count("triggers", "searches")
        for verdict in ran.values():
            kind = verdict.kind if isinstance(verdict, Failed) else type(verdict).__name__.lower()
            self._meter.count("triggers", kind)
        for name in ("quiet", "not_run"):
            self._meter.count("triggers", name, len(triggers) - len(ran))
        return ran

    async def check(
        self, source: str, context: Mapping[str, Any] | None = None, *, now: datetime, seed: int
    ) -> CheckReport:
        with sandbox_errors():
            async with self._turns:
                return await self._sandbox.check(source, context, now=now, seed=seed)

    async def try_out(self, source: str, context: Mapping[str, Any], *, now: datetime, seed: int) -> Trial:
        with sandbox_errors():
            async with self._turns:
                reading = await self._sandbox.read(source)
                report = await self._sandbox.run(source, context, now=now, seed=seed, copy=reading.copy)
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


_WALLS = {
    "parent": _("its process"),
    "files": _("the size of files"),
    "memory": _("its memory"),
    "privileges": _("privileges"),
    "landlock": _("the file system"),
    "seccomp": _("system calls"),
}
"""What each layer of protection shuts off, for people who do not know its name."""


async def examine_sandbox(sandbox: TriggerSandbox) -> list[Finding]:
    """Whether triggers run, and each layer that is missing, as `trigger-sandbox doctor` shows it."""
    try:
        layers = await sandbox.layers()
    except SandboxError as error:
        return [Finding("error", _("triggers"), _("they cannot run here: {reason}", error))]
    if missing := [one for one in layers if not one.holds]:
        return [
            Finding("warning", _("triggers"), _("they run, but without {name}: {reason}", one.name, one.detail))
            for one in missing
        ]
    walls = [_WALLS.get(one.name, one.name) for one in layers if not one.name.startswith("no ")]
    attempts = len(layers) - len(walls)
    return [
        Finding(
            "ok",
            _("triggers"),
            _(
                "they run in a sandbox that shuts off {walls}; all {attempts} attempts to get out were refused",
                joined(", ", walls),
                attempts,
            ),
        )
    ]


@contextlib.contextmanager
def sandbox_errors() -> Iterator[None]:
    """Raises TriggersUnavailable where the sandbox cannot work."""
    try:
        yield
    except PatternError:
        # The caller's mistake: the manager that has the expression says what was not done because of it.
        raise
    except SandboxUnavailable as error:
        raise TriggersUnavailable(
            "Triggers cannot run now: {reason}; `memory-server doctor` says why.", clause(str(error))
        ) from error
    except SandboxError as error:
        raise TriggersUnavailable("Triggers cannot run now: {reason}.", clause(str(error))) from error
