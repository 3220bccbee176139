"""What one process for many windows saves, beside processes of their own, as ratios within one run. `make bench` runs
this.

    python tests/bench/bench_shared.py [--runs 15] [--windows 5]

Both ways are asked in turn, so that a machine that others use slows both. Linux only: memory is read in /proc.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from itertools import count
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parent))
from bench_hook import PROMPT, fill
from stdio_process import Client, running

MEMORIES = 1_000
TRIGGERS = 50
SESSIONS = count()
"""Each prompt has a session of its own, because a session gets the text of a trigger once."""
HELLO = [{"role": "user", "content": PROMPT}]
WAYS = {"own": "false", "shared": "true"}


def milliseconds(command: list[str], environment: dict[str, str]) -> float:
    event = {"hook_event_name": "UserPromptSubmit", "session_id": f"s{next(SESSIONS)}"}
    data = json.dumps({**event, "prompt": PROMPT}).encode()
    began = time.perf_counter()
    process = subprocess.run(command, input=data, capture_output=True, check=True, env=environment)
    taken = (time.perf_counter() - began) * 1000
    if command[-1] == "hook":
        assert "第 49 件事".encode() in process.stdout, process
    return taken


def started(command: list[str], environment: dict[str, str]) -> float:
    """Milliseconds from the start of a window to the answer of `initialize`."""
    began = time.perf_counter()
    with running(command, environment) as client:
        client.connect()
        return (time.perf_counter() - began) * 1000


def call(client: Client) -> float:
    began = time.perf_counter()
    client.call("recall_turn", messages=HELLO)
    return (time.perf_counter() - began) * 1000


def resident(pids: set[int]) -> tuple[float, float]:
    """MiB resident and private of these processes."""
    sums = {"Rss:": 0, "Private_Clean:": 0, "Private_Dirty:": 0}
    for pid in pids:
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii").splitlines():
            name, _, rest = line.partition(" ")
            if name in sums:
                sums[name] += int(rest.split()[0])
    return sums["Rss:"] / 1024, (sums["Private_Clean:"] + sums["Private_Dirty:"]) / 1024


def of_this_run(mark: str) -> set[int]:
    """The processes that have `mark` in their environment."""
    pids = set()
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal() and int(folder.name) != os.getpid():
            try:
                if mark.encode() in (folder / "environ").read_bytes():
                    pids.add(int(folder.name))
            except OSError:
                continue
    return pids


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=15)
    parser.add_argument("--windows", type=int, default=5)
    flags = parser.parse_args()
    with tempfile.TemporaryDirectory() as home:
        data = Path(home, "data")
        asyncio.run(fill(data, MEMORIES, TRIGGERS))
        common = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith("MEMORY_SERVER_")
        }
        ways = {
            name: common
            | {
                "XDG_RUNTIME_DIR": home,
                "MEMORY_SERVER_DAEMON__ENABLED": enabled,
                "BENCH_WAY": f"{name} {home}",
            }
            for name, enabled in WAYS.items()
        }
        server = [sys.executable, "-m", "memory_server", "--data-dir", str(data)]
        figures: dict[str, list[float]] = {"python -c pass": []}
        memory = {}
        with ExitStack() as stack:
            opened: dict[str, list[Client]] = {}
            for name, way in ways.items():
                opened[name] = [
                    stack.enter_context(running(server, way)).connect()
                    for _ in range(flags.windows)
                ]
            for windows in opened.values():
                for window in windows:
                    call(window)
            time.sleep(3)
            for name in ways:
                memory[name] = resident(of_this_run(f"BENCH_WAY={name} {home}"))
            for window in opened["own"][1:]:  # so that both ways have one process at work
                window.process.kill()
            for _ in range(flags.runs):
                figures["python -c pass"].append(
                    milliseconds([sys.executable, "-c", "pass"], common)
                )
                for name, way in ways.items():
                    figures.setdefault(f"hook, {name}", []).append(
                        milliseconds([*server, "hook"], way)
                    )
                    figures.setdefault(f"start to the answer of initialize, {name}", []).append(
                        started(server, way)
                    )
            for _ in range(flags.runs * 10):
                for name, windows in opened.items():
                    figures.setdefault(f"recall_turn, {name}", []).append(call(windows[0]))
            subprocess.run(
                [*server, "daemon", "stop"], env=ways["shared"], check=True, capture_output=True
            )
    base = statistics.median(figures["python -c pass"])
    print(f"{'':44} {'p50 ms':>8} {'p95 ms':>8} {'x pass':>7}")
    for name, taken in figures.items():
        middle = statistics.median(taken)
        late = sorted(taken)[min(len(taken) - 1, round(0.95 * len(taken)))]
        print(f"{name:44} {middle:8.1f} {late:8.1f} {middle / base:7.1f}")
    calls = [statistics.median(figures[f"recall_turn, {name}"]) for name in WAYS]
    print(f"a call, shared beside own: {calls[1] / calls[0]:.2f}")
    for name, (rss, private) in memory.items():
        print(
            f"{flags.windows} windows, {name}: {rss:,.0f} MiB resident, {private:,.0f} MiB private"
        )
    print(f"resident, shared beside own: {memory['shared'][0] / memory['own'][0]:.2f}")


if __name__ == "__main__":
    main()
