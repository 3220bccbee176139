"""The toolsets `layers` and `refs` as a client meets them, in a project of its own."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from e2e.test_notes_over_stdio import HEAVY, answers_of, session
from stdio_process import command, request, running, tool


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    subprocess.run(["git", "init", "-q"], cwd=folder, check=True)
    monkeypatch.chdir(folder)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return folder


def test_agents_share_a_decision(
    tmp_path: Path, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    layers = ("--toolsets", "layers")
    planner, loaded = session(
        tmp_path / "planner",
        request("tools", "tools/list"),
        tool(
            "save", "save_to_memory", key="api-auth", content="認証方式は JWT を採用", tags=["api"]
        ),
        flags=layers,
    )
    assert "call retrieve_from_memory" in planner["begin"]["instructions"]
    assert len(planner["tools"]["tools"]) == 19
    assert planner["save"]["structuredContent"]["message"] == "Saved `api-auth` of the project."
    assert loaded & HEAVY == set()
    monkeypatch.setenv("MEMORY_SERVER_LAYERS__ROLE", "worker")
    worker = answers_of(
        tmp_path / "worker",
        tool("found", "retrieve_from_memory", query="認証", caller_agent_id="worker_3"),
        tool("refused", "delete_memory_entry", key="api-auth", caller_agent_id="owner"),
        tool("none", "retrieve_from_global_memory", query="認証"),
        flags=layers,
    )
    (entry,) = worker["found"]["structuredContent"]["entries"]
    assert (entry["key"], entry["content"]) == ("api-auth", "認証方式は JWT を採用")
    assert worker["found"]["content"][0]["text"].startswith("<recalled-memories>")
    refusal = "This server is a worker; an owner or admin deletes entries."
    assert (worker["refused"]["isError"], worker["refused"]["content"][0]["text"]) == (
        True,
        refusal,
    )
    assert worker["none"]["structuredContent"]["count"] == 0
    git_status = subprocess.run(
        ["git", "status", "--porcelain", "-uall"], cwd=project, capture_output=True, text=True
    )
    assert git_status.stdout == "?? .multi-agent-mcp/memory/api-auth.md\n"


def test_without_a_project_only_its_tools_are_refused(
    tmp_path: Path, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "nowhere").mkdir()
    monkeypatch.chdir(tmp_path / "nowhere")
    answers = answers_of(
        tmp_path / "data",
        tool("project", "list_memory_entries"),
        tool("global", "save_to_global_memory", key="k", content="x"),
        flags=("--toolsets", "layers"),
    )
    refusal = "No project is known here; start the server in one or set layers.project_dir."
    assert (answers["project"]["isError"], answers["project"]["content"][0]["text"]) == (
        True,
        refusal,
    )
    assert answers["global"]["structuredContent"]["success"] is True


def test_a_long_output_stays_out_of_the_context(tmp_path: Path, project: Path) -> None:
    text = "".join(f"line {number}: 处理失败\n" for number in range(4000))
    answers, loaded = session(
        tmp_path,
        request("tools", "tools/list"),
        tool("add", "memoryAdd", content=text, tags=["log"]),
        tool("found", "memorySearch", query="处理失败", includeContent=True),
        tool("stats", "memoryStats"),
        flags=("--toolsets", "refs"),
    )
    assert len(answers["tools"]["tools"]) == 8
    assert loaded & HEAVY == set()
    assert "store it with memoryAdd" in answers["begin"]["instructions"]
    assert max(len(str(answers[name])) for name in ("add", "found")) < 8_000
    reference = answers["add"]["structuredContent"]["referenceId"]
    assert answers["found"]["structuredContent"]["data"]["results"][0]["id"] == reference
    assert answers["stats"]["structuredContent"]["data"]["total"] == 1
    with running(command(tmp_path, "--toolsets", "refs")) as client:
        client.connect()
        content = ""
        offset = 0
        while offset is not None:
            data = client.call("memoryGetContent", id=reference, offset=offset)["data"]
            content += data["content"]
            offset = data.get("next")
    assert content == text
