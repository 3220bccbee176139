"""Records for tests: short to write, with every part that matters to the test given by name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from random import Random
from typing import Any, get_args

from hypothesis import strategies as st

from memory_server.conversations.changes import (
    Added,
    Change,
    ChatMoved,
    CleanedUp,
    Edited,
    Forgotten,
    Muted,
    Pinned,
    Reinforced,
    Restored,
    Unpinned,
    apply,
)
from memory_server.conversations.model import ConversationState, Correction, ShortTermMemory
from memory_server.conversations.recall.words import RecallQuery
from memory_server.kernel.messages import Message
from memory_server.lore.chat_state import Came, ChatState, Effect, Firing, advanced, firing_key
from memory_server.lore.memory import (
    FiringRules,
    ForgetReason,
    LongTermMemory,
    TriggerRemoved,
    TriggerSet,
)
from nlp import QueryTerm

MINUTE = 60_000
HOUR = 60 * MINUTE
DAY = 24 * HOUR
NOW = 1_782_000_000_000
"""2026-06-21T00:00:00Z in milliseconds."""


def memory(
    memory_id: str = "a",
    *,
    age: int = DAY,
    words: Mapping[str, float] | None = None,
    score: float = 0.0,
    text: str = "user: 我喜欢吃披萨",
    chat: str = "chat",
    **rest: Any,
) -> ShortTermMemory:
    """A short-term memory `age` milliseconds older than `NOW`."""
    words = words or {}
    return ShortTermMemory(
        id=memory_id,
        time_ms=NOW - age,
        text=text,
        words=tuple(words),
        weights=tuple(words.values()),
        score=score,
        conversation_id=chat,
        **rest,
    )


def query_of(weights: Mapping[str, float]) -> RecallQuery:
    """A query of words only, which count fully."""
    return RecallQuery({word: QueryTerm(weight) for word, weight in weights.items()})


def trigger(name: str = "birthday", *, source: str = "true", **rest: Any) -> LongTermMemory:
    return LongTermMemory(name=name, prompt=f"about {name}", trigger=source, created_ms=NOW, **rest)


def state_of(*memories: ShortTermMemory | LongTermMemory, chat: str = "chat") -> ConversationState:
    state = ConversationState(chat)
    for item in memories:
        if isinstance(item, ShortTermMemory):
            state.short_term[item.id] = item
        else:
            state.long_term[item.name] = item
    return state


def copy_of(state: ConversationState) -> ConversationState:
    """A state of its own with the same records, which are frozen."""
    return replace(
        state,
        short_term=dict(state.short_term),
        long_term=dict(state.long_term),
        chats=dict(state.chats),
    )


def contents(state: ConversationState) -> tuple[Any, ...]:
    """What a state holds, to compare: order of the memories counts, the version does not."""
    return (
        tuple(state.short_term.values()),
        tuple(state.long_term.values()),
        state.last_cleanup_ms,
        dict(state.chats),
    )


def random_changes(state: ConversationState, rng: Random, count: int) -> list[Change]:
    """Plausible changes, each built on those before it (applied to `state`, which the caller gives up)."""
    changes: list[Change] = []
    forgotten: list[ShortTermMemory] = []
    for number in range(count):
        kind = rng.randrange(13)
        memories = list(state.short_term.values())
        triggers = list(state.long_term.values())
        restorable = [item for item in forgotten if item.id not in state.short_term]
        change: Change
        if kind <= 2 or (kind <= 4 and not memories):
            new_id = f"m{len(changes)}-{rng.randrange(10**6)}"
            while new_id in state.short_term:
                new_id += "+"
            change = Added(
                memory(new_id, age=rng.randrange(DAY), words={"披萨": rng.random() * 40})
            )
        elif kind == 3:
            chosen = rng.choice(memories)
            change = Reinforced(chosen.id, chosen.score, chosen.score + 5)
        elif kind == 4:
            change = Forgotten(rng.choice(memories), "deleted")
        elif kind == 8 and memories:
            chosen = rng.choice(memories)
            other_words = rng.choice([(), ("晚饭",)])
            edited = replace(
                chosen,
                text=f"user: {rng.random()}",
                pinned=rng.random() < 0.5,
                other_words=other_words,
            )
            change = Edited(edited, chosen)
        elif kind == 9 and memories:
            chosen = rng.choice(memories)
            change = Unpinned(chosen.id) if chosen.pinned else Pinned(chosen.id)
        elif kind == 10 and restorable:
            change = Restored(rng.choice(restorable), "deleted")
        elif kind == 11 and memories:
            chosen = rng.choice(memories)
            change = Muted(
                chosen.id,
                chosen.muted,
                rng.choice([(), ("everywhere",), ("conversation:chat", "folder:/a")]),
            )
        elif kind == 5 or (kind == 6 and not triggers):
            name = f"t{rng.randrange(4)}"
            change = TriggerSet(trigger(name, source=f"{number} > 0"), state.long_term.get(name))
        elif kind == 12:
            change = _moved_chat(state, rng, number)
        elif kind == 6:
            change = TriggerRemoved(rng.choice(triggers))
        else:
            change = CleanedUp(NOW + number, state.last_cleanup_ms)
        if isinstance(change, Forgotten):
            forgotten.append(change.memory)
        apply(state, [change])
        changes.append(change)
    return changes


def _moved_chat(state: ConversationState, rng: Random, number: int) -> ChatMoved:
    """A recall in which two memories came, in one of three chats."""
    session = rng.choice(("", "s1", "s2"))
    before = state.chats.get(session)
    rules = FiringRules(sticky=rng.randrange(3), cooldown=rng.randrange(3))
    fired = [
        Came(firing_key(f"t{rng.randrange(4)}", state.conversation_id), rules) for _ in range(2)
    ]
    former = ChatState() if before is None else before
    after = advanced(former, fired, [], messages=former.messages + 1, now_ms=NOW + number)
    return ChatMoved(session, before, after)


# --- hypothesis --------------------------------------------------------------------------------------------

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
TIMES = st.integers(-62_135_596_800_000, 253_402_300_799_999)
"""The years 1 to 9999."""
JSON_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=6,
)
KEYWORDS = st.dictionaries(TEXTS.filter(bool), st.floats(0, 1e6), max_size=5)


def extras(*known_fields: str) -> st.SearchStrategy[dict[str, Any]]:
    """Fields of other programs, none of them one that is known."""
    return st.dictionaries(
        TEXTS.filter(lambda key: key not in known_fields), JSON_VALUES, max_size=3
    )


MESSAGES = st.builds(
    Message,
    role=st.sampled_from(["user", "assistant", "system"]),
    content=TEXTS,
    time_ms=st.none() | TIMES,
    name=st.none() | TEXTS,
    extra=extras("role", "content", "timestamp", "name"),
)
SHORT_TERM = st.builds(
    lambda words, **fields: ShortTermMemory(
        words=tuple(words), weights=tuple(words.values()), **fields
    ),
    KEYWORDS,
    id=TEXTS.filter(bool),
    time_ms=TIMES,
    text=TEXTS,
    score=st.floats(-1e6, 1e6),
    conversation_id=TEXTS.filter(bool),
    messages=st.lists(MESSAGES, max_size=2).map(tuple),
    pinned=st.booleans(),
    indexed_with=TEXTS,
    role_weights=st.dictionaries(TEXTS, st.floats(0, 10), max_size=2),
    session=st.none() | TEXTS.filter(bool),
    muted=st.lists(TEXTS.filter(bool), max_size=2).map(tuple),
    corrects=st.lists(
        st.builds(Correction, TEXTS.filter(bool), st.sampled_from(["rule", "caller", "person"])),
        max_size=2,
    ).map(tuple),
    extra=extras(
        *("id", "timestamp", "time_stamp", "timeStamp", "text", "keywords", "score"),
        *(
            "conversation_id",
            "messages",
            "pinned",
            "indexedWith",
            "roleWeights",
            "session",
            "muted",
            "corrects",
        ),
    ),
)
LONG_TERM = st.builds(
    LongTermMemory,
    name=TEXTS.filter(bool),
    prompt=TEXTS,
    trigger=TEXTS,
    created_ms=TIMES,
    created_context=TEXTS,
    updated_ms=st.none() | TIMES,
    updated_context=st.none() | TEXTS,
    extra=extras(
        "name", "prompt", "trigger", "createdAt", "createdContext", "updatedAt", "updatedContext"
    ),
)
_SCORES = st.floats(-1e6, 1e6)
_COUNTS = st.integers(0, 1_000_000)
_EFFECTS = st.none() | st.builds(Effect, _COUNTS, _COUNTS, st.booleans())
_FIRINGS = st.builds(
    Firing, _COUNTS, TIMES, st.none() | st.tuples(_COUNTS, TIMES), _EFFECTS, _EFFECTS
)
CHAT_STATES = st.builds(ChatState, _COUNTS, TIMES, st.dictionaries(TEXTS, _FIRINGS, max_size=2))
REASONS: st.SearchStrategy[ForgetReason] = st.sampled_from(get_args(ForgetReason))
CHANGES = st.one_of(
    st.builds(Added, SHORT_TERM),
    st.builds(Reinforced, TEXTS, _SCORES, _SCORES),
    st.builds(Edited, SHORT_TERM, SHORT_TERM),
    st.builds(Forgotten, SHORT_TERM, REASONS),
    st.builds(Restored, SHORT_TERM, REASONS),
    st.builds(Pinned, TEXTS),
    st.builds(Unpinned, TEXTS),
    st.builds(Muted, TEXTS, *2 * [st.lists(TEXTS.filter(bool), max_size=2).map(tuple)]),
    st.builds(TriggerSet, LONG_TERM, st.none() | LONG_TERM),
    st.builds(TriggerRemoved, LONG_TERM, REASONS),
    st.builds(CleanedUp, TIMES, st.none() | TIMES),
    st.builds(ChatMoved, TEXTS, st.none() | CHAT_STATES, st.none() | CHAT_STATES),
)
