"""With 10,000 memories each page is small, and takes at most three times as long as the tool behind it."""

from __future__ import annotations

import random
import time
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from web_page import CHAT, opened

from memory_server.conversations.changes import Added
from memory_server.conversations.model import ShortTermMemory
from memory_server.conversations.services import Done
from memory_server.kernel.messages import Message, context_text
from memory_server.tools import TOOLS
from memory_server.tools.base.tool import call

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("elsewhere")]
MOST_BYTES = 150_000
MOST_TIMES = 3.0
SLACK_SECONDS = 0.1
WORDS = (
    "芝麻",
    "书店",
    "妈妈",
    "面馆",
    "芒果",
    "洱海",
    "水母",
    "医生",
    "运河",
    "院子",
    "膝盖",
    "桂花",
    "外婆",
)


def _asked(text: str) -> Mapping[str, Any]:
    return {"messages": [{"role": "user", "content": text}]}


@pytest.mark.full
@pytest.mark.alone
async def test_pages_of_many_memories_are_small_and_quick(tmp_path: Path) -> None:
    rng = random.Random(5)
    async with opened(tmp_path / "data", toolsets="all") as page:
        app = page.app
        manager = app.conversation().short_term
        now = app.clock()
        memories = list[ShortTermMemory]()
        for number in range(10_000):
            at = now - rng.randrange(1, 300 * 86_400_000)
            messages = (
                Message("user", "，".join(rng.sample(WORDS, 4)) + f"，第{number}次。", at),
                Message("assistant", "好。", at),
            )
            plain = ShortTermMemory(
                f"{number:016x}", at, context_text(messages), (), (), 0.0, CHAT, messages
            )
            memories.append(manager._wording.of_text(plain))
        for start in range(0, len(memories), 200):
            batch = memories[start : start + 200]
            await app._services.commit(
                CHAT,
                lambda _state, batch=batch: ([Added(memory) for memory in batch], Done()),
                by="import",
            )
        for number in range(40):
            await call(
                TOOLS["recall_turn"],
                app.call,
                _asked(f"{rng.choice(WORDS)}和{rng.choice(WORDS)}，第{number}次？"),
            )
        used = next(item.id for item in app.recalls.found()[-1].came if item.relevance is not None)
        behind = {
            "": ("analyze_memory_patterns", {}),
            "subjects": ("analyze_memory_patterns", {"top_keywords": 200}),
            "subject?word=芝麻": ("search_memories", {"keywords": ["芝麻"]}),
            "subject": ("search_memories", {}),
            f"memory?id={used}": (
                "explain_recall",
                {"recentMessages": _asked("芝麻")["messages"], "memory_id": used},
            ),
            "recalls": ("recall_turn", _asked("芝麻和面馆？")),
            "ask?q=芝麻和面馆？": ("recall_turn", _asked("芝麻和面馆？")),
            "history": ("get_history", {"limit": 200}),
            "find?q=芝麻": ("forget", {"words": "芝麻"}),
            "triggers": ("list_long_term_memories", {}),
            "health": ("get_memory_stats", {}),
        }
        for path, (tool, arguments) in behind.items():
            answer = await page.client.get(f"/{path}")
            assert answer.status_code == 200, path
            assert len(answer.content) <= MOST_BYTES, path
            page_seconds = await _quickest(lambda path=path: page.client.get(f"/{path}"))
            run_tool = partial(call, TOOLS[tool], app.call, arguments)
            tool_seconds = await _quickest(run_tool)
            assert page_seconds <= MOST_TIMES * tool_seconds + SLACK_SECONDS, (
                path,
                page_seconds,
                tool_seconds,
            )


async def _quickest(act: Callable[[], Awaitable[object]]) -> float:
    times = []
    for _ in range(3):
        began = time.perf_counter()
        await act()
        times.append(time.perf_counter() - began)
    return min(times)
