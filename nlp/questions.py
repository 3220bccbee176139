"""Whether a message asks something, and what kind of answer it asks for: a date, a number or a name. Pure.

我的猫叫什么 and "where did I park" are questions, as well as what ends with a question mark; "When did we move?" is
answered by a text with a date. It reads marks and words of the common forms, not grammar. Where it errs, a search keeps
silent a little more or a little less, or the order of good matches suffers.

Some questions ask for a state that may have changed: "where do I live?" wants "I moved to Berlin" too, and not only
what was true before (`words_of_change`). Only changes that most people live through, and only words that seldom mean
anything else; written for this project. Whether a fact replaced another one is not decided here: both come.

An `Overview` asks about everything, about a time or about one's own name: "what do you know about me?", 我上周说了什么.
It holds no word to search by: what it says (know, tell, 记得) is in every chat. Whole clauses of the common forms are
read, in Chinese and English: one that goes on (你记得我什么时候去的北京吗) asks about something else, and is searched by
its words.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import date
from typing import Final, Literal, NamedTuple

from nlp.lexicon import FUNCTION_WORDS, STOP_WORDS
from nlp.once import Once
from nlp.stems import without_day_words
from nlp.time_spans import TimeSpan, without_times

_AUXILIARY: Final = "am|is|are|was|were|do|does|did|can|could|will|would|should|have|has|had|isn't|wasn't|don't|doesn't|didn't"
_ASKING: Final = Once(
    lambda: re.compile(
        rf"""
    [?？؟]
  | (?<!没)(?<!沒)(?:什么|什麼|甚麼)(?!都|也) | 啥 | 谁|誰 | 哪(?!怕) | 多少|多久|多大|多远|多遠|多高|多长|多長
  | 几(?=[个次点號号岁天年月只块本斤]|\W*$) | 幾(?=[個次點號歲天年月隻塊本斤])
  | 怎么|怎麼|怎样|怎樣|为何|為何|如何 | 来着|來著
  | [跟和给給对對]我再?(?:说说|說說|讲讲|講講|聊聊)
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
    """Return the beginning and the end of a long text, so many characters together: a question comes before or after
    what was pasted."""
    if len(text) <= chars:
        return text
    beginning = text[: chars // 2]
    end = text[len(text) - chars // 2 :]
    return f"{beginning}\n{end}"


def is_question(text: str) -> bool:
    """Return whether `text` asks something, in Chinese, English, Japanese or Korean, or with a question mark."""
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
    """Return the kind of answer that `question` asks for, or None if it asks for something else."""
    for cue in _CUES():
        if cue.asked.search(question):
            return cue
    return None


# States that may have changed


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


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
        ("搬家", "搬到", "搬去", "搬进", "搬回", "搬走"),
    ),
    State(
        rf"\bwhere (?:do|does|did) {_SOMEBODY} work\b|\b{_THEIR} (?:new |current )?(?:job|employer)\b"
        r"|在哪.{0,4}(?:工作|上班)|[做是]什么工作",
        ("quit", "hire", "resign", "retir"),
        ("跳槽", "离职", "入职", "辞职", "退休", "换工作", "换公司"),
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
_HINTS: Final = _set(
    "liv address work job employer friend husband wife single married study school university college 住 址 家在 工作 "
    "上班 友 老公 老婆 上学 读书 学校 大学"
)
"""Parts of all such questions: most questions have none, and the expression takes 2 ms to compile."""
_QUESTIONS: Final = Once(
    lambda: re.compile("|".join(f"({state.question})" for state in STATES), re.IGNORECASE)
)


def words_of_change(question: str) -> tuple[str, ...]:
    """Return the words by which people say that a state has changed, if `question` asks for such a state; in the
    languages of the question, which must be in normal form."""
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


# Questions about everything, a time or a name

Overview = Literal["everything", "time", "name", "plans"]
"""What is asked for: what is known about the asker, what there was in the time that is named, the asker's name, or what
is planned (plans.py)."""

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
    """Return the kind of overview that the last sentence of `text`, the last message in its normal form, asks for, or
    None. `spans` are the times that the message names, as `time_spans` gives them. `moments_are_over` says whether the
    stretches of less than a day that it names, and which `text` no longer has, are over; it is None if it names none."""
    if len(text) > _MOST_CHARS:
        return None
    text = text.replace("’", "'")

    for clause in filter(_may_ask, last_sentence_and_clauses(text)):
        if _NAME().fullmatch(clause):
            return "name"
        if _EVERYTHING().fullmatch(clause):
            return "everything"

    spans = list(spans)
    if not spans and moments_are_over is None:
        return None
    is_over = moments_are_over is not False and all(span.last < today for span in spans)

    timeless = without_day_words(without_times(text, today))
    for clause in last_sentence_and_clauses(timeless):
        if _asks_of_time(clause, is_over=is_over):
            return "time"
    return None


def _may_ask(clause: str) -> bool:
    """Return whether a clause has a character that every such question in Chinese has: this spares a hook expressions
    that take 3 ms to compile."""
    return clause.isascii() or any(char in clause for char in _IN_CHINESE)


def last_sentence_and_clauses(text: str) -> list[str]:
    """Return the last sentence of `text` and then its clauses, without polite words around them; empty without a
    sentence."""
    sentences = [part for part in _SENTENCES.split(text) if part.strip()]
    if not sentences:
        return []
    last_sentence = sentences[-1]
    clauses = [last_sentence, *_CLAUSES.split(last_sentence)]
    return list(filter(None, map(_bare, clauses)))


def _bare(clause: str) -> str:
    """Return a clause in lower case, without polite words, and in Chinese without particles and blanks."""
    clause = " ".join(clause.casefold().split())
    clause = _POLITE.sub("", clause)
    clause = _POLITE.sub("", clause)  # the end may have two such words
    if clause.isascii():
        return clause
    return _PARTICLES.sub("", clause.replace(" ", ""))


def _asks_of_time(clause: str, *, is_over: bool) -> bool:
    """Return whether a clause, without the time that it names, asks what was said or done. `is_over` says that this
    time is over."""
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
"""A shorter sentence says little about a person: 我好困."""
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
    """Return whether a text of the asker, in Simplified characters, belongs into an overview: it says something about
    the asker, or the asker's name. What was said in a time belongs into an overview of that time, whatever it says."""
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
