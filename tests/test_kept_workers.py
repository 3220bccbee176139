"""A trigger worker serves one test after the other, unless something happened to it."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from datetime import UTC, datetime

import pytest
from kept_workers import end_kept_workers

from sandbox import Fired, SandboxLimits, TriggerSandbox

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="workers are kept on Linux only")
NOW = datetime(2026, 1, 1, tzinfo=UTC)
LIMITS = SandboxLimits(heap_mb=48)
"""Limits that no other test uses."""


def ask(source: str, limits: SandboxLimits = LIMITS, *, ends: bool = False) -> int:
    """Run a trigger in a sandbox of its own; the id of its worker. `ends`: kill the worker before the sandbox closes."""

    async def once() -> int:
        async with TriggerSandbox(limits, workers=1, spare=False) as sandbox:
            report = await sandbox.run(source, {"messages": []}, now=NOW, seed=0)
            (pid,) = sandbox._pools.pids
            assert isinstance(report.verdict, Fired)
            if ends:
                os.kill(pid, signal.SIGKILL)
            return pid

    return asyncio.run(once())


def worker_that_stayed() -> int:
    """The id of a worker that two sandboxes had. One whose last isolate still closes is not kept."""
    last = 0
    for _ in range(20):
        worker = ask("var left = 1; left")
        if worker == last:
            return worker
        last = worker
    raise AssertionError("no worker is kept")


def test_the_next_sandbox_gets_the_worker_and_nothing_of_the_last_search() -> None:
    worker = worker_that_stayed()
    ask("typeof left === 'undefined' ? 1 : nope")
    end_kept_workers()
    assert ask("1") != worker


def test_other_settings_get_another_worker() -> None:
    worker = worker_that_stayed()
    assert ask("1", SandboxLimits(heap_mb=49)) != worker


def test_a_worker_that_was_killed_is_not_kept() -> None:
    worker = ask("1", ends=True)
    assert ask("1") != worker
