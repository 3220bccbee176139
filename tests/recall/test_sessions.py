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

from memory_server import App, Message, Session, Settings, ShortTermMemory
from memory_server.conversations import codec
from memory_server.conversations.changes import Added, apply
from memory_server.conversations.model import ConversationState
from memory_server.conversations.recall import selection
from memory_server.conversations.recall.columns import Searched
from memory_server.conversations.recall.exclusions import exclusion_of
from memory_server.conversations.recall.explanation import Verdict, explain
from memory_server.conversations.recall.index import Index, index_of
from memory_server.conversations.recall.indexed_selection import decide
from memory_server.conversations.recall.parameters import RecallParameters
from memory_server.conversations.recall.selection import Recall
from memory_server.conversations.recall.words import RecallQuery

P = RecallParameters()
PIZZA = [Message("user", "我喜欢吃披萨")]
ASK = [Message("user", "晚上吃披萨吗？")]


def said(age: int, session: str | None, chat: str = "chat", name: str = "a") -> ShortTermMemory:
    return memory(name, age=age, words={"披萨": 20.0}, chat=chat, session=session)


def asked(memories: Iterable[ShortTermMemory], session: Session | None, parameters: RecallParameters = P) -> Recall:
    """What the indexed selection gives, after seeing that the plain one gives the same."""
    kept = list(memories)
    about = {"conversation_id": "chat", "now_ms": NOW, "parameters": parameters, "session": session}
    searched = [Searched({m.id: m for m in kept}, Index(kept))]
    found = decide(searched, query_of({"披萨": 10.0}), rng=Random(1), **about).recall  # type: ignore[arg-type]
    assert found == selection.select(kept, query_of({"披萨": 10.0}), rng=Random(1), **about)  # type: ignore[arg-type]
    return found


SINCE = NOW - 3 * HOUR


@pytest.mark.parametrize(
    ("age", "told_in", "asking", "chat", "held"),
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
    ],
)
def test_what_is_held_back_depends_on_who_said_it_and_who_asks(
    age: int, told_in: str | None, asking: Session | None, chat: str, held: str | None
) -> None:
    one = said(age, told_in, chat)
    assert exclusion_of(one, conversation_id="chat", session=asking, now_ms=NOW, parameters=P) == held
    found = asked([one], asking)
    assert bool(found.top) is (held is None)
    counts = (found.held_back.recent, found.held_back.in_context)
    assert counts == (int(held == "too_young"), int(held == "in_context"))


def test_where_sessions_do_not_count_the_minutes_alone_do() -> None:
    alone = replace(P, sessions=False)
    assert asked([said(0, "one")], Session("two"), alone).held_back.recent == 1
    assert asked([said(HOUR, "one")], Session("one", SINCE), alone).top


SESSIONS = st.sampled_from([None, "one", "two"])
FACTS = st.lists(st.tuples(st.integers(-2, 30), SESSIONS, st.sampled_from(["chat", "other"])), max_size=15)


@given(FACTS, SESSIONS, st.none() | st.integers(0, 30), st.integers(0, 3))
def test_columns_hold_back_what_the_rule_holds_back_one_by_one(
    facts: list[tuple[int, str | None, str]], asking: str | None, since: int | None, gone: int
) -> None:
    kept = [said(steps * 7 * MINUTE, told_in, chat, f"m{n}") for n, (steps, told_in, chat) in enumerate(facts)]
    session = None if asking is None else Session(asking, None if since is None else NOW - since * 7 * MINUTE)
    found = asked(kept[gone:], session)
    holds = [exclusion_of(m, conversation_id="chat", session=session, now_ms=NOW, parameters=P) for m in kept[gone:]]
    assert found.held_back.recent == holds.count("too_young")
    assert found.held_back.in_context == holds.count("in_context")


def test_an_index_that_followed_counts_no_memory_that_is_gone() -> None:
    state = ConversationState("chat")
    index = index_of(state)
    apply(state, [Added(said(0, "one")), Added(said(0, "one", name="b")), Added(said(0, "two", name="b"))])
    searched = [Searched(state.short_term, index)]
    found = decide(
        searched,
        RecallQuery(),
        conversation_id="chat",
        now_ms=NOW,
        rng=Random(1),
        parameters=P,
        session=Session("one", 0),
    ).recall
    assert (found.held_back.in_context, found.held_back.recent, found.searched) == (1, 0, 2)


def test_an_explanation_says_who_still_sees_it_only_where_that_is_known() -> None:
    def verdict(told_in: str | None, asking: Session | None) -> Verdict:
        one = said(5 * MINUTE, told_in)
        decision = decide(
            [Searched({"a": one}, Index([one]))],
            query_of({"披萨": 10.0}),
            conversation_id="chat",
            now_ms=NOW,
            rng=Random(1),
            parameters=P,
            session=asking,
        )
        told = explain(decision, 0)
        assert told.draw is None
        return told.verdict

    known = verdict("one", Session("one", 0))
    assert known.kind == "in_context"
    assert "this session said it 5 min ago and still has it in its context" in known.sentence
    for told_in, asking in ((None, Session("one", 0)), ("one", None), ("one", Session("one"))):
        unknown = verdict(told_in, asking)
        assert unknown.kind == "too_recent"
        assert unknown.sentence.endswith("is only 5 min old. It can come in 15 min.")
        assert "not known to come from another session" in unknown.sentence
        assert "context" not in unknown.sentence
        assert "still sees" not in unknown.sentence


def test_a_record_keeps_its_session_and_one_without_has_none() -> None:
    record = codec.short_term_json(said(0, "one"))
    assert record["session"] == "one"
    assert codec.short_term(record, "chat") == said(0, "one")
    assert "session" not in codec.short_term_json(said(0, None))
    assert codec.short_term(codec.short_term_json(said(0, None)), "chat").session is None


@pytest.mark.parametrize("value", [5, "", None, ["one"], {"id": "one"}])
def test_what_another_program_calls_session_goes_back_as_it_came(value: object) -> None:
    record = codec.short_term_json(said(0, None)) | {"session": value}
    read = codec.short_term(record, "chat")
    assert read.session is None
    assert codec.short_term_json(read)["session"] == value


Opened = Callable[[Session | None], App]


@pytest.fixture
async def opened(tmp_path: Path) -> AsyncIterator[Opened]:
    """Apps on one folder, each like a process of its own."""
    apps: list[App] = []

    def opened(session: Session | None, **settings: object) -> App:
        apps.append(App(Settings.model_validate({"data_dir": tmp_path, **settings}), session=session))
        return apps[-1]

    yield opened
    for app in apps:
        await app.__aexit__(None, None, None)


pytestmark = pytest.mark.anyio


async def test_an_app_says_and_asks_in_its_session_unless_a_call_names_another(opened: Opened) -> None:
    app = await opened(Session("one")).__aenter__()
    chat = app.conversation().short_term
    kept = (await chat.add(PIZZA)).memory
    assert kept.session == "one"
    assert (await chat.search(ASK, reinforce=False)).recall.held_back.recent == 1
    for reinforce in (False, True):
        found = (await chat.search(ASK, session=Session("two"), reinforce=reinforce)).recall
        assert [item.memory.id for item in found.top] == [kept.id]
    assert (await chat.search(ASK, session=Session("one", 0))).recall.held_back.in_context == 1
    told = await app.conversation().insight.explain(ASK, memory_id=kept.id, session=Session("one", 0))
    assert told.explanation is not None
    assert told.explanation.verdict.kind == "in_context"


async def test_the_node_original_knows_no_sessions(opened: Opened) -> None:
    app = await opened(Session("one"), compat="node").__aenter__()  # type: ignore[call-arg]
    chat = app.conversation().short_term
    kept = (await chat.add(PIZZA, session=Session("two"))).memory
    assert kept.session is None
    assert "session" not in codec.short_term_json(kept)
    assert (await chat.search(ASK, session=Session("three"))).recall.held_back.recent == 1
