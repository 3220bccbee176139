"""Enriched keywords: exactly the Node original's with nothing switched on, and what each option does."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from datetime import timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nlp import Enrichment, Keyword, enriched_keywords, extract_message_keywords
from nlp.lexicon.function_words import FUNCTION_WORDS
from nlp.lexicon.stop_words import STOP_WORDS

NOW = 1_689_868_800_000
"""2023-07-20T16:00:00Z; in Shanghai the 21st has just begun."""
SHANGHAI = timezone(timedelta(hours=8))
HOUR = 3_600_000

NOTHING = Enrichment()
SIMPLIFIED = Enrichment(simplified=True)
FORMS = Enrichment(normal_forms=True)
SCRIPTS = Enrichment(scripts=True)
DATES = Enrichment(dates=True)
STOP_WORDS_TOO = Enrichment(stop_words=True)


@dataclass(frozen=True, slots=True)
class Said:
    content: str
    role: str = "user"
    time_ms: int | None = None


def words(text: str, options: Enrichment, **rest: Any) -> set[str]:
    return {word for word, _ in enriched_keywords([Said(text)], options, now_ms=NOW, zone=SHANGHAI, **rest)}


def test_with_nothing_switched_on_they_are_the_node_originals_to_the_last_bit(golden: Mapping[str, Any]) -> None:
    compared = 0
    for case in golden["chats"]:
        messages = [Said(message["content"], message["role"]) for message in case["messages"]]
        expected = [Keyword(entry["word"], entry["weight"]) for entry in case["keywords"]]
        found = enriched_keywords(messages, NOTHING, now_ms=NOW, role_weights=case["roleWeights"], with_own_days=True)
        assert found == expected, case["name"]
        compared += len(found)
    assert compared > 100


@pytest.mark.parametrize("options", [NOTHING, FORMS, SCRIPTS, DATES, SIMPLIFIED], ids=repr)
def test_a_text_that_an_option_does_not_concern_keeps_its_keywords_to_the_last_bit(options: Enrichment) -> None:
    if options.simplified:
        pytest.importorskip("opencc")
    messages = [Said("我喜欢吃披萨，不喜欢香菜。"), Said("披萨要加芝麻吗？", "assistant")]
    assert enriched_keywords(messages, options, now_ms=NOW) == extract_message_keywords(messages)


@pytest.mark.parametrize(
    ("options", "text", "has", "has_not"),
    [
        (FORMS, "ＧＰＴ４和Python", {"gpt4", "python"}, {"Python"}),
        (FORMS, "T恤", {"t恤"}, {"T恤"}),  # folded after segmentation, which knows T恤
        (SCRIPTS, "すしとPizza", {"すしと", "Pizza"}, set()),
        (SCRIPTS, "café☕", {"café", "☕"}, {"caf"}),
        (DATES, "我7月17号搬家", {"7月17日", "搬家"}, {"17"}),
        (DATES, "昨天下雨", {"7月20日", "下雨"}, {"昨天"}),
        (STOP_WORDS_TOO, "我们喜欢什么 When did you dance", {"喜欢", "dance"}, {"我们", "什么", "When", "did"}),
        (Enrichment(words=("龙胆阿芙萝黛蒂",)), "你认识龙胆阿芙萝黛蒂吗", {"龙胆阿芙萝黛蒂", "认识"}, {"龙胆", "阿芙"}),
        (Enrichment(words=("New York",)), "in New York, New Yorkers", {"New York", "New", "Yorkers"}, {"York"}),
        (Enrichment(words=("小明", "小明明")), "小明明和小明", {"小明", "小明明"}, set()),
        (Enrichment(words=("An na", "nn", " ")), "An na, Annual", {"An na", "Annual"}, set()),
        (replace(FORMS, words=("ANN",)), "ａｎｎ", {"ann"}, set()),
        (Enrichment(words=("芝麻",), dates=True), "昨天芝麻病了", {"芝麻", "7月20日"}, {"昨天"}),
    ],
)
def test_what_an_option_does(options: Enrichment, text: str, has: set[str], has_not: set[str]) -> None:
    found = words(text, options)
    assert found >= has
    assert not found & has_not


def test_traditional_and_simplified_have_the_same_keywords() -> None:
    pytest.importorskip("opencc")
    one, other = Said("我喜歡吃披薩，營收成長了"), Said("我喜欢吃披萨，营收成长了")
    assert enriched_keywords([one], SIMPLIFIED, now_ms=NOW) == enriched_keywords([other], SIMPLIFIED, now_ms=NOW)
    assert words("阿芙蘿黛蒂", replace(SIMPLIFIED, words=("阿芙萝黛蒂",))) == {"阿芙萝黛蒂"}


def test_what_is_remembered_has_the_days_on_which_it_was_said_and_what_is_asked_has_not() -> None:
    assert words("下雨", DATES, with_own_days=True) == {"下雨", "7月21日"}
    assert words("下雨", DATES) == {"下雨"}
    messages = [Said("下雨", time_ms=NOW - HOUR), Said("下雪", "assistant", NOW + HOUR)]
    found = enriched_keywords(messages, DATES, now_ms=0, zone=SHANGHAI, with_own_days=True)
    assert {word for word, _ in found} == {"下雨", "下雪", "7月20日", "7月21日"}


def test_the_own_day_is_kept_in_a_message_of_a_thousand_words() -> None:
    text = " ".join(f"word{number}" for number in range(1000))
    found = enriched_keywords([Said(text)], DATES, now_ms=NOW, zone=SHANGHAI, with_own_days=True)
    assert "7月21日" in {word for word, _ in found}
    assert len(found) <= 73


def test_the_own_day_takes_no_weight_from_the_other_words() -> None:
    messages = [Said("我喜欢吃披萨，不喜欢香菜。"), Said("披萨要加芝麻吗？", "assistant"), Said("7月21日去")]
    without = enriched_keywords(messages[:2], NOTHING, now_ms=NOW)
    found = enriched_keywords(messages[:2], DATES, now_ms=NOW, zone=SHANGHAI, with_own_days=True)
    assert [keyword for keyword in found if keyword.word != "7月21日"] == without
    (own,) = (keyword.weight for keyword in found if keyword.word == "7月21日")
    named = dict(enriched_keywords(messages[2:], DATES, now_ms=NOW, zone=SHANGHAI))["7月21日"]
    both = dict(enriched_keywords(messages[2:], DATES, now_ms=NOW, zone=SHANGHAI, with_own_days=True))["7月21日"]
    assert 0 < own < named < both  # said on the day that it names


def test_a_silenced_role_has_no_day() -> None:
    silent = {"user": 0.0}
    assert enriched_keywords([Said("下雨")], DATES, now_ms=NOW, role_weights=silent, with_own_days=True) == []


@pytest.mark.parametrize("time_ms", [-62_135_596_800_000, 253_402_300_799_999, 0])
def test_any_time_can_be_said(time_ms: int) -> None:
    for zone in (SHANGHAI, timezone(timedelta(hours=-12)), None):
        enriched_keywords([Said("昨天下雨", time_ms=time_ms)], DATES, now_ms=NOW, zone=zone, with_own_days=True)


def test_the_signature_tells_options_apart_and_nothing_has_none() -> None:
    switches = [replace(NOTHING, **{field.name: True}) for field in fields(Enrichment) if field.name != "words"]
    options = [*switches, Enrichment(words=("a",)), Enrichment(words=("b",)), Enrichment(words=("a", "b"))]
    assert NOTHING.signature == ""
    assert len({one.signature for one in options} | {""}) == len(options) + 1
    assert Enrichment(words=("a", "b")).signature == Enrichment(words=("b", "a")).signature


def test_words_that_say_little_can_be_met_and_are_in_lower_case() -> None:
    assert all(word == word.lower() and len(word) >= 2 for word in FUNCTION_WORDS)
    assert not FUNCTION_WORDS & STOP_WORDS


EVERYTHING = Enrichment(normal_forms=True, scripts=True, dates=True, stop_words=True, words=("小明", "a b"))


@given(st.text(alphabet=st.characters() | st.sampled_from("小明ab 昨天5月2日すしＧ🎂é\r\n"), max_size=60))
def test_any_text_can_be_enriched_and_a_word_comes_once(text: str) -> None:
    found = enriched_keywords([Said(text)], EVERYTHING, now_ms=NOW, zone=SHANGHAI)
    assert len({word for word, _ in found}) == len(found) <= 72
    assert all(weight >= 0.8 for _, weight in found)
    weights = [(-weight, word) for word, weight in found]
    assert weights == sorted(weights)
