"""What one window was told, a new one finds at once; and the window that was told it does not hear it again."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest
from hook_transcripts import assistant, event, transcript, user
from mcp import Client, StdioServerParameters

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("process")]

TOLD = [{"role": "user", "content": "The wifi password of the holiday flat is sunflower-42."}]
ASKED = [{"role": "user", "content": "What was the wifi password of the holiday flat?"}]


def command(folder: Path, *arguments: str) -> list[str]:
    return [sys.executable, "-P", "-m", "memory_server", "--data-dir", str(folder), *arguments]


def window(folder: Path) -> Client:
    """A server of its own, as each window of a client starts one."""
    program, *arguments = command(folder)
    return Client(StdioServerParameters(command=program, args=arguments, env=dict(os.environ)))


async def call(client: Client, tool: str, **arguments: Any) -> dict[str, Any]:
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, result.content
    assert result.structured_content is not None
    return result.structured_content


async def ran(folder: Path, *arguments: str, given: Any = None) -> bytes:
    with anyio.fail_after(60):
        done = await anyio.run_process(command(folder, *arguments), input=json.dumps(given).encode())
    return done.stdout


async def texts(client: Client) -> list[str]:
    found = await call(client, "search_short_term_memories", recentMessages=ASKED, reinforce=False)
    return [item["text"] for item in found["topRelevant"]]


async def test_a_second_server_finds_what_the_first_was_told_at_once(tmp_path: Path) -> None:
    with anyio.fail_after(90):
        async with window(tmp_path) as one, window(tmp_path) as two:
            await call(one, "add_short_term_memory", messages=TOLD)
            assert await texts(two) == ["user: " + TOLD[0]["content"]]
            held = await call(one, "search_short_term_memories", recentMessages=ASKED)
            assert (held["topRelevant"], held["heldBack"]["tooRecent"]) == ([], 1)
            assert held["note"] == "1 memory of this conversation is held back: younger than 20 minutes."


async def test_a_session_that_is_named_finds_what_another_one_was_told_at_once(tmp_path: Path) -> None:
    await ran(tmp_path, "remember", "--session", "one", given=TOLD)
    assert b"sunflower-42" in await ran(tmp_path, "recall", "--session", "two", given=ASKED)
    assert await ran(tmp_path, "recall", "--session", "one", given=ASKED) == b""
    assert b"sunflower-42" in await ran(tmp_path, "recall", given=ASKED), "in a shell nobody has it in a context"
    with anyio.fail_after(60):
        async with window(tmp_path) as client:
            assert len(await texts(client)) == 1


def hooked(name: str, session: str, folder: Path, **fields: Any) -> dict[str, Any]:
    return event(name, session_id=session, cwd=str(folder), **fields)


async def end_turn(folder: Path, session: str) -> Path:
    """A turn of Claude Code in which it was told; the transcript."""
    path = folder.with_name(f"{session}.jsonl")
    path.write_bytes(transcript(user(TOLD[0]["content"], at="2020-01-01T00:00:00.000Z"), assistant("Noted.")))
    assert await ran(folder, "hook", given=hooked("Stop", session, folder.parent, transcript_path=str(path))) == b""
    return path


async def prompt(folder: Path, session: str, **fields: Any) -> bytes:
    asked = hooked("UserPromptSubmit", session, folder.parent, prompt=ASKED[0]["content"], **fields)
    return await ran(folder, "hook", given=asked)


async def test_a_second_window_with_hooks_is_told_at_once_and_the_first_is_not(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    path = await end_turn(folder, "one")
    assert b"sunflower-42" in await prompt(folder, "two", transcript_path=str(tmp_path / "none yet"))
    assert await prompt(folder, "one", transcript_path=str(path)) == b""
    begun = await ran(folder, "hook", given=hooked("SessionStart", "three", tmp_path, source="clear"))
    assert b"sunflower-42" in begun


async def test_what_a_server_was_told_a_hook_brings_at_once_and_the_other_way_round(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    with anyio.fail_after(90):
        async with window(folder) as client:
            await call(client, "add_short_term_memory", messages=TOLD)
            assert b"sunflower-42" in await prompt(folder, "two")
    other = tmp_path / "other"
    await end_turn(other, "one")
    with anyio.fail_after(90):
        async with window(other) as client:
            assert len(await texts(client)) == 1
