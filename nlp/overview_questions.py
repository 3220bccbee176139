"""Questions about everything, about a time and about one's own name: "what do you know about me?", 我上周说了什么.

They hold no word to search by: what they say (know, tell, 记得) is in every chat. Here is known which of the three a
message is, and which texts answer it. It reads whole clauses of the common forms, in Chinese and English: one that goes
on (你记得我什么时候去的北京吗) asks about something else, and is searched by its words. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import date
from typing import Final, Literal

from nlp.lexicon.day_words import without_day_words
from nlp.lexicon.function_words import FUNCTION_WORDS, STOP_WORDS
from nlp.once import Once
from nlp.stretches import TimeSpan
from nlp.time_spans import without_times

Overview = Literal["everything", "time", "name"]
"""What is asked for: what is known about the asker, what there was in the time that is named, or the asker's name."""

_MOST_CHARS: Final = 200
"""A longer message says more than such a question."""
_SENTENCES: Final = re.compile(r"[。．.!！?？\n…~～]+")
_CLAUSES: Final = re.compile(r"[,，;；:：、]+")
_POLITE: Final = re.compile(
    r"^(?:(?:hey|hi|hello|so|ok|okay|and|well|please|now|actually|by the way|(?:can|could|would) you(?: please)?)\s+)+"
    r"|\s+(?:please|again|now|then|exactly|already|so far|by now|at all)$"
)
_PARTICLES: Final = re.compile(
    r"^(?:那么?|嗯|请问?|麻烦)|(?:呢|呀|啊|哦|(?<!干)嘛|吧|吗|来着|没有|没){1,8}$"
)

_YOU: Final = "你?(?:都|还|到底|究竟|现在|已经)*"
_KNOW: Final = "(?:记得|记住|知道|了解)(?:了|过|得)?些?"
_WHICH: Final = "(?:哪些|什么|多少|啥)"
_MATTERS: Final = "(?:事情?|东西|信息|情况)?"
_I_EVER: Final = "我(?:都|一共|以前|之前)*"
_IN_CHINESE: Final = "我你记知了"
_EVERYTHING: Final = Once(
    lambda: re.compile(
        rf"""
    what(?:\ all|\ else)?\ do\ you\ (?:(?:still|already|actually)\ )?(?:know|remember|recall|have)
        \ (?:about|of|on)\ (?:me|us)
  | what(?:\ all|\ else)?\ (?:do|can)\ you\ (?:still\ )?(?:remember|recall)
  | how\ (?:much|well)\ do\ you\ (?:know|remember)(?:\ about)?\ me
  | do\ you\ (?:still\ )?(?:know|remember)\ (?:(?:anything|something)\ about\ me|me|who\ i\ am)
  | (?:tell|remind)\ me\ (?:everything|all|what)\ (?:that\ )?you\ (?:know|remember)(?:\ about\ me)?
  | (?:tell|remind)\ me\ (?:something\ )?about\ (?:me|myself)
  | who\ am\ i
  | what\ (?:all\ )?have\ i\ (?:ever\ )?(?:told|said\ to|shared\ with)\ you(?:\ about\ (?:me|myself))?
  | what\ did\ i\ tell\ you\ about\ (?:me|myself)
  | (?:summari[sz]e|sum\ up|recap|list|show\ me)\ (?:everything|all|what)\ (?:that\ )?you\ (?:know|remember)
        (?:\ about\ me)?
  | (?:what(?:'s|\ is)\ in|show(?:\ me)?)\ (?:all\ )?(?:of\ )?your\ memor(?:y|ies)(?:\ (?:of|about)\ me)?
  | what\ memories\ do\ you\ have(?:\ (?:of|about)\ me)?

  | {_YOU}{_KNOW}(?:关于|有关)?我的?{_WHICH}{_MATTERS}
  | {_YOU}{_KNOW}{_WHICH}(?:关于|有关)我的?{_MATTERS}
  | (?:关于|对于|对)我的?{_MATTERS}{_YOU}{_KNOW}{_WHICH}
  | {_YOU}{_KNOW}{_WHICH}{_MATTERS}(?<!知道什么)(?<!知道多少)(?<!了解什么)
  | 你对我(?:都)?有?{_WHICH}?(?:了解|印象|认识)(?:多少|些?什么)?
  | {_I_EVER}(?:(?:跟|和|对|给)你都?(?:说|讲|聊|提)过|告诉过你)些?{_WHICH}{_MATTERS}
  | {_YOU}(?:认识|记得|知道)我(?:是谁)?
  | 我是谁
  | (?:说说|讲讲|介绍一?下?|总结一?下?|列一?下|列出)?(?:你|关于)所?
        (?:知道|了解|记得|认识|眼中|印象中)的?我(?:的(?:一切|事情?|信息|情况))?
  | (?:说说|讲讲|总结一?下?)你对我的(?:了解|印象|认识|记忆)
  | 介绍一?下我(?:自己)?
  | 你的?记忆里都?(?:有|存了|记了)些?(?:什么|哪些)
    """,
        re.VERBOSE,
    )
)
_NAME: Final = Once(
    lambda: re.compile(
        rf"""
    what(?:'s|\ is|\ was)\ my\ (?:(?:full|first|last|real|own)\ )?name
  | (?:do\ you\ (?:still\ )?)?(?:know|remember|recall)
        \ (?:my\ name|what\ my\ name\ (?:is|was)|what\ i(?:'m|\ am)\ called)
  | (?:tell\ me|say)\ (?:my\ name|what\ my\ name\ is)
  | what\ (?:am|was)\ i\ called
  | what\ (?:do|should)\ you\ call\ me
  | {_YOU}(?:知道|记得|记不记得)?我(?:的名字)?(?:是|叫|姓)(?:什么|啥)(?:名字)?
  | 我的名字是?(?:什么|啥)?
  | {_YOU}(?:知道|记得|记不记得|叫得出)我的?名字
  | 你?(?:应该|该)?(?:怎么|如何)称呼我
    """,
        re.VERBOSE,
    )
)
_ASKED_OF_A_TIME: Final = Once(
    lambda: re.compile(
        r"""
    (?:你(?:都|还)*(?:记得|知道|记不记得))?
    (?:我们?|咱们?|咱俩|我俩)?(?:都|一共|还)*(?:(?:和|跟|同|对|给|向)你)?都?
    (?:说|聊|讲|谈|提|告诉|分享|讨论|做|干|忙|去|见|发生)(?P<past>过|了|到|的)?[你我]?些?
    (?:什么|啥|哪些?|嘛|谁|哪里|哪儿)(?:事情?|话题?|东西|内容|地方|人)?(?P<late>了|过)?
  | (?:有什么(?:事|新鲜事)|都?怎么过的)
    """,
        re.VERBOSE,
    )
)


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


_OF_THE_TIME: Final = _set("happen happened recap summarize summarise sum")
"""Words that ask about a time though they do not name the asker."""
_TALK: Final = _set(
    "say said tell told talk talked talking discuss discussed mention mentioned chat chatted chatting speak spoke "
    "share shared conversation conversations"
)
_ACTS: Final = _TALK | _OF_THE_TIME | _set("do did done doing going go went see saw met been")
_PAST: Final = _set(
    "did said told talked discussed mentioned chatted spoke shared happened was were have has had went done met saw"
)
_WHAT: Final = _set(
    "what whats where who anything something everything recap summarize summarise sum"
)
_ASKER: Final = _set("i ive we weve me us my our")
_SUBJECTS: Final = _ASKER | _set("you youve he she they it")
_WORDS_OF_QUESTIONS: Final = (
    FUNCTION_WORDS | STOP_WORDS | _ACTS | _WHAT | _ASKER | _set("remind remember recall")
)


def overview_of(
    text: str,
    spans: Iterable[TimeSpan],
    today: date,
    *,
    moments_are_over: bool | None = None,
) -> Overview | None:
    """The kind of overview that `text`, the last message in its normal form, asks for; `spans` are the times that it
    names, as `time_spans` gives them. It also names stretches of less than a day, which `text` does not have any more,
    and they are over or not; None: it names none. Return None if it asks for something else, or for nothing."""
    if len(text) > _MOST_CHARS:
        return None
    text = text.replace("’", "'")
    for clause in filter(_may_ask, _clauses(text)):
        if _NAME().fullmatch(clause):
            return "name"
        if _EVERYTHING().fullmatch(clause):
            return "everything"
    spans = list(spans)
    if not spans and moments_are_over is None:
        return None
    is_over = moments_are_over is not False and all(span.last < today for span in spans)
    timeless = without_day_words(without_times(text, today))
    for clause in _clauses(timeless):
        if _asks_of_time(clause, is_over=is_over):
            return "time"
    return None


def _may_ask(clause: str) -> bool:
    """Whether a clause has a character that every such question in Chinese has: a hook is spared expressions that take
    3 ms to compile."""
    return clause.isascii() or any(char in clause for char in _IN_CHINESE)


def _clauses(text: str) -> list[str]:
    """The last sentence of `text`, and the clauses of it, without polite words around them."""
    sentences = [part for part in _SENTENCES.split(text) if part.strip()]
    if not sentences:
        return []
    last_sentence = sentences[-1]
    clauses = [last_sentence, *_CLAUSES.split(last_sentence)]
    return list(filter(None, map(_bare, clauses)))


def _bare(clause: str) -> str:
    """A clause in lower case, without polite words, and in Chinese without particles and blanks."""
    clause = " ".join(clause.casefold().split())
    clause = _POLITE.sub("", clause)
    clause = _POLITE.sub("", clause)  # the end may have two such words
    if clause.isascii():
        return clause
    return _PARTICLES.sub("", clause.replace(" ", ""))


def _asks_of_time(clause: str, *, is_over: bool) -> bool:
    """Whether a clause, without the time that it names, asks what was said or done; `is_over`: that time is over."""
    if not clause.isascii():
        question = _ASKED_OF_A_TIME().fullmatch(clause)
        if question is None:
            return False
        return is_over or bool(question["past"] or question["late"])
    word_list = [word.replace("'", "") for word in re.findall("[a-z']+", clause)]
    if not word_list or word_list[0] in _SUBJECTS:  # it tells
        return False
    words = set(word_list)
    if not words <= _WORDS_OF_QUESTIONS or words.isdisjoint(_WHAT):
        return False
    asks_about_asker = not words.isdisjoint(_ASKER) and not words.isdisjoint(_ACTS)
    if words.isdisjoint(_OF_THE_TIME) and not asks_about_asker:
        return False
    return is_over or not words.isdisjoint(_PAST)


# --- what answers such a question ---------------------------------------------------------------------------

_OF_SELF: Final = Once(
    lambda: re.compile(
        r"\b(?:my|mine|our)\b(?!\ (?:god|bad|goodness))"
        r"|\bi(?:'m|'ve|'d)?\b(?!\ (?:guess|see|know|think|mean|wonder|believe|hope|sorry|just saw|have no idea))"
        r"|(?<![帮给让陪诉教请替跟])我(?!先|想问|想静|也是|说错|不懂|不明白|明白|知道|觉得|猜|睡|走|下线|回来|不是这)",
        re.IGNORECASE,
    )
)
_LEAST_CHARS: Final = 4
"""A shorter sentence says little about anybody: 我好困."""
_OF_NAME: Final = Once(
    lambda: re.compile(
        r"\b[Mm]y (?:full |first |last |real )?name(?:'s| is)\b|\b[Cc]alls? me [A-Z]"
        r"|\bI(?:'m| am) [A-Z][a-z]+(?=\s*(?:[,.!]|$|and\b|from\b|by\b))"
        r"|我(?:的名字)?(?:叫|姓)(?![你他她它了不人车外什啥])|我的名字是"
        r"|(?:叫|喊|称呼)我(?:为|做)?(?![什啥怎去来起回做干过别不快赶的])[\w]"
        r"|(?:你好|您好|大家好|嗨|哈喽)[,，!！。 ]*我是"
    )
)
_ASKS: Final = re.compile(r"[?？]\s*$|[吗呢]\s*$")


def answers_overview(text: str, overview: Overview) -> bool:
    """Whether a text of the asker, in Simplified characters, belongs into an overview: it says something about the
    asker, or the asker's name. What was said in a time belongs into an overview of that time, whatever it says."""
    if overview == "time":
        return True
    statement = _OF_NAME() if overview == "name" else _OF_SELF()
    if (
        statement.search(text) is None
    ):  # most texts hold nothing, and need not be cut into sentences
        return False
    sentences = [sentence.strip() for sentence in re.split(r"(?<=[。.!！?？\n])", text)]
    long_sentences = [sentence for sentence in sentences if len(sentence) >= _LEAST_CHARS]
    return any(
        statement.search(sentence) for sentence in long_sentences if not _ASKS.search(sentence)
    )
