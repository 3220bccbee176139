"""Lorebook entries in the chats of a host: what counts for sticky and cooldown, who writes it, what leaves no trace."""

from __future__ import annotations

import asyncio
import json
import subprocess
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from forked_programs import ForkedProgram, start
from sample_memories import NOW

from memory_server import App, Settings
from memory_server.conversations.changes import change_id
from memory_server.kernel.errors import LockTimeout
from memory_server.kernel.private import Pause
from memory_server.lore.memory import (
    PLAIN,
    BookEntry,
    FiringRules,
    GroupRules,
    LongTermMemory,
    RecursionRules,
    TriggerSet,
)
from memory_server.lore.rounds import MARK
from memory_server.runtime.runtime import Runtime
from memory_server.tools import TOOLS
from memory_server.tools.base.tool import Answer, call
from memory_server.tools.turn import recall_turn
from sandbox import Failed, TriggerSandbox

pytestmark = pytest.mark.anyio

SAID = {"role": "user", "content": "my sword"}
SWORD = "match_keys(context.messages, ['sword']) > 0"


def lore(
    name: str, prompt: str = "", rules: FiringRules = PLAIN, trigger: str = SWORD, uid: str = ""
) -> LongTermMemory:
    book = BookEntry("tale", "Tale", "tale.json", uid or name)
    return LongTermMemory(name, prompt or f"about {name}", trigger, NOW, rules=rules, book=book)


async def store(app: App, *memories: LongTermMemory, conversation: str = "default") -> None:
    changes = [TriggerSet(memory, None) for memory in memories]
    await app.store.update(conversation, lambda _state: (changes, None), by="test")


async def recall(app: App, text: str = "my sword", **more: Any) -> Answer:
    arguments = {"messages": [{"role": "user", "content": text}], "session": "s", **more}
    return await call(recall_turn, app.call, arguments)


def activated_names(answer: Answer) -> list[str]:
    return [row["name"] for row in answer.structured["longTerm"]["activated"]]


def left_out(answer: Answer) -> dict[str, str]:
    return {row["name"]: row["reason"] for row in answer.structured["longTerm"]["leftOut"]}


async def version_of(app: App) -> int:
    return (await app.store.read("default")).version


# --- the state of a chat --------------------------------------------------------------------------------------


async def test_recalls_count_where_the_host_does_not(app: App) -> None:
    await store(app, lore("Sword", rules=FiringRules(cooldown=2)))
    answers = [await recall(app) for _ in range(4)]
    assert [activated_names(answer) for answer in answers] == [["Sword"], [], ["Sword"], []]
    assert left_out(answers[1]) == {"Sword": "cooldown"}


async def test_a_host_that_counts_messages_is_believed(app: App) -> None:
    await store(app, lore("Sword", rules=FiringRules(cooldown=4)))
    for count, comes in ((3, True), (3, True), (5, False), (6, False), (7, True)):
        answer = await recall(app, messageCount=count)
        assert bool(activated_names(answer)) is comes, count


async def test_each_chat_has_its_own_state(app: App) -> None:
    await store(app, lore("Sword", rules=FiringRules(once=True)))
    assert activated_names(await recall(app, session="a")) == ["Sword"]
    assert activated_names(await recall(app, session="a")) == []
    assert activated_names(await recall(app, session="b")) == ["Sword"]


async def test_sticky_comes_without_its_key_and_delay_waits(app: App) -> None:
    await store(
        app, lore("Sword", rules=FiringRules(sticky=3)), lore("Late", rules=FiringRules(delay=3))
    )
    assert activated_names(await recall(app)) == ["Sword"]
    assert activated_names(await recall(app, "nothing")) == ["Sword"]
    assert sorted(activated_names(await recall(app))) == ["Late", "Sword"]
    assert activated_names(await recall(app, "nothing")) == []


async def test_what_had_no_room_did_not_come_and_has_no_cooldown(app: App) -> None:
    rules = FiringRules(cooldown=9, order=1)
    await store(app, lore("First", "f" * 300), lore("Sword", "s" * 300, rules))
    answer = await recall(app, maxChars=700)
    assert (activated_names(answer), left_out(answer)) == (["First"], {"Sword": "room"})
    assert set(activated_names(await recall(app))) == {"First", "Sword"}
    assert left_out(await recall(app)) == {"Sword": "cooldown"}


async def test_a_trigger_reads_when_it_last_came(app: App) -> None:
    source = "context.last_fired === null || context.last_fired.messages >= 3"
    await store(app, LongTermMemory("Now and then", "x", source, NOW))
    assert [bool(activated_names(await recall(app))) for _ in range(5)] == [
        True,
        False,
        False,
        True,
        False,
    ]


async def test_a_recall_without_a_trace_writes_no_state(app: App) -> None:
    await store(app, lore("Sword", rules=FiringRules(once=True)))
    before = await version_of(app)
    for _ in range(2):
        assert activated_names(await recall(app, reinforce=False)) == ["Sword"]
    assert await version_of(app) == before


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("search_long_term_memories", {"messages": [SAID]}),
        ("search_short_term_memories", {"recentMessages": [SAID]}),
        ("search_memories", {"query": "sword"}),
    ],
)
async def test_searches_and_explanations_write_no_state(
    app: App, name: str, arguments: dict[str, Any]
) -> None:
    await store(app, lore("Sword", rules=FiringRules(once=True)))
    before = await version_of(app)
    await call(TOOLS[name], app.call, arguments)
    assert await version_of(app) == before
    assert activated_names(await recall(app)) == ["Sword"]


async def test_a_paused_memory_writes_no_state(app: App) -> None:
    await store(app, lore("Sword", rules=FiringRules(once=True)))
    before = await version_of(app)
    app.home.pause.write(Pause(None))
    assert activated_names(await recall(app)) == activated_names(await recall(app)) == ["Sword"]
    assert await version_of(app) == before


async def test_a_read_only_memory_writes_no_state(
    tmp_path: Path, trigger_sandbox: TriggerSandbox
) -> None:
    settings = Settings(data_dir=tmp_path / "data", timezone="UTC")
    async with App(settings) as writable:
        await store(writable, lore("Sword", rules=FiringRules(once=True)))
        before = await version_of(writable)
    read_only = settings.model_copy(update={"read_only": True})
    async with App(read_only, runtime=Runtime(read_only, lent_sandbox=trigger_sandbox)) as app:
        assert activated_names(await recall(app)) == activated_names(await recall(app)) == ["Sword"]
        assert await version_of(app) == before


async def test_where_no_rule_counts_messages_nothing_is_written(app: App) -> None:
    await store(app, lore("Sword", rules=FiringRules(order=7)))
    before = await version_of(app)
    await recall(app)
    assert await version_of(app) == before


async def test_the_state_comes_back_in_another_process_and_an_undo_takes_it_back(
    tmp_path: Path, trigger_sandbox: TriggerSandbox
) -> None:
    settings = Settings(data_dir=tmp_path / "data", timezone="UTC")
    async with App(settings, runtime=Runtime(settings, lent_sandbox=trigger_sandbox)) as app:
        await store(app, lore("Sword", rules=FiringRules(once=True)))
        assert activated_names(await recall(app)) == ["Sword"]
    async with App(settings, runtime=Runtime(settings, lent_sandbox=trigger_sandbox)) as app:
        assert activated_names(await recall(app)) == []
        history = await app.store.history("default")
        recall_commit = next(
            commit for commit in history if commit.by == "recall_turn" and commit.version == 2
        )
        await app.memories.engines[0].undo(change_id("default", recall_commit.version))
        assert activated_names(await recall(app)) == ["Sword"]


def run_recall(data: Path) -> ForkedProgram:
    arguments = {"messages": [{"role": "user", "content": "my sword"}], "session": "s"}
    command = ["--data-dir", str(data), "call", "recall_turn", json.dumps(arguments)]
    return start(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


async def test_two_windows_at_once_count_once_each(tmp_path: Path) -> None:
    settings = Settings(data_dir=tmp_path / "data", timezone="UTC")
    async with App(settings) as app:
        await store(app, lore("Sword", rules=FiringRules(cooldown=100)))
    windows = [run_recall(tmp_path / "data") for _ in range(2)]
    for window in windows:
        out, err = await asyncio.to_thread(window.communicate, timeout=60)
        assert window.returncode == 0, err
        assert b"prompt" in out
    async with App(settings) as app:
        (chat,) = (await app.store.read("default")).chats.values()
        assert chat.messages == 2
        (firing,) = chat.firings.values()
        assert firing.cooldown is not None
        assert firing.cooldown.start in (1, 2)


async def test_a_window_that_is_killed_leaves_a_state_that_is_whole(tmp_path: Path) -> None:
    settings = Settings(data_dir=tmp_path / "data", timezone="UTC")
    async with App(settings) as app:
        await store(app, lore("Sword", rules=FiringRules(cooldown=2)))
    for number in range(4):
        window = run_recall(tmp_path / "data")
        await asyncio.sleep(0.05 * (number + 1))
        window.kill()
        await asyncio.to_thread(window.communicate)
    async with App(settings) as app:
        before = sum(chat.messages for chat in (await app.store.read("default")).chats.values())
        assert 0 <= before <= 4
        await recall(app)
        assert (await app.store.read("default")).chats["s"].messages == before + 1


async def test_a_lock_that_does_not_come_in_time_is_said(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    await store(app, lore("Sword", rules=FiringRules(once=True)))

    async def locked(*_arguments: Any, **_more: Any) -> Any:
        raise LockTimeout("held")

    monkeypatch.setattr(app.store, "update", locked)
    answer = await recall(app)
    assert activated_names(answer) == ["Sword"]
    assert "What came was not counted for cooldowns" in answer.structured["note"]


# --- what stands in a prompt ----------------------------------------------------------------------------------


@pytest.mark.parametrize("letter", ["a", "长", "あ", "🎂", "é"])
async def test_no_script_makes_an_answer_cut_a_prompt(app: App, letter: str) -> None:
    parts = [
        lore(str(number), f"{letter * 12_000} {number}", FiringRules(order=number))
        for number in range(4)
    ]
    await store(app, *parts)
    answer = await recall(app, maxChars=50_000)
    prompt = answer.structured["prompt"]
    assert 36_000 < len(prompt) <= 50_000
    assert prompt.count(letter) >= 36_000
    assert len(activated_names(answer)) + len(left_out(answer)) == 4
    assert prompt in str(answer.text)


async def test_activated_names_what_stands_in_the_prompt_in_its_order(app: App) -> None:
    await store(
        app, lore("Low", rules=FiringRules(order=1)), lore("High", rules=FiringRules(order=9))
    )
    answer = await recall(app)
    rows = answer.structured["longTerm"]["activated"]
    assert [(row["name"], row["order"], row["chars"]) for row in rows] == [
        ("Low", 1, 9),
        ("High", 9, 10),
    ]
    assert all("prompt" not in row for row in rows)
    prompt = answer.structured["prompt"]
    assert prompt.index("[Low] about Low") < prompt.index("[High] about High")


async def test_texts_of_a_book_bring_others_and_macros_are_filled_before(app: App) -> None:
    recursive = FiringRules(recursion=RecursionRules(is_on=True))
    bow = "match_keys(context.messages, ['Mika']) > 0"
    await store(
        app, lore("Sword", "{{char}} has it.", recursive), lore("Bow", rules=recursive, trigger=bow)
    )
    assert activated_names(await recall(app)) == ["Sword"]
    answer = await recall(app, participants={"user": "Ann", "char": {"name": "Mika"}})
    assert sorted(activated_names(answer)) == ["Bow", "Sword"]
    assert "[Sword] Mika has it." in answer.structured["prompt"]


async def test_one_of_a_group_comes_and_the_rest_is_named(app: App) -> None:
    rules = FiringRules(group=GroupRules(("weather",)))
    await store(app, *(lore(name, rules=rules) for name in ("Rain", "Sun", "Snow")))
    answer = await recall(app, messageCount=5)
    assert len(activated_names(answer)) == 1
    assert set(left_out(answer).values()) == {"group"}
    assert activated_names(await recall(app, messageCount=5)) == activated_names(answer), (
        "the draw is the same for one message"
    )


async def test_two_memories_with_the_same_macro_draw_for_themselves(app: App) -> None:
    macro = "{{pick::" + "::".join(map(str, range(50))) + "}}"
    await store(
        app, *(lore(f"m{number}", f"{macro} #{number}", trigger="true") for number in range(6))
    )
    lines: Sequence[str] = (await recall(app)).structured["prompt"].splitlines()
    drawn = {line.split()[1] for line in lines if line.startswith("[m")}
    assert len(drawn) > 2


async def test_a_trigger_that_had_no_time_is_named_and_the_others_come(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    await store(app, lore("Sword"), lore("Bomb"))
    evaluate = app.memories.services.runner.evaluate

    async def without_time(triggers: Sequence[str], *arguments: Any, **more: Any) -> Any:
        verdicts = dict(await evaluate(triggers, *arguments, **more))
        return verdicts | {1: Failed("not_evaluated", "no time was left", None, None, 0)}

    monkeypatch.setattr(app.memories.services.runner, "evaluate", without_time)
    answer = await recall(app)
    assert activated_names(answer) == ["Sword"]
    assert "1 trigger did not run" in answer.structured["note"]


async def test_a_trigger_that_had_no_time_in_a_round_of_recursion_is_named(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    recursive = FiringRules(recursion=RecursionRules(is_on=True))
    excluded = FiringRules(recursion=RecursionRules(is_on=True, is_excluded=True))
    shield = "match_keys(context.messages, ['shield']) > 0"
    await store(
        app,
        lore("Sword", "It hangs beside the shield.", recursive),
        lore("Shield", "It is round.", recursive, shield),
        lore("Helmet", "It is old.", excluded, shield),
    )
    evaluate = app.memories.services.runner.evaluate

    async def without_time(triggers: Sequence[str], context: Any, **more: Any) -> Any:
        if MARK in context["messages"][-1]["content"]:
            late = Failed("not_evaluated", "no time was left", None, None, 0)
            return dict.fromkeys(range(len(triggers)), late)
        return await evaluate(triggers, context, **more)

    monkeypatch.setattr(app.memories.services.runner, "evaluate", without_time)
    answer = await recall(app)
    assert activated_names(answer) == ["Sword"]
    assert "1 trigger did not run" in answer.structured["note"]
    assert [each["name"] for each in answer.structured["longTerm"]["failed"]] == ["Shield"]


async def test_a_trigger_is_told_when_its_memory_last_came_in_rounds_of_recursion_too(
    app: App,
) -> None:
    recursive = FiringRules(recursion=RecursionRules(is_on=True))
    once = "context.last_fired === null && match_keys(context.messages, ['sword', 'shield']) > 0"
    await store(
        app,
        lore("Sword", "It hangs beside the shield.", recursive),
        lore("Introduction", "It is new here.", recursive, once),
    )
    assert activated_names(await recall(app)) == ["Introduction", "Sword"]
    assert activated_names(await recall(app)) == ["Sword"]


async def test_two_memories_with_the_same_trigger_came_each_at_its_own_time(app: App) -> None:
    recursive = FiringRules(recursion=RecursionRules(is_on=True))
    once = "context.last_fired === null && match_keys(context.messages, ['shield']) > 0"
    await store(
        app,
        lore("Sword", "It hangs beside the shield.", recursive),
        lore("Introduction", "It is new here.", recursive, once),
        lore("Second introduction", "It is known here.", replace(recursive, delay=2), once),
    )
    assert activated_names(await recall(app)) == ["Introduction", "Sword"]
    assert activated_names(await recall(app)) == ["Second introduction", "Sword"]
    assert activated_names(await recall(app)) == ["Sword"]


async def test_an_entry_that_ignores_the_budget_takes_the_place_of_none(app: App) -> None:
    wall = lore("Wall", "stone " * 480)
    moat = lore("Moat", "water " * 450, rules=FiringRules(order=50))
    await store(app, wall, moat)
    assert activated_names(await recall(app)) == ["Moat", "Wall"]
    await store(app, lore("Flag", "It is red.", rules=FiringRules(order=1, ignores_budget=True)))
    assert activated_names(await recall(app)) == ["Flag", "Moat", "Wall"]
