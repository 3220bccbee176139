"""How far away the day of a sentence is now, as a note in brackets after the sentence. Pure.

`next Wednesday` said on Friday 19 June is `[Wednesday, 24 June: in 3 days]` on the 21st. What was still to come when
it was said is a plan, which is today, over, or some days away; of what was over already only the day is said, and of
a day that the text names with its month, only how far away it is. A sentence that tells of several plans has all their
days in its note.
"""

from __future__ import annotations

import re
from datetime import UTC, date, datetime
from typing import Final

from nlp.exact_days import ExactDay, exact_day, is_chinese, named_days, only_day
from nlp.once import Once
from nlp.plans import told_plans
from nlp.stems import words_between_bars


def day_note(sentence: str, said: datetime, today: date) -> str:
    """Return the note on the day that a sentence names, in its language and without brackets; empty if it names no
    day. `said` and `today` are times where the readers live."""
    chinese = is_chinese(sentence)
    days = named_days(sentence, said)
    named = only_day(days, said)
    if named is None:
        told = told_plans(sentence, said) if days else ()
        plans = [_with_state(plan.day, today, chinese) for plan in told]
        return ("；" if chinese else "; ").join(plans)
    state = _state_of(named, today)[chinese]
    if named.told and state not in _NOW:
        return state
    return _with_state(named, today, chinese)


def _with_state(named: ExactDay, today: date, chinese: bool) -> str:
    """Write a day, and of a plan where it lies."""
    day = day_text(named, today, is_chinese=chinese)
    state = _state_of(named, today)[chinese]
    if not state:
        return day
    return f"{day}：{state}" if chinese else f"{day}: {state}"


_WEEKDAYS: Final = words_between_bars("Monday|Tuesday|Wednesday|Thursday|Friday|Saturday|Sunday")
MONTH_NAMES: Final = words_between_bars(
    "January|February|March|April|May|June|July|August|September|October|November|December"
)
_CHINESE_WEEKDAYS: Final = "一二三四五六日"


def _english_day(day: date, today: date, has_weekday: bool) -> str:
    """Write a day in English: `24 June`, `Wednesday, 24 June` with its weekday, and the year if it is not today's."""
    text = f"{day.day} {MONTH_NAMES[day.month - 1]}"
    if has_weekday:
        text = f"{_WEEKDAYS[day.weekday()]}, {text}"
    if day.year == today.year:
        return text
    return f"{text} {day.year}"


def _chinese_day(day: date, today: date, has_weekday: bool) -> str:
    """Write a day in Chinese: 6 月 24 日, with its weekday 6 月 24 日，星期三, and the year if it is not today's."""
    text = f"{day.month} 月 {day.day} 日"
    if day.year != today.year:
        text = f"{day.year} 年 {text}"
    if not has_weekday:
        return text
    return f"{text}，星期{_CHINESE_WEEKDAYS[day.weekday()]}"


def day_text(named: ExactDay, today: date, *, is_chinese: bool) -> str:
    """Return the day, the span, or both days that people may mean; for a plan on a single day also
    the weekday."""
    write_day = _chinese_day if is_chinese else _english_day
    has_weekday = named.is_plan and not named.rough and named.first == named.last
    first = write_day(named.first, today, has_weekday)
    if named.other is not None:
        other_day = write_day(named.other, today, has_weekday)
        return f"{first}或 {other_day}" if is_chinese else f"{first} or {other_day}"
    if named.rough:
        return f"约 {first}" if is_chinese else f"about {first}"
    if named.first == named.last:
        return first

    last = write_day(named.last, today, False)
    is_of_one_month = named.first.month == named.last.month
    if is_chinese:
        return f"{first}至 {named.last.day} 日" if is_of_one_month else f"{first}至 {last}"
    return f"{named.first.day} to {last}" if is_of_one_month else f"{first} to {last}"


_NOW: Final = ("now", "正在其中")
"""The state of a stretch that has begun; it has its days beside it, because people write `[now]` themselves."""


def _state_of(named: ExactDay, today: date) -> tuple[str, str]:
    """Tell when a plan is, as seen from now, in English and in Chinese: in 3 days, today, or 12 days ago and over.
    Empty if it is not a plan, or if it depends on which day is meant."""
    if not named.is_plan:
        return "", ""
    days_since = (today - max(named.last, named.other or named.last)).days
    days = (min(named.first, named.other or named.first) - today).days
    if days_since > 0:
        if named.told or named.other is not None:
            return "over", "已过"
        ago = "1 day" if days_since == 1 else f"{days_since} days"
        return f"{ago} ago, over", f"{days_since} 天前，已过"

    if named.other is not None:
        if days <= 0:
            return "", ""
        return f"in {days} or {-days_since} days", f"{days} 或 {-days_since} 天后"
    if days <= 0:
        if named.is_long:
            return _NOW
        return "today", "今天"
    ahead = "1 day" if days == 1 else f"{days} days"
    return f"in {ahead}", f"{days} 天后"


# Notes that come back


_MONTH_TEXT: Final = "(?:" + "|".join(MONTH_NAMES) + ")"
_DAY_TEXT: Final = rf"(?:(?:{'|'.join(_WEEKDAYS)}), )?\d{{1,2}}(?: {_MONTH_TEXT}(?: \d{{4}})?)?"
_STATE_TEXT: Final = r"in \d+(?: or \d+)? days?|today|(?:\d+ days? ago, )?over"
_CHINESE_DAY_TEXT: Final = (
    r"(?:约 )?(?:\d{4} 年 )?\d{1,2} 月 \d{1,2} 日(?:，星期[一二三四五六日])?"
    r"(?:(?:或 ?|至 )(?:\d{4} 年 )?(?:\d{1,2} 月 )?\d{1,2} 日(?:，星期[一二三四五六日])?)?"
)
_CHINESE_STATE_TEXT: Final = r"\d+(?: 或 \d+)? 天后|今天|(?:\d+ 天前，)?已过"
_NOTE_TEXT: Final = rf"(?!\d+ \w+(?: \d+)?: now)(?:about )?{_DAY_TEXT}(?: (?:or|to) {_DAY_TEXT})?: (?:{_STATE_TEXT}|now)"
_CHINESE_NOTE_TEXT: Final = (
    rf"(?![^至\]]+正在){_CHINESE_DAY_TEXT}：(?:{_CHINESE_STATE_TEXT}|正在其中)"
)
NOTES: Final = Once(
    lambda: re.compile(
        rf" ?\[(?:(?P<whole>{_NOTE_TEXT}(?:; {_NOTE_TEXT}){{0,4}}|{_CHINESE_NOTE_TEXT}(?:；{_CHINESE_NOTE_TEXT}){{0,4}})"
        rf"|(?:about )?{_DAY_TEXT}(?: (?:or|to) {_DAY_TEXT})?|{_CHINESE_DAY_TEXT}"
        rf"|{_STATE_TEXT}|{_CHINESE_STATE_TEXT})\]"
    )
)
"""A note as it is written in a line. `whole`: it says each day and how far away it is, in a form that only notes have."""
_ANY_DAYS: Final = (
    datetime(2026, 6, 17, 12, tzinfo=UTC),
    datetime(2026, 6, 20, 12, tzinfo=UTC),
)
"""Days of writing; a day that a sentence names is not doubtful on all of them."""
_SENTENCE_END: Final = Once(lambda: re.compile(r"[。！？!?\n]|\.(?!\d)"))


def without_notes(text: str) -> str:
    """Return `text` without notes on days: notes that say all, and notes after a sentence that names a day. What is
    written with a colon before or after it belongs to a list of the user."""
    parts: list[str] = []
    position = 0
    for match in NOTES().finditer(text):
        before = text[position : match.start()].rstrip()
        is_of_list = before.endswith((":", "：", ";", "；"))
        if is_of_list or text[match.end() :].startswith((":", "：")):
            continue
        sentences = before.rstrip(" 。！？!?.…\"'”’」』)）")
        sentence = _SENTENCE_END().split(sentences)[-1]
        if match["whole"] or any(exact_day(sentence, day) for day in _ANY_DAYS):
            parts.append(text[position : match.start()])
            position = match.end()
    return "".join((*parts, text[position:])) if parts else text
