"""What our stdio runner costs, beside the SDK's own, as ratios within one run. `make bench` runs this.

    python tests/bench/bench_stdio.py [--calls 500] [--rounds 5]

Each round starts both servers anew and asks them in turn, so that a machine that others use slows both. Prints figures;
fails only when something acknowledged was lost.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
from stdio_process import Client, as_line, command, running, tool

ECHO_SDK = """
from mcp.server.mcpserver import MCPServer
server = MCPServer("empty")
@server.tool()
def echo(text: str) -> str:
    return text
server.run("stdio")
"""
ECHO_OURS = """
import asyncio
from mcp.server.mcpserver import MCPServer
from memory_server.serving.stdio.runner import serve
server = MCPServer("empty")
@server.tool()
def echo(text: str) -> str:
    return text
async def settle(): pass
asyncio.run(serve(server._lowlevel_server, settle))
"""
HELLO = [{"role": "user", "content": "你好，今天和朋友去吃披萨"}]
IN_FLIGHT = 32


@contextmanager
def connected(*arguments: str) -> Iterator[Client]:
    with running(arguments) as client:
        yield client.connect()


def one_by_one(client: Client, calls: list[bytes]) -> list[float]:
    """Milliseconds of each call."""
    taken = []
    for line in calls:
        began = time.perf_counter()
        client.write(line)
        answer = client.read()
        taken.append((time.perf_counter() - began) * 1000)
        assert "result" in answer, answer
    return taken


def many_at_once(client: Client, calls: list[bytes]) -> float:
    """Calls in a second with so many in flight."""
    began = time.perf_counter()
    client.write(b"".join(calls[:IN_FLIGHT]))
    for line in [*calls[IN_FLIGHT:], *[b""] * IN_FLIGHT]:
        assert "result" in client.read()
        client.write(line)
    return len(calls) / (time.perf_counter() - began)


def echoes(count: int) -> list[bytes]:
    return [as_line(tool(number, "echo", text="hello")) for number in range(count)]


def figures_asked(count: int) -> list[bytes]:
    return [as_line(tool(number, "get_metrics")) for number in range(count)]


def stats(count: int) -> list[bytes]:
    return [as_line(tool(number, "get_memory_stats")) for number in range(count)]


def overhead(rounds: int, count: int) -> None:
    figures: dict[str, list[float]] = {}
    rates: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        servers = {
            "sdk": ((sys.executable, "-c", ECHO_SDK), echoes),
            "runner": ((sys.executable, "-c", ECHO_OURS), echoes),
            "nothing": (tuple(command(Path(folder), "--toolsets", "admin")), figures_asked),
            "memory": (tuple(command(Path(folder))), stats),
        }
        for _ in range(rounds):
            for name, (arguments, calls) in servers.items():
                with connected(*arguments) as client:
                    one_by_one(client, calls(50))
                    if name in ("nothing", "memory"):
                        time.sleep(1.5)  # what it loads after its first answer
                    figures.setdefault(name, []).append(
                        statistics.median(one_by_one(client, calls(count)))
                    )
                    rates.setdefault(name, []).append(many_at_once(client, calls(count)))
    for name, label in (
        ("runner", "an empty tool over our runner"),
        ("nothing", "get_metrics of memory-server, which touches no file"),
        ("memory", "get_memory_stats of memory-server, which looks at its folder"),
    ):
        ratio = statistics.median(a / b for a, b in zip(figures[name], figures["sdk"], strict=True))
        rate = statistics.median(a / b for a, b in zip(rates[name], rates["sdk"], strict=True))
        ours = statistics.median(figures[name])
        theirs = statistics.median(figures["sdk"])
        print(
            f"{label}: p50 {ours:.2f} ms = {ratio:.2f} x an empty MCPServer tool over the SDK's stdio ({theirs:.2f} ms)"
        )
        ours = statistics.median(rates[name])
        theirs = statistics.median(rates["sdk"])
        print(
            f"{'':>4}{IN_FLIGHT} in flight: {ours:,.0f} calls/s = {rate:.2f} x the SDK's ({theirs:,.0f})",
            flush=True,
        )


def ending(rounds: int) -> None:
    """SIGTERM in the middle of writes: seconds until the process is gone, and whether all it acknowledged is there."""
    seconds: list[float] = []
    lost = 0
    for number in range(rounds):
        with tempfile.TemporaryDirectory() as folder:
            with connected(*command(Path(folder))) as client:
                client.call("add_short_term_memory", messages=HELLO)
                # Different ones: equal messages would be stored once.
                additions = []
                for call_id in range(300):
                    messages = [{"role": "user", "content": f"你好 {call_id}"}]
                    additions.append(tool(call_id, "add_short_term_memory", messages=messages))
                client.send(*additions)
                for _ in range(5 + number):
                    client.read()
                began = time.perf_counter()
                client.process.send_signal(signal.SIGTERM)
                answers = client.rest()
                client.process.wait(30)
                seconds.append(time.perf_counter() - began)
                acknowledged = 1 + 5 + number + sum("result" in answer for answer in answers)
            with connected(*command(Path(folder))) as client:
                lost += max(0, acknowledged - client.call("get_memory_stats")["total"])
    print(
        f"SIGTERM during writes to exit: median {statistics.median(seconds):.2f} s, longest {max(seconds):.2f} s"
    )
    print(f"acknowledged and lost: {lost}")
    if lost:
        sys.exit(1)


def main() -> None:
    flags = argparse.ArgumentParser(description=__doc__)
    flags.add_argument("--calls", type=int, default=500)
    flags.add_argument("--rounds", type=int, default=5)
    chosen = flags.parse_args()
    print(json.dumps({"load": os.getloadavg() if hasattr(os, "getloadavg") else None}))
    overhead(chosen.rounds, chosen.calls)
    ending(chosen.rounds)


if __name__ == "__main__":
    main()
