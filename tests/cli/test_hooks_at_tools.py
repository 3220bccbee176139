"""`memory-server hook` at calls of tools: what it prints, what a turn keeps of them, and that it never stands in the
way."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cli_program import CommandLine
from command_outcome import Outcome
from hook_transcripts import assistant, event, transcript, user

from memory_server.cli.parser import main
from memory_server.kernel.recalled_block import FOOT, HEAD

Run = Callable[..., Outcome]
FILE = "migrations/0042.sql"
RULE = f"{FILE} must never be edited, because it is applied in production."
THEN = "2026-06-20T08:00:10Z"
LATER = "2026-06-25T08:00:00Z"
TOKEN = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    (folder / ".git").mkdir(parents=True)
    return folder


@pytest.fixture
def run(cli: CommandLine) -> Run:
    """The outcome of the hook for what happened at a call of a tool."""

    def run(happened: dict[str, Any], *flags: str, at: str = LATER) -> Outcome:
        outcome = cli("--timezone", "UTC", *flags, "hook", stdin=happened, now=at)
        timers = [thread for thread in threading.enumerate() if isinstance(thread, threading.Timer)]
        assert all(timer.finished.is_set() for timer in timers), "it would end the process later"
        return outcome

    return run


def tool(name: str, project: Path, tool_name: str, **fields: Any) -> dict[str, Any]:
    usual = {"tool_name": tool_name, "tool_use_id": "t1", "cwd": str(project), "session_id": "now"}
    return event(name, **(usual | fields))


def read(project: Path, path: str = FILE, **fields: Any) -> dict[str, Any]:
    file = str(project / path)
    answer = {"type": "text", "file": {"filePath": file, "content": "select 1;"}}
    given = {"tool_input": {"file_path": file}, "tool_response": answer}
    return tool("PostToolUse", project, "Read", **(given | fields))


def call(tool_name: str, number: int, **arguments: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": f"u{number}", "name": tool_name, "input": arguments}


def result(number: int, text: str, *, failed: bool = False) -> dict[str, Any]:
    return {
        "type": "tool_result",
        "tool_use_id": f"u{number}",
        "content": text,
        "is_error": failed,
    }


def ended(
    tmp_path: Path, project: Path, said: str, *work: dict[str, Any], answer: str = "Noted."
) -> dict[str, Any]:
    """The end of a turn of an earlier session; `work`: calls and their results, one after the other."""
    lines = [user(said)]
    for block in work:
        lines.append(assistant(block) if block["type"] == "tool_use" else user([block]))
    path = tmp_path / "before.jsonl"
    path.write_bytes(transcript(*lines, assistant(answer)))
    return event(
        "Stop",
        session_id="before",
        transcript_path=str(path),
        cwd=str(project),
        prompt_id="p1",
        last_assistant_message=answer,
    )


def stored(tmp_path: Path) -> list[dict[str, Any]]:
    file = tmp_path / "data" / "default" / "short-term-memory.json"
    memories: list[dict[str, Any]] = json.loads(file.read_bytes())
    return memories


def text_of(outcome: Outcome) -> str:
    assert (outcome.status, outcome.err) == (0, "")
    if not outcome.out:
        return ""
    output = json.loads(outcome.out)["hookSpecificOutput"]
    assert output.keys() == {"hookEventName", "additionalContext"}, "no permissionDecision"
    return str(output["additionalContext"])


LINE = f"[5 days ago, morning, the user said about {FILE}: {RULE}]"


@pytest.mark.parametrize("name", ["PreToolUse", "PostToolUse"])
def test_what_was_said_about_a_file_comes_once_for_a_session_and_file(
    run: Run, tmp_path: Path, project: Path, name: str
) -> None:
    run(ended(tmp_path, project, RULE), at=THEN)
    happened = read(project)
    if name == "PreToolUse":
        file = str(project / FILE)
        happened = tool(name, project, "Edit", tool_input={"file_path": file, "new_string": "x"})
    assert text_of(run(happened)) == HEAD + LINE + FOOT
    assert text_of(run(happened, at="2026-06-25T09:00:00Z")) == ""
    other = happened | {"session_id": "other"}
    assert text_of(run(other, at="2026-06-25T10:00:00Z")) == HEAD + LINE + FOOT


def test_the_prompt_that_names_a_file_comes_first(run: Run, tmp_path: Path, project: Path) -> None:
    run(ended(tmp_path, project, RULE + " " + "Other things were said too. " * 60), at=THEN)
    asked = event(
        "UserPromptSubmit",
        prompt=f"Widen the column in {FILE}",
        prompt_id="p9",
        cwd=str(project),
        session_id="now",
    )
    assert RULE in text_of(run(asked))
    assert text_of(run(read(project), at="2026-06-25T09:00:00Z")) == ""


def test_a_private_part_of_a_prompt_names_no_file(run: Run, tmp_path: Path, project: Path) -> None:
    run(ended(tmp_path, project, RULE + " " + "Other things were said too. " * 60), at=THEN)
    prompt = f"<private>about {FILE}</private> What is the weather like?"
    asked = event("UserPromptSubmit", prompt=prompt, cwd=str(project), session_id="now")
    assert "[5 days" not in text_of(run(asked))


def test_five_calls_of_tools_are_between_two_additions(
    run: Run, tmp_path: Path, project: Path
) -> None:
    run(ended(tmp_path, project, RULE), at=THEN)
    second = RULE.replace("0042", "0043")
    run(ended(tmp_path, project, second) | {"session_id": "before2"}, at=THEN)
    first = text_of(run(read(project)))
    added = {
        "type": "attachment",
        "attachment": {
            "type": "hook_additional_context",
            "content": [first],
            "hookEvent": "PostToolUse",
        },
    }

    def after(calls: int) -> str:
        path = tmp_path / "now.jsonl"
        rows = [added, *(assistant(call("Read", number)) for number in range(calls))]
        path.write_bytes(b"".join(_row(row) for row in rows))
        happened = read(project, "migrations/0043.sql", transcript_path=str(path))
        return text_of(run(happened, at="2026-06-25T09:00:00Z"))

    assert first
    assert after(4) == ""
    assert second in after(5)


def _row(row: dict[str, Any]) -> bytes:
    """A line as Claude Code writes it: without blanks."""
    return json.dumps(row, separators=(",", ":")).encode() + b"\n"


def test_a_turn_keeps_what_was_done_and_an_import_of_it_changes_nothing(
    run: Run, tmp_path: Path, project: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    work = (
        call("Edit", 1, file_path=str(project / "src/a.py"), old_string="1", new_string="2"),
        result(1, "updated"),
        call("Bash", 2, command="make deploy"),
        result(2, "Exit code 2\nerror: the vault is sealed", failed=True),
        call("Write", 3, file_path="/somewhere/else.py", content="x"),
        result(3, "created"),
    )
    run(ended(tmp_path, project, "Deploy it.", *work), at=THEN)
    (memory,) = stored(tmp_path)
    assert memory["touched"] == ["src/a.py"]
    assert memory["failed"] == [
        {"command": "make deploy", "status": 2, "words": ["error", "vault", "sealed"]}
    ]
    assert "sealed" not in memory["text"]
    assert main(["search", "src/a.py"]) == 0
    assert memory["id"] in capfd.readouterr().out
    assert main(["show", memory["id"]]) == 0
    shown = capfd.readouterr().out
    assert "src/a.py" in shown
    assert "`error vault sealed`" in shown
    assert main(["export", str(tmp_path / "out.json")]) == 0
    assert main(["--data-dir", str(tmp_path / "new"), "import", str(tmp_path / "out.json")]) == 0
    copied = json.loads((tmp_path / "new" / "default" / "short-term-memory.json").read_bytes())
    assert (copied[0]["touched"], copied[0]["failed"]) == (memory["touched"], memory["failed"])
    assert main(["forget", "src/a.py", "--yes", "--for-good"]) == 0
    left = b"".join(path.read_bytes() for path in (tmp_path / "data").rglob("*") if path.is_file())
    assert b"src/a.py" not in left


def test_no_secret_of_a_command_or_its_output_is_kept(
    run: Run, tmp_path: Path, project: Path
) -> None:
    work = (
        call(
            "Bash",
            1,
            command=f"curl -H 'Authorization: Bearer {TOKEN}' https://u:hunter22x@db.example/x",
        ),
        result(
            1,
            f"Exit code 22\nerror: bad token {TOKEN} for https://u:hunter22x@db.example",
            failed=True,
        ),
    )
    run(ended(tmp_path, project, "Fetch it.", *work), at=THEN)
    run(
        tool(
            "PostToolUseFailure",
            project,
            "Bash",
            tool_input=work[0]["input"],
            error=work[1]["content"],
        )
    )
    (memory,) = stored(tmp_path)
    assert memory["failed"][0]["status"] == 22
    for path in (tmp_path / "data").rglob("*"):
        if path.is_file():
            data = path.read_bytes()
            assert TOKEN[4:].encode() not in data
            assert b"hunter22x" not in data


def test_nothing_of_the_work_is_kept_beside_a_private_part(
    run: Run, tmp_path: Path, project: Path
) -> None:
    edit = call("Edit", 1, file_path=str(project / "secret-plan.md"), new_string="x")
    said = "<private>the plan</private> Go on."
    run(ended(tmp_path, project, said, edit, result(1, "updated")), at=THEN)
    (memory,) = stored(tmp_path)
    assert "touched" not in memory


@pytest.mark.parametrize(
    "happened",
    [
        {"tool_input": None, "tool_response": None},
        {"tool_input": [1], "tool_response": {"file": 5}},
        {"tool_name": None},
        {"tool_input": {"file_path": 7}},
        {"transcript_path": "/nowhere.jsonl"},
    ],
)
def test_an_event_of_another_form_is_silent(
    run: Run, tmp_path: Path, project: Path, happened: dict[str, Any]
) -> None:
    run(ended(tmp_path, project, "Hello there."), at=THEN)
    assert run(read(project) | happened) == (0, "", "")


def test_a_pause_and_a_broken_home_are_silent(run: Run, tmp_path: Path, project: Path) -> None:
    run(ended(tmp_path, project, RULE), at=THEN)
    assert main(["pause"]) == 0
    assert run(read(project)).out.count("additionalContext") == 0
    assert main(["resume"]) == 0
    (tmp_path / "data" / "default" / "short-term-memory.json").write_text("{")
    (tmp_path / "data" / "default" / ".memory-server" / "journal.jsonl").unlink()
    assert run(read(project)).status == 0


def test_without_a_shared_process_it_ends_before_anything_is_read(
    tmp_path: Path, project: Path
) -> None:
    environment = os.environ | {
        "HOME": str(tmp_path),
        "XDG_RUNTIME_DIR": str(tmp_path),
        "MEMORY_SERVER_DATA_DIR": str(tmp_path / "data"),
    }
    command = [sys.executable, "-X", "importtime", "-m", "memory_server", "hook"]
    began = time.monotonic()
    completed = subprocess.run(
        command,
        input=json.dumps(read(project)).encode(),
        env=environment,
        capture_output=True,
        timeout=60,
        check=True,
    )
    assert time.monotonic() - began < 30
    assert completed.stdout == b""
    assert b"pydantic" not in completed.stderr
    assert b"memory_server.kernel" not in completed.stderr
    assert not (tmp_path / "data").exists()


def test_gemini_cli_is_told_after_a_file_was_read_and_after_a_failure(
    run: Run, tmp_path: Path, project: Path
) -> None:
    work = (
        call("Bash", 1, command="make deploy"),
        result(1, "Exit code 2\nerror: the vault is sealed", failed=True),
    )
    answer = "The vault must be opened first."
    run(ended(tmp_path, project, RULE, *work, answer=answer), at=THEN)

    happened = read(project, tool_response={"llmContent": "select 1;", "returnDisplay": ""})
    happened |= {"hook_event_name": "AfterTool", "tool_name": "read_file"}
    output = json.loads(run(happened).out)["hookSpecificOutput"]
    assert output == {"hookEventName": "AfterTool", "additionalContext": HEAD + LINE + FOOT}

    printed = "Output: error: the vault is sealed\nExit Code: 2\nProcess Group PGID: 7"
    happened = tool(
        "AfterTool",
        project,
        "run_shell_command",
        tool_input={"command": "make deploy"},
        tool_response={"llmContent": f"<untrusted_context>\n{printed}\n</untrusted_context>"},
    )
    assert "`make deploy` failed in the same way" in text_of(run(happened))


@pytest.mark.parametrize(
    ("before", "now"),
    [
        ("cargo test && cargo publish", "cargo publish"),
        ("cargo publish", "cargo test && cargo publish"),
    ],
)
def test_each_command_of_a_line_counts(
    run: Run, tmp_path: Path, project: Path, before: str, now: str
) -> None:
    output = "Exit code 101\nerror: crate version 0.3.1 is already uploaded"
    work = (call("Bash", 1, command=before), result(1, output, failed=True))
    said = "Never run cargo publish before the changelog is dated."
    run(ended(tmp_path, project, said, *work, answer="Raise the version first."), at=THEN)

    to_be_run = tool("PreToolUse", project, "Bash", tool_input={"command": now})
    assert said in text_of(run(to_be_run))
    failed = tool("PostToolUseFailure", project, "Bash", tool_input={"command": now}, error=output)
    line = text_of(run(failed | {"session_id": "later"}))
    assert f"`{before}` failed in the same way; the program printed" in line
    assert "ended with: Raise the version first." in line


@pytest.mark.parametrize(
    ("said", "command", "comes"),
    [
        ("Always test with `make test`, never plain pytest.", "pytest -q tests", True),
        ("Always test with `make test`, never plain pytest.", "make clean", False),
        ("Use pnpm in this repository instead of npm.", "npm install left-pad", True),
        ("这个仓库用 pnpm 装包，不要用npm。", "cd web && npm install left-pad", True),
        ("Never run npm publish by hand in here.", "npm install left-pad", False),
        ("We must never go back to Perl.", "go test ./...", False),
    ],
)
def test_a_program_that_the_user_forbade_is_known_before_it_runs(
    run: Run, tmp_path: Path, project: Path, said: str, command: str, comes: bool
) -> None:
    run(ended(tmp_path, project, said), at=THEN)
    to_be_run = tool("PreToolUse", project, "Bash", tool_input={"command": command})
    assert (said in text_of(run(to_be_run))) is comes


def test_a_prompt_of_gemini_cli_is_read_without_what_the_hook_of_the_session_added(
    run: Run, tmp_path: Path, project: Path
) -> None:
    run(ended(tmp_path, project, RULE + " " + "Other things were said too. " * 60), at=THEN)
    before = f"<hook_context>&lt;recalled-memories&gt; {FILE} &lt;/recalled-memories&gt;"
    asked = event("BeforeAgent", cwd=str(project), session_id="now")
    prompt = f"{before}</hook_context>\n\n"
    assert text_of(run(asked | {"prompt": prompt + "Good morning!"})) == ""
    assert RULE in text_of(run(asked | {"prompt": prompt + f"Widen the column in {FILE}"}))


def test_calls_that_are_made_together_get_one_addition_and_one_line_of_the_record(
    run: Run, tmp_path: Path, project: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    run(ended(tmp_path, project, RULE), at=THEN)
    second = RULE.replace("0042", "0043")
    run(ended(tmp_path, project, second) | {"session_id": "before2"}, at=THEN)
    assert text_of(run(read(project)))
    assert text_of(run(read(project, "migrations/0043.sql", tool_use_id="t2"))) == ""
    assert main(["--now", LATER, "recalls", "--json"]) == 0
    said = [json.loads(line)["said"] for line in capfd.readouterr().out.splitlines()]
    assert said == [f"Read: {FILE}"]
