"""Torn tails and bad lines of a conversation: passed over, set aside, never written over."""

from __future__ import annotations

from pathlib import Path
from random import Random

import orjson
import pytest
from sample_memories import contents, copy_of, memory, random_changes
from store_on_disk import commit, open_store, private, reopened

from memory_server.core.changes import Added, Forgotten, apply
from memory_server.core.errors import SnapshotBroken
from memory_server.core.model import ConversationState
from memory_server.storage.json_store.conversation_files import SHORT_TERM, ConversationFiles

pytestmark = pytest.mark.anyio


async def test_every_truncation_of_the_journal_is_a_committed_prefix(tmp_path: Path) -> None:
    store, rng = open_store(tmp_path / "data"), Random(3)
    state = ConversationState("chat")
    states = [contents(state)]
    for _ in range(3):
        changes = random_changes(copy_of(state), rng, 2)
        await commit(store, *changes)
        apply(state, changes)
        states.append(contents(copy_of(state)))
    path = private(tmp_path / "data", "journal.jsonl")
    whole = path.read_bytes()
    head = whole.index(b"\n") + 1
    ends = [end for end in range(head, len(whole) + 1) if whole[end - 1 : end] == b"\n"]
    for cut in range(head, len(whole) + 1):
        path.write_bytes(whole[:cut])
        files = ConversationFiles(tmp_path / "data" / "chat", "chat")
        found, _ = files.load()
        commits = sum(end <= cut for end in ends) - 1
        assert contents(found) == states[commits]
        assert found.version == commits


@pytest.mark.parametrize("cut", [1, 2, 20])
async def test_a_torn_tail_is_cut_and_set_aside_by_the_next_write(tmp_path: Path, cut: int) -> None:
    store = open_store(tmp_path)
    await commit(store, Added(memory("a")))
    await commit(store, Added(memory("torn")))
    path = private(tmp_path, "journal.jsonl")
    whole = path.read_bytes()
    path.write_bytes(whole[:-cut])
    torn = whole[whole[:-1].rindex(b"\n") + 1 : -cut]

    next_process = open_store(tmp_path)
    assert list((await next_process.read("chat")).short_term) == ["a"]
    assert path.read_bytes() == whole[:-cut]  # reading changes nothing
    await commit(next_process, Added(memory("b")))
    assert [*(await reopened(tmp_path)).short_term] == ["a", "b"]
    [aside] = map(orjson.loads, private(tmp_path, "set-aside.jsonl").read_bytes().splitlines())
    assert aside["data"].encode() == torn
    assert aside["reason"]
    assert orjson.loads(path.read_bytes().splitlines()[-1])["seq"] == 2


async def test_a_bad_line_in_the_middle_is_passed_over_and_set_aside(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    for name in ("a", "bad", "c"):
        await commit(store, Added(memory(name)))
    path = private(tmp_path, "journal.jsonl")
    path.write_bytes(path.read_bytes().replace(b'"id":"bad"', b'"id":"BAD"'))
    next_process = open_store(tmp_path)
    state = await next_process.read("chat")
    assert ([*state.short_term], state.version) == (["a", "c"], 3)
    await commit(next_process, Added(memory("d")))
    await next_process.compact("chat")
    assert [*(await reopened(tmp_path)).short_term] == ["a", "c", "d"]
    [aside] = map(orjson.loads, private(tmp_path, "set-aside.jsonl").read_bytes().splitlines())
    assert '"id":"BAD"' in aside["data"]
    assert "checksum" in aside["reason"]
    history = [orjson.loads(line)["seq"] for line in private(tmp_path, "history.jsonl").read_bytes().splitlines()]
    assert history == [1, 3, 4]


async def test_a_torn_tail_that_became_a_commit_of_its_length_is_seen(tmp_path: Path) -> None:
    first, other = open_store(tmp_path), open_store(tmp_path)
    await commit(first, Added(memory("a")))
    path = private(tmp_path, "journal.jsonl")
    good = path.read_bytes()
    await commit(other, Added(memory("b")))
    line = path.read_bytes()[len(good) :]
    path.write_bytes(good + b"x" * len(line))  # what a process that was killed left behind
    assert [*(await first.read("chat")).short_term] == ["a"]
    path.write_bytes(good + line)  # another process cut it and committed
    assert [*(await first.read("chat")).short_term] == ["a", "b"]
    path.write_bytes(good + b"x" * len(line))
    await first.read("chat")
    path.write_bytes(good + line)
    await commit(first, Added(memory("c")))
    assert [*(await reopened(tmp_path)).short_term] == ["a", "b", "c"]


@pytest.mark.parametrize("damage", [b"", b"{}\n", b"x"])
async def test_a_journal_with_a_broken_header_is_never_written_over(tmp_path: Path, damage: bytes) -> None:
    (tmp_path / "chat").mkdir()
    (tmp_path / "chat" / SHORT_TERM).write_bytes(b"[]")
    early = open_store(tmp_path)
    await early.read("chat")
    await commit(open_store(tmp_path), Added(memory("a")))
    path = private(tmp_path, "journal.jsonl")
    broken = damage + path.read_bytes()[2:]
    path.write_bytes(broken)
    for store in (early, open_store(tmp_path)):
        with pytest.raises(SnapshotBroken, match="broken first line"):
            await store.read("chat")
        with pytest.raises(SnapshotBroken):
            await commit(store, Added(memory("b")))
    assert path.read_bytes() == broken


@pytest.mark.parametrize("next_name", ["short", "same length", "a name that is longer than the former one"])
async def test_a_line_that_was_seen_and_then_cut_off_never_happened(tmp_path: Path, next_name: str) -> None:
    """A writer whose disk fails cuts off what it could not make durable; a reader may have seen it."""
    writer, reader = open_store(tmp_path), open_store(tmp_path)
    await commit(writer, Added(memory("a")))
    path = private(tmp_path, "journal.jsonl")
    good = path.read_bytes()
    await commit(writer, Added(memory("not durable")))
    assert len((await reader.read("chat")).short_term) == 2
    path.write_bytes(good)
    await commit(open_store(tmp_path), Added(memory(next_name)))
    assert [*(await reader.read("chat")).short_term] == ["a", next_name]


async def test_a_writer_that_saw_a_line_that_was_cut_off_writes_after_what_is_left(tmp_path: Path) -> None:
    first, second = open_store(tmp_path), open_store(tmp_path)
    await commit(first, Added(memory("a")))
    path = private(tmp_path, "journal.jsonl")
    good = path.read_bytes()
    await commit(first, Added(memory("not durable")))
    await second.read("chat")
    path.write_bytes(good)
    await commit(second, Added(memory("b")))
    assert [*(await reopened(tmp_path)).short_term] == ["a", "b"]


async def test_after_a_lost_journal_the_versions_go_on(tmp_path: Path) -> None:
    """Else an old change had the id of a new one: undoing the new one took back the old."""
    store = open_store(tmp_path)
    await commit(store, Added(memory("a")))
    await commit(store, Forgotten(memory("a"), "deleted"), Added(memory("b")))
    await store.aclose()
    private(tmp_path, "journal.jsonl").unlink()
    store = open_store(tmp_path)
    await commit(store, Added(memory("c")))
    await store.compact("chat")
    newest, *older = await store.history("chat")
    assert (newest.version, newest.changes) == (3, (Added(memory("c")),))
    assert [commit.version for commit in older] == [2, 1]
    assert [*(await reopened(tmp_path)).short_term] == ["b", "c"]
