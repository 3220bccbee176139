"""`knowledge` looks into refs as into notes, deletes them, and moves entries of a project to all projects."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from cli_program import CommandLine


def test_refs_are_listed_deleted_and_brought_back(cli: CommandLine) -> None:
    _, out, _ = cli("call", "memoryAdd", json.dumps({"content": "build log 披萨"}))
    ref = json.loads(out)["referenceId"]
    assert "refs/short-term" in cli("knowledge", "list", "披萨").out
    assert ref in cli("knowledge", "show", ref[:8]).out
    assert cli("knowledge", "delete", ref).out == f"Deleted {ref}. Change k2.\n"
    status, _, errors = cli("knowledge", "restore", ref)
    assert (status, "`memory-server undo` brings it back" in errors) == (2, True)
    assert cli("undo", "k2").status == 0
    assert json.loads(cli("call", "memoryStats", "{}").out)["data"]["total"] == 1


def test_memories_of_a_user_are_listed_deleted_and_brought_back(cli: CommandLine) -> None:
    for user in ("ann", "bob"):
        arguments = {
            "messages": f"tea of {user}",
            "user_id": user,
            "agent_id": "a",
            "mode": "direct",
        }
        cli("call", "memory_add", json.dumps(arguments))
    assert "tea of bob" not in cli("knowledge", "list", "tea", "--user", "ann").out
    assert "tea of ann" in cli("knowledge", "list", "--user", "ann").out
    assert cli("knowledge", "delete", "1").out == "1. tea of ann (DELETE) Change k3.\n"
    assert "No entry matches." in cli("knowledge", "list", "--user", "ann").out
    status, _, errors = cli("knowledge", "restore", "1")
    assert (status, "`memory-server undo` brings it back" in errors) == (2, True)
    assert cli("undo", "k3").status == 0
    assert "tea of ann" in cli("knowledge", "list", "--user", "ann").out


def test_the_clean_up_tells_of_vectors(cli: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    cli("call", "memory_add", json.dumps({"messages": "tea"}))
    monkeypatch.setenv("MEMORY_SERVER_LLM__EMBEDDINGS__MODEL", "m")
    monkeypatch.setenv("MEMORY_SERVER_LLM__EMBEDDINGS__BASE_URL", "http://127.0.0.1:9/v1")
    status, out, _ = cli("knowledge", "cleanup")
    sentence = "Vectors of 1 text are missing: openai/m: it cannot be reached (ConnectError)"
    assert (status, sentence in out.replace("\n", " ")) == (0, True)
    assert "1 memory of users without a vector" in cli("doctor").out


def test_an_entry_is_promoted_once(cli: CommandLine, tmp_path: Path, elsewhere: None) -> None:
    cli("call", "save_to_memory", json.dumps({"key": "k", "content": "text"}))
    assert "k is an entry of all projects now." in cli("knowledge", "promote", "k").out
    assert (tmp_path / "home" / ".multi-agent-mcp" / "memory" / "k.md").is_file()
    status, _, errors = cli("knowledge", "promote", "k")
    assert (status, errors.count("\n"), "There is no entry `k`" in errors) == (1, 1, True)


def test_entries_of_layers_are_listed_shown_deleted_and_brought_back(
    cli: CommandLine, tmp_path: Path, elsewhere: None
) -> None:
    for key in ("pool", "port"):
        cli("call", "save_to_memory", json.dumps({"key": key, "content": f"披萨 {key}"}))
    listed = cli("knowledge", "list", "披萨").out
    assert [listed.count(word) for word in ("layers/project", "pool", "port")] == [2, 2, 2]
    (line, _) = cli("knowledge", "list", "--space", "layers", "--json").out.splitlines()
    assert (json.loads(line)["family"], json.loads(line)["place"]) == ("layers", "layers/project")
    shown = cli("knowledge", "show", "pool").out
    assert "pool.md" in shown
    assert "披萨 pool" in shown
    assert "Deleted `pool` of the project." in cli("knowledge", "delete", "pool").out
    status, _, errors = cli("knowledge", "show", "pool")
    assert (status, "There is no entry pool" in errors) == (1, True)
    (folder,) = tmp_path.rglob("memory")
    (folder / "archive").mkdir()
    (folder / "port.md").rename(folder / "archive" / "port.md")
    assert "port.md" in cli("knowledge", "show", "port").out
    assert "port" in cli("knowledge", "list", "--archived").out
    assert "`port` of the project is back." in cli("knowledge", "restore", "port").out
    assert (folder / "port.md").is_file()
