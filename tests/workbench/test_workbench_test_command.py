"""`trigger-sandbox test`: what it prints, how it ends, and that it says what the server does."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from cli_program import CommandLine

from memory_server import open_memory
from memory_server.config import Settings
from memory_server.tools import TOOLS
from memory_server.tools.base.tool import call
from sandbox import RunReport, SandboxUnavailable, TriggerSandbox
from sandbox.workbench import testing
from sandbox.workbench.files import read_usable
from sandbox.workbench.terminal import Terminal

SAMPLES = Path(__file__).resolve().parents[2] / "data" / "samples"
FIXTURE = """\
trigger: |
  const hour = new Date().getHours();
  console.log('hour', hour);
  hour < 5 || match_keys(context.messages, ['生日'], 'user') > 0
tz: Asia/Shanghai
now: 2026-07-17T12:00
chat: [user: 今天是我的生日, assistant: 生日快乐]
cases:
  - {name: words, expect: fired}
  - {name: silence, chat: [], expect: fired}
  - {name: night, chat: [], now: 2026-07-16T20:00Z, expect: fired}
  - {name: along, chat: [user: a, user: 生日, assistant: b, user: c, user: d, user: e], fires_at: [2, 6]}
  - {name: broken, trigger: "null.x", expect: {failed: timeout}}
"""

FAILED = (
    "expected failed (timeout), but it failed (thrown): TypeError: Cannot read properties of null (reading 'x')"
    " at line 1, column 6"
)


@pytest.fixture
def fixture(tmp_path: Path) -> Path:
    path = tmp_path / "some.trigger.yaml"
    path.write_text(FIXTURE, encoding="utf-8")
    return path


def test_failures_are_shown_with_their_reasons(workbench: CommandLine, fixture: Path) -> None:
    code, out, err = workbench("test", str(fixture))
    assert (code, err) == (1, "")
    lines = [line.rstrip() for line in out.splitlines()]
    assert lines[0] == "collected 5 cases in 1 file"
    assert lines[2] == f"{fixture} .F.FF"
    shown = "\n".join(lines[3:])
    for line in (
        f"{fixture}:10",
        "expected fired, but it was quiet",
        "    now      2026-07-17 12:00+08:00 (Asia/Shanghai)",
        "    chat     no messages",
        "    trigger  const hour = new Date().getHours();",
        "    console  hour 12",
        "expected to fire at 2, 6, but it fired at 2, 3, 4, 5",
        "    #3 assistant: b",
        "             expected quiet, but it fired",
        "    #6 user: e",
        "             expected fired, but it was quiet",
        FAILED,
        "    null.x",
        "         ^",
    ):
        assert line in shown.splitlines()
    assert "3 failed, 2 passed in " in lines[-1]


def test_a_sandbox_that_cannot_run_is_one_sentence(
    workbench: CommandLine, fixture: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Gone(TriggerSandbox):
        async def run(self, source: str, *_arguments: Any, **_more: Any) -> RunReport:
            raise SandboxUnavailable("the trigger worker ended while starting")

    monkeypatch.setattr(testing, "TriggerSandbox", Gone)
    code, _, err = workbench("test", str(fixture))
    assert (code, err) == (2, "trigger-sandbox: the trigger worker ended while starting\n")


def test_k_chooses_and_x_stops(workbench: CommandLine, fixture: Path) -> None:
    code, out, _ = workbench("test", str(fixture), "-k", "WORDS")
    assert code == 0
    assert "1 passed, 4 not selected in " in out
    code, out, _ = workbench("test", str(fixture), "-x")
    assert code == 1
    assert "1 failed, 1 passed in " in out
    assert "stopped at the first failure (-x)" in out


def test_misuse_is_one_sentence_and_code_2(
    workbench: CommandLine, fixture: Path, tmp_path: Path
) -> None:
    for arguments, sentence in (
        ([str(tmp_path / "nowhere")], "does not exist"),
        ([str(fixture), "-k", "zebra"], "-k matches none of the 5 cases"),
    ):
        code, out, err = workbench("test", *arguments)
        assert (code, out) == (2, ""), arguments
        assert err.startswith("trigger-sandbox: ")
        assert sentence in err
        assert err.count("\n") == 1


def test_what_cannot_be_run_is_an_error_and_the_others_run(
    workbench: CommandLine, fixture: Path, tmp_path: Path
) -> None:
    rows = [
        {"name": "good", "prompt": "p", "trigger": "true"},
        {"name": "bad", "prompt": "p"},
        {"name": "too", "prompt": "p", "trigger": "false"},
    ]
    (tmp_path / "pack.json").write_text(json.dumps(rows), "utf-8")
    broken = tmp_path / "broken.trigger.yaml"
    broken.write_text(
        "pack: pack.json\ncases:\n"
        "  - {name: first, memory: good, expect: fired}\n"
        "  - {name: second, memory: bad, expect: fired}\n"
        "  - {name: third, memory: good, expekt: fired}\n"
        "  - {name: fourth, memory: too, expect: quiet}\n",
        "utf-8",
    )
    torn = tmp_path / "torn.trigger.yaml"
    torn.write_text("trigger: [\n", "utf-8")
    code, out, err = workbench("test", str(broken), str(torn), str(fixture))
    assert (code, err) == (2, "")
    assert out.splitlines()[0] == "collected 10 cases in 3 files"
    assert ".EE." in out
    assert "line 4: pack.json: memory 2 ('bad') has no `trigger`; it must be text" in out
    assert "line 5: unknown key `expekt`; did you mean `expect`?" in out
    assert f"{torn} is not YAML: line 2" in out
    assert "3 failed, 4 passed, 3 errors in " in out
    for name in ("first", "fourth"):
        assert workbench("test", str(broken), "-k", name)[0] == 0
    assert workbench("pack", "test", str(tmp_path / "pack.json"))[0] == 2


def test_files_in_another_encoding_are_read(workbench: CommandLine, tmp_path: Path) -> None:
    (tmp_path / "t.js").write_text("match_keys(context.messages, ['生日']) > 0", "gb18030")
    (tmp_path / "c.txt").write_text("用户：今天是我的生日\n", "gb18030")
    path = tmp_path / "a.trigger.yaml"
    path.write_text("# 试试\ntrigger_file: t.js\nchat_file: c.txt\nexpect: fired\n", "gb18030")
    assert workbench("test", str(path), "--encoding", "gb18030")[0] == 0
    code, out, _ = workbench("test", str(path))
    assert code == 2
    assert "is not UTF-8 but probably GBK; add the encoding gb18030" in out


def test_colour_is_for_terminals_that_want_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    class Screen:
        encoding = "ascii"

        def __init__(self) -> None:
            self.text = ""

        def isatty(self) -> bool:
            return True

        def write(self, text: str) -> int:
            self.text += text
            return len(text)

        def flush(self) -> None:
            pass

    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    for variable, expected in ((None, "\x1b[31mx ??|?|\x1b[0m\n"), ("1", "x ??|?|\n")):
        if variable:
            monkeypatch.setenv("NO_COLOR", variable)
        screen = Screen()
        Terminal(screen).show("x 生|é\u200d|", "red")  # type: ignore[arg-type]
        assert screen.text == expected


def test_cases_of_one_zone_share_a_sandbox(
    workbench: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    timezones: list[str] = []

    class Counted(TriggerSandbox):
        def __init__(self, *, timezone: str) -> None:
            timezones.append(timezone)
            super().__init__(timezone=timezone, workers=1)

    monkeypatch.setattr(testing, "TriggerSandbox", Counted)
    rows = "".join(
        f"  - {{tz: {zone}, expect: fired}}\n" for zone in ("UTC", "UTC", "Asia/Shanghai", "UTC")
    )
    path = tmp_path / "a.trigger.yaml"
    path.write_text(
        f"trigger: Intl.DateTimeFormat().resolvedOptions().timeZone.length > 2\ncases:\n{rows}",
        "utf-8",
    )
    assert workbench("test", str(path))[0] == 0
    assert timezones == ["UTC", "Asia/Shanghai", "UTC"]


async def activated(folder: Path, question: Mapping[str, Any]) -> set[str]:
    """What a server that holds the sample pack finds at the time of the question."""
    settings = Settings(timezone="Asia/Shanghai", now=question["now"])
    async with open_memory(folder, settings=settings) as app:
        for memory in read_usable(str(SAMPLES / "triggers.json"))[0]:
            added = {"name": memory.name, "prompt": memory.prompt, "trigger": memory.trigger}
            await call(TOOLS["add_long_term_memory"], app.call, added)
        query = {"messages": question["messages"]}
        answer = await call(TOOLS["search_long_term_memories"], app.call, query)
    return {memory["name"] for memory in answer.structured["activated"]}


def test_what_the_workbench_says_is_what_the_server_does(
    tmp_path: Path, workbench: CommandLine
) -> None:
    """The server's answer to two sample questions, as a fixture with a case for every memory of the pack."""
    (tmp_path / "triggers.json").write_bytes((SAMPLES / "triggers.json").read_bytes())
    names = [memory.name for memory in read_usable(str(SAMPLES / "triggers.json"))[0]]
    fired = 0
    for number, question in enumerate(
        json.loads((SAMPLES / "questions.json").read_text("utf-8"))[:2]
    ):
        activated_names = asyncio.run(activated(tmp_path / f"memories{number}", question))
        fired += len(activated_names)
        verdicts = dict.fromkeys(activated_names, "fired")
        fixture = {
            "pack": "triggers.json",
            "tz": "Asia/Shanghai",
            "now": question["now"],
            "chat": question["messages"],
            "cases": [{"memory": name, "expect": verdicts.get(name, "quiet")} for name in names],
        }
        (tmp_path / f"{number}.trigger.json").write_text(
            json.dumps(fixture, ensure_ascii=False), "utf-8"
        )
    assert fired >= 2
    code, out, _ = workbench("test", str(tmp_path))
    assert code == 0, out
    assert f"{2 * len(names)} passed in " in out
