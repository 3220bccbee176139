"""A bar chart of Recall@1, @3 and @5 as SVG text. Knows no file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from xml.sax.saxutils import escape

from memory_server.evaluation.metrics import Scores

# Pixels.
_LEFT, _TOP, _HEIGHT, _BOTTOM = 48, 56, 240, 44
_BAR, _GROUP, _MIN_WIDTH = 22, 96, 420
_COLOURS = (("Recall@1", "#0b5394"), ("Recall@3", "#6fa8dc"), ("Recall@5", "#cfe2f3"))


def bar_chart(title: str, scores: Mapping[str, Scores]) -> str:
    """Three bars for each ranker, with a line from one end of the 95 % interval to the other."""
    width = max(_MIN_WIDTH, _LEFT + _GROUP * len(scores) + 16)
    height = _TOP + _HEIGHT + _BOTTOM
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}"',
        ' font-family="sans-serif" font-size="12" role="img">',
        f"<title>{escape(title)}</title>",
        f'<rect width="{width}" height="{height}" fill="white"/>',
        f'<text x="{_LEFT}" y="20" font-size="14">{escape(title)}</text>',
        *_legend(),
        *_grid(width),
    ]
    for place, (name, figures) in enumerate(scores.items()):
        parts += _bars(_LEFT + 12 + place * _GROUP, name, figures)
    return "\n".join((*parts, "</svg>", ""))


def _y(share: float) -> float:
    """Pixels from the top for a share from 0 to 1."""
    return round(_TOP + _HEIGHT * (1 - share), 1)


def _legend() -> Iterator[str]:
    for place, (label, colour) in enumerate(_COLOURS):
        x = _LEFT + place * 100
        yield f'<rect x="{x}" y="30" width="12" height="12" fill="{colour}" stroke="#888"/>'
        yield f'<text x="{x + 18}" y="40">{label}</text>'


def _grid(width: int) -> Iterator[str]:
    for tenths in range(0, 11, 2):
        y = _y(tenths / 10)
        yield f'<line x1="{_LEFT}" y1="{y}" x2="{width - 8}" y2="{y}" stroke="#ddd"/>'
        yield f'<text x="{_LEFT - 8}" y="{y + 4}" text-anchor="end">{tenths / 10:.1f}</text>'


def _bars(left: int, name: str, figures: Scores) -> Iterator[str]:
    estimates = (figures.recall_1, figures.recall_3, figures.recall_5)
    for place, ((label, colour), estimate) in enumerate(zip(_COLOURS, estimates, strict=True)):
        if estimate is None:
            continue
        x, y = left + place * (_BAR + 2), _y(estimate.value)
        yield (
            f'<rect x="{x}" y="{y}" width="{_BAR}" height="{round(_y(0) - y, 1)}" fill="{colour}" stroke="#888">'
            f"<title>{escape(name)}, {label}: {estimate.value:.2f}</title></rect>"
        )
        middle = x + _BAR / 2
        yield f'<line x1="{middle}" y1="{_y(estimate.low)}" x2="{middle}" y2="{_y(estimate.high)}" stroke="black"/>'
    centre = left + 1.5 * _BAR + 2
    yield f'<text x="{centre}" y="{_TOP + _HEIGHT + 18}" text-anchor="middle">{escape(name)}</text>'
