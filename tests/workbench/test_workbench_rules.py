"""Rules of firing in the workbench: packs along a chat, what comes at its last message, fixtures and checks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from memory_server.kernel import recalled_block
from memory_server.memories import turns
from sandbox import cli
from sandbox.workbench import firing_replay
from sandbox.workbench.timeline import HELD_BACK, MEANINGS, picture

DRAGON = "match_keys(context.messages, ['dragon'], 'any', 1) > 0"
TEA = "match_keys(context.messages, ['tea'], 'any', 1) > 0"
BOOK = {"id": "b", "name": "Book"}
START_MS = 1_782_864_000_000
CHAT = ("hello", "hi", "a dragon!", "where?", "some tea", "ok", "bye dragon", "bye")
ALONG = [
    ({"trigger": "true"}, "########"),
    ({"trigger": DRAGON}, "..#...#."),
    ({"trigger": "true", "cooldown": 3}, "#cc#cc#c"),
    ({"trigger": TEA, "sticky": 3}, "....#ss."),
    ({"trigger": TEA, "sticky": 2, "cooldown": 9}, "....#s.."),
    ({"trigger": "true", "delay": 3}, "dd######"),
    ({"trigger": "true", "once": True}, "#ooooooo"),
    ({"trigger": "true", "probability": 0}, "pppppppp"),
    ({"trigger": "true", "characterFilter": {"names": ["Bob"]}}, "aaaaaaaa"),
    ({"trigger": "true", "delayUntilRecursion": 1, "recursive": True, "book": BOOK}, "wwwwwwww"),
    ({"trigger": "context.last_fired === null"}, "#......."),
    ({"trigger": "context.last_fired === null || context.last_fired.messages >= 4"}, "#...#..."),
    ({"trigger": "context.last_fired === null || context.last_fired.ms >= 120000"}, "#.#.#.#."),
    ({"trigger": "context.last_fired.messages > 1"}, "!!!!!!!!"),
    ({"trigger": "nope"}, "!!!!!!!!"),
]


def memory(name: str = "tested", **fields: Any) -> dict[str, Any]:
    return {"name": name, "prompt": f"About {name}.", "trigger": "true", **fields}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    rows = []
    for number, text in enumerate(CHAT):
        role = ("user", "assistant")[number % 2]
        rows.append(
            {"role": role, "content": text, "timestamp": 1_782_864_000_000 + 60_000 * number}
        )
    Path("chat.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    return tmp_path


def run(
    capsys: pytest.CaptureFixture[str], *arguments: str, pack: list[dict[str, Any]]
) -> tuple[int, list[str]]:
    Path("pack.json").write_text(json.dumps(pack), "utf-8")
    code = cli.main(arguments)
    out = capsys.readouterr()
    assert not out.err
    return code, out.out.splitlines()


def along(
    capsys: pytest.CaptureFixture[str], pack: list[dict[str, Any]], *more: str
) -> dict[str, str]:
    """The marks of each memory along the chat."""
    _code, lines = run(
        capsys, "timeline", "pack.json", "--chat", "chat.jsonl", "--tz", "UTC", *more, pack=pack
    )
    names = [item["name"] for item in pack]
    return {
        line.split()[0]: line.split()[1]
        for line in lines
        if line.split()[:1][0] in names and "failed" not in line
    }


@pytest.mark.usefixtures("folder")
def test_memories_along_a_chat(capsys: pytest.CaptureFixture[str]) -> None:
    pack = [memory(f"m{number}", **fields) for number, (fields, _marks) in enumerate(ALONG)]
    assert along(capsys, pack) == {
        f"m{number}": marks for number, (_fields, marks) in enumerate(ALONG)
    }


@pytest.mark.usefixtures("folder")
def test_fixtures_find_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    pack = [memory(f"m{number}", **fields) for number, (fields, _marks) in enumerate(ALONG)]
    cases = {
        f"m{number}": marks for number, (_fields, marks) in enumerate(ALONG) if "!" not in marks
    }
    right = [{"memory": name, "fires_at": _numbers(marks, "#s")} for name, marks in cases.items()]
    wrong = [
        {"memory": name, "fires_at": _numbers(marks, ".cdopaw")} for name, marks in cases.items()
    ]
    for chosen, code, summary in (
        (right, 0, f"{len(cases)} passed"),
        (wrong, 1, f"{len(cases)} failed"),
    ):
        fixture = {"pack": "pack.json", "chat_file": "chat.jsonl", "cases": chosen}
        Path("a.trigger.json").write_text(json.dumps(fixture), "utf-8")
        exit_status, lines = run(capsys, "test", "a.trigger.json", pack=pack)
        assert (exit_status, summary in "\n".join(lines)) == (code, True), lines


def _numbers(marks: str, chosen: str) -> list[int]:
    return [number for number, mark in enumerate(marks, start=1) if mark in chosen]


@pytest.mark.usefixtures("folder")
def test_one_of_a_group_comes(capsys: pytest.CaptureFixture[str]) -> None:
    rivals = [
        memory("red", trigger=DRAGON, group="dragons", order=200, groupOverride=True),
        memory("old", trigger=DRAGON, group=["dragons", "x"]),
        memory("tea", trigger=TEA),
    ]
    assert along(capsys, rivals) == {"red": "..#...#.", "old": "..g...g.", "tea": "....#..."}


@pytest.mark.usefixtures("folder")
def test_a_text_of_its_book_makes_a_memory_come(capsys: pytest.CaptureFixture[str]) -> None:
    fields = {"recursive": True, "book": BOOK}
    king = memory("king", trigger="match_keys(context.messages, ['gold'], 'any', 1) > 0", **fields)
    gold = memory("red", prompt="It sleeps on gold.", trigger=DRAGON, **fields)
    assert along(capsys, [king, gold])["king"] == "..#...#."
    assert along(capsys, [king, gold | {"preventRecursion": True}])["king"] == "........"
    assert along(capsys, [king | {"book": {"id": "c", "name": "C"}}, gold])["king"] == "........"


@pytest.mark.usefixtures("folder")
def test_two_memories_with_the_same_trigger_came_each_at_its_own_time(
    capsys: pytest.CaptureFixture[str],
) -> None:
    fields = {"recursive": True, "book": BOOK}
    gold = memory("red", prompt="It sleeps on gold.", trigger=DRAGON, **fields)
    trigger = "context.last_fired === null && match_keys(context.messages, ['gold'], 'any', 1) > 0"
    king = memory("king", trigger=trigger, **fields)
    heir = memory("heir", trigger=trigger, delay=5, **fields)
    marks = along(capsys, [gold, king, heir])
    assert (marks["king"], marks["heir"]) == ("..#.....", "..d...#.")


@pytest.mark.usefixtures("folder")
def test_what_finds_no_room_is_marked(capsys: pytest.CaptureFixture[str]) -> None:
    pack = [memory("first", prompt="a" * 100, order=300), memory("late", prompt="b" * 100)]
    assert along(capsys, pack) == {"first": "########", "late": "########"}
    assert along(capsys, pack, "--max-chars", "400") == {"first": "########", "late": "rrrrrrrr"}
    ignoring = [pack[0], pack[1] | {"ignoreBudget": True}]
    assert along(capsys, ignoring, "--max-chars", "400") == {
        "first": "########",
        "late": "########",
    }
    assert along(capsys, [memory("a", prompt="same"), memory("b", prompt="same")]) == {
        "a": "#" * 8,
        "b": "t" * 8,
    }


@pytest.mark.usefixtures("folder")
def test_run_says_what_comes_in_which_order_and_why_the_others_do_not(
    capsys: pytest.CaptureFixture[str],
) -> None:
    pack = [
        memory("late", order=50, cooldown=3),
        memory("first", order=200, group="g", groupOverride=True),
        memory("rival", group="g"),
        memory("big", prompt="b" * 200, order=1),
        memory("quiet", trigger="false"),
        memory("bad", trigger="nope"),
        memory("off", off=True),
    ]
    arguments = ("run", "pack.json", "--chat", "chat.jsonl", "--at", "4", "--max-chars", "400")
    code, lines = run(capsys, *arguments, pack=pack)
    assert code == 3
    assert lines == [
        "2 memories of 6 come, with 40 of 138 characters",
        " order   chars  memory",
        "   200      21  first [g]",
        "    50      19  late",
        "",
        "fired and left out:",
        "     1     200  big: no room left",
        "   100      12  rival [g]: another one of its group came",
        "bad failed: reference: ReferenceError: nope is not defined at line 1, column 1",
    ]
    assert run(capsys, *arguments, pack=[memory(trigger="false")])[0] == 1
    assert run(capsys, *arguments, pack=[memory()])[0] == 0


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("case", "fields"),
    [
        ({"expect": "fired"}, {"cooldown": 3}),
        ({"expect": "fired", "last_fired": {"messages": 3, "ms": 0}}, {"cooldown": 3}),
        ({"expect": "held back", "last_fired": {"messages": 2, "ms": 0}}, {"cooldown": 3}),
        (
            {"expect": {"held back": "cooldown"}, "last_fired": {"messages": 2, "ms": 0}},
            {"cooldown": 3},
        ),
        (
            {"expect": {"held back": "once"}, "last_fired": {"messages": 200, "ms": 9}},
            {"once": True},
        ),
        ({"expect": {"held back": "delay"}}, {"delay": 9}),
        ({"expect": "fired", "messages": 9}, {"delay": 9}),
        ({"expect": {"held back": "chance"}}, {"probability": 0}),
        (
            {"expect": "fired", "last_fired": {"messages": 1, "ms": 0}},
            {"sticky": 2, "trigger": "false"},
        ),
        (
            {"expect": "quiet", "last_fired": {"messages": 2, "ms": 0}},
            {"sticky": 2, "trigger": "false"},
        ),
        (
            {"expect": "quiet", "last_fired": {"messages": 2, "ms": 5}},
            {"trigger": "context.last_fired.ms > 5"},
        ),
        (
            {"expect": "fired", "last_fired": {"messages": 2, "ms": 6}},
            {"trigger": "context.last_fired.ms > 5"},
        ),
        ({"expect": {"failed": "thrown"}}, {"trigger": "context.last_fired.ms > 5"}),
        ({"expect": {"held back": "room"}, "max_chars": 130}, {"order": 5}),
    ],
)
def test_a_fixture_says_when_a_memory_last_came(
    capsys: pytest.CaptureFixture[str], case: dict[str, Any], fields: dict[str, Any]
) -> None:
    fixture = {"pack": "pack.json", "memory": "tested", "chat_file": "chat.jsonl", **case}
    Path("a.trigger.json").write_text(json.dumps(fixture), "utf-8")
    code, lines = run(capsys, "test", "a.trigger.json", pack=[memory(**fields)])
    assert code == 0, lines


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("case", "sentence"),
    [
        (
            {"expect": "fired", "last_fired": {"messages": 2}},
            "`last_fired`: it must have `messages` and `ms`",
        ),
        ({"expect": "fired", "messages": 3}, "`messages` is 3, but `chat` has 8 messages"),
        (
            {"expect": {"held back": "weather"}},
            "{held back: REASON} with a reason of group, chance, cooldown",
        ),
    ],
)
def test_a_wrong_fixture_gets_one_sentence(
    capsys: pytest.CaptureFixture[str], case: dict[str, Any], sentence: str
) -> None:
    fixture = {"pack": "pack.json", "memory": "tested", "chat_file": "chat.jsonl", **case}
    Path("a.trigger.json").write_text(json.dumps(fixture), "utf-8")
    code, lines = run(capsys, "test", "a.trigger.json", pack=[memory()])
    assert code == 2
    assert sentence in "\n".join(lines)


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        (
            {"cooldown": "three"},
            '`cooldown` must be a whole number of messages from 0, not "three"; it has no effect',
        ),
        (
            {"probability": 101},
            "`probability` must be a number from 0 to 100, not 101; it has no effect",
        ),
        ({"once": 1}, "`once` must be true or false, not 1; it has no effect"),
        ({"group": 3}, "`group` must be a name, or a list of names, not 3; it has no effect"),
        ({"cooldwn": 3}, "`cooldwn` is no rule; did you mean `cooldown`?"),
        ({"ignore_budget": True}, "`ignore_budget` is no rule; did you mean `ignoreBudget`?"),
        (
            {"group": "dragons"},
            "no other memory of this pack is in the group `dragons`, so the group changes nothing",
        ),
        (
            {"once": True, "cooldown": 3},
            "`cooldown` has no effect beside `once`: the memory comes in one message of a chat",
        ),
        (
            {"recursive": True},
            "`recursive` has no effect without `book`: only texts of the same book are searched",
        ),
        ({"excludeRecursion": True}, "`excludeRecursion` has no effect without `recursive: true`"),
    ],
)
def test_pack_check_says_what_a_rule_cannot_be(
    capsys: pytest.CaptureFixture[str], fields: dict[str, Any], sentence: str
) -> None:
    pack = [memory(trigger=DRAGON, **fields), memory("other", trigger=TEA)]
    code, lines = run(capsys, "pack", "check", "pack.json", pack=pack)
    assert code == 0
    assert lines[:-1] == [f"tested: warning: {sentence}"]
    assert "0 with errors, 1 with warnings" in lines[-1]


@pytest.mark.usefixtures("folder")
def test_pack_check_has_no_word_about_rules_that_can_be(capsys: pytest.CaptureFixture[str]) -> None:
    tested = memory(trigger=DRAGON, order=5, cooldown=3, createdAt="2026-01-01", tags=["a"])
    code, lines = run(
        capsys, "pack", "check", "pack.json", pack=[tested, memory("other", trigger=TEA)]
    )
    assert code == 0
    assert lines[:-1] == []
    assert "0 with errors, 0 with warnings" in lines[-1]


@pytest.mark.usefixtures("folder")
def test_pack_show_has_the_rules_on_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    _code, lines = run(
        capsys,
        "pack",
        "show",
        "pack.json",
        pack=[memory(once=True, order=5, group="g", tags=["x"])],
    )
    assert lines[-2:] == ['rules: order 5, group "g", once true', "tags: x"]


@pytest.mark.usefixtures("folder")
def test_a_single_trigger_may_be_told_when_it_last_fired(
    capsys: pytest.CaptureFixture[str],
) -> None:
    arguments = ("run", "-e", "context.last_fired.messages > 2", "--last-fired")
    assert run(capsys, *arguments, '{"messages": 3, "ms": 0}', pack=[])[0] == 0
    assert run(capsys, *arguments, '{"messages": 2, "ms": 0}', pack=[])[0] == 1
    assert run(capsys, *arguments, "null", pack=[])[0] == 3
    assert cli.main([*arguments, "3"]) == 2
    assert "it must have `messages` and `ms`" in capsys.readouterr().err


def test_the_room_is_that_of_the_server() -> None:
    assert (firing_replay.USUAL_CHARS, firing_replay.FRAME_CHARS) == (
        turns.MAX_CHARS,
        recalled_block.FRAME_CHARS,
    )


def test_each_mark_has_a_meaning_and_a_place() -> None:
    for mark in (*HELD_BACK.values(), *MEANINGS):
        assert mark in MEANINGS
        assert picture(f".{mark}.", 3) == mark
