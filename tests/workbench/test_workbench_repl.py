"""`trigger-sandbox repl`: each line is answered as `run` answers; messages and the time can be set."""

from __future__ import annotations

import builtins
import io
import sys
from pathlib import Path

import pytest

from sandbox import cli


def piped(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, text: str, *arguments: str
) -> list[str]:
    monkeypatch.setattr(sys, "stdin", io.StringIO(text))
    assert cli.main(["repl", *arguments]) == 0
    return capsys.readouterr().out.splitlines()


def test_every_line_that_is_piped_gets_its_verdict(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = """
:say 今天是我的生日
match_keys(context.messages, ['生日']) > 0
:now 2026-07-17T09:00
console.log(new Date().getHours()); context.participants.user === 'Ann'
nope
:now soon
:quit
true"""
    out = piped(
        capsys, monkeypatch, lines, "--participants", '{"user": "Ann"}', "--tz", "Asia/Shanghai"
    )
    labels = [line.split(" ms")[0][:8].strip() for line in out]
    verdicts = [label for label in labels if label in ("fired", "quiet", "failed", "console")]
    assert verdicts == ["fired", "console", "fired", "failed"]
    assert "console  9" in out
    assert "'soon' is not an ISO time; give one such as 2026-07-17T09:00" in out
    assert out[out.index("value  operand") + 1 :][:2] == [
        "true   match_keys(context.messages, ['生日']) > 0",
        "         match_keys(context.messages, ['生日']) = 1",
    ]


def test_the_chat_ends_where_at_says_and_what_is_said_comes_after_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "chat.jsonl").write_text(
        '{"role": "user", "content": "a", "timestamp": 1767225600000}\n{"role": "assistant", "content": "b"}\n',
        "utf-8",
    )
    lines = """\
console.log(new Date().toISOString(), context.messages.length)
:say assistant: c
:say Note: tea
console.log(JSON.stringify(context.messages.slice(1)))"""
    arguments = ("--chat", str(tmp_path / "chat.jsonl"), "--at", "1", "--tz", "UTC")
    out = [
        line for line in piped(capsys, monkeypatch, lines, *arguments) if line.startswith("console")
    ]
    assert out[0] == "console  2026-01-01T00:00:00.000Z 1"
    assert '"role":"assistant","content":"c"' in out[1]
    assert '"role":"user","content":"Note: tea"' in out[1]


def test_what_is_no_command_gets_the_list_of_them(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for line in (":help", ":nothing", ":say", ":now"):
        out = piped(capsys, monkeypatch, line)
        assert [row.split()[0] for row in out[1:]] == [":say", ":now", ":quit"]


def test_options_that_cannot_be_used_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments, sentence in (
        (["--chat", "nowhere.txt"], "nowhere.txt cannot be read"),
        (["--tz", "Mars/Olympus"], "no time zone 'Mars/Olympus'"),
        (["--now", "soon"], "'soon' is not an ISO time"),
        (["--participants", "[]"], "must be a JSON object"),
        (["--participants", "{"], "is not JSON"),
        (["--at", "1"], "there is no message 1; there are no messages; add --chat"),
    ):
        assert cli.main(["repl", *arguments]) == 2
        assert sentence in capsys.readouterr().err


def test_ctrl_c_ends_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(_prompt: str) -> str:
        raise KeyboardInterrupt

    monkeypatch.setattr(builtins, "input", interrupted)
    assert cli.main(["repl"]) == 130
    assert capsys.readouterr().err == ""
