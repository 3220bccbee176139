"""Which passages of a memory answer a question: the sentences that hold its words, and those around them.

A text is cut into chunks: sentences, lines of code, and parts of what is longer than a sentence should be. The chunks
with the heaviest words come first, a word that few chunks hold counting more than one that many do; then their
neighbours, as far as there is room. Code comes only where it is what matches. Pure. Time is linear in the length of
the text: each chunk is looked at once.
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

from memory_server.kernel.recalled_block import one_line

ELLIPSIS = "…"

_MOST_CHARS = 120
"""Characters of a chunk at most, about twenty English words. A longer one is cut, best after a comma."""
_LEAST_CHARS = 24
"""Characters of a cut chunk at least, even if there is little room."""
_STUB_CHARS = 8
"""A shorter chunk is joined with the next one: the 1. of a list, Hi!, 好的。"""
_TORN_CHARS = 8
"""Characters that are looked at on either side of a cut within a word."""
_LOOKED_AT_CHARS = 500_000
"""Characters of one memory that are searched, because somebody waits: 100,000 take some 40 ms."""
_TOGETHER = 32
"""Chunks that are looked at together first."""
_WORTHWHILE = 0.25
"""A share of the points of the best chunk: a chunk with less is not better than the neighbours of the best one."""

_LINE = re.compile("[^\n\r\v\f\x1c-\x1e\x85\u2028\u2029]+")
_FENCE = re.compile(r"\s{0,12}(`{3,}+|~{3,}+)([^`\n]*)$")
_INDENTED = re.compile(r"(?: {4}|\t)\s*(?!(?:[-*+•]|\d{1,3}[.)、])\s)\S")
"""Indented by four blanks and without a list mark, as code in Markdown."""
_END = re.compile(
    r"(?:[。！？｡…]++"
    r"|(?<![!?])[!?]++(?![A-Za-z0-9_=/&.,;:])"  # not a!=b, not ?x=1
    r"|(?<!\.)\.++(?=[\"')\]”’]{0,3}(?:\s|$))"  # not 3.5, not freeze.py
    r"|(?<=[^\x00-\x7f])\.(?![A-Za-z0-9_.]))"
    r"[\"')\]”’」』）】]{0,3}"
)
_AFTER_A_MARK = " \n\r\t\"')]”’」』）】"
_PAUSE = re.compile(r"[，、；：,;:](?!\d)|\s")


@dataclass(frozen=True, slots=True)
class Measure:
    """The length of a text, and the beginning of a text of a given length: in bytes of UTF-8, or in characters."""

    length: Callable[[str], int]
    beginning: Callable[[str, int], str]
    least: int
    """A shorter extract of a memory would say too little."""


BYTES = Measure(lambda text: len(text.encode()), lambda text, n: text[:n].encode()[:n].decode(errors="ignore"), 90)
"""At least thirty Chinese characters of three bytes."""
CHARS = Measure(len, lambda text, n: text[:n], 45)

Match = Callable[[int, str], Mapping[str, float]]
"""For a text number and a chunk of that text: the words of the question that the chunk holds, with their weights."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """`texts[text][start:end]`. `code` is the number of its block of code; 0 outside of code. `torn`: a word may
    continue after its end. `within`: it begins within a sentence."""

    text: int
    start: int
    end: int
    code: int = 0
    torn: bool = False
    within: bool = False


def passages(
    texts: Sequence[str], heads: Sequence[int], match: Match, *, room: int, measure: Measure, spaced: bool
) -> list[str]:
    """For each text of one memory the part to show, on one line; empty if the text is left out. Together they have at
    most `room`, including `heads[n]`, the length of what stands before the line of text n. If nothing matches, the
    beginnings are shown. An ellipsis marks what is left out; `spaced`: with blanks around it."""
    choice = _Choice(texts, heads, room, measure, f" {ELLIPSIS} " if spaced else ELLIPSIS)
    seeds = _best(choice, _found(choice, match), room)
    if seeds:
        for asked in map(choice.before, seeds):
            if asked is not None:
                choice.add_sentence(asked)
        _grow(choice, [way for seed in seeds for way in ((seed, 1), (seed, -1))])
    else:
        # Of each text the first chunk that is not code, or else its first chunk.
        spans, chunks = filter(None, choice.spans), choice.chunks
        firsts = [next((number for number in span if not chunks[number].code), span.start) for span in spans]
        _grow(choice, [(first, 1) for first in firsts if choice.add(first)])
    return choice.lines()


def chunks_of(text: str, longest: int = _MOST_CHARS, number: int = 0) -> Iterator[Chunk]:
    """The chunks of `text` in order, each of at most `longest` characters; white space may be between them."""
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


def _parts(text: str, start: int, end: int, longest: int, number: int, code: int) -> Iterator[Chunk]:
    """`text[start:end]` in parts that are not too long, cut after a comma or the like if possible."""
    first = start
    while end - start > longest:
        latest = start + min(longest, end - start - _STUB_CHARS)
        pauses = [pause.end() for pause in _PAUSE.finditer(text, start + longest // 2, latest)]
        place = pauses[-1] if pauses else _between_characters(text, latest)
        yield Chunk(number, start, place, code, not pauses, start > first)
        start = place
    yield Chunk(number, start, end, code, within=start > first)


def _between_characters(text: str, place: int) -> int:
    """The place, or one a little before it, that does not separate a character from its accents or the parts of an
    emoji."""
    for nearer in range(place, place - 16, -1):
        char = text[nearer]
        joined = unicodedata.category(char) in ("Mn", "Mc", "Me", "Cf") or "\U0001f3fb" <= char <= "\U0001f3ff"
        if not joined and text[nearer - 1] != "\u200d":
            return nearer
    return place


def clipped(text: str, most: int, measure: Measure) -> str:
    """`text`, or as much of it as fits with an ellipsis; characters and joined emoji stay whole."""
    if measure.length(text) <= most:
        return text
    kept = measure.beginning(text, max(0, most - measure.length(ELLIPSIS)))
    while kept and (kept[-1].isspace() or unicodedata.category(kept[-1]) == "Cf"):
        kept = kept[:-1]
    return kept + ELLIPSIS


def ends_asking(text: str) -> bool:
    """Whether `text` ends with a question mark."""
    return text.rstrip(_AFTER_A_MARK).endswith(("?", "？", "؟"))


class _Choice:
    """The chunks that are shown so far, and the room that is left."""

    def __init__(self, texts: Sequence[str], heads: Sequence[int], room: int, measure: Measure, gap: str) -> None:
        self.texts = texts
        self.left = room
        self.chunks: list[Chunk] = []
        longest = max(_LEAST_CHARS, min(_MOST_CHARS, room // 4))
        self.spans: list[range] = []
        """The chunks of each text."""
        for number, text in enumerate(texts):
            first = len(self.chunks)
            self.chunks += chunks_of(text, longest, number)
            self.spans.append(range(first, len(self.chunks)))
        self._heads = heads
        self._measure = measure
        self._gap = gap
        self._shown: dict[int, str] = {}
        """The chosen chunks as they are written."""
        self._begun: set[int] = set()
        """The texts of which something is shown."""

    def mend(self, number: int, match: Match) -> None:
        """Move the end of a chunk so that a word of the question that was cut there is whole in the next chunk."""
        chunk = self.chunks[number]
        if not chunk.torn:
            return
        text, end = self.texts[chunk.text], chunk.end
        place = _between_characters(text, end - _TORN_CHARS)
        before, after = (match(chunk.text, part) for part in (text[place:end], text[end : end + _TORN_CHARS]))
        if match(chunk.text, text[place : end + _TORN_CHARS]).keys() - before.keys() - after.keys():
            self.chunks[number] = replace(chunk, end=place)
            self.chunks[number + 1] = replace(self.chunks[number + 1], start=place)

    def around(self, home: int, step: Literal[1, -1]) -> Iterator[int]:
        """The chunks after or before a chunk that are not shown yet, the nearest first; code only from its own
        block."""
        at_home = self.chunks[home]
        for number in range(home + 1, len(self.chunks)) if step > 0 else range(home - 1, -1, -1):
            chunk = self.chunks[number]
            if number not in self._shown and (
                not chunk.code or (chunk.text, chunk.code) == (at_home.text, at_home.code)
            ):
                yield number

    def before(self, number: int) -> int | None:
        """The last chunk of the text before that of a chunk, if it ends with the question that this one answers; None
        if it does not."""
        earlier = self.spans[self.chunks[number].text - 1] if self.chunks[number].text else ()
        last = next((last for last in reversed(earlier) if not self.chunks[last].code), None)
        if last is None:
            return None
        chunk = self.chunks[last]
        return last if ends_asking(self.texts[chunk.text][chunk.start : chunk.end]) else None

    def add_sentence(self, number: int) -> bool:
        """Show a chunk with what its sentence has before it, or nothing: "by then?" says nothing by itself."""
        first = number
        while self.chunks[first].within and first not in self._shown:
            first -= 1
        parts = [part for part in range(first, number + 1) if part not in self._shown]
        if not parts:
            return False
        chunk = self.chunks[number]
        length = self._measure.length(self.texts[chunk.text][self.chunks[parts[0]].start : chunk.end])
        spare = self._heads[chunk.text] + 2 * self._measure.length(self._gap) + 1
        return (len(parts) == 1 or length + spare <= self.left) and all(map(self.add, parts))

    def add(self, number: int) -> bool:
        """Show a chunk, if it is not shown and there is room for it; the first chunk is cut if there is not enough
        room."""
        if number in self._shown:
            return False
        chunk = self.chunks[number]
        written = one_line(self.texts[chunk.text][chunk.start : chunk.end])
        begins = chunk.text not in self._begun
        # The gaps before it and after it have an ellipsis each, in place of one for the whole gap.
        gaps = sum(other in self.spans[chunk.text] and other not in self._shown for other in (number - 1, number + 1))
        around = (
            (gaps - (not begins)) * self._measure.length(self._gap) + (self._heads[chunk.text] if begins else 0) + 1
        )
        if around + self._measure.length(written) > self.left:
            if self._shown:
                return False
            written = clipped(written, self.left - around, self._measure)
        self.left -= around + self._measure.length(written)
        self._shown[number] = written
        self._begun.add(chunk.text)
        return True

    def lines(self) -> list[str]:
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
        """The sign for what is left out after `parts`."""
        return " " if parts and parts[-1].endswith(ELLIPSIS) else self._gap

    def _apart(self, number: int) -> bool:
        """Whether white space stands before a chunk."""
        chunk = self.chunks[number]
        between = self.texts[chunk.text][self.chunks[number - 1].end - 1 : chunk.start + 1]
        return any(map(str.isspace, between))


def _found(choice: _Choice, match: Match) -> list[Mapping[str, float]]:
    """The words that each chunk holds, with points: the weight of the word, more where few chunks hold it."""
    found: list[Mapping[str, float]] = [{} for _ in choice.chunks]
    looked_at = 0
    for text, span in zip(choice.texts, choice.spans, strict=True):
        for first in span[::_TOGETHER]:
            together = choice.chunks[first : min(first + _TOGETHER, span.stop)]
            start, end = together[0].start, together[-1].end + _TORN_CHARS
            looked_at += end - start
            # Most chunks of a long text hold none of the words: checking many chunks at once takes half the time.
            if looked_at > _LOOKED_AT_CHARS or not match(together[0].text, text[start:end]):
                continue
            for number in range(first, first + len(together)):
                choice.mend(number, match)
                chunk = choice.chunks[number]
                found[number] = match(chunk.text, text[chunk.start : chunk.end])
    holders = Counter(word for words in found for word in words)
    rarity = {word: log(1 + (len(found) - count + 0.5) / (count + 0.5)) for word, count in holders.items()}
    return [{word: weight * rarity[word] for word, weight in words.items()} for words in found]


def _best(choice: _Choice, found: Sequence[Mapping[str, float]], room: int) -> list[int]:
    """Show the best chunks and return them in that order; a chunk counts only for words that no better chunk holds.
    Half of the room is for the chunks around them."""
    seeds: list[int] = []
    covered: set[str] = set()

    def place(number: int) -> tuple[float, bool, int]:
        points = sum(worth for word, worth in found[number].items() if word not in covered)
        return -points, choice.chunks[number].code > 0, number

    heap = [place(number) for number, words in enumerate(found) if words]
    heapify(heap)
    least = -_WORTHWHILE * heap[0][0] if heap else 0.0
    while heap and (not seeds or choice.left > room // 2):
        number = heap[0][2]
        # Its points may have fallen since, but they never rise.
        if (now := place(number)) != heap[0]:
            heapreplace(heap, now)
            continue
        if -now[0] < least:
            break
        heappop(heap)
        if seeds and choice.chunks[number].code and not choice.chunks[seeds[0]].code:
            continue  # code comes only where it matches best
        if choice.add(number):
            seeds.append(number)
            covered |= found[number].keys()
    return seeds


def _grow(choice: _Choice, ways: Sequence[tuple[int, Literal[1, -1]]]) -> None:
    """Show the chunks around the chosen ones, one step in each of the `ways` in turn, as far as there is room. A way is
    the chunk where it begins, and 1 for forwards or -1 for backwards."""
    walks = [choice.around(home, step) for home, step in ways]
    while walks:
        walks = [walk for walk in walks if (number := next(walk, None)) is not None and choice.add_sentence(number)]
