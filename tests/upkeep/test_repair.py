"""`memory-server doctor --repair`: a broken file is set aside whole, and what is stored goes on."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from sample_memories import NOW, contents, memory, trigger
from store_on_disk import commit, open_store, private, reopened, tree

from memory_server.cli.parser import main
from memory_server.conversations.changes import Added
from memory_server.conversations.codec import short_term_json
from memory_server.kernel.errors import StorageUnwritable
from memory_server.kernel.json_text import dump_array
from memory_server.lore.memory import TriggerSet
from memory_server.storage.json_store import examination, repair
from memory_server.storage.json_store import history_files as past
from memory_server.storage.json_store.examination import examine
from memory_server.storage.json_store.snapshots import LONG_TERM, SHORT_TERM

pytestmark = pytest.mark.anyio
MEMORIES = [
    memory(name, text=f"user: {name} 喜欢披萨", extra={"mood": {"id": name}}) for name in "abcde"
]
ARRAY = dump_array(map(short_term_json, MEMORIES))


# --- a conversation --------------------------------------------------------------------------------------------


async def folder_of(data_dir: Path, chat: str = "chat") -> Path:
    store = open_store(data_dir)
    await commit(
        store,
        *(Added(memory(name, chat=chat)) for name in "abc"),
        TriggerSet(trigger("t"), None),
        chat=chat,
    )
    await store.compact(chat)
    for name in "de":
        await commit(store, Added(memory(name, chat=chat)), chat=chat)
    return store.folder(chat)


def errors(folder: Path) -> list[str]:
    return [
        finding.what for finding in examine(folder.parent, folder, NOW) if finding.grade == "error"
    ]


def mend(folder: Path) -> examination.RepairPlan:
    before = tree(folder)
    planned = repair.plan(folder)
    assert tree(folder) == before, "planning changes nothing"
    assert planned is not None
    repair.repair(folder, NOW)
    names = [SHORT_TERM, LONG_TERM, ".memory-server/journal.jsonl"]
    broken = [
        name for name in names if name in before and any(name in step for step in planned.steps)
    ]
    assert {before[name] for name in broken} <= set(tree(folder).values()), (
        "what was there is kept as it was"
    )
    assert errors(folder) == []
    second = repair.plan(folder)
    assert second is None or second.steps == (), "a second repair has nothing to do"
    return planned


def spoil(path: Path, change: Callable[[bytes], bytes]) -> None:
    path.write_bytes(change(path.read_bytes()))


async def test_whole_files_are_left_alone(tmp_path: Path) -> None:
    assert repair.plan(await folder_of(tmp_path)) is None


async def test_an_edit_by_hand_that_was_taken_up_is_nothing_to_mend(tmp_path: Path) -> None:
    folder = await folder_of(tmp_path)
    spoil(folder / SHORT_TERM, lambda data: data.replace(b"\n", b"\r\n"))
    store = open_store(tmp_path)
    await commit(store, Added(memory("e")))
    assert repair.plan(folder) is None
    assert [finding.grade for finding in examine(tmp_path, folder, NOW)] == ["ok"]
    # Nor is the note lost when something else is mended: the edit stays told.
    journal = private(tmp_path, "journal.jsonl")
    spoil(journal, lambda data: data + b"a bad line\n")
    before = contents(await reopened(tmp_path))
    mend(folder)
    assert contents(await reopened(tmp_path)) == before
    assert b'"edited"' in journal.read_bytes()
    assert [
        finding.what for finding in examine(tmp_path, folder, NOW) if "by hand" in finding.what
    ] == []


async def test_what_a_broken_snapshot_lost_comes_back_from_the_history(tmp_path: Path) -> None:
    folder = await folder_of(tmp_path)
    before = contents(await reopened(tmp_path))
    for name in (SHORT_TERM, LONG_TERM):
        spoil(folder / name, lambda data: data.replace(b'"a"', b"a").replace(b'"t"', b"t"))
    for name in (SHORT_TERM, LONG_TERM):
        private(tmp_path, f"{name}.zlib").unlink()
    performed = mend(folder)
    assert (
        "there is no copy of it, the history can restore 3 memories, the file is kept whole"
        in performed.steps[0]
    )
    after = contents(await reopened(tmp_path))
    assert [sorted(part, key=str) for part in after[:2]] == [
        sorted(part, key=str) for part in before[:2]
    ]
    assert private(tmp_path, "set-aside.jsonl").read_text().count("it is not JSON") == 2
    assert all(
        past.may_be_only_copy(path) for path, _time in past.broken_files(private(tmp_path, ""))
    )


async def test_a_snapshot_that_is_gone_with_its_copy_comes_back_from_the_history(
    tmp_path: Path,
) -> None:
    folder = await folder_of(tmp_path)
    before = contents(await reopened(tmp_path))
    for name in (SHORT_TERM, LONG_TERM):
        (folder / name).unlink()
        (folder / ".memory-server" / f"{name}.zlib").unlink()
    performed = mend(folder)
    lost = "short-term-memory.json is missing, and so is the copy of it; the history can restore 3 memories."
    assert lost in performed.steps
    assert contents(await reopened(tmp_path)) == before


async def test_without_a_history_what_came_since_stays_and_the_file_is_set_aside(
    tmp_path: Path,
) -> None:
    folder = await folder_of(tmp_path)
    for name in ("history.jsonl", f"{SHORT_TERM}.zlib"):
        private(tmp_path, name).unlink()
    spoil(folder / SHORT_TERM, lambda data: data.replace(b'"b"', b"b"))
    mend(folder)
    assert set((await reopened(tmp_path)).short_term) == set("de")
    [(aside, _time)] = past.broken_files(private(tmp_path, ""))
    assert past.may_be_only_copy(aside)
    spoil(aside, lambda data: data.replace(b'"id":b', b'"id":"b"'))
    command = ["--data-dir", str(tmp_path), "import", str(aside), "-c", "chat"]
    assert await asyncio.to_thread(main, command) == 0
    assert set((await reopened(tmp_path)).short_term) == set("abcde")


@pytest.mark.parametrize(
    "cut", [lambda data: data[5:], lambda data: data.split(b"\n", 1)[1], lambda data: b"\n" + data]
)
async def test_a_journal_without_its_first_line_keeps_its_commits(
    tmp_path: Path, cut: Callable[[bytes], bytes]
) -> None:
    folder = await folder_of(tmp_path)
    spoil(private(tmp_path, "journal.jsonl"), cut)
    mend(folder)
    state = await reopened(tmp_path)
    assert set(state.short_term) == set("abcde")
    assert state.version == 3
    store = open_store(tmp_path)
    await commit(store, Added(memory("f")))
    assert set((await reopened(tmp_path)).short_term) == set("abcdef")


async def test_bad_lines_of_the_journal_are_set_aside_and_the_others_stay(tmp_path: Path) -> None:
    folder = await folder_of(tmp_path)
    spoil(private(tmp_path, "journal.jsonl"), lambda data: data.replace(b'"d"', b'"x"'))
    store = open_store(tmp_path)
    await store.read("chat")
    mend(folder)
    assert set((await store.read("chat")).short_term) == set("abce"), (
        "a process that had it open sees it"
    )
    assert "checksum" in private(tmp_path, "set-aside.jsonl").read_text()


async def test_a_folder_whose_note_is_broken_is_found_again_under_its_name(tmp_path: Path) -> None:
    folder = await folder_of(tmp_path, "小明")
    assert "~" in folder.name
    (folder / ".memory-server" / "conversation.json").write_bytes(b"\x00")
    assert await open_store(tmp_path).conversations() == ["小明"], (
        "its memories know for whom they are kept"
    )
    assert [
        finding.grade for finding in examine(tmp_path, folder, NOW) if finding.grade != "ok"
    ] == ["warning"]
    mend(folder)
    assert (
        json.loads((folder / ".memory-server" / "conversation.json").read_bytes())["id"] == "小明"
    )
    assert await open_store(tmp_path).conversations() == ["小明"]


async def test_a_broken_file_of_the_node_original_is_mended_without_a_journal(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "Alice"
    folder.mkdir()
    (folder / SHORT_TERM).write_bytes(ARRAY[:-40])
    mend(folder)
    assert (await reopened(tmp_path, "Alice")).short_term == {}
    [(aside, _time)] = past.broken_files(private(tmp_path, "", "Alice"))
    assert aside.read_bytes() == ARRAY[:-40]


async def test_a_newer_format_is_not_touched(tmp_path: Path) -> None:
    folder = await folder_of(tmp_path)
    (folder / SHORT_TERM).write_bytes(b"?")
    from memory_server.storage.partition import journal

    private(tmp_path, "journal.jsonl").write_bytes(
        journal.header_line(journal.Header(1, 0, {}, format=99))
    )
    before = tree(tmp_path)
    with pytest.raises(StorageUnwritable, match="newer memory-server"):
        repair.plan(folder)
    assert tree(tmp_path) == before


async def test_repairing_twice_keeps_both_broken_files(tmp_path: Path) -> None:
    folder = await folder_of(tmp_path)
    for text in (b"[1", b"[2"):
        (folder / SHORT_TERM).write_bytes(text)
        mend(folder)
    broken_files = sorted((folder / ".memory-server" / "broken").glob(f"*{SHORT_TERM}*"))
    assert [path.read_bytes() for path in broken_files] == [b"[1", b"[2"]


def test_the_command_says_what_it_would_do_and_what_it_did(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEMORY_SERVER_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setenv("HOME", str(tmp_path))
    assert main(["doctor", "--repair"]) == 0
    assert capfd.readouterr().out == "Nothing is broken.\n"
    folder = tmp_path / "data" / "Alice"
    folder.mkdir(parents=True)
    (folder / SHORT_TERM).write_bytes(ARRAY[:-40])
    before = tree(tmp_path)
    assert main(["doctor", "--repair", "--dry-run"]) == 0
    assert "there is no copy of it, the file is kept whole" in " ".join(
        capfd.readouterr().out.split()
    )
    assert tree(tmp_path) == before
    assert main(["doctor", "--repair", "-c", "小红"]) == 2
    assert "There is no conversation 小红;" in capfd.readouterr().err
    assert main(["doctor", "--repair"]) == 0
    output = capfd.readouterr().out
    assert "The files as they were are in" in output
    [(aside, _time)] = past.broken_files(folder / ".memory-server")
    way_back = f"`memory-server import {aside} -c Alice` adds the memories that are missing here"
    assert way_back in output
    assert main(["doctor"]) == 0
    assert main(["doctor", "--repair"]) == 0
    second_output = capfd.readouterr().out
    assert way_back in second_output
    assert "Nothing is broken." in second_output
