"""Pairs of characters, and single Chinese ones, as terms beside the words: 阿黄 in 我的狗叫阿黄, 猫 in 猫の名前は？

The segmentation cuts names and compounds that are not in its dictionary into single characters, and Japanese and
Korean words have endings. Pairs of neighbouring characters find them nevertheless. Only for Han, kana and Hangul:
other scripts have blanks. Pure; recall/gram_index.py does the same for many texts at once and is tested against this.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from itertools import pairwise
from typing import Final

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
    """The pattern of a character in one of these ranges, which are first and last characters."""
    return "[" + "".join(f"{first}-{last}" for first, last in ranges) + "]"


_HAN: Final = re.compile(_character_set(HAN))
_RUN: Final = re.compile(_character_set((*HAN, *SYLLABLES)) + "+")


def grams_of(text: str) -> tuple[Counter[str], int]:
    """The pairs and single Han characters of `text` with their occurrences, without those that are only function
    characters; and how many pairs of neighbours it has, with those. The text must be in normal form
    (normal_forms.py). About 0.2 ms per 1,000 characters."""
    grams: Counter[str] = Counter()
    pair_count = 0
    for match in _RUN.finditer(text):
        run = match[0]
        pair_count += len(run) - 1
        grams.update(char for char in run if char not in FUNCTION_CHARACTERS and _HAN.match(char))
        grams.update(
            first + second
            for first, second in pairwise(run)
            if not (first in FUNCTION_CHARACTERS and second in FUNCTION_CHARACTERS)
        )
    return grams, pair_count


def pairs_in(text: str) -> int:
    """The number of pairs of neighbours in `text`, without a list of them."""
    return sum(len(match[0]) - 1 for match in _RUN.finditer(text))
