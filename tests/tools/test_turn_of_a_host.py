"""What a chat program needs of the turn tools: several conversations at once, turns that change, reasons to show."""

from __future__ import annotations

import json
from itertools import cycle
from typing import Any

import pytest
from sample_memories import DAY, HOUR

from memory_server import App, Message, Session
from memory_server.conversations.recall.request import RecallRequest
from memory_server.kernel.errors import InvalidInput
from memory_server.kernel.private import Pause
from memory_server.tools import TOOLS
from memory_server.tools.base.tool import Answer, ToolFailed, call
from memory_server.tools.turn import forget, recall_turn, remember_turn

pytestmark = pytest.mark.anyio


def turn_of(*contents: str, **more: Any) -> dict[str, Any]:
    messages = [
        {"role": role, "content": text}
        for role, text in zip(cycle(("user", "assistant")), contents)
    ]
    return {"messages": messages, **more}


async def remember(app: App, *contents: str, **more: Any) -> dict[str, Any]:
    return (
        await call(remember_turn, app.call, turn_of(*contents, **{"session": "told", **more}))
    ).structured


async def recall(app: App, *contents: str, **more: Any) -> Answer:
    return await call(
        recall_turn, app.call, turn_of(*contents, **{"session": "asks", "flashbacks": 0, **more})
    )


def recalled_ids(answer: Answer) -> list[str]:
    tiers = answer.structured["shortTerm"]
    items = [*tiers["topRelevant"], *tiers["nextRelevant"], *tiers["randomFlashback"]]
    return [item["id"] for item in items]


async def test_a_turn_is_kept_once_as_it_was_last(app: App) -> None:
    first = await remember(app, "我的牙医叫什么？", "林医生。", turn_id="qq/1", session="a")
    again = await remember(app, "我的牙医叫什么？", "林医生。", turn_id="qq/1", session="a")
    assert (first["stored"], again["stored"], again.get("replaced")) == (True, False, None)
    await app.conversation().short_term.pin(first["id"])
    changed = await remember(app, "我的牙医叫什么？", "陈医生。", turn_id="qq/1", session="a")
    assert (changed["stored"], changed["replaced"]) == (True, True)
    assert (changed["id"], changed["totalMemories"]) == (first["id"], 1)
    [stored] = await app.conversation().short_term.memories()
    assert [message.content for message in stored.messages] == ["我的牙医叫什么？", "陈医生。"]
    assert (stored.turn, stored.pinned) == ("qq/1", True)
    assert recalled_ids(await recall(app, "陈医生在哪里？")) == [first["id"]]
    done = await app.memories.engines[0].undo(changed["changeId"])
    assert done.steps[0].what == "edited"
    assert "林医生" in (await app.conversation().short_term.memories())[0].text


async def test_a_turn_keeps_its_time_where_its_messages_have_none(app: App) -> None:
    await remember(app, "早", turn_id="1")
    [before] = await app.conversation().short_term.memories()
    await remember(app, "早上好", turn_id="1")
    assert (await app.conversation().short_term.memories())[0].time_ms == before.time_ms
    later = {
        "messages": [{"role": "user", "content": "晚上好", "timestamp": before.time_ms + DAY}],
        "turn_id": "1",
    }
    await call(remember_turn, app.call, later)
    assert (await app.conversation().short_term.memories())[0].time_ms == before.time_ms + DAY


async def test_the_same_turn_id_of_another_conversation_is_another_turn(app: App) -> None:
    await remember(app, "我叫小明", turn_id="1", conversation_id="a")
    in_b = await remember(app, "我叫阿红", turn_id="1", conversation_id="b")
    assert in_b.get("replaced") is None
    assert len(await app.conversation("a").short_term.memories()) == 1


async def test_a_forgotten_turn_that_is_told_again_comes_back_once(app: App) -> None:
    await remember(app, "我叫小明", turn_id="1")
    await call(forget, app.call, {"ids": ["1"], "confirm": True})
    assert await app.conversation().short_term.memories() == ()
    assert (await remember(app, "我叫小明", turn_id="1"))["stored"]
    assert (await remember(app, "我叫小红", turn_id="1"))["replaced"]
    assert len(await app.conversation().short_term.memories()) == 1


async def test_turns_and_sessions_are_forgotten_and_what_is_gone_is_no_error(app: App) -> None:
    for number in range(60):
        await remember(app, f"第{number}句话", turn_id=f"qq/{number}", session="one")
    await remember(app, "别的对话说的", turn_id="x", session="two")
    forgotten = (
        await call(forget, app.call, {"ids": ["qq/3", "qq/4"], "confirm": True})
    ).structured
    assert (forgotten["found"], forgotten["forgotten"]) == (2, True)
    again = (await call(forget, app.call, {"ids": ["qq/3"], "confirm": True})).structured
    assert (again["found"], again["forgotten"]) == (0, False)
    whole = (await call(forget, app.call, {"said_in": "one", "confirm": True})).structured
    assert (whole["found"], whole["forgotten"]) == (58, True)
    assert [memory.text for memory in await app.conversation().short_term.memories()] == [
        "user: 别的对话说的"
    ]
    with pytest.raises(ToolFailed, match="said_in"):
        await call(forget, app.call, {"ids": ["x"], "said_in": "two"})


async def test_a_branch_recalls_what_its_trunk_said_before_it_and_nothing_else(app: App) -> None:
    said = {
        "before": "The boat is called Halcyon.",
        "forgotten": "The boat has a red sail.",
        "after": "The boat was sold to Ben.",
    }
    ids = {
        turn: (await remember(app, text, conversation_id="trunk", turn_id=turn))["id"]
        for turn, text in said.items()
    }
    own = (await remember(app, "The boat needs paint.", conversation_id="branch", turn_id="own"))[
        "id"
    ]
    question = "What do you know about the boat?"
    branch = {
        "conversation_id": "branch",
        "also": ["trunk"],
        "alsoTurns": {"trunk": ["before", "forgotten", "own"]},
    }

    async def came(**more: Any) -> set[str]:
        return set(recalled_ids(await recall(app, question, **{**branch, **more})))

    assert await came() == {ids["before"], ids["forgotten"], own}
    await call(
        forget, app.call, {"ids": ["forgotten"], "conversation_id": "trunk", "confirm": True}
    )
    assert await came() == {ids["before"], own}
    assert await came(alsoTurns={"trunk": []}) == {own}
    assert await came(also=[]) == {own}
    assert await came(alsoTurns={}) == {ids["before"], ids["after"], own}
    assert await came(alsoTurns={"branch": []}, also=["branch"]) == {own}


@pytest.mark.parametrize(
    "also_turns", [{"trunk": ["t"] * 10_001}, {str(number): [] for number in range(21)}]
)
async def test_the_turns_of_a_trunk_have_a_bound(
    app: App, also_turns: dict[str, list[str]]
) -> None:
    with pytest.raises(ToolFailed, match="give at most 20 and 10,000"):
        await recall(app, "the boat?", also=["trunk"], alsoTurns=also_turns)


async def test_several_conversations_are_recalled_with_one_budget(app: App) -> None:
    group = (await remember(app, "周末去爬香山", conversation_id="group"))["id"]
    private = (await remember(app, "香山那天我要带药", conversation_id="private"))["id"]
    await app.conversation("private").long_term.add(
        "药", "记得带药", "match_keys(context.messages, ['香山']) > 0"
    )
    alone = await recall(app, "香山几点出发？", conversation_id="group")
    assert recalled_ids(alone) == [group]
    both = await recall(app, "香山几点出发？", conversation_id="group", also=["private", "group"])
    assert set(recalled_ids(both)) == {group, private}
    kept_in = {
        item["id"]: item.get("keptIn") for item in both.structured["shortTerm"]["topRelevant"]
    }
    assert (kept_in[group], kept_in[private]) == (None, "private")
    assert [row["name"] for row in both.structured["longTerm"]["activated"]] == ["药"]
    assert (
        len(
            (await recall(app, "香山几点出发？", also=["private"], maxChars=200)).structured[
                "prompt"
            ]
        )
        <= 200
    )


async def test_a_recall_without_a_trace_changes_no_score(app: App) -> None:
    await remember(app, "周末去爬香山")
    await recall(app, "香山几点出发？", reinforce=False)
    assert (await app.conversation().short_term.memories())[0].score == 0
    await recall(app, "香山几点出发？")
    assert (await app.conversation().short_term.memories())[0].score > 0


async def test_what_the_sent_messages_hold_does_not_come_again(app: App) -> None:
    turn = ("香山几点出发？", "七点，在东门。")
    await remember(app, *turn)
    water_id = (await remember(app, "香山要带水", "记下了。"))["id"]
    answer = await recall(app, *turn, "香山还要带什么？")
    assert recalled_ids(answer) == [water_id]
    only = await recall(app, *turn, "香山要带水", "记下了。", "香山还要带什么？")
    assert recalled_ids(only) == []
    assert (
        "these messages, or this session, have it already" in only.structured["shortTerm"]["note"]
    )


async def test_an_item_says_what_matched_and_why(app: App) -> None:
    await remember(app, "我的牙医在朝阳门的诊所，姓林")
    await remember(app, "My dentist keeps boxes of old toys", conversation_id="en")
    [item] = (await recall(app, "朝阳门那个诊所怎么走？")).structured["shortTerm"]["topRelevant"]
    assert set(item["matched"]) & {"朝阳门", "诊所", "朝阳门的诊所"}
    assert item["reason"].endswith("。")
    [item] = (
        await recall(app, "Which dentist has the box of toys?", conversation_id="en")
    ).structured["shortTerm"]["topRelevant"]
    assert {"dentist", "boxes", "toys"} <= set(item["matched"])
    assert (
        item["reason"]
        == "“dentist”, “boxes” and “toys” are rare in your memories, and this one has them."
    )


async def test_a_pause_is_said_by_each_answer(app: App) -> None:
    await remember(app, "周末去爬香山")
    app.home.pause.write(Pause(None))
    assert "Memory is paused" in (await recall(app, "香山几点出发？")).structured["note"]
    assert (await remember(app, "别的"))["note"].startswith("Memory is")


async def test_a_model_is_not_told_of_the_arguments_of_programs() -> None:
    listed = json.dumps(TOOLS["recall_turn"].input_schema(for_models=True))
    whole = TOOLS["recall_turn"].input_schema()["properties"]
    assert {"also", "flashbacks", "reinforce"} <= whole.keys()
    assert "also" not in listed
    assert "ofPrograms" not in listed + json.dumps(whole)


async def test_the_hook_may_bring_what_the_transcript_has(app: App) -> None:
    """What a compaction took out of the context stands in the transcript still."""
    await remember(app, "香山几点出发？", "七点。", session="a")
    messages = [
        Message("user", "香山几点出发？"),
        Message("assistant", "七点。"),
        Message("user", "香山几点？"),
    ]
    answer = await app.conversation().short_term.search(
        RecallRequest(messages, session=Session("b"), reinforce=False)
    )
    assert len(answer.recall.top) == 1


async def test_a_speaker_is_found_by_name_as_a_word_is(app: App) -> None:
    def turn(name: str, content: str) -> list[dict[str, str]]:
        return [
            {"role": "user", "name": name, "content": content},
            {"role": "assistant", "content": "好的"},
        ]

    ids = {}
    for name, content in (
        ("阿红", "乌龟很能吃"),
        ("老王", "昨晚下雨了"),
        ("Ann", "陶艺课真有意思"),
        ("阿明", "地铁停了"),
    ):
        answer = await call(
            remember_turn, app.call, {"messages": turn(name, content), "session": name}
        )
        ids[name] = answer.structured["id"]
    for question, name in (
        ("老王最近怎么样？", "老王"),
        ("阿紅說過什麼？", "阿红"),
        ("What did ann say?", "Ann"),
    ):
        answer = await recall(app, question)
        assert recalled_ids(answer)[0] == ids[name], question
        [first, *_] = answer.structured["shortTerm"]["topRelevant"]
        assert first["matched"] == [name]
    assert recalled_ids(await recall(app, "Annual reports?")) == []


async def test_only_a_whole_id_forgets_and_the_beginning_of_one_is_shown(app: App) -> None:
    turns = [
        await remember(app, f"Secret {number} of the boats.", turn_id=f"turn/{number}")
        for number in range(3)
    ]
    first = turns[0]["id"]
    second = turns[1]["id"]
    shown = (await call(forget, app.call, {"ids": [first[:4], second[:4]]})).structured
    assert {row["id"] for row in shown["items"]} >= {first, second}
    assert shown["forgotten"] is False
    with pytest.raises(ToolFailed, match="whole ids"):
        await call(forget, app.call, {"ids": [first[:4], second[:15]], "confirm": True})
    assert len(await app.conversation().short_term.memories()) == 3
    done = (await call(forget, app.call, {"ids": [first, second[:6]], "confirm": True})).structured
    assert [row["id"] for row in done["items"]] == [first]
    done = (await call(forget, app.call, {"ids": [second, "turn/2"], "confirm": True})).structured
    assert (done["found"], done["forgotten"]) == (2, True)


# --- nothing by chance ---------------------------------------------------------------------------------------

SMALL_TALK = (
    "帮我写个快排",
    "一加一等于几",
    "晚安",
    "哈哈哈哈",
    "今天股市怎么样",
    "Tell me a joke",
    "How is the stock market now?",
)


async def store_earlier_days(app: App) -> None:
    """Some memories of earlier days, and a long-term memory that does not fire."""
    now_ms = app.clock()
    texts = (
        "今天爸爸的手术很成功。",
        "昨天想起小雨了。",
        "现在想学吉他。",
        "Today the surgery went fine.",
        "我家猫叫煤球。",
    )
    for number, text in enumerate(texts, 2):
        await app.conversation().short_term.add([Message("user", text, now_ms - number * DAY)])
    await app.conversation().long_term.add("quiet", "Never.", "false")


async def test_nothing_comes_to_small_talk_by_the_tool_or_in_python(app: App) -> None:
    await store_earlier_days(app)
    for text in SMALL_TALK:
        answer = await call(recall_turn, app.call, turn_of(text))
        assert (recalled_ids(answer), answer.structured["longTerm"]["random"]) == ([], []), text
        assert answer.structured["prompt"] == "", text
        assert await app.recall_turn([Message("user", text)]) == "", text
    assert {memory.score for memory in await app.conversation().short_term.memories()} == {0.0}


async def test_what_comes_by_chance_is_asked_for_and_neither_reinforced_nor_used(app: App) -> None:
    await store_earlier_days(app)
    answer = await call(recall_turn, app.call, turn_of("晚安", flashbacks=2, session="s"))
    tiers = answer.structured["shortTerm"]
    assert (len(tiers["randomFlashback"]), len(answer.structured["longTerm"]["random"])) == (2, 1)
    assert await app.recall_turn([Message("user", "晚安")], flashbacks=1)
    assert {memory.score for memory in await app.conversation().short_term.memories()} == {0.0}
    ids = [item["id"] for item in tiers["randomFlashback"]]
    app.recalls.note(
        lambda at: {"at": at, "conversation": "default", "session": "s", "turn": None, "used": ids}
    )
    assert not app.recalls.found()[-1].used


async def test_a_question_gets_as_many_matches_without_chance(app: App) -> None:
    now_ms = app.clock()
    for number in range(8):
        at_ms = now_ms - 2 * DAY - number * HOUR
        await app.conversation().short_term.add(
            [Message("user", f"煤球第{number}次打翻颜料", at_ms)]
        )
    for flashbacks in (0, 2):
        answer = await call(
            recall_turn, app.call, turn_of("煤球打翻了什么？", flashbacks=flashbacks)
        )
        assert len(recalled_ids(answer)) == 5


async def test_a_number_below_zero_is_refused(app: App) -> None:
    with pytest.raises(InvalidInput, match="from 0 on; -1 is less"):
        await app.recall_turn([Message("user", "晚安")], flashbacks=-1)


# --- after a forget ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("question", ["晚上吃披萨吗？", "你都记得我什么", "我今天说了什么？"])
async def test_a_search_does_not_speak_of_what_was_just_to_be_forgotten(
    app: App, question: str
) -> None:
    await remember(app, "我喜欢吃披萨", "记住了")
    forgotten = (await call(forget, app.call, {"words": "披萨", "confirm": True})).structured
    assert forgotten["changeId"]
    for answer in (
        await call(recall_turn, app.call, turn_of(question)),
        await call(
            TOOLS["search_short_term_memories"],
            app.call,
            {"recentMessages": turn_of(question)["messages"]},
        ),
    ):
        assert "archive" not in answer.text
    await app.memories.engines[0].undo((await app.memories.engines[0].history())[0].id)
    await call(TOOLS["delete_short_term_memories"], app.call, {"pattern": "披萨"})
    assert (
        "The archive has 1 memory"
        in (await call(recall_turn, app.call, turn_of("晚上吃披萨吗？"))).text
    )
