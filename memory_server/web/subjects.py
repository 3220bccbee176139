"""What a conversation is about: rare words that several memories share, each with its two best sentences. The words
are the words of `analyze_memory_patterns`. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from memory_server.conversations.model import ShortTermMemory
from memory_server.conversations.recall.filters import CommonWord
from memory_server.kernel.values import frozen
from memory_server.web.receipts import spoken
from nlp import is_incidental, says_little
from nlp.lexicon.idf import nouns

LOOKED_AT = 150
"""Words of the overview that are looked at."""
_MOST_SHARE = 0.35
"""The share of all memories above which a word is about everything."""
_MOST_COVERED = 0.6
"""The share of the memories of a subject that an earlier subject may have."""
_MOST_HOLDERS = 40
"""Memories with a word that are read for its spelling and its sentences."""
_MOST_QUOTES = 2
"""Sentences that show a word."""
_SENTENCE = re.compile(
    r"(?<=[。！？…\n])(?![”’」』）])|(?<=[!?])(?=\s|[^\x00-\x7f])(?![”’」』）])|(?<=[。！？][”’」』）])|(?<=[a-z]{2}\.)\s"
)
"""Where a sentence ends. In `{0!r}` or in an address, `!` and `?` end none."""
_ADVERBS = frozenset(
    (
        "差点",
        "差点儿",
        "有时",
        "当时",
        "平时",
        "时时",
        "刚才",
        "全程",
        "表面",
        "总体",
        "大体",
        "原本",
    )
)
"""Words that jieba's dictionary has as nouns, and that say how or when."""
_LEAST_WRITTEN = 3
"""Memories that must have a Latin word in small letters: it is not a name, so two of them may share it by chance."""
_GENERAL = frozenset(
    ("小时", "时候", "东西", "事情", "样子", "问题", "感觉", "地方", "时间", "朋友", "声音", "办法")
)
_ANSWERS = frozenset(
    ("understood", "done", "sure", "okay", "perfect", "great", "alright", "absolut", "exact")
)
"""Stems of words with which answers begin."""
_LENGTH = (8, 64)
"""Characters of a sentence that says something on a card."""
_READ_CHARS = 2_000
"""Characters of a message in which sentences are looked for."""


@frozen
class Quote:
    """A sentence of a memory. `who`: the speaker's name; empty for your own words."""

    memory: ShortTermMemory
    who: str
    text: str


@frozen
class Subject:
    """A word as memories keep it, as it is written, in how many memories it is, and its best sentences."""

    word: str
    shown: str
    count: int
    quotes: Sequence[Quote] = ()


def subjects(memories: Sequence[ShortTermMemory], words: Sequence[CommonWord]) -> list[Subject]:
    """Choose the subjects, first the subjects that say most: no word that is a speaker's name, and no subject whose
    memories mostly belong to an earlier subject."""
    candidates = _candidates(memories, words)
    latin_words = {word for word in candidates if word.isascii()}
    named_words = nouns(word for word in candidates if len(word) > 1) - _GENERAL - _ADVERBS
    holders: dict[str, list[ShortTermMemory]] = {word: [] for word in named_words | latin_words}
    for memory in memories:
        for word in holders.keys() & set(memory.words):
            holders[word].append(memory)

    chosen: list[Subject] = []
    ids_of_chosen: list[set[str]] = []
    for word in candidates:
        memory_ids = {memory.id for memory in holders.get(word, ())}
        if len(memory_ids) < 2 or _is_covered(memory_ids, ids_of_chosen):
            continue
        # A part of a word that was chosen says the same.
        if any(word in subject.word for subject in chosen):
            continue
        texts = [spoken(memory) for memory in holders[word][:_MOST_HOLDERS]]
        spelling = _written(word, texts) if word in latin_words else _whole(word, texts)
        if spelling:
            chosen.append(Subject(word, spelling, len(memory_ids)))
            ids_of_chosen.append(memory_ids)

    # Names say more than other words that are written in small letters.
    return sorted(chosen, key=lambda subject: subject.shown.isascii() and subject.shown.islower())


def _candidates(memories: Sequence[ShortTermMemory], words: Sequence[CommonWord]) -> list[str]:
    """Return the words that are in some memories and not in most of them, and are not part of a speaker's name."""
    names = {message.name for memory in memories for message in memory.messages if message.name}
    speakers = " ".join(names).casefold()
    most = max(3.0, _MOST_SHARE * len(memories))
    candidates = []
    for common in words:
        is_of_some = 2 <= common.memories <= most
        word = common.word.casefold()
        says_something = not (is_incidental(word) or says_little(word) or word in _ANSWERS)
        if is_of_some and says_something and common.word.isalpha() and word not in speakers:
            candidates.append(common.word)
    return candidates


def _is_covered(memory_ids: set[str], ids_of_chosen: Sequence[set[str]]) -> bool:
    """Tell whether most of these memories belong to a subject that was chosen before."""
    most = _MOST_COVERED * len(memory_ids)
    return any(len(memory_ids & chosen_ids) > most for chosen_ids in ids_of_chosen)


def _written(stem: str, texts: Sequence[str]) -> str:
    """Return a Latin word as it is mostly written within a sentence; empty if it is never there, or is not a name and
    says little."""
    spellings: Counter[str] = Counter()
    for text in texts:
        spellings.update(re.findall(rf"(?<=[\w,;] ){re.escape(stem)}\w*", text, re.I))
    if not spellings:
        return ""
    spelling = spellings.most_common(1)[0][0]
    says_enough = len(stem) > 5 and len(texts) >= _LEAST_WRITTEN
    if spelling[:1].isupper() or says_enough:
        return spelling
    return ""


def _whole(word: str, texts: Sequence[str]) -> str:
    """Return a Chinese word with the Chinese character that is always before it, 折耳根 for 耳根; the word alone if there
    is none, or it occurs at most twice."""
    characters_before: set[str] = set()
    for text in texts:
        characters_before.update(re.findall(f"(.?){re.escape(word)}", text))
    times = sum(text.count(word) for text in texts)
    if times <= 2 or len(characters_before) != 1:
        return word
    character = next(iter(characters_before))
    if "\u4e00" <= character <= "\u9fff":
        return character + word
    return word


def holding(memories: Sequence[ShortTermMemory], word: str) -> list[ShortTermMemory]:
    """Return the memories that have this word, first the memories where it weighs most."""
    holders = [memory for memory in memories if word in memory.words]
    return sorted(
        holders, key=lambda memory: (-memory.weights[memory.words.index(word)], memory.time_ms)
    )


def best_sentences(memories: Sequence[ShortTermMemory], word: str) -> list[Quote]:
    """Return the sentences with the word that say most, each from another memory, in the order of time."""
    ranked = [_best_quote(memory, word) for memory in holding(memories, word)[:_MOST_HOLDERS]]
    ranked.sort(key=lambda ranked_quote: -ranked_quote.worth)
    different = {quote.text: quote for _worth, quote in ranked if quote is not None}
    best = list(different.values())[:_MOST_QUOTES]
    return sorted(best, key=lambda quote: quote.memory.time_ms)


class _RankedQuote(NamedTuple):
    """How much a sentence says; 0 and None without a sentence."""

    worth: float
    quote: Quote | None


def _best_quote(memory: ShortTermMemory, word: str) -> _RankedQuote:
    """Return the sentence of a memory that says most with this word, or no quote, of worth 0, if it has no sentence."""
    weights = dict(zip(memory.words, memory.weights, strict=True))
    ranked = [_RankedQuote(_worth(quote, word, weights), quote) for quote in _sentences(memory)]
    return max(ranked, key=lambda ranked_quote: ranked_quote.worth, default=_RankedQuote(0.0, None))


def _sentences(memory: ShortTermMemory) -> list[Quote]:
    """Return the sentences in the first `_READ_CHARS` characters of each message of a memory (the last one may be cut
    there), with who said each, empty for the user. A memory without messages counts as the user's words."""
    if not memory.messages:
        return _quotes(memory, "", memory.text)
    quotes: list[Quote] = []
    for message in memory.messages:
        speaker = "" if message.role == "user" else message.name or message.role
        quotes += _quotes(memory, speaker, message.content)
    return quotes


def _quotes(memory: ShortTermMemory, speaker: str, content: str) -> list[Quote]:
    """Split a message into sentences, as far as a card looks at it."""
    lines = [" ".join(part.split()) for part in _SENTENCE.split(content[:_READ_CHARS])]
    return [Quote(memory, speaker, line) for line in lines if line]


def _worth(quote: Quote, word: str, weights: Mapping[str, float]) -> float:
    """Return how much a sentence says: the weights of the words in it, more for the user's own words and for the
    subject itself, less for a question and for a sentence that is too short or too long."""
    text = quote.text.casefold()
    least_chars, most_chars = _LENGTH
    worth = sum(weight for kept_word, weight in weights.items() if kept_word.casefold() in text)
    if not quote.who:
        worth *= 1.4
    if word.casefold() in text:
        worth += 50.0
    if len(text) < least_chars or quote.text.endswith(("?", "？")):
        worth *= 0.4
    if len(text) > most_chars:
        worth *= most_chars / len(text)
    return worth
