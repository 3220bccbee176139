"""Which refs a search finds, and in which order: by the words of its query, and by other words of the caller. Pure.

As in word_ranking.py, other words bring more refs and take none away: what the query finds by itself comes first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property

from memory_server.kernel.scopes import Scope
from memory_server.kernel.values import dataclass
from memory_server.knowledge.entry import Query, Share
from memory_server.knowledge.ranking import reference_parts
from memory_server.knowledge.word_ranking import OTHER_WORDS_FACTOR, scale_of_others
from nlp.index_terms import IndexTerm, other_terms, sought_in


@dataclass(frozen=True, slots=True)
class ScoredRef:
    """A ref that a search brings. `parts`: the parts of its score, by name. `by_other_words`: the query alone does
    not find it."""

    share: Share
    scope: Scope
    parts: Mapping[str, float]
    by_other_words: bool

    @property
    def score(self) -> float:
        """At most 1."""
        return min(1.0, sum(self.parts.values()))


@dataclass(frozen=True)
class RefScoring:
    """The scoring of refs for a query, of which `counted` terms count. A ref with a score below `least` is not
    found."""

    query: Query
    counted: int
    now_ms: int
    least: float

    @cached_property
    def others(self) -> tuple[IndexTerm, ...]:
        """The terms of the other words."""
        return other_terms(self.query.other_words, sought_in(self.query.text))

    @cached_property
    def first_other(self) -> int:
        """The number of the first bit of a share for other words. A text without terms counts as a single term."""
        return max(1, len(sought_in(self.query.text)))

    def scored(self, share: Share, scope: Scope) -> ScoredRef | None:
        """Return the ref with its score, or None if it is not found. Other words find what they would find as words of
        the query, but they count less in its score."""
        parts = self._parts(share, OTHER_WORDS_FACTOR)
        if self._is_found(share, 0.0):
            return ScoredRef(share, scope, parts, by_other_words=False)
        if self._is_found(share, 1.0):
            return ScoredRef(share, scope, parts, by_other_words=True)
        return None

    def _is_found(self, share: Share, others_factor: float) -> bool:
        return min(1.0, sum(self._parts(share, others_factor).values())) >= self.least

    def _parts(self, share: Share, others_factor: float) -> dict[str, float]:
        return reference_parts(
            share,
            self.counted,
            self.now_ms,
            first_other=self.first_other,
            others_factor=others_factor,
        )


def best_first(refs: Sequence[ScoredRef]) -> list[ScoredRef]:
    """Order the refs. The scores of refs that only other words find are at most the least score of the others."""
    by_query = [ref for ref in refs if not ref.by_other_words]
    by_others = [ref for ref in refs if ref.by_other_words]
    scale = scale_of_others([ref.score for ref in by_query], [ref.score for ref in by_others])
    if scale < 1.0:
        by_others = [_scaled(ref, scale) for ref in by_others]
    return sorted(by_query, key=_order) + sorted(by_others, key=_order)


def _scaled(ref: ScoredRef, factor: float) -> ScoredRef:
    return replace(ref, parts={name: part * factor for name, part in ref.parts.items()})


def _order(ref: ScoredRef) -> tuple[float, int, int]:
    return -ref.score, -ref.share.created_ms, -ref.share.id


def words_held(
    share: Share, terms: Sequence[IndexTerm], first: int = 0
) -> dict[str, tuple[str, ...]]:
    """Return the words of these terms that each field holds. `first` is the bit of the first term."""
    bits_by_field = {"title": share.title, "tags": share.tags, "body": share.body}
    words_by_field: dict[str, tuple[str, ...]] = {}
    for field_name, bits in bits_by_field.items():
        words = _words_of(bits >> first, terms)
        if words:
            words_by_field[field_name] = words
    return words_by_field


def _words_of(bits: int, terms: Sequence[IndexTerm]) -> tuple[str, ...]:
    return tuple(term.word for number, term in enumerate(terms) if bits >> number & 1)
