"""Figures of `serve --http`: `python tests/bench/bench_http.py [TENANTS]`. Ratios count, because the machine is shared:
what is compared is asked in turns."""

from __future__ import annotations

import multiprocessing
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx2 as httpx
import psutil

sys.path.insert(0, str(Path(__file__).parents[1]))
from http_server import HANDSHAKE, MODERN, TOKEN, Asker, said, serving

from memory_server.storage.token_file import TokenFile

OFTEN = {"http__requests_per_minute": "60000000", "http__concurrent": "64"}
EXAMPLE = """
import sys, uvicorn
from mcp.server.mcpserver import MCPServer
server = MCPServer("example", log_level="ERROR")
@server.tool()
def add(a: int, b: int) -> int:
    return a + b
app = server.streamable_http_app(stateless_http=True, json_response=True)
uvicorn.run(app, port=int(sys.argv[1]), log_level="error")
"""
CLIENTS = 8
SLICES = 8
SLICE_SECONDS = 0.5


class Client:
    """A connection that sends the same request again and again. It costs the machine little, beside the server."""

    def __init__(
        self, url: str, era: str | None, tool: str, token: str = TOKEN, **arguments: Any
    ) -> None:
        sent: list[httpx.Request] = []

        def catch(request: httpx.Request) -> httpx.Response:
            sent.append(request)
            return httpx.Response(200, json={"result": {}})

        asker = Asker(url, token)
        asker.http = httpx.Client(
            base_url=url, transport=httpx.MockTransport(catch), headers=asker.http.headers
        )
        if era is None:
            asker.call(tool, arguments)
        else:
            asker.tool(era, tool, **arguments)
        lines = [f"{name}: {value}" for name, value in sent[0].headers.items()]
        head = "\r\n".join([f"POST {sent[0].url.path} HTTP/1.1", *lines, "", ""])
        self.request = head.encode() + sent[0].content
        self.address = (sent[0].url.host, sent[0].url.port or 80)
        self.connect()

    def connect(self) -> None:
        """Anew: a server closes a connection that was idle for some seconds."""
        self.connection = socket.create_connection(self.address, 30)
        self.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def _received(self) -> bytes:
        data = self.connection.recv(65_536)
        assert data, "the server closed the connection"
        return data

    def ask(self) -> int:
        """The status of an answer, read as a whole."""
        self.connection.sendall(self.request)
        answer = b""
        while b"\r\n\r\n" not in answer:
            answer += self._received()
        head, _, body = answer.partition(b"\r\n\r\n")
        length = int(head.lower().partition(b"content-length:")[2].split(b"\r\n")[0])
        while len(body) < length:
            body += self._received()
        return int(head.split(b" ")[1])

    def done(self) -> None:
        assert self.ask() == 200


def milliseconds(ask: Callable[[], object]) -> float:
    began = time.perf_counter()
    ask()
    return (time.perf_counter() - began) * 1000


def times(ask: Callable[[], object], count: int, pause: float = 0.0) -> list[float]:
    milliseconds_of_calls = []
    for _ in range(count):
        milliseconds_of_calls.append(milliseconds(ask))
        time.sleep(pause)
    return milliseconds_of_calls


def quantile(figures: list[float], percent: int) -> float:
    return statistics.quantiles(figures, n=100)[percent - 1]


def rate(clients: list[Client]) -> float:
    for client in clients:
        client.connect()

    def work(client: Client) -> int:
        count = 0
        until = time.perf_counter() + SLICE_SECONDS
        while time.perf_counter() < until:
            client.done()
            count += 1
        return count

    with ThreadPoolExecutor(len(clients)) as threads:
        return sum(threads.map(work, clients)) / SLICE_SECONDS


def compared(cases: Mapping[str, Callable[[], Client]]) -> None:
    """Each case beside the first one: p50 of one client, and calls per second of several."""
    clients_of: dict[str, list[Client]] = {}
    for name, make in cases.items():
        clients_of[name] = [make() for _ in range(CLIENTS)]
    for clients in clients_of.values():
        times(clients[0].done, 50)
    alone: dict[str, list[float]] = {name: [] for name in clients_of}
    for _ in range(400):
        for name, clients in clients_of.items():
            alone[name].append(milliseconds(clients[0].done))
    rates: dict[str, list[float]] = {name: [] for name in clients_of}
    for _ in range(SLICES):
        for name, clients in clients_of.items():
            rates[name].append(rate(clients))
    first = next(iter(clients_of))
    p50 = {name: statistics.median(figures) for name, figures in alone.items()}
    middle = {name: statistics.median(figures) for name, figures in rates.items()}
    for name in clients_of:
        print(
            f"{name:38} p50 {p50[name]:5.2f} ms ({p50[name] / p50[first]:.2f} x)   "
            f"{CLIENTS} clients {middle[name]:5.0f} calls/s ({middle[name] / middle[first]:.2f} x)"
        )


def wait_for(port: int) -> None:
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        try:
            return socket.create_connection(("127.0.0.1", port)).close()
        except ConnectionRefusedError:
            time.sleep(0.2)
    raise TimeoutError(port)


def calls(folder: Path) -> None:
    port = "18461"
    example = subprocess.Popen([sys.executable, "-c", EXAMPLE, port])
    try:
        with serving(folder, "--toolsets=all", http__token=TOKEN, **OFTEN) as server:
            Asker(server.url).done("remember_turn", **said("hello"))
            there = f"http://127.0.0.1:{port}"
            wait_for(int(port))
            compared(
                {
                    f"the SDK's example, add, {MODERN}": lambda: Client(
                        there, MODERN, "add", a=1, b=2
                    ),
                    f"get_memory_stats, {MODERN}": lambda: Client(
                        server.url, MODERN, "get_memory_stats"
                    ),
                    f"search_memories, {MODERN}": lambda: Client(
                        server.url, MODERN, "search_memories", query="hello"
                    ),
                    "get_memory_stats, REST": lambda: Client(server.url, None, "get_memory_stats"),
                    "search_memories, REST": lambda: Client(
                        server.url, None, "search_memories", query="hello"
                    ),
                }
            )
            compared(
                {
                    f"the SDK's example, add, {HANDSHAKE}": lambda: Client(
                        there, HANDSHAKE, "add", a=1, b=2
                    ),
                    f"get_memory_stats, {HANDSHAKE}": lambda: Client(
                        server.url, HANDSHAKE, "get_memory_stats"
                    ),
                }
            )
    finally:
        example.kill()
        example.wait()


def asks_without_pause(url: str, token: str, seconds: float) -> None:
    client = Client(url, None, "get_memory_stats", token)
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        client.ask()


def flood(folder: Path) -> None:
    file = TokenFile(folder / ".memory-server" / "tokens.jsonl")
    noisy, calm = (file.add(name, name, ["read", "write"], None) for name in ("noisy", "calm"))
    with serving(folder, http__requests_per_minute="6000") as server:
        client = Client(server.url, None, "get_memory_stats", calm)
        times(client.done, 20, 0.03)
        alone = times(client.done, 300, 0.03)
        processes = [
            multiprocessing.Process(target=asks_without_pause, args=(server.url, noisy, 20))
            for _ in range(CLIENTS)
        ]
        for process in processes:
            process.start()
        time.sleep(4)
        client.connect()
        beside = times(client.done, 300, 0.03)
        for process in processes:
            process.join()
    print_ratios("beside a flooding tenant", alone, beside)


def slow(folder: Path) -> None:
    head = b"POST /v1/get_memory_stats HTTP/1.1\r\nHost: localhost\r\n"
    half_body = head + f"Authorization: Bearer {TOKEN}\r\nContent-Length: 100\r\n\r\n{{".encode()
    with (
        serving(folder, http__token=TOKEN, **OFTEN | {"http__concurrent": "600"}) as server,
        ExitStack() as stack,
    ):
        client = Client(server.url, None, "get_memory_stats")
        times(client.done, 20)
        alone = times(client.done, 300, 0.005)
        for data in (head, half_body) * 100:
            connection = stack.enter_context(
                socket.create_connection(("127.0.0.1", server.port), 10)
            )
            connection.sendall(data)
        client.connect()
        print_ratios("beside 200 clients that send half", alone, times(client.done, 300, 0.005))


def print_ratios(name: str, alone: list[float], beside: list[float]) -> None:
    ratios = (
        f"p{percent} {quantile(beside, percent):.2f} ms, alone {quantile(alone, percent):.2f} ms "
        f"({quantile(beside, percent) / quantile(alone, percent):.2f} x)"
        for percent in (50, 95, 99)
    )
    print(f"{name}: {'; '.join(ratios)}")


def tenants(folder: Path, count: int) -> None:
    file = TokenFile(folder / ".memory-server" / "tokens.jsonl")
    tokens = [
        file.add(f"t{number}", f"t{number}", ["read", "write"], None) for number in range(count)
    ]
    with serving(folder, **OFTEN) as server:
        process = psutil.Process(server.process.pid)
        before = process.memory_info().rss
        asker = Asker(server.url)
        first = []
        for token in tokens:
            asker.http.headers["authorization"] = f"Bearer {token}"
            first.append(milliseconds(lambda: asker.done("remember_turn", **said("hello"))))
        grown = (process.memory_info().rss - before) / 1e6
        again = Client(server.url, None, "get_memory_stats", tokens[0])
        print(
            f"{count} tenants touched once: +{grown:.0f} MB, p50 of the first call {statistics.median(first):.1f} ms, "
            f"of a call then {statistics.median(times(again.done, 200)):.2f} ms"
        )


if __name__ == "__main__":
    tenant_count = 1000
    if len(sys.argv) > 1:
        tenant_count = int(sys.argv[1])
    with tempfile.TemporaryDirectory() as root:
        calls(Path(root) / "calls")
        slow(Path(root) / "slow")
        flood(Path(root) / "flood")
        tenants(Path(root) / "tenants", tenant_count)
