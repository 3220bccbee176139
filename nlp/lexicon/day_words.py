"""Words that say when something is said or done, seen from the speaker's day: 今天, 刚才, 周一, now, yesterday, Monday.

They stand in sentences about anything, and a memory that shares only them with a message has nothing to do with it.
So they bring a memory forward, and never bring it alone. Questions about a time are in `overview_questions.py`. A date
(5月2日, July 17th), a month, `last week` and 上周四 are not here: they say which time is meant. Nor are rare words such
as 半夜 and `midnight`, which are mostly what a message is about.
"""

from __future__ import annotations

import re
from typing import Final

from nlp.once import Once

_CHINESE: Final = """
今天 今日 今儿 今早 今晨 今晚 今夜 昨天 昨日 昨儿 昨早 昨晨 昨晚 昨夜 前天 大前天 前晚
明天 明日 明儿 明早 明晨 明晚 明夜 后天 大后天
现在 刚才 刚刚 方才 目前 眼下 当下 此刻 这会儿 这时候 一会儿 待会儿 等会儿 马上 这两天 这几天 前几天 前两天 过几天
最近 近来 近期 近日 早上 早晨 上午 中午 下午 晚上 周末
周一 周二 周三 周四 周五 周六 周日 周天 星期一 星期二 星期三 星期四 星期五 星期六 星期日 星期天
礼拜一 礼拜二 礼拜三 礼拜四 礼拜五 礼拜六 礼拜日 礼拜天
"""
"""In Simplified characters, as texts are compared."""

_ENGLISH: Final = """
today tonight tomorrow yesterday now just currently nowadays recently lately earlier later soon
morning mornings afternoon afternoons evening evenings night nights weekend weekends
monday tuesday wednesday thursday friday saturday sunday mondays tuesdays wednesdays thursdays fridays saturdays sundays
"""

DAY_WORDS: Final = frozenset((_CHINESE + _ENGLISH).split())
"""In lower case. Written for this project."""

_DAY_WORD: Final = Once(
    lambda: re.compile("|".join(sorted(_CHINESE.split(), key=lambda word: (-len(word), word))))
)


def without_day_words(text: str) -> str:
    """`text` with a blank in place of each Chinese day word, so that pairs of characters do not reach over it."""
    return _DAY_WORD().sub(" ", text)
