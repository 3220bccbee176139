"""Sentences name the command to a person at a shell, and the tool to a model or program."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from cli_program import CommandLine

import memory_server
from memory_server.kernel.readers import AT_A_SHELL, way
from memory_server.tools import TOOLS

SOURCE = Path(memory_server.__file__).parent
TOOL = re.compile(rf"\b({'|'.join(name for name in TOOLS if '_' in name or not name.islower())})\b")
SAID_TO_MODELS = {
    "name of a tool, such as search_short_term_memories": "the help of `call`, which takes the name of a tool",
    "Memory {memory} is not in this session; memory_search and memory_get_all show those that are.": "only by tools",
    "No user is named; give user_id, or call memory_init_session with one first.": "only by tools",
    "There is no reference {ref}; memorySearch finds references by words.": "only by tools",
}
"""Sentences that name a tool whoever reads them, and why a person at a shell does not read them."""
MARKS = (
    *("_", "n_", "N_", "InvalidInput", "MemoryNotFound", "BackupNotFound", "StorageError"),
    *("add", "argument", "complain", "dry_run", "hint", "other_words", "say", "switch"),
)


def sentences_in(source: str) -> Iterator[str]:
    """The sentences of a file that are marked for translation."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in MARKS:
            # The example of a command may call a tool.
            for argument in node.args[1:2] if node.func.id == "add" else node.args:
                if isinstance(argument, ast.Constant) and isinstance(argument.value, str):
                    yield argument.value


@pytest.fixture(scope="module")
def sentences() -> set[str]:
    """All sentences that are marked for translation."""
    marked: set[str] = set()
    for path in SOURCE.rglob("*.py"):
        marked.update(sentences_in(path.read_text(encoding="utf-8")))
    return marked


def test_a_sentence_that_anybody_may_read_names_no_tool(sentences: set[str]) -> None:
    naming = {sentence for sentence in sentences if TOOL.search(sentence)}
    assert naming == SAID_TO_MODELS.keys(), "use `way` of kernel/readers.py"


def test_the_search_for_sentences_finds_them(sentences: set[str]) -> None:
    assert "{how} brings one back." in sentences
    assert TOOL.search("Call search_memories, or memorySearch.")


@pytest.mark.parametrize(
    ("at_a_shell", "instruction"), [(True, "`memory-server undo`"), (False, "undo_change")]
)
def test_the_reader_decides(at_a_shell: bool, instruction: str) -> None:
    token = AT_A_SHELL.set(at_a_shell)
    assert way("undo_change", "memory-server undo") == instruction
    AT_A_SHELL.reset(token)


CASES = [
    (
        ("explain", "dentist", "--ask", "Where is the dentist?"),
        (
            "call",
            "--text",
            "explain_recall",
            '{"text": "dentist", "recentMessages": [{"role": "user", "content": "?"}]}',
        ),
        "search",
        "search_memories",
    ),
    (
        ("search", "--archived", "oolong"),
        ("call", "--text", "search_memories", '{"keywords": ["oolong"], "archived": true}'),
        "undo --memory",
        "restore_memories_from_archive",
    ),
    (
        ("backup", "restore", "none"),
        ("call", "restore_memories", '{"name": "none"}'),
        "backup",
        "backup_memories",
    ),
]


@pytest.mark.parametrize(
    ("command", "tool_call", "command_pattern", "tool"), CASES, ids=["explain", "search", "backup"]
)
def test_a_command_names_the_command_and_a_tool_the_tool(
    cli: CommandLine,
    command: tuple[str, ...],
    tool_call: tuple[str, ...],
    command_pattern: str,
    tool: str,
) -> None:
    for text in ("My dentist is Dr Lin.", "The dentist was kind.", "I like oolong tea."):
        cli("remember", text)
    cli("forget", "oolong", "--yes")
    at_a_shell = cli(*command).told
    to_a_tool = cli(*tool_call).told
    assert TOOL.search(at_a_shell) is None, at_a_shell
    assert re.search(rf"`memory-server\b[^`]*{command_pattern}", at_a_shell), at_a_shell
    assert tool in to_a_tool, to_a_tool
