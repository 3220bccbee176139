"""The newer of two facts with the same words comes first, however often the older one was recalled."""

from __future__ import annotations

from pathlib import Path

import pytest

from memory_server.config import Settings
from memory_server.conversations.recall.order import Lent, Standing, lent_points, telling_words
from memory_server.conversations.recall.receipts import MatchedWord
from memory_server.kernel.messages import Message
from memory_server.kernel.times import DAY_MS
from memory_server.runtime.app import App, open_memory
from memory_server.runtime.runtime import LASTING, ONE_QUESTION, Runtime
from memory_server.tools.insight import explain_recall

pytestmark = pytest.mark.anyio
ASKED = "What is my phone number?"
PHONES = "My phone number is 0660 111 222.", "My phone number is 0699 333 444."
LOOSELY = "My phone number is 0660 111 222.", "So now my phone number is 0699 333 444 and ok."
NUMBERS = "我的电话号码是 0660 111 222", "我的电话号码是 0699 333 444"


def words(*shared: str) -> list[MatchedWord]:
    return [
        MatchedWord(word, 10.0, 10.0, 1.0, telling=True, last=True, when=False, asks=False)
        for word in shared
    ]


def standing(time_ms: int, match: float, score: float, relevance: float | None = None) -> Standing:
    return Standing(time_ms, match, score, match + score if relevance is None else relevance)


@pytest.mark.parametrize(
    ("standings", "shared", "lent"),
    [
        ([standing(1, 40, 15), standing(2, 40, 0)], ["phone", "phone"], {1: Lent(15, 0)}),
        ([standing(1, 40, 15), standing(2, 40, 5)], ["phone", "phone"], {1: Lent(10, 0)}),
        ([standing(1, 40, 15), standing(2, 35, 0)], ["phone", "phone"], {1: Lent(20, 0)}),
        ([standing(1, 40, 15), standing(2, 30, 0)], ["phone", "phone"], {}),
        ([standing(1, 40, 15), standing(2, 40, 0)], ["phone", "number"], {}),
        ([standing(1, 40, 0), standing(2, 40, 15)], ["phone", "phone"], {}),
        ([standing(1, 40, 0), standing(2, 38, 0)], ["phone", "phone"], {}),
        (
            [standing(1, 40, 9), standing(2, 40, 0), standing(3, 40, 0)],
            ["a", "a", "a"],
            {1: Lent(9, 0), 2: Lent(9, 0)},
        ),
    ],
    ids=[
        "newer",
        "recalled less",
        "a little less",
        "shares less",
        "other words",
        "ahead",
        "never recalled",
        "three",
    ],
)
def test_the_newer_of_two_texts_with_the_same_words_is_lent_points(
    standings: list[Standing], shared: list[str], lent: dict[int, Lent]
) -> None:
    assert (
        lent_points(
            standings, lambda number: telling_words(words(shared[number]), [shared[number], "0660"])
        )
        == lent
    )


def test_a_text_that_says_other_things_too_gets_none() -> None:
    standings = [standing(1, 40, 15), standing(2, 40, 0)]
    long = ["phone", "garden", "winter", "ladder"]
    assert lent_points(standings, lambda number: telling_words(words("phone"), long)) == {}


async def _texts_after_many_questions(app: App, texts: tuple[str, str], question: str) -> list[str]:
    """The texts that come after a question, which had been asked often before the second one was stored. Both are true:
    without that, the second one corrects the first."""
    memories = app.conversation().short_term
    now = app.clock()
    await memories.add([Message("user", texts[0], now - 200 * DAY_MS)])
    for _ in range(4):
        await memories.search([Message("user", question)])
    stored = await memories.add([Message("user", texts[1], now - 60 * DAY_MS)])
    await memories.keep_both(stored.memory.id)
    recall = (await memories.search([Message("user", question)])).recall
    return [recalled.memory.text for recalled in (*recall.top, *recall.next)]


@pytest.mark.parametrize("brief", [False, True], ids=["indexed", "at once"])
@pytest.mark.parametrize(
    ("texts", "question"),
    [(PHONES, ASKED), (LOOSELY, ASKED), (NUMBERS, "我的电话号码是多少？")],
    ids=["en", "loosely", "zh"],
)
async def test_the_newer_fact_comes_first(
    texts: tuple[str, str], question: str, brief: bool, tmp_path: Path, elsewhere: None
) -> None:
    settings = Settings(seed=1, data_dir=tmp_path / "data")
    lifetime = ONE_QUESTION if brief else LASTING
    async with App(settings, runtime=Runtime(settings, lifetime)) as app:
        recalled_texts = await _texts_after_many_questions(app, texts, question)
    assert recalled_texts == [f"user: {texts[1]}", f"user: {texts[0]}"]


async def test_the_explanation_names_the_older_one(tmp_path: Path, elsewhere: None) -> None:
    async with open_memory(tmp_path / "data", settings=Settings(seed=1)) as app:
        await _texts_after_many_questions(app, PHONES, "What is my phone number?")
        older, newer = sorted(
            await app.conversation().short_term.memories(), key=lambda memory: memory.time_ms
        )
        asked = [Message("user", "What is my phone number?")]
        explanation = await explain_recall.function(app.call, asked, memory_id=newer.id)
    assert f"shares the same words as {older.id}" in str(explanation)
    assert explanation.older == older.id
    points = (
        explanation.match
        + explanation.around
        + explanation.span
        + explanation.cue
        - explanation.decay
        + explanation.score
        + explanation.lent
    )
    assert explanation.relevance == pytest.approx(points, abs=0.06)
