"""Terms of an index: pairs for scripts without spaces, stems for the rest, one form for all ways to write a word."""

from __future__ import annotations

import pytest

from nlp.index_terms import MOST_OTHER_TERMS, MOST_QUERY_TERMS, other_terms, sought_in, terms_of

TERMS = {
    "数据库连接": ["数据", "据库", "库连", "连接", "接"],
    "營收成長": ["营收", "收成", "成长", "长"],
    "東京タワー": ["东京", "京タ", "タワ", "ワー", "ー"],
    "ﾀﾜｰ": ["タワ", "ワー", "ー"],
    "생일은": ["생일", "일은", "은"],
    "C++17 と C#, issue#12, C": ["c++", "17", "と", "c#", "issu", "12", "c"],
    "retry_max-seconds.of tokio::spawn": [
        "retri",
        "max",
        "second",
        "of",
        "tokio",
        "spawn",
        "maxsecond",
        "secondsof",
    ],
    "ＧＰＴ４ v1.2.3": ["gpt4", "v1", "2", "3", "gpt"],
    "RTX4090": ["rtx4090", "rtx", "4090"],
    "GPT 5": ["gpt", "5", "gpt5"],
    "pea\u00adnut 芒\u200b果": ["peanut", "芒果", "果"],
    "Café Ångström": ["cafe", "angstrom"],
    "пироги": ["пирог"],
    "हिन्दी में": ["हिन्दी", "में"],
    "好🎂👍🏽🇨🇳": ["好", "🎂", "👍", "🇨🇳"],
    "gen-itgc后50条": ["gen", "itgc", "后", "50", "条", "genitgc"],
    "-> … 。": [],
    "\ufe0f": [],
}


@pytest.mark.parametrize("text", TERMS)
def test_a_text_has_the_terms_of_its_scripts(text: str) -> None:
    assert terms_of(text) == TERMS[text]


def test_a_query_has_distinct_terms_and_a_lone_character_begins_longer_ones() -> None:
    assert [
        (term.term, term.word, term.prefix) for term in sought_in("Errors 猫 errors 数据库 数据")
    ] == [
        ("error", "errors", False),
        ("猫", "猫", True),
        ("数据", "数据", False),
        ("据库", "据库", False),
    ]
    assert sought_in("-> ?") == ()
    assert len(sought_in("".join(map(chr, range(0x4E00, 0x4F00))))) == MOST_QUERY_TERMS


def test_every_query_that_is_a_piece_of_a_text_shares_its_terms() -> None:
    text = "支付网关的超时是三十秒，重试三次"
    terms = set(terms_of(text))
    for start in range(len(text) - 2):
        piece = text[start : start + 2]
        if "，" not in piece:
            assert {term.term for term in sought_in(piece)} <= terms


def words_beside(query: str, *texts: str) -> list[str]:
    return [term.word for term in other_terms(texts, sought_in(query))]


def test_other_words_are_terms_of_their_own() -> None:
    assert words_beside("sleeping pill", "trazodone", "曲唑酮", "Insomnia") == [
        "trazodone",
        "曲唑",
        "唑酮",
        "insomnia",
    ]
    assert words_beside("宠物", "貓", "狗") == ["猫", "狗"]
    assert words_beside("数据", "数据库", "数据库") == [
        "据库"
    ]  # what the query has too counts once, there
    assert words_beside("errors", "an Error", "anyhow") == ["anyhow"]


def test_other_words_that_say_little_are_no_terms() -> None:
    assert words_beside("pool", "the", "什么", "的", "C", "5", "C++") == ["c++"]


def test_the_last_of_many_other_words_counts_too() -> None:
    texts = [f"{chr(0x4E00 + 10 * n)}{chr(0x5E00 + 10 * n)}" for n in range(39)]
    assert words_beside("pool", *texts, "trazodone")[-1] == "trazodone"
    long = ["".join(map(chr, range(0x4E00 + 60 * n, 0x4E00 + 60 * n + 60))) for n in range(40)]
    assert len(words_beside("pool", *long)) == MOST_OTHER_TERMS
