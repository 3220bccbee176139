"""The constants of recall, each with its unit and source. A setting of the same name can change any of them.

Sources: the architecture of the Node original and facts read in its code; docs/explanation/recall.md.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from memory_server.recall.words import Wording

MINUTE_MS = 60_000
DAY_MS = 86_400_000


@dataclass(frozen=True, slots=True, kw_only=True)
class RecallParameters:
    """How relevance is reckoned and how many memories a search gives."""

    decay_ceiling: float = 15.0
    """Relevance points that an infinitely old memory loses (the Node original)."""
    decay_per_ms: float = 2e-9
    """Rate of the decay per millisecond: a time constant of 5.79 days, a half-life of 4.01 days (the Node original)."""
    threshold: float = 5.0
    """Relevance points from which a memory can come as top or next (the Node original's code: >=, not >)."""
    top_count: int = 2
    """Memories of the first tier (the Node original)."""
    next_count: int = 1
    """Memories of the second tier (the Node original)."""
    flashback_count: int = 2
    """Memories drawn by chance (the Node original)."""
    top_reinforcement: float = 5.0
    """Score points for coming as top (the Node original)."""
    next_reinforcement: float = 2.0
    """Score points for coming as next (the Node original)."""
    score_ceiling: float = 100.0
    """Score points at most (the Node original's code)."""
    own_conversation_ms: int = 20 * MINUTE_MS
    """A memory of the same conversation younger than this is still in the context, so it is held back."""
    spacing_ms: int = 10 * MINUTE_MS
    """Two recalled memories are at least this far apart, so that they are not the same moment."""
    flashback_recency_weight: float = 1.7
    """Weight a brand-new memory gains in the draw, falling to 0 over `flashback_horizon_ms`."""
    flashback_score_weight: float = 1.1
    """Weight a memory of `flashback_score_full` points gains in the draw."""
    flashback_score_full: float = 50.0
    """Score points that count as full in the draw."""
    flashback_horizon_ms: int = 365 * DAY_MS
    """Age at which recency stops counting in the draw."""
    hour_affinity: float = 0.0
    """Relevance points that a memory with a common word gains where it was made at this time of day (GentianAphrodite,
    the ancestor of the Node original: 3)."""
    hour_affinity_ms: int = 120 * MINUTE_MS
    """How far from that time of day the gain has fallen to e^(-1/2) of it (GentianAphrodite)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionParameters:
    """What the clean-up keeps."""

    max_age_ms: int = 365 * DAY_MS
    """Older memories fail (the Node original)."""
    min_relevance: float = -5.0
    """Memories whose relevance to nothing at all lies below this fail (the Node original)."""
    always_kept: int = 512
    """At least this many stay, filled from the failing ones by relevance (the Node original's code)."""
    most_at_once: int = 500
    """One run forgets at most this many, the least relevant first, so that a wrong clock or setting is noticed
    before much is in the archive; an ordinary day's failing memories are a handful."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameters:
    """All groups, as one value that the managers are given."""

    recall: RecallParameters = field(default_factory=RecallParameters)
    retention: RetentionParameters = field(default_factory=RetentionParameters)
    wording: Wording = field(default_factory=Wording)
    """How messages become words; by default exactly as in the Node original."""
    random_long_term: int = 2
    """Long-term memories that did not fire and come by chance (the Node original)."""
