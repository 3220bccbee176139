"""Why a memory came, for a person: the shared words as they stand in a text, and one sentence. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from sandbox.locale import _

_SMALL = 0.2
"""The share of the heaviest word's points below which a word is not named."""
_LATIN = re.compile(r"[A-Za-z0-9_]")


class Run(NamedTuple):
    """Where words of a text overlap: from `start` to `end`, and the points of all of them."""

    start: int
    end: int
    points: float


def runs(text: str, words: Mapping[str, float]) -> list[Run]:
    """The words in a text; those that overlap are one run: 酸汤鱼, not 酸汤 and 汤鱼. A Latin word is found at the
    beginning of words, because words are kept by their stems."""
    folded = "".join(low if len(low := char.casefold()) == 1 else char for char in text)
    places = sorted((*place, word) for word in words for place in _places(folded, word.casefold()))
    found, held = list[Run](), set[str]()
    for start, end, word in places:
        if found and start < found[-1].end:
            last = found.pop()
            points = last.points + (0.0 if word in held else words[word])
            found.append(Run(last.start, max(last.end, end), points))
        else:
            held.clear()
            found.append(Run(start, end, words[word]))
        held.add(word)
    return found


def _places(text: str, word: str) -> Iterator[tuple[int, int]]:
    latin = bool(_LATIN.match(word))
    pattern = rf"(?<!\w){re.escape(word)}\w{{0,4}}(?!\w)" if latin else re.escape(word)
    return ((at.start(), at.end()) for at in re.finditer(pattern, text)) if word else iter(())


def joined_words(said: str, words: Mapping[str, float]) -> dict[str, float]:
    """The words as they stand in what was said, those that overlap as one, with their points. Speakers (`阿红:`, see
    `nlp/enrichment.py`) are shown by their names."""
    words = {word.removesuffix(":") or word: points for word, points in words.items()}
    found: dict[str, float] = {}
    for run in runs(said, words):
        word = said[run.start : run.end]
        found[word] = max(run.points, found.get(word, 0.0))
    return found or dict(words)


def quoted(words: Iterable[str], *, zh: bool) -> str:
    """Words in quotation marks, as a list."""
    each = [f"“{word}”" for word in words]
    if zh:
        return "".join(each)
    return each[0] if len(each) == 1 else f"{', '.join(each[:-1])} and {each[-1]}" if each else ""


def reason(
    tier: str | None, words: Mapping[str, float], heaviest: float, around: float, *, zh: bool, overview: bool = False
) -> str:
    """One sentence on a memory that came in this `tier` of the record of recalls. `words`: what it shares, with the
    points of each; `around`: those from what was said around it; `heaviest`: the points that no word exceeds;
    `overview`: whether an overview was asked for."""
    total = sum(words.values())
    heavy = sorted((word for word in words if words[word] >= _SMALL * heaviest), key=lambda word: -words[word])[:3]
    named = quoted(heavy or list(words)[:2], zh=zh)
    match tier:
        case "flashback":
            return _("It came by chance, as memories do.")
        case "answer":
            return _("It was said right after the one above, as an answer.")
        case "pinned":
            return _("It is pinned, so a new session gets it.")
        case "last":
            return _("It is where you left off, so a new session gets it.")
    if overview:
        return _("It came because an overview was asked for; no word need be the same.")
    if not words:
        return _("It came for its time or its meaning; no word is the same.")
    if around > total:
        return _("Mostly because it was said around one that came; {words} is in both.", named)
    if around > 0.4 * total:
        return _("Partly for {words}, partly because of what was said around it.", named)
    if len(words) == 1:
        return _("Only because {words} is in both.", named)
    if len(heavy) > 1 and sum(words[word] for word in heavy) >= 1.5 * heaviest:
        return _("{words} are rare in your memories, and this one has them.", named)
    return _("{words} are in both.", named) if len(heavy) > 1 else _("{words} is in both.", named)
