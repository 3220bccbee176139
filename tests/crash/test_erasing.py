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


def wrong(folder: Path, seed: int, *url: str) -> str:
    folder.mkdir()
    environment = os.environ | {"PYTHONPATH": str(Path(erasing.__file__).parents[1])}
    arguments = [sys.executable, erasing.__file__, str(folder), str(seed), *url]
    done = subprocess.run(arguments, capture_output=True, text=True, timeout=300, env=environment)
    return done.stdout + (done.stderr if done.returncode or done.stdout else "")


@pytest.mark.parametrize("seed", range(4))
def test_what_was_erased_is_nowhere_and_does_not_come_back(tmp_path: Path, seed: int) -> None:
    assert wrong(tmp_path / "run", seed) == ""


@pytest.mark.full
def test_what_was_erased_is_nowhere_in_500_runs(tmp_path: Path) -> None:
    failed = {seed: said for seed in range(100, 600) if (said := wrong(tmp_path / str(seed), seed))}
    assert failed == {}


@pytest.mark.parametrize("seed", range(2))
def test_what_was_erased_is_in_no_table_of_the_database(tmp_path: Path, seed: int) -> None:
    with url_of_its_own() as url:
        assert wrong(tmp_path / "run", seed, url) == ""


@pytest.mark.full
def test_what_was_erased_is_in_no_table_in_200_runs(tmp_path: Path) -> None:
    for seed in range(100, 300):
        with url_of_its_own() as url:
            assert wrong(tmp_path / str(seed), seed, url) == "", seed
