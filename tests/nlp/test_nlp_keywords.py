"""Keywords and weights, against the Node original and against their own definition."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import nlp
from nlp import ROLE_WEIGHTS, Keyword, extract_keywords, extract_message_keywords
from nlp.keywords import Engine
from nlp.lexicon import STOP_WORDS
from nlp.lexicon.idf import UNKNOWN_WORD_IDF, idf_table, jieba_text, read_whole


@dataclass(frozen=True, slots=True)
class Message:
    role: str
    content: str


def keywords_of(case: Mapping[str, Any]) -> list[Keyword]:
    return [Keyword(entry["word"], entry["weight"]) for entry in case["keywords"]]


@pytest.fixture
def segmented_by(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> str:
    """Extraction through each engine in turn, whichever this machine would choose."""
    monkeypatch.setattr("nlp.keywords.engine", lambda: engine)
    return engine.name


def test_words_order_and_weights_are_those_of_the_node_original(
    segmented_by: str, golden: Mapping[str, Any]
) -> None:
    cases = [case for case in golden["texts"] if "\r\n" not in case["text"]]
    assert len(cases) >= 60
    different = [
        case["name"] for case in cases if extract_keywords(case["text"]) != keywords_of(case)
    ]
    assert different == []


def test_a_windows_line_break_is_no_word_though_the_node_original_takes_it_for_one(
    segmented_by: str, golden: Mapping[str, Any]
) -> None:
    """There "\\r\\n" has two characters, so it counts, leads the list and dilutes every other weight.

    Here a text has the keywords that the original gives to the same text with line feeds.
    """
    by_text = {case["text"]: case for case in golden["texts"]}
    broken = [case for case in golden["texts"] if "\r\n" in case["text"]]
    assert len(broken) >= 2
    for case in broken:
        assert keywords_of(case)[0].word == "\r\n"
        twin = by_text[case["text"].replace("\r\n", "\n")]
        assert extract_keywords(case["text"]) == keywords_of(twin)


def test_keywords_of_chats_are_those_of_the_node_original(
    segmented_by: str, golden: Mapping[str, Any]
) -> None:
    assert len(golden["chats"]) >= 10
    for case in golden["chats"]:
        messages = [Message(message["role"], message["content"]) for message in case["messages"]]
        assert extract_message_keywords(messages, case["roleWeights"]) == keywords_of(case), case[
            "name"
        ]


def test_the_golden_texts_reach_the_cut_and_the_ties() -> None:
    names = "、".join(f"item{n:03d}" for n in range(119, 0, -1))
    keywords = extract_keywords(names)
    assert len({weight for _, weight in keywords}) == 1
    assert [word for word, _ in keywords] == [f"item{n:03d}" for n in range(1, 73)]


def test_the_weight_is_term_frequency_times_idf_times_five() -> None:
    idf = idf_table()
    # 我 and 吃 are one character long and do not count: 3 words, of them 披萨 twice.
    assert extract_keywords("我喜欢吃披萨披萨") == [
        Keyword("披萨", 2 * idf["披萨"] / 3 * 5),
        Keyword("喜欢", 1 * idf["喜欢"] / 3 * 5),
    ]


def test_a_word_that_is_not_in_the_table_weighs_its_median() -> None:
    assert "zyzzyva" not in idf_table()
    assert extract_keywords("zyzzyva") == [Keyword("zyzzyva", UNKNOWN_WORD_IDF * 5)]
    idf = read_whole(jieba_text())
    assert sorted(idf.values())[len(idf) // 2] == UNKNOWN_WORD_IDF
    assert len(idf) == 270_132


def test_there_are_31_stop_words_and_case_does_not_hide_one() -> None:
    assert len(STOP_WORDS) == 31
    assert extract_keywords(" ".join(STOP_WORDS) + " " + " ".join(STOP_WORDS).upper()) == []


def test_the_documented_role_weights_apply_without_being_given() -> None:
    [alone] = extract_keywords("披萨")
    for role, weight in {"user": 2.7, "assistant": 2.0, "system": 1.0, "narrator": 1.0}.items():
        assert extract_message_keywords([Message(role, "披萨")]) == [
            Keyword("披萨", alone.weight * weight)
        ]


def test_a_role_that_is_not_given_keeps_its_documented_weight() -> None:
    given_weights = {"assistant": 3.5}
    [alone] = extract_keywords("披萨")
    for role, weight in {"user": 2.7, "assistant": 3.5, "narrator": 1.0}.items():
        keywords = extract_message_keywords([Message(role, "披萨")], given_weights)
        assert keywords == [Keyword("披萨", alone.weight * weight)]


def test_an_explicit_role_weight_of_0_silences_the_role() -> None:
    messages = [Message("assistant", "洱海"), Message("user", "披萨")]
    assert [word for word, _ in extract_message_keywords(messages, {"assistant": 0})] == ["披萨"]
    assert extract_message_keywords(messages, {"assistant": 0, "user": 0.0}) == []


def test_weights_of_one_word_are_summed_over_the_messages() -> None:
    messages = [Message("user", "披萨"), Message("assistant", "披萨"), Message("user", "披萨喜欢")]
    [alone] = extract_keywords("披萨")
    beside = dict(extract_keywords("披萨喜欢"))
    expected = alone.weight * 2.7 + alone.weight * 2.0 + beside["披萨"] * 2.7
    assert dict(extract_message_keywords(messages))["披萨"] == expected


def test_a_sum_at_the_threshold_stays_and_one_below_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    [alone] = extract_keywords("披萨")
    at = 0.8
    below = 0.7999999
    assert extract_message_keywords([Message("user", "披萨")], {"user": below / alone.weight}) == []
    assert (
        len(extract_message_keywords([Message("user", "披萨")] * 2, {"user": at / alone.weight}))
        == 1
    )
    monkeypatch.setattr("nlp.keywords.MIN_WEIGHT", alone.weight)
    assert len(extract_message_keywords([Message("user", "披萨")], {"user": 1.0})) == 1


def test_the_role_weights_cannot_be_changed() -> None:
    with pytest.raises(TypeError):
        ROLE_WEIGHTS["user"] = 1.0  # type: ignore[index]
    assert dict(ROLE_WEIGHTS) == {"user": 2.7, "assistant": 2.0, "system": 1.0}


def test_messages_may_come_from_a_generator() -> None:
    def messages() -> Iterable[Message]:
        yield Message("user", "披萨")
        yield Message("user", "喜欢")

    assert len(extract_message_keywords(messages())) == 2


def test_the_public_names_are_the_documented_ones() -> None:
    assert sorted(nlp.__all__) == [
        "Enrichment",
        "Keyword",
        "MOST_TEXTS",
        "MOST_TEXT_CHARS",
        "QueryTerm",
        "QueryWeights",
        "ROLE_WEIGHTS",
        "SupportsDatedMessage",
        "SupportsMessage",
        "bare",
        "engine_name",
        "enriched_keywords",
        "extract_keywords",
        "extract_message_keywords",
        "gram_weight",
        "is_incidental",
        "is_kept",
        "is_speaker",
        "kept",
        "kept_keywords",
        "load",
        "normal_form",
        "other_word_terms",
        "says_little",
        "sought_grams",
        "sought_names",
        "sought_words",
        "words_in",
    ]
    assert all(hasattr(nlp, name) for name in nlp.__all__)


@settings(deadline=None)  # the first example may load the tables
@given(
    st.text(
        alphabet=st.characters() | st.sampled_from("我喜欢吃披萨和芝麻ab\r\n\t ,。C+#_-.3"),
        max_size=80,
    )
)
def test_any_text_has_keywords_in_order_that_occur_in_it(text: str) -> None:
    keywords = extract_keywords(text)
    assert all(word in text and weight > 0 for word, weight in keywords)
    assert len({word for word, _ in keywords}) == len(keywords) <= 72
    for heavier, lighter in pairwise(keywords):
        assert (-heavier.weight, heavier.word) < (-lighter.weight, lighter.word)
