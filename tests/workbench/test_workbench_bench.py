"""`bench`: the dear trigger comes first, and its dear operand."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from pathlib import Path

import pytest

from sandbox import Failed, TriggerSandbox, cli
from sandbox.workbench.timeline.benching import _alone, _parts, _spread


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = cli.main(["bench", *arguments])
    out = capsys.readouterr()
    return code, out.out, out.err


def test_the_slowest_comes_first_with_its_slowest_operand(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    chat, pack = tmp_path / "chat.txt", tmp_path / "pack.json"
    chat.write_text("user: a\nuser: b\nuser: c\n", "utf-8")
    slow = "const n = 200000\nlet i = 0\nn === 1 || ((() => { while (i < n) i += 1; return i })() > 5) || n > 3"
    triggers = {"quick": "match_keys(context.messages, ['a']) > 0", "慢": slow, "other": "1 > 2"}
    rows = [{"name": name, "prompt": "p", "trigger": text} for name, text in triggers.items()]
    pack.write_text(json.dumps(rows), "utf-8")
    code, out, err = run(capsys, str(pack), "--chat", str(chat), "--top", "2")
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert re.fullmatch(
        r"a search with 3 triggers: \d+\.\d ms, at most \d+\.\d ms; \d+\.\d% of the budget of 2 s", lines[0]
    )
    assert lines[2].startswith("慢 ")
    assert "while (i < n)" in lines[3]
    assert sum(not line.startswith(" ") for line in lines) == 4


@pytest.mark.anyio
async def test_an_operand_alone_does_what_it_does_in_its_trigger() -> None:
    """After a line without a semicolon a bracket would call what stands there."""
    source = "let i = 0\ni === 1 || ((() => { throw new Error('reached') })() > 5)"
    (_, second) = _parts(source)
    async with TriggerSandbox(workers=1) as sandbox:
        (verdict,) = await sandbox.evaluate([_alone(source, second)], {}, now=datetime.now(UTC), seed=0)
    assert isinstance(verdict, Failed)
    assert "reached" in verdict.message


def test_triggers_that_fail_are_named_and_not_timed(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    chat, pack = tmp_path / "chat.txt", tmp_path / "pack.json"
    chat.write_text("user: a\nuser: b\n", "utf-8")
    triggers = {
        "endless": "while (context.messages.length === 2);",
        "broken": "if (",
        "late": "context.messages.length < 2 || context.participants.x.y",
        "fine": "match_keys(context.messages, ['a']) > 0",
    }
    rows = [{"name": name, "prompt": "p", "trigger": text} for name, text in triggers.items()]
    pack.write_text(json.dumps(rows), "utf-8")
    code, out, err = run(capsys, str(pack), "--chat", str(chat))
    assert (code, err) == (1, "")
    lines = out.splitlines()
    assert lines[1].startswith("endless: failed at #2 (timeout): stopped after ")
    assert lines[2].startswith("broken: failed at #1 (syntax): SyntaxError: ")
    assert lines[3].startswith("late: failed at #2 (thrown): TypeError: ")
    assert "at line 1, column 55" in lines[3]
    assert [line.split()[0] for line in lines[5:]] == ["slowest", "fine"]
    rows = [row for row in rows if row["name"] == "broken"]
    pack.write_text(json.dumps(rows), "utf-8")
    code, out, _ = run(capsys, str(pack), "--chat", str(chat))
    assert (code, "slowest" in out) == (1, False)


def test_an_operand_stands_in_the_place_of_its_decision() -> None:
    source = "const a = '生日'\nif (a) return a.length > 3 || !a\nreturn false"
    assert [_alone(source, part) for part in _parts(source)] == [
        "const a = '生日'\nif (a) return !(a.length > 3)\nreturn false",
        "const a = '生日'\nif (a) return !(!a)\nreturn false",
    ]


@pytest.mark.parametrize(
    ("total", "numbers"), [(1, [1]), (3, [1, 2, 3]), (24, list(range(2, 25, 2))), (1000, [83, 166, 250, 333])]
)
def test_messages_are_spread(total: int, numbers: list[int]) -> None:
    found = _spread(total)
    assert found[: len(numbers)] == numbers
    assert found[-1] == total


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["missing.js"], "missing.js cannot be read: No such file or directory"),
        (["-"], "--top must be at least 1"),
    ],
)
def test_a_wrong_bench_gets_one_sentence(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, arguments: list[str], said: str
) -> None:
    (tmp_path / "a.js").write_text("1", "utf-8")
    named = [str(tmp_path / "a.js") if one == "-" else one for one in arguments]
    code, out, err = run(capsys, *named, "--chat", "chat.txt", "--top", "0" if "top" in said else "1")
    assert (code, out, err) == (2, "", f"trigger-sandbox: {said}\n")
