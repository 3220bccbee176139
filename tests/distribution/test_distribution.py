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
import yaml
from clients.node_clients import installed, run

from memory_server import __version__
from memory_server.cli import parser
from memory_server.config import ENVIRONMENT_PREFIX, Settings
from memory_server.tools import DEFAULT_TOOLSETS
from memory_server.version import COMMIT_FILE, commit_of_program, version_line

ROOT = Path(__file__).parents[2]
DISTRIBUTION = ROOT / "distribution"
PLUGIN = DISTRIBUTION / "claude-code"
FIRST_CALL = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    },
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
    manifest = read(DISTRIBUTION / "mcpb" / "manifest.json")
    plugin = read(PLUGIN / ".claude-plugin" / "plugin.json")
    extension = read(DISTRIBUTION / "sillytavern" / "manifest.json")
    assert {manifest["version"], plugin["version"], extension["version"]} == {__version__}
    for file in (
        DISTRIBUTION / "astrbot" / "metadata.yaml",
        DISTRIBUTION / "hermes" / "plugin.yaml",
    ):
        assert yaml.safe_load(file.read_text("utf-8"))["version"] == __version__


def test_data_of_other_projects_have_their_notice_in_the_wheel(built: Path) -> None:
    with zipfile.ZipFile(next(built.glob("*.whl"))) as wheel:
        [notice] = [name for name in wheel.namelist() if name.endswith("/NOTICE")]
        text = wheel.read(notice).decode()
        assert any(name.endswith("Apache-2.0.txt") for name in wheel.namelist())
        shipped = {name for name in wheel.namelist() if name.endswith((".index", "spellings.txt"))}
    assert shipped
    assert all(name in text for name in shipped)
    assert "Sun Junyi" in text
    assert "OpenCC" in text


def test_each_version_is_pinned_once() -> None:
    lines = (ROOT / "constraints.txt").read_text("utf-8").splitlines()
    pins = [line.partition("==")[0].lower().replace("_", "-") for line in lines if "==" in line]
    assert len(pins) == len(set(pins))


def test_every_variable_they_set_is_a_setting() -> None:
    variables = set(read(DISTRIBUTION / "mcpb" / "manifest.json")["server"]["mcp_config"]["env"])
    variables |= set(read(PLUGIN / ".mcp.json")["mcpServers"]["memory"]["env"])
    assert {name.removeprefix(ENVIRONMENT_PREFIX).lower() for name in variables} <= set(
        Settings.model_fields
    )


def test_defaults_they_show_are_the_real_ones() -> None:
    options = read(DISTRIBUTION / "mcpb" / "manifest.json")["user_config"]
    assert options["toolsets"]["default"] == DEFAULT_TOOLSETS
    assert options["conversation"]["default"] == Settings().conversation


def test_every_command_of_the_plugin_exists() -> None:
    server = read(PLUGIN / ".mcp.json")["mcpServers"]["memory"]
    command_lines = [[server["command"], *server["args"]]]
    for entries in read(PLUGIN / "hooks" / "hooks.json")["hooks"].values():
        for entry in entries:
            command_lines.extend(hook["command"].split() for hook in entry["hooks"])
    for program, *arguments in command_lines:
        assert program == "memory-server"
        parser.parser().parse_args(arguments)


@pytest.mark.parametrize("folder", ["claude-code", "."])
def test_the_plugin_passes_its_linter(folder: str, tmp_path: Path) -> None:
    pytest.importorskip("skillsaw", reason="needs skillsaw of the dev extra")
    # Linted as a copy: a linter looks for a repository around it.
    import shutil

    copy = shutil.copytree(DISTRIBUTION / folder, tmp_path / "copy")
    command = (sys.executable, "-m", "skillsaw", "lint", "--strict", str(copy))
    linter = subprocess.run(
        command, check=False, capture_output=True, text=True, encoding="utf-8", timeout=120
    )
    assert linter.returncode == 0, linter.stdout


@pytest.mark.full
def test_the_bundle_is_valid(built: Path, tmp_path: Path) -> None:
    (bundle,) = built.glob("*.mcpb")
    with zipfile.ZipFile(bundle) as packed:
        packed.extractall(tmp_path / "unpacked")
    manifest_file = tmp_path / "unpacked" / "manifest.json"
    validator = run("@anthropic-ai/mcpb", "mcpb", "validate", str(manifest_file), home=tmp_path)
    assert validator.returncode == 0, validator.stdout + validator.stderr
    manifest = read(manifest_file)
    for file_name in (
        manifest["icon"],
        manifest["server"]["entry_point"],
        "pyproject.toml",
        "LICENSE",
    ):
        assert (tmp_path / "unpacked" / file_name).is_file()


def test_a_wheel_without_the_chinese_or_the_version_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(DISTRIBUTION)
    import checks

    wheel = tmp_path / "memory_server-1-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as packed:
        packed.writestr("memory_server-1.dist-info/METADATA", "Version: 1\n\n# memory-server\n")
    assert list(checks.faults_of_catalogues(ROOT, wheel)) == [
        f"{wheel.name}: languages/zh/messages.mo is missing; run `make catalogues`."
    ]
    assert f"{wheel.name}: the version is 1 and not 2." in list(
        checks.faults_of_metadata(wheel, "2")
    )
    with zipfile.ZipFile(wheel, "a") as packed:
        packed.writestr("languages/zh/messages.mo", "")
    assert not list(checks.faults_of_catalogues(ROOT, wheel))


@pytest.mark.full
def test_the_wheel_has_the_catalogue(built: Path) -> None:
    (wheel,) = built.glob("*.whl")
    with zipfile.ZipFile(wheel) as packed:
        sizes = {
            name: packed.getinfo(name).file_size
            for name in packed.namelist()
            if name.endswith(".mo")
        }
    assert set(sizes) == {"languages/zh/messages.mo"}
    assert min(sizes.values()) > 1000


@pytest.mark.full
def test_the_wheel_knows_its_commit(built: Path) -> None:
    (wheel,) = built.glob("*.whl")
    with zipfile.ZipFile(wheel) as packed:
        name = f"memory_server/{COMMIT_FILE}"
        commit = None
        if name in packed.namelist():
            commit = packed.read(name).decode("ascii").strip()
    assert commit == commit_of_program()  # a copy of the source without git knows none


@pytest.mark.full
def test_the_wheel_runs_with_uvx_as_it_is(built: Path, tmp_path: Path) -> None:
    (wheel,) = built.glob("*.whl")
    version = uv("tool", "run", "--from", str(wheel), "memory-server", "--version", cwd=tmp_path)
    assert version == f"{version_line()}\n"
    demo = uv("tool", "run", "--from", str(wheel), "memory-server", "demo", cwd=tmp_path)
    assert "All 3 questions" in demo


@pytest.mark.full
def test_the_bundle_answers_as_a_client_starts_it(built: Path, tmp_path: Path) -> None:
    (bundle,) = built.glob("*.mcpb")
    with zipfile.ZipFile(bundle) as packed:
        packed.extractall(tmp_path)
    start = read(tmp_path / "manifest.json")["server"]["mcp_config"]
    assert start["command"] == "uv"
    arguments = [part.replace("${__dirname}", str(tmp_path)) for part in start["args"]]
    answer = uv(*arguments, cwd=tmp_path, stdin=json.dumps(FIRST_CALL) + "\n")
    assert json.loads(answer.splitlines()[0])["result"]["serverInfo"]["version"] == __version__


def uv(*arguments: str, cwd: Path, stdin: str = "") -> str:
    """What uv prints, with memories of its own; skips without uv or where it cannot reach packages."""
    program = pytest.importorskip("uv", reason="needs uv of the dev extra").find_uv_bin()
    environment = {**os.environ, "MEMORY_SERVER_DATA_DIR": str(cwd / "memories")}
    process = subprocess.run(
        [program, *arguments],
        check=False,
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=300,
        cwd=cwd,
        input=stdin,
        env=environment,
    )
    if "Failed to fetch" in process.stderr:
        pytest.skip("needs the network, to install what the wheel depends on")
    assert process.returncode == 0, process.stderr
    return process.stdout
