"""Culprits are named exactly, budgets hold, workers come and go, and nobody else notices."""

from __future__ import annotations

import asyncio
import itertools
import math
import random
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime

import psutil
import pytest
from attacks.driver import (
    CONTEXT,
    CROWDED_TRIES,
    EXPECTED,
    INNOCENT,
    NOW,
    Driver,
    crowded,
    outcome,
)
from kept_workers import own_workers

from sandbox import (
    Failed,
    Fired,
    PatternError,
    SandboxBusy,
    SandboxClosed,
    SandboxLimits,
    SandboxUnavailable,
    TriggerSandbox,
)
from sandbox.host.supervisor import TriggerRecords

QUICK = SandboxLimits(trigger_seconds=0.6, after_timeout_seconds=0.6, search_seconds=8.0)
CALM = SandboxLimits(trigger_seconds=20.0, after_timeout_seconds=20.0, search_seconds=60.0)
"""For triggers that end by themselves, on a machine that others use too."""
CULPRITS = {
    "timeout": "for (;;);",
    "out_of_memory": "const a = []; for (;;) a.push({})",
    "killed": "'x'.repeat(2 ** 29 - 25).split('')",
    "thrown": "throw 1",
    "reference": "nope",
    "syntax": "foo bar",
}


@pytest.fixture(scope="module")
def quick() -> Iterator[Driver]:
    driver = Driver(QUICK, workers=1)
    yield driver
    driver.close()


@pytest.fixture(scope="module")
def calm() -> Iterator[Driver]:
    driver = Driver(CALM, workers=1)
    yield driver
    driver.close()


def good(index: int) -> str:
    return f"{index} % 3 === 0"


def expected(index: int) -> str:
    if index % 3 == 0:
        return "fired"
    return "quiet"


def mixed(kinds: Mapping[int, str], count: int) -> list[str]:
    """Triggers of which those at the keys of `kinds` are culprits of that kind, and the others are good."""
    sources = [good(index) for index in range(count)]
    for index, kind in kinds.items():
        sources[index] = CULPRITS[kind]
    return sources


@pytest.mark.parametrize("kind", CULPRITS)
@pytest.mark.parametrize(
    "places",
    [
        pytest.param((0,), id="first"),
        pytest.param((10,), id="middle", marks=pytest.mark.full),
        pytest.param((19,), id="last", marks=pytest.mark.full),
        pytest.param((9, 10), id="adjacent"),
    ],
)
def test_a_culprit_is_named_exactly(
    quick: Driver, calm: Driver, kind: str, places: tuple[int, ...]
) -> None:
    kinds = dict.fromkeys(places, kind)
    driver = calm
    if kind == "timeout":
        driver = quick
    outcomes = [outcome(verdict) for verdict in driver.evaluate(*mixed(kinds, 20))]
    assert outcomes == [kinds.get(index, expected(index)) for index in range(20)]


def test_several_culprits_of_all_kinds_are_named_exactly() -> None:
    kinds = dict(zip(range(3, 40, 6), CULPRITS, strict=False))
    driver = Driver(
        SandboxLimits(trigger_seconds=3.0, after_timeout_seconds=3.0, search_seconds=60.0),
        workers=1,
    )
    try:
        outcomes = [outcome(verdict) for verdict in driver.evaluate(*mixed(kinds, 40))]
    finally:
        driver.close()
    assert outcomes == [kinds.get(index, expected(index)) for index in range(40)]


def test_a_trigger_that_nearly_fills_the_memory_is_not_the_next_ones_fault(quick: Driver) -> None:
    heavy = (
        "const a = []; for (let i = 0; i < 2e5; i++) a.push({ i, s: 'x' + i }); a.length === 2e5"
    )
    light = "let n = 0; for (let i = 0; i < 2e4; i++) n += [i, i].length; n === 4e4"
    outcomes = [outcome(verdict) for verdict in quick.evaluate(*[heavy, light] * 6)]
    assert outcomes[1::2] == ["fired"] * 6


def test_a_used_up_budget_names_what_was_left_out() -> None:
    driver = Driver(
        SandboxLimits(trigger_seconds=0.5, after_timeout_seconds=0.5, search_seconds=1.5), workers=1
    )
    try:
        driver.run(driver.sandbox.warm())
        late = 0
        tries = 0
        while late == 0 and tries < 10:  # none is late where the machine gives the worker no time
            tries += 1
            loops = [f"for (;;) /* {tries} {number} */;" for number in range(4)]
            verdicts = driver.evaluate("1", *loops, "1")
            outcomes = [outcome(verdict) for verdict in verdicts]
            late = outcomes.count("timeout")
            assert outcomes == [
                "fired",
                *["timeout"] * late,
                *["not_evaluated"] * (4 - late),
                "fired",
            ]
        assert 1 <= late <= 2
        for verdict in verdicts[1 + late : 5]:
            assert isinstance(verdict, Failed)
            assert verdict.message.startswith("not evaluated to its end")
            assert (
                verdict.message.endswith("the 1.5 s of this search were used up")
                or "was running" in verdict.message
            )
            assert verdict.elapsed_us > 0
        assert [outcome(verdict) for verdict in driver.evaluate("1", "0")] == ["fired", "quiet"]
    finally:
        driver.close()


def test_a_trigger_that_needs_long_is_decided_after_the_others_and_gets_its_time() -> None:
    driver = Driver(
        SandboxLimits(trigger_seconds=5.0, sprint_seconds=0.01, search_seconds=10.0), workers=1
    )
    slow = "let n = 0; while (n < 4e6) n += 1; n === 4e6"
    try:
        sources = [slow, "1", "nope", slow.replace("===", "!=="), "0"]
        verdicts = driver.evaluate(*sources)
        assert [outcome(verdict) for verdict in verdicts] == [
            "fired",
            "fired",
            "reference",
            "quiet",
            "quiet",
        ]
        assert all(verdict.elapsed_us > 10_000 for verdict in (verdicts[0], verdicts[3]))
        assert [driver.sandbox.record_of(source).total for source in sources] == [0] * 5
    finally:
        driver.close()


def test_what_was_stopped_leaves_the_realm_as_it_was() -> None:
    driver = Driver(
        SandboxLimits(sprint_seconds=0.01, trigger_seconds=0.05, after_timeout_seconds=0.05),
        workers=1,
    )
    stopped = (
        "context.messages.length = 0; for (;;) ;",
        "Promise.resolve().then(() => { context.messages.length = 0 }); for (;;) ;",
        "const f = match_keys; for (;;) f(context.messages, ['cake', '生日'])",
        "for (;;) console.log(Symbol.for('a'))",
        "JSON.parse('[1, 2]', () => { for (;;) ; })",
        "throw { get message() { for (;;) ; }, toString() { for (;;) ; } }",
        "await new Promise(() => { for (;;) ; })",
    )
    try:
        for trigger in stopped:
            for _ in range(CROWDED_TRIES):
                verdicts = driver.evaluate(trigger, *INNOCENT, trigger, *INNOCENT)
                outcomes = [outcome(verdict) for verdict in verdicts]
                if "timeout" not in outcomes[1:5] + outcomes[6:] or not crowded():
                    break
            assert outcomes[1:5] == outcomes[6:] == [outcome(kind(1)) for kind in EXPECTED], trigger
    finally:
        driver.close()


def test_after_a_first_timeout_the_others_get_less() -> None:
    driver = Driver(
        SandboxLimits(trigger_seconds=0.5, after_timeout_seconds=0.05, search_seconds=3.0),
        workers=1,
    )
    try:
        first, second = driver.evaluate("for (;;);", "1", "for (;;);")[::2]
        assert isinstance(first, Failed)
        assert isinstance(second, Failed)
        assert first.elapsed_us >= 500_000
        assert 50_000 <= second.elapsed_us < 400_000
    finally:
        driver.close()


def test_a_timeout_under_less_time_is_no_offence() -> None:
    driver = Driver(
        SandboxLimits(trigger_seconds=0.4, after_timeout_seconds=0.05, search_seconds=3.0),
        workers=1,
    )
    first = "for (;;) /* first */;"
    second = "for (;;) /* second */;"
    try:
        assert [outcome(verdict) for verdict in driver.evaluate(first, second)] == [
            "timeout",
            "timeout",
        ]
        assert driver.sandbox.record_of(first).timeouts == 1
        assert driver.sandbox.record_of(second).timeouts == 0
    finally:
        driver.close()


def test_what_ran_when_the_time_ended_is_named() -> None:
    driver = Driver(SandboxLimits(trigger_seconds=1.0, search_seconds=0.4), workers=1)
    burner = "for (;;) /* burner */;"
    try:
        running, *others = driver.evaluate(burner, "1", "0")
        assert isinstance(running, Failed)
        assert running.kind == "not_evaluated"
        assert "was running when the 0.4 s of this search ended" in running.message
        assert running.elapsed_us > 150_000
        assert [outcome(verdict) for verdict in others] == ["fired", "quiet"]
        assert driver.sandbox.record_of(burner).total == 0
    finally:
        driver.close()


QUOTES = "throw new Error('\"'.repeat(400))"


def test_long_messages_take_no_room_from_others(quick: Driver) -> None:
    verdicts = quick.evaluate(*[QUOTES] * 200, "if (", "nope", "1", "throw new TypeError('x')")
    flood = verdicts[:200]
    assert {
        (verdict.kind, verdict.line, verdict.column)
        for verdict in flood
        if isinstance(verdict, Failed)
    } == {("thrown", 1, 7)}
    assert all('Error: """"' in verdict.message for verdict in flood if isinstance(verdict, Failed))
    failures = [verdict for verdict in verdicts[200:] if isinstance(verdict, Failed)]
    places = [(failure.kind, failure.line, failure.column) for failure in failures]
    assert places == [("syntax", 1, 5), ("reference", 1, 1), ("thrown", 1, 7)]
    assert isinstance(verdicts[202], Fired)


def test_a_flood_on_the_console_hides_no_failure(quick: Driver) -> None:
    flood = "for (let i = 0; i < 300; i++) console.log('\"'.repeat(400), '\"'.repeat(400))\nnope"
    report = quick.run(quick.sandbox.run(flood, CONTEXT, now=NOW, seed=1))
    assert isinstance(report.verdict, Failed)
    assert (report.verdict.kind, report.verdict.line) == ("reference", 2)
    assert 100 < len(report.console) <= 200


def test_a_line_noted_by_one_trigger_is_not_shown_for_the_next(quick: Driver) -> None:
    forge = (
        "Error.prepareStackTrace(TypeError.prototype, [{ getScriptNameOrSourceURL() { return 'trigger' },"
        " getLineNumber() { return 77 }, getColumnNumber() { return 5 }, getFunctionName() { return 'f' } }]); true"
    )
    throw = "throw TypeError.prototype"
    (alone,) = quick.evaluate(throw)
    _, after = quick.evaluate(forge, throw)
    assert isinstance(alone, Failed)
    assert isinstance(after, Failed)
    assert (after.line, after.column) == (alone.line, alone.column)


def test_an_error_that_fails_when_it_is_looked_at_is_the_triggers_own_failure(
    quick: Driver,
) -> None:
    proxy = "new Proxy({}, { getPrototypeOf() { throw new Error('boo') } })"
    verdicts = quick.evaluate("1", f"throw {proxy}", "0", f"await Promise.reject({proxy})", "1")
    assert [outcome(verdict) for verdict in verdicts] == [
        "fired",
        "thrown",
        "quiet",
        "thrown",
        "fired",
    ]


def test_checking_many_that_hurt_each_other_takes_bounded_time() -> None:
    driver = Driver(
        SandboxLimits(trigger_seconds=0.1, after_timeout_seconds=0.1, search_seconds=0.12),
        workers=1,
    )
    try:
        driver.run(driver.sandbox.warm())
        reports = driver.run(
            driver.sandbox.check_all(
                [f"for (;;) /* {number} */;" for number in range(60)], now=NOW, seed=1
            )
        )
        kinds = [report.errors[0].kind for report in reports]
        assert set(kinds) <= {"timeout", "not_evaluated"}
        assert kinds.count("timeout") <= 1.2 / 0.1
        assert "not checked: the 1.2 s were used up" in reports[-1].errors[0].message
    finally:
        driver.close()


def test_the_order_is_as_given_with_offenders_last() -> None:
    records = TriggerRecords(1.0)
    sources = ["harmful", "slow", "worse", "new", "hurried", 7]
    assert records.order(sources, 0) == [0, 1, 2, 3, 4, 5]
    assert records.order(sources, 14) == [2, 3, 4, 5, 0, 1], "another seed begins elsewhere"
    for source, verdict in (
        ("slow", Fired(900_000)),
        ("harmful", Failed("killed", "-", None, None, 0)),
        ("worse", Failed("timeout", "-", None, None, 1_000_000)),
        ("worse", Failed("out_of_memory", "-", None, None, 0)),
        ("hurried", Failed("timeout", "the others had left it no more", None, None, 999_999)),
        ("hurried", Failed("not_evaluated", "-", None, None, 2_000_000)),
    ):
        records.note(source, verdict, NOW)
    assert records.order(sources, 0) == [1, 3, 4, 5, 0, 2]
    assert [records.of(source).total for source in sources] == [1, 0, 2, 0, 0, 0]
    waits = ["await 1", "new", "harmful", "async", "newer"]
    assert records.order(waits, 0) == [1, 4, 0, 3, 2], "among equals those that wait come last"


def test_repeat_offenders_are_remembered_and_run_last(quick: Driver) -> None:
    offender = "for (;;) /* offender */;"
    assert quick.sandbox.record_of(offender).total == 0
    quick.evaluate(offender, "1")
    record = quick.sandbox.record_of(offender)
    assert (record.timeouts, record.out_of_memory, record.killed, record.last) == (1, 0, 0, NOW)
    tight = Driver(
        SandboxLimits(trigger_seconds=0.8, after_timeout_seconds=0.8, search_seconds=1.5), workers=1
    )
    try:
        first = [outcome(verdict) for verdict in tight.evaluate(offender, "for (;;);", "1")]
        again = [outcome(verdict) for verdict in tight.evaluate(offender, "for (;;);", "1")]
        assert first == ["timeout", "not_evaluated", "fired"]
        assert again == ["not_evaluated", "timeout", "fired"], (
            "the one that has harmed before comes last now"
        )
    finally:
        tight.close()


def test_too_many_and_too_long_are_refused_by_name() -> None:
    driver = Driver(SandboxLimits(max_source_chars=10, max_triggers=2), workers=1)
    try:
        verdicts = driver.evaluate("1", "1" * 11, "1")
        assert [outcome(verdict) for verdict in verdicts] == [
            "fired",
            "not_evaluated",
            "not_evaluated",
        ]
        assert "at most 10" in verdicts[1].message  # type: ignore[union-attr]
        assert "at most 2 triggers" in verdicts[2].message  # type: ignore[union-attr]
    finally:
        driver.close()


def test_elapsed_times_add_up(quick: Driver) -> None:
    verdicts = quick.evaluate(*["let n = 0; while (n < 1e5) n += 1"] * 20)
    total = sum(verdict.elapsed_us for verdict in verdicts)
    assert all(isinstance(verdict, Fired) and verdict.elapsed_us > 0 for verdict in verdicts)
    assert 1_000 < total < 3_000_000


def test_an_empty_search_needs_no_worker() -> None:
    driver = Driver(SandboxLimits())
    assert driver.evaluate() == ()
    assert driver.sandbox.pids == ()
    driver.close()


def test_a_context_with_numbers_that_are_no_json(quick: Driver) -> None:
    verdicts = quick.evaluate(
        "context.odd.every((n) => n === null)", odd=[math.nan, math.inf, -math.inf]
    )
    assert outcome(verdicts[0]) == "fired"
    with pytest.raises(TypeError, match="set"):
        quick.evaluate("1", odd={1})


@pytest.mark.parametrize("key", ["__proto__", "constructor", "\u2028", "a\ud800"])
def test_odd_keys_of_a_context_arrive_as_they_are(quick: Driver, key: str) -> None:
    source = "const k = String.fromCharCode(...context.codes); Object.hasOwn(context.odd, k) && context.odd[k] === 7"
    codes = list(memoryview(key.encode("utf-16-le", "surrogatepass")).cast("H"))
    verdicts = quick.evaluate(*[source] * 6, odd={key: 7}, codes=codes)
    assert {outcome(verdict) for verdict in verdicts} == {"fired"}


def test_cancelling_a_search_stops_its_worker(quick: Driver) -> None:
    async def scenario() -> None:
        await quick.sandbox.warm()
        search = asyncio.ensure_future(
            quick.sandbox.evaluate(["for (;;);"], CONTEXT, now=NOW, seed=1)
        )
        before = set(quick.sandbox.pids)
        # A test before this one may have left a second worker.
        workers = list(map(psutil.Process, before))

        def busy_seconds() -> float:
            return sum(worker.cpu_times().user for worker in workers)

        idle_seconds = busy_seconds()
        async with asyncio.timeout(60):
            while busy_seconds() < idle_seconds + 0.05:  # noqa: ASYNC110 - nobody tells
                await asyncio.sleep(0.01)
        search.cancel()
        with pytest.raises(asyncio.CancelledError):
            await search
        ended_pids = before - set(quick.sandbox.pids)
        assert len(ended_pids) == 1
        assert not psutil.pid_exists(ended_pids.pop())

    quick.run(scenario())
    assert [outcome(verdict) for verdict in quick.evaluate("1")] == ["fired"]


@pytest.mark.parametrize("seed", [5, pytest.param(6, marks=pytest.mark.full)])
def test_a_worker_killed_at_any_moment_costs_no_verdict(quick: Driver, seed: int) -> None:
    chance = random.Random(seed)
    sources = [f"let n = 0; while (n < 4e4) n += 1; {index} % 3 === 0" for index in range(60)]

    async def scenario(delay: float) -> list[str]:
        await quick.sandbox.warm()
        search = asyncio.ensure_future(quick.sandbox.evaluate(sources, CONTEXT, now=NOW, seed=1))
        await asyncio.wait({search}, timeout=delay)
        for pid in quick.sandbox.pids:
            psutil.Process(pid).kill()
        return [outcome(verdict) for verdict in await search]

    for _ in range(4):
        assert quick.run(scenario(chance.uniform(0, 0.1))) == [
            expected(index) for index in range(60)
        ]


def test_a_single_trigger_is_not_blamed_for_a_worker_that_was_killed_from_outside(
    quick: Driver,
) -> None:
    source = "let n = 0; while (n < 3e6) n += 1; true"

    async def scenario() -> str:
        await quick.sandbox.warm()
        search = asyncio.ensure_future(quick.sandbox.evaluate([source], CONTEXT, now=NOW, seed=1))
        await asyncio.wait({search}, timeout=0.03)
        for pid in quick.sandbox.pids:
            psutil.Process(pid).kill()
        return outcome((await search)[0])

    assert quick.run(scenario()) == "fired"
    assert quick.sandbox.record_of(source).total == 0


def test_a_hundred_searches_at_once_do_not_mix() -> None:
    driver = Driver(SandboxLimits(), workers=2)

    async def outcomes_of_search(index: int) -> list[str]:
        context = {
            "messages": [{"role": "user", "content": f"number {index}"}],
            "conversation_id": str(index),
        }
        sources = [
            f"context.conversation_id === '{index}'",
            f"match_keys(context.messages, ['{index}'])",
            "Date.now() === 0",
        ]
        moment = datetime.fromtimestamp(index, UTC)
        sources.append(f"Date.now() === {index * 1000}")
        verdicts = await driver.sandbox.evaluate(sources, context, now=moment, seed=index)
        return [outcome(verdict) for verdict in verdicts]

    async def all_of_them() -> list[list[str]]:
        return list(await asyncio.gather(*map(outcomes_of_search, range(1, 101))))

    try:
        assert driver.run(all_of_them()) == [["fired", "fired", "quiet", "fired"]] * 100
        assert len(driver.sandbox.pids) <= 3, "two workers and a spare"
    finally:
        driver.close()


def test_a_slow_search_does_not_stop_the_others() -> None:
    driver = Driver(SandboxLimits(trigger_seconds=20, search_seconds=20), workers=2)

    async def scenario() -> None:
        slow = asyncio.ensure_future(
            driver.sandbox.evaluate(["for (;;);"], CONTEXT, now=NOW, seed=1)
        )
        quick = (driver.sandbox.evaluate(["1"], CONTEXT, now=NOW, seed=1) for _ in range(20))
        async with asyncio.timeout(15):
            assert {outcome(verdict) for (verdict,) in await asyncio.gather(*quick)} == {"fired"}
        assert not slow.done()
        slow.cancel()
        await asyncio.wait({slow})

    try:
        driver.run(scenario())
    finally:
        driver.close()


def test_more_waiting_searches_than_allowed_are_refused() -> None:
    driver = Driver(SandboxLimits(max_waiting=2), workers=1)

    async def scenario() -> list[str]:
        searches = [driver.sandbox.evaluate(["1"], CONTEXT, now=NOW, seed=1) for _ in range(5)]
        results = await asyncio.gather(*searches, return_exceptions=True)
        return [type(result).__name__ for result in results]

    try:
        assert driver.run(scenario()) == ["tuple"] * 3 + ["SandboxBusy"] * 2
        assert issubclass(SandboxBusy, Exception)
    finally:
        driver.close()


@own_workers()
def test_closing_is_final_and_may_be_repeated() -> None:
    async def scenario() -> None:
        sandbox = TriggerSandbox(workers=1)
        await sandbox.warm()
        search = asyncio.ensure_future(sandbox.evaluate(["for (;;);"], CONTEXT, now=NOW, seed=1))
        await asyncio.wait({search}, timeout=0.05)
        pids = sandbox.pids
        await sandbox.aclose()
        await sandbox.aclose()
        assert not any(map(psutil.pid_exists, pids))
        with pytest.raises(SandboxClosed):
            await search
        with pytest.raises(SandboxClosed):
            await sandbox.evaluate(["1"], CONTEXT, now=NOW, seed=1)

    asyncio.run(scenario())


@own_workers()
def test_closing_while_the_first_worker_starts_leaves_none() -> None:
    async def scenario(turns: int) -> None:
        before = {process.pid for process in psutil.Process().children()}
        sandbox = TriggerSandbox(workers=1)
        search = asyncio.ensure_future(sandbox.evaluate(["1"], CONTEXT, now=NOW, seed=1))
        await asyncio.wait({search}, timeout=turns * 0.01)
        await sandbox.aclose()
        with pytest.raises(SandboxClosed):
            await search
        assert {process.pid for process in psutil.Process().children()} <= before

    for turns in range(6):
        asyncio.run(scenario(turns))


def test_a_sandbox_that_was_never_used_closes_without_a_process() -> None:
    async def scenario() -> None:
        before = psutil.Process().children()
        async with TriggerSandbox() as sandbox:
            assert psutil.Process().children() == before
            assert sandbox.pids == ()
        assert psutil.Process().children() == before

    asyncio.run(scenario())


@pytest.mark.parametrize("zone", ["Mars/Olympus", "../etc/passwd", "UTC\n"])
def test_an_unknown_time_zone_is_refused_in_words(zone: str) -> None:
    driver = Driver(SandboxLimits(), timezone=zone, workers=1)
    try:
        with pytest.raises(SandboxUnavailable, match="no time zone"):
            driver.evaluate("1")
    finally:
        driver.close()


def test_wrong_settings_are_refused_when_they_are_made() -> None:
    for wrong in (
        {"trigger_seconds": 0},
        {"search_seconds": math.nan},
        {"heap_mb": 1},
        {"data_mb": 1},
        {"max_triggers": 0},
    ):
        with pytest.raises(ValueError, match="must be"):
            SandboxLimits(**wrong)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="workers"):
        TriggerSandbox(workers=0)


class TestMatchTexts:
    """Search expressions of users."""

    TEXTS = ("I love Pizza", "披萨", "pizza pizza", "", "PIZZA\nday")

    @pytest.mark.parametrize(
        ("pattern", "matches"),
        [
            ("pizza", (True, False, True, False, True)),
            ("披萨", (False, True, False, False, False)),
            ("/pizza/", (False, False, True, False, False)),
            ("/pizza/i", (True, False, True, False, True)),
            ("/pizza/gi", (True, False, True, False, True)),
            ("/pizza/y", (False, False, True, False, False)),
            ("/^day$/m", (False, False, False, False, True)),
            (r"/\p{Script=Han}/u", (False, True, False, False, False)),
            ("/^$/", (False, False, False, True, False)),
            ("/home", (False,) * 5),
            ("/", (False,) * 5),
        ],
    )
    def test_finds(self, quick: Driver, pattern: str, matches: tuple[bool, ...]) -> None:
        assert quick.run(quick.sandbox.match_texts(pattern, self.TEXTS)) == matches

    @pytest.mark.parametrize(
        ("pattern", "message"),
        [
            ("", "empty"),
            (" \n", "empty"),
            ("//", "empty"),
            ("/(/", "Unterminated group"),
            ("/a/gg", "flags"),
            (r"/\u{110000}/u", "Invalid"),
            ("a" * 20_000, "at most"),
            ("/(" + "(?:" * 900 + "a" + ")*" * 901 + ")/", "Unmatched"),
        ],
    )
    def test_refuses(self, quick: Driver, pattern: str, message: str) -> None:
        with pytest.raises(PatternError, match=message):
            quick.run(quick.sandbox.match_texts(pattern, ["aaaa"]))

    def test_a_refused_expression_costs_no_worker(self, quick: Driver) -> None:
        async def scenario() -> None:
            await quick.sandbox.match_texts("/a/", ["a"])
            before = set(quick.sandbox.pids)
            for _ in range(6):
                with pytest.raises(PatternError):
                    await quick.sandbox.match_texts("/(/", ["a"])
            assert before <= set(quick.sandbox.pids)

        quick.run(scenario())

    def test_gives_nothing_partial_when_it_takes_too_long(self) -> None:
        driver = Driver(SandboxLimits(search_seconds=0.3), workers=1)
        try:
            with pytest.raises(PatternError, match=r"longer than 0\.3 s"):
                driver.run(driver.sandbox.match_texts("/(a+)+$/", ["a", "a" * 40 + "b"]))
            assert driver.run(driver.sandbox.match_texts("/a+$/", ["a", "ab"])) == (True, False)
        finally:
            driver.close()

    def test_many_long_texts_go_in_parts(self, quick: Driver) -> None:
        texts = [f"{'x' * 900} {index}" for index in range(5_000)]
        matches = quick.run(quick.sandbox.match_texts("/ (7|4999)$/", texts))
        assert [index for index, is_match in enumerate(matches) if is_match] == [7, 4999]

    def test_no_texts_still_check_the_expression(self, quick: Driver) -> None:
        assert quick.run(quick.sandbox.match_texts("/a/", [])) == ()
        with pytest.raises(PatternError):
            quick.run(quick.sandbox.match_texts("/(/", []))

    def test_lone_surrogates_in_texts(self, quick: Driver) -> None:
        assert quick.run(quick.sandbox.match_texts("/^.$/u", ["\ud800", "\U0001f382", "ab"])) == (
            True,
            True,
            False,
        )


def test_the_order_of_triggers_does_not_matter(quick: Driver) -> None:
    sources = ["1", "0", "nope", "throw 1", "foo bar"]
    expected_outcomes = ["fired", "quiet", "reference", "thrown", "syntax"]
    for order in itertools.islice(itertools.permutations(range(5)), 0, 120, 17):
        verdicts = quick.evaluate(*map(sources.__getitem__, order))
        assert [outcome(verdict) for verdict in verdicts] == list(
            map(expected_outcomes.__getitem__, order)
        )
