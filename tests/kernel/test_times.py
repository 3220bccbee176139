"""Which names are time zones."""

from __future__ import annotations

from zoneinfo import available_timezones

import pytest

from memory_server.kernel.times import is_zone


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
