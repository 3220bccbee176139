"""A search among memories of users, by words, by meaning or by both. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from memory_server.kernel.fusion import FUSED
from memory_server.kernel.messages import NOTHING
from memory_server.kernel.scopes import Scope
from memory_server.kernel.values import dataclass
from memory_server.knowledge.entry import Hit, Query
from memory_server.knowledge.ports import ScopeView
from memory_server.knowledge.ranking import by_meaning, by_ranks, by_relevance
from memory_server.knowledge.sessions.records import SearchType


@dataclass(frozen=True, slots=True)
class FoundMemories:
    """The hits of a search, how many memories match, and how many have no vector."""

    hits: Sequence[Hit]
    total: int
    missing: int = 0


@dataclass(frozen=True, slots=True)
class _NearMemories:
    """The nearest memories, the ids of all that are near enough, and how many have no vector."""

    hits: list[Hit]
    ids: frozenset[int]
    missing: int


@dataclass(frozen=True, slots=True)
class MemorySearch:
    """A search in the scope of a user. `vector` is the vector of the query; if it is empty, only words are searched."""

    scope: Scope
    words: Query
    vector: bytes
    min_similarity: float
    limit: int

    @property
    def searches(self) -> Mapping[SearchType, Callable[[ScopeView], FoundMemories]]:
        """The kinds of searches."""
        return {"text": self.by_words, "vector": self.by_vector, "hybrid": self.by_both}

    def by_words(self, view: ScopeView) -> FoundMemories:
        """Search memories by words in any language."""
        matches = view.search(self.words)
        return FoundMemories(by_relevance(matches.hits), matches.total)

    def by_vector(self, view: ScopeView) -> FoundMemories:
        """Search memories by meaning."""
        near = self._near(view)
        return FoundMemories(near.hits[: self.limit], len(near.ids), near.missing)

    def by_both(self, view: ScopeView) -> FoundMemories:
        """Search memories by words and by meaning."""
        matches = view.search(self.words)
        near = self._near(view)
        in_both = sum(hit.entry.id in near.ids for hit in matches.hits)
        ranked = by_ranks(by_relevance(matches.hits), near.hits)
        total = matches.total + len(near.ids) - in_both
        return FoundMemories(ranked[: self.limit], total, near.missing)

    def _near(self, view: ScopeView) -> _NearMemories:
        cosines, missing = view.nearest(self.vector, self.words.where)
        near = [(entry_id, cosine) for entry_id, cosine in cosines if cosine >= self.min_similarity]
        hits = by_meaning(hits_of(view, self.scope, near[:FUSED]))
        return _NearMemories(hits, frozenset(entry_id for entry_id, _cosine in near), missing)


def hits_of(view: ScopeView, scope: Scope, cosines: Sequence[tuple[int, float]]) -> list[Hit]:
    """Return the entries of these ids that still exist, with their cosines as relevance."""
    hits = []
    for entry_id, cosine in cosines:
        entry = view.get(id=entry_id)
        if entry is not None:
            hits.append(Hit(entry, cosine, matched=NOTHING, scope=scope))
    return hits
