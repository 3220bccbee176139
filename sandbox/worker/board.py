"""The board: shared memory in which realm/board.js writes what happened, as plain numbers and text. Pure.

Layout: 64 bytes of header (int32: trigger that runs, note characters used, whether only jobs run that belong to no
trigger), one byte per trigger (verdict), one double per trigger (when it ended, ms), then the notes: JSON lines
in UTF-16. realm/board.js changes with this file.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

QUIET, FIRED, FAILED = 1, 2, 3
HEADER_BYTES = 64
_HEADER = struct.Struct("=iii")
NOTE_UNITS_PER_TRIGGER = 420
"""Characters kept free for the failure of each trigger: 300 of message, JSON around it. realm/board.js knows it."""
NOTE_UNITS_BASE = 8_192
NOTE_UNITS_CONSOLE = 131_072
"""Room for 200 console lines of 300 characters, escaped."""
NOTE_UNITS_TRACED = 400_000
"""Room for the 250 values and 20 calls of one traced run."""


def note_units(triggers: int, *, console: bool, traced: bool = False) -> int:
    return (
        NOTE_UNITS_BASE + triggers * NOTE_UNITS_PER_TRIGGER + console * NOTE_UNITS_CONSOLE + traced * NOTE_UNITS_TRACED
    )


@dataclass(frozen=True, slots=True)
class BoardState:
    """A copy of the board from the trigger `first` on. `index`: the trigger that runs, the count when all have ended.
    `noted`: characters of notes read so far."""

    first: int
    index: int
    verdicts: bytes
    ends_ms: Sequence[float]
    notes: tuple[dict[str, Any], ...]
    noted: int


def state(memory: memoryview) -> tuple[int, bool]:
    """The index of the trigger that runs, and whether V8 runs only jobs that earlier triggers may have left."""
    index, _, jobs = _HEADER.unpack_from(memory)
    return index, jobs != 0


def read(memory: memoryview, count: int, first: int = 0, noted: int = 0) -> BoardState:
    """Copies what was not read before; the memory is freed when the isolate is closed."""
    index, used, _ = _HEADER.unpack_from(memory)
    ends_at = HEADER_BYTES + (count + 7) // 8 * 8
    notes_at = ends_at + count * 8
    used = max(noted, used)
    text = bytes(memory[notes_at + noted * 2 : notes_at + used * 2]).decode("utf-16-le", "replace")
    return BoardState(
        first=first,
        index=max(first, min(index, count)),
        verdicts=bytes(memory[HEADER_BYTES + first : HEADER_BYTES + count]),
        ends_ms=struct.unpack_from(f"={count - first}d", memory, ends_at + first * 8),
        notes=tuple(_notes(text)),
        noted=used,
    )


def _notes(text: str) -> Iterator[dict[str, Any]]:
    for line in text.split("\n"):
        try:
            value = json.loads(line)
        except ValueError:
            continue  # the last line of an isolate that was stopped while it wrote
        if isinstance(value, dict):
            yield value


def elapsed_us(ends_ms: Sequence[float], start_ms: float, total_us: int) -> list[int]:
    """Microseconds per trigger, from end times that are known to 1 ms only. A trigger that crossed a millisecond has
    its difference; the others share what remains of the total evenly. At least 1 each, and together the total, as far
    as that can be."""
    before = [start_ms, *ends_ms][:-1] if ends_ms else []
    spans = [max(0, int(end - start)) * 1000 for start, end in zip(before, ends_ms, strict=True)]
    known, short = sum(spans), spans.count(0)
    if known >= total_us > 0:  # the first began late in its millisecond
        return [max(1, span * total_us // known) for span in spans]
    share = max(1, (total_us - known) // short) if short else 0
    return [span or share for span in spans]
