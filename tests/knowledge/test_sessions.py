"""Memories of several users: what each tool does, and that no user ever sees anything of another one."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from knowledge.conftest import Clock
from mcp import Client
from tools.test_over_mcp import ERAS
from users_apart import WORDS, World

from memory_server.config import Settings
from memory_server.kernel.errors import InvalidInput
from memory_server.knowledge.lifecycle import KnowledgeLifecycle
from memory_server.knowledge.service import Knowledge
from memory_server.knowledge.sessions.ids import FIELDS, RequestInfo, named
from memory_server.knowledge.sessions.sessions import SessionOptions, Sessions
from memory_server.memories.memories import Call
from memory_server.runtime.app import App
from memory_server.serving.server import build_server
from memory_server.storage.entries.sqlite_store import SqliteStore
from memory_server.tools import TOOLS, TOOLSETS
from memory_server.tools.base.tool import ToolFailed, call

pytestmark = pytest.mark.anyio
NO_MODEL = "no model is configured; set llm.providers"


@pytest.fixture
async def app(tmp_path: Path) -> AsyncIterator[App]:
    async with App(Settings.model_validate({"data_dir": tmp_path})) as opened_app:
        yield opened_app


async def answer_of(call_of_tool: Call, tool: str, **arguments: Any) -> dict[str, Any]:
    return (await call(TOOLS[tool], call_of_tool, arguments)).structured


async def refused(call_of_tool: Call, tool: str, **arguments: Any) -> str:
    with pytest.raises(ToolFailed) as failure:
        await call(TOOLS[tool], call_of_tool, arguments)
    return str(failure.value)


def contents(result: dict[str, Any]) -> list[str]:
    return [row["content"] for row in result["memories"]]


async def test_a_memory_from_its_beginning_to_its_end(app: App) -> None:
    context = app.call
    added = await answer_of(
        context, "memory_add", messages="对花生过敏", user_id="alice", metadata={"topic": "food"}
    )
    (memory,) = added["memories"]
    assert memory["id"] == 1
    assert memory["event"] == "ADD"
    assert memory["origin"] == "stated"
    assert added["mode_used"] == "direct"
    assert added["reason"] == NO_MODEL
    assert added["changeId"] == "k1"
    assert added["session"] == {"user_id": "alice", "sources": {"user_id": "argument"}}
    results = await answer_of(context, "memory_search", query="花生", user_id="alice")
    assert contents(results) == ["对花生过敏"]
    assert results["memories"][0]["score"] == 1.0
    assert results["search_type_used"] == "text"
    assert results["memories"][0]["why"] == "花生 in content, relevance 1.00"
    assert results["memories"][0]["metadata"] == {"topic": "food"}
    bare = await answer_of(
        context, "memory_search", query="花生", user_id="alice", include_metadata=False
    )
    assert "metadata" not in bare["memories"][0]
    changed = await answer_of(
        context, "memory_update", memory_id=1, data="对花生不过敏", user_id="alice"
    )
    assert changed["memory"]["content"] == "对花生不过敏"
    assert changed["memory"]["metadata"] == {"topic": "food"}
    deletion = await answer_of(context, "memory_delete", memory_id=1, user_id="alice")
    assert deletion["memory"]["content"] == "对花生不过敏"
    assert deletion["memory"]["event"] == "DELETE"
    assert (await answer_of(context, "memory_search", query="花生", user_id="alice"))[
        "memories"
    ] == []
    assert await refused(context, "memory_delete", memory_id=1, user_id="alice") == (
        "Memory 1 is not in this session; memory_search and memory_get_all show those that are."
    )
    await KnowledgeLifecycle(app.knowledge).undo(deletion["changeId"])
    assert contents(await answer_of(context, "memory_get_all", user_id="alice")) == ["对花生不过敏"]
    history = (await answer_of(context, "memory_get_history", user_id="alice"))["operations"]
    assert [operation["operation"] for operation in history] == [
        *("get_all", "undo", "delete", "search", "delete", "update", "search", "search", "add")
    ]
    assert [operation["id"] for operation in history if operation["status"] == "failed"] == [
        history[2]["id"]
    ]
    assert history[2]["memory_ids"] == [1]
    assert history[-1]["session"] == {"user_id": "alice", "sources": {"user_id": "argument"}}
    await answer_of(context, "memory_init_session", metadata={"channel": "phone"})
    await answer_of(context, "memory_search", query="花生")
    await refused(context, "memory_delete", memory_id=1)
    operations = (await answer_of(context, "memory_get_history"))["operations"]
    assert [(operation["operation"], operation["status"]) for operation in operations] == [
        ("delete", "failed"),
        ("search", "done"),
    ]
    await answer_of(context, "memory_add", messages="x")
    (latest,) = (await answer_of(context, "memory_get_history", limit=1))["operations"]
    assert latest["session"]["metadata"] == {"channel": "phone"}
    assert "花生" not in json.dumps(history, ensure_ascii=False), "the history has no texts"


SECRET = "my key is hunter2"
REFUSED: list[tuple[str, dict[str, Any], str]] = [
    ("memory_delete", {"memory_id": True}, "The argument memory_id was refused."),
    ("memory_search", {"query": "x", "limit": 101}, "The argument limit was refused."),
    ("memory_delete_all", {"confirm": "yes"}, "The argument confirm was refused."),
    ("memory_add", {"messages": ""}, "The argument messages was refused."),
    ("memory_add", {"messages": {"content": SECRET}}, "The argument messages was refused."),
    ("memory_add", {"messages": "x", SECRET: 1}, "The argument ? was refused."),
    ("memory_update", {"memory_id": 1}, "The argument data was refused."),
    ("memory_get_all", {"agent_id": " "}, "The agent_id is empty; give a name, or leave it out."),
    ("memory_add", {"messages": "x", "agent_id": "*"}, "`*` as agent_id is for reading only"),
    ("memory_init_session", {"metadata": 7}, "The argument metadata was refused."),
    ("memory_get_history", {"limit": 0}, "The argument limit was refused."),
    ("memory_get_stats", {"run_id": 7}, "The argument run_id was refused."),
]


@pytest.mark.parametrize(("tool", "arguments", "error"), REFUSED)
async def test_a_refused_call_is_in_the_history_and_the_figures_without_what_was_written(
    app: App, caplog: pytest.LogCaptureFixture, tool: str, arguments: dict[str, Any], error: str
) -> None:
    assert tool in {tool_of_sessions.name for tool_of_sessions in TOOLSETS["sessions"]}
    with caplog.at_level("DEBUG"):
        await refused(app.call, tool, user_id="ann", **arguments)
    assert f"{tool} was refused" in caplog.text
    (row,) = (await answer_of(app.call, "memory_get_history", user_id="ann"))["operations"]
    assert row["operation"] == tool.removeprefix("memory_")
    assert row["by"] == tool
    assert row["status"] == "failed"
    assert row["error"].startswith(error)
    figures = (await answer_of(app.call, "memory_get_stats", user_id="ann"))["operations"]
    assert figures[row["operation"]]["count"] == 1
    assert figures[row["operation"]]["errors"] == 1
    assert SECRET not in json.dumps(row) + caplog.text
    assert (await answer_of(app.call, "memory_get_history", user_id="bob"))["operations"] == []


@pytest.mark.parametrize("user", ["", " ", 7, "a\nb"])
async def test_a_refusal_of_a_user_that_cannot_be_is_in_the_history_of_nobody(
    app: App, user: Any
) -> None:
    await refused(app.call, "memory_search", query="x", user_id=user)
    assert (await answer_of(app.call, "memory_get_history"))["operations"] == []


async def test_each_tool_of_sessions_notes_what_it_refuses() -> None:
    assert [tool.name for tool in TOOLSETS["sessions"] if tool.note_refusal is None] == []


async def test_the_sources_of_ids_are_counted(app: App) -> None:
    await answer_of(app.call, "memory_add", messages="x")
    await answer_of(app.call, "memory_init_session", user_id="ann", agent_id="cook")
    await answer_of(app.call, "memory_add", messages="x")
    await answer_of(app.call, "memory_search", query="x", agent_id="maid")
    await answer_of(app.call, "memory_search", query="x", user_id="ann")
    figures = await answer_of(app.call, "memory_get_stats", agent_id="*")
    assert figures["sources"] == {
        "agent_id": {"argument": 1, "overridden": 1, "session": 2},
        "user_id": {"argument": 1, "session": 2},
    }
    counted = app.call.memories.services.meter.family("sessions")
    assert counted["user_id_from_setting"] == 1
    assert counted["agent_id_overridden"] == 2


async def test_messages_are_stored_one_by_one(app: App) -> None:
    messages = [
        {"role": "system", "content": "You are helpful"},
        {"role": "user", "content": "I live in Bonn <private>at number 7</private>", "name": "Ann"},
        {"role": "assistant", "content": "Noted", "timestamp": 1_700_000_000_000},
        {"role": "user", "content": "<private>all of it</private>"},
    ]
    added = await answer_of(
        app.call, "memory_add", messages=messages, mode="direct", metadata={"topic": "home"}
    )
    assert contents(added) == ["I live in Bonn", "Noted"]
    assert [row["metadata"] for row in added["memories"]] == [
        {"role": "user", "name": "Ann", "topic": "home"},
        {"role": "assistant", "timestamp": 1_700_000_000_000, "topic": "home"},
    ]
    assert "reason" not in added
    for nothing in (messages[:1], messages[3:]):
        assert "No text to keep" in await refused(app.call, "memory_add", messages=nothing)


async def test_pages_go_on_until_the_end_and_fit_into_a_result(tmp_path: Path) -> None:
    settings = Settings.model_validate({"data_dir": tmp_path, "results": {"max_bytes": 4000}})
    async with App(settings) as app:
        for number in range(40):
            await answer_of(app.call, "memory_add", messages=f"{number} " + "长" * 100)
        ids_seen: list[int] = []
        while True:
            page = await answer_of(app.call, "memory_get_all", offset=len(ids_seen), limit=30)
            assert page["total"] == 40
            assert "truncated" not in page
            ids_seen += [row["id"] for row in page["memories"]]
            if not page["has_more"]:
                break
        assert ids_seen == list(range(40, 0, -1))


async def test_delete_all_must_be_confirmed_and_is_one_change(app: App) -> None:
    for agent in ("a", "b"):
        await answer_of(app.call, "memory_add", messages=f"of {agent}", agent_id=agent)
    assert "This would delete 2 memories; to delete them, give confirm: true." in await refused(
        app.call, "memory_delete_all", confirm=False
    )
    assert "`confirm` is missing" in await refused(app.call, "memory_delete_all")
    deletion = await answer_of(app.call, "memory_delete_all", confirm=True, agent_id="a")
    assert deletion["deletedCount"] == 1
    assert contents(await answer_of(app.call, "memory_get_all")) == ["of b"]
    await KnowledgeLifecycle(app.knowledge).undo(deletion["changeId"])
    assert (await answer_of(app.call, "memory_delete_all", confirm=True))["deletedCount"] == 2
    assert (await answer_of(app.call, "memory_delete_all", confirm=True))["deletedCount"] == 0
    counts = await answer_of(app.call, "memory_get_stats")
    assert counts["count"] == 0
    assert counts["archived"] == 2
    assert counts["storage_bytes"] == 0
    assert counts["operations"]["delete_all"]["count"] == 5
    assert counts["operations"]["delete_all"]["errors"] == 2, "not confirmed, and without `confirm`"


async def test_agents_and_runs_narrow_what_is_read_and_changed(app: App) -> None:
    context = app.call
    for agent, run in (("a", "1"), ("a", "2"), ("b", "1"), (None, None)):
        await answer_of(
            context, "memory_add", messages=f"tea of {agent} {run}", agent_id=agent, run_id=run
        )
    assert len(contents(await answer_of(context, "memory_search", query="tea", agent_id="a"))) == 2
    assert contents(
        await answer_of(context, "memory_search", query="tea", agent_id="a", run_id="2")
    ) == ["tea of a 2"]
    assert len(contents(await answer_of(context, "memory_get_all"))) == 4
    await answer_of(context, "memory_init_session", agent_id="b")
    assert contents(await answer_of(context, "memory_get_all")) == ["tea of b 1"]
    assert len(contents(await answer_of(context, "memory_get_all", agent_id="*"))) == 4
    assert "is not in this session" in await refused(context, "memory_delete", memory_id=1)
    assert "`*` as agent_id is for reading only" in await refused(
        context, "memory_add", messages="x", agent_id="*"
    )
    counts = await answer_of(context, "memory_get_stats", agent_id="*")
    assert counts["by_agent"] == {"a": 2, "b": 1}
    assert counts["by_run"] == {"1": 2, "2": 1}
    operations = (await answer_of(context, "memory_get_history"))["operations"]
    assert {operation["session"]["agent_id"] for operation in operations} == {"b"}


async def test_a_session_tells_what_is_set_and_where_from(app: App) -> None:
    usual = await answer_of(app.call, "memory_init_session")
    assert usual["session"] == {"user_id": "default_user", "sources": {"user_id": "setting"}}
    begun = await answer_of(
        app.call, "memory_init_session", user_id="alice", run_id="r", metadata={"channel": "phone"}
    )
    assert begun["session"]["metadata"] == {"channel": "phone"}
    begun = await answer_of(app.call, "memory_init_session", agent_id="coder")
    assert begun["session"]["sources"] == {
        "user_id": "session",
        "agent_id": "session",
        "run_id": "session",
    }
    mixed = await answer_of(app.call, "memory_add", messages="x", user_id="bob")
    assert mixed["session"] == {"user_id": "bob", "sources": {"user_id": "argument"}}, (
        "not alice's agent"
    )
    of_bob = await answer_of(app.call, "memory_init_session", user_id="bob")
    assert of_bob["session"] == {"user_id": "bob", "sources": {"user_id": "session"}}


async def test_what_was_begun_holds_for_its_own_connection(tmp_path: Path, clock: Clock) -> None:
    """Each window of a shared process has a view, so sessions, of its own."""
    async with App(Settings.model_validate({"data_dir": tmp_path})) as owner:
        windows = [owner.view(owner.settings, folder=tmp_path) for _ in range(2)]
        async with windows[0] as first, windows[1] as second:
            await answer_of(first.call, "memory_init_session", user_id="alice")
            assert (await answer_of(first.call, "memory_add", messages="tea"))["session"][
                "user_id"
            ] == "alice"
            assert (await answer_of(second.call, "memory_get_stats"))["session"][
                "user_id"
            ] == "default_user"
    sessions = Sessions(SqliteStore(tmp_path / "k", clock), clock)
    passing = RequestInfo(lasts=False)
    with pytest.raises(InvalidInput, match="Connections do not last here; send X-Memory-User-ID"):
        sessions.begin(named("x"), passing)
    sessions.begin(named("user of the process"))
    assert sessions.caller(named(), passing).user_id == "default_user", "not that of the process"
    assert sessions.caller(named(), RequestInfo(headers=named("of header"))).sources == {
        "user_id": "header"
    }
    await sessions.store.aclose()


@pytest.mark.parametrize("era", ["direct", *ERAS])
@pytest.mark.parametrize("calls", [200, pytest.param(10_000, marks=pytest.mark.full)])
async def test_no_tool_shows_anything_of_another_user(tmp_path: Path, calls: int, era: str) -> None:
    """Called directly, and over MCP in both eras; `tests/http/test_http_sessions.py` has it over HTTP."""
    async with AsyncExitStack() as stack:
        settings = {
            "data_dir": tmp_path,
            "toolsets": "sessions",
            "knowledge": {"durability": "normal"},
        }
        app = await stack.enter_async_context(App(Settings.model_validate(settings)))
        world = World(partial(answer_of, app.call), calls)
        if era in ERAS:
            tools = {tool.name: tool for tool in TOOLSETS["sessions"]}
            client = Client(build_server(lambda _: app.call, lambda: tools), mode=era)
            world.said = partial(over_mcp, await stack.enter_async_context(client))
        while world.calls < calls:
            await world.step()
    assert world.leaks == []


async def over_mcp(client: Client, tool: str, **arguments: Any) -> dict[str, Any]:
    result = await client.call_tool(tool, arguments)
    if result.is_error:
        raise ToolFailed("".join(getattr(part, "text", "") for part in result.content))
    assert result.structured_content is not None
    return result.structured_content


async def test_what_others_hold_does_not_change_what_is_found(tmp_path: Path, clock: Clock) -> None:
    async def results(name: str, others: int) -> list[tuple[str, float]]:
        knowledge = Knowledge(
            SqliteStore(tmp_path / name, clock),
            clock,
            session_options=SessionOptions(user_id="alice", least_share=0),
        )
        sessions = knowledge.sessions
        draw = random.Random(5)
        alice = sessions.caller(named())
        for number in range(60):
            await sessions.add(alice, " ".join(draw.sample(WORDS, 3)) + f" {number}")
            for user in range(others):
                await sessions.add(
                    sessions.caller(named(f"user {user}")), " ".join(draw.sample(WORDS * 2, 3))
                )
            draw.seed(number)
        matches = await sessions.search(alice, "tea 披萨 red")
        await knowledge.aclose()
        return [(hit.entry.body, round(hit.score, 9)) for hit in matches.hits]

    alone = {body for body, _ in await results("alone", 0)}
    beside = {body for body, _ in await results("beside", 3)}
    assert len(alone) > 20
    assert alone == beside


async def test_other_words_find_memories_after_those_of_the_query(app: App) -> None:
    for text in ("takes 曲唑酮 every evening", "asked for a sleeping pill", "likes 披萨"):
        await answer_of(app.call, "memory_add", messages=text, user_id="alice", mode="direct")
    await answer_of(app.call, "memory_add", messages="曲唑酮 of bob", user_id="bob", mode="direct")
    plain = await answer_of(app.call, "memory_search", query="sleeping pill", user_id="alice")
    assert contents(plain) == ["asked for a sleeping pill"]
    assert contents(
        await answer_of(
            app.call, "memory_search", query="sleeping pill", otherWords=[], user_id="alice"
        )
    ) == ["asked for a sleeping pill"]
    words = "trazodone, 曲唑酮"  # some models write a list as one text
    more = await answer_of(
        app.call, "memory_search", query="sleeping pill", otherWords=words, user_id="alice"
    )
    assert contents(more) == ["asked for a sleeping pill", "takes 曲唑酮 every evening"]
    assert more["memories"][0] == plain["memories"][0]
    assert more["memories"][1]["why"].startswith("曲唑酮 (given by the caller) in content")
    assert more["total"] == 2
    history = (await answer_of(app.call, "memory_get_history", user_id="alice"))["operations"]
    assert "曲唑酮" not in str(history)


async def test_a_hundred_at_once(app: App) -> None:
    adds = [
        answer_of(app.call, "memory_add", messages=f"tea {number}", user_id=f"user {number % 10}")
        for number in range(100)
    ]
    ids = [answer["memories"][0]["id"] for answer in await asyncio.gather(*adds)]
    assert len(set(ids)) == 100
    searches = [
        answer_of(app.call, "memory_search", query="tea", user_id=f"user {number % 10}")
        for number in range(100)
    ]
    assert {answer["total"] for answer in await asyncio.gather(*searches)} == {10}
    update = {"memory_id": ids[0], "user_id": "user 0"}
    changes = [
        answer_of(app.call, "memory_update", data=f"new {number}", **update) for number in range(20)
    ]
    await asyncio.gather(*changes)
    history = (await answer_of(app.call, "memory_get_history", user_id="user 0", limit=100))[
        "operations"
    ]
    assert sum(operation["operation"] == "update" for operation in history) == 20


async def test_what_is_read_only_changes_nothing(tmp_path: Path) -> None:
    async with App(Settings.model_validate({"data_dir": tmp_path})) as app:
        await answer_of(app.call, "memory_add", messages="tea")
    before = (tmp_path / ".memory-server" / "knowledge.sqlite3").read_bytes()
    async with App(Settings.model_validate({"data_dir": tmp_path, "read_only": True})) as app:
        assert contents(await answer_of(app.call, "memory_search", query="tea")) == ["tea"]
        assert "read_only" in await refused(app.call, "memory_add", messages="x")
    assert (tmp_path / ".memory-server" / "knowledge.sqlite3").read_bytes() == before


async def test_headers_reach_the_tools(app: App) -> None:
    context = replace(app.call, wire=RequestInfo(headers=named("小明", "phone"), lasts=False))
    added = await answer_of(context, "memory_add", messages="x")
    assert added["session"]["sources"] == {"user_id": "header", "agent_id": "header"}
    assert added["memories"][0]["user_id"] == "小明"


@pytest.mark.parametrize("field", FIELDS)
async def test_over_stdio_each_id_comes_from_the_first_source(tmp_path: Path, field: str) -> None:
    """One connection, the process, and no headers: arguments, what was begun, settings."""
    settings = {"data_dir": tmp_path, "sessions": {name: f"setting-{name}" for name in FIELDS}}
    users = {}
    if field != "user_id":
        users = {"user_id": "setting-user_id"}
    async with App(Settings.model_validate(settings)) as app:

        async def who(**arguments: str) -> tuple[str, str]:
            session = (await answer_of(app.call, "memory_get_stats", **users | arguments))[
                "session"
            ]
            return session[field], session["sources"][field]

        assert await who() == (f"setting-{field}", "setting")
        await answer_of(app.call, "memory_init_session", **users | {field: f"session-{field}"})
        assert await who() == (f"session-{field}", "session")
        assert await who(**{field: f"argument-{field}"}) == (f"argument-{field}", "argument")
