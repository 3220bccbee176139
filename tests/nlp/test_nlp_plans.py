"""Questions about what is planned, and sentences that name a time before noon."""

from __future__ import annotations

from datetime import UTC, date, datetime

import pytest

from nlp.plans import AskedPlans, asked_plans, is_before_noon, told_plans

TODAY = date(2026, 6, 17)
"""A Wednesday."""
SAID = datetime(2026, 6, 17, 12, tzinfo=UTC)
IN_MARCH = datetime(2026, 3, 20, 12, tzinfo=UTC)
IN_SEPTEMBER = datetime(2026, 9, 20, 12, tzinfo=UTC)
IN_DECEMBER = datetime(2026, 12, 14, 12, tzinfo=UTC)
ALL = AskedPlans(TODAY, date.max)
THIS_WEEK = AskedPlans(TODAY, date(2026, 6, 21))
NEXT_WEEK = AskedPlans(date(2026, 6, 22), date(2026, 6, 28))
THIS_WEEKEND = AskedPlans(date(2026, 6, 20), date(2026, 6, 21))
NEXT_WEEKEND = AskedPlans(date(2026, 6, 27), date(2026, 6, 28))
THIS_MONTH = AskedPlans(TODAY, date(2026, 6, 30))
NEXT_MONTH = AskedPlans(date(2026, 7, 1), date(2026, 7, 31))


@pytest.mark.parametrize(
    ("question", "asked"),
    [
        ("What do I have planned?", ALL),
        ("what's coming up?", ALL),
        ("what’s coming up", ALL),
        ("What are my plans?", ALL),
        ("Hey, do I have anything coming up?", ALL),
        ("What is on my calendar next week?", NEXT_WEEK),
        ("What do I have planned this week?", THIS_WEEK),
        ("What do I have to do this week?", THIS_WEEK),
        ("anything planned for next month?", NEXT_MONTH),
        ("我有什么计划？", ALL),
        ("最近有什么安排吗", ALL),
        ("接下来要做什么？", ALL),
        ("我这周有什么安排", THIS_WEEK),
        ("我這週有什麼安排？", THIS_WEEK),
        ("下周我有什么计划", NEXT_WEEK),
        ("我下周要干嘛", NEXT_WEEK),
        ("这个月有哪些日程", THIS_MONTH),
        ("下个月有安排吗", NEXT_MONTH),
        ("What are my plans for the weekend?", THIS_WEEKEND),
        ("what are my plans this weekend", THIS_WEEKEND),
        ("what do I have next week?", NEXT_WEEK),
        ("What do I have on next week?", NEXT_WEEK),
        ("what have I got this weekend?", THIS_WEEKEND),
        ("do I have anything planned for next weekend?", NEXT_WEEKEND),
        ("what do I have this month?", THIS_MONTH),
        ("anything on the weekend?", THIS_WEEKEND),
        ("周末我有什么安排", THIS_WEEKEND),
        ("这周末有什么计划", THIS_WEEKEND),
        ("下周末我有什么安排？", NEXT_WEEKEND),
        ("我下周有什么事", NEXT_WEEK),
        ("周末要干嘛", THIS_WEEKEND),
        ("这个周末有安排吗", THIS_WEEKEND),
    ],
)
def test_a_question_about_plans_names_their_days(question: str, asked: AskedPlans) -> None:
    assert asked_plans(question, TODAY) == asked


@pytest.mark.parametrize(
    "text",
    [
        "",
        "What is my name?",
        "What do I have?",
        "What do I have planned on Thursday?",
        "What have I planned for Tom's birthday?",
        "I have plans this week",
        "What's next?",
        "周四有什么安排",
        "我有什么计划瞒着你",
        "我应该做什么",
        "你有什么事",
        "我上周有什么安排",
        "what did I have planned last week?",
        "what do I have?",
        "what do I have to pay next week?",
        "what do I have in the fridge?",
        "what's the weekend like?",
        "周末天气怎么样",
        "上周末我干嘛了",
        "what did I do last weekend?",
        "what do I have this headache from?",
    ],
)
def test_another_text_asks_for_no_plans(text: str) -> None:
    assert asked_plans(text, TODAY) is None


@pytest.mark.parametrize(
    ("sentence", "is_early"),
    [
        ("The dentist is tomorrow at 8 a.m.", True),
        ("The train leaves on Friday at 6:45", True),
        ("Breakfast with Ida on Sunday", True),
        ("明天一早八点体检", True),
        ("周五上午开会", True),
        ("Dinner on Friday at 7:30 pm", False),
        ("On Friday at eight in the evening", False),
        ("The concert on Friday at 19:30", False),
        ("明天下午去补牙", False),
        ("后天交稿", False),
    ],
)
def test_a_time_before_noon(sentence: str, is_early: bool) -> None:
    assert is_before_noon(sentence) == is_early


@pytest.mark.parametrize(
    "sentence",
    [
        "Will it rain on Thursday?",
        "Are you free on Thursday?",
        "I'm not going to the party on Thursday.",
        "I can’t make it on Thursday",
        "The meeting on Thursday is cancelled.",
        "If I win the lottery on Thursday I buy a boat",
        "See you on Thursday!",
        "周四会下雨吗",
        "我周四不用上班",
        "如果周四下雨就不去了",
        "周四的聚会取消了",
        "晚安，周四见！",
        "周四几点的高铁来着，我忘了",
        "What time is the train on Thursday, I forgot",
        "周四几点的高铁，我忘了",
        "周四几点开会",
        "周四去哪来着",
        "do you know what time we leave on Thursday",
        "the train on Thursday is at what time",
    ],
)
def test_what_is_asked_denied_or_only_thought_of_is_not_a_plan(sentence: str) -> None:
    assert not told_plans(sentence, SAID)


@pytest.mark.parametrize(
    "sentence",
    [
        "Don't forget the dentist on Thursday",
        "I can't wait for the concert on Thursday!",
        "can't sleep, the final is on Thursday",
        "别忘了周四交报告",
        "周四一早体检，不能喝水",
        # an hour that is not known, and 来着 without a question
        "明天十几点要去开会",
        "我记得下周三要交报告来着",
        "周五几点集合再通知，我们要去爬山",
        "周六要几点起床都得去爬山",
        "周五晚上九点几点钟见都行，我去开会",
        "星期五我要参加十几点的会",
        "On Friday we go hiking, no matter what time it starts",
        "I'll check what time the train leaves on Thursday",
    ],
)
def test_a_plan_stays_one_beside_a_denial_of_something_else(sentence: str) -> None:
    assert told_plans(sentence, SAID)


@pytest.mark.parametrize(
    ("said", "sentence", "days"),
    [
        # a day that is named in two ways is one
        (SAID, "下周三（6月24号）去看牙", [date(2026, 6, 24)]),
        (SAID, "The dentist is next Friday (26 June)", [date(2026, 6, 26)]),
        (SAID, "6月19号端午节要回家", [date(2026, 6, 19)]),
        # a day that is denied beside another one
        (SAID, "出差改了，不是下周三去上海，是6月25号", [date(2026, 6, 25)]),
        (SAID, "我爸生日是6月21号不是20号", [date(2026, 6, 21)]),
        (SAID, "The trip is on 21 June, not on 20 June", [date(2026, 6, 21)]),
        (SAID, "The trip is on 21 June not on 20 June", [date(2026, 6, 21)]),
        (SAID, "6月21号是不是要开会，20号也要去", [date(2026, 6, 21), date(2026, 6, 20)]),
        (SAID, "On Friday I'm not going to Paris, on Saturday I fly to Rome", [date(2026, 6, 20)]),
        (SAID, "Friday I will not come to the office, Saturday I will", [date(2026, 6, 20)]),
        (SAID, "On Friday we will not meet, on Saturday we fly to Rome", [date(2026, 6, 20)]),
        (SAID, "On Friday I do not work, on Saturday I visit my mother", [date(2026, 6, 20)]),
        (SAID, "不是周五就是周六去上海开会", [date(2026, 6, 19), date(2026, 6, 20)]),
        # a weekday beside a date is that date, and not the next one of its name
        (SAID, "The wedding is on Saturday, 27 June", [date(2026, 6, 27)]),
        (SAID, "The wedding is on 27 June (Saturday)", [date(2026, 6, 27)]),
        (SAID, "The exam is on Monday the 29th", [date(2026, 6, 29)]),
        (SAID, "婚礼在周六，6月27号", [date(2026, 6, 27)]),
        (SAID, "婚礼在6月27号（周六）", [date(2026, 6, 27)]),
        (SAID, "周六（27号）要去参加婚礼", [date(2026, 6, 27)]),
        (SAID, "周六去爬山，27号体检", [date(2026, 6, 20), date(2026, 6, 27)]),
        # what moves has its new day
        (SAID, "明天的会改到后天了", [date(2026, 6, 19)]),
        (SAID, "周五的牙医改到下周二", [date(2026, 6, 23)]),
        (SAID, "The meeting tomorrow was moved to Friday", [date(2026, 6, 19)]),
        (SAID, "明天去取车，周五的牙医改到下周二", [date(2026, 6, 18), date(2026, 6, 23)]),
        (SAID, "The exam moved from Tuesday to Thursday", [date(2026, 6, 18)]),
        (SAID, "The wedding has been postponed to 27 June", [date(2026, 6, 27)]),
        (SAID, "下周二的面试推迟到周五了", [date(2026, 6, 19)]),
        (SAID, "周五的会推迟了", []),
        # a wish is not a plan
        (IN_DECEMBER, "圣诞快乐！", []),
        (IN_DECEMBER, "提前祝你元旦节快乐", []),
        (IN_SEPTEMBER, "中秋安康", []),
        (IN_MARCH, "过年好！", []),
        (IN_DECEMBER, "圣诞节要去教堂", [date(2026, 12, 25)]),
        # a day and a day are two plans; one or the other is none
        (
            SAID,
            "On Friday I have the dentist and on Saturday we go to the zoo",
            [date(2026, 6, 19), date(2026, 6, 20)],
        ),
        (
            SAID,
            "I fly to Rome on Friday, and come back on Monday",
            [date(2026, 6, 19), date(2026, 6, 22)],
        ),
        (
            SAID,
            "Tomorrow I pick up the car, the inspection is next week on Tuesday",
            [date(2026, 6, 18), date(2026, 6, 23)],
        ),
        (
            SAID,
            "The exam is tomorrow and the party is in three days",
            [date(2026, 6, 18), date(2026, 6, 20)],
        ),
        (SAID, "周五看牙，周六去动物园", [date(2026, 6, 19), date(2026, 6, 20)]),
        (SAID, "我明天去取车，下周二年检", [date(2026, 6, 18), date(2026, 6, 23)]),
        (SAID, "后天考试，大后天聚会", [date(2026, 6, 19), date(2026, 6, 20)]),
        (SAID, "下周一交初稿，下周五答辩", [date(2026, 6, 22), date(2026, 6, 26)]),
        (SAID, "Yesterday I booked the flight for Friday", [date(2026, 6, 19)]),
        (SAID, "我昨天订了周五的机票", [date(2026, 6, 19)]),
        (SAID, "We could meet on Friday or on Saturday", []),
        (SAID, "Either Friday or Saturday works for me", []),
        (SAID, "周五或者周六都行", []),
        (SAID, "I work on Mondays and on Thursdays", []),
        (SAID, "On Friday I have the dentist, not on Thursday", [date(2026, 6, 19)]),
        # 一早 after a weekday is a time, and 五一 in it is not Labour Day
        (SAID, "周五一早我去体检", [date(2026, 6, 19)]),
        (SAID, "下周六一大早出发", [date(2026, 6, 27)]),
        # a day beside a holiday
        (IN_DECEMBER, "We drive to my parents the day after Christmas", [date(2026, 12, 26)]),
        (IN_DECEMBER, "The day before Christmas I work until noon", [date(2026, 12, 24)]),
        (IN_DECEMBER, "I fly home two days before Christmas", [date(2026, 12, 23)]),
        (IN_MARCH, "The course starts a week after Easter", [date(2026, 4, 12)]),
        (IN_MARCH, "We move two weeks after Easter", [date(2026, 4, 19)]),
        (IN_DECEMBER, "I see the doctor two days after New Year", [date(2027, 1, 3)]),
        (
            IN_DECEMBER,
            "I'm back at work on January 2nd, the day after New Year",
            [date(2027, 1, 2)],
        ),
        (IN_SEPTEMBER, "国庆前一天我去上海", [date(2026, 9, 30)]),
        (IN_SEPTEMBER, "国庆节前两天我要出差", [date(2026, 9, 29)]),
        (IN_SEPTEMBER, "我中秋节第二天回来", [date(2026, 9, 26)]),
        (IN_SEPTEMBER, "中秋后一天我去爬山", [date(2026, 9, 26)]),
        (IN_SEPTEMBER, "国庆前一周我要体检", [date(2026, 9, 24)]),
        (IN_DECEMBER, "圣诞节后两天我飞东京", [date(2026, 12, 27)]),
        (IN_DECEMBER, "元旦前一天我去外婆家", [date(2026, 12, 31)]),
        (IN_DECEMBER, "元旦后一周开始上课", [date(2027, 1, 8)]),
        (IN_DECEMBER, "I want it done before Christmas", [date(2026, 12, 25)]),
        (IN_DECEMBER, "After Christmas we go skiing", []),
        (IN_SEPTEMBER, "国庆后我去上海", []),
        (IN_SEPTEMBER, "国庆前我要交稿", [date(2026, 10, 1)]),
        # what is changed to something that is not a day stays on its day
        (SAID, "明天我要把头像改成猫", [date(2026, 6, 18)]),
        (SAID, "下周一调到北京总部工作", [date(2026, 6, 22)]),
        (SAID, "明天的面试改到线上了", [date(2026, 6, 18)]),
        (SAID, "The meeting tomorrow was moved to 3 pm", [date(2026, 6, 18)]),
        (SAID, "每周三的会改到周四了", []),
        (SAID, "We moved from Berlin to Munich on Friday", []),
        # a weekday of another clause, and one beside a number that is not a date
        (SAID, "签证6月29号，周四去取", [date(2026, 6, 29), date(2026, 6, 18)]),
        (SAID, "周六（27日）去爬山", [date(2026, 6, 20)]),
        (SAID, "Dinner at 7 maybe Friday", [date(2026, 6, 19)]),
        (SAID, "周五还有雨就没去了", []),
        # stretches of days, and several days of one thing
        (SAID, "22-24号我在广州，25号回来", [date(2026, 6, 22), date(2026, 6, 25)]),
        (SAID, "我22号、23号都有考试", [date(2026, 6, 22), date(2026, 6, 23)]),
        (SAID, "周六、周日都加班", [date(2026, 6, 20), date(2026, 6, 21)]),
        (SAID, "22号、23号不去上课", []),
        (SAID, "去年7月15-17号我在上海", []),
        (SAID, "去年7月15号我在上海", []),
        (SAID, "明年7月15号毕业", [date(2027, 7, 15)]),
        # the day on which something was said is not the day of a plan
        (SAID, "我周五说的那家店明天开门", [date(2026, 6, 18)]),
        (SAID, "我周五说的事你还记得", []),
        (SAID, "你周一跟我提过的书我买了", []),
        (SAID, "周五跟你说过，我要搬家", []),
        (SAID, "As I said on Friday, I want to move", []),
        (SAID, "What I told you on Monday still holds", []),
        (SAID, "I told you on Friday that I'm going to quit", []),
        (SAID, "Remember the shop I mentioned on Friday, it opens tomorrow", [date(2026, 6, 18)]),
        (SAID, "I will tell you on Friday how it went", [date(2026, 6, 19)]),
        (SAID, "周五我再跟你说结果", [date(2026, 6, 19)]),
    ],
)
def test_the_days_of_the_plans_of_a_sentence(
    said: datetime, sentence: str, days: list[date]
) -> None:
    assert [plan.day.first for plan in told_plans(sentence, said)] == days
