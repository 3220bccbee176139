"""Which passages of a memory answer a question: the sentences that hold its words, and those around them.

A text is cut into pieces: sentences, lines of code, and parts of what is longer than a sentence should be. The pieces
with the heaviest words come first, a word that few pieces hold counting more than one that many do; then their
neighbours, as far as there is room. Code comes only where it is what matches. Pure. Time is linear in the length of
the text: each piece is looked at once.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from heapq import heapify, heappop, heapreplace
from math import log
from typing import Literal

from memory_server.recall.recalled_block import harmless

ELLIPSIS = "…"

_MOST_CHARS = 120
"""Of a piece: about twenty English words. What is longer is cut, best after a comma."""
_LEAST_CHARS = 24
"""A longer sentence is never cut to pieces shorter than this, however little room there is."""
_STUB_CHARS = 8
"""What is shorter goes with what follows it: the 1. of a list, Hi!, 好的。"""
_TORN_CHARS = 8
"""On either side of a cut within a word: so much of it is looked at."""
_LOOKED_AT_CHARS = 500_000
"""Of one memory: beyond that nothing is looked for, because somebody waits. 100,000 take some 40 ms."""
_TOGETHER = 32
"""Pieces that are looked at together first."""
_WORTHWHILE = 0.25
"""Of the points of the best piece: with less, another piece is no better than the neighbours of the best."""

_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f]")
_LINE = re.compile("[^\n\r\v\f\x1c-\x1e\x85\u2028\u2029]+")
_FENCE = re.compile(r"\s{0,12}(`{3,}+|~{3,}+)([^`\n]*)$")
_INDENTED = re.compile(r"(?: {4}|\t)\s*(?!(?:[-*+•]|\d{1,3}[.)、])\s)\S")
"""Four blanks and no mark of a list, as in Markdown."""
_END = re.compile(
    r"(?:[。！？｡…]++"
    r"|(?<![!?])[!?]++(?![A-Za-z0-9_=/&.,;:])"  # not a!=b, not ?x=1
    r"|(?<!\.)\.++(?=[\"')\]”’]{0,3}(?:\s|$))"  # not 3.5, not freeze.py
    r"|(?<=[^\x00-\x7f])\.(?![A-Za-z0-9_.]))"
    r"[\"')\]”’」』）】]{0,3}"
)
_PAUSE = re.compile(r"[，、；：,;:](?!\d)|\s")


@dataclass(frozen=True, slots=True)
class Measure:
    """How long a text is, and the beginning of it that is so long: in bytes of UTF-8, or in characters."""

    length: Callable[[str], int]
    beginning: Callable[[str, int], str]
    least: int
    """Less than this of a memory says too little."""


BYTES = Measure(lambda text: len(text.encode()), lambda text, n: text[:n].encode()[:n].decode(errors="ignore"), 90)
"""At least thirty Chinese characters of three bytes."""
CHARS = Measure(len, lambda text, n: text[:n], 45)

Match = Callable[[int, str], Mapping[str, float]]
"""The words of the question that a piece of the text of this number holds, each with its weight."""


@dataclass(frozen=True, slots=True)
class Piece:
    """`texts[text][start:end]`. `code` numbers the block of code that it is of; 0 for none. `torn`: a word may go on
    after its end."""

    text: int
    start: int
    end: int
    code: int = 0
    torn: bool = False


def passages(
    texts: Sequence[str], heads: Sequence[int], match: Match, *, room: int, measure: Measure, spaced: bool
) -> list[str]:
    """Of each of the texts of one memory what is to be shown, on one line; empty for one that is left out.

    Together at most `room`, with `heads[n]` for whatever stands before the line of text n. Where nothing matches, it
    is the beginnings. An ellipsis stands where something is left out; `spaced`: with blanks around it.
    """
    choice = _Choice(texts, heads, room, measure, f" {ELLIPSIS} " if spaced else ELLIPSIS)
    seeds = _best(choice, _found(choice, match), room)
    if seeds:
        for asked in map(choice.before, seeds):
            if asked is not None:
                choice.add(asked)
        _grow(choice, [way for seed in seeds for way in ((seed, 1), (seed, -1))])
    else:
        _grow(choice, [(first, 1) for first in _beginnings(choice)])
    return choice.lines()


def pieces_of(text: str, longest: int = _MOST_CHARS, number: int = 0) -> Iterator[Piece]:
    """The pieces of `text` in order, none longer than `longest` characters; white space may lie between them."""
    fence: str | None = None
    block, was_code = 0, False
    for line in _LINE.finditer(text):
        written = line[0]
        if not written.strip():
            continue
        mark = _FENCE.match(written)
        code = fence is not None or mark is not None or _INDENTED.match(written) is not None
        if code and not was_code:
            block += 1
        if mark is not None and fence is None:
            fence = mark[1]
        elif mark is not None and fence is not None and mark[1].startswith(fence) and not mark[2].strip():
            fence = None
        was_code = code
        ends = [line.end()] if code else [*(end.end() + line.start() for end in _END.finditer(written)), line.end()]
        start = line.start()
        for end in ends:
            if (end - start < _STUB_CHARS and end < line.end()) or not text[start:end].strip():
                continue
            yield from _parts(text, start, end, longest, number, block if code else 0)
            start = end


def _parts(text: str, start: int, end: int, longest: int, number: int, code: int) -> Iterator[Piece]:
    """`text[start:end]` in parts that are not too long, cut after a pause where there is one."""
    while end - start > longest:
        latest = start + min(longest, end - start - _STUB_CHARS)
        pauses = [pause.end() for pause in _PAUSE.finditer(text, start + longest // 2, latest)]
        place = pauses[-1] if pauses else _between_characters(text, latest)
        yield Piece(number, start, place, code, torn=not pauses)
        start = place
    yield Piece(number, start, end, code)


def _between_characters(text: str, place: int) -> int:
    """The place, or one a little before it, where no character is parted from its accents or from an emoji's half."""
    for nearer in range(place, place - 16, -1):
        if not _joined(text[nearer]) and text[nearer - 1] != "\u200d":
            return nearer
    return place


def _joined(char: str) -> bool:
    return unicodedata.category(char) in ("Mn", "Mc", "Me", "Cf") or "\U0001f3fb" <= char <= "\U0001f3ff"


def one_line(text: str) -> str:
    """Harmless, with white space and control characters of every kind as single blanks."""
    return " ".join(harmless(_CONTROL.sub(" ", text)).split())


def clipped(text: str, most: int, measure: Measure) -> str:
    """`text`, or as much of it as fits with an ellipsis; no half character, no joiner without its second half."""
    if measure.length(text) <= most:
        return text
    kept = measure.beginning(text, max(0, most - measure.length(ELLIPSIS)))
    while kept and (kept[-1].isspace() or unicodedata.category(kept[-1]) == "Cf"):
        kept = kept[:-1]
    return kept + ELLIPSIS


class _Choice:
    """The pieces that are shown so far, and the room that is left."""

    def __init__(
        self,
        texts: Sequence[str],
        heads: Sequence[int],
        room: int,
        measure: Measure,
        gap: str,
    ) -> None:
        self.texts = texts
        self.left = room
        self.pieces: list[Piece] = []
        longest = max(_LEAST_CHARS, min(_MOST_CHARS, room // 4))
        self.spans: list[range] = []
        """The pieces of each text."""
        for number, text in enumerate(texts):
            first = len(self.pieces)
            self.pieces += pieces_of(text, longest, number)
            self.spans.append(range(first, len(self.pieces)))
        self._heads = heads
        self._measure = measure
        self._gap = gap
        self._shown: dict[int, str] = {}
        """The chosen pieces as they are written."""
        self._begun: set[int] = set()
        """The texts of which something is shown."""

    def mend(self, number: int, match: Match) -> None:
        """Let the next piece have all of a word that is asked for, where it was torn."""
        piece = self.pieces[number]
        if not piece.torn:
            return
        text, end = self.texts[piece.text], piece.end
        place = _between_characters(text, end - _TORN_CHARS)
        before, after = (match(piece.text, part) for part in (text[place:end], text[end : end + _TORN_CHARS]))
        if match(piece.text, text[place : end + _TORN_CHARS]).keys() - before.keys() - after.keys():
            self.pieces[number] = replace(piece, end=place)
            self.pieces[number + 1] = replace(self.pieces[number + 1], start=place)

    def around(self, home: int, step: Literal[1, -1]) -> Iterator[int]:
        """The pieces after a piece or before it that are not shown, the nearest first; code only where it is in it."""
        at_home = self.pieces[home]
        for number in range(home + 1, len(self.pieces)) if step > 0 else range(home - 1, -1, -1):
            piece = self.pieces[number]
            if number not in self._shown and (
                not piece.code or (piece.text, piece.code) == (at_home.text, at_home.code)
            ):
                yield number

    def before(self, number: int) -> int | None:
        """The end of what was said before the text of a piece, such as the question that it answers; None for none."""
        earlier = self.spans[self.pieces[number].text - 1] if self.pieces[number].text else ()
        return next((last for last in reversed(earlier) if not self.pieces[last].code), None)

    def add(self, number: int) -> bool:
        """Show a piece, if it is not shown and there is room for it; the first one is cut where there is not."""
        if number in self._shown:
            return False
        piece = self.pieces[number]
        written = one_line(self.texts[piece.text][piece.start : piece.end])
        begins = piece.text not in self._begun
        # What is left out before it and after it has an ellipsis each, in place of the one that stood for all of it.
        gaps = sum(other in self.spans[piece.text] and other not in self._shown for other in (number - 1, number + 1))
        around = (
            (gaps - (not begins)) * self._measure.length(self._gap) + (self._heads[piece.text] if begins else 0) + 1
        )
        if around + self._measure.length(written) > self.left:
            if self._shown:
                return False
            written = clipped(written, self.left - around, self._measure)
        self.left -= around + self._measure.length(written)
        self._shown[number] = written
        self._begun.add(piece.text)
        return True

    def lines(self) -> list[str]:
        """What is shown of each text."""
        return [self._line(span) if number in self._begun else "" for number, span in enumerate(self.spans)]

    def _line(self, span: range) -> str:
        parts: list[str] = []
        before = span.start - 1
        for number in filter(self._shown.__contains__, span):
            if number > before + 1:
                parts.append(self._after(parts))
            elif parts and self._apart(number):
                parts.append(" ")
            parts.append(self._shown[number])
            before = number
        if before < span.stop - 1:
            parts.append(self._after(parts))
        return "".join(parts).strip()

    def _after(self, parts: Sequence[str]) -> str:
        """What stands for what is left out after `parts`."""
        return " " if parts and parts[-1].endswith(ELLIPSIS) else self._gap

    def _apart(self, number: int) -> bool:
        """Whether white space stands before a piece."""
        piece = self.pieces[number]
        between = self.texts[piece.text][self.pieces[number - 1].end - 1 : piece.start + 1]
        return any(map(str.isspace, between))


def _found(choice: _Choice, match: Match) -> list[Mapping[str, float]]:
    """The words that each piece holds, with points: the weight of the word, more where few pieces hold it."""
    found: list[Mapping[str, float]] = [{} for _ in choice.pieces]
    looked_at = 0
    for text, span in zip(choice.texts, choice.spans, strict=True):
        for first in span[::_TOGETHER]:
            together = choice.pieces[first : min(first + _TOGETHER, span.stop)]
            start, end = together[0].start, together[-1].end + _TORN_CHARS
            looked_at += end - start
            # Most of a long text holds none of the words: many pieces at once are known for that in half the time.
            if looked_at > _LOOKED_AT_CHARS or not match(together[0].text, text[start:end]):
                continue
            for number in range(first, first + len(together)):
                choice.mend(number, match)
                piece = choice.pieces[number]
                found[number] = match(piece.text, text[piece.start : piece.end])
    holders = Counter(word for words in found for word in words)
    rarity = {word: log(1 + (len(found) - count + 0.5) / (count + 0.5)) for word, count in holders.items()}
    return [{word: weight * rarity[word] for word, weight in words.items()} for words in found]


def _best(choice: _Choice, found: Sequence[Mapping[str, float]], room: int) -> list[int]:
    """Shows the pieces that hold most, each counting for the words that no better one holds, and gives them in that
    order. Half of the room is for what stands around them."""
    seeds: list[int] = []
    covered: set[str] = set()

    def place(number: int) -> tuple[float, bool, int]:
        points = sum(worth for word, worth in found[number].items() if word not in covered)
        return -points, choice.pieces[number].code > 0, number

    heap = [place(number) for number, words in enumerate(found) if words]
    heapify(heap)
    least = -_WORTHWHILE * heap[0][0] if heap else 0.0
    while heap and (not seeds or choice.left > room // 2):
        number = heap[0][2]
        # What it counts for may have become less since; never more.
        if (now := place(number)) != heap[0]:
            heapreplace(heap, now)
            continue
        if -now[0] < least:
            break
        heappop(heap)
        if seeds and choice.pieces[number].code and not choice.pieces[seeds[0]].code:
            continue  # code comes only where it matches best
        if choice.add(number):
            seeds.append(number)
            covered |= found[number].keys()
    return seeds


def _beginnings(choice: _Choice) -> list[int]:
    """Shows the first piece of each text that is no code, or else its first, as far as there is room."""
    firsts = (
        next((number for number in span if not choice.pieces[number].code), span.start) for span in choice.spans if span
    )
    return [number for number in firsts if choice.add(number)]


def _grow(choice: _Choice, ways: Sequence[tuple[int, Literal[1, -1]]]) -> None:
    """Shows what stands around the chosen pieces, one step in each of the `ways` after the other, as far as there is
    room. A way is where it begins, and 1 for what follows or -1 for what stands before."""
    walks = [choice.around(home, step) for home, step in ways]
    while walks:
        walks = [walk for walk in walks if (number := next(walk, None)) is not None and choice.add(number)]
