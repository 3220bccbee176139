"""Packs in the workbench: triggers along a chat, what fires at its last message, fixtures, and checks of rules."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from cli_program import CommandLine

from sandbox import cli

DRAGON = "match_keys(context.messages, ['dragon'], 'any', 1) > 0"
TEA = "match_keys(context.messages, ['tea'], 'any', 1) > 0"
BOOK = {"id": "b", "name": "Book"}
CHAT = ("hello", "hi", "a dragon!", "where?", "some tea", "ok", "bye dragon", "bye")
ALONG = [
    ("true", [1, 2, 3, 4, 5, 6, 7, 8]),
    (DRAGON, [3, 7]),
    ("context.last_fired === null", [1]),
    ("context.last_fired === null || context.last_fired.messages >= 4", [1, 5]),
    ("context.last_fired === null || context.last_fired.ms >= 120000", [1, 3, 5, 7]),
    ("context.last_fired === null && " + TEA, [5]),
]
"""Triggers, and the messages of the chat at which each fires."""


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
    workbench: CommandLine, *arguments: str, pack: list[dict[str, Any]]
) -> tuple[int, list[str]]:
    """Run a command where `pack.json` holds these memories: its status, and the lines that it prints."""
    Path("pack.json").write_text(json.dumps(pack), "utf-8")
    status, out, err = workbench(*arguments)
    assert not err
    return status, out.splitlines()


@pytest.mark.usefixtures("folder")
def test_a_fixture_says_at_which_messages_a_trigger_fires(
    workbench: CommandLine,
) -> None:
    pack = [memory(f"m{number}", trigger=trigger) for number, (trigger, _at) in enumerate(ALONG)]
    right = [
        {"memory": f"m{number}", "fires_at": fires_at}
        for number, (_trigger, fires_at) in enumerate(ALONG)
    ]
    wrong = [{**case, "fires_at": [8] if 8 not in case["fires_at"] else []} for case in right]
    for chosen, code, summary in (
        (right, 0, f"{len(ALONG)} passed"),
        (wrong, 1, f"{len(ALONG)} failed"),
    ):
        fixture = {"pack": "pack.json", "chat_file": "chat.jsonl", "cases": chosen}
        Path("a.trigger.json").write_text(json.dumps(fixture), "utf-8")
        exit_status, lines = run(workbench, "test", "a.trigger.json", pack=pack)
        assert (exit_status, summary in "\n".join(lines)) == (code, True), lines


@pytest.mark.usefixtures("folder")
def test_the_first_search_of_a_fixture_knows_when_the_memory_last_came(
    workbench: CommandLine,
) -> None:
    trigger = "context.last_fired === null || context.last_fired.messages >= 4"
    case = {"memory": "tested", "last_fired": {"messages": 2, "ms": 0}, "fires_at": [3, 7]}
    fixture = {"pack": "pack.json", "chat_file": "chat.jsonl", "cases": [case]}
    Path("a.trigger.json").write_text(json.dumps(fixture), "utf-8")
    code, lines = run(workbench, "test", "a.trigger.json", pack=[memory(trigger=trigger)])
    assert code == 0, lines


@pytest.mark.usefixtures("folder")
def test_run_says_which_triggers_of_a_pack_fire_in_which_order(
    workbench: CommandLine,
) -> None:
    pack = [
        memory("late", order=50, cooldown=3),
        memory("first", order=200, group="g", groupOverride=True),
        memory("quiet", trigger="false"),
        memory("bad", trigger="nope"),
        memory("off", off=True),
    ]
    arguments = ("run", "pack.json", "--chat", "chat.jsonl", "--at", "4")
    code, lines = run(workbench, *arguments, pack=pack)
    assert code == 3
    assert lines == [
        "2 of 4 fire",
        " order   chars  memory",
        "   200      12  first [g]",
        "    50      11  late",
        "Their groups, chance, cooldowns and room decide where they are stored.",
        "bad failed: reference: ReferenceError: nope is not defined at line 1, column 1",
    ]
    assert run(workbench, *arguments, pack=[memory(trigger="false")])[0] == 1
    assert run(workbench, *arguments, pack=[memory()])[0] == 0


@pytest.mark.usefixtures("folder")
def test_why_says_what_each_trigger_found(workbench: CommandLine) -> None:
    cases = [
        {"memory": "tested", "at": 7, "expect": "fired", "name": "dragon"},
        {"memory": "tested", "expect": "quiet", "name": "no dragon"},
    ]
    fixture = {"pack": "pack.json", "chat_file": "chat.jsonl", "cases": cases}
    Path("a.trigger.json").write_text(json.dumps(fixture), "utf-8")
    code, lines = run(workbench, "test", "--why", "a.trigger.json", pack=[memory(trigger=DRAGON)])
    out = "\n".join(lines)
    assert code == 0
    verdicts = [line for line in lines if line.startswith("it ")]
    assert verdicts == ["it fired", "it was quiet"]
    assert "dragon in #7 user: bye dragon" in out
    assert "not found: dragon" in out
    _code, lines = run(workbench, "test", "a.trigger.json", pack=[memory(trigger=DRAGON)])
    assert not [line for line in lines if line.startswith("it ")]


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("case", "fields"),
    [
        (
            {"expect": "quiet", "last_fired": {"messages": 2, "ms": 5}},
            {"trigger": "context.last_fired.ms > 5"},
        ),
        (
            {"expect": "fired", "last_fired": {"messages": 2, "ms": 6}},
            {"trigger": "context.last_fired.ms > 5"},
        ),
        ({"expect": {"failed": "thrown"}}, {"trigger": "context.last_fired.ms > 5"}),
    ],
)
def test_a_fixture_says_when_a_memory_last_came(
    workbench: CommandLine, case: dict[str, Any], fields: dict[str, Any]
) -> None:
    fixture = {"pack": "pack.json", "memory": "tested", "chat_file": "chat.jsonl", **case}
    Path("a.trigger.json").write_text(json.dumps(fixture), "utf-8")
    code, lines = run(workbench, "test", "a.trigger.json", pack=[memory(**fields)])
    assert code == 0, lines


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("case", "sentence"),
    [
        (
            {"expect": "fired", "last_fired": {"messages": 2}},
            "`last_fired`: it must have `messages` and `ms`",
        ),
        (
            {"expect": "held back"},
            "`expect` must be fired, quiet, failed, or {failed: KIND} with a kind of",
        ),
        ({"expect": "fired", "max_chars": 400}, "unknown key `max_chars`"),
    ],
)
def test_a_wrong_fixture_gets_one_sentence(
    workbench: CommandLine, case: dict[str, Any], sentence: str
) -> None:
    fixture = {"pack": "pack.json", "memory": "tested", "chat_file": "chat.jsonl", **case}
    Path("a.trigger.json").write_text(json.dumps(fixture), "utf-8")
    code, lines = run(workbench, "test", "a.trigger.json", pack=[memory()])
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
    workbench: CommandLine, fields: dict[str, Any], sentence: str
) -> None:
    pack = [memory(trigger=DRAGON, **fields), memory("other", trigger=TEA)]
    code, lines = run(workbench, "pack", "check", "pack.json", pack=pack)
    assert code == 0
    assert lines[:-1] == [f"tested: warning: {sentence}"]
    assert "0 with errors, 1 with warnings" in lines[-1]


@pytest.mark.usefixtures("folder")
def test_pack_check_has_no_word_about_rules_that_can_be(workbench: CommandLine) -> None:
    tested = memory(trigger=DRAGON, order=5, cooldown=3, createdAt="2026-01-01", tags=["a"])
    code, lines = run(
        workbench, "pack", "check", "pack.json", pack=[tested, memory("other", trigger=TEA)]
    )
    assert code == 0
    assert lines[:-1] == []
    assert "0 with errors, 0 with warnings" in lines[-1]


@pytest.mark.usefixtures("folder")
def test_pack_show_has_the_rules_on_one_line(workbench: CommandLine) -> None:
    _code, lines = run(
        workbench,
        "pack",
        "show",
        "pack.json",
        pack=[memory(once=True, order=5, group="g", tags=["x"])],
    )
    assert lines[-2:] == ['rules: order 5, group "g", once true', "tags: x"]


@pytest.mark.usefixtures("folder")
def test_a_single_trigger_may_be_told_when_it_last_fired(
    workbench: CommandLine,
) -> None:
    arguments = ("run", "-e", "context.last_fired.messages > 2", "--last-fired")
    assert run(workbench, *arguments, '{"messages": 3, "ms": 0}', pack=[])[0] == 0
    assert run(workbench, *arguments, '{"messages": 2, "ms": 0}', pack=[])[0] == 1
    assert run(workbench, *arguments, "null", pack=[])[0] == 3
    assert cli.main([*arguments, "3"]) == 2
    assert "it must have `messages` and `ms`" in workbench.streams.readouterr().err
