"""What a linked machine sends is what docs/how-to/two-machines.md lists, and nothing else."""

from __future__ import annotations

import io
import json
import re
import sys
from fnmatch import fnmatch
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hook_transcripts import TOOL_RESULT, TOOL_USE, assistant, compacted, event, transcript, user
from http_server import TOKEN, in_process
from linked_machines import answering, says, token_file
from stdio_process import command, request, running

from memory_server.kernel.link import Link
from memory_server.storage.link_files import LinkFile

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "two-machines.md"
CODE = re.compile(r"`([^`]+)`")
SECRET = "the safe is behind the mirror"


class Sent(NamedTuple):
    line: str
    headers: frozenset[str]
    body: bytes

    @property
    def names(self) -> set[str]:
        """The headers, and the names at the top of the body, if it is not a message of MCP."""
        body: dict[str, Any] = json.loads(self.body) if self.body and not self.line.endswith("/mcp") else {}
        return set(self.headers) | set(body)


def listed() -> dict[str, set[str]]:
    """Requests of the page, such as `POST /v1/commands/{command}`, and what may be in each."""
    table = PAGE.read_text("utf-8").partition("<!-- wire:")[2].partition("<!-- end: wire -->")[0]
    rows = [line.strip("| ").split(" | ", 1) for line in table.splitlines() if line.startswith("| ")][2:]
    usual = set(CODE.findall(rows[0][1]))
    return {name: usual | set(CODE.findall(what)) for row, what in rows[1:] for name in CODE.findall(row)}


def row_of(line: str, rows: dict[str, set[str]]) -> str:
    if line in rows:
        return line
    found = [name for name in rows if "{" in name and fnmatch(line, re.sub(r"{\w+}", "*", name))]
    return max(found, key=len)


def test_nothing_is_sent_that_the_page_does_not_list(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home, sent = tmp_path / "home-of-ann", list[Sent]()
    machine, work = home / "data", home / "shop"
    work.mkdir(parents=True)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home))
    monkeypatch.chdir(work)
    said = {"status": 0, "output": "", "errors": "", "text": "", "prompt": "", "stored": True, "id": "1"}
    said |= {"jsonrpc": "2.0", "id": 1, "result": {}, "name": "ann", "scopes": ["write"], "version": "1"}

    def answer(handler: BaseHTTPRequestHandler) -> None:
        body: bytes = getattr(handler, "body", b"")
        line = f"{handler.command} {handler.path}"
        sent.append(Sent(line, frozenset(name.lower() for name in handler.headers), body))
        says(200, json.dumps(said | {"id": json.loads(body)["id"]} if b"jsonrpc" in body else said).encode())(handler)

    def run(*arguments: str, given: Any = "") -> None:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(json.dumps(given).encode())))
        status, _, err = in_process("--data-dir", str(machine), *arguments)
        assert status == 0, err

    path = work / "session.jsonl"
    entries = (
        compacted("2026-06-20T07:00:00.000Z"),
        user("I am at the shop."),
        assistant("Good.", TOOL_USE),
        user(TOOL_RESULT),
        user(f"Where is the key? <private>{SECRET}</private>", "p2"),
        assistant("Under the fern."),
    )
    path.write_bytes(transcript(*entries))
    about = {"cwd": str(work), "transcript_path": str(path), "session_id": "s"}
    run("remember", "Before the link.")
    with answering(answer) as url:
        run("link", url, "--token-file", str(token_file(tmp_path)))
        run("hook", given=event("SessionStart", source="startup", **about))
        run(
            "hook",
            "--chars",
            "300",
            given=event("UserPromptSubmit", prompt=f"So? <private>{SECRET}</private>", prompt_id="p3", **about),
        )
        run("hook", given=event("Stop", prompt_id="p2", **about))
        run("remember", f"Said. <private>{SECRET}</private>", "-c", "trip")
        run("recall", "What?", "--chars", "300", "--flashbacks", "1")
        run("call", "get_memory_stats", "{}")
        run("list", "--limit", "3")
        run("link", "--send", "--yes")
        with running(command(machine), {"MEMORY_SERVER_CONVERSATION": "trip"}) as client:
            client.send(
                request(1, "tools/call", name="x", _meta={"io.modelcontextprotocol/protocolVersion": "2026-07-28"})
            )
            client.read()
    rows = listed()
    for each in sent:
        extra = each.names - rows[row_of(each.line, rows)]
        assert not extra, f"{each.line} also sends {extra}"
        for text in (SECRET, TOKEN, str(home), "home-of-ann", "secret.txt"):
            assert text.encode() not in each.body, each.line
    seen = {name for each in sent for name in each.names}
    assert {name for names in rows.values() for name in names} - seen == set(), "the page lists what is never sent"
    assert {row_of(each.line, rows) for each in sent} == set(rows)
    assert LinkFile(machine).read() == Link(url, str(tmp_path / "token"))
