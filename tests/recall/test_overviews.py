"""Words that are never enough alone, and overviews."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta, timezone

import pytest
from sample_memories import DAY, HOUR, MINUTE, NOW
from searched_memories import USUAL_WORDING, decided

from languages import speaking
from memory_server.conversations.model import ShortTermMemory
from memory_server.conversations.recall.explanation import explain
from memory_server.conversations.recall.indexed_selection import Decision
from memory_server.conversations.recall.parameters import USUAL, RecallParameters
from memory_server.conversations.recall.selection import Recall
from memory_server.kernel.messages import Message, context_text

ZONE = timezone(timedelta(hours=8))
"""Where it is 08:00 on 21 June, a Sunday, at `NOW`."""
WORDING = replace(USUAL_WORDING, zone=ZONE)
UNASKED = replace(USUAL, flashback_count=0, question_count=2)
HOOK = replace(UNASKED, statement_words=2, question_match=1.1, with_best=0.0)
ASKED = replace(UNASKED, weak_too=True)


def memory_of(
    memory_id: str, text: str, *, age: int = DAY, score: float = 0.0, pinned: bool = False
) -> ShortTermMemory:
    """A memory of a user's text and a companion's answer."""
    messages = (Message("user", text), Message("assistant", "嗯。"))
    bare = ShortTermMemory(
        memory_id, NOW - age, context_text(messages), (), (), score, "chat", messages, pinned=pinned
    )
    return WORDING.of_text(bare)


def decision_on(
    memories: Sequence[ShortTermMemory], text: str, parameters: RecallParameters = UNASKED
) -> Decision:
    query = WORDING.of_query([Message("user", text)], NOW)
    return decided(memories, query, parameters, wording=WORDING, conversation_id="other")


def recall_of(
    memories: Sequence[ShortTermMemory], text: str, parameters: RecallParameters = UNASKED
) -> Recall:
    return decision_on(memories, text, parameters).recall


def ids(recall: Recall) -> list[str]:
    return [item.memory.id for item in (*recall.top, *recall.next)]


# --- words that are never enough alone ----------------------------------------------------------------------

ONLY_A_DAY = [
    ("今天下午把卧室刷成了灰蓝色", "今天股市怎么样", 2 * HOUR),
    ("今天下午把卧室刷成了灰蓝色", "今天好困", 2 * HOUR),
    ("今天去看了医生", "今天天气真好", 9 * DAY),
    ("现在想学吉他", "现在很无聊", 9 * DAY),
    ("昨天和编辑吃了火锅", "昨天的球赛你看了吗", 2 * DAY),
    ("昨天和编辑吃了火锅", "昨天睡得不好", DAY),
    ("明天要交房租", "明天放假吗", DAY),
    ("周一开会被老板骂了", "周一好困啊", 9 * DAY),
    ("晚上两点才睡着", "晚上好", 9 * DAY),
    ("早上好呀", "早上好！", 9 * DAY),
    ("最近总失眠", "最近怎么样", 2 * DAY),
    ("刚才喝了豆浆", "刚才网断了一下", 9 * DAY),
    ("Painted the bedroom now", "It is so hot now", 9 * DAY),
    ("Today the surgery went fine", "Today was a long day", 9 * DAY),
    ("Yesterday hotpot with Jing", "Yesterday was cold", 9 * DAY),
    ("Monday was awful", "Mondays, am I right?", 9 * DAY),
    ("Tonight ten kilometres", "Is there a meteor shower tonight?", 2 * HOUR),
    ("Rent is due tomorrow", "Will it rain tomorrow?", DAY),
]


@pytest.mark.parametrize("parameters", [UNASKED, HOOK, ASKED], ids=["recall_turn", "hook", "asked"])
@pytest.mark.parametrize(("stored", "message", "age"), ONLY_A_DAY)
def test_a_word_that_says_when_brings_no_memory_alone(
    stored: str, message: str, age: int, parameters: RecallParameters
) -> None:
    assert ids(recall_of([memory_of("day", stored, age=age)], message, parameters)) == []


@pytest.mark.parametrize("parameters", [UNASKED, HOOK], ids=["recall_turn", "hook"])
@pytest.mark.parametrize(
    "message", ["What does petrol cost now?", "What is trending today?", "When is Easter?"]
)
def test_a_word_that_only_asks_brings_no_memory_alone(
    message: str, parameters: RecallParameters
) -> None:
    stored = [memory_of("what", "What a relief!"), memory_of("when", "I laughed when it fell")]
    assert ids(recall_of(stored, message, parameters)) == []


def test_a_word_that_says_when_decides_between_memories_that_share_something_else() -> None:
    memories = [
        memory_of("old", "牙医说要拔牙", age=40 * DAY),
        memory_of("new", "牙医说要补牙", age=DAY),
    ]
    assert ids(recall_of(memories, "昨天牙医说了什么治疗方案？"))[0] == "new"
    assert (
        ids(
            recall_of(
                [*memories, memory_of("other", "买了菜", age=DAY)], "昨天牙医说了什么治疗方案？"
            )
        )[0]
        == "new"
    )


def test_a_named_time_still_counts_in_a_question() -> None:
    stored = memory_of("then", "我在海边捡了贝壳", age=45 * DAY)
    assert ids(recall_of([stored], "上个月我在海边做什么？")) == ["then"]


@pytest.mark.parametrize(
    ("stored", "message", "english", "chinese"),
    [
        (
            "现在想学吉他",
            "现在股市怎么样？",
            (
                "It shares only 现在 with these messages: such words stand in sentences about anything, and never "
                "bring a memory alone."
            ),
            "它和这些消息只有“现在”相同：这样的词谈什么都会用到，单凭它们不会想起一条记忆。",
        ),
    ],
)
def test_the_explanation_says_so_in_one_sentence(
    stored: str, message: str, english: str, chinese: str
) -> None:
    decision = decision_on([memory_of("day", stored, age=9 * DAY)], message, UNASKED)
    verdict = explain(decision, 0).verdict
    assert verdict.kind == "below_threshold"
    assert verdict.sentence == english
    with speaking("zh"):
        assert explain(decision, 0).verdict.sentence == chinese


# --- overviews ----------------------------------------------------------------------------------------------

LIFE = [
    memory_of("name", "我叫阿遥，在杭州做插画师。", age=60 * DAY),
    memory_of("cat", "我家猫叫煤球。", age=55 * DAY, score=7.0),
    memory_of("allergy", "我对芒果过敏。", age=30 * DAY, pinned=True),
    memory_of("code", "帮我写个快排", age=5 * DAY),
    memory_of("dinner", "我和编辑吃了火锅", age=9 * DAY),
    memory_of("breakfast", "早餐吃了小笼包", age=8 * DAY),
    memory_of("again", "我还喝了豆浆", age=8 * DAY - 10 * MINUTE),
    memory_of("paint", "我把卧室刷成了灰蓝色", age=6 * HOUR),
]


@pytest.mark.parametrize("parameters", [UNASKED, HOOK, ASKED], ids=["recall_turn", "hook", "asked"])
@pytest.mark.parametrize("question", ["你都记得我什么", "what do you know about me?"])
def test_everything_brings_what_is_pinned_used_and_new_of_the_user(
    question: str, parameters: RecallParameters
) -> None:
    recall = recall_of(LIFE, question, parameters)
    assert ids(recall) == ["allergy", "cat", "paint", "again", "dinner"]
    assert not any(item.weak for item in (*recall.top, *recall.next))
    assert list(recall.gains(parameters)) == [], "an overview would bring the same again and again"


@pytest.mark.parametrize(
    "question", ["我上周说了什么", "what did I say last week?", "上周我们聊了些什么"]
)
def test_a_time_brings_what_was_said_in_it(question: str) -> None:
    assert set(ids(recall_of(LIFE, question))) == {"breakfast", "again", "dinner"}


def test_a_day_brings_its_night_and_what_names_it() -> None:
    night = memory_of("night", "睡不着，数羊", age=7 * HOUR)
    naming = memory_of("told", "6月20日要去看展", age=20 * DAY)
    unrelated = memory_of("other", "看了一部电影", age=3 * DAY)
    assert set(ids(recall_of([night, naming, unrelated], "昨天我说了什么"))) == {"night", "told"}


@pytest.mark.parametrize("question", ["what is my name?", "我叫什么名字"])
def test_the_name_brings_what_tells_it_and_nothing_else(question: str) -> None:
    assert ids(recall_of(LIFE, question)) == ["name"]
    assert ids(recall_of([memory_of("cat", "My cat is called Miso.")], question)) == []


def test_an_overview_looks_beyond_the_memories_that_are_worth_most() -> None:
    others = [
        memory_of(f"m{number}", f"第{number}次下雨了", age=DAY + number * MINUTE, score=5.0)
        for number in range(30)
    ]
    named = memory_of("name", "我叫周若溪", age=90 * DAY)
    assert ids(recall_of([*others, named], "你还记得我叫什么名字吗？")) == ["name"]


def test_what_was_done_in_the_own_folder_fills_the_places_before_other_folders_do() -> None:
    own = [
        replace(memory_of(f"own {n}", f"修了第{n}个测试", age=DAY + n * MINUTE), folder="/own")
        for n in range(12)
    ]
    others = [
        replace(memory_of(f"other {n}", f"写了第{n}页", age=DAY + n * HOUR), folder="/other")
        for n in range(3)
    ]
    query = replace(WORDING.of_query([Message("user", "昨天我们做了什么？")], NOW), folder="/own")
    places = UNASKED.places(question=True)

    def of(*home: ShortTermMemory) -> list[str]:
        return ids(decided(home, query, UNASKED, wording=WORDING, conversation_id="other").recall)

    assert all(name.startswith("own") for name in of(*own, *others))
    assert len(of(*own, *others)) == places
    few = of(*own[:2], *others)
    assert few[:2] == ["own 0", "own 1"]
    assert all(name.startswith("other") for name in few[2:])


@pytest.mark.parametrize(
    "message",
    ["晚安", "哈哈", "帮我写个快排序", "How are you?", "Tell me a joke", "What time is it now?"],
)
def test_small_talk_brings_no_overview(message: str) -> None:
    assert recall_of(LIFE[:3], message).query.overview is None
    assert ids(recall_of(LIFE[:3], message)) == []


@pytest.mark.parametrize("question", ["你都记得我什么", "我上周说了什么", "what is my name?"])
def test_a_threshold_that_nothing_reaches_silences_overviews_too(question: str) -> None:
    assert ids(recall_of(LIFE, question, replace(UNASKED, least_match=10_000.0))) == []
    assert all(
        item.weak for item in recall_of(LIFE, question, replace(ASKED, least_match=10_000.0)).top
    )


def test_one_of_each_hour_comes_before_a_second_one() -> None:
    hour = [memory_of(f"m{number}", "我在搬家", age=DAY + number * MINUTE) for number in range(9)]
    earlier = memory_of("earlier", "我养了猫", age=9 * DAY)
    assert ids(recall_of([*hour, earlier], "你都记得我什么")) == ["m0", "m1", "m2", "m3", "earlier"]


@pytest.mark.parametrize(
    ("question", "why"),
    [
        ("你都记得我什么", "does not say anything about the user"),
        ("我上周说了什么", "it was not said then"),
        ("我叫什么名字", "it does not tell the name"),
    ],
)
def test_what_is_not_in_an_overview_says_why(question: str, why: str) -> None:
    decision = decision_on([memory_of("code", "帮我写个快排", age=2 * DAY)], question, UNASKED)
    explanation = explain(decision, 0)
    assert why in str(explanation.verdict.sentence)
    assert explanation.counted == 0.0


def test_a_time_begins_with_what_was_said_in_the_folder_of_the_asker() -> None:
    memories = [
        replace(memory_of("here", "我给文章配了图", age=DAY), folder="/blog"),
        replace(memory_of("there", "我改了支付的接口", age=DAY - 3 * HOUR), folder="/shop"),
    ]
    query = WORDING.of_query([Message("user", "昨天我们做了什么？")], NOW)
    for folder, first in (("/blog", "here"), ("/shop", "there")):
        found = decided(memories, replace(query, folder=folder), UNASKED, wording=WORDING)
        assert ids(found.recall)[0] == first
