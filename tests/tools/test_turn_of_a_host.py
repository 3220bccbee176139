"""What a chat program needs of the turn tools: several conversations at once, turns that change, reasons to show."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from sample_memories import DAY

from memory_server import App, Message, Session, Settings
from memory_server.kernel.errors import InvalidInput
from memory_server.kernel.private import Pause
from memory_server.tools import TOOLS
from memory_server.tools.base.tool import Answer, ToolFailed, call
from memory_server.tools.turn import forget, recall_turn, remember_turn

pytestmark = pytest.mark.anyio


@pytest.fixture
async def app(tmp_path: Path):
    async with App(Settings(data_dir=tmp_path / "data", timezone="UTC")) as made:
        yield made


def said(*contents: str, **more: Any) -> dict[str, Any]:
    roles = ("user", "assistant")
    return {"messages": [{"role": roles[n % 2], "content": text} for n, text in enumerate(contents)], **more}


async def remembered(app: App, *contents: str, **more: Any) -> dict[str, Any]:
    return (await call(remember_turn, app.call, said(*contents, **{"session": "told", **more}))).structured


async def recalled(app: App, *contents: str, **more: Any) -> Answer:
    return await call(recall_turn, app.call, said(*contents, **{"session": "asks", "flashbacks": 0, **more}))


def came(answer: Answer) -> list[str]:
    found = answer.structured["shortTerm"]
    return [item["id"] for tier in ("topRelevant", "nextRelevant", "randomFlashback") for item in found[tier]]


async def test_a_turn_is_kept_once_as_it_was_last(app: App) -> None:
    first = await remembered(app, "我的牙医叫什么？", "林医生。", turn_id="qq/1", session="a")
    again = await remembered(app, "我的牙医叫什么？", "林医生。", turn_id="qq/1", session="a")
    assert (first["stored"], again["stored"], again.get("replaced")) == (True, False, None)
    await app.conversation().short_term.pin(first["id"])
    other = await remembered(app, "我的牙医叫什么？", "陈医生。", turn_id="qq/1", session="a")
    assert (other["stored"], other["replaced"], other["id"], other["totalMemories"]) == (True, True, first["id"], 1)
    [kept] = await app.conversation().short_term.memories()
    assert [message.content for message in kept.messages] == ["我的牙医叫什么？", "陈医生。"]
    assert (kept.turn, kept.pinned) == ("qq/1", True)
    assert came(await recalled(app, "陈医生在哪里？")) == [first["id"]]
    done = await app.memories.engines[0].undo(other["changeId"])
    assert done.steps[0].what == "edited"
    assert "林医生" in (await app.conversation().short_term.memories())[0].text


async def test_a_turn_keeps_its_time_where_its_messages_have_none(app: App) -> None:
    await remembered(app, "早", turn_id="1")
    [before] = await app.conversation().short_term.memories()
    await remembered(app, "早上好", turn_id="1")
    assert (await app.conversation().short_term.memories())[0].time_ms == before.time_ms
    later = {"messages": [{"role": "user", "content": "晚上好", "timestamp": before.time_ms + DAY}], "turn_id": "1"}
    await call(remember_turn, app.call, later)
    assert (await app.conversation().short_term.memories())[0].time_ms == before.time_ms + DAY


async def test_the_same_turn_id_of_another_conversation_is_another_turn(app: App) -> None:
    await remembered(app, "我叫小明", turn_id="1", conversation_id="a")
    other = await remembered(app, "我叫阿红", turn_id="1", conversation_id="b")
    assert other.get("replaced") is None
    assert len(await app.conversation("a").short_term.memories()) == 1


async def test_a_forgotten_turn_that_is_told_again_comes_back_once(app: App) -> None:
    await remembered(app, "我叫小明", turn_id="1")
    await call(forget, app.call, {"ids": ["1"], "confirm": True})
    assert await app.conversation().short_term.memories() == ()
    assert (await remembered(app, "我叫小明", turn_id="1"))["stored"]
    assert (await remembered(app, "我叫小红", turn_id="1"))["replaced"]
    assert len(await app.conversation().short_term.memories()) == 1


async def test_turns_and_sessions_are_forgotten_and_what_is_gone_is_no_error(app: App) -> None:
    for number in range(60):
        await remembered(app, f"第{number}句话", turn_id=f"qq/{number}", session="one")
    await remembered(app, "别的对话说的", turn_id="x", session="two")
    gone = (await call(forget, app.call, {"ids": ["qq/3", "qq/4"], "confirm": True})).structured
    assert (gone["found"], gone["forgotten"]) == (2, True)
    again = (await call(forget, app.call, {"ids": ["qq/3"], "confirm": True})).structured
    assert (again["found"], again["forgotten"]) == (0, False)
    whole = (await call(forget, app.call, {"said_in": "one", "confirm": True})).structured
    assert (whole["found"], whole["forgotten"]) == (58, True)
    assert [one.text for one in await app.conversation().short_term.memories()] == ["user: 别的对话说的"]
    with pytest.raises(ToolFailed, match="said_in"):
        await call(forget, app.call, {"ids": ["x"], "said_in": "two"})


async def test_several_conversations_are_recalled_with_one_budget(app: App) -> None:
    group = (await remembered(app, "周末去爬香山", conversation_id="group"))["id"]
    private = (await remembered(app, "香山那天我要带药", conversation_id="private"))["id"]
    await app.conversation("private").long_term.add("药", "记得带药", "match_keys(context.messages, ['香山']) > 0")
    alone = await recalled(app, "香山几点出发？", conversation_id="group")
    assert came(alone) == [group]
    both = await recalled(app, "香山几点出发？", conversation_id="group", also=["private", "group"])
    assert set(came(both)) == {group, private}
    kept_in = {item["id"]: item.get("keptIn") for item in both.structured["shortTerm"]["topRelevant"]}
    assert (kept_in[group], kept_in[private]) == (None, "private")
    assert [one["name"] for one in both.structured["longTerm"]["activated"]] == ["药"]
    assert len((await recalled(app, "香山几点出发？", also=["private"], maxChars=200)).structured["prompt"]) <= 200


async def test_a_recall_without_a_trace_changes_no_score(app: App) -> None:
    await remembered(app, "周末去爬香山")
    await recalled(app, "香山几点出发？", reinforce=False)
    assert (await app.conversation().short_term.memories())[0].score == 0
    await recalled(app, "香山几点出发？")
    assert (await app.conversation().short_term.memories())[0].score > 0


async def test_what_the_sent_messages_hold_does_not_come_again(app: App) -> None:
    turn = ("香山几点出发？", "七点，在东门。")
    await remembered(app, *turn)
    other = (await remembered(app, "香山要带水", "记下了。"))["id"]
    answer = await recalled(app, *turn, "香山还要带什么？")
    assert came(answer) == [other]
    only = await recalled(app, *turn, "香山要带水", "记下了。", "香山还要带什么？")
    assert came(only) == []
    assert "these messages, or this session, have it already" in only.structured["shortTerm"]["note"]


async def test_an_item_says_what_matched_and_why(app: App) -> None:
    await remembered(app, "我的牙医在朝阳门的诊所，姓林")
    await remembered(app, "My dentist keeps boxes of old toys", conversation_id="en")
    [item] = (await recalled(app, "朝阳门那个诊所怎么走？")).structured["shortTerm"]["topRelevant"]
    assert set(item["matched"]) & {"朝阳门", "诊所", "朝阳门的诊所"}
    assert item["reason"].endswith("。")
    [item] = (await recalled(app, "Which dentist has the box of toys?", conversation_id="en")).structured["shortTerm"][
        "topRelevant"
    ]
    assert {"dentist", "boxes", "toys"} <= set(item["matched"])
    assert item["reason"] == "“dentist”, “boxes” and “toys” are rare in your memories, and this one has them."


async def test_a_pause_is_said_by_each_answer(app: App) -> None:
    await remembered(app, "周末去爬香山")
    app.home.pause.write(Pause(None))
    assert "Memory is paused" in (await recalled(app, "香山几点出发？")).structured["note"]
    assert (await remembered(app, "别的"))["note"].startswith("Memory is")


async def test_a_model_is_not_told_of_the_arguments_of_programs() -> None:
    listed = json.dumps(TOOLS["recall_turn"].input_schema(for_models=True))
    whole = TOOLS["recall_turn"].input_schema()["properties"]
    assert {"also", "flashbacks", "reinforce"} <= whole.keys()
    assert "also" not in listed
    assert "ofPrograms" not in listed + json.dumps(whole)


async def test_the_hook_may_bring_what_the_transcript_has(app: App) -> None:
    """What a compaction took out of the context stands in the transcript still."""
    await remembered(app, "香山几点出发？", "七点。", session="a")
    messages = [Message("user", "香山几点出发？"), Message("assistant", "七点。"), Message("user", "香山几点？")]
    found = await app.conversation().short_term.search(messages, session=Session("b"), reinforce=False)
    assert len(found.recall.top) == 1


async def test_a_speaker_is_found_by_name_as_a_word_is(app: App) -> None:
    def turn(name: str, content: str) -> list[dict[str, str]]:
        return [{"role": "user", "name": name, "content": content}, {"role": "assistant", "content": "好的"}]

    told = {}
    for name, content in (
        ("阿红", "乌龟很能吃"),
        ("老王", "昨晚下雨了"),
        ("Ann", "陶艺课真有意思"),
        ("阿明", "地铁停了"),
    ):
        answer = await call(remember_turn, app.call, {"messages": turn(name, content), "session": name})
        told[name] = answer.structured["id"]
    for question, name in (("老王最近怎么样？", "老王"), ("阿紅說過什麼？", "阿红"), ("What did ann say?", "Ann")):
        answer = await recalled(app, question)
        assert came(answer)[0] == told[name], question
        [first, *_] = answer.structured["shortTerm"]["topRelevant"]
        assert first["matched"] == [name]
    assert came(await recalled(app, "Annual reports?")) == []


async def test_only_a_whole_id_forgets_and_the_beginning_of_one_is_shown(app: App) -> None:
    first, second, _third = [
        (await remembered(app, f"Secret {number} of the boats.", turn_id=f"turn/{number}"))["id"] for number in range(3)
    ]
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


async def lived(app: App) -> None:
    """Some memories of earlier days, and a long-term memory that does not fire."""
    now_ms = app.clock()
    told = (
        "今天爸爸的手术很成功。",
        "昨天想起小雨了。",
        "现在想学吉他。",
        "Today the surgery went fine.",
        "我家猫叫煤球。",
    )
    for number, text in enumerate(told, 2):
        await app.conversation().short_term.add([Message("user", text, now_ms - number * DAY)])
    await app.conversation().long_term.add("quiet", "Never.", "false")


@pytest.mark.parametrize("text", SMALL_TALK)
async def test_nothing_comes_to_small_talk_in_any_face(app: App, text: str) -> None:
    await lived(app)
    answer = await call(recall_turn, app.call, said(text))
    assert (came(answer), answer.structured["longTerm"]["random"], answer.structured["prompt"]) == ([], [], "")
    assert await app.recall_turn([Message("user", text)]) == ""
    assert {memory.score for memory in await app.conversation().short_term.memories()} == {0.0}


async def test_what_comes_by_chance_is_asked_for_and_neither_reinforced_nor_used(app: App) -> None:
    await lived(app)
    answer = await call(recall_turn, app.call, said("晚安", flashbacks=2, session="s"))
    found = answer.structured["shortTerm"]
    assert (len(found["randomFlashback"]), len(answer.structured["longTerm"]["random"])) == (2, 1)
    assert await app.recall_turn([Message("user", "晚安")], flashbacks=1)
    assert {memory.score for memory in await app.conversation().short_term.memories()} == {0.0}
    ids = [item["id"] for item in found["randomFlashback"]]
    app.recalls.note(lambda at: {"at": at, "conversation": "default", "session": "s", "turn": None, "used": ids})
    assert not app.recalls.found()[-1].used


async def test_a_question_gets_as_many_matches_without_chance(app: App) -> None:
    now_ms = app.clock()
    for number in range(8):
        await app.conversation().short_term.add(
            [Message("user", f"煤球第{number}次打翻颜料", now_ms - (number + 2) * DAY)]
        )
    assert [len(came(await call(recall_turn, app.call, said("煤球打翻了什么？", flashbacks=n)))) for n in (0, 2)] == [
        5,
        5,
    ]


async def test_a_number_below_zero_is_refused(app: App) -> None:
    with pytest.raises(InvalidInput, match="from 0 on; -1 is less"):
        await app.recall_turn([Message("user", "晚安")], flashbacks=-1)


# --- after a forget ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("question", ["晚上吃披萨吗？", "你都记得我什么", "我今天说了什么？"])
async def test_a_search_does_not_speak_of_what_was_just_to_be_forgotten(app: App, question: str) -> None:
    await remembered(app, "我喜欢吃披萨", "记住了")
    gone = (await call(forget, app.call, {"words": "披萨", "confirm": True})).structured
    assert gone["changeId"]
    for answer in (
        await call(recall_turn, app.call, said(question)),
        await call(TOOLS["search_short_term_memories"], app.call, {"recentMessages": said(question)["messages"]}),
    ):
        assert "archive" not in answer.text
    await app.memories.engines[0].undo((await app.memories.engines[0].history())[0].id)
    await call(TOOLS["delete_short_term_memories"], app.call, {"pattern": "披萨"})
    assert "The archive has 1 memory" in (await call(recall_turn, app.call, said("晚上吃披萨吗？"))).text
