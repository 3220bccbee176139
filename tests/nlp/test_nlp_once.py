"""Once: one making, whoever asks."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest

from nlp import keywords
from nlp.once import Once

_RACERS = 8


def _race(act: Callable[[], object]) -> list[object]:
    """Call `act` from several threads that start together; return what each was given."""
    start = threading.Barrier(_RACERS)

    def call() -> object:
        start.wait(timeout=10)
        return act()

    with ThreadPoolExecutor(_RACERS) as pool:
        futures = [pool.submit(call) for _ in range(_RACERS)]
        return [future.result(timeout=10) for future in futures]


class _Making:
    """A `make` that waits a moment for a second thread to enter it, and counts its calls."""

    def __init__(self) -> None:
        self.calls = 0
        self._company = threading.Barrier(2)

    def __call__(self) -> object:
        self.calls += 1
        with suppress(
            threading.BrokenBarrierError
        ):  # broken when nobody else came in, as it should be
            self._company.wait(timeout=0.1)
        return object()


def test_racing_threads_make_it_once_and_share_it() -> None:
    make = _Making()
    results = _race(Once(make))
    assert make.calls == 1
    assert len({id(result) for result in results}) == 1


def test_racing_loads_read_each_table_once(monkeypatch: pytest.MonkeyPatch) -> None:
    make_engine = _Making()
    make_idf = _Making()
    monkeypatch.setattr(keywords, "engine", Once(make_engine))
    monkeypatch.setattr(keywords, "idf_table", Once(make_idf))
    _race(keywords.load)
    keywords.load()
    assert (make_engine.calls, make_idf.calls) == (1, 1)


def test_a_failed_making_is_tried_again() -> None:
    attempts: list[int] = []

    def make() -> str:
        attempts.append(1)
        if len(attempts) == 1:
            raise OSError("not yet")
        return "made"

    once = Once(make)
    with pytest.raises(OSError, match="not yet"):
        once()
    assert (once(), once(), len(attempts)) == ("made", "made", 2)


def test_none_is_a_value_like_any_other() -> None:
    calls: list[None] = []
    once = Once(lambda: calls.append(None))
    once()
    once()
    assert len(calls) == 1
