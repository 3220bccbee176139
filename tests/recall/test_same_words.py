"""The newer of two facts with the same words comes in place of the older one, however often that was recalled."""

from __future__ import annotations

from pathlib import Path

import pytest

from memory_server.config import Settings
from memory_server.kernel.messages import Message
from memory_server.kernel.times import DAY_MS
from memory_server.runtime.app import App, open_memory
from memory_server.runtime.runtime import LASTING, ONE_QUESTION, Runtime

pytestmark = pytest.mark.anyio
ASKED = "What is my phone number?"
PHONES = "My phone number is 0660 111 222.", "My phone number is 0699 333 444."
LOOSELY = "My phone number is 0660 111 222.", "So now my phone number is 0699 333 444 and ok."
NUMBERS = "我的电话号码是 0660 111 222", "我的电话号码是 0699 333 444"


async def _came_after_many_questions(
    app: App, texts: tuple[str, str], question: str, *, are_both_true: bool = False
) -> list[tuple[str, str | None]]:
    """The texts that come after a question, which had been asked often before the second one was stored, each with what
    it says was before."""
    memories = app.conversation().short_term
    now = app.clock()
    await memories.add([Message("user", texts[0], now - 200 * DAY_MS)])
    for _ in range(4):
        await memories.search([Message("user", question)])
    stored = await memories.add([Message("user", texts[1], now - 60 * DAY_MS)])
    if are_both_true:
        await memories.keep_both(stored.memory.id)
    recall = (await memories.search([Message("user", question)])).recall
    return [
        (recalled.memory.text, recalled.before and recalled.before.text)
        for recalled in (*recall.top, *recall.next)
    ]


@pytest.mark.parametrize("brief", [False, True], ids=["indexed", "at once"])
@pytest.mark.parametrize(
    ("texts", "question"),
    [(PHONES, ASKED), (LOOSELY, ASKED), (NUMBERS, "我的电话号码是多少？")],
    ids=["en", "loosely", "zh"],
)
async def test_the_newer_fact_comes_in_place_of_the_older_one(
    texts: tuple[str, str], question: str, brief: bool, tmp_path: Path, elsewhere: None
) -> None:
    settings = Settings(seed=1, data_dir=tmp_path / "data")
    lifetime = ONE_QUESTION if brief else LASTING
    async with App(settings, runtime=Runtime(settings, lifetime)) as app:
        came = await _came_after_many_questions(app, texts, question)
    assert came == [(f"user: {texts[1]}", f"user: {texts[0]}")]


async def test_both_come_where_both_are_true(tmp_path: Path, elsewhere: None) -> None:
    async with open_memory(tmp_path / "data", settings=Settings(seed=1)) as app:
        came = await _came_after_many_questions(app, PHONES, ASKED, are_both_true=True)
    assert sorted(came) == [(f"user: {text}", None) for text in PHONES]
