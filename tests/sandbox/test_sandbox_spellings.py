"""All spellings of a key: what match_keys finds, and that conditions.py takes for the same letter what V8 does."""

from __future__ import annotations

import asyncio
import json
import sys
import unicodedata
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

import pytest
from attacks.driver import Driver, outcome

from nlp.normal_forms import without_unseen
from sandbox import SandboxLimits, TriggerSandbox
from sandbox.conditions import Word, _in_one_case, is_certain
from sandbox.javascript.spelling import folded, seen

T = TypeVar("T")
FOUND = [
    ("'庆祝'", "我們慶祝一下", 1),
    ("'慶祝'", "我们庆祝一下", 1),
    ("'后天'", "後天見", 1),
    ("'頭髮'", "头发", 1),
    ("'GPT'", "用ＧＰＴ寫", 1),
    ("'ｇｐｔ'", "use GPT now", 1),
    ("'cat'", "我的ｃａｔ！", 1),
    ("'cat'", "ｘｃａｔ", 0),
    ("'cat'", "cat，ＡＩcat", 1),
    ("'cat'", "ＡＩcat", 1),
    ("'我 們'", "我　们", 1),
    ("/庆祝/", "慶祝", 0),
    ("'庆祝', '慶祝'", "慶祝", 1),
    ("'慶祝', '庆祝', '生日'", "慶祝生日", 2),
    ("'ｃａｔ', 'cat'", "xｃａｔx", 1),
    ("'乾杯'", "干杯", 1),
    ("'臺灣'", "台湾", 1),
    ("'M\u00fcller'", "Herr Mu\u0308ller ist da", 1),
    ("'Mu\u0308ller'", "Herr M\u00fcller ist da", 1),
    ("'\ud55c\uac15'", "\u1112\u1161\u11ab\u1100\u1161\u11bc에 가자", 1),
    ("'ガラス'", "カ\u3099ラスの花瓶", 1),
    ("'ガラス'", "ｶﾞﾗｽの花瓶", 1),
    ("'peanut'", "I ate a pea\u00adnut", 1),
    ("'pea\u00adnut'", "I ate a peanut", 1),
    ("'芒果'", "我想吃芒\u200b果", 1),
    ("'芒\u2060果', '芒果'", "芒果", 1),
    ("/pea?nut/", "I ate a pea\u00adnut", 1),
    ("/caf\u00e9/", "cafe\u0301", 1),
    ("/pea\u00adnut/", "a peanut", 0),
    ("/pea\u00adnut/", "a pea\u00adnut", 1),
    ("/\u2764\ufe0f?/", "hello", 0),
    ("/\u200b/", "hello", 0),
    ("/\u200b|foo/", "hello", 0),
    ("'\u200b'", "hello", 0),
    ("'\u3164'", "hello", 0),
    ("'\u200b'", "he\u200bllo", 1),
    ("/a\ufe0f*/", "zzz", 0),
    ("/[\u200b-\u200d]/", "a-b", 0),
    ("/\\u00ad/", "pea\u00adnut", 1),
    ("/cool/", "ｃｏｏｌ", 0),
    ("'①'", "1", 1),
]


@pytest.mark.parametrize(("keys", "text", "count"), FOUND)
def test_a_key_is_found_in_every_spelling(driver: Driver, keys: str, text: str, count: int) -> None:
    messages = f"[{{ role: 'user', content: {json.dumps(text)} }}]"
    verdicts = driver.evaluate(f"match_keys({messages}, [{keys}]) === {count}")
    assert outcome(verdicts[0]) == "fired"


def test_spellings_stay_apart_where_the_original_is_wanted() -> None:
    async def verdict() -> str:
        async with TriggerSandbox(workers=1, spare=False, spellings_apart=True) as sandbox:
            source = "match_keys([{ role: 'user', content: '慶祝ＡＩ' }], ['庆祝', 'AI']) === 0"
            return outcome((await sandbox.evaluate([source], {}, now=datetime.now(UTC), seed=0))[0])

    assert asyncio.run(verdict()) == "fired"


def test_the_realm_and_the_host_have_the_same_table(driver: Driver) -> None:
    forms = [(character, folded(character)) for character in map(chr, range(0x3000, 0xFFFF))]
    folded_pairs = [(character, form) for character, form in forms if form != character]
    assert len(folded_pairs) > 3_000
    for pairs in batched(folded_pairs, 1_000):
        source = f"""
        const isFoundBothWays = ([a, b]) => match_keys([{{ content: `日${{a}}日` }}], [`日${{b}}`]) === 1
            && match_keys([{{ content: b + '日' }}], [a + '日']) === 1;
        return {json.dumps(pairs)}.filter(isFoundBothWays).length === {len(pairs)};"""
        assert outcome(driver.evaluate(source)[0]) == "fired"


def batched(items: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    return (items[start : start + size] for start in range(0, len(items), size))


def test_the_table_is_that_of_the_installed_opencc() -> None:
    pytest.importorskip("opencc")
    sys.path.insert(0, str(Path(__file__).parents[2] / "distribution"))
    try:
        import spellings
    finally:
        sys.path.pop(0)
    assert spellings.FILE.read_text("utf-8") == spellings.text(), "make spellings"


SAME = r"""
const all = [];
for (let code = 0; code < 0x1ffff; code += 1) {
  if (code < 0xd800 || code > 0xdfff) all.push(String.fromCodePoint(code));
}
const whole = all.join('');
const pairs = [];
for (const one of PART) {
  const found = whole.match(new RegExp(one, 'giu')) ?? [];
  for (const other of new Set(found)) if (other !== one) pairs.push(one + other);
}
for (let at = 0; at < pairs.length; at += 30) console.log(JSON.stringify(pairs.slice(at, at + 30)).slice(1, -1));
"""


@pytest.mark.full
def test_what_v8_takes_for_the_same_letter_is_the_same_in_conditions() -> None:
    """V8 is asked about all letters with two cases of which all versions of Unicode say the same."""
    characters = [chr(code) for code in range(0x1FFFF) if is_certain(chr(code))]
    by_form: dict[str, list[str]] = {}
    for character in characters:
        by_form.setdefault(_in_one_case(character), []).append(character)
    letters = [letter for letter in characters if letter.lower() != letter.upper()]
    limits = SandboxLimits(trigger_seconds=60, search_seconds=60)

    async def lines_said() -> str:
        async with TriggerSandbox(limits, workers=1, spare=False) as sandbox:
            lines: list[str] = []
            for at in range(0, len(letters), 100):
                source = SAME.replace("PART", json.dumps(letters[at : at + 100]))
                report = await sandbox.run(source, {}, now=datetime.now(UTC), seed=0)
                lines += report.console
            return ",".join(lines)

    said = json.loads(f"[{asyncio.run(lines_said())}]")
    pairs = {pair for pair in said if is_certain(pair)}
    expected: set[str] = set()
    for letter in letters:
        expected |= {letter + same for same in by_form[_in_one_case(letter)] if same != letter}
    assert pairs == expected
    assert len(pairs) > 2_000


def test_v8_gives_each_character_the_plain_form_that_conditions_give_it(driver: Driver) -> None:
    characters = [chr(code) for code in range(0x10000) if is_certain(chr(code))]
    for part in batched(characters, 400):
        forms = [unicodedata.normalize("NFKC", character) for character in part]
        ideographs = [not Word.of("a" + character).begins_at_edge for character in part]
        source = f"""
        const [characters, forms, ideographs] = {json.dumps([part, forms, ideographs])};
        return characters.every((one, index) => one.normalize('NFKC') === forms[index]
            && /\\p{{Unified_Ideograph}}/u.test(one) === ideographs[index]);"""
        assert outcome(driver.evaluate(source)[0]) == "fired", hex(ord(part[0]))


def test_triggers_and_words_take_the_same_signs_for_unseen() -> None:
    """A joiner is the exception: words keep it in an emoji."""
    characters = [chr(code) for code in range(0x10000) if not 0xD800 <= code < 0xE000]
    of_triggers = {char for char in characters if seen(char) == ""}
    assert {char for char in characters if without_unseen(char) == ""} == of_triggers
    assert len(of_triggers) > 50
