"""`memory-server doctor`: what it finds in a data folder, and that it changes nothing."""

from __future__ import annotations

import errno
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
from sample_memories import DAY, NOW, memory, trigger
from store_on_disk import commit, open_store, private, tree

from memory_server.cli.parser import main
from memory_server.conversations.changes import Added
from memory_server.kernel import files as folders
from memory_server.kernel.errors import StorageUnwritable
from memory_server.kernel.files import try_lock
from memory_server.kernel.text import Finding
from memory_server.lore.memory import TriggerSet
from memory_server.runtime.app import open_memory
from memory_server.runtime.homes import open_home
from memory_server.storage.backups.files import ENDING
from memory_server.storage.json_store import examination
from memory_server.storage.json_store.conversation_files import ConversationFiles
from memory_server.storage.json_store.examination import (
    examine,
    examine_conversation,
    examine_folder,
)
from memory_server.storage.json_store.snapshots import SHORT_TERM, Snapshots

pytestmark = pytest.mark.anyio


async def folder_of(data_dir: Path) -> Path:
    """A conversation with two memories in its files and two commits in its journal."""
    store = open_store(data_dir)
    await commit(store, Added(memory("a")), TriggerSet(trigger("t"), None))
    await commit(store, Added(memory("b")))
    await store.compact("chat")
    await commit(store, Added(memory("c")))
    await commit(store, Added(memory("d")))
    return data_dir / "chat"


def findings_in(folder: Path) -> list[Finding]:
    return list(examine(folder.parent, folder, NOW))


async def test_a_healthy_conversation_is_ok_and_nothing_is_touched(tmp_path: Path) -> None:
    folder = await folder_of(tmp_path)
    before = tree(tmp_path)
    assert findings_in(folder) == [
        Finding(
            "ok",
            "chat",
            "2 short-term and 1 long-term memories in the files, 2 commits since, every file can be read",
        )
    ]
    assert tree(tmp_path) == before


def replaced(name: str, change: Callable[[bytes], bytes]) -> Callable[[Path], None]:
    def damage(folder: Path) -> None:
        path = folder / name
        path.write_bytes(change(path.read_bytes()))

    return damage


def without(*names: str) -> Callable[[Path], None]:
    def damage(folder: Path) -> None:
        for name in names:
            (folder / name).unlink()

    return damage


JOURNAL = ".memory-server/journal.jsonl"


def in_line(number: int, change: Callable[[bytes], bytes]) -> Callable[[bytes], bytes]:
    def changed(data: bytes) -> bytes:
        lines = data.splitlines(keepends=True)
        return b"".join([*lines[:number], change(lines[number]), *lines[number + 1 :]])

    return changed


@pytest.mark.parametrize(
    ("damage", "grade", "sentence"),
    [
        (replaced(JOURNAL, in_line(0, lambda line: line[1:])), "error", "The first line of "),
        (
            replaced(JOURNAL, in_line(1, lambda line: line.replace(b'"c"', b'"x"'))),
            "error",
            "its checksum does not match",
        ),
        (replaced(JOURNAL, in_line(1, lambda line: b"\n")), "error", "it has no checksum"),
        (without(JOURNAL), "warning", "is missing: what was stored since"),
        (replaced(JOURNAL, lambda data: data[:-5]), "note", "a write that was never finished"),
        (
            replaced(SHORT_TERM, lambda data: data[:-5]),
            "warning",
            "short-term-memory.json cannot be used",
        ),
        (
            replaced(SHORT_TERM, lambda data: b" "),
            "warning",
            "it is empty; write `[]` to remove everything; its copy is",
        ),
        (
            replaced(SHORT_TERM, lambda data: data.replace(b'"timestamp"', b'"when"', 1)),
            "warning",
            "it has no timestamp",
        ),
        (
            replaced(SHORT_TERM, lambda data: data.replace("披萨".encode(), "披萨".encode("gbk"))),
            "warning",
            "cannot be used",
        ),
        (
            lambda folder: (
                (folder / SHORT_TERM).write_bytes(b"["),
                (folder / ".memory-server" / f"{SHORT_TERM}.zlib").unlink(),
            ),
            "error",
            "there is no copy of it",
        ),
        (
            replaced(SHORT_TERM, lambda data: data.replace("披萨".encode(), b"tea")),
            "note",
            "changed by hand",
        ),
        (
            replaced(SHORT_TERM, lambda data: data.replace(b"2026", b"2036", 1)),
            "warning",
            "1 memory in short-term-",
        ),
        (
            replaced(".memory-server/conversation.json", lambda _: b"{"),
            "warning",
            "the name of the folder is used",
        ),
        (lambda folder: (folder / f"{SHORT_TERM}.next").touch(), "note", "you may delete it"),
        (
            lambda folder: (folder / ".memory-server/set-aside.jsonl").write_bytes(
                b'{"reason":"torn"}\n?\n'
            ),
            "note",
            "2 unreadable pieces lie in set-aside.jsonl: a line that cannot be read, torn. Upkeep removes them",
        ),
        (lambda folder: folder.chmod(0o755), "warning", "Others may look into"),
        (lambda folder: (folder / SHORT_TERM).unlink(), "note", "is missing; its copy is used"),
        (
            without(SHORT_TERM, f".memory-server/{SHORT_TERM}.zlib"),
            "error",
            "is missing, and so is the copy of it",
        ),
        (
            replaced(".memory-server/history.jsonl", lambda data: b"?" + data),
            "warning",
            "1 line of ",
        ),
        (replaced(".memory-server/history.jsonl", lambda data: data[:-1]), "warning", "1 line of "),
        (lambda folder: shutil.copytree(folder, folder.parent / "copy"), "ok", "every file"),
    ],
)
async def test_each_damage_is_found_and_named(
    tmp_path: Path, damage: Callable[[Path], None], grade: str, sentence: str
) -> None:
    folder = await folder_of(tmp_path)
    damage(folder)
    before = tree(tmp_path)
    matching = [finding for finding in findings_in(folder) if sentence in finding.what]
    assert [finding.grade for finding in matching] == [grade], findings_in(folder)
    assert tree(tmp_path) == before


@pytest.mark.parametrize("data", [b"", b" \n", b"[", b"17"])
async def test_a_broken_file_is_not_called_an_edit(tmp_path: Path, data: bytes) -> None:
    folder = await folder_of(tmp_path)
    (folder / SHORT_TERM).write_bytes(data)
    assert not any("changed by hand" in finding.what for finding in findings_in(folder))


async def test_a_compaction_while_it_is_examined_is_no_edit_by_hand(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = await folder_of(tmp_path)
    store = open_store(tmp_path)
    await store.read("chat")
    state, position = ConversationFiles(folder, "chat").load()
    files = ConversationFiles(folder, "chat")
    contents_of = Snapshots.contents
    pending = [1]

    def compacting(snapshots: Snapshots) -> dict[str, bytes | None]:
        data = contents_of(snapshots)
        if pending:
            pending.pop()
            files.compact(state, position)
        return data

    monkeypatch.setattr(Snapshots, "contents", compacting)
    assert [finding.grade for finding in findings_in(folder)] == ["ok"]


async def test_a_copy_of_a_conversation_is_told_from_it(tmp_path: Path) -> None:
    folder = await folder_of(tmp_path)
    shutil.copytree(folder, tmp_path / "copy")
    (warning, *_) = findings_in(tmp_path / "copy")
    assert warning.grade == "warning"
    assert warning.about == "chat"
    assert "move the copy away" in warning.what


async def test_a_folder_that_cannot_be_found_by_its_id_is_an_error(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    await commit(store, Added(memory("a")), chat="小明")
    folder = store.folder("小明")
    renamed = folder.rename(tmp_path / "renamed")
    (finding,) = [finding for finding in findings_in(renamed) if finding.grade != "ok"]
    assert finding.grade == "error"
    assert finding.about == "小明"
    assert f"is looked for in {folder.name}: rename it to that." in finding.what
    renamed.rename(folder)
    (folder / ".memory-server" / "conversation.json").unlink()
    (finding,) = [finding for finding in findings_in(folder) if finding.grade != "ok"]
    assert finding.grade == "error"
    assert "is missing, so that the conversation cannot be found" in finding.what
    await commit(store, Added(memory("b", chat="小明")), chat="小明")
    await store.compact("小明")
    (folder / ".memory-server" / "conversation.json").unlink()
    (finding,) = [finding for finding in findings_in(folder) if finding.grade != "ok"]
    assert finding.grade == "warning"
    assert finding.about == "小明"
    assert (
        "does not name the conversation; it is the conversation 小明; the next use repairs it"
        in finding.what
    )


async def test_a_held_lock_is_told(tmp_path: Path) -> None:
    folder = await folder_of(tmp_path)
    lock = try_lock(private(tmp_path, "lock"))
    assert lock is not None
    try:
        assert any(
            "being written just now by another process" in finding.what
            for finding in findings_in(folder)
        )
    finally:
        lock.release()
    assert [finding.grade for finding in findings_in(folder)] == ["ok"]


async def test_a_disk_whose_locks_keep_nobody_out_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = await folder_of(tmp_path)
    monkeypatch.setattr("memory_server.kernel.files.try_lock_file", lambda _: True)
    (finding,) = [finding for finding in findings_in(folder) if finding.grade != "ok"]
    assert finding.grade == "error"
    assert "locks do not work on this disk" in finding.what


async def test_a_disk_without_locks_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = await folder_of(tmp_path)

    def refused(_: int) -> bool:
        raise OSError(errno.ENOSYS, "Function not implemented")

    monkeypatch.setattr("memory_server.kernel.files.try_lock_file", refused)
    (finding,) = [finding for finding in findings_in(folder) if finding.grade != "ok"]
    assert finding.grade == "error"
    assert "locks do not work on this disk" in finding.what
    store = open_store(tmp_path)
    with pytest.raises(StorageUnwritable, match="locks do not work on this disk"):
        await commit(store, Added(memory("e")))
    assert [*(await store.read("chat")).short_term] == ["a", "b", "c", "d"]


def test_the_folder_the_disk_and_the_clock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def grades(data_dir: Path, now_ms: int = NOW) -> dict[str, str]:
        return {
            finding.about: finding.grade
            for finding in open_home(data_dir, lambda: now_ms).examine()
        }

    assert grades(tmp_path / "none") == {"folder": "note", "disk": "ok", "clock": "ok"}
    assert not (tmp_path / "none").exists()
    (tmp_path / "file").touch()
    assert grades(tmp_path / "file") == {"folder": "error"}
    data = tmp_path / "data"
    (data / "chat" / ".memory-server").mkdir(parents=True)
    data.chmod(0o700)
    assert grades(data) == {"folder": "ok", "disk": "ok", "clock": "ok", "backups": "note"}
    data.chmod(0o755)
    assert grades(data)["folder"] == "warning"
    private(data, "journal.jsonl").touch()
    os.utime(private(data, "journal.jsonl"), (NOW / 1000 + 3600, NOW / 1000 + 3600))
    assert grades(data)["clock"] == "warning"
    (data / ".memory-server" / "backups").mkdir(parents=True)
    (data / ".memory-server" / "backups" / "one.backup.gz").write_bytes(b"?")
    assert grades(data)["backups"] == "warning"
    (data / ".memory-server" / "backups" / ".ab.body").touch()
    assert any("unfinished" in finding.what for finding in examine_folder(data, NOW))
    for free, grade in ((10, "error"), (100 * 1024**2, "warning")):
        monkeypatch.setattr(
            examination.shutil, "disk_usage", lambda _path, free=free: SimpleNamespace(free=free)
        )
        assert grades(data)["disk"] == grade


def test_a_folder_that_may_not_be_read_is_a_finding(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*arguments: object) -> object:
        raise PermissionError(errno.EACCES, "Permission denied", str(tmp_path / "lost+found"))

    monkeypatch.setattr(examination, "examine", refused)
    (finding,) = examine_conversation(tmp_path, tmp_path / "lost+found", NOW)
    assert finding.grade == "error"
    assert finding.about == "lost+found"
    assert "Permission denied" in finding.what


def test_the_command_says_it_in_lines_or_json_and_by_its_status(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEMORY_SERVER_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setenv("HOME", str(tmp_path))
    assert main(["doctor"]) == 0
    lines = capfd.readouterr().out.splitlines()
    assert [line.split()[1] for line in lines[:-1]] == [
        "versions",
        "folder",
        "disk",
        "clock",
        "recalls",
        "secrets",
        "triggers",
    ]
    assert lines[-1].startswith("0 errors, ")
    broken = tmp_path / "data" / "chat"
    broken.mkdir(parents=True)
    (broken / SHORT_TERM).write_bytes(b"[{]")
    assert main(["doctor", "--json"]) == 1
    answer = json.loads(capfd.readouterr().out)
    assert answer["ok"] is False
    (error,) = [finding for finding in answer["findings"] if finding["grade"] == "error"]
    assert error["about"] == "chat"
    assert "the next use repairs it, or `memory-server doctor --repair`" in error["what"]


async def test_a_commit_of_the_future_is_told(tmp_path: Path) -> None:
    folder = await folder_of(tmp_path)
    early = list(examine(tmp_path, folder, NOW - 3 * DAY))
    assert sum("in the future; check the clock" in finding.what for finding in early) == 2


@pytest.mark.parametrize("cut", [-1, -40, 30])
async def test_a_backup_that_was_cut_short_is_found_before_it_is_needed(
    tmp_path: Path, cut: int
) -> None:
    await folder_of(tmp_path)
    async with open_memory(tmp_path) as app:
        await app.memories.backups.make("one")
        await app.memories.backups.make("two")
    assert [
        finding.grade for finding in examine_folder(tmp_path, NOW) if finding.about == "backups"
    ] == ["ok"]
    path = tmp_path / folders.PRIVATE / "backups" / f"two{ENDING}"
    path.write_bytes(path.read_bytes()[:cut])
    [warning] = [finding for finding in examine_folder(tmp_path, NOW) if finding.about == "backups"]
    assert warning.grade == "warning"
    assert warning.what.startswith("The backup two cannot be used: ")
    assert warning.what.endswith("; delete it.")
    assert warning.what.count(".") == 1
