"""What kind of answer a question asks for, a date, a number or a name, and whether a text has one. Pure.

"When did we move?" is answered by a text with a date. The expressions know the common forms of Chinese and English;
where they miss one, only the order of good matches suffers.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from nlp.once import Once


class Cue(NamedTuple):
    """`asked` finds the kind in a question, `held` in a text."""

    name: str
    asked: re.Pattern[str]
    held: re.Pattern[str]


_MONTHS: Final = "jan|feb|mar|apr|jun|jul|aug|sept?|oct|nov|dec"
_CUES: Final = Once(
    lambda: (
        Cue(
            "date",
            re.compile(
                r"\b(?:when|what (?:date|day|year|month|time)|how long ago)\b"
                r"|[什甚][么麼]时候|什麼時候|哪一?[天年]|几月|幾月|几号|幾號|几点|幾點|何时|何時",
                re.IGNORECASE,
            ),
            re.compile(
                rf"\b(?:{_MONTHS})[a-z]*\b|\b(?:19|20)\d\d\b|\b(?:yesterday|today|tonight|tomorrow|ago|weekend)\b"
                r"|\b(?:mon|tues|wednes|thurs|fri|satur|sun)day\b|\b(?:last|next|this) (?:week|month|year|night)\b"
                r"|\b(?:last|next|this) (?:spring|summer|fall|autumn|winter)\b"
                r"|[今明昨前后後]天|[上下这這][个個]?(?:[周週月]|星期)|[周週][一二三四五六日]|星期|[月号號年]|\d[日点點]",
                re.IGNORECASE,
            ),
        ),
        Cue(
            "number",
            re.compile(
                r"\bhow (?:many|much|old|long|often|far|big|tall)\b|多少|多[大久长長远遠高]|[几幾][个個次岁歲块塊本斤]",
                re.IGNORECASE,
            ),
            re.compile(
                r"\d|\b(?:two|three|four|five|six|seven|eight|nine|ten|once|twice|dozen|hundred|couple)\b"
                r"|[一二两兩三四五六七八九十百千万萬]+[个個次岁歲点點块塊本只隻条條天年月斤元]",
                re.IGNORECASE,
            ),
        ),
        Cue(
            "name",
            re.compile(r"\bwho(?:se|m)?\b|谁|誰|哪位", re.IGNORECASE),
            re.compile(r"(?<=[a-z,] )[A-Z][a-z]+"),
        ),
    )
)


def cue_of(question: str) -> Cue | None:
    """The kind of answer that `question` asks for; None if it is none of these."""
    return next((cue for cue in _CUES() if cue.asked.search(question)), None)
