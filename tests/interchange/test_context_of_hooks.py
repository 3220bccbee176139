"""What hooks add to a session of Gemini CLI is neither a word of the user nor a word of an error."""

from __future__ import annotations

import json
from typing import Any

import pytest

from memory_server.interchange import gemini_cli
from memory_server.interchange.transcripts import without_hook_context

TIME = "2026-11-28T18:49:29.337Z"
ADDED = (
    "<hook_context>&lt;recalled-memories&gt;error: kiwi&lt;/recalled-memories&gt;</hook_context>"
)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("I like tea.", "I like tea."),
        (f"{ADDED}\n\nI like tea.", "I like tea."),
        (f"I like tea.\n{ADDED}", "I like tea."),
        (f"{ADDED} I like {ADDED}tea.{ADDED}", "I like tea."),
        ("Is <hook_context> a tag?", "Is <hook_context> a tag?"),
        (f"{ADDED}\nIs <hook_context> a tag?", "Is <hook_context> a tag?"),
        (f"Is <hook_context> a tag?\n{ADDED}", "Is <hook_context> a tag?"),
        (f"Is </hook_context> a tag?{ADDED}", "Is </hook_context> a tag?"),
        (ADDED, ""),
        ("", ""),
    ],
)
def test_the_words_around_it_stay(text: str, words: str) -> None:
    assert without_hook_context(text) == words


def test_an_import_keeps_the_prompt_and_the_words_of_the_program() -> None:
    printed = (
        "<untrusted_context>\nOutput: error: bad seal\nExit Code: 3\nProcess Group PGID: 27622\n"
    )
    result = {"output": f"{printed}</untrusted_context>\n\n{ADDED}"}
    call: dict[str, Any] = {
        "id": "c1",
        "name": "run_shell_command",
        "args": {"command": "make deploy"},
        "result": [{"functionResponse": {"id": "c1", "response": result}}],
    }
    messages = [
        {
            "id": "u",
            "timestamp": TIME,
            "type": "user",
            "content": [{"text": f"{ADDED}\n\nDeploy."}],
        },
        {"id": "g", "timestamp": TIME, "type": "gemini", "content": "", "toolCalls": [call]},
        {"id": "h", "timestamp": TIME, "type": "gemini", "content": "It failed."},
    ]
    session = {"sessionId": "s", "projectHash": "h", "kind": "main", "messages": messages}
    data = json.dumps(session).encode()
    incoming = gemini_cli.read({"session-a.json": data}, "default", lambda _path: None)
    (contents,) = incoming.conversations
    (memory,) = contents.short_term
    assert [message.content for message in memory.messages] == ["Deploy.", "It failed."]
    (failure,) = memory.work.failed
    assert (failure.status, failure.words) == (3, ("Output", "error", "bad", "seal"))
