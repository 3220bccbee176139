"""Why a trigger fired, was quiet or failed: the lines of `run` and `repl`. Pure.

The values come from a second run, of a traced copy (operands.py); the verdict comes from the first run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from sandbox.javascript import syntax
from sandbox.javascript.syntax import Source
from sandbox.verdicts import Failed, RunReport, Verdict
from sandbox.workbench.explain.operands import Operand, operands
from sandbox.workbench.explain.traces import Call, Hit, Tally, Trace, Value, read_trace
from sandbox.workbench.fixtures.outcomes import word
from sandbox.workbench.terminal import cells, fit

WIDTH = 72
"""Cells for the text of an operand, or for the shown part of a message."""
_BEFORE = 16
"""Characters that are shown before the first match in a long message."""
_MOST_CALLS = 20
_SEEN_HEAP = 1_000_000
"""Bytes; V8 reports its use in steps of some 100 kB."""


def reasons(
    source: str,
    report: RunReport,
    messages: Sequence[Mapping[str, Any]],
    first: int = 1,
    paint: Callable[[str], str] | None = None,
) -> list[str]:
    """The operands with their values, and the calls of match_keys with what they found.

    `paint`: highlights matched characters; without it, carets below mark them.
    """
    parsed = syntax.parse(source)
    found = operands(parsed)
    if report.traced is None or not found:
        return []
    if word(report.traced) != word(report.verdict):
        return ["", "no operands: the second run, which records them, gave another verdict"]
    trace = read_trace(report.trace, found)
    return [
        *_operand_lines(found, trace, first, _thrown_at(parsed, report.verdict), isinstance(report.verdict, Failed)),
        *_call_lines(trace, messages, first, paint),
    ]


def heap_line(report: RunReport) -> str:
    """`heap     0.4 MB`."""
    count = report.heap_bytes
    if count is None:
        return "heap     not measured"
    return f"heap     {f'{count / 1e6:.1f} MB' if count >= _SEEN_HEAP else 'under 1 MB'}"


def _thrown_at(source: Source, verdict: Verdict) -> int:
    """The byte at which the trigger threw; -1 if it did not throw or the place is unknown."""
    if not isinstance(verdict, Failed) or verdict.kind not in ("thrown", "reference"):
        return -1
    place = source.offset(verdict.line, verdict.column) if verdict.line and verdict.column else None
    return -1 if place is None else place


def _operand_lines(found: Sequence[Operand], trace: Trace, first: int, thrown_at: int, failed: bool) -> Iterator[str]:
    shown = sorted((one for one in found if one.kind != "call"), key=lambda one: (one.start, -one.end))
    if not shown:
        return
    yield ""
    yield "value  operand"
    silent = False
    for one in shown:
        role = f"{one.role}: " if one.kind == "decision" and one.role != "verdict" else ""
        text = "  " * one.depth + role + " ".join(one.text.split())
        if one.number in trace.values:
            truth, more = _value(trace.values[one.number])
        elif one.number in trace.tallies:
            truth, more = _counted(trace.tallies[one.number], first)
        else:
            truth, more = ("threw" if one.start <= thrown_at < one.end else "-"), ""
        silent = silent or truth == "-"
        yield f"{truth:<5}  {fit(text, WIDTH).rstrip() if cells(text) > WIDTH else text}{more}".rstrip()
    if any(one.number in trace.tallies for one in shown):
        yield "n/m    was true n of the m times it was evaluated"
    if silent:
        yield "-      gave no value before it failed" if failed else "-      was never reached"


def _value(value: Value) -> tuple[str, str]:
    more = f" = {value.text}" if value.text not in ("true", "false") else ""
    which = "the last" if value.is_last else "one of the first"
    times = f" ({value.times} times, {which})" if value.times > 1 else ""
    return "true" if value.truth else "false", more + times


def _counted(tally: Tally, first: int) -> tuple[str, str]:
    """How often an operand was true, and for which messages if a callback checked messages."""
    places = [f"#{first + place}" for place in tally.places]
    if tally.last >= 0 and tally.last not in tally.places:
        places.append(f"... #{first + tally.last}")
    return f"{tally.trues}/{tally.times}", f" (true for {', '.join(places).replace(', ...', ' ...')})" if places else ""


def _call_lines(
    trace: Trace, messages: Sequence[Mapping[str, Any]], first: int, paint: Callable[[str], str] | None
) -> Iterator[str]:
    for call in trace.calls[:_MOST_CALLS]:
        yield ""
        where = f" (line {call.line})" if call.line is not None else ""
        keys = fit(", ".join(call.keys), WIDTH).rstrip()
        yield f"{call.name} of {keys or 'no keys'}; scope {call.scope}, depth {call.depth}: {call.result}{where}"
        yield f"  looked at {_places(call, first)}"
        for hit in call.hits:
            yield from _hit_lines(hit, messages, first, paint)
        if call.missing and call.hits:
            yield f"  not found: {fit(', '.join(call.missing), WIDTH).rstrip()}"
        elif call.missing:
            yield "  found none of the keys"
    if len(trace.calls) > _MOST_CALLS:
        yield f"\nand {len(trace.calls) - _MOST_CALLS} more calls"


def _places(call: Call, first: int) -> str:
    if not call.places:
        return "nothing: no message has this scope within this depth"
    numbers = [first + place for place in call.places if place >= 0]
    made = len(call.places) - len(numbers)
    parts = [", ".join(f"#{number}" for number in numbers[-8:])] if numbers else []
    if len(numbers) > 8:
        parts[0] = f"{len(numbers)} messages, the last of them {parts[0]}"
    if made:
        parts.append(f"{made} that the trigger made itself")
    return " and ".join(parts)


def _shown(char: str) -> bool:
    """A joiner is needed in emoji; other invisible characters may reverse or hide a part of the line."""
    return char.isprintable() or char == "\u200d"


def _hit_lines(
    hit: Hit, messages: Sequence[Mapping[str, Any]], first: int, paint: Callable[[str], str] | None
) -> Iterator[str]:
    """The message with the matched characters highlighted, or with carets below them."""
    message = messages[hit.place] if 0 <= hit.place < len(messages) else None
    text = str(message["content"]) if message is not None else hit.text or ""
    who = f"#{first + hit.place} {message.get('name') or message['role']}" if message is not None else "its own text"
    units = text.encode("utf-16-le", "surrogatepass")

    def index(unit: int) -> int:
        return len(units[: unit * 2].decode("utf-16-le", "replace"))

    spans = [(index(start), index(end)) for start, end in hit.spans]
    flat = "".join(" " if char.isspace() else char if _shown(char) else "\ufffd" for char in text)
    begin = max(0, spans[0][0] - _BEFORE) if cells(flat) > WIDTH and spans else 0
    shown = flat[begin:]
    while cells(shown) > WIDTH:
        shown = shown[: max(1, len(shown) - 1 - (cells(shown) - WIDTH) // 2)]
    head = f"  {who}: {'...' if begin else ''}"
    end = begin + len(shown)
    tail = "..." if end < len(flat) else ""
    line, marks = head, " " * cells(head)
    at = begin
    for start, stop in spans:
        start, stop = max(start, at), min(stop, end)
        if start >= end or (start >= stop and at > start):
            continue
        stop = max(stop, start)
        line += flat[at:start] + (paint(flat[start:stop]) if paint and stop > start else flat[start:stop])
        marks += " " * cells(flat[at:start]) + "^" * max(1, cells(flat[start:stop]))
        at = stop
    yield f"{line}{flat[at:end]}{tail}"
    if paint is None:
        yield marks.rstrip()
