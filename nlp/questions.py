"""Whether a message asks something: 我的猫叫什么 or "where did I park" as well as what ends with a question mark. Pure.

It reads marks and words, not grammar. Where it errs, a search only keeps silent a little more or a little less.
"""

from __future__ import annotations

import re
from typing import Final

from nlp.once import Once

_AUXILIARY: Final = (
    "am|is|are|was|were|do|does|did|can|could|will|would|should|have|has|had|isn't|wasn't|don't|doesn't|didn't"
)
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


def asking_part(text: str) -> str:
    """The beginning and the end of a long text: a question stands before or after what was pasted."""
    if len(text) <= ASKED_CHARS:
        return text
    return f"{text[: ASKED_CHARS // 2]}\n{text[-ASKED_CHARS // 2 :]}"


def is_question(text: str) -> bool:
    """Whether `text` asks something, in Chinese, English, Japanese or Korean, or with a question mark."""
    return _ASKING().search(asking_part(text)) is not None
