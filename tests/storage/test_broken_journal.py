"""Torn tails and bad lines of a conversation: passed over, set aside, never written over."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from random import Random

import orjson
import pytest
from crash.losing_disk import LosingDisk, Names
from sample_memories import NOW, contents, copy_of, memory, random_changes
from store_on_disk import commit, open_store, private, reopened, tree

from memory_server.conversations.changes import Added, CleanedUp, Forgotten, apply
from memory_server.conversations.model import ConversationState
from memory_server.storage.json_store import history_files as past
from memory_server.storage.json_store.conversation_files import ConversationFiles
from memory_server.storage.json_store.examination import examine
from memory_server.storage.json_store.snapshots import SHORT_TERM

pytestmark = pytest.mark.anyio


async def test_every_truncation_of_the_journal_is_a_committed_prefix(tmp_path: Path) -> None:
    store = open_store(tmp_path / "data")
    rng = Random(3)
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
        loaded, _ = files.load()
        commits = sum(end <= cut for end in ends) - 1
        assert contents(loaded) == states[commits]
        assert loaded.version == commits


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
    assert [*state.short_term] == ["a", "c"]
    assert state.version == 3
    await commit(next_process, Added(memory("d")))
    await next_process.compact("chat")
    assert [*(await reopened(tmp_path)).short_term] == ["a", "c", "d"]
    [aside] = map(orjson.loads, private(tmp_path, "set-aside.jsonl").read_bytes().splitlines())
    assert '"id":"BAD"' in aside["data"]
    assert "checksum" in aside["reason"]
    history = [
        orjson.loads(line)["seq"]
        for line in private(tmp_path, "history.jsonl").read_bytes().splitlines()
    ]
    assert history == [1, 3, 4]


async def test_a_torn_tail_that_became_a_commit_of_its_length_is_seen(tmp_path: Path) -> None:
    first = open_store(tmp_path)
    other_store = open_store(tmp_path)
    await commit(first, Added(memory("a")))
    path = private(tmp_path, "journal.jsonl")
    good = path.read_bytes()
    await commit(other_store, Added(memory("b")))
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
@pytest.mark.parametrize("running", [True, False])
async def test_a_journal_with_a_broken_header_is_kept_and_begun_again_with_its_commits(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, damage: bytes, running: bool
) -> None:
    (tmp_path / "chat").mkdir(mode=0o700)
    (tmp_path / "chat" / SHORT_TERM).write_bytes(b"[]")
    early = open_store(tmp_path)
    await early.read("chat")
    writer = open_store(tmp_path)
    await commit(writer, Added(memory("a")))
    await commit(writer, CleanedUp(NOW, None), Added(memory("b")))
    path = private(tmp_path, "journal.jsonl")
    broken = damage + path.read_bytes()[2:]
    path.write_bytes(broken)
    before = tree(tmp_path)
    assert {*ConversationFiles(tmp_path / "chat", "chat").load()[0].short_term} == {"a", "b"}
    assert tree(tmp_path) == before, "reading alone changes nothing"
    store = early if running else open_store(tmp_path)
    state = await store.read("chat")
    assert [*state.short_term] == ["a", "b"]
    assert state.version == 2
    assert state.last_cleanup_ms == NOW
    await commit(store, Added(memory("c")))
    for later_store in (writer, early, open_store(tmp_path)):
        state = await later_store.read("chat")
        assert [*state.short_term] == ["a", "b", "c"]
        assert state.version == 3
        assert state.last_cleanup_ms == NOW
    assert [past_commit.version for past_commit in await store.history("chat")] == [3, 2, 1]
    [(set_aside, _)] = past.broken_files(private(tmp_path, ""))
    assert set_aside.read_bytes() == broken
    assert "is written again" in caplog.text
    assert [
        finding.grade
        for finding in examine(tmp_path, tmp_path / "chat", NOW)
        if finding.grade in ("warning", "error")
    ] == []
    before = tree(tmp_path)
    await open_store(tmp_path).read("chat")
    assert tree(tmp_path) == before, "it is mended once"


async def test_a_line_that_does_not_count_is_set_aside_on_opening_and_the_journal_kept(
    tmp_path: Path,
) -> None:
    store = open_store(tmp_path)
    for name in ("a", "bad", "c"):
        await commit(store, Added(memory(name)))
    path = private(tmp_path, "journal.jsonl")
    broken = path.read_bytes().replace(b'"id":"bad"', b'"id":"BAD"')
    path.write_bytes(broken)
    store = open_store(tmp_path)
    await store.read("chat")
    await store.aclose()
    assert [*(await reopened(tmp_path)).short_term] == ["a", "c"]
    [(set_aside, _)] = past.broken_files(private(tmp_path, ""))
    assert set_aside.read_bytes() == broken
    [piece] = past.pieces(private(tmp_path, ""))
    assert '"id":"BAD"' in piece.fields["data"]
    assert [
        finding.grade
        for finding in examine(tmp_path, tmp_path / "chat", NOW)
        if finding.grade in ("warning", "error")
    ] == []


async def test_a_lost_note_of_the_id_is_written_again_on_opening(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    await commit(store, CleanedUp(NOW, None), Added(memory("a", chat="小明")), chat="小明")
    await store.compact("小明")
    note = store.folder("小明") / ".memory-server" / "conversation.json"
    whole = note.read_bytes()
    for broken in (b"{", b"[]", None):
        note.unlink() if broken is None else note.write_bytes(broken)
        store = open_store(tmp_path)
        assert await store.conversations() == ["小明"]
        await store.read("小明")
        await store.aclose()
        assert orjson.loads(note.read_bytes())["id"] == "小明"
    await commit(store, CleanedUp(NOW, None), chat="小明")
    await store.compact("小明")
    assert note.read_bytes() == whole


@pytest.mark.parametrize(
    "next_name", ["short", "same length", "a name that is longer than the former one"]
)
async def test_a_line_that_was_seen_and_then_cut_off_never_happened(
    tmp_path: Path, next_name: str
) -> None:
    """A writer whose disk fails cuts off what it could not make durable; a reader may have seen it."""
    writer = open_store(tmp_path)
    reader = open_store(tmp_path)
    await commit(writer, Added(memory("a")))
    path = private(tmp_path, "journal.jsonl")
    good = path.read_bytes()
    await commit(writer, Added(memory("not durable")))
    assert len((await reader.read("chat")).short_term) == 2
    path.write_bytes(good)
    await commit(open_store(tmp_path), Added(memory(next_name)))
    assert [*(await reader.read("chat")).short_term] == ["a", next_name]


async def test_a_writer_that_saw_a_line_that_was_cut_off_writes_after_what_is_left(
    tmp_path: Path,
) -> None:
    first = open_store(tmp_path)
    second = open_store(tmp_path)
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
    assert newest.version == 3
    assert newest.changes == (Added(memory("c")),)
    assert [commit.version for commit in older] == [2, 1]
    assert [*(await reopened(tmp_path)).short_term] == ["b", "c"]


@pytest.mark.skipif(
    not Path("/proc/self/fd").is_dir(), reason="needs /proc to look into open files"
)
@pytest.mark.parametrize("names", ["latest", pytest.param("synced", marks=pytest.mark.full)])
@pytest.mark.parametrize(
    "damage", [lambda data: data[2:], lambda data: data.replace(b'"id":"bad"', b'"id":"BAD"')]
)
async def test_a_power_loss_at_every_step_of_mending_a_journal_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, names: Names, damage: Callable[[bytes], bytes]
) -> None:
    data = tmp_path / "data"
    data.mkdir()
    with monkeypatch.context() as patch:
        disk = LosingDisk(data, patch)
        store = open_store(data)
        await commit(store, Added(memory("a")))
        await store.compact("chat")
        for name in ("b", "bad", "c"):
            await commit(store, Added(memory(name)))
        path = private(data, "journal.jsonl")
        damaged = damage(path.read_bytes())
        with path.open("r+b") as file:
            file.write(damaged)
            file.truncate()
            file.flush()
            os.fsync(file.fileno())
        expected = {"a", "b", "c"}
        if b'"id":"bad"' in damaged:
            expected.add("bad")
        images: list[Path] = []

        def lose() -> None:
            images.append(disk.after_power_loss(tmp_path / "lost" / str(len(images)), names))

        disk.on_step = lose
        await commit(open_store(data), Added(memory("d")))
        disk.on_step = lambda: None
        disk.close()
    assert len(images) > 8
    for image in images:
        assert {*(await reopened(image)).short_term} - {"d"} == expected
        after = open_store(image)
        await commit(after, Added(memory("later")))
        await after.compact("chat")
        state = await reopened(image)
        assert {*state.short_term} - {"d"} == {*expected, "later"}
        versions = [past_commit.version for past_commit in await after.history("chat")]
        assert versions == sorted(set(versions), reverse=True)
        assert state.version == versions[0]
        set_aside = [broken.read_bytes() for broken, _ in past.broken_files(private(image, ""))]
        assert set_aside == [damaged]
        assert len(past.pieces(private(image, ""))) == 1
