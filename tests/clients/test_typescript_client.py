"""The official TypeScript client, a second implementation of the protocol, in both eras."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from clients.node_clients import installed, run_script

pytestmark = pytest.mark.usefixtures("process")

SESSION = Path(__file__).parent / "session.mjs"


@pytest.mark.parametrize("era", [pytest.param("legacy", marks=pytest.mark.full), "modern"])
def test_a_session_of_the_typescript_client(tmp_path: Path, era: str) -> None:
    installed("@modelcontextprotocol/client")
    server = (
        sys.executable,
        "-m",
        "memory_server",
        "serve",
        "--data-dir",
        str(tmp_path / "memories"),
    )
    completed = run_script(SESSION, era, *server, home=tmp_path)
    assert completed.returncode == 0, completed.stderr
    session = json.loads(completed.stdout)
    assert len(session["tools"]) == 6
    assert "remember_turn" in session["instructions"]
    assert session["added"]["totalMemories"] == 1
    assert session["found"]["heldBack"]["tooRecent"] == 1
    assert session["set"]["success"]
    assert [memory["name"] for memory in session["fired"]["activated"]] == ["团子"]
    assert "did you mean `messages`" in session["refused"]["error"]
    assert "没有的" in session["missing"]["error"]
