"""Data folders that older commits of version 0.1.0 wrote: what is in them is found, undone, restored, exported and
indexed anew. `folders_of_0_1_0/make.py` made them."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cli.folders_of_0_1_0.make import DEPLOY, HANNA, PLUMBER, POOLS, unpacked

from memory_server.cli.parser import main

FOLDERS = Path(__file__).with_name("folders_of_0_1_0")
TEXTS = (
    HANNA,
    DEPLOY,
    PLUMBER,
    "The boat is called Marlin.",
    "我家猫叫煤球，今年三岁，最怕打雷。",
    "Hanna is allergic to hazelnuts. Warn.",
    "小明对芒果过敏，提醒他。",
    POOLS,
    "Likes green tea.",
    "A long report about the harbour.",
)
"""What a folder holds: memories of three conversations, two triggers, a note, a fact and a ref."""
Command = Callable[[str], str]


@pytest.fixture(params=sorted(file.name for file in FOLDERS.glob("*.json")))
def packed(request: pytest.FixtureRequest) -> Any:
    return json.loads((FOLDERS / request.param).read_text("utf-8"))


@pytest.fixture
def older(packed: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder as the older version left it, with a project that has a layer."""
    for name, content in packed["files"].items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        path.write_bytes(unpacked(content))
        path.chmod(0o600)
    for folder in (tmp_path / "data").rglob("*"):
        if folder.is_dir():
            folder.chmod(0o700)
    (tmp_path / "data").chmod(0o700)
    (tmp_path / "project" / ".git").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("TZ", "UTC")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("MEMORY_SERVER_LAYERS__PROJECT_DIR", str(tmp_path / "project"))
    monkeypatch.setattr("memory_server.process.logs.log_to_stderr", lambda level, serves: None)
    return tmp_path / "data"


@pytest.fixture
def run(older: Path, capfd: pytest.CaptureFixture[str]) -> Command:
    """Run a command on the older folder, on the day after the newer of the two; its output."""
    return _on(older, capfd)


def _on(data: Path, capfd: pytest.CaptureFixture[str]) -> Command:
    def run(command: str) -> str:
        status = main(
            ["--data-dir", str(data), "--now", "2026-11-27T09:00+00:00", *shlex.split(command)]
        )
        out, err = capfd.readouterr()
        assert status in (None, 0), out + err
        return out

    return run


def test_everything_is_listed(run: Command) -> None:
    words = run("list").split()
    for row in (
        "default 3 1",
        "work/2026 1 0",
        "小明 1 1",
        "layers/project 1",
        "refs/short-term 1",
        "sessions/ana 1",
    ):
        assert row in " ".join(words)
    assert "Alice likes tulips." in run("list --tenant alice -c default")


def test_memories_and_triggers_come(run: Command) -> None:
    assert HANNA in run("recall --session friday 'What is Hanna allergic to?'")
    assert "煤球" in run("recall -c 小明 --session 周五 '我家猫叫什么名字？'")
    assert "Warn." in run("recall --session friday 'Shall I buy nougat?'")
    assert "提醒他" in run("recall -c 小明 --session 周五 '下午茶点了芒果布丁'")
    assert "transaction mode" in run("search pools")
    assert "The tests need a clock." in run("knowledge list")


def test_an_examination_asks_the_same_again(run: Command) -> None:
    run("recall --session friday 'What is Hanna allergic to?'")
    run("recall -c 小明 --session 周五 '我家猫叫什么名字？'")
    assert "Memories lost: 0, gained: 0." in run("examine")
    run("doctor --reindex")
    assert "Memories lost: 0, gained: 0." in run("examine")


def test_the_doctor_finds_no_error_and_says_what_to_index_anew(run: Command) -> None:
    assert "0 errors" in run("doctor")
    run("doctor --reindex")
    run("knowledge reindex")
    findings = run("doctor")
    assert "reindex" not in findings
    assert "0 errors" in findings
    assert HANNA in run("recall --session friday 'What is Hanna allergic to?'")


def test_the_past_is_there_and_can_be_taken_back(run: Command) -> None:
    history = run("history")
    deletion = next(line for line in history.splitlines() if "delete_short_term_memories" in line)
    run(f"undo {deletion.split()[0]} --yes")
    assert "The code of the door is 4711." in run("list -c default")


def test_a_backup_of_then_can_be_restored(run: Command) -> None:
    run("forget Hanna hazelnuts --yes")
    assert HANNA not in run("list -c default")
    run("backup restore 20261104-110000 --overwrite")
    memories = run("list -c default")
    assert HANNA in memories


def test_the_export_is_imported_equal(
    run: Command, older: Path, packed: Any, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """The export of this version, and that which the older version wrote itself."""
    run(f"export {tmp_path / 'new.jsonl'}")
    new = _lines(tmp_path / "new.jsonl")
    assert not [text for text in TEXTS if text not in "\n".join(new)]
    _on(tmp_path / "again", capfd)(f"import {tmp_path / 'new.jsonl'}")
    _on(tmp_path / "again", capfd)(f"export {tmp_path / 'again.jsonl'}")
    assert sorted(_lines(tmp_path / "again.jsonl")) == sorted(new)
    (tmp_path / "old.jsonl").write_text(packed["export"], "utf-8")
    _on(tmp_path / "from_old", capfd)(f"import {tmp_path / 'old.jsonl'}")
    _on(tmp_path / "from_old", capfd)(f"export {tmp_path / 'from_old.jsonl'}")
    conversations = [line for line in new if '"short"' in line or '"long"' in line]
    from_old = [
        line
        for line in _lines(tmp_path / "from_old.jsonl")
        if '"short"' in line or '"long"' in line
    ]
    assert sorted(from_old) == sorted(conversations)


def _lines(file: Path) -> list[str]:
    """The lines of an export but the first, which has its time."""
    return file.read_text("utf-8").splitlines()[1:]
