"""Faults over HTTP: clients that are slow, silent or gone, and the end of the process amid requests."""

from __future__ import annotations

import os
import signal
import socket
import statistics
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import httpx2 as httpx
import psutil
import pytest
from http_server import HANDSHAKE, MODERN, TOKEN, Asker, Server, give, said, serving

HEAD = b"POST /v1/get_memory_stats HTTP/1.1\r\nHost: localhost\r\n"
OFTEN = {"http__requests_per_minute": "6000000"}


def p95(server: Server, count: int = 60) -> float:
    asker, times = Asker(server.url), []
    for _ in range(count):
        began = time.perf_counter()
        assert asker.call("get_memory_stats").status_code == 200
        times.append(time.perf_counter() - began)
    return statistics.quantiles(times, n=20)[-1]


@pytest.mark.alone
@pytest.mark.parametrize("count", [100, pytest.param(500, marks=pytest.mark.full)])
def test_clients_that_send_half_do_not_slow_others(tmp_path: Path, count: int) -> None:
    half_body = HEAD + f"Authorization: Bearer {TOKEN}\r\nContent-Length: 100\r\n\r\n{{".encode()
    with serving(tmp_path / "data", http__token=TOKEN, http__concurrent="600", **OFTEN) as server, ExitStack() as stack:
        alone = p95(server)
        for data in (HEAD, half_body):
            for _ in range(count - 50 if data is half_body and count == 500 else count):
                held = stack.enter_context(socket.create_connection(("127.0.0.1", server.port), 10))
                held.sendall(data)
        assert p95(server) <= max(3 * alone, 0.05)


def test_a_head_that_does_not_end_is_closed_and_keep_alive_is_not(tmp_path: Path) -> None:
    with serving(tmp_path / "data", http__token=TOKEN) as server:
        silent = socket.create_connection(("127.0.0.1", server.port), 30)
        half = socket.create_connection(("127.0.0.1", server.port), 30)
        half.sendall(HEAD)
        began, asker = time.monotonic(), Asker(server.url)
        while time.monotonic() - began < 7:
            assert asker.call("get_memory_stats").status_code == 200
            time.sleep(1)
        for each in (silent, half):
            assert each.recv(1) == b""
            each.close()
        assert 9 < time.monotonic() - began < 15


def test_a_body_without_a_token_is_never_read(tmp_path: Path) -> None:
    with (
        serving(tmp_path / "data", http__token=TOKEN) as server,
        socket.create_connection(("127.0.0.1", server.port), 10) as connection,
    ):
        connection.sendall(HEAD + b"Content-Length: 1000000\r\n\r\n")
        assert connection.recv(65_536).startswith(b"HTTP/1.1 401")


def test_clients_that_leave_amid_a_call_or_stream_leave_nothing_behind(tmp_path: Path) -> None:
    with serving(tmp_path / "data", http__token=TOKEN, **OFTEN) as server:
        Asker(server.url).done("get_memory_stats")
        process = psutil.Process(server.process.pid)
        before = process.num_fds()
        for number in range(60):
            stream = listening(server) if number % 2 else None
            if stream is None:
                body = b'{"messages":[{"role":"user","content":"x"}]}'
                data = HEAD.replace(b"get_memory_stats", b"recall_turn") + f"Authorization: Bearer {TOKEN}\r\n".encode()
                data += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body
                with socket.create_connection(("127.0.0.1", server.port), 10) as connection:
                    connection.sendall(data)
            else:
                stream.close()
        deadline = time.monotonic() + 20
        while process.num_fds() > before + 2:
            assert time.monotonic() < deadline, process.num_fds() - before
            time.sleep(0.2)
        assert Asker(server.url).call("get_memory_stats").status_code == 200


def listening(server: Server) -> socket.socket:
    """A connection with an open `subscriptions/listen`."""
    asker = Asker(server.url)
    request = asker.http.build_request("POST", "/mcp")
    params = {"notifications": {"resourceSubscriptions": ["memory://stats/overview"]}}
    body: list[bytes] = []

    def catch(given: httpx.Request) -> httpx.Response:
        body.append(given.content)
        request.headers.update(given.headers)
        return httpx.Response(200, json={})

    asker.http = httpx.Client(base_url=server.url, transport=httpx.MockTransport(catch), headers=asker.http.headers)
    asker.mcp(MODERN, "subscriptions/listen", params)
    connection = socket.create_connection(("127.0.0.1", server.port), 10)
    lines = [f"{name}: {value}" for name, value in request.headers.items() if name != "content-length"]
    head = "\r\n".join(["POST /mcp HTTP/1.1", *lines, f"content-length: {len(body[0])}", "", ""])
    connection.sendall(head.encode() + body[0])
    answer = b""
    while b"acknowledged" not in answer and b'"error"' not in answer:
        answer += connection.recv(65_536)
    if b'"error"' in answer:
        connection.close()
        pytest.fail(answer.decode())
    return connection


@pytest.mark.alone
def test_a_stream_that_listens_gets_its_last_frame_at_the_end(tmp_path: Path) -> None:
    with serving(tmp_path / "data", http__token=TOKEN) as server, listening(server) as stream:
        began = time.monotonic()
        assert server.end() == 0
        assert time.monotonic() - began < 2
        rest = b"".join(iter(lambda: stream.recv(65_536), b""))
        assert b'"result"' in rest


def test_streams_do_not_count_as_calls(tmp_path: Path) -> None:
    with serving(tmp_path / "data", http__token=TOKEN, http__concurrent="2") as server, ExitStack() as stack:
        for _ in range(2):
            stack.enter_context(listening(server))
        assert Asker(server.url).call("get_memory_stats").status_code == 200
        pretended = Asker(server.url).mcp(HANDSHAKE, "tools/list", mcp_method="subscriptions/listen")
        assert pretended.status_code == 200
        with pytest.raises(pytest.fail.Exception, match="429"):
            listening(server)


@pytest.mark.parametrize("clients", [32])
def test_a_signal_amid_requests_loses_no_acknowledged_write(tmp_path: Path, clients: int) -> None:
    folder = tmp_path / "data"
    acknowledged: list[str] = []
    with serving(folder, http__token=TOKEN, http__concurrent="64", **OFTEN) as server:
        stop = threading.Event()

        def write(number: int) -> None:
            asker, turn = Asker(server.url), 0
            while not stop.is_set():
                text = f"turn {number} {turn}"
                try:
                    response = asker.call("add_short_term_memory", {**said(text), "conversation_id": f"c{number % 4}"})
                except httpx.TransportError:
                    return
                assert response.status_code in (200, 503), response.text
                if response.status_code == 200:
                    acknowledged.append(response.json()["id"])
                turn += 1

        with ThreadPoolExecutor(clients) as threads:
            for number in range(clients):
                threads.submit(write, number)
            time.sleep(2)
            began = time.monotonic()
            assert server.end() == 0
            took = time.monotonic() - began
            stop.set()
    assert took <= 6
    assert len(acknowledged) > 20
    with serving(folder, http__token=TOKEN, **OFTEN) as server:
        asker = Asker(server.url)
        total = sum(asker.done("get_memory_stats", conversation_id=f"c{number}")["total"] for number in range(4))
    assert total >= len(acknowledged)


def test_a_killed_server_has_every_acknowledged_write(tmp_path: Path) -> None:
    with serving(tmp_path / "data", http__token=TOKEN) as server:
        asker = Asker(server.url)
        for number in range(20):
            asker.done("add_short_term_memory", **said(f"turn {number}"))
        server.end(signal.SIGKILL)
    with serving(tmp_path / "data", http__token=TOKEN) as server:
        assert Asker(server.url).done("get_memory_stats")["total"] == 20


@pytest.mark.alone
def test_a_second_signal_ends_at_once(tmp_path: Path) -> None:
    with serving(tmp_path / "data", http__token=TOKEN, http__drain_seconds="20") as server:
        server.process.send_signal(signal.SIGTERM)
        asker = Asker(server.url)
        deadline = time.monotonic() + 10
        while asker.http.get("/readyz").status_code != 503:
            assert time.monotonic() < deadline
        assert asker.call("get_memory_stats").status_code == 200, "calls are answered while it drains"
        began = time.monotonic()
        assert server.end() == -signal.SIGTERM
        assert time.monotonic() - began < 2


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="rights do not bind root")
def test_a_folder_that_cannot_be_written_gets_a_sentence(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    with serving(folder, http__token=TOKEN) as server:
        folder.chmod(0o500)
        assert Asker(server.url).call("add_short_term_memory", said("x")).status_code == 507
        folder.chmod(0o700)


@pytest.mark.alone
def test_endless_triggers_of_one_tenant_do_not_stop_another(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    slow, calm = give(folder, "slow", "--tenant", "slow"), give(folder, "calm", "--tenant", "calm")
    with serving(folder, **OFTEN) as server:
        asker, other = Asker(server.url, slow), Asker(server.url, calm)
        endless = {"name": "endless", "prompt": "x", "trigger": "if (context.never) return true; while (true) {}"}
        asker.call("add_long_term_memory", endless)
        other.done("add_long_term_memory", name="quick", prompt="y", trigger="return true;")
        asked = said("hello")

        def search() -> None:
            Asker(server.url, slow).call("search_long_term_memories", asked)

        with ThreadPoolExecutor(8) as threads:
            for _ in range(8):
                threads.submit(search)
            time.sleep(0.3)
            times = []
            for _ in range(10):
                began = time.perf_counter()
                other.done("search_long_term_memories", **asked)
                times.append(time.perf_counter() - began)
        assert statistics.median(times) < 1
