"""Looks at what was built as a registry and a user do; distribution/build.py calls it with --check."""

from __future__ import annotations

import email
import os
import subprocess
import sys
import tempfile
import venv
import zipfile
from collections.abc import Iterator
from email.message import Message
from pathlib import Path

FIELDS = (
    "Metadata-Version",
    "Name",
    "Version",
    "Summary",
    "License-Expression",
    "Requires-Python",
    "Description-Content-Type",
)


def wheel_of(source: Path, folder: Path) -> Path:
    """Build the wheel of a source, a folder or an archive, into `folder`."""
    pip = (
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "--quiet",
        "--disable-pip-version-check",
        "--no-deps",
    )
    subprocess.run([*pip, "--wheel-dir", str(folder), str(source)], check=True)
    (built,) = folder.glob("memory_server-*.whl")
    return built


def check(root: Path, version: str, wheel: Path, source: Path) -> int:
    """Print what was checked and what is wrong; return the status to end with."""
    faults = [
        *faults_of_metadata(wheel, version),
        *faults_of_catalogues(root, wheel),
        *_faults_of_source(wheel, source),
        *_faults_of_installation(wheel, version),
    ]
    for warning in warnings_of(root, version):
        print(f"warning: {warning}")
    for fault in faults:
        print(f"error: {fault}")
    if not faults:
        print(
            "Metadata and languages are complete, the source gives the same wheel, and the wheel runs in a new environment."
        )
    return 1 if faults else 0


def warnings_of(root: Path, version: str) -> Iterator[str]:
    """Yield what must not be so in a release, and does no harm before it."""
    changelog = (root / "CHANGELOG.md").read_text("utf-8")
    if f"## [{version}] - 2" not in changelog:
        yield f"CHANGELOG.md has no date for {version}."
    command = ("git", "-C", str(root), "status", "--porcelain")
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        yield "This folder is not a git clone, so the wheel does not know its commit."
    elif done.stdout.strip():
        yield "The clone has changes that are not committed."


def faults_of_metadata(wheel: Path, version: str) -> Iterator[str]:
    """Yield what a registry would refuse, or show wrongly."""
    metadata = _metadata(wheel)
    for field in FIELDS:
        if not metadata.get(field):
            yield f"{wheel.name}: the metadata has no {field}."
    if metadata["Version"] != version:
        yield f"{wheel.name}: the version is {metadata['Version']} and not {version}."
    if metadata["Description-Content-Type"] != "text/markdown":
        yield f"{wheel.name}: the description is {metadata['Description-Content-Type']} and not Markdown."
    if not str(metadata.get_payload()).lstrip().startswith("# memory-server"):
        yield f"{wheel.name}: the description is not the README."


def faults_of_catalogues(root: Path, wheel: Path) -> Iterator[str]:
    """Yield the languages of the clone that the programs of the wheel would not speak."""
    with zipfile.ZipFile(wheel) as packed:
        names = packed.namelist()
    for translations in sorted(root.glob("languages/*/*.po")):
        catalogue = translations.with_suffix(".mo").relative_to(root).as_posix()
        if catalogue not in names:
            yield f"{wheel.name}: {catalogue} is missing; run `make catalogues`."


def _metadata(wheel: Path) -> Message:
    with zipfile.ZipFile(wheel) as packed:
        (name,) = (name for name in packed.namelist() if name.endswith(".dist-info/METADATA"))
        return email.message_from_bytes(packed.read(name))


def _faults_of_source(wheel: Path, source: Path) -> Iterator[str]:
    """Yield a fault unless the wheel of the source has the same files as the wheel."""
    with tempfile.TemporaryDirectory() as folder:
        of_source = wheel_of(source, Path(folder))
        contents = [_contents(file) for file in (wheel, of_source)]
    # The checksums are compared, because times differ.
    different = sorted(
        name
        for name in contents[0].keys() | contents[1].keys()
        if contents[0].get(name) != contents[1].get(name)
    )

    if different:
        yield f"{source.name}: its wheel differs in {', '.join(different[:10])}."


def _contents(wheel: Path) -> dict[str, int]:
    """Return the files of a wheel with their check sums; RECORD only repeats them."""
    with zipfile.ZipFile(wheel) as packed:
        return {
            file.filename: file.CRC
            for file in packed.infolist()
            if not file.filename.endswith("/RECORD")
        }


def _faults_of_installation(wheel: Path, version: str) -> Iterator[str]:
    """Yield a fault unless the wheel installs and runs where nothing else is."""
    with tempfile.TemporaryDirectory() as folder:
        venv.create(folder, with_pip=True)
        programs = Path(folder) / ("Scripts" if os.name == "nt" else "bin")

        pip = (
            str(programs / "python"),
            "-m",
            "pip",
            "install",
            "--quiet",
            "--disable-pip-version-check",
            str(wheel),
        )
        subprocess.run(pip, check=True, stderr=subprocess.DEVNULL)

        shown_version = _said(programs, folder, "--version")
        if not shown_version.startswith(f"memory-server {version}"):
            yield f"{wheel.name}: --version says {shown_version!r}."
        print(shown_version.strip())

        if "All 3 questions" not in _said(programs, folder, "demo"):
            yield f"{wheel.name}: the demo does not answer its questions."


def _said(programs: Path, folder: str, command: str) -> str:
    """Run a command of the installed program, and return its output and errors."""
    # The program must be found in the environment, and not in this clone.
    environment = {
        **os.environ,
        "MEMORY_SERVER_DATA_DIR": folder,
        "LANGUAGE": "en",
        "PYTHONPATH": "",
    }

    run = (str(programs / "memory-server"), command)
    done = subprocess.run(
        run,
        env=environment,
        cwd=folder,
        capture_output=True,
        encoding="utf-8",
        check=False,
        timeout=120,
    )
    return done.stdout + done.stderr
