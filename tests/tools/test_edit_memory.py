"""The tool and the command that put other words into a memory."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from cli_program import CommandLine
from hypothesis import given
from hypothesis import strategies as st
from sample_memories import memory as a_memory

from memory_server.kernel.errors import InvalidInput
from memory_server.kernel.messages import Message
from memory_server.runtime.app import App, open_memory
from memory_server.tools import TOOLS
from memory_server.tools.archive import _texts_with
from memory_server.tools.base.tool import ToolFailed, call

anyio = pytest.mark.anyio
SAID = [
    Message("user", "My cat is called Miso"),
    Message("assistant", "Miso is a fine name for a cat"),
]


async def stored_id(app: App) -> str:
    await app.conversation().short_term.add(SAID)
    [memory] = await app.conversation().short_term.memories()
    return memory.id


async def texts_of(app: App) -> list[str]:
    [memory] = await app.conversation().short_term.memories()
    return [message.content for message in memory.messages]


@anyio
async def test_the_new_words_are_found_and_an_undo_brings_the_old_ones_back(tmp_path: Path) -> None:
    async with open_memory(tmp_path / "data") as app:
        memory_id = await stored_id(app)
        arguments = {"id": memory_id, "find": "called Miso", "replace": "called Halloran"}
        answer = await call(TOOLS["edit_memory"], app.call, arguments)
        change = answer.structured["changeId"]
        assert answer.text == (
            f"{memory_id} says now: user: My cat is called Halloran assistant: Miso is a fine name for a cat. "
            f"Change {change}."
        )
        assert await texts_of(app) == ["My cat is called Halloran", "Miso is a fine name for a cat"]
        search = await call(TOOLS["search_memories"], app.call, {"query": "Halloran"})
        assert [hit["id"] for hit in search.structured["results"]] == [memory_id]
        await call(TOOLS["undo_change"], app.call, {"changeId": change})
        assert await texts_of(app) == [message.content for message in SAID]
        [newest, *_] = (await call(TOOLS["get_history"], app.call, {})).structured["changes"][1:]
        assert newest["by"] == "edit_memory"


@anyio
@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (
            {"find": "Miso", "replace": "Halloran"},
            "has these words 2 times; give more of the text around them.",
        ),
        (
            {"find": "dog", "replace": "cat"},
            "No message of the memory .* has these words; give some as they are",
        ),
        (
            {"find": "Miso\nassistant", "replace": "x"},
            "No message of the memory .* has these words",
        ),
        ({"find": "", "replace": "x"}, "find"),
        ({}, "Give both find and replace, or otherWords"),
        ({"find": "Miso"}, "Give both find and replace, or otherWords"),
        ({"replace": "Halloran"}, "Give both find and replace, or otherWords"),
        ({"find": "Miso", "otherWords": ["cat"]}, "Give both find and replace, or otherWords"),
        ({"replace": "x", "otherWords": ["cat"]}, "Give both find and replace, or otherWords"),
        (
            {"id": "zz", "find": "Miso", "replace": "x"},
            "No short-term memory of default has the id `zz`",
        ),
    ],
)
async def test_what_cannot_be_done_is_one_sentence_and_changes_nothing(
    tmp_path: Path, arguments: dict[str, Any], sentence: str
) -> None:
    async with open_memory(tmp_path / "data") as app:
        memory_id = await stored_id(app)
        with pytest.raises(ToolFailed, match=sentence):
            await call(TOOLS["edit_memory"], app.call, {"id": memory_id, **arguments})
        assert await texts_of(app) == [message.content for message in SAID]


@anyio
async def test_a_whole_message_is_taken_out_and_the_last_one_is_not(tmp_path: Path) -> None:
    async with open_memory(tmp_path / "data") as app:
        memory_id = await stored_id(app)
        await call(
            TOOLS["edit_memory"],
            app.call,
            {"id": memory_id, "find": SAID[1].content, "replace": ""},
        )
        assert await texts_of(app) == ["My cat is called Miso"]
        with pytest.raises(ToolFailed, match="to remove the memory, forget it"):
            await call(
                TOOLS["edit_memory"],
                app.call,
                {"id": memory_id, "find": SAID[0].content, "replace": ""},
            )
        assert await texts_of(app) == ["My cat is called Miso"]


@given(
    st.lists(st.text("ab ", max_size=6), min_size=1, max_size=3),
    st.text("ab ", min_size=1, max_size=2),
)
def test_words_are_replaced_where_they_are_once_and_nowhere_else(
    contents: list[str], find: str
) -> None:
    messages = tuple(Message("user", content) for content in contents)
    memory = replace(a_memory("m"), messages=messages)
    count = sum(content.count(find) for content in contents)
    if count != 1:
        with pytest.raises(InvalidInput):
            _texts_with(memory, find, "X")
        return
    texts = _texts_with(memory, find, "X")
    assert [text.replace("X", find) for text in texts] == contents
    assert "".join(texts).count("X") == 1


def test_the_command_edits_the_memory_whose_id_begins_so(
    cli: CommandLine,
) -> None:
    assert cli("remember", "My cat is called Miso")[0] == 0
    [line] = cli("list", "--json", "-c", "default")[1].splitlines()
    memory_id = json.loads(line)["id"]
    status, out, _ = cli("edit", memory_id[:4], "Miso", "Halloran")
    assert (
        status,
        out.startswith(f"{memory_id} says now: user: My cat is called Halloran. Change "),
    ) == (0, True)
    assert "Halloran" in cli("show", memory_id)[1]
    status, out, err = cli("edit", memory_id[:4], "Miso", "Halloran")
    assert (status, out, err.count("\n")) == (1, "", 1)
    assert "has these words" in err
    status, out, err = cli("edit", "zz", "Miso", "Halloran")
    assert (status, out, "`memory-server list` shows the ids" in err) == (1, "", True)
