"""The toolset `notes` as a client meets it: offered, called, read as resources, and without what it does not need."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from stdio_process import INITIALIZE, as_line, command, request, running, tool

HEAVY = {"jieba", "rjieba", "numpy", "py_mini_racer"}
SERVE = """
import asyncio
import sys
from memory_server.runtime.app import App
from memory_server.cli.parser import main
keep_up = App.keep_up
async def told_keep_up(app):
    keeping = asyncio.ensure_future(keep_up(app))
    await asyncio.sleep(0.1)
    print("SETTLED", file=sys.stderr, flush=True)
    await keeping
App.keep_up = told_keep_up
status = main(sys.argv[1:])
sys.stderr.write("LOADED " + " ".join(name for name in sys.modules) + "\\n")
"""


NOTES = ("--toolsets", "notes")


def answers_of(
    folder: Path, *messages: dict[str, Any], flags: tuple[str, ...] = NOTES
) -> dict[str, Any]:
    """The answers of a server by id."""
    with running(command(folder, *flags)) as client:
        client.connect()
        answers = {}
        for message in messages:
            client.send(message)
            answers[message["id"]] = client.read()["result"]
    return answers


def session(folder: Path, *messages: dict[str, Any], flags: tuple[str, ...] = NOTES) -> Any:
    """The answers by id, and the modules that a server which was not forked had in memory at its end."""
    arguments = [sys.executable, "-c", SERVE, "--data-dir", str(folder), *flags]
    with subprocess.Popen(
        arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(as_line(request("begin", "initialize", **INITIALIZE)))
        process.stdin.write(as_line({"jsonrpc": "2.0", "method": "notifications/initialized"}))
        process.stdin.flush()
        answers = {"begin": json.loads(process.stdout.readline())}
        for message in messages:
            process.stdin.write(as_line(message))
            process.stdin.flush()
            answers[message["id"]] = json.loads(process.stdout.readline())
        # What a server loads after its first answer is loaded when it waits for the hour of the daily work.
        assert process.stderr is not None
        while process.stderr.readline() not in (b"SETTLED\n", b""):
            pass
        process.stdin.close()
        errors = process.stderr.read().decode()
        process.wait(30)
    loaded = next(line for line in errors.splitlines() if line.startswith("LOADED ")).split()[1:]
    return {name: answer["result"] for name, answer in answers.items()}, set(loaded)


def test_a_session_of_a_new_user(tmp_path: Path) -> None:
    answers, loaded = session(
        tmp_path,
        request("tools", "tools/list"),
        tool(
            "one",
            "remember",
            type="tech",
            topic="エラー処理",
            content="すべて anyhow で",
            tags=["rust"],
        ),
        tool("two", "remember", type="tech", topic="エラー処理", content="すべて thiserror で"),
        tool("found", "recall", query="エラー処理"),
        tool("bad", "remember", type="tools", topic="x", content="y"),
        tool("zero", "recall", query="x", limit=0),
        tool("many", "recall", query="x", limit=101),
        tool("blank", "remember", type="tech", topic=" ", content="y"),
        request("resources", "resources/list"),
        request("page", "resources/read", uri="memory://knowledge/notes/tech"),
        request("overview", "resources/read", uri="memory://knowledge/overview"),
    )
    instructions = answers["begin"]["instructions"]
    assert "call recall" in instructions
    assert "with remember" in instructions
    assert "conversation_id" not in instructions
    assert [offered_tool["name"] for offered_tool in answers["tools"]["tools"]] == [
        *("remember", "recall", "list_notes", "edit_note", "delete_note")
    ]
    assert answers["one"]["structuredContent"]["action"] == "created"
    assert answers["two"]["structuredContent"]["action"] == "updated"
    (note,) = answers["found"]["structuredContent"]["memories"]
    assert (note["topic"], note["content"], note["reference_count"]) == (
        "エラー処理",
        "すべて thiserror で",
        1,
    )
    assert note["why"].startswith("エラー処理 in title")
    assert answers["found"]["content"][0]["text"].startswith("<recalled-memories>")
    assert "must be 'tech', 'project-tech' or 'domain'" in answers["bad"]["content"][0]["text"]
    for name in ("zero", "many"):
        assert "from 1 to 100" in answers[name]["content"][0]["text"]
    assert "The topic is empty" in answers["blank"]["content"][0]["text"]
    assert [answers[name]["isError"] for name in ("bad", "zero", "many", "blank")] == [True] * 4
    assert "memory://knowledge/notes/domain" in {
        resource["uri"] for resource in answers["resources"]["resources"]
    }
    assert "## エラー処理" in answers["page"]["contents"][0]["text"]
    assert json.loads(answers["overview"]["contents"][0]["text"])["notes"]["count"] == 1
    assert loaded & HEAVY == set()


def test_what_is_not_offered_has_no_resources_and_other_servers_load_as_before(
    tmp_path: Path,
) -> None:
    answers, loaded = session(tmp_path, request("resources", "resources/list"), flags=())
    assert not [
        resource for resource in answers["resources"]["resources"] if "knowledge" in resource["uri"]
    ]
    assert "numpy" in loaded
    assert "sqlite3" not in loaded or "memory_server.storage.entries" not in loaded


def test_recall_turn_brings_notes_only_where_the_toolset_is_on(tmp_path: Path) -> None:
    note = tool(
        "note", "remember", type="tech", topic="连接池", content="支付服务的连接池最多二十个连接"
    )
    turn = tool("turn", "recall_turn", messages=[{"role": "user", "content": "连接池应该多大？"}])
    answers_of(tmp_path, note)
    for toolsets in ("turn", "notes,turn"):
        answers = answers_of(tmp_path, turn, flags=("--toolsets", toolsets))
        prompt = answers["turn"]["structuredContent"]["prompt"]
        assert ("连接池最多二十个" in prompt) == (toolsets == "notes,turn")
