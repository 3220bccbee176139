"""Trigger workers that serve one test after the other.

A worker takes 0.3 s of processor time to start, and the tests open a thousand sandboxes. Here the workers that are idle
when a sandbox closes wait for the next sandbox with the same settings. Each search still gets an isolate of its own. A
worker that was stopped, that died, or in which something still runs, is not kept. Rooms that are about the processes
themselves start real ones; see `kept_workers` in conftest.py."""

from __future__ import annotations

import asyncio
import json
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest
from connected_process import ConnectedProcess, Program, close_pipes

from sandbox.host import process as host_process
from sandbox.host.pool import Pool
from sandbox.host.process import WorkerDied, WorkerProcess
from sandbox.protocol import Frame, Kind, encode

MOST_KEPT = 6
"""Workers of this test process that wait for a sandbox: each has some 60 MB."""
READY_SECONDS = 2.0
"""How long a worker may take to make a new isolate, on a machine that others use too."""


@dataclass(frozen=True, slots=True)
class KeptWorker:
    """A worker that waits for a sandbox. `settings`: those with which it was started; `hello`: the bytes with which it
    said that it is ready."""

    settings: str
    program: Program
    hello: bytes


_kept: list[KeptWorker] = []
"""Ordered from the longest waiting."""


def end_kept_workers() -> None:
    """Ends those that wait."""
    while _kept:
        _end(_kept.pop())


def _end(worker: KeptWorker) -> None:
    worker.program.kill()
    worker.program.wait()
    close_pipes(worker.program)


def _take(settings: str) -> KeptWorker | None:
    """One that waits and has these settings."""
    for worker in list(_kept):
        if worker.settings != settings:
            continue
        _kept.remove(worker)
        if worker.program.poll() is None:
            return worker
        _end(worker)
    return None


def _may_keep() -> bool:
    """Whether workers that start here may outlive their sandbox: they end with the thread that starts them."""
    return threading.current_thread() is threading.main_thread()


async def _run_program(
    settings: Mapping[str, Any], timezone: str | None
) -> asyncio.subprocess.Process | ConnectedProcess:
    """In place of the function of this name: a worker that waits, or a new one that may be kept."""
    if not _may_keep():
        return await _start_program(settings, timezone)
    environment = host_process.environment(timezone)
    code = host_process._command({})
    own_settings = {name: value for name, value in settings.items() if name != "path"}
    key = json.dumps([code, environment.get("TZ"), own_settings])
    waiting_worker = _take(key)
    if waiting_worker is not None:
        process = await ConnectedProcess.connected(waiting_worker.program, key)
        process.stdout.feed_data(waiting_worker.hello)
        return process
    program = subprocess.Popen(  # noqa: ASYNC220 - asyncio's own ends with the event loop
        host_process._command(settings),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=environment,
    )
    return await ConnectedProcess.connected(program, key)


async def _aclose(pool: Pool) -> None:
    """In place of `Pool.aclose`: the idle workers are kept."""
    if _may_keep() and not pool.closed:
        if pool._starting and not pool._busy:  # their start is paid for
            await asyncio.wait(pool._starting)
            await asyncio.sleep(0)
        pool._closed = True
        idle_workers = list(pool._idle)
        pool._idle.clear()
        for worker in idle_workers:
            if await _is_prepared(worker):
                await _keep(worker)
            else:
                await worker.kill()
    await _close_pool(pool)


async def _is_prepared(worker: WorkerProcess) -> bool:
    """Whether the worker waits for a request, and nothing of an earlier one still runs in it."""
    try:
        async with asyncio.timeout(READY_SECONDS):
            await worker.ready()
    except (TimeoutError, WorkerDied):
        return False
    return worker.alive and worker._clean


async def _keep(worker: WorkerProcess) -> None:
    process = worker._process
    if not isinstance(process, ConnectedProcess):
        await worker.kill()
        return
    await process.disconnect()
    hello = encode(Frame(Kind.HELLO, worker.hello))
    _kept.append(KeptWorker(process.settings, process.program, hello))
    if len(_kept) > MOST_KEPT:
        _end(_kept.pop(0))


_start_program = host_process._run_program
_close_pool = Pool.aclose


@contextmanager
def own_workers() -> Iterator[None]:
    """While this holds, sandboxes start and end their workers themselves."""
    with _replaced(_start_program, _close_pool):
        yield


@contextmanager
def keeping_workers() -> Iterator[None]:
    """While this holds, sandboxes take workers that wait, and leave theirs."""
    with _replaced(_run_program, _aclose):
        yield


@contextmanager
def _replaced(run_program: Callable[..., Any], close_pool: Callable[..., Any]) -> Iterator[None]:
    """While this holds, sandboxes start and end workers by these functions."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(host_process, "_run_program", run_program)
        patch.setattr(Pool, "aclose", close_pool)
        yield
