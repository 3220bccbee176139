"""The state of one search: whatever a worker answers or does, each trigger ends with one verdict and nothing loops."""

from __future__ import annotations

from typing import Any

from attacks.driver import CONTEXT, NOW
from hypothesis import given, settings
from hypothesis import strategies as st

from sandbox import Failed, Fired, Quiet, SandboxLimits
from sandbox.errors import ProtocolError
from sandbox.host.search import Scene, Search
from sandbox.javascript.positions import place_of_name
from sandbox.protocol import LATER, Frame, Kind
from sandbox.verdicts import TracedCopy

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
        st.sampled_from(
            ["syntax", "reference", "thrown", "timeout", "out_of_memory", "broken", "nonsense"]
        ),
        st.sampled_from(["later", "ReferenceError: a is not defined", ""]),
        st.none() | st.integers(-(2**40), 2**40),
        st.none() | st.integers(-3, 3),
    ).map(list)
    | JUNK,
    max_size=7,
)
BODIES = st.fixed_dictionaries(
    {},
    optional={
        "rows": ROWS | JUNK,
        "places": JUNK,
        "console": JUNK,
        "index": JUNK | st.integers(0, 6),
    },
)
EVENTS = st.lists(
    st.tuples(st.sampled_from(Kind), BODIES) | st.sampled_from([None, 0, 1, -5, -9, 99]),
    min_size=1,
    max_size=30,
)


def new(*sources: Any, limits: SandboxLimits = SandboxLimits()) -> Search:  # noqa: B008 - frozen
    return Search(limits, sources, Scene(CONTEXT, NOW, 1), range(len(sources)))


@settings(max_examples=4 * settings.default.max_examples)
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
                step = search.died(None)
                answered = True
        else:
            step = search.died(event)
            answered = True
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
    assert [verdict.kind for verdict in search.verdicts() if isinstance(verdict, Failed)] == [
        "killed"
    ] * 3


LONG = [3, 60_000, "timeout", "", None, None]
CROWDED = [3, 5_000, "out_of_memory", LATER, None, None]


def request_of(search: Search, *, step: bool = False) -> dict[str, Any]:
    """The next request: its triggers by their order in the search, and what they may take."""
    body = dict(search.request(step=step).body)
    return {"triggers": body["triggers"], "seconds": body["trigger_seconds"]}


def test_one_that_needs_long_runs_again_alone_when_the_others_are_decided() -> None:
    limits = SandboxLimits()
    search = new("slow", "slower", "1", "2", limits=limits)
    search.begin()
    assert request_of(search) == {
        "triggers": ["slow", "slower", "1", "2"],
        "seconds": limits.sprint_seconds,
    }
    assert search.take(Frame(Kind.DONE, {"rows": [LONG]}))
    assert request_of(search) == {
        "triggers": ["slower", "1", "2"],
        "seconds": limits.sprint_seconds,
    }
    assert search.take(Frame(Kind.DONE, {"rows": [LONG, [1, 7], [1, 7]]}))
    assert request_of(search) == {"triggers": ["slow"], "seconds": limits.after_timeout_seconds}
    assert search.take(Frame(Kind.DONE, {"rows": [LONG]}))
    assert request_of(search) == {"triggers": ["slower"], "seconds": limits.after_timeout_seconds}
    assert search.take(Frame(Kind.DONE, {"rows": [[2, 9]]}))
    assert request_of(search) == {"triggers": ["slow"], "seconds": limits.trigger_seconds}
    assert search.take(Frame(Kind.DONE, {"rows": [[2, 9]]}))
    assert not search.open
    assert search.verdicts() == (Fired(9), Fired(9), Quiet(7), Quiet(7))


def test_one_that_nobody_waits_for_has_its_whole_time_at_once() -> None:
    limits = SandboxLimits()
    search = new("slow", limits=limits)
    assert request_of(search) == {"triggers": ["slow"], "seconds": limits.trigger_seconds}
    search = new("slow", "1", limits=limits)
    request_of(search)
    assert search.take(Frame(Kind.DONE, {"rows": [LONG, [1, 7]]}))
    assert request_of(search) == {"triggers": ["slow"], "seconds": limits.trigger_seconds}


def test_once_one_has_timed_out_the_others_have_had_their_time() -> None:
    search = new("one", "two", "three")
    for rows in [
        [LONG, LONG, LONG],
        [LONG],
        [LONG],
        [LONG],
        [[3, 1_000_000, "timeout", "", None, None]],
    ]:
        search.request(step=False)
        assert search.take(Frame(Kind.DONE, {"rows": rows}))
    assert not search.open
    messages = [verdict.message for verdict in search.verdicts() if isinstance(verdict, Failed)]
    assert messages == ["stopped after 1.00 s", "stopped after 0.06 s", "stopped after 0.06 s"]


def test_one_that_others_left_no_memory_is_tried_alone_before_those_that_need_long() -> None:
    search = new("slow", "hungry", "1")
    search.request(step=False)
    assert search.take(Frame(Kind.DONE, {"rows": [LONG, CROWDED]}))
    assert request_of(search)["triggers"] == ["1"]
    assert search.take(Frame(Kind.DONE, {"rows": [[1, 7]]}))
    assert request_of(search)["triggers"] == ["hungry"]
    assert search.take(Frame(Kind.DONE, {"rows": [[2, 7]]}))
    assert request_of(search)["triggers"] == ["slow"]


def test_what_was_put_off_is_named_when_the_time_is_over() -> None:
    search = new("slow", "hungry", "1", "2")
    search.request(step=False)
    search.take(Frame(Kind.PART, {"rows": [LONG, CROWDED]}))
    assert search.take(Frame(Kind.DONE, {"rows": [], "over": True, "running": 4_000}))
    assert not search.open
    assert [
        (verdict.kind, verdict.elapsed_us)
        for verdict in search.verdicts()
        if isinstance(verdict, Failed)
    ] == [
        ("not_evaluated", 60_000),
        ("not_evaluated", 5_000),
        ("not_evaluated", 4_000),
        ("not_evaluated", 0),
    ]
    messages = [verdict.message for verdict in search.verdicts() if isinstance(verdict, Failed)]
    assert "(stopped after 0.06 s)" in messages[0]
    assert "(used more than 32 MB of heap)" in messages[1]
    assert "it was running when" in messages[2]


def test_waiting_for_a_worker_takes_no_time_from_the_first_round() -> None:
    search = new("1", "2", limits=SandboxLimits(search_seconds=100.0))
    search.begin()
    search.request(step=False)
    search.waited(30.0)
    assert 129 < search.seconds_left() <= 130
    assert 149 < search.wait_seconds <= 150, "up to half of the time of a search"
    assert search.take(Frame(Kind.DONE, {"rows": [LONG, [1, 7]]}))
    search.waited(10.0)
    assert 129 < search.seconds_left() <= 130, "what needs long waits in its own time"
    assert 129 < search.wait_seconds <= 130


def test_a_traced_copy_has_its_notes() -> None:
    search = Search.of_copy(
        SandboxLimits(), TracedCopy("one", "two", "probe"), Scene(CONTEXT, NOW, 1)
    )
    body = search.request(step=False).body
    assert (body["triggers"], body["original"], body["probe"]) == (["one"], "two", "probe")
    assert search.take(Frame(Kind.DONE, {"rows": [[1, 7]], "trace": [{"operands": []}]}))
    assert search.trace == [{"operands": []}]


def test_places_of_texts_that_do_not_compile_come_with_the_last_verdicts() -> None:
    search = new("if (", "slow", "1", limits=SandboxLimits())
    search.request(step=False)
    assert not search.take(
        Frame(Kind.PART, {"rows": [[3, 1, "syntax", "SyntaxError", "script", None]]})
    )
    assert search.take(Frame(Kind.DONE, {"rows": [LONG, [1, 7]], "places": [[0, 1, 5], [1, 1, 1]]}))
    assert search.request(step=False).kind is Kind.EVALUATE
    assert search.take(Frame(Kind.DONE, {"rows": [[2, 7]]}))
    assert not search.open
    assert search.verdicts() == (Failed("syntax", "SyntaxError", 1, 5, 1), Fired(7), Quiet(7))


class TestDeaths:
    """Who is to blame when a worker dies."""

    def test_the_culprit_in_a_crowd_is_found_among_fewer_and_fewer(self) -> None:
        sources = [str(number) for number in range(1_000)]
        culprit = 777
        requests = 0
        search = new(*sources)
        search.begin()
        step = False
        while search.open:
            body = search.request(step=step).body
            requests += 1
            decided = answered = 0
            while decided < len(body["triggers"]):
                size = body["stride"]
                if decided < body["singly"]:
                    size = 1
                piece = body["triggers"][decided : decided + size]
                if str(culprit) in piece:
                    step = search.died(-5)
                    break
                answered += 1
                decided += len(piece)
                kind = Kind.PART
                if decided == len(body["triggers"]):
                    kind = Kind.DONE
                search.take(Frame(kind, {"rows": [[1, 1]] * len(piece)}))
            assert answered < 100, "a report after each would be a thousand"
        assert requests <= 6
        kinds = [getattr(verdict, "kind", "quiet") for verdict in search.verdicts()]
        assert kinds == ["quiet"] * culprit + ["killed"] + ["quiet"] * (999 - culprit)

    def test_what_was_reported_before_a_death_is_not_asked_again(self) -> None:
        search = new("1", "2", "3", "4")
        search.request(step=False)
        assert not search.take(Frame(Kind.PART, {"rows": [[1, 1], [1, 1]]}))
        assert search.died(-5)
        assert request_of(search, step=True)["triggers"] == ["3", "4"]

    def test_one_that_was_seen_at_work_is_put_off_and_tried_alone(self) -> None:
        search = new("1", "2", "3", "4")
        search.request(step=False)
        search.take(Frame(Kind.PART, {"rows": [[1, 1]]}))
        search.take(Frame(Kind.STEP, {"index": 1}))
        assert not search.died(-5)
        assert request_of(search)["triggers"] == ["3", "4"]
        assert search.take(Frame(Kind.DONE, {"rows": [[1, 1], [1, 1]]}))
        assert request_of(search)["triggers"] == ["2"]
        search.died(-5)
        assert [getattr(verdict, "kind", "quiet") for verdict in search.verdicts()] == [
            "quiet",
            "killed",
        ] + ["quiet"] * 2

    def test_nobody_is_blamed_for_what_an_earlier_isolate_may_have_done(self) -> None:
        search = new("1")
        search.request(step=False)
        search.died(-5, clean=False)
        assert search.open
        search.request(step=False)
        search.died(-5)
        assert not search.open

    def test_a_worker_that_ended_itself_blames_nobody(self) -> None:
        search = new("1", "2")
        search.request(step=False)
        search.died(0)
        assert request_of(search)["triggers"] == ["1", "2"]


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
    search = new("1", limits=SandboxLimits(max_context_chars=10))
    assert not search.open
    assert "at most 10" in search.verdicts()[0].message  # type: ignore[union-attr]


def test_what_is_no_text_is_no_trigger() -> None:
    assert [verdict.kind for verdict in new(None, 7, b"1").verdicts()] == ["syntax"] * 3  # type: ignore[union-attr]


@given(st.text(max_size=30), st.text(max_size=30), st.integers(1, 9), st.integers(1, 40))
def test_pointing_at_a_name_never_raises(source: str, name: str, line: int, column: int) -> None:
    row, at = place_of_name(source, f"ReferenceError: {name} is not defined", line, column)
    assert row >= 1
    assert at >= 1
