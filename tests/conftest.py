"""What all tests share: async tests run on asyncio, hypothesis has no deadline (the machines are shared), and no test
leaves a log handler to the next."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import pytest

# The tests read English, whatever the reader's locale is.
os.environ["LANGUAGE"] = "en"
os.environ.pop("MEMORY_SERVER_LANGUAGE", None)

hypothesis.settings.register_profile("short", deadline=None, max_examples=60, derandomize=True)
hypothesis.settings.register_profile("full", deadline=None, max_examples=1000)
hypothesis.settings.load_profile("short")


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(autouse=True)
def log_handlers() -> Iterator[None]:
    """A command that runs in the test's process logs to the standard error of that test, which is closed after it."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A project and a home folder for this test: layers of this project and of this user stay as they are."""
    (tmp_path / "work" / ".git").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path / "work")
