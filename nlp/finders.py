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
    find, *later_finders = finders
    end = 0
    for span in find(text):
        if span.start > end:
            yield from split_by(text[end : span.start], later_finders)
        yield span
        end = span.end
    if end < len(text):
        yield from split_by(text[end:], later_finders)


def finder_of(names: Collection[str], *, any_case: bool) -> Finder:
    """A finder of these names, the longest first."""
    longest_first = sorted(names, key=lambda name: (-len(name), name))
    if not longest_first:
        return lambda _: []
    flags = re.IGNORECASE if any_case else re.NOFLAG
    pattern = re.compile("|".join(map(_bounded, longest_first)), flags)
    return lambda text: [Span(*match.span(), match[0]) for match in pattern.finditer(text)]


def _bounded(name: str) -> str:
    """The pattern of a name. An ASCII letter or digit at its edge needs a word boundary: Ann is not in Annual."""
    pattern = re.escape(name)
    if name[0].isascii() and name[0].isalnum():
        pattern = rf"(?<![A-Za-z0-9_]){pattern}"
    if name[-1].isascii() and name[-1].isalnum():
        pattern = rf"{pattern}(?![A-Za-z0-9_])"
    return pattern
