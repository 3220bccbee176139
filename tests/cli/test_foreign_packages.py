"""Packages that have the names of ours, in a folder of PYTHONPATH, do no harm."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from memory_server.process.invocation import installed_packages_first, program_root

INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    },
}


def test_a_foreign_mcp_and_jieba_do_not_stand_in_for_those_that_are_installed(
    tmp_path: Path,
) -> None:
    for name in ("mcp", "jieba", "pydantic"):
        package = tmp_path / "foreign" / name
        package.mkdir(parents=True)
        (package / "__init__.py").write_text("raise ImportError('this is a foreign package')\n")
    environment = os.environ | {
        "PYTHONPATH": str(tmp_path / "foreign"),
        "HOME": str(tmp_path),
        "MEMORY_SERVER_DAEMON__ENABLED": "false",
    }

    def run(*arguments: str, stdin: object) -> str:
        command = [
            sys.executable,
            "-P",
            "-m",
            "memory_server",
            "--data-dir",
            str(tmp_path / "data"),
            *arguments,
        ]
        text = json.dumps(stdin) + "\n"
        completed = subprocess.run(
            command,
            input=text,
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
            cwd=tmp_path,
            env=environment,
        )
        assert completed.stderr == ""
        return completed.stdout

    assert "Remembered" in run("remember", stdin=[{"role": "user", "content": "我喜欢披萨"}])
    assert (
        json.loads(run("serve", stdin=INITIALIZE))["result"]["serverInfo"]["name"]
        == "memory-server"
    )


def test_the_folders_of_pythonpath_come_last_unless_the_program_is_in_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "path", ["/bin", "/foreign", "/installed"])
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(["/foreign", program_root()]))
    installed_packages_first()
    assert sys.path == ["/bin", "/foreign", "/installed"]
    monkeypatch.setenv("PYTHONPATH", "/foreign")
    installed_packages_first()
    assert sys.path == ["/bin", "/installed", "/foreign"]
