"""Checking a trigger before it is stored: what is refused, what is warned of, and how it is shown."""

from __future__ import annotations

import asyncio
import time

import pytest
from attacks.driver import CONTEXT, NOW, Driver
from hypothesis import given
from hypothesis import strategies as st

from sandbox import CheckReport, SandboxLimits
from sandbox.javascript.positions import caret
from sandbox.javascript.scope import unknown_names
from sandbox.javascript.syntax import parse

KNOWN = ("context", "args", "match_keys", "match_keys_all", "Math", "Date", "console", "Promise")


def check(driver: Driver, source: str) -> CheckReport:
    return driver.run(driver.sandbox.check(source, now=NOW, seed=1))


@pytest.mark.parametrize(
    "source",
    [
        "true",
        "match_keys(context.messages, ['a'])",
        "return args.messages.length > 3",
        "await 1",
        "typeof x === 'undefined'",
        "{ using x = null; x } true",
        "using x = null\nreturn x === null",
        "using x = null\nreturn (await 1) > x",
    ],
)
def test_a_good_trigger_has_no_problems(driver: Driver, source: str) -> None:
    assert check(driver, source) == CheckReport((), ())


@pytest.mark.parametrize(
    ("source", "kind", "message", "caret"),
    [
        ("true || nope", "reference", "nope is not defined", "true || nope\n        ^"),
        (
            "match_key(context.messages, ['a'])",
            "reference",
            "did you mean match_keys?",
            "match_key(context.messages, ['a'])\n^",
        ),
        ("1;\n生日 + Mth.max(1)", "reference", "生日 is not defined", "生日 + Mth.max(1)\n^"),
        ("  if (x", "syntax", "Unexpected end of input", "  if (x\n       ^"),
        ("今天 是", "syntax", "Unexpected identifier", "今天 是\n     ^"),
        ("1 > 2；", "syntax", "； is not part of JavaScript, write ; instead", "1 > 2；\n     ^"),
        (
            "match_keys([1]，['a'])\n",
            "syntax",
            "write , instead",
            "match_keys([1]，['a'])\n             ^",
        ),
        ("f('a'，1)", "syntax", "write , instead", "f('a'，1)\n  ^"),
        (
            "f(a.b，['a'])",
            "syntax",
            "， is not part of JavaScript, write , instead",
            "f(a.b，['a'])\n    ^",
        ),
        ("Number（1）", "syntax", "write ( instead", "Number（1）\n      ^"),
        (
            "1 > 2 or 1",
            "syntax",
            "or is not part of JavaScript, write || inst",
            "1 > 2 or 1\n      ^",
        ),
        ("[‘生日’]", "syntax", "write ' instead", "[‘生日’]\n ^"),
        ("'❤️é' + nope", "reference", "nope is not", "'❤️é' + nope\n       ^"),
        ("for (;;);", "timeout", "stopped after ", ""),
        ("'x'.repeat(2 ** 29 - 25).split('')", "killed", "died of SIG", ""),
        ("1;" * 60_000, "not_evaluated", "at most 100000", ""),
        (
            "await 1\n\t中; 1 > 2 // c",
            "syntax",
            "must return its verdict",
            " 中; 1 > 2 // c\n     ^",
        ),
    ],
)
def test_a_bad_trigger_is_refused(
    driver: Driver, source: str, kind: str, message: str, caret: str
) -> None:
    problem = check(driver, source).errors[0]
    assert (problem.kind, problem.caret) == (kind, caret)
    assert message in problem.message


def test_a_trigger_that_fills_its_memory_is_refused() -> None:
    # On a busy machine the usual second would be over first.
    driver = Driver(SandboxLimits(trigger_seconds=60.0, search_seconds=60.0), workers=1)
    try:
        problem = check(driver, "const a = []; for (;;) a.push({})").errors[0]
    finally:
        driver.close()
    assert (problem.kind, problem.caret) == ("out_of_memory", "")
    assert "32 MB" in problem.message


def test_what_depends_on_the_data_is_a_warning(driver: Driver) -> None:
    report = check(driver, "context.participants.user.name === 'Ann'")
    assert report.errors == ()
    assert [(p.kind, p.line, p.column) for p in report.warnings] == [("thrown", 1, 27)]
    given_data = driver.run(
        driver.sandbox.check("context.participants.user.name === 'Ann'", CONTEXT, now=NOW, seed=1)
    )
    assert given_data == CheckReport((), ())


def names(source: str) -> list[str]:
    findings = unknown_names(parse(source), KNOWN)
    assert {finding.rule for finding in findings} <= {"reference"}
    return [str(finding.message).partition(" is not defined")[0] for finding in findings]


@pytest.mark.parametrize(
    ("source", "unknown"),
    [
        ("let a = 1; { let b = a; var c = b } c + b", ["b"]),
        ("f(); function f() { return g } ", ["g"]),
        ("const {a, b: [c, d = e], ...f} = context; a + c + d + f + b", ["e", "b"]),
        ("for (const [k, v] of x) k + v; k", ["x", "k"]),
        ("for (var i = 0; i < 1; i++); i", []),
        ("for (let i in context) i", []),
        ("try { a } catch ({ message }) { message } message", ["a", "message"]),
        ("try { 1 } catch { 2 }", []),
        ("(a, b = a, ...c) => a + b + c + d", ["d"]),
        ("async x => await x", []),
        ("const f = function self() { return self }; self", ["self"]),
        (
            "class A extends B { static s = A; #p = q; m(x) { return this.#p + x + super.m } } A",
            ["B", "q"],
        ),
        ("const A = class Inner { m() { return Inner } }; Inner", ["Inner"]),
        ("({ a, b: c, d() { return e }, [f]: 1, get g() { return 1 } })", ["a", "c", "e", "f"]),
        ("x = 1; [y] = [1]; ({ z } = {})", ["x", "y", "z"]),
        ("outer: for (;;) { break outer }", []),
        ("typeof q; typeof q.r", ["q"]),
        ("switch (1) { case 1: let s; case t: s }", ["t"]),
        ("`${a} ${`${b}`}`; tag`x`", ["a", "b", "tag"]),
        ("a?.b?.[c]?.(d)", ["a", "c", "d"]),
        ("new.target; arguments; undefined; this; await 1", []),
        ("function* g() { yield h } g", ["h"]),
        ("if (1) { function inner() {} } inner", ["inner"]),
        ("var v = v; let w = w", []),
        ("/abc/u.test(q) && 1 < r", ["q", "r"]),
        ("function f(a = b) { var b; return b + a } f", ["b"]),
        ("function f(a, b = () => a) { var c = a; return c + b } f", []),
        ("{ using x = y; x } x", ["y", "x"]),
        ("for (using x of [z]) x; x", ["z", "x"]),
        ("async () => { await using x = 1, y = x; x + y }", []),
        (
            "const using = 3; using > nope",
            [],
        ),  # the parser does not know this, and V8 does: no evidence
    ],
)
def test_scopes(source: str, unknown: list[str]) -> None:
    assert names(source) == unknown


@pytest.mark.alone
def test_many_unknown_names_cost_no_time(driver: Driver) -> None:
    """The parent's loop is the server's: a trigger must not stop it."""

    async def scenario(source: str) -> tuple[CheckReport, float]:
        longest = 0.0

        async def tick() -> None:
            nonlocal longest
            while True:
                before = time.perf_counter()
                await asyncio.sleep(0.005)
                longest = max(longest, time.perf_counter() - before)

        ticking = asyncio.ensure_future(tick())
        report = await driver.sandbox.check(source, now=NOW, seed=1)
        ticking.cancel()
        return report, longest

    names = ";".join(f"a{number}" for number in range(14_000))
    report, longest = driver.run(scenario(names))
    assert [problem.column for problem in report.errors] == [
        number * 3 + 1 for number in range(10)
    ] + [31 + number * 4 for number in range(10)]
    assert longest < 0.5  # was 12 s
    declared = ";".join(f"var b{number}=1" for number in range(4_000))
    used = ";".join(f"a{number}" for number in range(4_000))
    report, _ = driver.run(scenario(f"if (0) {{ {declared}; {used} }} 1"))
    assert {problem.kind for problem in report.errors} == {"reference"}
    assert len(report.errors) == 20


def test_a_name_written_with_escapes_is_that_name() -> None:
    assert names(r"let \u0061bc = 1; abc + \u{61}bc") == []
    assert names(r"let abc = 1; \u0061bc + \u{0064} + d") == ["d"]


def test_a_name_nearby_is_offered() -> None:
    (unknown_name,) = unknown_names(parse("const birthday = 1; brithday"), KNOWN)
    assert (str(unknown_name.message), unknown_name.start) == (
        "brithday is not defined; did you mean birthday?",
        20,
    )
    (unknown_name,) = unknown_names(parse("matchkeys()"), KNOWN)
    assert str(unknown_name.message) == "matchkeys is not defined; did you mean match_keys?"
    (unknown_name,) = unknown_names(parse("qqqq"), KNOWN)
    assert str(unknown_name.message) == "qqqq is not defined"


@given(st.text(max_size=60))
def test_scope_analysis_never_raises(source: str) -> None:
    parsed = parse(source)
    for finding in unknown_names(parsed, KNOWN):
        line, column = parsed.place(finding.start)
        assert line >= 1
        assert column >= 1


@given(st.text(max_size=40), st.none() | st.integers(-2, 9), st.none() | st.integers(1, 60))
def test_a_caret_is_two_lines_or_nothing(source: str, line: int | None, column: int | None) -> None:
    shown = caret(source, line, column)
    assert shown == "" or shown.split("\n")[1].strip() == "^"
    assert len(shown.split("\n")) in (1, 2)


def test_a_long_line_is_cut_around_the_column() -> None:
    line, pointer = caret("a" * 500 + "X" + "b" * 500, 1, 501).split("\n")
    assert line[len(pointer) - 1] == "X"
    assert len(line) == 100
