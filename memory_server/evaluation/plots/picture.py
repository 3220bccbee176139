"""Draws a picture into an SVG or PNG file. matplotlib is an extra and takes a second to load: it is
imported when a picture is drawn.

Text in an SVG stays text, so that the reader's own fonts show it; a PNG needs a font with Chinese characters here.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

from memory_server.core.errors import InvalidInput

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FORMATS = (".svg", ".png")
BLUE, ORANGE, GREEN, RED, GREY = "#0072b2", "#e69f00", "#009e73", "#d55e00", "#8a8a8a"
"""Colours that people with any kind of colour vision can tell apart (Okabe and Ito, 2008), and a quiet one."""

_CHINESE_FONTS = (
    "Noto Sans CJK SC",
    "Noto Sans SC",
    "Source Han Sans SC",
    "PingFang SC",
    "Hiragino Sans GB",
    "Microsoft YaHei",
    "SimHei",
    "WenQuanYi Micro Hei",
    "WenQuanYi Zen Hei",
    "Droid Sans Fallback",
    "Arial Unicode MS",
)
"""Fonts with Chinese characters of Linux, macOS and Windows."""
_INCHES_HIGH, _DOTS_PER_INCH = 4.8, 150


def picture_path(text: str) -> Path:
    """`text` as the name of a picture.

    Raises:
        InvalidInput: it ends in no format that can be drawn.
    """
    path = Path(text)
    if path.suffix.lower() not in FORMATS:
        raise InvalidInput(f"{path} names no picture that can be drawn; let it end in {' or '.join(FORMATS)}.")
    return path


def draw(path: Path, drawing: Callable[[Figure], None], *, panels: int = 1) -> None:
    """Write what `drawing` draws on an empty figure of `panels` side by side; what stood at `path` is replaced.

    Raises:
        InvalidInput: matplotlib is not installed, a PNG has no font for its text, or the file cannot be written.
    """
    try:
        import matplotlib as mpl
        from matplotlib import font_manager
        from matplotlib.figure import Figure
    except ImportError as error:
        raise InvalidInput("Pictures need matplotlib; install it with `pip install 'memory-server[plot]'`.") from error
    logging.getLogger("matplotlib").setLevel(logging.ERROR)  # it names every font of the list that is not here
    vector = path.suffix.lower() == ".svg"
    here = {font.name for font in font_manager.fontManager.ttflist}
    fonts = [name for name in _CHINESE_FONTS if vector or name in here]
    style = {
        "font.family": ["DejaVu Sans", *fonts, *(["sans-serif"] if vector else [])],
        "font.size": 9,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.grid": True,
        "axes.axisbelow": True,
        "grid.color": "#e6e6e6",
        "legend.frameon": False,
        "text.parse_math": False,  # a dollar sign in a memory begins no formula
        "svg.fonttype": "none",
        "svg.hashsalt": "memory-server",  # the same picture is the same file
    }
    content = BytesIO()
    with mpl.rc_context(style), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        figure = Figure(figsize=(7.2 * panels, _INCHES_HIGH), layout="constrained")
        drawing(figure)
        kind = path.suffix.lower().removeprefix(".")
        metadata = {"Date": None} if vector else {"Software": "memory-server"}
        figure.savefig(content, format=kind, dpi=_DOTS_PER_INCH, metadata=metadata)
    if not vector and any("missing from font" in str(warning.message) for warning in caught):
        raise InvalidInput(
            f"No font of this machine has all characters of the picture; write {path.with_suffix('.svg')}, "
            "or install one such as Noto Sans CJK."
        )
    try:
        path.write_bytes(content.getvalue())
    except OSError as error:
        raise InvalidInput(f"{path} cannot be written: {error.strerror}.") from error
