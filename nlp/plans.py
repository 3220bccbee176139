"""Questions about what is planned: "what do I have planned?", 我这周有什么安排. Pure.

Whole clauses of the common forms are read. A clause that goes on (我有什么计划瞒着你) asks for something else. So does a
clause that names a single day, which is searched by the day (`date_words.asked_days`).
"""

from __future__ import annotations

import re
from calendar import monthrange
from collections.abc import Callable
from datetime import date, timedelta
from typing import Final, NamedTuple

from nlp.once import Once
from nlp.questions import clauses_of

_MOST_CHARS: Final = 80
"""A longer message says more than such a question."""
_HINTS: Final = Once(
    lambda: re.compile(
        "plan|sched|agenda|calendar|coming|ahead|appoint|to do|up next"
        "|[安打][排算]|[计計][划劃]|[日行]程|待[办辦]|[要该該][做干幹]"
    )
)
_ENGLISH_WHEN: Final = (
    r"(?:\ (?:for|in|over|during)?\ ?(?:the\ )?(?:(?P<this>(?:rest\ of\ )?this|coming|next\ few)|(?P<next>next))"
    r"\ (?P<unit>week|month|days)|\ (?:soon|ahead|next|lately|these\ days|in\ the\ future))?"
)
_CHINESE_WHEN: Final = (
    r"(?:(?:(?P<{0}this>[这這本]|接下[来來]的?)|(?P<{0}next>下))[个個]?(?P<{0}unit>[周週月]|星期|[礼禮]拜)"
    r"|最近|近期|接下[来來]|之[后後]|[这這][几幾]天|[未将將][来來]|往[后後])?"
)
_ASKED: Final = Once(
    lambda: re.compile(
        rf"""
    (?:what(?:'s|\ is|\ all\ is|\ else\ is|\ have\ i\ got|\ do\ (?:i|we)\ have|\ (?:things\ )?(?:do|have)\ (?:i|we))
        |(?:do|have)\ (?:i|we)\ (?:have|got)\ (?:(?:any|some)thing|any(?:\ plans|\ appointments)?|plans)
        |anything|is\ there\ anything)
      (?:\ (?:have\ )?(?:planned|scheduled|coming\ up|ahead|to\ do|up\ next
        |(?:on|in)\ my\ (?:agenda|calendar|schedule|diary|plans?)|my\ (?:plan|schedule|agenda)))?
      {_ENGLISH_WHEN}
  | (?:what\ are|(?:do\ you\ (?:know|remember)\ )|tell\ me|list|show\ me|what\ about)\ (?:all\ )?(?:of\ )?my
      \ (?:(?:upcoming|open|next)\ )?(?:plans|appointments|schedule|agenda){_ENGLISH_WHEN.replace("P<", "P<b_")}
  | (?:你?(?:还|都)?(?:记得|知道))?(?:看看|看一?下|[说說]+)?我?[们們]?{_CHINESE_WHEN.format("c_")}我?[们們]?[都还還]?
      (?:有(?:没有|沒有)?些?(?:什[么麼]|哪些|啥)?(?:[计計][划劃]|安排|打算|[日行]程|待[办辦](?:事[项項])?|要做的?事?情?)
        |的?(?:[计計][划劃]|安排|[日行]程)(?:是(?:什[么麼]|啥)|有(?:什[么麼]|哪些|啥))?)
  | 我?[们們]?{_CHINESE_WHEN.format("d_").removesuffix("?")}我?[们們]?(?:(?:要|打算|[该該])[干幹][嘛吗嗎]?
        |(?:要|打算|[该該]|有)?(?:做|[干幹])?(?:什[么麼]|啥|哪些)(?:事情?|要做的?)?)
    """,
        re.VERBOSE,
    )
)
_TELLS_OF_PLANS: Final = re.compile(
    "plan|sched|agenda|calendar|diary|coming up|ahead|appoint|to do|up next"
)


class AskedPlans(NamedTuple):
    """The days whose plans are asked for, both included."""

    first: date
    last: date


def asked_plans(text: str, today: date) -> AskedPlans | None:
    """Return the days from `today` whose plans `text`, in its normal form, asks for, or None if it asks for something
    else."""
    lowered = text.lower()
    if len(text) > _MOST_CHARS or _HINTS().search(lowered) is None:
        return None
    for clause in clauses_of(text.replace("’", "'")):
        match = _ASKED().fullmatch(clause)
        if match is None or (clause.isascii() and not _TELLS_OF_PLANS.search(clause)):
            continue
        parts = {name[-4:]: part for name, part in match.groupdict().items() if part}
        return _days_of(parts.get("unit", ""), today, is_next="next" in parts)
    return None


def _days_of(unit: str, today: date, *, is_next: bool) -> AskedPlans:
    """Return the remaining days of this or the next week or month; without such a unit, all days to come."""
    if unit in ("month", "月"):
        first = today.replace(day=1)
        if is_next:
            first = (first + timedelta(days=31)).replace(day=1)
        last = first.replace(day=monthrange(first.year, first.month)[1])
    elif unit and unit != "days":
        first = today + timedelta(days=(7 if is_next else 0) - today.weekday())
        last = first + timedelta(days=6)
    else:
        first, last = today, date.max
    return AskedPlans(max(first, today), last)


_EARLY: Final = Once(
    lambda: re.compile(
        r"[早晨]|上午|\bmorning\b|\bfirst thing\b|\bbreakfast\b|\b(?:1[01]|\d)(?:[:.]\d\d)? ?a\.?m\b"
        r"|(?<![\d:：])0?[5-9]:\d\d(?! ?p)|(?<!\d)(?:10|11):\d\d(?! ?p)",
        re.IGNORECASE,
    )
)
_LATE: Final = re.compile(r"下午|[晚夜]上?|\bp\.?m\b|\b(?:evening|night)\b", re.IGNORECASE)


def is_before_noon(sentence: str) -> bool:
    """Return whether a sentence names a time before noon."""
    return _EARLY().search(sentence) is not None and _LATE.search(sentence) is None


_NOT_FORGOTTEN: Final = Once(
    lambda: re.compile(
        r"别忘|別忘|不[要能]忘|等不及|\b(?:(?:don't|do not|must not|mustn't|can't|cannot) (?:let me )?(?:forget|wait|miss))\b",
        re.IGNORECASE,
    )
)
_NO_PLAN: Final = Once(
    lambda: re.compile(
        r"[?？]|[吗嗎]|如果|要是|假如|万一|萬一|取消|推[迟遲]|[天早晚儿周週期][一二三四五六日天]?再?[见見]|再.{0,3}[聊谈談]|晚安|翻[译譯]|不[用去会會想再来來能]|不打算|没[有空法]|沒[有空法]|泡汤|泡湯|[开開]玩笑"
        r"|\b(?:won|isn|aren|don|doesn|wouldn|couldn)'t\b|\bcan(?:'t|not) (?:make|come|go|do|join|attend)\b"
        r"|\b(?:not|never|if|unless|whether|would|could|might|wish|imagine|cancel\w*|called off|postponed|kidding|translate)\b"
        r"|\b(?:see|talk to|speak to|catch) (?:you|ya|u|y'all)\b",
        re.IGNORECASE,
    )
)


_CLAUSE: Final = re.compile(r"[^,，;；。!！]+[?？]?")
_CONDITION: Final = re.compile(r"\s*(?:if\b|unless\b|如果|要是|假如|万一|萬一)", re.IGNORECASE)


def may_be_plan(sentence: str, names_day: Callable[[str], bool]) -> bool:
    """Return whether a sentence that names a day to come may tell of a plan. A question, a condition, a wish, a
    goodbye and what is cancelled or will not be done are not plans. `names_day`: whether a clause names the day."""
    plain_sentence = _NOT_FORGOTTEN().sub(" ", sentence.replace("’", "'"))
    if _CONDITION.match(plain_sentence):
        return False
    if _NO_PLAN().search(plain_sentence) is None:
        return True
    clauses = list(filter(names_day, _CLAUSE.findall(plain_sentence)))
    return any(_NO_PLAN().search(clause) is None for clause in clauses)


_AHEAD: Final = Once(
    lambda: re.compile(
        r"[什甚][么麼][时時]候|啥[时時]候|哪[天一]|[几幾][点點号號]|要|[会會]|打算|下一?[次个個]|還有多久|还有多久"
        r"|\b(?:when(?:'s| is| are| do| does| am| will)|what (?:day|time|date)|will|going to|next|upcoming|do (?:i|we) have)\b",
        re.IGNORECASE,
    )
)


def asks_ahead(question: str) -> bool:
    """Return whether a question may ask for what is to come."""
    return _AHEAD().search(question) is not None
