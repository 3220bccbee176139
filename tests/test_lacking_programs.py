from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from lacking_programs import faults_of

ROOT = Path(__file__).parents[1]
SKIPS = """
import pytest
from lacking_programs import LackingPrograms

@pytest.mark.skipif(True, reason="needs Chromium: there is none on PATH")
def test_page(): ...

@pytest.mark.skipif(True, reason="rights do not bind root")
def test_rights(): ...
"""


@pytest.mark.parametrize(
    ("reason", "excused", "is_fault"),
    [
        ("Skipped: needs Chromium: there is none on PATH", [], True),
        ("Skipped: needs Chromium: there is none on PATH", ["Chromium"], False),
        ("Skipped: needs Chromium: there is none on PATH", ["Claude Code"], True),
        ("Skipped: rights do not bind root", [], False),
    ],
)
def test_a_skip_for_want_of_a_program_is_a_fault_unless_it_is_excused(
    reason: str, excused: list[str], is_fault: bool
) -> None:
    assert bool(list(faults_of([reason, reason], excused))) is is_fault


@pytest.mark.parametrize(
    ("environment", "status"),
    [
        ({}, 0),
        ({"CI": "true"}, 1),
        ({"CI": "true", "CANNOT_BE_INSTALLED": "Claude Code, Chromium"}, 0),
    ],
)
def test_in_ci_such_a_skip_fails_the_run(
    tmp_path: Path, environment: dict[str, str], status: int
) -> None:
    (tmp_path / "test_skips.py").write_text(SKIPS)
    (tmp_path / "conftest.py").write_text(
        "from lacking_programs import LackingPrograms\n"
        "def pytest_configure(config):\n"
        "    config.pluginmanager.register(LackingPrograms(config))\n"
    )
    usual = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    usual = {
        name: value for name, value in usual.items() if name not in ("CI", "CANNOT_BE_INSTALLED")
    }
    completed = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", ".", "."],
        cwd=tmp_path,
        env={**usual, **environment, "PYTHONPATH": str(ROOT / "tests")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert completed.returncode == status, completed.stdout
    assert ("needs Chromium" in completed.stdout) is bool(status)
