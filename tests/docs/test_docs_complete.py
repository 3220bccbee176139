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
from docs.markdown_pages import ROOT, Block, commands_in, page, pages, steps
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
from memory_server.tools import DEFAULT_TOOLS, TOOLSETS
from sandbox import FailureKind
from sandbox import cli as sandbox_cli

PARSERS = {
    "memory-server": cache(parser.parser),
    "trigger-sandbox": cache(sandbox_cli.command_parser),
}
"""Each is built once: it has all commands, which takes 20 ms."""
READMES = ("README.md", "README.zh-CN.md")


def subcommands(parser: argparse.ArgumentParser) -> Iterator[tuple[str, argparse.ArgumentParser]]:
    """Every command with its full name, also those of a command that has commands itself."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, command in action.choices.items():
                yield f"{parser.prog} {name}", command
                yield from subcommands(command)


def settings(
    model: type = config.Settings, path: tuple[str, ...] = ()
) -> Iterator[tuple[str, ...]]:
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
    text = page("docs/reference/settings.md").text.partition("\n## General\n")[2]
    rows = re.findall(r"^- `(\w+)`(?: \(.*?\))?:(?: (.*))?$", text, re.MULTILINE)
    assert len(rows) == len(list(settings()))
    assert not [name for name, meaning in rows if not meaning]


# --- resources and prompts -----------------------------------------------------------------------------------


def test_every_resource_and_prompt_is_described_with_its_arguments() -> None:
    text = page("docs/reference/resources-and-prompts.md").text
    for uri in (*RESOURCES, *(template.uri_template for template in TEMPLATES)):
        assert f"| `{uri}` |" in text
    for prompt in PROMPTS.values():
        arguments = ", ".join(
            argument.name + "?" * (not argument.required) for argument in prompt.arguments
        )
        assert f"| `{prompt.name}` | {arguments} |" in text
    assert text.count("| `memory://") == len(RESOURCES) + len(TEMPLATES)


# --- tools ---------------------------------------------------------------------------------------------------


TOOL_PAGES = [
    "docs/reference/tools.md",
    *(f"docs/reference/tools/{toolset}.md" for toolset in TOOLSETS),
]


@pytest.mark.parametrize(
    ("toolset", "name"), [(name, tool.name) for name, tools in TOOLSETS.items() for tool in tools]
)
def test_a_tool_is_described_listed_and_shown_in_use(toolset: str, name: str) -> None:
    its_page = page(f"docs/reference/tools/{toolset}.md")
    assert f"`{name}`" in page("docs/reference/tools.md").text
    assert name.lower() in its_page.anchors
    assert any(f" {name}" in step.command for step in commands_in(its_page))


@pytest.mark.parametrize("name", ["connect-a-client.md", "connect-a-client.zh-CN.md"])
def test_the_page_of_clients_names_the_tools_that_a_model_gets(name: str) -> None:
    paragraphs = page(f"docs/how-to/{name}").text.split("\n\n")
    [listed] = [
        paragraph
        for paragraph in paragraphs
        if all(f"`{tool}`" in paragraph for tool in DEFAULT_TOOLS)
    ]
    assert set(re.findall(r"`(\w+)`", listed)) == {*DEFAULT_TOOLS, "default"}


def test_the_readmes_are_short() -> None:
    for readme in READMES:
        assert len(page(readme).text.splitlines()) <= 150
    assert len(page("README.md").text.split()) <= 600


def test_every_argument_and_result_field_has_a_meaning() -> None:
    text = "\n".join(page(name).text for name in TOOL_PAGES)
    rows = re.findall(r"^- `(\S+?)\??`(?: \(.*?\))?:(?: (.*))?$", text, re.MULTILINE)
    assert len(rows) > 100
    assert not [name for name, meaning in rows if not meaning]


@pytest.mark.parametrize("toolset", TOOLSETS)
def test_every_argument_and_result_field_is_named(toolset: str) -> None:
    """Their shapes may stand on the page of all tools."""
    text = page("docs/reference/tools.md").text + page(f"docs/reference/tools/{toolset}.md").text
    named = set(re.findall(r"(?<!`)`(\w+)\??`", text))
    for tool in TOOLSETS[toolset]:
        for schema in (tool.input_schema(), tool.output_schema()):
            assert not _names_of_fields(schema) - named, tool.name


def _names_of_fields(schema: Any) -> set[str]:
    """The names of all properties of a schema and of the schemas in it."""
    if isinstance(schema, list):
        return set().union(*map(_names_of_fields, schema))
    if not isinstance(schema, dict):
        return set()
    names = set(schema.get("properties", {}))
    return names.union(*map(_names_of_fields, schema.values()))


def test_every_toolset_is_named() -> None:
    for name in TOOLSETS:
        assert f"[`{name}`](tools/{name}.md)" in page("docs/reference/tools.md").text


# --- commands ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("program", PARSERS)
def test_every_command_and_flag_is_documented(program: str) -> None:
    text = page("docs/reference/commands.md").text
    parser_of_program = PARSERS[program]()
    common_flags = _flags(parser_of_program)
    for name, command in subcommands(parser_of_program):
        section = text.split(f"### {name}\n")[1].split("\n### ")[0]
        flags = _flags(command)
        assert not [flag for flag in flags - common_flags if f"`{flag}" not in section], name
        assert not [flag for flag in flags & common_flags if f"`{flag}" not in text], name


def test_the_readmes_lead_to_the_commands_by_the_list_of_all_pages() -> None:
    """What they name themselves is checked below, as on every page."""
    for readme in READMES:
        assert "](docs/index.md)" in page(readme).text
    assert "](reference/commands.md)" in page("docs/index.md").text


def _flags(command: argparse.ArgumentParser) -> set[str]:
    """The flags that the help of a command shows, without those of its subcommands."""
    flags: set[str] = set()
    for action in command._actions:
        if action.help is not argparse.SUPPRESS:
            flags.update(action.option_strings)
    return flags


def test_every_setting_that_is_a_flag_is_documented_once() -> None:
    section = page("docs/reference/commands.md").text.split("\n### ")[0]
    for name, (metavar, _) in parser.SETTINGS.items():
        assert f"`--{name} {metavar}`" in section
    assert "`--read-only`" in section


@pytest.mark.parametrize("name", ["two-machines.md", "two-machines.zh-CN.md"])
def test_the_table_of_a_linked_machine_names_the_commands_of_each_row(name: str) -> None:
    section = next(
        part for part in page(f"docs/how-to/{name}").text.split("\n## ") if "| `link`" in part
    )
    rows = [line for line in section.splitlines() if line.startswith("| ")]
    for_server = set(re.findall(r"`([a-z-]+)`", rows[2]))
    for_this_machine = set(re.findall(r"`([a-z-]+)`", rows[3]))
    assert for_server == _linked("sent") | _linked("tool")
    assert for_this_machine == _linked("here") - {
        "serve",
        "hook",
    }  # windows and hooks, which ask the server


def _linked(kind: str) -> set[str]:
    """The commands that a linked machine treats like this."""
    return {command.name for command in COMMANDS.values() if command.linked == kind}


def _written_commands() -> Iterator[tuple[str, str]]:
    """Every line of every shell block that calls one of our programs, from its name on."""
    for read in pages():
        for block in read.blocks:
            if block.language not in ("sh", "console"):
                continue
            for line in _command_lines(block):
                for program in PARSERS:
                    match = re.search(rf"(?:^|[/\s]){program}(?= |$)(?!/)", line.split(" #")[0])
                    if (
                        match
                        and not line.startswith(("python3 -m venv", "cd ", "#"))
                        and "pip" not in line
                    ):
                        yield f"{read.name}:{block.line}", line[match.end() - len(program) :]


def _command_lines(block: Block) -> list[str]:
    if block.language == "console":
        return [step.command for step in steps(block)]
    return block.text.splitlines()


@pytest.mark.parametrize(("location", "command"), list(_written_commands()))
def test_commands_in_shell_blocks_can_be_typed(location: str, command: str) -> None:
    program, *arguments = shlex.split(command)
    if not {"--help", "-h", "--version"} & set(arguments):  # these end the program
        PARSERS[program]().parse_args([a for a in arguments if a not in ("|", ">", "&&")])


def test_make_targets_that_are_named_exist() -> None:
    targets = set(
        re.findall(r"^(\w[\w-]*):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    )
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
def test_a_setting_is_documented_once_in_its_section(path: tuple[str, ...]) -> None:
    title = f"`[{'.'.join(path[:-1])}]`" if path[1:] else "General"
    text = page("docs/reference/settings.md").text
    section = text.partition(f"\n## {title}\n")[2].partition("\n## ")[0]
    meanings = re.findall(rf"^- `{path[-1]}`(?: \(.*?\))?: (.*)$", section, re.MULTILINE)
    assert len(meanings) == 1
    assert len(meanings[0]) > 5, "it has no meaning"


@pytest.mark.parametrize("path", list(settings()), ids=".".join)
def test_a_setting_can_be_given_by_the_variable_that_the_page_describes(
    path: tuple[str, ...],
) -> None:
    rule = "`MEMORY_SERVER_`, then the table and the name in capitals, with `__` between"
    assert rule in page("docs/reference/settings.md").text
    variable = config.ENVIRONMENT_PREFIX + "__".join(path).upper()
    assert "There is no setting" not in _what_is_wrong_with({variable: "?"})
    assert "There is no setting" in _what_is_wrong_with({f"{variable}_NONE": "?"})


def _what_is_wrong_with(environment: dict[str, str]) -> str:
    """Return the error of these variables, or an empty text if they can be used."""
    try:
        config.load(environment)
    except MemoryServerError as error:
        return str(error)
    return ""


def test_variables_that_are_named_exist() -> None:
    variables = {config.ENVIRONMENT_PREFIX + "__".join(path).upper() for path in settings()} | {
        "MEMORY_SERVER_CONFIG"
    }
    for read in pages():
        assert set(re.findall(r"MEMORY_SERVER_[A-Z_]*[A-Z]", read.text)) <= variables, read.name


def test_settings_files_can_be_used(tmp_path: Path) -> None:
    files = _blocks_in("toml")
    assert files
    for block in files:
        (tmp_path / "settings.toml").write_text(block.text, encoding="utf-8")
        assert config.load({}, {}, tmp_path / "settings.toml") != config.Settings()


def _blocks_in(language: str) -> list[Block]:
    """The blocks of all pages that are written in a language."""
    blocks: list[Block] = []
    for read in pages():
        blocks.extend(block for block in read.blocks if block.language == language)
    return blocks


def test_client_configurations_start_the_server() -> None:
    checked = 0
    for block in _blocks_in("json"):
        for server in _servers(json.loads(block.text)):
            assert server["command"] == "/path/to/memory-server"
            flags = vars(parser.parser().parse_args(server.get("args", [])))
            assert "module" not in flags, "a client serves"
            settings_of_flags = {
                name: value for name, value in flags.items() if name in config.Settings.model_fields
            }
            config.load(server.get("env", {}), settings_of_flags)
            checked += 1
    assert checked >= 4


def _servers(value: Any) -> list[dict[str, Any]]:
    """The servers that a JSON example configures; none where it shows something else."""
    if not isinstance(value, dict):
        return []
    servers: dict[str, Any] = value.get("mcpServers") or value.get("servers") or {}
    return list(servers.values())


# --- the Python API, files, errors, decisions ----------------------------------------------------------------


def test_public_names_and_errors_are_documented() -> None:
    text = page("docs/reference/python-api.md").text
    names = set(memory_server.__all__) | {
        error.__name__ for error in _below(MemoryServerError) if _is_public(error)
    }
    assert not [
        name
        for name in names
        if not re.search(rf"`{name}(?:`|\()|^### {name}$", text, re.MULTILINE)
    ]


def _below(kind: type[Exception]) -> Iterator[type[Exception]]:
    for child in kind.__subclasses__():
        yield child
        yield from _below(child)


def _is_public(error: type[Exception]) -> bool:
    return error.__module__ == "memory_server.kernel.errors"


def test_the_errors_stand_below_what_the_page_says() -> None:
    """The list of errors is indented as their classes are derived."""
    text = page("docs/reference/python-api.md").text
    section = text.partition("## Errors\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^( *)- `(\w+)`: .", section, re.MULTILINE)
    errors = importlib.import_module("memory_server.kernel.errors")
    named = [name for _, name in rows]
    assert sorted(named) == sorted(
        error.__name__
        for error in (MemoryServerError, *_below(MemoryServerError))
        if _is_public(error)
    )
    above: list[str] = []
    for indentation, name in rows:
        above = [*above[: len(indentation) // 2], name]
        if len(above) > 1:
            assert getattr(errors, name).__base__.__name__ == above[-2]


def test_every_kind_of_change_is_documented() -> None:
    text = page("docs/reference/data-folder.md").text
    for kind in get_args(Change):
        written = re.sub(r"(?<!^)([A-Z])", r"_\1", kind.__name__).lower()
        assert f"| `{written}` |" in text


def test_every_kind_of_failure_is_documented() -> None:
    text = page("docs/reference/tools.md").text + page("docs/reference/tools/long-term.md").text
    assert not [kind for kind in get_args(FailureKind) if f"`{kind}`" not in text]


def test_invariants_name_contracts_and_tests_that_exist() -> None:
    text = page("docs/project/architecture.md").text
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    names = {contract["name"] for contract in project["tool"]["importlinter"]["contracts"]}
    rows = re.findall(r"^\| (\d) \| .* \| (.*) \|$", text, re.MULTILINE)
    assert [number for number, _ in rows] == list("12345678")
    for _, holders in rows:
        assert set(re.findall(r'"([^"]+)"', holders)) <= names
        assert '"' in holders or "](../../tests/" in holders


def test_the_map_names_only_files_that_exist() -> None:
    text = page("docs/project/architecture.md").text
    described = text.partition("## The map")[0]
    named = set(re.findall(r"`([\w./]+(?:\.py|\.json|/))`", described))
    existing = set()
    for path in project_files():
        file = path.relative_to(ROOT)
        existing |= {f"/{file.as_posix()}", *(f"/{folder.as_posix()}/" for folder in file.parents)}
    assert len(named) > 40
    for name in named:
        assert any(path.endswith(f"/{name}") for path in existing), name


def test_the_map_names_only_what_the_code_has() -> None:
    """A renamed function or constant is renamed in the tables of where to put something new, too. That a file defines
    what is said to be in it, test_docs_code_names.py asks."""
    text = page("docs/project/architecture.md").text
    rows = text.partition("## Where to put something new")[2].partition("## The map")[0]
    named: set[str] = set()
    for name in re.findall(r"`([A-Za-z_./]+)`", rows):
        named.update(re.split(r"[./]", name))
    named.discard("")
    words = {"tests"}
    for pattern in ("*", "*/test_*"):
        words.update(path.stem for path in (ROOT / "tests").glob(pattern))
    sources: dict[str, str] = {}
    for path in project_files():
        name = path.relative_to(ROOT).as_posix()
        if not name.startswith(
            ("memory_server/", "sandbox/", "nlp/", "languages/", "docs/", "distribution/")
        ):
            continue
        words |= set(re.findall(r"\w+", name))
        if path.suffix in (".py", ".js"):
            sources[f"/{name}"] = path.read_text(encoding="utf-8")
            words |= set(re.findall(r"\w+", sources[f"/{name}"]))
    assert len(named) > 100
    assert sorted(named - words) == []


def test_the_versions_agree() -> None:
    text = page("CHANGELOG.md").text
    versions = re.findall(r"^## \[(\d+\.\d+\.\d+)\]", text, re.MULTILINE)
    assert versions[0] == memory_server.__version__
    assert "## [Unreleased]" in text


def test_the_page_has_each_call_of_the_managers_with_each_argument() -> None:
    """A renamed parameter must not hide behind positional use."""
    from memory_server.conversations.long_term import LongTermManager
    from memory_server.conversations.short_term import ShortTermManager

    text = page("docs/reference/python-api.md").text
    not_for_companions = {"decision", "query_of", "plans_today", "note_plans", "unordered"}
    not_for_companions |= {"with_shared", "messages_of_a_hook"}
    shown = 0
    for manager in (ShortTermManager, LongTermManager):
        section = text.split(f"### {manager.__name__}\n")[1].split("\n### ")[0]
        for name, call in inspect.getmembers(manager, inspect.isfunction):
            if name.startswith("_") or name in not_for_companions:
                continue
            line = next(
                line for line in section.splitlines() if re.match(rf"- `(await )?{name}\(", line)
            )
            # The page says once that what changes something has `by`.
            for parameter in set(inspect.signature(call).parameters) - {"self", "by"}:
                assert parameter in line
            shown += 1
    assert shown >= 20
