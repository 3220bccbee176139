"""Per rule what it finds and what it leaves alone: a false alarm costs an author more than a missed fault."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from sandbox.workbench.javascript import syntax
from sandbox.workbench.lint.finding import RULES, Rule
from sandbox.workbench.lint.linting import plain_findings
from sandbox.workbench.lint.switches import switched

NOW = datetime(2026, 7, 17, tzinfo=UTC)
K = "match_keys(context.messages, ['a'])"
A = "match_keys_all(context.messages, ['a', 'b'])"

FOUND = [
    # constants anywhere in a chain
    (f"{K} && false", ["never-true"]),
    (f"{K} && (1 > 2)", ["never-true"]),
    (f"{K} && true", ["always-true"]),
    (f"true || {K}", ["always-true", "unreachable"]),
    (f"{K} || true || {A}", ["always-true", "unreachable"]),
    (f"{K} || !0", ["always-true"]),
    (f"{K} || (true || {A})", ["always-true", "unreachable"]),
    (f"({K} && false) || {A}", ["never-true"]),
    (f"false || {K}", ["never-true"]),
    (f"false && {K} < 0", ["never-true", "unreachable"]),  # what is never reached is not said to be never true
    (f"new Date().getHours() > 30 && {K}", ["date-never-comes", "unreachable"]),
    (f"!({K} && false)", ["never-true"]),
    (f"const late = {K} && false\nlate", ["never-true"]),
    (f"context.messages.some((m) => m.content.includes('a') && false) || {K}", ["never-true"]),
    (f"context.messages.some((m) => true || m.content) || {K}", ["always-true", "unreachable"]),
    (f"if (true) return {K}\nreturn false", ["always-true"]),
    (f"({K} || 'a') ? 1 : {A}", ["always-true"]),
    (f"while ({K} < 0) break\n{K}", ["never-true"]),
    (f"const f = () => {{ if ({K} < 0) return 1 }}\nf()", ["never-true"]),
    (f"const name = 'Ann' || {K}\nname === 'x'", ["always-true", "unreachable"]),
    ("'a' === 'b' || 1 < 2", ["never-true", "always-true"]),
    # numbers and truth values
    (f"{A} > 1", ["never-true"]),
    (f"{A} >= 2", ["never-true"]),
    (f"{A} == 2", ["never-true"]),
    (f"{A} === 1", ["never-true"]),
    (f"{A} >= 0", ["always-true"]),
    (f"{K} === true", ["never-true"]),
    (f"{K} !== false", ["always-true"]),
    (f"{K} > -1", ["always-true"]),
    (f"{K} === -1", ["never-true"]),
    (f"{K} > 4", ["never-true"]),
    ("match_keys(context.messages, ['a', 'b'], 'user', 3) >= 7", ["never-true"]),
    (f"{K} > NaN", ["never-true"]),
    (f"{K} === NaN", ["never-true"]),
    (f"{K} !== Number.NaN", ["always-true"]),
    ("context.messages.length < 0", ["never-true"]),
    ("context.messages.findIndex((m) => m.content === 'a') >= -1", ["always-true"]),
    ("let h = new Date().getHours()\nh === 24", ["date-never-comes"]),
    ("new Date().getYear() === 2026", ["date-never-comes"]),
    # callbacks
    ("context.messages.some(async (m) => m.content === 'a')", ["always-true"]),
    ("context.messages.filter((m) => { m.content === 'a' }).length > 0", ["never-true"]),
    ("context.messages.some((m) => m.role = 'user')", ["assignment-in-condition"]),
    # nothing that could be true
    ("", ["never-true"]),
    ("// later", ["never-true"]),
    (f"const hit = {K} > 0", ["never-true"]),
    ("const n = 5\n[1, 2].some((n) => n < 2)", ["never-true"]),  # without `;` both lines are one declaration
    # dates
    ("new Date() < new Date('2020-01-01')", ["date-never-comes"]),
    ("new Date('2020-01-01') > Date.now()", ["date-never-comes"]),
    ("const now = Date.now(); now < new Date(2020, 5, 1).getTime()", ["date-never-comes"]),
    ("Date.now() >= Date.parse('2020-01-01')", ["always-true"]),
    ("Date.now() > 1783000000", ["always-true"]),
    ("Date.now() > NaN", ["never-true"]),
    ("new Date() === new Date('2026-12-24')", ["never-true"]),
    ("new Date() === '2026-12-24'", ["never-true"]),
    ("new Date() > new Date('2024-13-01')", ["date-never-comes"]),
    ("Date.now() > Date.parse('2027年1月1日')", ["date-never-comes"]),
    ("new Date() > new Date('2027-02-30')", ["date-never-comes"]),
    ("new Date() > new Date('24/12/2026')", ["date-never-comes"]),
    ("new Date() > new Date('12-24')", ["date-never-comes"]),
    ("new Date() > new Date('tomorrow')", ["date-never-comes"]),
    ("new Date() > new Date(2026, 12, 24)", ["date-never-comes"]),
    ("new Date() > new Date(2026, 3, 31)", ["date-never-comes"]),
    ("new Date().toISOString().slice(5, 10) === '7-17'", ["date-never-comes"]),
    ("new Date().toISOString().slice(5, 10) === '13-01'", ["date-never-comes"]),
    ("new Date().toISOString().slice(0, 10) === '2026/07/17'", ["date-never-comes"]),
    ("new Date().toISOString().split('T')[0] === '2026-02-30'", ["date-never-comes"]),
    ("const day = new Date().toISOString().slice(5, 10)\nday !== '02-31'", ["always-true"]),
    ("new Date().toTimeString().slice(0, 5) === '24:00'", ["date-never-comes"]),
    ("new Date().getMonth() === 12 && new Date().getDate() === 31", ["date-never-comes", "unreachable"]),
    ("new Date().getMonth() === 1 && new Date().getDate() === 31", ["date-never-comes"]),
    # roles
    ("context.messages.some((m) => m.role === 'human' && m.content.includes('a'))", ["unknown-role"]),
    ("context.messages.filter(m => m.role == 'ai').length", ["unknown-role"]),
    ("args.messages[0].role !== 'bot'", ["unknown-role"]),
    ("const last = context.messages.at(-1); last?.role === 'User'", ["unknown-role"]),
    ("for (const m of context.messages.slice(-3)) if (m.role === 'char') return true\nreturn false", ["unknown-role"]),
    # fields
    ("match_keys(context.message, ['a']) > 0", ["unknown-field"]),
    (f"{K} && context.participant.user", ["unknown-field"]),
    ("match_keys(args.chat_log, ['a']) > 0", ["unknown-field"]),
    ("context.user?.name === 'Ann'", ["unknown-field"]),
    ("const last = context.messages.at(-1)\nlast.text.includes('a')", ["unknown-field"]),
    ("for (const m of context.messages) if (m.contents === 'a') return true\nreturn false", ["unknown-field"]),
    ("context.messages[0].time_stamp > 0", ["unknown-field"]),
    ("context.messages.length = 3", ["assignment-in-condition"]),
    ("context.participants.user = 'Ann'", ["assignment-in-condition"]),
    # keys
    ("match_keys(context.messages, '生日,生辰') > 0", ["keys-not-a-list"]),
    ("const keys = '生日'\nmatch_keys(context.messages, keys) > 0", ["keys-not-a-list"]),
    ("match_keys(context.messages) > 0", ["keys-not-a-list"]),
    ("match_keys(['生日'], context.messages) > 0", ["messages-missing"]),
    ("match_keys(context.messages, ['a'], 'all') > 0", ["unknown-scope"]),
    ("const who = 'nobody'\nmatch_keys(context.messages, ['a'], who) > 0", ["unknown-scope"]),
]

LEFT_ALONE = [
    f"{K} || false",
    f"{K} ?? false",
    f"const name = context.participants.user?.name || 'Ann'\nname === 'x' && {K}",
    f"const n = {K} && 'yes'\nn === 'yes'",
    f"context.messages.map((m) => m.content || '').join(' ').includes('a') && {K}",
    f"const list = context.participants.list ?? []\nlist.length > 0 && {K}",
    f"{K} ? true : false",
    f"let hit = false\nif ({K}) hit = true\nhit",
    f"let hit\nif ({K}) {{ hit = true }} else {{ hit = false }}",
    f"function f() {{ return {K} }}\nreturn f()",
    f"const hit = {K} > 0\nif (hit) true",
    f"while (true) {{ if ({K}) return true; break }}\nreturn false",
    f"let n = 5\nn = {K}\nn < 0 || n > 3",
    f"const n = 5;\n[1, 2].some((n) => n < 2) && {K}",
    "context.participants?.list?.length >= 0",
    "context.participants.list.at(-1).time.getHours() >= 0",
    f"{K} > 3",
    f"{K} >= 4",
    "match_keys(context.messages, ['a'], 'any', 0) > 100",
    "match_keys(context.messages, [...context.participants.words]) > 100",
    f"{A} > 0",
    f"{A} == true",
    f"{A} === false",
    "context.messages.findIndex((m) => m.content === 'a') > -1",
    "context.messages.some((m) => { return m.content === 'a' })",
    "context.messages.forEach((m) => { m.content = '' })\ncontext.messages.length > 3",
    "new Date() > new Date('2027-01-01')",
    "new Date() > new Date('2026-07-17')",
    "new Date(context.messages[0].timestamp) < new Date('2020-01-01')",
    "Date.now() - 1000 > context.messages[0].timestamp",
    "Date.now() > 4102444800000",
    "new Date() < new Date('2026-07-17T23:00+08:00')",
    "new Date('December 17, 2030 03:24:00') > new Date()",
    "new Date(2028, 1, 29) > new Date()",
    "new Date(2027, 6, 0) > new Date()",
    "new Date().toISOString().slice(5, 10) === '02-29'",
    "new Date().toISOString().slice(5, 10) === given\nvar given = '07-17'",
    "new Date().toISOString().slice(0, 4) === '2026'",
    "new Date().toTimeString().slice(0, 2) === '07'",
    "new Date().toLocaleDateString('zh-CN') === '2026/7/17'",
    "new Date().toISOString().includes('7-17')",
    "context.messages.some((m) => m.role === 'user' || m.role !== 'system')",
    "context.participants.user?.role === 'admin'",
    "const list = [{ role: 'human' }]\nlist.some((m) => m.role === 'human') && context.messages.length > 2",
    "context.messages.some((m) => context.participants.people.some((m) => m.role === 'human'))",
    "context.hasOwnProperty('messages') && context.messages.length > 2",
    "context.mood = context.messages.length\ncontext.messages.length > 2",
    "((context) => context.text === 'a')({ text: 'b' })",
    "const context = { text: 'b' }\ncontext.text === 'a'",
    "context.messages.some((m) => m.mood === 'sad' || m.name?.text)",
    "context.participants.people.some((p) => p.text === 'a')",
    "let hit\nhit = context.messages.length > 2",
    "match_keys(context.messages, ['happy birthday', '生日,生辰']) > 0",
    "const keys = ['生日', /cake/i]\nmatch_keys(context.messages, keys, 'user', 2) > 0",
    "let keys = '生日'\nkeys = [keys]\nmatch_keys(context.messages, keys) > 0",
    "match_keys([{ role: 'user', content: context.messages.at(-1)?.content ?? '' }], ['生日']) > 0",
    "(context.messages.length > 3) && (() => { const d = new Date(); return d.getDay() === 6 })()",
]


def names(source: str) -> list[str]:
    parsed = syntax.parse(source)
    assert not parsed.broken, source
    return [one.rule for one in switched(parsed, plain_findings(parsed, NOW))]


@pytest.mark.parametrize(("source", "rules"), FOUND)
def test_it_is_found(source: str, rules: list[str]) -> None:
    assert sorted(names(source)) == sorted(rules)


@pytest.mark.parametrize("source", LEFT_ALONE)
def test_it_is_left_alone(source: str) -> None:
    assert names(source) == []


@pytest.mark.parametrize("rule", [rule for rule in RULES if rule.name not in ("slow-expression", "unknown-rule")])
def test_a_comment_switches_each_rule_off(rule: Rule) -> None:
    left = [one for one in names(rule.bad) if one != rule.name]
    assert names(f"{rule.bad}\n// trigger-lint-disable {rule.name}") == left
