"""A recall makes its block in a thread only where that takes long, because each turn to a thread costs it."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from memory_server import open_memory
from memory_server.conversations.recall.request import RecallRequest
from memory_server.kernel.messages import Message
from memory_server.memories import turns
from memory_server.memories.turns import (
    MAX_CHARS,
    RecalledBlock,
    prompt_room,
    recalled_block,
    turn_prompt,
)

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    ("count", "prompt", "is_in_a_thread"),
    [(3, "The cat is called Mimi.", False), (150, "Mimi", True), (3, "Mimi " * 2_000, True)],
)
async def test_a_block_is_made_in_a_thread_where_that_takes_long(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    count: int,
    prompt: str,
    is_in_a_thread: bool,
) -> None:
    threads: list[int] = []

    def noted(*arguments: Any) -> RecalledBlock:
        threads.append(threading.get_ident())
        return recalled_block(*arguments)

    monkeypatch.setattr(turns, "recalled_block", noted)
    async with open_memory(tmp_path) as memory:
        conversation = memory.conversation()
        for number in range(count):
            await conversation.long_term.add(
                f"m{number}", prompt, "match_keys(context.messages, ['cat']) > 0"
            )
        turn = await turn_prompt(
            memory.call,
            conversation,
            RecallRequest([Message("user", "my cat")], flashbacks=0),
            prompt_room(MAX_CHARS),
        )
    assert "Mimi" in turn.text
    assert len(threads) == 1
    assert (threads[0] != threading.get_ident()) == is_in_a_thread
