"""Bad input gets one clear sentence and changes nothing."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from memory_server import open_memory
from memory_server.app import App
from memory_server.config import Settings
from memory_server.tools import TOOLS
from memory_server.tools.tool import ToolFailed, call

pytestmark = pytest.mark.anyio

HELLO = [{"role": "user", "content": "我喜欢吃披萨"}]
TRIGGER = "match_keys(context.messages, ['披萨']) > 0"


def message(**fields: Any) -> list[dict[str, Any]]:
    return [HELLO[0] | fields]


# tool, arguments, what the sentence must say
CASES: list[tuple[str, dict[str, Any], str]] = [
    # wrong types
    ("add_short_term_memory", {"messages": "hello"}, "`messages` must be a list, not 'hello'"),
    ("add_short_term_memory", {"messages": ["hello"]}, "`messages[0]` must be an object"),
    ("add_short_term_memory", {"messages": message(content=5)}, "`messages[0].content` must be text, not 5"),
    ("add_short_term_memory", {"messages": HELLO, "conversation_id": 7}, "`conversation_id` must be text, not 7"),
    ("add_short_term_memory", {"messages": HELLO, "roleWeights": {"user": "much"}}, "must be a number"),
    ("add_short_term_memory", {"messages": HELLO, "roleWeights": {"user": -1}}, "at least 0"),
    ("add_short_term_memory", {"messages": HELLO, "roleWeights": {"user": math.inf}}, "at least 0"),
    ("search_long_term_memories", {"messages": HELLO, "participants": ["a"]}, "`participants` must be an object"),
    # missing and unknown
    ("add_short_term_memory", {}, "`messages` is missing"),
    ("add_short_term_memory", {"mesages": HELLO}, "did you mean `messages`?"),
    ("search_short_term_memories", {"recentMessages": HELLO, "limit": 3}, "has no argument `limit`; it takes"),
    ("get_frequent_conversation", {"conversation_id": "x"}, "it takes no arguments"),
    ("add_short_term_memory", {"messages": message(timestmap=1)}, "`messages[0].timestmap` is not known there"),
    # empty
    ("add_short_term_memory", {"messages": []}, "`messages` is empty"),
    ("add_short_term_memory", {"messages": message(content=" \n")}, "no text to remember"),
    ("search_short_term_memories", {"recentMessages": []}, "`recentMessages` is empty"),
    ("search_long_term_memories", {"messages": []}, "`messages` is empty"),
    ("delete_short_term_memories", {"pattern": ""}, "`pattern` is empty"),
    # values
    ("add_short_term_memory", {"messages": message(role="bot")}, "must be 'user', 'assistant' or 'system', not 'bot'"),
    ("add_short_term_memory", {"messages": message(timestamp=math.nan)}, "finite number of milliseconds"),
    ("add_short_term_memory", {"messages": message(timestamp=math.inf)}, "finite number of milliseconds"),
    ("add_short_term_memory", {"messages": message(timestamp="today")}, "finite number of milliseconds"),
    ("add_short_term_memory", {"messages": message(timestamp=True)}, "finite number of milliseconds"),
    ("add_short_term_memory", {"messages": message(timestamp=1_700_000_000)}, "1700000000000 for this one"),
    ("add_short_term_memory", {"messages": message(timestamp=10**18)}, "in milliseconds since 1970"),
    ("add_short_term_memory", {"messages": message(content="长" * 5_000_000)}, "5,000,000 characters"),
    ("add_short_term_memory", {"messages": HELLO * 501}, "at most 500"),
    # ids
    ("add_short_term_memory", {"messages": HELLO, "conversation_id": "小" * 300}, "300 characters; use at most 256"),
    ("add_short_term_memory", {"messages": HELLO, "conversation_id": "  "}, "conversation_id is empty"),
    ("add_short_term_memory", {"messages": HELLO, "conversation_id": "a\nb"}, "line break"),
    ("add_short_term_memory", {"messages": HELLO, "conversation_id": "\ud83d"}, "broken surrogate"),
    # expressions
    ("delete_short_term_memories", {"pattern": "/(/"}, "nvalid regular expression"),
    ("delete_short_term_memories", {"pattern": "/" + "a" * 2_000 + "/"}, "at most 1,000"),
    # triggers
    ("add_long_term_memory", {"name": "a", "prompt": "p", "trigger": "if (a {"}, "line 1, column 7"),
    ("add_long_term_memory", {"name": "a", "prompt": "p", "trigger": "1 +\n  ) 2"}, "line 2"),
    ("add_long_term_memory", {"name": "a", "prompt": "p", "trigger": "match_kyes([], [])"}, "did you mean match_keys"),
    ("add_long_term_memory", {"name": "a", "prompt": "p", "trigger": " "}, "trigger is empty"),
    ("add_long_term_memory", {"name": " ", "prompt": "p", "trigger": TRIGGER}, "needs a name and a prompt"),
    ("add_long_term_memory", {"name": "n" * 201, "prompt": "p", "trigger": TRIGGER}, "201 characters"),
    ("add_long_term_memory", {"name": "a", "prompt": "p" * 20_001, "trigger": TRIGGER}, "at most 20,000"),
    ("update_long_term_memory", {"name": "披萨"}, "nothing to change"),
    ("update_long_term_memory", {"name": "披萨", "trigger": "("}, "cannot work and was not stored"),
    ("update_long_term_memory", {"name": "披萨", "prompt": " "}, "new prompt is empty"),
    # missing memories
    ("update_long_term_memory", {"name": "寿司", "prompt": "p"}, "it holds `披萨`"),
    ("delete_long_term_memory", {"name": "寿司"}, "No long-term memory is called `寿司`"),
    ("get_memory_context", {"name": "披萨", "conversation_id": "b"}, "it is kept in `default`"),
    ("get_memory_context", {"name": "披", "conversation_id": "b"}, "which holds none"),
]


async def stored(app: App) -> tuple[Any, ...]:
    state = await app.store.read("default")
    return state.version, dict(state.short_term), dict(state.long_term), await app.conversations.ids()


@pytest.mark.parametrize(("tool", "arguments", "said"), CASES, ids=lambda value: None)
async def test_bad_input_is_refused_in_one_sentence_and_changes_nothing(
    tmp_path: Path, tool: str, arguments: dict[str, Any], said: str
) -> None:
    async with open_memory(tmp_path) as app:
        await call(TOOLS["add_short_term_memory"], app.conversations, {"messages": HELLO})
        kept = {"name": "披萨", "prompt": "爱吃披萨", "trigger": TRIGGER}
        await call(TOOLS["add_long_term_memory"], app.conversations, kept)
        before = await stored(app)
        with pytest.raises(ToolFailed) as failure:
            await call(TOOLS[tool], app.conversations, arguments)
        assert said in str(failure.value)
        sentence = str(failure.value).partition("\n")[0]
        assert sentence.endswith((".", "?")), sentence
        assert len(sentence) < 500
        assert "pydantic" not in sentence
        assert await stored(app) == before


async def test_a_refused_trigger_is_shown_with_a_caret_under_the_column(tmp_path: Path) -> None:
    async with open_memory(tmp_path) as app:
        arguments = {"name": "a", "prompt": "p", "trigger": "let n = 1;\nn == ) 2"}
        with pytest.raises(ToolFailed) as failure:
            await call(TOOLS["add_long_term_memory"], app.conversations, arguments)
        lines = str(failure.value).splitlines()
        assert lines[1:] == ["n == ) 2", "     ^"]


async def test_a_trigger_that_depends_on_the_data_is_stored_with_a_warning(tmp_path: Path) -> None:
    async with open_memory(tmp_path) as app:
        arguments = {"name": "a", "prompt": "p", "trigger": "context.participants.user.name === '小明'"}
        answer = await call(TOOLS["add_long_term_memory"], app.conversations, arguments)
        assert answer.structured["success"] is True
        assert "name" in answer.structured["warnings"][0]
        assert answer.structured["warnings"][0] in answer.text


async def test_an_unwritable_data_folder_is_said_and_reading_goes_on(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    async with open_memory(blocked / "data") as app:
        with pytest.raises(ToolFailed, match=r"^Nothing was changed in .*\.$"):
            await call(TOOLS["add_short_term_memory"], app.conversations, {"messages": HELLO})
        found = await call(TOOLS["search_short_term_memories"], app.conversations, {"recentMessages": HELLO})
        assert found.structured["totalSearched"] == 0


async def test_a_fault_of_ours_is_one_sentence_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with App(Settings(data_dir=tmp_path)) as app:
        monkeypatch.setattr(app.conversations, "get", lambda _: 1 / 0)
        with pytest.raises(ToolFailed, match=r"failed inside the server \(ZeroDivisionError\)"):
            await call(TOOLS["get_memory_stats"], app.conversations, {})
