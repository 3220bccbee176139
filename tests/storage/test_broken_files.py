"""Each file of a conversation broken in each way: the last good state goes on, and the file can be put back."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from random import Random
from typing import Any

import orjson
import pytest
from sample_memories import DAY, NOW, contents, memory, trigger
from store_on_disk import commit, open_store, private, reopened, tree
from trigger_table import TableRunner

from memory_server.conversations.changes import Added, Pinned, Reinforced, change_id
from memory_server.conversations.conversation import Conversations
from memory_server.conversations.recall.parameters import Parameters
from memory_server.conversations.services import Services
from memory_server.kernel.files import PRIVATE
from memory_server.lore.memory import TriggerSet
from memory_server.storage.json_store import history_files as past
from memory_server.storage.json_store import repair, snapshots
from memory_server.storage.json_store.examination import examine
from memory_server.storage.json_store.snapshots import LONG_TERM, SHORT_TERM
from memory_server.storage.json_store.store import JsonFileStore

pytestmark = pytest.mark.anyio

DEEP = b"[" * 100_000


@pytest.fixture(autouse=True)
def nobody_is_saving(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshots, "SAVING_SECONDS", 0.0)


def in_conflict(data: bytes) -> bytes:
    first, *rest = data.splitlines(keepends=True)
    return b"".join(
        [
            first,
            b"<<<<<<< HEAD\n",
            *rest[:1],
            b"=======\n",
            *rest[:1],
            b">>>>>>> theirs\n",
            *rest[1:],
        ]
    )


BREAKAGES: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    "truncated": (lambda data: data[:-30], "line "),
    "cut to nothing": (lambda data: b"", "it is empty"),
    "garbage in the middle": (lambda data: data.replace(b'":"', b'"oops}{"', 1), "line 2"),
    "a wrong byte": (lambda data: data[:60] + b"\xff" + data[61:], "it is not UTF-8 (line 2)"),
    "a bad record": (lambda data: data.replace(b"[\n", b'[\n{"text":"no time"},\n'), "(line 2)"),
    "a record that is a number": (lambda data: data.replace(b"[\n", b"[\n\n17,\n"), "(line 3)"),
    "an object": (lambda data: b'{"memories":1}', "it is not a JSON array of objects (line 1)"),
    "a number": (lambda data: b"\n17", "it is not a JSON array of objects (line 2)"),
    "binary": (lambda data: bytes(range(256)) * 4, "it is not UTF-8 (line 2)"),
    "zeros": (lambda data: bytes(len(data)), "line 1"),
    "UTF-16": (lambda data: data.decode("latin-1").encode("utf-16"), "save it as UTF-8"),
    "conflict marks of git": (in_conflict, "line 2 "),
    "too deep": (lambda data: data.replace(b"[\n", b"[\n" + DEEP), "(line 2)"),
    "a record too deep": (
        lambda data: data.replace(b'"id":"b"', b'"id":"b","x":%s' % (b"[" * 300 + b"]" * 300)),
        "",
    ),
    "twice in one file": (lambda data: data + data, "line "),
}
USED_IN_PART = {
    ("a bad record", SHORT_TERM): {"a", "b", "d"},
    ("a bad record", LONG_TERM): {"t", "u"},
    ("a record too deep", SHORT_TERM): {"a", "d"},
}
"""The memories that count of a file that is still a list of objects."""
PRIVATE_FILES = (
    f"{SHORT_TERM}.zlib",
    f"{LONG_TERM}.zlib",
    "conversation.json",
    "journal.jsonl",
    "history.jsonl",
    "set-aside.jsonl",
)


async def partly_compacted(data_dir: Path) -> JsonFileStore:
    """Two memories and two triggers in the snapshots; one more, and what happened to another, in the journal."""
    store = open_store(data_dir)
    await commit(store, *(Added(memory(name, text=f"user: {name}")) for name in "ab"))
    await commit(store, *(TriggerSet(trigger(name), None) for name in "tu"))
    await store.compact("chat")
    await commit(store, Reinforced("a", 0, 5), Added(memory("d", text="user: d")))
    return store


def names_of(state: object) -> set[str]:
    short, long, _cleaned, _chats = contents(state)  # type: ignore[arg-type]
    return {*(memory.id for memory in short), *(memory.name for memory in long)}


def broken_files(data_dir: Path) -> Iterator[Path]:
    return (path for path, _time in past.broken_files(private(data_dir, "")))


async def undo(data_dir: Path, version: int) -> None:
    services = Services(open_store(data_dir), TableRunner(), Parameters(), lambda: NOW, Random(0))
    await Conversations(services).get("chat").archive.undo(change_id("chat", version))


@pytest.mark.parametrize("name", [SHORT_TERM, LONG_TERM])
@pytest.mark.parametrize("how", BREAKAGES)
@pytest.mark.parametrize("running", [True, False])
async def test_a_broken_snapshot_is_set_aside_whole_named_and_put_back(
    tmp_path: Path, name: str, how: str, running: bool
) -> None:
    store = await partly_compacted(tmp_path)
    before = await store.read("chat")
    expected = contents(before)
    folder = tmp_path / "chat"
    path = folder / name
    whole = path.read_bytes()
    spoil, reason = BREAKAGES[how]
    broken = spoil(whole)
    if broken == whole:
        pytest.skip("has no such record")
    path.write_bytes(broken)
    if not running:
        store = open_store(tmp_path)

    # Named before anything changes, with the line.
    [finding] = [
        finding
        for finding in examine(tmp_path, folder, NOW)
        if finding.grade in ("warning", "error")
    ]
    assert finding.grade == "warning"
    assert str(path) in finding.what
    assert reason in finding.what
    assert path.read_bytes() == broken

    # The last good state goes on: no record of the broken file counts, and none is missing.
    assert contents(await store.read("chat")) == expected
    await commit(store, Added(memory("e", text="user: e")))
    assert names_of(await reopened(tmp_path)) == {*"abdtu", "e"}
    [aside] = broken_files(tmp_path)
    assert aside.read_bytes() == broken
    orjson.loads(path.read_bytes())
    [finding] = [
        finding for finding in examine(tmp_path, folder, NOW) if str(aside) in finding.what
    ]
    # Of a record without an id no earlier version is known.
    assert finding.grade == ("warning" if how == "a bad record" else "note")
    assert reason in finding.what
    assert f"memory-server import {aside} -c chat" in finding.what

    # Mended and put back by hand: an edit like any other, which an undo takes back.
    await store.compact("chat")
    latest = await reopened(tmp_path)
    path.write_bytes(
        whole.replace(b"user: a", b"user: mended").replace(b'"prompt":"', b'"prompt":"mended ')
    )
    aside.unlink()
    put_back = await reopened(tmp_path)
    lost = {"d", "e"} if name == SHORT_TERM else set()
    assert names_of(put_back) == names_of(latest) - lost
    if name == SHORT_TERM:
        assert put_back.short_term["a"].text == "user: mended"
        assert put_back.short_term["a"].score == 5
    else:
        assert put_back.long_term["t"].prompt.startswith("mended ")
    await commit(open_store(tmp_path), Pinned("a"))
    edit = next(
        past_commit
        for past_commit in await open_store(tmp_path).history("chat")
        if past_commit.by == "hand"
    )
    await undo(tmp_path, edit.version)
    undone = await reopened(tmp_path)
    assert names_of(undone) == names_of(latest)
    assert undone.long_term == latest.long_term
    assert undone.short_term["a"].text == "user: a"


@pytest.mark.parametrize("name", [SHORT_TERM, LONG_TERM])
@pytest.mark.parametrize("how", BREAKAGES)
async def test_a_repair_does_the_same_at_once_and_says_how_to_put_it_back(
    tmp_path: Path, name: str, how: str
) -> None:
    store = await partly_compacted(tmp_path)
    expected = contents(await store.read("chat"))
    path = tmp_path / "chat" / name
    whole = path.read_bytes()
    broken = BREAKAGES[how][0](whole)
    if broken == whole:
        pytest.skip("has no such record")
    path.write_bytes(broken)
    snapshots.SAVING_SECONDS = 1e6  # the fixture sets it back
    planned = repair.repair(path.parent, NOW, dry_run=True)
    assert planned is not None
    assert len(planned.steps) == 1
    assert planned.set_aside == ()
    assert path.read_bytes() == broken
    repaired = repair.repair(path.parent, NOW)
    assert repaired is not None
    [aside] = broken_files(tmp_path)
    assert aside.read_bytes() == broken
    [sentence] = repaired.set_aside
    assert f"memory-server import {aside} -c chat" in sentence
    assert contents(await reopened(tmp_path)) == expected
    second_repair = repair.repair(path.parent, NOW)
    assert second_repair is not None
    assert second_repair.steps == ()
    assert second_repair.set_aside == repaired.set_aside


@pytest.mark.parametrize("how", BREAKAGES)
@pytest.mark.parametrize("name", [SHORT_TERM, LONG_TERM])
async def test_what_may_be_the_only_copy_stays_for_good(
    tmp_path: Path, name: str, how: str
) -> None:
    """Another program wrote the folder, so that there is neither a copy nor a history."""
    former_store = await partly_compacted(tmp_path / "made")
    await former_store.compact("chat")
    broken = BREAKAGES[how][0]((tmp_path / "made" / "chat" / name).read_bytes())
    path = tmp_path / "chat" / name
    path.parent.mkdir(mode=0o700)
    path.write_bytes(broken)
    if how == "a record too deep" and name == LONG_TERM:
        pytest.skip("has no such record")
    store = open_store(tmp_path)
    if how == "cut to nothing":
        assert (
            names_of(await store.read("chat")) == set()
        )  # the original leaves such a file before its first memory
        return
    assert names_of(await store.read("chat")) == USED_IN_PART.get((how, name), set())
    await commit(store, Added(memory("e")))
    [aside] = broken_files(tmp_path)
    assert aside.read_bytes() == broken
    has_content = how != "zeros"
    assert past.may_be_only_copy(aside) == has_content
    for days in (1, 200, 400):
        await store.compact("chat", now_ms=NOW + days * DAY)
    assert aside.exists() == has_content
    [finding] = [
        finding for finding in examine(tmp_path, path.parent, NOW) if finding.grade == "warning"
    ] or [None]
    assert (finding is not None and "stays until you delete it" in finding.what) == has_content
    assert await store.damaged("chat") == has_content
    if has_content:
        aside.unlink()
    assert [
        finding.grade
        for finding in examine(tmp_path, path.parent, NOW)
        if finding.grade == "warning"
    ] == []


def private_file_cases() -> list[Any]:
    """Each file of the server with each breakage; for a running process, the short form has three of the breakages."""
    cases = []
    for file, how in product(PRIVATE_FILES, BREAKAGES):
        cases.append(pytest.param(file, how, False))
        is_short = how in ("truncated", "garbage in the middle", "cut to nothing")
        cases.append(pytest.param(file, how, True, marks=() if is_short else pytest.mark.full))
    return cases


@pytest.mark.parametrize(("file", "how", "running"), private_file_cases())
async def test_a_broken_file_of_the_server_stops_nothing(
    tmp_path: Path, file: str, how: str, running: bool
) -> None:
    store = await partly_compacted(tmp_path)
    path = private(tmp_path, file)
    whole = path.read_bytes() if path.exists() else b'[\n{"id":"b"}\n]\n'
    broken = BREAKAGES[how][0](whole)
    path.write_bytes(broken)
    if not running:
        store = open_store(tmp_path)
    names = names_of(await store.read("chat"))
    assert {*"abtu"} <= names
    await commit(store, Added(memory("e")))
    await store.compact("chat")
    assert names_of(await reopened(tmp_path)) == {*names, "e"}
    list(examine(tmp_path, tmp_path / "chat", NOW))
    repair.repair(tmp_path / "chat", NOW)
    if file == "conversation.json" and broken not in (b"", whole):
        assert broken in (aside.read_bytes() for aside in broken_files(tmp_path))
    assert names_of(await reopened(tmp_path)) == {*names, "e"}
    state = tree(tmp_path / "chat" / PRIVATE)
    repair.repair(tmp_path / "chat", NOW)
    assert tree(tmp_path / "chat" / PRIVATE) == state


async def test_a_lost_journal_leaves_the_copy_in_place_of_a_broken_file(tmp_path: Path) -> None:
    await partly_compacted(tmp_path)
    for name in ("journal.jsonl", "history.jsonl"):
        private(tmp_path, name).unlink()
    (tmp_path / "chat" / SHORT_TERM).write_bytes(b"[{")
    assert names_of(await reopened(tmp_path)) == {*"abtu"}
    await commit(open_store(tmp_path), Added(memory("e")))
    assert names_of(await reopened(tmp_path)) == {*"abetu"}
