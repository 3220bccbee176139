"""Forms that find a word written in another way: stems, names with and without their signs, pairs of characters. Pure.

Snowball's stemmers for English and Russian: `websockets` is found by `websocket`, `пироги` by `пирог`. Words of other
scripts have no stems: Chinese has no endings.

A name of letters and digits has several ways to be written: RTX4090 and "RTX 4090", GPT-5 and GPT5, Node.js and nodejs.
The segmentation cuts such a name at each sign and nowhere else, and drops single characters, so each way gives the
words that the others have.

Pairs of neighbouring characters find the Chinese names and compounds that are not in the dictionary (阿黄 in
我的狗叫阿黄), and Japanese and Korean words with endings; a single Chinese character counts too (猫 in 猫の名前は？). Only
Han, kana and Hangul have pairs: other scripts have blanks. recall/index.py does the same for many texts at once
and is tested against this.
"""

from __future__ import annotations

import re
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from itertools import pairwise
from typing import Final

from nlp.lexicon import CHINESE_DAY_WORDS, DAY_WORDS, FUNCTION_WORDS, QUESTION_WORDS, STOP_WORDS
from nlp.once import Once

_CYRILLIC: Final = re.compile("[\u0400-\u04ff]+")


class _Stemmers(threading.local):
    """The stemmers of a thread: two threads must not use a PyStemmer object at the same time."""

    def __init__(self) -> None:
        # Imported late: most processes answer before they need a stem.
        from Stemmer import Stemmer

        self.english: Callable[[str], str] = Stemmer("english", 0).stemWord
        self.russian: Callable[[str], str] = Stemmer("russian", 0).stemWord


_stemmers: Final = Once(_Stemmers)


@lru_cache(maxsize=65_536)  # the words of some 5,000 memories, about 10 MB
def words_between_bars(text: str) -> list[str]:
    """Return the words or parts of a list that is written with bars between them."""
    return text.split("|")


def stem(word: str) -> str:
    """Return the stem of a lower-case word. Only ASCII and Cyrillic words have stems; any other word is returned
    unchanged."""
    if word.isascii():
        if word.isalpha():
            return _stemmers().english(word)
    elif _CYRILLIC.fullmatch(word):
        return _stemmers().russian(word)
    return word


def says_little(word: str) -> bool:
    """Return whether a lower-case word or stem says little by itself: `does`, `doe`, `什么`."""
    return word in _LITTLE()


def says_when(word: str) -> bool:
    """Return whether a lower-case word or stem only says when: `now`, `monday`, `刚才`."""
    return word in _DAY_WORDS()


def only_asks(word: str) -> bool:
    """Return whether a lower-case word or stem only asks: `what`."""
    return word in _QUESTION_WORDS()


def is_incidental(word: str) -> bool:
    """Return whether a lower-case word or stem occurs in sentences about anything, so that it is never enough alone."""
    return says_when(word) or only_asks(word)


def _with_stems(words: frozenset[str]) -> frozenset[str]:
    return words | frozenset(map(stem, words))


_LITTLE: Final = Once(lambda: _with_stems(FUNCTION_WORDS | STOP_WORDS))
_DAY_WORDS: Final = Once(lambda: _with_stems(DAY_WORDS))
_QUESTION_WORDS: Final = Once(lambda: _with_stems(QUESTION_WORDS))


# Names of letters and digits

LEAST_PART: Final = 2
"""Characters of a part that is a word by itself: the segmentation drops shorter ones."""
MOST_COMPOUND: Final = 32
"""Characters of a compound: longer ones are keys and checksums."""
_LATIN: Final = re.compile("[A-Za-z]")
_DIGIT: Final = re.compile("[0-9]")
_SIGN_BEFORE_LETTER: Final = re.compile("[-.][A-Za-z]")
"""Most texts have neither a digit nor this, and so no compound: the look at them is ten times as fast."""
_TOUCHING: Final = Once(
    lambda: re.compile(
        r"(?<![A-Za-z])(?=([A-Za-z]{1,32})([0-9]{1,32})(?![0-9]))"
        r"|(?<![0-9])(?=([0-9]{1,32})([A-Za-z]{1,32})(?![A-Za-z]))"
    )
)
"""A run of letters beside a run of digits."""
_APART: Final = Once(
    lambda: re.compile(
        r"(?<![A-Za-z0-9])(?=([A-Za-z]{1,32})([-. ])([0-9]{1,32})(?![A-Za-z0-9]))"
        r"|(?<![A-Za-z0-9])(?=([0-9]{1,32})([-. ])([A-Za-z]{1,32})(?![A-Za-z0-9]))"
        r"|(?<![A-Za-z0-9])(?=([A-Za-z]{1,32})([-.])([A-Za-z]{1,32})(?![A-Za-z0-9]))"
    )
)
"""Two runs, not both of digits, and the sign between them."""


def other_writings(text: str) -> Iterator[str]:
    """Yield the words by which other ways of writing the compounds of `text` are found, with repetitions: `RTX` and
    `4090` for RTX4090, `GPT5` for GPT-5 and for "GPT 5", `Nodejs` for Node.js. The text must be in normal form. About
    0.1 ms for 1,000 characters."""
    has_digit = _DIGIT.search(text) is not None
    if has_digit and _LATIN.search(text) is not None:
        for match in _TOUCHING().finditer(text):
            first, second = filter(None, match.groups())
            yield from _as_two(first, second)
    if has_digit or _SIGN_BEFORE_LETTER.search(text) is not None:
        for match in _APART().finditer(text):
            first, sign, second = filter(None, match.groups())
            yield from _as_one(first, sign, second)


def _as_one(first: str, sign: str, second: str) -> Iterator[str]:
    """Yield the compound without the sign. Two words with a blank between them are one only if a part is too short to
    count by itself: "GPT 5", and not "in 5"."""
    if sign == " ":
        has_short_part = min(len(first), len(second)) < LEAST_PART
        if not has_short_part or says_little(first.lower()) or says_little(second.lower()):
            return
    if len(first) + len(second) <= MOST_COMPOUND:
        yield first + second


def _as_two(first: str, second: str) -> Iterator[str]:
    """Yield the parts of a compound that say something by themselves: of GPT5 only `GPT`, of M4 none."""
    both_count = min(len(first), len(second)) >= LEAST_PART
    for part in (first, second):
        if len(part) >= LEAST_PART and (both_count or part.isalpha()):
            yield part


# Pairs of characters

HAN: Final = (("\u3400", "\u4dbf"), ("\u4e00", "\u9fff"))
SYLLABLES: Final = (
    ("\u3041", "\u309f"),
    ("\u30a1", "\u30fa"),
    ("\u30fc", "\u30ff"),
    ("\uac00", "\ud7a3"),
)
"""First and last characters of kana and Hangul."""

FUNCTION_CHARACTERS: Final = frozenset(
    "的了是我你他她它们有不在这那就都也很还好吗呢啊吧呀哦嗯哈一个上下来去要会能说到和跟与把被给对为以可没什么怎谁哪几多少"
    "大小人得地着过又再才只最更之其所从让用想看做点些每"
)
"""Characters that say little, alone or in pairs of them; written for this project."""


def _character_set(ranges: Iterable[tuple[str, str]]) -> str:
    """Return the pattern of a character in any of these ranges, which are first and last characters."""
    return "[" + "".join(f"{first}-{last}" for first, last in ranges) + "]"


_RUN: Final = re.compile(_character_set((*HAN, *SYLLABLES)) + "+")


def _is_han(char: str) -> bool:
    return any(first <= char <= last for first, last in HAN)


def grams_of(text: str) -> tuple[Counter[str], int]:
    """Count the pairs and single Han characters of `text`, without pairs and characters that are only function
    characters; and count all pairs of neighbours, including these. The text must be in normal form (normal_forms.py).
    About 0.2 ms per 1,000 characters."""
    grams: Counter[str] = Counter()
    pair_count = 0
    for match in _RUN.finditer(text):
        run = match[0]
        pair_count += len(run) - 1
        grams.update(char for char in run if char not in FUNCTION_CHARACTERS and _is_han(char))
        grams.update(
            first + second
            for first, second in pairwise(run)
            if not (first in FUNCTION_CHARACTERS and second in FUNCTION_CHARACTERS)
        )
    return grams, pair_count


def pairs_in(text: str) -> int:
    """Count the pairs of neighbours in `text`, without a list of them."""
    return sum(len(match[0]) - 1 for match in _RUN.finditer(text))


_DAY_WORD: Final = Once(
    lambda: re.compile(
        r"(?<!正)[早午晚]安(?![排装裝全静靜心慰置])|[拜哈嘿]{2,}(?!神)|在吗(?!啡)|(?<![^\W啊呀])早[啊呀]?(?=[\W早]|$)|(?<!\w)我?睡[了啦](?=\W|$)|"
        + "|".join(sorted(CHINESE_DAY_WORDS.split(), key=lambda word: (-len(word), word)))
    )
)
"""早 and 睡了 are greetings as whole clauses."""


def without_day_words(text: str) -> str:
    """Return `text` with a blank in place of each Chinese day word and greeting, so that pairs of characters do not
    reach over it."""
    return _DAY_WORD().sub(" ", text)
