"""Every tool and every command that stores, on a disk that is full or read-only: one clear sentence where something
would have been written, an answer where nothing need be, nothing half done, and all is well once there is room."""

from __future__ import annotations

import asyncio
import errno
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sample_memories import DAY, contents, memory, trigger
from store_on_disk import commit, open_store, reopened

from memory_server.cli.parser import main
from memory_server.config import Settings
from memory_server.conversations.changes import Added, Forgotten, Pinned, change_id
from memory_server.kernel.messages import Message
from memory_server.lore.memory import BookEntry, TriggerSet
from memory_server.runtime.app import App
from memory_server.tools import TOOLS, TOOLSETS
from memory_server.tools.base.tool import ToolFailed, call

TROUBLE = {errno.ENOSPC: "the disk is full", errno.EROFS: "cannot be written"}
HELLO = [{"role": "user", "content": "我喜欢吃披萨"}]
CHANGE = change_id("chat", 1)
WRITING: dict[str, dict[str, Any]] = {
    "add_short_term_memory": {"messages": HELLO},
    "delete_short_term_memories": {"pattern": "披萨"},
    "cleanup_memories": {},
    "add_long_term_memory": {"name": "new", "prompt": "p", "trigger": "true"},
    "update_long_term_memory": {"name": "t", "prompt": "p"},
    "delete_long_term_memory": {"name": "t"},
    "pin_memory": {"id": "a"},
    "unpin_memory": {"id": "b"},
    "mute_memory": {"id": "b"},
    "edit_memory": {"id": "a", "find": "披萨", "replace": "面条"},
    "restore_memories_from_archive": {"ids": ["gone"]},
    "undo_change": {"changeId": CHANGE},
    "forget": {"words": "披萨", "confirm": True},
    "backup_memories": {"name": "two"},
    "restore_memories": {"name": "one", "mode": "overwrite"},
    "remember_turn": {"messages": [*HELLO, {"role": "assistant", "content": "好的，记住了"}]},
    "switch_book": {"name": "Tale", "on": False},
    "remove_book": {"name": "Tale"},
}
READING: dict[str, dict[str, Any]] = {
    "get_memory_stats": {},
    "get_frequent_conversation": {},
    "list_long_term_memories": {},
    "search_long_term_memories": {"messages": HELLO},
    "get_memory_context": {"name": "t"},
    "forget_preview": {},
    "get_history": {},
    "list_backups": {},
    "list_books": {},
    "show_book": {"name": "Tale"},
    "explain_recall": {"recentMessages": HELLO, "memory_id": "a"},
    "search_memories": {"query": "披萨"},
    "analyze_memory_patterns": {},
    "get_metrics": {},
    "health_check": {},
    "search_short_term_memories": {"recentMessages": HELLO},
    "recall_turn": {"messages": HELLO},
}
"""A search that cannot reinforce answers all the same."""
ELSEWHERE = {
    "delete_backup",
    *(tool.name for name in ("notes", "sessions", "layers", "refs") for tool in TOOLSETS[name]),
}
"""Removing needs no room, and on a read-only disk os.unlink says so itself; knowledge has test_store_trouble.py."""


async def filled(data_dir: Path) -> None:
    store = open_store(data_dir)
    messages = (Message("user", "我喜欢吃披萨"),)
    await commit(
        store,
        Added(memory("a", words={"披萨": 60.0}, messages=messages)),
        Added(memory("b")),
        Pinned("b"),
    )
    await commit(
        store,
        TriggerSet(trigger("t"), None),
        Added(memory("gone")),
        Added(memory("old", age=900 * DAY)),
    )
    await commit(store, Forgotten(memory("gone"), "deleted"))
    await commit(
        store, TriggerSet(replace(trigger("Bridge"), book=BookEntry("1f", "Tale", uid="1")), None)
    )
    await store.aclose()


@contextmanager
def no_room(error_number: int) -> Iterator[None]:
    def fail(descriptor: int) -> None:
        raise OSError(error_number, os.strerror(error_number))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("memory_server.kernel.files.sync_file", fail)
        patch.setattr("memory_server.storage.partition.journal.sync_file", fail)
        yield


def settings_of(data_dir: Path) -> Settings:
    # The clean-up is to have something to do.
    return Settings.model_validate({"data_dir": data_dir, "short_term": {"keep_at_least": 0}})


def test_each_tool_is_in_one_of_the_tables() -> None:
    assert WRITING.keys() | READING.keys() | ELSEWHERE == TOOLS.keys()
    assert not WRITING.keys() & READING.keys()


@pytest.mark.anyio
@pytest.mark.parametrize("error_number", TROUBLE)
async def test_a_tool_that_would_write_says_why_it_cannot_and_the_others_answer(
    tmp_path: Path, error_number: int
) -> None:
    await filled(tmp_path)
    async with App(settings_of(tmp_path)) as app:
        await call(TOOLS["backup_memories"], app.call, {"name": "one"})
        await app.store.update("chat", lambda state: ([Added(memory("later"))], None), by="test")
        before = contents(await app.store.read("chat"))

        async def called(name: str, arguments: dict[str, Any]) -> str:
            parameters = TOOLS[name].arguments.model_fields
            conversation = {}
            if "conversation_id" in parameters:
                conversation = {"conversation_id": "chat"}
            answer = await call(TOOLS[name], app.call, conversation | arguments)
            return answer.text

        with no_room(error_number):
            for name, arguments in WRITING.items():
                with pytest.raises(ToolFailed, match=TROUBLE[error_number]):
                    await called(name, arguments)
                assert contents(await app.store.read("chat")) == before, name
            for name, arguments in READING.items():
                assert await called(name, arguments), name
            assert contents(await app.store.read("chat")) == before
        assert contents(await reopened(tmp_path)) == before
        assert await called("add_short_term_memory", WRITING["add_short_term_memory"])
    assert len((await reopened(tmp_path)).short_term) == len(before[0]) + 1


COMMANDS: dict[str, list[str]] = {
    "call": [
        "call",
        "add_short_term_memory",
        json.dumps({"conversation_id": "chat", "messages": HELLO}),
    ],
    "undo": ["undo", CHANGE, "-c", "chat"],
    "pin": ["pin", "a", "-c", "chat"],
    "pin --off": ["pin", "b", "--off", "-c", "chat"],
    "mute": ["mute", "b", "-c", "chat"],
    "edit": ["edit", "a", "披萨", "面条", "-c", "chat"],
    "undo --memory": ["undo", "--memory", "gone", "-c", "chat"],
    "backup": ["backup", "two"],
    "import": ["import", "new.json", "-c", "chat"],
    "export": ["export", "out.jsonl"],
}


@pytest.mark.parametrize("error_number", TROUBLE)
@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_that_would_write_says_it_in_one_line_and_by_its_status(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    name: str,
    error_number: int,
) -> None:
    asyncio.run(filled(tmp_path / "data"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MEMORY_SERVER_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setenv("HOME", str(tmp_path))
    rows = [
        {"id": "new", "timestamp": "2026-01-01T00:00:00.000Z", "text": "user: 新", "keywords": []}
    ]
    (tmp_path / "new.json").write_text(json.dumps(rows), encoding="utf-8")
    before = contents(asyncio.run(reopened(tmp_path / "data")))
    with no_room(error_number):
        status = main(COMMANDS[name])
    out, err = capfd.readouterr()
    assert status in (1, 2), out
    sentences = [line for line in err.splitlines() if not line.startswith("{")]
    assert len(sentences) == 1, err
    assert sentences[0].startswith("memory-server: "), err
    assert TROUBLE[error_number] in sentences[0] or os.strerror(error_number) in sentences[0]
    assert contents(asyncio.run(reopened(tmp_path / "data"))) == before
    assert not (tmp_path / "out.jsonl").exists()
    assert main(COMMANDS[name]) == 0, capfd.readouterr()
