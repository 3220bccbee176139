"""The memories that came and are put into a prompt: each of them whole, as far as the room goes. Pure.

The room is filled in the order of the activation: what stays comes first, then the highest order. The first memory that
does not fit ends it. So more room never loses a memory. In the text the order is reversed: the highest order is last,
nearest to what is said next. The rules are those of SillyTavern (public/scripts/world-info.js).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import Literal

from memory_server.kernel.values import dataclass
from memory_server.lore.memory import Shelved

Reason = Literal["room", "same_text"]
"""Why a memory was left out: there was no room for it, or its text is there already."""
_SHORT_TERM_LEAST = 1_200
"""Characters that short-term memories keep for themselves, if that is at most half of all: as many as a whole prompt
had before lorebooks came whole."""
_SHORT_TERM_SHARE = 4
"""Short-term memories keep one part in so many of more room."""
_LEAST_CHARS = 40
"""Characters of a text that is cut, at least: fewer say nothing."""


@dataclass(frozen=True, slots=True)
class Room:
    """Characters of a block. `long_term` is the budget of memories with triggers. `ignoring_budget` is the further room
    of memories that ignore the budget. `short_term` is the most room of short-term memories, within the rest of
    `total`. The part of `total` above `long_term` is the reserve."""

    total: int
    long_term: int
    ignoring_budget: int
    short_term: int
    lends: bool = False
    """Whether memories with triggers also have that part of the reserve which short-term ones cannot use."""

    @staticmethod
    def of(max_chars: int) -> Room:
        """Return the room of a prompt with this many characters."""
        most_for_short_term = max(_SHORT_TERM_LEAST, max_chars // _SHORT_TERM_SHARE)
        reserved = min(most_for_short_term, max_chars // 2)
        return Room(max_chars, max_chars - reserved, reserved, most_for_short_term, lends=True)

    def with_lent_reserve(self, needed_reserve: int) -> Room:
        """Return the same room where memories with triggers also have the reserve above `needed_reserve` characters.
        The caller counts what short-term memories need without a bound, so that more room never takes room from another
        memory."""
        reserve = self.total - self.long_term
        if not self.lends or needed_reserve >= reserve:
            return self
        return replace(self, long_term=self.total - needed_reserve)


@dataclass(frozen=True, slots=True)
class LoreText:
    """A memory in its form in a prompt: its name and its text, on one line."""

    entry: Shelved
    head: str
    body: str
    key: str
    """It names this version of the memory, for what a session was given."""
    is_chinese: bool
    is_cut: bool = False

    @property
    def line(self) -> str:
        return self.head + self.body

    @property
    def chars(self) -> int:
        """Characters with the end of the line."""
        return len(self.line) + 1


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A memory that came to mind and is not in the prompt."""

    entry: Shelved
    chars: int
    reason: Reason


@dataclass(frozen=True, slots=True)
class Fitting:
    """What is in the prompt, in the order of the text, and what is not."""

    texts: tuple[LoreText, ...] = ()
    left_out: tuple[LeftOut, ...] = ()

    @property
    def came(self) -> Sequence[Shelved]:
        return [text.entry for text in self.texts]

    @property
    def chars(self) -> int:
        """Characters of all texts, each with the end of its line."""
        return sum(text.chars for text in self.texts)


def head_of(name: str, *, is_chinese: bool) -> str:
    """Return the beginning of the line of a memory in a prompt."""
    return f"【{name}】" if is_chinese else f"[{name}] "


def fitting(
    texts: Sequence[LoreText],
    room: Room,
    beginning: Callable[[str, int], str],
    known_keys: Collection[str] = (),
) -> Fitting:
    """Decide which of the memories that came fit, in the order in which they take room. `beginning` returns the first
    sentences of a text, within so many characters. `known_keys` are the keys of texts that the reader has; these take
    no room."""
    new_texts = [text for text in texts if text.body and text.key not in known_keys]
    chosen: list[LoreText] = []
    bodies: set[str] = set()
    missing: list[LoreText] = []
    used_chars = 0
    used_chars_beside = 0

    for number, text in enumerate(new_texts):
        if text.body in bodies:
            missing.append(text)
            continue

        ignores_budget = text.entry.rules.ignores_budget
        # A text that does not fit counts too: the first such text ends the room.
        used_chars += text.chars
        if ignores_budget:
            used_chars_beside += text.chars

        fits = used_chars <= room.long_term
        fits_beside = ignores_budget and used_chars_beside <= room.ignoring_budget
        if fits or fits_beside:
            chosen.append(text)
            bodies.add(text.body)
            continue

        # Only the first text is cut: if not even it fits, its beginning says more than nothing.
        cut_text = _cut(text, room.long_term, beginning) if number == 0 else None
        if cut_text is None:
            missing.append(text)
        else:
            chosen.append(cut_text)

    in_order = sorted(chosen, key=lambda text: -text.entry.rules.order)
    left_out = [_left_out(text, bodies) for text in missing]
    return Fitting(tuple(reversed(in_order)), tuple(left_out))


def _left_out(text: LoreText, bodies: Collection[str]) -> LeftOut:
    """Return a text that is not in the prompt, with the reason. `bodies` are the texts that are in the prompt whole."""
    reason: Reason = "same_text" if text.body in bodies else "room"
    return LeftOut(text.entry, len(text.body), reason)


def _cut(text: LoreText, room: int, beginning: Callable[[str, int], str]) -> LoreText | None:
    """Return the first sentences of a text that is longer than all the room, with what was cut, or None if not even one
    sentence fits."""
    longest_note = _cut_note(len(text.body), is_chinese=text.is_chinese)
    body_room = room - len(text.head) - len(longest_note) - 1  # 1: the end of the line
    if body_room < _LEAST_CHARS:
        return None
    first_sentences = beginning(text.body, body_room)
    note = _cut_note(len(text.body) - len(first_sentences), is_chinese=text.is_chinese)
    return replace(text, body=first_sentences + note, is_cut=True)


def _cut_note(missing: int, *, is_chinese: bool) -> str:
    """Return the note that follows a text from which so many characters are missing."""
    return (
        f"（后面还有 {missing} 个字符没有放下）"
        if is_chinese
        else f" (cut here: {missing} more characters)"
    )
