"""How rare a word is: its inverse document frequency, ln(documents / documents with the word).

Source: ``jieba/analyse/idf.txt`` of jieba 0.42.1 (270,132 words, byte-identical with the table inside jieba-rs). It is
read from the installed jieba, without running any code of jieba.

A word is looked up in that text, by the index beside this module: reading the text into a dict would take 0.2 s of
every start and 39 MB of every process. If idf.txt is not the one of the index, it is read into a dict nevertheless.
``make lexicon`` makes the index.
"""

from __future__ import annotations

import sys
import zlib
from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping
from importlib.machinery import ModuleSpec
from typing import Any, Final, Protocol

from nlp.once import Once

UNKNOWN_WORD_IDF: Final = 11.9547675029
"""The median of the table; jieba and jieba-rs use it for words that are not in the table."""

_MAGIC: Final = b"idf-index 1\n"
_NOT_LOOKED_UP: Final[Any] = object()
_REMEMBERED: Final = 50_000  # words: more than a year of chat, and 5 MB


class _Loader(Protocol):
    """A loader that reads the files of its package, as the loaders of folders and of zip files do."""

    def get_data(self, path: str) -> bytes: ...


def index_of(text: bytes) -> bytes:
    """The index of a table: what identifies the table, and where each line begins, in the order of the words.

    Little-endian unsigned numbers of 32 bits: the size of `text` and its CRC-32 after the magic line, then an
    offset for each word.
    """
    starts, begin = array("I"), 0
    while 0 <= begin < len(text):
        starts.append(begin)
        begin = text.find(b"\n", begin) + 1 or -1
    ordered = array("I", [len(text), zlib.crc32(text), *sorted(starts, key=_word_at(text))])
    return _MAGIC + _little_endian(ordered).tobytes()


class IndexedIdf(Mapping[str, float]):
    """The words of `text` and their idf, found by `index`.

    Raises:
        ValueError: `index` is not the index of `text`.
    """

    def __init__(self, text: bytes, index: bytes) -> None:
        numbers = array("I")
        if index.startswith(_MAGIC) and not (len(index) - len(_MAGIC)) % numbers.itemsize:
            numbers.frombytes(index[len(_MAGIC) :])
        numbers = _little_endian(numbers)
        if numbers[:2].tolist() != [len(text), zlib.crc32(text)]:
            raise ValueError("the index is not that of this idf table")
        self._text: Final = text
        self._starts: Final = numbers[2:]
        self._word_at: Final = _word_at(text)
        # A chat repeats few words; racing threads find the same values.
        self._known: dict[str, float | None] = {}

    def __getitem__(self, word: str) -> float:
        value: float | None = self.get(word)
        if value is None:
            raise KeyError(word)
        return value

    def get(self, word: str, default: Any = None) -> Any:
        # Mapping.get would raise an exception inside for each unknown word.
        value = self._known.get(word, _NOT_LOOKED_UP)
        if value is _NOT_LOOKED_UP:
            value = self._remember(word)
        return default if value is None else value

    def __iter__(self) -> Iterator[str]:
        return (self._word_at(start).decode() for start in self._starts)

    def __len__(self) -> int:
        return len(self._starts)

    def _remember(self, word: str) -> float | None:
        if len(self._known) >= _REMEMBERED:
            self._known.clear()
        value = self._known[word] = self._look_up(word.encode("utf-8", "surrogatepass"))
        return value

    def _look_up(self, word: bytes) -> float | None:
        place = bisect_left(self._starts, word, key=self._word_at)
        if place == len(self._starts) or self._word_at(start := self._starts[place]) != word:
            return None
        value = start + len(word) + 1
        end = self._text.find(b"\n", value)
        return float(self._text[value:] if end < 0 else self._text[value:end])


def read_whole(text: bytes) -> dict[str, float]:
    """The table as a dict, for a text without an index."""
    words_and_values = text.decode().split()
    return dict(zip(words_and_values[::2], map(float, words_and_values[1::2]), strict=True))


def _word_at(text: bytes) -> Callable[[int], bytes]:
    return lambda start: text[start : text.index(b" ", start)]


def _little_endian(numbers: array[int]) -> array[int]:
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers


def _file(spec: ModuleSpec | None, path: str) -> bytes:
    # By the loader: importlib.resources would cost 40 ms of a cold start.
    loader: _Loader = getattr(spec, "loader")  # noqa: B009 - typed as one that need not have get_data
    folders = getattr(spec, "submodule_search_locations")  # noqa: B009
    return loader.get_data(f"{folders[0]}/{path}")


def jieba_text() -> bytes:
    """The idf.txt of the installed jieba.

    Raises:
        ModuleNotFoundError: jieba is not installed.
    """
    from importlib.util import find_spec

    spec = find_spec("jieba")
    if spec is None:
        raise ModuleNotFoundError("jieba is not installed, and its idf.txt has the word frequencies; pip install jieba")
    return _file(spec, "analyse/idf.txt")


def _open_idf() -> Mapping[str, float]:
    import nlp.lexicon

    text = jieba_text()
    try:
        return IndexedIdf(text, _file(nlp.lexicon.__spec__, "idf.index"))
    except (OSError, ValueError):
        return read_whole(text)


idf_table: Final = Once(_open_idf)
"""The table, word to idf. The first call opens it (10 ms, 7 MB).

Raises:
    ModuleNotFoundError: jieba is not installed.
"""
