"""A question about how something stands also looks for the words in which people tell that it changed: whoever asks
"where do I live?" wants "I moved to Berlin" too, and not only what was true before. Pure.

Only changes that most people live through, and only words that seldom mean anything else; written for this project.
Whether a fact replaced another one is not decided here: both come.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from nlp.once import Once


class State(NamedTuple):
    """`asked`: the words of questions about it. `english`: stems of the words of its changes; `chinese`: these words in
    Chinese, as a segmentation and as pairs of characters find them."""

    asked: str
    english: tuple[str, ...]
    chinese: tuple[str, ...]


STATES: Final = (
    State(
        r"\b(?:live|living|lives|address)\b|住[在哪的址]|地址|家在",
        ("move", "reloc"),
        ("搬家", "搬到", "搬去", "搬进"),
    ),
    State(
        r"\bwhere\b.{0,20}\bwork|\bjob\b|\bemployer\b|在哪.{0,4}(?:工作|上班)|[什甚]么工作|职业",
        ("quit", "hire", "resign", "retir"),
        ("跳槽", "离职", "入职", "辞职", "退休"),
    ),
    State(
        r"\b(?:boyfriend|girlfriend|husband|wife|partner|dating|single|married)\b|男朋友|女朋友|男友|女友|老公|老婆|单身",
        ("divorc", "engag", "breakup"),
        ("分手", "离婚", "订婚", "复合"),
    ),
    State(
        r"\bwhere\b.{0,20}\bstud|\bwhich (?:school|university|college)\b|在哪.{0,4}(?:上学|读书)|哪.{0,2}(?:学校|大学)",
        ("graduat",),
        ("毕业", "转学", "退学", "考上"),
    ),
)
_HINTS: Final = (
    *(
        "live",
        "living",
        "address",
        "work",
        "job",
        "employer",
        "friend",
        "husband",
        "wife",
        "partner",
        "dating",
        "single",
    ),
    *(
        "married",
        "stud",
        "school",
        "college",
        "university",
        "住",
        "址",
        "家在",
        "工作",
        "职业",
        "上班",
        "友",
        "老公",
        "老婆",
    ),
    *("单身", "上学", "读书", "学校", "大学"),
)
"""Parts of all such questions: most questions have none, and the expression takes 2 ms to compile."""
_ASKED: Final = Once(lambda: re.compile("|".join(f"({state.asked})" for state in STATES), re.IGNORECASE))


def words_of_change(question: str) -> tuple[str, ...]:
    """The words in which people tell that changed what `question` asks for, in its language; none if it asks for
    something else. The question must be in normal form."""
    if not any(hint in question.lower() for hint in _HINTS):
        return ()
    asked = {match.lastindex for match in _ASKED().finditer(question)}
    chinese = any("\u4e00" <= char <= "\u9fff" for char in question)
    states = [state for number, state in enumerate(STATES, 1) if number in asked]
    return tuple(word for state in states for word in (state.chinese if chinese else state.english))
