"""The server as a client meets it: a process on stdio, in both protocol eras. Where it matters how the process starts
or ends, it is a real one; the others are forked."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from forked_sessions import forked_server
from mcp import Client, StdioServerParameters
from shared_process import end_shared

from memory_server.tools import DEFAULT_TOOLS

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("process")]

_LEGACY = pytest.param("legacy", marks=pytest.mark.full)
_AUTO = pytest.param("auto", marks=pytest.mark.full)
"""The handshake of 2025-11-25 and before, and the discovery of 2026-07-28. `make test` speaks each of them once here;
test_sessions.py speaks both in every test."""
PIZZA = [{"role": "user", "content": "I love pizza"}]
DAY_MS = 86_400_000


def server(data_dir: Path, *flags: str) -> StdioServerParameters:
    arguments = ["-P", "-m", "memory_server", "--data-dir", str(data_dir), *flags]
    return StdioServerParameters(command=sys.executable, args=arguments, env=dict(os.environ))


async def call(client: Client, tool: str, **arguments: Any) -> dict[str, Any]:
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, result.content
    assert result.structured_content is not None
    return result.structured_content


@pytest.mark.parametrize("mode", [_LEGACY, "auto"])
async def test_a_first_session_does_not_look_broken(tmp_path: Path, mode: str) -> None:
    with anyio.fail_after(60):
        async with Client(server(tmp_path), mode=mode) as client:
            listed = await client.list_tools()
            assert [tool.name for tool in listed.tools] == list(DEFAULT_TOOLS)
            await call(client, "add_short_term_memory", messages=PIZZA)
            search = await client.call_tool(
                "search_short_term_memories",
                {"recentMessages": [{"role": "user", "content": "What do I like?"}]},
            )
            note = "1 memory of this conversation is held back: younger than 20 minutes."
            assert note in search.content[0].text  # type: ignore[union-attr]
            assert search.structured_content is not None
            assert search.structured_content["note"] == note
            assert search.structured_content["heldBack"] == {"tooRecent": 1, "sameMoment": 0}


@pytest.mark.parametrize("mode", ["legacy", _AUTO])
async def test_a_birthday_stored_without_a_conversation_is_found_from_every_chat(
    tmp_path: Path, mode: str
) -> None:
    trigger = "const d = new Date(); d.getMonth() === 5 && d.getDate() === 20"
    with anyio.fail_after(60):
        async with Client(
            server(tmp_path, "--now", "2026-06-20T10:00:00", "--timezone", "Asia/Shanghai"),
            mode=mode,
        ) as client:
            await call(
                client,
                "add_long_term_memory",
                name="生日",
                prompt="今天是小明的生日",
                trigger=trigger,
            )
            search = await call(
                client, "search_long_term_memories", messages=PIZZA, conversation_id="别的聊天"
            )
            assert [(m["name"], m["conversation_id"]) for m in search["activated"]] == [
                ("生日", "default")
            ]


async def test_a_restart_finds_every_acknowledged_write(tmp_path: Path) -> None:
    count = 30
    with anyio.fail_after(90):
        async with Client(forked_server(tmp_path)) as client:
            for number in range(count):
                message = {
                    "role": "user",
                    "content": f"第{number}次聊到披萨",
                    "timestamp": 1_780_000_000_000 + number * DAY_MS,
                }
                await call(
                    client, "add_short_term_memory", messages=[message], conversation_id="小明"
                )
            await call(
                client,
                "add_long_term_memory",
                name="披萨",
                prompt="爱吃",
                trigger="match_keys(context.messages, ['披萨'])",
            )
        async with Client(forked_server(tmp_path)) as client:
            stats = await call(client, "get_memory_stats", conversation_id="小明")
            assert stats["total"] == count
            search = await call(
                client,
                "search_short_term_memories",
                recentMessages=[{"role": "user", "content": "披萨"}],
                conversation_id="小明",
            )
            assert len(search["topRelevant"]) == 2
            assert (await call(client, "list_long_term_memories"))["total"] == 1


async def test_two_clients_on_one_folder_lose_nothing(tmp_path: Path) -> None:
    writes_of_each = 20

    async def write(client: Client, who: str) -> None:
        for number in range(writes_of_each):
            await call(
                client,
                "add_short_term_memory",
                messages=[{"role": "user", "content": f"{who} {number}"}],
            )

    with anyio.fail_after(90):
        async with (
            Client(forked_server(tmp_path)) as first_client,
            Client(forked_server(tmp_path)) as second_client,
        ):
            async with anyio.create_task_group() as group:
                group.start_soon(write, first_client, "one")
                group.start_soon(write, second_client, "two")
            for client in (first_client, second_client):
                assert (await call(client, "get_memory_stats"))["total"] == 2 * writes_of_each


async def test_a_trigger_that_misbehaves_is_named_and_nobody_else_notices(tmp_path: Path) -> None:
    triggers = {
        "喜欢": "match_keys(context.messages, ['love']) > 0",
        "循环": "match_keys(context.messages, ['love']) > 0 && (() => { while (true) {} })()",
        "吞内存": "match_keys(context.messages, ['love']) > 0"
        " && (() => { const a = []; while (true) a.push(new Array(1e5).fill(1)) })()",
        "抛错": "match_keys(context.messages, ['love']) > 0 && context.participants.user.name",
        "生日": "match_keys(context.messages, ['birthday']) > 0",
    }
    with anyio.fail_after(90):
        async with Client(forked_server(tmp_path)) as client:
            # Two conversations: a trigger that is left less than its own second is not said to be in trouble.
            failed = {}
            trouble = {}
            for conversation, left_out in (("循环", "吞内存"), ("吞内存", "循环")):
                for name in triggers.keys() - {left_out}:
                    await call(
                        client,
                        "add_long_term_memory",
                        conversation_id=conversation,
                        name=name,
                        prompt="…",
                        trigger=triggers[name],
                    )
                search = await call(
                    client,
                    "search_long_term_memories",
                    conversation_id=conversation,
                    messages=PIZZA,
                )
                assert [memory["name"] for memory in search["activated"]] == ["喜欢"]
                failed |= {failure["name"]: failure["kind"] for failure in search["failed"]}
                listed = await call(client, "list_long_term_memories", conversation_id=conversation)
                trouble |= {
                    memory["name"]: memory["trouble"]
                    for memory in listed["memories"]
                    if "trouble" in memory
                }
            assert failed["循环"] == "timeout"
            assert failed["吞内存"] in ("out_of_memory", "timeout", "killed")
            assert failed["抛错"] == "thrown"
            assert set(failed) == {"循环", "吞内存", "抛错"}
            assert trouble["循环"] == "time-out x 1"
            assert set(trouble) == {"循环", "吞内存"}
            assert (await call(client, "get_memory_stats"))["total"] == 0


# --- the wire itself ---------------------------------------------------------------------------------------


class Wire:
    """A client made of lines, which sees every byte of standard output."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process
        self.lines: list[bytes] = []

    def ask(self, number: int, method: str, **params: Any) -> dict[str, Any]:
        self._send({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
        assert self.process.stdout is not None
        self.lines.append(self.process.stdout.readline())
        answer: dict[str, Any] = json.loads(self.lines[-1])
        assert answer["id"] == number
        return answer

    def connect(self) -> None:
        about = {"name": "wire", "version": "1"}
        self.ask(0, "initialize", protocolVersion="2025-06-18", capabilities={}, clientInfo=about)
        self._send({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def _send(self, message: dict[str, Any]) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(message).encode() + b"\n")
        self.process.stdin.flush()


@contextmanager
def wire(data_dir: Path, *flags: str, **environment: str) -> Iterator[Wire]:
    parameters = server(data_dir, *flags)
    with subprocess.Popen(
        [parameters.command, *parameters.args],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=os.environ | environment,
    ) as process:
        try:
            yield Wire(process)
        finally:
            process.kill()


def make_calls(client: Wire) -> None:
    """One call of each kind, refused ones among them."""
    client.connect()
    calls: list[tuple[str, dict[str, Any]]] = [
        ("add_short_term_memory", {"messages": [{"role": "user", "content": "中文 🎂 café"}]}),
        ("search_short_term_memories", {"recentMessages": PIZZA}),
        (
            "add_long_term_memory",
            {"name": "a", "prompt": "p", "trigger": "console.log('to nowhere'); true"},
        ),
        ("search_long_term_memories", {"messages": PIZZA}),
        ("cleanup_memories", {}),
        ("delete_short_term_memories", {"pattern": "/(/"}),
        ("add_short_term_memory", {"messages": 1}),
    ]
    for number, (tool, arguments) in enumerate(calls, 1):
        client.ask(number, "tools/call", name=tool, arguments=arguments)


def end(client: Wire) -> tuple[float, bytes, bytes]:
    """Close the server's input: seconds until it is gone, and what it still wrote."""
    began = time.monotonic()
    output, log = client.process.communicate(timeout=20)
    return time.monotonic() - began, output, log


@pytest.mark.parametrize(
    "level",
    [
        "DEBUG",
        *(pytest.param(level, marks=pytest.mark.full) for level in ("INFO", "WARNING", "ERROR")),
    ],
)
def test_standard_output_is_the_protocol_at_every_log_level(tmp_path: Path, level: str) -> None:
    with wire(tmp_path, "--log-level", level) as client:
        make_calls(client)
        seconds, output, log = end(client)
    assert output == b""
    assert all(json.loads(line)["jsonrpc"] == "2.0" for line in client.lines)
    assert all("level" in json.loads(line) for line in log.splitlines()), (
        "the log is one JSON object a line"
    )
    assert seconds < 2, "the end of input ends the process"
    assert client.process.returncode == 0


def test_the_locale_does_not_matter(tmp_path: Path) -> None:
    with wire(tmp_path, PYTHONIOENCODING="gbk", PYTHONUTF8="0", LC_ALL="C") as client:
        make_calls(client)
        stats = client.ask(99, "tools/call", name="get_memory_stats", arguments={})
        assert stats["result"]["structuredContent"]["total"] == 1
        end(client)
    end_shared()
    text = next(tmp_path.glob("*/short-term-memory.json")).read_text(encoding="utf-8")
    assert "中文 🎂 café" in text


def test_the_end_of_input_ends_the_process_though_a_trigger_loops(tmp_path: Path) -> None:
    loops = "match_keys(context.messages, ['love']) > 0 && (() => { while (true) {} })()"
    with wire(tmp_path) as client:
        client.connect()
        client.ask(
            1,
            "tools/call",
            name="add_long_term_memory",
            arguments={"name": "a", "prompt": "p", "trigger": loops},
        )
        client._send(
            {
                "jsonrpc": "2.0",
                "id": 2,
                "method": "tools/call",
                "params": {"name": "search_long_term_memories", "arguments": {"messages": PIZZA}},
            }
        )
        seconds, _, _ = end(client)
    assert seconds < 3
    assert client.process.returncode == 0
