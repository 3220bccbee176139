"""Worker processes end with their owner, whatever happens to it, and touch nothing of it."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest
from attacks.driver import Driver, outcome

from sandbox import SandboxLimits, SandboxUnavailable
from sandbox.host import process as host_process
from sandbox.host.process import WorkerProcess, resident_mb
from sandbox.protocol import Frame, Kind, encode

ROOT = Path(__file__).resolve().parents[2]
OWNER = """
import asyncio, json, sys
from datetime import datetime, timezone
from sandbox import SandboxLimits, TriggerSandbox

async def main(mode):
    sandbox = TriggerSandbox(SandboxLimits(trigger_seconds=60, search_seconds=60), workers=1)
    await sandbox.warm()
    work = asyncio.ensure_future(sandbox.evaluate([STUCK], {"messages": []}, now=datetime.now(timezone.utc), seed=1))
    await asyncio.wait({work}, timeout=0.2)
    print(json.dumps(sandbox.pids), flush=True)
    sys.stdin.readline()  # Nothing ends before the test has seen it.
    if mode == "close":
        await sandbox.aclose()
        await asyncio.wait({work})
        work.exception()
    elif mode == "wait":
        await work
    elif mode == "crash":
        raise SystemExit(3)

STUCK = {
    "loop": "for (;;);",
    "deaf": "new Array(2 ** 32 - 1).copyWithin(1, 0)",
    "idle": "1",
}[sys.argv[2]]
asyncio.run(main(sys.argv[1]))
"""


def own(mode: str, stuck: str) -> tuple[subprocess.Popen[str], list[psutil.Process]]:
    """Starts a program that owns workers; gives it and its workers."""
    owner = subprocess.Popen(
        [sys.executable, "-c", OWNER, mode, stuck],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT), "SECRET_OF_THE_OWNER": "42"},
    )
    assert owner.stdin is not None
    assert owner.stdout is not None
    workers = [psutil.Process(pid) for pid in json.loads(owner.stdout.readline())]
    owner.stdin.write("\n")
    owner.stdin.flush()
    return owner, workers


def finish(owner: subprocess.Popen[str]) -> None:
    for pipe in (owner.stdin, owner.stdout):
        if pipe is not None:
            pipe.close()
    owner.wait(20)


@pytest.mark.parametrize("stuck", ["idle", "loop", "deaf"])
def test_no_worker_outlives_a_killed_owner(stuck: str) -> None:
    owner, workers = own("wait", stuck)
    assert workers
    owner.kill()
    _, alive = psutil.wait_procs(workers, timeout=60)
    finish(owner)
    assert alive == []


@pytest.mark.parametrize("mode", ["close", "crash"])
@pytest.mark.parametrize("stuck", ["loop", "deaf"])
def test_an_owner_with_a_stuck_worker_ends_at_once(mode: str, stuck: str) -> None:
    owner, workers = own(mode, stuck)
    code = owner.wait(60)
    _, alive = psutil.wait_procs(workers, timeout=60)
    finish(owner)
    assert (code, alive) == ({"close": 0, "crash": 3}[mode], [])


def test_a_worker_knows_nothing_of_its_owner() -> None:
    owner, workers = own("wait", "loop")
    try:
        for worker in workers:
            assert "SECRET_OF_THE_OWNER" not in worker.environ()
            assert "PYTHONPATH" not in worker.environ()
            assert len(worker.open_files()) == 0
    finally:
        owner.kill()
        finish(owner)


def test_nothing_is_written_to_the_owners_output() -> None:
    code = OWNER.replace('"idle": "1"', "\"idle\": \"'x'.repeat(2**29-25).split('')\"")
    owner = subprocess.run(
        [sys.executable, "-c", code, "wait", "idle"],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        timeout=30,
        check=True,
    )
    assert len(owner.stdout.splitlines()) == 1
    assert owner.stderr == ""


@pytest.mark.skipif(
    not hasattr(signal, "SIGINT") or sys.platform == "win32", reason="POSIX signals"
)
def test_ctrl_c_is_the_owners_to_handle(driver: Driver) -> None:
    driver.run(driver.sandbox.warm())
    for pid in driver.sandbox.pids:
        os.kill(pid, signal.SIGINT)
    assert outcome(driver.evaluate("1")[0]) == "fired"


def test_every_layer_that_holds_was_tried(driver: Driver) -> None:
    layers = driver.run(driver.sandbox.describe())["layers"]
    assert {"parent", "files", "memory", "privileges", "landlock", "seccomp"} <= set(layers)
    tried = {name for name in layers if name.startswith("no ")}
    assert {
        "no open",
        "no write",
        "no socket",
        "no connect",
        "no exec",
        "no kill",
        "no list a folder",
    } <= tried
    assert ("no limits of the parent" in tried) == (sys.platform == "linux")
    if layers["seccomp"]["holds"] and layers["landlock"]["holds"]:
        assert all(layers[name]["holds"] for name in tried), layers


HARM = """
import json, os, resource, sys
sys.path[:0] = json.loads(sys.argv[2])
from sandbox.worker import hardening
layers = hardening.give_up(data_mb=192, parent=os.getppid())
refused = []
for which in (resource.RLIMIT_NOFILE, resource.RLIMIT_CPU):
    try:
        resource.prlimit(int(sys.argv[1]), which, (0, 0))
    except PermissionError:
        refused.append(which)
try:
    resource.setrlimit(resource.RLIMIT_CPU, (9, 9))
except (PermissionError, ValueError):
    refused.append("its own")
print(layers["seccomp"]["holds"], len(refused), resource.getrlimit(resource.RLIMIT_CORE)[0])
"""


@pytest.mark.skipif(sys.platform != "linux", reason="system calls of Linux")
def test_code_in_the_worker_cannot_change_the_limits_of_another_process() -> None:
    victim = subprocess.Popen(
        [sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE
    )
    try:
        arguments = [str(victim.pid), json.dumps([str(ROOT), *(part for part in sys.path if part)])]
        harm = [sys.executable, "-I", "-c", HARM, *arguments]
        attacker = subprocess.run(harm, capture_output=True, text=True, timeout=30, check=True)
        holds, refused, core = attacker.stdout.split()
        if holds != "True":
            pytest.skip("seccomp is not to be had here")
        assert (refused, core) == ("3", "0")
        assert victim.poll() is None
    finally:
        victim.communicate(b"")
    assert victim.returncode == 0


def test_a_missing_layer_is_told_and_can_be_demanded() -> None:
    without = Driver(SandboxLimits(), workers=1, without_layers=["seccomp"])
    try:
        layers = without.run(without.sandbox.describe())["layers"]
        assert not layers["seccomp"]["holds"]
        assert not layers["no socket"]["holds"], "the self-test tells the truth"
        assert outcome(without.evaluate("1")[0]) == "fired"
    finally:
        without.close()
    strict = Driver(SandboxLimits(), workers=1, without_layers=["seccomp"], require_all_layers=True)
    try:
        with pytest.raises(
            SandboxUnavailable, match="layer of protection is missing here: seccomp"
        ):
            strict.evaluate("1")
    finally:
        strict.close()


def test_the_output_of_a_worker_that_cannot_start_is_read_to_its_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def left_output() -> asyncio.StreamReader:
        output = asyncio.StreamReader()
        output.feed_data(encode(Frame(Kind.REFUSAL, {"message": "no layer"})) + b"rest")
        asyncio.get_running_loop().call_later(0.05, output.feed_eof)

        async def ended_program(*_: object) -> object:
            return SimpleNamespace(stdin=None, stdout=output, returncode=1, wait=ended)

        async def ended() -> int:
            return 1

        monkeypatch.setattr(host_process, "_run_program", ended_program)
        with pytest.raises(SandboxUnavailable, match="no layer"):
            await WorkerProcess.start(SandboxLimits(), None)
        return output

    assert asyncio.run(left_output()).at_eof()


PORTABLE = ["parent", "files", "memory", "privileges", "landlock", "seccomp"]


def test_without_any_layer_of_the_system_the_portable_rest_holds() -> None:
    limits = SandboxLimits(trigger_seconds=0.5, search_seconds=30.0)
    bare = Driver(limits, workers=1, without_layers=PORTABLE)
    try:
        endless = "for (;;);"
        growing = "const a = []; for (;;) a.push({})"
        outcomes = [outcome(verdict) for verdict in bare.evaluate("1", endless, growing, "0")]
        assert outcomes[:2] == ["fired", "timeout"]
        assert outcomes[2] in {"out_of_memory", "timeout"}
        assert outcomes[3] == "quiet"
        hungry = "const a = []; for (let i = 0; i < 3000; i++) a.push((1n << 8000000n) + BigInt(i)); a.length"
        outcomes = [outcome(verdict) for verdict in bare.evaluate("1", hungry, "0")]
        assert outcomes[0] == "fired"
        assert outcomes[1] in {"killed", "out_of_memory", "timeout"}
        assert outcomes[2] == "quiet"
    finally:
        bare.close()


def test_the_memory_of_a_process_can_be_read() -> None:
    assert 5 < resident_mb(os.getpid()) < 5_000
    ended_process = subprocess.Popen(["true"])
    ended_process.wait()
    assert resident_mb(ended_process.pid) == 0.0


def is_worker_replaced(driver: Driver, trigger: str) -> bool:
    """Whether the worker of a search ends itself afterwards, and is missed before the next search."""
    driver.evaluate(trigger)

    async def missed() -> bool:
        over_at = time.monotonic() + 60
        while driver.sandbox.workers_replaced == 0 and time.monotonic() < over_at:  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0.01)
        return driver.sandbox.workers_replaced == 1 and all(
            map(psutil.pid_exists, driver.sandbox.pids)
        )

    return driver.run(missed())


def test_a_worker_with_a_function_that_does_not_stop_is_replaced_when_it_has_nothing_to_do() -> (
    None
):
    driver = Driver(SandboxLimits(trigger_seconds=0.2), workers=1)
    try:
        assert is_worker_replaced(driver, "new Array(2 ** 32 - 1).copyWithin(1, 0)")
    finally:
        driver.close()


@pytest.mark.skipif(
    sys.platform != "linux", reason="only there the memory of a process has a bound"
)
def test_a_worker_whose_libraries_keep_much_memory_is_replaced() -> None:
    formats = "const all = []; while (all.length < 400) all.push(new Intl.DateTimeFormat('zh-u-ca-chinese', FULL)); true"
    full = "{ dateStyle: 'full', timeStyle: 'full' }"
    driver = Driver(SandboxLimits(trigger_seconds=20, search_seconds=20, data_mb=140), workers=1)
    try:
        assert is_worker_replaced(driver, formats.replace("FULL", full))
    finally:
        driver.close()


KEPT = """
import asyncio, json, os, sys, time
from sandbox.worker.engine import Deadlines, Isolate, initialise

async def main(sources):
    initialise(32)
    for source in sources:
        isolate = Isolate(32)
        await isolate.load({"triggers": [source], **json.loads(sys.argv[1])})
        isolate._racer.low_memory_notification()
        before = isolate.heap_bytes()
        outcome = await isolate.run(1, Deadlines(20, time.monotonic() + 20))
        isolate._racer.low_memory_notification()
        print(outcome.ending, isolate.heap_bytes() - before, flush=True)
    os._exit(0)

asyncio.run(main(json.load(sys.stdin)))
"""
SCENE = {
    "context": json.dumps({"messages": [{"role": "user", "content": "今天 ſ kk"}]}),
    "now": 0,
    "seed": 1,
}


@pytest.mark.full
def test_what_a_trigger_leaves_to_the_next_ones_is_bounded_in_bytes() -> None:
    sources = [
        "const k = []; for (let i = 0; i < 8e3; i++) k.push('k' + i.toString(36)); match_keys(context.messages, k)",
        "const k = []; for (let i = 0; i < 8e3; i++) k.push('ſ' + i.toString(36)); match_keys(context.messages, k)",
        "for (let i = 0; i < 40; i++) match_keys(context.messages, ['k'.repeat(3e4) + i])",
        "for (let i = 0; i < 60; i++) match_keys([{ role: 'user', content: '生'.repeat(1e5) + i }], ['z'])",
        "for (let i = 0; i < 60; i++) match_keys_all([{ role: 'user', content: '生'.repeat(1e5) + i }], ['z'])",
        "for (let i = 0; i < 30; i++) Symbol.for('x'.repeat(5e5) + i)",
        "/x/.test('y'.repeat(1.5e7) + 'x')",
        "'y'.repeat(1.5e7).replace(/z/, '')",
        "for (let i = 0; i < 20; i++) eval('1;/*' + 'x'.repeat(5e5) + i + '*/')",
    ]
    process = subprocess.run(
        [sys.executable, "-c", KEPT, json.dumps(SCENE)],
        input=json.dumps(sources),
        capture_output=True,
        text=True,
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        timeout=60,
        check=True,
    )
    lines = process.stdout.splitlines()
    assert len(lines) == len(sources)
    for source, line in zip(sources, lines, strict=True):
        ending, kept_bytes = line.split()
        assert ending == "finished", source
        assert int(kept_bytes) <= 4_000_000, source


def test_a_worker_is_small_while_idle() -> None:
    # Not the worker that other tests share: what they run may leave it larger.
    driver = Driver(SandboxLimits(), workers=1)
    try:
        driver.evaluate("1")
        driver.run(driver.sandbox.warm())
        sizes_mb = list(map(resident_mb, driver.sandbox.pids))
    finally:
        driver.close()
    assert sizes_mb
    assert max(sizes_mb) < 120


def test_importing_the_package_starts_nothing_and_loads_nothing_heavy() -> None:
    heavy = "('asyncio', 'py_mini_racer', 'tree_sitter', 'psutil')"
    code = f"import sandbox, sys; print([m for m in {heavy} if m in sys.modules])"
    process = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=True,
        timeout=30,
    )
    assert process.stdout.strip() == "[]"
