"""How messages become words: which enrichment, and in which time zone a day begins. Pure.

What is remembered and what is asked must become words in the same way, so both are here. The words themselves are
found by `nlp`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import tzinfo
from fnmatch import fnmatchcase
from itertools import chain

from memory_server.model import Message, ShortTermMemory, said_in
from nlp import ROLE_WEIGHTS, Enrichment, Keyword, enriched_keywords

PLAIN = Enrichment()
"""Words exactly as in the Node original."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wording:
    """`zone` None means the system's zone. `names_of`: words that are never cut, by patterns of conversation ids."""

    enrichment: Enrichment = PLAIN
    zone: tzinfo | None = None
    names_of: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def within(self, conversation_id: str) -> Wording:
        """The same, with the names that count in this conversation."""
        matching = (names for pattern, names in self.names_of.items() if fnmatchcase(conversation_id, pattern))
        names = dict.fromkeys((*self.enrichment.words, *chain.from_iterable(matching)))
        return replace(self, enrichment=replace(self.enrichment, words=tuple(names)))

    def of_memory(
        self, messages: Sequence[Message], time_ms: int, role_weights: Mapping[str, float] = ROLE_WEIGHTS
    ) -> list[Keyword]:
        """The keywords of a memory of `time_ms`, with the days on which it was said."""
        return enriched_keywords(
            messages,
            self.enrichment,
            now_ms=time_ms,
            zone=self.zone,
            role_weights=role_weights,
            with_own_days=True,
        )

    def of_text(self, memory: ShortTermMemory) -> ShortTermMemory:
        """`memory` with the words of its messages, or of its text where it came without any; all else stays."""
        keywords = self.of_memory(
            memory.messages or said_in(memory.text), memory.time_ms, {**ROLE_WEIGHTS, **memory.role_weights}
        )
        return replace(
            memory,
            words=tuple(keyword.word for keyword in keywords),
            weights=tuple(keyword.weight for keyword in keywords),
            indexed_with=self.enrichment.signature,
        )

    def is_of(self, memory: ShortTermMemory) -> bool:
        """Whether the words of `memory` were found with these options."""
        return memory.indexed_with == self.enrichment.signature

    def of_query(
        self, messages: Sequence[Message], now_ms: int, role_weights: Mapping[str, float] = ROLE_WEIGHTS
    ) -> dict[str, float]:
        """The words by which memories are searched at `now_ms`, with their weights."""
        return dict(
            enriched_keywords(messages, self.enrichment, now_ms=now_ms, zone=self.zone, role_weights=role_weights)
        )
