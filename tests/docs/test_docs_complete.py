"""Nothing that a user can call, type or set is missing from the pages, and nothing stands there that is not so."""

from __future__ import annotations

import argparse
import importlib
import inspect
import json
import re
import shlex
import tomllib
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from functools import cache
from pathlib import Path
from typing import Any, get_args

import pytest
from docs.markdown_pages import ROOT, page, pages, steps
from project_files import project_files
from pydantic import BaseModel

import memory_server
from memory_server import config
from memory_server.cli import parser
from memory_server.command_table import COMMANDS
from memory_server.conversations.changes import Change
from memory_server.kernel.errors import MemoryServerError
from memory_server.serving.prompts import PROMPTS
from memory_server.serving.resources import RESOURCES, TEMPLATES
from memory_server.tools import DEFAULT_TOOLS, TOOLS, TOOLSETS
from sandbox import FailureKind
from sandbox import cli as sandbox_cli

PARSERS = {"memory-server": cache(parser.parser), "trigger-sandbox": cache(sandbox_cli.command_parser)}
"""Each is built once: it has all commands, which takes 20 ms."""
READMES = ("README.md", "README.zh-CN.md")


def subcommands(parser: argparse.ArgumentParser) -> Iterator[tuple[str, argparse.ArgumentParser]]:
    """Every command with its full name, also those of a command that has commands itself."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, command in action.choices.items():
                yield f"{parser.prog} {name}", command
                yield from subcommands(command)


def settings(model: type = config.Settings, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    if is_dataclass(model):
        yield from ((*path, field.name) for field in fields(model))
        return
    for name, field in model.model_fields.items():
        kind = field.annotation
        if is_dataclass(kind) or (isinstance(kind, type) and issubclass(kind, BaseModel)):
            yield from settings(field.annotation, (*path, name))
        else:
            yield (*path, name)


def test_every_setting_says_what_it_is() -> None:
    rows = re.findall(r"^\| `(\w+)` \|.*\| *([^|]*?) \|$", page("docs/reference/settings.md").text, re.MULTILINE)
    assert len(rows) == len(list(settings()))
    assert not [name for name, meaning in rows if not meaning]


# --- resources and prompts -----------------------------------------------------------------------------------


def test_every_resource_and_prompt_is_described_with_its_arguments() -> None:
    text = page("docs/reference/resources-and-prompts.md").text
    for uri in (*RESOURCES, *(template.uri_template for template in TEMPLATES)):
        assert f"| `{uri}` |" in text
    for prompt in PROMPTS.values():
        arguments = ", ".join(f"{row.name}{'' if row.required else '?'}" for row in prompt.arguments)
        assert f"| `{prompt.name}` | {arguments} |" in text
    assert text.count("| `memory://") == len(RESOURCES) + len(TEMPLATES)


# --- tools ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", TOOLS)
def test_a_tool_is_described_listed_and_shown_in_use(name: str) -> None:
    assert name.lower() in page("docs/reference/tools.md").anchors
    assert name.lower() in page("docs/reference/tool-examples.md").anchors
    used = [
        step.command
        for block in page("docs/reference/tool-examples.md").blocks
        if block.language == "console"
        for step in steps(block)
    ]
    assert any(name in command for command in used)


def test_the_readmes_list_the_tools_that_a_model_gets_and_count_the_others() -> None:
    for readme in READMES:
        assert re.findall(r"^\| `(\w+)` \|", page(readme).text, re.MULTILINE) == list(DEFAULT_TOOLS)
        assert f" {len(TOOLS) - len(DEFAULT_TOOLS)} " in page(readme).text


def test_the_readmes_are_short() -> None:
    for readme in READMES:
        assert len(page(readme).text.splitlines()) <= 150


def test_every_argument_and_result_field_has_a_meaning() -> None:
    rows = re.findall(r"^\| `(\S+?)\??` \|.*\| *([^|]*?) \|$", page("docs/reference/tools.md").text, re.MULTILINE)
    assert len(rows) > 60
    assert not [name for name, meaning in rows if not meaning]


def test_every_toolset_is_named() -> None:
    for name in TOOLSETS:
        assert f"Toolset `{name}`" in page("docs/reference/tools.md").text


# --- commands ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("program", PARSERS)
def test_every_command_and_flag_is_documented(program: str) -> None:
    text, common = page("docs/reference/commands.md").text, _common(program)
    for name, command in subcommands(PARSERS[program]()):
        section = text.split(f"### {name}\n")[1].split("\n### ")[0]
        for action in command._actions:
            for flag in action.option_strings if action.help is not argparse.SUPPRESS else ():
                assert f"`{flag}" in (section if flag not in common else text), f"{name} {flag}"


def test_the_readmes_name_eight_commands_of_the_server_and_lead_to_the_others() -> None:
    known = {program: [name for name, _ in subcommands(parser())] for program, parser in PARSERS.items()}
    for readme in READMES:
        rows = re.findall(r"^\| (`(?:memory-server|trigger-sandbox)[^|]*)\|", page(readme).text, re.MULTILINE)
        named = {" ".join(code.split()[:2]) for row in rows for code in re.findall(r"`([^`]+)`", row)}
        first = {" ".join(re.findall(r"`([^`]+)`", row)[0].split()[:2]) for row in rows}
        assert len(first) == len(rows) == 8
        assert named <= {name for names in known.values() for name in names}
        assert "](docs/reference/commands.md)" in page(readme).text


def _common(program: str) -> set[str]:
    shown = (action for action in PARSERS[program]()._actions if action.help is not argparse.SUPPRESS)
    return {flag for action in shown for flag in action.option_strings}


def test_every_setting_that_is_a_flag_is_documented_once() -> None:
    section = page("docs/reference/commands.md").text.split("\n### ")[0]
    for name, (metavar, _) in parser.SETTINGS.items():
        assert f"`--{name} {metavar}`" in section
    assert "`--read-only`" in section


@pytest.mark.parametrize("name", ["two-machines.md", "two-machines.zh-CN.md"])
def test_the_table_of_a_linked_machine_names_the_commands_of_each_row(name: str) -> None:
    section = next(part for part in page(f"docs/how-to/{name}").text.split("\n## ") if "| `link`" in part)
    server, here = [set(re.findall(r"`([a-z-]+)`", line)) for line in section.splitlines() if line.startswith("| ")][
        2:4
    ]
    linked = {kind: {row.name for row in COMMANDS.values() if row.linked == kind} for kind in ("here", "tool", "sent")}
    assert server == linked["sent"] | linked["tool"]
    assert here == linked["here"] - {"serve", "hook"}  # windows and hooks, which ask the server


def _written_commands() -> Iterator[tuple[str, str]]:
    """Every line of every shell block that calls one of our programs, from its name on."""
    for read in pages():
        for block in read.blocks:
            if block.language not in ("sh", "console"):
                continue
            lines = [s.command for s in steps(block)] if block.language == "console" else block.text.splitlines()
            for line in lines:
                for program in PARSERS:
                    found = re.search(rf"(?:^|[/\s]){program}(?= |$)(?!/)", line.split(" #")[0])
                    if found and not line.startswith(("python3 -m venv", "cd ", "#")) and "pip" not in line:
                        yield f"{read.name}:{block.line}", line[found.end() - len(program) :]


@pytest.mark.parametrize(("place", "command"), list(_written_commands()))
def test_commands_in_shell_blocks_can_be_typed(place: str, command: str) -> None:
    program, *arguments = shlex.split(command)
    if not {"--help", "-h", "--version"} & set(arguments):  # these end the program
        PARSERS[program]().parse_args([a for a in arguments if a not in ("|", ">", "&&")])


def test_make_targets_that_are_named_exist() -> None:
    targets = set(re.findall(r"^(\w[\w-]*):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    for read in pages():
        named = set(re.findall(r"`make (\w[\w-]*)`", read.text))
        for block in read.blocks:
            if block.language == "sh":
                named |= set(re.findall(r"^make (\w[\w-]*)$", block.text, re.MULTILINE))
        assert named <= targets, read.name
    text = page("CONTRIBUTING.md").text
    assert not [target for target in targets - {"clean"} if f"`make {target}`" not in text]


# --- settings ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", list(settings()), ids=".".join)
def test_a_setting_is_documented_and_can_be_given_in_the_environment(path: tuple[str, ...]) -> None:
    variable = config.ENVIRONMENT_PREFIX + "__".join(path).upper()
    rows = [line for line in page("docs/reference/settings.md").text.splitlines() if f"`{variable}`" in line]
    assert len(rows) == 1
    assert rows[0].startswith(f"| `{path[-1]}` |")
    assert len(rows[0].split("|")[-2].strip()) > 5, "it has no meaning"


def test_variables_that_are_named_exist() -> None:
    known = {config.ENVIRONMENT_PREFIX + "__".join(path).upper() for path in settings()} | {"MEMORY_SERVER_CONFIG"}
    for read in pages():
        assert set(re.findall(r"MEMORY_SERVER_[A-Z_]*[A-Z]", read.text)) <= known, read.name


def test_settings_files_can_be_used(tmp_path: Path) -> None:
    files = [block for read in pages() for block in read.blocks if block.language == "toml"]
    assert files
    for block in files:
        (tmp_path / "settings.toml").write_text(block.text, encoding="utf-8")
        assert config.load({}, {}, tmp_path / "settings.toml") != config.Settings()


def test_client_configurations_start_the_server() -> None:
    checked = 0
    for read in pages():
        for block in read.blocks:
            if block.language != "json":
                continue
            value = json.loads(block.text)
            servers: dict[str, Any] = (value.get("mcpServers") or value.get("servers") or {}) if _is_map(value) else {}
            for server in servers.values():
                assert server["command"] == "/path/to/memory-server"
                flags = vars(parser.parser().parse_args(server.get("args", [])))
                assert "module" not in flags, "a client serves"
                config.load(
                    server.get("env", {}), {n: v for n, v in flags.items() if n in config.Settings.model_fields}
                )
                checked += 1
    assert checked >= 5


def _is_map(value: object) -> bool:
    return isinstance(value, dict)


# --- the Python API, files, errors, decisions ----------------------------------------------------------------


def test_public_names_and_errors_are_documented() -> None:
    text = page("docs/reference/python-api.md").text
    names = set(memory_server.__all__) | {error.__name__ for error in _below(MemoryServerError) if _is_public(error)}
    assert not [name for name in names if f"`{name}`" not in text and f"### {name}\n" not in text]


def _below(kind: type[Exception]) -> Iterator[type[Exception]]:
    for child in kind.__subclasses__():
        yield child
        yield from _below(child)


def _is_public(error: type[Exception]) -> bool:
    return error.__module__ == "memory_server.kernel.errors"


def test_the_errors_stand_below_what_the_page_says() -> None:
    rows = re.findall(r"^\| `(\w+)` \| `(\w+)` \|", page("docs/reference/python-api.md").text, re.MULTILINE)
    errors = importlib.import_module("memory_server.kernel.errors")
    assert len(rows) > 5
    for name, parent in rows:
        assert getattr(errors, name).__base__.__name__ == parent


def test_every_kind_of_change_is_documented() -> None:
    text = page("docs/reference/data-folder.md").text
    for kind in get_args(Change):
        written = re.sub(r"(?<!^)([A-Z])", r"_\1", kind.__name__).lower()
        assert f"| `{written}` |" in text


def test_every_kind_of_failure_is_documented() -> None:
    text = page("docs/reference/tools.md").text
    assert not [kind for kind in get_args(FailureKind) if f"`{kind}`" not in text]


def test_invariants_name_contracts_and_tests_that_exist() -> None:
    text = page("docs/explanation/architecture.md").text
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    names = {contract["name"] for contract in project["tool"]["importlinter"]["contracts"]}
    rows = re.findall(r"^\| (\d) \| .* \| (.*) \|$", text, re.MULTILINE)
    assert [number for number, _ in rows] == list("12345678")
    for _, holders in rows:
        assert set(re.findall(r'"([^"]+)"', holders)) <= names
        assert '"' in holders or "](../../tests/" in holders


def test_the_map_names_only_files_that_exist() -> None:
    text = page("docs/explanation/architecture.md").text
    described = text.partition("## The map")[0]
    named = set(re.findall(r"`([\w./]+(?:\.py|\.json|/))`", described))
    known = set()
    for path in project_files():
        file = path.relative_to(ROOT)
        known |= {f"/{file.as_posix()}", *(f"/{folder.as_posix()}/" for folder in file.parents)}
    assert len(named) > 40
    assert not [name for name in named if not any(path.endswith(f"/{name}") for path in known)]


def test_the_map_names_only_what_the_code_has() -> None:
    """A renamed function or constant is renamed in the tables of where to put something new, too; and what is said to
    be in a file is named there."""
    text = page("docs/explanation/architecture.md").text
    rows = text.partition("## Where to put something new")[2].partition("## The map")[0]
    named = {part for name in re.findall(r"`([A-Za-z_./]+)`", rows) for part in re.split(r"[./]", name)} - {""}
    words = {"tests", *(path.stem for pattern in ("*", "*/test_*") for path in (ROOT / "tests").glob(pattern))}
    sources: dict[str, str] = {}
    for path in project_files():
        name = path.relative_to(ROOT).as_posix()
        if not name.startswith(("memory_server/", "sandbox/", "nlp/", "docs/", "distribution/")):
            continue
        words |= set(re.findall(r"\w+", name))
        if path.suffix in (".py", ".js"):
            sources[f"/{name}"] = path.read_text(encoding="utf-8")
            words |= set(re.findall(r"\w+", sources[f"/{name}"]))
    assert len(named) > 100
    assert sorted(named - words) == []
    pairs = re.findall(r"`([A-Za-z_.]+)` (?:in|of) `([\w/]+\.(?:py|js))`", rows)
    assert len(pairs) > 40
    missing = [
        (name, place)
        for name, place in pairs
        if not any(
            path.endswith(f"/{place}") and re.search(rf"\b{name.rsplit('.')[-1]}\b", source)
            for path, source in sources.items()
        )
    ]
    assert missing == []


def test_the_versions_agree() -> None:
    text = page("CHANGELOG.md").text
    versions = re.findall(r"^## \[(\d+\.\d+\.\d+)\]", text, re.MULTILINE)
    assert versions[0] == memory_server.__version__
    assert "## [Unreleased]" in text


def test_the_calls_in_the_readme_exist() -> None:
    """A renamed parameter must not hide behind positional use."""
    from memory_server.conversations.long_term import LongTermManager
    from memory_server.conversations.short_term import ShortTermManager

    text = page("docs/reference/python-api.md").text
    for manager in (ShortTermManager, LongTermManager):
        for name, call in inspect.getmembers(manager, inspect.isfunction):
            if not name.startswith("_"):
                section = text.split(f"#### {manager.__name__}.{name}\n")[1].split("\n#")[0]
                for parameter in list(inspect.signature(call).parameters)[1:]:
                    assert parameter in section
