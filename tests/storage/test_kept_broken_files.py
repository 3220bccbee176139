"""When a repair kept a broken file: its name says it, or else its time of change."""

from __future__ import annotations

import os
from pathlib import Path

from memory_server.kernel import times
from memory_server.storage.json_store.history_files import BROKEN, broken_files


def test_the_time_of_a_kept_file_is_that_of_its_name(tmp_path: Path) -> None:
    folder = tmp_path / BROKEN
    folder.mkdir()
    (folder / "20260203-040506-short_term.json").write_text("")
    (folder / "by-hand.json").write_text("")
    os.utime(folder / "by-hand.json", ns=(0, 1_500_000_000_123_456_789))
    kept_files = {path.name: times.iso(time_ms) for path, time_ms in broken_files(tmp_path)}
    assert kept_files == {
        "by-hand.json": "2017-07-14T02:40:00.123Z",
        "20260203-040506-short_term.json": "2026-02-03T04:05:06.000Z",
    }
    assert list(kept_files) == ["by-hand.json", "20260203-040506-short_term.json"]


def test_the_name_of_a_next_file_is_no_kept_file(tmp_path: Path) -> None:
    assert list(broken_files(tmp_path)) == []
