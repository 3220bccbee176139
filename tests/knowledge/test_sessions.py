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

from memory_server.app import App, Shared
from memory_server.config import Settings
from memory_server.kernel.errors import InvalidInput
from memory_server.knowledge.service import Knowledge
from memory_server.knowledge.sessions.ids import FIELDS, RequestInfo, named
from memory_server.knowledge.sessions.sessions import SessionOptions, Sessions
from memory_server.memories.memories import Call
from memory_server.serving.server import build_server
from memory_server.storage.entries.sqlite_store import SqliteStore
from memory_server.tools import TOOLS, TOOLSETS
from memory_server.tools.base.tool import ToolFailed, call

pytestmark = pytest.mark.anyio
NO_MODEL = "no model is configured; set llm.providers"


@pytest.fixture
async def app(tmp_path: Path) -> AsyncIterator[App]:
    async with App(Settings.model_validate({"data_dir": tmp_path})) as made:
        yield made


async def said(given: Call, tool: str, **arguments: Any) -> dict[str, Any]:
    return (await call(TOOLS[tool], given, arguments)).structured


async def refused(given: Call, tool: str, **arguments: Any) -> str:
    with pytest.raises(ToolFailed) as failure:
        await call(TOOLS[tool], given, arguments)
    return str(failure.value)


def contents(result: dict[str, Any]) -> list[str]:
    return [each["content"] for each in result["memories"]]


async def test_a_memory_from_its_beginning_to_its_end(app: App) -> None:
    context = app.call
    added = await said(context, "memory_add", messages="对花生过敏", user_id="alice", metadata={"topic": "food"})
    (memory,) = added["memories"]
    assert (memory["id"], memory["event"], memory["origin"]) == (1, "ADD", "stated")
    assert (added["mode_used"], added["reason"], added["changeId"]) == ("direct", NO_MODEL, "k1")
    assert added["session"] == {"user_id": "alice", "sources": {"user_id": "argument"}}
    found = await said(context, "memory_search", query="花生", user_id="alice")
    assert contents(found) == ["对花生过敏"]
    assert (found["memories"][0]["score"], found["search_type_used"]) == (1.0, "text")
    assert found["memories"][0]["why"] == "花生 in content, relevance 1.00"
    assert found["memories"][0]["metadata"] == {"topic": "food"}
    bare = await said(context, "memory_search", query="花生", user_id="alice", include_metadata=False)
    assert "metadata" not in bare["memories"][0]
    changed = await said(context, "memory_update", memory_id=1, data="对花生不过敏", user_id="alice")
    assert (changed["memory"]["content"], changed["memory"]["metadata"]) == ("对花生不过敏", {"topic": "food"})
    gone = await said(context, "memory_delete", memory_id=1, user_id="alice")
    assert (gone["memory"]["content"], gone["memory"]["event"]) == ("对花生不过敏", "DELETE")
    assert (await said(context, "memory_search", query="花生", user_id="alice"))["memories"] == []
    assert await refused(context, "memory_delete", memory_id=1, user_id="alice") == (
        "Memory 1 is not in this session; memory_search and memory_get_all show those that are."
    )
    await app.knowledge.lifecycle.undo(gone["changeId"])
    assert contents(await said(context, "memory_get_all", user_id="alice")) == ["对花生不过敏"]
    history = (await said(context, "memory_get_history", user_id="alice"))["operations"]
    assert [each["operation"] for each in history] == [
        *("get_all", "undo", "delete", "search", "delete", "update", "search", "search", "add")
    ]
    assert [each["id"] for each in history if each["status"] == "failed"] == [history[2]["id"]]
    assert history[2]["memory_ids"] == [1]
    assert history[-1]["session"] == {"user_id": "alice", "sources": {"user_id": "argument"}}
    await said(context, "memory_init_session", metadata={"channel": "phone"})
    await said(context, "memory_search", query="花生")
    await refused(context, "memory_delete", memory_id=1)
    done = (await said(context, "memory_get_history"))["operations"]
    assert [(each["operation"], each["status"]) for each in done] == [("delete", "failed"), ("search", "done")]
    await said(context, "memory_add", messages="x")
    (latest,) = (await said(context, "memory_get_history", limit=1))["operations"]
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
    assert tool in {each.name for each in TOOLSETS["sessions"]}
    with caplog.at_level("DEBUG"):
        await refused(app.call, tool, user_id="ann", **arguments)
    assert f"{tool} was refused" in caplog.text
    (row,) = (await said(app.call, "memory_get_history", user_id="ann"))["operations"]
    assert (row["operation"], row["by"], row["status"]) == (tool.removeprefix("memory_"), tool, "failed")
    assert row["error"].startswith(error)
    figures = (await said(app.call, "memory_get_stats", user_id="ann"))["operations"]
    assert (figures[row["operation"]]["count"], figures[row["operation"]]["errors"]) == (1, 1)
    assert SECRET not in json.dumps(row) + caplog.text
    assert (await said(app.call, "memory_get_history", user_id="bob"))["operations"] == []


@pytest.mark.parametrize("user", ["", " ", 7, "a\nb"])
async def test_a_refusal_of_a_user_that_cannot_be_is_in_the_history_of_nobody(app: App, user: Any) -> None:
    await refused(app.call, "memory_search", query="x", user_id=user)
    assert (await said(app.call, "memory_get_history"))["operations"] == []


async def test_each_tool_of_sessions_notes_what_it_refuses() -> None:
    assert [each.name for each in TOOLSETS["sessions"] if each.note_refusal is None] == []


async def test_the_sources_of_ids_are_counted(app: App) -> None:
    await said(app.call, "memory_add", messages="x")
    await said(app.call, "memory_init_session", user_id="ann", agent_id="cook")
    await said(app.call, "memory_add", messages="x")
    await said(app.call, "memory_search", query="x", agent_id="maid")
    await said(app.call, "memory_search", query="x", user_id="ann")
    figures = await said(app.call, "memory_get_stats", agent_id="*")
    assert figures["sources"] == {
        "agent_id": {"argument": 1, "overridden": 1, "session": 2},
        "user_id": {"argument": 1, "session": 2},
    }
    counted = app.call.memories.services.meter.family("sessions")
    assert (counted["user_id_from_setting"], counted["agent_id_overridden"]) == (1, 2)


async def test_messages_are_stored_one_by_one(app: App) -> None:
    messages = [
        {"role": "system", "content": "You are helpful"},
        {"role": "user", "content": "I live in Bonn <private>at number 7</private>", "name": "Ann"},
        {"role": "assistant", "content": "Noted", "timestamp": 1_700_000_000_000},
        {"role": "user", "content": "<private>all of it</private>"},
    ]
    added = await said(app.call, "memory_add", messages=messages, mode="direct", metadata={"topic": "home"})
    assert contents(added) == ["I live in Bonn", "Noted"]
    assert [each["metadata"] for each in added["memories"]] == [
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
            await said(app.call, "memory_add", messages=f"{number} " + "长" * 100)
        seen: list[int] = []
        while True:
            page = await said(app.call, "memory_get_all", offset=len(seen), limit=30)
            assert page["total"] == 40
            assert "truncated" not in page
            seen += [each["id"] for each in page["memories"]]
            if not page["has_more"]:
                break
        assert seen == list(range(40, 0, -1))


async def test_delete_all_must_be_confirmed_and_is_one_change(app: App) -> None:
    for agent in ("a", "b"):
        await said(app.call, "memory_add", messages=f"of {agent}", agent_id=agent)
    assert "This would delete 2 memories; to delete them, give confirm: true." in await refused(
        app.call, "memory_delete_all", confirm=False
    )
    assert "`confirm` is missing" in await refused(app.call, "memory_delete_all")
    gone = await said(app.call, "memory_delete_all", confirm=True, agent_id="a")
    assert gone["deletedCount"] == 1
    assert contents(await said(app.call, "memory_get_all")) == ["of b"]
    await app.knowledge.lifecycle.undo(gone["changeId"])
    assert (await said(app.call, "memory_delete_all", confirm=True))["deletedCount"] == 2
    assert (await said(app.call, "memory_delete_all", confirm=True))["deletedCount"] == 0
    counts = await said(app.call, "memory_get_stats")
    assert (counts["count"], counts["archived"], counts["storage_bytes"]) == (0, 2, 0)
    assert counts["operations"]["delete_all"]["count"] == 5
    assert counts["operations"]["delete_all"]["errors"] == 2, "not confirmed, and without `confirm`"


async def test_agents_and_runs_narrow_what_is_read_and_changed(app: App) -> None:
    context = app.call
    for agent, run in (("a", "1"), ("a", "2"), ("b", "1"), (None, None)):
        await said(context, "memory_add", messages=f"tea of {agent} {run}", agent_id=agent, run_id=run)
    assert len(contents(await said(context, "memory_search", query="tea", agent_id="a"))) == 2
    assert contents(await said(context, "memory_search", query="tea", agent_id="a", run_id="2")) == ["tea of a 2"]
    assert len(contents(await said(context, "memory_get_all"))) == 4
    await said(context, "memory_init_session", agent_id="b")
    assert contents(await said(context, "memory_get_all")) == ["tea of b 1"]
    assert len(contents(await said(context, "memory_get_all", agent_id="*"))) == 4
    assert "is not in this session" in await refused(context, "memory_delete", memory_id=1)
    assert "`*` as agent_id is for reading only" in await refused(context, "memory_add", messages="x", agent_id="*")
    counts = await said(context, "memory_get_stats", agent_id="*")
    assert (counts["by_agent"], counts["by_run"]) == ({"a": 2, "b": 1}, {"1": 2, "2": 1})
    ops = (await said(context, "memory_get_history"))["operations"]
    assert {each["session"]["agent_id"] for each in ops} == {"b"}


async def test_a_session_tells_what_is_set_and_where_from(app: App) -> None:
    tell = await said(app.call, "memory_init_session")
    assert tell["session"] == {"user_id": "default_user", "sources": {"user_id": "setting"}}
    begun = await said(app.call, "memory_init_session", user_id="alice", run_id="r", metadata={"channel": "phone"})
    assert begun["session"]["metadata"] == {"channel": "phone"}
    begun = await said(app.call, "memory_init_session", agent_id="coder")
    assert begun["session"]["sources"] == {"user_id": "session", "agent_id": "session", "run_id": "session"}
    mixed = await said(app.call, "memory_add", messages="x", user_id="bob")
    assert mixed["session"] == {"user_id": "bob", "sources": {"user_id": "argument"}}, "not alice's agent"
    again = await said(app.call, "memory_init_session", user_id="bob")
    assert again["session"] == {"user_id": "bob", "sources": {"user_id": "session"}}


async def test_what_was_begun_holds_for_its_own_connection(tmp_path: Path, clock: Clock) -> None:
    """Each window of a shared process has an `App`, so sessions, of its own."""
    async with App(Settings.model_validate({"data_dir": tmp_path})) as owner:
        windows = [App(owner.settings, shared=Shared(owner, tmp_path)) for _ in range(2)]
        async with windows[0] as one, windows[1] as other:
            await said(one.call, "memory_init_session", user_id="alice")
            assert (await said(one.call, "memory_add", messages="tea"))["session"]["user_id"] == "alice"
            assert (await said(other.call, "memory_get_stats"))["session"]["user_id"] == "default_user"
    sessions = Sessions(SqliteStore(tmp_path / "k", clock), clock)
    passing = RequestInfo(lasts=False)
    with pytest.raises(InvalidInput, match="Connections do not last here; send X-Memory-User-ID"):
        sessions.begin(named("x"), passing)
    sessions.begin(named("user of the process"))
    assert sessions.caller(named(), passing).user_id == "default_user", "not that of the process"
    assert sessions.caller(named(), RequestInfo(headers=named("of header"))).sources == {"user_id": "header"}
    await sessions.store.aclose()


@pytest.mark.parametrize("era", ["direct", *ERAS])
@pytest.mark.parametrize("calls", [200, pytest.param(10_000, marks=pytest.mark.full)])
async def test_no_tool_shows_anything_of_another_user(tmp_path: Path, calls: int, era: str) -> None:
    """Called directly, and over MCP in both eras; `tests/http/test_http_sessions.py` has it over HTTP."""
    async with AsyncExitStack() as stack:
        given = {"data_dir": tmp_path, "toolsets": "sessions", "knowledge": {"durability": "normal"}}
        app = await stack.enter_async_context(App(Settings.model_validate(given)))
        world = World(partial(said, app.call), calls)
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
            SqliteStore(tmp_path / name, clock), clock, session_options=SessionOptions(user_id="alice", least_share=0)
        )
        sessions, draw = knowledge.sessions, random.Random(5)
        alice = sessions.caller(named())
        for number in range(60):
            await sessions.add(alice, " ".join(draw.sample(WORDS, 3)) + f" {number}")
            for other in range(others):
                await sessions.add(sessions.caller(named(f"user {other}")), " ".join(draw.sample(WORDS * 2, 3)))
            draw.seed(number)
        found = await sessions.search(alice, "tea 披萨 red")
        await knowledge.aclose()
        return [(each.entry.body, round(each.score, 9)) for each in found.hits]

    alone = {body for body, _ in await results("alone", 0)}
    beside = {body for body, _ in await results("beside", 3)}
    assert len(alone) > 20
    assert alone == beside


async def test_other_words_find_memories_after_those_of_the_query(app: App) -> None:
    for text in ("takes 曲唑酮 every evening", "asked for a sleeping pill", "likes 披萨"):
        await said(app.call, "memory_add", messages=text, user_id="alice", mode="direct")
    await said(app.call, "memory_add", messages="曲唑酮 of bob", user_id="bob", mode="direct")
    plain = await said(app.call, "memory_search", query="sleeping pill", user_id="alice")
    assert contents(plain) == ["asked for a sleeping pill"]
    assert contents(await said(app.call, "memory_search", query="sleeping pill", otherWords=[], user_id="alice")) == [
        "asked for a sleeping pill"
    ]
    words = "trazodone, 曲唑酮"  # some models write a list as one text
    more = await said(app.call, "memory_search", query="sleeping pill", otherWords=words, user_id="alice")
    assert contents(more) == ["asked for a sleeping pill", "takes 曲唑酮 every evening"]
    assert more["memories"][0] == plain["memories"][0]
    assert more["memories"][1]["why"].startswith("曲唑酮 (given by the caller) in content")
    assert more["total"] == 2
    history = (await said(app.call, "memory_get_history", user_id="alice"))["operations"]
    assert "曲唑酮" not in str(history)


async def test_a_hundred_at_once(app: App) -> None:
    adds = [said(app.call, "memory_add", messages=f"tea {n}", user_id=f"user {n % 10}") for n in range(100)]
    ids = [each["memories"][0]["id"] for each in await asyncio.gather(*adds)]
    assert len(set(ids)) == 100
    searches = [said(app.call, "memory_search", query="tea", user_id=f"user {n % 10}") for n in range(100)]
    assert {each["total"] for each in await asyncio.gather(*searches)} == {10}
    update = {"memory_id": ids[0], "user_id": "user 0"}
    changes = [said(app.call, "memory_update", data=f"new {n}", **update) for n in range(20)]
    await asyncio.gather(*changes)
    history = (await said(app.call, "memory_get_history", user_id="user 0", limit=100))["operations"]
    assert sum(each["operation"] == "update" for each in history) == 20


async def test_what_is_read_only_changes_nothing(tmp_path: Path) -> None:
    async with App(Settings.model_validate({"data_dir": tmp_path})) as app:
        await said(app.call, "memory_add", messages="tea")
    before = (tmp_path / ".memory-server" / "knowledge.sqlite3").read_bytes()
    async with App(Settings.model_validate({"data_dir": tmp_path, "read_only": True})) as app:
        assert contents(await said(app.call, "memory_search", query="tea")) == ["tea"]
        assert "read_only" in await refused(app.call, "memory_add", messages="x")
    assert (tmp_path / ".memory-server" / "knowledge.sqlite3").read_bytes() == before


async def test_headers_reach_the_tools(app: App) -> None:
    context = replace(app.call, wire=RequestInfo(headers=named("小明", "phone"), lasts=False))
    added = await said(context, "memory_add", messages="x")
    assert added["session"]["sources"] == {"user_id": "header", "agent_id": "header"}
    assert added["memories"][0]["user_id"] == "小明"


@pytest.mark.parametrize("field", FIELDS)
async def test_over_stdio_each_id_comes_from_the_first_source(tmp_path: Path, field: str) -> None:
    """One connection, the process, and no headers: arguments, what was begun, settings."""
    given = {"data_dir": tmp_path, "sessions": {each: f"setting-{each}" for each in FIELDS}}
    users = {"user_id": "setting-user_id"} if field != "user_id" else {}
    async with App(Settings.model_validate(given)) as app:

        async def who(**arguments: str) -> tuple[str, str]:
            session = (await said(app.call, "memory_get_stats", **users | arguments))["session"]
            return session[field], session["sources"][field]

        assert await who() == (f"setting-{field}", "setting")
        await said(app.call, "memory_init_session", **users | {field: f"session-{field}"})
        assert await who() == (f"session-{field}", "session")
        assert await who(**{field: f"argument-{field}"}) == (f"argument-{field}", "argument")
