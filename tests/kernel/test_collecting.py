"""The collector of garbage: stopped during works that overlap, and begun once, also in the middle of one."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from memory_server.kernel.collecting import collect_from_now_on, without_collecting


@pytest.fixture(autouse=True)
def collecting_afterwards() -> Iterator[None]:
    yield
    gc.enable()
    gc.unfreeze()


def test_it_stops_for_the_longest_of_works_that_overlap() -> None:
    first = without_collecting()
    second = without_collecting()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert not gc.isenabled()
    second.__exit__(None, None, None)
    assert gc.isenabled()


def test_where_it_was_off_before_it_stays_off() -> None:
    gc.disable()
    with without_collecting():
        assert not gc.isenabled()
    assert not gc.isenabled()


def test_it_begins_after_a_work_that_goes_on() -> None:
    gc.disable()
    with without_collecting():
        collect_from_now_on()
        assert not gc.isenabled()
        assert gc.get_freeze_count() > 0
    assert gc.isenabled()


@pytest.mark.parametrize("working", [True, False])
def test_where_it_runs_nothing_is_frozen(working: bool) -> None:
    if working:
        with without_collecting():
            collect_from_now_on()
    else:
        collect_from_now_on()
    assert gc.get_freeze_count() == 0
    assert gc.isenabled()


def test_it_begins_at_once_where_nothing_goes_on() -> None:
    gc.disable()
    collect_from_now_on()
    assert gc.isenabled()
