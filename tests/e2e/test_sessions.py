"""One body of tests for every way to talk to the server: both protocol eras, in memory and over stdio."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from forked_sessions import forked_server
from jsonschema import Draft202012Validator
from mcp import Client, MCPError

from memory_server import open_memory
from memory_server.serving.server import build_server, instructions
from memory_server.tools import DEFAULT_TOOLS, TOOLS

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("process")]

ERAS = {"legacy": "2025-11-25", "auto": "2026-07-28"}
HELLO = [{"role": "user", "content": "我喜欢披萨 🍕"}]
TRIGGER = "match_keys(context.messages, ['披萨']) > 0"


@asynccontextmanager
async def in_memory(folder: Path, mode: str) -> AsyncIterator[Client]:
    async with (
        open_memory(folder) as app,
        Client(build_server(lambda _: app.call), mode=mode) as client,
    ):
        yield client


@asynccontextmanager
async def over_stdio(folder: Path, mode: str) -> AsyncIterator[Client]:
    async with Client(forked_server(folder), mode=mode) as client:
        yield client


@pytest.fixture(
    params=[(way, mode) for way in (in_memory, over_stdio) for mode in ERAS],
    ids=lambda p: f"{p[0].__name__}-{p[1]}",
)
def session(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    way, mode = request.param

    @asynccontextmanager
    async def opened() -> AsyncIterator[Client]:
        with anyio.fail_after(90):
            async with way(tmp_path, mode) as client:
                assert client.protocol_version == ERAS[mode], (
                    "the era under test is the one that is spoken"
                )
                yield client

    return opened


async def result_of(client: Client, name: str, /, **arguments: Any) -> dict[str, Any]:
    result = await client.call_tool(name, arguments)
    assert not result.is_error, result.content
    assert result.structured_content is not None
    Draft202012Validator(TOOLS[name].output_schema()).validate(result.structured_content)
    return result.structured_content


async def test_a_session(session: Any) -> None:
    async with session() as client:
        assert client.instructions == instructions()
        listed = (await client.list_tools()).tools
        assert [tool.name for tool in listed] == list(DEFAULT_TOOLS)
        assert all(tool.title and tool.annotations for tool in listed)

        receipt = await result_of(client, "add_short_term_memory", messages=HELLO)
        assert (await result_of(client, "get_memory_stats"))["total"] == 1
        await result_of(
            client, "add_long_term_memory", name="披萨", prompt="爱吃披萨", trigger=TRIGGER
        )
        search = await result_of(client, "search_long_term_memories", messages=HELLO)
        assert [memory["prompt"] for memory in search["activated"]] == ["爱吃披萨"]
        recalled = await result_of(client, "search_short_term_memories", recentMessages=HELLO)
        assert recalled["heldBack"]["tooRecent"] == 1
        assert receipt["changeId"]

        for name, arguments, sentence in (
            ("add_short_term_memory", {"message": HELLO}, "did you mean `messages`?"),
            ("delete_short_term_memories", {"pattern": "/(/"}, "Nothing was deleted"),
            ("no_such_tool", {}, "There is no tool `no_such_tool`"),
        ):
            refused = await client.call_tool(name, arguments)
            assert refused.is_error
            assert sentence in refused.content[0].text
            assert refused.structured_content is None
        with pytest.raises(MCPError) as unknown:
            await client.read_resource("memory://nothing/of/the/kind")
        assert unknown.value.error.code in (-32602, -32002)
        assert (await result_of(client, "get_memory_stats"))["total"] == 1


async def test_a_hundred_calls_at_once(session: Any) -> None:
    async with session() as client:

        async def one(number: int) -> None:
            messages = [{"role": "user", "content": f"披萨 {number}"}]
            await result_of(
                client,
                "add_short_term_memory",
                messages=messages,
                conversation_id=f"room {number % 3}",
            )
            await result_of(client, "list_long_term_memories")

        async with anyio.create_task_group() as group:
            for number in range(50):
                group.start_soon(one, number)
        totals = [
            (await result_of(client, "get_memory_stats", conversation_id=f"room {n}"))["total"]
            for n in range(3)
        ]
        assert totals == [17, 17, 16]


async def test_a_call_that_is_given_up_does_not_end_the_session(session: Any) -> None:
    loops = f"{TRIGGER} && (() => {{ while (true) {{}} }})()"
    async with session() as client:
        await result_of(client, "add_long_term_memory", name="循环", prompt="p", trigger=loops)
        with anyio.move_on_after(0.2) as given_up:
            await client.call_tool("search_long_term_memories", {"messages": HELLO})
        assert given_up.cancelled_caught
        assert (await result_of(client, "list_long_term_memories"))["total"] == 1
