"""Finding words that the segmentation would cut: a text is split by finders of days, names and words of other scripts.
Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import TypeAlias

from nlp.date_words import Span

Finder: TypeAlias = Callable[[str], Iterable[Span]]
"""A function that finds words in a text, in order, none over another."""


def split_by(text: str, finders: Sequence[Finder]) -> Iterator[str | Span]:
    """The words that the finders find in `text`, and the text between them. An earlier finder wins over a later one."""
    if not finders:
        yield text
        return
    find, later = finders[0], finders[1:]
    end = 0
    for span in find(text):
        if span.start > end:
            yield from split_by(text[end : span.start], later)
        yield span
        end = span.end
    if end < len(text):
        yield from split_by(text[end:], later)


def finder_of(names: Collection[str], *, any_case: bool) -> Finder:
    """A finder of these names, the longest first."""
    longest_first = sorted(names, key=lambda name: (-len(name), name))
    if not longest_first:
        return lambda _: []
    pattern = re.compile("|".join(map(_bounded, longest_first)), re.IGNORECASE if any_case else 0)
    return lambda text: [Span(*found.span(), found[0]) for found in pattern.finditer(text)]


def _bounded(name: str) -> str:
    """The pattern of a name. An ASCII letter or digit at its edge needs a word boundary: Ann is not in Annual."""
    before = r"(?<![A-Za-z0-9_])" if name[0].isascii() and name[0].isalnum() else ""
    after = r"(?![A-Za-z0-9_])" if name[-1].isascii() and name[-1].isalnum() else ""
    return before + re.escape(name) + after
