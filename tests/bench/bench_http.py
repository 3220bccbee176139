"""Figures of `serve --http`: `python tests/bench/bench_http.py`. Ratios count, because the machine is shared."""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil

sys.path.insert(0, str(Path(__file__).parents[1]))
from http_server import HANDSHAKE, MODERN, TOKEN, Asker, Server, said, serving

from memory_server.storage.token_file import TokenFile

OFTEN = {"http__requests_per_minute": "60000000", "http__concurrent": "64"}
EXAMPLE = """
import sys, uvicorn, socket
from mcp.server.mcpserver import MCPServer
server = MCPServer("example")
@server.tool()
def add(a: int, b: int) -> int:
    return a + b
app = server.streamable_http_app(stateless_http=True, json_response=True)
uvicorn.run(app, port=int(sys.argv[1]), log_level="error")
"""


def p50(asks: int, ask: Callable[[], object], pause: float = 0.0) -> float:
    """Milliseconds."""
    times = []
    for _ in range(asks):
        began = time.perf_counter()
        ask()
        times.append((time.perf_counter() - began) * 1000)
        time.sleep(pause)
    return statistics.median(times)


def rate(server: Server, clients: int, each: int, era: str | None) -> float:
    askers = [Asker(server.url) for _ in range(clients)]

    def work(asker: Asker) -> None:
        for _ in range(each):
            if era is None:
                asker.done("get_memory_stats")
            else:
                asker.tool(era, "get_memory_stats")

    began = time.perf_counter()
    with ThreadPoolExecutor(clients) as threads:
        list(threads.map(work, askers))
    return clients * each / (time.perf_counter() - began)


def calls(folder: Path) -> None:
    with serving(folder, "--toolsets=all", http__token=TOKEN, **OFTEN) as server:
        asker = Asker(server.url)
        asker.done("remember_turn", **said("hello"))
        for name, ask in {
            "REST": lambda: asker.call("get_memory_stats"),
            MODERN: lambda: asker.tool(MODERN, "get_memory_stats"),
            HANDSHAKE: lambda: asker.tool(HANDSHAKE, "get_memory_stats"),
        }.items():
            p50(30, ask)
            print(f"a call over {name}: p50 {p50(300, ask):.2f} ms")
        for name, era in {"REST": None, MODERN: MODERN}.items():
            print(f"8 clients over {name}: {rate(server, 8, 60, era):.0f} calls/s")


def example() -> None:
    port = "18461"
    process = subprocess.Popen([sys.executable, "-c", EXAMPLE, port])
    try:
        time.sleep(4)
        asker = Asker(f"http://127.0.0.1:{port}")
        p50(30, lambda: asker.tool(MODERN, "add", a=1, b=2))
        middle = p50(300, lambda: asker.tool(MODERN, "add", a=1, b=2))
        print(f"the SDK's example over {MODERN}: p50 {middle:.2f} ms")
    finally:
        process.kill()
        process.wait()


def tenants(folder: Path, count: int) -> None:
    file = TokenFile(folder / ".memory-server" / "tokens.jsonl")
    given = [file.add(f"t{number}", f"t{number}", ["read", "write"], None) for number in range(count)]
    with serving(folder, **OFTEN) as server:
        process = psutil.Process(server.process.pid)
        before = process.memory_info().rss
        asker = Asker(server.url)
        times = []
        for token in given:
            asker.http.headers["authorization"] = f"Bearer {token}"
            began = time.perf_counter()
            asker.done("remember_turn", **said("hello"))
            times.append((time.perf_counter() - began) * 1000)
        grown = (process.memory_info().rss - before) / 1e6
        print(f"{count} tenants touched once: +{grown:.0f} MB, p50 of the first call {statistics.median(times):.1f} ms")


def flood(folder: Path) -> None:
    file = TokenFile(folder / ".memory-server" / "tokens.jsonl")
    noisy, calm = (file.add(name, name, ["read", "write"], None) for name in ("noisy", "calm"))
    with serving(folder) as server:
        asker = Asker(server.url, calm)
        alone = p50(40, lambda: asker.call("get_memory_stats"), 0.1)
        stop = time.monotonic() + 8

        def work(_: int) -> None:
            mine = Asker(server.url, noisy)
            while time.monotonic() < stop:
                mine.call("get_memory_stats")

        with ThreadPoolExecutor(8) as threads:
            done = threads.map(work, range(8))
            time.sleep(0.5)
            beside = p50(40, lambda: asker.call("get_memory_stats"), 0.1)
            list(done)
        print(f"beside a flooding tenant: p50 {beside:.2f} ms, alone {alone:.2f} ms")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        calls(Path(place) / "calls")
        example()
        flood(Path(place) / "flood")
        tenants(Path(place) / "tenants", int(sys.argv[1]) if len(sys.argv) > 1 else 1000)
