"""What one tenant or window takes of another one's time: `python tests/bench/bench_fairness.py [PART OF A NAME]`.

Each row is a load that keeps within its limits. The calls of another one are measured alone, just before the load, and
meanwhile, so that the ratios come from one run; the bound is 3 times, at p99. The load costs the machine processor
time of its own: it runs at the lowest priority.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from random import Random
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))
from bench_http import Client, milliseconds, quantile
from http_server import HANDSHAKE, MODERN, Asker, give, said, serving
from stdio_process import command, running

CALLS = 200
PAUSE = 0.01
AT_ONCE = 16
BOUND = 3.0


def words(count: int) -> str:
    rng = Random(1)
    return " ".join(f"{rng.randrange(1 << 24):x}" for _ in range(count))


def messages(count: int) -> list[dict[str, str]]:
    return [{"role": "user", "content": words(13_500)} for _ in range(count)]


WIDE = {f"r{number}": 1.0 for number in range(200_000)}
LOADS: dict[str, tuple[str | None, str, dict[str, Any]]] = {
    "recall_turn, 4 MB of messages": (None, "recall_turn", {"messages": messages(38)}),
    "recall_turn, 1 MB of messages": (None, "recall_turn", {"messages": messages(10)}),
    "recall_turn, 1 MB, 2026-07-28": (MODERN, "recall_turn", {"messages": messages(10)}),
    "recall_turn, 1 MB, 2025-11-25": (HANDSHAKE, "recall_turn", {"messages": messages(10)}),
    "remember_turn, 90 KB": (None, "remember_turn", {"messages": messages(1)}),
    "200,000 names in roleWeights": (
        None,
        "add_short_term_memory",
        {**said("x"), "roleWeights": WIDE},
    ),
    "200,000 names in participants": (None, "recall_turn", {**said("x"), "participants": WIDE}),
    "200,000 unknown arguments": (None, "recall_turn", {**said("x"), **WIDE}),
    "200,000 names, 2026-07-28": (MODERN, "recall_turn", {**said("x"), "participants": WIDE}),
    "4,900 names in participants": (
        None,
        "recall_turn",
        {**said("x"), "participants": dict.fromkeys(list(WIDE)[:4900], "x" * 700)},
    ),
}


@contextmanager
def beside(work: Callable[..., None], *arguments: Any) -> Iterator[None]:
    """While another process does the work, again and again, with some connections at once."""
    process = multiprocessing.Process(target=_loaded, args=(work, *arguments))
    process.start()
    time.sleep(1.0)
    try:
        yield
    finally:
        process.terminate()
        process.join()


def _loaded(work: Callable[..., None], *arguments: Any) -> None:
    os.nice(19)
    threads = [threading.Thread(target=work, args=arguments, daemon=True) for _ in range(AT_ONCE)]
    for thread in threads:
        thread.start()
    threads[0].join()


def asks(url: str, era: str | None, tool: str, token: str, arguments: dict[str, Any]) -> None:
    client = Client(url, era, tool, token, **arguments)
    while True:
        try:
            client.ask()
        except (OSError, AssertionError):
            time.sleep(0.01)
        client.connect()


def times(ask: Callable[[], object]) -> list[float]:
    milliseconds_of_calls = []
    for _ in range(CALLS):
        milliseconds_of_calls.append(milliseconds(ask))
        time.sleep(PAUSE)
    return milliseconds_of_calls


def row(name: str, alone: list[float], meanwhile: list[float]) -> None:
    p50 = quantile(meanwhile, 50) / quantile(alone, 50)
    p99 = quantile(meanwhile, 99) / quantile(alone, 99)
    print(
        f"{name:52} alone p50 {quantile(alone, 50):6.1f} p99 {quantile(alone, 99):6.1f} ms   meanwhile "
        f"{quantile(meanwhile, 50):6.1f} {quantile(meanwhile, 99):6.1f} ms   {p50:5.2f} x {p99:6.2f} x"
        f"{'   ABOVE THE BOUND' * (p99 > BOUND)}",
        flush=True,
    )


def tenants(folder: Path, chosen: str) -> None:
    noisy, calm = (give(folder, name, "--tenant", name) for name in ("noisy", "calm"))
    with serving(folder, http__requests_per_minute="6000") as server:
        asker = Asker(server.url, None)
        for token in (noisy, calm):
            Asker(server.url, token).done("add_short_term_memory", **said("my cat is Miso"))

        def ask() -> None:
            client.connect()
            client.done()

        for name, load in LOADS.items():
            if chosen not in name:
                continue
            client = Client(server.url, None, "recall_turn", calm, **said("what does Miso eat?"))
            times(ask)
            alone = times(ask)
            healthy = times(lambda: asker.http.get("/healthz"))
            with beside(asks, server.url, load[0], load[1], noisy, load[2]):
                row(f"tenant: {name}", alone, times(ask))
                row("   /healthz", healthy, times(lambda: asker.http.get("/healthz")))
        if chosen in "silent connections":
            silent(server.url, server.port, calm)


def silent(url: str, port: int, token: str) -> None:
    client = Client(url, None, "recall_turn", token, **said("what does Miso eat?"))
    alone = times(client.done)
    connections = [socket.create_connection(("127.0.0.1", port)) for _ in range(1_000)]
    client.connect()
    row("tenant: 1,000 silent connections of nobody", alone, times(client.done))
    for connection in connections:
        connection.close()


def windows(folder: Path) -> None:
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("MEMORY_SERVER", "XDG_"))
    }
    run = folder / "run"
    run.mkdir(parents=True)
    run.chmod(0o700)
    environment |= {"HOME": str(folder), "XDG_RUNTIME_DIR": str(run)}
    event = {"hook_event_name": "UserPromptSubmit", "prompt": "What does Miso hate?"}
    sessions = count()

    def hook() -> None:
        """A session each: one session is given a line once."""
        process = subprocess.run(
            [sys.executable, "-m", "memory_server", "hook", "--data-dir", str(folder / "data")],
            input=json.dumps(event | {"session_id": f"s{next(sessions)}"}).encode(),
            capture_output=True,
            env=environment,
            check=True,
        )
        assert b"vacuum" in process.stdout, process

    start = command(folder / "data")
    with running(start, environment) as calm, running(start, environment) as noisy:
        calm.connect()
        noisy.connect()
        calm.call(
            "remember_turn",
            messages=[{"role": "user", "content": "My cat Miso hates the vacuum cleaner"}],
        )

        def ask() -> None:
            calm.call("recall_turn", messages=[{"role": "user", "content": "what does Miso eat?"}])

        times(ask)
        alone = times(ask)
        hooks = [milliseconds(hook) for _ in range(30)]
        stop = threading.Event()

        def load() -> None:
            while not stop.is_set():
                noisy.call("recall_turn", messages=messages(10))

        thread = threading.Thread(target=load)
        thread.start()
        try:
            row("window: recall_turn, 1 MB of messages", alone, times(ask))
            row("   hook of another window", hooks, [milliseconds(hook) for _ in range(30)])
        finally:
            stop.set()
            thread.join()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as root:
        tenants(Path(root) / "tenants", " ".join(sys.argv[1:]))
        if len(sys.argv) == 1 or "window" in sys.argv:
            windows(Path(root) / "windows")
