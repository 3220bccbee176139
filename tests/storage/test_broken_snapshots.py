"""A snapshot that cannot be read is set aside whole, what is stored goes on, and nothing is overwritten."""

from __future__ import annotations

import asyncio
import logging
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import orjson
import pytest
from crash.losing_disk import LosingDisk, Names
from sample_memories import NOW, contents, memory, trigger
from store_on_disk import commit, open_store, private, reopened, tree

from memory_server.conversations.changes import Added, Reinforced
from memory_server.conversations.codec import short_term_json
from memory_server.kernel.errors import SnapshotBroken, StorageUnwritable
from memory_server.kernel.json_text import dump_array
from memory_server.lore.memory import TriggerSet
from memory_server.runtime.app import open_memory
from memory_server.storage.json_store import history_files as past
from memory_server.storage.json_store import snapshots
from memory_server.storage.json_store.conversation_files import ConversationFiles
from memory_server.storage.json_store.examination import examine
from memory_server.storage.json_store.snapshots import LONG_TERM, SHORT_TERM, read_copy
from memory_server.storage.json_store.store import JsonFileStore
from memory_server.storage.partition import journal
from memory_server.tools import TOOLS
from memory_server.tools.base.tool import Answer, call

pytestmark = pytest.mark.anyio
NAMES = ["a", "b", "c"]


@pytest.fixture(autouse=True)
def nobody_is_saving(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshots, "SAVING_SECONDS", 0.0)


async def partly_compacted(data_dir: Path) -> JsonFileStore:
    """Three memories in the snapshot, what the journal adds to one of them, and one that only the journal has."""
    store = open_store(data_dir)
    await commit(
        store,
        *(Added(memory(name, text=f"user: {name}")) for name in NAMES),
        TriggerSet(trigger("t"), None),
    )
    await store.compact("chat")
    await commit(store, Reinforced("a", 0, 5), Added(memory("d", text="user: d")))
    return store


def records(data: bytes) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = orjson.loads(data)
    return rows


def line_of(data: bytes, name: bytes) -> bytes:
    return next(line for line in data.splitlines(keepends=True) if b'"id":"%s"' % name in line)


BREAKAGES: dict[str, Callable[[bytes], bytes]] = {
    "cut off": lambda data: data[: data.index(b'"id":"c"') + 3],
    "cut to nothing": lambda data: b"",
    "only space": lambda data: b" \n",
    "binary": lambda data: bytes(range(256)) * 4,
    "zeros": lambda data: bytes(len(data)),
    "an object": lambda data: b'{"memories":1}',
    "a number": lambda data: b"17",
    "no array of objects": lambda data: b"[1,2]",
    "one record broken": lambda data: data.replace(b'"id":"b"', b'"id":b'),
    "one record without a time": lambda data: data.replace(
        line_of(data, b"b"), b'{"id":"b","text":"user: b"},\n'
    ),
    "twice in one file": lambda data: data + data,
    "a conflict of a sync program": lambda data: data.replace(b",\n", b",\n<<<<<<< mine\n", 1),
}


@pytest.mark.parametrize("how", BREAKAGES)
@pytest.mark.parametrize("running", [True, False])
async def test_nothing_is_lost_and_the_broken_file_is_kept(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, how: str, running: bool
) -> None:
    store = await partly_compacted(tmp_path)
    expected = contents(await store.read("chat"))
    path = tmp_path / "chat" / SHORT_TERM
    broken = BREAKAGES[how](path.read_bytes())
    path.write_bytes(broken)
    if not running:
        store = open_store(tmp_path)
    assert contents(await store.read("chat")) == expected
    await commit(store, Added(memory("e")))
    assert [stored.id for stored in (await reopened(tmp_path)).short_term.values()] == [
        *NAMES,
        "d",
        "e",
    ]
    assert (await reopened(tmp_path)).short_term["a"].score == 5
    # Written anew, and kept as it was, with the reason.
    assert [record["id"] for record in records(path.read_bytes())] == [*NAMES, "d"]
    [(set_aside, _)] = past.broken_files(private(tmp_path, ""))
    assert set_aside.read_bytes() == broken
    pieces = past.pieces(private(tmp_path, ""))
    assert all(piece.fields["file"] == SHORT_TERM and piece.reason for piece in pieces)
    assert [piece.fields["kept"] for piece in pieces] == [f"broken/{set_aside.name}"]
    assert f"{SHORT_TERM} is set aside as {set_aside}: " in caplog.text
    assert [
        past_commit.by for past_commit in await store.history("chat") if past_commit.by == "hand"
    ] == []
    assert [
        finding.grade
        for finding in examine(tmp_path, tmp_path / "chat", NOW)
        if finding.grade in ("warning", "error")
    ] == []
    # Told once.
    before = tree(tmp_path)
    await open_store(tmp_path).read("chat")
    assert tree(tmp_path) == before


async def test_nothing_is_taken_out_of_a_broken_file(tmp_path: Path) -> None:
    store = await partly_compacted(tmp_path)
    expected = contents(await store.read("chat"))
    path = tmp_path / "chat" / SHORT_TERM
    lines = path.read_bytes().splitlines()
    new = orjson.dumps(short_term_json(memory("new", text="user: new")))
    lines[1:3] = [lines[1].replace(b"user: a", b"user: by hand"), new + b",", b'{"id":"b", oops},']
    path.write_bytes(b"\n".join(lines))
    assert contents(await store.read("chat")) == expected
    await commit(store, Added(memory("e")))
    assert [
        past_commit.by for past_commit in await store.history("chat") if past_commit.by == "hand"
    ] == []
    assert await store.archive("chat") == ()
    [piece] = past.pieces(private(tmp_path, ""))
    assert "it is not JSON: " in piece.reason
    assert "line 4 column 12" in piece.reason
    # Mended, it is the edit that it was meant to be.
    path.write_bytes(
        b"\n".join(lines).replace(b'"b", oops}', b'"b","timestamp":1,"text":"user: b"}')
    )
    state = await reopened(tmp_path)
    assert {*state.short_term} == {*NAMES, "e", "new"}
    assert state.short_term["a"].text == "user: by hand"
    assert state.short_term["a"].score == 5


async def test_without_the_copy_the_history_has_what_the_file_lost(tmp_path: Path) -> None:
    store = await partly_compacted(tmp_path)
    expected = {stored.id: stored for stored in contents(await store.read("chat"))[0]}
    private(tmp_path, f"{SHORT_TERM}.zlib").write_bytes(b"broken too")
    path = tmp_path / "chat" / SHORT_TERM
    path.write_bytes(path.read_bytes().replace(b'"id":"b"', b'"id":b'))
    store = open_store(tmp_path)
    assert (await store.read("chat")).short_term == expected
    await commit(store, Reinforced("b", 0, 5))
    memories = (await reopened(tmp_path)).short_term
    assert sorted(memories) == [*NAMES, "d"]
    assert memories["b"].score == 5


@pytest.mark.parametrize("data", [b'[{"id":"a","timestamp":0,"text":"user: a"},{', b"PK\x03\x04"])
async def test_a_broken_file_that_only_another_program_wrote(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "chat" / SHORT_TERM
    path.parent.mkdir()
    path.write_bytes(data)
    store = open_store(tmp_path)
    before = tree(tmp_path)
    assert [*ConversationFiles(tmp_path / "chat", "chat").load()[0].short_term] == []
    assert tree(tmp_path) == before
    assert [*(await store.read("chat")).short_term] == []
    await commit(store, Added(memory("b")))
    assert [*(await reopened(tmp_path)).short_term] == ["b"]
    [(set_aside, _)] = past.broken_files(private(tmp_path, ""))
    assert set_aside.read_bytes() == data
    assert past.may_be_only_copy(set_aside)


async def test_two_files_broken_at_once_and_one_edited_beside_a_broken_one(tmp_path: Path) -> None:
    store = await partly_compacted(tmp_path)
    (tmp_path / "chat" / SHORT_TERM).write_bytes(b"[{")
    (tmp_path / "chat" / LONG_TERM).write_bytes(b"[]")
    state = await store.read("chat")
    assert [*state.short_term] == [*NAMES, "d"]
    assert state.long_term == {}
    await commit(store, Added(memory("e")))
    for name in (SHORT_TERM, LONG_TERM):
        (tmp_path / "chat" / name).write_bytes(b"\xff")
    await commit(store, TriggerSet(trigger("u"), None))
    state = await reopened(tmp_path)
    assert [*state.short_term] == [*NAMES, "d", "e"]
    assert [*state.long_term] == ["u"]
    assert len([*past.broken_files(private(tmp_path, ""))]) == 3


async def test_a_file_that_may_be_being_saved_is_left_alone_for_a_while(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = await partly_compacted(tmp_path)
    path = tmp_path / "chat" / SHORT_TERM
    path.write_bytes(b"[{")
    monkeypatch.setattr(snapshots, "SAVING_SECONDS", 1e6)
    await commit(store, Added(memory("e")))
    await store.compact("chat")
    assert path.read_bytes() == b"[{"
    monkeypatch.setattr(snapshots, "SAVING_SECONDS", 0.0)
    await store.read("chat")
    await store.aclose()
    assert [record["id"] for record in records(path.read_bytes())] == [*NAMES, "d", "e"]
    [(set_aside, _)] = past.broken_files(private(tmp_path, ""))
    assert set_aside.read_bytes() == b"[{"


async def test_where_nothing_tells_what_a_file_held_that_may_be_being_saved_one_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshots, "SAVING_SECONDS", 1e6)
    path = tmp_path / "chat" / SHORT_TERM
    path.parent.mkdir()
    path.write_bytes(b'[{"id":')
    store = open_store(tmp_path)
    for attempt in (store.read("chat"), commit(store, Added(memory("b")))):
        with pytest.raises(SnapshotBroken, match="may be saving it; try again in"):
            await attempt
    assert path.read_bytes() == b'[{"id":'
    # Of a file with a time ahead of the clock nothing can be said.
    os.utime(path, (4e9, 4e9))
    assert (await store.read("chat")).short_term == {}


async def test_a_newer_format_is_read_and_left_as_it_is(tmp_path: Path) -> None:
    await partly_compacted(tmp_path)
    path = private(tmp_path, "journal.jsonl")
    header, rest = path.read_bytes().split(b"\n", 1)
    fields = journal.parse_line(header)
    assert isinstance(fields, dict)
    path.write_bytes(journal.frame(fields | {"format": 2}) + rest)
    (tmp_path / "chat" / SHORT_TERM).write_bytes(b"[{")
    before = tree(tmp_path)
    store = open_store(tmp_path)
    assert [*(await store.read("chat")).short_term] == [*NAMES, "d"]
    with pytest.raises(StorageUnwritable, match="newer memory-server"):
        await commit(store, Added(memory("e")))
    await store.aclose()
    assert tree(tmp_path) == before


async def test_a_folder_that_cannot_be_written_is_read_and_left_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await partly_compacted(tmp_path)
    (tmp_path / "chat" / SHORT_TERM).write_bytes(b"[{")
    before = tree(tmp_path)
    store = open_store(tmp_path)

    def read_only(path: Path) -> None:
        raise PermissionError(30, "Read-only file system", str(path))

    monkeypatch.setattr("memory_server.storage.json_store.store.try_lock", read_only)
    for _ in range(2):
        assert [*(await store.read("chat")).short_term] == [*NAMES, "d"]
    with pytest.raises(StorageUnwritable):
        await commit(store, Added(memory("e")))
    await store.aclose()
    assert tree(tmp_path) == before


READER = """
import asyncio, sys
from pathlib import Path
from memory_server.storage.json_store import snapshots
from memory_server.storage.json_store.store import JsonFileStore
from memory_server.conversations.changes import Reinforced
snapshots.SAVING_SECONDS = 0.0

async def main():
    store = JsonFileStore(Path(sys.argv[1]), lambda: 0)
    print("ready", flush=True)
    sys.stdin.readline()
    state = await store.read("chat")
    assert sorted(state.short_term) == ["a", "b", "c", "d"], sorted(state.short_term)
    def decide(state):
        score = state.short_term["c"].score
        return [Reinforced("c", score, score + 1)], sorted(state.short_term)
    decided, _ = await store.update("chat", decide, by=sys.argv[2])
    assert decided == ["a", "b", "c", "d"]
    await store.aclose()

asyncio.run(main())
"""


@pytest.fixture
def readers(tmp_path: Path) -> Iterator[list[subprocess.Popen[str]]]:
    command = [sys.executable, "-c", READER, str(tmp_path)]
    started = [
        subprocess.Popen([*command, name], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for name in "xyz"
    ]
    yield started
    for process in started:
        process.kill()
        process.communicate()


async def test_processes_that_open_it_at_once_set_it_aside_once(
    tmp_path: Path, readers: list[subprocess.Popen[str]]
) -> None:
    await partly_compacted(tmp_path)
    path = tmp_path / "chat" / SHORT_TERM
    path.write_bytes(path.read_bytes()[:-30])
    for process in readers:
        assert process.stdout is not None
        assert process.stdin is not None
        assert process.stdout.readline() == "ready\n"
        process.stdin.write("go\n")
        process.stdin.flush()
    for process in readers:
        await asyncio.to_thread(process.communicate, timeout=60)
        assert process.returncode == 0
    assert len([*past.broken_files(private(tmp_path, ""))]) == 1
    assert (await reopened(tmp_path)).short_term["c"].score == 3


@pytest.mark.skipif(
    not Path("/proc/self/fd").is_dir(), reason="needs /proc to look into open files"
)
@pytest.mark.parametrize(
    ("names", "copied"),
    [
        ("latest", True),
        *(
            pytest.param(*case, marks=pytest.mark.full)
            for case in (("synced", True), ("latest", False))
        ),
    ],
)
async def test_a_power_loss_at_every_step_of_it_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, names: Names, copied: bool
) -> None:
    data = tmp_path / "data"
    data.mkdir()
    with monkeypatch.context() as patch:
        disk = LosingDisk(data, patch)
        store = await partly_compacted(data)
        path = data / "chat" / SHORT_TERM
        records = [short_term_json(memory("new", text="user: new"))]
        broken = path.read_bytes().replace(b'"id":"b"', b'"id":b') + dump_array(records)
        with path.open("r+b") as file:
            file.write(broken)
            file.flush()
            os.fsync(file.fileno())
        if not copied:
            with private(data, f"{SHORT_TERM}.zlib").open("r+b") as file:
                file.truncate(0)
                os.fsync(file.fileno())
            assert read_copy(private(data, ""), SHORT_TERM) is None
        images: list[Path] = []

        def lose() -> None:
            images.append(disk.after_power_loss(tmp_path / "lost" / str(len(images)), names))

        disk.on_step = lose
        await commit(store, Added(memory("e")))
        disk.on_step = lambda: None
        disk.close()
    assert len(images) > 20
    expected = {*NAMES, "d"}
    for image in images:
        memories = (await reopened(image)).short_term
        assert set(memories) - {"e"} == expected
        assert memories["a"].score == 5
        after = open_store(image)
        await commit(after, Added(memory("later")))
        await after.compact("chat")
        assert set((await reopened(image)).short_term) - {"e"} == {*expected, "later"}
        set_aside = [
            broken_file.read_bytes() for broken_file, _ in past.broken_files(private(image, ""))
        ]
        assert set_aside.count(broken) == 1
        reasons = [
            piece.reason
            for piece in past.pieces(private(image, ""))
            if "it is not JSON" in piece.reason
        ]
        assert len(reasons) == 1


async def test_the_log_says_what_happened(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    store = await partly_compacted(tmp_path)
    path = tmp_path / "chat" / SHORT_TERM
    path.write_bytes(path.read_bytes().replace(b'"id":"b"', b'"id":b'))
    caplog.set_level(logging.WARNING)
    await commit(store, Added(memory("e")))
    [damage, rescue] = [record.getMessage() for record in caplog.records]
    assert "is damaged" in damage
    assert rescue.startswith(f"{path} is set aside as {private(tmp_path, 'broken')}")
    assert "line 3 column 7" in rescue
    assert rescue.endswith("`memory-server doctor` says how to put it back.")


@pytest.mark.parametrize("missing", [[SHORT_TERM], [LONG_TERM], [SHORT_TERM, LONG_TERM]])
@pytest.mark.parametrize("running", [True, False])
async def test_a_file_that_is_gone_with_its_copy_is_a_loss_that_is_told_and_not_an_empty_one(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, missing: list[str], running: bool
) -> None:
    store = await partly_compacted(tmp_path)
    expected = contents(await store.read("chat"))
    for name in missing:
        (tmp_path / "chat" / name).unlink()
        private(tmp_path, f"{name}.zlib").unlink()
    if not running:
        store = open_store(tmp_path)
    assert contents(await store.read("chat")) == expected
    await commit(store, Added(memory("e")))
    await store.compact("chat")
    state = await reopened(tmp_path)
    assert [*state.short_term] == [*NAMES, "d", "e"]
    assert [*state.long_term] == ["t"]
    # Told once, also to whoever looks later.
    pieces = [piece.fields for piece in past.pieces(private(tmp_path, ""))]
    assert [(piece["file"], piece["reason"]) for piece in pieces] == [
        (name, snapshots.GONE.english) for name in missing
    ]
    assert [*past.broken_files(private(tmp_path, ""))] == []
    assert all(
        f"{name}: it is missing, and so is the copy of it" in caplog.text for name in missing
    )


async def test_the_figures_tell_of_what_was_set_aside_but_not_of_an_unfinished_write(
    tmp_path: Path,
) -> None:
    store = await partly_compacted(tmp_path)
    with private(tmp_path, "journal.jsonl").open("ab") as file:
        file.write(b"{")
    await commit(store, Added(memory("e")))
    await store.aclose()
    assert past.pieces(private(tmp_path, ""))
    async with open_memory(tmp_path) as app:

        async def figures() -> Answer:
            return await call(TOOLS["get_memory_stats"], app.call, {"conversation_id": "chat"})

        assert "notice" not in (await figures()).structured
        path = tmp_path / "chat" / SHORT_TERM
        path.write_bytes(path.read_bytes().replace(b'"id":"b"', b'"id":b'))
        await commit(open_store(tmp_path), Added(memory("f")))
        answer = await figures()
        assert "1 damaged file or line is set aside" in answer.structured["notice"]
        assert answer.structured["notice"] in answer.text


async def test_a_file_that_never_was_is_no_loss(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    await commit(store, Added(memory("a")))
    assert [*(await reopened(tmp_path)).short_term] == ["a"]
    await commit(open_store(tmp_path), Added(memory("b")))
    assert past.pieces(private(tmp_path, "")) == []


async def test_what_is_gone_and_in_no_history_is_told_all_the_same(tmp_path: Path) -> None:
    await partly_compacted(tmp_path)
    (tmp_path / "chat" / SHORT_TERM).unlink()
    private(tmp_path, f"{SHORT_TERM}.zlib").unlink()
    private(tmp_path, "history.jsonl").unlink()
    await commit(open_store(tmp_path), Added(memory("e")))
    assert [*(await reopened(tmp_path)).short_term] == ["d", "e"]
    assert [piece.reason for piece in past.pieces(private(tmp_path, ""))] == [
        snapshots.GONE.english
    ]
