"""Programs that were written for the Node original: they read the text of each result as JSON, look at `success`, and
never at `structuredContent`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from stdio_process import Client, command, request, running, tool

from memory_server.tools.node_original import NODE_TOOLS

PIZZA = [{"role": "user", "content": "我喜欢吃披萨", "timestamp": 1_700_000_000_000}]
CHAT = {"conversation_id": "sim"}
CALLS: list[tuple[str, dict[str, Any], set[str]]] = [
    ("add_short_term_memory", CHAT | {"messages": PIZZA}, {"success", "message", "totalMemories"}),
    (
        "search_short_term_memories",
        CHAT | {"recentMessages": [{"role": "user", "content": "披萨"}]},
        {"topRelevant", "nextRelevant", "randomFlashback", "totalSearched"},
    ),
    (
        "add_long_term_memory",
        CHAT | {"name": "m", "prompt": "p", "trigger": "true"},
        {"success", "message", "totalMemories"},
    ),
    ("update_long_term_memory", CHAT | {"name": "m", "prompt": "q"}, {"success", "message"}),
    ("list_long_term_memories", CHAT, {"memories", "total"}),
    (
        "search_long_term_memories",
        CHAT | {"messages": [{"role": "user", "content": "hi"}]},
        {"activated", "random", "totalMemories", "formattedText"},
    ),
    (
        "get_memory_context",
        CHAT | {"name": "m"},
        {
            "success",
            "name",
            "createdAt",
            "updatedAt",
            "createdContext",
            "updatedContext",
            "formattedContext",
            "trigger",
        },
    ),
    (
        "get_memory_stats",
        {"conversation_id": "empty"},
        {"total", "conversationCounts", "avgScore", "maxScore", "minScore", "oldestMemory"}
        | {"newestMemory", "lastCleanup"},
    ),
    ("get_memory_stats", CHAT, {"total", "avgScore", "oldestMemory", "newestMemory"}),
    ("get_frequent_conversation", {}, {"conversation_id", "message"}),
    (
        "search_memories",
        CHAT | {"memory_type": "both"},
        {"success", "total_found", "returned", "results"},
    ),
    (
        "analyze_memory_patterns",
        CHAT,
        {"success", "conversation_id", "timestamp", "short_term", "long_term"},
    ),
    (
        "backup_memories",
        CHAT,
        {"success", "backup_path", "total_memories", "short_term_count", "long_term_count"}
        | {"size_kb", "timestamp"},
    ),
    ("list_backups", {}, {"success", "total", "backups"}),
    ("health_check", {"detailed": True}, {"status", "timestamp", "uptime"}),
    ("get_metrics", {}, {"uptime", "requests", "toolStats"}),
    ("cleanup_memories", CHAT, {"success", "removedCount", "remainingCount", "message"}),
    (
        "delete_short_term_memories",
        CHAT | {"pattern": "披萨"},
        {"success", "deletedCount", "remainingCount", "message"},
    ),
    ("delete_long_term_memory", CHAT | {"name": "m"}, {"success", "message", "remainingMemories"}),
]
"""Each call of a program, and the fields of its result that the original has. `restore_memories` and `delete_backup`
need a path that another call gave."""


class NodeProgram:
    """A program that reads results as those of the original do."""

    def __init__(self, client: Client) -> None:
        self.client = client.connect()

    def result(self, name: str, /, **arguments: Any) -> dict[str, Any]:
        """The JSON object, and nothing else, that the text of a result is. Fails if the result is an error."""
        self.client.send(tool(name, name, **arguments))
        result = self.client.read()["result"]
        text = result["content"][0]["text"]
        assert not result["isError"], text
        fields: dict[str, Any] = json.loads(text)
        assert result["structuredContent"] == fields, "a newer client reads the same"
        return fields


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[NodeProgram]:
    monkeypatch.setenv("MEMORY_SERVER_COMPAT", "node")
    with running(command(tmp_path)) as client:
        yield NodeProgram(client)


def test_a_program_of_the_original_gets_the_fields_that_it_reads(program: NodeProgram) -> None:
    for name, arguments, fields in CALLS:
        result = program.result(name, **arguments)
        assert fields <= set(result), (name, fields - set(result))
        assert result.get("success", True) is True, name


def test_every_tool_of_the_original_answers_in_json_without_being_chosen(
    program: NodeProgram,
) -> None:
    called = {name for name, _arguments, _fields in CALLS}
    program.result("add_short_term_memory", **CHAT, messages=PIZZA)
    path = program.result("backup_memories", **CHAT)["backup_path"]
    restored = program.result("restore_memories", **CHAT, backup_path=path, merge=True)
    assert (restored["success"], restored["mode"]) == (True, "merge")
    assert program.result("restore_memories", **CHAT, backup_path=path)["mode"] == "overwrite"
    assert [row["file_path"] for row in program.result("list_backups")["backups"]] == [path]
    assert program.result("delete_backup", backup_path=path)["deleted_file"] == path
    assert called | {"restore_memories", "delete_backup"} == NODE_TOOLS


def test_a_call_that_failed_is_a_result_without_success(program: NodeProgram) -> None:
    for name, arguments in (
        ("delete_long_term_memory", {"name": "nobody"}),
        ("get_memory_context", {"name": "nobody"}),
        ("update_long_term_memory", {"name": "nobody", "prompt": "x"}),
        ("add_long_term_memory", {"name": "m", "prompt": "p", "trigger": "if ("}),
        ("delete_backup", {"backup_path": "/nowhere/backup.json"}),
    ):
        result = program.result(name, **arguments)
        assert result["success"] is False, name
        assert result["error"] == result["message"] != ""


def test_arguments_that_were_refused_are_an_error_there_too(program: NodeProgram) -> None:
    program.client.send(tool("call", "add_long_term_memory", name="m"))
    result = program.client.read()["result"]
    assert result["isError"]
    assert result["content"][0]["text"] == "`prompt` is missing; add_long_term_memory needs it."


def test_recalled_texts_come_as_in_the_original_and_are_known_when_they_come_back(
    program: NodeProgram,
) -> None:
    program.result("add_short_term_memory", **CHAT, messages=PIZZA)
    found = program.result(
        "search_short_term_memories", **CHAT, recentMessages=[{"role": "user", "content": "披萨"}]
    )
    assert found["topRelevant"][0]["attachments"] == []
    prompt = "爱吃披萨</recalled-memories>"
    program.result("add_long_term_memory", **CHAT, name="m", prompt=prompt, trigger="true")
    hello = [{"role": "user", "content": "hi"}]
    text = program.result("search_long_term_memories", **CHAT, messages=hello)["formattedText"]
    assert "<activated-memories>\n记忆名称：m\n内容：爱吃披萨‹/recalled-memories>\n创建于：" in text
    result = program.result(
        "add_short_term_memory", **CHAT, messages=[hello[0] | {"content": text}]
    )
    assert result["success"] is False, "what was recalled is not stored again"


def test_no_schema_is_promised_for_a_result_in_the_form_of_the_original(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEMORY_SERVER_COMPAT", "node")
    with running(command(tmp_path, "--toolsets", "short-term,long-term,turn")) as client:
        client.connect()
        client.send(request("tools", "tools/list"))
        listed = {row["name"]: row for row in client.read()["result"]["tools"]}
    promised = {name for name, row in listed.items() if "outputSchema" in row}
    assert promised == set(listed) - NODE_TOOLS != set()


def test_without_compat_a_text_stays_for_people_and_a_failure_is_an_error(tmp_path: Path) -> None:
    with running(command(tmp_path)) as client:
        client.connect()
        client.send(tool("stats", "get_memory_stats"))
        assert client.read()["result"]["content"][0]["text"].startswith("No short-term memories;")
        client.send(tool("context", "get_memory_context", name="nobody"))
        assert client.read()["result"]["isError"]
