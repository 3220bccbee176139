"""What jieba's tables say about a word: how rare it is, and whether it names something.

A word's rarity is its inverse document frequency, ln(documents / documents with the word).

Source: ``jieba/analyse/idf.txt`` of jieba 0.42.1 (270,132 words, byte-identical with the table inside jieba-rs). It
is read from the installed jieba, without running any code of jieba.

A word is looked up in that text, by the index beside this module: reading the text into a dict would take 0.2 s of
every start and 39 MB of every process. If idf.txt is not the file of the index, it is read into a dict nevertheless.
``make lexicon`` makes the index.
"""

from __future__ import annotations

import zlib
from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib.util import find_spec
from typing import Any, Final

from nlp.once import Once

UNKNOWN_WORD_IDF: Final = 11.9547675029
"""The median of the table; jieba and jieba-rs use it for words that are not in the table."""

_MAGIC: Final = b"idf-index 1\n"
_NOT_LOOKED_UP: Final[Any] = object()
_MOST_REMEMBERED: Final = 50_000
"""Words whose idf is remembered: more than a year of chat, and 5 MB."""


def index_of(text: bytes) -> bytes:
    """Make the index of a table: what identifies the table, and where each line begins, in the order of the words.
    Unsigned numbers of 32 bits, in this machine's order of bytes (little-endian in the shipped index; another machine
    reads the whole table): the size of `text` and its CRC-32 after the magic line, then an offset for each word."""
    line_starts: list[int] = []
    line_start = 0
    while line_start < len(text):
        line_starts.append(line_start)
        line_end = text.find(b"\n", line_start)
        if line_end < 0:
            break
        line_start = line_end + 1
    line_starts.sort(key=_word_at(text))
    return _MAGIC + array("I", [len(text), zlib.crc32(text), *line_starts]).tobytes()


class IndexedIdf(Mapping[str, float]):
    """The words of `text` and their idf, found by `index`. Raises ValueError if that is not the index of `text`."""

    def __init__(self, text: bytes, index: bytes) -> None:
        """Read the offsets in the index; the words are read when they are asked for. Raises
        ValueError if it is not the index of `text`."""
        numbers = array("I")
        number_bytes = index.removeprefix(_MAGIC)
        if index.startswith(_MAGIC) and len(number_bytes) % numbers.itemsize == 0:
            numbers.frombytes(number_bytes)
        if numbers[:2].tolist() != [len(text), zlib.crc32(text)]:
            raise ValueError("the index is not that of this idf table")
        self._text: Final = text
        self._starts: Final = numbers[2:]
        self._word_at: Final = _word_at(text)
        # A chat repeats few words; racing threads find the same values.
        self._remembered: dict[str, float | None] = {}

    def __getitem__(self, word: str) -> float:
        value: float | None = self.get(word)
        if value is None:
            raise KeyError(word)
        return value

    def get(self, word: str, default: Any = None) -> Any:
        """Return the idf of a word, or `default` if the table does not have it. It is looked up once, and remembered
        as long as there is room."""
        # Mapping.get would raise an exception inside for each unknown word.
        value = self._remembered.get(word, _NOT_LOOKED_UP)
        if value is _NOT_LOOKED_UP:
            if len(self._remembered) >= _MOST_REMEMBERED:
                self._remembered.clear()
            value = self._look_up(word.encode("utf-8", "surrogatepass"))
            self._remembered[word] = value
        if value is None:
            return default
        return value

    def __iter__(self) -> Iterator[str]:
        return (self._word_at(start).decode() for start in self._starts)

    def __len__(self) -> int:
        return len(self._starts)

    def _look_up(self, word: bytes) -> float | None:
        """Return the idf of a word in UTF-8, or None if the table does not have it. The lines are
        in the order of the words, so a binary search finds it."""
        position = bisect_left(self._starts, word, key=self._word_at)
        if position == len(self._starts):
            return None
        line_start = self._starts[position]
        if self._word_at(line_start) != word:
            return None
        value_start = line_start + len(word) + 1
        value_end = self._text.find(b"\n", value_start)
        if value_end < 0:
            value_end = len(self._text)
        return float(self._text[value_start:value_end])


def read_whole(text: bytes) -> dict[str, float]:
    """Read the table as a dict, for a text without an index."""
    words_and_values = text.decode().split()
    return dict(zip(words_and_values[::2], map(float, words_and_values[1::2]), strict=True))


def _word_at(text: bytes) -> Callable[[int], bytes]:
    return lambda start: text[start : text.index(b" ", start)]


def jieba_text(path: str = "analyse/idf.txt") -> bytes:
    """Read a file of the installed jieba, usually its idf.txt. Raises ModuleNotFoundError without jieba."""
    spec = find_spec("jieba")
    if spec is None:
        raise ModuleNotFoundError(
            "jieba is not installed, and its idf.txt has the word frequencies; pip install jieba"
        )
    return _file(spec, path)


def _file(spec: Any, path: str) -> bytes:
    # By the loader of the package: importlib.resources would cost 40 ms of a cold start.
    data: bytes = spec.loader.get_data(f"{spec.submodule_search_locations[0]}/{path}")
    return data


def _open_idf() -> Mapping[str, float]:
    """Open the table by its index, or read it whole if the index cannot be used."""
    text = jieba_text()
    try:
        return IndexedIdf(text, _file(find_spec("nlp.lexicon"), "idf.index"))
    except (OSError, ValueError):
        return read_whole(text)


idf_table: Final = Once(_open_idf)
"""The table, word to idf. The first call opens it (10 ms, 7 MB). Raises ModuleNotFoundError without jieba."""


# Parts of speech

_NAMES = ("n", "j")
"""The beginnings of the tags of nouns, names and abbreviations."""
_is_noun: dict[str, bool] = {}
"""The words that were looked up, and whether each is a noun or a name."""


def nouns(words: Iterable[str]) -> set[str]:
    """Return the words that the dictionary has as nouns or names. The dictionary is read, in some 100 ms, for words
    that were not looked up before."""
    words = set(words)
    new_words = {word.encode("utf-8", "replace") for word in words if word not in _is_noun}
    if new_words:
        tags = _tags(new_words)
        for word in new_words:
            _is_noun[word.decode()] = tags.get(word, "").startswith(_NAMES)
    return {word for word in words if _is_noun.get(word)}


def _tags(words: set[bytes]) -> dict[bytes, str]:
    """Return the tags of these words in the dictionary."""
    tags: dict[bytes, str] = {}
    for line in jieba_text("dict.txt").split(b"\n"):
        word = line.partition(b" ")[0]
        if word in words:
            tag = line.rpartition(b" ")[2]
            tags[word] = tag.decode().strip()
    return tags
