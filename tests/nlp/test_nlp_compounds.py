"""RTX4090 and "RTX 4090" are one thing, and so are all other ways to write a name of letters and digits."""

from __future__ import annotations

from itertools import chain, permutations

import pytest

from nlp import Enrichment, words_in
from nlp.index_terms import terms_of
from nlp.stems import other_writings

OPTIONS = Enrichment(normal_forms=True, scripts=True, stems=True, long_texts=True)
WRITINGS = [
    ("RTX4090", "RTX 4090", "rtx-4090"),
    ("4090", "RTX4090"),
    ("GPT5", "GPT-5", "gpt 5"),
    ("M4 Pro", "M-4 Pro", "m4 pro", "Ｍ４ Pro"),
    ("35mm", "35 mm"),
    ("5km", "5 km"),
    ("Node.js", "nodejs"),
    ("Wi-Fi", "WiFi", "wifi6"),
    ("e-mail", "email"),
    ("COVID-19", "COVID19"),
    ("iPhone15Pro", "iPhone 15 Pro", "iphone15 pro"),
]
PAIRS = list(chain.from_iterable(permutations(writings, 2) for writings in WRITINGS))


def words_of(name: str) -> set[str]:
    """The words by which a sentence with this name is found."""
    return set(words_in(f"我的 {name} 坏了", OPTIONS, now_ms=0)) - {"坏"}


@pytest.mark.parametrize(("stored", "asked"), PAIRS)
def test_each_writing_shares_a_word_with_the_others(stored: str, asked: str) -> None:
    assert words_of(stored) & words_of(asked)
    assert set(terms_of(stored)) & set(terms_of(asked))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("PS4", ["PS"]),
        ("M4", []),
        ("H2O", []),
        ("62.5 and 1-2", []),
        ("买了 3 个", []),
        ("5G T恤 B超", []),
        ("3090Ti", ["3090", "Ti"]),
        ("The end. Then 2026", []),
    ],
)
def test_what_is_not_a_compound_gives_no_other_words(text: str, words: list[str]) -> None:
    assert list(other_writings(text)) == words


def test_two_models_of_one_name_share_less_than_two_writings_of_one() -> None:
    def shared(text: str, other_text: str) -> int:
        return len(
            set(words_in(text, OPTIONS, now_ms=0)) & set(words_in(other_text, OPTIONS, now_ms=0))
        )

    assert shared("PS5", "PS 5") > shared("PS5", "PS4")
