"""How many columns of a terminal a text takes. A hook and a trigger worker import this, and no argparse."""

from __future__ import annotations

from unicodedata import category, east_asian_width

from languages import _


def cells(text: str) -> int:
    """Count the columns of a terminal that a text takes. (This needs no rich, which takes long to import.)"""
    return sum(map(_cells_of_character, text))


def _cells_of_character(char: str) -> int:
    if category(char) in ("Mn", "Me", "Cf"):
        return 0  # a combining character or a joiner
    if east_asian_width(char) in "WF":
        return 2
    return 1


def padded(word: str, width: int) -> str:
    """Return a word of ours in the reader's language, filled with blanks to this many columns."""
    translation = _(word)
    return translation + " " * (width - cells(translation))
