"""The one day that a sentence names. Said at noon of Wednesday 17 June 2026, unless a case says otherwise."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nlp.day_notes import day_note, without_notes
from nlp.exact_days import ExactDay, exact_day

WEDNESDAY = datetime(2026, 6, 17, 12, tzinfo=UTC)
AFTER_MIDNIGHT = datetime(2026, 6, 17, 0, 40, tzinfo=UTC)


def june(first: int, last: int | None = None) -> tuple[date, date]:
    """The days of June 2026 from `first` to `last`; beyond 30, of July."""
    begin = date(2026, 5, 31)
    return begin + timedelta(days=first), begin + timedelta(days=last or first)


def days_of(named: ExactDay | None) -> tuple[date, date] | None:
    return None if named is None else (named.first, named.last)


@pytest.mark.parametrize(
    ("sentence", "day"),
    [
        ("正月初五我们去拜年", date(2027, 2, 10)),
        ("大年初二回娘家", date(2027, 2, 7)),
        ("初三再说，年初四要走亲戚", date(2027, 2, 9)),
        ("腊月二十三祭灶", date(2027, 1, 30)),
        ("臘月廿三祭灶", date(2027, 1, 30)),
        ("我妈八月初五过生日", date(2026, 9, 15)),
        ("奶奶的生日是农历八月十五", date(2026, 9, 25)),
        ("阴历七月初一开始吃素", date(2026, 8, 13)),
        ("冬月初六他结婚", date(2026, 12, 14)),
        ("正月初五我们去拜年了", date(2026, 2, 21)),
        ("圣诞节一起过", date(2026, 12, 25)),
        ("除夕怎么过", date(2027, 2, 5)),
        # What names no day here, or a doubtful one.
        ("我妈下个月初五过生日", None),
        ("下个月初三个人一起去", None),
        ("三月初一起去日本", None),
        ("三月初一定要交报告", None),
        ("十月初三天要出差", None),
        ("三月初九十个人会到", None),
        ("2027年初一起去日本", None),
        ("今年年初三个人要来", None),
        ("我那年初三要考试", None),
        ("大年初一家人一起吃饭", date(2027, 2, 6)),
        ("初一十五要上香", None),
        ("我弟今年上初二", None),
        ("每年正月初五都迎财神", None),
        ("农历十三月初一", None),
        ("农历八月三十五", None),
        ("闰六月初一", None),
        ("初二去拜年", None),
        ("周一到周五都很忙", None),
        ("周六日休息", None),
    ],
)
def test_days_of_the_chinese_calendar_and_days_around_them(sentence: str, day: date | None) -> None:
    named = exact_day(sentence, WEDNESDAY)
    assert (None if named is None else named.first) == day


@pytest.mark.parametrize("year", [1850, 2150])
@pytest.mark.parametrize("sentence", ["正月初五要去外婆家", "正月初五去了外婆家", "春节要去外婆家"])
def test_a_day_of_the_chinese_calendar_is_not_named_in_a_year_that_is_not_known(
    sentence: str, year: int
) -> None:
    assert exact_day(sentence, WEDNESDAY.replace(year=year)) is None


@pytest.mark.parametrize(
    ("sentence", "days"),
    [
        # named in two ways
        ("next Wednesday, 24 June, I see the dentist", june(24)),
        ("The party is next Friday (26 June)", june(26)),
        ("下周三（6月24号）去看牙", june(24)),
        ("明天6月18号去看牙", june(18)),
        ("6月19号端午节回家", june(19)),
        ("明天去看牙，6月20号开会", None),
        # counted from today
        ("还有10天就高考了", june(27)),
        ("再过一周就放假了", june(24)),
        ("还剩三天就开学了", june(20)),
        ("他再过三天来也就晚了", None),
        ("我周六不去爬山了", june(20)),
        ("The dentist is the day after tomorrow", june(19)),
        ("See the vet tomorrow at 9", june(18)),
        ("the day before yesterday he proposed", june(15)),
        ("last night I dreamt of whales", june(16)),
        ("The wedding is three days from now", june(20)),
        ("The exam is in two weeks", june(31)),
        ("In a week's time I'll be in Rome", june(24)),
        ("a fortnight today I sit the bar exam", june(31)),
        ("two weeks ago I quit smoking", june(3)),
        ("大后天搬家", june(20)),
        ("昨晚没睡好", june(16)),
        ("三天前刚做完手术", june(14)),
        ("還有五天就開學", june(22)),
        ("十天后交论文", june(27)),
        # weekdays
        ("My birthday is next Wednesday.", june(24)),
        ("See you Friday", june(19)),
        ("I saw him on Monday", june(15)),
        ("he dumped me on Friday", june(12)),
        ("I'm so excited for Saturday", june(20)),
        ("They moved the meeting to Thursday", june(18)),
        ("Mum's coming on Thurs", june(18)),
        ("We broke up last Saturday", june(13)),
        ("Friday week is the funeral", june(26)),
        ("three weeks from Saturday I walk her down the aisle", june(41)),
        ("Tuesday of next week is the hearing", june(23)),
        ("This coming Sunday we baptise her", june(21)),
        ("下周五去体检", june(26)),
        ("上週五離職了", june(12)),
        ("周日带娃去动物园", june(21)),
        ("周五面试黄了", june(12)),
        ("周六终于可以睡懒觉了", june(20)),
        ("下下周二开庭", june(30)),
        # spans
        ("this weekend we camp", june(20, 21)),
        ("last weekend was wild", june(13, 14)),
        ("next week I'm in Berlin", june(22, 28)),
        ("the week after next I'm on leave", june(29, 35)),
        ("下周一到周三培训", june(22, 24)),
        ("上周我都在出差", june(8, 14)),
        # days of a month
        ("moving out on the 30th", june(30)),
        ("rent's due on the first", june(31)),
        ("the 3rd of next month is our anniversary", june(33)),
        ("二十号交房租", june(20)),
        ("下个月3号交房租", june(33)),
        ("月底发奖金", june(30)),
        ("Lease is up at the end of the month", june(30)),
        # holidays
        ("除夕值班", (date(2027, 2, 5), date(2027, 2, 5))),
        ("Christmas Eve at my aunt's again", (date(2026, 12, 24), date(2026, 12, 24))),
        # the one that is still to come
        ("Yesterday I booked the ferry for next week", june(22, 28)),
        # none, or several
        ("Nothing to say here", None),
        ("Monday or Tuesday, I don't mind", None),
        ("Every Tuesday we play chess", None),
        ("Mondays are awful", None),
        ("I usually swim on Thursday", None),
        ("星期天一般都回外婆家", None),
        ("每周五打球", None),
        ("One day I'll move to Norway", None),
        ("not in a month of sundays", None),
        ("改天请你吃饭", None),
        ("明天会更好", None),
        ("三天打鱼两天晒网", None),
        ("总有一天我会去的", None),
        ("过两天再说", None),
        ("周末愉快", None),
        ("I finished it in three days", None),
        ("三天后他又来了", None),
        ("5号线又坏了", None),
        ("On Wednesday", None),  # today, or in a week
        ("| Monday | soup |", None),
        ("next weekend we paint", None),  # this one, or the one after it
    ],
)
def test_the_day_that_a_sentence_names(sentence: str, days: tuple[date, date] | None) -> None:
    assert days_of(exact_day(sentence, WEDNESDAY)) == days


@pytest.mark.parametrize(
    ("sentence", "said", "either"),
    [
        ("next Friday is the party", WEDNESDAY, {19, 26}),
        ("last Monday somebody nicked my saddle", WEDNESDAY, {15, 8}),
        ("hockey final tomorrow morning", AFTER_MIDNIGHT, {17, 18}),
        ("明天一早体检", AFTER_MIDNIGHT, {17, 18}),
    ],
)
def test_both_days_where_people_mean_two(sentence: str, said: datetime, either: set[int]) -> None:
    named = exact_day(sentence, said)
    assert named is not None
    assert named.other is not None
    assert {named.first.day, named.other.day} == either


@pytest.mark.parametrize(
    ("sentence", "days"),
    [
        ("6月25-27号我去北京出差", june(25, 27)),
        ("6月25日到27日去北京", june(25, 27)),
        ("6月25号至27号有会", june(25, 27)),
        ("六月二十五到二十七号出差", june(25, 27)),
        ("6月28日到7月2日去旅游", june(28, 32)),
        ("2026年6月25日-6月27日出差", june(25, 27)),
        ("25-27号我不在家", june(25, 27)),
        ("25号到27号我在上海", june(25, 27)),
        ("下个月3到5号去杭州", june(33, 35)),
        ("I'm in Berlin 25-27 June", june(25, 27)),
        ("I'm in Berlin June 25–27", june(25, 27)),
        ("June 25 to 27 I'm at a conference", june(25, 27)),
        ("The conference runs 25th to 27th of June", june(25, 27)),
        ("from June 28 to July 2 we're in Rome", june(28, 32)),
        ("we're in Rome from 28 June to 2 July 2026", june(28, 32)),
        ("We're away from the 25th to the 27th", june(25, 27)),
        ("I'm off the 25th through the 27th", june(25, 27)),
        ("We're away from the 3rd to the 5th of next month", june(33, 35)),
        # What is no stretch of days, or has begun.
        ("15-20号我在北京", None),
        ("25-27号线停运", None),
        ("房间在25-27号楼", None),
        ("上午9-11点开会", None),
        ("看第15-17页", None),
        ("27-25号我不在家", None),
        ("He moved from the 3rd to the 5th floor", None),
    ],
)
def test_a_stretch_of_days_is_named_as_one(sentence: str, days: tuple[date, date] | None) -> None:
    assert days_of(exact_day(sentence, WEDNESDAY)) == days


@pytest.mark.parametrize(
    ("sentence", "today", "note"),
    [
        ("6月25-27号我去北京", 21, "4 天后"),
        ("6月25-27号我去北京", 26, "6 月 25 日至 27 日：正在其中"),
        ("6月25-27号我去北京", 28, "已过"),
        ("25-27号我去北京", 21, "6 月 25 日至 27 日：4 天后"),
        ("We're away from the 25th to the 27th", 28, "25 to 27 June: 1 day ago, over"),
        ("My birthday is next Wednesday.", 21, "Wednesday, 24 June: in 3 days"),
        ("My birthday is next Wednesday.", 23, "Wednesday, 24 June: in 1 day"),
        ("My birthday is next Wednesday.", 24, "Wednesday, 24 June: today"),
        ("My birthday is next Wednesday.", 25, "Wednesday, 24 June: 1 day ago, over"),
        ("下周五（6月26号）去体检。", 20, "6 天后"),
        ("下周五去体检。", 38, "6 月 26 日，星期五：12 天前，已过"),
        ("下周五去体检。", 26, "6 月 26 日，星期五：今天"),
        ("下周五去体检。", 20, "6 月 26 日，星期五：6 天后"),
        ("I had a filling yesterday", 20, "16 June"),
        ("上周三转正答辩过了", 20, "6 月 10 日"),
        ("this weekend we camp", 18, "20 to 21 June: in 2 days"),
        ("this weekend we camp", 21, "20 to 21 June: today"),
        ("the week after next I'm on leave", 18, "29 June to 5 July: in 11 days"),
        ("the week after next I'm on leave", 30, "29 June to 5 July: now"),
        ("下周我都在深圳出差", 24, "6 月 22 日至 28 日：正在其中"),
        ("下周我都在深圳出差", 30, "6 月 22 日至 28 日：2 天前，已过"),
        ("next Friday is the party", 17, "Friday, 19 June or Friday, 26 June: in 2 or 9 days"),
        ("next Friday is the party", 20, "Friday, 19 June or Friday, 26 June"),
        ("next Friday is the party", 30, "Friday, 19 June or Friday, 26 June: over"),
        ("In a month I'm retiring", 20, "about 17 July: in 27 days"),
        # the text says the day itself
        ("We move on 24 June", 21, "in 3 days"),
        ("We move on 24 June", 24, "today"),
        ("We move on 24 June", 30, "over"),
        ("6月24日要搬家", 21, "3 天后"),
        ("We moved on 24 May", 21, ""),
        ("I will see the vet today", 18, "over"),
        ("I saw the vet today", 18, ""),
        # several plans
        (
            "On Friday I see the dentist and on Saturday my aunt",
            19,
            "Friday, 19 June: today; Saturday, 20 June: in 1 day",
        ),
        ("周五看牙，周六去动物园", 19, "6 月 19 日，星期五：今天；6 月 20 日，星期六：1 天后"),
        # another year than that of the reader
        ("除夕值班", 17, "2027 年 2 月 5 日，星期五：233 天后"),
    ],
)
def test_the_note_says_the_day_and_where_it_lies(sentence: str, today: int, note: str) -> None:
    [day, _last] = june(today)
    assert day_note(sentence, WEDNESDAY, day) == note


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("Your birthday is next Wednesday. [Wednesday, 24 June: in 3 days]", None),
        ("下周五去体检。[6 月 26 日，星期五：12 天前，已过]好的", "下周五去体检。好的"),
        ("[Wednesday, 24 June: in 3 days]", ""),
        (
            "I had a filling yesterday [16 June] and it hurts",
            "I had a filling yesterday and it hurts",
        ),
        ("We move on Friday. [over]", "We move on Friday."),
        ("next weekend we paint [27 to 28 June] and tidy", "next weekend we paint and tidy"),
        ("周五看牙，周六去动物园 [6 月 20 日，星期六]", "周五看牙，周六去动物园"),
        # brackets of somebody else
        ("Changes of the release [24 June]: none", "Changes of the release [24 June]: none"),
        ("The game is [over]", "The game is [over]"),
        ("On Friday: [24 June]", "On Friday: [24 June]"),
        ("On Friday [24 June]: party", "On Friday [24 June]: party"),
        ("周五：[今天]开会", "周五：[今天]开会"),
        ("周五[今天]：开会", "周五[今天]：开会"),
        ("on Friday; [over] we", "on Friday; [over] we"),
        (
            "The deploy is on 20 June [now] or later",
            "The deploy is on 20 June [now] or later",
        ),
        ("I'm in Rome 20-27 June [now]", "I'm in Rome 20-27 June [now]"),
        ("6月20号上线[正在其中]还是之后", "6月20号上线[正在其中]还是之后"),
        ("The deploy [20 June: now]", "The deploy [20 June: now]"),
        ("I'm in Rome [20 to 27 June: now]", "I'm in Rome"),
        ("下周出差 [6 月 22 日至 28 日：正在其中]", "下周出差"),
        ("see [1] and [2]", "see [1] and [2]"),
    ],
)
def test_notes_that_come_back_are_removed(text: str, said: str | None) -> None:
    assert without_notes(text) == (text.partition(" [")[0] if said is None else said)


SENTENCES = (
    "See you tomorrow",
    "next Friday is the party",
    "下周五去体检",
    "上上周末去了海边",
    "月底交房租",
    "On Friday I see the dentist and on Saturday my aunt",
    "后天考试，大后天聚会，下周一休息",
)


@given(
    sentence=st.sampled_from(SENTENCES),
    said=st.dates(date(1950, 1, 1), date(2090, 1, 1)).map(
        lambda day: datetime(day.year, day.month, day.day, 9, tzinfo=UTC)
    ),
    later=st.integers(-400, 4000),
)
def test_each_note_is_one_that_is_removed(sentence: str, said: datetime, later: int) -> None:
    note = day_note(sentence, said, said.date() + timedelta(days=later))
    assert without_notes(f"{sentence} [{note}]") == (sentence if note else f"{sentence} []")


@given(st.text(max_size=200), st.datetimes())
def test_no_text_and_no_day_are_too_much(text: str, said: datetime) -> None:
    day_note(f"{text} tomorrow 明天 in 99 weeks", said, said.date())
    assert without_notes(text) == text or "[" in text


@pytest.mark.parametrize(
    "sentence",
    ["今天教师节，给班主任发了个祝福", "教师节要给老师打电话", "我妈的生日是农历七月廿九"],
)
def test_a_day_that_comes_each_year_is_not_that_of_the_next_year_on_the_day_itself(
    sentence: str,
) -> None:
    teachers_day = datetime(2026, 9, 10, 8, tzinfo=UTC)
    assert day_note(sentence, teachers_day, date(2026, 9, 26)) == ""


@pytest.mark.parametrize(
    ("sentence", "said"),
    [
        ("圣诞节我们吃了火鸡", date(2026, 12, 25)),
        ("We ate turkey at Christmas", date(2026, 12, 25)),
        ("On Christmas we visited grandma", date(2026, 12, 25)),
        ("Christmas at my aunt's again", date(2026, 12, 25)),
        ("今天圣诞节我们要去教堂", date(2026, 12, 25)),
        ("今天教师节", date(2026, 9, 10)),
        ("教师节要给老师打电话", date(2026, 9, 10)),
    ],
)
def test_a_holiday_named_on_its_own_day_is_that_day(sentence: str, said: date) -> None:
    evening = datetime(said.year, said.month, said.day, 22, tzinfo=UTC)
    assert days_of(exact_day(sentence, evening)) == (said, said)


def test_both_days_that_a_sentence_after_midnight_may_mean_are_written_apart() -> None:
    note = day_note("明天去看牙", AFTER_MIDNIGHT, date(2026, 6, 17))
    assert note == "6 月 17 日，星期三或 6 月 18 日，星期四"
    assert without_notes(f"明天去看牙[{note}]") == "明天去看牙"
