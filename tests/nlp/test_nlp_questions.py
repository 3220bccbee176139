"""Questions, stretches of time, and kinds of answers, by tables of cases."""

from __future__ import annotations

from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nlp.lexicon.asking import WORDS_OF_ASKING
from nlp.questions import asking_part, cue_of, is_question
from nlp.time_spans import time_spans

TODAY = date(2026, 3, 18)  # a Wednesday


@pytest.mark.parametrize(
    "text",
    ["我家猫叫什么", "你还记得吗", "我叫什么名字来着", "where did I park", "What is it", "Tell me about it", "好看？",
     "跟我说说我奶奶", "1+1等于几", "猫の名前は何ですか。", "이름이 뭐예요", "so how many people are there"],
)  # fmt: skip
def test_a_question_is_known_without_its_mark(text: str) -> None:
    assert is_question(text)


def test_the_question_of_a_long_message_stands_at_its_beginning_or_at_its_end() -> None:
    pasted = "1a2b3c " * 20_000
    assert is_question(f"What is this: {pasted}")
    assert is_question(f"{pasted}\n我家猫叫什么")
    assert not is_question(pasted)


@pytest.mark.parametrize(
    ("text", "part"),
    [("0123456789", "0123456789"), ("0123456789a", "01234\n6789a"), ("", "")],
)
def test_of_a_text_that_is_too_long_its_two_ends_are_read(text: str, part: str) -> None:
    assert asking_part(text, 10) == part


@pytest.mark.parametrize(
    "text", ["今天好累", "没什么", "How nice!", "when I was young I ran", "吗啡", "", "I am sad."]
)
def test_a_statement_is_not_a_question(text: str) -> None:
    assert not is_question(text)


@pytest.mark.parametrize(
    ("text", "spans"),
    [
        ("7月份我买了什么", ["2025-07-01 2025-07-31"]),
        ("3月中旬", ["2026-03-11 2026-03-20", "2025-03-11 2025-03-20"]),
        ("去年12月底", ["2025-12-21 2025-12-31"]),
        ("上个月", ["2026-02-01 2026-02-28"]),
        ("上周说的", ["2026-03-09 2026-03-15"]),
        ("最近怎么样", ["2026-03-04 2026-03-18"]),
        ("in July", ["2025-07-01 2025-07-31"]),
        ("last week", ["2026-03-09 2026-03-15"]),
        ("on 21.01.", ["2026-01-21 2026-01-21", "2025-01-21 2025-01-21"]),
        ("on 21.01.2024", ["2024-01-21 2024-01-21"]),
        ("March 5", ["2026-03-05 2026-03-05", "2025-03-05 2025-03-05"]),
        ("3月5-7号去哪了", ["2026-03-05 2026-03-07", "2025-03-05 2025-03-07"]),
        ("March 5-7", ["2026-03-05 2026-03-07", "2025-03-05 2025-03-07"]),
        ("2024年2月27日到3月2日", ["2024-02-27 2024-03-02"]),
        ("2月28-31号", []),
        ("I may go", []),
        ("3个月", []),
        ("version 2.10.3", []),
        ("30.02.", []),
    ],
)
def test_the_stretches_of_time_that_a_text_names(text: str, spans: list[str]) -> None:
    assert [f"{span.first} {span.last}" for span in time_spans(text, TODAY)] == spans


@given(
    st.text(alphabet="0123456789年月日周上个前.年 去最近一二十三底lastweekinMayjuly", max_size=30),
    st.dates(),
)
def test_a_stretch_begins_before_it_ends_and_has_begun(text: str, today: date) -> None:
    for span in time_spans(text, today):
        assert span.first <= min(span.last, today)


@pytest.mark.parametrize(
    ("question", "kind", "answer", "no_answer"),
    [
        ("When did we move?", "date", "We moved last week", "We moved"),
        ("什么时候搬的家", "date", "上周搬的", "搬好了"),
        ("How many bees?", "number", "two colonies", "some bees"),
        ("多少只狗？", "number", "3只", "很吵"),
        ("Who called?", "name", "then Hanna called", "somebody called"),
    ],
)
def test_the_kind_of_answer(question: str, kind: str, answer: str, no_answer: str) -> None:
    cue = cue_of(question)
    assert cue is not None
    assert cue.name == kind
    assert cue.held.search(answer)
    assert not cue.held.search(no_answer)
    assert cue_of("Where is it?") is None


@pytest.mark.parametrize(
    ("question", "rest"),
    [
        ("Do you still remember where I left my umbrella?", "~ where I left my umbrella?"),
        ("Can you tell me when the concert is?", "~ when the concert is?"),
        ("Tell me about my grandmother", "~ my grandmother"),
        ("Remind me again what the code is", "~ what the code is"),
        ("Have I ever told you about the wedding?", "~ the wedding?"),
        ("Did I mention Laura?", "~ Laura?"),
        ("What was the book I told you about?", "What was the book ~?"),
        ("What did we discuss about the roof?", "What ~ the roof?"),
        ("I forgot where the key is, any idea?", "~ where the key is, ~?"),
        ("Remember when we went to Rome?", "~ when we went to Rome?"),
        ("the blue house, remember?", "the blue house~?"),
        ("What did I need to remember?", "What did I need to remember?"),
        ("What did I forget?", "What did I forget?"),
        ("What did I say to Tom?", "What did I say to Tom?"),
        ("What did Mark mention?", "What did Mark mention?"),
        ("你还记得我的雨伞放在哪里吗", "~我的雨伞放在哪里吗"),
        ("你能告诉我音乐会几点吗", "~音乐会几点吗"),
        ("跟我说说我奶奶", "~我奶奶"),
        ("我有没有跟你讲过我弟弟的婚礼", "~我弟弟的婚礼"),
        ("我之前说过大海的事吗", "~大海的事吗"),
        ("我们聊过屋顶的什么", "~屋顶的什么"),
        ("我想问的是，护照在哪里", "~，护照在哪里"),
        ("那家店你有没有印象", "那家店~"),
        ("我忘了钥匙放哪了", "~钥匙放哪了"),
        ("我要记得做什么", "我要记得做什么"),
        ("我跟小王说过什么", "我跟小王说过什么"),
        ("小马提到了什么", "小马提到了什么"),
    ],
)  # fmt: skip
def test_the_words_that_only_ask_are_found_and_no_others(question: str, rest: str) -> None:
    left = WORDS_OF_ASKING().sub("~", question)
    assert " ".join(left.split()) == rest
