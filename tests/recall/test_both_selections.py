"""A search by an index and one that looks at one memory after the other give the same points and the same answer.

Tests of what a search brings ask the indexed one only, since this property compares both."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta, timezone
from functools import cache
from random import Random
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from sample_memories import DAY, HOUR, MINUTE, NOW

from memory_server import Session
from memory_server.conversations.changes import Added, Forgotten, Reinforced, apply
from memory_server.conversations.model import ConversationState, ShortTermMemory
from memory_server.conversations.recall.columns import IndexedMemories
from memory_server.conversations.recall.index import Index, index_of
from memory_server.conversations.recall.indexed_selection import Decision, decide
from memory_server.conversations.recall.order import Recalled
from memory_server.conversations.recall.parameters import USUAL, RecallParameters
from memory_server.conversations.recall.receipts import Receipt
from memory_server.conversations.recall.relevance import receipts
from memory_server.conversations.recall.request import RecallContext
from memory_server.conversations.recall.selection import Recall, exclusion_of, select
from memory_server.conversations.recall.words import KeywordOptions, QueryContext
from memory_server.kernel.messages import NOTHING, Message, context_text
from nlp import Enrichment, QueryWeights

USUAL_WORDING = KeywordOptions(
    enrichment=Enrichment(
        normal_forms=True, scripts=True, dates=True, stems=True, long_texts=True, speakers=True
    ),
    emphasis=QueryWeights(
        earlier=0.7,
        before_question=0.1,
        function_words=0.5,
        relative_days=0.3,
        pairs=0.3,
        given=1.0,
        given_for_question=0.6,
        kept=0.7,
    ),
    zone=timezone(timedelta(hours=8)),
)
WORDINGS = {"node": KeywordOptions(), "usual": USUAL_WORDING}
CHANCELESS = replace(USUAL, flashback_count=0)
PARAMETERS = {
    "node": RecallParameters(),
    "node, rare words": RecallParameters(same_moment=2, must_share=True, rarity=True),
    "usual": USUAL,
    "nothing is silent": replace(CHANCELESS, least_match=0.0),
    "asked": replace(CHANCELESS, weak_too=True, question_count=2),
    "hook": replace(CHANCELESS, statement_words=2, question_match=1.1, with_best=0.0),
    "one is reordered": replace(USUAL, weak_too=True, reordered=1),
    "much beside the best": replace(USUAL, with_best=0.1),
    "no rarity": replace(CHANCELESS, rarity=False, episode_share=0.0),
    "two other words": replace(USUAL, other_words_needed=2),
    "little for a time": replace(USUAL, span_points=1.0),
}
SAID = (
    *(
        "我的狗叫阿黄",
        "阿黄今天没吃饭",
        "去楼下的面馆吃面",
        "猫の名前は？",
        "피아노를 배워요",
        "哈哈哈哈",
    ),
    *(
        "a bike",
        "the bikes",
        "阿黄很好。阿黄！",
        "",
        "\U0001f600 阿\ud800黄",
        "狗和猫和狗",
        "我家猫叫煤球",
    ),
    *(
        "6月阿黄病了吗",
        "who has bikes? Ann",
        "多少只狗？3只",
        "yesterday, Hanna",
        "周四要带阿黄打疫苗",
    ),
    *("We ride on Thursday", "我叫阿遥", "My name is Ann", "今天好累", "now we go", "周一见"),
    *(
        "I like tofu best.",
        "My favourite dish is cake.",
        "我最喜欢吃糖醋鱼。",
        "每周四晚上打羽毛球",
    ),
    *("On Thursday I will paint the fence", "I cannot sleep again"),
)
ASKED = (
    *(
        "我家猫叫什么？",
        "When did the biekes rust last week?",
        "礼拜四有什么安排？",
        "你都记得我什么",
    ),
    *("What is on Thursday?", "what do we do", "what did I say last week?", "昨天聊了什么"),
    *("what is my name?", "今天股市怎么样", "What now?", "What do I like best?", "阿黄几岁？"),
    *("What do you know about me?", "Who sang three hours ago?", "The bikes rust", "周四要干嘛"),
)
OTHER_WORDS = ((), ("pet", "小狗"), ("bicycle", "ride"), ("面条", "狗"), ("the bikes of Ann",))
SESSIONS = (None, "one", "two")
NAMES = (None, "Ann", "Ben")


@dataclass(frozen=True)
class Fact:
    """A memory to be, and what happens to it after it was said."""

    texts: Sequence[str]
    age: int
    score: float = 0.0
    pinned: bool = False
    name: str | None = None
    session: str | None = None
    chat: str = "chat"
    muted: tuple[str, ...] = ()
    other_words: tuple[str, ...] = ()
    cosine: float | None = None
    fate: str = "stays"

    def memory(self, number: int, wording: str) -> ShortTermMemory:
        """Return the memory: what a user said, and what a companion answered."""
        said = said_once(tuple(self.texts), self.name, self.other_words, wording)
        return replace(
            said,
            id=f"m{number:02}",
            time_ms=NOW - self.age,
            score=self.score,
            conversation_id=self.chat,
            pinned=self.pinned,
            session=self.session,
            muted=self.muted,
        )


@cache
def said_once(
    texts: tuple[str, ...], name: str | None, other_words: tuple[str, ...], wording: str
) -> ShortTermMemory:
    """Return a memory of these texts with its words, which take long to find."""
    user = Message("user", texts[0], name=name)
    messages = (user, *(Message("assistant", text) for text in texts[1:]))
    bare = ShortTermMemory(
        "", NOW, context_text(messages), (), (), 0.0, "", messages, other_words=other_words
    )
    return WORDINGS[wording].of_text(bare)


def one_of(*choices: Any) -> st.SearchStrategy[Any]:
    return st.sampled_from(choices)


AGES = st.integers(-4, 300).map(lambda steps: steps * 7 * MINUTE) | st.integers(0, 60).map(
    lambda days: days * DAY
)
"""Some in one moment or one episode, a few to come."""
FACTS = st.builds(
    Fact,
    texts=st.lists(one_of(*SAID, *ASKED), min_size=1, max_size=3),
    age=AGES,
    score=one_of(0.0, -2.0, 5.0, 90.0),
    pinned=st.booleans(),
    name=one_of(*NAMES),
    session=one_of(*SESSIONS),
    chat=one_of("chat", "other"),
    muted=one_of((), (), ("everywhere",), ("conversation:other",)),
    other_words=one_of(*OTHER_WORDS),
    cosine=one_of(None, -0.2, 0.1, 0.3, 0.31, 0.9),
    fate=one_of("stays", "stays", "reinforced", "forgotten"),
)
CONTEXTS = st.fixed_dictionaries(
    {
        "session": st.none()
        | st.builds(Session, one_of("one", "two"), one_of(None, NOW, NOW - DAY)),
        "places": one_of(frozenset(), frozenset({"everywhere", "conversation:chat"})),
        "without": one_of(frozenset(), frozenset({"m00", "m03"})),
    }
)


def assert_same_points(
    decision: Decision, memories: Collection[ShortTermMemory], context: RecallContext
) -> None:
    """See that each row has the points that its memory has by itself, and is excluded for the same reason."""
    query = decision.query
    parameters = context.parameters
    match = decision.counted.match
    plain = receipts(
        list(memories),
        query,
        now_ms=context.now_ms,
        parameters=parameters,
        wording=context.wording,
    )
    for memory, receipt in zip(memories, plain, strict=True):
        row = decision.columns.row_of(memory.id)
        assert row is not None
        assert_same_receipt(decision.counted.receipt(row), receipt)
        assert match.evidence[row] == pytest.approx(receipt.evidence(query, parameters))
        if parameters.must_share:
            assert match.shares[row] == receipt.shares(query, parameters)
            assert match.shares_any[row] == receipt.shares_any(query)
        is_free = memory.id not in context.without and context.places.isdisjoint(memory.muted)
        is_eligible = is_free and exclusion_of(memory, context) is None
        assert bool(decision.counted.eligible[row]) is is_eligible


def assert_same_receipt(ours: Receipt, theirs: Receipt) -> None:
    """See that both say the same, but for the last bits of sums."""

    def words(receipt: Receipt) -> list[tuple[Any, ...]]:
        return sorted((word.text(), word.word, word.said, word.kept) for word in receipt.matched)

    def numbers(receipt: Receipt) -> list[float]:
        points = sorted(word.points for word in receipt.matched)
        shares = [receipt.around, receipt.span, receipt.cue, receipt.part]
        return [receipt.relevance, receipt.decay, receipt.score, *shares, *points]

    assert words(ours) == words(theirs)
    assert numbers(ours) == pytest.approx(numbers(theirs), rel=1e-9, abs=1e-9)
    assert (ours.age_ms, ours.overview, ours.nearness) == (
        theirs.age_ms,
        theirs.overview,
        theirs.nearness,
    )


def assert_same(ours: Recall, theirs: Recall) -> None:
    """See that both brought the same, for the same reasons."""

    def came(recall: Recall) -> list[list[tuple[str, bool]]]:
        tiers = recall.top, recall.next, recall.flashback
        return [[(item.memory.id, item.weak) for item in tier] for tier in tiers]

    def near(recall: Recall) -> list[tuple[str, str]]:
        return [(miss.recalled.memory.id, miss.lacked) for miss in recall.near]

    def all_of(recall: Recall) -> list[Recalled]:
        near_ones = [miss.recalled for miss in recall.near]
        return [*recall.top, *recall.next, *recall.flashback, *near_ones]

    assert came(ours) == came(theirs)
    assert near(ours) == near(theirs)
    assert (ours.held_back, ours.searched, ours.answers) == (
        theirs.held_back,
        theirs.searched,
        theirs.answers,
    )
    lacking = [miss.points for miss in ours.near]
    assert lacking == pytest.approx([miss.points for miss in theirs.near], rel=1e-9, abs=1e-9)
    assert ours.needed == pytest.approx(theirs.needed)
    for our_item, their_item in zip(all_of(ours), all_of(theirs), strict=True):
        assert_same_receipt(our_item.receipt, their_item.receipt)
        assert our_item.counted == pytest.approx(their_item.counted, rel=1e-9, abs=1e-9)


def followed(facts: Sequence[Fact], wording: str) -> tuple[ConversationState, Index]:
    """Return the state after all of these facts, and an index that was there from the first of them on."""
    state = ConversationState("chat")
    index = index_of(state, WORDINGS[wording])
    for number, fact in enumerate(facts):
        memory = fact.memory(number, wording)
        apply(state, [Added(memory)])
        if fact.fate == "reinforced":
            apply(state, [Reinforced(memory.id, memory.score, memory.score + 5)])
        if fact.fate == "forgotten":
            apply(state, [Forgotten(memory, "deleted")])
    assert state.follower is index
    return state, index


def see_both_agree(
    facts: Sequence[Fact],
    rules: str,
    question: Sequence[str],
    *,
    asker: str | None = None,
    other_words: tuple[str, ...] = (),
    has_vectors: bool = False,
    where: Mapping[str, Any] = NOTHING,
) -> None:
    """See that an index that followed the facts, a new one and no index lead to the same points and the same answer."""
    kind = "node" if rules == "node" else "usual"
    wording = WORDINGS[kind]
    state, index = followed(facts, kind)
    memories = state.short_term
    cosines: dict[str, float] = {}
    if has_vectors:
        cosines = {
            f"m{n:02}": fact.cosine for n, fact in enumerate(facts) if fact.cosine is not None
        }
    query = wording.of_query(
        [Message("user", text, name=asker) for text in question],
        NOW,
        other_words=other_words,
        known=QueryContext.of(memories.values()),
    )

    def context() -> RecallContext:
        return RecallContext(
            conversation_id="chat",
            now_ms=NOW,
            rng=Random(3),
            parameters=PARAMETERS[rules],
            wording=wording,
            **where,
        )

    decision = decide([IndexedMemories(memories, index, cosines=cosines)], query, context())
    assert_same_points(decision, memories.values(), context())
    assert_same(decision.recall, select(memories.values(), query, context(), cosines=cosines))

    fresh = Index(memories.values(), wording)
    by_fresh = decide([IndexedMemories(memories, fresh, cosines=cosines)], query, context())
    assert_same(decision.recall, by_fresh.recall)


@pytest.mark.parametrize("rules", PARAMETERS)
@settings(
    max_examples=max(25, settings.default.max_examples),  # type: ignore[union-attr]
    phases=set(Phase) - {Phase.explain},
)
@given(
    facts=st.lists(FACTS, max_size=14),
    question=st.lists(one_of(*ASKED, *ASKED, *SAID), min_size=1, max_size=3),
    asker=one_of(*NAMES),
    other_words=one_of((), *OTHER_WORDS),
    has_vectors=st.booleans(),
    where=CONTEXTS,
)
def test_both_selections_count_and_decide_the_same_whatever_came_and_went(
    facts: list[Fact], rules: str, question: list[str], **asked: Any
) -> None:
    see_both_agree(facts, rules, question, **asked)


EVERYTHING = [
    Fact([text], age=(n + 1) * HOUR, other_words=OTHER_WORDS[n % len(OTHER_WORDS)])
    for n, text in enumerate((*SAID, *ASKED))
]


@pytest.mark.parametrize("rules", PARAMETERS)
@pytest.mark.parametrize("question", ASKED)
def test_both_selections_agree_about_each_kind_of_question(question: str, rules: str) -> None:
    see_both_agree(EVERYTHING, rules, [question], other_words=("bicycle", "狗"))
