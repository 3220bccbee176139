"""`trigger-sandbox repl`: piped and typed, its commands, its completion."""

from __future__ import annotations

import io
import sys
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from prompt_toolkit.application import create_app_session
from prompt_toolkit.document import Document
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import DummyOutput

from sandbox import Failed, Fired, RunReport, cli
from sandbox.workbench.fixtures.forms import read_fixture
from sandbox.workbench.repl.completion import candidates
from sandbox.workbench.repl.prompt import _completer, _history, converse, typed
from sandbox.workbench.repl.session import COMMANDS, Session, obey, unfinished
from sandbox.workbench.sources.files import UsageError
from sandbox.workbench.terminal import Terminal

CHAT = tuple({"role": "user", "content": f"message {number}"} for number in range(1, 31))


def piped(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, text: str, *arguments: str) -> list[str]:
    monkeypatch.setattr(sys, "stdin", io.StringIO(text))
    assert cli.main(["repl", *arguments]) == 0
    return capsys.readouterr().out.splitlines()


def test_every_line_that_is_piped_gets_its_verdict(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    saved = tmp_path / "saved.trigger.yaml"
    lines = f"""
:say 今天是我的生日
match_keys(context.messages, ['生日']) > 0
match_keys(
  context.messages,
  ['cake']
) > 0
:tz Asia/Shanghai
:now 2026-07-17T09:00
console.log(new Date().getHours()); context.participants.user === 'Ann'
:save {saved}
:save {saved}
:save ! {saved}
:nothing
nope
1 +

2 +"""
    out = piped(capsys, monkeypatch, lines, "--participants", '{"user": "Ann"}', "--seed", "3")
    shape = [line.split(" ms")[0][:9].strip() for line in out]
    assert shape == [
        *("#1 user:", "fired", "quiet", "time zone", "now 2026-", "console", "fired"),
        *("written:", str(saved)[:9], "written:", "there is"),
        *("failed", "nope", "^", "failed", "1 +", "^", "failed", "2 +", "^"),
    ]
    assert "console  9" in out
    assert f"{saved} exists already; :save ! {saved} replaces it" in out
    (case,) = read_fixture(saved)
    assert (case.seed, case.timezone, case.participants) == (3, "Asia/Shanghai", {"user": "Ann"})
    assert case.now == datetime(2026, 7, 17, 1, 0, tzinfo=UTC)
    assert cli.main(["test", str(saved)]) == 0


def test_explain_says_more_of_the_last_run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    out = piped(capsys, monkeypatch, ":say 生日\nconsole.log(7); match_keys(context.messages, ['生日'])\n:explain\n")
    explained = out[3:]
    for line in ("verdict  it fired", "console  7"):
        assert line in explained


@pytest.mark.anyio
async def test_explain_paints_what_matched_where_colour_is_wanted() -> None:
    typed_lines = iter([":say 生日👨\u200d👩\u200d👧生日", "match_keys(context.messages, ['生日'])", ":explain"])

    async def lines(_continued: bool) -> str | None:
        return next(typed_lines, None)

    out = io.StringIO()
    await converse(Session(paint=lambda text: f"<{text}>"), lines, Terminal(out))
    # A family stays one: its joiners are no characters to hide.
    assert "  #1 user: <生日>👨\u200d👩\u200d👧<生日>" in out.getvalue().splitlines()
    assert "^" not in out.getvalue()


def test_options_that_cannot_be_used_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments, sentence in (
        (["--chat", "nowhere.txt"], "nowhere.txt cannot be read"),
        (["--tz", "Mars/Olympus"], "no time zone 'Mars/Olympus'"),
        (["--now", "soon"], "'soon' is no ISO time"),
        (["--participants", "[]"], "must be a JSON object"),
        (["--participants", "{"], "is no JSON"),
    ):
        assert cli.main(["repl", *arguments]) == 2
        assert sentence in capsys.readouterr().err


def test_commands_change_the_session(tmp_path: Path) -> None:
    session = Session(messages=CHAT, timezone="UTC")
    assert len(session.seen) == 20
    session, shown = obey(session, ":at 3")
    assert [message["content"] for message in session.seen] == ["message 1", "message 2", "message 3"]
    assert list(shown)[-1] == "#3 user: message 3"
    session, _ = obey(session, ":say assistant: well")
    assert [message["role"] for message in session.messages] == ["user", "user", "user", "assistant"]
    session, _ = obey(session, ":at end")
    assert session.at is None
    session, _ = obey(session, ":now 2026-07-17T09:00")
    session, _ = obey(session, ":tz Asia/Tokyo")
    assert session.now().isoformat() == "2026-07-17T18:00:00+09:00"
    session, _ = obey(session, ":now real")
    assert abs((session.now() - datetime.now(UTC)).total_seconds()) < 60
    (tmp_path / "a chat.txt").write_bytes("user: 生日".encode("gbk"))
    session, shown = obey(session, f":chat {tmp_path / 'a chat.txt'} gbk")
    assert list(shown) == ["1 message", "#1 user: 生日"]
    assert obey(session, ":q")[0].over


def test_a_message_with_a_time_sets_the_clock_where_the_chat_ends() -> None:
    session = Session(messages=({"role": "user", "content": "a", "timestamp": 1_767_225_600_000},), timezone="UTC")
    session, _ = obey(session, ":at 1")
    assert session.now() == datetime(2026, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        (":at 31", "'31' is no message; give a number from 1 to 30, or end"),
        (":at x", "is no message"),
        (":now soon", "'soon' is no ISO time"),
        (":tz Mars", "no time zone 'Mars'"),
        (":chat nowhere.txt", "nowhere.txt cannot be read"),
        (":say", "say what?"),
        (":explain", "nothing to explain yet"),
        (":save x.js", "nothing to save yet"),
        (":frobnicate", "there is no :frobnicate; :help"),
    ],
)
def test_what_cannot_be_done_is_one_sentence(line: str, sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        obey(Session(messages=CHAT), line)


def test_save_needs_a_name_and_help_names_every_command() -> None:
    session = Session(source="1", report=RunReport(Fired(1), ()))
    with pytest.raises(UsageError, match="save to which file"):
        obey(session, ":save")
    _, shown = obey(session, ":help")
    assert all(any(line.startswith(command.usage) for line in shown) for command in COMMANDS)


def failed(message: str, line: int, column: int) -> RunReport:
    return RunReport(Failed("syntax", f"SyntaxError: {message}", line, column, 0), ())


@pytest.mark.parametrize(
    ("source", "report", "expected"),
    [
        ("1 +", failed("Unexpected end of input", 1, 4), True),
        ("f(a", failed("missing ) after argument list", 1, 3), True),
        ("f(\n'a'", failed("missing ) after argument list", 2, 1), True),
        ("f(\n['a']", failed("missing ) after argument list", 2, 5), True),
        ("f(a b)", failed("missing ) after argument list", 1, 3), False),
        ("/* a", failed("Invalid or unexpected token", 1, 1), True),
        ("a b", failed("Unexpected identifier 'b'", 1, 3), False),
        ("return (", failed("Unexpected token '}'", 1, 9), True),
        ("x", RunReport(Failed("reference", "x is not defined", 1, 1, 0), ()), False),
        ("1", RunReport(Fired(1), ()), False),
    ],
)
def test_an_open_trigger_goes_on(source: str, report: RunReport, expected: bool) -> None:
    assert unfinished(source, report) is expected


@pytest.mark.parametrize(
    ("before", "expected"),
    [
        ("match", ["match_keys(context.messages, [", "match_keys_all(context.messages, ["]),
        ("1 && context.m", ["context.messages"]),
        ("context.messages.s", ["some(", "slice(-4)"]),
        ("match_keys(context.messages, ['a'], 'u", ["'user'"]),
        ("", []),
        (":t", ["tz"]),
        (":tz shang", ["Asia/Shanghai"]),
        (":at ", []),
    ],
)
def test_completion(before: str, expected: list[str]) -> None:
    commands = [(command.names[0], command.about) for command in COMMANDS]
    found = list(candidates(before, commands, ["Asia/Shanghai", "UTC"]))
    assert [one.text for one in found] == expected
    assert all(one.length <= len(before) for one in found)


def test_files_complete_after_chat(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "talk.txt").write_text("", "utf-8")
    monkeypatch.chdir(tmp_path)
    from prompt_toolkit.completion import CompleteEvent

    found = _completer().get_completions(Document(":chat ta"), CompleteEvent())
    assert [one.text for one in found] == ["lk.txt"]


@pytest.mark.anyio
async def test_typed_lines_are_kept_in_the_history(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    with create_pipe_input() as keys, create_app_session(input=keys, output=DummyOutput()):
        keys.send_text("[1, 2].includes(\r2)\r:quit\r")
        ended = await converse(replace(Session(), timezone="UTC"), typed(), Terminal(sys.stdout))
    assert ended.over
    assert ended.source == "[1, 2].includes(\n2)"
    assert isinstance(ended.report, RunReport)
    assert isinstance(ended.report.verdict, Fired)
    assert capsys.readouterr().out.startswith("fired ")
    history = [line async for line in _history().load()]
    assert history == [":quit", "2)", "[1, 2].includes("]
