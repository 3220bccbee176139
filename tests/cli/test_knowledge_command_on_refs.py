"""`knowledge` looks into refs as into notes, deletes them, and moves entries of a project to all projects."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from command_outcome import Outcome

from memory_server.cli.parser import main

Run = Callable[..., Outcome]


@pytest.fixture
def run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    def run(*words: str) -> Outcome:
        status = main(["--data-dir", str(tmp_path / "data"), *words])
        out, err = capsys.readouterr()
        return Outcome(status, out, err)

    return run


def test_refs_are_listed_deleted_and_brought_back(run: Run) -> None:
    _, out, _ = run("call", "memoryAdd", json.dumps({"content": "build log 披萨"}))
    ref = json.loads(out)["referenceId"]
    assert "refs/short-term" in run("knowledge", "list", "披萨").out
    assert ref in run("knowledge", "show", ref[:8]).out
    assert run("knowledge", "delete", ref).out == f"Deleted {ref}. Change k2.\n"
    status, _, errors = run("knowledge", "restore", ref)
    assert (status, "`memory-server undo` brings it back" in errors) == (2, True)
    assert run("undo", "k2").status == 0
    assert json.loads(run("call", "memoryStats", "{}").out)["data"]["total"] == 1


def test_memories_of_a_user_are_listed_deleted_and_brought_back(run: Run) -> None:
    for user in ("ann", "bob"):
        arguments = {
            "messages": f"tea of {user}",
            "user_id": user,
            "agent_id": "a",
            "mode": "direct",
        }
        run("call", "memory_add", json.dumps(arguments))
    assert "tea of bob" not in run("knowledge", "list", "tea", "--user", "ann").out
    assert "tea of ann" in run("knowledge", "list", "--user", "ann").out
    assert run("knowledge", "delete", "1").out == "1. tea of ann (DELETE) Change k3.\n"
    assert "No entry matches." in run("knowledge", "list", "--user", "ann").out
    status, _, errors = run("knowledge", "restore", "1")
    assert (status, "`memory-server undo` brings it back" in errors) == (2, True)
    assert run("undo", "k3").status == 0
    assert "tea of ann" in run("knowledge", "list", "--user", "ann").out


def test_the_clean_up_tells_of_vectors(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    run("call", "memory_add", json.dumps({"messages": "tea"}))
    monkeypatch.setenv("MEMORY_SERVER_LLM__EMBEDDINGS__MODEL", "m")
    monkeypatch.setenv("MEMORY_SERVER_LLM__EMBEDDINGS__BASE_URL", "http://127.0.0.1:9/v1")
    status, out, _ = run("knowledge", "cleanup")
    sentence = "Vectors of 1 text are missing: openai/m: it cannot be reached (ConnectError)"
    assert (status, sentence in out.replace("\n", " ")) == (0, True)
    assert "1 memory of users without a vector" in run("doctor").out


def test_an_entry_is_promoted_once(run: Run, tmp_path: Path, elsewhere: None) -> None:
    run("call", "save_to_memory", json.dumps({"key": "k", "content": "text"}))
    assert "k is an entry of all projects now." in run("knowledge", "promote", "k").out
    assert (tmp_path / "home" / ".multi-agent-mcp" / "memory" / "k.md").is_file()
    status, _, errors = run("knowledge", "promote", "k")
    assert (status, errors.count("\n"), "There is no entry `k`" in errors) == (1, 1, True)


def test_entries_of_layers_are_listed_shown_deleted_and_brought_back(
    run: Run, tmp_path: Path, elsewhere: None
) -> None:
    for key in ("pool", "port"):
        run("call", "save_to_memory", json.dumps({"key": key, "content": f"披萨 {key}"}))
    listed = run("knowledge", "list", "披萨").out
    assert [listed.count(word) for word in ("layers/project", "pool", "port")] == [2, 2, 2]
    (line, _) = run("knowledge", "list", "--space", "layers", "--json").out.splitlines()
    assert (json.loads(line)["family"], json.loads(line)["place"]) == ("layers", "layers/project")
    shown = run("knowledge", "show", "pool").out
    assert "pool.md" in shown
    assert "披萨 pool" in shown
    assert "Deleted `pool` of the project." in run("knowledge", "delete", "pool").out
    status, _, errors = run("knowledge", "show", "pool")
    assert (status, "There is no entry pool" in errors) == (1, True)
    (folder,) = tmp_path.rglob("memory")
    (folder / "archive").mkdir()
    (folder / "port.md").rename(folder / "archive" / "port.md")
    assert "port.md" in run("knowledge", "show", "port").out
    assert "port" in run("knowledge", "list", "--archived").out
    assert "`port` of the project is back." in run("knowledge", "restore", "port").out
    assert (folder / "port.md").is_file()
