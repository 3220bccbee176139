"""The board is read as it is, whatever V8 was doing to it when it was stopped."""

from __future__ import annotations

import json
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox.worker import board


def memory(count: int, index: int, notes: str, verdicts: bytes = b"") -> memoryview:
    text = notes.encode("utf-16-le", "surrogatepass")
    ends_at = board.HEADER_BYTES + (count + 7) // 8 * 8
    content = bytearray(ends_at + count * 8 + len(text))
    struct.pack_into("=iii", content, 0, index, len(text) // 2, 0)
    content[board.HEADER_BYTES : board.HEADER_BYTES + len(verdicts)] = verdicts
    content[ends_at + count * 8 :] = text
    return memoryview(content)


def test_what_was_written_is_read() -> None:
    note = {"i": 1, "k": "thrown", "m": "生日\u2028🎂"}
    shot = board.read(
        memory(3, 2, json.dumps(note, ensure_ascii=False) + "\n", bytes([2, 3, 0])), 3
    )
    assert (shot.index, shot.verdicts, shot.notes) == (2, bytes([2, 3, 0]), (note,))


def test_a_note_that_was_cut_off_is_left_out() -> None:
    shot = board.read(memory(1, 0, '{"i":0,"k":"thrown"}\n{"i":0,"m":"ab'), 1)
    assert shot.notes == ({"i": 0, "k": "thrown"},)


def test_what_was_read_is_not_read_again() -> None:
    first = '{"i":0,"k":"thrown"}\n'
    second = '{"i":2,"k":"thrown"}\n'
    before = board.read(memory(4, 1, first, bytes([3, 0, 0, 0])), 4)
    after = board.read(
        memory(4, 3, first + second, bytes([3, 1, 3, 0])), 4, before.index, before.noted
    )
    assert (after.first, after.index, after.verdicts) == (1, 3, bytes([1, 3, 0]))
    assert after.notes == ({"i": 2, "k": "thrown"},)
    assert len(after.ends_ms) == 3


@given(st.integers(0, 20), st.binary(max_size=600))
def test_any_bytes_are_a_board(count: int, junk: bytes) -> None:
    size = board.HEADER_BYTES + (count + 7) // 8 * 8 + count * 8
    shot = board.read(memoryview(junk.ljust(size, b"\0")), count)
    assert 0 <= shot.index <= count
    assert len(shot.verdicts) == len(shot.ends_ms) == count


@pytest.mark.parametrize(
    ("ends", "total", "spans"),
    [
        ([], 500, []),
        ([0.0], 500, [500]),
        ([1.0], 500, [500]),
        ([0.0, 0.0], 500, [250, 250]),
        ([0.0, 10.0, 10.0], 10_400, [200, 10_000, 200]),
        ([1.0, 2.0], 1_500, [750, 750]),
        ([0.0, 3.0], 2_000, [1, 2_000]),
        ([5.0, 1.0], 7_000, [5_000, 2_000]),
    ],
)
def test_elapsed_times(ends: list[float], total: int, spans: list[int]) -> None:
    assert board.elapsed_us(ends, 0.0, total) == spans


@given(st.lists(st.integers(0, 5), max_size=30), st.integers(1, 10**6))
def test_elapsed_times_add_up_to_the_total(steps: list[int], total: int) -> None:
    ends = [float(sum(steps[: index + 1])) for index in range(len(steps))]
    spans = board.elapsed_us(ends, 0.0, total)
    assert all(span >= 1 for span in spans)
    assert sum(spans) <= max(total, 1000 * sum(steps)) + len(spans)
