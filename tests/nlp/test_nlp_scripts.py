"""Words of scripts that the segmentation loses, and the one form of words."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nlp.normal_forms import plain, script_spans, simplified


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("すしとケーキ", ["すしと", "ケーキ"]),
        ("寿司が好き", []),  # kana one by one say nothing
        ("안녕하세요, 세계", ["안녕하세요", "세계"]),
        ("Привет, мир!", ["Привет", "мир"]),
        ("καλημέρα", ["καλημέρα"]),
        ("שלום مرحبا สวัสดี", ["שלום", "مرحبا", "สวัสดี"]),
        ("un café noir, naïve, Élodie, é", ["café", "naïve", "Élodie"]),
        ("🎂生日🎂", ["🎂", "🎂"]),
        ("👍🏽👍", ["👍", "👍"]),
        ("❤️❤", ["❤", "❤"]),
        ("🇨🇳🇯🇵", ["🇨🇳", "🇯🇵"]),
        ("👨‍👩‍👧", ["👨‍👩‍👧"]),
        ("plain English, 中文，123", []),
        (
            "a" * 100_000 + "é" + "b" * 100_000,
            ["a" * 100_000 + "é" + "b" * 100_000],
        ),  # in one go, not from each letter
        ("", []),
    ],
    ids=lambda value: str(value)[:20],
)
def test_a_run_of_one_script_is_a_word(text: str, words: list[str]) -> None:
    assert [span.word for span in script_spans(text)] == words


@given(st.text())
def test_spans_are_in_order_and_none_lies_over_another(text: str) -> None:
    end = 0
    for span in script_spans(text):
        assert end <= span.start < span.end <= len(text)
        end = span.end


@pytest.mark.parametrize(
    ("text", "form"),
    [
        ("ＧＰＴ４", "GPT4"),
        ("ｶﾀｶﾅ", "カタカナ"),
        ("①", "1"),
        ("cafe\u0301", "café"),
        ("Python", "Python"),
        ("", ""),
    ],
)
def test_width_and_composition_do_not_matter(text: str, form: str) -> None:
    assert plain(text) == form


@pytest.mark.parametrize(
    ("text", "form"),
    [
        ("我喜歡吃披薩", "我喜欢吃披萨"),
        ("營收成長", "营收成长"),
        ("乾隆", "乾隆"),
        ("影片", "影片"),  # no word of the Mainland in its place
        ("喜欢", "喜欢"),
        ("Python", "Python"),
    ],
)
def test_traditional_characters_become_simplified_ones(text: str, form: str) -> None:
    pytest.importorskip("opencc", reason="OpenCC has no wheel for this machine")
    assert simplified(text) == form
