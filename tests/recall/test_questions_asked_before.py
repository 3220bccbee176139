"""A question that was asked before, and that nobody answered, stands behind a memory that answers it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from sample_memories import DAY, NOW
from searched_memories import USUAL_WORDING, decided

from memory_server.conversations.model import ShortTermMemory
from memory_server.conversations.recall.parameters import USUAL, RecallParameters
from memory_server.conversations.recall.selection import Recall
from memory_server.kernel.messages import Message, context_text

FLAT = "我把护照放在书房蓝色的抽屉里了"
DRAWER = "I put the passport into the blue drawer of the study"


def memory(memory_id: str, said: str, reply: str = "", *, days: int = 3) -> ShortTermMemory:
    messages = [Message("user", said)]
    if reply:
        messages.append(Message("assistant", reply))
    return USUAL_WORDING.of_text(
        ShortTermMemory(
            memory_id,
            NOW - days * DAY,
            context_text(messages),
            (),
            (),
            0.0,
            "chat",
            tuple(messages),
        )
    )


def recalled(
    question: str, *memories: ShortTermMemory, parameters: RecallParameters = USUAL
) -> Recall:
    query = USUAL_WORDING.of_query([Message("user", question)], NOW)
    return decided(
        memories, query, parameters, wording=USUAL_WORDING, conversation_id="other"
    ).recall


def ids(recall: Recall) -> list[str]:
    return [item.memory.id for item in (*recall.top, *recall.next)]


@pytest.mark.parametrize(
    ("answer", "question", "reply"),
    [
        (FLAT, "我的护照放在书房哪里了？", "抱歉，我不知道。"),
        (FLAT, "我的护照放在书房哪里了？", "你好像没跟我说过，能告诉我吗？"),
        (FLAT, "我的护照放在书房哪里了？", ""),
        (FLAT, "我的护照放在书房哪里了？", "要不要找找？"),
        (DRAWER, "Where in the study did I put the passport?", "Sorry, I have no idea."),
        (DRAWER, "Where in the study did I put the passport?", "I don’t know, did you look there?"),
        (DRAWER, "Where in the study did I put the passport?", ""),
    ],
)
@pytest.mark.parametrize("days", [1, 9], ids=["asked after", "asked before"])
def test_the_answer_comes_before_the_question(
    answer: str, question: str, reply: str, days: int
) -> None:
    home = memory("answer", answer), memory("asked", question, reply, days=days)
    assert ids(recalled(question, *home))[0] == "answer"
    assert ids(recalled(question, *home, parameters=replace(USUAL, weak_too=True)))[0] == "answer"


def test_several_equal_questions_leave_the_answer_in() -> None:
    question = "我的护照放在书房哪里了？"
    asked = [memory(f"asked {n}", question, "我不清楚。", days=10 + n) for n in range(9)]
    assert ids(recalled(question, memory("answer", FLAT), *asked))[0] == "answer"


@pytest.mark.parametrize(
    ("asked", "reply"),
    [
        ("我的护照放在书房哪里了？", "在书房蓝色的抽屉里，你上周放进去的。"),
        ("我的护照放在书房哪里了？是不是蓝色抽屉还是卧室的保险箱？", ""),
        ("书房里放着我的护照。", "我不知道。"),
    ],
)
def test_a_memory_that_says_something_keeps_its_place(asked: str, reply: str) -> None:
    question = "我的护照放在书房哪里了？"
    home = memory("other", "我的护照过期了"), memory("asked", asked, reply)
    [first, *_others] = recalled(question, *home).top
    assert (first.memory.id, first.receipt.cue) == ("asked", 0.0)


def test_without_an_answer_the_question_still_comes() -> None:
    question = "我的护照放在书房哪里了？"
    assert ids(recalled(question, memory("asked", question, "我不知道。"))) == ["asked"]


def test_a_statement_lowers_no_question() -> None:
    home = memory("asked", "我的护照放在书房哪里了？", "我不知道。"), memory("answer", FLAT)
    assert all(item.receipt.cue == 0.0 for item in recalled("护照在书房放着", *home).top)


def test_the_receipt_says_that_it_only_asks_the_same() -> None:
    question = "我的护照放在书房哪里了？"
    recall = recalled(question, memory("answer", FLAT), memory("asked", question, "我不知道。"))
    lines = {item.memory.id: item.receipt.line() for item in (*recall.top, *recall.next)}
    assert "because it only asks the same" in lines["asked"]
    assert "only asks" not in lines["answer"]


def test_the_node_original_orders_by_words_alone() -> None:
    question = "我的护照放在书房哪里了？"
    home = memory("answer", FLAT), memory("asked", question, "我不知道。")
    recall = recalled(question, *home, parameters=RecallParameters(threshold=0.0))
    assert ids(recall)[0] == "asked"
