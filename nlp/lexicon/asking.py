"""Words by which people ask to be told something, and by which they say that they do not know it, in English and Chinese;
written for this project.
"""

from __future__ import annotations

import re
from typing import Final

from nlp.once import Once

WORDS_OF_ASKING: Final = Once(
    lambda: re.compile(
        r"""
    \b(?: (?:do|did|can|could|would|will)\ you\ (?:(?:please|still|even|ever|also|happen\ to|by\ any\ chance)\ )*
            (?:remember|recall|know|tell\ me|remind\ me)
        | (?:please\ )?(?:tell|remind)\ me | help\ me\ (?:remember|recall) | refresh\ my\ memory | let\ me\ know
        | (?:i'd|i\ would)\ (?:like|love)\ to\ know | i\ want\ to\ know | i(?:\ was|'m|\ am)?\ wonder(?:ing)? | any\ idea
        | i\ (?:can't|cannot|can\ not|don't|do\ not)\ (?:remember|recall)
        | i(?:'ve|\ have)?\ forgot(?:ten)?(?=\ (?:what|when|where|who|which|why|how|if|whether)\b)
      )\b(?:\ again\b)?(?:\ (?:of|about)\b)?
  | \b(?: (?:do|did|have|had)\ (?:i|we) | (?:i|we)(?:'ve|'d|\ have|\ had)? )\ (?:(?:not|ever|already|once|just|even)\ )*
      (?: (?:tell|told)\ you
        | (?:say|said|mention(?:ed)?|talk(?:ed)?|discuss(?:ed)?|speak|spoken?)\b(?:\ (?:to|with)\ you)?(?!\ (?:to|with)\b)
      )\b(?:\ (?:about|of|that)\b)?
  | ,\ remember(?=\W*$) | ^remember\b
  | (?:请|麻烦)?[你您]?(?:能不能|能|可不可以|可以)?再?(?:告诉我|提醒我)(?:一下)? | 请问
  | 再?[跟和给对]我再?(?:说说|讲讲|聊聊|说一下|讲一下|介绍一?下)
  | [你您](?:还|可|是否|是不是|应该|到底)*(?:记得|知道|知不知道|想得起来)
  | [你您]?(?:(?:还|是否)记得|记不记得|还?有没有印象) | 帮我(?:回忆|回想|想想|想一想)(?:一下)? | 记得吗
  | 我[们俩]?(?:以前|之前|曾经|曾|上次|刚才|有没有|是不是|是否|好像|应该|都)*(?:[跟和对给向同]你)?
      (?: (?:说|讲|提|聊|谈|讨论|分享)[过到起]过? | 告诉过?你 )(?:的|关于)?
  | 我(?:真正|本来|其实|是)?[想要](?:问问?|知道|了解)(?:一下|你)?(?:的是)?
  | 我(?:忘记|忘|记不清|记不得|想不起来|不记得)了?(?=.{0,20}(?:什么|哪|谁|几|多少|怎么))
    """,
        re.VERBOSE | re.IGNORECASE,
    )
)
"""Finds such words in a text in normal form whose apostrophes are straight. What they ask for is in the other words:
`do you remember` is in many memories, and 我说过 too."""

NOT_KNOWN: Final = Once(
    lambda: re.compile(
        r"""
    \b(?: no\ idea | not\ sure
        | (?:do\ not|don't|didn't|did\ not|can't|cannot|couldn't)\ (?:know|remember|recall|have|see|find)
        | (?:haven't|have\ not|hasn't|never|didn't|did\ not)\ (?:yet\ )?(?:tell|told|mention(?:ed)?|said|say|shared?)
      )\b
  | 不知道 | 不清楚 | 不确定 | 不太?记得 | 记不清 | 没有?印象 | 没有?听?你?[跟和对]?我?(?:说|提|告诉|讲|聊|记)
  | 没有.{0,6}(?:信息|记录|记忆)
    """,
        re.VERBOSE | re.IGNORECASE,
    )
)
"""Finds such words in a text whose apostrophes are straight."""
