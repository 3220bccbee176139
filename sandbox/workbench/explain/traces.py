"""Reads the notes of a traced run: values of operands, and calls of match_keys with what they found. Pure.

realm/trace.js writes the notes and changes with this.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sandbox.workbench.explain.operands import Operand


@dataclass(frozen=True, slots=True)
class Value:
    """The last recorded value of an operand, as text, and how often it was evaluated.

    `is_last`: False if there were later values, which had no room in the notes.
    """

    text: str
    truth: bool
    times: int
    is_last: bool = True


@dataclass(frozen=True, slots=True)
class Tally:
    """How often an operand was evaluated and how often it was true: in a callback, or if its values had no room.

    `places`: the first messages for which it was true, as indexes in context.messages; `last`: the last one, or -1.
    """

    times: int
    trues: int
    places: tuple[int, ...]
    last: int


@dataclass(frozen=True, slots=True)
class Hit:
    """A message in which keys were found. `place`: its index in context.messages, -1 if the trigger made the message.

    `text`: only of such a message. `spans`: start and end in UTF-16 units, in order; overlapping spans are joined.
    """

    place: int
    text: str | None
    spans: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Call:
    """One call. `line`: None if the trigger called it by another name. `places`: the messages that it searched."""

    name: str
    keys: tuple[str, ...]
    scope: str
    depth: str
    result: str
    line: int | None
    places: tuple[int, ...]
    hits: tuple[Hit, ...]
    missing: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Trace:
    """By the number of the operand: `values`, or `tallies`; an operand in neither was never reached."""

    values: Mapping[int, Value]
    calls: tuple[Call, ...]
    tallies: Mapping[int, Tally]


def read_trace(notes: Sequence[Mapping[str, Any]], found: Sequence[Operand]) -> Trace:
    """`found`: the operands of the copy that made the notes."""
    values: dict[int, Value] = {}
    calls: list[Call] = []
    open_calls: list[int] = []
    tallies: dict[int, Tally] = {}
    for note in notes:
        match note:
            case {"t": "o", "o": int(number), "v": str(text), "b": truth}:
                times = values[number].times + 1 if number in values else 1
                values[number] = Value(text, bool(truth), times)
                # A call writes its note just before its value is seen.
                operand = found[number] if number < len(found) else None
                if operand and operand.calls and open_calls and calls[open_calls[-1]].name == operand.calls:
                    place = open_calls.pop()
                    calls[place] = replace(calls[place], line=operand.line)
            case {"t": "n", "n": [*rows]}:
                for number, times, trues, places, last in rows:
                    tallies[number] = Tally(times, trues, tuple(places), last)
            case {"t": "m"}:
                open_calls.append(len(calls))
                calls.append(_read_call(note))
            case _:
                pass
    for number, value in values.items():
        if number in tallies and tallies[number].times > value.times:
            values[number] = replace(value, times=tallies[number].times, is_last=False)
    return Trace(values, tuple(calls), {number: one for number, one in tallies.items() if number not in values})


def _read_call(note: Mapping[str, Any]) -> Call:
    keys = tuple(str(key) for key in note["k"])
    seen: Sequence[Sequence[Any]] = note["x"]
    found: dict[int, list[tuple[int, int]]] = {}
    matched: set[int] = set()
    for message, key, spans in note["h"]:
        matched.add(key)
        found.setdefault(message, []).extend((int(start), int(end)) for start, end in spans)
    hits = tuple(
        Hit(int(seen[message][0]), str(seen[message][1]) if len(seen[message]) > 1 else None, _joined(spans))
        for message, spans in sorted(found.items())
    )
    return Call(
        str(note["f"]),
        keys,
        str(note["s"]),
        str(note["d"]),
        str(note["r"]),
        None,
        tuple(int(one[0]) for one in seen),
        hits,
        tuple(key for number, key in enumerate(keys) if number not in matched),
    )


def _joined(spans: Sequence[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    joined: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if joined and start <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        else:
            joined.append((start, end))
    return tuple(joined)
