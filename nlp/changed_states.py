"""Some questions ask for a state that may have changed: "where do I live?" wants "I moved to Berlin" too, and not only
what was true before. This module knows the words by which people say that a state has changed. Pure.

Only changes that most people live through, and only words that seldom mean anything else; written for this project.
Whether a fact replaced another one is not decided here: both come.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from nlp.once import Once

_SOMEBODY: Final = r"(?:i|you|we|he|she|they|(?:my|your|our|his|her|their) \w{1,20}|[^\W\d_]{1,20})"
_THEIR: Final = r"(?:my|your|our|his|her|their|[^\W\d_]{1,20}'s)"


class State(NamedTuple):
    """A state of a person. `question`: the pattern of questions about it. `english`: stems of the words of its changes;
    `chinese`: these words in Chinese, as a segmentation and as pairs of characters find them."""

    question: str
    english: tuple[str, ...]
    chinese: tuple[str, ...]


STATES: Final = (
    State(
        rf"\b(?:do|does|did|are|is) {_SOMEBODY} (?:live|living)\b|\b{_THEIR} (?:home )?address\b"
        r"|住[在哪]|[我你他她](?:的|家)?的?(?:住址|地址)|家在",
        ("move", "reloc"),
        ("搬家", "搬到", "搬去", "搬进"),
    ),
    State(
        rf"\bwhere (?:do|does|did) {_SOMEBODY} work\b|\b{_THEIR} (?:new |current )?(?:job|employer)\b"
        r"|在哪.{0,4}(?:工作|上班)|[做是]什么工作",
        ("quit", "hire", "resign", "retir"),
        ("跳槽", "离职", "入职", "辞职", "退休"),
    ),
    State(
        rf"\b{_THEIR} (?:boyfriend|girlfriend|husband|wife)\b|\bam i (?:single|married)\b"
        r"|[我你他她]的?(?:男朋友|女朋友|男友|女友|老公|老婆)",
        ("divorc", "engag", "breakup"),
        ("分手", "离婚", "订婚", "复合"),
    ),
    State(
        rf"\bwhere (?:do|does|did) {_SOMEBODY} study\b|\bwhich (?:school|university|college) (?:do|does|did)\b"
        r"|在哪.{0,4}(?:上学|读书)|[我你他她].{0,4}哪.{0,2}(?:学校|大学)",
        ("graduat",),
        ("毕业", "转学", "退学", "考上"),
    ),
)
_HINTS: Final = (
    *(
        "liv",
        "address",
        "work",
        "job",
        "employer",
        "friend",
        "husband",
        "wife",
        "single",
        "married",
        "study",
    ),
    *(
        "school",
        "university",
        "college",
        "住",
        "址",
        "家在",
        "工作",
        "上班",
        "友",
        "老公",
        "老婆",
        "上学",
        "读书",
    ),
    *("学校", "大学"),
)
"""Parts of all such questions: most questions have none, and the expression takes 2 ms to compile."""
_QUESTIONS: Final = Once(
    lambda: re.compile("|".join(f"({state.question})" for state in STATES), re.IGNORECASE)
)


def words_of_change(question: str) -> tuple[str, ...]:
    """The words by which people say that a state has changed, if `question` asks for such a state; in the languages of
    the question, which must be in normal form."""
    if not any(hint in question.lower() for hint in _HINTS):
        return ()
    numbers = {match.lastindex for match in _QUESTIONS().finditer(question)}
    states = [state for number, state in enumerate(STATES, 1) if number in numbers]
    words: list[str] = []
    if any("\u4e00" <= char <= "\u9fff" for char in question):
        for state in states:
            words += state.chinese
    if any(char.isascii() and char.isalpha() for char in question):
        for state in states:
            words += state.english
    return tuple(words)
