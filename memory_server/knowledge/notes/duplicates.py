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
from typing import Final, NamedTuple, TypeAlias, get_args

from memory_server.kernel.errors import InvalidInput
from memory_server.kernel.values import frozen
from memory_server.knowledge.differences import difference, meaningful_words
from memory_server.knowledge.entry import Entry, Filter, Purge, Reason, archived, usable
from memory_server.knowledge.notes import duplicates
from memory_server.knowledge.ports import Decided, ScopeView
from nlp.index_terms import index_form

ALIKE: Final = 0.85
"""Dice of pairs of characters from which two texts are alike: measured on pairs written for this project."""
_LEAST_SHARE: Final = ALIKE / (2 - ALIKE)
"""The least share of the longer text's pairs that the shorter one has if two texts are alike."""
_NEIGHBOURS: Final = 16
"""How many neighbours in the order of its words a text is compared with, so that the work grows with the number of
texts and not with its square."""
_MOST_NEAR: Final = 2
"""How many of these neighbours may be told as alike, though they differ in a fact."""
_MOST_EQUAL: Final = 2
"""How many of equal texts are compared with others; of the rest each is paired with the newest of them."""


@frozen
class Pair:
    """Two entries that are alike. `differs`: the facts in which they differ; empty: they say the same."""

    older: Entry
    newer: Entry
    dice: float
    differs: str


@frozen
class ReindexedNotes:
    """What a reindex did or would do. `kept_apart`: pairs that are alike but differ in a fact; for many notes of the
    same form, only the nearest pairs."""

    merged: tuple[Pair, ...]
    kept_apart: tuple[Pair, ...]
    removed: int
    remaining: int
    copy: Path | None = None
    change_id: str | None = None


def text_of(entry: Entry) -> str:
    """Return the text by which an entry is compared."""
    return f"{entry.title}\n{entry.body}"


def dice(first: str, second: str) -> float:
    """Measure how alike two texts are, from 0 to 1: 2 · common pairs of characters / all pairs, without punctuation and
    case."""
    first_pairs = _pairs(first)
    second_pairs = _pairs(second)
    if first_pairs or second_pairs:
        return _dice(first_pairs, second_pairs)
    return float(index_form(first).split() == index_form(second).split())


def count_same(text: str, candidates: Sequence[str]) -> int:
    """Count the candidates that say the same as `text`."""
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


@frozen
class _ComparedEntry:
    """An entry with what it is compared by: its words and signs that mean something, and its pairs of characters."""

    entry: Entry
    words: tuple[str, ...]
    pairs: Counter[str]
    length: int

    @classmethod
    def of(cls, entry: Entry) -> _ComparedEntry:
        text = text_of(entry)
        pairs = _pairs(text)
        return cls(entry, meaningful_words(text), pairs, pairs.total())


_Couple: TypeAlias = tuple[int, int]
"""The numbers of two texts in their group, the smaller one first."""


def pairs_among(entries: Sequence[Entry]) -> list[Pair]:
    """Return the pairs of a kind and project that are alike, the most alike first. All pairs that say the same are
    included; of pairs that differ in a fact, only the nearest of each entry. Of many equal texts only the newest two
    are compared with others."""
    groups: dict[tuple[str, str], list[Entry]] = defaultdict(list)
    for entry in entries:
        groups[entry.kind, entry.project].append(entry)
    alike: list[Pair] = []
    for group in groups.values():
        alike += _alike_pairs(group)
    return sorted(alike, key=lambda pair: (-pair.dice, pair.newer.id))


def _alike_pairs(entries: Sequence[Entry]) -> Iterator[Pair]:
    """Yield the pairs of these entries that are alike. Of equal texts, each older one is paired
    with the newest, and only the newest two are compared with other texts."""
    equals: dict[str, list[Entry]] = defaultdict(list)
    for entry in sorted(entries, key=_age):
        equals[text_of(entry)].append(entry)
    group: list[_ComparedEntry] = []
    for equal in equals.values():
        for entry in equal[:-_MOST_EQUAL]:
            yield Pair(entry, equal[-1], dice=1.0, differs="")
        group += map(_ComparedEntry.of, equal[-_MOST_EQUAL:])
    couples = {*_containing(group), *_nearest(group)}
    for first, second in sorted(couples):
        alike = _dice(group[first].pairs, group[second].pairs)
        if alike >= ALIKE:
            yield _pair_by_age(group[first].entry, group[second].entry, alike)


def _age(entry: Entry) -> tuple[int, int]:
    return entry.updated_ms, entry.id


def _pair_by_age(first: Entry, second: Entry, alike: float) -> Pair:
    older, newer = sorted((first, second), key=_age)
    return Pair(older, newer, dice=alike, differs=difference(text_of(older), text_of(newer)))


def _containing(group: Sequence[_ComparedEntry]) -> Iterator[_Couple]:
    """Yield the couples in which a text has all words of the other text and is not much longer. Texts that say the same
    are among them, because a difference in a word is a difference in a fact."""
    numbers_of_word: dict[str, set[int]] = defaultdict(set)
    for number, text in enumerate(group):
        for word in text.words:
            numbers_of_word[word].add(number)
    for number, text in enumerate(group):
        # The rarest words first: mostly only the text itself has the first few of them.
        holders = sorted((numbers_of_word[word] for word in set(text.words)), key=len)
        containing = set(holders[0]) if holders else set()
        for numbers in holders[1:]:
            if len(containing) <= 1:
                break
            containing &= numbers
        for candidate in containing - {number}:
            if _may_say_the_same(text, group[candidate]):
                yield min(number, candidate), max(number, candidate)


def _may_say_the_same(shorter: _ComparedEntry, longer: _ComparedEntry) -> bool:
    """Return whether a text with all words of another text may say the same. It has the same words, or more words but
    not so many that the texts are no longer alike."""
    if len(shorter.words) == len(longer.words):
        return shorter.words == longer.words
    is_longer = len(shorter.words) < len(longer.words)
    return is_longer and shorter.length >= _LEAST_SHARE * longer.length


def _nearest(group: Sequence[_ComparedEntry]) -> Iterator[_Couple]:
    """Yield each text with its most alike neighbours, in the order of the words from the beginning, and from the end.
    Texts that differ in a single place are near each other in at least one of the two orders."""
    numbers = range(len(group))
    from_beginning = sorted(numbers, key=lambda number: group[number].words)
    from_end = sorted(numbers, key=lambda number: group[number].words[::-1])
    for order in (from_beginning, from_end):
        for position, number in enumerate(order):
            neighbours = order[position + 1 : position + 1 + _NEIGHBOURS]
            likeness = {
                neighbour: _dice(group[number].pairs, group[neighbour].pairs)
                for neighbour in neighbours
            }
            for neighbour in sorted(neighbours, key=lambda neighbour: -likeness[neighbour])[
                :_MOST_NEAR
            ]:
                yield min(number, neighbour), max(number, neighbour)


class Merge(NamedTuple):
    """A pair that is merged. `whole`: the newer entry as it becomes; `removed`: the older one in the archive."""

    pair: Pair
    whole: Entry
    removed: Entry


def merges(pairs: Sequence[Pair], now_ms: int) -> list[Merge]:
    """Plan to merge the `pairs` that say the same, each older entry into the newer one; the older goes into the
    archive. An entry joins others only if it says the same as each of them. A text that would become too long stays
    as it is."""
    same = {frozenset(_texts_of(pair)) for pair in pairs if not pair.differs}
    changed: dict[int, Entry] = {}
    members: dict[int, frozenset[str]] = {}
    merges: list[Merge] = []
    for pair in pairs:
        older = changed.get(pair.older.id, pair.older)
        newer = changed.get(pair.newer.id, pair.newer)
        older_text, newer_text = _texts_of(pair)
        newer_members = members.get(newer.id, frozenset([newer_text]))
        older_members = members.get(older.id, frozenset([older_text]))

        # An entry that was already merged into another is out of the way.
        if older.archived_ms is not None or newer.archived_ms is not None:
            continue

        # Likeness is not transitive: every former member must say the same as every other.
        couples = map(frozenset, product(newer_members, older_members))
        if any(len(couple) > 1 and couple not in same for couple in couples):
            continue

        # A note that would be too long, or have too many tags, is not merged.
        with suppress(InvalidInput):
            merged_note = usable(merged(older, newer))
            removed_note = archived(older, "merged", now_ms)
            changed[merged_note.id] = merged_note
            changed[removed_note.id] = removed_note
            members[merged_note.id] = newer_members | older_members
            merges.append(Merge(replace(pair, older=older, newer=newer), merged_note, removed_note))
    return merges


def _texts_of(pair: Pair) -> tuple[str, str]:
    return text_of(pair.older), text_of(pair.newer)


def merged(older: Entry, newer: Entry) -> Entry:
    """Merge two entries into the newer one. Return it with the title and the lines that only the older entry has, with
    uses summed, confidence averaged, tags, examples and sources united, and the earlier creation."""
    newer_lines = dict.fromkeys((newer.title, *newer.body.splitlines()))
    older_lines = dict.fromkeys((older.title, *older.body.splitlines()))
    lacking = [line for line in older_lines if line.strip() and not _is_among(line, newer_lines)]

    body = newer.body
    if lacking:
        body = "\n".join([newer.body.rstrip("\n"), *lacking])

    # A source may already be several, from a merge before.
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
    """Return whether a line is among others, or a line among them covers it."""
    return line in lines or any(_covers(candidate, line) for candidate in lines)


def _covers(candidate: str, line: str) -> bool:
    """Return whether a candidate says what a line says, with all its words and signs in their order. The case of its
    first letter does not count."""
    candidate_tokens = iter(_tokens(candidate))
    in_order = all(token in candidate_tokens for token in _tokens(line))
    return in_order and dice(candidate, line) >= ALIKE and not difference(candidate, line)


def _tokens(line: str) -> list[str]:
    line = line.strip()
    return re.findall(r"\w+|[^\w\s]", line[:1].lower() + line[1:])


@frozen
class NotesToReindex:
    """The live notes, and the archived ones that a reindex removes for good."""

    live: list[Entry]
    removable: list[Entry]


@frozen
class ReindexPlan:
    """What a reindex will do with notes. `kept_apart`: alike, but with a fact in which they differ."""

    notes: NotesToReindex
    merges: Sequence[Merge]
    kept_apart: tuple[Pair, ...]

    @property
    def report(self) -> ReindexedNotes:
        """The report of this plan before it is carried out."""
        return ReindexedNotes(
            merged=tuple(merge.pair for merge in self.merges),
            kept_apart=self.kept_apart,
            removed=len(self.notes.removable),
            remaining=len(self.notes.live) - len(self.merges),
        )

    def purge(self, view: ScopeView) -> Decided[int]:
        """Decide to remove the removable notes, which are in the archive, for good. Return the changes and their
        number. A note that is gone, or that another process changed since the notes of the plan were read, is left
        alone."""
        changes = []
        for note in self.notes.removable:
            present = view.get(id=note.id)
            if present is not None and present.version == note.version:
                changes.append(Purge(note.id))
        return changes, len(changes)

    def merge(self, view: ScopeView) -> Decided[None]:
        """Return the changes that merge the notes of the plan. Raise InvalidInput if a note was
        changed meanwhile."""
        changed: dict[int, Entry] = {}
        for merge in self.merges:
            changed[merge.whole.id] = merge.whole
            changed[merge.removed.id] = merge.removed
        for note in changed.values():
            present = view.get(id=note.id)
            if present is None or present.version != note.version:
                raise InvalidInput(
                    "Notes were changed meanwhile; run `memory-server knowledge reindex` again."
                )
        return list(changed.values()), None


def notes_to_reindex(view: ScopeView, merged_by_ms: int) -> NotesToReindex:
    """Select the notes of a reindex. Notes that were merged after `merged_by_ms` stay in the archive."""
    other_reasons = tuple(reason for reason in get_args(Reason) if reason != "merged")
    removed = view.entries(Filter(archived=True, reasons=other_reasons))
    merged = view.entries(Filter(archived=True, archived_by_ms=merged_by_ms, reasons=("merged",)))
    return NotesToReindex(view.entries(Filter()), [*removed, *merged])


def reindex_plan(notes: NotesToReindex, now_ms: int) -> ReindexPlan:
    """Plan the reindex of these notes. The work grows with their number, even if all notes have the same form."""
    pairs = duplicates.pairs_among(notes.live)
    same = [pair for pair in pairs if not pair.differs]
    different = tuple(pair for pair in pairs if pair.differs)
    return ReindexPlan(notes, duplicates.merges(same, now_ms), different)
