"""Which names are time zones, and the order of what was made under clocks that were wrong."""

from __future__ import annotations

from typing import NamedTuple
from zoneinfo import available_timezones

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_server.kernel.times import is_zone, merged


def test_every_zone_of_the_system_is_a_zone() -> None:
    assert all(is_zone(name) for name in available_timezones())


@pytest.mark.parametrize(
    "name",
    [
        "",
        "Mars/Base",
        "Asia",
        "../etc/passwd",
        "/etc/localtime",
        "right/UTC",
        "posixrules",
        "a\0b",
        "x" * 5_000,
    ],
)
def test_other_names_are_not_zones(name: str) -> None:
    assert not is_zone(name)


class Made(NamedTuple):
    at_ms: int
    number: int


@given(st.lists(st.lists(st.integers(0, 40), max_size=8), max_size=4), st.integers(0, 40))
def test_merging_keeps_the_order_of_each_sequence_whatever_its_clock_said(
    times: list[list[int]], now: int
) -> None:
    hour = 3_600_000
    sequences = [
        [Made(at * hour, 10 * number + place) for place, at in enumerate(at_hours)]
        for number, at_hours in enumerate(times)
    ]
    merged_ones = merged(sequences, now * hour)
    for number, sequence in enumerate(sequences):
        assert [made for made in merged_ones if made.number // 10 == number] == sequence
    assert len(merged_ones) == sum(map(len, sequences))


@given(st.lists(st.lists(st.integers(0, 40), max_size=8).map(sorted), max_size=4))
def test_what_clocks_that_were_right_have_made_is_merged_by_time(times: list[list[int]]) -> None:
    sequences = [[Made(at, 0) for at in sequence] for sequence in times]
    assert merged(sequences, 40) == sorted(made for sequence in sequences for made in sequence)


def test_what_begins_a_sequence_with_a_wrong_time_stands_before_what_follows_it() -> None:
    hour = 3_600_000
    ahead = [Made(90 * hour, 1), Made(91 * hour, 2), Made(8 * hour, 3)]
    other = [Made(2 * hour, 4), Made(9 * hour, 5)]
    assert [made.number for made in merged([ahead, other], 10 * hour)] == [4, 1, 2, 3, 5]
