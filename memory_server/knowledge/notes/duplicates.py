"""Which notes say the same, without a model: alike by pairs of characters, and without a fact in which they differ.

No measure alone tells "port 8080" from "port 8081", or `C++` from `C#`. So texts that are alike must also agree word by
word and sign by sign (knowledge/differences.py). A merge loses no word and no sign. Pure.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import pairwise, product
from pathlib import Path
from typing import Final, NamedTuple
from zlib import crc32

from memory_server.kernel.errors import InvalidInput
from memory_server.kernel.values import dataclass
from memory_server.knowledge.differences import difference
from memory_server.knowledge.entry import Entry, archived, usable
from nlp.index_terms import index_form

ALIKE: Final = 0.85
"""Dice of pairs of characters from which two texts are alike: measured on pairs written for this project."""
_PROPOSED: Final = 0.82
"""Cosine of hashed pairs from which Dice is computed exactly: below it, Dice is not above `ALIKE`."""
_COLUMNS: Final = 4_096
"""The number of hashes of pairs of characters."""
_BLOCK: Final = 512
"""The number of texts that are compared with all later ones in one step."""


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
    """The text of an entry that is compared."""
    return f"{entry.title}\n{entry.body}"


def dice(first: str, second: str) -> float:
    """How alike two texts are: 2 · common pairs of characters / all pairs, 0 to 1; without punctuation and case."""
    first_pairs = _pairs(first)
    second_pairs = _pairs(second)
    if first_pairs or second_pairs:
        return _dice(first_pairs, second_pairs)
    return float(index_form(first).split() == index_form(second).split())


def count_same(text: str, candidates: Sequence[str]) -> int:
    """How many of the other texts say the same as `text`."""
    return sum(
        dice(text, candidate) >= ALIKE and not difference(text, candidate)
        for candidate in candidates
    )


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
    for first, second in _proposed(pairs):
        if _dice(pairs[first], pairs[second]) >= ALIKE:
            yield _pair(group[first], group[second])


def _pair(first: Entry, second: Entry) -> Pair:
    older, newer = sorted((first, second), key=lambda entry: (entry.updated_ms, entry.id))
    older_text = text_of(older)
    newer_text = text_of(newer)
    alike = dice(older_text, newer_text)
    differs = ""
    if alike >= ALIKE:
        differs = difference(older_text, newer_text)
    return Pair(older, newer, dice=alike, differs=differs)


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
        for first, second in np.argwhere(near).tolist():
            if first < second:
                yield start + first, start + second


class Merge(NamedTuple):
    """A pair that is merged. `whole`: the newer entry as it becomes; `removed`: the older one in the archive."""

    pair: Pair
    whole: Entry
    removed: Entry


def merges(pairs: Sequence[Pair], now_ms: int) -> list[Merge]:
    """The merges of those of the `pairs` that say the same. An entry joins others only if it says the same as each of
    them. A text that would become too long is left as it is."""
    same = {frozenset((pair.older.id, pair.newer.id)) for pair in pairs if not pair.differs}
    changed: dict[int, Entry] = {}
    members: dict[int, tuple[int, ...]] = {}
    merges: list[Merge] = []
    for pair in pairs:
        older = changed.get(pair.older.id, pair.older)
        newer = changed.get(pair.newer.id, pair.newer)
        newer_members = members.get(newer.id, (newer.id,))
        older_members = members.get(older.id, (older.id,))
        if older.archived_ms is not None or newer.archived_ms is not None:
            continue
        if any(frozenset(couple) not in same for couple in product(newer_members, older_members)):
            continue
        with suppress(InvalidInput):  # it would be too long, or have too many tags: both stay
            merged_note = usable(merged(older, newer))
            removed_note = archived(older, "merged", now_ms)
            changed[merged_note.id] = merged_note
            changed[removed_note.id] = removed_note
            members[merged_note.id] = (*newer_members, *older_members)
            merges.append(Merge(replace(pair, older=older, newer=newer), merged_note, removed_note))
    return merges


def merged(older: Entry, newer: Entry) -> Entry:
    """The newer entry, with the title and lines of the older one that it does not have; uses summed, confidence
    averaged, tags, examples and sources united, the earlier creation."""
    newer_lines = dict.fromkeys((newer.title, *newer.body.splitlines()))
    older_lines = dict.fromkeys((older.title, *older.body.splitlines()))
    lacking = [line for line in older_lines if line.strip() and not _is_among(line, newer_lines)]
    body = newer.body
    if lacking:
        body = "\n".join([newer.body.rstrip("\n"), *lacking])
    sources = "; ".join(entry.source for entry in (newer, older) if entry.source).split("; ")
    return replace(
        newer,
        body=body,
        uses=older.uses + newer.uses,
        confidence=(older.confidence + newer.confidence) / 2,
        tags=tuple(dict.fromkeys((*newer.tags, *older.tags))),
        examples=tuple(dict.fromkeys((*newer.examples, *older.examples))),
        source="; ".join(dict.fromkeys(sources)) or None,
        created_ms=min(older.created_ms, newer.created_ms),
    )


def _is_among(line: str, lines: Collection[str]) -> bool:
    """Whether a line is one of others, or one of them says what it says."""
    return line in lines or any(_covers(candidate, line) for candidate in lines)


def _covers(candidate: str, line: str) -> bool:
    """Whether a candidate says what a line says, with all its words and signs in their order. The case of its first
    letter is left out of account."""
    candidate_tokens = iter(_tokens(candidate))
    in_order = all(token in candidate_tokens for token in _tokens(line))
    return in_order and dice(candidate, line) >= ALIKE and not difference(candidate, line)


def _tokens(line: str) -> list[str]:
    line = line.strip()
    return re.findall(r"\w+|[^\w\s]", line[:1].lower() + line[1:])
