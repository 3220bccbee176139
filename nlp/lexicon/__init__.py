"""Tables about words. They say which words never count, which count less, and how rare each word is."""

from __future__ import annotations

from typing import Final

_STOP: Final = """
an and are as at be by can for from has have if in is it not all of on one or that the then this to we which with you
"""
STOP_WORDS: Final = frozenset(_STOP.split())
"""The 31 English stop words of jieba 0.42.1 (``jieba/analyse/tfidf.py``) and jieba-rs, in lower case; case does not
count. None is Chinese: the Node original has no Chinese ones, and all weights depend on the list."""

_CHINESE: Final = """
我们 你们 他们 她们 它们 咱们 自己 大家 别人 人家 我的 你的 他的 她的
这个 那个 这些 那些 这样 那样 这么 那么 这里 那里 这边 那边 这儿 那儿 这种 那种 这次 那次
什么 怎么 怎样 怎么样 怎么办 为什么 哪里 哪儿 哪个 哪些 多少 几个 是不是 有没有 能不能 会不会 要不要
因为 所以 但是 可是 不过 而且 如果 虽然 或者 还是 以及 然后 于是 因此 只是 只有 只要 就是 也是 还有 并且
可以 可能 应该 能够 需要 必须 已经 正在 曾经 一直 一下 一点 一些 有点 有些 非常 特别 真的 其实 的话 时候
没有 不是 不要 不会 不能 知道 觉得 认为 告诉 记得 请问
现在 刚才 刚刚 之前 之后 以前 以后 后来 当时 平时 有时 有时候 每次 每天 一起 一定 一样 一天 一句
起来 出来 出去 回来 回去 过来 下来 看起来 听起来 越来越 居然 竟然 果然 至少 大概 好像 似乎 几乎 完全 确实 直接
希望 感觉 问题 考虑 方式 地方 时间 东西 事情
你好 您好 谢谢 不客气 好的 是的 当然 哈哈 哈哈哈 嗯嗯 再见 对不起 没关系 没事 没问题 还好 恭喜 加油 好运 祝你 晚安 早安 拜拜
"""

_ENGLISH: Final = """
me my mine your yours he him his she her hers us our ours they them their theirs its myself yourself
these those there here what when where who whom whose why how
am was were been being do does did done doing had having will would shall should could may might must
no nor but so than too very just also only about into without over under after before
some any both each more most other such own same again once ever never yes ok okay
don didn doesn isn wasn aren weren couldn wouldn shouldn won ll ve re
let lets know think feel see look say said tell told get got getting go going goes went come came coming
make made take took give gave use used using want need like write writing wrote show help explain
thing things something anything everything nothing lot bit way up down out off back
much many little good great nice sure soon later now today tonight tomorrow morning night day
hi hello hey thanks thank please well really
"""

FUNCTION_WORDS: Final = frozenset((_CHINESE + _ENGLISH).split())
"""Pronouns, question words, connectives, auxiliaries and greetings, in lower case. Written for this project. Stop
words and single characters are not listed, because they never count."""

_ASKING: Final = """
what when where why which who whom whose how
am are can could did do does had has have is should was were would
"""
QUESTION_WORDS: Final = frozenset(_ASKING.split())
"""Words by which people ask about anything of theirs: a memory that shares only such words with a question does not
answer it. In a home of ten memories `do` is rare, so its weight cannot tell. Chosen on the development sets by precision
and silence beside the answers found. `will` is a name too, and jieba
gives Chinese words of this kind little weight."""


# Words that say when something is said or done, seen from the speaker's day. They occur in sentences about anything,
# and a memory that shares only them with a message has nothing to do with it. So they bring a memory forward, and never
# bring it alone. Questions about a time are in questions.py. A date (5月2日, July 17th), a month, `last week` and 上周四
# are not here: they say which time is meant. Nor are rare words such as 半夜 and `midnight`, which are mostly what a
# message is about.

CHINESE_DAY_WORDS: Final = """
今天 今日 今儿 今早 今晨 今晚 今夜 昨天 昨日 昨儿 昨早 昨晨 昨晚 昨夜 前天 大前天 前晚
明天 明日 明儿 明早 明晨 明晚 明夜 后天 大后天
现在 刚才 刚刚 方才 目前 眼下 当下 此刻 这会儿 这时候 一会儿 待会儿 等会儿 马上 这两天 这几天 前几天 前两天 过几天
最近 近来 近期 近日 早上 早晨 上午 中午 下午 晚上 周末 早上好 上午好 中午好 下午好 晚上好
周一 周二 周三 周四 周五 周六 周日 周天 星期一 星期二 星期三 星期四 星期五 星期六 星期日 星期天
礼拜一 礼拜二 礼拜三 礼拜四 礼拜五 礼拜六 礼拜日 礼拜天
"""
"""In Simplified characters, as texts are compared."""

_ENGLISH_DAY_WORDS: Final = """
today tonight tomorrow yesterday now just currently nowadays recently lately earlier later soon
morning mornings afternoon afternoons evening evenings night nights weekend weekends
monday tuesday wednesday thursday friday saturday sunday mondays tuesdays wednesdays thursdays fridays saturdays sundays
"""

DAY_WORDS: Final = frozenset((CHINESE_DAY_WORDS + _ENGLISH_DAY_WORDS).split())
"""In lower case. Written for this project."""
