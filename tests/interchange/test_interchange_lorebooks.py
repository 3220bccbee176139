"""Lorebooks and GentianAphrodite's memories, also by `convert`: what they become, what is lost, which keys match."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any

import pytest

from memory_server.cli.incoming_files import invalid_expressions
from memory_server.cli.parser import main
from memory_server.conversations.model import LongTermMemory
from memory_server.interchange.incoming import Incoming, NotThisFormat
from memory_server.interchange.worldinfo import Defaults, read, read_book
from sandbox import Fired, SandboxUnavailable, TriggerSandbox
from sandbox import cli as trigger_sandbox
from sandbox.workbench.files import read_usable

CALL = "match_keys(context.messages, "
OF_ALL = "all entries: names of speakers are not searched, no memory fires another, the client places texts"


def book(**entry: Any) -> dict[str, Any]:
    return {"entries": {"7": {"uid": 7, "key": ["sword"], "comment": "Sword", "content": "sharp"} | entry}}


def carried(document: Any, defaults: Defaults = Defaults(), invalid: tuple[str, ...] = ()) -> Incoming:  # noqa: B008
    return read(read_book(json.dumps(document).encode()), "book.json", "chat", invalid, defaults)


def memories(found: Incoming) -> tuple[LongTermMemory, ...]:
    return found.conversations[0].long_term


def said(found: Incoming) -> list[str]:
    """Of single entries."""
    skipped = [f"left out: {reason}" for _, reason in found.skipped]
    return skipped + [note.partition(": ")[2] for note in found.notes if not note.startswith("all entries: ")]


def trigger(document: Any, defaults: Defaults = Defaults(), invalid: tuple[str, ...] = ()) -> str:  # noqa: B008
    """Without its comment."""
    (memory,) = memories(carried(document, defaults, invalid))
    return memory.trigger.split("\n", 1)[1]


@pytest.mark.parametrize(
    ("entry", "source"),
    [
        ({}, f"{CALL}['sword'], 'any', 2) > 0"),
        ({"scanDepth": 4}, f"{CALL}['sword']) > 0"),
        ({"scanDepth": 9}, f"{CALL}['sword'], 'any', 9) > 0"),
        ({"key": ["火龙", "すし", "it's"]}, f"{CALL}['火龙', 'すし', 'it\\'s'], 'any', 2) > 0"),
        # Beside punctuation match_keys wants no edge of a word, and whole words do: `a#hello` is none.
        ({"key": ["#hello", "C++"]}, f"{CALL}[/(?<!\\w)#hello\\b/i, /\\bC\\+\\+(?!\\w)/i], 'any', 2) > 0"),
        ({"key": ["#Hi"], "caseSensitive": True}, f"{CALL}[/(?<!\\w)#Hi\\b/], 'any', 2) > 0"),
        ({"key": ["#hello"], "matchWholeWords": False}, f"{CALL}[/#hello/i], 'any', 2) > 0"),
        # Several words are a substring there, so no word boundary may stand at their ends.
        ({"key": ["golden dog"]}, f"{CALL}[/golden dog/i], 'any', 2) > 0"),
        ({"matchWholeWords": False}, f"{CALL}[/sword/i], 'any', 2) > 0"),
        ({"matchWholeWords": False, "key": ["剑", "a/b"]}, f"{CALL}['剑', /a\\/b/i], 'any', 2) > 0"),
        ({"caseSensitive": True}, f"{CALL}[/\\bsword\\b/], 'any', 2) > 0"),
        ({"key": ["/dra[gk]on/gi"]}, f"{CALL}[/dra[gk]on/i], 'any', 2) > 0"),
        ({"key": ["/a/b/"], "matchWholeWords": False}, f"{CALL}['/a/b/'], 'any', 2) > 0"),
        ({"keysecondary": ["a", "b"]}, f"{CALL}['sword'], 'any', 2) > 0\n  && {CALL}['a', 'b'], 'any', 2) > 0"),
        (
            {"keysecondary": ["a", "b"], "selectiveLogic": 1},
            f"{CALL}['sword'], 'any', 2) > 0\n  && !match_keys_all(context.messages, ['a', 'b'], 'any', 2)",
        ),
        (
            {"keysecondary": ["a"], "selectiveLogic": 2},
            f"{CALL}['sword'], 'any', 2) > 0\n  && {CALL}['a'], 'any', 2) === 0",
        ),
        (
            {"keysecondary": ["a"], "selectiveLogic": 3},
            "match_keys_all(context.messages, ['sword', 'a'], 'any', 2)",
        ),
        (
            {"key": ["sword", "blade"], "keysecondary": ["a"], "selectiveLogic": 3},
            f"{CALL}['sword', 'blade'], 'any', 2) > 0\n  && match_keys_all(context.messages, ['a'], 'any', 2)",
        ),
        ({"keysecondary": ["a"], "selective": False}, f"{CALL}['sword'], 'any', 2) > 0"),
        ({"constant": True, "key": []}, "true"),
        ({"constant": True, "probability": 25}, "Math.random() < 0.25"),
        ({"probability": 25, "useProbability": False}, f"{CALL}['sword'], 'any', 2) > 0"),
        ({"delay": 5}, f"context.messages.length >= 5\n  && {CALL}['sword'], 'any', 2) > 0"),
        ({"sticky": 3}, f"{CALL}['sword'], 'any', 5) > 0"),
        (
            {"sticky": 3, "keysecondary": ["a"], "selectiveLogic": 2},
            f"{CALL}['sword'], 'any', 2) > 0\n  && {CALL}['a'], 'any', 2) === 0",
        ),
        ({"content": "@@activate\nx", "key": []}, "true"),
    ],
)
def test_an_entry_becomes_the_trigger_a_person_would_write(entry: dict[str, Any], source: str) -> None:
    assert trigger(book(**entry)) == source


@pytest.mark.parametrize(
    ("entry", "line"),
    [
        ({"disable": True}, "left out: it is disabled"),
        ({"content": " "}, "left out: it has no content"),
        ({"content": "@@dont_activate\nx"}, "left out: @@dont_activate keeps it from ever firing"),
        ({"probability": 0}, "left out: its probability is 0"),
        ({"key": []}, "left out: it has no keys; give it a trigger of its own"),
        ({"key": [], "vectorized": True}, "left out: vectorized: it is found by meaning; give it a trigger of its own"),
        ({"scanDepth": 0}, "left out: scanDepth 0 looks at no message"),
        ({"cooldown": 4, "group": "beasts", "excludeRecursion": True}, "cooldown, group: has no meaning here"),
        (
            {"characterFilter": {"isExclude": False, "names": ["Bob"], "tags": []}},
            "characterFilter: has no meaning here",
        ),
        ({"matchScenario": True, "matchPersonaDescription": False}, "matchScenario: has no meaning here"),
        ({"content": "{{char}} smiles"}, "{{char}}: stays as it is; give --char NAME"),
        ({"content": "{{random:a,b}}"}, "{{random:a,b}}: stays as it is; nothing replaces it here"),
        ({"content": "@@depth 3\nx"}, "@@depth 3: has no meaning here"),
        ({"key": ["/^sword/"]}, "key /^sword/: ^ and $ are the ends of one message here, not of all scanned text"),
        ({"key": ["/([/"]}, "key /([/: not a valid expression; sought as plain text, as SillyTavern does"),
    ],
)
def test_what_could_not_be_carried_over_is_said(entry: dict[str, Any], line: str) -> None:
    found = carried(book(**entry), invalid=("/([/",))
    assert said(found) == [line]
    for memory in memories(found):
        assert memory.extra == {"notes": [line]}


def test_names_replace_macros_and_book_settings_are_defaults() -> None:
    names = Defaults(depth=6, whole_words=False, case_sensitive=True, names={"char": "Aria", "user": "Bo"})
    found = carried(book(key=["{{User}}"], content="{{char}} knows {{user}}"), names)
    (memory,) = memories(found)
    assert memory.prompt == "Aria knows Bo"
    assert memory.trigger.endswith(f"{CALL}[/Bo/], 'any', 6) > 0")
    assert said(found) == []


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
        "extensions": {"selectiveLogic": 2, "scan_depth": 5, "match_whole_words": False, "cooldown": 3},
    }
    expected = f"{CALL}[/sword/i], 'any', 5) > 0\n  && {CALL}[/a/i], 'any', 5) === 0"
    for document in (
        {"name": "b", "entries": [entry]},
        {"spec": "chara_card_v2", "data": {"name": "x", "character_book": {"entries": [entry]}}},
        {"spec": "lorebook_v3", "data": {"entries": [entry]}},
    ):
        assert trigger(document) == expected
        assert said(carried(document)) == ["cooldown: has no meaning here"]
    assert memories(carried({"entries": [entry | {"enabled": False}]})) == ()
    assert trigger(
        {"entries": [entry | {"use_regex": True, "keys": ["s.ord"], "selective": False}], "scan_depth": 3}
    ) == (f"{CALL}[/s.ord/], 'any', 5) > 0")


def test_odd_texts_stay_inside_their_literals() -> None:
    keys = ["a\nb", "</x>", "`${x}`", "\\", "\u2028"]
    (memory,) = memories(carried(book(key=keys, comment="line\nbreak \u2028 */ alert()", matchWholeWords=False)))
    assert memory.name == "line break */ alert()"
    assert memory.trigger.split("\n") == [
        "// World info entry 7: line break */ alert()",
        f"{CALL}[/a\\nb/i, '</x>', '`${{x}}`', '\\\\'], 'any', 2) > 0",
    ]


def test_entries_of_one_name_get_numbers() -> None:
    entries = {str(number): book()["entries"]["7"] for number in range(3)}
    names = [memory.name for memory in memories(carried({"entries": entries}))]
    assert names == ["Sword", "Sword (2)", "Sword (3)"]


@pytest.mark.parametrize(
    ("document", "sentence"),
    [
        ([], "is a list and not a lorebook"),
        ({}, "has no `entries`; export the lorebook"),
        ({"spec": "chara_card_v2", "data": {}}, "is a character card without a character book"),
        ({"entries": {"0": 5}}, "entry 0: it is not an object"),
        (book(selectiveLogic=9), "entry 7: selectiveLogic is 9, known are 0 to 3"),
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
    scanned = "\n\x01".join(texts[-entry["scanDepth"] :])

    def found(key: str) -> bool:
        if key.startswith("/"):
            body, flags = key[1:].rsplit("/", 1)
            return re.search(body, scanned, re.IGNORECASE if "i" in flags else 0) is not None
        key, text = (key, scanned) if entry["caseSensitive"] else (key.lower(), scanned.lower())
        if not entry["matchWholeWords"] or " " in key:
            return key in text
        return re.search(rf"(?:^|\W)({re.escape(key)})(?:$|\W)", text, re.ASCII) is not None

    if not any(map(found, entry["key"])):
        return False
    second = [found(key) for key in entry["keysecondary"]]
    logic = (any(second), not all(second), not any(second), all(second))
    return logic[entry["selectiveLogic"]] if second else True


@pytest.mark.anyio
async def test_triggers_fire_where_the_lorebook_would() -> None:
    random = Random(4)
    entries = [
        {
            "uid": number,
            "key": random.sample(WORDS, random.randint(1, 3)),
            "keysecondary": random.sample(WORDS, random.randint(0, 2)),
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
                assert isinstance(verdict, Fired) == tavern_fires(entry, texts), (source, texts, verdict)
                fired += isinstance(verdict, Fired)
    assert 200 < fired < 1000


# --- the command -----------------------------------------------------------------------------------------------

Run = Callable[..., tuple[int, list[str], list[str]]]


@pytest.fixture
def run(tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str) -> tuple[int, list[str], list[str]]:
        status = main(["--data-dir", "data", "convert", *arguments])
        out, err = capfd.readouterr()
        assert not Path("data").exists(), "nothing is stored"
        return status, out.splitlines(), err.splitlines()

    return run


def test_a_lorebook_becomes_a_pack_that_checks_clean(run: Run, capfd: pytest.CaptureFixture[str]) -> None:
    source, target = Path("book.json"), Path("pack.json")
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
        f"Wrote pack.json: 2 memories of 1 conversation, {target.stat().st_size} bytes, as pack.",
        "left out  x: it is disabled",
        "left out  entry 3: it cannot be read: it is not an object",
        "left out  entry 4: it cannot be read: selectiveLogic is 9, known are 0 to 3",
        "not carried  Dragon: key /([/: not a valid expression; sought as plain text, as SillyTavern does",
        f"not carried  {OF_ALL}",
    ]
    assert [(memory.name, "createdAt" in memory.extra) for memory in read_usable("pack.json")[0]] == [
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
    assert "'any', 7)" in read_usable("pack.json")[0][1].trigger


def test_triggers_of_gentian_are_kept_and_what_will_not_work_is_said(run: Run) -> None:
    works = "(await match_keys(args, ['生日', /什么(日子|节日)/], 'both')) || new Date().getMonth() === 7"
    rows = [
        {"name": "主人的生日", "prompt": "主人的生日是7月17日。", "trigger": works},
        {"prompt_name": "b", "prompt": "x", "trigger": "args.chat_log.length > 3", "createdAt": 1700000000000, "z": 0},
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
    assert (second["name"], second["createdAt"], second["z"]) == ("b", "2023-11-14T22:13:20.000Z", 0)
    assert second["createdContext"] == "long-term-memory.json, memory 2"
    assert first["notes"] == ["getMonth() === 7: months count from 0, this is 8月, but the prompt says 7月"]
    assert "notes" not in third
    assert err == [
        "left out  d: it has no trigger",
        "left out  c (memory 5): another memory before it has the same name",
        "left out  memory 6: it is not an object with name, prompt and trigger",
        "left out  e: it has no trigger",
        "warning  主人的生日: getMonth() === 7: months count from 0, this is 8月, but the prompt says 7月",
        "warning  b: TypeError: Cannot read properties of undefined (reading 'length')",
        "warning  b: args has no chat_log; did you mean args.messages?",
        "warning  c: its trigger cannot work: logical_results is not defined at line 1",
    ]


def test_entries_without_uid_are_told_apart(run: Run) -> None:
    entry = {"keys": ["王"], "content": "c", "enabled": True, "extensions": {"cooldown": 2}}
    entries = [entry, {**entry, "enabled": False}, {**entry, "id": 0}]
    Path("book.json").write_text(json.dumps({"entries": entries}), "utf-8")
    code, out, err = run("book.json", "-")
    assert code == 0
    assert err[:3] == [
        "left out  王 (entry #2): it is disabled",
        "not carried  王 (entry #1): cooldown: has no meaning here",
        "not carried  王 (entry 0): cooldown: has no meaning here",
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
def test_other_files_are_refused_with_one_sentence(run: Run, arguments: list[str], sentence: str) -> None:
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
            f"not carried  {OF_ALL}",
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
    said = f"memory-server: Triggers cannot run now: {reason}; `memory-server doctor` says why."
    assert run("book.json", "out.json") == (1, [], [said])
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
    good = [f"/word{number}/i" for number in range(450)] + ["/a\nb/", "/a/b/", "/\u2028/", "/'`${x}/", "/生日|ü/u"]
    async with TriggerSandbox(workers=1) as sandbox:
        assert await invalid_expressions(sandbox, [*good, *bad, *bad]) == set(bad)
