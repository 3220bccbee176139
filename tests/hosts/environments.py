"""Hosts of the adapters, each installed into an environment of its own, which is kept in the user's cache folder."""

from __future__ import annotations

import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

import portalocker
import pytest
from platformdirs import user_cache_path

ROOT = Path(__file__).resolve().parents[2]
DISTRIBUTION = ROOT / "distribution"
INSTALL_SECONDS = 600


def environment(package: str, version: str, *also: str) -> Path:
    """The environment that holds this version, and what it needs `also`, made now if it is not there. Skips the test
    where that cannot be."""
    reason = why_missing(package, version, *also)
    if reason:
        pytest.skip(f"needs {package} {version}, which cannot be installed here: {reason}")
    return folder_of(package, version)


def folder_of(package: str, version: str) -> Path:
    return (
        user_cache_path("memory-server-tests")
        / f"{package}-{version}-py{sys.version_info[0]}{sys.version_info[1]}"
    )


@cache
def why_missing(package: str, version: str, *also: str) -> str:
    """Why it cannot be had; empty: it is there."""
    if sys.platform not in ("linux", "darwin"):
        return "the adapters were not tried on this system"
    folder = folder_of(package, version)
    uv = Path(sys.executable).with_name("uv")
    folder.parent.mkdir(parents=True, exist_ok=True)
    with portalocker.Lock(folder.with_suffix(".lock"), timeout=INSTALL_SECONDS):
        if (folder / "complete").exists():
            return ""
        shutil.rmtree(folder, ignore_errors=True)
        commands = (
            [str(uv), "venv", "--quiet", "--python", sys.executable, str(folder)],
            [
                *(
                    str(uv),
                    "pip",
                    "install",
                    "--quiet",
                    "--compile-bytecode",
                    "--python",
                    str(folder / "bin/python"),
                ),
                *(f"{package}=={version}", *also),
            ],
        )
        for command in commands:
            try:
                completed = subprocess.run(
                    command, capture_output=True, text=True, timeout=INSTALL_SECONDS
                )
            except (OSError, subprocess.TimeoutExpired) as error:
                return str(error)
            if completed.returncode:
                return " ".join(completed.stderr.split())[-300:]
        (folder / "complete").touch()
    return ""


def install_adapter(name: str, target: Path) -> None:
    """What `cp -RL` in its README does."""
    shutil.copytree(DISTRIBUTION / name, target, ignore=shutil.ignore_patterns("__pycache__"))
