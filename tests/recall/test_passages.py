"""Passages of long memories: where a text is cut, which chunks are shown, and that the time is linear."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_server.conversations.recall.passages import chunks_of, passages
from memory_server.kernel.text import BYTES, CHARS, Measure

FILLER = [f"We spoke of weather number {n} for a while." for n in range(400)]


def cut(text: str, longest: int = 120) -> list[str]:
    return [text[chunk.start : chunk.end].strip() for chunk in chunks_of(text, longest)]


def shown(
    *texts: str,
    words: dict[str, float],
    room: int = 300,
    measure: Measure = CHARS,
    spaced: bool = True,
) -> list[str]:
    def match(_: int, text: str) -> dict[str, float]:
        return {word: weight for word, weight in words.items() if word in text}

    return passages(texts, [10] * len(texts), match, room=room, measure=measure, spaced=spaced)


# --- where a text is cut -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "chunks"),
    [
        (
            "It rained all day. We stayed in! Why not?",
            ["It rained all day.", "We stayed in!", "Why not?"],
        ),
        (
            "今天下了一整天的雨。我们没出门！为什么不呢？",
            ["今天下了一整天的雨。", "我们没出门！为什么不呢？"],
        ),
        ("外は一日中雨だった。出かけなかったよ…", ["外は一日中雨だった。", "出かけなかったよ…"]),
        ("他说：“我今天不去公园了。”然后就走了", ["他说：“我今天不去公园了。”", "然后就走了"]),
        (
            "真的吗我不相信你?你看这里有一只猫!太好了",
            ["真的吗我不相信你?", "你看这里有一只猫!", "太好了"],
        ),
        ("他们走得很慢很慢.我们在后面等", ["他们走得很慢很慢.", "我们在后面等"]),
        ("Use Python 3.11 and call freeze.py twice", ["Use Python 3.11 and call freeze.py twice"]),
        ("Test whether a!=b or open x?y=1 instead", ["Test whether a!=b or open x?y=1 instead"]),
        ("1. Install it. Then go on\n2. Start it", ["1. Install it.", "Then go on", "2. Start it"]),
        ("- one thing\n- another thing", ["- one thing", "- another thing"]),
        (
            '(He was there already.) "So was I." Fine then',
            ["(He was there already.)", '"So was I."', "Fine then"],
        ),
        ("Wait....... what is it", ["Wait.......", "what is it"]),
        ("one\u2028two\rthree\n\n \nfour", ["one", "two", "three", "four"]),
        ("", []),
        (" \n\t", []),
    ],
)
def test_a_text_is_cut_where_sentences_and_lines_end(text: str, chunks: list[str]) -> None:
    assert cut(text) == chunks


def test_a_long_sentence_is_cut_after_a_pause() -> None:
    text = (
        "We took the long road by the river, "
        + "and then we walked and walked " * 3
        + "until the evening came"
    )
    parts = cut(text, 60)
    assert "".join(text.split()) == "".join("".join(parts).split())
    assert parts[0] == "We took the long road by the river, and then we walked and"
    assert (
        cut("很长的一句话没有停下来，" * 3 + "完", 30)[0]
        == "很长的一句话没有停下来，很长的一句话没有停下来，"
    )


def test_where_nothing_pauses_a_cut_falls_between_characters() -> None:
    for text in ("👩‍👩‍👧" * 60, "👍🏽" * 60, "e\u0301" * 90):
        for part in cut(text, 40):
            assert part[0] not in "\u200d\u0301🏽"
            assert part[-1] != "\u200d"


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("See:\n```python\nx = 1\n```\nand go on", ["```python", "x = 1", "```"]),
        ("~~~\nx = 1\n```\ny = 2\n~~~\nand go on", ["~~~", "x = 1", "```", "y = 2", "~~~"]),
        ("It never ends:\n```\nx = 1", ["```", "x = 1"]),
        ("class Zebra:\n    def run(self):\n\treturn 1\nDone", ["def run(self):", "return 1"]),
        ("A list:\n    - one\n    2. two\n　　中文的段落", []),
        ("Use ```x``` here", []),
        ("```x``` is short", []),
    ],
)
def test_fenced_and_indented_lines_are_code(text: str, code: list[str]) -> None:
    assert [text[p.start : p.end].strip() for p in chunks_of(text) if p.code] == code


TEXTS = st.text("ab 字。.!?…\n\t`~-1,，'\u200d👍🏽", max_size=400)


@given(TEXTS, st.integers(24, 120))
def test_the_pieces_are_the_whole_text_in_order_and_none_is_too_long(
    text: str, longest: int
) -> None:
    chunks = list(chunks_of(text, longest))
    assert all(0 < chunk.end - chunk.start <= longest for chunk in chunks)
    ends = [0, *(chunk.end for chunk in chunks)]
    starts = [*(chunk.start for chunk in chunks), len(text)]
    between = [text[end:start] for end, start in zip(ends, starts, strict=True)]
    assert not "".join(between).strip()


# --- what is shown -----------------------------------------------------------------------------------------


def test_the_sentence_that_matches_comes_with_those_around_it() -> None:
    text = " ".join([*FILLER[:200], "The drive is under the stairs.", *FILLER[200:]])
    [line] = shown(text, words={"drive": 1.0, "stairs": 1.0}, room=140)
    assert line == (
        "… We spoke of weather number 199 for a while. The drive is under the stairs. "
        "We spoke of weather number 200 for a while. …"
    )


def test_what_is_left_out_in_between_is_an_ellipsis() -> None:
    text = " ".join(["The drive is under the stairs.", *FILLER, "The key to it is red."])
    [line] = shown(text, words={"drive": 1.0, "key": 1.0}, room=75)
    assert line == "The drive is under the stairs. … The key to it is red."
    text = "硬盘在楼梯下面的柜子里。" + "那天的天气很好。" * 90 + "钥匙是红色的。"
    [line] = shown(text, words={"硬盘": 1.0, "钥匙": 1.0}, room=50, spaced=False)
    assert line == "硬盘在楼梯下面的柜子里。那天的天气很好。…那天的天气很好。钥匙是红色的。"


def test_a_word_that_few_sentences_hold_decides() -> None:
    text = " ".join([*FILLER, "Blue it is."])
    [line] = shown(text, words={"weather": 5.0, "Blue": 1.0}, room=100)
    assert line.endswith("Blue it is.")


def test_the_heavier_of_two_words_decides() -> None:
    text = " ".join(["The cat is on the roof.", *FILLER, "The dog is in the yard."])
    assert "cat" in shown(text, words={"cat": 2.0, "dog": 1.0}, room=50)[0]
    assert "dog" in shown(text, words={"cat": 1.0, "dog": 2.0}, room=50)[0]


def test_the_same_words_once_more_are_worth_no_room() -> None:
    text = " ".join(
        [
            "The cat is on the roof.",
            *FILLER[:100],
            "The cat is there.",
            *FILLER[100:],
            "The dog barks.",
        ]
    )
    [line] = shown(text, words={"cat": 1.0, "dog": 0.5}, room=80)
    assert line.startswith("The cat is on the roof. ")
    assert line.endswith("The dog barks.")
    assert line.count("cat") == 1


def test_code_is_left_out_unless_it_is_what_matches() -> None:
    methods = "\n".join(f"    def method_{n}(self):\n        return {n}" for n in range(300))
    text = f"Here it is.\n```python\nclass Zebra:\n{methods}\n```\nThe important point: call freeze() before saving."
    [line] = shown(text, words={"important": 1.0, "Zebra": 0.5}, room=300)
    assert line == "Here it is. … The important point: call freeze() before saving."
    [line] = shown(text, words={"method_17(": 1.0}, room=200)
    assert "def method_17(self): return 17 def method_18" in line
    assert "freeze" not in line


def test_prose_comes_before_code_that_says_the_same() -> None:
    text = f"```\nzebra = 1\n```\n{' '.join(FILLER)}\nThe zebra stands there."
    [line] = shown(text, words={"zebra": 1.0}, room=60)
    assert line.endswith("The zebra stands there.")


def test_the_question_comes_with_its_answer() -> None:
    asked = " ".join([*FILLER[:20], "Where did you put it?"])
    answer = " ".join([*FILLER[20:60], "The drive is under the stairs.", *FILLER[60:]])
    first, second = shown(asked, answer, words={"drive": 1.0}, room=130)
    assert first == "… Where did you put it?"
    assert "The drive is under the stairs." in second


def test_the_answer_comes_with_the_question_that_matches() -> None:
    asked, answer = shown(
        "Which drive?", " ".join(["The red one.", *FILLER]), words={"drive": 1.0}, room=120
    )
    assert (asked, answer[:12]) == ("Which drive?", "The red one.")


def test_where_nothing_matches_the_beginnings_are_shown() -> None:
    code = "```\n" + "x = 1\n" * 90 + "```\n"
    first, second = shown(code + " ".join(FILLER), " ".join(FILLER[9:]), words={}, room=250)
    assert first.startswith("… We spoke of weather number 0 for a while. We spoke")
    assert second.startswith("We spoke of weather number 9 for a while.")
    assert shown(code * 9, words={}, room=60) == ["``` " + "x = 1 " * 7 + "…"]


@pytest.mark.parametrize("position", range(40))
def test_a_word_is_found_wherever_a_text_without_any_pause_is_cut(position: int) -> None:
    text = "很长的话" * 200 + "啊" * position + "冻结" + "很长的话" * 200
    [line] = shown(text, words={"冻结": 1.0}, room=300, measure=BYTES, spaced=False)
    assert "冻结" in line


def test_so_little_room_that_not_even_a_sentence_fits_cuts_it() -> None:
    [line] = shown("x" * 22 + " " + " ".join(FILLER), words={"x": 1.0}, room=40)
    assert line.startswith("xxxxxxxx")
    assert line.endswith("…")
    assert len(line) <= 30


@given(
    st.lists(TEXTS.filter(str.strip), min_size=1, max_size=3),
    st.integers(60, 400),
    st.sampled_from([BYTES, CHARS]),
)
def test_never_more_is_shown_than_there_is_room_for(
    texts: list[str], room: int, measure: Measure
) -> None:
    for words in ({"a": 1.0, "字": 2.0}, {}):
        lines = shown(*texts, words=words, room=room, measure=measure)
        assert sum(10 + measure.length(line) for line in lines if line) <= room
        assert all(line.splitlines() in ([], [line]) for line in lines)


# --- time --------------------------------------------------------------------------------------------------


def looked_at(text: str) -> list[int]:
    """Characters of each text in which words are looked for."""
    lengths: list[int] = []

    def match(_: int, part: str) -> dict[str, float]:
        lengths.append(len(part))
        return {"weather": 1.0} if "weather" in part else {}

    passages([text], [10], match, room=400, measure=CHARS, spaced=True)
    return lengths


@pytest.mark.parametrize(
    "text",
    [
        " ".join(FILLER),
        "a" * 20_000,
        "weather. " * 2_000,
        "." * 20_000 + "a",
        "!" * 20_000 + "a",
        "`" * 20_000,
    ],
    ids=lambda text: text[:12],
)
def test_twice_the_text_is_twice_the_work(text: str) -> None:
    once = sum(looked_at(text))
    twice = sum(looked_at(text * 2))
    assert once <= 2.5 * len(text)
    assert twice <= 2.2 * once


def test_sentences_that_hold_none_of_the_words_are_looked_at_many_at_once() -> None:
    assert len(looked_at("Nothing of that. " * 1_000)) <= 1_000 / 16


def test_beyond_half_a_million_characters_nothing_is_looked_for() -> None:
    assert sum(looked_at("Nothing of that. " * 60_000)) <= 500_000
