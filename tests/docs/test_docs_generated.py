"""The generated pages are those of the code, and `--check` says which one is not."""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import subprocess
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from types import ModuleType

import pytest
from docs.markdown_pages import ROOT

from sandbox.javascript.linting import lint
from sandbox.javascript.syntax import parse


@pytest.fixture(scope="module")
def generate() -> ModuleType:
    specification = importlib.util.spec_from_file_location(
        "docs_generate", ROOT / "docs" / "generate.py"
    )
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def pages(generate: ModuleType) -> Mapping[Path, str]:
    """The generated text of each page; it takes 4 s of processor time."""
    texts: Mapping[Path, str] = generate.pages()
    return texts


@pytest.mark.full  # `make check` asks the same
def test_the_generated_pages_are_current(pages: Mapping[Path, str]) -> None:
    stale = [path.name for path, text in pages.items() if path.read_text(encoding="utf-8") != text]
    assert not stale, f"run `make docs`: {stale}"


def test_check_names_the_stale_page_and_writes_nothing(
    generate: ModuleType,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    reference = ROOT / "docs" / "reference"
    settings = reference / "settings.md"
    paths = [settings, reference / "commands.md"]
    current = {path: path.read_text(encoding="utf-8") for path in paths}
    monkeypatch.setattr(generate, "pages", lambda: current | {settings: "another text"})
    assert generate.main(["--check"]) == 1
    assert "docs/reference/settings.md" in capsys.readouterr().err
    assert settings.read_text(encoding="utf-8") == current[settings]
    monkeypatch.setattr(generate, "pages", lambda: current)
    assert generate.main(["--check"]) == 0


@pytest.mark.parametrize("columns", ["20", "300"])
def test_the_width_of_the_terminal_does_not_matter(
    generate: ModuleType, monkeypatch: pytest.MonkeyPatch, columns: str
) -> None:
    before = generate.commands_page()
    monkeypatch.setenv("COLUMNS", columns)
    assert generate.commands_page() == before


@pytest.mark.full
def test_it_runs_from_anywhere(tmp_path: Path) -> None:
    command = [sys.executable, str(ROOT / "docs" / "generate.py"), "--check"]
    process = subprocess.run(command, cwd=tmp_path, capture_output=True, timeout=60, check=False)
    assert process.returncode in (0, 1), process.stderr.decode()
    assert not process.stdout


def test_each_lint_rule_finds_its_bad_example_and_nothing_in_the_good_one(
    generate: ModuleType,
) -> None:
    now = datetime(2026, 7, 17, tzinfo=UTC)
    for rule in sys.modules[generate.lint_rules_page.__module__].RULES:
        assert rule.name in [finding.rule for finding in lint(parse(rule.bad), now)], rule.name
        assert lint(parse(rule.good), now) == [], rule.name


def test_each_meaning_that_the_pages_of_tools_leave_out_is_one_of_a_field(
    generate: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = sys.modules[generate.tools_page.__module__]
    left_out = page.SAID_BY_THE_NAME | set(page.ELSEWHERE)
    monkeypatch.setattr(page, "ELSEWHERE", {})
    meanings = {
        field.meaning for tools in page.TOOLSETS.values() for field in page._fields_of(tools)
    }
    for name, shape in page._all_shapes().items():
        for arguments in (False, True):
            meanings |= {field.meaning for field in page._fields(shape, name, arguments=arguments)}
    assert sorted(left_out - meanings) == []


def test_each_meaning_that_the_page_of_commands_leaves_out_is_one_of_an_argument(
    generate: ModuleType,
) -> None:
    page = sys.modules[generate.commands_page.__module__]
    meanings: set[str] = set()
    parsers = [page.parser.parser(), page.sandbox_cli.command_parser()]
    while parsers:
        for action in parsers.pop()._actions:
            meanings.add(page._sentence(action.help or ""))
            if isinstance(action, argparse._SubParsersAction):
                parsers.extend(action.choices.values())
    assert sorted(page.SAID_BY_THE_NAME - meanings) == []


def test_what_the_page_of_the_python_api_leaves_out_exists(generate: ModuleType) -> None:
    """A renamed call does not leave its old name in the lists of the page."""
    page = sys.modules[generate.python_api_page.__module__]
    definitions = page.definitions()
    for owner, names in page.INTERNAL.items():
        [(module, _)] = definitions[owner]
        members = dir(getattr(importlib.import_module(module), owner))
        assert not [name for name in names if name not in members], owner
    for name in page.WHOLE:
        assert name.partition(".")[0] in page.API, name
    [(module, _)] = definitions["Knowledge"]
    families = dir(importlib.import_module(module).Knowledge)
    for place, _ in page.AS_TOOLS.values():
        assert place.partition("[")[0] in families, place
    for name in page.PLAIN:
        owner, _, call = name.partition(".")
        [(module, _)] = definitions[owner]
        assert call in ("", *dir(getattr(importlib.import_module(module), owner))), name
