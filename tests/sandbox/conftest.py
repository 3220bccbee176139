"""One sandbox for the tests that only ask it questions; those that kill workers make their own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from attacks.driver import Driver

from sandbox import SandboxLimits


@pytest.fixture(scope="session")
def driver() -> Iterator[Driver]:
    driver = Driver(SandboxLimits(), workers=1)
    yield driver
    driver.close()
