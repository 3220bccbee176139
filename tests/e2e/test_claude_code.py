"""With the real Claude Code, where it is installed: our server connects, and memories reach the model unasked.

No model is asked: a stand-in on the loopback interface answers. The home is one of the test's own.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from e2e.messages_api import messages_api
from shared_process import end_shared

CLAUDE = shutil.which("claude")
SERVER = Path(sys.executable).parent / "memory-server"
pytestmark = [
    pytest.mark.skipif(CLAUDE is None, reason="needs Claude Code: `npm install -g @anthropic-ai/claude-code`"),
    pytest.mark.skipif(not SERVER.exists(), reason="needs the installed command memory-server"),
    pytest.mark.usefixtures("process"),
]
SECONDS = 120


class User:
    """Somebody with a home, a project, and nothing else."""

    def __init__(self, folder: Path) -> None:
        self.home, self.project, self.data = folder / "home", folder / "project", folder / "data"
        for made in (self.home, self.project):
            made.mkdir()
        kept = {
            name: value for name, value in os.environ.items() if not name.startswith(("MEMORY_SERVER", "ANTHROPIC"))
        }
        self.environment = kept | {
            "HOME": str(self.home),
            "CLAUDE_CONFIG_DIR": str(self.home / ".claude"),
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "DISABLE_AUTOUPDATER": "1",
            "ANTHROPIC_API_KEY": "none",
        }

    def run(self, *command: str, **environment: str) -> str:
        done = subprocess.run(
            command,
            cwd=self.project,
            env=self.environment | environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=SECONDS,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout.decode()

    def kept(self, conversation: str) -> list[dict[str, Any]]:
        end_shared()
        made: list[dict[str, Any]] = json.loads((self.data / conversation / "short-term-memory.json").read_bytes())
        return made

    def server(self, *arguments: str) -> str:
        return self.run(str(SERVER), "--data-dir", str(self.data), *arguments)


@pytest.fixture
def user(tmp_path: Path) -> User:
    return User(tmp_path)


def test_it_connects_to_the_server_that_install_puts_there(user: User) -> None:
    user.server("install", "claude-code")
    assert "Connected" in user.run("claude", "mcp", "list")
    assert "nothing was changed" in user.server("install", "claude-code")
    user.server("uninstall", "claude-code")
    assert "memory-server" not in user.run("claude", "mcp", "list")


def test_memories_reach_the_model_unasked_and_the_turn_is_remembered(user: User) -> None:
    user.server("install", "claude-code", "--with-hooks")
    condition = {"name": "过敏", "prompt": "小明对芒果过敏。", "trigger": "match_keys(context.messages, ['芒果'])"}
    user.server("call", "add_long_term_memory", json.dumps(condition))
    with messages_api("那就不吃芒果布丁。") as (address, asked):
        user.run("claude", "-p", "下午茶吃芒果布丁？", ANTHROPIC_BASE_URL=address)
    with_prompt = [body for body in asked if "下午茶吃芒果布丁？" in body]
    assert with_prompt
    assert all("<recalled-memories>" in body and "小明对芒果过敏。" in body for body in with_prompt)
    (memory,) = user.kept("default")
    assert memory["text"] == "user: 下午茶吃芒果布丁？\nassistant: 那就不吃芒果布丁。"


WIFI, ASKED = (
    "The wifi password of the holiday flat is sunflower-42.",
    "What was the wifi password of the holiday flat?",
)
FLAT = "user: " + WIFI


def recalled(bodies: list[str]) -> str:
    """What came with the prompt of the last request."""
    _, hook, rest = bodies[-1].rpartition("UserPromptSubmit hook")
    return rest if hook else ""


def test_a_new_session_knows_at_once_and_the_same_one_again_after_a_compaction(user: User) -> None:
    user.server("install", "claude-code", "--with-hooks")
    # All of it is said within ten minutes: each memory is to come by itself.
    user.environment["MEMORY_SERVER_SHORT_TERM__ADVANCED__SPACING_MS"] = "0"
    with messages_api("Noted.") as (address, asked):

        def said(prompt: str, *flags: str) -> str:
            out = user.run("claude", "-p", prompt, "--output-format", "json", *flags, ANTHROPIC_BASE_URL=address)
            return str(json.loads(out)["session_id"])

        first = said(WIFI)
        assert said(ASKED, "--resume", first) == first
        assert "<recalled-memories>" not in recalled(asked), "it is in the context still"
        del asked[:]
        assert said(ASKED) != first
        assert "sunflower-42" in recalled(asked)
        assert any("Where you left off:" in body and "sunflower-42" in body for body in asked)
        del asked[:]
        user.run("claude", "-p", "/compact", "--resume", first, ANTHROPIC_BASE_URL=address)
        assert said(ASKED, "--resume", first) == first
        assert "sunflower-42" in recalled(asked)
    sessions = {kept["text"].split("\n")[0]: kept["session"] for kept in user.kept("default")}
    assert sessions[FLAT] == first


def test_what_is_said_in_a_project_lies_in_its_own_conversation(user: User) -> None:
    user.server("install", "claude-code", "--with-hooks")
    user.server("install", "claude-code", "--with-hooks", "--project", "--conversation", "heron")
    with messages_api("Noted.") as (address, _):
        user.run("claude", "-p", "The code name is Heron.", ANTHROPIC_BASE_URL=address)
    assert [kept["text"] for kept in user.kept("heron")] == ["user: The code name is Heron.\nassistant: Noted."]
    assert [folder.name for folder in user.data.iterdir() if not folder.name.startswith(".")] == ["heron"]
    assert "multiple scopes" not in user.run("claude", "mcp", "list")
