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
    """How relevance is reckoned and how many memories a search gives. Made without arguments it is the Node original;
    USUAL is what everyone else gets."""

    decay_ceiling: float = 15.0
    """Relevance points that an infinitely old memory loses (the Node original)."""
    decay_per_ms: float = 2e-9
    """Rate of the decay per millisecond: a time constant of 5.79 days, a half-life of 4.01 days (the Node original)."""
    threshold: float = 5.0
    """Relevance points from which a memory can come as top or next (the Node original's code: >=, not >)."""
    least_match: float = 0.0
    """Points that what a memory shares with the query must come to, whatever its age and score, among 300 memories:
    `relevance.match_needed` says it for fewer and more."""
    must_share: bool = False
    """Whether a memory must share a telling word of the last message to come as top or next, and no more of its score
    counts than `score_ceiling`."""
    rarity: bool = False
    """Whether a word counts less the more of the searched memories hold it; one that a single memory holds counts as
    it is."""
    neighbour_share: float = 0.0
    """Share of the match of the better of its two neighbours that a memory with a shared word gains, where no pause of
    `episode_pause_ms` lies between them."""
    episode_share: float = 0.0
    """Share that it gains of what all of its episode, from pause to pause, shares with the query beyond itself."""
    episode_pause_ms: int = 60 * MINUTE_MS
    """A pause after which another episode begins: longer than any answer takes."""

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
    """A memory of the same conversation younger than this is held back, unless another session said it."""
    sessions: bool = True
    """Whether it counts which session said what (the Node original knows none)."""
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
"""The defaults of everyone who does not ask for the Node original, chosen on the development sets of
docs/explanation/recall-quality.md."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionParameters:
    """What the clean-up keeps of a conversation."""

    always_kept: int = 20_000
    """Up to so many memories nothing is forgotten: ten exchanges a day for five years. A search of 100,000 takes a few
    milliseconds, so it is not time that bounds them but what a person would ever look through."""
    max_age_ms: int = 365 * DAY_MS
    """Beyond that number, older memories fail (the Node original)."""
    min_relevance: float = -5.0
    """Beyond that number, memories whose relevance to nothing at all lies below this fail (the Node original)."""
    recalled_last: bool = True
    """Whether memories that were ever recalled go after all that never were."""
    most_at_once: int = 500
    """One run forgets at most this many, so that a wrong clock or setting is noticed before much is in the archive."""


NODE_RETENTION = RetentionParameters(always_kept=512, recalled_last=False)
"""The Node original's rule: 512 stay, filled from the failing ones by relevance (its code)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameters:
    """All groups, as one value that the managers are given."""

    recall: RecallParameters = field(default_factory=RecallParameters)
    retention: RetentionParameters = field(default_factory=RetentionParameters)
    wording: Wording = field(default_factory=Wording)
    """How messages become words; by default exactly as in the Node original."""
    same_turn_ms: int = 10 * MINUTE_MS
    """Equal messages of one conversation within this time are one memory, whichever way they came; 0: never (the Node
    original)."""
    random_long_term: int = 2
    """Long-term memories that did not fire and come by chance (the Node original)."""
