"""Faults over HTTP: clients that are slow, silent or gone, and the end of the process amid requests."""

from __future__ import annotations

import asyncio
import json
import os
import resource
import signal
import socket
import statistics
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import httpx2 as httpx
import psutil
import pytest
from http_server import (
    ERAS,
    HANDSHAKE,
    MODERN,
    PATIENCE,
    TOKEN,
    Asker,
    Server,
    give,
    listening,
    said,
    serving,
    take_back,
)
from shared_process import until
from starlette.responses import JSONResponse

from memory_server.serving.http import http_server as of_product

# Who asks nothing of triggers does not wait until their worker is warm: `ready=False`.
HEAD = b"POST /v1/get_memory_stats HTTP/1.1\r\nHost: localhost\r\n"
OFTEN = {"http__requests_per_minute": "6000000"}
GO_ON = b"HTTP/1.1 100 Continue\r\n\r\n"
"""What a client that expects it gets when the server begins to read the body."""


def everything_from(connection: socket.socket) -> bytes:
    """What comes until the other end closes."""
    return b"".join(iter(lambda: connection.recv(65_536), b""))


def p95(server: Server, count: int = 60) -> float:
    asker = Asker(server.url)
    times = []
    for _ in range(count):
        began = time.perf_counter()
        assert asker.call("get_memory_stats").status_code == 200
        times.append(time.perf_counter() - began)
    return statistics.quantiles(times, n=20)[-1]


@pytest.mark.alone
@pytest.mark.parametrize("count", [100, pytest.param(500, marks=pytest.mark.full)])
def test_clients_that_send_half_do_not_slow_others(tmp_path: Path, count: int) -> None:
    half_body = HEAD + f"Authorization: Bearer {TOKEN}\r\nContent-Length: 100\r\n\r\n{{".encode()
    with (
        serving(tmp_path / "data", http__token=TOKEN, http__concurrent="600", **OFTEN) as server,
        ExitStack() as stack,
    ):
        alone = p95(server)
        for data in (HEAD, half_body):
            connections = count
            if data is half_body and count == 500:
                connections -= 50
            for _ in range(connections):
                connection = stack.enter_context(
                    socket.create_connection(("127.0.0.1", server.port), 10)
                )
                connection.sendall(data)
        tries = (p95(server) for _ in range(5))
        assert any(seconds <= max(3 * alone, 0.05) for seconds in tries)


@pytest.mark.anyio
async def test_a_head_that_does_not_end_is_closed_and_keep_alive_is_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The loop of a server runs here, with less time for a head than the ten seconds of a process."""
    monkeypatch.setattr(of_product, "HEAD_SECONDS", 1.0)
    monkeypatch.setattr(of_product, "on_signals", lambda end: None)
    stop = asyncio.Event()
    with of_product.listening("127.0.0.1", 0) as listener:
        port = listener.getsockname()[1]
        running = asyncio.create_task(
            of_product.run_app(JSONResponse({"total": 0}), listener, stop, files=100)
        )
        began = time.monotonic()

        async def seconds_until_closed(sent: bytes) -> float:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(sent)
            assert await asyncio.wait_for(reader.read(), PATIENCE) == b""
            writer.close()
            return time.monotonic() - began

        async def ask_again_and_again() -> None:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            while time.monotonic() - began < 2:
                writer.write(HEAD + b"\r\n")
                answer = await asyncio.wait_for(reader.readuntil(b"}"), PATIENCE)
                assert answer.startswith(b"HTTP/1.1 200")
                await asyncio.sleep(0.2)
            writer.close()

        silent, half, _ = await asyncio.gather(
            seconds_until_closed(b""), seconds_until_closed(HEAD), ask_again_and_again()
        )
        assert 0.9 < silent < PATIENCE
        assert 0.9 < half < PATIENCE
        stop.set()
        await running


@pytest.mark.full
def test_a_process_closes_a_head_that_does_not_end_and_keep_alive_is_not(tmp_path: Path) -> None:
    with serving(tmp_path / "data", http__token=TOKEN) as server:
        silent = socket.create_connection(("127.0.0.1", server.port), 30)
        half = socket.create_connection(("127.0.0.1", server.port), 30)
        half.sendall(HEAD)
        began = time.monotonic()
        asker = Asker(server.url)
        with httpx.Client(base_url=server.url, headers=asker.http.headers) as client:
            while time.monotonic() - began < 7:
                assert client.post("/v1/get_memory_stats", json={}).status_code == 200
                time.sleep(1)
        for connection in (silent, half):
            assert connection.recv(1) == b""
            connection.close()
        assert 9 < time.monotonic() - began < 15


def test_a_body_without_a_token_is_never_read(tmp_path: Path) -> None:
    with (
        serving(tmp_path / "data", ready=False, http__token=TOKEN) as server,
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
            if number % 2:
                listening(server).close()
                continue
            body = b'{"messages":[{"role":"user","content":"x"}]}'
            data = (
                HEAD.replace(b"get_memory_stats", b"recall_turn")
                + f"Authorization: Bearer {TOKEN}\r\n".encode()
            )
            data += (
                f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n".encode()
                + body
            )
            with socket.create_connection(("127.0.0.1", server.port), 10) as connection:
                connection.sendall(data)
        deadline = time.monotonic() + 20
        while process.num_fds() > before + 2:
            assert time.monotonic() < deadline, process.num_fds() - before
            time.sleep(0.2)
        assert Asker(server.url).call("get_memory_stats").status_code == 200


def test_a_body_that_nobody_reads_does_not_hold_its_connection(tmp_path: Path) -> None:
    with serving(tmp_path / "data", ready=False, http__token=TOKEN) as server, ExitStack() as stack:
        connections = [
            stack.enter_context(socket.create_connection(("127.0.0.1", server.port), 10))
            for _ in range(5)
        ]
        for connection in connections:
            connection.sendall(HEAD + b"Content-Length: 100000\r\n\r\n")
            assert b" 401 " in connection.recv(65_536)
            connection.sendall(b"x")
        for connection in connections:
            connection.settimeout(8)
            with suppress(ConnectionResetError):
                while connection.recv(65_536):
                    pass


@pytest.mark.full
def test_a_client_that_does_not_read_does_not_hold_its_connection(tmp_path: Path) -> None:
    with (
        serving(tmp_path / "data", http__token=TOKEN) as server,
        socket.create_connection(("127.0.0.1", server.port), 10) as connection,
    ):
        connection.settimeout(0.5)
        requests = b"GET /v1/openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n" * 200

        def flood() -> None:
            deadline = time.monotonic() + 30
            while time.monotonic() < deadline:
                with suppress(TimeoutError):
                    connection.sendall(requests)

        with pytest.raises((ConnectionResetError, BrokenPipeError)):
            flood()


def test_half_a_body_is_not_carried_out(tmp_path: Path) -> None:
    body = json.dumps(said("never said")).encode()
    head = (
        HEAD.replace(b"get_memory_stats", b"add_short_term_memory")
        + f"Authorization: Bearer {TOKEN}\r\n".encode()
    )
    head += b"Content-Type: application/json\r\n"
    chunked = b"Transfer-Encoding: chunked\r\n\r\n" + f"{len(body):x}\r\n".encode() + body + b"\r\n"
    with serving(tmp_path / "data", ready=False, http__token=TOKEN) as server:
        for rest_of_request in (b"Content-Length: 5000\r\n\r\n" + body, chunked):
            with socket.create_connection(("127.0.0.1", server.port), 10) as connection:
                connection.sendall(head + rest_of_request)
        time.sleep(0.5)
        assert Asker(server.url).done("get_memory_stats")["total"] == 0


def test_a_stream_ends_with_its_token(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    token = give(folder, "phone", "--tenant", "alice")
    with serving(folder, ready=False) as server, listening(server, token) as stream:
        take_back(folder, "phone")
        stream.settimeout(15)
        with suppress(ConnectionResetError):
            while stream.recv(65_536):
                pass
        assert "Traceback" not in server.said()
        assert httpx.get(f"{server.url}/healthz").status_code == 200


@pytest.mark.alone
def test_a_stream_that_listens_gets_its_last_frame_at_the_end(tmp_path: Path) -> None:
    ending_seconds = []
    while min(ending_seconds, default=9.0) > 3.0:
        with serving(tmp_path / "data", http__token=TOKEN) as server, listening(server) as stream:
            began = time.monotonic()
            assert server.end() == 0
            ending_seconds.append(time.monotonic() - began)
            last_frames = everything_from(stream)
            assert b'"result"' in last_frames
        assert len(ending_seconds) < 4, (
            f"the end, half a second where nobody disturbs it, waits for the stream: {ending_seconds}"
        )


def test_streams_do_not_count_as_calls(tmp_path: Path) -> None:
    with (
        serving(tmp_path / "data", ready=False, http__token=TOKEN, http__concurrent="2") as server,
        ExitStack() as stack,
    ):
        for _ in range(2):
            stack.enter_context(listening(server))
        assert Asker(server.url).call("get_memory_stats").status_code == 200
        pretended = Asker(server.url).mcp(
            HANDSHAKE, "tools/list", mcp_method="subscriptions/listen"
        )
        assert pretended.status_code == 200
        with pytest.raises(pytest.fail.Exception, match="429"):
            listening(server)


def ids_in(server: Server, conversations: int) -> set[str]:
    """The ids of everything in the conversations `c0` and so on."""
    asker = Asker(server.url)
    ids = set()
    for number in range(conversations):
        uri: str | None = f"memory://conversation/c{number}/short-term"
        while uri is not None:
            page = json.loads(
                asker.mcp(MODERN, "resources/read", {"uri": uri}).json()["result"]["contents"][0][
                    "text"
                ]
            )
            ids |= {memory["id"] for memory in page["memories"]}
            uri = page.get("next")
    return ids


@pytest.mark.parametrize("clients", [50])
def test_a_signal_amid_requests_loses_no_acknowledged_write(tmp_path: Path, clients: int) -> None:
    folder = tmp_path / "data"
    acknowledged: list[str] = []
    endings: list[tuple[bool, Exception]] = []
    with serving(folder, http__token=TOKEN, http__concurrent="64", **OFTEN) as server:
        signalled = threading.Event()

        def write(number: int) -> None:
            asker = Asker(server.url)
            turn = 0
            while not endings or turn < 1_000:
                arguments = {**said(f"turn {number} {turn}"), "conversation_id": f"c{number % 4}"}
                try:
                    response = asker.call("add_short_term_memory", arguments)
                except (
                    httpx.RemoteProtocolError,
                    httpx.ConnectError,
                    httpx.ReadError,
                    httpx.WriteError,
                ) as error:
                    endings.append((signalled.is_set(), error))
                    return
                assert response.status_code in (200, 503), response.text
                if response.status_code == 200:
                    acknowledged.append(response.json()["id"])
                turn += 1

        with ThreadPoolExecutor(clients) as threads:
            writers = [threads.submit(write, number) for number in range(clients)]
            deadline = time.monotonic() + PATIENCE
            while len(acknowledged) < clients and not endings:
                assert time.monotonic() < deadline
                time.sleep(0.02)
            signalled.set()
            began = time.monotonic()
            assert server.end() == 0
            ending_seconds = time.monotonic() - began
            for writer in writers:
                writer.result(PATIENCE)
    assert ending_seconds <= 6
    assert all(was_signalled for was_signalled, _ in endings), (
        "no connection ends before the signal"
    )
    assert len(acknowledged) > 20
    with serving(folder, ready=False, http__token=TOKEN, **OFTEN) as server:
        assert set(acknowledged) <= ids_in(server, 4)


def test_a_signal_amid_fifty_requests_answers_each(tmp_path: Path) -> None:
    """Whose request had begun gets an answer, and no connection ends without one."""
    with serving(tmp_path / "data", http__token=TOKEN, http__concurrent="64", **OFTEN) as server:
        head = HEAD.replace(b"get_memory_stats", b"add_short_term_memory")
        head += f"Authorization: Bearer {TOKEN}\r\nContent-Type: application/json\r\n".encode()
        head += b"Expect: 100-continue\r\n"
        with ExitStack() as stack:
            connections = [
                stack.enter_context(socket.create_connection(("127.0.0.1", server.port), PATIENCE))
                for _ in range(50)
            ]
            for number, connection in enumerate(connections):
                body = json.dumps({**said(f"turn {number}"), "conversation_id": "c0"}).encode()
                connection.sendall(
                    head + f"Content-Length: {len(body)}\r\n\r\n".encode() + body[:-1]
                )
            for (
                connection
            ) in connections:  # the server has begun each request, and no body is whole
                assert connection.recv(len(GO_ON), socket.MSG_WAITALL) == GO_ON
            for connection in connections:
                connection.sendall(b"}")
            assert server.end() == 0
            answers = [everything_from(connection) for connection in connections]
    statuses = [answer.partition(b" ")[2][:3] for answer in answers]
    assert set(statuses) <= {b"200", b"503"}, statuses
    acknowledged = {
        json.loads(answer.partition(b"\r\n\r\n")[2])["id"]
        for answer in answers
        if b" 200 " in answer
    }
    assert len(acknowledged) == statuses.count(b"200") > 0
    with serving(tmp_path / "data", ready=False, http__token=TOKEN, **OFTEN) as server:
        assert acknowledged <= ids_in(server, 1)


def test_a_killed_server_has_every_acknowledged_write(tmp_path: Path) -> None:
    with serving(tmp_path / "data", ready=False, http__token=TOKEN) as server:
        asker = Asker(server.url)
        for number in range(20):
            asker.done("add_short_term_memory", **said(f"turn {number}"))
        server.end(signal.SIGKILL)
    with serving(tmp_path / "data", ready=False, http__token=TOKEN) as server:
        assert Asker(server.url).done("get_memory_stats")["total"] == 20


@pytest.mark.alone
def test_a_second_signal_ends_at_once(tmp_path: Path) -> None:
    with serving(tmp_path / "data", http__token=TOKEN, http__drain_seconds="20") as server:
        server.process.send_signal(signal.SIGTERM)
        asker = Asker(server.url)
        deadline = time.monotonic() + PATIENCE
        while asker.http.get("/readyz").status_code != 503:
            assert time.monotonic() < deadline
        assert asker.call("get_memory_stats").status_code == 200, (
            "calls are answered while it drains"
        )
        began = time.monotonic()
        assert server.end() == -signal.SIGTERM
        assert time.monotonic() - began < 10, "it does not wait for the end of its 20 seconds"


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="rights do not bind root")
def test_a_folder_that_cannot_be_written_gets_a_sentence(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    with serving(folder, http__token=TOKEN) as server:
        folder.chmod(0o500)
        assert Asker(server.url).call("add_short_term_memory", said("x")).status_code == 507
        folder.chmod(0o700)


@pytest.mark.skipif(
    not hasattr(resource, "prlimit"), reason="the limit of another process is set on Linux only"
)
def test_a_disk_without_room_gets_a_sentence_and_loses_nothing(tmp_path: Path) -> None:
    writing: dict[str, dict[str, Any]] = {
        "add_short_term_memory": said("word " * 2_000),
        "add_long_term_memory": {"name": "t", "prompt": "word " * 500, "trigger": "return true;"},
        "backup_memories": {"name": "b"},
        "remember": {"type": "domain", "topic": "t", "content": "word " * 1_000},
        "memory_add": {"messages": "word " * 1_000},
    }
    of_sqlite = ("backup_memories", "remember", "memory_add")
    with serving(
        tmp_path / "data", "--toolsets=all,notes,sessions", http__token=TOKEN, **OFTEN
    ) as server:
        asker = Asker(server.url)
        stored_ids = []
        for number in range(5):
            receipt = asker.done(
                "add_short_term_memory", **said(f"turn {number}"), conversation_id="c0"
            )
            stored_ids.append(receipt["id"])
        asker.done("remember", type="domain", topic="tea", content="green tea is from China")
        # A file cannot grow beyond this size, as on a disk without room.
        before = resource.prlimit(
            server.process.pid, resource.RLIMIT_FSIZE, (2_048, resource.RLIM_INFINITY)
        )
        for tool, arguments in writing.items():
            for era in (None, *ERAS):
                if era is None:
                    response = asker.call(tool, arguments)
                    # SQLite says "disk I/O error" of this limit, and of a full disk that it is full: then 507 too.
                    assert response.status_code == (500 if tool in of_sqlite else 507), (
                        response.text
                    )
                    message = response.json()["error"]["message"]
                else:
                    result = asker.tool(era, tool, **arguments)
                    assert result["isError"], (tool, era)
                    message = result["content"][0]["text"]
                assert len(message.splitlines()) == 1, message
                assert "failed inside" not in message, message
        assert ids_in(server, 1) == set(stored_ids), "what is there is read"
        resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, before)
        for tool, arguments in writing.items():
            asker.done(tool, **arguments)
        assert asker.done("recall", query="green tea")["memories"]
    with serving(tmp_path / "data", ready=False, http__token=TOKEN, **OFTEN) as server:
        assert ids_in(server, 1) == set(stored_ids)


def test_two_processes_on_one_folder_lose_no_write_and_know_the_same_tokens(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    token = give(folder, "phone", "--tenant", "alice")
    with (
        serving(folder, ready=False, **OFTEN) as first_node,
        serving(folder, ready=False, **OFTEN) as second_node,
    ):
        askers = [
            Asker(server.url, token)
            for server in (first_node, second_node, first_node, second_node)
        ]

        def write(number: int) -> list[str]:
            turns = [
                {**said(f"turn {number} {turn}"), "conversation_id": "c0"} for turn in range(15)
            ]
            return [
                askers[number].done("add_short_term_memory", **arguments)["id"]
                for arguments in turns
            ]

        with ThreadPoolExecutor(len(askers)) as threads:
            ids = set().union(*threads.map(write, range(len(askers))))
        assert len(ids) == 60
        totals = [asker.done("get_memory_stats", conversation_id="c0")["total"] for asker in askers]
        assert totals == [60] * 4
        take_back(folder, "phone")
        for asker in askers:
            until(lambda asker=asker: asker.call("get_memory_stats").status_code == 401)  # type: ignore[misc]


@pytest.mark.alone
def test_endless_triggers_of_one_tenant_do_not_stop_another(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    slow = give(folder, "slow", "--tenant", "slow")
    calm = give(folder, "calm", "--tenant", "calm")
    with serving(folder, **OFTEN) as server:
        slow_asker = Asker(server.url, slow)
        calm_asker = Asker(server.url, calm)
        endless = {
            "name": "endless",
            "prompt": "x",
            "trigger": "if (context.never) return true; while (true) {}",
        }
        slow_asker.call("add_long_term_memory", endless)
        calm_asker.done("add_long_term_memory", name="quick", prompt="y", trigger="return true;")
        hello = said("hello")

        def search() -> None:
            Asker(server.url, slow).call("search_long_term_memories", hello)

        with ThreadPoolExecutor(8) as threads:
            for _ in range(8):
                threads.submit(search)
            time.sleep(0.3)
            times = []
            for _ in range(10):
                began = time.perf_counter()
                calm_asker.done("search_long_term_memories", **hello)
                times.append(time.perf_counter() - began)
        assert statistics.median(times) < 1
