"""After an erase no byte of the text is in the folder or in the backups, and nothing brings it back, wherever the
process was killed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from crash import erasing
from postgres_entries import url_of_its_own

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="each step is forked")


def faults(folder: Path, first_seed: int, count: int, *url: str) -> str:
    """What runs with these seeds say is wrong."""
    folder.mkdir()
    environment = os.environ | {"PYTHONPATH": str(Path(erasing.__file__).parents[1])}
    arguments = [sys.executable, erasing.__file__, str(folder), str(first_seed), str(count), *url]
    process = subprocess.run(
        arguments, capture_output=True, text=True, timeout=60 + 60 * count, env=environment
    )
    if process.returncode or process.stdout:
        return process.stdout + process.stderr
    return ""


def test_what_was_erased_is_nowhere_and_does_not_come_back(tmp_path: Path) -> None:
    assert faults(tmp_path / "runs", first_seed=0, count=2) == ""


@pytest.mark.full
def test_what_was_erased_is_nowhere_in_500_runs(tmp_path: Path) -> None:
    for first_seed in (2, *range(100, 600, 20)):
        assert faults(tmp_path / str(first_seed), first_seed, 20) == "", first_seed


@pytest.mark.full
def test_what_was_erased_is_in_no_table_of_the_database(tmp_path: Path) -> None:
    with url_of_its_own() as url:
        assert faults(tmp_path / "runs", 0, 1, url) == ""


@pytest.mark.full
def test_what_was_erased_is_in_no_table_in_200_runs(tmp_path: Path) -> None:
    for seed in (1, *range(100, 300)):
        with url_of_its_own() as url:
            assert faults(tmp_path / str(seed), seed, 1, url) == "", seed
