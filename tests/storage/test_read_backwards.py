"""The history is read from its end: whatever the size of the blocks, the lines are those of the file, newest first."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_server.storage.partition import journal

LINE = st.binary(min_size=1, max_size=12).map(lambda line: line.replace(b"\n", b" "))


@given(
    st.lists(LINE, max_size=8),
    st.binary(max_size=9).map(lambda rest: rest.replace(b"\n", b"")),
    st.integers(1, 20),
)
def test_the_lines_are_those_of_the_file(
    lines: list[bytes], unfinished: bytes, block_bytes: int
) -> None:
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(journal, "_BLOCK_BYTES", block_bytes)
        path = Path(folder, "history.jsonl")
        path.write_bytes(b"".join(line + b"\n" for line in lines) + unfinished)
        assert list(journal.lines_of([path])) == lines[::-1]


def test_a_file_that_is_missing_has_no_lines(tmp_path: Path) -> None:
    assert list(journal.lines_of([tmp_path / "missing.jsonl"])) == []
    assert journal.newest_version(tmp_path / "missing.jsonl") == 0
