"""The board: shared memory in which realm/board.js writes what happened, as plain numbers and text. Pure.

Layout: 64 bytes of header (int32: trigger that runs, note characters used, whether only jobs run that belong to no
trigger), one byte per trigger (verdict), one double per trigger (when it ended, ms), then the notes: JSON lines
in UTF-16. realm/board.js changes with this file.
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from sandbox.values import frozen

QUIET = 1
FIRED = 2
FAILED = 3
HEADER_BYTES = 64
_HEADER = struct.Struct("=iii")
_END_BYTES = 8
"""Bytes of the time at which a trigger ended, a double; the times begin at a multiple of them."""
_UNIT_BYTES = 2
"""Bytes of a UTF-16 unit."""
_TICK_US = 1_000
"""Microseconds of the clock of the board, which counts milliseconds."""
NOTE_UNITS_PER_TRIGGER = 420
"""Characters kept free for the failure of each trigger: 300 of message, JSON around it. realm/board.js knows it."""
NOTE_UNITS_BASE = 8_192
NOTE_UNITS_CONSOLE = 131_072
"""Room for 200 console lines of 300 characters, escaped."""
NOTE_UNITS_TRACED = 400_000
"""Room for the 250 values and 20 calls of a traced run."""


def note_units(triggers: int, *, console: bool, traced: bool = False) -> int:
    """Return the UTF-16 units that the notes of so many triggers may have. `console`: console lines are kept;
    `traced`: the trigger is a traced copy."""
    units = NOTE_UNITS_BASE + triggers * NOTE_UNITS_PER_TRIGGER
    if console:
        units += NOTE_UNITS_CONSOLE
    if traced:
        units += NOTE_UNITS_TRACED
    return units


@frozen
class BoardState:
    """A copy of the board from the trigger `first` on. `index`: the trigger that runs, the count when all have ended.
    `noted`: characters of notes read so far."""

    first: int
    index: int
    verdicts: bytes
    ends_ms: Sequence[float]
    notes: tuple[dict[str, Any], ...]
    noted: int


class RunState(NamedTuple):
    """What runs in V8. `trigger`: its index. `only_jobs_run`: only jobs run that earlier triggers may have left."""

    trigger: int
    only_jobs_run: bool


def state(memory: memoryview) -> RunState:
    """Return what runs at the moment."""
    trigger, _note_units, jobs = _HEADER.unpack_from(memory)
    return RunState(trigger, only_jobs_run=jobs != 0)


def read(memory: memoryview, count: int, first: int = 0, noted: int = 0) -> BoardState:
    """Copy the verdicts from `first` on and the notes after `noted`; the memory is freed when the
    isolate is closed."""
    index, note_units, _jobs = _HEADER.unpack_from(memory)
    note_units = max(noted, note_units)
    verdict_bytes = math.ceil(count / _END_BYTES) * _END_BYTES
    ends_offset = HEADER_BYTES + verdict_bytes
    notes_offset = ends_offset + count * _END_BYTES
    new_notes = memory[notes_offset + noted * _UNIT_BYTES : notes_offset + note_units * _UNIT_BYTES]
    return BoardState(
        first=first,
        index=max(first, min(index, count)),
        verdicts=bytes(memory[HEADER_BYTES + first : HEADER_BYTES + count]),
        ends_ms=struct.unpack_from(f"={count - first}d", memory, ends_offset + first * _END_BYTES),
        notes=tuple(_notes(bytes(new_notes).decode("utf-16-le", "replace"))),
        noted=note_units,
    )


def _notes(text: str) -> Iterator[dict[str, Any]]:
    """Yield the notes of a text, one from each line."""
    for line in text.split("\n"):
        try:
            value = json.loads(line)
        except ValueError:
            continue  # the last line of an isolate that was stopped while it wrote
        if isinstance(value, dict):
            yield value


def elapsed_us(ends_ms: Sequence[float], start_ms: float, total_us: int) -> list[int]:
    """Return microseconds per trigger, from end times that are known to 1 ms only. A trigger that crossed a
    millisecond has its difference; the others share what remains of the total evenly. At least 1 each, and together
    the total, as far as that can be."""
    starts_ms = [start_ms, *ends_ms]
    spans_us = [
        max(0, int(end - start)) * _TICK_US for start, end in zip(starts_ms, ends_ms, strict=False)
    ]
    counted_us = sum(spans_us)
    if counted_us >= total_us > 0:  # the first began late in its millisecond
        return [max(1, span * total_us // counted_us) for span in spans_us]
    short_count = spans_us.count(0)
    if not short_count:
        return spans_us
    share_us = max(1, (total_us - counted_us) // short_count)
    return [span or share_us for span in spans_us]
