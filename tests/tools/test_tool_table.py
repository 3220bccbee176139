"""What a client is told of each tool: golden files, and the rules all of them keep."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from memory_server.serving.server import wire_form
from memory_server.tools import ANSWERED_TOOLS, DEFAULT_TOOLS, TOOLS, TOOLSETS

GOLDEN = Path(__file__).parents[1] / "golden" / "tools"
READING_LAYERS = (
    "list_{}memory_entries",
    "get_{}memory_summary",
    "search_{}memory_archive",
    "list_{}memory_archive",
    "get_{}memory_archive_summary",
)


@pytest.mark.parametrize("name", TOOLS)
def test_a_tool_is_what_its_golden_file_says(name: str) -> None:
    form = wire_form(TOOLS[name]).model_dump(by_alias=True, exclude_none=True, mode="json")
    path = GOLDEN / f"{name}.json"
    text = json.dumps(form, ensure_ascii=False, indent=1) + "\n"
    if os.environ.get("UPDATE_GOLDEN"):
        path.write_text(text, encoding="utf-8")
    assert path.read_text(encoding="utf-8") == text, (
        "if this change is meant, run with UPDATE_GOLDEN=1"
    )


def test_there_is_no_golden_file_without_a_tool() -> None:
    assert {path.stem for path in GOLDEN.glob("*.json")} == set(TOOLS)


def test_the_twelve_tools_of_the_node_original_are_answered() -> None:
    twelve = [tool.name for name in ("short-term", "long-term") for tool in TOOLSETS[name]]
    assert len(twelve) == 12
    assert {*twelve, *DEFAULT_TOOLS, "undo_change"} == set(ANSWERED_TOOLS), (
        "what was forgotten can be taken back"
    )


@pytest.mark.parametrize("name", TOOLS)
def test_schemas_are_valid_and_hold_no_references(name: str) -> None:
    tool = TOOLS[name]
    for schema in (tool.input_schema(), tool.output_schema()):
        Draft202012Validator.check_schema(schema)
        assert schema["type"] == "object"
        assert "$ref" not in json.dumps(schema)
        assert "$defs" not in schema
    assert tool.input_schema()["additionalProperties"] is False


def test_only_tools_that_change_nothing_say_so() -> None:
    # Searching short-term memories reinforces them, so it is no reading.
    assert {name for name, tool in TOOLS.items() if tool.read_only} == {
        "get_memory_stats",
        "get_frequent_conversation",
        "list_long_term_memories",
        "search_long_term_memories",
        "get_memory_context",
        "list_backups",
        "forget_preview",
        "get_history",
        "explain_recall",
        "search_memories",
        "analyze_memory_patterns",
        "list_books",
        "show_book",
        "get_metrics",
        "health_check",
        "memory_search",
        "memory_get_all",
        "memory_get_history",
        "memory_get_stats",
        "memorySearch",
        "memoryStats",
        "memoryGetContent",
        "list_notes",
        *(name.replace("{}", layer) for name in READING_LAYERS for layer in ("", "global_")),
    }
    assert {name for name, tool in TOOLS.items() if tool.destructive} == {
        "forget",
        "delete_short_term_memories",
        "cleanup_memories",
        "delete_long_term_memory",
        "restore_memories",
        "delete_backup",
        "remove_book",
        "memory_delete",
        "memory_delete_all",
        "memoryDelete",
        "memoryClearShortTerm",
        "memoryClearAll",
        "delete_note",
        "delete_memory_entry",
        "delete_global_memory_entry",
    }
