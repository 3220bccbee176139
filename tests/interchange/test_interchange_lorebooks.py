"""Lorebooks and GentianAphrodite's memories, also by `convert`: what they become, what is lost, which keys match."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any

import pytest
from cli_program import CommandLine

from memory_server.interchange.incoming import Incoming, NotThisFormat
from memory_server.interchange.lore_memories import BookSource, Defaults, read
from memory_server.interchange.lorebooks import read_book
from memory_server.kernel.messages import MAX_NAME_CHARS
from memory_server.lore.forms import rules_json, taken_rules
from memory_server.lore.memory import LongTermMemory, is_constant
from memory_server.operations.lore_import import invalid_expressions
from sandbox import Fired, SandboxUnavailable, TriggerSandbox
from sandbox import cli as trigger_sandbox
from sandbox.workbench.files import read_usable

CALL = "match_keys(context.messages, "


def book(**entry: Any) -> dict[str, Any]:
    """A book with one entry, which has the switches that SillyTavern writes."""
    usual = {
        "uid": 7,
        "key": ["sword"],
        "comment": "Sword",
        "content": "sharp",
        "selective": True,
        "useProbability": True,
        "probability": 100,
    }
    return {"entries": {"7": usual | entry}}


def carried(
    document: Any, defaults: Defaults = Defaults(), invalid: tuple[str, ...] = ()
) -> Incoming:
    source = BookSource("book.json", "chat", defaults, invalid)
    return read(read_book(json.dumps(document).encode()), source)


def memories(incoming: Incoming) -> Sequence[LongTermMemory]:
    (lorebook,) = incoming.books
    return lorebook.memories


def sentences_about(incoming: Incoming) -> list[str]:
    """What is said of single entries."""
    skipped = [f"left out: {reason}" for _, reason in incoming.skipped]
    return skipped + [loss.what for loss in incoming.losses if loss.of != incoming.books[0].name]


def trigger(document: Any, defaults: Defaults = Defaults(), invalid: tuple[str, ...] = ()) -> str:
    """The trigger of the only memory, without its comment."""
    (memory,) = memories(carried(document, defaults, invalid))
    return memory.trigger.split("\n", 1)[1]


@pytest.mark.parametrize(
    ("entry", "source"),
    [
        ({}, f"{CALL}['sword'], 'named', 2) > 0"),
        ({"scanDepth": 4}, f"{CALL}['sword'], 'named') > 0"),
        ({"scanDepth": 9}, f"{CALL}['sword'], 'named', 9) > 0"),
        ({"key": ["火龙", "すし", "it's"]}, f"{CALL}['火龙', 'すし', 'it\\'s'], 'named', 2) > 0"),
        # Beside punctuation match_keys wants no edge of a word, and whole words do: `a#hello` is none.
        (
            {"key": ["#hello", "C++"]},
            f"{CALL}[/(?<!\\w)#hello\\b/i, /\\bC\\+\\+(?!\\w)/i], 'named', 2) > 0",
        ),
        ({"key": ["#Hi"], "caseSensitive": True}, f"{CALL}[/(?<!\\w)#Hi\\b/], 'named', 2) > 0"),
        ({"key": ["#hello"], "matchWholeWords": False}, f"{CALL}[/#hello/i], 'named', 2) > 0"),
        # Several words are a substring there, so no word boundary may stand at their ends.
        ({"key": ["golden dog"]}, f"{CALL}[/golden dog/i], 'named', 2) > 0"),
        ({"matchWholeWords": False}, f"{CALL}[/sword/i], 'named', 2) > 0"),
        (
            {"matchWholeWords": False, "key": ["剑", "a/b"]},
            f"{CALL}['剑', /a\\/b/i], 'named', 2) > 0",
        ),
        ({"caseSensitive": True}, f"{CALL}[/\\bsword\\b/], 'named', 2) > 0"),
        ({"key": ["/dra[gk]on/gi"]}, f"{CALL}[/dra[gk]on/i], 'scanned', 2) > 0"),
        ({"key": ["/dra[gk]on/gy"]}, f"{CALL}[/dra[gk]on/y], 'scanned', 2) > 0"),
        ({"key": ["café"]}, f"{CALL}[/\\bcafé(?!\\w)/i], 'named', 2) > 0"),
        ({"key": ["İpek"]}, f"{CALL}[/(?<!\\w)(?:İ|i̇)pek\\b/i], 'named', 2) > 0"),
        ({"key": ["{{// a {note} }}sword{{newline}}"]}, f"{CALL}['sword'], 'named', 2) > 0"),
        ({"key": ["sword", "", " "]}, f"{CALL}['sword', /(?:)/], 'named', 2) > 0"),
        ({"key": ["/a/b/"], "matchWholeWords": False}, f"{CALL}['/a/b/'], 'named', 2) > 0"),
        (
            {"keysecondary": ["a", "b"]},
            f"{CALL}['sword'], 'named', 2) > 0\n  && {CALL}['a', 'b'], 'named', 2) > 0",
        ),
        (
            {"keysecondary": ["a", "b"], "selectiveLogic": 1},
            f"{CALL}['sword'], 'named', 2) > 0\n  && !match_keys_all(context.messages, ['a', 'b'], 'named', 2)",
        ),
        (
            {"keysecondary": ["a"], "selectiveLogic": 2},
            f"{CALL}['sword'], 'named', 2) > 0\n  && {CALL}['a'], 'named', 2) === 0",
        ),
        (
            {"keysecondary": ["a"], "selectiveLogic": 3},
            "match_keys_all(context.messages, ['sword', 'a'], 'named', 2)",
        ),
        (
            {"key": ["sword", "blade"], "keysecondary": ["a"], "selectiveLogic": 3},
            f"{CALL}['sword', 'blade'], 'named', 2) > 0\n  && match_keys_all(context.messages, ['a'], 'named', 2)",
        ),
        ({"keysecondary": ["a"], "selective": False}, f"{CALL}['sword'], 'named', 2) > 0"),
        (
            {"keysecondary": [""]},
            f"{CALL}['sword'], 'named', 2) > 0\n  && {CALL}[''], 'named', 2) > 0",
        ),
        (
            {"keysecondary": ["", "a"], "selectiveLogic": 3},
            "match_keys_all(context.messages, ['sword', '', 'a'], 'named', 2)",
        ),
        ({"constant": True, "key": []}, "true"),
        ({"content": "@@activate\nx", "key": []}, "true"),
        ({"key": [], "vectorized": True}, "false  // it is found by its words"),
        (
            {"content": "@@activate_only_every 3\nx"},
            f"context.messages.length % 3 === 0\n  && {CALL}['sword'], 'named', 2) > 0",
        ),
    ],
)
def test_an_entry_becomes_the_trigger_a_person_would_write(
    entry: dict[str, Any], source: str
) -> None:
    assert trigger(book(**entry)) == source


@pytest.mark.parametrize(
    ("entry", "line"),
    [
        ({"disable": True}, "left out: it is disabled"),
        ({"content": " "}, "left out: it has no content"),
        ({"content": "@@dont_activate\nx"}, "left out: @@dont_activate keeps it from ever firing"),
        ({"content": "{{setvar::a::b}}"}, "left out: it consists of code for its client"),
        ({"content": "<% a() %>"}, "left out: it consists of code for its client"),
        (
            {"position": 7, "outletName": "x"},
            "left out: it is only for an outlet, into which a template of its client",
        ),
        (
            {"triggers": ["impersonate"]},
            "left out: it is only for other types of generation than an answer: imper",
        ),
        ({"probability": 0}, "left out: its probability is 0"),
        (
            {"probability": None},
            "left out: it has a probability without a number, so it never comes there either",
        ),
        (
            {"key": ["{{weekday}}"]},
            "{{weekday}} in a key: stays as it is; nothing replaces it here",
        ),
        ({"key": ["<char>"]}, "{{char}} in a key: stays as it is; give --char NAME"),
        ({"content": "<group>"}, "{{group}}: stays as it is; nothing replaces it here"),
        (
            {"key": []},
            "left out: it has no keys, so it never comes by itself there either, such as a heading",
        ),
        ({"scanDepth": 0}, "left out: scanDepth 0 looks at no message"),
        ({"content": "a" * 20_001}, "left out: it is too long: split it at character 20,000"),
        ({"content": "@@is_user_icon hat\nx"}, "@@is_user_icon: has no meaning here"),
        ({"automationId": "7"}, "automationId: has no meaning here"),
        (
            {"triggers": ["normal", "swipe"]},
            "types of generation: a recall does not know why an answer is made",
        ),
        (
            {"characterFilter": {"isExclude": False, "names": [], "tags": ["t"]}},
            "the filter by tags: no tag of a cha",
        ),
        (
            {"matchScenario": True, "matchPersonaDescription": False},
            "keys are not looked for in descriptions of chara",
        ),
        (
            {"content": "hi <% a() %>"},
            "templates (<% … %>) are code of an extension, and are not imported",
        ),
        ({"content": "{{getvar::hp}}"}, "{{getvar}}: stays as it is; nothing replaces it here"),
        ({"key": ["{{char}}"]}, "{{char}} in a key: stays as it is; give --char NAME"),
        (
            {"key": ["{{lastMessage}}"]},
            "{{lastMessage}} in a key: stays as it is; nothing replaces it here",
        ),
        (
            {"key": ["/([/"]},
            "key /([/: not a valid expression; it is looked for as plain text, as SillyTavern does",
        ),
    ],
)
def test_what_could_not_be_carried_over_is_said(entry: dict[str, Any], line: str) -> None:
    incoming = carried(book(**entry), invalid=("/([/",))
    (sentence,) = sentences_about(incoming)
    assert sentence.startswith(line)
    for memory in memories(incoming):
        assert memory.extra == {"notes": [sentence]}


@pytest.mark.parametrize(
    ("entry", "rules"),
    [
        ({}, {}),
        ({"order": 7}, {"order": 7}),
        ({"order": None}, {"order": 0}),
        ({"probability": 25}, {"probability": 25}),
        ({"probability": 25, "useProbability": False}, {}),
        ({"constant": True, "probability": 25}, {"probability": 25}),
        ({"sticky": 3, "cooldown": 4, "delay": 5}, {"sticky": 3, "cooldown": 4, "delay": 5}),
        ({"ignoreBudget": True}, {"ignoreBudget": True}),
        ({"group": "a, b", "groupWeight": 7}, {"group": ["a", "b"], "groupWeight": 7}),
        ({"group": "a", "groupOverride": True}, {"group": "a", "groupOverride": True}),
        ({"groupWeight": 7, "groupOverride": True}, {}),
        (
            {"group": "a", "useGroupScoring": True, "keysecondary": ["b"]},
            {"group": "a", "useGroupScoring": True},
        ),
        (
            {"excludeRecursion": True, "preventRecursion": True},
            {"excludeRecursion": True, "preventRecursion": True},
        ),
        ({"delayUntilRecursion": True}, {"delayUntilRecursion": 1}),
        ({"delayUntilRecursion": 3}, {"delayUntilRecursion": 3}),
        ({"vectorized": True}, {"byWords": True}),
        ({"vectorized": True, "constant": True}, {}),
        (
            {"characterFilter": {"isExclude": True, "names": ["Bob"], "tags": []}},
            {"characterFilter": {"names": ["Bob"], "isExclude": True}},
        ),
        ({"content": "@@dont_activate_after_match\nx"}, {"once": True}),
        ({"content": "@@keep_activate_after_match\nx"}, {"sticky": 1_000_000}),
    ],
)
def test_what_an_entry_says_beside_its_keys_becomes_rules(
    entry: dict[str, Any], rules: dict[str, Any]
) -> None:
    (memory,) = memories(carried(book(**entry), Defaults(recursion=False)))
    assert rules_json(memory.rules) == rules


def test_recursion_and_names_of_speakers_are_settings_of_the_user() -> None:
    (usual,) = memories(carried(book()))
    assert usual.rules.recursion.is_on
    assert "'named'" in usual.trigger
    (without,) = memories(carried(book(), Defaults(recursion=False, speakers=False)))
    assert not without.rules.recursion.is_on
    assert "'any'" in without.trigger


def test_an_entry_that_is_too_long_is_split_at_paragraphs() -> None:
    paragraphs = [letter * 9_000 for letter in "abc"]
    parts = memories(carried(book(content="\n\n".join(paragraphs), order=7)))
    assert [(part.name, part.prompt) for part in parts] == [
        ("Sword (1/2)", "\n\n".join(paragraphs[:2])),
        ("Sword (2/2)", paragraphs[2]),
    ]
    assert [part.book.uid for part in parts if part.book] == ["7/1", "7/2"]
    assert {part.rules.order for part in parts} == {7}


def test_names_replace_macros_and_book_settings_are_defaults() -> None:
    names = Defaults(
        depth=6, whole_words=False, case_sensitive=True, names={"char": "Aria", "user": "Bo"}
    )
    incoming = carried(book(key=["{{User}}"], content="{{char}} knows {{user}}"), names)
    (memory,) = memories(incoming)
    assert memory.prompt == "Aria knows Bo"
    assert memory.trigger.endswith(f"{CALL}[/Bo/], 'named', 6) > 0")
    assert sentences_about(incoming) == []


def test_a_character_book_says_the_same_in_its_own_words() -> None:
    entry = {
        "keys": ["sword"],
        "secondary_keys": ["a"],
        "selective": True,
        "content": "sharp",
        "comment": "Sword",
        "enabled": True,
        "insertion_order": 10,
        "case_sensitive": None,
        "extensions": {
            "selectiveLogic": 2,
            "scan_depth": 5,
            "match_whole_words": False,
            "cooldown": 3,
        },
    }
    expected = f"{CALL}[/sword/i], 'named', 5) > 0\n  && {CALL}[/a/i], 'named', 5) === 0"
    for document in (
        {"name": "b", "entries": [entry]},
        {"spec": "chara_card_v2", "data": {"name": "x", "character_book": {"entries": [entry]}}},
        {"spec": "lorebook_v3", "data": {"entries": [entry]}},
    ):
        assert trigger(document) == expected
        assert sentences_about(carried(document)) == []
        assert rules_json(memories(carried(document, Defaults(recursion=False)))[0].rules) == {
            "order": 10,
            "cooldown": 3,
        }
    assert memories(carried({"entries": [entry | {"enabled": False}]})) == ()
    assert trigger(
        {
            "entries": [entry | {"use_regex": True, "keys": ["s.ord"], "selective": False}],
            "scan_depth": 3,
        }
    ) == (f"{CALL}[/s.ord/], 'scanned', 5) > 0")


def test_odd_texts_stay_inside_their_literals() -> None:
    keys = ["a\nb", "</x>", "`${x}`", "\\", "\u2028"]
    (memory,) = memories(
        carried(book(key=keys, comment="line\nbreak \u2028 */ alert()", matchWholeWords=False))
    )
    assert memory.name == "line break */ alert()"
    assert memory.trigger.split("\n") == [
        "// World info entry 7: line break */ alert()",
        f"{CALL}[/a\\nb/i, '</x>', '`${{x}}`', '\\\\', /(?:)/], 'named', 2) > 0",
    ]


@pytest.mark.parametrize(
    ("entry", "is_said"),
    [
        ({"position": 0, "depth": 4, "role": 0}, False),
        ({"position": 4, "depth": 2}, True),
        ({"content": "@@depth 2\nsharp"}, True),
    ],
)
def test_positions_are_named_where_one_is_not_the_usual_one(
    entry: dict[str, Any], is_said: bool
) -> None:
    losses = carried(book(**entry)).losses
    assert any(loss.what.startswith("position, depth and role") for loss in losses) == is_said


def test_entries_of_one_name_are_told_apart_when_they_leave_their_book() -> None:
    entries = {str(number): book()["entries"]["7"] | {"uid": number} for number in range(3)}
    incoming = carried({"entries": entries})
    assert [memory.name for memory in memories(incoming)] == ["Sword", "Sword", "Sword"]
    incoming.unbound()
    (contents,) = incoming.conversations
    assert len({memory.name for memory in contents.long_term}) == 3


@pytest.mark.parametrize(
    ("document", "sentence"),
    [
        ([], "is a list and not a lorebook"),
        ({}, "has no `entries`; export the lorebook"),
        ({"spec": "chara_card_v2", "data": {}}, "is a character card without a character book"),
        ({"entries": {"0": 5}}, "entry 0: it is not an object"),
        (book(selectiveLogic=9), "entry 7: selectiveLogic is 9, but only 0 to 3 are known"),
        (book(scanDepth="deep"), "entry 7: invalid literal"),
    ],
)
def test_what_is_no_lorebook_gets_one_sentence(document: Any, sentence: str) -> None:
    with pytest.raises(NotThisFormat, match=re.escape(sentence)):
        read_book(json.dumps(document).encode())


# --- the same keys, the same messages, the same answer ---------------------------------------------------------

WORDS = [
    "cat",
    "Cat",
    "category",
    "dog",
    "生日",
    "蛋糕",
    "red dog",
    "すし",
    "my_cat",
    "#dog",
    "C++",
    "/ca+t/i",
    "/生[日活]/",
]
GLUED = ["a#dog", "#dogs", "C++11", "xC++", "说#dog吧", "(C++)"]


def tavern_fires(entry: dict[str, Any], texts: list[str]) -> bool:
    """World info's rules, written down a second time."""
    scanned = "\n\x01".join(["", *texts[-entry["scanDepth"] :][::-1]])[1:]

    def is_said(key: str) -> bool:
        if key.startswith("/"):
            body, _, flags = key[1:].rpartition("/")
            expression = body
            if "i" in flags:
                expression = f"(?i){body}"
            return re.search(expression, scanned) is not None
        text = scanned
        if not entry["caseSensitive"]:
            key = key.lower()
            text = text.lower()
        if not entry["matchWholeWords"] or " " in key:
            return key in text
        return re.search(rf"(?:^|\W)({re.escape(key)})(?:$|\W)", text, re.ASCII) is not None

    if not any(map(is_said, entry["key"])):
        return False
    if not entry["keysecondary"]:
        return True
    secondary = [is_said(key) for key in entry["keysecondary"]]
    by_logic = (any(secondary), not all(secondary), not any(secondary), all(secondary))
    return by_logic[entry["selectiveLogic"]]


@pytest.mark.anyio
async def test_triggers_fire_where_the_lorebook_would() -> None:
    random = Random(4)
    entries = [
        {
            "uid": number,
            "key": random.sample(WORDS, random.randint(1, 3)),
            "keysecondary": random.sample(WORDS, random.randint(0, 2)),
            "selective": True,
            "selectiveLogic": random.randrange(4),
            "scanDepth": random.randint(1, 5),
            "matchWholeWords": random.random() < 0.5,
            "caseSensitive": random.random() < 0.5,
            "comment": str(number),
            "content": "x",
        }
        for number in range(150)
    ]
    sources = [memory.trigger for memory in memories(carried({"entries": entries}))]
    assert len(sources) == len(entries)
    fired = 0
    async with TriggerSandbox(workers=1) as sandbox:
        for _ in range(8):
            plain = [word for word in WORDS if not word.startswith("/")] + GLUED
            texts = [" ".join(random.sample(plain, random.randint(0, 2))) or "-" for _ in range(5)]
            messages = [{"role": "user", "content": text} for text in texts]
            verdicts = await sandbox.evaluate(
                sources, {"messages": messages}, now=datetime(2026, 1, 1, tzinfo=UTC), seed=0
            )
            for entry, source, verdict in zip(entries, sources, verdicts, strict=True):
                assert isinstance(verdict, Fired) == tavern_fires(entry, texts), (
                    source,
                    texts,
                    verdict,
                )
                fired += isinstance(verdict, Fired)
    assert 200 < fired < 1000


# --- the command -----------------------------------------------------------------------------------------------

Run = Callable[..., tuple[int, list[str], list[str]]]


@pytest.fixture
def run(cli: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """`run("book.json", "pack.json")`: the status of `convert`, and the lines of its output and of its errors."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str) -> tuple[int, list[str], list[str]]:
        status, out, err = cli("convert", *arguments)
        assert not (tmp_path / "data").exists(), "nothing is stored"
        return status, out.splitlines(), err.splitlines()

    return run


def test_a_lorebook_becomes_a_pack_that_checks_clean(
    run: Run, capfd: pytest.CaptureFixture[str]
) -> None:
    source = Path("book.json")
    target = Path("pack.json")
    entries = {
        "0": {"key": ["/([/", "dragon"], "content": "a", "comment": "Dragon"},
        "1": {"key": ["x"], "content": "b", "disable": True},
        "2": {"key": ["王"], "content": "c"},
        "3": "torn",
        "4": {"key": ["x"], "content": "d", "selectiveLogic": 9},
    }
    source.write_bytes(json.dumps({"entries": entries}, ensure_ascii=False).encode("gbk"))
    code, out, (err,) = run("book.json", "pack.json")
    assert (code, out) == (2, [])
    assert "is not UTF-8" in err
    code, out, errors = run("book.json", "pack.json", "--encoding", "gbk")
    assert (code, errors) == (0, [])
    assert out == [
        "Wrote pack.json: 2 memories of 1 conversation, 1.4 kB, as pack.",
        "left out  x: it is disabled",
        "left out  entry 3: it cannot be read: it is not an object",
        "left out  entry 4: it cannot be read: selectiveLogic is 9, but only 0 to 3 are known",
        "lost  Dragon: key /([/: not a valid expression; it is looked for as plain text, as SillyTavern does",
    ]
    assert [
        (memory.name, "createdAt" in memory.extra) for memory in read_usable("pack.json")[0]
    ] == [
        ("Dragon", False),
        ("王", False),
    ]
    assert trigger_sandbox.main(["pack", "check", "pack.json"]) == 0
    capfd.readouterr()
    before = target.read_bytes()
    code, _, (err,) = run("book.json", "pack.json", "--encoding", "gbk")
    assert code == 2
    assert "exists already; add --force to replace it" in err
    assert target.read_bytes() == before
    assert run("book.json", "pack.json", "--encoding", "gbk", "--force", "--depth", "7")[0] == 0
    assert "'named', 7)" in read_usable("pack.json")[0][1].trigger


def test_triggers_of_gentian_are_kept_and_what_will_not_work_is_said(run: Run) -> None:
    works = "(await match_keys(args, ['生日', /什么(日子|节日)/], 'both')) || new Date().getMonth() === 7"
    rows = [
        {"name": "主人的生日", "prompt": "主人的生日是7月17日。", "trigger": works},
        {
            "prompt_name": "b",
            "prompt": "x",
            "trigger": "args.chat_log.length > 3",
            "createdAt": 1700000000000,
            "z": 0,
        },
        {"name": "c", "prompt": "x", "trigger": "logical_results.in_assist"},
        {"name": "d", "prompt": "x"},
        {"name": "c", "prompt": "x", "trigger": "1"},
        "a text",
        {"name": "e", "prompt": "x", "trigger": ["no text"]},
    ]
    Path("long-term-memory.json").write_text(json.dumps(rows, ensure_ascii=False), "utf-8")
    code, out, err = run("long-term-memory.json", "-", "--format", "gentian")
    assert code == 0
    first, second, third = json.loads("\n".join(out))
    assert first["trigger"] == works
    assert (second["name"], second["createdAt"], second["z"]) == (
        "b",
        "2023-11-14T22:13:20.000Z",
        0,
    )
    assert second["createdContext"] == "long-term-memory.json, memory 2"
    assert first["notes"] == [
        "getMonth() === 7: months count from 0, this is 8月, but the prompt says 7月"
    ]
    assert "notes" not in third
    assert err == [
        "left out  it has no trigger: 2 (d, e)",
        "left out  c (memory 5): another memory before it has the same name",
        "left out  memory 6: it is not an object with name, prompt and trigger",
        "warning  主人的生日: getMonth() === 7: months count from 0, this is 8月, but the prompt says 7月",
        "warning  b: TypeError: Cannot read properties of undefined (reading 'length')",
        "warning  b: args has no chat_log; did you mean args.messages?",
        "warning  c: its trigger cannot work: logical_results is not defined at line 1",
    ]


def test_entries_without_uid_are_told_apart(run: Run) -> None:
    entry = {"keys": ["王"], "content": "c", "enabled": True, "extensions": {"automation_id": "2"}}
    entries = [entry, {**entry, "enabled": False}, {**entry, "id": 0}]
    Path("book.json").write_text(json.dumps({"entries": entries}), "utf-8")
    code, out, err = run("book.json", "-")
    assert code == 0
    assert err[:2] == [
        "left out  王 (entry #2): it is disabled",
        "lost  automationId: has no meaning here: 2 (王 (entry #1), 王 (entry 0))",
    ]
    rows = json.loads("\n".join(out))
    assert [(row["name"], row["createdContext"]) for row in rows] == [
        ("王", "book.json, entry #1"),
        ("王 (2)", "book.json, entry 0"),
    ]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["card.png"], "card.png is a picture without a character card; export"),
        (["nowhere.json"], "cannot be read"),
        (["book.json", "--depth", "0"], "--depth must be at least 1"),
        (["a.json", "--format", "worldinfo"], "has no `entries`"),
        (["a.json", "--format", "gentian"], "is not a JSON array"),
        (["book.json", "--as", "node", "--force"], "out.json is not empty"),
    ],
)
def test_other_files_are_refused_with_one_sentence(
    run: Run, arguments: list[str], sentence: str
) -> None:
    Path("a.json").write_text("{}", "utf-8")
    Path("card.png").write_bytes(b"\x89PNG\r\n\x1a\n\0")
    Path("book.json").write_text(json.dumps(book()), "utf-8")
    Path("out.json").write_text("mine", "utf-8")
    name, *flags = arguments
    code, out, err = run(name, "out.json", *flags)
    assert (code, out, len(err)) == (2, [], 1)
    assert sentence in err[0]
    assert Path("out.json").read_text("utf-8") == "mine"


def test_where_nothing_can_be_used_nothing_is_written(run: Run) -> None:
    Path("book.json").write_text(json.dumps(book(disable=True)), "utf-8")
    assert run("book.json", "out.json")[:2] == (
        1,
        [
            "left out  Sword: it is disabled",
        ],
    )
    assert not Path("out.json").exists()


@pytest.mark.parametrize("key", ["/dra[gc]on/i", "dragon"])
def test_where_v8_does_not_start_it_is_one_sentence_and_nothing_is_written(
    run: Run, monkeypatch: pytest.MonkeyPatch, key: str
) -> None:
    async def cannot(*_: object, **__: object) -> None:
        raise SandboxUnavailable("the trigger worker ended while starting (code -5)")

    monkeypatch.setattr(TriggerSandbox, "match_texts", cannot)
    monkeypatch.setattr(TriggerSandbox, "check_all", cannot)
    Path("book.json").write_text(json.dumps(book(key=[key])), "utf-8")
    reason = "the trigger worker ended while starting (code -5)"
    sentence = f"memory-server: Triggers cannot run now: {reason}; `memory-server doctor` says why."
    assert run("book.json", "out.json") == (1, [], [sentence])
    assert not Path("out.json").exists()


def test_any_form_becomes_any_other(run: Run) -> None:
    Path("book.json").write_text(json.dumps(book()), "utf-8")
    assert run("book.json", "all.jsonl", "--as", "native", "--user", "Bo")[0] == 0
    assert run("all.jsonl", "folder", "--as", "node")[0] == 0
    assert run("folder", "back.json")[0] == 0
    (memory,) = read_usable("back.json")[0]
    assert (memory.name, memory.extra["createdAt"][:2]) == ("Sword", "20")


@pytest.mark.anyio
async def test_expressions_that_v8_does_not_compile_are_found() -> None:
    bad = ["/(/", "/a/zz", "//", "/[z-a]/u", "/(?<n>a)(?<n>b)/", "/\\k<x>(?<y>a)/u"]
    good = [f"/word{number}/i" for number in range(450)] + [
        "/a\nb/",
        "/a/b/",
        "/\u2028/",
        "/'`${x}/",
        "/生日|ü/u",
    ]
    async with TriggerSandbox(workers=1) as sandbox:
        assert await invalid_expressions(sandbox, [*good, *bad, *bad]) == set(bad)


@pytest.mark.parametrize(
    "rules",
    [
        pytest.param({"order": 1e12}, id="order"),
        pytest.param({"order": -1e12}, id="order below zero"),
        pytest.param({"group": "g" * 1_500}, id="name of a group"),
        pytest.param({"group": "g", "groupWeight": 1e12}, id="weight"),
        pytest.param({"sticky": 10**30, "cooldown": 5_000_000, "delay": 10**9}, id="messages"),
        pytest.param({"delayUntilRecursion": 10**9}, id="level"),
    ],
)
def test_rules_of_a_book_are_read_again_as_they_were_stored(rules: dict[str, Any]) -> None:
    (memory,) = memories(carried(book(**rules)))
    fields = rules_json(memory.rules)
    assert taken_rules(fields) == memory.rules
    assert fields == {}


@pytest.mark.parametrize(
    "order", [pytest.param("nan", id="nan"), pytest.param("inf", id="inf"), 10**400]
)
def test_an_entry_with_an_order_that_is_no_number_is_named_and_the_others_come(order: Any) -> None:
    document = book(order=order)
    document["entries"]["8"] = {
        "uid": 8,
        "key": ["shield"],
        "comment": "Shield",
        "content": "round",
    }
    incoming = carried(document)
    assert [memory.name for memory in memories(incoming)] == ["Shield"]
    assert [where for where, _reason in incoming.skipped] == ["entry 7"]


def test_templates_without_an_end_are_read_in_time_that_is_linear_in_their_length() -> None:
    began = time.process_time()
    (memory,) = memories(carried(book(content="a<% x %>b" + "<%" * 9_000)))
    assert memory.prompt == "ab" + "<%" * 9_000
    assert time.process_time() - began < 0.5


def test_a_key_with_beginnings_of_comments_is_no_constant_and_takes_no_time() -> None:
    began = time.process_time()
    assert not is_constant("match_keys(context.messages, ['" + "/*" * 40_000 + "']) > 0")
    assert is_constant("// here\ntrue")
    assert time.process_time() - began < 0.5


def test_the_name_of_a_book_is_no_longer_than_names_may_be() -> None:
    (lorebook,) = carried(book() | {"name": "N" * 20_000}).books
    assert lorebook.name == "N" * MAX_NAME_CHARS
    assert [memory.book.book_name for memory in lorebook.memories if memory.book] == [
        "N" * MAX_NAME_CHARS
    ]
