"""The idf of a word is looked up in jieba's text; what comes out is what reading all of it gives, to the last bit."""

from __future__ import annotations

import subprocess
import sys
from importlib.resources import files

import pytest

from nlp.lexicon import idf
from nlp.lexicon.idf import IndexedIdf, idf_table, index_of, jieba_text, read_whole

TEXT = "披萨 11.5\n喜欢 5.25\nB超 9.0\n咖啡 7.125\n喜 1.5".encode()


def test_the_shipped_index_is_that_of_the_installed_jieba() -> None:
    shipped = (files("nlp") / "lexicon" / "idf.index").read_bytes()
    assert shipped == index_of(jieba_text()), "make lexicon"


@pytest.mark.parametrize("step", [13, pytest.param(1, marks=pytest.mark.full)])
def test_every_word_has_the_idf_that_reading_the_whole_text_gives(step: int) -> None:
    """The short form looks up one word of thirteen."""
    indexed = idf_table()
    whole = read_whole(jieba_text())
    assert isinstance(indexed, IndexedIdf)
    assert len(indexed) == len(whole) == 270_132
    words = list(whole)[::step]
    assert all(indexed.get(word) == whole[word] for word in words)
    assert set(indexed) == whole.keys()


@pytest.mark.parametrize(
    "word",
    [
        "",
        "披",
        "披萨 11.5",
        "萨",
        "11.5",
        "喜欢喜欢",
        "\n",
        " ",
        "\ud83c",
        "zyzzyva",
        "\U0010ffff",
        "B",
    ],
)
def test_a_word_that_is_not_in_the_table_has_none(word: str) -> None:
    table = IndexedIdf(TEXT, index_of(TEXT))
    assert table.get(word) is None
    assert table.get(word, 3.0) == 3.0
    assert word not in table


def test_lines_are_found_wherever_they_stand() -> None:
    table = IndexedIdf(TEXT, index_of(TEXT))
    assert (
        dict(table)
        == read_whole(TEXT)
        == {"披萨": 11.5, "喜欢": 5.25, "B超": 9.0, "咖啡": 7.125, "喜": 1.5}
    )
    with pytest.raises(KeyError):
        table["没有"]


@pytest.mark.parametrize(
    "index",
    [
        b"",
        b"idf-index 1\n",
        index_of(TEXT)[:-1],
        index_of(TEXT).replace(b"idf-index 1", b"idf-index 2"),
        index_of(TEXT + b"\n"),
        index_of(TEXT.replace(b"11.5", b"11.6")),
    ],
    ids=["empty", "no numbers", "torn", "another form", "of a longer text", "of a text as long"],
)
def test_an_index_of_something_else_is_not_used(index: bytes) -> None:
    with pytest.raises(ValueError, match="not that of"):
        IndexedIdf(TEXT, index)


def test_without_an_index_the_whole_table_serves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(idf, "jieba_text", lambda: TEXT)
    table = idf._open_idf()
    assert table == read_whole(TEXT)
    assert type(table) is dict


def test_what_is_remembered_has_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(idf, "_MOST_REMEMBERED", 3)
    table = IndexedIdf(TEXT, index_of(TEXT))
    for word in [f"word{number}" for number in range(10)]:
        table.get(word)
    assert len(table._remembered) <= 3
    assert table["喜欢"] == 5.25


def test_looking_up_imports_nothing_heavy() -> None:
    code = (
        "import sys; from nlp.lexicon.idf import idf_table; assert idf_table()['披萨'] > 5;"
        "heavy = {'jieba', 'importlib.resources', 'tempfile', 'zipfile', 'numpy'} & set(sys.modules);"
        "assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
