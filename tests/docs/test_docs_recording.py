"""The recording of the README shows what the program of today prints, and is small."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any
from xml.etree import ElementTree

import forked_programs
import pytest
from docs.markdown_pages import ROOT, page

PICTURES = ROOT / "docs" / "pictures"


def _script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("recording", ROOT / "docs" / "recording.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["recording"] = module  # a dataclass looks itself up there
    spec.loader.exec_module(module)
    return module


recording = _script()


def run_forked(
    command: Sequence[str], *, env: Mapping[str, str], cwd: Path, **_options: Any
) -> subprocess.CompletedProcess[str]:
    """As `subprocess.run` of `python -m memory_server …`, in a process that has imported it already."""
    program = forked_programs.run(command[3:], env=env, cwd=cwd)
    assert program.returncode == 0, program.stderr.decode()
    return subprocess.CompletedProcess(command, 0, program.stdout.decode())


@pytest.mark.parametrize(("language", "name"), [("en", "README.md"), ("zh", "README.zh-CN.md")])
def test_the_recording_shows_what_the_program_prints_today(
    language: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ids differ from run to run. If this fails, `python docs/recording.py` draws the recordings again."""
    monkeypatch.setattr("subprocess.run", run_forked)
    file = PICTURES / f"two-days.{language}.svg"
    drawing = ElementTree.parse(file).getroot()
    texts = [element.text or "" for element in drawing.iter("{http://www.w3.org/2000/svg}text")]
    shown = [line.text for line in recording.lines(language)]
    assert list(map(recording.without_ids, texts)) == list(map(recording.without_ids, shown))
    assert file.stat().st_size < 60_000
    assert f"docs/pictures/{file.name}" in page(name).text


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("a" * 92, ["a" * 92]),
        (f"{'a' * 90} bcd", ["a" * 90, "bcd"]),
        ("好" * 47, ["好" * 46, "好"]),
    ],
)
def test_long_lines_are_wrapped_as_a_terminal_does(text: str, lines: list[str]) -> None:
    assert list(recording.wrapped(text)) == lines
