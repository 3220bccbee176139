"""What one session said, another one finds at once; what is still in the asking one's context waits."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sample_memories import DAY, HOUR, MINUTE, NOW, memory, query_of
from searched_memories import decided

from memory_server import App, Message, Session, Settings, ShortTermMemory
from memory_server.conversations import codec
from memory_server.conversations.changes import Added, apply
from memory_server.conversations.model import ConversationState
from memory_server.conversations.recall.columns import IndexedMemories
from memory_server.conversations.recall.explanation import Verdict, explain
from memory_server.conversations.recall.index import index_of
from memory_server.conversations.recall.indexed_selection import decide
from memory_server.conversations.recall.parameters import RecallParameters
from memory_server.conversations.recall.request import RecallContext, RecallRequest
from memory_server.conversations.recall.selection import Recall, exclusion_of
from memory_server.conversations.recall.words import RecallQuery
from memory_server.conversations.short_term import Origin

P = RecallParameters()
PIZZA = [Message("user", "我喜欢吃披萨")]
ASK = [Message("user", "晚上吃披萨吗？")]


def memory_of(
    age: int, session: str | None, chat: str = "chat", name: str = "a"
) -> ShortTermMemory:
    return memory(name, age=age, words={"披萨": 20.0}, chat=chat, session=session)


def recall_for(
    memories: Iterable[ShortTermMemory], session: Session | None, parameters: RecallParameters = P
) -> Recall:
    return decided(list(memories), query_of({"披萨": 10.0}), parameters, session=session).recall


SINCE = NOW - 3 * HOUR


@pytest.mark.parametrize(
    ("age", "told_in", "asking", "chat", "exclusion"),
    [
        # Another session said it: it comes, however new.
        (0, "one", Session("two"), "chat", None),
        (0, "one", Session("two", SINCE), "chat", None),
        (-DAY, "one", Session("two"), "chat", None),
        # The same session, and nobody knows what is in its context: the minutes count.
        (0, "one", Session("one"), "chat", "too_young"),
        (20 * MINUTE - 1, "one", Session("one"), "chat", "too_young"),
        (20 * MINUTE, "one", Session("one"), "chat", None),
        (0, "one", Session("one"), "other", None),
        # The same session, whose context is known: what was said since then waits, however old.
        (0, "one", Session("one", SINCE), "chat", "in_context"),
        (3 * HOUR, "one", Session("one", SINCE), "chat", "in_context"),
        (3 * HOUR + 1, "one", Session("one", SINCE), "chat", None),
        (HOUR, "one", Session("one", SINCE), "other", "in_context"),
        (MINUTE, "one", Session("one", NOW), "chat", None),
        # One of the two is not known: the minutes count.
        (0, None, Session("one"), "chat", "too_young"),
        (0, None, Session("one", SINCE), "chat", "too_young"),
        (HOUR, None, Session("one", SINCE), "chat", None),
        (0, "one", None, "chat", "too_young"),
        (20 * MINUTE, "one", None, "chat", None),
        (0, None, None, "chat", "too_young"),
        (0, None, Session("one", SINCE), "other", None),
        # A clock that was ahead holds nothing back for years.
        (1 - 20 * MINUTE, None, None, "chat", "too_young"),
        (-DAY, None, None, "chat", None),
        (-DAY, "one", Session("one"), "chat", None),
    ],
)
def test_what_is_held_back_depends_on_who_said_it_and_who_asks(
    age: int, told_in: str | None, asking: Session | None, chat: str, exclusion: str | None
) -> None:
    stored = memory_of(age, told_in, chat)
    assert (
        exclusion_of(
            stored,
            RecallContext(
                rng=Random(1), conversation_id="chat", session=asking, now_ms=NOW, parameters=P
            ),
        )
        == exclusion
    )
    recall = recall_for([stored], asking)
    assert bool(recall.top) is (exclusion is None)
    counts = (recall.held_back.recent, recall.held_back.in_context)
    assert counts == (int(exclusion == "too_young"), int(exclusion == "in_context"))


def test_where_sessions_do_not_count_the_minutes_alone_do() -> None:
    alone = replace(P, sessions=False)
    assert recall_for([memory_of(0, "one")], Session("two"), alone).held_back.recent == 1
    assert recall_for([memory_of(HOUR, "one")], Session("one", SINCE), alone).top


SESSIONS = st.sampled_from([None, "one", "two"])
FACTS = st.lists(
    st.tuples(st.integers(-4, 30), SESSIONS, st.sampled_from(["chat", "other"])), max_size=15
)


@given(FACTS, SESSIONS, st.none() | st.integers(0, 30), st.integers(0, 3))
def test_columns_hold_back_what_the_rule_holds_back_one_by_one(
    facts: list[tuple[int, str | None, str]], asking: str | None, since: int | None, skipped: int
) -> None:
    memories = [
        memory_of(steps * 7 * MINUTE, told_in, chat, f"m{n}")
        for n, (steps, told_in, chat) in enumerate(facts)
    ]
    since_ms = None if since is None else NOW - since * 7 * MINUTE
    session = None if asking is None else Session(asking, since_ms)
    recall = recall_for(memories[skipped:], session)
    exclusions = [
        exclusion_of(
            m,
            RecallContext(
                rng=Random(1), conversation_id="chat", session=session, now_ms=NOW, parameters=P
            ),
        )
        for m in memories[skipped:]
    ]
    assert recall.held_back.recent == exclusions.count("too_young")
    assert recall.held_back.in_context == exclusions.count("in_context")


def test_an_index_that_followed_counts_no_memory_that_is_gone() -> None:
    state = ConversationState("chat")
    index = index_of(state)
    apply(
        state,
        [
            Added(memory_of(0, "one")),
            Added(memory_of(0, "one", name="b")),
            Added(memory_of(0, "two", name="b")),
        ],
    )
    searched = [IndexedMemories(state.short_term, index)]
    recall = decide(
        searched,
        RecallQuery(),
        RecallContext(
            conversation_id="chat",
            now_ms=NOW,
            rng=Random(1),
            parameters=P,
            session=Session("one", 0),
        ),
    ).recall
    assert (recall.held_back.in_context, recall.held_back.recent, recall.searched) == (1, 0, 2)


def test_an_explanation_says_who_still_sees_it_only_where_that_is_known() -> None:
    def verdict_for(told_in: str | None, asking: Session | None) -> Verdict:
        stored = memory_of(5 * MINUTE, told_in)
        decision = decided([stored], query_of({"披萨": 10.0}), P, session=asking)
        explanation = explain(decision, 0)
        assert explanation.draw is None
        return explanation.verdict

    seen_verdict = verdict_for("one", Session("one", 0))
    assert seen_verdict.kind == "in_context"
    assert "this session said it 5 min ago and still has it in its context" in seen_verdict.sentence
    for told_in, asking in ((None, Session("one", 0)), ("one", None), ("one", Session("one"))):
        verdict = verdict_for(told_in, asking)
        assert verdict.kind == "too_recent"
        assert verdict.sentence.endswith("is only 5 min old. It can come in 15 min.")
        assert "not known to come from another session" in verdict.sentence
        assert "context" not in verdict.sentence
        assert "still sees" not in verdict.sentence


def test_a_record_keeps_its_session_and_one_without_has_none() -> None:
    record = codec.short_term_json(memory_of(0, "one"))
    assert record["session"] == "one"
    assert codec.short_term(record, "chat") == memory_of(0, "one")
    assert "session" not in codec.short_term_json(memory_of(0, None))
    assert codec.short_term(codec.short_term_json(memory_of(0, None)), "chat").session is None


@pytest.mark.parametrize("value", [5, "", None, ["one"], {"id": "one"}])
def test_what_another_program_calls_session_goes_back_as_it_came(value: object) -> None:
    record = codec.short_term_json(memory_of(0, None)) | {"session": value}
    read = codec.short_term(record, "chat")
    assert read.session is None
    assert codec.short_term_json(read)["session"] == value


Opened = Callable[[Session | None], App]


@pytest.fixture
async def opened(tmp_path: Path) -> AsyncIterator[Opened]:
    """Apps on one folder, each like a process of its own."""
    apps: list[App] = []

    def opened(session: Session | None, **settings: object) -> App:
        apps.append(
            App(Settings.model_validate({"data_dir": tmp_path, **settings}), session=session)
        )
        return apps[-1]

    yield opened
    for app in apps:
        await app.__aexit__(None, None, None)


pytestmark = pytest.mark.anyio


async def test_an_app_says_and_asks_in_its_session_unless_a_call_names_another(
    opened: Opened,
) -> None:
    app = await opened(Session("one")).__aenter__()
    chat = app.conversation().short_term
    stored = (await chat.add(PIZZA)).memory
    assert stored.session == "one"
    assert (await chat.search(RecallRequest(ASK, reinforce=False))).recall.held_back.recent == 1
    for reinforce in (False, True):
        recall = (
            await chat.search(RecallRequest(ASK, session=Session("two"), reinforce=reinforce))
        ).recall
        assert [item.memory.id for item in recall.top] == [stored.id]
    assert (
        await chat.search(RecallRequest(ASK, session=Session("one", 0)))
    ).recall.held_back.in_context == 1
    answer = await app.conversation().insight.explain(
        RecallRequest(ASK, session=Session("one", 0)), memory_id=stored.id
    )
    assert answer.explanation is not None
    assert answer.explanation.verdict.kind == "in_context"


async def test_the_node_original_knows_no_sessions(opened: Opened) -> None:
    app = await opened(Session("one"), compat="node").__aenter__()  # type: ignore[call-arg]
    chat = app.conversation().short_term
    stored = (await chat.add(PIZZA, origin=Origin(session=Session("two")))).memory
    assert stored.session is None
    assert "session" not in codec.short_term_json(stored)
    assert (
        await chat.search(RecallRequest(ASK, session=Session("three")))
    ).recall.held_back.recent == 1
