"""What a conversation is about: rare words that several memories share, each with its two best sentences. The words
are those of `analyze_memory_patterns`. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from memory_server.conversations.model import ShortTermMemory
from memory_server.conversations.recall.filters import CommonWord
from memory_server.web.receipts import spoken
from nlp.lexicon.parts import nouns

LOOKED_AT = 150
"""Words of the overview that are looked at."""
_MOST_SHARE, _MOST_COVERED, _MOST_HOLDERS = 0.35, 0.6, 40
_SENTENCE = re.compile(
    r"(?<=[。！？…\n])(?![”’」』）])|(?<=[!?])(?=\s|[^\x00-\x7f])(?![”’」』）])|(?<=[。！？][”’」』）])|(?<=[a-z]{2}\.)\s"
)
"""Where a sentence ends. In `{0!r}` or in an address, `!` and `?` end none."""
_ADVERBS = frozenset(("差点", "差点儿", "有时", "当时", "平时", "时时", "刚才", "全程", "表面", "总体", "大体", "原本"))
"""Words that jieba's dictionary has as nouns, and that say how or when."""
_LEAST_WRITTEN = 3
"""Memories that must have a Latin word in small letters: it is no name, so two of them may share it by chance."""
_GENERAL = frozenset(("小时", "时候", "东西", "事情", "样子", "问题", "感觉", "地方", "时间", "朋友", "声音", "办法"))
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
    """A word as memories keep it, as it is written, in how many memories it is, and its best sentences."""

    word: str
    shown: str
    count: int
    quotes: Sequence[Quote] = ()


def subjects(memories: Sequence[ShortTermMemory], words: Sequence[CommonWord]) -> list[Subject]:
    """The subjects, those first that say most: no word that is a speaker's name, and none whose memories are mostly
    those of a subject before it."""
    names = " ".join({message.name for memory in memories for message in memory.messages if message.name}).casefold()
    most = max(3.0, _MOST_SHARE * len(memories))
    fit = [
        one for one in words if 2 <= one.memories <= most and one.word.isalpha() and one.word.casefold() not in names
    ]
    named = nouns(one.word for one in fit if len(one.word) > 1) - _GENERAL - _ADVERBS
    latin = {one.word for one in fit if one.word.isascii()}
    holders: dict[str, list[ShortTermMemory]] = {word: [] for word in named | latin}
    for memory in memories:
        for word in holders.keys() & set(memory.words):
            holders[word].append(memory)
    found, covered = list[Subject](), list[set[str]]()
    for one in fit:
        held = {memory.id for memory in holders.get(one.word, ())}
        fresh = all(len(held & before) <= _MOST_COVERED * len(held) for before in covered)
        if len(held) > 1 and fresh and not any(one.word in known.word for known in found):
            texts = [spoken(memory) for memory in holders[one.word][:_MOST_HOLDERS]]
            shown = _written(one.word, texts) if one.word in latin else _whole(one.word, texts)
            if shown:
                found.append(Subject(one.word, shown, len(held)))
                covered.append(held)
    # Names say more than other words that are written in small letters.
    return sorted(found, key=lambda one: one.shown.isascii() and one.shown.islower())


def _written(stem: str, texts: Sequence[str]) -> str:
    """A Latin word as it is mostly written; empty if it is not a name and says little."""
    forms = Counter(form for text in texts for form in re.findall(rf"(?<=[\w,;] ){re.escape(stem)}\w*", text, re.I))
    form = forms.most_common(1)[0][0] if forms else ""
    if form[:1].isupper():
        return form
    return form if len(stem) > 5 and len(texts) >= _LEAST_WRITTEN else ""


def _whole(word: str, texts: Sequence[str]) -> str:
    """A Chinese word with the character that always stands before it: 折耳根 for 耳根."""
    before = {char for text in texts for char in re.findall(f"(.?){re.escape(word)}", text)}
    times = sum(text.count(word) for text in texts)
    first = next(iter(before)) if len(before) == 1 else ""
    return first + word if times > 2 and "\u4e00" <= first <= "\u9fff" else word


def holding(memories: Sequence[ShortTermMemory], word: str) -> list[ShortTermMemory]:
    """The memories that have this word, those where it weighs most first."""
    found = [memory for memory in memories if word in memory.words]
    return sorted(found, key=lambda memory: (-memory.weights[memory.words.index(word)], memory.time_ms))


def best_sentences(memories: Sequence[ShortTermMemory], word: str, most: int = 2) -> list[Quote]:
    """The sentences with the word that say most, each another one of another memory, in the order of time."""
    ranked = list[tuple[float, Quote]]()
    for memory in holding(memories, word)[:_MOST_HOLDERS]:
        weights = dict(zip(memory.words, memory.weights, strict=True))
        quotes = [(_worth(quote, word, weights), quote) for quote in _sentences(memory)]
        if quotes:
            ranked.append(max(quotes, key=lambda each: each[0]))
    ranked.sort(key=lambda each: -each[0])
    different = list({quote.text: quote for _worth, quote in ranked}.values())
    return sorted(different[:most], key=lambda quote: quote.memory.time_ms)


def _sentences(memory: ShortTermMemory) -> list[Quote]:
    spoken = [("" if m.role == "user" else m.name or m.role, m.content) for m in memory.messages] or [("", memory.text)]
    return [
        Quote(memory, who, sentence)
        for who, content in spoken
        for part in _SENTENCE.split(content[:2_000])
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
