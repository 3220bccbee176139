"""Which passages of a memory answer a question: the sentences that hold its words, and their neighbours.

A text is cut into chunks: sentences, lines of code, and parts of what is longer than a sentence should be. The chunks
with the heaviest words come first (a word counts more if few chunks hold it), then their neighbours, as far as there
is room. Code comes only where it is what matches. Pure. Time is linear in the length of the text: each chunk is
looked at once.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from heapq import heapify, heappop, heapreplace
from math import log
from typing import Literal, NamedTuple

from memory_server.kernel.recalled_block import one_line
from memory_server.kernel.text import CHARS, ELLIPSIS, Measure, clipped
from memory_server.kernel.values import frozen

_MOST_CHARS = 120
"""Characters of a chunk at most, about twenty English words. A longer chunk is cut, best after a comma."""
_LEAST_CHARS = 24
"""Characters of a cut chunk at least, even if there is little room."""
_STUB_CHARS = 8
"""A shorter chunk is joined with the next one: the 1. of a list, Hi!, 好的。"""
_TORN_CHARS = 8
"""Characters that are looked at on either side of a cut within a word."""
_LONGEST_CHARACTER = 16
"""Code points that are looked at for the beginning of a character, with its accents and joined emoji."""
_LOOKED_AT_CHARS = 500_000
"""Characters of a memory that are searched, because the user waits: 100,000 take some 40 ms."""
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


Match = Callable[[int, str], Mapping[str, float]]
"""For a text number and a chunk of that text: the words of the question that the chunk holds, with their weights."""
Note = Callable[[int, str], str]
"""For a text number and a chunk of that text: what is written after it."""


@frozen
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
    texts: Sequence[str],
    heads: Sequence[int],
    match: Match,
    *,
    room: int,
    measure: Measure,
    spaced: bool,
    note: Note = lambda _number, _chunk: "",
) -> list[str]:
    """Return the part to show of each text of a memory, on one line; empty if the text is left out. Together they
    have at most `room`, including `heads[n]`, the length of the head of text n's line. If nothing matches, the
    beginnings are shown. An ellipsis marks what is left out, with blanks around it if `spaced`. `note` returns what
    is written after a chunk."""
    gap = f" {ELLIPSIS} " if spaced else ELLIPSIS
    choice = _Choice(texts, heads=heads, room=room, measure=measure, gap=gap, note=note)

    seeds = _best(choice, _word_points(choice, match), room)
    walks: list[Iterator[int]] = []
    if seeds:
        for seed in seeds:
            question = choice.question_before(seed)
            if question is not None:
                choice.add_sentence(question)

            walks += [choice.around(seed, 1), choice.around(seed, -1)]
    else:
        for span in filter(None, choice.spans):
            first = _first_prose(choice, span)
            if choice.add(first):
                walks.append(choice.around(first, 1))

    _grow(choice, walks)
    return choice.lines()


def _first_prose(choice: _Choice, span: range) -> int:
    """Return the first chunk of a text that is not code, or else its first chunk."""
    for number in span:
        if not choice.chunks[number].code:
            return number
    return span.start


def chunks_of(text: str, longest: int = _MOST_CHARS, number: int = 0) -> Iterator[Chunk]:
    """Yield the chunks of `text` in order, each of at most `longest` characters; white space may be between them."""
    fence: str | None = None
    """The mark that opened the fenced block of this line."""
    block = 0
    was_code = False
    for line in _LINE.finditer(text):
        line_text = line[0]
        if not line_text.strip():
            continue

        mark = _FENCE.match(line_text)
        is_code = fence is not None or mark is not None or _INDENTED.match(line_text) is not None
        if is_code and not was_code:
            block += 1
        was_code = is_code

        # A fence closes with at least as many marks as opened it.
        if mark is not None:
            if fence is None:
                fence = mark[1]
            elif mark[1].startswith(fence) and not mark[2].strip():
                fence = None

        # Code has no sentences: its lines stay whole.
        if is_code:
            ends = [line.end()]
        else:
            ends = [line.start() + sentence_end.end() for sentence_end in _END.finditer(line_text)]
            ends.append(line.end())

        start = line.start()
        for end in ends:
            # A stub such as `1.` belongs to the sentence after it.
            is_stub = end - start < _STUB_CHARS and end < line.end()
            if is_stub or not text[start:end].strip():
                continue

            sentence = Chunk(number, start, end, code=block if is_code else 0)
            yield from _parts(text, sentence, longest)
            start = end


def _parts(text: str, sentence: Chunk, longest: int) -> Iterator[Chunk]:
    """Yield a sentence of `text` in chunks that are not too long, cut after a comma or the like if possible."""
    rest = sentence
    while rest.end - rest.start > longest:
        latest = rest.start + min(longest, rest.end - rest.start - _STUB_CHARS)
        pauses = [pause.end() for pause in _PAUSE.finditer(text, rest.start + longest // 2, latest)]
        cut = pauses[-1] if pauses else _between_characters(text, latest)
        yield replace(rest, end=cut, torn=not pauses)
        rest = replace(rest, start=cut, within=True)
    yield rest


def _between_characters(text: str, cut: int) -> int:
    """Return this place in `text`, or a place a little before it, that does not separate a character from its accents
    or the parts of an emoji."""
    for nearer in range(cut, cut - _LONGEST_CHARACTER, -1):
        char = text[nearer]
        is_joined = (
            unicodedata.category(char) in ("Mn", "Mc", "Me", "Cf")
            or "\U0001f3fb" <= char <= "\U0001f3ff"
        )
        if not is_joined and text[nearer - 1] != "\u200d":
            return nearer
    return cut


def first_sentences(text: str, most: int) -> str:
    """Return the sentences at the beginning of `text` that fit into `most` characters; if not even the first one
    fits, its beginning with an ellipsis; the whole text if it fits."""
    if len(text) <= most:
        return text
    ends = [sentence_end.end() for sentence_end in _END.finditer(text[: most + 1])]
    fitting_ends = [end for end in ends if end <= most]
    if not fitting_ends:
        return clipped(text, most, CHARS)
    return text[: fitting_ends[-1]]


def ends_asking(text: str) -> bool:
    """Return whether `text` ends with a question mark."""
    return text.rstrip(_AFTER_A_MARK).endswith(("?", "？", "؟"))


class _Choice:
    """The chunks that are shown so far, and the room that is left."""

    def __init__(
        self,
        texts: Sequence[str],
        *,
        heads: Sequence[int],
        room: int,
        measure: Measure,
        gap: str,
        note: Note,
    ) -> None:
        """Cut the texts into chunks, of which none is shown yet. The parameters are those of
        `passages`; `gap` is the sign for what is left out."""
        self.texts = texts
        self.room_left = room
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
        self._note = note
        self._shown: dict[int, str] = {}
        """The chosen chunks as they are written."""
        self._begun: set[int] = set()
        """The texts of which something is shown."""

    def mend(self, number: int, match: Match) -> None:
        """Move the end of a chunk so that a word of the question that was cut there is whole in the next chunk."""
        chunk = self.chunks[number]
        if not chunk.torn:
            return
        text = self.texts[chunk.text]
        end = chunk.end
        earlier_end = _between_characters(text, end - _TORN_CHARS)
        before = match(chunk.text, text[earlier_end:end])
        after = match(chunk.text, text[end : end + _TORN_CHARS])
        across = match(chunk.text, text[earlier_end : end + _TORN_CHARS])
        if across.keys() - before.keys() - after.keys():
            self.chunks[number] = replace(chunk, end=earlier_end)
            self.chunks[number + 1] = replace(self.chunks[number + 1], start=earlier_end)

    def around(self, home: int, step: Literal[1, -1]) -> Iterator[int]:
        """Yield the chunks after or before a chunk that are not shown yet, the nearest first; code only from its own
        block."""
        home_chunk = self.chunks[home]
        numbers = range(home + 1, len(self.chunks)) if step > 0 else range(home - 1, -1, -1)
        for number in numbers:
            if number in self._shown:
                continue
            chunk = self.chunks[number]
            is_of_home_block = chunk.text == home_chunk.text and chunk.code == home_chunk.code
            if not chunk.code or is_of_home_block:
                yield number

    def question_before(self, number: int) -> int | None:
        """Return the last chunk of the text before a chunk's text, if it ends with the question that the chunk
        answers; otherwise None."""
        text_number = self.chunks[number].text
        if text_number == 0:
            return None
        for last in reversed(self.spans[text_number - 1]):
            if not self.chunks[last].code:
                return last if ends_asking(self._text_of(last)) else None
        return None

    def _text_of(self, number: int) -> str:
        """Return the text of a chunk."""
        chunk = self.chunks[number]
        return self.texts[chunk.text][chunk.start : chunk.end]

    def add_sentence(self, number: int) -> bool:
        """Show a chunk with what its sentence has before it, or nothing: "by then?" says nothing by itself. Return
        whether all of it is shown now that was not."""
        first = number
        while self.chunks[first].within and first not in self._shown:
            first -= 1
        parts = [part for part in range(first, number + 1) if part not in self._shown]
        if not parts:
            return False
        if len(parts) > 1:
            chunk = self.chunks[number]
            sentence = self.texts[chunk.text][self.chunks[parts[0]].start : chunk.end]
            most_around = self._heads[chunk.text] + 2 * self._measure.length(self._gap) + 1
            if self._measure.length(sentence) + most_around > self.room_left:
                return False
        return all(map(self.add, parts))

    def add(self, number: int) -> bool:
        """Show a chunk, and return whether it was not shown before and there was room for it. The
        first chunk of all is cut to the room."""
        if number in self._shown:
            return False
        chunk = self.chunks[number]
        text = self._text_of(number)
        line = one_line(text)
        if not chunk.code:
            line += self._note(chunk.text, line)

        around = self._length_around(number) + 1
        if around + self._measure.length(line) > self.room_left:
            if self._shown:
                return False
            line = clipped(one_line(text), self.room_left - around, self._measure)

        self.room_left -= around + self._measure.length(line)
        self._shown[number] = line
        self._begun.add(chunk.text)
        return True

    def _length_around(self, number: int) -> int:
        """Return the room that a chunk takes beside its own length, if it is shown: the head of its text, unless a
        chunk of that text is shown, and ellipses. It is negative if the chunk closes a gap."""
        text_number = self.chunks[number].text
        # The gaps before it and after it have an ellipsis each, in place of a single ellipsis for the whole gap.
        gap_count = 0
        for neighbour in (number - 1, number + 1):
            if neighbour in self.spans[text_number] and neighbour not in self._shown:
                gap_count += 1
        if text_number not in self._begun:
            return gap_count * self._measure.length(self._gap) + self._heads[text_number]
        return (gap_count - 1) * self._measure.length(self._gap)

    def lines(self) -> list[str]:
        """Return what is shown of each text, on one line; empty if nothing is."""
        return [
            self._line(span) if number in self._begun else ""
            for number, span in enumerate(self.spans)
        ]

    def _line(self, span: range) -> str:
        """Return the shown chunks of a text on one line, with a gap where something is left out;
        `span` has the numbers of all its chunks."""
        parts: list[str] = []
        previous = span.start - 1
        for number in filter(self._shown.__contains__, span):
            if number > previous + 1:
                parts.append(self._gap_after(parts))
            elif parts and self._has_space_before(number):
                parts.append(" ")
            parts.append(self._shown[number])
            previous = number
        if previous < span.stop - 1:
            parts.append(self._gap_after(parts))
        return "".join(parts).strip()

    def _gap_after(self, parts: Sequence[str]) -> str:
        """Return the sign for what is left out after `parts`."""
        if parts and parts[-1].endswith(ELLIPSIS):
            return " "
        return self._gap

    def _has_space_before(self, number: int) -> bool:
        """Return whether white space precedes a chunk."""
        chunk = self.chunks[number]
        between = self.texts[chunk.text][self.chunks[number - 1].end - 1 : chunk.start + 1]
        return any(map(str.isspace, between))


def _word_points(choice: _Choice, match: Match) -> list[Mapping[str, float]]:
    """Return the words that each chunk holds, with points: the weight of the word, more where few chunks hold it.
    Chunks that cut a word in two are mended. Of a very long memory, only the first chunks are looked at."""
    weights: list[Mapping[str, float]] = [{} for _ in choice.chunks]
    looked_at = 0
    for text, span in zip(choice.texts, choice.spans, strict=True):
        for first in span[::_TOGETHER]:
            together = choice.chunks[first : min(first + _TOGETHER, span.stop)]
            start = together[0].start
            end = together[-1].end + _TORN_CHARS
            looked_at += end - start
            # Most chunks of a long text hold none of the words: checking many chunks at once takes half the time.
            if looked_at > _LOOKED_AT_CHARS or not match(together[0].text, text[start:end]):
                continue

            for number in range(first, first + len(together)):
                choice.mend(number, match)
                chunk = choice.chunks[number]
                weights[number] = match(chunk.text, text[chunk.start : chunk.end])

    holders: Counter[str] = Counter()
    for words in weights:
        holders.update(words.keys())
    # The rarity of a word is its idf among these chunks.
    rarity = {
        word: log(1 + (len(weights) - count + 0.5) / (count + 0.5))
        for word, count in holders.items()
    }
    return [_rarity_weighted(words, rarity) for words in weights]


def _rarity_weighted(weights: Mapping[str, float], rarity: Mapping[str, float]) -> dict[str, float]:
    return {word: weight * rarity[word] for word, weight in weights.items()}


class _Rank(NamedTuple):
    """The rank of a chunk among others: less is better."""

    negative_points: float
    is_code: bool
    number: int


def _best(choice: _Choice, word_points: Sequence[Mapping[str, float]], room: int) -> list[int]:
    """Show the best chunks and return them in that order; a chunk counts only for words that no better chunk holds,
    and one without room is passed over. Half of the room is for the chunks around them; chunks far below the best are
    not shown."""
    seeds: list[int] = []
    covered: set[str] = set()

    def rank(number: int) -> _Rank:
        new_points = [points for word, points in word_points[number].items() if word not in covered]
        return _Rank(-sum(new_points), choice.chunks[number].code > 0, number)

    heap = [rank(number) for number, words in enumerate(word_points) if words]
    if not heap:
        return seeds
    heapify(heap)
    least_points = _WORTHWHILE * -heap[0].negative_points
    while heap and (not seeds or choice.room_left > room // 2):
        number = heap[0].number
        # Its points may have fallen since, but they never rise.
        present_rank = rank(number)
        if present_rank != heap[0]:
            heapreplace(heap, present_rank)
            continue
        if -present_rank.negative_points < least_points:
            break
        heappop(heap)
        if seeds and choice.chunks[number].code and not choice.chunks[seeds[0]].code:
            continue  # code comes only where it matches best
        if choice.add(number):
            seeds.append(number)
            covered |= word_points[number].keys()
    return seeds


def _grow(choice: _Choice, walks: Sequence[Iterator[int]]) -> None:
    """Show the chunks around the chosen ones, one step in each of the walks in turn, as far as there is room. A walk
    that finds no room ends."""
    while walks:
        walks = [walk for walk in walks if _step(choice, walk)]


def _step(choice: _Choice, walk: Iterator[int]) -> bool:
    """Show the next chunk of a walk. Return False if the walk has ended, or the chunk has no room."""
    number = next(walk, None)
    return number is not None and choice.add_sentence(number)
