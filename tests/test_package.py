"""What importing gives and does: the public names, no effects, and nothing heavy for the quick commands."""

from __future__ import annotations

import ast
import json
import pkgutil
import re
import shutil
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

import memory_server
import nlp
import sandbox
from memory_server import version
from memory_server.version import commit_of_clone

PACKAGES = (memory_server, nlp, sandbox)
ROOT = Path(__file__).parents[1]


def modules() -> list[str]:
    names = [package.__name__ for package in PACKAGES]
    for package in PACKAGES:
        names += [m.name for m in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")]
    return [name for name in names if not name.endswith("__main__")]


def in_a_new_process(code: str, cwd: Path) -> str:
    """Standard output of `code` in an interpreter of its own, which must not write to standard error."""
    ran = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        cwd=cwd,
        check=False,
        timeout=60,
    )
    assert ran.returncode == 0, ran.stderr
    assert ran.stderr == ""
    return ran.stdout


def test_the_public_names_are_these() -> None:
    assert memory_server.__all__ == [
        "App",
        "GivenRules",
        "InvalidInput",
        "LongTermMemory",
        "MemoryNotFound",
        "MemoryServerError",
        "Message",
        "Origin",
        "RecallRequest",
        "Session",
        "Settings",
        "ShortTermMemory",
        "StorageError",
        "TriggerRejected",
        "language",
        "open_memory",
    ]
    for name in memory_server.__all__:
        assert getattr(memory_server, name).__name__ == name
    with pytest.raises(AttributeError, match="no attribute 'open_memroy'"):
        memory_server.open_memroy  # noqa: B018


def test_imports_for_types_obey_the_ports_too() -> None:
    """import-linter passes over imports under TYPE_CHECKING, in all contracts at once."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"][
        "importlinter"
    ]["contracts"]
    (ports,) = (
        contract
        for contract in contracts
        if contract["name"].startswith("rooms below the app do not know")
    )
    forbidden = tuple(ports["forbidden_modules"])
    looked = 0
    for room in ports["source_modules"]:
        for path in (ROOT / room.replace(".", "/")).rglob("*.py"):
            looked += 1
            text = path.read_text(encoding="utf-8")
            if not any(module in text for module in forbidden):
                continue
            for node in ast.walk(ast.parse(text)):
                if isinstance(node, ast.ImportFrom) and node.module is not None:
                    assert not node.module.startswith(forbidden), f"{path}:{node.lineno}"
    assert looked > 40


def test_importing_everything_has_no_effect(tmp_path: Path) -> None:
    code = f"""
import importlib, json, os, threading
before = dict(os.environ)
for name in {modules()!r}:
    importlib.import_module(name)
print(json.dumps([threading.active_count(), dict(os.environ) == before, os.listdir('.')]))
"""
    assert json.loads(in_a_new_process(code, tmp_path)) == [1, True, []]


@pytest.mark.parametrize(
    ("quick", "heavy"),
    [
        (
            "memory_server.cli.parser",
            ["mcp", "pydantic", "jieba", "rjieba", "numpy", "apscheduler", "rich", "py_mini_racer"],
        ),
        (
            "memory_server.runtime.app",
            ["mcp", "jieba", "rjieba", "apscheduler", "rich", "py_mini_racer", "tree_sitter"],
        ),
        (
            "memory_server.tools",
            ["mcp", "jieba", "rjieba", "numpy", "apscheduler", "rich", "py_mini_racer"],
        ),
        ("memory_server.config", ["pydantic", "nlp", "asyncio", "tomllib", "platformdirs"]),
        ("sandbox.cli", ["asyncio", "py_mini_racer", "tree_sitter", "rich", "memory_server"]),
        ("sandbox", ["py_mini_racer", "asyncio", "tree_sitter", "memory_server"]),
        ("nlp", ["jieba", "rjieba", "memory_server", "sandbox"]),
    ],
)
def test_quick_modules_do_not_load_heavy_ones(tmp_path: Path, quick: str, heavy: list[str]) -> None:
    code = (
        f"import sys, json, {quick}; print(json.dumps(sorted(set({heavy!r}) & set(sys.modules))))"
    )
    assert json.loads(in_a_new_process(code, tmp_path)) == []


def test_the_version_has_the_commit_of_a_clone_only(tmp_path: Path) -> None:
    """Not that of a repository around the program, such as one in which somebody keeps a virtual environment."""
    git = ("git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@example.org")
    if shutil.which("git") is None:
        pytest.skip("needs git")
    subprocess.run([*git, "init", "--quiet"], check=True)
    assert commit_of_clone(tmp_path) is None
    subprocess.run([*git, "commit", "--quiet", "--allow-empty", "--message", "a"], check=True)
    commit = commit_of_clone(tmp_path)
    assert commit is not None
    assert re.fullmatch("[0-9a-f]{7,}", commit)
    (tmp_path / "inside").mkdir()
    assert commit_of_clone(tmp_path / "inside") is None


def test_a_wheel_says_its_commit_by_its_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(version, "__file__", str(tmp_path / "version.py"))
    assert version.version_line() == f"memory-server {version.__version__}"
    (tmp_path / version.COMMIT_FILE).write_text("abc1234\n", encoding="ascii")
    assert version.version_line() == f"memory-server {version.__version__} (commit abc1234)"


def test_typing_information_is_shipped() -> None:
    for package in PACKAGES:
        assert (Path(package.__path__[0]) / "py.typed").exists()


def test_no_module_is_longer_than_800_lines() -> None:
    paths = [path for package in PACKAGES for path in Path(package.__path__[0]).rglob("*.[pj][ys]")]
    lines = {
        str(path.relative_to(ROOT)): len(path.read_text(encoding="utf-8").splitlines())
        for path in paths
    }
    assert len(lines) > 300
    assert {name: count for name, count in lines.items() if count > 800} == {}


def test_no_module_defines_a_name_twice() -> None:
    paths = [path for package in PACKAGES for path in Path(package.__path__[0]).rglob("*.py")]
    repeated = {
        f"{path.relative_to(ROOT)}: {name}"
        for path in paths
        for name, count in Counter(_defined_names(path)).items()
        if count > 1
    }
    assert repeated == set()


def _defined_names(path: Path) -> Iterator[str]:
    """The constants, functions and classes of a module."""
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Assign):
            yield from (target.id for target in node.targets if isinstance(target, ast.Name))


MANY = 8
"""Parameters from which on a function takes a request instead."""


def test_at_most_five_functions_but_tools_take_eight_parameters_or_more() -> None:
    paths = [path for package in PACKAGES for path in Path(package.__path__[0]).rglob("*.py")]
    long_ones = {
        f"{path.relative_to(ROOT)}: {function.name}"
        for path in paths
        for function in _functions_in(path)
        if _parameter_count(function) >= MANY
    }
    assert len(long_ones) <= 5, long_ones


def test_parameters_are_counted_without_self_and_tools_are_left_out() -> None:
    tree = ast.parse(
        "class A:\n    def f(self, a, /, b, *c, d, **e): ...\n@tool(x=1)\ndef g(): ..."
    )
    assert {f.name: _parameter_count(f) for f in _functions_of(tree)} == {"f": 5}


Function = ast.FunctionDef | ast.AsyncFunctionDef


def _functions_in(path: Path) -> list[Function]:
    return _functions_of(ast.parse(path.read_text(encoding="utf-8")))


def _functions_of(tree: ast.Module) -> list[Function]:
    """The functions of a module that are not tools: the arguments of a tool are its form."""
    functions = [node for node in ast.walk(tree) if isinstance(node, Function)]
    return [
        function for function in functions if not any(map(_makes_tool, function.decorator_list))
    ]


def _makes_tool(decorator: ast.expr) -> bool:
    return ast.unparse(decorator).startswith("tool(")


def _parameter_count(function: Function) -> int:
    arguments = function.args
    named = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    if named and named[0].arg in ("self", "cls"):
        del named[0]
    return len(named) + (arguments.vararg is not None) + (arguments.kwarg is not None)
