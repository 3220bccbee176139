"""Whether one text says that something is no longer as an older one says; where it is doubtful, it does not."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nlp.corrections import MOST_CHARS, has_sign, statement_of


def corrects(newer: str, older: str) -> bool:
    return statement_of(newer).corrects(older)


@pytest.mark.parametrize(
    ("older", "newer"),
    [
        # the same state with another value
        ("Choir is in the chapel, bring a scarf", "Choir is in the gym, the heating works"),
        ("I charge 20 an hour for tutoring", "I charge 30 an hour for tutoring now"),
        ("I work mornings at the florist", "I work mornings at the post office"),
        ("The course starts on the 4th of May", "The course starts on the 11th of May"),
        ("搬家预算三万", "搬家预算五万，多叫了一辆车"),
        ("毕业答辩六月三号开始", "毕业答辩六月八号开始，教室没空出来"),
        ("我最喜欢的画家是莫奈", "我最喜欢的画家是徐渭"),
        ("儿子在第一中学读初二", "儿子在第三中学读高一"),
        # a relation that has one value at a time
        ("I live in Bergen", "I moved to Turin last week"),
        ("I live in Bergen", "Guess what, I live in Turin now"),
        ("我住在宁波", "我们搬到厦门了"),
        ("I work for Novaline", "New badge, I work for Brightly now"),
        ("I'm on the Search team", "I moved to the Billing team"),
        ("I'm in the CET timezone", "I'm now in the EST timezone"),
        ("I'm vegetarian", "I'm vegan now"),
        ("My dentist is Halloran", "Halloran retired, so my dentist is Okoye now"),
        ("my email is ann@example.org", "my email changed to ann@example.net"),
        ("The deadline for Project Heron is May 3", "Project Heron's deadline is now June 1"),
        ("please update my address, it is Flat 2", "The address is Flat 9, I moved"),
        # something ended
        ("I'm in the rowing club", "I'm not in the rowing club any more"),
        ("I'm allergic to cats", "Good news, I'm not allergic after all!"),
        ("I'm planning a trip to Norway", "Norway's off, we stay here"),
        ("我在学钢琴", "钢琴不学了"),
        ("我在吃素，闻到肉就难受", "吃素太难了，戒了"),
        # relations with one value
        ("You can call me Bunny", "Please call me Robert"),
        ("你叫我小王吧", "以后改叫王老师吧"),
        ("快递填这个号:128 0021 7745", "我换了个号，现在是129 6630 2218"),
        ("I can't stand olives", "I really love olives"),
        ("我最烦榴莲", "现在我爱吃榴莲"),
        # as telephones write it
        ("Choir’s in the chapel, bring a scarf", "Choir’s in the gym, the heating works"),
        ("I’m in the rowing club", "I’m not in the rowing club any more"),
    ],
)
def test_corrections(older: str, newer: str) -> None:
    assert corrects(newer, older)
    assert has_sign(older, statement_of(newer).signs()), "only memories with a sign are compared"
    assert not corrects(newer, newer)


@pytest.mark.parametrize(
    ("older", "newer"),
    [
        # what many things are said of
        ("Let's keep going and reach success!", "Let's keep each other going. We can do it!"),
        ("Let's go to a dance class", "Let's go for it and make an impact"),
        (
            "Those colors are so vivid and the whole thing looks unified.",
            "Those colors are so vivid, it looks like a sunset",
        ),
        ("A lot's happened since we last talked, I joined a club", "A lot's happened since we met"),
        ("I live in Bergen", "My sister lives in Turin now"),
        ("My manager is Dana", "My manager is tired"),
        ("Dana's manager is Priya", "Dan's manager is Sam"),
        ("The deadline for Project Heron is May 3", "The deadline for Project Otter is June 1"),
        ("my email is ann@example.org", "my email signature is Ann"),
        ("My former employer is Novaline", "My employer is Brightly"),
        ("I'm vegetarian", "I'm exhausted now"),
        ("I was expecting Oscar", "I wasn't expecting any more surprises"),
        ("I think it's because of the young", "I think it's because fish are dull"),
        ("I live in Oslo, and love it", "I live in a dorm on my own"),
        # two things
        ("我家黑狗叫阿福", "我家黄狗叫阿寿"),
        ("Our terrier, Max, barks", "The big one, Rex, sleeps"),
        # somebody else
        ("My sister's in Oslo", "My brother's in Turin"),
        ("I don't eat fish", 'My uncle said "I love fish"'),
        ("我对花生过敏", "我室友说他花生不吃了"),
        # a question, a condition, a joke, a wish
        ("I work mornings at the florist", "What if I work mornings at the post office?"),
        ("We live in Bergen", "Imagine if we live in Rome"),
        ("我一天吃两顿", "我一天吃八顿！开玩笑的"),
        # for a time
        ("I live in the old town", "This week I live in my office"),
        ("我住在城东的小公寓", "这周先住在我妈那儿"),
        # the same, in other words, and a list
        ("I love olives", "I really love olives"),
        ("I work mornings at the florist", "I also work mornings at the bakery"),
        # what happens once
        ("I went to the gym with Tom", "I went to the pool with Tom"),
        ("昨天跑了五公里", "昨天跑了六公里"),
        # both are true
        ("I live in Munich.", "I live in a small flat."),
        ("I work in Berlin.", "I work in marketing."),
        ("I pay for Netflix.", "I pay for Spotify."),
        ("I eat meat on Sundays.", "I don't eat meat on Fridays."),
        ("I love swimming in the sea.", "I hate swimming pools."),
        ("I take the bus.", "I take the stairs."),
        ("The meeting is on Monday.", "The meeting is in Berlin."),
        ("My phone is 5551234567", "Order number 5557654321 arrived"),
        ("我的手机13812345678", "快递单号98765432100"),
        ("我喜欢北京", "我不喜欢北京烤鸭"),
        ("我家里有3口人", "我家里有2辆车"),
        ("叫我小明吧", "明天叫我起床"),
        # nothing that ended is told of
        ("I'm in the rowing club", "I'm not hungry any more"),
        ("I love the sea", "I don't play it any more"),
    ],
)
def test_when_unsure_nothing_is_corrected(older: str, newer: str) -> None:
    assert not corrects(newer, older)


def test_long_texts_correct_nothing() -> None:
    newer = "I'm not in the rowing club any more. " + "x" * MOST_CHARS
    assert statement_of(newer) == statement_of("")


@given(st.text(max_size=300), st.text(max_size=300))
def test_no_text_is_too_much(newer: str, older: str) -> None:
    corrects(newer, older)
    assert not corrects(older, older)
