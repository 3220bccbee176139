"""At the point of action, with the real Claude Code and a scripted model: what the model is given, and when, byte for byte.

Two sessions: in the first one something is said or fails, days ago; in the second one the model works on it.
"""

from __future__ import annotations

import json
import stat
import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from e2e.messages_api import Step, messages_api
from e2e.test_claude_code import CLAUDE, SERVER, User, machine_of
from hook_transcripts import assistant, event, transcript, user
from http_server import TOKEN, serving
from shared_process import end_shared

from memory_server.kernel.recalled_block import FOOT, HEAD
from memory_server.memories.point_of_action import MOST_CHARS

pytestmark = [
    pytest.mark.skipif(CLAUDE is None, reason="needs Claude Code: `make clients` installs it"),
    pytest.mark.skipif(not SERVER.exists(), reason="needs the installed command memory-server"),
    pytest.mark.usefixtures("shared"),
]
full = pytest.mark.full
FILE = "migrations/0042.sql"
RULE = f"{FILE} must never be edited, because it is applied in production."
BEFORE = datetime.now(UTC) - timedelta(days=3)
SAID = f"[3 days ago, {{part}}, the user said about {FILE}: {RULE}]"


class Coder(User):
    """Somebody with hooks and a project in git, who lets the model edit and run."""

    def __init__(self, folder: Path, name: str = "project") -> None:
        super().__init__(folder)
        self.environment["MCP_CONNECTION_NONBLOCKING"] = "0"
        self.environment["TZ"] = "UTC"
        self.server("install", "claude-code", "--with-hooks")
        self.allow()

    def allow(self) -> None:
        (self.project / ".git").mkdir(exist_ok=True)
        path = self.home / ".claude" / "settings.json"
        settings = json.loads(path.read_text())
        settings["permissions"] = {"allow": ["Bash", "Edit", "Write", "Read", "Agent"]}
        for name, entries in settings["hooks"].items():
            if (
                "ToolUse" in name
            ):  # a busy machine may be late, and then these hooks would be silent
                (run,) = entries[0]["hooks"]
                run |= {"command": run["command"] + " --seconds 20", "timeout": 60}
        path.write_text(json.dumps(settings))
        self.write(FILE, "select 1;\n")

    def write(self, path: str, text: str) -> Path:
        file = self.project / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        return file

    def remembers(
        self, asked: str, answer: str = "Noted.", *work: Any, days: int = 3, session: str = "before"
    ) -> None:
        """Store a turn of an earlier session, as the hook does at its end."""
        at = datetime.now(UTC) - timedelta(days=days)
        said_at = at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
        path = self.home / f"{session}.jsonl"
        lines = [user(asked, at=said_at), *work, assistant(answer, at=said_at)]
        path.write_bytes(transcript(*lines))
        ended = event(
            "Stop",
            session_id=session,
            transcript_path=str(path),
            cwd=str(self.project),
            prompt_id="p1",
            last_assistant_message=answer,
        )
        self.run_with(json.dumps(ended), str(SERVER), "--data-dir", str(self.data), "hook")

    def was_told(self, rule: str) -> None:
        """Somebody said it, and talked about other things since: a session begins with the last two."""
        self.remembers(rule)
        self.remembers("The fence is green.", session="other", days=2)
        self.remembers("The boat is blue.", session="third", days=1)

    def run_with(self, text: str, *command: str) -> None:
        subprocess.run(
            command,
            cwd=self.project,
            env=self.environment,
            input=text.encode(),
            capture_output=True,
            timeout=120,
            check=True,
        )

    def works(
        self, *steps: Step, prompt: str = "Tidy the numbers up.", subagent: tuple[Step, ...] = ()
    ) -> list[Any]:
        """Let the model do this in a new session; its requests."""
        with messages_api("Done.", *steps, subagent=subagent) as (address, bodies):
            self.types(prompt, ANTHROPIC_BASE_URL=address)
        return [json.loads(body) for body in bodies if body]

    def edit(self, path: str = FILE) -> tuple[Step, Step]:
        file = str(self.project / path)
        change = {"file_path": file, "old_string": "1", "new_string": "2"}
        return ("Read", {"file_path": file}), ("Edit", change)


@pytest.fixture
def coder(tmp_path: Path) -> Coder:
    return Coder(tmp_path)


def additions(request: Any) -> list[str]:
    """What hooks at tools have added, as a request of the model has it, in order."""
    texts: list[str] = []
    for message in request["messages"]:
        content = message["content"]
        blocks = content if isinstance(content, list) else [{"text": content}]
        for block in blocks:
            text = block.get("text") or ""
            for part in text.split("\n\n"):
                name, mark, addition = part.partition(" hook additional context: ")
                if mark and "ToolUse" in name:
                    texts.append(f"{name.rpartition('PostToolUse')[1] or ''}{addition}")
    return [text.removeprefix("PostToolUse") for text in texts]


def framed(*lines: str) -> str:
    return HEAD + "\n".join(lines) + FOOT


def part_of_day() -> str:
    hour = BEFORE.hour
    parts = ((5, "night"), (12, "morning"), (18, "afternoon"), (22, "evening"), (24, "night"))
    return next(name for end, name in parts if hour < end)


def rule_line() -> str:
    return SAID.format(part=part_of_day())


def results_in(request: Any) -> int:
    return json.dumps(request["messages"]).count('"tool_result"')


def test_what_was_decided_about_a_file_is_read_before_it_is_edited(coder: Coder) -> None:
    coder.was_told(RULE)
    requests = coder.works(*coder.edit())
    with_result = {results_in(request): additions(request) for request in requests}
    assert with_result[0] == []
    assert with_result[1] == [framed(rule_line())], "before the model calls Edit"
    assert with_result[2] == with_result[1], "and once"
    assert len(with_result[1][0]) <= MOST_CHARS
    recall = json.loads(coder.server("recalls", "--json", "-n", "1"))
    assert recall["said"] == f"Read: {FILE}"
    assert recall["came"][0]["tier"] == "action"
    assert recall["tokens"] > 0


@full
def test_where_a_command_fails_again_the_model_reads_what_helped(coder: Coder) -> None:
    coder.write(
        "Makefile", "deploy:\n\t@echo 'vault: permission denied, the seal is closed' >&2; exit 3\n"
    )
    run = ("Bash", {"command": "make deploy"})
    with messages_api("The vault was sealed: `vault login` must run first.", run) as (address, _):
        coder.types("Deploy it.", ANTHROPIC_BASE_URL=address)
    (memory,) = coder.kept("default")
    assert memory["failed"] == [
        {
            "command": "make deploy",
            "status": 2,
            "words": memory["failed"][0]["words"],
        }
    ]
    assert "denied" in memory["failed"][0]["words"]
    requests = coder.works(run, prompt="Ship the release.")
    (addition,) = additions(requests[-1])
    assert "`make deploy` failed in the same way; the program printed `" in addition
    assert "`vault login` must run first.]" in addition
    shown = coder.server("show", memory["id"])
    assert "make deploy" in shown
    assert "found nothing" not in coder.server("search", "make deploy")


@full
def test_a_file_that_was_renamed_is_known_by_its_rare_name(coder: Coder) -> None:
    coder.was_told(RULE)
    coder.write("db/0042.sql", "select 1;\n")
    (addition,) = additions(coder.works(*coder.edit("db/0042.sql"))[-1])
    assert "the user said about db/0042.sql: " + RULE in addition


@full
def test_another_project_with_a_file_of_the_same_name_hears_nothing(coder: Coder) -> None:
    coder.was_told(RULE)
    coder.project = coder.home / "elsewhere"
    coder.project.mkdir()
    coder.allow()
    assert additions(coder.works(*coder.edit())[-1]) == []


@full
def test_what_was_private_comes_nowhere_and_nothing_is_kept_of_the_work(coder: Coder) -> None:
    with messages_api("Noted.", *coder.edit()) as (address, _):
        private = f"<private>{RULE}</private> Change the number."
        coder.types(private, ANTHROPIC_BASE_URL=address)
    (memory,) = coder.kept("default")
    assert "touched" not in memory
    assert "never" not in json.dumps(memory)
    coder.write(FILE, "select 1;\n")
    assert additions(coder.works(*coder.edit())[-1]) == []


@full
def test_a_muted_memory_stays_silent(coder: Coder) -> None:
    coder.was_told(RULE)
    memory = next(memory for memory in coder.kept("default") if FILE in memory["text"])
    coder.server("mute", memory["id"])
    assert additions(coder.works(*coder.edit())[-1]) == []


@full
def test_a_subagent_is_told_in_its_own_context(coder: Coder) -> None:
    coder.was_told(RULE)
    task = {"description": "x", "prompt": "SUBAGENT: edit it", "subagent_type": "general-purpose"}
    requests = coder.works(("Agent", task), *coder.edit(), subagent=coder.edit())
    of_agent = [request for request in requests if "SUBAGENT" in json.dumps(request["messages"][0])]
    of_session = [request for request in requests if request not in of_agent]
    line = framed(rule_line())
    assert any(additions(request) == [line] for request in of_agent)
    assert any(additions(request) == [line] for request in of_session)


@full
def test_calls_that_are_made_together_get_one_addition(coder: Coder) -> None:
    for number in (42, 43, 44):
        coder.write(f"migrations/00{number}.sql", "select 1;\n")
        rule = RULE.replace("42", str(number))
        coder.remembers(rule, session=f"s{number}")
    coder.was_told("The door is red.")
    reads: Step = [
        ("Read", {"file_path": str(coder.project / f"migrations/00{number}.sql")})
        for number in (42, 43, 44)
    ]
    assert len(additions(coder.works(reads)[-1])) == 1


@full
def test_an_error_of_five_megabytes_leaves_a_few_words(coder: Coder) -> None:
    coder.write(
        "long.py",
        "import sys\nprint('noise ' * 900_000)\nsys.exit('fatal: the ledger is out of balance')\n",
    )
    run = ("Bash", {"command": "python3 long.py"})
    with messages_api("The ledger must be rebuilt first.", run) as (address, _):
        coder.types("Balance it.", ANTHROPIC_BASE_URL=address)
    (memory,) = coder.kept("default")
    assert len(json.dumps(memory["failed"])) < 1_000
    assert len(json.dumps(memory)) < 5_000
    (addition,) = additions(coder.works(run, prompt="Check the books.")[-1])
    assert "The ledger must be rebuilt first." in addition
    assert len(addition) <= MOST_CHARS


@full
def test_without_any_memory_nothing_is_said_and_nothing_is_made(coder: Coder) -> None:
    assert additions(coder.works(*coder.edit())[-1]) == []


@full
def test_a_home_that_may_only_be_read_is_read_and_each_memory_comes_once(coder: Coder) -> None:
    coder.was_told(RULE)
    end_shared()
    before = {path: path.read_bytes() for path in coder.data.rglob("*") if path.is_file()}
    coder.environment["MEMORY_SERVER_READ_ONLY"] = "true"
    file = str(coder.project / FILE)
    reads: list[Step] = [("Read", {"file_path": file, "limit": number}) for number in range(1, 9)]
    texts = additions(coder.works(*reads)[-1])
    assert texts == [framed(rule_line())]
    end_shared()
    after = {path: path.read_bytes() for path in coder.data.rglob("*") if path.is_file()}
    assert after == before


@full
def test_a_linked_machine_is_told_what_another_one_heard(tmp_path: Path) -> None:
    (tmp_path / "server").mkdir()
    with serving(tmp_path / "server" / "data", http__token=TOKEN, hooks="true") as server:
        machine = machine_of(tmp_path / "laptop", server.url)
        machine.environment["TZ"] = "UTC"
        machine.__class__ = Coder
        assert isinstance(machine, Coder)
        machine.allow()
        machine.was_told(RULE)
        assert additions(machine.works(*machine.edit())[-1]) == [framed(rule_line())]
        assert stat.S_ISDIR(machine.data.stat().st_mode)
