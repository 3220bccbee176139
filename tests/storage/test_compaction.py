"""Compaction: a crash anywhere and readers at any moment see the same state."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest
from sample_memories import contents, copy_of, memory, random_changes, trigger
from store_on_disk import commit, open_store, reopened

from memory_server.conversations import codec
from memory_server.conversations.changes import Added, Forgotten, apply
from memory_server.conversations.model import ConversationState
from memory_server.kernel import files as folders
from memory_server.kernel import json_text
from memory_server.lore.memory import TriggerSet
from memory_server.storage.json_store.conversation_files import ConversationFiles
from memory_server.storage.json_store.snapshots import SHORT_TERM, Snapshots
from memory_server.storage.partition import journal

pytestmark = pytest.mark.anyio


class Crash(Exception):
    """The process ends here."""


async def test_a_crash_between_any_two_steps_of_a_compaction_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every file operation of a compaction in turn is where the process ends, and also half-way through a write."""
    base = tmp_path / "base"
    store = open_store(base)
    rng = Random(11)
    expected = ConversationState("chat")
    for turn in range(6):
        changes = random_changes(copy_of(expected), rng, 4)
        apply(expected, changes)
        await commit(store, *changes)
        if turn == 2:
            await store.compact("chat")
    steps = 0
    countdown = [10**9]

    def crashing(name: str, operation: Callable[..., Any]) -> Callable[..., Any]:
        def step(*arguments: Any, **options: Any) -> Any:
            nonlocal steps
            steps += 1
            countdown[0] -= 1
            if countdown[0] == 0:
                if name == "append":  # half a line is written
                    path, end_of_journal, lines, *_ = arguments
                    with path.open("r+b") as file:
                        file.seek(end_of_journal.offset)
                        file.write(lines[0][:40])
                raise Crash
            return operation(*arguments, **options)

        return step

    with monkeypatch.context() as patch:
        patch.setattr(journal, "append", crashing("append", journal.append))
        for name in ("write_aside", "append_durably", "sync_folder", "sync_file"):
            patch.setattr(folders, name, crashing(name, getattr(folders, name)))
        patch.setattr(journal, "sync_file", crashing("sync_file", folders.sync_file))
        patch.setattr(Path, "replace", crashing("replace", Path.replace))
        shutil.copytree(base, tmp_path / "count")
        await open_store(tmp_path / "count").compact("chat")
        total = steps
        assert total > 12
        for number in range(1, total + 1):
            data = tmp_path / f"crash-{number}"
            shutil.copytree(base, data)
            countdown[0] = number
            with pytest.raises(Crash):
                await open_store(data).compact("chat")
            countdown[0] = 10**9

    for number in range(1, total + 1):
        data = tmp_path / f"crash-{number}"
        state = await reopened(data)
        assert contents(state)[1:] == contents(expected)[1:]
        assert state.short_term == expected.short_term
        assert state.version == 6
        after = open_store(data)
        await commit(after, Added(memory("after")))
        await after.compact("chat")
        state = await reopened(data)
        assert state.short_term == expected.short_term | {"after": memory("after")}
        assert state.version == 7
        snapshot = codec.short_terms(
            json_text.load_array((data / "chat" / SHORT_TERM).read_bytes()), "chat"
        )
        assert {stored.id: stored for stored in snapshot} == state.short_term


async def test_a_reader_during_a_compaction_sees_every_commit_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reader looks between every two steps of a compaction, and a compaction runs between every two steps of a
    reader."""
    store = open_store(tmp_path)
    names = [f"m{number}" for number in range(5)]
    for name in names:
        await commit(store, Added(memory(name)))
    await store.compact("chat")
    await commit(store, Added(memory("m5")), Forgotten(memory("m0"), "deleted"))
    names = [*names[1:], "m5"]
    ids_seen: list[list[str]] = []

    def look() -> None:
        ids_seen.append([*ConversationFiles(tmp_path / "chat", "chat").load()[0].short_term])

    real_replace = Path.replace

    def replace(self: Path, target: Path) -> Path:
        look()
        result = real_replace(self, target)
        look()
        return result

    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", replace)
        await store.compact("chat")
    assert len(ids_seen) == 12
    assert all(sorted(ids) == names for ids in ids_seen)


@pytest.mark.parametrize("step", range(3))
async def test_a_compaction_during_a_read_makes_it_begin_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    writer = open_store(tmp_path)
    await commit(writer, Added(memory("a")))
    await writer.compact("chat")
    await commit(writer, Added(memory("b")))
    calls = 0
    writer_files = ConversationFiles(tmp_path / "chat", "chat")
    state, position = writer_files.load()
    originals = {
        "contents": Snapshots.contents,
        "marks": Snapshots.marks,
        "_read_journal": ConversationFiles._read_journal,
    }

    def interrupted(name: str) -> Callable[..., Any]:
        def call(self: Any, *arguments: Any) -> Any:
            nonlocal calls
            if self in (reader, reader._snapshots):
                calls += 1
                if calls == step + 1:
                    writer_files.compact(state, position)
            return originals[name](self, *arguments)

        return call

    reader = ConversationFiles(tmp_path / "chat", "chat")
    with monkeypatch.context() as patch:
        for name in originals:
            patch.setattr(
                ConversationFiles if name == "_read_journal" else Snapshots, name, interrupted(name)
            )
        loaded, loaded_position = reader.load()
    assert calls > step
    assert [*loaded.short_term] == ["a", "b"]
    assert loaded.version == 2
    assert loaded_position.header.generation == position.header.generation + 1


async def test_the_journal_is_let_go_of_only_when_what_replaces_it_is_durable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_store(tmp_path)
    await commit(store, Added(memory("a")), TriggerSet(trigger("t"), None))
    events: list[str] = []

    def noting(name: str, operation: Callable[..., Any]) -> Callable[..., Any]:
        def step(*arguments: Any, **options: Any) -> Any:
            names = [part.name for part in arguments if isinstance(part, Path)]
            result = operation(*arguments, **options)
            events.append(" ".join([name, *names[-1:]]))
            return result

        return step

    with monkeypatch.context() as patch:
        patch.setattr(journal, "append", noting("append", journal.append))
        for name in ("write_aside", "append_durably", "sync_folder"):
            patch.setattr(folders, name, noting(name, getattr(folders, name)))
        patch.setattr(Path, "replace", noting("replace", Path.replace))
        await store.compact("chat")
    assert events == [
        "write_aside short-term-memory.json",
        "write_aside long-term-memory.json",
        "append journal.jsonl",  # the note of their hashes
        "replace short-term-memory.json",
        "replace long-term-memory.json",
        "sync_folder chat",
        "write_aside short-term-memory.json.zlib",  # what the next edit by hand is compared with
        "replace short-term-memory.json.zlib",
        "sync_folder .memory-server",
        "write_aside long-term-memory.json.zlib",
        "replace long-term-memory.json.zlib",
        "sync_folder .memory-server",
        "write_aside conversation.json",
        "replace conversation.json",
        "sync_folder .memory-server",
        "sync_folder .memory-server",  # its name is new
        "append_durably history.jsonl",
        "write_aside journal.jsonl",
        "replace journal.jsonl",
        "sync_folder .memory-server",
    ]


async def test_who_only_reads_leaves_the_snapshots_whole_that_a_killed_process_did_not_write(
    tmp_path: Path,
) -> None:
    killed = open_store(tmp_path)
    await commit(killed, Added(memory()))
    await open_store(tmp_path, read_only=True).read("chat")
    reader = open_store(tmp_path, read_only=True)
    await reader.read("chat")
    await reader.aclose()
    assert not (tmp_path / "chat" / SHORT_TERM).exists(), "a store that only reads changes nothing"
    reader = open_store(tmp_path)
    await reader.read("chat")
    await reader.aclose()
    assert len(json_text.loads((tmp_path / "chat" / SHORT_TERM).read_bytes())) == 1
    assert len((await reopened(tmp_path)).short_term) == 1
