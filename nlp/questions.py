"""Whether a message asks something, and what kind of answer it asks for: a date, a number or a name. Pure.

我的猫叫什么 and "where did I park" are questions, as well as what ends with a question mark; "When did we move?" is
answered by a text with a date. It reads marks and words of the common forms, not grammar. Where it errs, a search keeps
silent a little more or a little less, or the order of good matches suffers.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from nlp.once import Once

_AUXILIARY: Final = "am|is|are|was|were|do|does|did|can|could|will|would|should|have|has|had|isn't|wasn't|don't|doesn't|didn't"
_ASKING: Final = Once(
    lambda: re.compile(
        rf"""
    [?？؟]
  | (?<!没)(?<!沒)(?:什么|什麼|甚麼)(?!都|也) | 啥 | 谁|誰 | 哪(?!怕) | 多少|多久|多大|多远|多遠|多高|多长|多長
  | 几(?=[个次点號号岁天年月只块本斤]) | 幾(?=[個次點號歲天年月隻塊本斤])
  | 怎么|怎麼|怎样|怎樣|为何|為何|如何 | 来着|來著
  | 是不是|有没有|有沒有|能不能|会不会|會不會|要不要|记不记得|記不記得|还记得|還記得
  | [吗嗎](?=[\W_]*$)
  | (?:か|かな|の)(?=[。\s]*$)
  | 何(?=[がをのでにはか時]) | どこ|いつ|だれ|誰
  | 뭐|무엇|누구|언제|어디|(?:까|니)(?=[요.\s]*$)
  | (?:^|[.!:,\n]\s*)(?:(?:and|so|but|hey|ok|okay)\s+)?(?:
        (?:(?:when|where|why)|(?:who|whose|what|which|how)(?:\s+\w+){{0,3}}?)(?:'s|\s+(?:{_AUXILIARY}))\b
      | (?:{_AUXILIARY})\s+(?:i|you|we|he|she|they|it|my|your|our|the|there)\b
      | (?:remind|tell)\s+me\b )
  | \b(?:do|can)\s+you\s+(?:remember|recall|know)\b
    """,
        re.VERBOSE | re.IGNORECASE,
    )
)


ASKED_CHARS: Final = 4_000
"""Characters in which a question is looked for. An expression holds the interpreter lock for as long as it is matched,
up to 19 ms for 16,000 digits, and other threads wait."""


def asking_part(text: str, chars: int = ASKED_CHARS) -> str:
    """The beginning and the end of a long text, of so many characters together: a question stands before or after what
    was pasted."""
    if len(text) <= chars:
        return text
    beginning = text[: chars // 2]
    end = text[len(text) - chars // 2 :]
    return f"{beginning}\n{end}"


def is_question(text: str) -> bool:
    """Whether `text` asks something, in Chinese, English, Japanese or Korean, or with a question mark."""
    return _ASKING().search(asking_part(text)) is not None


class Cue(NamedTuple):
    """A kind of answer: the pattern `asked` finds it in a question, the pattern `held` in a text."""

    name: str
    asked: re.Pattern[str]
    held: re.Pattern[str]


# Without `may`, which is more often a verb in an answer.
_MONTHS: Final = "jan|feb|mar|apr|jun|jul|aug|sept?|oct|nov|dec"
_CUES: Final = Once(
    lambda: (
        Cue(
            "date",
            re.compile(
                r"\b(?:when|what (?:date|day|year|month|time)|how long ago)\b"
                r"|[什甚][么麼]时候|什麼時候|啥[时時]候|[几幾][时時](?!候)|什[么麼]日子|哪一?[天年]|几月|幾月|几号|幾號|几点|幾點|何时|何時",
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
    """The kind of answer that `question` asks for; None: it asks for something else."""
    for cue in _CUES():
        if cue.asked.search(question):
            return cue
    return None
