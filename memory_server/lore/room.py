"""Which of the memories that came are put into a prompt: each of them whole, as far as the room goes. Pure.

The room is filled in the order of the activation: what stays comes first, then the highest order. The first memory that
does not fit ends it. So more room never loses a memory. In the text they stand the other way round: the highest order
is last, nearest to what is said next. The rules are those of SillyTavern (public/scripts/world-info.js).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Generic, Literal, TypeVar

from memory_server.lore.entries import Entry

E = TypeVar("E", bound=Entry)

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
    """Characters of a block. `long_term`: the budget of memories with triggers. `ignoring_budget`: what those of them
    that ignore the budget have beyond it. `short_term`: what short-term memories have at most, of what is left of
    `total`. The part of `total` above `long_term` is the reserve."""

    total: int
    long_term: int
    ignoring_budget: int
    short_term: int
    lends: bool = False
    """Whether memories with triggers also have that part of the reserve which short-term ones cannot use."""

    @staticmethod
    def of(max_chars: int) -> Room:
        """The room of a prompt with this many characters."""
        most_for_short_term = max(_SHORT_TERM_LEAST, max_chars // _SHORT_TERM_SHARE)
        reserved = min(most_for_short_term, max_chars // 2)
        return Room(max_chars, max_chars - reserved, reserved, most_for_short_term, lends=True)

    def with_lent_reserve(self, needed_reserve: int) -> Room:
        """The same room where memories with triggers also have the reserve above `needed_reserve` characters. The
        caller counts what short-term memories need without a bound, so that more room never takes room from another
        memory."""
        reserve = self.total - self.long_term
        if not self.lends or needed_reserve >= reserve:
            return self
        return replace(self, long_term=self.total - needed_reserve)


@dataclass(frozen=True, slots=True)
class LoreText(Generic[E]):
    """A memory as it stands in a prompt: its name and its text, on one line."""

    entry: E
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
class LeftOut(Generic[E]):
    """A memory that came to mind and is not in the prompt."""

    entry: E
    chars: int
    reason: Reason


@dataclass(frozen=True, slots=True)
class Fitting(Generic[E]):
    """What is in the prompt, in the order of the text, and what is not."""

    texts: tuple[LoreText[E], ...] = ()
    left_out: tuple[LeftOut[E], ...] = ()

    @property
    def came(self) -> Sequence[E]:
        return [text.entry for text in self.texts]

    @property
    def chars(self) -> int:
        """Characters of all texts, each with the end of its line."""
        return sum(text.chars for text in self.texts)


def head_of(name: str, *, is_chinese: bool) -> str:
    """What stands before the text of a memory."""
    return f"【{name}】" if is_chinese else f"[{name}] "


def text_key(name: str, conversation_id: str, created_ms: int, updated_ms: int | None) -> str:
    """The key of a version of a memory."""
    version = f"{created_ms} {updated_ms} {conversation_id} {name}"
    return blake2b(version.encode(errors="replace"), digest_size=6).hexdigest()


def fitting(
    texts: Sequence[LoreText[E]],
    room: Room,
    beginning: Callable[[str, int], str],
    known_keys: Collection[str] = (),
) -> Fitting[E]:
    """Which texts fit, of the memories that came, in the order in which they take room. `beginning`: the first
    sentences of a text, within so many characters. `known_keys`: those of texts that the reader has; these take no
    room."""
    new_texts = [text for text in texts if text.body and text.key not in known_keys]
    chosen: list[LoreText[E]] = []
    bodies: set[str] = set()
    missing: list[LoreText[E]] = []
    used_chars = 0
    used_chars_beside = 0
    for number, text in enumerate(new_texts):
        if text.body in bodies:
            missing.append(text)
            continue
        ignores_budget = text.entry.rules.ignores_budget
        used_chars += (
            text.chars
        )  # also of a text that does not fit: the first one of these ends the room
        if ignores_budget:
            used_chars_beside += text.chars
        fits = used_chars <= room.long_term
        fits_beside = ignores_budget and used_chars_beside <= room.ignoring_budget
        if fits or fits_beside:
            chosen.append(text)
            bodies.add(text.body)
            continue
        cut_text = _cut(text, room.long_term, beginning) if number == 0 else None
        if cut_text is None:
            missing.append(text)
        else:
            chosen.append(cut_text)
    in_order = sorted(chosen, key=lambda text: -text.entry.rules.order)
    left_out = [_left_out(text, bodies) for text in missing]
    return Fitting(tuple(reversed(in_order)), tuple(left_out))


def _left_out(text: LoreText[E], bodies: Collection[str]) -> LeftOut[E]:
    """A text that is not in the prompt, with the reason. `bodies`: the texts that stand there whole."""
    reason: Reason = "same_text" if text.body in bodies else "room"
    return LeftOut(text.entry, len(text.body), reason)


def _cut(text: LoreText[E], room: int, beginning: Callable[[str, int], str]) -> LoreText[E] | None:
    """The first sentences of a text that is longer than all the room, with what was cut; None: not even one fits."""
    longest_note = _cut_note(len(text.body), is_chinese=text.is_chinese)
    body_room = room - len(text.head) - len(longest_note) - 1  # 1: the end of the line
    if body_room < _LEAST_CHARS:
        return None
    first_sentences = beginning(text.body, body_room)
    note = _cut_note(len(text.body) - len(first_sentences), is_chinese=text.is_chinese)
    return replace(text, body=first_sentences + note, is_cut=True)


def _cut_note(missing: int, *, is_chinese: bool) -> str:
    """What stands behind a text from which so many characters are missing."""
    return (
        f"（后面还有 {missing} 个字符没有放下）"
        if is_chinese
        else f" (cut here: {missing} more characters)"
    )
