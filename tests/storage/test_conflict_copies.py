"""What programs that sync leave in a home: doctor and `where` name it, and nothing of it is silent."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from memory_server.cli.parser import main
from memory_server.storage.conflict_copies import conflict_copies, is_conflict_copy

COPIES = [
    "short-term-memory.sync-conflict-20261128-101500-ABCDEFG.json",
    "journal.sync-conflict-20261128-101500-ABCDEFG.jsonl",
    "short-term-memory (Ana's conflicted copy 2026-11-28).json",
    "history (laptop's conflicted copy 2026-11-28 (1)).jsonl",
    "short-term-memory (Case Conflict).json",
    "knowledge (conflicted copy 2026-11-28 101500).sqlite3",
    "knowledge_conflict-20261128-101500.sqlite3",
    "short-term-memory (SFConflict ana@example.com 2026-11-28-10-15-00).json",
    "short-term-memory.Conflict.json",
    "short-term-memory[Conflict].json",
    "short-term-memory (1).json",
    "short-term-memory(1).json",
    "short-term-memory 2.json",
    "short-term-memory-DESKTOP-4F2K.json",
    "Copy of long-term-memory.json",
    "long-term-memory.json~",
    "knowledge-Anas-MacBook.sqlite3",
    "tokens 2.jsonl",
    "小明 (Ana's conflicted copy 2026-11-28).jsonl",
]
OTHERS = [
    "short-term-memory.json",
    "short-term-memory.json.zlib",
    "journal.jsonl",
    "knowledge.sqlite3",
    "knowledge.sqlite3-wal",
    "knowledge.sqlite3-shm",
    "knowledge-20261128-101500.sqlite3",
    "chat (1).jsonl",
    "chat 2.jsonl",
    "before-move.backup.gz",
    "000000000001.json",
    "20261128-101500-short-term-memory.json",
    "conflict.jsonl",
    "notes.txt",
]


@pytest.mark.parametrize("name", COPIES)
def test_the_name_of_a_conflict_copy_is_known(name: str) -> None:
    assert is_conflict_copy(name)


@pytest.mark.parametrize("name", OTHERS)
def test_other_names_are_not_those_of_conflict_copies(name: str) -> None:
    assert not is_conflict_copy(name)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, elsewhere: None) -> Path:
    monkeypatch.setenv("MEMORY_SERVER_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    assert main(["remember", "The shop opens at nine"]) == 0
    return tmp_path / "data"


def test_doctor_and_where_name_conflict_copies_and_import_takes_one(
    home: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert conflict_copies(home) == []
    snapshot = home / "default" / "short-term-memory.json"
    main(["undo", "--yes"])
    copy = snapshot.with_name("short-term-memory-LAPTOP.json")
    record = {"timestamp": 1_790_000_000_000, "text": "user: the blue book", "keywords": []}
    copy.write_text(json.dumps([record | {"score": 0}]), "utf-8")
    (home / "photos").mkdir()
    (home / "photos" / "journal (1).jsonl").write_text("of somebody")
    assert conflict_copies(home) == [copy]
    for command in ("doctor", "where"):
        capfd.readouterr()
        main([command])
        assert str(copy) in capfd.readouterr().out
    main(["where", "--json"])
    assert json.loads(capfd.readouterr().out)["conflictCopies"] == [str(copy)]
    assert main(["import", str(copy), "-c", "default"]) == 0
    main(["list", "-c", "default"])
    assert "the blue book" in capfd.readouterr().out


def test_an_older_file_that_was_put_back_is_said_until_its_memories_are_back(
    home: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    main(["cleanup"])
    (home / "default" / "short-term-memory.json").write_text("[]", "utf-8")
    main(["remember", "and closes at six"])
    capfd.readouterr()
    main(["doctor"])
    said = capfd.readouterr().out
    assert "1 memory went into the archive" in said
    change = said.partition("memory-server undo ")[2].partition("`")[0]
    assert main(["undo", change]) == 0
    capfd.readouterr()
    main(["doctor"])
    assert "went into the archive" not in capfd.readouterr().out
