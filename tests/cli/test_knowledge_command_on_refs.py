"""`knowledge` looks into refs as into notes, deletes them, and moves entries of a project to all projects."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from memory_server.cli.parser import main


def run(tmp_path: Path, capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    status = main(["--data-dir", str(tmp_path / "data"), *words])
    said = capsys.readouterr()
    return status, said.out, said.err


def test_refs_are_listed_deleted_and_brought_back(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = run(tmp_path, capsys, "call", "memoryAdd", json.dumps({"content": "build log 披萨"}))
    ref = json.loads(out)["referenceId"]
    assert "refs/short-term" in run(tmp_path, capsys, "knowledge", "list", "披萨")[1]
    assert ref in run(tmp_path, capsys, "knowledge", "show", ref[:8])[1]
    assert run(tmp_path, capsys, "knowledge", "delete", ref)[1] == f"Deleted {ref}. Change k2.\n"
    status, _, said = run(tmp_path, capsys, "knowledge", "restore", ref)
    assert (status, "It comes back by `memory-server undo`" in said) == (2, True)
    assert run(tmp_path, capsys, "undo", "k2")[0] == 0
    assert json.loads(run(tmp_path, capsys, "call", "memoryStats", "{}")[1])["data"]["total"] == 1


def test_memories_of_a_user_are_listed_deleted_and_brought_back(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for user in ("ann", "bob"):
        given = {"messages": f"tea of {user}", "user_id": user, "agent_id": "a", "mode": "direct"}
        run(tmp_path, capsys, "call", "memory_add", json.dumps(given))
    assert "tea of bob" not in run(tmp_path, capsys, "knowledge", "list", "tea", "--user", "ann")[1]
    assert "tea of ann" in run(tmp_path, capsys, "knowledge", "list", "--user", "ann")[1]
    assert run(tmp_path, capsys, "knowledge", "delete", "1")[1] == "1. tea of ann (DELETE) Change k3.\n"
    assert "No entry matches." in run(tmp_path, capsys, "knowledge", "list", "--user", "ann")[1]
    status, _, said = run(tmp_path, capsys, "knowledge", "restore", "1")
    assert (status, "It comes back by `memory-server undo`" in said) == (2, True)
    assert run(tmp_path, capsys, "undo", "k3")[0] == 0
    assert "tea of ann" in run(tmp_path, capsys, "knowledge", "list", "--user", "ann")[1]


def test_the_clean_up_tells_of_vectors(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    run(tmp_path, capsys, "call", "memory_add", json.dumps({"messages": "tea"}))
    monkeypatch.setenv("MEMORY_SERVER_LLM__EMBEDDINGS__MODEL", "m")
    monkeypatch.setenv("MEMORY_SERVER_LLM__EMBEDDINGS__BASE_URL", "http://127.0.0.1:9/v1")
    status, out, _ = run(tmp_path, capsys, "knowledge", "cleanup")
    said = "Vectors of 1 text are missing: openai/m: it cannot be reached (ConnectError)"
    assert (status, said in out.replace("\n", " ")) == (0, True)
    assert "1 memory of users without a vector" in run(tmp_path, capsys, "doctor")[1]


def test_an_entry_is_promoted_once(tmp_path: Path, capsys: pytest.CaptureFixture[str], elsewhere: None) -> None:
    run(tmp_path, capsys, "call", "save_to_memory", json.dumps({"key": "k", "content": "text"}))
    assert "k is an entry of all projects now." in run(tmp_path, capsys, "knowledge", "promote", "k")[1]
    assert (tmp_path / "home" / ".multi-agent-mcp" / "memory" / "k.md").is_file()
    status, _, said = run(tmp_path, capsys, "knowledge", "promote", "k")
    assert (status, said.count("\n"), "There is no entry `k`" in said) == (1, 1, True)


def test_entries_of_layers_are_listed_shown_deleted_and_brought_back(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], elsewhere: None
) -> None:
    for key in ("pool", "port"):
        run(tmp_path, capsys, "call", "save_to_memory", json.dumps({"key": key, "content": f"披萨 {key}"}))
    listed = run(tmp_path, capsys, "knowledge", "list", "披萨")[1]
    assert [listed.count(word) for word in ("layers/project", "pool", "port")] == [2, 2, 2]
    (line, _) = run(tmp_path, capsys, "knowledge", "list", "--space", "layers", "--json")[1].splitlines()
    assert (json.loads(line)["family"], json.loads(line)["place"]) == ("layers", "layers/project")
    shown = run(tmp_path, capsys, "knowledge", "show", "pool")[1]
    assert "pool.md" in shown
    assert "披萨 pool" in shown
    assert "Deleted `pool` of the project." in run(tmp_path, capsys, "knowledge", "delete", "pool")[1]
    status, _, said = run(tmp_path, capsys, "knowledge", "show", "pool")
    assert (status, "There is no entry pool" in said) == (1, True)
    (folder,) = tmp_path.rglob("memory")
    (folder / "archive").mkdir()
    (folder / "port.md").rename(folder / "archive" / "port.md")
    assert "port.md" in run(tmp_path, capsys, "knowledge", "show", "port")[1]
    assert "port" in run(tmp_path, capsys, "knowledge", "list", "--archived")[1]
    assert "`port` of the project is back." in run(tmp_path, capsys, "knowledge", "restore", "port")[1]
    assert (folder / "port.md").is_file()
