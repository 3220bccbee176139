"""The JSON store on disk: what it makes, several openings of one folder, waiting."""

from __future__ import annotations

import asyncio
import shutil
import threading
from pathlib import Path
from typing import Any

import orjson
import psutil
import pytest
from sample_memories import NOW, memory, trigger
from store_on_disk import commit, open_store, private, reopened, tree

from memory_server.conversations.changes import (
    Added,
    Change,
    CleanedUp,
    Commit,
    Forgotten,
    Reinforced,
)
from memory_server.conversations.model import ConversationState
from memory_server.kernel.errors import LockTimeout
from memory_server.kernel.files import FileLock, try_lock
from memory_server.lore.memory import TriggerSet
from memory_server.storage.json_store.conversation_files import ConversationFiles, Position
from memory_server.storage.json_store.snapshots import LONG_TERM, SHORT_TERM
from memory_server.storage.json_store.store import JsonFileStore
from memory_server.storage.partition import journal

pytestmark = pytest.mark.anyio


@pytest.fixture
def tried(monkeypatch: pytest.MonkeyPatch) -> asyncio.Event:
    """Set when a writer has tried a lock that another one holds."""
    has_tried = asyncio.Event()

    def lock(path: Path) -> FileLock | None:
        taken_lock = try_lock(path)
        if taken_lock is None:
            has_tried.set()
        return taken_lock

    monkeypatch.setattr("memory_server.storage.json_store.store.try_lock", lock)
    return has_tried


# --- what is on disk ---------------------------------------------------------------------------------------


async def test_nothing_is_made_by_looking(tmp_path: Path) -> None:
    data = tmp_path / "data"
    store = open_store(data)
    await store.read("chat")
    await store.conversations()
    await store.compact("chat")
    assert await store.update("chat", lambda state: ([], "nothing"), by="test") == ("nothing", None)
    with pytest.raises(KeyError):
        await store.update("chat", lambda state: ([], {}["no"]), by="test")
    store.folder("小明")
    await store.aclose()
    assert not data.exists()


async def test_the_journal_says_who_did_what_when(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    await store.update("chat", lambda state: ([CleanedUp(NOW, None)], None), by="upkeep")
    header, line = map(orjson.loads, private(tmp_path, "journal.jsonl").read_bytes().splitlines())
    assert header["format"] == 1
    assert header["base"] == 0
    assert header["snapshots"] == {SHORT_TERM: None, LONG_TERM: None}
    assert {key: line[key] for key in ("v", "seq", "at", "by", "changes")} == {
        "v": 1,
        "seq": 1,
        "at": "2026-06-21T00:00:00.000Z",
        "by": "upkeep",
        "changes": [{"type": "cleaned_up", "at": NOW, "before": None}],
    }
    assert orjson.loads(private(tmp_path, "conversation.json").read_bytes())["id"] == "chat"


async def test_after_compaction_the_snapshots_are_what_people_open(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    await commit(store, Added(memory("a")), TriggerSet(trigger("t"), None))
    await commit(store, Forgotten(memory("b"), "faded"), CleanedUp(NOW, None))
    await store.compact("chat")
    assert [row["id"] for row in orjson.loads((tmp_path / "chat" / SHORT_TERM).read_bytes())] == [
        "a"
    ]
    assert [row["name"] for row in orjson.loads((tmp_path / "chat" / LONG_TERM).read_bytes())] == [
        "t"
    ]
    journal_lines = private(tmp_path, "journal.jsonl").read_bytes().splitlines()
    history = private(tmp_path, "history.jsonl").read_bytes().splitlines()
    assert len(journal_lines) == 1
    assert [orjson.loads(line)["seq"] for line in history] == [1, 2]
    assert (await reopened(tmp_path)).last_cleanup_ms == NOW
    assert (await reopened(tmp_path)).version == 2
    before = tree(tmp_path)
    await store.compact("chat")
    assert tree(tmp_path) == before


@pytest.mark.parametrize("how", ["close", "idle", "outgrown"])
async def test_snapshots_are_brought_up_to_date_by_themselves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    loop = asyncio.get_running_loop()
    compacted = asyncio.Event()
    compact_files = ConversationFiles.compact

    def compact(self: ConversationFiles, state: ConversationState, position: Position) -> Position:
        result = compact_files(self, state, position)
        loop.call_soon_threadsafe(compacted.set)
        return result

    monkeypatch.setattr(ConversationFiles, "compact", compact)
    parameters = {
        "close": {},
        "idle": {"idle_seconds": 0.01},
        "outgrown": {"small_bytes": 10},
    }
    store = open_store(
        tmp_path, **({"small_bytes": 1_000_000, "exit_seconds": 60} | parameters[how])
    )
    await commit(store, Added(memory("a")))
    if how == "close":
        assert not (tmp_path / "chat" / SHORT_TERM).exists()
        await store.aclose()
    else:
        async with asyncio.timeout(20):
            await compacted.wait()
    assert (tmp_path / "chat" / SHORT_TERM).exists()
    await store.aclose()


# --- several openings --------------------------------------------------------------------------------------


async def test_two_stores_on_one_folder_lose_nothing(tmp_path: Path) -> None:
    stores = [open_store(tmp_path), open_store(tmp_path)]

    async def write(store: JsonFileStore, name: str) -> None:
        for number in range(15):
            await commit(store, Added(memory(f"{name}{number}")))
            if number % 5 == 4:
                await store.compact("chat")

    async with asyncio.timeout(30):
        await asyncio.gather(
            *(write(store, name) for store, name in zip(stores, "ab", strict=True))
        )
    expected = {f"{name}{number}" for name in "ab" for number in range(15)}
    for store in [*stores, open_store(tmp_path)]:
        state = await store.read("chat")
        assert set(state.short_term) == expected
        assert state.version == 30


async def test_a_reader_sees_each_commit_of_another_store_at_once(tmp_path: Path) -> None:
    writer = open_store(tmp_path)
    reader = open_store(tmp_path)
    for number in range(6):
        await commit(writer, Added(memory(f"m{number}")))
        if number % 3 == 2:
            await writer.compact("chat")
        assert len((await reader.read("chat")).short_term) == number + 1
    await commit(reader, Reinforced("m0", 0, 5))
    assert (await writer.read("chat")).short_term["m0"].score == 5


async def test_a_conversation_removed_and_begun_anew_is_not_taken_for_the_former_one(
    tmp_path: Path,
) -> None:
    old = open_store(tmp_path)
    new = open_store(tmp_path)
    await commit(old, Added(memory("former")))
    shutil.rmtree(tmp_path / "chat")
    for number in range(4):
        await commit(new, Added(memory(f"new{number}")))
    assert [*(await old.read("chat")).short_term] == ["new0", "new1", "new2", "new3"]
    shutil.rmtree(tmp_path / "chat")
    assert (await old.read("chat")).short_term == {}
    await commit(old, Added(memory("again")))
    assert [*(await new.read("chat")).short_term] == ["again"]


async def test_what_people_add_to_a_snapshot_is_read(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    await commit(store, Added(memory("a")))
    await store.compact("chat")
    path = tmp_path / "chat" / SHORT_TERM
    records = orjson.loads(path.read_bytes())
    path.write_bytes(
        b"\xef\xbb\xbf"
        + orjson.dumps([*records, records[0] | {"id": "b"}], option=orjson.OPT_INDENT_2)
    )
    assert [*(await store.read("chat")).short_term] == ["a", "b"]
    await commit(store, Added(memory("c")))
    assert [*(await reopened(tmp_path)).short_term] == ["a", "b", "c"]


# --- waiting -----------------------------------------------------------------------------------------------


async def test_a_writer_gives_up_on_a_lock_that_does_not_come(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    await commit(store, Added(memory("a")))
    lock = try_lock(private(tmp_path, "lock"))
    assert lock is not None
    for wait in (0.0, 0.05):
        with pytest.raises(
            LockTimeout, match=r"chat for more than .* try again, nothing was changed"
        ):
            await store.update(
                "chat", lambda state: ([Added(memory("b"))], None), by="test", wait_seconds=wait
            )
    assert [*(await store.read("chat")).short_term] == ["a"]
    waiting = asyncio.create_task(commit(store, Added(memory("c"))))
    await asyncio.sleep(0)
    assert [*(await store.read("chat")).short_term] == ["a"]  # readers do not wait for writers
    lock.release()
    async with asyncio.timeout(20):
        await waiting
    assert [*(await reopened(tmp_path)).short_term] == ["a", "c"]


async def test_who_waits_needs_no_thread_and_who_gave_up_leaves_nothing_open(
    tmp_path: Path,
) -> None:
    store = open_store(tmp_path)
    await commit(store, Added(memory("a")))
    lock = try_lock(private(tmp_path, "lock"))
    assert lock is not None

    def resources() -> set[threading.Thread | tuple[str, int]]:
        """Threads and open files, without their positions: another process may write to the same output."""
        files = {(open_file.path, open_file.fd) for open_file in psutil.Process().open_files()}
        return files | set(threading.enumerate())

    before = resources()
    for _ in range(5):
        with pytest.raises(LockTimeout):
            await store.update(
                "chat", lambda state: ([Added(memory("b"))], None), by="test", wait_seconds=0.005
            )
    waiting = asyncio.create_task(commit(store, Added(memory("c"))))
    await asyncio.sleep(0.005)
    assert resources() <= before, "what an earlier test left may end meanwhile"
    lock.release()
    async with asyncio.timeout(20):
        await waiting
        await commit(store, Added(memory("d")))
    assert [*(await reopened(tmp_path)).short_term] == ["a", "c", "d"]


async def test_who_waits_for_a_lock_whose_folder_is_removed_waits_for_the_new_one(
    tmp_path: Path,
) -> None:
    store = open_store(tmp_path)
    await commit(store, Added(memory("a")))
    path = private(tmp_path, "lock")
    removed = try_lock(path)
    assert removed is not None
    waiting = asyncio.create_task(commit(store, Added(memory("b"))))
    await asyncio.sleep(0)
    path.unlink()
    new_lock = try_lock(path)
    assert new_lock is not None
    removed.release()
    await asyncio.sleep(0.05)
    assert not waiting.done()
    new_lock.release()
    async with asyncio.timeout(20):
        await waiting


async def test_a_reader_does_not_wait_for_a_commit_and_sees_nothing_of_it_before_it_is_durable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_store(tmp_path)
    await commit(store, Added(memory("a")))
    writing = threading.Event()
    go_on = threading.Event()
    append = journal.append

    def slow(*arguments: Any) -> int:
        end = append(*arguments)
        writing.set()
        assert go_on.wait(20)
        return end

    monkeypatch.setattr(journal, "append", slow)
    caller = asyncio.create_task(commit(store, Added(memory("b"))))
    assert await asyncio.to_thread(writing.wait, 20)
    try:
        async with asyncio.timeout(60):
            assert [*(await store.read("chat")).short_term] == ["a"]
    finally:
        go_on.set()
    await caller
    assert [*(await store.read("chat")).short_term] == ["a", "b"]


async def test_closing_waits_for_what_was_begun(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    tasks = [
        asyncio.create_task(commit(store, Added(memory(f"m{number}")), chat=f"chat{number % 3}"))
        for number in range(9)
    ]
    await asyncio.sleep(0)
    assert len(store._open.running) == len(tasks)
    await store.aclose()
    assert [len((await reopened(tmp_path, f"chat{number}")).short_term) for number in range(3)] == [
        3,
        3,
        3,
    ]
    await asyncio.gather(*tasks)


async def test_nothing_runs_after_closing(tmp_path: Path) -> None:
    store = open_store(tmp_path, exit_seconds=0.0)
    for chat in ("a", "b"):
        await commit(store, Added(memory("m")), chat=chat)
    timers = [conversation._idle for conversation in store._open.values()]
    await store.aclose()
    assert [timer is not None and timer.cancelled() for timer in timers] == [True, True]
    assert not store._open.running


async def test_the_lock_is_kept_while_a_cancelled_writer_still_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when `asyncio.run` ends under an update: it cancels the store's own tasks, but not their threads."""
    store = open_store(tmp_path)
    await commit(store, Added(memory("a")))
    writing = threading.Event()
    go_on = threading.Event()
    append = journal.append

    def slow(*arguments: Any) -> int:
        writing.set()
        assert go_on.wait(20)
        return append(*arguments)

    monkeypatch.setattr(journal, "append", slow)
    caller = asyncio.create_task(commit(store, Added(memory("b"))))
    assert await asyncio.to_thread(writing.wait, 20)
    for task in tuple(store._open.running):
        task.cancel()
    for _ in range(10):
        await asyncio.sleep(0)
    assert try_lock(private(tmp_path, "lock")) is None
    go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await caller
    await store.aclose()
    lock = try_lock(private(tmp_path, "lock"))
    assert lock is not None
    lock.release()
    monkeypatch.undo()
    await commit(store, Added(memory("c")))
    assert [*(await reopened(tmp_path)).short_term] == ["a", "b", "c"]
    assert [*(await store.read("chat")).short_term] == ["a", "b", "c"]


async def test_a_caller_who_left_before_its_turn_changes_nothing(tmp_path: Path) -> None:
    """A server that ends with many calls in flight must not write them one after the other."""
    store = open_store(tmp_path)
    await commit(store, Added(memory("a")))
    lock = try_lock(private(tmp_path, "lock"))
    assert lock is not None
    waiting = [asyncio.create_task(commit(store, Added(memory(name)))) for name in "bcd"]
    await asyncio.sleep(0)
    for task in waiting[1:]:
        task.cancel()
    await asyncio.wait(waiting[1:])
    lock.release()
    async with asyncio.timeout(10):
        await waiting[0]
        await store.aclose()
    assert [*(await reopened(tmp_path)).short_term] == ["a", "b"]


async def test_a_cancelled_wait_for_the_lock_keeps_nothing(
    tmp_path: Path, tried: asyncio.Event
) -> None:
    store = open_store(tmp_path)
    await commit(store, Added(memory("a")))
    lock = try_lock(private(tmp_path, "lock"))
    assert lock is not None
    caller = asyncio.create_task(commit(store, Added(memory("b"))))
    async with asyncio.timeout(20):
        await tried.wait()
    for task in tuple(store._open.running):
        task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await caller
    lock.release()
    async with asyncio.timeout(20):
        await commit(store, Added(memory("c")))
    assert [*(await reopened(tmp_path)).short_term] == ["a", "c"]


# --- while others write ------------------------------------------------------------------------------------


def written_by_another(data_dir: Path, name: str) -> None:
    """A commit of another process, which holds the lock."""
    files = ConversationFiles(data_dir / "chat", "chat")
    state, position = files.load()
    files.append(state, position, Commit(state.version + 1, NOW, "other", (Added(memory(name)),)))


async def test_what_another_process_writes_right_after_a_commit_is_seen_by_the_next_reader(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lock is given back before this process has heard that its own commit is durable."""
    store = open_store(tmp_path)
    await commit(store, Added(memory("a")))
    released = threading.Event()
    go_on = threading.Event()
    release_lock = FileLock.release

    def release(self: FileLock) -> None:
        release_lock(self)
        if threading.current_thread() is not threading.main_thread():
            written_by_another(tmp_path, "other")
            released.set()
            assert go_on.wait(20)

    monkeypatch.setattr(FileLock, "release", release)
    caller = asyncio.create_task(commit(store, Added(memory("b"))))
    assert await asyncio.to_thread(released.wait, 20)
    reader = asyncio.create_task(store.read("chat"))
    for _ in range(5):
        await asyncio.sleep(0)
    go_on.set()
    async with asyncio.timeout(20):
        assert [*(await reader).short_term] == ["a", "b", "other"]
        await caller
    assert await store.read("chat") == await reopened(tmp_path)


async def test_who_gave_up_waiting_and_comes_again_decides_on_what_was_written_since(
    tmp_path: Path,
) -> None:
    store = open_store(tmp_path)
    await commit(store, Added(memory("a")))
    lock = try_lock(private(tmp_path, "lock"))
    assert lock is not None
    with pytest.raises(LockTimeout):
        await store.update(
            "chat", lambda state: ([Added(memory("never"))], None), by="test", wait_seconds=0.05
        )
    written_by_another(tmp_path, "other")
    lock.release()
    ids_seen, _ = await store.update("chat", lambda state: ((), [*state.short_term]), by="test")
    assert ids_seen == ["a", "other"]


@pytest.mark.parametrize("is_seen", [True, False])
@pytest.mark.parametrize("is_compacted", [True, False])
async def test_who_waits_decides_on_everything(
    tmp_path: Path, tried: asyncio.Event, is_seen: bool, is_compacted: bool
) -> None:
    store = open_store(tmp_path)
    await commit(store, Added(memory("a")))
    lock = try_lock(private(tmp_path, "lock"))
    assert lock is not None
    written_by_another(tmp_path, "before")
    decided: list[list[str]] = []

    def decide(state: ConversationState) -> tuple[list[Change], None]:
        decided.append([*state.short_term])
        return [Added(memory("mine"))], None

    waiting = asyncio.create_task(store.update("chat", decide, by="test"))
    async with asyncio.timeout(20):
        await tried.wait()
    written_by_another(tmp_path, "meanwhile")
    if is_seen:
        assert [*(await store.read("chat")).short_term] == ["a", "before", "meanwhile"]
    written_by_another(tmp_path, "late")
    if is_compacted:
        files = ConversationFiles(tmp_path / "chat", "chat")
        files.compact(*files.load())
    lock.release()
    async with asyncio.timeout(20):
        await waiting
    assert decided == [["a", "before", "meanwhile", "late"]]
    state = await store.read("chat")
    assert state.version == 5
    assert state == await reopened(tmp_path)


async def test_a_line_that_was_read_and_then_cut_off_never_happened(
    tmp_path: Path, tried: asyncio.Event
) -> None:
    """A reader may see a line while its writer waits for its disk, which may fail."""
    store = open_store(tmp_path)
    await commit(store, Added(memory("a")))
    path = private(tmp_path, "journal.jsonl")
    good = path.read_bytes()
    lock = try_lock(private(tmp_path, "lock"))
    assert lock is not None
    written_by_another(tmp_path, "not durable")
    waiting = asyncio.create_task(
        store.update("chat", lambda state: ((), [*state.short_term]), by="test")
    )
    async with asyncio.timeout(20):
        await tried.wait()
    assert [*(await store.read("chat")).short_term] == ["a", "not durable"]
    path.write_bytes(good)
    lock.release()
    async with asyncio.timeout(20):
        assert await waiting == (["a"], None)
    assert [*(await store.read("chat")).short_term] == ["a"]


async def test_a_journal_that_another_process_has_folded_is_not_folded_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All processes see at once that the journal has outgrown its snapshots."""
    begun: list[Any] = []
    monkeypatch.setattr(JsonFileStore, "_background", lambda self, work: begun.append(work))
    store = open_store(tmp_path, small_bytes=2000)
    await commit(store, Added(memory("a", text="user: " + "披萨" * 1000)))
    files = ConversationFiles(tmp_path / "chat", "chat")
    files.compact(*files.load())
    written_by_another(tmp_path, "other")
    generation = files.load()[1].header.generation
    [folding] = begun
    await folding
    assert files.load()[1].header.generation == generation
    await commit(store, Added(memory("b", text="user: " + "披萨" * 2000)))
    [_, folding] = begun
    await folding
    assert files.load()[1].header.generation == generation + 1
    assert [*(await reopened(tmp_path)).short_term] == ["a", "other", "b"]
