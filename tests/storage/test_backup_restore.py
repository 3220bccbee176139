"""Backups of a data folder through the store: consistent while others write, brought back as changes."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
from cli_program import CommandLine
from sample_memories import NOW, contents, memory, trigger
from store_on_disk import commit, open_store, reopened
from trigger_table import TableRunner

from memory_server.conversations.changes import Added, Edited, Forgotten
from memory_server.conversations.conversation import Conversations
from memory_server.conversations.history import name_of
from memory_server.conversations.lifecycle import ConversationLifecycle
from memory_server.conversations.recall.parameters import Parameters
from memory_server.conversations.services import Services
from memory_server.kernel.backups import BackupBroken, MergeCounts
from memory_server.kernel.errors import InvalidInput, StorageUnwritable
from memory_server.lore.memory import TriggerSet
from memory_server.memories.backups import Backups
from memory_server.runtime.app import open_memory
from memory_server.storage.backups.files import ENDING, BackupFolder
from memory_server.storage.json_store.store import JsonFileStore
from memory_server.tools import DEFAULT_TOOLS, TOOLS
from memory_server.tools.base.tool import ToolFailed, call

pytestmark = pytest.mark.anyio


def backups_of(store: JsonFileStore, folder: Path) -> Backups:
    services = Services(store, TableRunner(), Parameters(), lambda: NOW, Random(0))
    return Backups(
        [ConversationLifecycle(Conversations(services), services)],
        lambda: NOW,
        BackupFolder(folder),
    )


async def test_a_backup_brings_back_what_was_deleted_edited_and_added_since(tmp_path: Path) -> None:
    store = open_store(tmp_path / "data")
    await commit(
        store,
        Added(memory("a")),
        Added(memory("b", extra={"mood": "calm"})),
        TriggerSet(trigger("t"), None),
    )
    await commit(store, Added(memory("z")), chat="小红")
    expected = contents(await store.read("chat"))
    backups = backups_of(store, tmp_path / "backups")
    saved = await backups.make()
    assert saved.backup.name == "20260621-000000"
    assert saved.backup.conversations == 2
    assert saved.left_out == ()
    await commit(
        store,
        Forgotten(memory("a"), "deleted"),
        Added(memory("c")),
        TriggerSet(trigger("t", source="0"), None),
    )

    before = contents(await store.read("chat"))
    planned = await backups.restore(saved.backup.name, "overwrite", dry_run=True)
    assert contents(await store.read("chat")) == before
    restored = await backups.restore(saved.backup.name, "overwrite")
    assert planned == [replace(conversation, change_id=None) for conversation in restored]
    assert {conversation.place: conversation.counts for conversation in restored} == {
        "chat": MergeCounts(added=1, replaced=1, removed=1, unchanged=1, forgotten=1),
        "小红": MergeCounts(unchanged=1),
    }
    assert [sorted(part, key=str) for part in contents(await store.read("chat"))[:2]] == [
        sorted(part, key=str) for part in expected[:2]
    ]
    await store.aclose()
    state = await reopened(tmp_path / "data")
    assert set(state.short_term) == {"a", "b"}
    history = (tmp_path / "data" / "chat" / ".memory-server" / "history.jsonl").read_text(
        encoding="utf-8"
    )
    assert '"c"' in history.split('"by":"restore"')[1]


async def test_a_restore_can_be_undone(tmp_path: Path) -> None:
    async with open_memory(tmp_path / "data") as app:
        await commit(
            app.store, Added(memory("a")), Added(memory("b")), TriggerSet(trigger("t"), None)
        )
        await app.memories.backups.make("one")
        await commit(
            app.store,
            Forgotten(memory("a"), "deleted"),
            Edited(memory("b", text="new"), memory("b")),
        )
        await commit(
            app.store, Added(memory("c")), TriggerSet(trigger("t", source="0"), trigger("t"))
        )
        before = contents(await app.store.read("chat"))
        (restored,) = await app.memories.backups.restore("one", "overwrite")
        change = restored.change_id
        assert set((await app.store.read("chat")).short_term) == {"a", "b"}
        archived = [(name_of(entry), entry.reason) for entry in await app.store.archive("chat")]
        assert archived == [("c", "restored_over")], "what came back is not in the archive"
        (unchanged,) = await app.memories.backups.restore("one", "overwrite")
        assert unchanged.change_id is None
        history = await call(
            TOOLS["get_history"], app.call, {"conversation_id": "chat", "limit": 1}
        )
        assert history.structured["changes"][0]["changeId"] == change
        await call(TOOLS["undo_change"], app.call, {"conversation_id": "chat", "changeId": change})
        after = contents(await app.store.read("chat"))
        assert [sorted(part, key=str) for part in after[:2]] == [
            sorted(part, key=str) for part in before[:2]
        ]


async def test_what_a_restore_brings_back_leaves_the_archive(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    backups = backups_of(store, tmp_path / "shelf")
    await commit(store, Added(memory("a")), Added(memory("b")))
    await backups.make("one")
    await commit(store, Forgotten(memory("a"), "deleted"), Forgotten(memory("b"), "deleted"))
    await commit(store, Added(memory("a", text="new")))
    [restored] = await backups.restore("one")
    assert restored.counts.added == 1
    assert [entry.memory.id for entry in await store.archive("chat")] == ["a"], (
        "what is here differs from what went"
    )
    await store.compact("chat")
    assert [entry.memory.id for entry in await open_store(tmp_path).archive("chat")] == ["a"]


async def test_one_conversation_alone_can_be_saved_and_brought_back(tmp_path: Path) -> None:
    store = open_store(tmp_path / "data")
    await commit(store, Added(memory("a")))
    await commit(store, Added(memory("b")), chat="小红")
    backups = backups_of(store, tmp_path / "backups")
    assert (await backups.make("one", only="小红")).backup.conversations == 1
    await backups.make("all")
    with pytest.raises(InvalidInput, match="does not hold the conversation chat"):
        await backups.restore("one", only="chat")
    assert [conversation.place for conversation in await backups.restore("all", only="小红")] == [
        "小红"
    ]
    with pytest.raises(InvalidInput, match="nothing to back up"):
        await backups.make("none", only="小明")


async def test_a_backup_made_in_the_second_of_another_gets_a_number(tmp_path: Path) -> None:
    store = open_store(tmp_path / "data")
    await commit(store, Added(memory("a")))
    backups = backups_of(store, tmp_path / "backups")
    assert [(await backups.make()).backup.name for _ in range(3)] == [
        "20260621-000000",
        "20260621-000000-2",
        "20260621-000000-3",
    ]


async def test_a_conversation_that_cannot_be_read_is_named_and_the_others_are_saved(
    tmp_path: Path,
) -> None:
    store = open_store(tmp_path / "data")
    await commit(store, Added(memory("a")))
    broken = tmp_path / "data" / "broken"
    broken.mkdir()
    (broken / "short-term-memory.json").write_text("[{")
    saved = await backups_of(store, tmp_path / "backups").make("one")
    assert saved.backup.conversations == 1
    [reason] = saved.left_out
    assert "broken" in reason


async def test_a_broken_backup_changes_nothing(tmp_path: Path) -> None:
    store = open_store(tmp_path / "data")
    await commit(store, Added(memory("a")))
    backups = backups_of(store, tmp_path / "backups")
    await backups.make("one")
    path = tmp_path / "backups" / f"one{ENDING}"
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(BackupBroken, match="Nothing was changed"):
        await backups.restore("one", "overwrite")
    assert (await backups.listed())[0].problem is None, "the list reads the facts only"


async def test_a_restore_that_stops_half_way_says_how_far_it_came(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_store(tmp_path / "data")
    await commit(store, Added(memory("a")))
    await commit(store, Added(memory("b")), chat="小红")
    backups = backups_of(store, tmp_path / "backups")
    await backups.make("one")
    update = store.update

    async def failing(conversation_id: str, *arguments: object, **named: object) -> object:
        if conversation_id == "小红":
            raise StorageUnwritable("The disk is full.", tmp_path)
        return await update(conversation_id, *arguments, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(store, "update", failing)
    with pytest.raises(
        StorageUnwritable,
        match="1 conversations were brought back before it; run the restore again",
    ):
        await backups.restore("one")


WRITER = """
import asyncio, sys
from pathlib import Path
from memory_server.conversations.changes import Added, Forgotten
from memory_server.conversations.model import ShortTermMemory
from memory_server.storage.json_store.store import JsonFileStore

def one(n, side):
    return ShortTermMemory(f"{side}{n}", n, "t", (), (), 0.0, "chat")

async def main():
    store = JsonFileStore(Path(sys.argv[1]), lambda: 0)
    for n in range(10_000):
        # Both or none: a state that holds one of a pair was taken in the middle of a change.
        await store.update("chat", lambda s: ([Added(one(n, "x")), Added(one(n, "y"))], None), by="w")
        print(n, flush=True)

asyncio.run(main())
"""


async def test_a_backup_of_a_thousand_memories_is_whole_while_another_process_writes(
    tmp_path: Path,
) -> None:
    data = tmp_path / "data"
    store = open_store(data)
    await commit(
        store, *(Added(memory(f"m{number}", words={"披萨": 1.0})) for number in range(1_000))
    )
    backups = backups_of(store, tmp_path / "backups")
    writer = subprocess.Popen(  # noqa: ASYNC220
        [sys.executable, "-c", WRITER, str(data)], stdout=subprocess.PIPE
    )
    try:
        assert writer.stdout is not None
        await asyncio.to_thread(writer.stdout.readline)
        sizes = []
        for number in range(3):
            sizes.append((await backups.make(f"b{number}")).backup.short_term)
            await asyncio.to_thread(writer.stdout.readline)
    finally:
        writer.kill()
        writer.communicate()
    for backup in range(3):
        with BackupFolder(tmp_path / "backups").open(f"b{backup}") as (_, conversations):
            (conversation,) = conversations
        numbers: dict[str, set[int]] = {"m": set(), "x": set(), "y": set()}
        for stored in conversation.short_term:
            numbers[stored.id[0]].add(int(stored.id[1:]))
        assert numbers["m"] == {*range(1_000)}
        assert numbers["x"] == numbers["y"]
    assert sizes == sorted(sizes)
    assert sizes[0] > 1_000


async def test_the_tools_work_are_not_offered_by_default_and_say_where_there_are_no_files(
    tmp_path: Path,
) -> None:
    names = ("backup_memories", "restore_memories", "list_backups", "delete_backup")
    assert not set(names) & set(DEFAULT_TOOLS)
    async with open_memory(tmp_path / "data") as app:
        await commit(app.store, Added(memory("a")))
        saved = await call(TOOLS["backup_memories"], app.call, {"name": "one"})
        assert saved.structured["shortTerm"] == 1
        assert "1 conversation with 1 short-term" in saved.text
        planned = await call(TOOLS["restore_memories"], app.call, {"name": "one", "dry_run": True})
        assert planned.text.startswith("Nothing was changed; a restore would:\nchat: 1 unchanged.")
        listed = await call(TOOLS["list_backups"], app.call, {})
        assert [row["name"] for row in listed.structured["backups"]] == ["one"]
        deleted = await call(TOOLS["delete_backup"], app.call, {"name": "one"})
        assert deleted.structured == {"remainingBackups": 0}
        with pytest.raises(ToolFailed, match="There is no backup called `one`"):
            await call(TOOLS["restore_memories"], app.call, {"name": "one"})
        with pytest.raises(ToolFailed, match="cannot be the name of a backup"):
            await call(TOOLS["delete_backup"], app.call, {"name": "../chat"})


def test_the_commands_say_what_they_did(cli: CommandLine, tmp_path: Path) -> None:
    assert cli("backup", "list")[1] == "There is no backup yet; `memory-server backup` makes one.\n"
    assert "nothing to back up" in cli("backup")[2]
    message = {"role": "user", "content": "我喜欢吃披萨"}
    cli(
        "call",
        "add_short_term_memory",
        json.dumps({"conversation_id": "小明", "messages": [message]}),
    )
    assert "Backup one: 1 conversation with 1 short-term" in cli("backup", "one")[1]
    cli("call", "delete_short_term_memories", '{"conversation_id":"小明","pattern":"披萨"}')
    preview = "Nothing was changed; a restore would:\n小明: 1 new, 1 of them forgotten before.\n"
    assert cli("backup", "restore", "one", "--dry-run")[1] == preview
    assert (
        cli("call", "--text", "restore_memories", '{"name": "one", "dry_run": true}')[1] == preview
    )
    restored = cli("backup", "restore", "one")[1]
    assert re.fullmatch(
        r"Restored:\n小明: 1 new, 1 of them forgotten before. Change 3-\w{4}\.\n", restored
    )
    assert (
        cli("backup", "restore", "one", "--overwrite", "-c", "小明")[1]
        == "Restored:\n小明: 1 unchanged.\n"
    )
    assert cli("backup", "restore", "two")[0] == 2
    (tmp_path / "data" / ".memory-server" / "backups" / f"two{ENDING}").write_bytes(b"?")
    status, out, _ = cli("backup", "list")
    assert status == 0
    assert "one: " in out
    assert "two: its first part is damaged" in out
    assert cli("backup", "delete", "one")[1] == "Deleted; 1 backup remaining.\n"
    assert "小明" in cli("list")[1], "the folder of the backups is no conversation"


async def test_a_restore_that_is_cancelled_while_it_waits_holds_nothing(tmp_path: Path) -> None:
    store = open_store(tmp_path / "data")
    folder = BackupFolder(tmp_path / "backups")
    await commit(store, Added(memory("a")))
    backups = backups_of(store, folder.folder)
    await backups.make("one")
    release = folder.try_hold("one")
    assert release is not None
    waiting = asyncio.create_task(backups.restore("one"))
    for _ in range(5):
        await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    release()
    await asyncio.sleep(0.2)  # a thread that waits would get the lock now
    assert (await backups.restore("one"))[0].place == "chat"
    assert folder.try_hold("one") is not None
    await store.aclose()
