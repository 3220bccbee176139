"""Say why a memory was recalled or not, and with which words it is kept, in sentences for people."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import field

from languages import _, spoken
from memory_server.conversations.model import ShortTermMemory
from memory_server.conversations.recall import why
from memory_server.conversations.recall.corrections import newer_by_older
from memory_server.conversations.recall.day_lines import DayNotes
from memory_server.conversations.recall.receipts import age_text
from memory_server.conversations.recall.relevance import age_of
from memory_server.conversations.recall.words import shown_words, spelling, spelt_words
from memory_server.kernel.recorded_recall import RecordedItem
from memory_server.kernel.values import frozen


def words_that_brought(item: RecordedItem, text: str) -> str:
    """Return the words for which a memory with this text was recalled, also other words, or an empty text."""
    spelt = spelling(text)
    parts = [why.words_text(item.words, spelt)]
    if item.given:
        parts.append(f"{_('given by the caller')}: {why.words_text(item.given, spelt)}")
    if item.kept:
        parts.append(f"{_('kept with the memory')}: {why.words_text(item.kept, spelt)}")
    return "; ".join(filter(None, parts))


def what_it_lacked(item: RecordedItem, said: str) -> str:
    """Return what a nearly recalled memory lacked for the message `said`."""
    return why.near_miss_text(item, said, zh=spoken() == "zh")


def held_back(rule: str, count: int) -> str:
    """Return how many memories a rule held back, and why."""
    return why.held_back(rule, count)


@frozen
class StoredNow:
    """The present memories by id, and by the id of each corrected memory the memory that corrects it."""

    notes: DayNotes
    memories: dict[str, ShortTermMemory] = field(default_factory=dict)
    newer: dict[str, ShortTermMemory] = field(default_factory=dict)

    def add(self, memories: Collection[ShortTermMemory]) -> None:
        """Add the memories of a conversation."""
        self.memories.update((memory.id, memory) for memory in memories)
        self.newer.update(newer_by_older(memories))

    def about(self, item: RecordedItem) -> str:
        """Return the remarks on a recalled memory: its plan, and what corrected it; empty if there is nothing to say."""
        memory = self.memories.get(item.id)
        if memory is None:
            return ""
        return why.standing(memory, self.newer.get(item.id), self.notes, item.instead_of)


def plan_of(memory: ShortTermMemory, notes: DayNotes) -> str:
    """Return a sentence about the plan in a memory; empty if it has no plan."""
    return why.standing(memory, None, notes)


def age_at(memory: ShortTermMemory, now_ms: int) -> str:
    """Return how old a memory is."""
    return age_text(age_of(memory.time_ms, now_ms))


def keywords_of(memory: ShortTermMemory) -> list[object]:
    """Return all keywords of a memory, as programs get them."""
    return list(shown_words(memory, len(memory.words)))


def weighted_words(memory: ShortTermMemory) -> list[tuple[str, float]]:
    """Return the words of a memory, as they are spelt in its text, with their weights."""
    return list(zip(spelt_words(memory), memory.weights, strict=True))
