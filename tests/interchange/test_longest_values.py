"""The longest values that tools accept survive every form of our own exports: none is left out by the import, and each
comes back equal. Each bound is proved by a value that is one character longer, which the tool refuses."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from cli_program import CommandLine
from pydantic import TypeAdapter, ValidationError

from memory_server.knowledge.entry import MAX_SUMMARY_CHARS
from memory_server.knowledge.options import RefSettings

IN_A_FOLDER = ("memories", "triggers")
"""Families that the form node holds."""


@dataclass(frozen=True)
class Longest:
    """Arguments of a tool with one of the longest values. `longer`: the same with a value that is too long; None: the
    tool has no bound there, or cuts the value."""

    family: str
    tool: str
    arguments: dict[str, Any]
    longer: dict[str, Any] | None = None


def text(chars: int, begin: str = "文") -> str:
    """A text without blanks at its ends, with what JSON and Markdown escape, of so many characters."""
    return (begin + '"\\ 词 ```\n' * (chars // 8 + 1))[: chars - 1] + "终"


def spoken(count: int, chars: int) -> dict[str, Any]:
    return {
        "messages": [
            {"role": "user", "content": text(chars, f"{number} ")} for number in range(count)
        ]
    }


TRIGGER = "return true; // "
NOTE = {"type": "domain", "content": "x"}
BIG = {"n": "x" * 16_377}
CASES = [
    Longest("memories", "add_short_term_memory", spoken(9, 100_000), spoken(1, 100_001)),
    Longest("memories", "add_short_term_memory", spoken(500, 5), spoken(501, 5)),
    Longest(
        "memories",
        "add_short_term_memory",
        spoken(1, 7) | {"conversation_id": "文" * 256},
        spoken(1, 7) | {"conversation_id": "文" * 257},
    ),
    Longest(
        "memories",
        "remember_turn",
        spoken(1, 9) | {"turn_id": "t" * 200},
        spoken(1, 9) | {"turn_id": "t" * 201},
    ),
    Longest(
        "triggers",
        "add_long_term_memory",
        {
            "name": "名" * 200,
            "prompt": text(20_000),
            "trigger": TRIGGER + "x" * (100_000 - len(TRIGGER)),
        },
        {"name": "名" * 201, "prompt": "p", "trigger": "true"},
    ),
    Longest(
        "triggers",
        "add_long_term_memory",
        {"name": "context", "prompt": "p", "trigger": "true", "createdContext": text(1_000_000)},
        {"name": "context", "prompt": "p", "trigger": "true", "createdContext": text(1_000_001)},
    ),
    Longest("notes", "remember", NOTE | {"topic": "题" * 200}, NOTE | {"topic": "题" * 201}),
    Longest(
        "notes",
        "remember",
        NOTE | {"topic": "a", "content": text(100_000)},
        NOTE | {"topic": "a", "content": text(100_001)},
    ),
    Longest(
        "notes",
        "remember",
        NOTE | {"topic": "b", "tags": [f"{number}{'签' * 98}" for number in range(10, 60)]},
        NOTE | {"topic": "b", "tags": ["签" * 101]},
    ),
    Longest(
        "notes",
        "remember",
        NOTE | {"topic": "c", "examples": [text(1_900) for _ in range(50)]},
        NOTE | {"topic": "c", "examples": ["x"] * 51},
    ),
    Longest(
        "notes",
        "remember",
        NOTE | {"topic": "d", "source": "s" * 200},
        NOTE | {"topic": "d", "source": "s" * 201},
    ),
    Longest(
        "facts",
        "memory_add",
        {
            "messages": text(100_000),
            "user_id": "u" * 100,
            "agent_id": "a" * 100,
            "run_id": "r" * 100,
            "mode": "direct",
        },
        {"messages": text(100_001), "user_id": "u", "mode": "direct"},
    ),
    Longest(
        "layers",
        "save_to_memory",
        {"key": "键" * 60, "content": text(100_000)},
        {"key": "k", "content": "x" * 100_001},
    ),
    Longest(
        "layers", "save_to_global_memory", {"key": "k", "content": "x", "tags": ["签" * 100] * 1}
    ),
    Longest("refs", "memoryAdd", {"content": text(200_000)}),
    Longest("refs", "memoryAdd", {"content": text(500_000), "namespace": "long-term"}),
    Longest("refs", "memoryAdd", {"content": "x" * 5_000}),
    Longest("refs", "memoryAdd", {"content": "first line\n" + "log line\n" * 500}),
    Longest(
        "refs",
        "memoryAdd",
        {"content": "a", "source": "s" * 200},
        {"content": "a", "source": "s" * 201},
    ),
    Longest(
        "refs",
        "memoryAdd",
        {"content": "b", "metadata": BIG},
        {"content": "b", "metadata": {"n": "x" * 20_000}},
    ),
    Longest(
        "refs",
        "memoryAdd",
        {"content": "c", "tags": ["签" * 100] * 1},
        {"content": "c", "tags": ["签" * 101]},
    ),
]


@pytest.fixture
def cli(cli: CommandLine, elsewhere: None) -> CommandLine:
    """The command, in a project of its own."""
    return cli


def call(
    cli: CommandLine, tmp_path: Path, tool: str, arguments: dict[str, Any], second: int = 0
) -> tuple[int, str]:
    file = tmp_path / "arguments.json"
    file.write_text(json.dumps(arguments), "utf-8")
    status, _, err = cli("call", tool, f"@{file}", "--now", f"2026-06-20T08:00:{second:02}Z")
    return status, err


def contents(cli: CommandLine, name: str) -> list[Any]:
    """What a native export holds, after its first line."""
    assert cli("export", name, "--force")[0] == 0
    return [json.loads(line) for line in Path(name).read_text("utf-8").splitlines()[1:]]


def stored(cli: CommandLine, tmp_path: Path, families: tuple[str, ...] | None = None) -> None:
    for second, case in enumerate(CASES):
        if families is None or case.family in families:
            status, err = call(cli, tmp_path, case.tool, case.arguments, second)
            assert status == 0, (case.tool, err[:300])


@pytest.mark.parametrize(
    "case", CASES, ids=lambda case: f"{case.family}-{'+'.join(case.arguments)}"
)
def test_each_case_is_the_longest_that_the_tool_takes(
    cli: CommandLine, tmp_path: Path, case: Longest
) -> None:
    if case.longer is None:
        return
    status, err = call(cli, tmp_path, case.tool, case.longer)
    assert status != 0
    assert err.count("\n") == 1


def test_a_native_export_of_the_longest_values_comes_back_equal(
    cli: CommandLine, tmp_path: Path
) -> None:
    stored(cli, tmp_path)
    before = contents(cli, "all.jsonl")
    (tmp_path / "data").rename(tmp_path / "former")
    for folder in [*tmp_path.rglob("memory")]:
        if folder.is_dir() and "former" not in folder.parts:
            folder.rename(folder.with_name("former"))
    status, out, err = cli("import", "all.jsonl")
    assert status == 0, err
    assert "left out  " not in out
    assert contents(cli, "again.jsonl") == before


def test_a_folder_of_the_longest_values_comes_back_equal(cli: CommandLine, tmp_path: Path) -> None:
    stored(cli, tmp_path, IN_A_FOLDER)
    before = contents(cli, "all.jsonl")
    assert cli("export", "folder", "--format", "node")[0] == 0
    (tmp_path / "data").rename(tmp_path / "former")
    status, out, err = cli("import", "folder", "--format", "node")
    assert status == 0, err
    assert "left out  " not in out
    assert contents(cli, "again.jsonl") == before


def test_a_pack_of_the_longest_values_comes_back_equal(cli: CommandLine, tmp_path: Path) -> None:
    stored(cli, tmp_path, ("triggers",))
    before = contents(cli, "all.jsonl")
    assert cli("export", "pack.json", "--format", "pack")[0] == 0
    (tmp_path / "data").rename(tmp_path / "former")
    status, out, err = cli("import", "pack.json", "--format", "pack")
    assert status == 0, err
    assert "left out  " not in out
    assert contents(cli, "again.jsonl") == before


def test_the_summary_of_a_ref_may_be_as_long_as_the_setting_allows() -> None:
    settings = TypeAdapter(RefSettings)
    settings.validate_python({"summary_chars": MAX_SUMMARY_CHARS})
    with pytest.raises(ValidationError):
        settings.validate_python({"summary_chars": MAX_SUMMARY_CHARS + 1})
