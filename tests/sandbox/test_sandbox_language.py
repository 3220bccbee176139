"""What a trigger can say and see: forms, context, clock, chance, and where an error is."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from attacks.driver import CONTEXT, NOW, Driver, outcome

from sandbox import Failed, SandboxLimits

FIRED = [
    "1 + 1",
    "'0'",
    "({ a: 1 })",
    "[]",
    "let s = 0; for (const m of context.messages) s += m.content.length; s > 3",
    "if (context.messages.length) { 'yes' } else { 0 }",
    "return true",
    "const n = 2\nif (n > 1) return n\nreturn 0",
    "context.messages.some(m => { return m.role === 'user' })",
    "await true",
    "(await (1)) || 2",
    "await match_keys(args, ['生日'], 'any') || false;",
    "(await match_keys(context.messages, ['nothing'])) || (await 7) ;  ",
    "const n = await match_keys(context.messages, ['生日']); return n > 0",
    "Promise.resolve(1)",
    "(async () => true)()",
    "// await\nlet n = 1; n > 0",
    "const words = 'await return'; words.length === 12",
    "({ then(yes) { yes(1) } })",
    "args === context && args.messages === context.messages",
    "context.conversation_id === 'tests' && context.participants.user.name === 'Ann'",
    "eval('1 + 1') === 2 && new Function('a', 'return a')(3) === 3",
    "const o = {}; o.toString = () => 'mine'; `${o}` === 'mine'",
    "const e = new TypeError('a'); e.message = 'b'; e.name = 'Mine'; String(e) === 'Mine: b'",
    "class A { toString() { return 'a' } } class B extends A {} String(new B()) === 'a'",
    "function F() {} F.prototype.constructor === F && (F.prototype.toString = () => 'f', String(new F()) === 'f')",
    "context.messages.reverse().length === 2 && context.messages.push({}) === 3",
    "new Date().constructor === Date && new Date() instanceof Date && Date.length === 7",
    "class D extends Date {} new D().getTime() === context.expected_now && new D() instanceof D",
    "typeof Temporal === 'undefined' && typeof nothing === 'undefined'",
    "Math.random() !== Math.random() && Math.random() < 1",
    "console.log('x') === undefined",
    "'use strict'; true",
]
QUIET = [
    "",
    "let x = 1",
    "false",
    "0n",
    "NaN",
    "''",
    "null",
    "/* true */",
    "function trigger() { return true }",
    "return",
    "await 0",
    "(async () => false)()",
    "Promise.resolve(0)",
    "({ then(yes) { yes(0) } })",
    "const n = await 1; return n > 1",
]


@pytest.mark.parametrize("source", FIRED)
def test_fires(driver: Driver, source: str) -> None:
    assert outcome(driver.evaluate(source)[0]) == "fired", driver.evaluate(source)


@pytest.mark.parametrize("source", QUIET)
def test_is_quiet(driver: Driver, source: str) -> None:
    assert outcome(driver.evaluate(source)[0]) == "quiet", driver.evaluate(source)


@pytest.mark.parametrize(
    ("source", "kind", "line", "column"),
    [
        ("nope", "reference", 1, 1),
        ("1;\n  nope.x", "reference", 2, 3),
        ("return 1 +\n  nope", "reference", 2, 3),
        ("if (1) return nope", "reference", 1, 15),
        ("'生日' &&\n  1 && nope", "reference", 2, 8),
        ("const o = { nope: 1 }; o.nope && [...nope]", "reference", 1, 38),
        ("await 1 && nope", "reference", 1, 12),
        ("const a = await 1;\nreturn nope", "reference", 2, 8),
        ("context.a.b", "thrown", 1, 11),
        ("\n\n throw new Error('x')", "thrown", 3, 8),
        ("const f = () => {\n  throw new Error('x')\n}\nf()", "thrown", 2, 9),
        ("JSON.parse('{')", "thrown", 1, 6),
        ("foo bar", "syntax", 1, 5),
        ("1;\n\n  foo bar", "syntax", 3, 7),
        ("return foo bar", "syntax", 1, 12),
        ("await foo bar", "syntax", 1, 11),
        ("const a = 1;\nawait 1;\nlet b =", "syntax", 3, 8),
        ("if (", "syntax", 1, 5),
        ("return (", "syntax", 1, 9),
        ("'生日' 今天 是", "syntax", 1, 6),
        ("await 1; true", "syntax", 1, 10),
        ("throw null", "thrown", None, None),
    ],
)
def test_an_error_says_where(
    driver: Driver, source: str, kind: str, line: int | None, column: int | None
) -> None:
    (verdict,) = driver.evaluate(source)
    assert isinstance(verdict, Failed)
    assert (verdict.kind, verdict.line, verdict.column) == (kind, line, column), verdict


def test_positions_survive_an_interruption_in_the_same_search(driver: Driver) -> None:
    verdicts = driver.evaluate("\n foo bar", "for (;;);", "nope")
    places = [(v.kind, v.line, v.column) for v in verdicts if isinstance(v, Failed)]
    assert places == [("syntax", 2, 6), ("timeout", None, None), ("reference", 1, 1)]


def test_the_clock_follows_the_call(driver: Driver) -> None:
    for moment in (
        datetime(1970, 1, 1, tzinfo=UTC),
        datetime(2100, 2, 28, 23, 59, 59, 250_000, tzinfo=UTC),
    ):
        ms = round(moment.timestamp() * 1000)
        source = f"Date.now() === {ms} && +new Date() === {ms} && new Date().toISOString() === new Date({ms}).toISOString()"
        verdicts = driver.run(driver.sandbox.evaluate([source], CONTEXT, now=moment, seed=1))
        assert outcome(verdicts[0]) == "fired"


def test_the_same_seed_gives_the_same_numbers_wherever_a_trigger_stands(driver: Driver) -> None:
    source = "console.log(Math.random(), Math.random()); 1"

    def numbers(seed: int) -> list[str]:
        report = driver.run(driver.sandbox.run(source, CONTEXT, now=NOW, seed=seed))
        return report.console[0].split()

    first_numbers = numbers(1)
    assert numbers(1) == first_numbers
    assert numbers(2) != first_numbers
    verdicts = driver.evaluate("Math.random() > 2", f"Math.random() === {first_numbers[0]}")
    assert [outcome(verdict) for verdict in verdicts] == ["quiet", "quiet"]


def test_numbers_are_spread_evenly(driver: Driver) -> None:
    source = """
      const bins = new Array(10).fill(0)
      for (let i = 0; i < 20000; i++) bins[Math.floor(Math.random() * 10)] += 1
      bins.every((n) => n > 1800 && n < 2200)"""
    assert outcome(driver.evaluate(source)[0]) == "fired"


@pytest.mark.parametrize(
    ("zone", "hour", "minute"),
    [
        ("Asia/Shanghai", 17, 30),
        ("America/New_York", 5, 30),
        ("UTC", 9, 30),
        ("Asia/Kolkata", 15, 0),
    ],
)
def test_the_time_zone_holds_by_every_road(zone: str, hour: int, minute: int) -> None:
    there = Driver(SandboxLimits(), timezone=zone, workers=1)
    try:
        source = f"""new Date().getHours() === {hour} && new Date().toString().includes(' {hour:02}:')
          && Date().includes(' {hour:02}:')
          && Number(new Intl.DateTimeFormat('en', {{ hour: 'numeric', hourCycle: 'h23' }}).format()) === {hour}
          && new Date().toLocaleTimeString('en', {{ hourCycle: 'h23' }}).startsWith('{hour:02}:')
          && new Date(2026, 6, 17, {hour}, {minute}).getTime() === Date.now()"""
        assert outcome(there.evaluate(source)[0]) == "fired"
    finally:
        there.close()


def test_console_output_is_for_the_author_and_has_an_end(driver: Driver) -> None:
    source = """console.log('a', { b: [1] }, undefined, Symbol('s'))
      console.warn('x'.repeat(9999))
      for (let i = 0; i < 999; i++) console.log(i)"""
    report = driver.run(driver.sandbox.run(source, CONTEXT, now=NOW, seed=1))
    assert report.console[0] == 'a {"b":[1]} undefined Symbol(s)'
    assert len(report.console[1]) < 320
    assert len(report.console) == 200
    assert outcome(report.verdict) == "quiet"


def test_a_run_says_what_evaluate_says(driver: Driver) -> None:
    for source in ("1", "0", "nope", "foo bar", "throw 1", "await 1"):
        report = driver.run(driver.sandbox.run(source, CONTEXT, now=NOW, seed=7))
        assert outcome(report.verdict) == outcome(driver.evaluate(source)[0])


@pytest.mark.parametrize(
    "source",
    [
        "new Function('throw new Error(1)\\n//# sourceURL=trigger')()",
        "new Function('nope\\n//# sourceURL=trigger')()",
        """const e = new ReferenceError('a is not defined')
        const frame = { getScriptNameOrSourceURL: () => 'trigger', getLineNumber: () => -7, getFunctionName() {} }
        Error.prepareStackTrace(e, [{ ...frame, getColumnNumber: () => 1e300 }])
        throw e""",
    ],
)
def test_a_forged_place_is_no_place_or_a_possible_one(driver: Driver, source: str) -> None:
    (verdict,) = driver.evaluate(source)
    assert isinstance(verdict, Failed)
    assert verdict.line is None or verdict.line >= 1
    assert verdict.column is None or verdict.column >= 1


def test_messages_hold_nothing_that_moves_a_terminal(driver: Driver) -> None:
    (verdict,) = driver.evaluate("throw new Error('\\u001b[31m\\u202e\\u0007 red')")
    assert isinstance(verdict, Failed)
    assert verdict.message == "Error: \ufffd[31m\ufffd\ufffd red"


def test_large_contexts_work_and_stay_fresh(driver: Driver) -> None:
    messages = [{"role": "user", "content": f"{index} {'生日' * 500}"} for index in range(300)]
    verdicts = driver.evaluate(
        *["context.messages.pop(); context.messages.length === 299"] * 8, messages=messages
    )
    assert [outcome(verdict) for verdict in verdicts] == ["fired"] * 8
