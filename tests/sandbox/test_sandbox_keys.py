"""match_keys and match_keys_all, case by case as docs/reference/trigger-api.md states them."""

from __future__ import annotations

import json

import pytest
from attacks.driver import Driver, outcome

ONE = [
    ("'生日'", "今天是我的生日", True),
    ("'生日'", "今天", False),
    ("'GPT生日'", "今天是GPT生日", True),
    ("'gpt生日'", "今天是GPT生日", True),
    ("'GPT'", "今天是GPT生日", True),
    ("'cat'", "category", False),
    ("'cat'", "my_cat", False),
    ("'cat'", "a Cat!", True),
    ("'すし'", "すしが好き", True),
    ("'ピザ'", "ピザが好き", True),
    ("'寿司が'", "寿司が好き", True),
    ("'안녕'", "안녕하세요", True),
    ("'привет'", "Ну ПРИВЕТ", True),
    ("'🎂'", "cake 🎂!", True),
    ("'café'", "un café noir", True),
    ("'C++'", "I love C++ a lot", True),
    ("'C++'", "C++x", True),
    ("'C#'", "use C# here", True),
    ("'.NET'", "the .NET way", True),
    ("'node.js'", "node.js", True),
    ("'node.js'", "nodexjs", False),
    ("'17'", "7月17日", True),
    ("'17'", "1789", False),
    ("''", "hello", False),
    ("'a-b'", "a-b", True),
    ("'[x]'", "see [x]", True),
    ("'(a|b)'", "a", False),
    ("/生日/g", "生日", True),
    ("/生日/y", "我的生日", False),
    ("Object.assign(/生日/g, { lastIndex: 9 })", "生日", True),
    ("new RegExp('c.t')", "xcutx", True),
    ("/CAKE/", "cake", False),
    ("/cake/i", "CAKE", True),
]


@pytest.mark.parametrize(("key", "text", "is_match"), ONE)
def test_one_key_in_one_message(driver: Driver, key: str, text: str, is_match: bool) -> None:
    messages = f"[{{ role: 'user', content: {json.dumps(text)} }}]"
    verdicts = driver.evaluate(
        f"match_keys({messages}, [{key}]) === {int(is_match)}",
        f"match_keys_all({messages}, [{key}]) === {json.dumps(is_match)}",
    )
    assert [outcome(verdict) for verdict in verdicts] == ["fired", "fired"]


TALK = [
    {"role": "system", "content": "cake"},
    {"role": "user", "content": "cake and tea"},
    {"role": "assistant", "content": "Tea, tea, and cake"},
    {"role": "user", "content": "coffee"},
    {"role": "char", "content": "cake"},
    {"role": "user", "content": 7},
]
MANY = [
    ("match_keys(m, ['cake'])", 2),
    ("match_keys(m, ['cake'], 'any', 0)", 4),
    ("match_keys(m, ['cake'], 'any', null)", 4),
    ("match_keys(m, ['cake', 'tea'], 'any', 0)", 6),
    ("match_keys(m, ['cake', 'cake'], 'any', 0)", 4),
    ("match_keys(m, ['cake'], 'user', 0)", 1),
    ("match_keys(m, ['cake'], 'assistant', 0)", 2),
    ("match_keys(m, ['cake'], 'char', 0)", 2),
    ("match_keys(m, ['cake'], 'both', 0)", 3),
    ("match_keys(m, ['cake'], 'other', 0)", 1),
    ("match_keys(m, ['cake'], 'system', 0)", 1),
    ("match_keys(m, ['cake'], 'nobody', 0)", 0),
    ("match_keys(m, ['cake'], 'any', 1)", 0),
    ("match_keys(m, ['cake'], 'any', 2)", 1),
    ("match_keys(m, ['cake'], 'any', -1)", 3),
    ("match_keys(m, ['cake'], 'any', 99)", 4),
    ("match_keys(context, ['cake'])", 2),
    ("match_keys(args, ['cake'], 'any')", 2),
    ("match_keys(m, [])", 0),
    ("match_keys([], ['cake'])", 0),
    ("Number(match_keys_all(m, ['coffee', 'cake']))", 1),
    ("Number(match_keys_all(m, ['coffee', 'beer']))", 0),
    ("Number(match_keys_all(m, ['coffee', '']))", 0),
    ("Number(match_keys_all(m, []))", 0),
    ("Number(match_keys_all(m, ['tea cake'.slice(4), /coffee\\s+cake/], 'any', 0))", 1),
]


@pytest.mark.parametrize(("call", "count"), MANY)
def test_many_messages(driver: Driver, call: str, count: int) -> None:
    (verdict,) = driver.evaluate(f"const m = context.messages; {call} === {count}", messages=TALK)
    assert outcome(verdict) == "fired", driver.evaluate(
        f"const m = context.messages; throw {call}", messages=TALK
    )


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("match_keys(context.messages, 'cake')", "keys must be a list"),
        ("match_keys(context.messages, [7])", "a key must be a string or a RegExp, not number"),
        (
            "match_keys_all(context.messages, [null])",
            "a key must be a string or a RegExp, not null",
        ),
        ("match_keys('cake', ['cake'])", "must be context.messages or context"),
    ],
)
def test_a_wrong_call_says_what_is_wrong(driver: Driver, call: str, message: str) -> None:
    (verdict,) = driver.evaluate(call)
    assert outcome(verdict) == "thrown"
    assert message in verdict.message  # type: ignore[union-attr]


def test_a_key_of_the_caller_is_not_changed(driver: Driver) -> None:
    source = "const r = /a/g; r.lastIndex = 1; match_keys([{ role: 'user', content: 'aa' }], [r]); r.lastIndex === 1"
    assert outcome(driver.evaluate(source)[0]) == "fired"
