"""A turn is stored once, whichever way it comes: by a tool, a hook, a command."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from memory_server import App, Message, Session, Settings, open_memory
from memory_server.conversations.short_term import Origin
from memory_server.tools import TOOLS
from memory_server.tools.base.tool import call

MINUTE = 60_000
THEN = 1_782_000_000_000
TURN = [Message("user", "我喜欢吃披萨", THEN), Message("assistant", "记住了", THEN + 1_000)]


def turn_later(minutes: float, *changes: tuple[int, dict[str, object]]) -> list[Message]:
    """The turn, said later, with other fields in some of its messages."""
    messages = [
        replace(message, time_ms=round((message.time_ms or 0) + minutes * MINUTE))
        for message in TURN
    ]
    for position, fields in changes:
        messages[position] = replace(messages[position], **fields)  # type: ignore[arg-type]
    return messages


pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    ("again", "total"),
    [
        (turn_later(0), 1),
        (turn_later(9.9), 1),
        (turn_later(-9.9), 1),
        (turn_later(0, (0, {"content": " 我喜欢吃披萨\n"})), 1),
        (turn_later(0, (0, {"name": "小明"})), 1),
        (turn_later(10), 2),
        (turn_later(-10), 2),
        (turn_later(0, (1, {"content": "好"})), 2),
        (turn_later(0, (0, {"role": "assistant"})), 2),
        (turn_later(0)[:1], 2),
        ([*turn_later(0), Message("user", "谢谢", THEN)], 2),
    ],
)
async def test_equal_messages_within_ten_minutes_are_one_memory(
    tmp_path: Path, again: list[Message], total: int
) -> None:
    async with open_memory(tmp_path) as memory:
        chat = memory.conversation().short_term
        first = await chat.add(TURN, origin=Origin(session=Session("tool")))
        second = await chat.add(again, origin=Origin(turn="t1", session=Session("hook")))
        assert second.total == total
        assert (second.change_id is None) is (total == 1)
        assert (second.memory == first.memory) is (total == 1)


async def test_two_people_may_say_the_same(tmp_path: Path) -> None:
    async with open_memory(tmp_path) as memory:
        chat = memory.conversation().short_term
        await chat.add([Message("user", "早", THEN, name="小明")])
        assert (await chat.add([Message("user", "早", THEN, name="小红")])).total == 2
        assert (
            await memory.conversation("other").short_term.add([Message("user", "早", THEN)])
        ).total == 1


async def test_what_was_deleted_can_be_said_again(tmp_path: Path) -> None:
    async with open_memory(tmp_path) as memory:
        chat = memory.conversation().short_term
        await chat.add(TURN)
        await chat.delete("披萨")
        assert (await chat.add(TURN)).total == 1


async def test_the_node_original_stores_whatever_it_is_given(tmp_path: Path) -> None:
    async with App(Settings(data_dir=tmp_path, compat="node")) as memory:
        chat = memory.conversation().short_term
        await chat.add(TURN)
        assert (await chat.add(TURN)).total == 2


async def test_a_model_is_told_that_it_was_stored_before(tmp_path: Path) -> None:
    async with open_memory(tmp_path) as memory:
        arguments = {"messages": [{"role": "user", "content": "我喜欢吃披萨"}]}
        tool = TOOLS["add_short_term_memory"]
        first = await call(tool, memory.call, arguments)
        again = await call(tool, memory.call, arguments)
        assert (
            again.text
            == f"Stored before, as {first.structured['id']}; 1 memory in this conversation."
        )
        assert again.structured == {
            "success": True,
            "id": first.structured["id"],
            "totalMemories": 1,
        }
