"""What the usual parameters add to the Node original: rarity, pairs of characters, what was said around, silence.

The indexed selection and the plain one must agree; the Node original's own rules are in test_selection.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sample_memories import DAY, HOUR, MINUTE, NOW

from memory_server import open_memory
from memory_server.conversations.changes import Added, Forgotten, apply
from memory_server.conversations.model import ConversationState, ShortTermMemory
from memory_server.conversations.recall import selection
from memory_server.conversations.recall.columns import Searched
from memory_server.conversations.recall.index import Index, index_of
from memory_server.conversations.recall.indexed_selection import decide
from memory_server.conversations.recall.parameters import USUAL, RecallParameters
from memory_server.conversations.recall.relevance import match_needed, rarity, receipts
from memory_server.conversations.recall.selection import Recall
from memory_server.conversations.recall.words import KeywordOptions, RecallQuery
from memory_server.kernel.messages import Message, context_text
from memory_server.memories.turns import recall_for_turn
from nlp import Enrichment, QueryWeights

WORDING = KeywordOptions(
    enrichment=Enrichment(normal_forms=True, scripts=True, dates=True, stems=True, long_texts=True),
    emphasis=QueryWeights(earlier=0.7, before_question=0.1, function_words=0.5, relative_days=0.3, pairs=0.3),
    zone=UTC,
)
ALL = replace(USUAL, least_match=0.0, flashback_count=0)
"""Nothing is kept back for saying little."""


def said(memory_id: str, *texts: str, age: int = DAY, score: float = 0.0) -> ShortTermMemory:
    """A memory of a user's first text and a companion's others."""
    roles = ["user", *["assistant"] * (len(texts) - 1)]
    messages = tuple(Message(role, text) for role, text in zip(roles, texts, strict=True))  # type: ignore[arg-type]
    bare = ShortTermMemory(memory_id, NOW - age, context_text(messages), (), (), score, "chat", messages)
    return WORDING.of_text(bare)


def asked(memories: Sequence[ShortTermMemory], *texts: str, parameters: RecallParameters = USUAL) -> Recall:
    """What comes by these messages of the user, after seeing that the plain form decides the same."""
    query = WORDING.of_query([Message("user", text) for text in texts], NOW)
    about = {"conversation_id": "other", "now_ms": NOW, "parameters": parameters}
    index = Index(memories, WORDING)
    found = decide([Searched({m.id: m for m in memories}, index)], query, rng=Random(1), **about).recall  # type: ignore[arg-type]
    plain = selection.select(memories, query, rng=Random(1), wording=WORDING, **about)  # type: ignore[arg-type]
    same(found, plain)
    return found


def same(found: Recall, plain: Recall) -> None:
    """Both came to the same, but for the last bits of sums."""
    for tier in ("top", "next", "flashback"):
        ours, theirs = getattr(found, tier), getattr(plain, tier)
        assert [item.memory.id for item in ours] == [item.memory.id for item in theirs]
        for one, other in zip(ours, theirs, strict=True):
            assert [word.word for word in one.receipt.matched] == [word.word for word in other.receipt.matched]
            assert one.weak == other.weak
            assert one.receipt.relevance == pytest.approx(other.receipt.relevance, rel=1e-9, abs=1e-9)
    assert found.held_back == plain.held_back
    assert {asking: said.id for asking, said in found.answers.items()} == {
        asking: said.id for asking, said in plain.answers.items()
    }


def ids(recall: Recall) -> list[str]:
    return [item.memory.id for item in (*recall.top, *recall.next)]


TEXTS = ["我的狗叫阿黄", "阿黄今天没吃饭", "去楼下的面馆吃面", "猫の名前は？", "피아노를 배워요", "哈哈哈哈", "a bike",
         "the bikes", "what do we do", "阿黄很好。阿黄！", "", "\U0001f600 阿\ud800黄", "狗和猫和狗",
         "我家猫叫什么？", "6月阿黄病了吗", "When did the biekes rust last week?", "who has bikes? Ann",
         "多少只狗？3只", "yesterday, Hanna"]  # fmt: skip


@given(
    st.lists(
        st.tuples(
            st.lists(st.sampled_from(TEXTS), min_size=1, max_size=3),
            st.integers(0, 300),
            st.sampled_from([0.0, 5.0, 90.0]),
            st.booleans(),
        ),
        max_size=12,
    ),
    st.lists(st.sampled_from(TEXTS), min_size=1, max_size=3),
    st.sampled_from(
        [
            USUAL,
            ALL,
            replace(ALL, rarity=False, episode_share=0.0),
            replace(USUAL, weak_too=True, reordered=1),
            replace(USUAL, with_best=0.1),
        ]
    ),
)
def test_the_index_decides_as_the_plain_form_whatever_came_and_went(
    facts: list[tuple[list[str], int, float, bool]], question: list[str], parameters: RecallParameters
) -> None:
    state = ConversationState("chat")
    index = index_of(state, WORDING)
    for number, (texts, age, score, goes) in enumerate(facts):
        made = said(f"m{number}", *texts, age=age * 7 * MINUTE, score=score)
        apply(state, [Added(made), *([Forgotten(made, "deleted")] if goes else [])])
    assert state.follower is index
    query = WORDING.of_query([Message("user", text) for text in question], NOW)
    about = {"conversation_id": "other", "now_ms": NOW, "parameters": parameters}
    memories = state.short_term
    found = decide([Searched(memories, index)], query, rng=Random(3), **about).recall  # type: ignore[arg-type]
    plain = selection.select(memories.values(), query, rng=Random(3), wording=WORDING, **about)  # type: ignore[arg-type]
    same(found, plain)
    fresh = decide([Searched(memories, Index(memories.values(), WORDING))], query, rng=Random(3), **about).recall  # type: ignore[arg-type]
    same(found, fresh)


def test_several_conversations_are_searched_as_the_plain_form_would_each_with_its_own_episodes() -> None:
    ours = [said("a", "我的狗叫阿黄", age=DAY), said("b", "今天下雨", age=DAY - 5 * MINUTE)]
    theirs = [said("c", "阿黄病了", age=DAY - 2 * MINUTE)]
    parts = [Searched({m.id: m for m in group}, Index(group, WORDING), name) for name, group in
             (("x", ours), ("y", theirs))]  # fmt: skip
    query = WORDING.of_query([Message("user", "阿黄几岁？")], NOW)
    found = decide(parts, query, conversation_id="z", now_ms=NOW, rng=Random(1), parameters=ALL).recall
    assert {(item.memory.id, item.kept_in) for item in found.top} == {("a", "x"), ("c", "y")}
    [alone] = receipts([theirs[0]], query, now_ms=NOW, parameters=ALL, wording=WORDING)
    of_c = next(item.receipt for item in found.top if item.memory.id == "c")
    assert (of_c.around, alone.around) == (0.0, 0.0), "memories of another conversation are not around it"


@pytest.mark.parametrize(
    ("memory", "question"),
    [
        ("我的狗叫阿黄", "阿黄几岁？"),
        ("うちの猫の名前はミケです", "猫の名前は？"),
        ("오늘 피아노를 쳤어요", "피아노"),
        ("Бабушка пекла пироги", "Где пирог?"),
        ("My bike has a flat tyre", "Where are the bikes?"),
        ("We moved the websocket into its own module", "How do websockets work here?"),
        ("Two commits broke the build", "Which commit was it?"),
    ],
)
def test_endings_and_names_that_no_dictionary_has_are_found(memory: str, question: str) -> None:
    assert ids(asked([said("a", memory), said("b", "别的事情", age=9 * DAY)], question)) == ["a"]


def test_a_word_said_once_in_two_thousand_words_is_found() -> None:
    filler = " ".join(f"word{number % 700} thing{number}" for number in range(1_000))
    text = f"{filler[:4000]} The backup drive is under the staircase. {filler[4000:]}"
    memories = [said("a", "Where did we put things?", text), said("b", "I like tea", age=2 * DAY)]
    assert ids(asked(memories, "Which drive is under the staircase?")) == ["a"]


def test_a_sentence_said_once_in_eight_thousand_characters_is_found() -> None:
    filler = "今天开会讨论了很多别的安排，大家都说了自己的看法，最后没有结论。" * 130
    text = f"{filler[:4000]}备份硬盘放在楼梯下面。{filler[4000:8000]}"
    memories = [said("a", "东西放哪儿了？", text), said("b", "我喜欢喝茶", age=2 * DAY)]
    assert ids(asked(memories, "楼梯下面有什么硬盘？")) == ["a"]


def test_other_talk_before_the_question_does_not_drown_it() -> None:
    memories = [
        said("right", "Acme's customers export is two gigabytes", age=3 * DAY),
        *(said(f"m{n}", f"the weather was lovely on the beach number{n}", age=(n + 4) * DAY) for n in range(3)),
    ]
    talk = "What lovely weather on the beach", "Yes, the beach was lovely", "The weather stays lovely"
    assert ids(asked(memories, *talk, "How big is the customers export for Acme?"))[0] == "right"


def test_a_word_that_many_memories_hold_counts_less_and_one_that_a_single_one_holds_counts_whole() -> None:
    memories = [said(f"m{n}", f"port database number{n}", age=(n + 1) * DAY) for n in range(150)]
    memories.append(said("a", "port staging", age=200 * DAY))
    [of_a] = [item for item in asked(memories, "port staging").top if item.memory.id == "a"]
    factors = {word.word: word.factor for word in of_a.receipt.matched}
    assert factors["stage"] == 1.0
    assert factors["port"] == rarity(151, 151) < 0.01


def test_what_all_of_a_few_memories_are_about_is_still_found() -> None:
    memories = [said(f"m{n}", "pizza", age=(n + 1) * DAY) for n in range(10)]
    assert len(ids(asked(memories, "pizza"))) == 3


def test_a_memory_gains_from_what_was_said_around_it_but_not_from_another_hour() -> None:
    near = [said("a", "the boat is called Heron", age=DAY), said("b", "Heron leaks", age=DAY - 10 * MINUTE)]
    far = said("c", "Heron is slow", age=3 * DAY)
    found = {item.memory.id: item.receipt for item in asked([*near, far], "Heron boat", parameters=ALL).top}
    assert found["a"].around > 0.0
    assert [item.receipt.around for item in asked([far], "Heron boat", parameters=ALL).top] == [0.0]
    assert "from what was said around it" in found["a"].line()


def test_a_memory_that_shares_nothing_comes_neither_by_its_score_nor_by_its_neighbours() -> None:
    memories = [
        said("loved", "completely different", score=100.0, age=DAY),
        said("a", "the boat is called Heron", age=DAY - 5 * MINUTE),
    ]
    assert ids(asked(memories, "Heron boat")) == ["a"]
    assert ids(asked(memories, "sunny weather")) == []


def test_a_score_counts_no_more_than_its_ceiling() -> None:
    memories = [said("loved", "Heron is a boat", score=100.0, age=DAY), said("new", "Heron is a bird", age=2 * HOUR)]
    scores = {item.memory.id: item.receipt.score for item in asked(memories, "Heron").top}
    assert scores == {"loved": 10.0, "new": 0.0}


def test_three_of_the_same_ten_minutes_may_come_and_no_fourth() -> None:
    memories = [said(f"m{n}", f"Heron leaks number{n}", age=DAY + n * MINUTE) for n in range(4)]
    found = asked(memories, "Why does the Heron leak?")
    assert len(ids(found)) == 3
    assert found.held_back.adjacent == 1


@pytest.mark.parametrize(
    "talk", ["Good morning!", "haha thanks", "今天天气真好", "哈哈哈", "What do you think?", "早上好呀"]
)
def test_small_talk_brings_nothing(talk: str) -> None:
    memories = [
        said("a", "My sister Hanna is visiting from Oslo", "What does she like?", age=2 * DAY),
        said("b", "The staging database listens on port 5433", "Noted.", age=3 * DAY),
        said("c", "小明对芒果过敏", "记住了，不会给他芒果。", age=4 * DAY),
    ]
    assert ids(asked(memories, talk)) == []


@pytest.mark.parametrize(
    ("question", "grows_beyond"), [(False, (0, 12, 300, 3_000, 100_000)), (True, (0, 12, 300, 300, 300))]
)
def test_the_bound_grows_with_the_number_of_memories_after_a_question_up_to_300(
    question: bool, grows_beyond: tuple[int, ...]
) -> None:
    query = RecallQuery(question=question)
    bounds = [match_needed(count, query, USUAL) for count in (0, 12, 300, 3_000, 100_000)]
    assert bounds == [match_needed(count, query, USUAL) for count in grows_beyond] == sorted(bounds)
    assert bounds[0] == bounds[1] < bounds[2]
    share = USUAL.question_match if question else USUAL.statement_match
    assert bounds[2] == pytest.approx(share * USUAL.least_match)
    assert match_needed(10, query, RecallParameters()) == 0.0


@pytest.mark.anyio
async def test_the_names_of_who_takes_part_and_of_who_speaks_are_never_cut(tmp_path: Path) -> None:
    async with open_memory(tmp_path) as memory:
        chat = memory.conversation("小明")
        said_by = await chat.short_term.add([Message("user", "龙胆阿芙来了", name="龙胆阿芙")])
        assert "龙胆阿芙" in said_by.memory.words
        messages = [Message("user", "龙胆阿芙在哪里？")]
        for participants in ({"character": "龙胆阿芙"}, {"character": {"name": "龙胆阿芙"}}):
            found = await recall_for_turn(chat, messages, participants=participants)
            assert "龙胆阿芙" in found.found.recall.query.words
        assert "龙胆阿芙" not in (await recall_for_turn(chat, messages)).found.recall.query.words


def test_a_name_is_found_whole_and_by_its_parts() -> None:
    kept = WORDING.of_text(
        ShortTermMemory(
            "m", NOW, "", (), (), 0.0, "chat", (Message("user", "Mary Ann moved to Lisbon", name="Mary Ann"),)
        )
    )
    assert {"mary ann", "mari", "ann", "lisbon"} <= set(kept.words)
    cut = WORDING.of_text(ShortTermMemory("m", NOW, "", (), (), 0.0, "chat", (Message("user", "周末爬山", name="周"),)))
    assert "周末" in cut.words


def test_however_heavy_a_memory_is_others_are_found_beside_it() -> None:
    heavy = replace(said("heavy", "猫猫咪咪阿黄" * 50), role_weights={"user": 1e6})
    memories = [heavy, said("a", "我的狗叫阿黄", age=2 * DAY)]
    assert set(ids(asked(memories, "阿黄在哪里？"))) == {"heavy", "a"}


def test_a_question_gives_five_matches_and_nothing_by_chance() -> None:
    memories = [said(f"m{n}", f"Heron leaks number{n}", age=(n + 1) * DAY) for n in range(9)]
    found = asked(memories, "Where does the Heron leak?")
    assert (len(ids(found)), len(found.flashback)) == (5, 0)
    found = asked(memories, "The Heron leaks.")
    assert (len(ids(found)), len(found.flashback)) == (3, 2)
    assert len(asked(memories, "What about quinces?").flashback) == 2


def test_who_asked_for_memories_gets_the_best_there_is_and_what_is_weak_gains_nothing() -> None:
    memories = [said("weak", "the weather was fine and the boat went well and slowly", age=DAY)]
    memories += [said(f"m{n}", f"other talk number{n}", age=(n + 2) * DAY) for n in range(400)]
    talk = "We had some cold weather, and nobody came to see the garden or the new bridge"
    high = replace(USUAL, least_match=60.0)
    assert ids(asked(memories, talk, parameters=high)) == []
    found = asked(memories, talk, parameters=replace(high, weak_too=True))
    assert [(item.memory.id, item.weak) for item in found.top] == [("weak", True)]
    assert list(found.gains(USUAL)) == []


def test_after_a_statement_a_memory_that_comes_brings_those_that_are_nearly_as_relevant() -> None:
    memories = [said("best", "The Heron has a leaking hull"), said("near", "We sailed to Quinceport", age=3 * DAY)]
    memories += [said("little", "A long story about nothing, told slowly by a quiet man in a green coat", age=5 * DAY)]
    memories += [said(f"m{n}", f"other talk number{n}", age=(n + 6) * DAY) for n in range(300)]
    talk = ("It was quiet.", "Quinceport was warm.", "The Heron was there too")
    found = asked(memories, *talk)
    assert [(item.memory.id, item.weak) for item in (*found.top, *found.next)] == [("best", False), ("near", True)]
    assert ids(asked(memories, *talk, parameters=replace(USUAL, with_best=0.0))) == ["best"]
    assert "little" in ids(asked(memories, *talk, parameters=replace(USUAL, with_best=0.01)))
    assert ids(asked(memories, talk[1], "I see.")) == []  # none comes that could bring others
    assert ids(asked(memories, talk[1], "Which hull leaks, that of the Heron?")) == ["best"]


def test_a_rare_character_that_is_a_word_of_a_question_counts_as_a_word() -> None:
    memories = [said("right", "捡到一只橘猫，很乖", age=DAY)]
    memories += [said(f"m{n}", f"今天开会，讨论了第{n}个方案", age=(n + 2) * DAY) for n in range(400)]
    assert ids(asked(memories, "我家猫几岁？"))[:1] == ["right"]
    assert ids(asked(memories, "我家猫几岁？", parameters=replace(USUAL, few_holders=0))) == []


def test_of_the_same_words_those_of_the_named_time_come_first() -> None:
    memories = [said(f"m{days}", "我们去爬山了", age=days * DAY) for days in (3, 40, 80, 200)]
    assert ids(asked(memories, "上个月爬山累吗？"))[0] == "m40"  # NOW is 21 June 2026


def test_a_word_that_no_memory_has_stands_for_one_that_is_spelt_alike() -> None:
    memories = [said("a", "The websocket was closed", age=DAY), said("b", "I like tea", age=2 * DAY)]
    found = asked(memories, "Which webscoket was it?")
    assert ids(found) == ["a"]
    assert [word.factor for word in found.top[0].receipt.matched if word.word == "websocket"] == [USUAL.typo_factor]


@pytest.mark.parametrize("question", ["webscoket websocket", "websocket webscoket"])
def test_a_word_that_is_also_spelt_right_counts_in_full(question: str) -> None:
    found = asked([said("a", "The websocket was closed", age=DAY), said("b", "I like tea", age=2 * DAY)], question)
    assert [word.factor for word in found.top[0].receipt.matched if word.word == "websocket"] == [1.0]


def test_a_memory_that_ends_with_a_question_brings_what_was_said_next() -> None:
    memories = [
        said("asks", "I want to name the boat", "What is the boat called?", age=DAY),
        said("answers", "Heron", "Noted.", age=DAY - 2 * MINUTE),
        said("later", "I like tea", age=DAY - 3 * HOUR),
    ]
    found = asked(memories, "the boat name")
    assert {asking: one.id for asking, one in found.answers.items()} == {"asks": "answers"}


def test_where_two_words_are_needed_the_characters_of_one_do_not_count() -> None:
    hooks = replace(ALL, statement_words=2)
    dream = said("a", "梦见代码编译成了雨")
    for asking, comes in (("帮我把这段代码改成异步的", False), ("梦见代码了", True)):
        assert bool(asked([dream], asking, parameters=hooks).top) is comes
        assert asked([dream], asking, parameters=ALL).top
