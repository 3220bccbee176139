"""Words that say when somebody speaks: known in each form, marked in a query, and without weight as pairs."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC

import pytest

from nlp import Enrichment, QueryWeights, is_incidental, sought_grams, sought_words
from nlp.lexicon import DAY_WORDS, QUESTION_WORDS
from nlp.stems import stem, without_day_words

NOON_MS = 1_782_043_200_000
OPTIONS = Enrichment(normal_forms=True, dates=True, stems=True, long_texts=True)


@dataclass(frozen=True)
class Message:
    content: str
    role: str = "user"
    time_ms: int | None = None
    name: str | None = None


def marked(text: str) -> set[str]:
    """The terms of a query by this text that only say when."""
    emphasis = QueryWeights(pairs=0.3)
    words = sought_words([Message(text)], OPTIONS, emphasis, now_ms=NOON_MS, zone=UTC)
    grams = sought_grams([Message(text)], OPTIONS, emphasis, words=words)
    assert not any(
        sought.when and (sought.telling or sought.alone)
        for sought in (*words.values(), *grams.values())
    )
    return {term for term, sought in (*words.items(), *grams.items()) if sought.when}


@pytest.mark.parametrize("word", sorted(DAY_WORDS | QUESTION_WORDS))
def test_each_listed_word_is_known_and_so_is_its_stem(word: str) -> None:
    assert is_incidental(word)
    assert is_incidental(stem(word))


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("今天股市怎么样", {"6月21日", "今天", "今", "天", "天股"}),
        ("晴天出门吗", set()),
        ("yesterday was cold", {"6月20日"}),
        ("On Monday we met", {"monday"}),
        ("刚才下雨", {"刚才", "刚", "才下"}),
        ("last Friday was fine", set()),
        ("6月21日是今天", {"今天", "今", "天", "是今"}),
    ],
)
def test_what_only_says_when_is_marked(text: str, terms: set[str]) -> None:
    marked_terms = marked(text)
    assert marked_terms <= terms
    assert terms - {"天股", "才下", "是今", "今", "天", "刚"} <= marked_terms


def test_pairs_do_not_reach_over_a_day_word() -> None:
    assert without_day_words("我今天好累") == "我 好累"
    assert without_day_words("星期一和星期") == " 和星期"


def test_without_enrichment_no_word_is_marked() -> None:
    terms = sought_words([Message("今天 now what")], Enrichment(), QueryWeights(), now_ms=NOON_MS)
    assert not any(sought.when or sought.asks for sought in terms.values())
