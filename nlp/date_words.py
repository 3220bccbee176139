"""Days as words: 5月2日, 5月2号, 五月二日, 昨天, 上周四, 7/17, 2023-07-17 and July 17th become one word each: `5月2日`.

A day written in two ways has no word in common for the segmentation, and 昨天 names another day tomorrow. The
canonical word has no year: memories are kept for one, and a birthday comes back. Relative days count from the
day the message was written. Pure: that day is an argument.

What it leaves alone, because it would more often be wrong: a month or a weekday alone, 2号 alone, the common
fractions (1/2, 3/4), the day first (17/7), lunar days (正月初一), and months of the English word `may`.

A memory and a question are also compared by the days that they tell of or ask about (`NamedDays`): on Thursday, 周四,
这周末, tomorrow; and 每周四, which is every one. There a doubtful day costs little. A weekday alone is the one before or
after the day of writing; the words beside it may say which of them (要, will; 了, did), else it may be either.
"""

from __future__ import annotations

import re
from calendar import monthrange
from collections.abc import Iterable, Iterator
from contextlib import suppress
from datetime import date, timedelta
from typing import Final, NamedTuple

from nlp.holidays import holidays_in
from nlp.normal_forms import Span
from nlp.once import Once
from nlp.stems import stem, words_between_bars


def day_word(day: date) -> str:
    """Return the canonical word of a day: `5月2日`."""
    return f"{day.month}月{day.day}日"


def date_spans(text: str, today: date) -> Iterator[Span]:
    """Yield the days that `text` names, in order and without overlaps, each with its canonical word. `today` is the
    day on which it was written. About 0.1 ms per 1,000 characters."""
    beginnings = _BEGINNING()
    days = _DAYS()
    position = 0
    while True:
        beginning = beginnings.search(text, position)
        if beginning is None:
            return

        # A beginning is cheap to find; only there the long pattern of all forms is tried.
        position = beginning.end()
        match = days.match(text, beginning.start())
        if match is None or _within_a_word(match):
            continue

        form = match.lastgroup or ""
        word = _word_in(form, match[0], today)
        if word is not None:
            position = match.end()

            yield Span(
                match.start(),
                match.end(),
                word,
                relative=form in _RELATIVE,
                adverb=form == "near",
            )


_DIGITS: Final = {char: value for value, char in enumerate("〇一二三四五六七八九十")} | {
    "两": 2,
    "兩": 2,
    "廿": 20,
}
_MONTHS: Final = words_between_bars("jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec")
_WEEKDAYS: Final = words_between_bars("mon|tue|wed|thu|fri|sat|sun")
_LEAP_YEAR: Final = 2024
_FRACTIONS: Final = words_between_bars("1/2|1/3|2/3|1/4|3/4")
NEAR_DAYS: Final = {
    "大前天": -3, "前天": -2, "昨天": -1, "今天": 0, "明天": 1, "后天": 2, "後天": 2, "大后天": 3, "大後天": 3,
    "night before last": -2, "day before yesterday": -2, "yesterday": -1, "last night": -1, "today": 0,
    "tonight": 0, "this morning": 0, "this afternoon": 0, "this evening": 0, "tomorrow": 1, "day after tomorrow": 2,
}  # fmt: skip
"""Days from today; 昨晚 counts as 昨天."""
WEEKS: Final = {
    "上上": -2, "上": -1, "这": 0, "這": 0, "本": 0, "下": 1, "下下": 2, "last": -1, "past": -1, "this past": -1,
    "this": 0, "this coming": 0, "coming": 0, "the": 0, "next": 1, "before last": -2, "after next": 2,
}  # fmt: skip
"""Weeks or months from this one."""
NUMBER_WORDS: Final = {
    **{
        word: number
        for number, word in enumerate(
            words_between_bars("one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve"), 1
        )
    },
    "a": 1,
    "an": 1,
    "fourteen": 14,
    "fifteen": 15,
    "twenty": 20,
    "thirty": 30,
    "forty": 40,
}


def near_day(name: str) -> int:
    """Return how many days from today 昨晚, tonight or `the day before yesterday` is."""
    name = name.lower().removeprefix("the ")
    if not name.isascii():
        name = f"{name[:-1]}天"
    return NEAR_DAYS[name]


def weekday_number(name: str) -> int:
    """Return the number of 三, 天, Wednesday or wed; Monday is 0."""
    if name.isascii():
        return _WEEKDAYS.index(name[:3].lower())
    return "一二三四五六日".index(name.replace("天", "日"))


def month_number(name: str) -> int:
    """Return the number of April or apr; January is 1."""
    return _MONTHS.index(name[:3].lower()) + 1


def month_and_day(word: str) -> tuple[int, int]:
    """Return the month and the day number of a canonical word."""
    month, day = word.removesuffix("日").split("月")
    return int(month), int(day)


# Where a day may begin. One set of characters: finding it is fifty times faster than trying all forms.
_BEGINNING: Final = Once(
    lambda: re.compile("[0-9A-Za-z大前后後昨今明上这這本下一二三四五六七八九十廿两兩][0-9A-Za-z]*")
)
_ENGLISH_MONTH: Final = (
    "(?:[Jj]an(?:uary)?|[Ff]eb(?:ruary)?|[Mm]ar(?:ch)?|[Aa]pr(?:il)?|May|[Jj]une?|[Jj]uly?|[Aa]ug(?:ust)?"
    "|[Ss]ept?(?:ember)?|[Oo]ct(?:ober)?|[Nn]ov(?:ember)?|[Dd]ec(?:ember)?)"
)
_ENGLISH_WEEKDAY: Final = "(?:[Mm]on|[Tt]ues|[Ww]ednes|[Tt]hurs|[Ff]ri|[Ss]atur|[Ss]un)day"
_NUMERAL: Final = "[一二三四五六七八九十廿]"
# After 5月2: characters that make the number count things, so that it is not a day.
_NO_COUNT: Final = r"(?![\d个個次天年月点點时時位人元块塊万萬千百份张張条條家只隻多%.])"
_DAYS: Final = Once(
    lambda: re.compile(
        rf"""
    (?P<full>(?:\d{{4}})[-/.年]\s?(?:\d{{1,2}})[-/.月]\s?(?:\d{{1,2}})[日号號]?)
  | (?P<chinese>(?:\d{{1,2}})\s?月\s?(?:\d{{1,2}})(?:\s?[日号號]|{_NO_COUNT}))
  | (?P<numerals>{_NUMERAL}{{1,2}}月{_NUMERAL}{{1,3}}[日号號])
  | (?P<slash>\d{{1,2}}/\d{{1,2}})
  | (?P<day_first>\d{{1,2}}(?:st|nd|rd|th)?\ (?:of\ )?{_ENGLISH_MONTH})
  | (?P<month_first>{_ENGLISH_MONTH}\.?\ \d{{1,2}}(?:st|nd|rd|th)?)
  | (?P<near>大?[前后後]天|[昨今明][天日晚早晨夜]|[Yy]esterday|[Tt]oday|[Tt]onight|[Tt]omorrow|[Ll]ast\ night)
  | (?P<before>[Tt]he\ day\ before\ yesterday)
  | (?P<week>(?:上上|上|[这這本]|下下|下)[个個]?(?:[周週]|星期|[礼禮]拜)[一二三四五六日天])
  | (?P<ago>(?:\d{{1,3}}|[一二两兩三四五六七八九十]{{1,3}})天[之以]?[前后後]|\d{{1,3}}\ days\ ago)
  | (?P<week_before_or_after>(?:[Ll]ast|[Nn]ext)\ {_ENGLISH_WEEKDAY})
    """,
        re.VERBOSE,
    )
)
"""Compiled at first use, because it takes 10 ms, a tenth of the start of the server."""
_NUMBERS: Final = re.compile(r"\d+")


def _within_a_word(match: re.Match[str]) -> bool:
    """Return whether letters or digits continue at its beginning or end: 12/34/56, 3.5/6, v2023-07-17, 二十一五月三日.
    In 4月15-17号 and 15-17 April the day is a part of a stretch."""
    text = match.string
    start, end = match.span()
    before = text[start - 1 : start]
    first = text[start]
    if first in _DIGITS and before in _DIGITS:
        return True
    if first.isascii() and before and before.isascii():
        is_last = before == "-" and match["day_first"]
        if not is_last and (before.isalnum() or before in "/.-_"):
            return True
    last = text[end - 1]
    after = text[end : end + 1]
    if last.isascii() and after and after.isascii() and (after.isalnum() or after in "/_"):
        return True
    # 4.5 and 3-4 continue after the digit; a full stop ends a sentence.
    if after == "-" and (match["chinese"] or match["month_first"]):
        return False
    return last.isdigit() and after in (".", "-", ":") and text[end + 1 : end + 2].isdigit()


def _word_in(form: str, text: str, today: date) -> str | None:
    """Return the canonical word of a day that has this form in a text, or None if no such day exists."""
    if form in _RELATIVE:
        days = _days_from_today(form, text, today)
        try:
            return None if days is None else day_word(today + timedelta(days=days))
        except OverflowError:
            return None
    month, day = _told_month_and_day(form, text)
    is_fraction = form == "slash" and f"{month}/{day}" in _FRACTIONS
    if is_fraction or not 1 <= month <= 12 or not 1 <= day <= monthrange(_LEAP_YEAR, month)[1]:
        return None
    return f"{month}月{day}日"


def _told_month_and_day(form: str, text: str) -> tuple[int, int]:
    """Return the month and the day number of 2023-07-17, 5月2日, 五月二日, 7/17, July 17th and 17 July."""
    if form == "numerals":
        month, day = text[:-1].split("月")
        return numeral(month), numeral(day)
    numbers = _NUMBERS.findall(text)
    if form in ("day_first", "month_first"):
        words = re.findall("[a-z]{3,}", text.lower().replace(numbers[0], " "))
        return month_number(words[-1]), int(numbers[0])
    return int(numbers[-2]), int(numbers[-1])


def _days_from_today(form: str, text: str, today: date) -> int | None:
    """Return how many days from today a day is that is named by its distance; negative before
    today, or None if the text is not a number of days."""
    if form in ("near", "before"):
        return near_day(text)
    if form == "week":
        which = text[:2] if text[:2] in WEEKS else text[0]
        return WEEKS[which] * 7 + weekday_number(text[-1]) - today.weekday()
    if form == "week_before_or_after":  # the nearest one, which is what most people mean
        which, name = text.lower().split()
        ahead = (weekday_number(name) - today.weekday()) % 7
        return ahead - 7 if which == "last" else ahead or 7
    count, unit, direction = re.split("(天| days )", text)
    days = numeral(count)
    if unit == "天" and not days:
        return None
    return -days if direction.endswith(("前", "ago")) else days


def numeral(text: str) -> int:
    """Read a number: 12 -> 12, 十二 -> 12, 二十五 -> 25, 廿三 -> 23; 0 if it is not a number up to 99, as 二十一五."""
    if text.isdigit():
        return int(text)
    if text[0] == "廿" and "十" not in text:
        text = f"二十{text[1:]}"

    tens, ten, ones = text.rpartition("十")
    try:
        if not ten:
            return _DIGITS[text]

        number = 10
        if tens:
            number = _DIGITS[tens] * 10
        if ones:
            number += _DIGITS[ones]
        return number
    except KeyError:
        return 0


# Stretches of days


class DayRange(NamedTuple):
    """The days from `word` to `last_word`, which `text[start:end]` names. Without a `year` it may be any year."""

    start: int
    end: int
    word: str
    last_word: str
    year: int | None = None

    def in_year(self, year: int) -> tuple[date, date]:
        """Return the first day and the last one, which may be in the next year. Raise ValueError if no such day
        exists."""
        first = date(year, *month_and_day(self.word))
        last = date(year, *month_and_day(self.last_word))
        if last < first:
            last = date(year + 1, *month_and_day(self.last_word))
        return first, last


_NTH: Final = "(?:st|nd|rd|th)?"
_TO: Final = r"(?:\ ?[-–—~～]\ ?|\ (?:to|through|till|until)\ (?:the\ )?)"
_RANGE: Final = Once(
    lambda: re.compile(
        rf"""
    (?:(?P<c_year>\d{{4}})年)?(?<![\d一二三四五六七八九十])(?P<c_month>\d{{1,2}}|{_NUMERAL}{{1,2}})月(?P<c_first>\d{{1,2}}|{_NUMERAL}{{1,3}})[日号號]?
      \ ?[-–—~～到至]{{1,2}}\ ?(?:(?P<c_until>\d{{1,2}}|{_NUMERAL}{{1,2}})月)?(?P<c_last>\d{{1,2}}|{_NUMERAL}{{1,3}})[日号號]
  | \b(?P<e_first>\d{{1,2}}){_NTH}(?:\ (?:of\ )?(?P<e_month>{_ENGLISH_MONTH}))?{_TO}(?P<e_last>\d{{1,2}}){_NTH}
      \ (?:of\ )?(?P<e_until>{_ENGLISH_MONTH})\b(?:,?\ (?P<e_year>\d{{4}}))?
  | \b(?P<m_month>{_ENGLISH_MONTH})\.?\ (?P<m_first>\d{{1,2}}){_NTH}{_TO}
      (?:(?P<m_until>{_ENGLISH_MONTH})\.?\ )?(?P<m_last>\d{{1,2}}){_NTH}
      (?![\w:/%]|[-.]\d|\ (?:times|people)\b)(?:,?\ (?P<m_year>\d{{4}}))?
    """,
        re.VERBOSE,
    )
)


def ranges_of_days(text: str) -> Iterator[DayRange]:
    """Yield the stretches of days that `text` names with their month: 4月15-17号, April 15-17, 28 April to 3 May."""
    for match in _RANGE().finditer(text):
        parts = {name[2:]: part for name, part in match.groupdict().items() if part}
        until = parts.get("until") or parts["month"]
        words: list[str] = []
        for month, day in (
            (parts.get("month") or until, parts["first"]),
            (until, parts["last"]),
        ):
            number = numeral(month) or month_number(month)
            words.append(f"{number}月{numeral(day)}日")
        year = int(parts.get("year", 0)) or None
        yield DayRange(match.start(), match.end(), words[0], words[1], year)


_RELATIVE: Final = frozenset(words_between_bars("near|before|week|week_before_or_after|ago"))


# The days that a text tells of, or asks about


class NamedDays(NamedTuple):
    """`days` that are named, and the weekdays that come `weekly` (Monday is 0). `gone` has days that a weekday names,
    and of which something is told as past."""

    days: frozenset[date] = frozenset()
    weekly: frozenset[int] = frozenset()
    gone: frozenset[date] = frozenset()

    def __bool__(self) -> bool:
        return bool(self.days or self.weekly)

    def has(self, told: NamedDays) -> bool:
        """Return whether any of these days is among the days that a text tells of."""
        weekdays = {day.weekday() for day in self.days} | self.weekly
        return not (self.days.isdisjoint(told.days) and told.weekly.isdisjoint(weekdays))


_WEEK: Final = timedelta(days=7)
_NAMES: Final = words_between_bars(
    "monday mon 一|tuesday tue tues 二|wednesday wed 三|thursday thu thur thurs 四|friday fri 五|saturday sat 六|sunday sun 日天"
)
"""Each weekday: its name, the short forms of it, and its Chinese characters."""
_CHINESE_WEEK: Final = ("周", "星期", "礼拜")
_SATURDAY: Final = 5
_FULL: Final = "mon|tues|wednes|thurs|fri|satur|sun"
_SHORT: Final = "mon|tues?|wed|thu(?:rs?)?|fri|sat|sun"
_WEEKDAY: Final = Once(
    lambda: re.compile(
        rf"""
    (?P<weekly>每[个個]?(?:[周週]|星期|[礼禮]拜)(?P<weekly_names>末|[一二三四五六日天]{{1,6}})
      | \b(?:every|each|most)\s+(?:other\s+)?(?:(?P<weekly_name>{_FULL})days?|weekends?)\b
      | (?:[周週]|星期|[礼禮]拜)(?P<usual_name>[一二三四五六日天])(?=一般|通常|都会|都會)
      | (?<!month\ of\ )\b(?:(?P<plural>{_FULL})days|weekends)\b)
  | (?P<chinese_weekend>(?P<which_weekend>下下|上上|[下上这這本])?[个個]?[周週]末(?!愉快|快乐|快樂))
  | (?P<chinese>(?:[周週]|星期|[礼禮]拜)(?P<chinese_name>[一二三四五六日天])(?!综合|綜合|[到至])(?!次|[个個]))
  | (?P<weekend>\b(?:(?P<which>this|next|last)\s+)?weekend\b)
  | (?P<english>\b(?:(?P<near>this|coming|next|last)\s+)?(?P<name>{_FULL})day\b(?!\s+(?:school|times|roast)))
  | (?P<short>\b(?:on|by|until|till|before|after|for|this|next|last)\s+(?P<short_name>{_SHORT})\b(?!-))
    """,
        re.VERBOSE | re.IGNORECASE,
    )
)
_FUTURE: Final = Once(
    lambda: re.compile(
        r"要|(?<![开開聚机機体體社年约約学學一例班晨早晚宴商展])[会會](?![议議员員])|打算|准备|準備|计划|計劃|安排|约[在好了]?|約|记得|記得|别忘|別忘|之前|截止|得(?=去)|将|將"
        r"|\b(?:will|\w+'ll|won't|going to|gonna|wan(?:t|ted) to|wanna|plan\w*|ha(?:ve|s|d) to|needs? to|must|should"
        r"|supposed|scheduled|due|deadline|remind\w*|don't forget|appointment|let's|hop(?:e|ing) to|promised?)\b"
        r"|\b(?:i'm|we're|they're|(?:he|she|it)'s|am|are|is) (?:\w+ )?\w+ing\b",
        re.IGNORECASE,
    )
)
_PAST: Final = Once(
    lambda: re.compile(
        r"了(?!解)|(?<!一起|怎[么麼]|哪[里裡儿兒]|在家)[过過](?![节節年生来來去])|那天|刚|剛|上次"
        r"|\b(?:was|were|did|didn't|had|went|got|said|told|saw|met|came|made|took|gave|felt|spent|bought|ate|happened"
        r"|[a-z]{2,}(?<!ne)(?<!hundr)ed)\b",
        re.IGNORECASE,
    )
)
_PLANS: Final = Once(
    lambda: re.compile(
        r"安排|计划|計劃|打算|日程|行程|要做|要干|要幹|要去哪|干嘛|幹嘛|该做|該做|待办|待辦|约了|約了|有(?:什么|什麼|啥)?事|有约|有約"
        r"|\b(?:plans?|planned|schedule|scheduled|agenda|calendar|supposed to|(?:have|going|want|need) to do|do i have"
        r"|have i got|what's on|what is on|coming up|appointments?|to-?dos?|due)\b",
        re.IGNORECASE,
    )
)
_WEEK_AHEAD: Final = Once(
    lambda: re.compile(
        r"(?P<this>[这這本][个個]?(?:[周週](?!末)|星期|[礼禮]拜)(?![一二三四五六日天])|\bthis week\b)"
        r"|(?P<next>(?<!下)下[个個]?(?:[周週](?!末)|星期|[礼禮]拜)(?![一二三四五六日天])|\bnext week\b)",
        re.IGNORECASE,
    )
)
_ASKS_IN_SHORT: Final = re.compile(
    r"(?:[干幹](?:[嘛啥吗嗎]|什么|什麼)|有(?:空|事|约|約|课|課|安排)[没沒]有?)[去呢呀啊了]*[\W_]*$"
)
"""The end of a question about plans without a question mark, such as 周四要干嘛."""
_AFTER_TOMORROW: Final = re.compile(r"\b(?:the )?day after tomorrow\b", re.IGNORECASE)
_CLAUSE_CHARS: Final = 200
"""Characters of a clause, before a day and after it, in which is looked for its tense."""
_CLAUSE_END: Final = re.compile(r"[,，。;；!！?？\n]|\.(?!\d)")


def told_days(text: str, today: date) -> NamedDays:
    """Return the days that a text written on `today` tells of, near words such as 今天 included."""
    return _days_named(text, today, adverbs=True)


def asked_days(question: str, today: date) -> NamedDays:
    """Return the days of which a question asks on `today`. 今天, tomorrow and `this week` occur in questions about
    anything, so they count only in a question about plans."""
    asks_for_plans = _PLANS().search(question) is not None
    named = _days_named(question, today, adverbs=asks_for_plans)
    if not asks_for_plans:
        return named
    days = set(named.days)
    for match in _WEEK_AHEAD().finditer(question):
        first = (7 if match["next"] else 0) - today.weekday()
        for number in range(max(first, 0), first + 7):
            days.update(_moved(today, timedelta(days=number)))
    return named._replace(days=frozenset(days))


def asks_in_short(text: str) -> bool:
    """Return whether a text ends as short questions about plans do, which other rules do not take for questions."""
    return _ASKS_IN_SHORT.search(text) is not None


def words_of_days(days: NamedDays) -> frozenset[str]:
    """Return the index words of these days: a memory that tells of any of the days holds some of them."""
    words: set[str] = set()
    weekdays = {day.weekday() for day in days.days} | days.weekly
    for weekday in weekdays:
        name, *short_forms, characters = _NAMES[weekday].split()
        words.update((name, f"{name}s", *short_forms))
        words.update(week + character for week in _CHINESE_WEEK for character in characters)
        words.update(("每周", "每星期", "每礼拜"))
        if weekday >= _SATURDAY:
            words.update(("weekend", "weekends", "周末"))
    words.update(map(day_word, days.days))
    for day in days.days:  # `the day after tomorrow` has the word of tomorrow
        words.update(map(day_word, _moved(day, timedelta(days=-1))))
    return frozenset(words | set(map(stem, words)))


weekday_words: Final = Once(
    lambda: frozenset(
        word
        for word in words_of_days(NamedDays(weekly=frozenset(range(7))))
        if not word.isascii() or len(word) > len("thurs")
    )
)
"""The index words of weekdays and weekends, without the short forms, such as `sun`."""


def _days_named(text: str, today: date, *, adverbs: bool) -> NamedDays:
    """Return the days that `text` names on `today`. With `adverbs`, also the days that a word such as 今天 names."""
    days: set[date] = set()
    weekly: set[int] = set()
    past_days: set[date] = set()

    # What is read once is taken, so that a later rule does not read it again.
    taken = [(holiday.start, holiday.end) for holiday in holidays_in(text)]  # Black Friday
    for match in _AFTER_TOMORROW.finditer(text):  # `date_spans` takes it for tomorrow
        taken.append(match.span())
        if adverbs:
            days.update(_moved(today, timedelta(days=2)))

    for stretch in ranges_of_days(text):
        days.update(_days_within(stretch, today))

    for span in date_spans(text, today):
        if _is_within(taken, span.start, span.end):
            continue
        taken.append((span.start, span.end))
        if adverbs or not span.adverb:
            days.update(_days_of(span.word, today))
            days.update(_week_further(text[span.start : span.end], span.word, today))

    for match in _WEEKDAY().finditer(text):
        if _is_within(taken, *match.span()):
            continue
        if match["weekly"]:
            weekly.update(_weekly(match))
            continue

        is_future, is_past = tense_of(clause_around(text, *match.span()))
        if match["chinese_weekend"] or match["weekend"]:
            named = set(_weekend_days(match, today))
        else:
            named = set(_weekdays(match, today))

        # The tense tells which of two weekdays is meant, unless the clause has both tenses.
        if is_past != is_future:
            named = {day for day in named if (day <= today if is_past else day >= today)}
        days.update(named)
        if is_past and not is_future:
            past_days.update(day for day in named if day <= today)
    return NamedDays(frozenset(days), frozenset(weekly), frozenset(past_days))


def _is_within(taken: Iterable[tuple[int, int]], start: int, end: int) -> bool:
    """Return whether a stretch of a text overlaps a stretch that was read already."""
    return any(first < end and start < last for first, last in taken)


def _days_of(word: str, today: date) -> Iterator[date]:
    """Yield the day of a canonical word that is nearest to `today`."""
    month, number = month_and_day(word)
    nearest: list[date] = []
    for year in (today.year - 1, today.year, today.year + 1):
        try:
            nearest.append(date(year, month, number))
        except ValueError:
            continue  # 29 February, or the ends of the calendar
    yield from sorted(nearest, key=lambda day: abs(day - today))[:1]


def _days_within(stretch: DayRange, today: date) -> Iterator[date]:
    """Yield the days of a stretch of a month at most, in the year in which it begins nearest to `today`; none if there
    is no such day."""
    for first in _days_of(stretch.word, today):
        with suppress(ValueError):
            _first, last = stretch.in_year(first.year)
            for number in range(min((last - first).days, 31) + 1):
                yield first + timedelta(days=number)


def _week_further(name: str, word: str, today: date) -> Iterator[date]:
    """Yield the day a week further for `next Friday` and `last Friday` of this week, which many people say of the
    next and the last week; nothing for any other name."""
    direction = name[:4].lower()
    if direction not in ("next", "last"):
        return
    for day in _days_of(word, today):
        is_this_week = day - timedelta(days=day.weekday()) == today - timedelta(
            days=today.weekday()
        )
        if is_this_week:
            yield from _moved(day, _WEEK if direction == "next" else -_WEEK)


def _weekly(match: re.Match[str]) -> Iterable[int]:
    """Return the weekdays of 每周二四, every Friday, Sundays, and of all weekends."""
    characters = match["weekly_names"] or match["usual_name"]
    if characters and characters != "末":
        return list(map(weekday_number, characters))
    name = match["weekly_name"] or match["plural"]
    if name:
        return [weekday_number(name)]
    return [_SATURDAY, _SATURDAY + 1]


def _weekend_days(match: re.Match[str], today: date) -> list[date]:
    """Return the days of the weekends that 周末, this weekend or 下周末 may mean."""
    which = (match["which_weekend"] or match["which"] or "").lower()
    [saturday] = _moved(today, timedelta(days=_SATURDAY - today.weekday())) or [today]
    weeks = {
        "": (-1, 0), "last": (-1,), "next": (0, 1), "上": (-1,), "上上": (-2,), "下": (1,), "下下": (2,),
    }.get(which, (0,))  # fmt: skip
    days: list[date] = []
    for week in weeks:
        for day in _moved(saturday, week * _WEEK):
            days += [day, *_moved(day, timedelta(days=1))]
    return days


def _weekdays(match: re.Match[str], today: date) -> Iterator[date]:
    """Yield the days before and after `today` that a weekday alone may mean. If today has that weekday, it is among
    them, and so are the days a week before and after it."""
    weekday = weekday_number(match["chinese_name"] or match["name"] or match["short_name"])
    ahead = timedelta(days=(weekday - today.weekday()) % 7)
    yield from _moved(today, ahead)
    yield from _moved(today, ahead - _WEEK)
    if not ahead:
        yield from _moved(today, _WEEK)


def _moved(day: date, by: timedelta) -> list[date]:
    """Return a day so much later, in a list that is empty beyond the range of dates."""
    try:
        return [day + by]
    except OverflowError:
        return []


def clause_around(text: str, start: int, end: int) -> str:
    """Return the clause that contains `text[start:end]`."""
    before = _CLAUSE_END.split(text[max(0, start - _CLAUSE_CHARS) : start])[-1]
    after = _CLAUSE_END.split(text[end : end + _CLAUSE_CHARS], maxsplit=1)[0]
    return before + text[start:end] + after


def tense_of(clause: str) -> tuple[bool, bool]:
    """Return whether a clause tells of what is to come, and whether of what is over."""
    is_future = _FUTURE().search(clause) is not None
    past = _PAST().search(_FUTURE().sub(" ", clause))
    return is_future, past is not None


def later_month(day: date, months: int) -> date:
    """Return the first day of the month so many months later."""
    year, month = divmod(day.year * 12 + day.month - 1 + months, 12)
    return date(year, month + 1, 1)


def end_of_month(first_of_month: date) -> date:
    return later_month(first_of_month, 1) - timedelta(days=1)
