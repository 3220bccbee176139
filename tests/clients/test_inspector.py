"""The official Inspector's command line against our server over stdio; in both protocol eras in `make test-full`."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from clients.node_clients import run

pytestmark = pytest.mark.usefixtures("process")

INSPECTOR = "@modelcontextprotocol/inspector"
ERAS = ("legacy", "modern")


class Inspection(NamedTuple):
    """Exit status, the JSON answer and standard error."""

    status: int
    result: Any
    complaints: str


def inspect(tmp_path: Path, *arguments: str, toolsets: str | None = None) -> Inspection:
    """One inspection of a server on a data folder of its own."""
    server = (
        sys.executable,
        "-m",
        "memory_server",
        "serve",
        "--data-dir",
        str(tmp_path / "memories"),
    )
    # The Inspector gives a server only a few variables.
    variables = ("-e", f"XDG_RUNTIME_DIR={os.environ['XDG_RUNTIME_DIR']}")
    if toolsets:
        variables += ("-e", f"MEMORY_SERVER_TOOLSETS={toolsets}")
    command = ("--cli", *server, *arguments, *variables, "--format", "json")
    completed = run(INSPECTOR, "mcp-inspector", *command, home=tmp_path)
    result = json.loads(completed.stdout)["result"] if completed.stdout else None
    return Inspection(completed.returncode, result, completed.stderr)


@pytest.mark.full
@pytest.mark.parametrize("era", ERAS)
def test_the_tool_schemas_are_portable(tmp_path: Path, era: str) -> None:
    code, result, complaints = inspect(
        tmp_path, "--method", "tools/list", "--strict", "--protocol-era", era
    )
    assert code == 0, complaints
    assert len(result["tools"]) == 6


@pytest.mark.parametrize(
    ("left_out", "era"),
    [("sessions", "modern"), pytest.param("refs", "legacy", marks=pytest.mark.full)],
)
def test_the_schemas_of_all_toolsets_but_one_are_portable(
    tmp_path: Path, left_out: str, era: str
) -> None:
    from memory_server.tools import TOOLSETS

    # Names of tools of the two differ only in spelling, so no server offers both.
    toolsets = [name for name in TOOLSETS if name != left_out]
    listed = ("--method", "tools/list", "--strict", "--protocol-era", era)
    code, result, complaints = inspect(tmp_path, *listed, toolsets=",".join(toolsets))
    assert code == 0, complaints
    names = {tool["name"] for tool in result["tools"]}
    assert names == {tool.name for name in toolsets for tool in TOOLSETS[name]}


@pytest.mark.parametrize("era", [pytest.param("legacy", marks=pytest.mark.full), "modern"])
def test_a_call_that_fails_is_seen_as_failed(tmp_path: Path, era: str) -> None:
    call = (
        "--method",
        "tools/call",
        "--tool-name",
        "get_memory_context",
        "--tool-arg",
        "name=没有的",
    )
    code, result, _ = inspect(tmp_path, *call, "--protocol-era", era, toolsets="long-term")
    assert code == 5
    assert result["isError"]


@pytest.mark.full
def test_no_call_fails_under_load(tmp_path: Path) -> None:
    load = ("--load", "--load-concurrency", "32", "--load-requests", "300")
    code, result, _ = inspect(
        tmp_path, "--method", "tools/call", "--tool-name", "get_memory_stats", *load, toolsets="all"
    )
    assert code == 0
    assert (result["requests"], result["ok"], result["errors"], result["toolErrors"]) == (
        300,
        300,
        0,
        0,
    )
