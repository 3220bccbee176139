"""`tools` says what there is and how each tool is called; `call` points to it."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest
from command_outcome import Outcome

from memory_server.cli.parser import main
from memory_server.cli.tool_list import example_of
from memory_server.tools import PURPOSES, TOOLS, TOOLSETS


def outcome(capsys: pytest.CaptureFixture[str], *arguments: str) -> Outcome:
    status = main(list(arguments))
    out, err = capsys.readouterr()
    return Outcome(status, out, err)


def test_every_toolset_says_what_it_is_for() -> None:
    assert set(PURPOSES) == set(TOOLSETS)


@pytest.mark.parametrize("name", TOOLS)
def test_the_example_of_a_tool_is_a_call_that_it_accepts(name: str) -> None:
    command, tool, arguments_json = shlex.split(example_of(TOOLS[name]))
    assert (command, tool) == ("call", name)
    arguments = TOOLS[name].arguments.model_validate(json.loads(arguments_json))
    assert "…" not in str(arguments)


def test_a_tool_that_needs_one_of_several_arguments_is_called_with_one() -> None:
    assert example_of(TOOLS["forget"]) == """call forget '{"words": "mango"}'"""
    assert '"text": "mango"' in example_of(TOOLS["explain_recall"])


def test_all_tools_are_listed_by_toolset(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, err = outcome(capsys, "tools")
    assert status == 0
    assert {line[3:].split()[0] for line in out.splitlines() if line.startswith(" ")} == set(TOOLS)
    assert "memory-server tools NAME" in err
    listed = outcome(capsys, "tools", "notes").out
    assert "list_notes" in listed
    assert "pin_memory" not in listed
    rows = [json.loads(line) for line in outcome(capsys, "tools", "--json").out.splitlines()]
    assert (
        {row["tool"] for row in rows if row["default"]}
        <= {row["tool"] for row in rows}
        == set(TOOLS)
    )


def test_a_tool_is_shown_with_its_arguments_and_by_the_help_of_call(
    capsys: pytest.CaptureFixture[str],
) -> None:
    status, out, _ = outcome(capsys, "tools", "pin_memory")
    assert status == 0
    assert "  id                required  Id of a short-term memory" in out
    assert "memory-server call pin_memory '{" in out
    assert outcome(capsys, "call", "pin_memory", "--help").out == out
    assert (
        "required" in json.loads(outcome(capsys, "tools", "pin_memory", "--json").out)["arguments"]
    )
    with pytest.raises(SystemExit):
        main(["call", "--help"])
    assert "TOOL" in capsys.readouterr().out


@pytest.mark.parametrize("command", [["tools"], ["call"]])
def test_an_unknown_tool_gets_its_neighbour(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: list[str]
) -> None:
    status, out, err = outcome(capsys, "--data-dir", str(tmp_path), *command, "pin_memroy")
    assert (status, out) == (2, "")
    lists = "`memory-server tools` lists all.\n"
    assert (
        err == f"memory-server: There is no tool `pin_memroy`; did you mean `pin_memory`? {lists}"
    )
    assert outcome(capsys, "--data-dir", str(tmp_path), *command, "zzzz").err.endswith(lists)
