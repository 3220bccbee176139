"""What is written here, as the Node original looks at it: the fields it needs, of the types that it keeps.

It skips a memory without text; takes `time_stamp`, `timestamp` or `timeStamp` for the time, and now where `Date` cannot
read it; drops a keyword whose word is no string; and takes 1 and 0 for a weight or a score that is no finite
number. Each would be a silent loss there.
"""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sample_memories import LONG_TERM, SHORT_TERM
from store_on_disk import commit, open_store

from memory_server.conversations.changes import Added
from memory_server.conversations.model import ShortTermMemory
from memory_server.lore.memory import LongTermMemory, TriggerSet
from memory_server.runtime.app import open_memory
from memory_server.storage.json_store.snapshots import LONG_TERM as LONG_TERM_FILE
from memory_server.storage.json_store.snapshots import SHORT_TERM as SHORT_TERM_FILE
from memory_server.tools import TOOLS
from memory_server.tools.base.tool import call

pytestmark = pytest.mark.anyio
DATE = re.compile(r"(\d{4}|[+-]\d{6})-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")
"""What JavaScript's `Date` prints and is bound to read."""


def loaded(folder: Path, name: str) -> list[dict[str, Any]]:
    def refuse(text: str) -> float:
        raise AssertionError(f"JSON.parse knows no {text}")

    rows: list[dict[str, Any]] = json.loads(
        (folder / name).read_bytes().decode("utf-8"), parse_constant=refuse
    )
    assert isinstance(rows, list)
    return rows


def is_finite_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def check(folder: Path) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    short = loaded(folder, SHORT_TERM_FILE)
    long = loaded(folder, LONG_TERM_FILE)
    for row in short:
        assert isinstance(row["text"], str)
        # A field of another program's under a name that goes first would be another time.
        assert DATE.fullmatch(row.get("time_stamp") or row["timestamp"])
        assert all(
            isinstance(keyword["word"], str) and is_finite_number(keyword["weight"])
            for keyword in row["keywords"]
        )
        assert is_finite_number(row["score"])
        assert isinstance(row["conversation_id"], str)
    for row in long:
        assert all(
            isinstance(row[field], str) for field in ("name", "prompt", "trigger", "createdContext")
        )
        assert DATE.fullmatch(row["createdAt"])
        assert "updatedAt" not in row or DATE.fullmatch(row["updatedAt"])
    return short, long


@settings(
    max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None
)
@given(st.lists(SHORT_TERM, max_size=4), st.lists(LONG_TERM, max_size=4))
async def test_every_record_has_what_it_needs(
    tmp_path_factory: pytest.TempPathFactory,
    short: list[ShortTermMemory],
    long: list[LongTermMemory],
) -> None:
    folder = tmp_path_factory.mktemp("data")
    store = open_store(folder)
    memories = {memory.id: memory for memory in short}
    triggers = {trigger.name: trigger for trigger in long}
    await commit(
        store,
        *map(Added, memories.values()),
        *(TriggerSet(trigger, None) for trigger in triggers.values()),
    )
    if not short and not long:
        return
    await store.compact("chat")
    short_rows, long_rows = check(folder / "chat")
    assert [row["text"] for row in short_rows] == [memory.text for memory in memories.values()]
    assert len(long_rows) == len(triggers)


async def test_so_has_what_the_tools_store(tmp_path: Path) -> None:
    messages = [
        {"role": "user", "content": "我喜欢吃披萨", "name": "小明"},
        {"role": "assistant", "content": "好的"},
    ]
    async with open_memory(tmp_path) as app:
        conversation = {"conversation_id": "chat"}
        await call(TOOLS["add_short_term_memory"], app.call, conversation | {"messages": messages})
        long_term = {
            "name": "披萨",
            "prompt": "要芝士",
            "trigger": "match_keys(context.messages, ['披萨']) > 0",
        }
        await call(TOOLS["add_long_term_memory"], app.call, conversation | long_term)
    (row,), (trigger,) = check(tmp_path / "chat")
    assert row["text"] == "小明: 我喜欢吃披萨\nassistant: 好的"
    assert row["conversation_id"] == "chat"
    assert "披萨" in {keyword["word"] for keyword in row["keywords"]}
    assert {field: trigger[field] for field in long_term} == long_term
