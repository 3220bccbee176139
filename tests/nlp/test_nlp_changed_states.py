"""A question about how something stands also looks for the words in which people tell that it changed."""

from __future__ import annotations

from pathlib import Path

import pytest

from memory_server.config import Settings
from memory_server.kernel.messages import Message
from memory_server.kernel.times import DAY_MS
from memory_server.runtime.app import open_memory
from nlp.questions import words_of_change
from nlp.stems import stem


@pytest.mark.parametrize(
    ("question", "word"),
    [
        ("Where do I live?", "moved"),
        ("我现在住在哪里？", "搬到"),
        ("我的地址是什么？", "搬家"),
        ("Where does she work now?", "quit"),
        ("你还记得我在哪里上班吗？", "跳槽"),
        ("你还记得我在哪里上班吗？", "换工作"),
        ("我现在住在哪里？", "搬回"),
        ("What is my boyfriend's name?", "divorced"),
        ("我女朋友叫什么？", "分手"),
        ("我读的是哪所大学？", "毕业"),
        ("where does 小明 live?", "moved"),
        ("where does 小明 live?", "搬到"),
    ],
)
def test_the_words_of_a_change(question: str, word: str) -> None:
    assert stem(word) in words_of_change(question)


OTHERS = [
    "What is my cat's name?",
    "我记住了吗？",
    "Does it work?",
    "我公司的打印机坏了吗？",
    "What is the IP address of the printer?",
    "Is there a single config file?",
    "Where does the worker log go?",
    "Is the site live?",
    "Which partner API do we use?",
    "",
]


@pytest.mark.parametrize("question", OTHERS)
def test_other_questions_have_none(question: str) -> None:
    assert words_of_change(question) == ()


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("before", "after", "question"),
    [
        (
            "I live in Munich, near the Isar.",
            "I moved to Berlin last week, it is in Wedding.",
            "Where do I live?",
        ),
        ("我住在上海徐汇区", "上周我搬到杭州了，租的房子在西湖边", "我现在住在哪里？"),
    ],
    ids=["en", "zh"],
)
async def test_what_is_comes_and_says_what_was(
    before: str, after: str, question: str, tmp_path: Path, elsewhere: None
) -> None:
    async with open_memory(tmp_path / "data", settings=Settings(seed=1)) as app:
        memories = app.conversation().short_term
        for days, text in ((200, before), (60, after), (30, "天气不错 the weather is fine")):
            await memories.add([Message("user", text, app.clock() - days * DAY_MS)])
        recall = (await memories.search([Message("user", question)])).recall
    [recalled] = (*recall.top, *recall.next)
    assert recalled.memory.text == f"user: {after}"
    assert recalled.before is not None
    assert recalled.before.text == f"user: {before}"
