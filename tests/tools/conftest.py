"""Apps of which each has a folder of its own, and all of a module the same trigger workers."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from memory_server import App, Settings
from memory_server.runtime.runtime import Runtime, sandbox_of
from sandbox import TriggerSandbox


@pytest.fixture(scope="module")
async def trigger_sandbox() -> AsyncIterator[TriggerSandbox]:
    """The workers start once for the tests of a module, and end with it."""
    sandbox = sandbox_of(Settings(timezone="UTC"))
    yield sandbox
    await sandbox.aclose()


@pytest.fixture
async def app(tmp_path: Path, trigger_sandbox: TriggerSandbox) -> AsyncIterator[App]:
    settings = Settings(data_dir=tmp_path / "data", timezone="UTC")
    async with App(settings, runtime=Runtime(settings, lent_sandbox=trigger_sandbox)) as opened:
        yield opened
