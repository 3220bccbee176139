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
from knowledge.test_sessions import answer_of, contents
from llm.fake_provider import Act, Fake, embedded, failure, meaning, provider
from users_apart import World

from memory_server.config import Settings
from memory_server.kernel.items import Scope
from memory_server.knowledge.embeddings import AT_ONCE, NO_EMBEDDINGS
from memory_server.knowledge.lifecycle import KnowledgeLifecycle
from memory_server.knowledge.ports import ModelResponse
from memory_server.knowledge.sessions import models
from memory_server.llm.wire import unit
from memory_server.runtime.app import App
from memory_server.storage.entries.sqlite_store import SqliteStore
from memory_server.tools import TOOLS
from memory_server.tools.base.tool import call

pytestmark = pytest.mark.anyio
DAY_MS = 86_400_000
DEFAULT = Scope("sessions", "default_user")


@asynccontextmanager
async def with_meaning(
    folder: Path, act: Act = embedded, **llm: Any
) -> AsyncIterator[tuple[App, Fake]]:
    async with provider(act) as fake:
        settings = {"embeddings": {"model": "m", "base_url": fake.url, "input_price": 1.0}} | llm
        async with App(Settings.model_validate({"data_dir": folder, "llm": settings})) as app:
            yield app, fake


async def make_missing(app: App) -> tuple[int, int, str]:
    return await app.knowledge.sessions.meaning.make_missing()


async def search(app: App, query: str, kind: str, **more: Any) -> dict[str, Any]:
    return await answer_of(app.call, "memory_search", query=query, search_type=kind, **more)


async def test_a_memory_is_found_that_shares_no_word_with_the_query(tmp_path: Path) -> None:
    async with with_meaning(tmp_path) as (app, fake):
        for text in ("对花生过敏", "有一只狗", "住在波恩"):
            await answer_of(app.call, "memory_add", messages=text)
        assert contents(await search(app, "坚果", "text")) == []
        answer = await search(app, "坚果", "vector")
        assert contents(answer) == ["对花生过敏"]
        assert answer["search_type_used"] == "vector"
        assert answer["total"] == 1
        assert answer["memories"][0]["why"] == f"meaning {answer['memories'][0]['score']:.2f}"
        assert "reason" not in answer
        both = await search(app, "坚果和波恩", "hybrid")
        assert set(contents(both)) == {"对花生过敏", "住在波恩"}
        first = (await search(app, "花生", "hybrid"))["memories"][0]
        assert first["content"] == "对花生过敏"
        assert first["score"] == 1.0
        assert "花生 in content, relevance 1.00, rank 1; meaning " in first["why"]
        assert first["why"].endswith(", rank 1")
    assert fake.paths == ["/v1/embeddings"] * len(fake.paths)
    assert fake.bodies[0] == {"model": "m", "input": ["对花生过敏"], "encoding_format": "float"}


async def test_agent_and_limit_hold_for_meaning(tmp_path: Path) -> None:
    async with with_meaning(tmp_path) as (app, _):
        for number in range(6):
            ids = {"user_id": "ann", "agent_id": f"a{number % 2}"}
            await answer_of(app.call, "memory_add", messages=f"有一只狗 {number}", **ids)
        for kind in ("vector", "hybrid"):
            answer = await search(app, "宠物", kind, user_id="ann", agent_id="a1", limit=2)
            assert {row["agent_id"] for row in answer["memories"]} == {"a1"}
            assert answer["total"] == 3
            assert len(answer["memories"]) == 2
            assert (await search(app, "宠物", kind, user_id="bob"))["memories"] == []


async def test_what_is_known_is_not_asked_again(tmp_path: Path) -> None:
    async with with_meaning(tmp_path) as (app, fake):
        added = await answer_of(app.call, "memory_add", messages="对花生过敏")
        number = added["memories"][0]["id"]
        changed = await answer_of(app.call, "memory_update", memory_id=number, data="有一只狗")
        for _ in range(3):
            assert contents(await search(app, "宠物", "vector")) == ["有一只狗"]
        assert len(fake.bodies) == 3, "two texts and a query"
        await KnowledgeLifecycle(app.knowledge).undo(changed["changeId"])
        assert contents(await search(app, "宠物", "vector")) == []
        assert contents(await search(app, "花生", "vector")) == ["对花生过敏"]
        assert len(fake.bodies) == 4, "only the new query"
        figures = await answer_of(app.call, "memory_get_stats")
        assert figures["vectors"] == 1
        assert figures["models"]["model_calls"] == 4
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


SILENT = ("hang", "trickle")
"""Faults in which no answer comes."""


@pytest.mark.parametrize("fault", FAULTS)
async def test_without_an_answer_it_is_stored_and_found_by_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    act, reason = FAULTS[fault]
    # Nobody need wait for long to see that one does not wait for ever; a fault that is told has the time of any machine.
    monkeypatch.setattr(models, "VECTOR_SECONDS", 0.3 if fault in SILENT else 60.0)
    reasons = [reason, "passed over after failures"]
    if fault in SILENT:
        reasons.append("the vectors did not come within 0.3 seconds")
    async with with_meaning(tmp_path, act) as (app, _):
        added = await answer_of(app.call, "memory_add", messages="对花生过敏", mode="direct")
        answer = await search(app, "花生", "hybrid")
        assert contents(added) == ["对花生过敏"]
        assert contents(answer) == ["对花生过敏"]
        assert "reason" not in added
        assert answer["search_type_used"] == "text"
        assert any(reason in answer["reason"] for reason in reasons), answer["reason"]
        text = (await call(TOOLS["memory_search"], app.call, {"query": "花生"})).text
        assert "1 of 1 memory. (" in text, "the reason is part of the text"
        if fault == "429":
            assert answer["reason"] == "openai/m is passed over after failures"


async def test_the_clean_up_makes_what_is_missing(tmp_path: Path) -> None:
    async with App(Settings.model_validate({"data_dir": tmp_path})) as without_model:
        for number in range(AT_ONCE + 5):
            await answer_of(
                without_model.call,
                "memory_add",
                messages=f"有一只狗 {number}",
                user_id=f"u{number % 3}",
            )
        assert (await search(without_model, "狗", "hybrid", user_id="u1"))[
            "reason"
        ] == NO_EMBEDDINGS
    async with with_meaning(tmp_path) as (app, fake):
        before = await search(app, "宠物", "vector", user_id="u1")
        assert before["memories"] == []
        assert (
            before["reason"]
            == "no vector yet for 12 memories; `memory-server knowledge cleanup` makes them"
        )
        assert await make_missing(app) == (AT_ONCE + 5, 0, "")
        assert [len(body["input"]) for body in fake.bodies] == [1, AT_ONCE, 5]
        after = await search(app, "宠物", "vector", user_id="u1")
        assert len(after["memories"]) == 12
        assert after.get("reason") is None
        assert await make_missing(app) == (0, 0, "")
        assert len(fake.bodies) == 3, "nothing is left to make"
    async with with_meaning(tmp_path) as (app, fake):
        app.knowledge.sessions.meaning.embeddings = Fixed("other")
        store = app.knowledge.store
        assert isinstance(store, SqliteStore)
        store.embeds = "other"
        assert (await search(app, "宠物", "vector", user_id="u1"))["memories"] == [], (
            "vectors of one model only"
        )
        await make_missing(app)
        assert len((await search(app, "宠物", "vector", user_id="u1"))["memories"]) == 12


async def test_vectors_of_queries_are_forgotten_and_those_of_memories_are_kept(
    tmp_path: Path,
) -> None:
    now = 1_750_000_000_000
    async with with_meaning(tmp_path) as (app, _):
        await answer_of(app.call, "memory_add", messages="有一只狗")
        await search(app, "宠物", "vector")
    store = SqliteStore(tmp_path / ".memory-server" / "knowledge.sqlite3", lambda: now, embeds="m")
    store.clock = lambda: int(time.time() * 1000) + 2 * DAY_MS
    await store.tidy(texts_before_ms=0, operations_before_ms=0)
    assert list(await store.vectors(DEFAULT, ["有一只狗", "宠物"])) == ["有一只狗"]
    await store.aclose()


async def test_the_tokens_of_a_day_count_for_meaning_too(tmp_path: Path) -> None:
    async with with_meaning(tmp_path, tokens_per_day=14) as (app, fake):
        for number in range(3):
            await answer_of(app.call, "memory_add", messages=f"狗 {number}")
        answer = await search(app, "宠物", "hybrid")
        assert answer["reason"] == "the 14 tokens of llm.tokens_per_day are used up"
        assert len(fake.bodies) == 2


async def test_private_parts_are_not_sent_and_a_long_text_is_cut(tmp_path: Path) -> None:
    async with with_meaning(tmp_path) as (app, fake):
        await answer_of(
            app.call, "memory_add", messages="a dog <private>called Rex</private>" + " x" * 9_000
        )
    (text,) = fake.bodies[0]["input"]
    assert "Rex" not in text
    assert len(text) == 8_000


async def test_a_call_that_is_given_up_writes_nothing(tmp_path: Path) -> None:
    is_asked = asyncio.Event()

    def hang(_: dict[str, Any]) -> str:
        is_asked.set()
        return "hang"

    async with with_meaning(tmp_path, hang) as (app, _):
        adding = asyncio.create_task(
            answer_of(app.call, "memory_add", messages="有一只狗", mode="direct")
        )
        await is_asked.wait()
        adding.cancel()
        await asyncio.gather(adding, return_exceptions=True)
        assert adding.cancelled()
        assert (await answer_of(app.call, "memory_get_all"))["total"] == 0
        store = app.knowledge.store
        assert isinstance(store, SqliteStore)
        rows = await store._read(
            lambda connection: [
                tuple(row) for row in connection.execute("SELECT outcome FROM model_calls")
            ]
        )
        assert rows == [("cancelled",)]


async def test_a_known_vector_does_not_tell_what_others_have_said(tmp_path: Path) -> None:
    """The vectors of a user are made for this user, also where somebody else has said the very same."""
    async with with_meaning(tmp_path) as (app, _):
        await answer_of(app.call, "memory_add", messages="有一只狗", user_id="bob")
        await answer_of(app.call, "memory_add", messages="x", user_id="alice")
        for query in ("有一只狗", "没有狗"):
            await search(app, query, "vector", user_id="alice")
        figures = await answer_of(app.call, "memory_get_stats", user_id="alice")
        assert figures["models"]["model_calls"] == 3


async def test_a_hundred_at_once_are_found_by_meaning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(models, "VECTOR_SECONDS", 60.0)  # a loaded machine must not decide
    async with with_meaning(tmp_path) as (app, _):
        adds = [
            answer_of(app.call, "memory_add", messages=f"狗 {number}", user_id=f"u{number % 10}")
            for number in range(100)
        ]
        await asyncio.gather(*adds)
        answers = await asyncio.gather(
            *(
                search(app, f"宠物 {number}", "hybrid", user_id=f"u{number % 10}")
                for number in range(100)
            )
        )
        for answer in answers:
            assert answer["search_type_used"] == "hybrid"
            assert answer["total"] == 10
            assert "reason" not in answer


async def test_a_text_that_the_model_does_not_take_keeps_no_other_back(tmp_path: Path) -> None:
    def act(body: dict[str, Any]) -> Any:
        if any(len(text) > 2_000 for text in body["input"]):
            return failure(400)
        return embedded(body)

    async with with_meaning(tmp_path, act) as (app, fake):
        model = app.knowledge.sessions.meaning.embeddings
        app.knowledge.sessions.meaning.embeddings = None
        for number in range(20):
            await answer_of(
                app.call, "memory_add", messages=f"狗 {number}" + " 长" * 1_500 * (number == 7)
            )
        app.knowledge.sessions.meaning.embeddings = model
        assert await make_missing(app) == (20, 0, "")
        assert (await search(app, "宠物", "vector"))["total"] == 19
        assert "reason" not in await search(app, "宠物", "vector")
        requests = len(fake.bodies)
        assert await make_missing(app) == (0, 0, "")
        assert len(fake.bodies) == requests
        for _ in range(4):  # refusals of texts do not count as failures of the provider
            assert (
                "does not take this query" in (await search(app, "x" * 2_500, "vector"))["reason"]
            )
        assert (await search(app, "宠物 2", "vector"))["search_type_used"] == "vector"
        fake.act = lambda _: failure(400)
        await answer_of(app.call, "memory_add", messages="新的狗")
        assert await make_missing(app) == (0, 1, "the model does not take these texts")
        fake.act = embedded
        assert await make_missing(app) == (1, 0, "")


async def test_vectors_of_another_length_are_made_anew(tmp_path: Path) -> None:
    def longer(body: dict[str, Any]) -> Any:
        rows = [
            {"index": number, "embedding": [*meaning(text), 0.1, 0.2]}
            for number, text in enumerate(body["input"])
        ]
        return 200, {}, json.dumps({"data": rows}).encode()

    async with with_meaning(tmp_path) as (app, fake):
        await answer_of(app.call, "memory_add", messages="有一只狗")
        fake.act = longer
        answer = await search(app, "宠物", "vector")
        assert answer["memories"] == []
        assert answer["reason"][:24] == "no vector yet for 1 memo"
        assert await make_missing(app) == (1, 0, "")
        assert contents(await search(app, "宠物", "vector")) == ["有一只狗"]


async def test_private_parts_of_a_query_are_not_sent(tmp_path: Path) -> None:
    async with with_meaning(tmp_path) as (app, fake):
        assert (await search(app, "宠物", "vector"))["memories"] == []
        assert fake.bodies == [], "with nothing to compare, nothing is sent"
        await answer_of(app.call, "memory_add", messages="有一只狗")
        await search(app, "<private>pin 1234</private> 宠物", "vector")
        assert "1234" not in json.dumps(fake.bodies)
        only = await search(app, "<private>狗</private>", "hybrid")
        assert only["search_type_used"] == "text"
        assert contents(only) == ["有一只狗"]
        assert "private" in only["reason"]


async def test_a_read_only_server_asks_no_model(tmp_path: Path) -> None:
    async with with_meaning(tmp_path) as (app, fake):
        await answer_of(app.call, "memory_add", messages="有一只狗")
        settings = app.settings.model_copy(update={"read_only": True})
        async with App(settings) as reader:
            answer = await search(reader, "狗", "hybrid")
        assert contents(answer) == ["有一只狗"]
        assert answer["reason"] == NO_EMBEDDINGS
        assert len(fake.bodies) == 1


class Fixed:
    """`ports.Embeddings` in this process."""

    def __init__(self, model: str) -> None:
        self.model = model

    async def vectors(self, texts: Sequence[str], seconds: float) -> ModelResponse[list[bytes]]:
        return ModelResponse([unit(meaning(text)) for text in texts], self.model)


@pytest.mark.parametrize("calls", [300, pytest.param(10_000, marks=pytest.mark.full)])
async def test_no_vector_shows_anything_of_another_user(tmp_path: Path, calls: int) -> None:
    async with App(
        Settings.model_validate({"data_dir": tmp_path, "knowledge": {"durability": "normal"}})
    ) as app:
        store = app.knowledge.store
        assert isinstance(store, SqliteStore)
        store.embeds = "fixed"
        app.knowledge.sessions.meaning.embeddings = Fixed("fixed")
        world = World(partial(answer_of, app.call), 7)
        while world.calls < calls:
            await world.step()
        assert world.leaks == []
        assert (
            await store._read(
                lambda connection: connection.execute("SELECT count(*) FROM vectors").fetchone()[0]
            )
            > calls // 20
        )
