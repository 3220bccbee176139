"""Which notes say the same, without a model: alike by pairs of characters, and without a fact in which they differ.

No measure alone tells "port 8080" from "port 8081", or `C++` from `C#`. So texts that are alike must also agree word by
word and sign by sign (knowledge/differences.py). A merge loses no word and no sign. Pure.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import pairwise, product
from pathlib import Path
from typing import Final
from zlib import crc32

from memory_server.kernel.errors import InvalidInput
from memory_server.knowledge.differences import difference
from memory_server.knowledge.entry import Entry, archived, usable
from nlp.index_terms import index_form

ALIKE: Final = 0.85
"""Dice of pairs of characters from which two texts are alike: measured on pairs written for this project."""
_PROPOSED: Final = 0.82
"""Cosine of hashed pairs from which Dice is computed exactly: below it, Dice is not above `ALIKE`."""
_COLUMNS: Final = 4_096
_BLOCK: Final = 512


@dataclass(frozen=True, slots=True)
class Pair:
    """Two entries that are alike. `differs`: the facts in which they differ; empty: they say the same."""

    older: Entry
    newer: Entry
    dice: float
    differs: str


@dataclass(frozen=True, slots=True)
class ReindexedNotes:
    """What a reindex did or would do. `kept_apart`: alike, but with a fact in which they differ."""

    merged: tuple[Pair, ...]
    kept_apart: tuple[Pair, ...]
    removed: int
    remaining: int
    copy: Path | None = None
    change_id: str | None = None


def text_of(entry: Entry) -> str:
    """What of an entry is compared."""
    return f"{entry.title}\n{entry.body}"


def dice(one: str, other: str) -> float:
    """How alike two texts are: 2 · common pairs of characters / all pairs, 0 to 1; without punctuation and case."""
    first = _pairs(one)
    second = _pairs(other)
    if first or second:
        return _dice(first, second)
    return float(index_form(one).split() == index_form(other).split())


def count_same(text: str, others: Sequence[str]) -> int:
    """How many of the other texts say the same as `text`."""
    return sum(dice(text, other) >= ALIKE and not difference(text, other) for other in others)


def _dice(first: Counter[str], second: Counter[str]) -> float:
    return 2 * (first & second).total() / max(1, first.total() + second.total())


def _letters(text: str) -> str:
    return re.sub(r"[\W_]+", "", index_form(text))


def _pairs(text: str) -> Counter[str]:
    return Counter(map("".join, pairwise(_letters(text))))


def pairs_among(entries: Sequence[Entry]) -> list[Pair]:
    """All pairs of a kind and project that are alike, the most alike first; 10,000 notes take some 10 s."""
    groups: dict[tuple[str, str], list[Entry]] = defaultdict(list)
    for entry in entries:
        groups[entry.kind, entry.project].append(entry)
    alike: list[Pair] = []
    for group in groups.values():
        alike += _pairs_in(group)
    return sorted(alike, key=lambda pair: (-pair.dice, pair.newer.id))


def _pairs_in(group: Sequence[Entry]) -> Iterator[Pair]:
    pairs = [_pairs(text_of(entry)) for entry in group]
    for one, other in _proposed(pairs):
        if _dice(pairs[one], pairs[other]) >= ALIKE:
            yield _pair(group[one], group[other])


def _pair(one: Entry, other: Entry) -> Pair:
    older, newer = sorted((one, other), key=lambda entry: (entry.updated_ms, entry.id))
    texts = (text_of(older), text_of(newer))
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
    """For each of the `pairs` that say the same: the pair, the newer entry as it becomes, and the older one in the
    archive. An entry joins others only if it says the same as each of them. A text that would become too long is left
    as it is."""
    same = {frozenset((pair.older.id, pair.newer.id)) for pair in pairs if not pair.differs}
    changed: dict[int, Entry] = {}
    members: dict[int, tuple[int, ...]] = {}
    done: list[tuple[Pair, Entry, Entry]] = []
    for pair in pairs:
        older = changed.get(pair.older.id, pair.older)
        newer = changed.get(pair.newer.id, pair.newer)
        ours = members.get(newer.id, (newer.id,))
        theirs = members.get(older.id, (older.id,))
        if older.archived_ms is not None or newer.archived_ms is not None:
            continue
        if any(frozenset(couple) not in same for couple in product(ours, theirs)):
            continue
        with suppress(InvalidInput):  # it would be too long, or have too many tags: both stay
            whole = usable(merged(older, newer))
            gone = archived(older, "merged", now_ms)
            changed[whole.id] = whole
            changed[gone.id] = gone
            members[whole.id] = (*ours, *theirs)
            done.append((replace(pair, older=older, newer=newer), whole, gone))
    return done


def merged(older: Entry, newer: Entry) -> Entry:
    """The newer entry, with the title and lines of the older one that it does not have; uses summed, confidence
    averaged, tags, examples and sources united, the earlier creation."""
    lines = dict.fromkeys((newer.title, *newer.body.splitlines()))
    older_lines = dict.fromkeys(line for line in (older.title, *older.body.splitlines()) if line.strip())
    lacking = [line for line in older_lines if line not in lines and not any(_has(ours, line) for ours in lines)]
    sources = "; ".join(entry.source for entry in (newer, older) if entry.source).split("; ")
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
    tokens = iter(_whole(line))
    in_order = all(token in tokens for token in _whole(other))
    return in_order and dice(line, other) >= ALIKE and not difference(line, other)


def _whole(line: str) -> list[str]:
    line = line.strip()
    return re.findall(r"\w+|[^\w\s]", line[:1].lower() + line[1:])
