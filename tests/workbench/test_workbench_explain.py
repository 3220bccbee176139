"""`run` and `:explain`: the traced copy comes to the verdict of the trigger, and what is said of operands is true."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from attacks.driver import CONTEXT, NOW, SEED, Driver, outcome
from cli_program import CommandLine
from hypothesis import given
from hypothesis import strategies as st

from sandbox import SandboxLimits
from sandbox.javascript import syntax
from sandbox.javascript.tracing import copy_of, operands
from sandbox.verdicts import RunReport
from sandbox.workbench.explain import reasons

SAMPLES = Path(__file__).resolve().parents[2] / "data" / "samples"


@pytest.fixture(scope="module")
def driver() -> Iterator[Driver]:
    driver = Driver(SandboxLimits(), workers=1, timezone="UTC")
    yield driver
    driver.close()


def traced(driver: Driver, source: str) -> RunReport:
    """The run of a source, whose verdict must be the server's, and that of its copy too."""
    (verdict,) = driver.evaluate(source)
    report = driver.run(
        driver.sandbox.run(source, CONTEXT, now=NOW, seed=SEED, copy=copy_of(source))
    )
    assert outcome(report.verdict) == outcome(verdict), source
    if report.traced is not None:
        assert outcome(report.traced) == outcome(verdict), source
    return report


def values_of(driver: Driver, source: str) -> dict[str, str]:
    """The last value of each operand that was evaluated."""
    rows = {row[0]: row[-1] for row in traced(driver, source).trace[-1]["operands"]}
    return {
        operand.text: rows[operand.number]
        for operand in operands(syntax.parse(source))
        if operand.number in rows
    }


def calls_of(driver: Driver, source: str) -> Sequence[Mapping[str, Any]]:
    return traced(driver, source).trace[:-1]


LEAVES = st.sampled_from(
    [
        "true",
        "0",
        "''",
        "null",
        "s.push(1) > 2",
        "s.pop()",
        "(s.length = 0, 7)",
        "s.length === 1",
        "n++ < 2",
        "(n += 1)",
        "Math.random() < 0.5",
        "new Date().getDay() > 4",
        "match_keys(context.messages, ['生日', 'x'])",
        "match_keys_all(args, [/birth/i], 'any', 2)",
        "context.participants?.user?.name",
        "context.participants.nobody.name",
        "/生(?=日)/.test(context.messages[0].content)",
        "[1, 2].some((x) => x > n && s.push(x))",
        "context.messages.filter((m) => { return m.role === 'user' || (m = 3) > n })",
        "[2, 1].find((x) => [x].every((y) => !(y < x)) || match_keys(args, ['x']))",
        "((f) => f(1) || f(0))((x) => x === 1)",
        "`${n}` == s",
        "typeof nothing",
        "[...'ab'].at(-1)",
        "function () { return 1 }",
        "{}.x",
        "{a: 1}",
        "'//' // a comment\n",
        "(() => { throw new SyntaxError('mine') })()",
    ]
)
EXPRESSIONS = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from(["&&", "||", "===", "<", "!=", ","]), inner).map(
            lambda t: f"({t[0]} {t[1]} {t[2]})"
        ),
        st.lists(inner, min_size=2, max_size=4).map(" && ".join),
        inner.map(lambda e: f"!({e})"),
        st.tuples(inner, inner).map(lambda t: f"({t[0]}) ?? ({t[1]})"),
        st.tuples(inner, inner, inner).map(lambda t: f"(({t[0]}) ? {t[1]} : {t[2]})"),
    ),
    max_leaves=8,
)
FORMS = st.sampled_from(
    [
        "const s = []; let n = 0\n{a}",
        "const s = []; let n = 0;\nconst c = {a}\nc || {b}",
        "const s = []; let n = 0\nif ({a}) return {b}\nreturn n > 1",
        "const s = []; let n = 0\nif ({a}) { n = 2; {b} } else { !n }",
        "const s = []; let n = 0\nreturn (await ({a})) && {b}",
        "const s = [], n = 0; for (const x of [1, 2]) { if ({a}) return true }\nreturn await Promise.resolve({b})",
        "const s = []; var n = 0\ntry { {a} } catch { {b} }",
        "const f = async () => {a}; const s = []; let n = 0; return await f() || {b}",
    ]
)


@given(FORMS, EXPRESSIONS, EXPRESSIONS)
def test_a_traced_copy_comes_to_the_verdict_of_the_server(
    driver: Driver, form: str, a: str, b: str
) -> None:
    traced(driver, form.replace("{a}", a).replace("{b}", b))


def test_also_on_the_sample_pack(driver: Driver) -> None:
    memories = json.loads((SAMPLES / "triggers.json").read_text("utf-8"))
    chat = [
        json.loads(line) for line in (SAMPLES / "companion.jsonl").read_text("utf-8").splitlines()
    ]
    sources = [memory["trigger"] for memory in memories]
    copies = [copy_of(source) for source in sources]
    assert None not in copies
    for end in range(12, len(chat), 60):
        context = {"messages": chat[end - 12 : end], "conversation_id": "x", "participants": {}}
        plain = driver.run(driver.sandbox.evaluate(sources, context, now=NOW, seed=end))
        for source, copy, verdict in zip(sources, copies, plain, strict=True):
            report = driver.run(driver.sandbox.run(source, context, now=NOW, seed=end, copy=copy))
            assert report.traced is not None
            assert {outcome(report.verdict), outcome(report.traced)} == {outcome(verdict)}, source


def test_every_operand_has_its_value(driver: Driver) -> None:
    source = "const hour = new Date().getHours()\nhour < 5 || !(hour >= 23) && match_keys(context.messages, ['cake'])"
    assert values_of(driver, source) == {
        "hour < 5 || !(hour >= 23) && match_keys(context.messages, ['cake'])": "1",
        "hour < 5": "false",
        "hour": "9",
        "!(hour >= 23) && match_keys(context.messages, ['cake'])": "1",
        "!(hour >= 23)": "true",
        "hour >= 23": "false",
        "match_keys(context.messages, ['cake'])": "1",
    }


def test_what_was_not_reached_has_no_value(driver: Driver) -> None:
    source = "false && context.messages.length || 3"
    texts = {operand.text for operand in operands(syntax.parse(source))}
    assert texts - set(values_of(driver, source)) == {"context.messages.length"}


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("[1]", "a list"),
        ("({toString() { throw 1 }, toJSON() { throw 2 }})", "an object"),
        ("new Date(0)", "1970-01-01T00:00:00.000Z"),
        ("/a/", "a regular expression"),
        ("'x'.repeat(200)", '"' + "x" * 120 + '…"'),
        ("10n", "10n"),
        ("Symbol.iterator", "a symbol"),
        ("undefined", "undefined"),
        ("new Proxy({}, {get() { throw 1 }})", "an object"),
    ],
)
def test_values_are_shown_without_running_code_of_theirs(
    driver: Driver, value: str, text: str
) -> None:
    rows = traced(driver, f"{value} || 0").trace[-1]["operands"]
    assert {row[0]: row[-1] for row in rows}[1] == text


def test_a_call_says_what_it_found_and_where(driver: Driver) -> None:
    source = "match_keys(context.messages, ['生日', /b(?=irth)|cak./gi, 'tea', ''], 'any', 9) > 0"
    (call,) = calls_of(driver, source)
    assert tuple(call[name] for name in ("trace", "scope", "depth", "result", "places")) == (
        "match_keys",
        '"any"',
        "9",
        "2",
        [0, 1],
    )
    first, second = (message["content"] for message in CONTEXT["messages"])
    assert call["keys"] == [
        ["生日", [[0, first, ""]]],
        ["/b(?=irth)|cak./gi", [[1, second, ""]]],
        ["tea", []],
    ]


def test_the_shown_part_of_a_long_message_has_the_match(driver: Driver) -> None:
    for key, matched_text in (("'生日'", "生日"), ("/b.r+/", "bir")):
        text = "x" * 300 + " 生日 birth " + "y" * 300
        source = f"match_keys([{{role: 'user', content: {text!r}}}], [{key}])"
        ((_, ((number, shown, _),)),) = calls_of(driver, source)[0]["keys"]
        assert (number, shown[0], matched_text in shown[:24]) == (-1, "…", True)


def test_a_key_in_another_spelling_says_which(driver: Driver) -> None:
    source = "match_keys([{role: 'user', content: '我們慶祝ＡＩ'}], ['庆祝', 'ai', '我們', '祝ＡＩ']) > 1"
    lines = reasons(source, traced(driver, source), [])
    assert lines[-4:] == [
        "  庆祝 (as 慶祝) in the searched text: 我們慶祝ＡＩ",
        "  ai (as ＡＩ) in the searched text: 我們慶祝ＡＩ",
        "  我們 in the searched text: 我們慶祝ＡＩ",
        "  祝ＡＩ in the searched text: 我們慶祝ＡＩ",
    ]


def test_calls_by_another_name_or_on_other_texts_are_found_too(driver: Driver) -> None:
    source = (
        "const look = match_keys\nlook([{role: 'user', content: 'a 😀 cat'}], ['cat', '😀']) > 1"
    )
    lines = reasons(source, traced(driver, source), [])
    assert lines[-2:] == [
        "  cat in the searched text: a 😀 cat",
        "  😀 in the searched text: a 😀 cat",
    ]
    assert "  looked at the searched text" in lines


def test_a_loop_is_counted_and_a_few_of_its_calls_are_noted(driver: Driver) -> None:
    source = "let n = 0\nfor (let i = 0; i < 5000; i += 1) { if (match_keys(args, ['x']) || i) n = i }\ntrue"
    report = traced(driver, source)
    assert len(report.trace) == 21
    lines = reasons(source, report, [])
    assert "true   if: match_keys(args, ['x']) || i = 4999 (5000 times, the last)" in lines
    assert lines[-1] == "and 4980 more calls"
    assert not any("not evaluated" in line for line in lines)


def test_a_copy_that_was_stopped_claims_nothing(driver: Driver) -> None:
    source = "context.messages.length > 0 && (() => { while (true); })()"
    lines = reasons(source, traced(driver, source), CONTEXT["messages"])
    assert lines == [
        "",
        "no operands: the second run, which records them, was stopped or gave another verdict",
    ]


@pytest.mark.parametrize(
    ("source", "shown"),
    [
        (
            "context.messages.length < 0 || nobody.knows || 1",
            ["false    context.messages.length < 0", "-        nobody.knows", "-        1"],
        ),
        ("const f = m => m.x.y; [1].some(f) || true", ["-        [1].some(f)", "-        true"]),
        ("'生'.length && [1].every(m => '生' &&\n m.x.y)", ["true     '生'.length = 1"]),
    ],
)
def test_what_threw_is_not_called_unreached(driver: Driver, source: str, shown: list[str]) -> None:
    lines = reasons(source, traced(driver, source), CONTEXT["messages"])
    assert [line for line in shown if line not in lines] == []
    assert "-      was not evaluated" not in lines


def test_no_trigger_reaches_the_probe_or_the_trace(driver: Driver) -> None:
    (verdict,) = driver.evaluate(
        "Object.getOwnPropertyNames(globalThis).some((n) => /prob|trac/i.test(n))"
    )
    assert outcome(verdict) == "quiet"


@pytest.mark.parametrize("source", ["if (", "'\ud800' && 1", "", "// nothing"])
def test_what_cannot_be_parsed_has_no_copy(source: str) -> None:
    assert copy_of(source) is None


def test_run_shows_operands_and_what_was_found(workbench: CommandLine, tmp_path: Path) -> None:
    chat = tmp_path / "chat.txt"
    chat.write_text(
        "user: 你好\nassistant: 今天是你的生日, happy birthday\nuser: 嗯\n", encoding="gb18030"
    )
    source = "new Date().getMonth() === 6 && match_keys(context.messages, ['生日', 'birthday'])"
    options = [
        "--chat",
        str(chat),
        "--encoding",
        "gb18030",
        "--at",
        "2",
        "--now",
        "2026-07-17T09:00",
        "--tz",
        "UTC",
    ]
    code, out, err = workbench("run", "-e", source, *options)
    assert (code, err) == (0, "")
    assert re.match(r"fired    \d+\.\d ms\n\nvalue  operand\n", out)
    assert "true     new Date().getMonth() === 6\n" in out
    assert "           new Date().getMonth() = 6\n" in out, (
        "a compared value is neither true nor false"
    )
    assert "  looked at #1, #2\n" in out
    assert "  生日 in #2 assistant: 今天是你的生日, happy birthday\n" in out
    assert "\x1b" not in out


def test_the_time_of_a_run_is_that_of_the_message(workbench: CommandLine, tmp_path: Path) -> None:
    chat = tmp_path / "chat.jsonl"
    rows = [
        {"role": "user", "content": str(day), "timestamp": f"2026-02-0{day}T08:00Z"}
        for day in range(1, 7)
    ]
    chat.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    source = (
        "console.log(new Date().getDate(), context.messages.length, context.messages[0].content)"
    )
    code, out, _ = workbench(
        "run", "-e", source, "--chat", str(chat), "--at", "4", "--window", "2", "--tz", "UTC"
    )
    assert (code, out.splitlines()[0]) == (1, "console  4 2 3")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--at", "1"], "--at: there is no message 1; there are no messages; add --chat"),
        (["--window", "0"], "--window must be at least 1 message"),
    ],
)
def test_a_wrong_run_gets_one_sentence(
    workbench: CommandLine, arguments: list[str], sentence: str
) -> None:
    code, out, err = workbench("run", "-e", "1", *arguments)
    assert (code, out, err) == (2, "", f"trigger-sandbox: {sentence}\n")
