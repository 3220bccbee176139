"""Per rule what it finds and what it leaves alone: a false alarm costs an author more than a missed fault."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sandbox.errors import ProtocolError
from sandbox.javascript.linting import lint
from sandbox.javascript.syntax import LintFinding, Subject, parse
from sandbox.protocol import findings

NOW = datetime(2026, 7, 17, tzinfo=UTC)
K = "match_keys(context.messages, ['a'])"
T = "const n = new Date(); const t = new Date(n.getFullYear(), n.getMonth(), n.getDate());"
A = "match_keys_all(context.messages, ['a', 'b'])"

FOUND = [
    # what is always true, anywhere in a chain
    (f"[] || {K}", ["always-true"]),
    (f"{K} || '生日' || {A}", ["always-true"]),
    (f"{K} || ('生日' || {A})", ["always-true"]),
    (f"{K} && (() => true)", ["always-true"]),
    (f"!(/生日/ && {K})", ["always-true"]),
    (f"false && {K} < 0", ["never-true"]),
    (f"new Date().getHours() > 30 && {K}", ["date-never-comes"]),
    (f"context.messages.some((m) => 'a' || m.content) || {K}", ["always-true"]),
    (f"if (match_keys) return {K}\nreturn false", ["always-true"]),
    (f"({K} || 'a') ? 1 : {A}", ["always-true"]),
    (f"while ({K} < 0) break\n{K}", ["never-true"]),
    (f"const f = () => {{ if ({K} < 0) return 1 }}\nf()", ["never-true"]),
    (f"const name = 'Ann' || {K}\nname === 'x'", ["always-true"]),
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
    ("context.messages.length < 0", ["never-true"]),
    ("let h = new Date().getHours()\nh === 24", ["date-never-comes"]),
    # nothing that could be true
    ("", ["never-true"]),
    ("// later", ["never-true"]),
    (f"const hit = {K} > 0", ["never-true"]),
    (
        "const n = 5\n[1, 2].some((n) => n < 2)",
        ["never-true"],
    ),  # without `;` both lines are one declaration
    # `=` in a condition
    ("context.messages.some((m) => m.role = 'user')", ["assignment"]),
    ("context.messages.some((m) => m.role = 'user' && m.content.includes('a'))", ["assignment"]),
    ("context.messages.filter((m) => { return m.role = 'user' }).length > 2", ["assignment"]),
    (f"const m = context.messages.at(-1); m.role = 'user' && {K}", ["assignment"]),
    (f"let h = new Date().getHours()\nif (h = 8) return {K}\nreturn false", ["assignment"]),
    (f"let h = 5; !(h = 0) ? {K} : {A}", ["assignment"]),
    ("context.messages.length = 1", ["assignment"]),
    ("let day = new Date().getDay(); return day = 0 || day === 6", ["assignment"]),
    # a date that is compared as an object
    ("new Date() === '2026-07-17'", ["never-true"]),
    ("new Date() == '2026-07-17'", ["never-true"]),
    ("new Date() != '2026-07-17'", ["always-true"]),
    ("1789000000000 == new Date()", ["never-true"]),
    ("const now = new Date(), day = new Date(2027, 6, 17)\nday === now", ["never-true"]),
    ("new Date() == new Date('2027-07-17')", ["never-true"]),
    ("new Date() === context.participants.birthday", ["never-true"]),
    ("Date.now() === new Date('2020-01-02')", ["never-true"]),
    ("const now = new Date(); now === Date.now()", ["never-true"]),
    # dates
    ("new Date() < new Date('2020-01-01')", ["date-never-comes"]),
    ("new Date('2020-01-01') > Date.now()", ["date-never-comes"]),
    ("const now = Date.now(); now < new Date(2020, 5, 1).getTime()", ["date-never-comes"]),
    ("Date.now() >= Date.parse('2020-01-01')", ["always-true"]),
    ("Date.now() > 1783000000", ["always-true"]),
    ("new Date() > new Date('2024-13-01')", ["date-never-comes"]),
    ("Date.now() > Date.parse('2027年1月1日')", ["date-never-comes"]),
    ("new Date() > new Date('2027-02-30')", ["date-never-comes"]),
    ("new Date() > new Date('24/12/2026')", ["date-never-comes"]),
    ("new Date() > new Date('12-24')", ["date-never-comes"]),
    ("new Date() > new Date('tomorrow')", ["date-never-comes"]),
    ("new Date() > new Date(2026, 12, 24)", ["date-never-comes"]),
    ("new Date() > new Date(2026, 3, 31)", ["date-never-comes"]),
    ("new Date().getMonth() === 12 && new Date().getDate() === 31", ["date-never-comes"]),
    ("new Date().getMonth() === 1 && new Date().getDate() === 31", ["date-never-comes"]),
    # days until a date, and since one
    (
        "const day = new Date(2027, 6, 17)\nMath.round((day - new Date()) / 864e5) >= 0",
        ["day-rounding"],
    ),
    ("Math.round((new Date('2027-07-17') - Date.now()) / 86400000) === 1", ["day-rounding"]),
    (
        "const n = new Date(); const d = new Date(n.getFullYear(), 6, 17)\nMath.floor((d - n) / 864e5) < 3",
        ["day-rounding"],
    ),
    (
        "const DAY = 24 * 60 * 60 * 1000\nMath.round((Date.now() - new Date(2026, 6, 1)) / DAY) > 3",
        ["day-rounding"],
    ),
    (
        "const left = (new Date(2027, 6, 17).getTime() - Date.now()) / 864e5\nMath.round(left) < 3",
        ["day-rounding"],
    ),
    ("Math.ceil((new Date(2027, 6, 17) - new Date()) / 864e5) >= 0", []),
    ("Math.floor((new Date() - new Date(2026, 6, 1)) / 864e5) > 3", []),
    ("Math.round((new Date('2027-07-17T20:00') - new Date()) / 864e5) > 3", []),
    ("Math.round((Date.now() - context.messages[0].timestamp) / 864e5) > 3", ["timestamp-missing"]),
    ("Math.round((new Date(2027, 6, 17) - new Date()) / 36e5) > 3", []),
    (
        "const n = new Date(); n.setHours(0, 0, 0, 0)\nMath.round((new Date(2027, 6, 17) - n) / 864e5) === 0",
        [],
    ),
    # days of 23 and 25 hours
    ("Math.floor((new Date(2027, 6, 17) - new Date(2026, 6, 1)) / 864e5) > 3", ["day-rounding"]),
    (f"{T} Math.ceil((new Date(n.getFullYear(), 6, 17) - t) / 36e5 / 24) <= 7", ["day-rounding"]),
    (f"{T} (new Date(n.getFullYear(), 6, 17) - t) / 864e5 === 7", ["day-rounding"]),
    (f"{T} (new Date(n.getFullYear(), 6, 17) - t) / 864e5 === 0", []),
    ("Math.round((new Date(2027, 6, 17) - new Date()) / 36e5 / 24) === 1", ["day-rounding"]),
    ("Math.round((new Date(2027, 6, 17) - new Date(2026, 6, 1)) / 864e5) > 3", []),
    ("Math.floor((Date.now() - Date.parse('2026-07-17T10:00')) / 864e5) % 7 === 0", []),
    # a date without a time is midnight in UTC
    (
        "const born = new Date('2001-05-01'); new Date().getDate() === born.getDate()",
        ["date-without-time"],
    ),
    (
        "const text = '2001-05-01'; new Date(text).toDateString() === new Date().toDateString()",
        ["date-without-time"],
    ),
    ("new Date('2001-05-01').getMonth() === new Date().getMonth()", ["date-without-time"]),
    (
        "const b = new Date('2001-05-01'), n = new Date(); b.getMonth() === n.getMonth() && b.getDate() > n.getDate()",
        ["date-without-time"],
    ),
    ("new Date('2001-05-12').getMonth() === new Date().getMonth()", []),
    ("new Date('2001-05-01').getUTCDate() === new Date().getDate()", []),
    ("new Date('2001-05-01T00:00').getDate() === new Date().getDate()", []),
    ("new Date('2001/05/01').getDate() === new Date().getDate()", []),
    ("new Date(2001, 4, 1).getDate() === new Date().getDate()", []),
    ("new Date('2027-05-01') > new Date()", []),
    ("new Date('2001-05-01').toLocaleDateString('en', { timeZone: 'UTC' }) === '5/1/2001'", []),
    # 29 February
    ("const d = new Date(); d.getMonth() === 1 && d.getDate() === 29", ["leap-day"]),
    (
        "const d = new Date(); d.getMonth() + 1 === 2 && d.getDate() === 29 && d.getHours() > 8",
        ["leap-day"],
    ),
    (f"const d = new Date(); (d.getMonth() === 1 && d.getDate() === 29) || {K}", ["leap-day"]),
    (
        "const b = new Date(2000, 1, 29), n = new Date(); n.getMonth() === b.getMonth() && n.getDate() === b.getDate()",
        ["leap-day"],
    ),
    (
        "const born = new Date('2000-02-29T00:00'); new Date().getDate() === born.getDate()",
        ["leap-day"],
    ),
    ("new Date().toISOString().slice(5, 10) === '02-29'", ["leap-day"]),
    ("on_day(2, 29)", []),
    ("const d = new Date(); d.getMonth() === 1 && (d.getDate() === 28 || d.getDate() === 29)", []),
    (
        "const d = new Date(); (d.getMonth() === 1 && d.getDate() === 29) || (d.getMonth() === 2 && d.getDate() === 1)",
        [],
    ),
    (
        "const d = new Date(); d.getFullYear() === 2028 && d.getMonth() === 1 && d.getDate() === 29",
        [],
    ),
    (
        "const d = new Date(); d.getFullYear() % 4 === 0 && d.getMonth() === 1 && d.getDate() === 29",
        [],
    ),
    ("const d = new Date(); d.getMonth() === 4 && d.getDate() === 29", []),
    # a time that may be missing
    ("Date.now() - context.messages.at(-2).timestamp > 36e5", ["timestamp-missing"]),
    (
        "const last = context.messages.at(-2).timestamp\nDate.now() - last > 36e5",
        ["timestamp-missing"],
    ),
    ("context.messages.some((m) => Date.now() - m.timestamp > 36e5)", ["timestamp-missing"]),
    (
        "const last = context.messages.at(-1); (new Date() - new Date(last.timestamp)) / 36e5 > 5",
        ["timestamp-missing"],
    ),
    ("context.messages.some((m) => m.timestamp && Date.now() - m.timestamp > 36e5)", []),
    (
        "context.messages.some((m) => m.timestamp !== undefined && Date.now() - m.timestamp > 36e5)",
        [],
    ),
    (
        "context.messages.filter((m) => m.timestamp).some((m) => Date.now() - m.timestamp > 36e5)",
        [],
    ),
    (
        "const last = context.messages.at(-2).timestamp\nlast !== undefined && Date.now() - last > 36e5",
        [],
    ),
    ("const last = context.messages.at(-2).timestamp ?? Date.now()\nDate.now() - last > 36e5", []),
    (
        "const gap = Date.now() - context.messages.at(-2).timestamp\nNumber.isFinite(gap) && gap > 36e5",
        [],
    ),
    ("context.messages.at(-1).timestamp > Date.now() - 36e5", []),
    ("context.messages.toSorted((a, b) => a.timestamp - b.timestamp).length > 2", []),
    # the helpers
    ("on_day(0, 15)", ["date-never-comes"]),
    ("on_day(13, 1)", ["date-never-comes"]),
    ("const month = 4; on_day(month, 31)", ["date-never-comes"]),
    ("on_lunar_day(8, 31)", ["date-never-comes"]),
    ("days_until(2, 30) < 3", ["date-never-comes"]),
    ("days_until(5, 1) < 0", ["never-true"]),
    ("days_until(5, 1) >= 0", ["always-true"]),
    ("days_until(5, 1) <= 7", []),
    (f"on_day && {K}", ["always-true"]),
    ("on_lunar_day(8, 30, { before: 7 }) || on_day(2, 29) || lunar().leap", []),
    # what is not a number
    ("Date.now() - undefined > 5", ["not-a-number"]),
    ("const last = undefined; Date.now() - last > 864e5", ["not-a-number"]),
    ("context.messages.length * NaN > 1", ["not-a-number"]),
    ("context.messages.length > undefined", ["not-a-number"]),
    ("const n = Number(context.messages.length); n === NaN", ["not-a-number"]),
    ("const n = Number(context.messages.length); n !== Number.NaN", ["not-a-number"]),
    ("context.messages.at(-1)?.timestamp === undefined", []),
    ("Number.isNaN(context.messages.length - 1)", []),
    # roles
    (
        "context.messages.some((m) => m.role === 'human' && m.content.includes('a'))",
        ["unknown-role"],
    ),
    ("context.messages.filter(m => m.role == 'ai').length", ["unknown-role"]),
    ("args.messages[0].role !== 'bot'", ["unknown-role"]),
    ("const last = context.messages.at(-1); last?.role === 'User'", ["unknown-role"]),
    (
        "for (const m of context.messages.slice(-3)) if (m.role === 'char') return true\nreturn false",
        ["unknown-role"],
    ),
    # fields
    ("match_keys(context.message, ['a']) > 0", ["unknown-field"]),
    (f"{K} && context.participant.user", ["unknown-field"]),
    ("match_keys(args.chat_log, ['a']) > 0", ["unknown-field"]),
    ("context.user?.name === 'Ann'", ["unknown-field"]),
    ("const last = context.messages.at(-1)\nlast.text.includes('a')", ["unknown-field"]),
    (
        "for (const m of context.messages) if (m.contents === 'a') return true\nreturn false",
        ["unknown-field"],
    ),
    ("context.messages[0].time_stamp > 0", ["unknown-field"]),
    # keys
    ("match_keys(context.messages, '生日,生辰') > 0", ["keys-not-a-list"]),
    ("const keys = '生日'\nmatch_keys(context.messages, keys) > 0", ["keys-not-a-list"]),
    ("match_keys(context.messages) > 0", ["keys-not-a-list"]),
    ("match_keys(['生日'], context.messages) > 0", ["messages-missing"]),
    ("match_keys(context.messages, ['a'], 'all') > 0", ["unknown-scope"]),
    ("const who = 'nobody'\nmatch_keys(context.messages, ['a'], who) > 0", ["unknown-scope"]),
    ("'生日' || match_keys(context.messages, ['a'])", ["always-true"]),
    ("() => match_keys(context.messages, ['a'])", ["always-true"]),
    ("match_keys && 1 < context.messages.length", ["always-true"]),
    ("match_keys(context.messages, ['a']) < 0", ["never-true"]),
    ("match_keys(context.messages, ['a']) === true", ["never-true"]),
    ("match_keys_all(context.messages, ['a']) === 1", ["never-true"]),
    ("context.messages.length >= 0", ["always-true"]),
    ("const d = new Date(); d.getDay() !== 1 || d.getDay() !== 2", ["always-true"]),
    ("const d = new Date(), h = d.getHours(); h > 5 && new Date().getHours() < 6", ["never-true"]),
    ("const m = new Date().getMonth() + 1; m === 13", ["date-never-comes"]),
    ("const m = new Date().getMonth() + 1; m === 12", []),
    ("const m = new Date().getMonth() + 1; m === 0", ["date-never-comes"]),
    (
        "const n = new Date(); const m = n.getMonth() + 1; m === 4 && n.getDate() === 31",
        ["date-never-comes"],
    ),
    ("const n = new Date(); n.getMonth() === 1 && n.getDate() >= 30", ["date-never-comes"]),
    ("const n = new Date(); n.getMonth() === 1 && n.getDate() >= 29", []),
    ("const n = new Date(); n.getMonth() === 11 && n.getDate() === 31", []),
    ("new Date().getDate() === 32", ["date-never-comes"]),
    ("7 === new Date().getDay()", ["date-never-comes"]),
    ("24 <= new Date().getHours()", ["date-never-comes"]),
    ("new Date().getFullYear() === 2025", ["date-never-comes"]),
    ("new Date().getFullYear() === 2026", []),
    ("new Date('2020-01-01').getFullYear() === 2020", ["date-without-time"]),
    ("new Date('2020-01-02').getFullYear() === 2020", []),
    ("new Date().getMonth() === '6'", ["never-true"]),
    ("if (match_keys(args, ['a']) > 0) return true\nreturn false", []),
    ("(await match_keys(args, ['a'], 'any')) || false", []),
    ("const list = []\nlist.push(1) > 0\nlist.length > 1", []),
    ("match_keys(args, ['a'], 'nobody')", ["unknown-scope"]),
    ("match_keys(args, ['a'], 'both', 0)", []),
    ("match_keys(args, ['a'], 'any', 0.5)", ["strange-depth"]),
    ("match_keys(args, ['a'], 'any', 51)", ["beyond-hooks"]),
    ("match_keys(args, ['a'], 'any', 50)", []),
    ("match_keys(args, ['a'], 'any', 'four')", ["strange-depth"]),
    ("match_keys_all(args, ['a', ''])", ["empty-key"]),
    ("match_keys(args, [])", ["empty-key"]),
    ("match_keys(args, ['/cats?/i', 'and/or', '/home/me/'])", ["key-not-text"]),
    ("match_keys(args, /a/)", ["keys-not-a-list"]),
    ("match_keys(args, words)", []),
    ("match_keys(...args)", []),
    ("if (", []),
]


LEFT_ALONE = [
    "true",
    "return (true)",
    f"{K} || false",
    f"{K} && true",
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
    "let hit = false\nif (context.messages.length > 2) hit = true",
    f"let mood = ''\nif ({K}) mood = 'glad'\nmood !== ''",
    "const seen = {}; context.messages.forEach((m) => seen[m.role] = 1); seen.user === 1",
    "const seen = {}; context.messages.filter((m) => !seen[m.role] && (seen[m.role] = true)).length > 1",
    "const re = /a/g; let m, n = 0; while (m = re.exec(context.messages[0].content)) n++; n > 1",
    "let last; if (last = context.messages.at(-1)) return last.content === 'a'\nreturn false",
    f"const cache = {{}}; (cache.a ?? (cache.a = {K})) > 0",
    "const a = new Date(), b = a; a === b",
    "const d = new Date(context.messages[0].timestamp); d == 'Invalid Date' || d.getHours() > 20",
    "const now = new Date(); now === context.participants.seen",
    "new Date(2026, 6, 17).getTime() === new Date().getTime()",
    "+new Date(2026, 6, 17) === +new Date()",
    "match_keys(context.messages, ['happy birthday', '生日,生辰']) > 0",
    "const keys = ['生日', /cake/i]\nmatch_keys(context.messages, keys, 'user', 2) > 0",
    "let keys = '生日'\nkeys = [keys]\nmatch_keys(context.messages, keys) > 0",
    "match_keys([{ role: 'user', content: context.messages.at(-1)?.content ?? '' }], ['生日']) > 0",
    "(context.messages.length > 3) && (() => { const d = new Date(); return d.getDay() === 6 })()",
]


def findings_in(source: str) -> list[LintFinding]:
    return lint(parse(source), NOW)


@pytest.mark.parametrize(("source", "rules"), FOUND)
def test_it_is_found(source: str, rules: list[str]) -> None:
    assert sorted(finding.rule for finding in findings_in(source)) == sorted(rules)


@pytest.mark.parametrize("source", LEFT_ALONE)
def test_it_is_left_alone(source: str) -> None:
    assert not parse(source).broken, source
    assert findings_in(source) == []


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (
            "match_keys(args, '生日,生辰')",
            "the keys must be a list: ['生日', '生辰'] for 2 keys, or ['生日,生辰'] for one",
        ),
        ("match_keys(args, '生日')", "the keys must be a list: ['生日']"),
        ("match_keys(args, ['a'], 'human')", "no scope 'human'; did you mean 'user'?"),
        ("match_keys(args, ['a'], ' User')", "no scope ' User'; did you mean 'user'?"),
    ],
)
def test_a_finding_says_what_to_write(source: str, message: str) -> None:
    assert [str(finding.message) for finding in findings_in(source)] == [message]


PIECES = st.sampled_from(
    [
        *(
            "a",
            "context",
            "args",
            ".messages",
            ".role",
            ".text",
            ".length",
            ".at(-1)",
            "?.",
            "match_keys",
            "new Date()",
        ),
        *(
            ".getMonth()",
            "'2026-02-30'",
            "'human'",
            "''",
            "/x/",
            "1",
            "-",
            "12",
            "1e999",
            "0x1f",
            "0b",
            "true",
            "false",
        ),
        *(
            "&&",
            "||",
            "??",
            "!",
            "===",
            "!==",
            "<",
            ">=",
            "=",
            "=>",
            "?",
            ":",
            "(",
            ")",
            "[",
            "]",
            "{",
            "}",
            ",",
            ";",
        ),
        *(
            "const a =",
            "let b =",
            "return",
            "if (a)",
            "for (const a of b)",
            "some((m) =>",
            "\n",
            " ",
            "//",
            "\ud800",
        ),
    ]
)


@settings(max_examples=300)
@given(st.lists(PIECES, max_size=30).map("".join))
def test_any_text_can_be_looked_at(source: str) -> None:
    parsed = parse(source)
    for finding in lint(parsed, NOW):
        assert finding.start <= len(parsed.content)


@pytest.mark.parametrize(
    "body",
    [
        {"findings": []},
        {"findings": [[["r", "m", 0, 1]]]},
        {"findings": [[["r", 5, 1, 1]]]},
        {"findings": [[["r", "m", 1]]]},
        {"findings": [[["r", "m", 1, 1]] * 41]},
        {"findings": [["x"]]},
        {"findings": [[], []]},
        {},
    ],
)
def test_an_answer_of_another_form_is_refused(body: dict[str, Any]) -> None:
    with pytest.raises(ProtocolError):
        findings(body, 1)


def test_a_forged_finding_moves_no_cursor() -> None:
    forged = ["r\x1b[2J", "m" * 1_000, 1, 1]
    (((rule, message, _, _),),) = findings({"findings": [[forged]]}, 1)
    assert ("\x1b" in rule, len(message)) == (False, 401)


@pytest.mark.parametrize(
    "source",
    [
        "const a = b\nconst b = a\na.getMonth() === 1 && a > 1",
        "!" * 15_000 + "1",
        "- " * 9_000 + "1 > 2",
        "x=>" * 6_000 + "1",
        "m" + ".a" * 9_000,
        "a && " * 3_900 + "a",
        ("x=>" * 180 + "1,") * 30 + "1",
        "d.getDay() !== 1 || " * 40_000 + "1",
    ],
)
def test_no_text_takes_long(source: str) -> None:
    before = time.process_time()
    findings_in(source)
    assert time.process_time() - before < 2


@pytest.mark.parametrize(
    ("source", "is_constant"),
    [
        ("const b = 1; ({a: b})", True),
        ("const b = 1; const {a = b} = q; a", True),
        ("let b = 1; ({a: b} = q); b", False),
        ("let b = 1; ({a: {c: b}} = q); b", False),
        ("let b = 1; const f = ({a: b}) => b; b", False),
        ("let b = 1; [b] = q; b", False),
        ("let b = 1; ({b} = q); b", False),
    ],
)
def test_a_name_that_a_pattern_gives_a_value_is_not_constant(
    source: str, is_constant: bool
) -> None:
    assert ("b" in Subject(parse(source), NOW).constants) is is_constant
