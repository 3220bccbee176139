"""The composition root: every setting arrives where it counts, a memory is open once, the slow parts come later."""

from __future__ import annotations

import asyncio
import dataclasses
import gc
import json
import math
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from settings_environment import as_environment

from memory_server import Message, Settings, open_memory
from memory_server.config import AdvancedSettings, UpkeepSettings, WordSettings, load
from memory_server.config.recall import parameters
from memory_server.conversations.recall.parameters import (
    NODE_RETENTION,
    USUAL,
    Parameters,
    RecallParameters,
)
from memory_server.conversations.recall.words import KeywordOptions
from memory_server.kernel.errors import InvalidInput, MemoryClosed, TriggersUnavailable
from memory_server.kernel.times import DAY_MS, MINUTE_MS
from memory_server.runtime.app import App
from memory_server.runtime.runtime import Runtime, sandbox_of
from nlp import Enrichment, QueryWeights
from nlp.normal_forms import can_simplify

ADVANCED: dict[str, Any] = {
    "decay_ceiling": 11.0,
    "meaning_margin": 1.5,
    "must_share": False,
    "neighbour_share": 0.27,
    "episode_share": 0.28,
    "episode_pause_ms": 10,
    "spacing_ms": 9,
    "same_moment": 25,
    "top_reinforcement": 12.0,
    "next_reinforcement": 13.0,
    "score_ceiling": 14.0,
    "flashback_recency_weight": 15.0,
    "flashback_score_weight": 16.0,
    "flashback_score_full": 17.0,
    "flashback_horizon_ms": 18,
    "question_match": 0.19,
    "statement_match": 0.2,
    "few_holders": 21,
    "typo_factor": 0.22,
    "span_points": 23.0,
    "span_match": 0.23,
    "span_before_ms": 24,
    "span_after_ms": 25,
    "cue_points": 26.0,
    "reordered": 27,
    "answers": False,
    "matches_for_chance": False,
    "statement_words": 29,
    "nearly_best": 0.3,
    "with_best": 0.31,
    "nearly_best_given": 0.36,
    "nearly_best_further": 0.37,
    "part_asked": 0.38,
    "whole_weight": 4.5,
    "other_words_needed": 33,
    "other_words_asked": 3.5,
    "other_words_told": 3.6,
    "long_message_words": 3.4,
}
DISTINCT: dict[str, Any] = {
    "half_life_days": 2.0,
    "threshold": 3.5,
    "top_count": 4,
    "next_count": 6,
    "flashback_count": 7,
    "own_conversation_minutes": 8.0,
    "sessions": False,
    "keep_at_least": 22,
    "forget_at_most": 23,
    "advanced": ADVANCED,
}


def test_every_setting_of_recall_arrives_where_it_counts() -> None:
    settings = Settings.model_validate({"short_term": DISTINCT, "triggers": {"random_count": 24}})
    assert set(DISTINCT) == set(type(settings.short_term).model_fields), (
        "a new setting belongs into this table"
    )
    applied = parameters(settings)
    recall = dataclasses.asdict(applied.recall)
    assert recall.pop("decay_per_ms") == pytest.approx(4.0113e-9, rel=1e-4)  # ln 2 over two days
    assert recall == {
        **ADVANCED,
        "threshold": -math.inf,
        "least_match": 3.5,
        "rarity": True,
        "top_count": 4,
        "next_count": 6,
        "flashback_count": 7,
        "own_conversation_ms": 8 * MINUTE_MS,
        "sessions": False,
        "weak_too": False,
        "question_count": None,
    }
    assert set(ADVANCED) == set(AdvancedSettings.model_fields), (
        "a new constant belongs into this table"
    )
    node = parameters(settings.model_copy(update={"compat": "node"})).recall
    assert (node.threshold, node.least_match, node.neighbour_share, node.spacing_ms) == (
        3.5,
        0.0,
        0.0,
        9,
    )
    assert parameters(Settings(compat="node")).recall == RecallParameters(sessions=False)
    assert dataclasses.asdict(applied.retention) == {
        "max_age_ms": 365 * DAY_MS,
        "min_relevance": -5.0,
        "always_kept": 22,
        "recalled_last": True,
        "age_counts_alone": False,
        "most_at_once": 23,
    }
    assert applied.random_long_term == 24


def test_the_defaults_of_the_settings_are_those_of_recall() -> None:
    applied = parameters(Settings())
    assert applied.at_every_prompt == parameters(Settings().unasked()).recall
    assert dataclasses.replace(
        applied, wording=KeywordOptions(), at_every_prompt=RecallParameters()
    ) == Parameters(recall=USUAL)
    assert applied.wording.enrichment == Enrichment(
        simplified=can_simplify(),
        normal_forms=True,
        scripts=True,
        dates=True,
        stems=True,
        speakers=True,
        long_texts=True,
    )
    assert applied.wording.emphasis == QueryWeights(
        earlier=0.7,
        before_question=0.1,
        function_words=0.5,
        relative_days=0.3,
        pairs=0.3,
        given=1.0,
        given_for_question=0.4,
        kept=0.7,
    )
    assert applied.wording.grams


def test_every_setting_of_words_arrives_where_it_counts() -> None:
    switches = [
        name for name, field in WordSettings.model_fields.items() if field.annotation is bool
    ]
    factors: dict[str, Any] = {
        "earlier_messages": 0.26,
        "before_question": 0.16,
        "pairs": 0.0,
        "function_words": 0.6,
        "relative_days": 0.7,
        "other_words": 0.8,
        "other_words_for_question": 0.4,
        "kept_words": 0.9,
    }
    assert {*switches, *factors, "names"} == set(WordSettings.model_fields), (
        "a new setting belongs into this test"
    )
    off: dict[str, Any] = dict.fromkeys(switches, False)
    for name in switches:
        applied = parameters(Settings.model_validate({"words": off | {name: True}}))
        enrichment = applied.wording.enrichment
        if name == "rarity":
            assert applied.recall.rarity
        else:
            is_on = name != "simplified" or can_simplify()
            assert enrichment == Enrichment(**{name: is_on})
    words = {
        "words": {**off, **factors, "names": " 阿芙萝黛蒂, New York ,,阿芙萝黛蒂"},
        "timezone": "Asia/Shanghai",
    }
    applied = parameters(Settings.model_validate(words))
    wording = applied.wording
    assert (applied.recall.rarity, wording.grams) == (False, False)
    assert wording.emphasis == QueryWeights(
        earlier=0.26,
        before_question=0.16,
        function_words=0.6,
        relative_days=0.7,
        given=0.8,
        given_for_question=0.4,
        kept=0.9,
    )
    assert wording.enrichment == Enrichment(words=("阿芙萝黛蒂", "New York"))
    assert str(wording.zone) == "Asia/Shanghai"


def test_names_count_in_the_conversations_that_their_pattern_means() -> None:
    wording = parameters(
        Settings.model_validate(
            {"words": {"names": "龙井"}, "names_of": {"小明*": ["芝麻"], "*": "阿芙萝黛蒂, 芝麻"}}
        )
    ).wording
    assert wording.within("小明和她").enrichment.words == ("龙井", "芝麻", "阿芙萝黛蒂")
    assert wording.within("小红").enrichment.words == ("龙井", "阿芙萝黛蒂", "芝麻")
    node = parameters(
        Settings.model_validate({"compat": "node", "names_of": {"*": ["芝麻"]}})
    ).wording
    assert node.within("小明").enrichment == Enrichment()


@pytest.mark.anyio
async def test_a_name_of_one_conversation_is_whole_there_and_only_there(tmp_path: Path) -> None:
    settings = Settings.model_validate({"names_of": {"小明": ["龙胆阿芙"]}})
    async with open_memory(tmp_path, settings=settings) as memory:
        for name, is_whole in (("小明", True), ("小红", False)):
            chat = memory.conversation(name)
            stored = await chat.short_term.add([Message("user", "龙胆阿芙来了")])
            assert ("龙胆阿芙" in stored.memory.words) == is_whole
            assert (
                "龙胆阿芙" in (await chat.short_term.query_of([Message("user", "龙胆阿芙")])).words
            ) == is_whole
            assert await chat.short_term.outdated() == 0


@pytest.mark.anyio
async def test_compat_node_stores_the_keywords_that_the_node_original_would(tmp_path: Path) -> None:
    """The vectors were recorded with it (tests/golden/keywords_node.mjs)."""
    golden = json.loads(
        (Path(__file__).parents[1] / "golden" / "keywords_node.json").read_text(encoding="utf-8")
    )
    compared = 0
    async with open_memory(
        tmp_path, settings=Settings(compat="node", timezone="Asia/Shanghai")
    ) as memory:
        for case in golden["chats"]:
            messages = [
                Message(message["role"], message["content"]) for message in case["messages"]
            ]
            if not any(message.content.strip() for message in messages):
                continue
            weights = {role: float(weight) for role, weight in case["roleWeights"].items()}
            stored = (
                await memory.conversation().short_term.add(messages, role_weights=weights)
            ).memory
            expected = [(entry["word"], entry["weight"]) for entry in case["keywords"]]
            assert list(zip(stored.words, stored.weights, strict=True)) == expected, case["name"]
            compared += len(expected)
    assert compared > 100


def test_compat_node_is_one_setting_for_everything(tmp_path: Path) -> None:
    settings = Settings.model_validate(
        {
            "compat": "node",
            "words": {"pairs": 1, "names": "小明"},
            "short_term": {"advanced": {"episode_share": 1}},
        }
    )
    assert parameters(settings) == Parameters(
        recall=RecallParameters(sessions=False),
        at_every_prompt=parameters(settings.unasked()).recall,
        retention=NODE_RETENTION,
        same_turn_ms=0,
    )
    assert open_memory(tmp_path, settings=settings).conversations._shared_conversation is None


def test_compat_node_keeps_as_many_as_the_settings_say() -> None:
    settings = Settings.model_validate({"compat": "node", "short_term": {"keep_at_least": 20_000}})
    assert parameters(settings).retention == dataclasses.replace(NODE_RETENTION, always_kept=20_000)


def test_without_opencc_the_other_words_are_as_usual(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("memory_server.config.recall.can_simplify", lambda: False)
    assert parameters(Settings()).wording.enrichment == Enrichment(
        normal_forms=True, scripts=True, dates=True, stems=True, speakers=True, long_texts=True
    )


def test_settings_survive_the_way_through_an_environment() -> None:
    settings = Settings.model_validate(
        {
            "short_term": DISTINCT,
            "conversation": "小满",
            "now": "2026-06-20T10:00:00",
            "upkeep": {"enabled": False},
            "names_of": {"小明*": ["芝麻"]},
        }
    )
    assert load(as_environment(settings) | {"MEMORY_SERVER_CONFIG": "/dev/null"}) == settings


def test_the_limits_of_the_sandbox_and_of_the_store_are_settings(tmp_path: Path) -> None:
    limits = {"trigger_seconds": 0.25, "search_seconds": 0.75, "heap_mb": 48}
    app = App(Settings.model_validate({"data_dir": tmp_path, "triggers": limits}))
    assert {name: getattr(app.sandbox.limits, name) for name in limits} == limits


@pytest.mark.parametrize("demanded", [False, True])
def test_all_layers_of_protection_can_be_demanded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, demanded: bool
) -> None:
    sandbox_options: list[dict[str, Any]] = []
    monkeypatch.setattr(
        "memory_server.runtime.runtime.TriggerSandbox",
        lambda _limits, **options: sandbox_options.append(options),
    )
    triggers = {"require_all_layers": True} if demanded else {}
    App(Settings.model_validate({"data_dir": tmp_path, "triggers": triggers}))
    assert [options["require_all_layers"] for options in sandbox_options] == [demanded]


@pytest.mark.anyio
async def test_a_memory_is_used_inside_its_block_and_opened_once(tmp_path: Path) -> None:
    app = open_memory(tmp_path)
    with pytest.raises(MemoryClosed, match="is not open"):
        app.conversation("a")
    async with app:
        long_term = app.conversation("a").long_term
        await long_term.add("name", "prompt", "true")
    with pytest.raises(MemoryClosed, match="is not open"):
        app.conversation("a")
    with pytest.raises(MemoryClosed, match="opened before"):
        await app.__aenter__()
    with pytest.raises(TriggersUnavailable, match="cannot run now"):
        await long_term.search([Message("user", "hi")])


@pytest.mark.anyio
async def test_a_server_settles_by_warming_up_and_then_keeping_the_schedule(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []
    started = asyncio.Event()

    class Recorded:
        def __init__(self, maintenance: object, hour: int, zone: str | None) -> None:
            done.append(f"jobs at {hour} in {zone}")

        async def start(self) -> None:
            done.append("start")
            started.set()

        async def stop(self) -> None:
            done.append("stop")

    async def warm(self: App) -> None:
        done.append("warm")

    monkeypatch.setattr("memory_server.runtime.upkeep.Jobs", Recorded)
    monkeypatch.setattr(App, "warm", warm)
    app = App(
        Settings.model_validate(
            {"data_dir": tmp_path, "timezone": "Asia/Shanghai", "upkeep": {"hour": 5}}
        )
    )
    settling = asyncio.create_task(app.settle())
    async with asyncio.timeout(10):
        await started.wait()
    settling.cancel()
    await asyncio.gather(settling, return_exceptions=True)
    assert done == ["warm", "jobs at 5 in Asia/Shanghai", "start", "stop"]


@pytest.mark.anyio
async def test_a_server_that_started_without_collecting_garbage_collects_again(
    tmp_path: Path,
) -> None:
    settings = Settings(upkeep=UpkeepSettings(enabled=False))
    gc.disable()
    try:
        async with App(settings.model_copy(update={"data_dir": tmp_path})) as app:
            await app.settle()
        assert gc.isenabled()
    finally:
        gc.enable()
        gc.unfreeze()


@pytest.mark.anyio
async def test_apps_share_a_sandbox_that_its_owner_closes(tmp_path: Path) -> None:
    settings = Settings()
    sandbox = sandbox_of(settings)
    try:
        for name in ("one", "two"):
            own = settings.model_copy(update={"data_dir": tmp_path / name})
            async with App(own, runtime=Runtime(own, lent_sandbox=sandbox)) as app:
                chat = app.conversation()
                await chat.long_term.add("cake", "bake one", "true")
                activation = await chat.long_term.search([Message("user", "hello")])
                assert [item.memory.name for item in activation.activated] == ["cake"]
            assert sandbox.pids, "still running for the next app"
        # One runs triggers, one is a spare, and one that has run no trigger reads what they need.
        assert sandbox.workers_started <= 3
    finally:
        await sandbox.aclose()


@pytest.mark.anyio
async def test_a_companion_names_its_time_zone(tmp_path: Path) -> None:
    """Breakfast in Shanghai is at one in the night in London."""
    breakfast = datetime(2026, 3, 11, 8, 30, tzinfo=ZoneInfo("Asia/Shanghai"))
    settings = Settings(now=datetime(2026, 3, 18, 12, tzinfo=UTC), timezone="UTC", language="zh")
    async with open_memory(tmp_path, settings=settings) as memory:
        message = Message("user", "早餐吃了小笼包", round(breakfast.timestamp() * 1000))
        await memory.conversation().short_term.add([message])
    shown = {}
    for zone in (None, "Asia/Shanghai"):
        async with open_memory(tmp_path, timezone=zone, settings=settings) as memory:
            shown[zone] = await memory.recall_turn([Message("user", "小笼包好吃吗？")])
    assert "凌晨" in shown[None]
    assert "早上" in shown["Asia/Shanghai"]


@pytest.mark.parametrize("zone", ["Shanghai", "", "UTC+8", "../etc/passwd"])
def test_a_time_zone_that_does_not_exist_is_one_sentence(tmp_path: Path, zone: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        open_memory(tmp_path / "memories", timezone=zone)
    assert (
        str(refused.value)
        == f"`{zone}` is not an IANA time zone; write for example `Asia/Shanghai`."
    )
    assert not (tmp_path / "memories").exists()
