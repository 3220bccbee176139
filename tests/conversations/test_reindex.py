"""Words found anew: after a change of settings, and for memories of the Node original; undoable, and scores stay."""

from __future__ import annotations

import json
import logging
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from cli_program import CommandLine
from sample_memories import DAY, NOW, memory

from memory_server import Message, Settings, open_memory
from memory_server.conversations import codec
from memory_server.conversations.changes import Added, Reinforced
from memory_server.conversations.recall.words import KeywordOptions
from memory_server.kernel.messages import said_in
from memory_server.kernel.times import iso
from memory_server.runtime.app import App
from nlp import Enrichment

CAKE = (Message("user", "昨天我過生日，吃了PIZZA", NOW - DAY),)
DATES = KeywordOptions(enrichment=Enrichment(dates=True))


def app_of(data_dir: Path, compat: str = "none", **words: Any) -> App:
    settings = {
        "compat": compat,
        "words": {"simplified": False} | words,
        "timezone": "UTC",
        "now": iso(NOW),
        "seed": 1,
    }
    return open_memory(data_dir, settings=Settings.model_validate(settings))


@pytest.mark.anyio
async def test_older_memories_get_the_words_of_now_and_keep_score_pin_and_text(
    tmp_path: Path,
) -> None:
    async with app_of(tmp_path, "node") as node:
        chat = node.conversation("小明")
        stored = (await chat.short_term.add(CAKE)).memory
        await chat.short_term.pin(stored.id)
        await chat.short_term.search([Message("user", "PIZZA")])  # reinforces
        before = (await chat.short_term.memories())[0]
        assert "PIZZA" in before.words
        assert before.score == 5.0
        assert await chat.short_term.outdated() == 0
    async with app_of(tmp_path) as app:
        chat = app.conversation("小明")
        assert await chat.short_term.outdated() == await app.conversations.outdated() == 1
        planned = await chat.short_term.reindex(dry_run=True)
        assert len(planned.changes) == 1
        assert planned.change_id is None
        assert (await chat.short_term.memories())[0] == before
        result = await chat.short_term.reindex()
        after = (await chat.short_term.memories())[0]
        assert {"pizza", "6月19日", "6月20日"} <= set(after.words)
        assert "PIZZA" not in after.words
        assert replace(after, words=before.words, weights=before.weights, indexed_with="") == before
        assert await chat.short_term.outdated() == 0
        assert (await chat.short_term.reindex()).change_id is None  # nothing more to do
        results = await chat.short_term.search([Message("user", "6/19")])
        assert [recalled.memory.id for recalled in results.recall.top] == [stored.id]
        assert result.change_id is not None
        await chat.archive.undo(result.change_id)
        undone = (await chat.short_term.memories())[0]
        assert undone.words == before.words
        assert undone.score == 10.0  # what the search added since stays


@pytest.mark.anyio
async def test_memories_that_the_node_original_stored_get_role_weights_and_unknown_fields_stay(
    tmp_path: Path,
) -> None:
    record = {
        "id": "n1",
        "timestamp": "2026-06-19T00:00:00.000Z",
        "text": "user: 我喜欢吃披萨\nassistant: 披萨很好吃\n真的",
        "keywords": [{"word": "披萨", "weight": 30.0}],
        "score": 7,
        "conversation_id": "old",
        "mood": "calm",
    }
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "short-term-memory.json").write_text(json.dumps([record]), encoding="utf-8")
    async with app_of(tmp_path, "node") as app:
        chat = app.conversation("old")
        assert len((await chat.short_term.reindex()).changes) == 1
        (after,) = await chat.short_term.memories()
        messages = (Message("user", "我喜欢吃披萨"), Message("assistant", "披萨很好吃\n真的"))
        expected = KeywordOptions().of_memory(messages, after.time_ms)
        assert list(zip(after.words, after.weights, strict=True)) == [
            tuple(keyword) for keyword in expected
        ]
        assert after.score == 7.0
        assert dict(after.extra) == {"mood": "calm"}


@pytest.mark.anyio
async def test_weights_that_were_asked_for_are_asked_for_again(tmp_path: Path) -> None:
    messages = [Message("user", "披萨"), Message("assistant", "洱海")]
    async with app_of(tmp_path, "node") as app:
        role_weights = {"user": 2.7, "assistant": 0.0, "system": 1.0}
        stored = (
            await app.conversation("小明").short_term.add(messages, role_weights=role_weights)
        ).memory
        assert dict(stored.role_weights) == {"assistant": 0.0}
    async with app_of(tmp_path) as app:
        await app.conversation("小明").short_term.reindex()
        (after,) = await app.conversation("小明").short_term.memories()
        assert set(after.words) == {"披萨", "6月21日"}


@pytest.mark.anyio
async def test_what_changed_or_went_meanwhile_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with app_of(tmp_path, "node") as app:
        short_term = app.conversation("小明").short_term
        receipts = [await short_term.add([Message("user", text)]) for text in "甲乙丙"]
        ids = [receipt.memory.id for receipt in receipts]
    async with app_of(tmp_path) as app:
        chat = app.conversation("小明")
        store = app.store
        update = store.update

        async def late(name: str, decide: Any, **rest: Any) -> Any:
            monkeypatch.setattr(store, "update", update)
            await chat.short_term.delete("甲")
            await update(name, lambda state: ([Reinforced(ids[1], 0.0, 9.0)], None), by="test")
            return await update(name, decide, **rest)

        monkeypatch.setattr(store, "update", late)
        result = await chat.short_term.reindex()
        assert {edit.memory.id for edit in result.changes} == set(ids[1:])
        assert {stored.id: stored.score for stored in await chat.short_term.memories()} == {
            ids[1]: 9.0,
            ids[2]: 0.0,
        }


@pytest.mark.parametrize(
    ("text", "messages"),
    [
        (
            "user: a\nassistant: b: c\nd\nsystem: e",
            [("user", "a"), ("assistant", "b: c\nd"), ("system", "e")],
        ),
        ("小明: a\nuser: b", [("user", "小明: a\nuser: b")]),
        ("A (person)\nlikes tea", [("user", "A (person)\nlikes tea")]),
        ("", [("user", "")]),
    ],
)
def test_a_text_of_roles_is_read_as_messages(text: str, messages: list[tuple[str, str]]) -> None:
    assert [(message.role, message.content) for message in said_in(text)] == messages


@pytest.mark.parametrize(
    ("fields", "indexed_with", "role_weights"),
    [
        ({}, "", {}),
        ({"indexedWith": "dates", "roleWeights": {"user": 1}}, "dates", {"user": 1.0}),
        ({"indexedWith": 3, "roleWeights": {"user": "x"}}, "", {}),
        ({"indexedWith": "", "roleWeights": {}}, "", {}),
        ({"indexedWith": None, "roleWeights": [1]}, "", {}),
    ],
)
def test_how_a_memory_was_indexed_survives_the_disk_and_what_is_not_ours_stays(
    fields: dict[str, Any], indexed_with: str, role_weights: dict[str, float]
) -> None:
    record = codec.short_term_json(memory("a")) | fields
    read_memory = codec.short_term(record, "chat")
    assert read_memory.indexed_with == indexed_with
    assert dict(read_memory.role_weights) == role_weights
    assert codec.short_term(codec.short_term_json(read_memory), "chat") == read_memory
    assert codec.short_term_json(read_memory) == record


@pytest.mark.anyio
async def test_a_start_and_the_upkeep_tell_of_words_of_other_settings(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with app_of(tmp_path, "node") as app:
        for name in ("default", "小明"):
            await app.conversation(name).short_term.add(CAKE)
    caplog.set_level(logging.WARNING)
    async with app_of(tmp_path) as app:
        await app._tell_of_outdated_words()
        assert (
            "1 memory was indexed with other words settings; run `memory-server doctor --reindex`"
            in caplog.text
        )
        await app.maintenance.run_if_due()
        assert "2 memories were indexed with other words settings" in caplog.text


def test_the_command_shows_and_then_does(cli: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEMORY_SERVER_TIMEZONE", "UTC")
    assert cli.text("doctor", "--reindex") == "Nothing is stored yet.\n"
    monkeypatch.setenv("MEMORY_SERVER_COMPAT", "node")
    cli.text(
        "call",
        "add_short_term_memory",
        json.dumps({"messages": [{"role": "user", "content": "5月2号去爬山"}]}),
    )
    monkeypatch.delenv("MEMORY_SERVER_COMPAT")
    assert "1 memory was indexed with other words settings" in cli.text("doctor")
    planned = cli.text("doctor", "--reindex", "--dry-run").splitlines()
    assert planned[0] == "default would change 1 of 1"
    assert "+5月2日" in planned[1]
    assert cli.text("doctor", "--reindex", "-c", "default").startswith(
        "default changed 1 of 1, change "
    )
    assert cli.text("doctor", "--reindex") == "default changed 0 of 1\n"
    assert "indexed with the current settings" in cli.text("doctor")
    assert "reindex" in cli.text("history")
    # A name that no memory holds: only the note of the settings is new, and nothing is worth showing.
    monkeypatch.setenv("MEMORY_SERVER_WORDS__NAMES", "星露谷")
    assert cli.text("doctor", "--reindex", "--dry-run") == "default would change 0 of 1\n"
    assert cli.text("doctor", "--reindex").startswith("default changed 0 of 1, change ")
    assert "indexed with the current settings" in cli.text("doctor")


def test_an_added_memory_carries_the_options_it_was_indexed_with() -> None:
    change = Added(DATES.of_text(memory("a", text="user: 5月2日")))
    assert change.memory.indexed_with == "dates"
    assert DATES.is_of(change.memory)
    assert not KeywordOptions().is_of(change.memory)
