"""What is marked as private is never stored, whichever way it comes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_server import Message, open_memory
from memory_server.kernel.errors import NothingToKeep
from memory_server.kernel.private import to_keep, without_private
from memory_server.kernel.recalled_block import marked
from memory_server.tools import TOOLS
from memory_server.tools.base.tool import ToolFailed, call


@pytest.mark.parametrize(
    ("text", "public_text"),
    [
        ("我喜欢披萨", "我喜欢披萨"),
        ("  as it is \n", "  as it is \n"),
        ("a <private>b</private> c", "a  c"),
        ("<private>b</private>", ""),
        ("我的密码是<private>1234</private>，别告诉别人", "我的密码是，别告诉别人"),
        ("a <PRIVATE>b</Private> c", "a  c"),
        ("a <private >b</private\t> c", "a  c"),
        # Not closed, not opened, one in another: where in doubt it is private.
        ("a <private>b", "a"),
        ("a <private>b</private> c <private>d", "a  c"),
        ("b</private> c", "c"),
        ("a <private>b <private>c</private> d</private> e", "a  e"),
        ("a <private>b <private>c</private> d", "a"),
        # Something else.
        (
            "a < private>b</ private> <privately> </privates> private",
            "a < private>b</ private> <privately> </privates> private",
        ),
    ],
)
def test_what_stands_between_the_tags_is_left_out(text: str, public_text: str) -> None:
    assert without_private(text) == public_text


PIECES = st.lists(
    st.sampled_from(["public", "<private>", "</private>", "<PRIVATE >", "\n", "<", ">"]),
    max_size=12,
)


@given(PIECES)
def test_no_tag_and_nothing_behind_one_survives(pieces: list[str]) -> None:
    text = ""
    depth = 0
    for number, piece in enumerate(pieces):
        if piece == "public" and depth:
            piece = f"secret{number}"
        text += piece
        depth = max(0, depth + {"<private>": 1, "<PRIVATE >": 1, "</private>": -1}.get(piece, 0))
    public_text = without_private(text)
    assert "secret" not in public_text
    assert "private" not in public_text.lower()


def test_an_answer_to_what_was_private_is_private_too() -> None:
    messages = [
        Message("user", "<private>我的密码是 1234，够安全吗？</private>"),
        Message("assistant", "1234 太短了。"),
        Message("system", "它下雨了"),
        Message("user", "那 <private>5678</private> 呢？"),
        Message("assistant", "也太短。<private>5678</private>"),
    ]
    assert [message.content for message in to_keep(messages)] == [
        "它下雨了",
        "那  呢？",
        "也太短。",
    ]


def everything_in(folder: Path) -> str:
    return "\n".join(
        path.read_bytes().decode(errors="replace") for path in folder.rglob("*") if path.is_file()
    )


pytestmark = pytest.mark.anyio
HALF = [
    {"role": "user", "content": "我的猫叫芝麻。<private>密码是 1234"},
    {"role": "assistant", "content": "好可爱"},
]
WHOLE = [
    {"role": "user", "content": "<private>密码是 1234</private>"},
    {"role": "assistant", "content": "1234 太短"},
]


async def test_no_file_holds_what_is_private_whichever_tool_was_called(tmp_path: Path) -> None:
    async with open_memory(tmp_path) as memory:
        chat = memory.conversation()
        for tool in ("add_short_term_memory", "remember_turn"):
            await call(TOOLS[tool], memory.call, {"messages": HALF})
        await chat.long_term.add(
            "猫", "小明的猫叫芝麻", "true", recent=[Message("user", HALF[0]["content"])]
        )
        await chat.long_term.update(
            "猫", prompt="芝麻", recent=[Message("user", WHOLE[0]["content"])]
        )
        with pytest.raises(NothingToKeep):
            await chat.short_term.add([Message("user", WHOLE[0]["content"])])
        with pytest.raises(ToolFailed, match="All of the text is marked as private, so nothing"):
            await call(TOOLS["add_short_term_memory"], memory.call, {"messages": WHOLE})
        answer = await call(TOOLS["remember_turn"], memory.call, {"messages": WHOLE})
        assert answer.structured == {"success": True, "stored": False, "note": answer.text}
        assert answer.text == "All of the text is marked as private, so nothing was stored."
        assert {stored.text for stored in await chat.short_term.memories()} == {
            "user: 我的猫叫芝麻。\nassistant: 好可爱"
        }
    assert "芝麻" in everything_in(tmp_path)
    assert "1234" not in everything_in(tmp_path)


async def test_what_was_recalled_hides_nothing_of_what_is_said(tmp_path: Path) -> None:
    async with open_memory(tmp_path) as memory:
        block = marked("user: <private>")
        stored = (
            await memory.conversation().short_term.add([Message("user", f"{block}\n我喜欢披萨")])
        ).memory
        assert stored.text == "user: 我喜欢披萨"
        assert "private" not in json.dumps([message.content for message in stored.messages])
