"""Lorebooks and GentianAphrodite's memories: what they become, what is lost, and that keys match as before."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any

import pytest

from sandbox import Fired, TriggerSandbox, cli
from sandbox.workbench import carrying, gentian
from sandbox.workbench.checking.findings import invalid_expressions
from sandbox.workbench.sources.packs import read_pack
from sandbox.workbench.worldinfo import BookError, read_book
from sandbox.workbench.worldinfo_keys import Defaults

CALL = "match_keys(context.messages, "


def book(**entry: Any) -> dict[str, Any]:
    return {"entries": {"7": {"uid": 7, "key": ["sword"], "comment": "Sword", "content": "sharp"} | entry}}


def carried(document: Any, defaults: Defaults = Defaults(), invalid: tuple[str, ...] = ()) -> carrying.Carried:  # noqa: B008
    (one,) = carrying.carry(read_book(document), defaults, "book.json", invalid)
    return one


def trigger(document: Any, defaults: Defaults = Defaults(), invalid: tuple[str, ...] = ()) -> str:  # noqa: B008
    """Without its comment."""
    memory = carried(document, defaults, invalid).memory
    assert memory is not None
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
        ({"cooldown": 4}, "cooldown 4: a trigger does not know when it last fired"),
        ({"sticky": 2}, "sticky 2: keys are sought 2 messages further back instead"),
        (
            {"sticky": 2, "keysecondary": ["a"], "selectiveLogic": 2},
            "sticky 2: a trigger does not know when it last fired",
        ),
        ({"delay": 2}, "delay 2: counts only the messages that the client sends"),
        ({"group": "beasts"}, "group 'beasts': each entry of the group fires for itself"),
        ({"delayUntilRecursion": True}, "delayUntilRecursion: there is no recursion, so it fires in the first pass"),
        (
            {"characterFilter": {"isExclude": True, "names": ["Bob"], "tags": []}},
            "characterFilter: it fires for every character (all but Bob)",
        ),
        ({"matchScenario": True}, "matchScenario: only messages are searched"),
        ({"content": "{{char}} smiles"}, "{{char}}: stays as it is; give --char NAME"),
        ({"content": "{{random:a,b}}"}, "{{random:a,b}}: stays as it is; nothing replaces it here"),
        ({"content": "@@depth 3\nx"}, "decorator @@depth 3: has no meaning here"),
        ({"key": ["/^sword/"]}, "key /^sword/: ^ and $ are the ends of one message here, not of all scanned text"),
        ({"key": ["/([/"]}, "key /([/: no valid expression; sought as plain text, as SillyTavern does"),
    ],
)
def test_what_could_not_be_carried_over_is_said(entry: dict[str, Any], line: str) -> None:
    one = carried(book(**entry), invalid=("/([/",))
    assert one.lost == (line,)
    if one.memory is not None:
        assert one.memory.extra == {"notes": [line]}


def test_names_replace_macros_and_book_settings_are_defaults() -> None:
    names = Defaults(depth=6, whole_words=False, case_sensitive=True, names={"char": "Aria", "user": "Bo"})
    one = carried(book(key=["{{User}}"], content="{{char}} knows {{user}}"), names)
    assert one.memory is not None
    assert one.memory.prompt == "Aria knows Bo"
    assert one.memory.trigger.endswith(f"{CALL}[/Bo/], 'any', 6) > 0")
    assert one.lost == ()


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
        assert carried(document).lost == ("cooldown 3: a trigger does not know when it last fired",)
    assert carried({"entries": [entry | {"enabled": False}]}).memory is None
    assert trigger(
        {"entries": [entry | {"use_regex": True, "keys": ["s.ord"], "selective": False}], "scan_depth": 3}
    ) == (f"{CALL}[/s.ord/], 'any', 5) > 0")


def test_odd_texts_stay_inside_their_literals() -> None:
    keys = ["a\nb", "</x>", "`${x}`", "\\", "\u2028"]
    one = carried(book(key=keys, comment="line\nbreak \u2028 */ alert()", matchWholeWords=False))
    assert one.memory is not None
    assert one.memory.name == "line break */ alert()"
    assert one.memory.trigger.split("\n") == [
        "// World info entry 7: line break */ alert()",
        f"{CALL}[/a\\nb/i, '</x>', '`${{x}}`', '\\\\'], 'any', 2) > 0",
    ]


def test_entries_of_one_name_get_numbers() -> None:
    entries = {str(number): book()["entries"]["7"] for number in range(3)}
    names = [one.title for one in carrying.carry(read_book({"entries": entries}), Defaults(), "b")]
    assert names == ["Sword", "Sword (2)", "Sword (3)"]


@pytest.mark.parametrize(
    ("document", "sentence"),
    [
        ([], "is a list and no lorebook"),
        ({}, "has no `entries`; export the lorebook"),
        ({"spec": "chara_card_v2", "data": {}}, "is a character card without a character book"),
        ({"entries": {"0": 5}}, "entry 0: is no object"),
        (book(selectiveLogic=9), "entry 7: selectiveLogic is 9, known are 0 to 3"),
        (book(scanDepth="deep"), "entry 7: invalid literal"),
    ],
)
def test_what_is_no_lorebook_gets_one_sentence(document: Any, sentence: str) -> None:
    with pytest.raises(BookError, match=re.escape(sentence)):
        read_book(document)


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
    found = carrying.carry(read_book({"entries": entries}), Defaults(), "b")
    sources = [one.memory.trigger for one in found if one.memory]
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


# --- the commands ----------------------------------------------------------------------------------------------


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = cli.main(arguments)
    out = capsys.readouterr()
    return code, out.out, out.err


def test_import_worldinfo_writes_a_pack_that_checks_clean(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    source, target = tmp_path / "book.json", tmp_path / "pack.json"
    entries = {
        "0": {"key": ["/([/", "dragon"], "content": "a", "comment": "Dragon"},
        "1": {"key": ["x"], "content": "b", "disable": True},
        "2": {"key": ["王"], "content": "c"},
        "3": "torn",
        "4": {"key": ["x"], "content": "d", "selectiveLogic": 9},
    }
    source.write_bytes(json.dumps({"entries": entries}, ensure_ascii=False).encode("gbk"))
    code, out, err = run(capsys, "import", "worldinfo", str(source), "-o", str(target))
    assert (code, out) == (2, "")
    assert "is not UTF-8" in err
    code, out, err = run(capsys, "import", "worldinfo", str(source), "-o", str(target), "--encoding", "gbk")
    assert (code, err) == (0, "")
    assert out.splitlines() == [
        "Dragon: key /([/: no valid expression; sought as plain text, as SillyTavern does",
        "x: left out: it is disabled",
        "entry 3: left out: it cannot be read: is no object",
        "entry 4: left out: it cannot be read: selectiveLogic is 9, known are 0 to 3",
        "all: names of speakers are not searched, only what they say",
        "all: recursion: the text of one memory does not fire another",
        f"2 of 5 carried over to {target}: 1 wholly, 1 with a note; 3 left out",
    ]
    assert [memory.name for memory in read_pack(str(target))] == ["Dragon", "王"]
    assert run(capsys, "pack", "check", str(target))[0] == 0
    before = target.read_bytes()
    code, _, err = run(capsys, "import", "worldinfo", str(source), "-o", str(target), "--encoding", "gbk")
    assert code == 2
    assert "exists already; add --force to replace it" in err
    assert target.read_bytes() == before
    options = ("--encoding", "gbk", "--force", "--depth", "7")
    assert run(capsys, "import", "worldinfo", str(source), "-o", str(target), *options)[0] == 0
    assert "'any', 7)" in read_pack(str(target))[1].trigger


def test_import_gentian_keeps_triggers_and_says_what_will_not_work(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    works = "(await match_keys(args, ['生日', /什么(日子|节日)/], 'both')) || new Date().getMonth() === 7"
    rows = [
        {"name": "主人的生日", "prompt": "主人的生日是7月17日。", "trigger": works},
        {"prompt_name": "b", "prompt": "x", "trigger": "args.chat_log.length > 3", "createdAt": 1700000000000, "z": 1},
        {"name": "c", "prompt": "x", "trigger": "logical_results.in_assist"},
        {"name": "d", "prompt": "x"},
        {"name": "c", "prompt": "x", "trigger": "1"},
        "a text",
        {"name": "e", "prompt": "x", "trigger": ["no text"]},
    ]
    source = tmp_path / "long-term-memory.json"
    source.write_text(json.dumps(rows, ensure_ascii=False), "utf-8")
    code, out, err = run(capsys, "import", "gentian", str(source))
    assert code == 0
    first, second, third = json.loads(out)
    assert first["trigger"] == works
    assert (second["name"], second["createdAt"], second["z"]) == ("b", "2023-11-14T22:13:20.000Z", 1)
    assert second["createdContext"] == "long-term-memory.json, memory 2"
    assert third["notes"][-1] == "does not run here: logical_results is not defined"
    assert err.splitlines() == [
        "主人的生日: getMonth() === 7: months count from 0, this is 8月, but the prompt says 7月",
        "b: args.chat_log: does not exist here; args is context (messages, conversation_id, participants)",
        "c (memory 3): logical_results: does not exist here",
        "c (memory 3): does not run here: logical_results is not defined",
        "d: left out: it has no trigger",
        "c (memory 5): left out: another memory before it has the same name",
        "memory 6: left out: it is no object with name, prompt and trigger",
        "e: left out: it has no trigger",
        "1 of 7 carried over: 0 wholly, 1 with a note; 2 kept that cannot run here as they are (b, c); 4 left out",
    ]


def test_entries_without_uid_are_told_apart(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    source = tmp_path / "book.json"
    entry = {"keys": ["王"], "content": "c", "enabled": True, "extensions": {"cooldown": 2}}
    source.write_text(json.dumps({"entries": [entry, {**entry, "enabled": False}, {**entry, "id": 0}]}), "utf-8")
    code, out, err = run(capsys, "import", "worldinfo", str(source))
    assert code == 0
    assert err.splitlines()[:3] == [
        "王 (entry #1): cooldown 2: a trigger does not know when it last fired",
        "王 (entry #2): left out: it is disabled",
        "王 (2): cooldown 2: a trigger does not know when it last fired",
    ]
    assert [row["createdContext"] for row in json.loads(out)] == ["book.json, entry #1", "book.json, entry 0"]


def test_other_files_are_refused_with_one_sentence(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    other = tmp_path / "a.json"
    other.write_text("{}", "utf-8")
    for arguments, sentence in (
        (["worldinfo", "card.png"], "card.png is a picture; export"),
        (["worldinfo", str(tmp_path / "nowhere.json")], "cannot be read"),
        (["worldinfo", str(other), "--depth", "0"], "--depth must be at least 1"),
        (["worldinfo", str(other)], "has no `entries`"),
        (["gentian", str(other)], "is no list of memories"),
    ):
        code, out, err = run(capsys, "import", *arguments, "-o", str(tmp_path / "out.json"))
        assert (code, out, err.count("\n")) == (2, "", 1)
        assert sentence in err
    assert not (tmp_path / "out.json").exists()
    with pytest.raises(gentian.MemoriesError, match="holds no memories"):
        gentian.carry([5], "a")


@pytest.mark.anyio
async def test_only_expressions_that_may_be_invalid_are_tried_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    bad = ["/(/", "/a/zz", "//", "/[z-a]/u", "/(?<n>a)(?<n>b)/", "/\\k<x>(?<y>a)/u"]
    good = [f"/word{number}/i" for number in range(450)] + ["/a\nb/", "/a/b/", "/\u2028/", "/'`${x}/", "/生日|ü/u"]
    async with TriggerSandbox(workers=1) as sandbox:
        tried: list[str] = []
        alone = sandbox.match_texts

        async def counted(key: str, texts: list[str]) -> Any:
            tried.append(key)
            return await alone(key, texts)

        monkeypatch.setattr(sandbox, "match_texts", counted)
        assert await invalid_expressions(sandbox, [*good, *bad, *bad], datetime.now(UTC)) == set(bad)
    assert len(tried) < len(bad)
