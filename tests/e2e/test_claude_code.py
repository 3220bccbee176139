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

import pytest
from e2e.messages_api import messages_api

CLAUDE = shutil.which("claude")
SERVER = Path(sys.executable).parent / "memory-server"
pytestmark = [
    pytest.mark.skipif(CLAUDE is None, reason="needs Claude Code: `npm install -g @anthropic-ai/claude-code`"),
    pytest.mark.skipif(not SERVER.exists(), reason="needs the installed command memory-server"),
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
    (memory,) = json.loads((user.data / "default" / "short-term-memory.json").read_bytes())
    assert memory["text"] == "user: 下午茶吃芒果布丁？\nassistant: 那就不吃芒果布丁。"
