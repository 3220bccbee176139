"""A long line of a journal is read in steps, with the same result as at once."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_server.kernel import json_text
from memory_server.kernel.json_text import loads_of_long_object, strict_loads
from memory_server.storage.partition import journal

INTEGERS = st.integers(-(2**63), 2**64 - 1)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]))
SCALARS = (
    st.none() | st.booleans() | INTEGERS | st.floats(allow_nan=False, allow_infinity=False) | TEXTS
)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner) | st.dictionaries(TEXTS, inner), max_leaves=20
)


@given(st.dictionaries(TEXTS, VALUES))
def test_what_orjson_wrote_is_read_as_at_once(fields: dict[str, Any]) -> None:
    written = orjson.dumps(fields)
    assert loads_of_long_object(written) == strict_loads(written) == fields


@given(st.dictionaries(TEXTS, VALUES), st.data())
def test_a_text_that_was_cut_is_refused_as_at_once(
    fields: dict[str, Any], data: st.DataObject
) -> None:
    written = orjson.dumps(fields)
    with pytest.raises(ValueError):
        loads_of_long_object(written[: data.draw(st.integers(0, len(written) - 1))])


@pytest.mark.parametrize("text", [b"[]", b"7", b' {"a": [1, 2]}', b'{"a":[]}', b"{}", b'{"a":[1]}'])
def test_other_texts_are_read_too(text: bytes) -> None:
    assert loads_of_long_object(text) == strict_loads(text)


def test_a_long_line_of_a_journal_is_not_read_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    changes = [{"type": "added", "text": f"{number} " * 60} for number in range(8_000)]
    fields = {"v": 1, "seq": 1, "changes": changes}
    line = journal.frame(fields).removesuffix(b"\n")
    assert len(line) > 2_000_000
    monkeypatch.setattr(json_text, "strict_loads", None)
    assert journal.parse_line(line) == fields
    with pytest.raises(TypeError):
        journal.parse_line(journal.frame({"v": 1, "seq": 2, "changes": []}).removesuffix(b"\n"))
