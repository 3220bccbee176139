"""A muted memory is kept and found by hand, and never comes unasked where it is muted."""

from __future__ import annotations

from pathlib import Path

import pytest
from sample_memories import DAY, NOW, memory, query_of
from searched_memories import decided

from memory_server import App, Message, Settings
from memory_server.conversations.changes import Commit, Muted, apply, taking_back
from memory_server.conversations.model import MOST_MUTED, ConversationState, ShortTermMemory
from memory_server.conversations.recall.explanation import explain
from memory_server.conversations.recall.index import index_of
from memory_server.conversations.recall.indexed_selection import Decision
from memory_server.conversations.recall.parameters import RecallParameters
from memory_server.conversations.recall.selection import HeldBack
from memory_server.conversations.search import muting_places
from memory_server.kernel.errors import InvalidInput
from memory_server.memories.turns import left_off
from memory_server.tools import archive, insight, short_term
from memory_server.tools.base.tool import call
from memory_server.tools.turn import recall_turn

P = RecallParameters(flashback_count=0)
MANGO = [Message("user", "芒果能吃吗？")]


def decision_in(memories: list[ShortTermMemory], places: frozenset[str]) -> Decision:
    return decided(memories, query_of({"芒果": 10.0}), P, places=places)


@pytest.mark.parametrize(
    ("muted", "folder", "comes"),
    [
        ((), "/shop", True),
        (("everywhere",), "/shop", False),
        (("everywhere",), None, False),
        (("conversation:chat",), None, False),
        (("conversation:other",), "/shop", True),
        (("folder:/shop",), "/shop", False),
        (("folder:/shop",), "/home", True),
        (("folder:/shop",), None, True),
        (("conversation:other", "folder:/shop"), "/shop", False),
    ],
)
def test_it_does_not_come_where_it_is_muted(
    muted: tuple[str, ...], folder: str | None, comes: bool
) -> None:
    memories = [
        memory("a", age=DAY, words={"芒果": 20.0}, muted=muted),
        memory("b", age=2 * DAY, words={"芒果": 9.0}),
    ]
    decision = decision_in(memories, muting_places("chat", folder))
    assert ("a" in {item.memory.id for item in decision.recall.top}) is comes
    assert decision.recall.held_back.muted == (not comes)
    row = decision.columns.row_of("a")
    assert row is not None
    assert (explain(decision, row).verdict.kind == "muted") is not comes


def test_what_is_muted_is_not_named_as_near_nor_counted_as_too_recent() -> None:
    memories = [
        memory("a", age=0, words={"芒果": 20.0}, muted=("everywhere",)),
        memory("b", age=DAY, words={"芒果": 9.0}),
    ]
    recall = decision_in(memories, muting_places("chat", None)).recall
    assert recall.held_back == HeldBack(recent=0, adjacent=0, in_context=0, muted=1)
    assert "a" not in {missed.recalled.memory.id for missed in recall.near}


def test_an_index_follows_what_is_muted() -> None:
    state = ConversationState("chat", short_term={"a": memory("a", age=DAY, words={"芒果": 20.0})})
    index = index_of(state)
    apply(state, [Muted("a", (), ("everywhere",)), Muted("gone", (), ("everywhere",))])
    assert index.muted == {"a": ("everywhere",)}
    assert (
        decision_in(list(state.short_term.values()), muting_places("chat", None)).recall.top == ()
    )
    apply(state, [Muted("a", ("everywhere",), ())])
    assert state.follower is index
    assert (
        len(decision_in(list(state.short_term.values()), muting_places("chat", None)).recall.top)
        == 1
    )


@pytest.mark.parametrize(
    ("now", "before", "after", "back"),
    [
        (("everywhere",), (), ("everywhere",), ()),
        # What was muted since stays muted.
        (("everywhere", "folder:/b"), (), ("everywhere",), ("folder:/b",)),
        ((), ("everywhere", "folder:/b"), (), ("everywhere", "folder:/b")),
        (("folder:/b",), ("everywhere", "folder:/b"), (), ("folder:/b", "everywhere")),
    ],
)
def test_undo_takes_back_only_its_own_places(
    now: tuple[str, ...], before: tuple[str, ...], after: tuple[str, ...], back: tuple[str, ...]
) -> None:
    state = ConversationState("chat", short_term={"a": memory("a", muted=now)})
    commit = Commit(1, NOW, "mute_memory", (Muted("a", before, after),))
    assert taking_back(state, commit) == (Muted("a", now, back),)


def test_a_new_session_is_not_shown_what_is_muted() -> None:
    memories = [
        memory("a", pinned=True, muted=("folder:/shop",)),
        memory("b", pinned=True),
        memory("c", folder="/shop"),
    ]
    pinned, last = left_off(memories, conversation_id="chat", session=None, folder="/shop")
    assert ([item.id for item in pinned], [item.id for item in last]) == (["b"], ["c"])
    pinned, _last = left_off(memories, conversation_id="chat", session=None, folder="/home")
    assert [item.id for item in pinned] == ["a", "b"]


def test_what_was_said_under_a_clock_that_was_ahead_is_not_where_one_left_off_for_years() -> None:
    memories = [memory(f"ahead {number}", age=-400 * DAY) for number in range(9)]
    memories.append(memory("yesterday", age=DAY))
    _pinned, last = left_off(memories, conversation_id="chat", session=None, now_ms=NOW)
    assert last[-1].id == "yesterday"


@pytest.mark.anyio
async def test_a_search_by_hand_finds_it_a_turn_does_not_and_it_can_come_again(
    tmp_path: Path,
) -> None:
    async with App(Settings(data_dir=tmp_path / "data", short_term={"flashback_count": 0})) as app:
        chat = app.conversation()
        stored = await chat.short_term.add(
            [Message("user", "我对芒果过敏", time_ms=app.clock() - DAY)]
        )
        name = stored.memory.id
        messages = {"messages": [{"role": "user", "content": "芒果能吃吗？"}]}

        async def recalled_ids() -> list[str]:
            answer = await call(recall_turn, app.call, messages)
            return [item["id"] for item in answer.structured["shortTerm"]["topRelevant"]]

        assert await recalled_ids() == [name]
        muted = await call(archive.mute_memory, app.call, {"id": name})
        assert muted.structured["muted"] == ["conversation:default"]
        assert "no longer comes unasked in the conversation default" in muted.text
        assert await recalled_ids() == []
        assert app.recalls.found()[-1].held == {"muted": 1}
        asked = {"recentMessages": messages["messages"]}
        answer = await call(short_term.search_short_term_memories, app.call, asked)
        assert [item["id"] for item in answer.structured["topRelevant"]] == [name]
        why = await call(insight.explain_recall, app.call, {**asked, "memory_id": name})
        assert why.structured["verdict"] == "muted"
        assert "It is muted" in why.structured["reason"]
        again = await call(archive.mute_memory, app.call, {"id": name, "where": "nowhere"})
        assert again.structured["muted"] == []
        assert await recalled_ids() == [name]
        undone = await call(
            archive.undo_change, app.call, {"changeId": again.structured["changeId"]}
        )
        assert undone.structured["changes"][0]["what"] == "muted"
        assert await recalled_ids() == []
    async with App(Settings(data_dir=tmp_path / "data")) as reopened:
        [muted_memory] = await reopened.conversation().short_term.memories()
        assert muted_memory.muted == ("conversation:default",)


@pytest.mark.anyio
async def test_a_place_must_be_one_and_not_too_many(tmp_path: Path) -> None:
    async with App(Settings(data_dir=tmp_path / "data")) as app:
        stored = await app.conversation().short_term.add([Message("user", "我对芒果过敏")])
        mute = app.conversation().short_term.mute
        for wrong_place in ("", "nowhere", "folder:", "conversation", "folder:a\0b"):
            with pytest.raises(InvalidInput, match="is not `everywhere`"):
                await mute(stored.memory.id, wrong_place)
        for number in range(MOST_MUTED):
            await mute(stored.memory.id, f"folder:/{number}")
        with pytest.raises(InvalidInput, match="mute it everywhere"):
            await mute(stored.memory.id, "everywhere")
