"""What the usual parameters add to the Node original: rarity, pairs of characters, what was said around, silence.

The Node original's own rules are in test_selection.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import inf
from pathlib import Path
from random import Random

import pytest
from bench.quality.evaluation import SAMPLE, load_dataset
from sample_memories import DAY, HOUR, MINUTE, NOW
from searched_memories import USUAL_WORDING, decided, searched_memories

from memory_server import open_memory
from memory_server.conversations.model import ShortTermMemory
from memory_server.conversations.recall.indexed_selection import decide
from memory_server.conversations.recall.parameters import USUAL, RecallParameters
from memory_server.conversations.recall.relevance import match_needed, rarity, receipts
from memory_server.conversations.recall.request import RecallContext, RecallRequest
from memory_server.conversations.recall.selection import Recall
from memory_server.conversations.recall.words import RecallQuery
from memory_server.kernel.messages import Message, context_text
from memory_server.memories.turns import recall_for_turn

ALL = replace(USUAL, least_match=0.0, flashback_count=0)
"""Nothing is kept back for saying little."""


def memory_of(memory_id: str, *texts: str, age: int = DAY, score: float = 0.0) -> ShortTermMemory:
    """A memory of a user's first text and a companion's others."""
    roles = ["user", *["assistant"] * (len(texts) - 1)]
    messages = tuple(Message(role, text) for role, text in zip(roles, texts, strict=True))  # type: ignore[arg-type]
    bare = ShortTermMemory(
        memory_id, NOW - age, context_text(messages), (), (), score, "chat", messages
    )
    return USUAL_WORDING.of_text(bare)


def recall_of(
    memories: Sequence[ShortTermMemory], *texts: str, parameters: RecallParameters = USUAL
) -> Recall:
    """What comes by these messages of the user."""
    query = USUAL_WORDING.of_query([Message("user", text) for text in texts], NOW)
    return decided(
        memories, query, parameters, wording=USUAL_WORDING, conversation_id="other"
    ).recall


def answer_ids(recall: Recall) -> dict[str, str]:
    return {question: answer.id for question, answer in recall.answers.items()}


def ids(recall: Recall) -> list[str]:
    return [item.memory.id for item in (*recall.top, *recall.next)]


BESIDE = replace(
    USUAL_WORDING,
    emphasis=replace(USUAL_WORDING.emphasis, given=1.0, given_for_question=0.6, kept=0.7),
)
"""Words beside the messages and beside the memories count too."""


def test_words_beside_count_only_where_a_weight_says_so() -> None:
    for message in ("Where is the boat?", "The boat is here."):
        counts = BESIDE.of_query([Message("user", message)], NOW, other_words=["bicycle"])
        assert any(term.other_word for term in counts.words.values())
        nothing = USUAL_WORDING.of_query([Message("user", message)], NOW, other_words=["bicycle"])
        assert not any(term.other_word for term in nothing.words.values())


def test_several_conversations_are_searched_as_the_plain_form_would_each_with_its_own_episodes() -> (
    None
):
    ours = [
        memory_of("a", "我的狗叫阿黄", age=DAY),
        memory_of("b", "今天下雨", age=DAY - 5 * MINUTE),
    ]
    theirs = [memory_of("c", "阿黄病了", age=DAY - 2 * MINUTE)]
    parts = [
        searched_memories(ours, USUAL_WORDING, conversation_id="x"),
        searched_memories(theirs, USUAL_WORDING, conversation_id="y"),
    ]
    query = USUAL_WORDING.of_query([Message("user", "阿黄几岁？")], NOW)
    recall = decide(
        parts, query, RecallContext(conversation_id="z", now_ms=NOW, rng=Random(1), parameters=ALL)
    ).recall
    assert {(item.memory.id, item.kept_in) for item in recall.top} == {("a", "x"), ("c", "y")}
    [alone] = receipts([theirs[0]], query, now_ms=NOW, parameters=ALL, wording=USUAL_WORDING)
    of_c = next(item.receipt for item in recall.top if item.memory.id == "c")
    assert (of_c.around, alone.around) == (0.0, 0.0), (
        "memories of another conversation are not around it"
    )


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
    assert ids(
        recall_of([memory_of("a", memory), memory_of("b", "别的事情", age=9 * DAY)], question)
    ) == ["a"]


def test_a_word_said_once_in_two_thousand_words_is_found() -> None:
    filler = " ".join(f"word{number % 700} thing{number}" for number in range(1_000))
    text = f"{filler[:4000]} The backup drive is under the staircase. {filler[4000:]}"
    memories = [
        memory_of("a", "Where did we put things?", text),
        memory_of("b", "I like tea", age=2 * DAY),
    ]
    assert ids(recall_of(memories, "Which drive is under the staircase?")) == ["a"]


def test_a_sentence_said_once_in_eight_thousand_characters_is_found() -> None:
    filler = "今天开会讨论了很多别的安排，大家都说了自己的看法，最后没有结论。" * 130
    text = f"{filler[:4000]}备份硬盘放在楼梯下面。{filler[4000:8000]}"
    memories = [memory_of("a", "东西放哪儿了？", text), memory_of("b", "我喜欢喝茶", age=2 * DAY)]
    assert ids(recall_of(memories, "楼梯下面有什么硬盘？")) == ["a"]


def test_other_talk_before_the_question_does_not_drown_it() -> None:
    memories = [
        memory_of("right", "Acme's customers export is two gigabytes", age=3 * DAY),
        *(
            memory_of(f"m{n}", f"the weather was lovely on the beach number{n}", age=(n + 4) * DAY)
            for n in range(3)
        ),
    ]
    talk = (
        "What lovely weather on the beach",
        "Yes, the beach was lovely",
        "The weather stays lovely",
    )
    assert (
        ids(recall_of(memories, *talk, "How big is the customers export for Acme?"))[0] == "right"
    )


def test_a_word_that_many_memories_hold_counts_less_and_one_that_a_single_one_holds_counts_whole() -> (
    None
):
    memories = [
        memory_of(f"m{n}", f"port database number{n}", age=(n + 1) * DAY) for n in range(150)
    ]
    memories.append(memory_of("a", "port staging", age=200 * DAY))
    [of_a] = [item for item in recall_of(memories, "port staging").top if item.memory.id == "a"]
    factors = {word.word: word.factor for word in of_a.receipt.matched}
    assert factors["stage"] == 1.0
    assert factors["port"] == rarity(151, 151) < 0.01


def test_what_all_of_a_few_memories_are_about_is_still_found() -> None:
    memories = [memory_of(f"m{n}", "pizza", age=(n + 1) * DAY) for n in range(10)]
    assert len(ids(recall_of(memories, "pizza"))) == 3


def test_a_memory_gains_from_what_was_said_around_it_but_not_from_another_hour() -> None:
    near = [
        memory_of("a", "the boat is called Heron", age=DAY),
        memory_of("b", "Heron leaks", age=DAY - 10 * MINUTE),
    ]
    far = memory_of("c", "Heron is slow", age=3 * DAY)
    question = "Which boat is Heron?"
    receipts_by_id = {
        item.memory.id: item.receipt
        for item in recall_of([*near, far], question, parameters=ALL).top
    }
    assert receipts_by_id["a"].around > 0.0
    assert [item.receipt.around for item in recall_of([far], question, parameters=ALL).top] == [0.0]
    assert "from what was said around it" in receipts_by_id["a"].line()
    after_statement = recall_of([*near, far], "Heron is a boat", parameters=ALL).top
    assert [item.receipt.around for item in after_statement] == [0.0] * len(after_statement)


def test_a_memory_that_shares_nothing_comes_neither_by_its_score_nor_by_its_neighbours() -> None:
    memories = [
        memory_of("loved", "completely different", score=100.0, age=DAY),
        memory_of("a", "the boat is called Heron", age=DAY - 5 * MINUTE),
    ]
    assert ids(recall_of(memories, "Heron boat")) == ["a"]
    assert ids(recall_of(memories, "sunny weather")) == []


def test_a_score_counts_no_more_than_its_ceiling() -> None:
    memories = [
        memory_of("loved", "Heron is a boat", score=100.0, age=DAY),
        memory_of("new", "Heron is a bird", age=2 * HOUR),
    ]
    scores = {item.memory.id: item.receipt.score for item in recall_of(memories, "Heron").top}
    assert scores == {"loved": 10.0, "new": 0.0}


def test_three_of_the_same_ten_minutes_may_come_and_no_fourth() -> None:
    memories = [
        memory_of(f"m{n}", f"Heron leaks number{n}", age=DAY + n * MINUTE) for n in range(4)
    ]
    recall = recall_of(memories, "Why does the Heron leak?")
    assert len(ids(recall)) == 3
    assert recall.held_back.adjacent == 1


@pytest.mark.parametrize(
    "talk",
    ["Good morning!", "haha thanks", "今天天气真好", "哈哈哈", "What do you think?", "早上好呀"],
)
def test_small_talk_brings_nothing(talk: str) -> None:
    memories = [
        memory_of("a", "My sister Hanna is visiting from Oslo", "What does she like?", age=2 * DAY),
        memory_of("b", "The staging database listens on port 5433", "Noted.", age=3 * DAY),
        memory_of("c", "小明对芒果过敏", "记住了，不会给他芒果。", age=4 * DAY),
    ]
    assert ids(recall_of(memories, talk)) == []


@pytest.mark.parametrize("greeting", ["早", "早啊早啊", "早～", "晚安啦", "睡了 晚安", "早安"])
def test_a_greeting_brings_no_older_greeting(greeting: str) -> None:
    memories = [
        memory_of("a", "早啊", "早，今天有什么安排？", age=2 * DAY),
        memory_of("b", "晚安", "晚安，好梦。", age=3 * DAY),
        memory_of("c", "我早起跑步，睡前看书", "真自律。", age=4 * DAY),
    ]
    assert ids(recall_of(memories, greeting)) == []
    assert "c" in ids(recall_of(memories, "我早起"))


@pytest.mark.parametrize(
    ("question", "grows_beyond"),
    [(False, (0, 12, 300, 900, 900)), (True, (0, 12, 300, 300, 300))],
)
def test_the_bound_grows_with_memories_up_to_300_and_after_a_statement_900(
    question: bool, grows_beyond: tuple[int, ...]
) -> None:
    query = RecallQuery(question=question)
    bounds = [match_needed(count, query, USUAL) for count in (0, 12, 300, 3_000, 100_000)]
    assert bounds == [match_needed(count, query, USUAL) for count in grows_beyond] == sorted(bounds)
    assert bounds[0] == bounds[1] < bounds[2]
    share = USUAL.question_match if question else USUAL.statement_match
    assert bounds[2] == pytest.approx(share * USUAL.least_match)
    assert match_needed(10, query, RecallParameters()) == 0.0


def test_the_bound_grows_with_the_words_of_a_long_message_that_say_something() -> None:
    counts = (0, 1, 8, 16, 32)
    bounds = [match_needed(300, RecallQuery(telling_words=count), USUAL) for count in counts]
    assert bounds[0] == bounds[1] == bounds[2]
    assert bounds[3] == pytest.approx(2**0.5 * bounds[2])
    assert bounds[4] == pytest.approx(2 * bounds[2])
    never_longer = replace(USUAL, long_message_words=inf)
    assert match_needed(300, RecallQuery(telling_words=32), never_longer) == bounds[0]


def test_words_that_say_something_are_counted_in_the_last_message_alone() -> None:
    messages = [Message("user", "The harbour was full of boats"), Message("user", "we saw a heron")]
    query = USUAL_WORDING.of_query(messages, NOW, other_words=("bird", "marsh"))
    assert query.telling_words == 2  # saw, heron


def test_a_long_message_that_shares_one_word_by_chance_brings_nothing() -> None:
    memories = [memory_of("heron", "The heron stood beside the old bridge")]
    memories += [memory_of(f"m{n}", f"other talk number{n}", age=(n + 2) * DAY) for n in range(300)]
    aside = "A heron"
    long_talk = (
        "The heron exhibition opens tomorrow with lectures, guided tours, paintings, workshops, "
        "music, dinner, fireworks, dancing and prizes for young photographers"
    )
    assert ids(recall_of(memories, aside)) == ["heron"]
    assert ids(recall_of(memories, long_talk)) == []
    never_longer = replace(USUAL, long_message_words=inf)
    assert ids(recall_of(memories, long_talk, parameters=never_longer)) == ["heron"]


def test_what_is_far_below_the_best_comes_only_to_who_asked() -> None:
    memories = [
        memory_of("best", "The rotten hull of the Heron leaks", age=2 * HOUR),
        memory_of("far", "Quinceport is a long way off, beyond the hills and the wide river"),
    ]
    memories += [memory_of(f"m{n}", f"other talk number{n}", age=(n + 2) * DAY) for n in range(300)]
    question = "Does the rotten hull of the Heron leak in Quinceport?"
    assert ids(recall_of(memories, question)) == ["best"]
    for changed in ({"nearly_best": 0.0}, {"weak_too": True}):
        parameters = replace(USUAL, **changed)
        assert ids(recall_of(memories, question, parameters=parameters)) == ["best", "far"]


def test_a_fourth_memory_after_a_question_is_nearly_as_relevant_as_the_best() -> None:
    shared = ("heron hull leaks", "heron hull", "heron hull", "heron")
    memories: list[ShortTermMemory] = []
    for number, words in enumerate(shared):
        memories.append(memory_of(f"h{number}", f"{words} other{number}", age=(number + 1) * DAY))
    memories += [memory_of(f"m{n}", f"talk number{n}", age=(n + 9) * DAY) for n in range(300)]
    question = "Where does the heron hull leak?"
    near_enough = replace(USUAL, nearly_best=0.0)
    assert ids(recall_of(memories, question, parameters=near_enough)) == ["h0", "h1", "h2"]
    for changed in ({"nearly_best_further": 0.0}, {"weak_too": True}):
        parameters = replace(near_enough, **changed)
        assert ids(recall_of(memories, question, parameters=parameters)) == ["h0", "h1", "h2", "h3"]


def test_what_tells_of_a_change_comes_beside_a_better_memory_of_what_was() -> None:
    memories = [
        memory_of("was", "I live in Munich, near the Isar", age=200 * DAY),
        memory_of("is", "I moved to Berlin, it is in Wedding", age=60 * DAY),
    ]
    recall = recall_of(memories, "Where do I live?")
    was, change = recall.top
    assert (was.memory.id, change.memory.id) == ("was", "is")
    assert change.receipt.relevance < USUAL.nearly_best * was.receipt.relevance


@pytest.mark.anyio
async def test_the_names_of_who_takes_part_and_of_who_speaks_are_never_cut(tmp_path: Path) -> None:
    async with open_memory(tmp_path) as memory:
        chat = memory.conversation("小明")
        said_by = await chat.short_term.add([Message("user", "龙胆阿芙来了", name="龙胆阿芙")])
        assert "龙胆阿芙" in said_by.memory.words
        messages = [Message("user", "龙胆阿芙在哪里？")]
        for participants in ({"character": "龙胆阿芙"}, {"character": {"name": "龙胆阿芙"}}):
            answer = await recall_for_turn(chat, RecallRequest(messages, participants=participants))
            assert "龙胆阿芙" in answer.found.recall.query.words
        assert (
            "龙胆阿芙"
            not in (await recall_for_turn(chat, RecallRequest(messages))).found.recall.query.words
        )


def test_a_name_is_found_whole_and_by_its_parts() -> None:
    stored = USUAL_WORDING.of_text(
        ShortTermMemory(
            "m",
            NOW,
            "",
            (),
            (),
            0.0,
            "chat",
            (Message("user", "Mary Ann moved to Lisbon", name="Mary Ann"),),
        )
    )
    assert {"mary ann", "mari", "ann", "lisbon"} <= set(stored.words)
    cut = USUAL_WORDING.of_text(
        ShortTermMemory(
            "m", NOW, "", (), (), 0.0, "chat", (Message("user", "周末爬山", name="周"),)
        )
    )
    assert "周末" in cut.words


def test_however_heavy_a_memory_is_others_are_found_beside_it() -> None:
    heavy = replace(memory_of("heavy", "猫猫咪咪阿黄" * 50), role_weights={"user": 1e6})
    memories = [heavy, memory_of("a", "我的狗叫阿黄", age=2 * DAY)]
    parameters = replace(USUAL, nearly_best=0.0)
    assert set(ids(recall_of(memories, "阿黄在哪里？", parameters=parameters))) == {"heavy", "a"}


def test_a_question_gives_five_matches_and_nothing_by_chance() -> None:
    memories = [memory_of(f"m{n}", f"Heron leaks number{n}", age=(n + 1) * DAY) for n in range(9)]
    recall = recall_of(memories, "Where does the Heron leak?")
    assert (len(ids(recall)), len(recall.flashback)) == (5, 0)
    recall = recall_of(memories, "The Heron leaks.")
    assert (len(ids(recall)), len(recall.flashback)) == (3, 2)
    assert len(recall_of(memories, "What about quinces?").flashback) == 2


def test_who_asked_for_memories_gets_the_best_there_is_and_what_is_weak_gains_nothing() -> None:
    memories = [
        memory_of("weak", "the weather was fine and the boat went well and slowly", age=DAY)
    ]
    memories += [memory_of(f"m{n}", f"other talk number{n}", age=(n + 2) * DAY) for n in range(400)]
    talk = "We had some cold weather, and nobody came to see the garden or the new bridge"
    high = replace(USUAL, least_match=60.0)
    assert ids(recall_of(memories, talk, parameters=high)) == []
    recall = recall_of(memories, talk, parameters=replace(high, weak_too=True))
    assert [(item.memory.id, item.weak) for item in recall.top] == [("weak", True)]
    assert list(recall.gains(USUAL)) == []


def test_after_a_statement_a_memory_that_comes_brings_those_that_are_nearly_as_relevant() -> None:
    memories = [
        memory_of("best", "The Heron has a leaking hull"),
        memory_of("near", "We sailed to Quinceport", age=3 * DAY),
    ]
    memories += [
        memory_of(
            "little",
            "A long story about nothing, told slowly by a quiet man in a green coat",
            age=5 * DAY,
        )
    ]
    memories += [memory_of(f"m{n}", f"other talk number{n}", age=(n + 6) * DAY) for n in range(300)]
    talk = ("It was quiet.", "Quinceport was warm.", "The Heron was there too")
    recall = recall_of(memories, *talk)
    assert [(item.memory.id, item.weak) for item in (*recall.top, *recall.next)] == [
        ("best", False),
        ("near", True),
    ]
    assert ids(recall_of(memories, *talk, parameters=replace(USUAL, with_best=0.0))) == ["best"]
    of_any_share = replace(USUAL, with_best=0.01, nearly_best=0.0)
    assert "little" in ids(recall_of(memories, *talk, parameters=of_any_share))
    assert ids(recall_of(memories, talk[1], "I see.")) == []  # none comes that could bring others
    assert ids(recall_of(memories, talk[1], "Which hull leaks, that of the Heron?")) == ["best"]


def test_a_rare_character_that_is_a_word_of_a_question_counts_as_a_word() -> None:
    memories = [memory_of("right", "捡到一只橘猫，很乖", age=DAY)]
    memories += [
        memory_of(f"m{n}", f"今天开会，讨论了第{n}个方案", age=(n + 2) * DAY) for n in range(400)
    ]
    assert ids(recall_of(memories, "我家猫几岁？"))[:1] == ["right"]
    assert ids(recall_of(memories, "我家猫几岁？", parameters=replace(USUAL, few_holders=0))) == []


def test_memories_of_the_named_time_come_first_among_those_with_the_same_words() -> None:
    memories = [memory_of(f"m{days}", "我们去爬山了", age=days * DAY) for days in (3, 40, 80, 200)]
    assert ids(recall_of(memories, "上个月爬山累吗？"))[0] == "m40"  # NOW is 21 June 2026


def test_a_word_that_no_memory_has_stands_for_one_that_is_spelt_alike() -> None:
    memories = [
        memory_of("a", "The websocket was closed", age=DAY),
        memory_of("b", "I like tea", age=2 * DAY),
    ]
    recall = recall_of(memories, "Which webscoket was it?")
    assert ids(recall) == ["a"]
    assert [word.factor for word in recall.top[0].receipt.matched if word.word == "websocket"] == [
        USUAL.typo_factor
    ]


@pytest.mark.parametrize("question", ["webscoket websocket", "websocket webscoket"])
def test_a_word_that_is_also_spelt_right_counts_in_full(question: str) -> None:
    recall = recall_of(
        [
            memory_of("a", "The websocket was closed", age=DAY),
            memory_of("b", "I like tea", age=2 * DAY),
        ],
        question,
    )
    assert [word.factor for word in recall.top[0].receipt.matched if word.word == "websocket"] == [
        1.0
    ]


def test_a_memory_that_ends_with_a_question_brings_what_was_said_next() -> None:
    memories = [
        memory_of("asks", "I want to name the boat", "What is the boat called?", age=DAY),
        memory_of("answers", "Heron", "Noted.", age=DAY - 2 * MINUTE),
        memory_of("later", "I like tea", age=DAY - 3 * HOUR),
    ]
    assert answer_ids(recall_of(memories, "What is the name of the boat?")) == {"asks": "answers"}
    assert answer_ids(recall_of(memories, "the boat name")) == {}


def test_only_the_best_memory_brings_what_was_said_next() -> None:
    memories = [
        memory_of("best", "The name of my boat is on its hull", age=DAY),
        memory_of("asks", "Have I told you of the boat?", "What is its name?", age=9 * DAY),
        memory_of("answers", "Heron", "Noted.", age=9 * DAY - 2 * MINUTE),
    ]
    recall = recall_of(memories, "What is the name of my boat?", parameters=ALL)
    assert ids(recall)[:2] == ["best", "asks"]
    assert answer_ids(recall) == {}


def test_a_word_that_a_long_text_says_once_counts_less() -> None:
    long_text = "the heron " + " ".join(f"word{n}" for n in range(200))
    short = memory_of("short", "the heron stood on one leg beside the old bridge", age=DAY)
    long = memory_of("long", long_text, age=DAY)
    all_that_share = replace(ALL, nearly_best=0.0, with_best=0.0)
    came = recall_of([short, long], "heron", parameters=all_that_share)
    points = {item.memory.id: item.receipt.matched[0] for item in came.top}
    assert points["short"].memory_weight > USUAL.whole_weight > points["long"].memory_weight
    part = (points["long"].memory_weight / USUAL.whole_weight) ** 0.5
    assert points["long"].factor == pytest.approx(part * points["short"].factor)
    every_word = replace(all_that_share, whole_weight=0.0)
    came = recall_of([short, long], "heron", parameters=every_word)
    assert len({item.receipt.matched[0].factor for item in came.top}) == 1


def test_a_memory_that_shares_little_of_a_question_needs_more() -> None:
    text = (
        "On the way home we saw a heron that stood beside the old bridge, then bread, cheese and two "
        "apples were bought at the market and carried up the hill to grandmother's small kitchen"
    )
    memories = [memory_of("heron", text)]
    memories += [memory_of(f"m{n}", f"other talk number{n}", age=(n + 2) * DAY) for n in range(300)]
    about_it = "Where did the heron stand, beside which bridge?"
    among_others = "Does the heron pipeline fail without a Postgres index?"
    assert ids(recall_of(memories, about_it)) == ["heron"]
    assert ids(recall_of(memories, among_others)) == []
    any_part = replace(USUAL, part_asked=0.0)
    assert ids(recall_of(memories, among_others, parameters=any_part)) == ["heron"]
    asked_for = replace(USUAL, weak_too=True)
    [weak] = recall_of(memories, among_others, parameters=asked_for).top
    assert weak.weak
    assert 0.0 < weak.receipt.part < 0.5


@pytest.mark.parametrize(
    ("question", "comes"),
    [
        ("Which university did I attend?", False),
        ("Does the choir rehearse?", False),
        ("Did you hear about the radio?", True),
        ("How did that choir sound?", False),
        ("What are Will's hobbies?", True),
    ],
)
def test_a_question_brings_nothing_by_a_form_of_do_alone(question: str, comes: bool) -> None:
    memories = [
        memory_of("radio", "The radio was flat, but it did help us, as it does each day, said Will")
    ]
    memories += [memory_of(f"m{n}", f"other talk number{n}") for n in range(11)]
    assert ids(recall_of(memories, question)) == ["radio"] * comes
    [best] = recall_of(memories, question, parameters=replace(USUAL, weak_too=True)).top
    assert best.weak is not comes


def test_where_two_words_are_needed_the_characters_of_one_do_not_count() -> None:
    hooks = replace(ALL, statement_words=2)
    dream = memory_of("a", "梦见代码编译成了雨")
    for asking, comes in (("帮我把这段代码改成异步的", False), ("梦见代码了", True)):
        assert bool(recall_of([dream], asking, parameters=hooks).top) is comes
        assert recall_of([dream], asking, parameters=ALL).top


SPOKEN_OF = [
    memory_of("parked", "I can't remember where I parked the car"),
    memory_of("told", "I told you already that I dislike coriander"),
    memory_of("mentioned", "Mark mentioned a new restaurant"),
    memory_of("discussed", "We discussed the budget for hours"),
    memory_of("plants", "I need to remember to water the plants"),
    memory_of("停", "我记不得车停在那边还是这边了"),
    memory_of("香菜", "我说过我不喜欢香菜"),
    memory_of("餐厅", "小马提到一家新餐厅"),
    memory_of("浇水", "要记得给花浇水"),
]
"""Memories with words by which people also ask."""


@pytest.mark.parametrize(
    ("question", "came"),
    [
        ("Do you remember the name of the plumber?", []),
        ("Did I mention an allergy?", []),
        ("What did we discuss about the roof?", []),
        ("Have I told you about the wedding?", []),
        ("Do you remember the new restaurant?", ["mentioned"]),
        ("What did I need to remember?", ["plants", "parked"]),
        ("What did Mark mention?", ["mentioned"]),
        ("Do you remember?", ["parked", "plants"]),
        ("你还记得电工叫啥吗", []),
        ("我提到过海鲜过敏吗", []),
        ("我之前说过弟弟的婚礼吗", []),
        ("我说过我不喜欢什么吗", ["香菜"]),
        ("我要记得做什么", ["浇水"]),
        ("小马提到了什么", ["餐厅"]),
    ],
)
def test_words_that_only_ask_bring_nothing_where_a_question_has_others(
    question: str, came: list[str]
) -> None:
    assert ids(recall_of(SPOKEN_OF, question)) == came


@pytest.mark.parametrize(
    ("asking", "language"),
    [
        *((asking, "en") for asking in ("Do you remember ", "Can you tell me ", "Did I ever mention it? ", "remind me: ")),
        *((asking, "zh") for asking in ("你还记得", "我之前跟你说过，", "你能告诉我", "我有没有跟你说过", "请问")),
    ],
)  # fmt: skip
def test_a_question_seeks_the_same_with_words_of_asking_before_it(
    asking: str, language: str
) -> None:
    for question in load_dataset([SAMPLE / f"{language}.jsonl"]).questions:
        alone, asked = (
            USUAL_WORDING.of_query([Message("user", text)], NOW)
            for text in (question.text, asking + question.text)
        )
        assert (asked.words, asked.grams) == (alone.words, alone.grams)


@pytest.mark.parametrize(
    ("question", "memory", "comes"),
    [
        ("1+1等于几", "那就再等等", False),
        ("一公里等于多少米", "那就再等等", False),
        ("哪里有卖", "车里很热", False),
        ("你住在哪里", "水里很冷", False),
        ("现在是什么时候", "这次等了好久", False),
        ("水管工叫啥", "要给花浇水", False),
        ("今年的学费是多少", "去年很忙", False),
        ("水在哪里", "要给花浇水", True),
        ("我家猫叫什么", "小猫又胖了", True),
        ("外婆的画像呢", "我给她画了张像", True),
        ("有几个人过生日", "他的生日在六月", True),
    ],
)  # fmt: skip
def test_a_single_character_of_a_word_is_not_enough_and_two_are(
    question: str, memory: str, comes: bool
) -> None:
    memories = [memory_of("a", memory), memory_of("b", "别的")]
    assert ids(recall_of(memories, question)) == ["a"] * comes
    loose = recall_of(memories, question, parameters=ALL)
    assert ids(loose) == ["a"] * comes, "more points are no help"
