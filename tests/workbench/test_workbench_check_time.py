"""`check --time`: the slowest trigger comes first, and one that fails along the chat is named."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sandbox import cli
from sandbox.workbench.checking.checks import sampled

SLOW = "const n = 200000\nlet i = 0\nwhile (i < n) i += 1\ni > 5 && match_keys(context.messages, ['a']) > 0"


@pytest.fixture
def chat(tmp_path: Path) -> str:
    (tmp_path / "chat.txt").write_text("user: a\nuser: b\nuser: c\n", "utf-8")
    return str(tmp_path / "chat.txt")


def timed(
    capsys: pytest.CaptureFixture[str], folder: Path, chat: str, triggers: dict[str, str]
) -> tuple[int, list[str]]:
    rows = [{"name": name, "prompt": "p", "trigger": text} for name, text in triggers.items()]
    (folder / "pack.json").write_text(json.dumps(rows), "utf-8")
    code = cli.main(["check", str(folder / "pack.json"), "--time", chat])
    out = capsys.readouterr()
    assert out.err == ""
    return code, out.out[out.out.index("ms of one run") :].splitlines()


@pytest.mark.alone
def test_the_slowest_comes_first(capsys: pytest.CaptureFixture[str], tmp_path: Path, chat: str) -> None:
    triggers = {"quick": "match_keys(context.messages, ['a']) > 0", "慢": SLOW}
    code, (head, first, second) = timed(capsys, tmp_path, chat, triggers)
    assert (code, head.split()[-2:]) == (0, ["median", "slowest"])
    assert (first.split()[0], second.split()[0]) == ("慢", "quick")
    assert float(first.split()[1]) > float(second.split()[2])
    assert all(float(row.split()[1]) <= float(row.split()[2]) for row in (first, second))


def test_triggers_that_fail_are_named_and_not_timed(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, chat: str
) -> None:
    triggers = {
        "endless": "while (context.messages.length === 2);",
        "broken": "if (",
        "late": "context.messages.length < 2 || context.participants.x.y",
        "fine": "match_keys(context.messages, ['a']) > 0",
    }
    code, lines = timed(capsys, tmp_path, chat, triggers)
    assert code == 1
    assert lines[1].startswith("fine ")
    assert lines[2].startswith("endless: not timed: at #2 it failed (timeout): stopped after ")
    assert lines[3].startswith("broken: not timed: at #1 it failed (syntax): SyntaxError: ")
    assert lines[4].startswith("late: not timed: at #2 it failed (thrown): TypeError: ")
    assert lines[4].endswith("at line 1, column 55")


@pytest.mark.parametrize(
    ("total", "numbers"), [(1, [1]), (3, [1, 2, 3]), (24, list(range(2, 25, 2))), (1000, [83, 166, 250, 333])]
)
def test_messages_are_spread(total: int, numbers: list[int]) -> None:
    found = sampled(total)
    assert found[: len(numbers)] == numbers
    assert found[-1] == total


def test_a_chat_that_cannot_be_used_gets_one_sentence(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "empty.txt").write_text("", "utf-8")
    for name, said in (("missing.txt", "cannot be read"), ("empty.txt", "has no messages; give a chat with some")):
        assert cli.main(["check", "-e", "1 > 0", "--time", str(tmp_path / name)]) == 2
        assert said in capsys.readouterr().err
