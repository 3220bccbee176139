"""The official TypeScript client, a second implementation of the protocol, in both eras."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from clients.node_clients import installed, run_script

pytestmark = pytest.mark.usefixtures("process")

SESSION = Path(__file__).parent / "session.mjs"


@pytest.mark.parametrize("era", ["legacy", "modern"])
def test_a_session_of_the_typescript_client(tmp_path: Path, era: str) -> None:
    installed("@modelcontextprotocol/client")
    server = (sys.executable, "-m", "memory_server", "serve", "--data-dir", str(tmp_path / "memories"))
    done = run_script(SESSION, era, *server, home=tmp_path)
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout)
    assert len(seen["tools"]) == 6
    assert "remember_turn" in seen["instructions"]
    assert seen["added"]["totalMemories"] == 1
    assert seen["found"]["heldBack"]["tooRecent"] == 1
    assert seen["set"]["success"]
    assert [memory["name"] for memory in seen["fired"]["activated"]] == ["团子"]
    assert "did you mean `messages`" in seen["refused"]["error"]
    assert "没有的" in seen["missing"]["error"]
