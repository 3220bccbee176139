"""What all tests share: async tests run on asyncio, and hypothesis has no deadline (the machines are shared)."""

from __future__ import annotations

import hypothesis
import pytest

hypothesis.settings.register_profile("short", deadline=None, max_examples=60, derandomize=True)
hypothesis.settings.register_profile("full", deadline=None, max_examples=1000)
hypothesis.settings.load_profile("short")


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"
