"""A clock that stands still until a test moves it."""

from __future__ import annotations

import pytest

NOW = 1_750_000_000_000


class Clock:
    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> int:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()
