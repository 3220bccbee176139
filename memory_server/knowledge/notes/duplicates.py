"""Which notes say the same, without a model: alike by pairs of characters, and without a fact in which they differ.

No measure alone tells "port 8080" from "port 8081", or `C++` from `C#`. So texts that are alike must also agree in
numbers, in the number of negations, and word by word and sign by sign. A merge loses no word and no sign. Pure.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from itertools import pairwise
from typing import Final
from zlib import crc32

from memory_server.kernel.errors import InvalidInput
from memory_server.knowledge.entry import Entry, archived, usable
from nlp.index_terms import index_form
from nlp.stems import stem

ALIKE: Final = 0.85
"""Dice of pairs of characters from which two texts are alike: measured on pairs written for this project."""
_PROPOSED: Final = 0.82
"""Cosine of hashed pairs from which Dice is computed exactly: below it, Dice is not above `ALIKE`."""
_COLUMNS: Final = 4_096
_BLOCK: Final = 512
_NUMBERS: Final = re.compile(r"\d+(?:[.:]\d+)*")
_NEGATIONS: Final = re.compile(
    r"[不没別别勿无無禁未]|\b(?:not|never|no|without|none|cannot)\b|n['’]t\b|ない|なし|なく|ません"
)
_TOKENS: Final = re.compile(
    r"[\u3400-\u9fff]|[\u3041-\u309f]+|[\u30a1-\u30ff]+|[^\W\d_\u3041-\u30ff\u3400-\u9fff]+|\d+|[^\w\s]|_"
)
_PUNCTUATION: Final = re.compile(
    r"""[`'"\u2018-\u201f\u300c-\u300f\u2014\u3001\u3002\ufe0e\ufe0f]|(?<=[^\W\d])-(?=[^\W\d])"""
    r"""|(?<=[^\s!])[.,;:!]{1,64}+(?![=\w.,;:!])|(?<=[\u3041-\u9fff])[.,;:!]+(?!=)|[.,;:!](?=[\u3041-\u9fff])|(?<=\w),(?=\w)"""
)
"""Signs that say nothing: quotes, the ends of sentences and their parts, and the hyphen of a word, in normal form.
Not those that a word begins with, as in `.env` or `!important`, and not those that are followed by `=`.
At most 64 at once: without a bound, each place in a long row of dots before a word is tried to the end of the row."""
_MOST_COMPARED: Final = 4_000_000
"""Texts that have more pairs of tokens than this, beside what they begin and end with, are not compared."""
_LITTLE_WORDS: Final = """
a an the is are was were be been being am this that these those it its we you i they our your my their he she will shall
do does did has have had so also then there here just very of for
的 了 是 呢 啊 吧 呀 就 也 很 地 得 之 其 我 你 们 它 这 那 此 该 将 把 吗
"""
_LITTLE: Final = frozenset(_LITTLE_WORDS.split())
"""Words that may stand for one another without another meaning. Not `on`, `off`, `in`, `before`, `and`, `or`: those are
facts."""


@dataclass(frozen=True, slots=True)
class Pair:
    """Two entries that are alike. `differs`: the facts in which they differ; empty: they say the same."""

    older: Entry
    newer: Entry
    dice: float
    differs: str


def text_of(entry: Entry) -> str:
    """What of an entry is compared."""
    return f"{entry.title}\n{entry.body}"


def dice(one: str, other: str) -> float:
    """How alike two texts are: 2 · common pairs of characters / all pairs, 0 to 1; without punctuation and case."""
    first, second = _pairs(one), _pairs(other)
    return _dice(first, second) if first or second else float(index_form(one).split() == index_form(other).split())


def count_same(text: str, others: Sequence[str]) -> int:
    """How many of the other texts say the same as `text`."""
    pairs = _pairs(text)
    alike = (each for each in others if (_dice(pairs, _pairs(each)) if pairs else dice(text, each)) >= ALIKE)
    return sum(not difference(text, each) for each in alike)


def _dice(first: Counter[str], second: Counter[str]) -> float:
    return 2 * (first & second).total() / max(1, first.total() + second.total())


def difference(one: str, other: str) -> str:
    """The facts in which two texts that are alike differ, as people read them; empty: in none."""
    one, other = index_form(one), index_form(other)
    numbers = [Counter(_NUMBERS.findall(text)) for text in (one, other)]
    left, right = numbers[0] - numbers[1], numbers[1] - numbers[0]
    if left and right:
        return f"{', '.join(left)} against {', '.join(right)}"
    negations = [len(_NEGATIONS.findall(text)) for text in (one, other)]
    if negations[0] != negations[1]:
        return f"{negations[0]} against {negations[1]} negations"
    first, second = _differing(*map(_tokens, (one, other)))
    if len(first) * len(second) > _MOST_COMPARED:
        return "too long to be compared"
    for do, a, b, c, d in SequenceMatcher(None, first, second).get_opcodes():
        before, after = ([token for token in part if token not in _LITTLE] for part in (first[a:b], second[c:d]))
        one_sided = not (before and after)
        # A word more is a fact more, which a merge keeps. A sign more is another fact: C and C++, 5 and -5.
        if do != "equal" and sorted(before) != sorted(after) and not (one_sided and any(map(_is_word, before + after))):
            return f"{' '.join(before) or 'nothing'} against {' '.join(after) or 'nothing'}"
    return ""


def _tokens(text: str) -> list[str]:
    return [_word(found[0]) for found in _TOKENS.finditer(_PUNCTUATION.sub(_gap, text))]


def _gap(found: re.Match[str]) -> str:
    return "" if found[0] == "-" else " "


def _differing(first: list[str], second: list[str]) -> tuple[list[str], list[str]]:
    """Both without what they begin and end with alike."""
    least = min(len(first), len(second))
    begin = next((n for n in range(least) if first[n] != second[n]), least)
    end = next((n for n in range(least - begin) if first[-1 - n] != second[-1 - n]), least - begin)
    return first[begin : len(first) - end], second[begin : len(second) - end]


def _is_word(token: str) -> bool:
    return token.isalnum()


def _word(word: str) -> str:
    return stem(word) if word.isalpha() else word


def _letters(text: str) -> str:
    return re.sub(r"[\W_]+", "", index_form(text))


def _pairs(text: str) -> Counter[str]:
    return Counter(map("".join, pairwise(_letters(text))))


def pairs_among(entries: Sequence[Entry]) -> list[Pair]:
    """All pairs of a kind and project that are alike, the most alike first; 10,000 notes take some 10 s."""
    groups: dict[tuple[str, str], list[Entry]] = defaultdict(list)
    for entry in entries:
        groups[entry.kind, entry.project].append(entry)
    found: list[Pair] = []
    for group in groups.values():
        pairs = [_pairs(text_of(entry)) for entry in group]
        found += [_pair(group[i], group[j]) for i, j in _proposed(pairs) if _dice(pairs[i], pairs[j]) >= ALIKE]
    return sorted(found, key=lambda pair: (-pair.dice, pair.newer.id))


def _pair(one: Entry, other: Entry) -> Pair:
    older, newer = sorted((one, other), key=lambda entry: (entry.updated_ms, entry.id))
    texts = text_of(older), text_of(newer)
    alike = dice(*texts)
    return Pair(older, newer, alike, difference(*texts) if alike >= ALIKE else "")


def _proposed(texts: Sequence[Counter[str]]) -> Iterator[tuple[int, int]]:
    """Numbers of texts that may be alike, by their pairs of characters."""
    import numpy as np  # 0.1 s, and only a reindex needs it

    rows = np.zeros((len(texts), _COLUMNS), np.float32)
    for number, text in enumerate(texts):
        for pair, count in text.items():
            rows[number, crc32(pair.encode()) % _COLUMNS] += count
    rows /= np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-9)
    for start in range(0, len(texts), _BLOCK):
        near = rows[start : start + _BLOCK] @ rows[start:].T >= _PROPOSED
        for one, other in np.argwhere(near).tolist():
            if one < other:
                yield start + one, start + other


def merges(pairs: Sequence[Pair], now_ms: int) -> list[tuple[Pair, Entry, Entry]]:
    """Of pairs that say the same: the pair, the newer entry as it becomes, and the older one in the archive. An entry
    joins others only if it says the same as each of them. A text that would become too long is left as it is."""
    same = {frozenset((pair.older.id, pair.newer.id)) for pair in pairs if not pair.differs}
    became, joined = dict[int, Entry](), dict[int, tuple[int, ...]]()
    done: list[tuple[Pair, Entry, Entry]] = []
    for found in pairs:
        older, newer = (became.get(each.id, each) for each in (found.older, found.newer))
        ours, theirs = (joined.get(each.id, (each.id,)) for each in (newer, older))
        alone = any(each.archived_ms is not None for each in (older, newer))
        if alone or any(frozenset((one, other)) not in same for one in ours for other in theirs):
            continue
        pair, whole = replace(found, older=older, newer=newer), merged(older, newer)
        with suppress(InvalidInput):  # it would be too long, or have too many tags: both stay
            whole, gone = usable(whole), archived(older, "merged", now_ms)
            became[whole.id], became[gone.id], joined[whole.id] = whole, gone, (*ours, *theirs)
            done.append((pair, whole, gone))
    return done


def merged(older: Entry, newer: Entry) -> Entry:
    """The newer entry, with the title and lines of the older one that it does not have; uses summed, confidence
    averaged, tags, examples and sources united, the earlier creation."""
    have = dict.fromkeys((newer.title, *newer.body.splitlines()))
    theirs = dict.fromkeys(line for line in (older.title, *older.body.splitlines()) if line.strip())
    lacking = [line for line in theirs if line not in have and not any(_has(each, line) for each in have)]
    sources = [source for each in (newer, older) if each.source for source in each.source.split("; ")]
    return replace(
        newer,
        body="\n".join([newer.body.rstrip("\n"), *lacking]) if lacking else newer.body,
        uses=older.uses + newer.uses,
        confidence=(older.confidence + newer.confidence) / 2,
        tags=tuple(dict.fromkeys((*newer.tags, *older.tags))),
        examples=tuple(dict.fromkeys((*newer.examples, *older.examples))),
        source="; ".join(dict.fromkeys(sources)) or None,
        created_ms=min(older.created_ms, newer.created_ms),
    )


def _has(line: str, other: str) -> bool:
    """Whether a line says what another says, with all its words and signs in their order. The case of its first letter
    is left out of account."""
    there = iter(_whole(line))
    return all(token in there for token in _whole(other)) and dice(line, other) >= ALIKE and not difference(line, other)


def _whole(line: str) -> list[str]:
    line = line.strip()
    return re.findall(r"\w+|[^\w\s]", line[:1].lower() + line[1:])
