"""An answer used a memory where it holds a rare word of it that the question did not have."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
from sample_memories import DAY, NOW, memory, query_of

from memory_server import Message, Session, Settings, ShortTermMemory, open_memory
from memory_server.config.recall import parameters
from memory_server.conversations.recall.credit import RARE_LEAST, used, words_said
from memory_server.conversations.recall.parameters import RecallParameters
from memory_server.conversations.recall.request import RecallContext
from memory_server.conversations.recall.selection import select
from memory_server.conversations.short_term import Origin
from nlp.stems import stem

WORDING = parameters(Settings()).wording
COMMON = [memory(f"c{n}", age=(30 + n) * DAY, words={"披萨": 1.0, "常见": 1.0}) for n in range(300)]


def credited(memories: list[ShortTermMemory], *, asked: set[str], answered: set[str]) -> list[str]:
    recall = select(
        memories,
        query_of({"披萨": 30.0}),
        RecallContext(
            conversation_id="chat", now_ms=NOW, rng=Random(1), parameters=RecallParameters()
        ),
    )
    assert recall.flashback
    credit = used(recall, memories, asked=frozenset(asked), answered=frozenset(answered))
    assert credit.flashback == (), "what came by chance was not looked for"
    return [item.memory.id for item in (*credit.top, *credit.next)]


ONE = memory("one", words={"披萨": 20.0, "凤梨": 5.0, "常见": 5.0})


@pytest.mark.parametrize(
    ("asked", "answered", "ids"),
    [
        ({"披萨"}, {"凤梨"}, ["one"]),
        ({"披萨"}, {"凤梨", "海鲜"}, ["one"]),
        ({"披萨"}, {"海鲜"}, []),
        ({"披萨"}, {"披萨"}, []),
        ({"披萨", "凤梨"}, {"凤梨", "披萨"}, []),
        ({"披萨"}, {"常见"}, []),
        ({"披萨"}, set(), []),
    ],
)
def test_only_a_rare_word_that_the_question_did_not_have_tells(
    asked: set[str], answered: set[str], ids: list[str]
) -> None:
    assert credited([ONE, *COMMON], asked=asked, answered=answered) == ids


@pytest.mark.parametrize(("others", "rare"), [(RARE_LEAST - 1, True), (RARE_LEAST, False)])
def test_what_few_hold_is_rare_also_where_there_is_little(others: int, rare: bool) -> None:
    few = [memory(f"f{n}", age=(40 + n) * DAY, words={"凤梨": 1.0}) for n in range(others)]
    assert credited([ONE, *few, *COMMON[:20]], asked=set(), answered={"凤梨"}) == (
        ["one"] if rare else []
    )


def test_a_hundredth_of_many_is_few() -> None:
    few = [memory(f"f{n}", age=(400 + n) * DAY, words={"凤梨": 1.0}) for n in range(2)]
    assert credited([ONE, *few, *COMMON], asked=set(), answered={"凤梨"}) == ["one"]
    assert credited([ONE, *few, *COMMON[:50]], asked=set(), answered={"凤梨"}) == []


def test_a_word_said_once_in_a_long_answer_is_one_of_its_words() -> None:
    filler = " ".join(
        f"Sentence number {n} talks about the weather of that day." for n in range(200)
    )
    words = words_said(
        [Message("assistant", f"{filler} The drive is under the staircase. {filler}")], WORDING, NOW
    )
    assert stem("staircase") in words
    chinese = words_said(
        [Message("assistant", "今天天气很好。" * 500 + "硬盘在楼梯下面。" + "明天也好！" * 500)],
        WORDING,
        NOW,
    )
    assert "楼梯" in chinese


def test_words_that_say_little_are_none() -> None:
    words = words_said(
        [Message("assistant", "What should we do about these, please? 我们觉得可以")], WORDING, NOW
    )
    assert words.isdisjoint({"what", "should", "about", "these", "please", "我们", "觉得", "可以"})


pytestmark = pytest.mark.anyio
OLD = 1_780_000_000_000
ASK = [Message("user", "Which port does the staging database use?")]


@pytest.mark.parametrize(
    ("answer", "score"), [("It is 5433.", 5.0), ("I do not know which database.", 0.0)]
)
async def test_what_an_answer_used_is_reinforced_where_it_is_kept(
    tmp_path: Path, answer: str, score: float
) -> None:
    async with open_memory(tmp_path) as app:
        chat = app.conversation().short_term
        stored = await chat.add(
            [Message("user", "The staging database listens on port 5433.", OLD)]
        )
        turn = await chat.add(
            [*ASK, Message("assistant", answer)], origin=Origin(session=Session("s"))
        )
        credit = await chat.credit(
            ASK,
            Message("assistant", answer),
            became=turn.memory.id,
            session=Session("s", 0),
            by="hook",
        )
        assert {item.id: item.score for item in await chat.memories()} == {
            stored.memory.id: score,
            turn.memory.id: 0.0,
        }
        assert bool(credit.changes) is bool(score)
        (latest, *_) = await app.store.history("default")
        assert latest.by == ("hook" if score else "api")


async def test_a_memory_that_nobody_may_change_is_not_reinforced(tmp_path: Path) -> None:
    async with open_memory(tmp_path) as app:
        await app.conversation().short_term.add(
            [Message("user", "The staging database listens on port 5433.", OLD)]
        )
    async with open_memory(tmp_path, settings=Settings(read_only=True)) as app:
        chat = app.conversation().short_term
        await chat.credit(ASK, Message("assistant", "It is 5433."))
        assert [item.score for item in await chat.memories()] == [0.0]
