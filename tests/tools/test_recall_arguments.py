"""`search_short_term_memories` beyond the usual: lines for a prompt, no trace, other conversations."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError
from sample_memories import DAY, NOW, memory

from memory_server.config import Settings
from memory_server.conversations.changes import Added
from memory_server.kernel.files import try_lock
from memory_server.kernel.messages import Message
from memory_server.kernel.recalled_block import marked
from memory_server.runtime.app import App, parameters
from memory_server.tools import TOOLS
from memory_server.tools.base.tool import Answer, call

pytestmark = pytest.mark.anyio


@pytest.fixture
async def app(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[App]:
    monkeypatch.setattr("memory_server.conversations.search.SEARCH_WAIT_SECONDS", 0.02)
    settings = Settings.model_validate(
        {
            "data_dir": tmp_path,
            "now": NOW / 1000,
            "seed": 1,
            "timezone": "Asia/Shanghai",
            "conversation": "小明",
        }
    )
    async with App(settings) as opened:
        for chat, age in (("小明", DAY), ("小红", 2 * DAY)):
            message = Message("user", f"{chat}喜欢披萨", NOW - age, chat)
            stored = memory(
                f"of {chat}",
                age=age,
                words={"披萨": 60.0},
                chat=chat,
                text=message.content,
                messages=(message,),
            )
            stored = replace(stored, indexed_with=parameters(settings).wording.enrichment.signature)
            await opened.store.update(
                chat, lambda _, stored=stored: ([Added(stored)], None), by="test"
            )
        yield opened


async def search(app: App, **arguments: Any) -> Answer:
    asked = {"recentMessages": [{"role": "user", "content": "晚上吃披萨吗？"}], **arguments}
    return await call(TOOLS["search_short_term_memories"], app.call, asked)


async def score_of(app: App, chat: str) -> float:
    return (await app.store.read(chat)).short_term[f"of {chat}"].score


async def test_as_usual_nothing_of_it_is_shown(app: App) -> None:
    answer = (await search(app)).structured
    assert not {"lines", "changes"} & answer.keys()
    assert "keptIn" not in answer["topRelevant"][0]
    assert answer["totalSearched"] == 1
    assert await score_of(app, "小明") == 5


async def test_lines_are_the_whole_text(app: App) -> None:
    answer = await search(app, maxBytes=200)
    assert (
        answer.text
        == answer.structured["lines"]
        == marked("小明（昨天，早上）：小明喜欢披萨", "zh")
    )


async def test_a_look_without_a_trace(app: App) -> None:
    version = (await app.store.read("小明")).version
    answer = await search(app, reinforce=False, scope="all")
    assert [item["id"] for item in answer.structured["topRelevant"]] == ["of 小明", "of 小红"]
    assert not {"changeId", "changes", "note"} & answer.structured.keys()
    assert (await app.store.read("小明")).version == version


async def test_each_change_is_named_and_can_be_undone_where_it_was_made(app: App) -> None:
    answer = await search(app, scope="all")
    first, second = answer.structured["topRelevant"]
    assert ("keptIn" in first, second["keptIn"]) == (False, "小红")
    assert "UTC in 小红 (" in answer.text
    assert "changeId" not in answer.structured
    changes = {
        change["conversation_id"]: change["changeId"] for change in answer.structured["changes"]
    }
    assert {*changes} == {"小明", "小红"}
    for chat, change in changes.items():
        assert await score_of(app, chat) == 5
        await call(TOOLS["undo_change"], app.call, {"changeId": change, "conversation_id": chat})
        assert await score_of(app, chat) == 0


async def test_a_conversation_that_another_process_holds_is_named(app: App) -> None:
    lock = try_lock(app.store.folder("小红") / ".memory-server" / "lock")
    assert lock is not None
    answer = await search(app, scope="all")
    lock.release()
    assert "could not be written: 小红." in answer.structured["note"]
    assert answer.structured["note"] in answer.text
    assert [await score_of(app, chat) for chat in ("小明", "小红")] == [5, 0]
    assert "changeId" in answer.structured


SAID = {"role": "user", "content": "我喜欢披萨"}
PART = {"type": "text"}
OF_CLIENTS: list[tuple[list[dict[str, Any]], list[tuple[str, str]]]] = [
    (
        [
            SAID
            | {
                "content": [
                    PART | {"text": "看这个"},
                    {"type": "image_url"},
                    PART | {"text": "披萨"},
                ]
            },
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [{"id": "1", "function": {"name": "f"}}],
            },
            {"role": "tool", "tool_call_id": "1", "content": "output"},
            {"role": "assistant", "content": "好吃", "refusal": None, "annotations": []},
        ],
        [("user", "看这个\n披萨"), ("assistant", "好吃")],
    ),
    (
        [
            {"role": "developer", "content": "be brief"},
            {
                "role": "assistant",
                "content": [PART | {"text": "a"}, {"type": "tool_use", "name": "f"}],
            },
            {"role": "user", "content": [{"type": "tool_result", "content": "output"}]},
            {"role": "user", "content": [{"type": "input_text", "text": "b"}]},
            {
                "role": "assistant",
                "content": [
                    {"type": "reasoning_text", "text": "why"},
                    {"type": "output_text", "text": "c"},
                ],
            },
        ],
        [("system", "be brief"), ("assistant", "a"), ("user", "b"), ("assistant", "c")],
    ),
]
TAKE_MESSAGES = {
    name: argument
    for name, tool in TOOLS.items()
    for argument in tool.input_schema()["properties"]
    if "messages" in argument.lower()
}


@pytest.mark.parametrize("name", TAKE_MESSAGES)
@pytest.mark.parametrize(("sent", "read"), OF_CLIENTS)
def test_messages_are_taken_as_chat_clients_have_them(
    name: str, sent: list[dict[str, Any]], read: list[tuple[str, str]]
) -> None:
    argument = TAKE_MESSAGES[name]
    required = TOOLS[name].input_schema().get("required", ())
    taken = TOOLS[name].arguments.model_validate(dict.fromkeys(required, "x") | {argument: sent})
    assert [(message.role, message.content) for message in getattr(taken, argument)] == read


@pytest.mark.parametrize("content", [None, [1], {}])
def test_a_content_of_another_form_is_refused(content: Any) -> None:
    with pytest.raises(ValidationError, match="content"):
        TOOLS["recall_turn"].arguments.model_validate({"messages": [SAID | {"content": content}]})


@pytest.mark.parametrize("message", [None, "x", 1, []])
def test_what_is_not_a_message_is_refused_beside_others(message: Any) -> None:
    with pytest.raises(ValidationError, match=r"messages\.0"):
        TOOLS["remember_turn"].arguments.model_validate({"messages": [message, SAID]})


@pytest.mark.parametrize(
    ("name", "argument"),
    [
        ("search_short_term_memories", "recentMessages"),
        ("search_long_term_memories", "messages"),
        ("recall_turn", "messages"),
    ],
)
async def test_a_search_without_messages_is_answered_when_a_chat_opens(
    app: App, name: str, argument: str
) -> None:
    answer = await call(TOOLS[name], app.call, {argument: [], "conversation_id": "小明"})
    assert answer.structured
