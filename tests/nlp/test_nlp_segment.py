"""Two engines, one meaning."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nlp.keywords import Engine, segment, well_formed

# Pieces that the dictionary joins, splits at, or has across a boundary; and whatever Unicode offers,
# surrogates included.
_WORDS = "研究 生命 起源 南京市 长江 大桥 乒乓球 拍卖 哈哈 龙 龍 𠮷 C 语言 T恤 B超 AA制 a Z 9 3.14"
_MARKS = "+ # & _ % - . ， … — す カ 안 é e\u0301 İ ſ 🎂 👨\u200d👩\u200d👧 \ud83d \udf82"
_PIECES = st.sampled_from(
    [
        *_WORDS.split(),
        *_MARKS.split(),
        *(
            "\r\n",
            "\r",
            "\n",
            "\t",
            "\u3000",
            " ",
            "\x00",
            "\x1f",
            "\x85",
            "\u2028",
            "哈" * 50,
            "来" * 37,
        ),
    ]
)
_TEXTS = st.lists(_PIECES | st.characters(), max_size=60).map("".join)


def test_both_engines_give_the_same_words_on_every_golden_text(
    jieba_engine: Engine, rjieba_engine: Engine, golden: Mapping[str, Any]
) -> None:
    texts = [case["text"] for case in golden["texts"]]
    texts += [message["content"] for chat in golden["chats"] for message in chat["messages"]]
    for text in map(well_formed, texts):
        assert jieba_engine.cut(text) == rjieba_engine.cut(text)


@settings(
    max_examples=400, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(text=_TEXTS)
def test_both_engines_give_the_same_words_on_any_text(
    jieba_engine: Engine, rjieba_engine: Engine, text: str
) -> None:
    text = well_formed(text)
    assert jieba_engine.cut(text) == rjieba_engine.cut(text)


@settings(max_examples=200, deadline=None)
@given(text=_TEXTS)
def test_the_words_of_any_text_joined_are_the_text(engine: Engine, text: str) -> None:
    text = well_formed(text)
    assert "".join(engine.cut(text)) == text


@pytest.mark.parametrize("word", ["哈", "啊", "呜", "天", "妈妈", "来来", "研究生命"])
def test_both_engines_cut_a_long_repetition_at_the_same_places(
    jieba_engine: Engine, rjieba_engine: Engine, word: str
) -> None:
    """Here many cuts are equally likely and only rounding decides between them."""
    for count in range(2, 200, 7):
        assert jieba_engine.cut(word * count) == rjieba_engine.cut(word * count)


def test_names_and_numbers_are_cut_without_the_hidden_markov_model(engine: Engine) -> None:
    """With it on, engines differ; 杭研 is jieba's own example of a word that only the HMM finds."""
    assert engine.cut("他来到了网易杭研大厦") == ["他", "来到", "了", "网易", "杭", "研", "大厦"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ""),
        ("今天好开心", "今天好开心"),
        ("🎂", "🎂"),
        ("开心\ud83d", "开心\ufffd"),
        ("\udf82开心", "\ufffd开心"),
        ("a\ud83db\udf82c", "a\ufffdb\ufffdc"),
        ("\udf82\ud83d", "\ufffd\ufffd"),
        ("\ud83c\udf82", "🎂"),
        ("\ud83d\ud83c\udf82\udf82", "\ufffd🎂\ufffd"),
    ],
)
def test_lone_surrogates_become_replacement_characters_and_pairs_the_character(
    text: str, expected: str
) -> None:
    assert well_formed(text) == expected


@settings(deadline=None)
@given(text=_TEXTS)
def test_any_text_is_well_formed_afterwards_and_only_then_changed(text: str) -> None:
    result = well_formed(text)
    result.encode()  # does not raise
    assert well_formed(result) == result
    if not any("\ud800" <= character <= "\udfff" for character in text):
        assert result is text


def test_half_an_emoji_does_not_stop_segmentation() -> None:
    assert segment("生日快乐\ud83d")[-1] == "\ufffd"
