"""What a conversation is about: rare words that several memories share, each with its two best sentences. The words
are those of `analyze_memory_patterns`. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from memory_server.conversations.model import ShortTermMemory
from memory_server.conversations.recall.filters import CommonWord

LOOKED_AT = 120
"""Words of the overview that are looked at."""
_MOST_SHARE, _MOST_COVERED, _MOST_HOLDERS = 0.35, 0.6, 40
_SENTENCE = re.compile(r"[^。！？!?\n…]*(?:[。！？!?…\n]+|\.(?=\s|$)|$)", re.DOTALL)
_LENGTH = (8, 64)
"""Characters of a sentence that says something on a card."""


@dataclass(frozen=True, slots=True)
class Quote:
    """A sentence of a memory. `who`: the speaker's name; empty for your own words."""

    memory: ShortTermMemory
    who: str
    text: str


@dataclass(frozen=True, slots=True)
class Subject:
    """A word, in how many memories it is, and its best sentences."""

    word: str
    count: int
    quotes: Sequence[Quote] = ()


def subjects(memories: Sequence[ShortTermMemory], words: Sequence[CommonWord]) -> list[Subject]:
    """The subjects, those first that say most: no word that is a speaker's name, and none whose memories are mostly
    those of a subject before it."""
    names = {message.name for memory in memories for message in memory.messages if message.name}
    most = max(3.0, _MOST_SHARE * len(memories))
    wanted = {one.word for one in words if 2 <= one.memories <= most and _says_something(one.word, names)}
    holders: dict[str, set[str]] = {word: set() for word in wanted}
    for memory in memories:
        for word in wanted.intersection(memory.words):
            holders[word].add(memory.id)
    found, covered = list[Subject](), list[set[str]]()
    for one in words:
        held = holders.get(one.word, set())
        fresh = all(len(held & before) <= _MOST_COVERED * len(held) for before in covered)
        if len(held) > 1 and fresh and not any(one.word in known.word for known in found):
            found.append(Subject(one.word, len(held)))
            covered.append(held)
    return found


def _says_something(word: str, names: set[str]) -> bool:
    plain = word.isalpha() and len(word) > (3 if word.isascii() else 1)
    return plain and not any(word.casefold() in name.casefold() for name in names)


def holding(memories: Sequence[ShortTermMemory], word: str) -> list[ShortTermMemory]:
    """The memories that have this word, those where it weighs most first."""
    found = [memory for memory in memories if word in memory.words]
    return sorted(found, key=lambda memory: (-memory.weights[memory.words.index(word)], memory.time_ms))


def best_sentences(memories: Sequence[ShortTermMemory], word: str, most: int = 2) -> list[Quote]:
    """The sentences with the word that say most, each of another memory, in the order of time."""
    ranked = list[tuple[float, Quote]]()
    for memory in holding(memories, word)[:_MOST_HOLDERS]:
        weights = dict(zip(memory.words, memory.weights, strict=True))
        quotes = [(_worth(quote, word, weights), quote) for quote in _sentences(memory)]
        if quotes:
            ranked.append(max(quotes, key=lambda each: each[0]))
    ranked.sort(key=lambda each: -each[0])
    return sorted((quote for _worth, quote in ranked[:most]), key=lambda quote: quote.memory.time_ms)


def _sentences(memory: ShortTermMemory) -> list[Quote]:
    spoken = [("" if m.role == "user" else m.name or m.role, m.content) for m in memory.messages] or [("", memory.text)]
    return [
        Quote(memory, who, sentence)
        for who, content in spoken
        for part in _SENTENCE.findall(content[:2_000])
        if (sentence := " ".join(part.split()))
    ]


def _worth(quote: Quote, word: str, weights: dict[str, float]) -> float:
    text = quote.text.casefold()
    least, most = _LENGTH
    held = sum(weight for one, weight in weights.items() if one.casefold() in text)
    worth = held + (0.0 if quote.who else 0.4 * held) + (50.0 if word.casefold() in text else 0.0)
    if len(text) < least or quote.text.endswith(("?", "？")):
        worth *= 0.4
    return worth if len(text) <= most else worth * most / len(text)
