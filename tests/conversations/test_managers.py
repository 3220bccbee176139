"""The managers of a conversation: remember, recall, forget; triggers; with a table in place of the sandbox."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from random import Random
from typing import Any

import pytest
from memory_store import MemoryStore
from sample_memories import DAY, MINUTE, NOW, memory, trigger
from trigger_table import TableRunner

from memory_server.conversations import search
from memory_server.conversations.changes import Added, Change, Reinforced
from memory_server.conversations.conversation import Conversations
from memory_server.conversations.recall.parameters import Parameters, RetentionParameters
from memory_server.conversations.recall.request import RecallRequest
from memory_server.conversations.recall.selection import Recall
from memory_server.conversations.search import SEARCH_WAIT_SECONDS
from memory_server.conversations.services import Services
from memory_server.conversations.short_term import ShortTermManager
from memory_server.kernel.errors import (
    InvalidInput,
    InvalidPattern,
    StorageUnwritable,
    TriggersUnavailable,
)
from memory_server.kernel.files import try_lock
from memory_server.kernel.messages import Message
from memory_server.kernel.recalled_block import FRAME_CHARS, marked
from memory_server.lore.memory import TriggerSet
from memory_server.memories.memories import Call, Memories
from memory_server.memories.turns import MAX_CHARS, prompt_room, recall_for_turn, recalled_block
from memory_server.storage.json_store.store import JsonFileStore

pytestmark = pytest.mark.anyio

PIZZA = Message("user", "我喜欢吃披萨")
ASK = Message("user", "晚上吃披萨吗？")
NO_HOME: Any = (None, None, None, None)


class Clock:
    def __init__(self) -> None:
        self.now_ms = NOW

    def __call__(self) -> int:
        return self.now_ms


class House:
    """Conversations over a store in memory, with a clock to turn."""

    def __init__(self, store: MemoryStore | JsonFileStore | None = None, **options: Any) -> None:
        self.store = store or MemoryStore()
        self.runner = TableRunner()
        self.clock = Clock()
        parameters = options.pop(
            "parameters", Parameters(retention=RetentionParameters(always_kept=1))
        )
        services = Services(self.store, self.runner, parameters, self.clock, Random(5))
        self.conversations = Conversations(services, **options)
        self.call = Call(Memories(self.conversations, services, *NO_HOME), self.conversations)
        self.chat = self.conversations.get("chat")

    async def commit(self, *changes: Change, chat: str = "chat") -> None:
        await self.store.update(chat, lambda state: (changes, None), by="test")


@pytest.fixture
def house() -> House:
    return House()


@pytest.fixture
async def on_disk(tmp_path: Path) -> AsyncIterator[House]:
    store = JsonFileStore(tmp_path, lambda: NOW)
    yield House(store)
    await store.aclose()


# --- short-term memories -----------------------------------------------------------------------------------


async def test_a_memory_holds_the_messages_their_text_and_keywords(house: House) -> None:
    messages = [
        Message("user", "我喜欢吃披萨", NOW - 5, "小明"),
        Message("assistant", "记住了", NOW - 3),
    ]
    stored = await house.chat.short_term.add(messages)
    memory_of_it = stored.memory
    assert stored.total == 1
    assert memory_of_it.text == "小明: 我喜欢吃披萨\nassistant: 记住了"
    assert memory_of_it.time_ms == NOW - 3
    assert memory_of_it.score == 0.0
    assert memory_of_it.conversation_id == "chat"
    assert memory_of_it.messages == tuple(messages)
    assert "披萨" in memory_of_it.words
    assert list(memory_of_it.weights) == sorted(memory_of_it.weights, reverse=True)
    assert (await house.store.read("chat")).short_term == {memory_of_it.id: memory_of_it}
    later = [*messages[:-1], replace(messages[-1], time_ms=NOW - DAY)]
    second = await house.chat.short_term.add(later)
    assert second.total == 2
    assert second.memory.id != memory_of_it.id


@pytest.mark.parametrize(("last", "time_ms"), [(None, NOW), (5, 5), (NOW + DAY, NOW + DAY)])
async def test_a_memory_is_dated_by_its_last_message_else_now(
    house: House, last: int | None, time_ms: int
) -> None:
    messages = [Message("user", "早", 1), Message("user", "披萨", last)]
    assert (await house.chat.short_term.add(messages)).memory.time_ms == time_ms


async def test_role_weights_count(house: House) -> None:
    usual = (await house.chat.short_term.add([PIZZA])).memory
    doubled = (
        await house.chat.short_term.add([replace(PIZZA, time_ms=1)], role_weights={"user": 5.4})
    ).memory
    without = (
        await house.chat.short_term.add(
            [replace(PIZZA, time_ms=NOW - DAY)], role_weights={"user": 0.0}
        )
    ).memory
    assert doubled.weights == pytest.approx([2 * weight for weight in usual.weights])
    assert without.words == ()


@pytest.mark.parametrize(
    "messages", [[], [Message("user", "")], [Message("user", " \n"), Message("system", "")]]
)
async def test_there_must_be_something_to_remember(house: House, messages: list[Message]) -> None:
    with pytest.raises(InvalidInput, match="no text to remember"):
        await house.chat.short_term.add(messages)
    assert await house.conversations.ids() == []


async def test_a_newcomer_is_told_that_the_memory_is_held_back(house: House) -> None:
    await house.chat.short_term.add([PIZZA])
    results = await house.chat.short_term.search([ASK])
    assert results.recall.top == ()
    assert results.recall.held_back.recent == 1
    assert results.recall.searched == 1
    house.clock.now_ms += 20 * MINUTE
    results = await house.chat.short_term.search([ASK])
    assert [item.memory.text for item in results.recall.top] == ["user: 我喜欢吃披萨"]
    assert results.recall.held_back.recent == 0
    assert "披萨" in results.recall.top[0].receipt.line()


async def test_a_search_reinforces_what_it_gives_and_the_next_sees_it(house: House) -> None:
    words = {"披萨": 60.0}
    await house.commit(
        *(Added(memory(f"m{number}", age=(number + 1) * DAY, words=words)) for number in range(6))
    )
    results = await house.chat.short_term.search([ASK])
    assert results.reinforced
    state = await house.store.read("chat")
    assert {name: stored.score for name, stored in state.short_term.items() if stored.score} == {
        "m0": 5,
        "m1": 5,
        "m2": 2,
    }
    # What is answered is what was before.
    assert [item.memory.score for item in (*results.recall.top, *results.recall.next)] == [0, 0, 0]
    second = await house.chat.short_term.search([ASK])
    assert [item.memory.score for item in second.recall.top] == [5, 5]


async def test_a_search_without_messages_brings_memories_by_score_and_chance(house: House) -> None:
    await house.commit(
        Added(memory("plain", age=DAY, words={"披萨": 60.0})),
        Added(memory("liked", age=2 * DAY, score=50)),
    )
    recall = (await house.chat.short_term.search([])).recall
    assert [item.memory.id for item in recall.top] == ["liked"]
    assert [item.memory.id for item in recall.flashback] == ["plain"]


async def test_a_search_by_what_was_only_recalled_is_refused(house: House) -> None:
    with pytest.raises(InvalidInput, match="no recent messages"):
        await house.chat.short_term.search([Message("user", marked("- 我喜欢披萨", "zh"))])


@pytest.mark.parametrize("text", ["", "  ", "！？", "the and of", "好"])
async def test_a_search_without_words_finds_by_score_and_chance_only(
    house: House, text: str
) -> None:
    await house.commit(
        Added(memory("plain", age=DAY, words={"披萨": 60.0})),
        Added(memory("liked", age=2 * DAY, score=50)),
    )
    recall = (await house.chat.short_term.search([Message("user", text)])).recall
    assert [item.memory.id for item in recall.top] == ["liked"]
    assert [item.memory.id for item in recall.flashback] == ["plain"]


async def test_a_search_that_cannot_get_the_lock_answers_without_reinforcing(
    on_disk: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("memory_server.conversations.search.SEARCH_WAIT_SECONDS", 0.02)
    await on_disk.commit(Added(memory("a", words={"披萨": 60.0})))
    assert isinstance(on_disk.store, JsonFileStore)
    lock = try_lock(on_disk.store.folder("chat") / ".memory-server" / "lock")
    assert lock is not None
    results = await on_disk.chat.short_term.search([ASK])
    assert [item.memory.id for item in results.recall.top] == ["a"]
    assert not results.reinforced
    assert (await on_disk.store.read("chat")).short_term["a"].score == 0
    lock.release()
    assert (await on_disk.chat.short_term.search([ASK])).reinforced
    assert (await on_disk.store.read("chat")).short_term["a"].score == 5


async def test_a_search_waits_one_second_and_its_decision_may_be_made_twice() -> None:
    waits: list[float | None] = []

    class Twice(MemoryStore):
        async def update(
            self, conversation_id: str, decide: Any, *, by: str, wait_seconds: float | None = None
        ) -> Any:
            waits.append(wait_seconds)
            state = await self.read(conversation_id)
            assert decide(state) == decide(state)
            return await super().update(conversation_id, decide, by=by, wait_seconds=wait_seconds)

    house = House(Twice())
    await house.commit(
        *(Added(memory(f"m{number}", age=(number + 1) * DAY)) for number in range(30))
    )
    assert (await house.chat.short_term.search([ASK])).recall.flashback
    assert waits == [None], "nothing came that is reinforced, so nothing is written"
    await house.commit(Added(memory("pizza", words={"披萨": 60.0})))
    assert (await house.chat.short_term.search([ASK])).recall.top
    assert waits == [None, None, SEARCH_WAIT_SECONDS]
    assert SEARCH_WAIT_SECONDS == 1.0


async def test_a_search_in_a_read_only_folder_answers_without_reinforcing(
    on_disk: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    await on_disk.commit(Added(memory("a", words={"披萨": 60.0})))

    def read_only(path: Path) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("memory_server.storage.json_store.store.try_lock", read_only)
    results = await on_disk.chat.short_term.search([ASK])
    assert [item.memory.id for item in results.recall.top] == ["a"]
    assert not results.reinforced
    with pytest.raises(StorageUnwritable, match="cannot be written"):
        await on_disk.chat.short_term.add([PIZZA])


async def test_delete_forgets_what_holds_the_word(house: House) -> None:
    await house.commit(
        *(Added(memory(name, text=f"user: {name}")) for name in ("披萨一", "披萨二", "生日"))
    )
    removed = await house.chat.short_term.delete("披萨")
    assert [(forgotten.memory.id, forgotten.reason) for forgotten in removed.forgotten] == [
        ("披萨一", "deleted"),
        ("披萨二", "deleted"),
    ]
    assert removed.remaining == 1
    assert [*(await house.store.read("chat")).short_term] == ["生日"]
    assert (await house.chat.short_term.delete("披萨")).forgotten == ()


@pytest.mark.parametrize("pattern", ["", "/(/"])
async def test_a_pattern_that_is_none_deletes_nothing(house: House, pattern: str) -> None:
    await house.commit(Added(memory("a")))
    with pytest.raises(InvalidPattern):
        await house.chat.short_term.delete(pattern)
    assert len((await house.store.read("chat")).short_term) == 1


async def test_delete_spares_what_came_after_it_looked(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    await house.commit(Added(memory("a", text="披萨")), Added(memory("b", text="披萨")))
    really_match = house.runner.match_texts

    async def match_texts(pattern: str, texts: list[str]) -> tuple[bool, ...]:
        hits = await really_match(pattern, texts)
        await house.commit(
            Added(memory("b", text="changed meanwhile")), Added(memory("c", text="披萨"))
        )
        return hits

    monkeypatch.setattr(house.runner, "match_texts", match_texts)
    removed = await house.chat.short_term.delete("披萨")
    assert [forgotten.memory.id for forgotten in removed.forgotten] == ["a"]
    assert removed.remaining == 2


async def test_a_clean_up_forgets_what_its_preview_shows(house: House) -> None:
    await house.commit(
        Added(memory("old", age=400 * DAY, score=50)),
        Added(memory("faded", age=30 * DAY)),
        Added(memory("new")),
    )
    preview = await house.chat.short_term.clean_up(dry_run=True)
    assert (await house.store.read("chat")).version == 1
    removed = await house.chat.short_term.clean_up()
    assert replace(removed, change_id=None) == preview
    assert removed.change_id is not None
    assert {forgotten.memory.id: forgotten.reason for forgotten in removed.forgotten} == {
        "old": "too_old",
        "faded": "faded",
    }
    assert removed.remaining == 1
    state = await house.store.read("chat")
    assert [*state.short_term] == ["new"]
    assert state.last_cleanup_ms == NOW
    second = await house.chat.short_term.clean_up()
    assert second.forgotten == ()
    assert second.remaining == 1


async def test_cleaning_up_a_conversation_that_does_not_exist_makes_none(house: House) -> None:
    assert (await house.chat.short_term.clean_up()).remaining == 0
    assert await house.conversations.ids() == []


async def test_statistics_are_those_of_the_memories(house: House) -> None:
    empty = await house.chat.short_term.statistics()
    assert empty.total == 0
    assert empty.average_score is None
    assert empty.highest_score is None
    assert empty.oldest_ms is None
    scores = {"a": 1.0, "b": 3.0, "c": 2.0}
    await house.commit(
        *(
            Added(memory(name, age=number * DAY, score=scores[name], chat="xy"[number == 2]))
            for number, name in enumerate(scores)
        )
    )
    await house.chat.short_term.clean_up()
    statistics = await house.chat.short_term.statistics()
    assert statistics.total == 3
    assert statistics.average_score == 2.0
    assert statistics.highest_score == 3.0
    assert statistics.lowest_score == 1.0
    assert statistics.oldest_ms == NOW - 2 * DAY
    assert statistics.newest_ms == NOW
    assert statistics.last_cleanup_ms == NOW
    assert statistics.by_conversation == {"x": 2, "y": 1}
    assert [stored.id for stored in await house.chat.short_term.memories()] == ["c", "b", "a"]


# --- what cannot be stored as it is ------------------------------------------------------------------------


async def test_what_is_remembered_is_what_a_restart_reads(on_disk: House) -> None:
    broken = [Message("user", "披萨\ud800", NOW - DAY, "明\udfff")]
    stored = await on_disk.chat.short_term.add(broken)
    assert stored.memory.text == "明\ufffd: 披萨\ufffd"
    await on_disk.chat.long_term.add("n\ud800", "p\ud800", "false /* \ud800 */", recent=broken)
    await on_disk.chat.long_term.update("n\ufffd", prompt="q\ud800", updated_context="\ud800")
    assert isinstance(on_disk.store, JsonFileStore)
    restarted = JsonFileStore(on_disk.store.data_dir, lambda: NOW)
    assert await restarted.read("chat") == await on_disk.store.read("chat")


@pytest.mark.parametrize("time_ms", [10**17, -(10**17), 2**63, 253_402_300_800_000])
async def test_a_time_that_no_date_shows_is_refused(house: House, time_ms: int) -> None:
    with pytest.raises(InvalidInput, match="milliseconds since 1970"):
        await house.chat.short_term.add([Message("user", "披萨", time_ms)])
    assert await house.conversations.ids() == []


# --- conversations -----------------------------------------------------------------------------------------


async def test_the_most_frequent_conversation_has_the_most_memories(house: House) -> None:
    assert await house.conversations.most_frequent() is None
    await house.commit(TriggerSet(trigger("t"), None), chat="a")
    assert await house.conversations.most_frequent() is None
    for chat, count in (("小明", 2), ("b", 3), ("c", 3)):
        await house.commit(*(Added(memory(str(number))) for number in range(count)), chat=chat)
    assert await house.conversations.most_frequent() == "b"
    assert await house.conversations.ids() == ["a", "b", "c", "小明"]


def test_a_conversation_is_the_same_by_both_normal_forms_and_the_usual_one_where_none_is_named() -> (
    None
):
    conversations = House(usual="caf\u00e9").conversations
    assert conversations.get() is conversations.get("cafe\u0301")
    assert conversations.get("小明") is not conversations.get("小红")
    with pytest.raises(InvalidInput):
        conversations.get("")


async def test_the_same_seed_gives_the_same_answers() -> None:
    answers = []
    for _ in range(2):
        house = House()
        await house.commit(
            *(Added(memory(f"m{number}", age=(number + 1) * DAY)) for number in range(20))
        )
        await house.commit(
            *(TriggerSet(trigger(f"t{number}", source="false"), None) for number in range(9))
        )
        searches = [await house.chat.short_term.search([ASK]) for _ in range(3)]
        activation = await house.chat.long_term.search([ASK])
        answers.append(([results.recall for results in searches], activation))
    assert answers[0] == answers[1]


async def test_searches_at_once_do_not_mix(house: House) -> None:
    await house.commit(
        *(
            Added(memory(f"m{number}", age=(number + 1) * DAY, words={"披萨": 60.0}))
            for number in range(3)
        )
    )
    await asyncio.gather(*(house.chat.short_term.search([ASK]) for _ in range(10)))
    scores = [stored.score for stored in (await house.store.read("chat")).short_term.values()]
    assert sum(scores) == 10 * (5 + 5 + 2)


async def test_time_passed_to_triggers_is_that_of_the_clock(house: House) -> None:
    await house.chat.long_term.add("birthday", "p", "true")
    house.runner.moments.clear()
    await house.chat.long_term.search([ASK])
    assert house.runner.moments == [datetime(2026, 6, 21, tzinfo=UTC)]


def items_of(recall: Recall, tier: str) -> list[tuple[Any, Any]]:
    return [(item.memory, item.receipt) for item in getattr(recall, tier)]


async def test_a_process_that_asks_once_finds_the_same_without_an_index(tmp_path: Path) -> None:
    def opened(*, brief: bool) -> ShortTermManager:
        store = JsonFileStore(tmp_path, Clock())
        services = Services(store, TableRunner(), Parameters(), Clock(), Random(5), brief=brief)
        return Conversations(services).get("chat").short_term

    memories = [
        memory(f"m{number}", age=number * DAY, words={"披萨": 20.0 + number % 7})
        for number in range(1, 40)
    ]
    await House(JsonFileStore(tmp_path, Clock())).commit(*map(Added, memories))
    brief = await opened(brief=True).search([ASK])
    assert len(brief.recall.top) == 2
    assert len(brief.recall.flashback) == 2
    assert brief.reinforced
    for item in (*brief.recall.top, *brief.recall.next):
        await House(JsonFileStore(tmp_path, Clock())).commit(Reinforced(item.memory.id, 5.0, 0.0))
    indexed = await opened(brief=False).search([ASK])
    for tier in ("top", "next", "flashback"):
        assert items_of(brief.recall, tier) == items_of(indexed.recall, tier)


# --- a turn: both searches in one call ---------------------------------------------------------------------


async def test_triggers_begin_before_the_words_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their worker then starts beside what holds the interpreter: a quarter of what a user waits for."""
    house = House()
    await house.commit(TriggerSet(trigger(source="true"), None))
    begun: list[str] = []
    evaluate = house.runner.evaluate
    search = house.chat.short_term.search

    async def evaluating(*arguments: Any, **rest: Any) -> Any:
        begun.append("triggers")
        return await evaluate(*arguments, **rest)

    async def searching(*arguments: Any, **rest: Any) -> Any:
        begun.append("words")
        return await search(*arguments, **rest)

    monkeypatch.setattr(house.runner, "evaluate", evaluating)
    monkeypatch.setattr(house.chat.short_term, "search", searching)
    recollection = await recall_for_turn(house.chat, RecallRequest([ASK]))
    assert begun == ["triggers", "words"]
    assert [item.memory.name for item in recollection.activation.activated] == ["birthday"]


async def test_where_triggers_cannot_run_the_words_are_still_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    house = House()
    await house.commit(TriggerSet(trigger(source="true"), None))
    await house.chat.short_term.add([PIZZA])
    house.clock.now_ms += 86_400_000

    async def refused(*arguments: Any, **rest: Any) -> Any:
        raise TriggersUnavailable("Triggers cannot run now: no worker.")

    monkeypatch.setattr(house.runner, "evaluate", refused)
    recollection = await recall_for_turn(house.chat, RecallRequest([ASK]))
    assert recollection.trouble == "Triggers cannot run now: no worker."
    assert len(recollection.found.recall.top) == 1
    room = prompt_room(MAX_CHARS)
    block = recalled_block(house.call.memories, recollection.found, recollection.activation, room)
    assert "我喜欢吃披萨" in block.text


async def test_a_search_before_numpy_is_imported_brings_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    memories = [
        memory(f"m{number}", age=number * DAY, words={"披萨": 20.0 + number % 7})
        for number in range(1, 40)
    ]
    await House(JsonFileStore(tmp_path, Clock())).commit(*map(Added, memories))

    async def searched() -> tuple[Recall, bool]:
        store = JsonFileStore(tmp_path, Clock())
        services = Services(store, TableRunner(), Parameters(), Clock(), Random(5))
        results = (
            await Conversations(services)
            .get("chat")
            .short_term.search(RecallRequest([ASK], reinforce=False))
        )
        return results.recall, (await store.read("chat")).follower is None

    import_module(search.DECISIONS)
    indexed, without_index = await searched()
    assert len(indexed.top) == 2
    assert without_index is False
    monkeypatch.delitem(sys.modules, search.DECISIONS)
    plain, without_index = await searched()
    assert without_index
    for tier in ("top", "next", "flashback"):
        assert items_of(plain, tier) == items_of(indexed, tier)


@pytest.mark.parametrize("brief", [False, True])
async def test_of_a_long_answer_what_was_asked_for_is_recalled_and_no_code(brief: bool) -> None:
    store = MemoryStore()
    clock = Clock()
    services = Services(store, TableRunner(), Parameters(), clock, Random(5), brief=brief)
    memories = Memories(Conversations(services), services, *NO_HOME)
    chat = memories.conversations.get("chat")
    methods = "\n".join(
        f"    def method_{number}(self):\n        return {number}" for number in range(300)
    )
    answer = f"```python\nclass Zebra:\n{methods}\n```\nThe important point: call freeze() before saving."
    await chat.short_term.add(
        [Message("user", "Write the Zebra class"), Message("assistant", answer)]
    )
    clock.now_ms += DAY
    question = [Message("user", "What was the important point of the Zebra class?")]
    recollection = await recall_for_turn(chat, RecallRequest(question))
    block = recalled_block(
        memories, recollection.found, recollection.activation, prompt_room(1_200)
    ).text
    assert "Write the Zebra class" in block
    assert "The important point: call freeze() before saving." in block
    assert "method_" not in block
    assert len(block) <= 1_200 // 3 + FRAME_CHARS


async def test_a_recall_needs_no_messages_when_a_chat_opens() -> None:
    recollection = await recall_for_turn(House().chat, RecallRequest([]))
    assert recollection.found.recall.top == ()
