"""Short-term memories by meaning: what it finds, that nothing waits for it, and that it is never needed."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from argparse import Namespace
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from knowledge.test_embeddings import FAULTS, SILENT
from knowledge_past import cleaned
from llm.fake_provider import Act, Fake, embedded, failure, meaning, provider

from memory_server.cli.knowledge import ACTIONS
from memory_server.config import Settings
from memory_server.conversations.recall.request import RecallRequest
from memory_server.conversations.search import (
    UNASKED_VECTOR_SECONDS,
    Found,
    vectors_of,
)
from memory_server.kernel.items import Scope
from memory_server.kernel.messages import Message
from memory_server.kernel.times import DAY_MS
from memory_server.knowledge.embeddings import LATER_AT_ONCE, NO_VECTORS
from memory_server.memories.turns import recall_for_turn
from memory_server.process.entrance import RECALL_SECONDS
from memory_server.runtime.app import App
from memory_server.storage.entries.sqlite_store import SqliteStore
from memory_server.tools import TOOLS
from memory_server.tools.base.tool import call

pytestmark = pytest.mark.anyio
MONTH_AGO = int(time.time() * 1000) - 30 * 86_400_000
HOUR = 3_600_000
LIFE = (
    "I am allergic to peanuts",
    "有一只狗",
    "我住在波恩",
    "The train was late again",
    "昨天看了一部电影",
)


@asynccontextmanager
async def with_meaning(
    folder: Path, act: Act = embedded, **more: Any
) -> AsyncIterator[tuple[App, Fake]]:
    async with provider(act) as fake:
        settings = {
            "data_dir": folder,
            "llm": {"embeddings": {"model": "m", "base_url": fake.url}},
        } | more
        async with App(Settings.model_validate(settings)) as app:
            yield app, fake


async def remember(app: App, texts: Iterable[str] = LIFE, chat: str = "chat") -> None:
    for number, text in enumerate(texts):
        await app.conversation(chat).short_term.add(
            [Message("user", text, MONTH_AGO + number * HOUR)]
        )
    await all_made(app)


async def all_made(app: App) -> None:
    """Wait until nothing is being made any more."""
    making = app.knowledge.sessions.meaning._making
    if making is not None:
        await making


async def search(app: App, text: str, chat: str = "chat", **more: Any) -> Found:
    return await app.conversation(chat).short_term.search(
        RecallRequest([Message("user", text)], **{"mode": "asked"} | more)
    )


def texts(results: Found) -> list[str]:
    return [
        item.memory.text.partition(": ")[2] for item in (*results.recall.top, *results.recall.next)
    ]


async def tidy(app: App) -> tuple[int, int, str]:
    return await app.conversations.tidy_vectors(app.knowledge.sessions.meaning)


async def rows(app: App, query: str) -> list[tuple[Any, ...]]:
    store = app.knowledge.store
    assert isinstance(store, SqliteStore)
    return await store._read(lambda connection: [tuple(row) for row in connection.execute(query)])


def texts_sent(fake: Fake) -> list[str]:
    return [*chain.from_iterable(body["input"] for body in fake.bodies)]


async def vectors(app: App) -> int:
    return int((await rows(app, "SELECT count(*) FROM vectors"))[0][0])


async def test_a_memory_comes_that_shares_no_word_and_its_receipt_says_both_ranks(
    tmp_path: Path,
) -> None:
    async with with_meaning(tmp_path) as (app, fake):
        await remember(app)
        results = await search(app, "我能吃坚果吗？")
        assert texts(results)[0] == LIFE[0]
        near = results.recall.top[0].receipt.nearness
        assert near is not None
        assert near.rank == 1
        assert near.word_rank is None
        assert results.only_words == ""
        assert results.recall.top[0].receipt.line().endswith(f"; meaning {near.cosine:.2f}, rank 1")
        both = (await search(app, "我的狗怎么样？")).recall.top[0]
        assert both.receipt.line().endswith(", rank 1; words, rank 1")
        arguments = {
            "recentMessages": [{"role": "user", "content": "我能吃坚果吗？"}],
            "text": "peanuts",
            "conversation_id": "chat",
        }
        explanation = (await call(TOOLS["explain_recall"], app.call, arguments)).text
        assert "Shares too little for this home" in explanation, "it would not come unasked"
        assert f"eaning {near.cosine:.2f}, rank 1" in explanation
    assert fake.paths == ["/v1/embeddings"] * len(fake.paths)


@pytest.mark.parametrize("fault", FAULTS)
async def test_without_an_answer_it_is_stored_at_once_and_found_by_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    # Only a model that says nothing is given up; the time for it is the machine's otherwise.
    seconds = 0.3 if fault in SILENT else 60.0
    monkeypatch.setattr("memory_server.conversations.search.VECTOR_SECONDS", seconds)
    async with with_meaning(tmp_path) as (app, fake):
        await remember(app, LIFE[:3])
        fake.act, reason = FAULTS[fault]
        await app.conversation("chat").short_term.add(
            [Message("user", "我的猫叫小花", MONTH_AGO - HOUR)]
        )
        if fault in SILENT:
            making = app.knowledge.sessions.meaning._making
            assert making is not None
            assert not making.done(), "nobody waits for a vector"
        results = await search(app, "我的猫叫什么？")
        assert texts(results)[0] == "我的猫叫小花"
        reasons = [reason, "passed over after failures"]
        if fault in SILENT:
            reasons.append("the vectors did not come within 0.3 seconds")
        assert any(reason in results.only_words for reason in reasons), results.only_words
        arguments = {
            "recentMessages": [{"role": "user", "content": "我的猫叫什么？"}],
            "conversation_id": "chat",
        }
        answer = (await call(TOOLS["search_short_term_memories"], app.call, arguments)).text
        assert "Searched by words only: " in answer


def test_a_slow_model_leaves_a_hook_more_than_half_of_its_time() -> None:
    """A hook that waited as long for vectors as the shared process may take was taken back before each answer."""
    assert UNASKED_VECTOR_SECONDS < RECALL_SECONDS / 2


@pytest.mark.parametrize("fault", SILENT)
async def test_a_search_that_nobody_asked_for_waits_for_less_than_half_of_the_time_of_a_hook(
    tmp_path: Path, fault: str
) -> None:
    async with with_meaning(tmp_path) as (app, fake):
        await remember(app)
        fake.act = FAULTS[fault][0]
        seconds: list[float] = []
        for number in range(4):
            began = time.monotonic()
            recollection = await recall_for_turn(
                app.conversation("chat"), RecallRequest([Message("user", f"坚果 {number}")])
            )
            seconds.append(time.monotonic() - began)
            assert recollection.found.only_words
        # After two that asked the model for nothing it may be passed over. Of these, a busy machine gives one its time.
        assert min(seconds[:2]) < UNASKED_VECTOR_SECONDS + 0.5


async def test_a_search_that_nobody_asked_for_passes_over_a_model_that_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("memory_server.conversations.search.UNASKED_VECTOR_SECONDS", 60.0)
    async with with_meaning(tmp_path) as (app, fake):
        await remember(app)
        fake.act = FAULTS["500"][0]
        reasons: list[str] = []
        for number in range(4):
            request = RecallRequest([Message("user", f"坚果 {number}")])
            recollection = await recall_for_turn(app.conversation("chat"), request)
            reasons.append(recollection.found.only_words)
    assert "status 500" in reasons[0]
    assert reasons[-1] == "openai/m is passed over after failures"


async def test_unasked_only_what_stands_out_comes_by_meaning_alone(tmp_path: Path) -> None:
    talk = [f"Der {number}. Zug kam um {number} Uhr" for number in range(40)]
    async with with_meaning(tmp_path) as (app, _):
        await remember(app, (*talk, "对花生过敏"))
        conversation = app.conversation("chat")
        unasked = (
            await recall_for_turn(conversation, RecallRequest([Message("user", "坚果")]))
        ).found
        assert texts(unasked) == ["对花生过敏"]
        nothing_near = [Message("user", "qwertz")]
        assert texts((await recall_for_turn(conversation, RecallRequest(nothing_near))).found) == []
        assert texts(
            await conversation.short_term.search(RecallRequest(nothing_near, mode="asked"))
        ), "who asks gets the nearest"


COLD_HOOK = """
import sys
sys.modules["ssl"] = None  # as the command line does for a hook
import memory_server.conversations.search as search
search.UNASKED_VECTOR_SECONDS = 60.0  # a loaded machine must not decide
from memory_server.cli.parser import main
main(["hook", "--seconds", "120"])
"""


async def test_a_hook_finds_by_meaning_too(tmp_path: Path) -> None:
    async with with_meaning(tmp_path, daemon={"enabled": False}) as (app, fake):
        await remember(
            app,
            (*(f"Der {number}. Zug kam um {number} Uhr" for number in range(40)), "对花生过敏"),
            "default",
        )
        event = {"hook_event_name": "UserPromptSubmit", "session_id": "s", "prompt": "坚果"}
        hook = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", COLD_HOOK),
            env=os.environ
            | {
                "MEMORY_SERVER_DATA_DIR": str(tmp_path),
                "MEMORY_SERVER_CONVERSATION": "default",
                "MEMORY_SERVER_DAEMON__ENABLED": "false",
                "MEMORY_SERVER_LLM__EMBEDDINGS__MODEL": "m",
                "MEMORY_SERVER_LLM__EMBEDDINGS__BASE_URL": fake.url,
            },
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        output, errors = await hook.communicate(json.dumps(event).encode())
        assert errors.decode() == ""
        assert fake.bodies[-1]["input"] == ["坚果"]
        assert "对花生过敏" in json.loads(output)["hookSpecificOutput"]["additionalContext"]


async def test_the_clean_up_makes_what_is_missing_and_forgets_what_is_gone(tmp_path: Path) -> None:
    async with App(Settings.model_validate({"data_dir": tmp_path})) as without_model:
        for number, text in enumerate((*LIFE, *LIFE)):
            await without_model.conversation("chat").short_term.add(
                [Message("user", text, MONTH_AGO + number * HOUR)]
            )
        assert not (tmp_path / ".memory-server" / "knowledge.sqlite3").exists(), (
            "nothing is opened without a model"
        )
    async with with_meaning(tmp_path) as (app, fake):
        first = await search(app, "坚果")
        assert first.only_words == NO_VECTORS
        await all_made(app)
        assert len(fake.bodies) == 1, (
            "texts of memories, and no query that nothing can be compared with"
        )
        assert await tidy(app) == (0, 0, "")
        assert LIFE[0] in texts(await search(app, "坚果"))
        await app.conversation("other").short_term.add([Message("user", "一只狗", MONTH_AGO)])
        await app.knowledge.sessions.meaning.aclose()
        assert await tidy(app) == (1, 0, "")
        assert await vectors(app) == len(LIFE) + 2, "and that of the query"
        await app.conversation("chat").short_term.delete("peanuts")
        await rows_aged(app)
        await tidy(app)
        assert await vectors(app) == len(LIFE), "neither the memory that is gone nor the query"
        await cleaned(app.knowledge)
        assert await vectors(app) == len(LIFE), "the clean-up of knowledge leaves them alone"


async def test_where_the_model_is_taken_out_its_vectors_go_with_the_archive(tmp_path: Path) -> None:
    async with with_meaning(tmp_path) as (app, _):
        await remember(app)
    async with App(
        Settings.model_validate({"data_dir": tmp_path, "storage": {"archive_days": 2}})
    ) as without_model:
        await without_model.maintenance.run_if_due()
        assert await vectors(without_model) == len(LIFE)
        await rows_aged(without_model)
        without_model.home.ledger.note_run(without_model.clock() - DAY_MS)
        await without_model.maintenance.run_if_due()
        assert await vectors(without_model) == 0


async def test_upkeep_makes_what_is_missing(tmp_path: Path) -> None:
    async with App(Settings.model_validate({"data_dir": tmp_path})) as without_model:
        await without_model.conversation("chat").short_term.add(
            [Message("user", LIFE[0], MONTH_AGO)]
        )
    async with with_meaning(tmp_path) as (app, _):
        await app.maintenance.run_if_due()
        assert texts(await search(app, "坚果")) == [LIFE[0]]


async def rows_aged(app: App) -> None:
    store = app.knowledge.store
    assert isinstance(store, SqliteStore)
    await store._write(
        lambda connection: (
            connection.execute("UPDATE vectors SET used_ms = used_ms - 3 * 86400000") and None
        )
    )


async def test_the_command_makes_them_too(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with App(Settings.model_validate({"data_dir": tmp_path})) as without_model:
        await remember(without_model)
    async with with_meaning(tmp_path) as (app, _):
        await ACTIONS["cleanup"].run(app, Namespace(dry_run=False))
    assert f"Made the vectors of {len(LIFE)} texts." in capsys.readouterr().out


async def test_what_is_known_is_not_asked_again(tmp_path: Path) -> None:
    async with with_meaning(tmp_path) as (app, fake):
        await remember(app)
        for _ in range(3):
            await search(app, "坚果")
        sent = texts_sent(fake)
        assert len(sent) == len(set(sent)) == len(LIFE) + 1
    async with with_meaning(tmp_path) as (app, later_fake):
        assert texts(await search(app, "坚果"))[0] == LIFE[0]
        assert later_fake.bodies == [], "neither after a restart"


async def test_a_known_vector_does_not_tell_what_another_conversation_has_said(
    tmp_path: Path,
) -> None:
    async with with_meaning(tmp_path) as (app, fake):
        await remember(app, ["有一只狗"], "bob")
        await remember(app, ["x"], "alice")
        for query in ("user: 有一只狗", "有一只狗"):
            await search(app, query, "alice")
        sent = texts_sent(fake)
        assert len(sent) == 4, "what bob has said is sent for alice too"
        assert Scope("sessions", "bob") != vectors_of("bob")
        store = app.knowledge.store
        assert await store.vectors(Scope("sessions", "bob"), sent) == {}, (
            "a user of this name knows none of them"
        )


async def test_private_parts_of_a_query_are_not_sent(tmp_path: Path) -> None:
    async with with_meaning(tmp_path) as (app, fake):
        await remember(app)
        await search(app, "<private>pin 1234</private> 坚果")
        assert "1234" not in json.dumps(fake.bodies)
        sent = len(fake.bodies)
        only = await search(app, "<private>狗</private>")
        assert only.only_words == ""
        assert len(fake.bodies) == sent


async def test_vectors_of_another_length_are_made_anew(tmp_path: Path) -> None:
    def longer(body: dict[str, Any]) -> Any:
        embeddings = [
            {"index": number, "embedding": [*meaning(text), 0.1, 0.2]}
            for number, text in enumerate(body["input"])
        ]
        return 200, {}, json.dumps({"data": embeddings}).encode()

    async with with_meaning(tmp_path) as (app, fake):
        await remember(app)
        await search(app, "坚果")
        fake.act = longer
        assert (await search(app, "花生")).only_words == NO_VECTORS
        assert (await tidy(app))[1:] == (0, "")
        assert texts(await search(app, "花生酱"))[0] == LIFE[0]


async def test_a_text_that_the_model_does_not_take_is_not_sent_at_each_search(
    tmp_path: Path,
) -> None:
    def act(body: dict[str, Any]) -> Any:
        if any(len(text) > 2_000 for text in body["input"]):
            return failure(400)
        return embedded(body)

    async with with_meaning(tmp_path, act) as (app, fake):
        await remember(app, (*LIFE, "长" * 3_000))
        requests = len(fake.bodies)
        for _ in range(3):
            assert (await search(app, "坚果")).only_words == ""
            await all_made(app)
        assert len(fake.bodies) == requests + 1, "the query"


async def test_all_conversations_are_searched_by_meaning(tmp_path: Path) -> None:
    async with with_meaning(tmp_path) as (app, _):
        await remember(app, LIFE[:2], "one")
        await remember(app, LIFE[2:], "two")
        results = await search(app, "坚果和地址", "three", scope="all")
        assert {(item.kept_in, item.memory.text[6:]) for item in results.recall.top} == {
            ("one", LIFE[0]),
            ("two", LIFE[2]),
        }


@pytest.mark.parametrize("more", [{"llm": {}}, {"read_only": True}, {"compat": "node"}])
async def test_where_no_model_may_be_asked_everything_is_as_before(
    tmp_path: Path, more: dict[str, Any]
) -> None:
    async with with_meaning(tmp_path) as (app, _):
        await remember(app)
    async with with_meaning(tmp_path, **more) as (app, fake):
        results = await search(app, "坚果")
        assert texts(results) == []
        assert results.only_words == ""
        assert fake.bodies == []


async def test_a_hundred_at_once(tmp_path: Path) -> None:
    async with with_meaning(tmp_path) as (app, fake):
        messages = [
            Message("user", f"第{number}只狗", MONTH_AGO + number * HOUR) for number in range(100)
        ]
        await asyncio.gather(
            *(app.conversation("chat").short_term.add([message]) for message in messages)
        )
        await all_made(app)
        assert max(len(body["input"]) for body in fake.bodies) <= LATER_AT_ONCE
        assert await vectors(app) == 100
        searches = await asyncio.gather(
            *(search(app, f"宠物 {number % 5}") for number in range(20))
        )
        assert {results.only_words for results in searches} == {""}
