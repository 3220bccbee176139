"""Texts as they are shown, with a note after each sentence that names a day: `[Wednesday, 24 June: in 3 days]`.

The stored text does not change, and a note that comes back in a turn is removed (`kernel/recalled_block.py`). Pure.
"""

from __future__ import annotations

from datetime import tzinfo

from memory_server.conversations.recall.passages import chunks_of
from memory_server.kernel.text import has_ideograph
from memory_server.kernel.times import local
from memory_server.kernel.values import frozen
from nlp.day_notes import day_note

MOST_CHARS = 6_000
"""Characters of a text that is shown with notes: they take some milliseconds."""


@frozen
class DayNotes:
    """Who reads notes on days: when and where (None: the system's zone). `are_shown`: whether days are read at all."""

    now_ms: int
    zone: tzinfo | None
    are_shown: bool = True

    def after(self, sentence: str, said_ms: int) -> str:
        """Return the note that follows a sentence which was said at `said_ms`; empty if it names no day, or if the
        time is 0, which means unknown."""
        if not self.are_shown or not said_ms:
            return ""
        today = local(self.now_ms, self.zone).date()
        note = day_note(sentence, local(said_ms, self.zone), today)
        if not note:
            return ""
        if has_ideograph(sentence):
            return f"[{note}]"
        return f" [{note}]"

    def within(self, text: str, said_ms: int, most_chars: int = MOST_CHARS) -> str:
        """Return `text` with the notes on its sentences; without them if notes are not shown or it
        is longer than `most_chars`."""
        if not self.are_shown or len(text) > most_chars:
            return text
        parts: list[str] = []
        position = 0
        for chunk in chunks_of(text, longest=MOST_CHARS):
            sentence = text[chunk.start : chunk.end]
            note = "" if chunk.code else self.after(sentence.strip(), said_ms)
            if note:
                end = chunk.start + len(sentence.rstrip())
                parts += (text[position:end], note)
                position = end
        parts.append(text[position:])
        return "".join(parts)
