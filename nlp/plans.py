"""What is planned: the plans that a sentence tells of, and questions about plans: "what do I have planned?",
我这周有什么安排. Pure.

Of questions, whole clauses of the common forms are read. A clause that goes on (我有什么计划瞒着你) asks for something
else. So does a clause that names a single day, which is searched by the day (`date_words.asked_days`).
"""

from __future__ import annotations

import re
from datetime import date, datetime, timedelta
from typing import Final, NamedTuple

from nlp.date_words import end_of_month, later_month
from nlp.exact_days import NEW_DAY, NEW_ENGLISH_DAY, ExactDay, named_days, only_day
from nlp.once import Once
from nlp.questions import last_sentence_and_clauses

_MOST_CHARS: Final = 80
"""A longer message says more than such a question."""
_HINTS: Final = Once(
    lambda: re.compile(
        "plan|sched|agenda|calendar|coming|ahead|appoint|to do|up next|week|month"
        "|有[没沒]?有?[什啥些]|[安打][排算]|[计計][划劃]|[日行]程|待[办辦]|[要该該][做干幹]"
    )
)
_ENGLISH_WHEN: Final = (
    r"(?:\ (?:(?:for|in|on|over|during)\ )?(?:(?:the\ )?(?:(?P<this>(?:rest\ of\ )?this|coming|next\ few)|(?P<next>next))|the)"
    r"\ (?P<unit>weekend|week|month|days)|\ (?:soon|ahead|next|lately|these\ days|in\ the\ future))?"
)
_CHINESE_WHEN: Final = (
    r"(?:(?:(?P<{0}this>[这這本]|接下[来來]的?)|(?P<{0}next>下))?[个個]?(?P<{0}unit>[周週]末?|月|星期|[礼禮]拜)"
    r"|最近|近期|接下[来來]|之[后後]|[这這][几幾]天|[未将將][来來]|往[后後])?"
)
_ASKED: Final = Once(
    lambda: re.compile(
        rf"""
    (?:what(?:'s|\ is|\ all\ is|\ else\ is|\ have\ i\ got|\ do\ (?:i|we)\ have|\ (?:things\ )?(?:do|have)\ (?:i|we))
        |(?:do|have)\ (?:i|we)\ (?:have|got)\ (?:(?:any|some)thing|any(?:\ plans|\ appointments)?|plans)
        |anything|is\ there\ anything)
      (?:\ (?:have\ )?(?:planned|scheduled|coming\ up|ahead|to\ do|up\ next|on
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
    "plan|sched|agenda|calendar|diary|coming up|ahead|appoint|to do|up next|(?:have|got|anything).{0,40} (?:week|month)"
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
    for clause in last_sentence_and_clauses(text.replace("’", "'")):
        match = _ASKED().fullmatch(clause)
        if match is None or (clause.isascii() and not _TELLS_OF_PLANS.search(clause)):
            continue
        parts = {name[-4:]: part for name, part in match.groupdict().items() if part}
        return _days_of(parts.get("unit", ""), today, is_next="next" in parts)
    return None


def _days_of(unit: str, today: date, *, is_next: bool) -> AskedPlans:
    """Return the remaining days of this or the next week, weekend or month; without such a unit, all days to come."""
    if unit in ("month", "月"):
        first = later_month(today, int(is_next))
        last = end_of_month(first)
    elif unit and unit != "days":
        first = today + timedelta(days=(7 if is_next else 0) - today.weekday())
        last = first + timedelta(days=6)
        if unit in ("weekend", "周末", "週末"):
            first = last - timedelta(days=1)
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
        r"(?:[别別]|不[要能])忘了?|等不及"
        r"|\b(?:(?:don't|do not|must not|mustn't|can't|cannot) (?:let me )?(?:forget|wait|miss))\b",
        re.IGNORECASE,
    )
)
_NO_PLAN: Final = Once(
    lambda: re.compile(
        r"[?？]|[吗嗎]|如果|要是|假如|万一|萬一|取消|[天早晚儿周週期][一二三四五六日天]?再?[见見]|再.{0,3}[聊谈談]|晚安|翻[译譯]|不[用去会會想再来來能]|不打算|没[有空法]|沒[有空法]|泡汤|泡湯|[开開]玩笑"
        r"|(?:[几幾][点點号號]|[哪谁誰啥怎]|[什甚][么麼]|多少)[^,，;；。!！]{0,60}[来來][着著]"
        r"|(?<![十点點])[几幾][点點][^都,，;；。!！]{0,3}(?=$|[,，;；。!！])"
        rf"|(?<!是)不是(?={NEW_DAY})(?![^,，;；。!！]*就是)|推[迟遲](?![到至]{NEW_DAY})|postponed(?! to {NEW_ENGLISH_DAY})"
        r"|\b(?:won|isn|aren|don|doesn|wouldn|couldn)'t\b|\bcan(?:'t|not) (?:make|come|go|do|join|attend)\b"
        r"|\b(?:not|never|if|unless|whether|would|could|might|wish|imagine|cancel\w*|called off|kidding|translate)\b"
        r"|(?:^\W*|[,;.!] ?|\byou \w+ )what time\b|\bwhat time(?:'s| (?:is|are|do|does|did|will|shall)\b|\W*$)"
        r"|\b(?:see|talk to|speak to|catch) (?:you|ya|u|y'all)\b",
        re.IGNORECASE,
    )
)


_CLAUSE: Final = re.compile(r"[^,，;；。!！]+[?？]?")
_CLAUSE_OF_DAY: Final = re.compile(
    r"(?:不是|not )?(?:(?!\b(?:and|then)\b"
    rf"|\bnot (?:on |this |next )*{NEW_ENGLISH_DAY}|(?<!是)不是{NEW_DAY})[^,，;；。!！])+[?？]?",
    re.IGNORECASE,
)
"""The same where a sentence names several days: a day and a day are two plans, and of a day and not a day one is."""
_CONDITION: Final = re.compile(r"\s*(?:if\b|unless\b|如果|要是|假如|万一|萬一)", re.IGNORECASE)
_EITHER: Final = re.compile(r"\b(?:or|either)\b|或|还是|還是", re.IGNORECASE)


_WEEK: Final = timedelta(days=6)
"""From the first day of a week to its last one."""
_MOST_PLANS: Final = 5
"""Plans that are read of a sentence."""


class TellsPlan(NamedTuple):
    """A part of a sentence that tells of a plan, and the day of the plan."""

    part: str
    day: ExactDay


def told_plans(sentence: str, said: datetime) -> list[TellsPlan]:
    """Return the plans that a sentence tells of. If it names one day, or one that was still to come beside past ones
    ("yesterday I saw Tom, tomorrow I fly"), that is one plan, the whole sentence; if something in it is denied or
    asked, only its clauses with a day in which nothing is. If it names several days, each clause with a day is a
    plan, one for each day, at most five and none for a week; there are none if a clause tells of a past day or the
    sentence says `or`. A question, a condition, a wish, a goodbye and what is cancelled or will not be done are not
    plans; of several clauses with days, only the one with the question mark is left out."""
    plain_sentence = _NOT_FORGOTTEN().sub(" ", sentence.replace("’", "'"))
    days = named_days(plain_sentence, said)
    day = only_day(days, said)
    if not days or (day and not day.is_plan) or _CONDITION.match(plain_sentence):
        return []
    if day and _NO_PLAN().search(plain_sentence) is None:
        return [TellsPlan(sentence, day)]

    is_of_several = day is None
    if is_of_several and _EITHER.search(plain_sentence):
        return []
    clauses = (_CLAUSE_OF_DAY if is_of_several else _CLAUSE).findall(plain_sentence)
    plans: dict[date, TellsPlan] = {}
    for clause in clauses:
        days_of_clause = named_days(clause, said)
        only_one = only_day(days_of_clause, said)
        if only_one is not None:
            days_of_clause = [only_one]
        for day_of_clause in days_of_clause:
            if not day_of_clause.is_plan:
                return []  # a report of several days
            is_week = day_of_clause.last - day_of_clause.first >= _WEEK
            if (day or not is_week) and _NO_PLAN().search(clause) is None:
                plans.setdefault(day_of_clause.first, TellsPlan(clause, day or day_of_clause))
    return list(plans.values())[:_MOST_PLANS]


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
