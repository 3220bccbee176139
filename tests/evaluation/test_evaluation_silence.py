"""Silence: who is asked, and how the threshold and the area under the curve come out."""

from __future__ import annotations

from dataclasses import replace

import pytest
from bench.quality.evaluation import Question, Turn, units_of
from bench.quality.rankers import makers
from bench.quality.silence import Heard, Silence, listen, silence_by, strangers_of
from sample_memories import DAY, NOW

from memory_server.config import Settings
from memory_server.config.recall import parameters

SENTENCES = ["今天天气真好", "晚安", "Good night.", "How are you?"]


def question(
    name: str, text: str, *, conversation_id: str = "小明", language: str = "zh"
) -> Question:
    return Question(name, conversation_id, text, frozenset({f"{conversation_id} 1"}), NOW, language)


def figures(
    right: list[float], wrong: list[float], strangers: list[float], threshold: float = 0.0
) -> Silence:
    """The figures of questions whose first memory is right or wrong with so many points, and of strangers whose
    memories have so many at most."""
    own = [*((points, True) for points in right), *((points, False) for points in wrong)]
    assert len(own) == len(strangers)
    heard = []
    for number, ((points, is_right), most) in enumerate(zip(own, strangers, strict=True)):
        kinds = {
            "own": Heard(points, is_right, points, points >= threshold),
            "small talk": Heard(most, False, most, most >= threshold),
        }
        heard.append(
            (question(f"q{number}", "?", conversation_id=f"chat {number}"), {"search": kinds})
        )
    return silence_by(heard, 1)["search"]["small talk"]


def value(estimate: object) -> float:
    assert estimate is not None
    return estimate.value  # type: ignore[attr-defined]


def test_strangers_are_a_question_of_another_conversation_and_small_talk_in_the_same_script() -> (
    None
):
    chinese = question("q1", "我养了什么？")
    english = question("q2", "What?", conversation_id="Tom", language="en")
    others = [
        question("q3", "我住在哪？", conversation_id="小红"),
        question("q4", "我还养了什么？"),
    ]
    everyone = [chinese, english, *others]
    seen: dict[str, set[str]] = {"unrelated": set(), "small talk": set()}
    for seed in range(30):
        strangers = strangers_of(chinese, everyone, SENTENCES, seed)
        assert strangers == strangers_of(chinese, everyone, SENTENCES, seed)
        for kind, stranger in strangers.items():
            seen[kind].add(stranger.text)
            assert (stranger.conversation_id, stranger.gold) == ("小明", frozenset())
    assert seen == {"unrelated": {"我住在哪？"}, "small talk": {"今天天气真好", "晚安"}}
    assert strangers_of(english, everyone, ["晚安"], 1) == {}


def test_what_was_said_before_the_question_was_said_before_its_strangers_too() -> None:
    turn = Turn("b1", "小红", "user", "吃了吗", NOW)
    asked = replace(question("q1", "我养了什么？"), before=(turn,))
    assert strangers_of(asked, [asked], SENTENCES, 1)["small talk"].before == (turn,)


def test_the_area_is_the_share_of_pairs_in_which_the_question_has_more_points() -> None:
    # 9 pairs: 3 beats 1 and 2 and equals 3; 2 beats 1, equals 2; 5 beats all.
    silence = figures([3.0, 2.0, 5.0], [], [1.0, 2.0, 3.0])
    assert value(silence.area) == pytest.approx((2.5 + 1.5 + 3.0) / 9)


def test_only_questions_whose_first_memory_is_right_are_told_from_strangers() -> None:
    silence = figures([3.0, 4.0], [0.0, 0.0], [1.0, 1.0, 1.0, 2.0])
    assert (silence.right, silence.asked) == (2, 4)
    assert value(silence.area) == 1.0


def test_the_threshold_loses_at_most_one_right_first_answer_of_twenty() -> None:
    right = [float(points) for points in range(1, 21)]
    # One may go: the threshold is 2, which keeps 2 and silences what is below it.
    silence = figures(right, [], [1.0] * 5 + [1.5] * 5 + [2.0] * 5 + [9.0] * 5)
    assert value(silence.silent_95) == 0.5
    assert value(silence.threshold_95) == 2.0
    of_nineteen = figures(right[:19], [0.0], [0.5] * 5 + [1.0] * 15)
    assert value(of_nineteen.silent_95) == 0.25


def test_the_own_threshold_says_what_is_kept_and_what_stays_silent() -> None:
    silence = figures([3.0, 4.0, 1.0, 6.0], [], [1.0, 5.0, 0.0, 2.0], threshold=3.0)
    assert value(silence.kept) == 0.75
    assert value(silence.silent) == 0.75


def test_without_a_right_answer_nothing_can_be_told_apart() -> None:
    silence = figures([], [1.0, 2.0], [1.0, 1.0])
    assert (silence.right, silence.kept, silence.area, silence.silent_95) == (0, None, None, None)
    assert value(silence.silent) == 0.0


def test_the_rankers_are_asked_and_what_they_answer_is_heard() -> None:
    turns = (
        Turn("小明 1", "小明", "user", "我喜欢吃披萨", NOW - 2 * DAY),
        Turn("小明 2", "小明", "user", "周末去登山了", NOW - DAY),
    )
    asked = question("q1", "我喜欢吃披萨吗？")
    others = {"unrelated": "登山", "small talk": "晚安", "one character": "你吃得太多太快了"}
    unrelated = {kind: replace(asked, text=text) for kind, text in others.items()}
    rankers = makers({"search": parameters(Settings(timezone="UTC"))})
    ((heard_of, by_ranker),) = listen([(asked, unrelated)], units_of(turns), rankers)
    assert heard_of == asked
    for name in ("search", "bm25 same words", "bm25 words", "bm25 bigrams", "grep"):
        heard = by_ranker[name]
        assert (heard["own"].right, heard["own"].spoke) == (True, True), name
        assert heard["own"].first == heard["own"].most > heard["small talk"].most, name
        assert (heard["unrelated"].right, heard["unrelated"].spoke) == (False, True), name
        assert not heard["small talk"].spoke, name
    # What the threshold keeps back has points all the same: from these another threshold can be chosen.
    kept_back = by_ranker["search"]["one character"]
    assert not kept_back.spoke
    assert 0.0 < kept_back.most < by_ranker["search"]["own"].most
    assert by_ranker["search"]["small talk"].most == float("-inf")


def test_what_was_just_said_is_not_taken_for_a_memory() -> None:
    turns = (Turn("小明 1", "小明", "user", "我喜欢吃披萨", NOW - 2 * DAY),)
    talk = Turn("小明 2", "小明", "user", "登山登山登山", NOW - DAY)
    asked = replace(question("q1", "我喜欢吃披萨吗？"), before=(talk,))
    rankers = makers({"search": parameters(Settings(timezone="UTC"))})
    ((_, with_talk),) = listen(
        [(asked, {})], units_of((*turns, talk)), {"search": rankers["search"]}
    )
    ((_, without),) = listen([(asked, {})], units_of(turns), {"search": rankers["search"]})
    assert with_talk == without
