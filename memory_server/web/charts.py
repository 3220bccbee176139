"""Values as points: where the dots of a calendar strip stand, the curve of a memory, words to underline. Pure: pages
decide what is shown, and templates draw."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from memory_server.conversations.recall.why import runs
from memory_server.kernel.messages import NOTHING

_SHARES = (0.2, 0.55, 0.8)
"""Where a word gets a thicker line: its share of the heaviest word of the receipt."""


class Piece(NamedTuple):
    """A part of a text; `level` 0: not underlined, 1 to 4: how thick, `OTHER`: dotted, for another word."""

    level: int
    text: str


OTHER = 5
"""The level of a word that the caller gave, or that is kept with the memory: nobody said it in both places."""


def level(points: float, heaviest: float) -> int:
    return 1 + sum(points >= share * heaviest for share in _SHARES)


def underlined(
    text: str, words: Mapping[str, float], heaviest: float, others: Mapping[str, float] = NOTHING
) -> list[Piece]:
    """`text` in its parts; `heaviest`: the points of the heaviest run of the receipt; `others`: words that are not in
    both places."""
    pieces: list[Piece] = []
    place = 0
    for run in runs(text, words):
        pieces += _with_others(text[place : run.start], others)
        pieces.append(Piece(level(run.points, heaviest), text[run.start : run.end]))
        place = run.end
    pieces += _with_others(text[place:], others)
    return [piece for piece in pieces if piece.text]


def _with_others(text: str, others: Mapping[str, float]) -> Iterator[Piece]:
    place = 0
    for run in runs(text, others) if others else ():
        yield Piece(0, text[place : run.start])
        yield Piece(OTHER, text[run.start : run.end])
        place = run.end
    yield Piece(0, text[place:])


@dataclass(frozen=True, slots=True)
class Dot:
    """A day (or week) of the strip: where it is, how full (0 hollow, 1 to 3), what its tooltip says."""

    x: float
    y: float
    shade: int
    title: str
    today: bool = False


@dataclass(frozen=True, slots=True)
class Strip:
    """A calendar strip of dots. `marks`: x, y and the name of each month."""

    width: int
    height: int
    radius: float
    dots: Sequence[Dot]
    marks: Sequence[tuple[float, float, str, str]]


def strip(days: Sequence[tuple[int, str, str | None]], width: int, rows: int, today: str) -> Strip:
    """`days`: how much was said, the tooltip, and the name of a month that begins there. The last one is today."""
    most, each = max((count for count, _title, _month in days), default=0), -(-len(days) // rows)
    step = min(18.0, (width - 20) / max(1, each - 1)) if each > 1 else 0
    radius = max(1.5, min(5.5, step * 0.36 if step else 5.5))
    dots, marks, free = list[Dot](), list[tuple[float, float, str, str]](), 0.0
    for number, (count, title, month) in enumerate(days):
        x, y = 10 + number % each * step, 10.0 + number // each * 46
        is_today = bool(today) and number == len(days) - 1
        shade = 0 if not count else 1 + min(2, 3 * (count - 1) // max(1, most))
        dots.append(Dot(round(x, 1), y, shade, title, is_today))
        if is_today:
            while marks and marks[-1][1] == y + 24 and x - marks[-1][0] < 60:
                marks.pop()
            marks.append((round(min(x + 6, width), 1), y + 24, today, "end" if x > 60 else "start"))
        elif month:
            begin, wide = max(0.0, round(x - 5, 1)), _wide(month)
            if begin + wide > width and width - wide >= free:
                marks.append((width, y + 24, month, "end"))
            elif begin >= free and begin + wide <= width:
                marks.append((begin, y + 24, month, "start"))
                free = begin + max(52.0, wide + 8)
        if number % each == each - 1:
            free = 0.0
    return Strip(width, rows * 46 - 10 if rows > 1 else 42, round(radius, 1), dots, marks)


def _wide(name: str) -> float:
    """About how wide a label of 13 pixels is."""
    return sum(13.0 if ord(char) > 0x2E7F else 7.5 for char in name)


class Point(NamedTuple):
    x: float
    y: float


@dataclass(frozen=True, slots=True)
class Event:
    """A moment of the curve: where it is, its words, the date under it."""

    at: Point
    words: str
    date: str
    anchor: str = "start"


@dataclass(frozen=True, slots=True)
class Curve:
    """How clear a memory was over time. `past` and `area` are paths; `fading`: the height of the line below which it
    counts as faded, and `words_x` where its words stand. `events`: when it was said and used; `now`: today."""

    width: int
    height: int
    past: str
    area: str
    to_come: str
    fading: float
    words_x: float
    events: Sequence[Event]
    now: Point


def curve(
    made_ms: int,
    uses: Sequence[tuple[int, float]],
    now_ms: int,
    worth: Sequence[tuple[int, float]],
    fading: float,
    width: int,
    words: Sequence[tuple[str, str]],
) -> Curve:
    """`worth`: how much it was worth at each moment, oldest first, up to now and beyond; `uses`: when it was used and
    what it was worth then; `words`: what stands at its beginning and at each use, with its date."""
    # The words of the beginning stand above the curve, which falls from there.
    height, top, floor, left, right = 160, 44, 142, 8, width - 8
    last_ms = worth[-1][0]
    low, high = min(fading, *(value for _at, value in worth)) - 1, max(value for _at, value in worth)
    span, room = max(1, last_ms - made_ms), max(1.0, high - low)

    def place(at_ms: int, value: float) -> Point:
        x = left + (right - left) * (at_ms - made_ms) / span
        return Point(round(x, 1), round(top + (floor - top) * (high - value) / room, 1))

    line_y = place(made_ms, fading).y
    past = [place(*each) for each in worth if each[0] <= now_ms]
    later = [past[-1], *(place(*each) for each in worth if each[0] > now_ms)]
    line = "M" + "L".join(f"{x} {y}" for x, y in past)
    events = list[Event]()
    for number, (at_ms, value) in enumerate([(made_ms, worth[0][1]), *uses]):
        at, (said, date) = place(at_ms, value), words[number]
        if number and at.x - events[-1].at.x < 8:
            continue
        near = bool(number) and at.x - events[-1].at.x < 96
        anchor = "end" if at.x > width * 0.72 or (number and not near) else "start"
        crowded = bool(number) and at.x - events[-1].at.x < 78
        events.append(Event(at, "" if near else said, "" if crowded else date, anchor))
    return Curve(
        width,
        height + 24,
        line,
        f"{line}L{past[-1].x} {floor}L{left} {floor}Z",
        "M" + "L".join(f"{x} {y}" for x, y in later),
        line_y,
        next((at.x + 12 for at in past if at.y > line_y), width),
        events,
        past[-1],
    )
