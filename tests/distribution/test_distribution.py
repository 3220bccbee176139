"""What is published beside the wheel: one version everywhere, only settings and commands that exist, and forms that the
formats' own validators accept."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest
from clients.node_clients import installed, run

from memory_server import __version__
from memory_server.cli import parser
from memory_server.config import ENVIRONMENT_PREFIX, Settings
from memory_server.tools import DEFAULT_TOOLSETS

ROOT = Path(__file__).parents[2]
DISTRIBUTION = ROOT / "distribution"
PLUGIN = DISTRIBUTION / "claude-code"
FIRST_CALL = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}},
}


def read(path: Path) -> Any:
    return json.loads(path.read_text("utf-8"))


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the wheel and the bundle."""
    installed("@anthropic-ai/mcpb")
    folder = tmp_path_factory.mktemp("dist")
    subprocess.run([sys.executable, DISTRIBUTION / "build.py", folder], check=True, timeout=300)
    return folder


def test_one_version_everywhere() -> None:
    manifest, plugin = read(DISTRIBUTION / "mcpb" / "manifest.json"), read(PLUGIN / ".claude-plugin" / "plugin.json")
    extension = read(DISTRIBUTION / "sillytavern" / "manifest.json")
    assert {manifest["version"], plugin["version"], extension["version"]} == {__version__}


def test_every_variable_they_set_is_a_setting() -> None:
    variables = set(read(DISTRIBUTION / "mcpb" / "manifest.json")["server"]["mcp_config"]["env"])
    variables |= set(read(PLUGIN / ".mcp.json")["mcpServers"]["memory"]["env"])
    assert {name.removeprefix(ENVIRONMENT_PREFIX).lower() for name in variables} <= set(Settings.model_fields)


def test_defaults_they_show_are_the_real_ones() -> None:
    asked = read(DISTRIBUTION / "mcpb" / "manifest.json")["user_config"]
    assert asked["toolsets"]["default"] == DEFAULT_TOOLSETS
    assert asked["conversation"]["default"] == Settings().conversation


def test_every_command_of_the_plugin_exists() -> None:
    commands = [read(PLUGIN / ".mcp.json")["mcpServers"]["memory"]]
    lines = [[server["command"], *server["args"]] for server in commands]
    for entries in read(PLUGIN / "hooks" / "hooks.json")["hooks"].values():
        lines += [hook["command"].split() for entry in entries for hook in entry["hooks"]]
    for program, *arguments in lines:
        assert program == "memory-server"
        parser.parser().parse_args(arguments)


@pytest.mark.parametrize("folder", ["claude-code", "."])
def test_the_plugin_passes_its_linter(folder: str, tmp_path: Path) -> None:
    pytest.importorskip("skillsaw", reason="needs skillsaw of the dev extra")
    # Linted as a copy: a linter looks for a repository around it.
    import shutil

    copied = shutil.copytree(DISTRIBUTION / folder, tmp_path / "copy")
    linter = (sys.executable, "-m", "skillsaw", "lint", "--strict", str(copied))
    done = subprocess.run(linter, check=False, capture_output=True, text=True, encoding="utf-8", timeout=120)
    assert done.returncode == 0, done.stdout


def test_the_bundle_is_valid(built: Path, tmp_path: Path) -> None:
    (bundle,) = built.glob("*.mcpb")
    with zipfile.ZipFile(bundle) as packed:
        packed.extractall(tmp_path / "unpacked")
    done = run("@anthropic-ai/mcpb", "mcpb", "validate", str(tmp_path / "unpacked" / "manifest.json"), home=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    manifest = read(tmp_path / "unpacked" / "manifest.json")
    for named in (manifest["icon"], manifest["server"]["entry_point"], "pyproject.toml", "LICENSE"):
        assert (tmp_path / "unpacked" / named).is_file()


def test_the_wheel_has_the_catalogue_of_each_package(built: Path) -> None:
    (wheel,) = built.glob("*.whl")
    with zipfile.ZipFile(wheel) as packed:
        held = {name: packed.getinfo(name).file_size for name in packed.namelist() if name.endswith(".mo")}
    assert set(held) == {
        "memory_server/locale/zh/LC_MESSAGES/memory-server.mo",
        "sandbox/locale/zh/LC_MESSAGES/trigger-sandbox.mo",
    }
    assert min(held.values()) > 1000


@pytest.mark.full
def test_the_wheel_runs_with_uvx_as_it_is(built: Path, tmp_path: Path) -> None:
    (wheel,) = built.glob("*.whl")
    version = uv("tool", "run", "--from", str(wheel), "memory-server", "--version", cwd=tmp_path)
    assert version == f"memory-server {__version__}\n"
    demo = uv("tool", "run", "--from", str(wheel), "memory-server", "demo", cwd=tmp_path)
    assert "All 3 questions" in demo


@pytest.mark.full
def test_the_bundle_answers_as_a_client_starts_it(built: Path, tmp_path: Path) -> None:
    (bundle,) = built.glob("*.mcpb")
    with zipfile.ZipFile(bundle) as packed:
        packed.extractall(tmp_path)
    started = read(tmp_path / "manifest.json")["server"]["mcp_config"]
    assert started["command"] == "uv"
    arguments = [part.replace("${__dirname}", str(tmp_path)) for part in started["args"]]
    answer = uv(*arguments, cwd=tmp_path, said=json.dumps(FIRST_CALL) + "\n")
    assert json.loads(answer.splitlines()[0])["result"]["serverInfo"]["version"] == __version__


def uv(*arguments: str, cwd: Path, said: str = "") -> str:
    """What uv prints, with memories of its own; skips without uv or where it cannot reach packages."""
    found = pytest.importorskip("uv", reason="needs uv of the dev extra").find_uv_bin()
    environment = {**os.environ, "MEMORY_SERVER_DATA_DIR": str(cwd / "memories")}
    done = subprocess.run(
        [found, *arguments],
        check=False,
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=300,
        cwd=cwd,
        input=said,
        env=environment,
    )
    if "Failed to fetch" in done.stderr:
        pytest.skip("needs the network, to install what the wheel depends on")
    assert done.returncode == 0, done.stderr
    return done.stdout
