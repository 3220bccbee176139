"""Tests read the files of the project, and nothing that a command of the Makefile leaves in the clone."""

from __future__ import annotations

import ast
import subprocess
from pathlib import Path

import pytest
from project_files import ROOT, project_files

MADE = (
    ".venv/a.md",
    ".venv-demo/lib/a.md",
    "tests/clients/node_modules/a.md",
    "dist/a.md",
    "a/__pycache__/a.md",
)


@pytest.mark.parametrize("checkout", [True, False])
def test_what_a_command_made_is_not_a_file_of_the_project(tmp_path: Path, checkout: bool) -> None:
    for name in (*MADE, "README.md", "docs/page.md"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("text")
    (tmp_path / ".gitignore").write_bytes((ROOT / ".gitignore").read_bytes())
    if checkout:
        subprocess.run(["git", "init", "--quiet", str(tmp_path)], check=True)
    names = {path.relative_to(tmp_path).as_posix() for path in project_files(tmp_path)}
    assert names == {".gitignore", "README.md", "docs/page.md"}


def test_no_test_walks_the_whole_clone_by_itself() -> None:
    walkers = set()
    for path in project_files():
        if path.suffix != ".py" or path.name == "project_files.py":
            continue
        text = path.read_text(encoding="utf-8")
        if "ROOT" not in text or not any(name in text for name in ("rglob", "walk")):
            continue
        for node in ast.walk(ast.parse(text)):
            if (
                isinstance(node, ast.Attribute)
                and node.attr in ("rglob", "walk")
                and ast.unparse(node.value) == "ROOT"
            ):
                walkers.add(path.relative_to(ROOT).as_posix())
    assert walkers == set()


def test_ci_does_what_a_newcomer_does_in_one_clone() -> None:
    lines = (ROOT / ".ci/run").read_text(encoding="utf-8").splitlines()
    assert [line for line in lines if line.startswith("make ")] == [
        "make demo",
        "make check",
        "make test",
    ]
