"""The state of one search: whatever a worker answers or does, each trigger ends with one verdict and nothing loops."""

from __future__ import annotations

from typing import Any

from attacks.driver import CONTEXT, NOW
from hypothesis import given, settings
from hypothesis import strategies as st

from sandbox import Failed, Limits
from sandbox.errors import ProtocolError
from sandbox.pointing import place_of_name
from sandbox.protocol import Frame, Kind
from sandbox.search import Scene, Search

JUNK = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=5)
    | st.sampled_from(["thrown", "timeout"]),
    lambda inner: st.lists(inner, max_size=6),
    max_leaves=12,
)
ROWS = st.lists(
    st.tuples(st.integers(0, 4), st.integers(-1, 9)).map(list)
    | st.tuples(
        st.just(3),
        st.integers(0, 9),
        st.sampled_from(["syntax", "reference", "thrown", "timeout", "out_of_memory", "broken", "nonsense"]),
        st.sampled_from(["later", "ReferenceError: a is not defined", ""]),
        st.none() | st.integers(-(2**40), 2**40),
        st.none() | st.integers(-3, 3),
    ).map(list)
    | JUNK,
    max_size=7,
)
BODIES = st.fixed_dictionaries(
    {}, optional={"rows": ROWS | JUNK, "places": JUNK, "console": JUNK, "index": JUNK | st.integers(0, 6)}
)
EVENTS = st.lists(
    st.tuples(st.sampled_from(Kind), BODIES) | st.sampled_from([None, 0, 1, -5, -9, 99]), min_size=1, max_size=30
)


def new(*sources: Any, limits: Limits = Limits()) -> Search:  # noqa: B008 - frozen
    return Search(limits, sources, [Scene(CONTEXT, NOW, 1)], range(len(sources)))


@settings(max_examples=300)
@given(EVENTS)
def test_any_answers_and_deaths_end_in_one_verdict_each(events: list[Any]) -> None:
    search = new("a", "b\nc", "1", "2", "3")
    search.begin()
    search.request(step=False)
    step = False
    for event in events:
        if not search.open:
            break
        answered = False
        if isinstance(event, tuple):
            try:
                answered = search.take(Frame(*event))
            except ProtocolError:
                step, answered = search.died(None), True
        else:
            step, answered = search.died(event), True
        if answered and search.open:
            search.request(step=step)
    search.end()
    verdicts = search.verdicts()
    assert len(verdicts) == 5
    for verdict in verdicts:
        if isinstance(verdict, Failed):
            assert verdict.message
            assert verdict.line is None or verdict.line >= 1
            assert verdict.column is None or verdict.column >= 1


@given(st.lists(st.sampled_from([None, 1, -5, -9, 99]), min_size=12, max_size=12))
def test_a_worker_that_always_dies_comes_to_an_end(codes: list[int | None]) -> None:
    search = new("1", "2", "3")
    search.begin()
    step = False
    for code in codes:
        if not search.open:
            break
        search.request(step=step)
        step = search.died(code)
    assert not search.open, "three triggers, two deaths each at most, and one excuse"
    assert [verdict.kind for verdict in search.verdicts() if isinstance(verdict, Failed)] == ["killed"] * 3


def test_many_long_triggers_go_in_portions() -> None:
    search = new(*["1;" * 40_000] * 40)
    sizes = []
    for _ in range(9):
        if not search.open:
            break
        frame = search.request(step=False)
        sizes.append(len(frame.body["triggers"]))
        assert search.take(Frame(Kind.DONE, {"rows": [[2, 1]] * sizes[-1]}))
    assert sum(sizes) == 40
    assert max(sizes) < 20


def test_a_context_over_the_bound_is_said_so() -> None:
    search = new("1", limits=Limits(max_context_chars=10))
    assert not search.open
    assert "at most 10" in search.verdicts()[0].message  # type: ignore[union-attr]


def test_what_is_no_text_is_no_trigger() -> None:
    assert [verdict.kind for verdict in new(None, 7, b"1").verdicts()] == ["syntax"] * 3  # type: ignore[union-attr]


@given(st.text(max_size=30), st.text(max_size=30), st.integers(1, 9), st.integers(1, 40))
def test_pointing_at_a_name_never_raises(source: str, name: str, line: int, column: int) -> None:
    row, at = place_of_name(source, f"ReferenceError: {name} is not defined", line, column)
    assert row >= 1
    assert at >= 1
