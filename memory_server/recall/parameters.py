"""The constants of recall, each with its unit and source. A setting of the same name can change any of them.

Sources: the architecture of the Node original and facts read in its code; docs/explanation/recall.md.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf

from memory_server.recall.words import Wording

MINUTE_MS = 60_000
DAY_MS = 86_400_000


@dataclass(frozen=True, slots=True, kw_only=True)
class RecallParameters:
    """How relevance is computed and how many memories a search gives. The defaults are those of the Node original;
    USUAL is used everywhere else."""

    decay_ceiling: float = 15.0
    """Relevance points that an infinitely old memory loses (the Node original)."""
    decay_per_ms: float = 2e-9
    """Rate of the decay per millisecond: a time constant of 5.79 days, a half-life of 4.01 days (the Node original)."""
    threshold: float = 5.0
    """Relevance points from which a memory can come as top or next (the Node original's code: >=, not >)."""
    least_match: float = 0.0
    """Points that a memory must share with the query among 300 memories, at any age and score: `relevance.match_needed`
    computes it for fewer and more memories."""
    meaning_margin: float = 1.0
    """Standard deviations by which a memory that comes only by meaning must stand out (`fusion.needed_cosine`); -inf:
    all may come, as in a search that somebody asked for. With 1.0 two small models brought such a memory to 0 to 8 %
    of small talk, with 0.5 to 4 to 16 %."""
    must_share: bool = False
    """Whether a memory must share a word of the last message that is not a function word to come as top or next, and
    only `score_ceiling` points of its score count."""
    rarity: bool = False
    """Whether a word counts less if more of the searched memories hold it; a word that one memory holds counts
    fully."""
    neighbour_share: float = 0.0
    """A memory with a shared word gains this share of the match of the better of its two neighbours in its episode."""
    episode_share: float = 0.0
    """It also gains this share of what the rest of its episode shares with the query."""
    episode_pause_ms: int = 60 * MINUTE_MS
    """After a pause of this length a new episode begins: no answer takes so long."""

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
    """A memory of the same conversation younger than this is held back, unless it comes from another session."""
    sessions: bool = True
    """Whether sessions count (the Node original has no sessions)."""
    spacing_ms: int = 10 * MINUTE_MS
    """Memories nearer to each other than this are of the same moment."""
    same_moment: int = 1
    """Memories of the same moment that can come as top and next (the Node original: 1)."""
    flashback_recency_weight: float = 1.7
    """Weight a brand-new memory gains in the draw, falling to 0 over `flashback_horizon_ms`."""
    flashback_score_weight: float = 1.1
    """Weight a memory of `flashback_score_full` points gains in the draw."""
    flashback_score_full: float = 50.0
    """Score points that count as full in the draw."""
    flashback_horizon_ms: int = 365 * DAY_MS
    """Age at which recency stops counting in the draw."""


USUAL = RecallParameters(
    decay_ceiling=5.0,
    threshold=-inf,
    least_match=33.0,
    must_share=True,
    rarity=True,
    neighbour_share=0.25,
    episode_share=0.25,
    same_moment=2,
    score_ceiling=10.0,
    flashback_score_full=10.0,
)
"""The defaults without `compat = "node"`, chosen on the development sets of docs/explanation/recall-quality.md."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionParameters:
    """What the clean-up keeps of a conversation."""

    always_kept: int = 20_000
    """Up to this many memories nothing is forgotten: ten exchanges a day for five years. A search of 100,000 takes a
    few milliseconds, so the limit is not time but what a person would ever look through."""
    max_age_ms: int = 365 * DAY_MS
    """Beyond that number, memories older than this may be forgotten (the Node original)."""
    min_relevance: float = -5.0
    """Beyond that number, memories may be forgotten whose relevance without any match is below this (the Node
    original)."""
    recalled_last: bool = True
    """Whether memories that were recalled before are forgotten only after all that never were."""
    most_at_once: int = 500
    """One run forgets at most this many, so that somebody notices a wrong clock or setting before much is forgotten."""


NODE_RETENTION = RetentionParameters(always_kept=512, recalled_last=False)
"""The Node original's rule: 512 stay; if fewer are left, the most relevant of the others stay too (its code)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameters:
    """All constants as one value for the managers."""

    recall: RecallParameters = field(default_factory=RecallParameters)
    retention: RetentionParameters = field(default_factory=RetentionParameters)
    wording: Wording = field(default_factory=Wording)
    """How messages become words; by default exactly as in the Node original."""
    same_turn_ms: int = 10 * MINUTE_MS
    """Equal messages of one conversation within this time are one memory; 0: never (the Node original)."""
    random_long_term: int = 2
    """Long-term memories that did not fire and come by chance (the Node original)."""
