"""What conditions.py and condition_reading.py say of triggers, against what V8 says."""

from __future__ import annotations

import asyncio
import json
import re
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from attacks.driver import Driver, outcome
from hypothesis import given
from hypothesis import strategies as st
from random_triggers import Chance

from sandbox import Failed, SandboxLimits, TriggerSandbox, conditions
from sandbox.condition_reading import MOST_CHARACTERS, Role, read
from sandbox.conditions import (
    Chat,
    Combination,
    Comparison,
    Condition,
    KeyIndex,
    KeySearch,
    Negation,
    PlainPattern,
    SearchedTexts,
    TooMuchText,
    is_certain,
    named_text,
    speaker_names,
    stands_in,
)

TOGETHER = 400
LIMITS = SandboxLimits(search_seconds=60, trigger_seconds=10, sprint_seconds=10)
NOW = datetime(2026, 7, 17, 9, 30, tzinfo=UTC)
A = KeySearch(("a",))
B = KeySearch(("b",))


def search(keys: str, more: str = "") -> str:
    return f"match_keys(context.messages, [{keys}]{more})"


HAS_A = search("'a'")
HAS_B = search("'b'")


@pytest.mark.parametrize(
    ("source", "condition"),
    [
        (search("'a'"), A),
        ("// World info entry 0: sky\ntrue", Combination((), is_every=True)),
        ("return false;;", Combination((), is_every=False)),
        ("await match_keys(args, ['a',],)", A),
        ("match_keys(context?.messages, ['a'], 'any', 4) /* a */", A),
        ("match_keys_all(context, [])", KeySearch((), is_every=True)),
        (search(r"'\u0061\n'"), None),
        (search(r"'\'\"'"), KeySearch(("'\"",))),
        (search("/a/"), KeySearch((PlainPattern("a", is_exact=True, is_whole=False),))),
        (
            search(r"'a', /(?<!\w)#a\.b\b/i"),
            KeySearch(("a", PlainPattern("#a.b", is_exact=False, is_whole=True))),
        ),
        (
            "match_keys_all(context, [/猫/i])",
            KeySearch((PlainPattern("猫", False, False),), is_every=True),
        ),
        (search("'a', \"b\"", ", 'named', null"), KeySearch(("a", "b"), "named", 0)),
        (search("'a'") + " >= -2", Comparison(A, ">=", -2.0)),
        (f"!{HAS_A} && !!{HAS_B}", Combination((Negation(A), Negation(Negation(B))), True)),
        (
            f"{HAS_A} && true || {HAS_B}",
            Combination((Combination((A, Combination((), True)), True), B), False),
        ),
        (f"({HAS_A} || {HAS_B})\n", Combination((A, B), False)),
    ],
)
def test_a_trigger_that_is_a_condition_is_read(source: str, condition: Condition | None) -> None:
    reading = read(source)
    if condition is None:
        assert reading is None
    else:
        assert reading is not None
        assert (reading.condition, reading.role) == (condition, Role.WHOLE)


@pytest.mark.parametrize(
    "rest",
    [
        "new Date().getMonth() === 6",
        "(nope || nope, nope)",
        "[1, 2].some(x => x > 1 || x) // a || b",
        "nope({ a: 1, b: ';' });",
        "/a|b/.test(context.messages.at(-1).content)",
        "match_keys(context.messages, [/a,b?/i]) > 0",
        "nope?.a",
    ],
)
def test_a_conjunction_that_begins_with_a_condition_is_false_where_the_condition_is(
    driver: Driver, rest: str
) -> None:
    source = f"{HAS_A}\n && {rest}"
    reading = read(source)
    assert reading is not None
    assert (reading.condition, reading.role) == (Combination((A,), is_every=True), Role.NEEDED)
    context = {"messages": [{"role": "user", "content": "b"}]}
    (verdict,) = driver.run(driver.sandbox.evaluate([source], context, now=NOW, seed=1))
    assert outcome(verdict) == "quiet"


@pytest.mark.parametrize(
    "rest",
    ["new Date().getMonth() === 6", "nope && nope", "nope || (nope ? 1 : 2)", "\n nope() < 3;"],
)
def test_a_disjunction_that_begins_with_a_condition_is_true_where_the_condition_is(
    driver: Driver, rest: str
) -> None:
    source = f"// either\n{HAS_B} && {HAS_A} || {rest}"
    reading = read(source)
    assert reading is not None
    condition = Combination((Combination((B, A), is_every=True),), is_every=False)
    assert (reading.condition, reading.role) == (condition, Role.ENOUGH)
    context = {"messages": [{"role": "user", "content": "a b"}]}
    (verdict,) = driver.run(driver.sandbox.evaluate([source], context, now=NOW, seed=1))
    assert outcome(verdict) == "fired"


@pytest.mark.parametrize(
    "source",
    [
        "",
        "match_keys",
        search("'a', 7"),
        search("/a/g"),
        search("/ab?/"),
        search("/a\\w/"),
        search("/a|b/"),
        search("/(?:)/"),
        search("/\\ba/"),
        search("/ƛ/"),
        search("'/a/', /a/"),
        search("/a/i, '／a／i'"),
        "match_keys_all(context.messages, [/a b/])",
        search("'\\x61'"),
        search("'\\ud83c'"),
        search("'ƛ'"),
        search("'a'", ", 'nobody'"),
        search("'a'", ", 'any', -1"),
        search("'a'", ", 'any', 1.5"),
        search("'a'", ", 'any', 010"),
        search(",'a'"),
        "match_keys?.(context.messages, ['a'])",
        "match_keys(context.messages.slice(-1), ['a'])",
        "match_keys_all(context.messages, ['a b'])",
        "match_keys_all(context.messages, ['a\u3000b'])",
        "match_keys_all(context.messages, ['a']) > 0",
        f"!{HAS_A} > 0",
        f"({HAS_A} || true) > 0",
        f"{HAS_A} > NaN",
        f"{HAS_A} > 0 > 0",
        f"{HAS_A} == '1'",
        f"{HAS_A} ?? true",
        f"{HAS_A} ? 0 : 1",
        f"{HAS_A}, true",
        f"{HAS_A}; true",
        f"{HAS_A}\ntrue",
        f"{HAS_A} && x || true",
        f"{HAS_A} || x ? 0 : 1",
        f"{HAS_A} || x, false",
        f"{HAS_A} || x; false",
        f"{HAS_A} || x\nfalse",
        f"{HAS_A} || x => x",
        f"x || {HAS_A}",
        f"{HAS_A} && x ? 0 : 1",
        f"{HAS_A} && x, true",
        f"{HAS_A} && x; true",
        f"{HAS_A} && x\ntrue",
        f"{HAS_A} && x /* \n */ true",
        f"{HAS_A} && x / 2 || true",
        f"{HAS_A} && `${{x}}`",
        f"{HAS_A} && (x <!-- )\n) || true",
        f"{HAS_A} && (x\n--> )\n) || true",
        f"return\n{HAS_A}",
        f"await {HAS_A};",
        f"{HAS_A} && x\u2028true",
        f"{HAS_A}\u00a0",
        "(" * 100 + "true" + ")" * 100,
        "!" * 3_000 + "true",
        "true" + " " * MOST_CHARACTERS,
    ],
)
def test_anything_else_is_left_to_v8(source: str) -> None:
    assert read(source) is None


def a_chat(chance: Chance) -> Chat:
    """The chat of random triggers, without letters of which versions of Unicode disagree."""
    messages: list[dict[str, Any]] = chance.context["messages"]
    for message in messages:
        certain = [letter for letter in message["content"] if is_certain(letter)]
        message["content"] = "".join(certain)
    return Chat(messages, speaker_names(chance.context))


async def differences(count: int, seed: int, enough: int = 10**9) -> tuple[list[str], Counter[str]]:
    """Triggers of which V8 says something else than was read in them, each with its chat; and how many had the same
    verdict, by its kind. Stops at `enough`."""
    wrong: list[str] = []
    right: Counter[str] = Counter()
    async with TriggerSandbox(LIMITS, workers=1, spare=False) as sandbox:  # always asks V8
        for number in range(count // TOGETHER):
            chance = Chance(seed * 1_000_003 + number)
            chat = a_chat(chance)
            sources = [chance.trigger() for _ in range(TOGETHER)]
            verdicts = await sandbox.judge(sources, chance.context, now=chance.now, seed=number)
            for index, source in enumerate(sources):
                verdict = verdicts[index]
                reading = read(source)
                if reading is None or getattr(verdict, "kind", "") == "not_evaluated":
                    continue
                is_true = chat.holds(reading.condition)
                does_not_compile = isinstance(verdict, Failed) and verdict.kind == "syntax"
                decided = {Role.NEEDED: not is_true, Role.ENOUGH: is_true}
                if not decided.get(reading.role, True) or (
                    does_not_compile and reading.role is not Role.WHOLE
                ):
                    continue
                expected = "fired" if is_true else "quiet"
                if outcome(verdict) == expected:
                    right[expected] += 1
                else:
                    wrong.append(f"{source!r} {verdict} {chance.context}")
            if len(wrong) >= enough:
                break
    return wrong, right


def test_what_is_read_is_what_v8_says() -> None:
    wrong, right = asyncio.run(differences(4_000, seed=1))
    assert not wrong, "\n".join(wrong[:5])
    assert right["quiet"] > 200, "too few to mean anything"
    assert right["fired"] > 50, "too few to mean anything"


@pytest.mark.full
def test_what_is_read_in_a_hundred_thousand_triggers_is_what_v8_says() -> None:
    wrong, right = asyncio.run(differences(100_000, seed=2))
    assert not wrong, "\n".join(wrong[:5])
    assert right["quiet"] + right["fired"] > 8_000


def cases(change: pytest.MonkeyPatch) -> None:
    """Capitals are other letters."""
    change.setattr(conditions, "_in_one_case", str)


def spelled(change: pytest.MonkeyPatch) -> None:
    """Traditional characters and full-width letters are other letters."""
    change.setattr(conditions, "folded", str)


def edges(change: pytest.MonkeyPatch) -> None:
    """A word may stand within another one."""
    change.setattr(conditions, "_WORD_CHARACTERS", frozenset())


def ideographs(change: pytest.MonkeyPatch) -> None:
    """A word with an ideograph has edges too."""
    change.setattr(conditions, "_IDEOGRAPHS", ())


def once(change: pytest.MonkeyPatch) -> None:
    """Each spelling of a key counts."""
    change.setattr(conditions, "_distinct", lambda keys: tuple((key,) for key in keys if key))


def everywhere(change: pytest.MonkeyPatch) -> None:
    """The depth does not count."""
    real = Chat._texts_in
    change.setattr(Chat, "_texts_in", lambda self, scope, depth: real(self, scope, 0))


def everybody(change: pytest.MonkeyPatch) -> None:
    """The scope does not count."""
    real = Chat._texts_in
    change.setattr(Chat, "_texts_in", lambda self, scope, depth: real(self, "any", depth))


IN_SHORT = (cases, spelled, edges, everywhere)
ONLY_IN_FULL = (ideographs, once, everybody)


@pytest.mark.parametrize(
    "mutant",
    [*IN_SHORT, *(pytest.param(mutant, marks=pytest.mark.full) for mutant in ONLY_IN_FULL)],
)
def test_a_wrong_rule_is_noticed(
    mutant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    conditions.compiled.cache_clear()
    conditions._kept_text.cache_clear()
    mutant(monkeypatch)
    try:
        wrong, _ = asyncio.run(differences(40_000, seed=3, enough=1))
    finally:
        conditions.compiled.cache_clear()
        conditions._kept_text.cache_clear()
    assert wrong, mutant.__doc__


MESSAGES: list[dict[str, Any]] = [
    {"role": "user", "content": " one two \ufeff", "name": "Ann"},
    {"role": "char", "content": "three "},
    {"role": "system", "content": "\u00a0four\n\x01 five\n\x01six "},
]


KEYS = ("one", " one", "two ", "Ann", "Ann: ", "four", " five", "six ", "e", "Bo: three")


@pytest.mark.parametrize("scope", ["named", "scanned", "scanned_unnamed", "any", "other", "both"])
def test_scanned_and_named_messages_are_those_of_v8(driver: Driver, scope: str) -> None:
    context = {"messages": MESSAGES, "participants": {"char": "Bo"}, "conversation_id": "a"}
    chat = Chat(MESSAGES, speaker_names(context))
    sources: list[str] = []
    counts: list[int] = []
    for key in KEYS:
        for depth in (0, 1, 2, 9):
            keys = (key, "one", "six")
            counts.append(chat.count(KeySearch(keys, scope, depth)))
            sources.append(f"match_keys(context.messages, {json.dumps(keys)}, '{scope}', {depth})")
    equal = [f"{source} === {count}" for source, count in zip(sources, counts, strict=True)]
    verdicts = driver.run(driver.sandbox.evaluate(equal, context, now=NOW, seed=1))
    assert [outcome(verdict) for verdict in verdicts] == ["fired"] * len(equal)
    assert len(set(counts)) > 1


def test_a_key_that_a_search_finds_stands_in_a_message_with_its_speaker() -> None:
    for seed in range(300):
        chance = Chance(seed)
        chat = a_chat(chance)
        names = speaker_names(chance.context)
        texts = [named_text(message, names) for message in chance.context["messages"]]
        for word in [chance.word() for _ in range(20)]:
            key = word.strip("\n\x01")
            windows = [KeySearch((key,), scope, 0) for scope in conditions.ROLES]
            if key and "\n" not in key and any(map(chat.holds, windows)):
                index = KeyIndex()
                index.add(key)
                assert index.found_in(texts, SearchedTexts(conditions.MOST_CHARACTERS)) == {key}, (
                    chance.context
                )


def test_expressions_of_plain_texts_are_found_as_v8_finds_them(driver: Driver) -> None:
    found: Counter[bool] = Counter()
    for seed in range(60):
        chance = Chance(seed)
        chat = a_chat(chance)
        sources: list[str] = []
        for _ in range(30):
            word = chance.word().strip()
            is_exact, is_whole = chance.dice.random() < 0.3, chance.dice.random() < 0.5
            pattern = PlainPattern(word or "a", is_exact, is_whole)
            scope = chance.dice.choice(list(conditions.ROLES))
            source = f"match_keys(context.messages, [{pattern.literal}], '{scope}', 9)"
            reading = read(source)
            if reading is None:
                continue
            assert isinstance(reading.condition, KeySearch)
            assert reading.condition.keys[0] in (pattern, PlainPattern(word, is_exact, False))
            count = chat.count(reading.condition)
            sources.append(f"{source} === {count}")
            found[count > 0] += 1
        verdicts = driver.run(driver.sandbox.evaluate(sources, chance.context, now=NOW, seed=1))
        wrong = [
            source
            for source, verdict in zip(sources, verdicts, strict=True)
            if outcome(verdict) != "fired"
        ]
        assert not wrong, chance.context
    assert min(found.values()) > 200


PARTS = st.lists(st.sampled_from(("a", "aa", "A", "_", " ", "1", "é", "猫", ".")), min_size=1)


def stands_by_definition(
    text: str, sought: str, *, begins_at_edge: bool, ends_at_edge: bool
) -> bool:
    """Look at each place by the rule itself."""

    def is_free(letter: str) -> bool:
        return re.fullmatch("[A-Za-z0-9_]", letter) is None

    for start in range(len(text)):
        end = start + len(sought)
        is_free_before = not begins_at_edge or is_free(text[max(0, start - 1) : start])
        is_free_after = not ends_at_edge or is_free(text[end : end + 1])
        if text.startswith(sought, start) and is_free_before and is_free_after:
            return True
    return False


@given(
    parts=PARTS,
    repeated=st.integers(1, 30),
    end=PARTS,
    sought=PARTS.map("".join),
    edges=st.tuples(st.booleans(), st.booleans()),
)
def test_a_word_stands_free_at_any_place_of_a_text(
    parts: list[str], repeated: int, end: list[str], sought: str, edges: tuple[bool, bool]
) -> None:
    text = "".join(parts) * repeated + "".join(end)
    begins, ends = edges
    expected = stands_by_definition(text, sought, begins_at_edge=begins, ends_at_edge=ends)
    assert stands_in(text, sought, begins_at_edge=begins, ends_at_edge=ends) == expected


def test_a_word_that_stands_free_behind_many_that_do_not_is_found() -> None:
    text = "xa " * 100
    assert not stands_in(text, "a", begins_at_edge=True, ends_at_edge=True)
    assert stands_in(f"{text}a", "a", begins_at_edge=True, ends_at_edge=True)


def test_a_text_gets_its_forms_once_for_all_depths_of_a_search() -> None:
    """Forms of 24,000 characters take 0.1 s; each depth once made them anew, in the event loop."""
    searched = SearchedTexts(conditions.MOST_CHARACTERS)
    messages = [{"role": "user", "content": "山水" * 2_000 + " cake"}]
    chat = Chat(messages, {}, None, searched)
    texts = [chat.texts("any", depth)[0] for depth in range(1, 50)]
    assert all(text is texts[0] for text in texts)


def test_all_conditions_of_a_search_share_a_bound_on_what_they_look_through() -> None:
    messages = [{"role": "user", "content": "a" * 10_000}]
    chat = Chat(messages, {}, None, SearchedTexts(most_characters=25_000))
    assert chat.count(KeySearch(("b",), depth=1)) == 0
    assert chat.count(KeySearch(("b",), depth=2)) == 0
    with pytest.raises(TooMuchText):
        chat.count(KeySearch(("b",), depth=3))


@pytest.mark.parametrize(
    ("key", "text"),
    [("aｅ", "a\u200bｅ\u0301"), ("aｶ", "a\u00adｶﾞ"), ("xㄱ", "x\u200bㄱㅏ")],
)
def test_an_expression_that_only_stands_in_what_people_see_is_found(key: str, text: str) -> None:
    pattern = PlainPattern(key, is_exact=True, is_whole=False)
    index = KeyIndex()
    index.add(pattern)
    assert index.found_in([text], SearchedTexts(conditions.MOST_CHARACTERS)) == {pattern}
