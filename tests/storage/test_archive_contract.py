"""History, archive and undo through the managers, over all stores."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from memory_store import MemoryStore
from postgres import tenant_of_its_own
from sample_memories import DAY, NOW, copy_of, memory, query_of, random_changes, trigger
from trigger_table import TableRunner

from memory_server.conversations.archive import archived
from memory_server.conversations.changes import (
    Added,
    Change,
    Commit,
    Forgotten,
    Reinforced,
    apply,
    change_id,
    taking_back,
    version_of,
)
from memory_server.conversations.conversation import Conversation, Conversations
from memory_server.conversations.history import name_of
from memory_server.conversations.model import ConversationState, ShortTermMemory
from memory_server.conversations.ports import ConversationStore
from memory_server.conversations.recall.parameters import Parameters, RetentionParameters
from memory_server.conversations.recall.words import KeywordOptions
from memory_server.conversations.services import Services
from memory_server.kernel.errors import InvalidInput, InvalidPattern, MemoryNotFound
from memory_server.kernel.messages import Message
from memory_server.lore.memory import TriggerSet
from memory_server.storage.json_store import history_files
from memory_server.storage.json_store.store import JsonFileStore
from memory_server.storage.options import StoreParameters
from memory_server.storage.partition import journal
from memory_server.storage.postgres.conversations import PostgresStore
from nlp import QueryWeights

pytestmark = pytest.mark.anyio

WITH_PAIRS = KeywordOptions(emphasis=QueryWeights(pairs=0.3))


@dataclass
class House:
    """One conversation over one store, and a clock that can be set."""

    store: ConversationStore
    chat: Conversation
    now: list[int]

    async def commit(self, *changes: Change) -> str:
        _, change = await self.store.update("chat", lambda state: (changes, None), by="test")
        assert change is not None
        return change

    async def ids(self) -> list[str]:
        return [*(await self.store.read("chat")).short_term]

    async def archived(self) -> list[tuple[str, str]]:
        entries = await self.store.archive("chat")
        return [(name_of(entry), entry.reason) for entry in entries]


@pytest.fixture(params=["memory", "json_files", "postgres"])
async def house(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[House]:
    now = [NOW]
    with ExitStack() as stack:
        store: ConversationStore
        if request.param == "memory":
            store = MemoryStore(lambda: now[0])
        elif request.param == "postgres":
            store = PostgresStore(*stack.enter_context(tenant_of_its_own()), lambda: now[0])
        else:
            store = JsonFileStore(tmp_path, lambda: now[0], StoreParameters(idle_seconds=3600))
        yield house_of(store, now)
        await store.aclose()


def house_of(store: ConversationStore, now: list[int]) -> House:
    keep = RetentionParameters(always_kept=0, most_at_once=2)
    parameters = Parameters(retention=keep, wording=WITH_PAIRS)
    around = Services(store, TableRunner(), parameters, lambda: now[0], Random(1))
    return House(store, Conversations(around).get("chat"), now)


# --- history -----------------------------------------------------------------------------------------------


async def test_history_has_pages_and_compaction_leaves_them_as_they_are(house: House) -> None:
    for number in range(7):
        await house.commit(Added(memory(f"m{number}")))
        if number in (2, 4):
            await house.store.compact("chat")
    page = await house.store.history("chat", limit=3)
    assert [commit.version for commit in page] == [7, 6, 5]
    page = await house.store.history("chat", before=5, limit=3)
    assert [commit.version for commit in page] == [4, 3, 2]
    assert [commit.version for commit in await house.store.history("chat", before=2)] == [1]
    assert await house.store.history("chat", before=1) == ()
    assert page[0] == Commit(4, NOW, "test", (Added(memory("m3")),))
    assert await house.store.history("elsewhere") == ()


async def test_what_is_older_than_it_is_kept_is_gone_from_history_and_archive(house: House) -> None:
    await house.commit(Added(memory("a")), Added(memory("b")))
    await house.commit(Forgotten(memory("a"), "deleted"))
    house.now[0] += 60 * DAY
    await house.commit(Forgotten(memory("b"), "deleted"))
    await house.store.compact("chat")
    assert await house.archived() == [("a", "deleted"), ("b", "deleted")]
    house.now[0] += 31 * DAY
    await house.store.compact("chat")
    assert await house.archived() == [("b", "deleted")]
    assert [commit.version for commit in await house.store.history("chat")] == [3]
    house.now[0] += 60 * DAY
    await house.store.compact("chat")
    assert await house.archived() == []
    assert await house.store.history("chat") == ()
    assert (await house.store.read("chat")).version == 3


# --- the archive -------------------------------------------------------------------------------------------


async def test_what_was_forgotten_comes_back_with_score_and_pin(house: House) -> None:
    pizza = memory("a", score=7, pinned=True, words={"披萨": 2.5})
    await house.commit(
        Added(pizza), Added(memory("b", text="user: 寿司")), TriggerSet(trigger("t"), None)
    )
    await house.chat.short_term.delete("披萨")
    await house.chat.long_term.delete("t")
    await house.store.compact("chat")
    assert await house.archived() == [("a", "deleted"), ("t", "deleted")]
    preview = await house.chat.archive.bring_back(["a"], dry_run=True)
    assert [entry.memory for entry in preview.entries] == [pizza]
    assert preview.change_id is None
    assert await house.ids() == ["b"]
    result = await house.chat.archive.bring_back(["a", "t"])
    state = await house.store.read("chat")
    assert state.short_term["a"] == pizza
    assert state.long_term["t"] == trigger("t")
    assert result.change_id == change_id("chat", 4)
    assert await house.archived() == []
    await house.store.compact("chat")
    assert await house.archived() == []


async def test_memories_come_back_by_pattern_and_by_time_of_removal(house: House) -> None:
    await house.commit(*(Added(memory(name, text=f"user: {name}")) for name in ("x1", "x2", "y")))
    await house.chat.short_term.delete("x1")
    house.now[0] += DAY
    await house.chat.short_term.delete("x2")
    await house.chat.short_term.delete("y")
    preview = await house.chat.archive.bring_back(pattern="x", since_ms=NOW + 1, dry_run=True)
    assert [entry.memory.id for entry in preview.entries] == ["x2"]  # type: ignore[union-attr]
    await house.chat.archive.bring_back(pattern="x")
    assert await house.ids() == ["x1", "x2"]
    await house.chat.archive.bring_back(until_ms=NOW)
    assert await house.ids() == ["x1", "x2"]
    await house.chat.archive.bring_back(since_ms=NOW)
    assert await house.ids() == ["x1", "x2", "y"]


async def test_what_is_in_use_again_is_not_written_over(house: House) -> None:
    await house.commit(Added(memory("a", text="user: old")))
    await house.chat.short_term.delete("old")
    await house.commit(Added(memory("a", text="user: new")))
    result = await house.chat.archive.bring_back(["a"])
    assert [*result.entries] == []
    assert len(result.in_the_way) == 1
    assert result.change_id is None
    assert (await house.store.read("chat")).short_term["a"].text == "user: new"


async def test_the_last_removals_can_be_read_alone(house: House) -> None:
    names = [f"m{number}" for number in range(7)]
    await house.commit(*(Added(memory(name)) for name in names), TriggerSet(trigger("t"), None))

    async def last(count: int) -> list[str]:
        return [name_of(entry) for entry in await house.store.archive("chat", newest=count)]

    for number, name in enumerate(names):
        await house.commit(Forgotten(memory(name), "deleted"))
        if number in (2, 5):
            await house.store.compact("chat")
    await house.chat.long_term.delete("t")
    assert await last(3) == ["m5", "m6", "t"]
    assert await last(0) == []
    assert await last(100) == [*names, "t"]
    # What came back does not count, in the journal or out of it.
    await house.chat.archive.bring_back(["m6", "m4"])
    assert await last(3) == ["m3", "m5", "t"]
    await house.store.compact("chat")
    assert await last(3) == ["m3", "m5", "t"]


@pytest.mark.parametrize(
    "seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.full) for seed in range(2, 5))]
)
async def test_the_archive_is_that_of_the_whole_history(house: House, seed: int) -> None:
    rng = Random(seed)
    for number in range(12):
        state = await house.store.read("chat")
        await house.commit(*random_changes(copy_of(state), rng, 3))
        if number in (4, 9):
            await house.store.compact("chat")
        history = await house.store.history("chat", limit=100)
        assert await house.store.archive("chat") == archived(history)


async def test_what_was_stored_before_every_removal_is_not_read_for_the_archive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = JsonFileStore(tmp_path, lambda: NOW, StoreParameters(idle_seconds=3600))
    house = house_of(store, [NOW])
    await house.commit(*(TriggerSet(trigger(f"t{number}"), None) for number in range(3)))
    versions_read: list[int] = []
    read_commit = history_files.commit_of

    def commit_of(line: Mapping[str, Any], *more: Any) -> Commit:
        versions_read.append(line["seq"])
        return read_commit(line, *more)

    monkeypatch.setattr(history_files, "commit_of", commit_of)
    assert await house.archived() == []
    assert versions_read == []
    await house.chat.long_term.delete("t1")
    await house.commit(TriggerSet(trigger("t1"), None))
    assert await house.archived() == []
    assert versions_read == [3, 2]
    await house.chat.long_term.delete("t2")
    assert await house.archived() == [("t2", "deleted")]
    await store.aclose()


async def test_a_history_without_removals_is_read_once_and_again_when_it_grows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = JsonFileStore(tmp_path, lambda: NOW, StoreParameters(idle_seconds=3600))
    house = house_of(store, [NOW])
    await house.commit(*(TriggerSet(trigger(f"t{number}"), None) for number in range(3)))
    await store.compact("chat")
    files_read: list[str] = []
    lines_of = journal.lines_of

    def read_lines(paths: Iterable[Path], *more: Any) -> Iterator[bytes]:
        files_read.extend(path.name for path in paths)
        return lines_of(paths, *more)

    monkeypatch.setattr(journal, "lines_of", read_lines)
    assert await house.archived() == []
    assert await house.archived() == []
    assert files_read == ["journal.jsonl", "history.jsonl", "journal.jsonl"]

    await house.chat.long_term.delete("t1")
    await store.compact("chat")
    assert await house.archived() == [("t1", "deleted")]
    assert await house.archived() == [("t1", "deleted")]
    await store.aclose()


async def test_the_archive_tells_what_it_would_have_for_a_question(house: House) -> None:
    pizza = {"披萨": 30.0}
    await house.commit(
        *(Added(memory(f"p{number}", words=pizza, age=(number + 1) * DAY)) for number in range(5)),
        Added(memory("cat", words={"猫": 30.0})),
    )
    assert (await house.chat.archive.recall(query_of({"披萨": 9.0}))).top == ()
    await house.commit(
        *(
            Forgotten(memory(f"p{number}", words=pizza, age=(number + 1) * DAY), "faded")
            for number in range(5)
        )
    )
    await house.commit(Added(memory("p0", words=pizza, text="user: again")))
    version = (await house.store.read("chat")).version
    recall = await house.chat.archive.recall(query_of({"披萨": 9.0}))
    # p0 is in use again; what is minutes old may come, and nothing comes by chance.
    assert [recalled.memory.id for recalled in (*recall.top, *recall.next)] == ["p1", "p2", "p3"]
    assert recall.flashback == ()
    assert recall.held_back.recent == 0
    assert (await house.chat.archive.recall(query_of({"猫": 9.0}))).top == ()
    assert (await house.store.read("chat")).version == version


async def test_the_archive_is_asked_by_pairs_of_characters_too(house: House) -> None:
    dog = memory("dog", text="user: 我的狗叫阿黄")
    await house.commit(Added(dog))
    await house.commit(Forgotten(dog, "faded"))
    recall = await house.chat.archive.recall(
        WITH_PAIRS.of_query([Message("user", "阿黄几岁？")], NOW)
    )
    assert [recalled.memory.id for recalled in recall.top] == ["dog"]


async def test_bringing_back_needs_a_choice_that_exists(house: House) -> None:
    with pytest.raises(InvalidInput, match="give ids, a pattern"):
        await house.chat.archive.bring_back()
    with pytest.raises(InvalidInput, match="has no `nobody`"):
        await house.chat.archive.bring_back(["nobody"])
    with pytest.raises(InvalidPattern, match="Nothing was brought back"):
        await house.chat.archive.bring_back(pattern="/(/")


@given(st.randoms(use_true_random=False), st.integers(1, 20))
def test_the_newest_removals_are_the_last_ones_of_all(rng: Random, count: int) -> None:
    state = ConversationState("chat")
    commits = [
        Commit(number + 1, NOW, "test", tuple(random_changes(state, rng, 3)))
        for number in range(count)
    ]
    removals = archived(reversed(commits))
    for newest in range(len(removals) + 2):
        assert archived(reversed(commits), newest) == removals[max(0, len(removals) - newest) :]


# --- the clean-up ------------------------------------------------------------------------------------------


async def test_a_clean_up_forgets_at_most_so_many_and_never_what_is_pinned(house: House) -> None:
    await house.commit(
        *(Added(memory(f"m{number}", age=(400 + number) * DAY)) for number in range(5))
    )
    await house.chat.short_term.pin("m4")
    preview = await house.chat.short_term.clean_up(dry_run=True)
    assert len(preview.forgotten) == 2
    assert preview.due == 2
    assert preview.change_id is None
    results = [await house.chat.short_term.clean_up() for _ in range(3)]
    assert [(len(result.forgotten), result.due) for result in results] == [(2, 2), (2, 0), (0, 0)]
    assert await house.ids() == ["m4"]
    assert results[1].change_id is not None
    await house.chat.archive.undo(results[1].change_id)
    assert len(await house.ids()) == 3


async def test_a_pin_is_set_and_taken_off_once(house: House) -> None:
    await house.commit(Added(memory("a")))
    assert (await house.chat.short_term.pin("a")).change_id == change_id("chat", 2)
    assert (await house.chat.short_term.pin("a")).change_id is None
    assert (await house.store.read("chat")).short_term["a"].pinned
    assert (await house.chat.short_term.pin("a", pinned=False)).memory == memory("a")
    with pytest.raises(MemoryNotFound, match="has the id `b`"):
        await house.chat.short_term.pin("b")


async def test_a_dry_run_of_deleting_deletes_nothing(house: House) -> None:
    await house.commit(Added(memory("a")))
    preview = await house.chat.short_term.delete("披萨", dry_run=True)
    assert [forgotten.memory.id for forgotten in preview.forgotten] == ["a"]
    assert preview.remaining == 0
    assert preview.change_id is None
    assert await house.ids() == ["a"]


# --- undo --------------------------------------------------------------------------------------------------


async def test_every_kind_of_change_is_undone_and_the_undoing_too(house: House) -> None:
    a = memory("a", score=1)
    b = memory("b")
    await house.commit(Added(a), Added(b), TriggerSet(trigger("t"), None))
    change_id_of_all = await house.commit(
        Reinforced("a", 1, 6),
        Forgotten(b, "deleted"),
        TriggerSet(trigger("t", source="1"), trigger("t")),
    )
    await house.store.compact("chat")
    undone = await house.chat.archive.undo(change_id_of_all)
    state = await house.store.read("chat")
    assert state.short_term == {"a": a, "b": b}
    assert state.long_term == {"t": trigger("t")}
    await house.chat.archive.undo(undone.change_id)
    state = await house.store.read("chat")
    assert state.short_term == {"a": replace(a, score=6)}
    assert state.long_term["t"].trigger == "1"


async def test_the_former_version_of_a_long_term_memory_comes_back(house: House) -> None:
    await house.chat.long_term.add("t", "first", "true")
    second = await house.chat.long_term.add("t", "second", "true")
    await house.chat.archive.undo(second.change_id)
    assert (await house.chat.long_term.get("t")).prompt == "first"


async def test_what_happened_since_stays(house: House) -> None:
    first = await house.commit(Added(memory("a")), Added(memory("b")))
    recalled = await house.commit(Reinforced("a", 0, 5))
    await house.commit(Reinforced("a", 5, 10), Forgotten(memory("b"), "deleted"))
    await house.chat.archive.undo(recalled)
    assert (await house.store.read("chat")).short_term["a"].score == 5
    await house.chat.archive.undo(first)
    assert await house.ids() == []
    with pytest.raises(InvalidInput, match="Nothing of this change is left to undo"):
        await house.chat.archive.undo(first)
    assert {name for name, _ in await house.archived()} == {"a", "b"}


async def test_a_long_term_memory_that_was_changed_since_is_not_touched(house: House) -> None:
    first = await house.chat.long_term.add("t", "first", "true")
    second = await house.chat.long_term.update("t", prompt="second")
    with pytest.raises(InvalidInput, match="undo the later change first"):
        await house.chat.archive.undo(first.change_id)
    await house.chat.archive.undo(second.change_id)
    await house.chat.archive.undo(first.change_id)
    assert (await house.store.read("chat")).long_term == {}


@pytest.mark.parametrize(
    "text", ["", "1", "x", "-", "1-", "0-31e0", "1-0000", "²-31e0", "01-31e0", "9" * 5000]
)
def test_what_is_no_change_of_the_conversation_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match="not a change id of the conversation chat"):
        version_of("chat", text)
    assert version_of("chat", change_id("chat", 12)) == 12


async def test_a_change_that_never_was_is_not_called_forgotten(house: House) -> None:
    newest = await house.commit(Added(memory("a")))
    later = change_id("chat", 9)
    with pytest.raises(
        InvalidInput, match=f"There is no change {later} yet; the newest is {newest}"
    ):
        await house.chat.archive.undo(later)


async def test_a_change_that_is_not_kept_any_more_cannot_be_undone(house: House) -> None:
    with pytest.raises(InvalidInput, match="not in the history any more"):
        await house.chat.archive.undo(change_id("chat", 5))


def rounded(memories: Mapping[str, ShortTermMemory]) -> dict[str, ShortTermMemory]:
    """The memories without the last digits of their scores, which adding and taking back may change."""
    return {
        name: replace(memory, score=round(memory.score, 6)) for name, memory in memories.items()
    }


@given(st.randoms(use_true_random=False), st.integers(1, 12))
def test_undoing_the_last_commit_gives_what_was_before(rng: Random, count: int) -> None:
    before = ConversationState("chat")
    random_changes(before, rng, 6)
    after = copy_of(before)
    commit = Commit(1, NOW, "test", tuple(random_changes(after, rng, count)))
    try:
        undoing = taking_back(after, commit)
    except InvalidInput:
        undoing = ()
    apply(after, undoing)
    assert rounded(after.short_term) == rounded(before.short_term)
    assert after.long_term == before.long_term
