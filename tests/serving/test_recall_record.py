"""What clients over MCP recall is recorded with their name, by tools and by the prompt, and after the answer."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from http_server import TOKEN, Asker, serving
from mcp import Client
from mcp_types import Implementation
from passing_recalls import PassingRecalls

from memory_server import open_memory
from memory_server.memories.recalls import Recalls
from memory_server.serving.server import build_server
from memory_server.storage.small_files import RecallFiles

pytestmark = pytest.mark.anyio
TURN = [{"role": "user", "content": "下周三是我生日，想吃披萨"}]
QUESTION = [{"role": "user", "content": "生日吃什么披萨？"}]


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_each_way_to_recall_is_a_line(tmp_path: Path, mode: Any) -> None:
    about = Implementation(name="a-client", version="1")
    async with (
        open_memory(tmp_path) as app,
        Client(build_server(lambda _: app.call), mode=mode, client_info=about) as client,
    ):
        await client.call_tool("remember_turn", {"messages": TURN})
        await client.call_tool("recall_turn", {"messages": QUESTION})
        await client.call_tool(
            "search_short_term_memories", {"recentMessages": QUESTION, "conversation_id": "b"}
        )
        await client.call_tool("search_long_term_memories", {"messages": QUESTION})
        await client.get_prompt("recall-context", {"current_topic": "生日"})
        lines = [recall.line for recall in app.recalls.found()]
    assert [line["by"] for line in lines] == ["tool"] * 4
    assert {line.get("client") for line in lines} == {"a-client"}
    assert [line["conversation"] for line in lines].count("b") == 1
    held_back = [line.get("held") for line in lines if line["said"] == "生日吃什么披萨？"]
    assert {"too_recent": 1} in held_back


async def test_a_line_is_written_soon_after_the_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    has_written = asyncio.Event()
    loop = asyncio.get_running_loop()
    write = Recalls.write

    def write_and_tell(recalls: Recalls) -> None:
        write(recalls)
        loop.call_soon_threadsafe(has_written.set)

    monkeypatch.setattr(Recalls, "write", write_and_tell)
    async with open_memory(tmp_path) as app, Client(build_server(lambda _: app.call)) as client:
        await client.call_tool("remember_turn", {"messages": TURN})
        await client.call_tool("recall_turn", {"messages": QUESTION})
        assert app.home.recalls.lines() == [], "the caller did not wait for it"
        async with asyncio.timeout(30):
            await has_written.wait()
        assert len(app.home.recalls.lines()) == 1


async def test_a_record_that_cannot_be_written_does_no_harm(tmp_path: Path) -> None:
    async with open_memory(tmp_path) as app, Client(build_server(lambda _: app.call)) as client:
        await client.call_tool("remember_turn", {"messages": TURN})
        (tmp_path / ".memory-server").mkdir(exist_ok=True)
        (tmp_path / ".memory-server" / "recalls").write_text("in the way")
        answer = await client.call_tool("recall_turn", {"messages": QUESTION})
        assert not answer.is_error
        app.recalls.write()


async def test_upkeep_removes_what_is_too_old(tmp_path: Path) -> None:
    async with open_memory(tmp_path) as app, Client(build_server(lambda _: app.call)) as client:
        await client.call_tool("remember_turn", {"messages": TURN})
        await client.call_tool("recall_turn", {"messages": QUESTION})
        app.recalls.write()
        [line] = app.home.recalls.lines()
        app.home.recalls.append(line | {"id": "old", "at": "2020-01-01T00:00:00.000Z"})
        await app.maintenance.run_if_due()
        assert app.home.recalls.lines() == [line]


async def test_over_http_rest_and_tools_are_told_apart(tmp_path: Path) -> None:
    with serving(tmp_path / "data", http__token=TOKEN) as server:
        asker = Asker(server.url)
        assert asker.call("remember_turn", {"messages": TURN}).status_code == 200
        assert asker.call("recall_turn", {"messages": QUESTION}).status_code == 200
        params = {"name": "recall_turn", "arguments": {"messages": QUESTION}}
        assert asker.mcp("2025-11-25", "tools/call", params).status_code == 200
        server.end()
    rest_line, tool_line = RecallFiles(tmp_path / "data").lines()
    assert (rest_line["by"], tool_line["by"]) == ("REST", "tool")
    assert "cwd" not in rest_line | tool_line


def test_notes_of_a_loop_that_ended_are_written_with_those_of_the_next() -> None:
    record = PassingRecalls()
    recalls = Recalls(record, lambda: 0, 30, lambda: True, 1.0)

    async def noted(number: int) -> None:
        recalls.note(lambda at: {"id": str(number), "at": at, "conversation": "chat"})

    async def noted_and_written(number: int) -> None:
        await noted(number)
        async with asyncio.timeout(60):
            while not record.lines():  # noqa: ASYNC110 - nobody tells
                await asyncio.sleep(0.01)

    asyncio.run(noted(1))
    assert record.lines() == []
    asyncio.run(noted_and_written(2))
    assert [line["id"] for line in record.lines()] == ["1", "2"]


async def test_a_line_that_cannot_be_made_takes_no_other_with_it() -> None:
    record = PassingRecalls()
    recalls = Recalls(record, lambda: 0, 30, lambda: True, 60.0)
    recalls.note(lambda at: {"id": "1", "at": at, "conversation": "chat"})
    recalls.note(lambda at: {}["missing"])
    with pytest.raises(KeyError):
        recalls.write()
    assert [line["id"] for line in record.lines()] == ["1"]
