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
