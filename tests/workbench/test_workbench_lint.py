"""Lint rules and `check`: each rule finds what its page shows and nothing in what is fine."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from sandbox import cli
from sandbox.workbench.javascript import syntax
from sandbox.workbench.lint import page, slow_expressions
from sandbox.workbench.lint.finding import NAMES, RULES, Finding
from sandbox.workbench.lint.linting import fixed, lint, plain_findings
from sandbox.workbench.lint.switches import switched
from sandbox.workbench.lint.witnesses import witnesses

ROOT = Path(__file__).resolve().parents[2]
NOW = datetime(2026, 7, 17, tzinfo=UTC)


def found(source: str) -> list[Finding]:
    parsed = syntax.parse(source)
    return switched(parsed, plain_findings(parsed, NOW))


def names(source: str) -> list[str]:
    return [one.rule for one in found(source)]


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = cli.main(["check", *arguments])
    out = capsys.readouterr()
    return code, out.out, out.err


def test_each_rule_finds_its_bad_example_and_nothing_in_the_good_one() -> None:
    linted = asyncio.run(lint([text for rule in RULES for text in (rule.bad, rule.good)], NOW))
    for number, rule in enumerate(RULES):
        bad, good = linted[number * 2 : number * 2 + 2]
        assert rule.name in [one.rule for one in bad], rule.name
        assert good == [], rule.name


def test_fixes_of_the_bad_examples_are_the_good_ones() -> None:
    for rule in RULES:
        source = syntax.parse(rule.bad)
        text, count = fixed(source, plain_findings(source, NOW))
        assert (count > 0) == rule.fixes, rule.name
        if rule.fixes:
            assert text == rule.good


def test_the_page_shows_the_rules() -> None:
    assert (ROOT / "docs/reference/lint-rules.md").read_text("utf-8") == page.page()


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("true", ["always-true"]),
        ("'生日' || match_keys(context.messages, ['a'])", ["always-true", "unreachable"]),
        ("() => match_keys(context.messages, ['a'])", ["always-true"]),
        ("match_keys && 1 < context.messages.length", ["always-true"]),
        ("false && context.messages.length > 3", ["never-true", "unreachable"]),
        ("!0", ["always-true"]),
        ("match_keys(context.messages, ['a']) < 0", ["never-true"]),
        ("match_keys(context.messages, ['a']) === true", ["never-true"]),
        ("match_keys_all(context.messages, ['a']) === 1", ["never-true"]),
        ("context.messages.length >= 0", ["always-true"]),
        ("const d = new Date(); d.getDay() !== 1 || d.getDay() !== 2", ["always-true"]),
        ("const d = new Date(), h = d.getHours(); h > 5 && new Date().getHours() < 6", ["never-true"]),
        ("const m = new Date().getMonth() + 1; m === 13", ["date-never-comes"]),
        ("const m = new Date().getMonth() + 1; m === 12", []),
        ("const m = new Date().getMonth() + 1; m === 0", ["date-never-comes"]),
        ("const n = new Date(); const m = n.getMonth() + 1; m === 4 && n.getDate() === 31", ["date-never-comes"]),
        ("const n = new Date(); n.getMonth() === 1 && n.getDate() >= 30", ["date-never-comes"]),
        ("const n = new Date(); n.getMonth() === 1 && n.getDate() >= 29", []),
        ("const n = new Date(); n.getMonth() === 11 && n.getDate() === 31", []),
        ("new Date().getDate() === 32", ["date-never-comes"]),
        ("7 === new Date().getDay()", ["date-never-comes"]),
        ("24 <= new Date().getHours()", ["date-never-comes"]),
        ("new Date().getFullYear() === 2025", ["date-never-comes"]),
        ("new Date().getFullYear() === 2026", []),
        ("new Date('2020-01-01').getFullYear() === 2020", []),
        ("new Date().getMonth() === '6'", ["never-true"]),
        ("if (match_keys(args, ['a']) > 0) return true\nreturn false", []),
        ("if (match_keys(args, ['a'])) return true\nreturn false\nmatch_keys(args, ['b'])", ["unreachable"]),
        ("(await match_keys(args, ['a'], 'any')) || false", []),
        ("const list = []\nlist.push(1) > 0\nlist.length > 1", []),
        ("match_keys(args, ['a'], 'nobody')", ["unknown-scope"]),
        ("match_keys(args, ['a'], 'both', 0)", []),
        ("match_keys(args, ['a'], 'any', 0.5)", ["strange-depth"]),
        ("match_keys(args, ['a'], 'any', 'four')", ["strange-depth"]),
        ("match_keys_all(args, ['a', ''])", ["empty-key"]),
        ("match_keys(args, [])", ["empty-key"]),
        ("match_keys(args, /a/)", ["keys-not-a-list"]),
        ("match_keys(args, words)", []),
        ("match_keys(...args)", []),
        ("if (", []),
    ],
)
def test_what_is_found(source: str, expected: list[str]) -> None:
    assert names(source) == expected


@pytest.mark.parametrize(
    ("comment", "left"),
    [
        ("true // trigger-lint-disable-line always-true", []),
        ("true // trigger-lint-disable-line", []),
        ("true // trigger-lint-disable-line never-true", ["always-true"]),
        ("true // trigger-lint-disable-line never-true, always-true -- meant", []),
        ("/* trigger-lint-disable-next-line always-true */\ntrue", []),
        ("// trigger-lint-disable-next-line always-true\n\ntrue", ["always-true"]),
        ("true\n// trigger-lint-disable always-true", []),
        ("true // trigger-lint-disable-lines", ["always-true"]),
        ("true // trigger-lint-disable-line alway-true", ["always-true", "unknown-rule"]),
        ("'// trigger-lint-disable'", ["always-true"]),
    ],
)
def test_comments_switch_rules_off(comment: str, left: list[str]) -> None:
    assert names(comment) == left


def test_every_finding_has_a_rule_that_exists() -> None:
    assert {one.rule for rule in RULES for one in found(rule.bad)} <= NAMES


@pytest.mark.parametrize(
    "expression",
    [r"(a+)+$", r"^(\w+\s?)*$", r"(x|xx)+y.*", r"([\s\S]*?b)*c", r"^(?:哈+|h)*!$", r"(\u54c8+)+!", r"\s+\s+\s+x"],
)
def test_an_expression_that_explodes_is_shown(expression: str) -> None:
    (finding,) = asyncio.run(slow([f"/{expression}/.test('')"]))
    assert finding.rule == "slow-expression"
    assert " times" in finding.message


@pytest.mark.parametrize("expression", [r"a+b+", r"\d{4}-\d+-\d+", r"跑[了完]?\s*(\d+|[一二三]+)\s*公里", r"(ab)+c"])
def test_an_expression_that_is_fast_is_not_blamed(expression: str) -> None:
    assert asyncio.run(slow([f"/{expression}/.test('')"])) == []


async def slow(sources: list[str]) -> list[Finding]:
    parsed = [syntax.parse(source) for source in sources]
    suspected = [one for number, source in enumerate(parsed) for one in slow_expressions.suspects(number, source)]
    return [finding for _, finding in await slow_expressions.slow_expressions(suspected, NOW)]


@pytest.mark.parametrize(
    "expression", ["", "(", "[", "\\", "(" * 200 + "a+" * 5, "a{99999}+" * 3, "[^\\]]*" * 9, "(?<a>b*)*"]
)
def test_any_text_can_be_read_for_witnesses(expression: str) -> None:
    assert len(witnesses(expression)) <= 16


def test_check_prints_errors_and_warnings(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "a.js"
    path.write_text("match_kyes(context.messages, ['生日']) &&\n  new Date().getDay() === 7\n", "utf-8")
    code, out, err = run(capsys, str(path))
    assert (code, err) == (1, "")
    assert out == (
        f"{path}: error: match_kyes is not defined; did you mean match_keys? (reference) at line 1, column 1\n"
        "    match_kyes(context.messages, ['生日']) &&\n"
        "    ^\n"
        f"{path}: warning: never true: getDay() gives 0 to 6; Sunday is 0 (date-never-comes)"
        " at line 2, column 3\n"
        "      new Date().getDay() === 7\n"
        "      ^\n"
        "1 trigger: 1 error, 1 warning\n"
    )


def test_check_as_json(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    pack = tmp_path / "p.json"
    pack.write_text(
        json.dumps([{"name": n, "prompt": "p", "trigger": t} for n, t in (("a", "if ("), ("b", "Date.now() > 1e13"))])
    )
    code, out, err = run(capsys, str(pack), "--json")
    assert (code, err) == (1, "")
    first, second = json.loads(out)
    assert first["errors"] == [
        {
            "rule": "syntax",
            "message": "SyntaxError: Unexpected end of input",
            "line": 1,
            "column": 5,
            "caret": "if (\n    ^",
        }
    ]
    assert second == {"file": str(pack), "name": "b", "errors": [], "warnings": []}
    assert cli.main(["pack", "check", str(pack), "--json"]) == 1
    assert capsys.readouterr().out == out


def test_fix_writes_only_what_is_certain(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    fixable, other = tmp_path / "a.js", tmp_path / "b.js"
    fixable.write_text("match_keys('生日', 'any') || match_keys(args, '生日', 'User') > 0\n", "utf-8")
    other.write_text("new Date().getDay() === 7", "utf-8")
    before = other.stat()
    code, out, _ = run(capsys, "--fix", str(fixable), str(other))
    assert code == 1
    assert fixable.read_text("utf-8") == (
        "match_keys(context.messages, ['生日'], 'any') || match_keys(args, ['生日'], 'user') > 0\n"
    )
    assert f"{fixable}: fixed 4 findings" in out
    assert (other.stat().st_mtime_ns, other.stat().st_ino) == (before.st_mtime_ns, before.st_ino)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.js", "b.js"]


def test_without_fix_nothing_is_written(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "a.js"
    path.write_text("match_keys(args, '生日')", "utf-8")
    before = path.stat()
    assert run(capsys, str(path))[0] == 1
    assert (path.stat().st_mtime_ns, path.read_text("utf-8")) == (before.st_mtime_ns, "match_keys(args, '生日')")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "nothing to check; name a file, or give the trigger with -e"),
        (["missing.js"], "missing.js cannot be read: No such file or directory"),
        (["-e", "1", "a.js"], "-e takes no files and no --fix; check the code alone, or write it to a file"),
    ],
)
def test_a_wrong_check_gets_one_sentence(capsys: pytest.CaptureFixture[str], arguments: list[str], said: str) -> None:
    assert run(capsys, *arguments) == (2, "", f"trigger-sandbox: {said}\n")


def test_the_sample_pack_is_clean(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, str(ROOT / "data/samples/triggers.json"))
    assert (code, out) == (0, "14 triggers: no errors, no warnings\n")


def test_what_v8_refuses_gets_no_other_findings(capsys: pytest.CaptureFixture[str]) -> None:
    """The rules' parser takes a full-width comma for a part of a name: what it sees then is another trigger."""
    assert cli.main(["check", "-e", "match_keys(context.messages，['a'])"]) == 1
    assert capsys.readouterr().out.splitlines()[-1] == "1 trigger: 1 error, no warnings"
