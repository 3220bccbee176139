"""An answer reads the archive each time: it reads the past once, and parses only what can change the archive."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from memory_server.config import Settings
from memory_server.lore.memory import LongTermMemory
from memory_server.runtime.app import App
from memory_server.storage.json_store.history_files import Past
from memory_server.storage.partition import journal

pytestmark = pytest.mark.anyio


@pytest.fixture
def read_files(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the files that are read backwards."""
    names: list[str] = []
    read_backwards = journal._backwards

    def noted(path: Path) -> Iterator[bytes]:
        names.append(path.name)
        return read_backwards(path)

    monkeypatch.setattr(journal, "_backwards", noted)
    return names


@pytest.fixture
def parsed_lines(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    lines: list[bytes] = []
    parse = journal.parse_line

    def noted(line: bytes) -> Any:
        lines.append(line)
        return parse(line)

    monkeypatch.setattr(journal, "parse_line", noted)
    return lines


async def private_folder_of(tmp_path: Path, *, removes: bool) -> Path:
    async with App(Settings(data_dir=tmp_path)) as app:
        long_term = app.conversation().long_term
        for name in ("harbour", "ghost", "rain"):
            await long_term.add(name, "It rains.", "true")
        if removes:
            await long_term.delete("ghost")
            await long_term.add("lamp", "It is lit.", "true")
    return tmp_path / "default" / ".memory-server"


async def test_without_a_removal_nothing_is_parsed_and_each_file_is_read_once(
    tmp_path: Path, read_files: list[str], parsed_lines: list[bytes]
) -> None:
    past = Past(await private_folder_of(tmp_path, removes=False))
    read_files.clear()
    parsed_lines.clear()
    assert past.archived() == ()
    assert sorted(read_files) == ["history.jsonl", "journal.jsonl"]
    assert parsed_lines == []


async def test_what_is_older_than_every_removal_is_not_parsed(
    tmp_path: Path, read_files: list[str], parsed_lines: list[bytes]
) -> None:
    past = Past(await private_folder_of(tmp_path, removes=True))
    read_files.clear()
    parsed_lines.clear()
    [archived] = past.archived()
    assert isinstance(archived.memory, LongTermMemory)
    assert archived.memory.name == "ghost"
    assert sorted(read_files) == ["history.jsonl", "journal.jsonl"]
    assert [line for line in parsed_lines if b"harbour" in line] == []
    assert len(parsed_lines) == 2
