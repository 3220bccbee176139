"""Search by meaning: what it finds, what it costs, and that it is never needed."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from knowledge.test_sessions import contents, said
from llm.fake_provider import Act, Fake, embedded, failure, meaning, provider
from users_apart import World

from memory_server.app import App
from memory_server.config import Settings
from memory_server.kernel.scopes import Scope
from memory_server.knowledge.embeddings import AT_ONCE, NO_EMBEDDINGS
from memory_server.knowledge.ports import Asked
from memory_server.knowledge.sessions import models
from memory_server.knowledge.sessions.models import VECTOR_SECONDS
from memory_server.llm.wire import unit
from memory_server.storage.entries.sqlite_store import SqliteStore
from memory_server.tools import TOOLS
from memory_server.tools.base.tool import call

pytestmark = pytest.mark.anyio
DAY_MS = 86_400_000
DEFAULT = Scope("sessions", "default_user")


@asynccontextmanager
async def with_meaning(folder: Path, act: Act = embedded, **llm: Any) -> AsyncIterator[tuple[App, Fake]]:
    async with provider(act) as fake:
        given = {"embeddings": {"model": "m", "base_url": fake.url, "input_price": 1.0}} | llm
        async with App(Settings.model_validate({"data_dir": folder, "llm": given})) as app:
            yield app, fake


async def make_missing(app: App) -> tuple[int, int, str]:
    return await app.knowledge.sessions.meaning.make_missing()


async def search(app: App, query: str, kind: str, **more: Any) -> dict[str, Any]:
    return await said(app.call, "memory_search", query=query, search_type=kind, **more)


async def test_a_memory_is_found_that_shares_no_word_with_the_query(tmp_path: Path) -> None:
    async with with_meaning(tmp_path) as (app, fake):
        for text in ("对花生过敏", "有一只狗", "住在波恩"):
            await said(app.call, "memory_add", messages=text)
        assert contents(await search(app, "坚果", "text")) == []
        found = await search(app, "坚果", "vector")
        assert (contents(found), found["search_type_used"], found["total"]) == (["对花生过敏"], "vector", 1)
        assert found["memories"][0]["why"] == f"meaning {found['memories'][0]['score']:.2f}"
        assert "reason" not in found
        both = await search(app, "坚果和波恩", "hybrid")
        assert set(contents(both)) == {"对花生过敏", "住在波恩"}
        first = (await search(app, "花生", "hybrid"))["memories"][0]
        assert (first["content"], first["score"]) == ("对花生过敏", 1.0)
        assert "花生 in content, relevance 1.00, rank 1; meaning " in first["why"]
        assert first["why"].endswith(", rank 1")
    assert fake.paths == ["/v1/embeddings"] * len(fake.paths)
    assert fake.bodies[0] == {"model": "m", "input": ["对花生过敏"], "encoding_format": "float"}


async def test_agent_and_limit_hold_for_meaning(tmp_path: Path) -> None:
    async with with_meaning(tmp_path) as (app, _):
        for number in range(6):
            ids = {"user_id": "ann", "agent_id": f"a{number % 2}"}
            await said(app.call, "memory_add", messages=f"有一只狗 {number}", **ids)
        for kind in ("vector", "hybrid"):
            found = await search(app, "宠物", kind, user_id="ann", agent_id="a1", limit=2)
            assert ({each["agent_id"] for each in found["memories"]}, found["total"]) == ({"a1"}, 3)
            assert len(found["memories"]) == 2
            assert (await search(app, "宠物", kind, user_id="bob"))["memories"] == []


async def test_what_is_known_is_not_asked_again(tmp_path: Path) -> None:
    async with with_meaning(tmp_path) as (app, fake):
        added = await said(app.call, "memory_add", messages="对花生过敏")
        number = added["memories"][0]["id"]
        changed = await said(app.call, "memory_update", memory_id=number, data="有一只狗")
        for _ in range(3):
            assert contents(await search(app, "宠物", "vector")) == ["有一只狗"]
        assert len(fake.bodies) == 3, "two texts and a query"
        await app.knowledge.lifecycle.undo(changed["changeId"])
        assert contents(await search(app, "宠物", "vector")) == []
        assert contents(await search(app, "花生", "vector")) == ["对花生过敏"]
        assert len(fake.bodies) == 4, "only the new query"
        figures = await said(app.call, "memory_get_stats")
        assert (figures["vectors"], figures["models"]["model_calls"]) == (1, 4)
        assert figures["models"]["cost"] == pytest.approx(4 * 7 / 1e6)


FAULTS: dict[str, tuple[Act, str]] = {
    "500": (lambda _: failure(500), "status 500"),
    "429": (lambda _: failure(429, retry_after="3600"), "status 429"),
    "401": (lambda _: failure(401), "status 401"),
    "hang": (lambda _: "hang", "it took more than"),
    "trickle": (lambda _: "trickle", "it took more than"),
    "HTML": (lambda _: (200, {}, b"<html>sorry</html>"), "does not hold a vector for each text"),
    "too few": (lambda _: (200, {}, b'{"data": []}'), "does not hold a vector for each text"),
    "no direction": (
        lambda _: (200, {}, json.dumps({"data": [{"index": 0, "embedding": [0, 0]}]}).encode()),
        "does not hold a vector for each text",
    ),
    "no numbers": (
        lambda _: (200, {}, b'{"data": [{"index": 0, "embedding": [NaN, 1]}]}'),
        "does not hold a vector for each text",
    ),
    "too long": (lambda _: (200, {}, b" " * (17 * 1024 * 1024)), "longer than"),
}


@pytest.mark.parametrize("fault", FAULTS)
async def test_without_an_answer_it_is_stored_and_found_by_words(tmp_path: Path, fault: str) -> None:
    act, reason = FAULTS[fault]
    async with with_meaning(tmp_path, act) as (app, _):
        began = time.monotonic()
        added = await said(app.call, "memory_add", messages="对花生过敏", mode="direct")
        found = await search(app, "花生", "hybrid")
        assert time.monotonic() - began < 2 * VECTOR_SECONDS + 2
        assert (contents(added), contents(found)) == (["对花生过敏"], ["对花生过敏"])
        assert "reason" not in added
        assert found["search_type_used"] == "text"
        assert reason in found["reason"] or found["reason"].endswith("passed over after failures")
        text = (await call(TOOLS["memory_search"], app.call, {"query": "花生"})).text
        assert "1 of 1 memory. (" in text, "the reason is part of the text"
        if fault == "429":
            assert found["reason"] == "openai/m is passed over after failures"


async def test_the_clean_up_makes_what_is_missing(tmp_path: Path) -> None:
    async with App(Settings.model_validate({"data_dir": tmp_path})) as plain:
        for number in range(AT_ONCE + 5):
            await said(plain.call, "memory_add", messages=f"有一只狗 {number}", user_id=f"u{number % 3}")
        assert (await search(plain, "狗", "hybrid", user_id="u1"))["reason"] == NO_EMBEDDINGS
    async with with_meaning(tmp_path) as (app, fake):
        before = await search(app, "宠物", "vector", user_id="u1")
        assert before["memories"] == []
        assert before["reason"] == "no vector yet for 12 memories; `memory-server knowledge cleanup` makes them"
        assert await make_missing(app) == (AT_ONCE + 5, 0, "")
        assert [len(body["input"]) for body in fake.bodies] == [1, AT_ONCE, 5]
        after = await search(app, "宠物", "vector", user_id="u1")
        assert (len(after["memories"]), after.get("reason")) == (12, None)
        assert await make_missing(app) == (0, 0, "")
        assert len(fake.bodies) == 3, "nothing is left to make"
    async with with_meaning(tmp_path) as (app, fake):
        app.knowledge.sessions.meaning.embeddings = Fixed("other")
        store = app.knowledge.store
        assert isinstance(store, SqliteStore)
        store.embeds = "other"
        assert (await search(app, "宠物", "vector", user_id="u1"))["memories"] == [], "vectors of one model only"
        await make_missing(app)
        assert len((await search(app, "宠物", "vector", user_id="u1"))["memories"]) == 12


async def test_vectors_of_queries_are_forgotten_and_those_of_memories_are_kept(tmp_path: Path) -> None:
    now = 1_750_000_000_000
    async with with_meaning(tmp_path) as (app, _):
        await said(app.call, "memory_add", messages="有一只狗")
        await search(app, "宠物", "vector")
    store = SqliteStore(tmp_path / ".memory-server" / "knowledge.sqlite3", lambda: now, embeds="m")
    store.clock = lambda: int(time.time() * 1000) + 2 * DAY_MS
    await store.tidy(texts_before_ms=0, operations_before_ms=0)
    assert list(await store.vectors(DEFAULT, ["有一只狗", "宠物"])) == ["有一只狗"]
    await store.aclose()


async def test_the_tokens_of_a_day_count_for_meaning_too(tmp_path: Path) -> None:
    async with with_meaning(tmp_path, tokens_per_day=14) as (app, fake):
        for number in range(3):
            await said(app.call, "memory_add", messages=f"狗 {number}")
        found = await search(app, "宠物", "hybrid")
        assert found["reason"] == "the 14 tokens of llm.tokens_per_day are used up"
        assert len(fake.bodies) == 2


async def test_private_parts_are_not_sent_and_a_long_text_is_cut(tmp_path: Path) -> None:
    async with with_meaning(tmp_path) as (app, fake):
        await said(app.call, "memory_add", messages="a dog <private>called Rex</private>" + " x" * 9_000)
    (text,) = fake.bodies[0]["input"]
    assert "Rex" not in text
    assert len(text) == 8_000


async def test_a_call_that_is_given_up_writes_nothing(tmp_path: Path) -> None:
    asked = asyncio.Event()

    def hang(_: dict[str, Any]) -> str:
        asked.set()
        return "hang"

    async with with_meaning(tmp_path, hang) as (app, _):
        adding = asyncio.create_task(said(app.call, "memory_add", messages="有一只狗", mode="direct"))
        await asked.wait()
        adding.cancel()
        await asyncio.gather(adding, return_exceptions=True)
        assert adding.cancelled()
        assert (await said(app.call, "memory_get_all"))["total"] == 0
        store = app.knowledge.store
        assert isinstance(store, SqliteStore)
        rows = await store._read(lambda c: [tuple(row) for row in c.execute("SELECT outcome FROM model_calls")])
        assert rows == [("cancelled",)]


async def test_a_known_vector_does_not_tell_what_others_have_said(tmp_path: Path) -> None:
    """The vectors of a user are made for this user, also where somebody else has said the very same."""
    async with with_meaning(tmp_path) as (app, _):
        await said(app.call, "memory_add", messages="有一只狗", user_id="bob")
        await said(app.call, "memory_add", messages="x", user_id="alice")
        for query in ("有一只狗", "没有狗"):
            await search(app, query, "vector", user_id="alice")
        figures = await said(app.call, "memory_get_stats", user_id="alice")
        assert figures["models"]["model_calls"] == 3


async def test_a_hundred_at_once_are_found_by_meaning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(models, "VECTOR_SECONDS", 60.0)  # a loaded machine must not decide
    async with with_meaning(tmp_path) as (app, _):
        adds = [said(app.call, "memory_add", messages=f"狗 {n}", user_id=f"u{n % 10}") for n in range(100)]
        await asyncio.gather(*adds)
        found = await asyncio.gather(*(search(app, f"宠物 {n}", "hybrid", user_id=f"u{n % 10}") for n in range(100)))
        assert {(each["search_type_used"], each["total"], each.get("reason")) for each in found} == {
            ("hybrid", 10, None)
        }


async def test_a_text_that_the_model_does_not_take_keeps_no_other_back(tmp_path: Path) -> None:
    def act(body: dict[str, Any]) -> Any:
        return failure(400) if any(len(text) > 2_000 for text in body["input"]) else embedded(body)

    async with with_meaning(tmp_path, act) as (app, fake):
        app.knowledge.sessions.meaning.embeddings, model = None, app.knowledge.sessions.meaning.embeddings
        for number in range(20):
            await said(app.call, "memory_add", messages=f"狗 {number}" + " 长" * 1_500 * (number == 7))
        app.knowledge.sessions.meaning.embeddings = model
        assert await make_missing(app) == (20, 0, "")
        assert (await search(app, "宠物", "vector"))["total"] == 19
        assert "reason" not in await search(app, "宠物", "vector")
        asked = len(fake.bodies)
        assert await make_missing(app) == (0, 0, "")
        assert len(fake.bodies) == asked
        for _ in range(4):  # refusals of texts do not count as failures of the provider
            assert "does not take this query" in (await search(app, "x" * 2_500, "vector"))["reason"]
        assert (await search(app, "宠物 2", "vector"))["search_type_used"] == "vector"
        fake.act = lambda _: failure(400)
        await said(app.call, "memory_add", messages="新的狗")
        assert await make_missing(app) == (0, 1, "the model does not take these texts")
        fake.act = embedded
        assert await make_missing(app) == (1, 0, "")


async def test_vectors_of_another_length_are_made_anew(tmp_path: Path) -> None:
    def longer(body: dict[str, Any]) -> Any:
        rows = [{"index": n, "embedding": [*meaning(text), 0.1, 0.2]} for n, text in enumerate(body["input"])]
        return 200, {}, json.dumps({"data": rows}).encode()

    async with with_meaning(tmp_path) as (app, fake):
        await said(app.call, "memory_add", messages="有一只狗")
        fake.act = longer
        found = await search(app, "宠物", "vector")
        assert (found["memories"], found["reason"][:24]) == ([], "no vector yet for 1 memo")
        assert await make_missing(app) == (1, 0, "")
        assert contents(await search(app, "宠物", "vector")) == ["有一只狗"]


async def test_private_parts_of_a_query_are_not_sent(tmp_path: Path) -> None:
    async with with_meaning(tmp_path) as (app, fake):
        assert (await search(app, "宠物", "vector"))["memories"] == []
        assert fake.bodies == [], "with nothing to compare, nothing is sent"
        await said(app.call, "memory_add", messages="有一只狗")
        await search(app, "<private>pin 1234</private> 宠物", "vector")
        assert "1234" not in json.dumps(fake.bodies)
        only = await search(app, "<private>狗</private>", "hybrid")
        assert (only["search_type_used"], contents(only)) == ("text", ["有一只狗"])
        assert "private" in only["reason"]


async def test_a_read_only_server_asks_no_model(tmp_path: Path) -> None:
    async with with_meaning(tmp_path) as (app, fake):
        await said(app.call, "memory_add", messages="有一只狗")
        settings = app.settings.model_copy(update={"read_only": True})
        async with App(settings) as reader:
            found = await search(reader, "狗", "hybrid")
        assert (contents(found), found["reason"], len(fake.bodies)) == (["有一只狗"], NO_EMBEDDINGS, 1)


class Fixed:
    """`ports.Embeddings` in this process."""

    def __init__(self, model: str) -> None:
        self.model = model

    async def vectors(self, texts: Sequence[str], seconds: float) -> Asked[list[bytes]]:
        return Asked([unit(meaning(text)) for text in texts], self.model)


@pytest.mark.parametrize("calls", [300, pytest.param(10_000, marks=pytest.mark.full)])
async def test_no_vector_shows_anything_of_another_user(tmp_path: Path, calls: int) -> None:
    async with App(Settings.model_validate({"data_dir": tmp_path, "knowledge": {"durability": "normal"}})) as app:
        store = app.knowledge.store
        assert isinstance(store, SqliteStore)
        store.embeds, app.knowledge.sessions.meaning.embeddings = "fixed", Fixed("fixed")
        world = World(partial(said, app.call), 7)
        while world.calls < calls:
            await world.step()
        assert world.leaks == []
        assert await store._read(lambda c: c.execute("SELECT count(*) FROM vectors").fetchone()[0]) > calls // 20
