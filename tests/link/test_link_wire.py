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
from cli_program import in_process
from hook_transcripts import TOOL_RESULT, TOOL_USE, assistant, compacted, event, transcript, user
from http_server import TOKEN
from linked_machines import answering, says, token_file
from stdio_process import command, request, running

from memory_server.kernel.link import Link
from memory_server.storage.link_files import LinkFile

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "two-machines.md"
CODE = re.compile(r"`([^`]+)`")
SECRET = "the safe is behind the mirror"


class SentRequest(NamedTuple):
    line: str
    headers: frozenset[str]
    body: bytes

    @property
    def names(self) -> set[str]:
        """The headers, and the names at the top of the body, if it is not a message of MCP."""
        if not self.body or self.line.endswith("/mcp"):
            return set(self.headers)
        return set(self.headers) | set(json.loads(self.body))


def listed_requests() -> dict[str, set[str]]:
    """Requests of the page, such as `POST /v1/commands/{command}`, and what may be in each."""
    table = PAGE.read_text("utf-8").partition("<!-- wire:")[2].partition("<!-- end: wire -->")[0]
    rows = [
        line.strip("| ").split(" | ", 1) for line in table.splitlines() if line.startswith("| ")
    ][2:]
    usual = set(CODE.findall(rows[0][1]))
    contents_of: dict[str, set[str]] = {}
    for names_cell, contents in rows[1:]:
        for name in CODE.findall(names_cell):
            contents_of[name] = usual | set(CODE.findall(contents))
    return contents_of


def listed_line(line: str, rows: dict[str, set[str]]) -> str:
    if line in rows:
        return line
    patterns = [name for name in rows if "{" in name and fnmatch(line, re.sub(r"{\w+}", "*", name))]
    return max(patterns, key=len)


def corrected_sessions() -> list[list[dict[str, Any]]]:
    """The lines of a session in which the user went back, and of one on an SDK in which a person types twice."""

    def turn(name: str, parent: str | None, asked: str, **fields: Any) -> list[dict[str, Any]]:
        prompt = {"uuid": f"u{name}", "parentUuid": parent} | fields
        answer = {"uuid": f"a{name}", "parentUuid": f"u{name}"} | fields
        return [user(asked, f"q{name}", **prompt), assistant("Noted.", **answer)]

    first = turn("1", None, "The orders are in postgres.")
    rewound = turn("2", "a1", "The hint is an elephant.")
    instead = turn("3", "a1", "The host is a heron.")
    of_sdk = {"entrypoint": "sdk-ts"}
    typed = turn("4", None, "The lamp is green.", **of_sdk)
    again = turn("5", "a4", "The door is red.", **of_sdk)
    return [[*first, *rewound], [*first, *rewound, *instead], typed, [*typed, *again]]


def worked(folder: Path) -> tuple[dict[str, Any], ...]:
    """A turn in which a file was edited and a command failed."""
    edit = {"type": "tool_use", "id": "e1", "name": "Edit"}
    edit["input"] = {"file_path": str(folder / "shop.py"), "old_string": "a", "new_string": "b"}
    bash = {"type": "tool_use", "id": "b1", "name": "Bash", "input": {"command": "make test"}}
    results = [
        {"type": "tool_result", "tool_use_id": "e1", "content": "The file has been updated."},
        {"type": "tool_result", "tool_use_id": "b1", "content": "Exit code 2\nerror: no rule"},
    ]
    results[1]["is_error"] = True
    return (
        user("Change the shop.", "p4"),
        assistant("At once.", edit, bash),
        user(results, "p4"),
        assistant("There is no rule for it."),
    )


def test_nothing_is_sent_that_the_page_does_not_list(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "home-of-ann"
    requests = list[SentRequest]()
    machine = home / "data"
    work = home / "shop"
    work.mkdir(parents=True)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home))
    monkeypatch.chdir(work)
    fields = {
        "status": 0,
        "output": "",
        "errors": "",
        "text": "",
        "prompt": "",
        "stored": True,
        "id": "1",
    }
    fields |= {
        "jsonrpc": "2.0",
        "id": 1,
        "result": {},
        "name": "ann",
        "scopes": ["write"],
        "version": "1",
    }

    def answer(handler: BaseHTTPRequestHandler) -> None:
        body: bytes = getattr(handler, "body", b"")
        line = f"{handler.command} {handler.path}"
        requests.append(
            SentRequest(line, frozenset(name.lower() for name in handler.headers), body)
        )
        answer_fields = fields
        if b"jsonrpc" in body:
            answer_fields = fields | {"id": json.loads(body)["id"]}
        says(200, json.dumps(answer_fields).encode())(handler)

    def run(*arguments: str, stdin: Any = "") -> None:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(json.dumps(stdin).encode())))
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
        run("hook", stdin=event("SessionStart", source="startup", **about))
        run(
            "hook",
            "--chars",
            "300",
            stdin=event(
                "UserPromptSubmit",
                prompt=f"So? <private>{SECRET}</private>",
                prompt_id="p3",
                **about,
            ),
        )
        run("hook", stdin=event("Stop", prompt_id="p2", **about))
        path.write_bytes(transcript(*worked(work)))
        run("hook", stdin=event("Stop", prompt_id="p4", **about))
        for lines in corrected_sessions():
            path.write_bytes(transcript(*lines))
            run("hook", stdin=event("Stop", prompt_id=lines[-2]["promptId"], **about))
        run("remember", f"Said. <private>{SECRET}</private>", "-c", "trip")
        run("recall", "What?", "--chars", "300", "--flashbacks", "1")
        run("call", "get_memory_stats", "{}")
        run("list", "--limit", "3")
        run("link", "--send", "--yes")
        with running(command(machine), {"MEMORY_SERVER_CONVERSATION": "trip"}) as client:
            client.send(
                request(
                    1,
                    "tools/call",
                    name="x",
                    _meta={"io.modelcontextprotocol/protocolVersion": "2026-07-28"},
                )
            )
            client.read()
    rows = listed_requests()
    for sent in requests:
        extra = sent.names - rows[listed_line(sent.line, rows)]
        assert not extra, f"{sent.line} also sends {extra}"
        for text in (SECRET, TOKEN, str(home), "home-of-ann", "secret.txt"):
            assert text.encode() not in sent.body, sent.line
    sent_names = set().union(*(sent.names for sent in requests))
    assert set().union(*rows.values()) - sent_names == set(), "the page lists what is never sent"
    assert {listed_line(sent.line, rows) for sent in requests} == set(rows)
    assert LinkFile(machine).read() == Link(url, str(tmp_path / "token"))
