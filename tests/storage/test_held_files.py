"""Files that a virus scanner holds on Windows, simulated: every file is held the first time that it is opened, renamed
or removed, with WinError 5, 32 or 33. Everything works all the same."""

from __future__ import annotations

import io
import itertools
import json
import os
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest
from sample_memories import DAY, NOW, memory, trigger
from store_on_disk import commit, open_store, reopened
from trigger_table import TableRunner

from memory_server.conversations.changes import Added, Forgotten
from memory_server.conversations.conversation import Conversations
from memory_server.conversations.lifecycle import ConversationLifecycle
from memory_server.conversations.recall.parameters import Parameters
from memory_server.conversations.services import Services
from memory_server.lore.memory import TriggerSet
from memory_server.memories.backups import Backups
from memory_server.storage.backups.files import BackupFolder
from memory_server.storage.json_store import repair
from memory_server.storage.json_store.examination import examine
from memory_server.storage.json_store.snapshots import SHORT_TERM
from memory_server.storage.small_files import FolderLedger

pytestmark = pytest.mark.anyio


class Held(OSError):
    def __init__(self, code: int) -> None:
        super().__init__(
            "The process cannot access the file because it is being used by another process"
        )
        self.winerror = code


@pytest.fixture
def scanner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Counter[str]]:
    """How often each call met a held file."""
    refusals: Counter[str] = Counter()
    calls_seen: set[tuple[str, str, str]] = set()
    codes = itertools.cycle((5, 32, 33))

    def refusing_once(name: str, operation: Callable[..., Any]) -> Callable[..., Any]:
        def call(path: Any, *arguments: Any, **options: Any) -> Any:
            first_call = (name, str(path), str(arguments[:1]))
            if (
                str(path).startswith(str(tmp_path))
                and not Path(path).is_dir()
                and first_call not in calls_seen
            ):
                calls_seen.add(first_call)
                refusals[name] += 1
                raise Held(next(codes))
            return operation(path, *arguments, **options)

        return call

    def impatient(path: Any, *arguments: Any, **options: Any) -> Any:
        if (
            isinstance(path, (str, Path))
            and str(path).startswith(str(tmp_path))
            and "opener" not in options
        ):
            raise AssertionError(f"{path} is opened without patience")
        return really_open(path, *arguments, **options)

    really_open = io.open
    with monkeypatch.context() as patch:
        for name in ("open", "replace", "rename", "link", "unlink"):
            patch.setattr(os, name, refusing_once(name, getattr(os, name)))
        patch.setattr(io, "open", impatient)
        patch.setattr("memory_server.kernel.files._PAUSES", (0.0,) * 9)
        yield refusals


def spoil(path: Path) -> None:
    """Break the file by means that the simulation lets pass."""
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        with open(
            path.name, "r+b", opener=lambda name, flags: os.open(name, flags, dir_fd=folder)
        ) as file:
            file.write(b"?")
    finally:
        os.close(folder)


async def test_everything_works_with_files_that_are_held_for_a_moment(
    tmp_path: Path, scanner: Counter[str]
) -> None:
    data = tmp_path / "data"
    store = open_store(data)
    deleted = memory("gone")
    await commit(store, Added(memory("a")), Added(deleted), TriggerSet(trigger("t"), None))
    await commit(store, Forgotten(deleted, "deleted"))
    await store.compact("chat")
    services = Services(store, TableRunner(), Parameters(), lambda: NOW, Random(0))
    engines = [ConversationLifecycle(Conversations(services), services)]
    backups = Backups(engines, lambda: NOW, BackupFolder(data / ".memory-server" / "backups"))
    await backups.make("one")
    await commit(store, Added(memory("b")))
    await backups.restore("one", "overwrite")
    assert [backup.problem for backup in await backups.listed()] == [None]
    await backups.delete("one")
    assert [*(await reopened(data)).short_term] == ["a"]
    assert len(await store.archive("chat")) == 2
    assert len(await store.history("chat")) == 4
    # A repair, and letting go of what it kept.
    spoil(data / "chat" / SHORT_TERM)
    planned = repair.plan(data / "chat")
    assert planned is not None
    repair.repair(data / "chat", NOW)
    plan = repair.plan(data / "chat")
    assert plan is None or plan.steps == ()
    store = open_store(data)
    await store.compact("chat", now_ms=NOW + 91 * DAY)
    assert list(examine(data, data / "chat", NOW))[-1].grade == "ok"
    ledger = FolderLedger(data)
    ledger.note_run(NOW)
    assert ledger.last_run_ms() == NOW
    assert set(scanner) == {"open", "replace", "link", "unlink"}


async def test_a_file_saved_by_notepad_is_read_and_written_back_plainly(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    await commit(store, Added(memory("a", text="user: 我喜欢 🎂")), Added(memory("b")))
    await store.compact("chat")
    path = tmp_path / "chat" / SHORT_TERM
    text = path.read_text(encoding="utf-8").replace("喜欢", "爱").replace("\n", "\r\n")
    path.write_bytes(b"\xef\xbb\xbf" + text.encode())
    assert (await store.read("chat")).short_term["a"].text == "user: 我爱 🎂"
    await commit(store, Added(memory("c")))
    await store.compact("chat")
    data = path.read_bytes()
    assert not data.startswith(b"\xef\xbb\xbf")
    assert b"\r" not in data
    assert [record["id"] for record in json.loads(data)] == ["a", "b", "c"]
    for file in path.parent.rglob("*.json*"):
        assert not file.read_bytes().startswith(b"\xef\xbb\xbf")
