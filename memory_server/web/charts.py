"""Values as points: where the dots of a calendar strip stand, and words to underline. Pure: pages
decide what is shown, and templates draw."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from memory_server.conversations.recall.why import runs
from memory_server.kernel.messages import NOTHING
from memory_server.kernel.values import frozen

_SHARES = (0.2, 0.55, 0.8)
"""Where a word gets a thicker line: its share of the heaviest word of the receipt."""


class Piece(NamedTuple):
    """A part of a text; `level` 0: not underlined, 1 to 4: how thick, `OTHER`: dotted, for another word."""

    level: int
    text: str


OTHER = 5
"""The level of a word that the caller gave, or that is kept with the memory: it was not said in both places."""


def level(points: float, heaviest: float) -> int:
    return 1 + sum(points >= share * heaviest for share in _SHARES)


def underlined(
    text: str, words: Mapping[str, float], heaviest: float, others: Mapping[str, float] = NOTHING
) -> list[Piece]:
    """Split `text` into pieces: runs of the shared `words`, with a level by their points, the `others`, which are not in
    both places, and what is between them. `heaviest`: the points of the heaviest run of the receipt."""
    pieces: list[Piece] = []
    position = 0
    for run in runs(text, words):
        pieces += _with_others(text[position : run.start], others)
        pieces.append(Piece(level(run.points, heaviest), text[run.start : run.end]))
        position = run.end
    pieces += _with_others(text[position:], others)
    return [piece for piece in pieces if piece.text]


def _with_others(text: str, others: Mapping[str, float]) -> Iterator[Piece]:
    """Split a part of a text that is not underlined at the other words, which become dotted pieces."""
    position = 0
    for run in runs(text, others) if others else ():
        yield Piece(0, text[position : run.start])
        yield Piece(OTHER, text[run.start : run.end])
        position = run.end
    yield Piece(0, text[position:])


class Day(NamedTuple):
    """A day (or week) that a strip shows: how much was said, its tooltip, and the name of a month that begins there."""

    amount: int
    title: str
    month: str | None


@frozen
class Dot:
    """A day (or week) of the strip: where it is, how full (0 hollow, 1 to 3), what its tooltip says."""

    x: float
    y: float
    shade: int
    title: str
    today: bool = False


class Mark(NamedTuple):
    """A label below the dots. `anchor`: which end of it stands at `x`, as in SVG."""

    x: float
    y: float
    text: str
    anchor: str


@frozen
class Strip:
    """A calendar strip of dots, with the names of months below them."""

    width: int
    height: int
    radius: float
    dots: Sequence[Dot]
    marks: Sequence[Mark]


_MARGIN = 10
"""Pixels from the edge of a strip to the middle of its first dot."""
_ROW_HEIGHT = 46
"""Pixels from one row of dots to the next; the labels of a row stand between them."""
_LABEL_BELOW = 24
"""Pixels from the middle of a dot down to the line of its label."""
_TODAY_ROOM = 60
"""Pixels that the label of today needs beside the label of a month."""


def strip(days: Sequence[tuple[int, str, str | None]], width: int, rows: int, today: str) -> Strip:
    """Draw a strip. `days` are oldest first, and the last day is today, which is marked if `today` is its label.
    `width` is in pixels."""
    greatest = max((amount for amount, _title, _month in days), default=0)
    # Rounded up: the last row may be shorter.
    row_length = -(-len(days) // rows)
    step = 0.0
    radius = 5.5
    if row_length > 1:
        step = min(18.0, (width - 2 * _MARGIN) / (row_length - 1))
        radius = max(1.5, min(5.5, step * 0.36))

    dots: list[Dot] = []
    labels = _Labels(width)
    for number, day in enumerate(map(Day._make, days)):
        row, column = divmod(number, row_length)
        x = _MARGIN + column * step
        y = float(_MARGIN + row * _ROW_HEIGHT)
        is_today = bool(today) and number == len(days) - 1
        dots.append(Dot(round(x, 1), y, _shade(day.amount, greatest), day.title, is_today))
        if is_today:
            labels.add_today(x, y + _LABEL_BELOW, today)
        elif day.month:
            labels.add_month(x, y + _LABEL_BELOW, day.month)
        if column == row_length - 1:
            labels.end_row()

    height = rows * _ROW_HEIGHT - 10 if rows > 1 else 42
    return Strip(width, height, round(radius, 1), dots, labels.marks)


def _shade(amount: int, greatest: int) -> int:
    """Return 0 for nothing, or 1 to 3 for the third of `greatest` in which an amount is."""
    if not amount:
        return 0
    return 1 + min(2, 3 * (amount - 1) // max(1, greatest))


class _Labels:
    """The labels below the dots, none of which covers another one."""

    def __init__(self, width: int) -> None:
        self.marks: list[Mark] = []
        self._width = width
        self._free_from = 0.0

    def add_today(self, x: float, y: float, text: str) -> None:
        """Add the label of today, in place of months that stand too near."""
        while self.marks and self.marks[-1].y == y and x - self.marks[-1].x < _TODAY_ROOM:
            self.marks.pop()
        anchor = "end" if x > _TODAY_ROOM else "start"
        self.marks.append(Mark(round(min(x + 6, self._width), 1), y, text, anchor))

    def add_month(self, x: float, y: float, text: str) -> None:
        """Add the name of a month where there is room for it."""
        begin = max(0.0, round(x - 5, 1))
        label_width = _label_width(text)
        fits = begin + label_width <= self._width
        if not fits and self._width - label_width >= self._free_from:
            self.marks.append(Mark(self._width, y, text, "end"))
        elif fits and begin >= self._free_from:
            self.marks.append(Mark(begin, y, text, "start"))
            self._free_from = begin + max(52.0, label_width + 8)

    def end_row(self) -> None:
        self._free_from = 0.0


def _label_width(text: str) -> float:
    """About how many pixels wide a label of 13 pixels is."""
    return sum(13.0 if ord(char) > 0x2E7F else 7.5 for char in text)
