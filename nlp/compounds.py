"""Other ways to write names of letters and digits: RTX4090 and "RTX 4090", GPT-5 and GPT5, Node.js and nodejs. Pure.

The segmentation cuts such a name at each sign and nowhere else, and drops single characters. So one way of writing it
would not find the other. Each way gives the words that the others have.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from nlp.once import Once
from nlp.stems import says_little

LEAST_PART: Final = 2
"""Characters of a part that is a word by itself: the segmentation drops shorter ones."""
MOST_COMPOUND: Final = 32
"""Characters of a compound: longer ones are keys and checksums."""
_LATIN: Final = re.compile("[A-Za-z]")
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
"""Two runs, of which at least one has letters, and the sign between them."""


def other_writings(text: str) -> Iterator[str]:
    """The words by which other ways of writing the compounds of `text` are found, with repetitions: `RTX` and `4090`
    for RTX4090, `GPT5` for GPT-5 and for "GPT 5", `Nodejs` for Node.js. The text must be in normal form. About 0.1 ms
    for 1,000 characters."""
    if _LATIN.search(text) is None:
        return
    for match in _TOUCHING().finditer(text):
        first, second = filter(None, match.groups())
        yield from _as_two(first, second)
    for match in _APART().finditer(text):
        first, sign, second = filter(None, match.groups())
        yield from _as_one(first, sign, second)


def _as_one(first: str, sign: str, second: str) -> Iterator[str]:
    """The compound without the sign. Two words with a blank between them are one only where a part is too short to
    count by itself: "GPT 5", and not "in 5"."""
    if sign == " ":
        has_short_part = min(len(first), len(second)) < LEAST_PART
        if not has_short_part or says_little(first.lower()) or says_little(second.lower()):
            return
    if len(first) + len(second) <= MOST_COMPOUND:
        yield first + second


def _as_two(first: str, second: str) -> Iterator[str]:
    """The parts of a compound that say something by themselves: of GPT5 only `GPT`, of M4 none."""
    both_count = min(len(first), len(second)) >= LEAST_PART
    for part in (first, second):
        if len(part) >= LEAST_PART and (both_count or part.isalpha()):
            yield part
