"""With the real Claude Code, where it is installed: our server connects, and memories reach the model unasked.

No model is asked: a stand-in on the loopback interface answers. The home is one of the test's own.

`make test` has a session of each kind: typed and printed, with hooks and with tools, in a home and in a project. What
the long form adds, cli/test_session_start.py, cli/test_forget_command.py, link/test_link.py and
e2e/test_layers_and_refs_over_stdio.py show with the events and the calls that Claude Code makes.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest
from e2e.messages_api import Call, messages_api
from e2e.typed_session import typed
from http_server import TOKEN, serving
from linked_machines import token_file
from shared_process import end_shared
from web_page import opened

from memory_server.kernel.recalled_block import OTHER_WORDS_ASKED

INSTALLED = Path(__file__).parents[1] / "claude_code" / "node_modules" / ".bin"
CLAUDE = shutil.which("claude", path=INSTALLED) or shutil.which("claude")
SERVER = Path(sys.executable).parent / "memory-server"
pytestmark = [
    pytest.mark.skipif(CLAUDE is None, reason="needs Claude Code: `make clients` installs it"),
    pytest.mark.skipif(not SERVER.exists(), reason="needs the installed command memory-server"),
    pytest.mark.usefixtures("process"),
]
SECONDS = 120


class User:
    """Somebody with a home, a project, and nothing else."""

    def __init__(self, folder: Path) -> None:
        self.home = folder / "home"
        self.project = folder / "project"
        self.data = folder / "data"
        for folder in (self.home, self.project):
            folder.mkdir()
        environment = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("MEMORY_SERVER", "ANTHROPIC"))
        }
        self.environment = environment | {
            "PATH": os.pathsep.join((str(INSTALLED), os.environ["PATH"])),
            "HOME": str(self.home),
            "CLAUDE_CONFIG_DIR": str(self.home / ".claude"),
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "DISABLE_AUTOUPDATER": "1",
            "MCP_CONNECT_TIMEOUT_MS": "60000",  # on a busy machine a server starts slowly
            "ENABLE_TOOL_SEARCH": "true",  # otherwise only a server of Anthropic gets it
            "ANTHROPIC_API_KEY": "none",
        }

    def run(self, *command: str, **environment: str) -> str:
        completed = subprocess.run(
            command,
            cwd=self.project,
            env=self.environment | environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=SECONDS,
            check=False,
        )
        assert completed.returncode == 0, completed.stdout + completed.stderr
        return completed.stdout.decode()

    def types(self, prompt: str, *flags: str, **environment: str) -> str:
        """Type a prompt in a session of its own (`--resume ID` in another one); the id of the session."""
        return typed(
            prompt,
            *flags,
            config=self.home / ".claude",
            project=self.project,
            environment=self.environment | environment,
            seconds=SECONDS,
        )

    def prints(self, prompt: str, *flags: str, **environment: str) -> None:
        """Give a prompt to `claude -p`, which waits for our tools before it asks the model: a typed session does not."""
        self.run("claude", "-p", prompt, *flags, **environment)

    def kept(self, conversation: str) -> list[dict[str, Any]]:
        end_shared()
        memories: list[dict[str, Any]] = json.loads(
            (self.data / conversation / "short-term-memory.json").read_bytes()
        )
        return memories

    def server(self, *arguments: str) -> str:
        return self.run(str(SERVER), "--data-dir", str(self.data), *arguments)


@pytest.fixture
def user(tmp_path: Path) -> User:
    return User(tmp_path)


def test_it_connects_to_the_server_that_install_puts_there(user: User) -> None:
    user.server("install", "claude-code")
    assert "Connected" in user.run("claude", "mcp", "list")
    assert "nothing was changed" in user.server("install", "claude-code")
    user.server("uninstall", "claude-code")
    assert "memory-server" not in user.run("claude", "mcp", "list")


def test_memories_reach_the_model_unasked_and_the_turn_is_remembered(user: User) -> None:
    user.server("install", "claude-code", "--with-hooks")
    condition = {
        "name": "过敏",
        "prompt": "小明对芒果过敏。",
        "trigger": "match_keys(context.messages, ['芒果'])",
    }
    user.server("call", "add_long_term_memory", json.dumps(condition))
    with messages_api("那就不吃芒果布丁。") as (address, requests):
        user.types("下午茶吃芒果布丁？", ANTHROPIC_BASE_URL=address)
    with_prompt = [body for body in requests if "下午茶吃芒果布丁？" in body]
    assert with_prompt
    assert all("<recalled-memories>" in body and "小明对芒果过敏。" in body for body in with_prompt)
    (memory,) = user.kept("default")
    assert memory["text"] == "user: 下午茶吃芒果布丁？\nassistant: 那就不吃芒果布丁。"


def test_what_is_typed_after_a_skill_is_remembered_with_its_answer_by_hook_and_import_alike(
    user: User,
) -> None:
    user.server("install", "claude-code", "--with-hooks")
    skill = user.project / ".claude" / "skills" / "brew"
    skill.mkdir(parents=True)
    (skill / "SKILL.md").write_text(
        "---\nname: brew\ndescription: brew tea\n---\nBrew the tea as it was asked for.\n"
    )
    with messages_api("It brews.") as (address, _):
        user.types("/brew oolong for my grandmother", ANTHROPIC_BASE_URL=address)
    texts = [memory["text"] for memory in user.kept("default")]
    assert texts == ["user: /brew oolong for my grandmother\nassistant: It brews."]
    assert "1 unchanged" in user.server(
        "import", str(user.home / ".claude" / "projects"), "--dry-run"
    )


WIFI = "The wifi password of the holiday flat is sunflower-42."
QUESTION = "What was the wifi password of the holiday flat?"
FLAT = "user: " + WIFI


def recalled(bodies: list[str]) -> str:
    """What came with the prompt of the last request."""
    _, hook, context = bodies[-1].rpartition("UserPromptSubmit hook")
    if not hook:
        return ""
    return context


@pytest.mark.full
def test_a_new_session_knows_at_once_and_the_same_one_again_after_a_compaction(user: User) -> None:
    user.server("install", "claude-code", "--with-hooks")
    # All of it is said within ten minutes: each memory is to come by itself.
    user.environment["MEMORY_SERVER_SHORT_TERM__ADVANCED__SPACING_MS"] = "0"
    with messages_api("Noted.") as (address, requests):

        def said(prompt: str, *flags: str) -> str:
            return user.types(prompt, *flags, ANTHROPIC_BASE_URL=address)

        session_id = said(WIFI)
        assert said(QUESTION, "--resume", session_id) == session_id
        assert "<recalled-memories>" not in recalled(requests), "it is in the context still"
        del requests[:]
        assert said(QUESTION) != session_id
        assert "sunflower-42" not in recalled(requests), (
            "the session was told at its start, and nothing is told twice"
        )
        assert any("Where you left off:" in body and "sunflower-42" in body for body in requests)
        del requests[:]
        user.types("/compact", "--resume", session_id, ANTHROPIC_BASE_URL=address)
        assert said(QUESTION, "--resume", session_id) == session_id
        assert "sunflower-42" in recalled(requests)
    sessions = {memory["text"].split("\n")[0]: memory["session"] for memory in user.kept("default")}
    assert sessions[FLAT] == session_id


RECITAL = "At my recital I forgot the Chopin nocturne halfway through."
NERVOUS = "I am nervous about tomorrow."
WORDS = ["piano", "recital", "stage fright", "Chopin"]


def test_the_model_looks_again_with_other_words_and_the_receipt_says_who_gave_them(
    user: User,
) -> None:
    user.server("install", "claude-code", "--with-hooks")
    user.environment["MCP_CONNECTION_NONBLOCKING"] = "0"
    texts = (RECITAL, "The tickets are booked.", "The garden needs water.")
    for day, text in enumerate(texts, 1):  # a session begins with the last two
        turn = {"messages": [{"role": "user", "content": text}]}
        user.server("--now", f"2026-06-0{day}T12:00:00Z", "call", "remember_turn", json.dumps(turn))
    calls = (
        ("ToolSearch", {"query": "select:mcp__memory__recall_turn"}),
        (
            "mcp__memory__recall_turn",
            {"messages": [{"role": "user", "content": NERVOUS}], "otherWords": WORDS},
        ),
    )
    with messages_api("It went wrong once, and you played on.", *calls) as (address, requests):
        user.types(
            NERVOUS,
            "--allowedTools",
            "mcp__memory__recall_turn",
            ANTHROPIC_BASE_URL=address,
        )
    assert OTHER_WORDS_ASKED["en"] in requests[0], "the session is asked once, as it begins"
    assert "nocturne" not in requests[0], "its own words bring nothing"
    assert "nocturne" in str(tool_results(requests[-1])[-1])
    recall = json.loads(user.server("recalls", "--json", "-n", "1"))
    (item,) = recall["came"]
    assert (recall["by"], recall["said"], recall["otherWords"]) == ("tool", NERVOUS, WORDS)
    assert (item["words"], sorted(item["given"])) == ({}, ["Chopin", "recital"]), (
        "the user said none of them"
    )
    end_shared()
    receipt = anyio.run(receipt_of, user.data, recall["id"])
    assert "Chopin" in receipt
    assert "The caller also looked for" in receipt


async def receipt_of(data: Path, recall: str) -> str:
    """What the page says of a recall."""
    async with opened(data) as page:
        return (await page.get("recalls", c="default", open=recall, lang="en")).text


DENTIST = "My dentist is Dr. Halloran on Elm Street."
FORGET = "Please forget that my dentist is Dr. Halloran."


@pytest.mark.full
def test_what_was_asked_to_be_forgotten_no_new_session_knows_and_the_request_is_not_stored(
    user: User,
) -> None:
    user.server("install", "claude-code", "--with-hooks")
    user.environment["MCP_CONNECTION_NONBLOCKING"] = "0"
    with messages_api("Noted.") as (address, _):
        user.types(DENTIST, ANTHROPIC_BASE_URL=address)
    assert "Halloran" in user.server("search", "Halloran")
    calls = (
        ("mcp__memory__forget", {"words": "Halloran"}),
        ("mcp__memory__forget", {"words": "Halloran", "confirm": True}),
    )
    with messages_api("It is forgotten.", *calls) as (address, requests):
        user.prints(
            FORGET,
            "--allowedTools",
            "mcp__memory__forget",
            ANTHROPIC_BASE_URL=address,
        )
    offered = [
        tool["name"]
        for tool in json.loads(requests[0])["tools"]
        if tool["name"].startswith("mcp__memory")
    ]
    assert sorted(offered) == ["mcp__memory__add_long_term_memory", "mcp__memory__forget"], (
        "always in the context"
    )
    assert [answer["forgotten"] for answer in tool_results(requests[-1])] == [False, True]
    with messages_api("Hello.") as (address, requests):
        user.types("hello", ANTHROPIC_BASE_URL=address)
        user.types("Who is my dentist, and on which street?", ANTHROPIC_BASE_URL=address)
    assert not any("Halloran" in body or "Elm Street" in body for body in requests)
    assert "Halloran" not in user.server("list") + user.server("recalls", "--json", "-n", "1")
    assert "Elm Street" in user.server("search", "--archived", "Halloran"), (
        "the owner can bring it back"
    )


def test_what_is_said_in_a_project_lies_in_its_own_conversation(user: User) -> None:
    user.server("install", "claude-code", "--with-hooks")
    user.server("install", "claude-code", "--with-hooks", "--project", "--conversation", "heron")
    with messages_api("Noted.") as (address, _):
        user.types("The code name is Heron.", ANTHROPIC_BASE_URL=address)
    assert [memory["text"] for memory in user.kept("heron")] == [
        "user: The code name is Heron.\nassistant: Noted."
    ]
    assert [folder.name for folder in user.data.iterdir() if not folder.name.startswith(".")] == [
        "heron"
    ]
    assert "multiple scopes" not in user.run("claude", "mcp", "list")


@pytest.fixture
def coder(user: User) -> User:
    """Somebody who lets the model use tools without a question, as the guides say, in a project with git."""
    allowed = {"permissions": {"allow": ["mcp__notes", "mcp__knowledge", "mcp__refs"]}}
    (user.home / ".claude").mkdir()
    (user.home / ".claude" / "settings.json").write_text(json.dumps(allowed))
    (user.project / ".git").mkdir()
    user.environment["MCP_CONNECTION_NONBLOCKING"] = (
        "0"  # Otherwise the first request may leave before the tools come
    )
    return user


def results_of(user: User, *calls: Call) -> list[Any]:
    """What the client tells the model of calls that it makes in one session."""
    with messages_api("Done.", *calls) as (address, requests):
        user.prints("Go on.", ANTHROPIC_BASE_URL=address)
    results = tool_results(requests[-1])
    assert len(results) == len(calls)
    return results


def tool_results(body: str) -> list[Any]:
    """What the tools of a session gave, as the last request has it."""
    results = []
    for message in json.loads(body)["messages"]:
        for block in message["content"]:
            if isinstance(block, dict) and block.get("type") == "tool_result":
                results.append(_parsed(block["content"]))
    return results


def _parsed(result: Any) -> Any:
    """A result that is a JSON object as its value."""
    if isinstance(result, str) and result.startswith("{"):
        return json.loads(result)
    return result


def test_a_note_of_one_session_is_recalled_in_another_and_its_page_is_in_every_one(
    coder: User,
) -> None:
    coder.server("install", "claude-code", "--name", "notes", "--toolsets", "notes")
    note = {
        "type": "project-tech",
        "topic": "error handling",
        "content": "All errors become problem+json.",
    }
    (receipt,) = results_of(coder, ("mcp__notes__remember", note))
    assert (receipt["action"], receipt["changeId"]) == ("created", "k1")
    (answer,) = results_of(coder, ("mcp__notes__recall", {"query": "how do we handle errors?"}))
    assert [note["content"] for note in answer["memories"]] == ["All errors become problem+json."]
    coder.server("knowledge", "document", "--output", "memory-docs", "--stable")
    (coder.project / "CLAUDE.md").write_text("@memory-docs/project-tech.md\n")
    with messages_api("Noted.") as (address, requests):
        coder.types("Hello.", ANTHROPIC_BASE_URL=address)
    assert any("## error handling" in body for body in requests)


@pytest.mark.full
def test_what_one_agent_saves_in_a_layer_another_one_finds_as_a_file(coder: User) -> None:
    coder.server("install", "claude-code", "--name", "knowledge", "--toolsets", "layers")
    saved = {
        "key": "pool-size",
        "content": "The pool has 20 connections.",
        "caller_agent_id": "planner",
    }
    (receipt,) = results_of(coder, ("mcp__knowledge__save_to_memory", saved))
    assert receipt["entry"]["key"] == "pool-size"
    file = coder.project / ".multi-agent-mcp" / "memory" / "pool-size.md"
    file.write_text(file.read_text().replace("20", "30"))
    query = {"query": "how many connections?", "caller_agent_id": "worker_1"}
    (answer,) = results_of(coder, ("mcp__knowledge__retrieve_from_memory", query))
    assert [entry["content"] for entry in answer["entries"]] == ["The pool has 30 connections."]


@pytest.mark.full
def test_a_long_output_stays_out_of_the_context_until_a_page_of_it_is_read(coder: User) -> None:
    coder.server("install", "claude-code", "--name", "refs", "--toolsets", "refs")
    output = "build log: 3 failed: test_pool\n" + "compiled one more file\n" * 3_000
    (receipt,) = results_of(coder, ("mcp__refs__memoryAdd", {"content": output, "tags": ["ci"]}))
    assert len(receipt["summary"]) <= 1_200
    search, _, page = results_of(
        coder,
        ("mcp__refs__memorySearch", {"query": "failed tests"}),
        ("ToolSearch", {"query": "select:mcp__refs__memoryGetContent"}),
        ("mcp__refs__memoryGetContent", {"id": receipt["referenceId"]}),
    )
    assert [hit["id"] for hit in search["data"]["results"]] == [receipt["referenceId"]]
    assert output.startswith(page["data"]["content"])
    assert page["data"]["next"] == len(page["data"]["content"])


@pytest.mark.full
def test_what_one_machine_was_told_another_one_knows(tmp_path: Path) -> None:
    (tmp_path / "server").mkdir()
    with serving(tmp_path / "server" / "data", http__token=TOKEN, hooks="true") as server:
        laptop, desktop = (
            machine_of(tmp_path / name, server.url) for name in ("laptop", "desktop")
        )
        with messages_api("Noted.") as (address, _):
            laptop.types(DENTIST, ANTHROPIC_BASE_URL=address)
        asks = ("mcp__memory__forget", {"words": "Halloran"})
        with messages_api("Dr. Halloran.", asks) as (address, requests):
            question = "Who is my dentist, on which street?"
            allowed = ("--allowedTools", "mcp__memory__forget")
            desktop.prints(question, *allowed, ANTHROPIC_BASE_URL=address)
        assert any("<recalled-memories>" in body and "Elm Street" in body for body in requests), (
            "it comes unasked"
        )
        assert [answer["found"] for answer in tool_results(requests[-1])] == [1], (
            "a tool of the window asks the same memory"
        )
        assert not list(laptop.data.glob("*/short-term-memory.json")), (
            "nothing of it is on the laptop"
        )
        server.process.kill()
        server.process.wait()
        with messages_api("I cannot remember now.") as (address, _):
            laptop.types("The spare key is under the fern.", ANTHROPIC_BASE_URL=address)
        assert "1 wait" in laptop.server("where")


def machine_of(folder: Path, url: str) -> User:
    """Somebody's machine with a home of its own, which is linked, and has hooks."""
    folder.mkdir()
    user = User(folder)
    user.environment["MCP_CONNECTION_NONBLOCKING"] = "0"
    user.server("link", url, "--token-file", str(token_file(folder)))
    user.server("install", "claude-code", "--with-hooks")
    return user
