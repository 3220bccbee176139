"""The process on the wire: what is no message, who goes first, and how it ends."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from shared_process import end_shared
from stdio_process import PATIENCE, as_line, command, request, running, tool

pytestmark = pytest.mark.usefixtures("process")

HELLO = [{"role": "user", "content": "你好，今天吃披萨 🍕"}]
ENDING_SECONDS = 5.0
"""Longest end of a process in these tests: others use the machine too. bench_stdio.py has the figure."""
on_posix = pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")


def said(number: int) -> list[dict[str, str]]:
    """Messages that no other number has: equal ones would be stored once."""
    return [{"role": "user", "content": f"你好 {number}"}]


def log_of(process: subprocess.Popen[bytes]) -> str:
    assert process.stderr is not None
    return process.stderr.read().decode()


def test_what_is_no_message_is_answered_and_the_session_lives_on(tmp_path: Path) -> None:
    with running(command(tmp_path)) as client:
        client.write(b"{before the first request\n")
        assert client.read()["error"]["code"] == -32700
        client.connect()
        deep = (
            b'{"jsonrpc":"2.0","id":9,"method":"ping","params":{"a":'
            + b"[" * 5000
            + b"]" * 5000
            + b"}}"
        )
        for text, id_, code in (
            (b"{bad", None, -32700),
            (b"\x00\x00", None, -32700),
            (b"1", None, -32600),
            (deep, None, -32600),
            (b'{"jsonrpc":"2.0","id":9,"method":"ping","params":{"a":"\\ud800"}}', 9, -32602),
            (b'{"jsonrpc":"1.0","id":9,"method":"ping"}', 9, -32600),
            (b'{"jsonrpc":"2.0","id":9}', 9, -32600),
        ):
            client.write(text + b"\r\n\r\n")
            answer = client.read()
            assert (answer["id"], answer["error"]["code"]) == (id_, code), text[:40]
            assert client.ask("next", "ping")["result"] == {}
        client.send([request(1, "ping"), request(2, "ping")])
        assert client.read()["error"]["code"] == -32600
        client.send({"jsonrpc": "2.0", "method": "notifications/nothing"})
        assert client.ask("next", "ping")["result"] == {}
        assert client.ask(3, "resources/read_minds")["error"]["code"] == -32601
        client.stdin.close()
        assert client.rest() == []
        assert log_of(client.process) == ""


def test_a_call_of_8_mb_is_a_call(tmp_path: Path) -> None:
    with running(command(tmp_path)) as client:
        client.connect()
        client.send(
            tool(
                1, "add_short_term_memory", messages=[{"role": "user", "content": "x" * 8_000_000}]
            )
        )
        assert "it has 8,000,000 characters" in client.read()["result"]["content"][0]["text"]


def test_all_that_was_asked_before_the_end_of_input_is_answered(tmp_path: Path) -> None:
    with running(command(tmp_path)) as client:
        client.connect()
        client.send(
            *(tool(number, "add_short_term_memory", messages=said(number)) for number in range(20))
        )
        client.stdin.close()
        answers = client.rest()
        assert sorted(answer["id"] for answer in answers) == list(range(20))
        assert all(not answer["result"]["isError"] for answer in answers)
        assert client.ended() < ENDING_SECONDS
        assert client.process.returncode == 0


@on_posix
@pytest.mark.parametrize(
    "number",
    [
        "SIGTERM",
        pytest.param("SIGINT", marks=pytest.mark.full),
        pytest.param("SIGHUP", marks=pytest.mark.full),
    ],
)
def test_a_signal_ends_it_and_loses_nothing_that_was_acknowledged(
    tmp_path: Path, number: str
) -> None:
    with running(command(tmp_path)) as client:
        client.connect()
        client.call("add_short_term_memory", messages=HELLO)
        client.send(
            *(tool(number, "add_short_term_memory", messages=said(number)) for number in range(200))
        )
        assert client.read()["id"] in range(200)
        client.process.send_signal(getattr(signal, number))
        answers = client.rest()
        assert client.ended() < ENDING_SECONDS
        assert client.process.returncode == 0
        assert log_of(client.process) == ""
        acknowledged = 2 + sum("result" in answer for answer in answers)
        assert all(answer["error"]["code"] == -32000 for answer in answers if "error" in answer)
    with running(command(tmp_path)) as client:
        assert client.connect().call("get_memory_stats")["total"] >= acknowledged


@on_posix
def test_a_signal_ends_it_though_its_client_reads_nothing(tmp_path: Path) -> None:
    with running(command(tmp_path)) as client:
        client.connect()
        client.send(*(request(number, "tools/list") for number in range(100)))  # 2 MB of answers
        client.process.send_signal(signal.SIGTERM)
        assert client.ended() < ENDING_SECONDS
        assert client.process.returncode == 0


@on_posix
@pytest.mark.parametrize(
    "number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.full)]
)
def test_a_second_signal_kills(number: signal.Signals) -> None:
    code = """
import asyncio
from memory_server.serving.stdio.runner import on_signals
async def main():
    on_signals(lambda: print("first", flush=True))
    print("ready", flush=True)
    await asyncio.Event().wait()
asyncio.run(main())
"""
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        for line in (b"ready\n", b"first\n"):
            assert process.stdout.readline() == line
            process.send_signal(number)
        assert process.wait(PATIENCE) == -number


@on_posix
def test_a_vanished_parent_ends_it_though_the_pipe_stays_open(tmp_path: Path) -> None:
    """The process between us and the server is the client; it is killed, and we still hold the pipes."""
    parent = f"import subprocess, time; subprocess.Popen({command(tmp_path)!r}); time.sleep(600)"
    with running([sys.executable, "-c", parent]) as client:
        client.connect()
        client.ask(1, "tools/list")
        client.process.kill()
        assert client.rest() == [], "its end of the pipe is closed with it"


def test_a_client_that_takes_no_more_ends_it_quietly(tmp_path: Path) -> None:
    with running(command(tmp_path)) as client:
        client.connect()
        client.stdout.close()
        client.send(request(1, "tools/list"))
        assert client.ended() < ENDING_SECONDS
        assert client.process.returncode == 0
        assert log_of(client.process) == ""


def test_a_stray_print_does_not_reach_the_client() -> None:
    code = """
import asyncio, os, subprocess, sys
from mcp.server.lowlevel import Server
from memory_server.serving.stdio.runner import serve
async def talk(context, params):
    print("from print")
    os.write(1, b"from write\\n")
    subprocess.run([sys.executable, "-c", "import sys; print('from a child', sys.stdin.read())"], check=True)
    raise ValueError("done")
async def settle(): pass
server = Server("test", on_list_tools=talk)
asyncio.run(serve(server, settle))
print("after")
"""
    with running([sys.executable, "-c", code]) as client:
        client.connect()
        assert "error" in client.ask(1, "tools/list")
        client.stdin.close()
        assert client._rest == b""
        assert client.stdout.read() == b"after\n", "standard output is given back"
        assert log_of(client.process).count("from ") == 3


@pytest.mark.parametrize(
    "environment",
    [
        {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
        pytest.param(
            {"LC_ALL": "POSIX", "PYTHONUTF8": "0", "PYTHONIOENCODING": "ascii:strict"},
            marks=pytest.mark.full,
        ),
        {"LC_ALL": "zh_CN.GBK", "PYTHONUTF8": "0", "PYTHONIOENCODING": "gbk"},
        pytest.param(
            {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONIOENCODING": "utf-16"}, marks=pytest.mark.full
        ),
    ],
    ids=["C", "ASCII", "GBK", "UTF-16"],
)
def test_the_wire_and_the_log_are_the_same_in_every_locale(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    with running(command(tmp_path, "--log-level", "DEBUG"), environment) as client:
        client.connect()
        client.write(
            as_line(tool(1, "add_short_term_memory", messages=HELLO)).replace(
                b"\\u4f60", "你".encode()
            )
        )
        assert "result" in client.read()
        client.send(
            tool(2, "search_short_term_memories", conversation_id="b", recentMessages=HELLO)
        )
        assert "result" in client.read()
        client.send(tool(3, "get_memory_context", name="你好"))
        assert "你好" in client.read()["result"]["content"][0]["text"]
        client.stdin.close()
        assert client.rest() == []
        for line in log_of(client.process).splitlines():
            assert json.loads(line)["level"]
    end_shared()
    memories = json.loads(
        next(tmp_path.glob("default/short-term-memory.json")).read_text(encoding="utf-8")
    )
    assert memories[0]["messages"][0]["content"] == HELLO[0]["content"]


def test_without_standard_streams_it_says_so(tmp_path: Path) -> None:
    shell = f"exec {' '.join(command(tmp_path))} <&-"
    completed = subprocess.run(
        ["/bin/sh", "-c", shell], capture_output=True, timeout=PATIENCE, check=False
    )
    assert completed.returncode == 2
    assert completed.stderr.decode().startswith(
        "memory-server: There is no standard input or output to serve on;"
    )


def test_a_cancelled_call_has_no_answer_and_the_next_has_one(tmp_path: Path) -> None:
    loops = "match_keys(context.messages, ['披萨']) > 0 && (() => { while (true) {} })()"
    with running(command(tmp_path)) as client:
        client.connect()
        client.call("add_long_term_memory", name="a", prompt="p", trigger=loops)
        client.send(
            tool(1, "search_long_term_memories", messages=HELLO),
            {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}},
        )
        assert client.ask(2, "ping")["result"] == {}
        assert client.call("get_memory_stats")["total"] == 0
        client.stdin.close()
        assert client.rest() == []


def test_a_hundred_calls_at_once_are_each_answered_once(tmp_path: Path) -> None:
    calls: list[Any] = []
    for number in range(0, 100, 4):
        where = f"room {number % 3}"
        calls += [
            tool(number, "add_short_term_memory", messages=said(number), conversation_id=where),
            tool(
                number + 1,
                "search_short_term_memories",
                recentMessages=HELLO,
                conversation_id=where,
            ),
            tool(number + 2, "get_memory_stats", conversation_id=where),
            tool(number + 3, "list_long_term_memories"),
        ]
    with running(command(tmp_path)) as client:
        client.connect()
        client.send(*calls)
        answers = [client.read() for _ in calls]
        assert sorted(answer["id"] for answer in answers) == list(range(100))
        assert not any(answer["result"]["isError"] for answer in answers)
        total = sum(
            client.call("get_memory_stats", conversation_id=f"room {n}")["total"] for n in range(3)
        )
        assert total == 25


def test_a_client_that_reads_nothing_is_read_no_further_and_loses_nothing(tmp_path: Path) -> None:
    """It sends without reading until the server stops reading; what the server holds then has a bound."""
    with running(command(tmp_path)) as client:
        client.connect()
        os.set_blocking(client.stdin.fileno(), False)
        sent = 0
        unsent = b""
        while select.select([], [client.stdin], [], 2)[1]:
            unsent = unsent or as_line(tool(sent, "get_memory_stats"))
            unsent = unsent[os.write(client.stdin.fileno(), unsent) :]
            sent += not unsent
            assert sent < 20_000, "the server reads on for ever"
        os.set_blocking(client.stdin.fileno(), True)
        assert sent >= 1_000
        assert {client.read()["id"] for _ in range(sent)} == set(range(sent))
