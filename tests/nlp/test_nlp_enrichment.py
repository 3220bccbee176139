"""Enriched keywords: exactly the Node original's with nothing switched on, and what each option does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nlp import (
    Enrichment,
    Keyword,
    QueryTerm,
    QueryWeights,
    enriched_keywords,
    extract_message_keywords,
    sought_grams,
    sought_words,
)
from nlp.lexicon import FUNCTION_WORDS, STOP_WORDS

NOW = 1_689_868_800_000
"""2023-07-20T16:00:00Z; in Shanghai the 21st has just begun."""
SHANGHAI = timezone(timedelta(hours=8))
HOUR = 3_600_000

NOTHING = Enrichment()
SIMPLIFIED = Enrichment(simplified=True)
FORMS = Enrichment(normal_forms=True)
SCRIPTS = Enrichment(scripts=True)
DATES = Enrichment(dates=True)
STEMS = Enrichment(stems=True)
LONG = Enrichment(long_texts=True)
ALIKE = QueryWeights()
"""Everything in a query counts alike."""


@dataclass(frozen=True, slots=True)
class Message:
    content: str
    role: str = "user"
    time_ms: int | None = None


def query_keywords(messages: Sequence[Message], options: Enrichment, **rest: Any) -> list[Keyword]:
    """The words of a query with their weights."""
    return [
        Keyword(word, sought.weight)
        for word, sought in sought_words(messages, options, ALIKE, **rest).items()
    ]


def query_words(text: str, options: Enrichment) -> set[str]:
    return {word for word, _ in query_keywords([Message(text)], options, now_ms=NOW, zone=SHANGHAI)}


def stored_words(text: str, options: Enrichment) -> set[str]:
    return {
        word for word, _ in enriched_keywords([Message(text)], options, now_ms=NOW, zone=SHANGHAI)
    }


def test_with_nothing_switched_on_they_are_the_node_originals_to_the_last_bit(
    golden: Mapping[str, Any],
) -> None:
    compared = 0
    for case in golden["chats"]:
        messages = [Message(message["content"], message["role"]) for message in case["messages"]]
        expected = [Keyword(entry["word"], entry["weight"]) for entry in case["keywords"]]
        keywords = enriched_keywords(
            messages, NOTHING, now_ms=NOW, role_weights=case["roleWeights"]
        )
        assert keywords == expected, case["name"]
        compared += len(keywords)
    assert compared > 100


@pytest.mark.parametrize("options", [NOTHING, FORMS, SCRIPTS, DATES, SIMPLIFIED], ids=repr)
def test_a_text_that_an_option_does_not_concern_keeps_its_keywords_to_the_last_bit(
    options: Enrichment,
) -> None:
    if options.simplified:
        pytest.importorskip("opencc")
    messages = [Message("我喜欢吃披萨，不喜欢香菜。"), Message("披萨要加芝麻吗？", "assistant")]
    assert query_keywords(messages, options, now_ms=NOW) == extract_message_keywords(messages)


@pytest.mark.parametrize(
    ("options", "text", "has", "has_not"),
    [
        (FORMS, "ＧＰＴ４和Python", {"gpt4", "python"}, {"Python"}),
        (FORMS, "T恤", {"t恤"}, {"T恤"}),  # folded after segmentation, which knows T恤
        (SCRIPTS, "すしとPizza", {"すしと", "Pizza"}, set()),
        (SCRIPTS, "café☕", {"café", "☕"}, {"caf"}),
        (DATES, "我7月17号搬家", {"7月17日", "搬家"}, {"17"}),
        (DATES, "昨天下雨", {"7月20日", "下雨"}, {"昨天"}),
        (STEMS, "My bikes, two WebSockets", {"bike", "websocket"}, {"bikes", "WebSockets"}),
        (STEMS, "databases", {"databas"}, {"databases"}),
        (replace(STEMS, scripts=True), "пироги", {"пирог"}, {"пироги"}),
        (
            Enrichment(words=("龙胆阿芙萝黛蒂",)),
            "你认识龙胆阿芙萝黛蒂吗",
            {"龙胆阿芙萝黛蒂", "认识"},
            {"龙胆", "阿芙"},
        ),
        (
            Enrichment(words=("New York",)),
            "in New York, New Yorkers",
            {"New York", "New", "Yorkers"},
            {"York"},
        ),
        (Enrichment(words=("龙井茶",)), "KK龙井茶KK", {"龙井茶"}, set()),
        (Enrichment(words=("@ann", "C++")), "by@ann in C++11", {"@ann", "C++"}, set()),
        (Enrichment(words=("小明", "小明明")), "小明明和小明", {"小明", "小明明"}, set()),
        (Enrichment(words=("An na", "nn", " ")), "An na, Annual", {"An na", "Annual"}, set()),
        (replace(FORMS, words=("ANN",)), "ａｎｎ", {"ann"}, set()),
        (Enrichment(words=("芝麻",), dates=True), "昨天芝麻病了", {"芝麻", "7月20日"}, {"昨天"}),
    ],
)
def test_what_an_option_does(
    options: Enrichment, text: str, has: set[str], has_not: set[str]
) -> None:
    extracted = query_words(text, options)
    assert extracted >= has
    assert not extracted & has_not


def test_traditional_and_simplified_have_the_same_keywords() -> None:
    pytest.importorskip("opencc")
    traditional = Message("我喜歡吃披薩，營收成長了")
    simplified = Message("我喜欢吃披萨，营收成长了")
    assert query_keywords([traditional], SIMPLIFIED, now_ms=NOW) == query_keywords(
        [simplified], SIMPLIFIED, now_ms=NOW
    )
    assert query_words("阿芙蘿黛蒂", replace(SIMPLIFIED, words=("阿芙萝黛蒂",))) == {"阿芙萝黛蒂"}


def test_what_is_remembered_has_the_days_on_which_it_was_said_and_what_is_asked_has_not() -> None:
    assert stored_words("下雨", DATES) == {"下雨", "7月21日"}
    assert query_words("下雨", DATES) == {"下雨"}
    messages = [Message("下雨", time_ms=NOW - HOUR), Message("下雪", "assistant", NOW + HOUR)]
    keywords = enriched_keywords(messages, DATES, now_ms=0, zone=SHANGHAI)
    assert {word for word, _ in keywords} == {"下雨", "下雪", "7月20日", "7月21日"}


def test_the_own_day_is_kept_in_a_message_of_a_thousand_words() -> None:
    text = " ".join(f"word{number}" for number in range(1000))
    keywords = enriched_keywords([Message(text)], DATES, now_ms=NOW, zone=SHANGHAI)
    assert "7月21日" in {word for word, _ in keywords}
    assert len(keywords) <= 73


def test_the_own_day_takes_no_weight_from_the_other_words() -> None:
    messages = [
        Message("我喜欢吃披萨，不喜欢香菜。"),
        Message("披萨要加芝麻吗？", "assistant"),
        Message("7月21日去"),
    ]
    without = query_keywords(messages[:2], NOTHING, now_ms=NOW)
    keywords = enriched_keywords(messages[:2], DATES, now_ms=NOW, zone=SHANGHAI)
    assert [keyword for keyword in keywords if keyword.word != "7月21日"] == without
    (own,) = (keyword.weight for keyword in keywords if keyword.word == "7月21日")
    named = dict(query_keywords(messages[2:], DATES, now_ms=NOW, zone=SHANGHAI))["7月21日"]
    both = dict(enriched_keywords(messages[2:], DATES, now_ms=NOW, zone=SHANGHAI))["7月21日"]
    assert 0 < own < named < both  # said on the day that it names


@pytest.mark.parametrize("options", [DATES, replace(DATES, long_texts=True)])
@pytest.mark.parametrize("count", [0, 1, 2, 40])
def test_the_own_day_weighs_as_much_as_one_unknown_word_more(
    options: Enrichment, count: int
) -> None:
    unknown = [f"zq{chr(97 + number // 26)}{chr(97 + number % 26)}x" for number in range(count + 1)]
    text = Message(" ".join(unknown[:count]))
    own = dict(enriched_keywords([text], options, now_ms=NOW, zone=SHANGHAI))["7月21日"]
    one_more = dict(query_keywords([Message(" ".join(unknown))], options, now_ms=NOW))
    assert own == pytest.approx(one_more[unknown[0]])
    twice = dict(enriched_keywords([text, text], options, now_ms=NOW, zone=SHANGHAI))["7月21日"]
    assert twice == pytest.approx(2 * own)


def test_a_silenced_role_has_no_day() -> None:
    silent = {"user": 0.0}
    assert enriched_keywords([Message("下雨")], DATES, now_ms=NOW, role_weights=silent) == []


@pytest.mark.parametrize("time_ms", [-62_135_596_800_000, 253_402_300_799_999, 0])
def test_any_time_can_be_said(time_ms: int) -> None:
    for zone in (SHANGHAI, timezone(timedelta(hours=-12)), None):
        enriched_keywords([Message("昨天下雨", time_ms=time_ms)], DATES, now_ms=NOW, zone=zone)


def test_the_signature_tells_options_apart_and_nothing_has_none() -> None:
    switches = [
        replace(NOTHING, **{field.name: True})
        for field in fields(Enrichment)
        if field.name != "words"
    ]
    options = [
        *switches,
        Enrichment(words=("a",)),
        Enrichment(words=("b",)),
        Enrichment(words=("a", "b")),
    ]
    assert NOTHING.signature == ""
    assert len({option.signature for option in options} | {""}) == len(options) + 1
    assert Enrichment(words=("a", "b")).signature == Enrichment(words=("b", "a")).signature


def test_words_that_say_little_can_be_met_and_are_in_lower_case() -> None:
    assert all(word == word.lower() and len(word) >= 2 for word in FUNCTION_WORDS)
    assert not FUNCTION_WORDS & STOP_WORDS


EVERYTHING = Enrichment(
    normal_forms=True, scripts=True, dates=True, stems=True, words=("小明", "a b")
)


@given(
    st.text(
        alphabet=st.characters() | st.sampled_from("小明ab 昨天5月2日すしＧ🎂é\r\n"), max_size=60
    )
)
def test_any_text_can_be_enriched_and_a_word_comes_once(text: str) -> None:
    keywords = query_keywords([Message(text)], EVERYTHING, now_ms=NOW, zone=SHANGHAI)
    assert len({word for word, _ in keywords}) == len(keywords) <= 72
    assert all(weight >= 0.8 for _, weight in keywords)
    weights = [(-weight, word) for word, weight in keywords]
    assert weights == sorted(weights)


# --- what is asked -------------------------------------------------------------------------------------------------

EMPHASIS = QueryWeights(earlier=0.3, function_words=0.5, relative_days=0.25, pairs=1.0)


def factors(*texts: str, options: Enrichment = STEMS) -> dict[str, float]:
    terms = sought_words(
        [Message(text) for text in texts], options, EMPHASIS, now_ms=NOW, zone=SHANGHAI
    )
    return {word: round(term.factor, 4) for word, term in terms.items()}


def test_the_last_message_counts_fully_and_each_one_before_it_less() -> None:
    assert factors("pizza", "sushi", "pasta") == {"pasta": 1.0, "sushi": 0.3, "pizza": 0.09}


def test_a_word_of_several_messages_counts_as_in_the_last_of_them() -> None:
    terms = sought_words([Message("pizza"), Message("pizza")], STEMS, EMPHASIS, now_ms=NOW)
    (once,) = sought_words([Message("pizza")], STEMS, EMPHASIS, now_ms=NOW).values()
    assert terms == {"pizza": QueryTerm(pytest.approx(1.3 * once.weight), 1.0)}


def test_only_what_the_last_message_says_by_itself_is_telling() -> None:
    terms = sought_words(
        [Message("pizza when"), Message("sushi when")], STEMS, EMPHASIS, now_ms=NOW
    )
    assert {word for word, sought in terms.items() if sought.telling} == {"sushi"}
    again = sought_words([Message("pizza"), Message("pizza")], STEMS, EMPHASIS, now_ms=NOW)
    assert again["pizza"].telling
    grams = sought_grams([Message("阿黄"), Message("大黄")], NOTHING, EMPHASIS)
    assert {gram for gram, sought in grams.items() if sought.telling} == {"大黄", "黄"}


def test_words_that_say_little_count_less_also_as_stems() -> None:
    assert factors("does anything dance") == {"danc": 1.0, "doe": 0.5, "anyth": 0.5}
    assert factors("我们喜欢什么") == {"喜欢": 1.0, "我们": 0.5, "什么": 0.5}


def test_a_day_by_its_distance_counts_less_but_not_where_it_is_all_there_is() -> None:
    options = replace(STEMS, dates=True)
    assert factors("昨天下雨", options=options) == {"下雨": 1.0, "7月20日": 0.25}
    assert factors("7月20日下雨", options=options) == {"下雨": 1.0, "7月20日": 1.0}
    assert factors("昨天", options=options) == {"7月20日": 1.0}


def test_nothing_of_a_silenced_role_or_message_is_sought() -> None:
    messages = [Message("pizza"), Message("sushi", "assistant"), Message("pasta")]
    terms = sought_words(
        messages, STEMS, QueryWeights(earlier=0.0), now_ms=NOW, role_weights={"user": 0.0}
    )
    assert terms == {}


def test_pairs_of_characters_and_single_han_characters_are_sought_beside_words() -> None:
    terms = sought_grams([Message("阿黄几岁？")], NOTHING, EMPHASIS)
    assert set(terms) == {"阿", "黄", "岁", "阿黄", "黄几", "几岁"}
    assert {term.factor for term in terms.values()} == {1.0}
    assert set(sought_grams([Message("猫の名前は？")], NOTHING, EMPHASIS)) == {
        "猫",
        "名",
        "前",
        "猫の",
        "の名",
        "名前",
        "前は",
    }
    assert set(sought_grams([Message("피아노를 pianos и пироги")], NOTHING, EMPHASIS)) == {
        "피아",
        "아노",
        "노를",
    }


def test_pairs_of_an_earlier_message_count_less_and_those_that_say_little_not_at_all() -> None:
    terms = sought_grams([Message("阿黄"), Message("什么时候")], NOTHING, EMPHASIS)
    assert terms["阿黄"].factor == 0.3
    assert "什么" not in terms
    assert "时候" not in terms
    assert "时" in terms
    assert "时" in sought_grams([Message("什么时候，几时")], NOTHING, EMPHASIS)


def test_no_word_of_a_long_text_is_lost_and_a_short_one_does_not_outweigh_a_question() -> None:
    text = " ".join(f"word{number}" for number in range(2_000))
    weights = dict(enriched_keywords([Message(text)], LONG, now_ms=NOW))
    assert len(weights) == 2_000
    (single,) = enriched_keywords([Message("hello1")], LONG, now_ms=NOW)
    six = enriched_keywords([Message("a1 b2 c3 d4 e5 f6")], LONG, now_ms=NOW)
    assert {weight for _, weight in six} == {single.weight}
    usual = Message(" ".join(f"w{number}" for number in range(12)))
    assert dict(enriched_keywords([usual], LONG, now_ms=NOW)) == pytest.approx(
        dict(extract_message_keywords([usual]))
    )


@pytest.mark.parametrize(
    ("last", "factor"),
    [("The Heron leaks", 0.7), ("Why does the Heron leak?", 0.1), ("Why is that?", 0.3)],
)
def test_earlier_messages_count_by_the_form_of_the_last_one(last: str, factor: float) -> None:
    messages = [Message("quinces"), Message(last)]
    for emphasis, expected in (
        (QueryWeights(earlier=0.7, before_question=0.1), factor),
        (QueryWeights(earlier=0.2, before_question=0.1), min(factor, 0.2)),
        (QueryWeights(earlier=0.7), 0.7),
    ):
        assert sought_words(messages, STEMS, emphasis, now_ms=NOW)["quinc"].factor == pytest.approx(
            expected
        )
