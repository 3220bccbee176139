"""How many values JSON has, without reading it."""

from __future__ import annotations

import json
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_server.kernel import json_text
from memory_server.kernel.json_text import MOST_VALUES, crowded


def count(value: Any) -> int:
    """Its values, names included."""
    if isinstance(value, dict):
        return 1 + len(value) + sum(map(count, value.values()))
    if isinstance(value, list):
        return 1 + sum(map(count, value))
    return 1


_LEAVES = (
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(alphabet='a"\\,:[{\n文', max_size=8)
)
_VALUES = st.recursive(
    _LEAVES,
    lambda inner: st.lists(inner) | st.dictionaries(st.text('a"\\,{', max_size=4), inner),
    max_leaves=60,
)


@given(_VALUES, st.booleans())
def test_it_counts_as_reading_would(value: Any, is_spaced: bool) -> None:
    if is_spaced:
        text = json.dumps(value, indent=1).encode()
    else:
        text = orjson.dumps(value)
    with pytest.MonkeyPatch.context() as patch:
        for most, beyond in ((count(value) * 2 + 1, False), (count(value) // 3 - 2, True)):
            patch.setattr(json_text, "MOST_VALUES", most)
            assert json_text.crowded(text) is (beyond and len(text) > most), (most, text)


@pytest.mark.parametrize(
    ("body", "is_crowded"),
    [
        (b"[" + b"[]," * (MOST_VALUES + 1) + b"[]]", True),
        (orjson.dumps({f"n{number}": 1 for number in range(MOST_VALUES)}), True),
        (orjson.dumps(["x"] * MOST_VALUES), False),
        (orjson.dumps({"content": '[{,:"\\' * 100_000}), False),
        (
            orjson.dumps([{"role": "user", "content": "x", "timestamp": 1, "name": "y"}] * 500),
            False,
        ),
    ],
)
def test_many_values_are_seen_and_long_texts_are_let_be(body: bytes, is_crowded: bool) -> None:
    assert crowded(body) is is_crowded
