"""The constants of recall, each with its unit and source. A setting of the same name can change any of them.

Sources: the architecture of the Node original and facts read in its code; docs/explanation/recall.md.
"""

from __future__ import annotations

from dataclasses import field, replace
from math import inf, sqrt

from memory_server.conversations.recall.words import KeywordOptions
from memory_server.kernel.times import DAY_MS, MINUTE_MS
from memory_server.kernel.values import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class RecallParameters:
    """How relevance is computed and how many memories a search gives. The defaults come from the Node original; USUAL
    is used everywhere else."""

    decay_ceiling: float = 15.0
    """Relevance points that a memory loses at most with age (the Node original)."""
    decay_per_ms: float = 2e-9
    """Rate of the decay per millisecond: a time constant of 5.79 days, a half-life of 4.01 days (the Node original)."""
    threshold: float = 5.0
    """Relevance points from which a memory can come as top or next (the Node original's code: >=, not >)."""
    least_match: float = 0.0
    """Points that a memory must share with the query among 300 memories, at any age and score: `relevance.match_needed`
    computes it for fewer and more memories."""
    # With 1.0 two small models brought such a memory to 0 to 8 % of small talk, with 0.5 to 4 to 16 %.
    meaning_margin: float = 1.0
    """Standard deviations by which a memory must stand out to come unasked by meaning alone."""
    question_match: float = 1.0
    """The share of `least_match` that is enough after a question."""
    statement_match: float = 1.0
    """The same for the words of a statement. Function words do not count."""
    # A long text about something else shares by chance what only a right answer shares with a short one. The length of
    # a memory was tried as well and gained nothing beside this.
    part_asked: float = 0.0
    """Factor for the threshold on the points of a memory that shares none of the words of a question. It grows with
    the part of the question that the memory shares, up to twice this. 0: the part does not matter."""
    long_message_words: float = inf
    """Telling words of the last message, beyond which the needed points grow with the square root of their number."""
    statement_words: int = 1
    """How many different words of a statement a memory must share. The hook demands two."""
    nearly_best: float = 0.0
    """The share of the relevance of the best memory that another one needs to come unasked."""
    # The best one may be best by the caller's words, and another one by the words of the message.
    nearly_best_given: float = 1.0
    """Factor on this share and on `with_best`, where the caller gives other words."""
    # Of such memories 6 in 100 are right; a question about several is answered by memories as relevant as the best.
    nearly_best_further: float = 0.0
    """The same share beyond the places of top and next, after a question."""
    other_words_needed: int = 2
    """How many other words a memory must share if its text shares no word with a statement. They are of the caller or
    kept with the memory. After a question a single word is enough."""
    other_words_asked: float = 3.0
    """Factor on the points of other words for the threshold after a question."""
    other_words_told: float = 0.8
    """The same after a statement. They need no more points in a long message."""
    with_best: float = 0.0
    """After a statement that brings a memory, weaker ones come with this share of its relevance; 0: never. They share
    too little to come alone."""
    must_share: bool = False
    """Whether a memory must share a word of the last message to come as top or next. After a statement, function
    words do not count. Then only `score_ceiling` points of its score count."""
    weak_too: bool = False
    """Whether what shares any word comes, marked as weak where it would not come unasked: a search that the user
    asked for gives the best there is. Callers set it."""
    whole_weight: float = 0.0
    """The weight of a word in a memory from which on it counts whole. A word of less weight, which a long text says once,
    counts by the square root of its part of this. 0: every word counts whole."""
    rarity: bool = False
    """Whether a word counts less if more of the searched memories hold it; a word in a single memory counts fully."""
    few_holders: int = 0
    """A Chinese character that is a word of a question (我家猫叫什么) counts whole if at most so many memories hold it."""
    typo_factor: float = 0.0
    """Factor on an English word that is one letter away from one that no memory has."""
    span_points: float = 0.0
    """Points of a memory of the time that the last message names (7月份, last week); half of them nearby."""
    # Who names a time means a memory that has both. With more `span_points` in its place, memories come that share the
    # time and little else.
    span_match: float = 0.0
    """The points of its words times this, if these are more than `span_points`."""
    span_before_ms: int = DAY_MS
    """Milliseconds before that time that count as nearby, for plans."""
    span_after_ms: int = 4 * DAY_MS
    """Milliseconds after that time that count as nearby, for later reports."""
    cue_points: float = 0.0
    """Points of a memory that holds the kind of answer that is asked for: a date, a number or a name. Only the first
    `reordered` ones get them. They do not count for the threshold."""
    reordered: int = 64
    """Memories that `cue_points` can bring forward."""
    neighbour_share: float = 0.0
    """After a question, a memory gains this share of the match of its better neighbour in its episode. It shares a
    word itself. Only words of the last message count."""
    episode_share: float = 0.0
    """It also gains this share of the match of the rest of its episode."""
    episode_pause_ms: int = 60 * MINUTE_MS
    """After a pause of this length a new episode begins."""

    top_count: int = 2
    """Memories of the first tier (the Node original)."""
    next_count: int = 1
    """Memories of the second tier (the Node original)."""
    answers: bool = False
    """Whether the best memory after a question, if it ends with a question, is shown with the next one."""
    matches_for_chance: bool = False
    """Whether matches replace random memories after a question, unless nothing matched."""
    flashback_count: int = 2
    """Memories drawn by chance (the Node original)."""
    question_count: int | None = None
    """Matches that come beside top and next after a question, with `matches_for_chance`; if it is None,
    `flashback_count`. Callers set it."""
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
    """Memories of the same moment that can come as top and next."""
    flashback_recency_weight: float = 1.7
    """Weight of a brand-new memory in the draw, falling to 0 over `flashback_horizon_ms`."""
    flashback_score_weight: float = 1.1
    """Weight of a memory of `flashback_score_full` points in the draw."""
    flashback_score_full: float = 50.0
    """Score points that count as full in the draw."""
    flashback_horizon_ms: int = 365 * DAY_MS
    """Age at which recency stops counting in the draw."""

    def places(self, *, question: bool) -> int:
        """Memories that come as top and next at most."""
        places = self.top_count + self.next_count
        if question and self.matches_for_chance:
            places += self.flashback_count if self.question_count is None else self.question_count
        return places

    def with_flashbacks(self, count: int) -> RecallParameters:
        """Return the same parameters with `count` memories drawn by chance; a question gets as many matches as
        before."""
        return replace(
            self,
            flashback_count=count,
            question_count=self.places(question=True) - self.places(question=False),
        )

    def message_factor(self, telling_words: int) -> float:
        """Return the factor on the needed points for a last message with so many words that say something, at least
        1."""
        return sqrt(max(1.0, telling_words / self.long_message_words))

    def gap(self, *, question: bool, with_other_words: bool) -> float:
        """Return the share of the best memory's relevance that another memory needs when the user did not ask for
        memories; 0 for any."""
        share = self.with_best if self.brings(question=question) else self.nearly_best
        return share * self.nearly_best_given if with_other_words else share

    def brings(self, *, question: bool) -> bool:
        """Return whether a memory that comes brings others `with_best`."""
        return self.with_best > 0.0 and not (question or self.weak_too)

    def draws(self, *, question: bool, came: bool) -> bool:
        """Return whether memories come by chance too; `came` says whether any came as top."""
        return self.flashback_count > 0 and not (self.matches_for_chance and question and came)


USUAL = RecallParameters(
    decay_ceiling=5.0,
    threshold=-inf,
    least_match=33.0,
    part_asked=0.7,
    question_match=0.8,
    statement_match=0.9,
    long_message_words=8.0,
    nearly_best=0.6,
    nearly_best_given=0.75,
    nearly_best_further=0.9,
    with_best=0.55,
    must_share=True,
    whole_weight=5.0,
    rarity=True,
    few_holders=2,
    typo_factor=0.7,
    span_points=20.0,
    span_match=1.0,
    cue_points=7.5,
    neighbour_share=0.25,
    episode_share=0.25,
    answers=True,
    matches_for_chance=True,
    same_moment=3,
    score_ceiling=10.0,
    flashback_score_full=10.0,
)
"""The defaults without `compat = "node"`, chosen on the development sets of docs/explanation/recall-quality.md."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionParameters:
    """What the clean-up keeps of a conversation."""

    always_kept: int = 20_000
    """With at most this many memories, nothing is forgotten: ten exchanges a day for five years. A search of 100,000
    takes a few milliseconds, so the limit is not time but what a person would ever look through."""
    max_age_ms: int = 365 * DAY_MS
    """Beyond that number, memories older than this may be forgotten (the Node original)."""
    min_relevance: float = -5.0
    """Beyond that number, memories may be forgotten whose relevance without any match is below this (the Node
    original)."""
    recalled_last: bool = True
    """Whether memories that were recalled before are forgotten only after all that never were."""
    age_counts_alone: bool = False
    """Whether a memory that is older than `max_age_ms` goes however few there are, as in the document of the Node
    original."""
    most_at_once: int = 500
    """A run forgets at most this many, so that the user notices a wrong clock or setting before much is forgotten."""


NODE_RETENTION = RetentionParameters(always_kept=512, recalled_last=False, age_counts_alone=True)
"""The Node original's rule, in its architecture document: "Age > 1 year? Delete. Relevance < -5? Delete (unless top
512)". Its code spares the best 512 of both; a document is what people agreed on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameters:
    """All constants as one value for the managers."""

    recall: RecallParameters = field(default_factory=RecallParameters)
    at_every_prompt: RecallParameters = field(default_factory=RecallParameters)
    """The same for a search at every prompt, as hooks make it."""
    retention: RetentionParameters = field(default_factory=RetentionParameters)
    wording: KeywordOptions = field(default_factory=KeywordOptions)
    """How messages become words; by default exactly as in the Node original."""
    same_turn_ms: int = 10 * MINUTE_MS
    """Equal messages of a conversation within this time are one memory; 0: never (the Node original)."""
    random_long_term: int = 2
    """Long-term memories that did not fire and come by chance (the Node original)."""
