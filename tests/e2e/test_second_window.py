"""What one window was told, a new one finds at once; and the window that was told it does not hear it again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import anyio
import pytest
from forked_programs import run as run_program
from forked_sessions import forked_server
from hook_transcripts import assistant, event, transcript, user
from mcp import Client

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("process")]

FACT = [{"role": "user", "content": "The wifi password of the holiday flat is sunflower-42."}]
QUESTION = [{"role": "user", "content": "What was the wifi password of the holiday flat?"}]


def window(folder: Path) -> Client:
    """A server of its own, as each window of a client starts one."""
    return Client(forked_server(folder))


async def call(client: Client, tool: str, **arguments: Any) -> dict[str, Any]:
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, result.content
    assert result.structured_content is not None
    return result.structured_content


async def output_of(folder: Path, *arguments: str, stdin: Any = None) -> bytes:
    words = ["--data-dir", folder, *arguments]
    completed = await anyio.to_thread.run_sync(run_program, words, json.dumps(stdin).encode())
    assert completed.returncode == 0, completed.stderr
    output: bytes = completed.stdout
    return output


async def texts(client: Client) -> list[str]:
    answer = await call(
        client, "search_short_term_memories", recentMessages=QUESTION, reinforce=False
    )
    return [item["text"] for item in answer["topRelevant"]]


async def test_a_second_server_finds_what_the_first_was_told_at_once(tmp_path: Path) -> None:
    with anyio.fail_after(90):
        async with window(tmp_path) as first_window, window(tmp_path) as second_window:
            await call(first_window, "add_short_term_memory", messages=FACT)
            assert await texts(second_window) == ["user: " + FACT[0]["content"]]
            answer = await call(first_window, "search_short_term_memories", recentMessages=QUESTION)
            assert (answer["topRelevant"], answer["heldBack"]["tooRecent"]) == ([], 1)
            assert (
                answer["note"]
                == "1 memory of this conversation is held back: younger than 20 minutes."
            )


async def test_a_session_that_is_named_finds_what_another_one_was_told_at_once(
    tmp_path: Path,
) -> None:
    await output_of(tmp_path, "remember", "--session", "one", stdin=FACT)
    assert b"sunflower-42" in await output_of(
        tmp_path, "recall", "--session", "two", stdin=QUESTION
    )
    assert await output_of(tmp_path, "recall", "--session", "one", stdin=QUESTION) == b""
    assert b"sunflower-42" in await output_of(tmp_path, "recall", stdin=QUESTION), (
        "in a shell nobody has it in a context"
    )
    with anyio.fail_after(60):
        async with window(tmp_path) as client:
            assert len(await texts(client)) == 1


def hook_event(name: str, session: str, folder: Path, **fields: Any) -> dict[str, Any]:
    return event(name, session_id=session, cwd=str(folder), **fields)


async def end_turn(folder: Path, session: str) -> Path:
    """A turn of Claude Code in which it was told; the transcript."""
    path = folder.with_name(f"{session}.jsonl")
    path.write_bytes(
        transcript(user(FACT[0]["content"], at="2020-01-01T00:00:00.000Z"), assistant("Noted."))
    )
    assert (
        await output_of(
            folder,
            "hook",
            stdin=hook_event("Stop", session, folder.parent, transcript_path=str(path)),
        )
        == b""
    )
    return path


async def prompt(folder: Path, session: str, **fields: Any) -> bytes:
    prompt_event = hook_event(
        "UserPromptSubmit", session, folder.parent, prompt=QUESTION[0]["content"], **fields
    )
    return await output_of(folder, "hook", stdin=prompt_event)


async def test_a_second_window_with_hooks_is_told_at_once_and_the_first_is_not(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "data"
    path = await end_turn(folder, "one")
    assert b"sunflower-42" in await prompt(
        folder, "two", transcript_path=str(tmp_path / "none yet")
    )
    assert await prompt(folder, "one", transcript_path=str(path)) == b""
    begun = await output_of(
        folder, "hook", stdin=hook_event("SessionStart", "three", tmp_path, source="clear")
    )
    assert b"sunflower-42" in begun


async def test_what_a_server_was_told_a_hook_brings_at_once_and_the_other_way_round(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "data"
    with anyio.fail_after(90):
        async with window(folder) as client:
            await call(client, "add_short_term_memory", messages=FACT)
            assert b"sunflower-42" in await prompt(folder, "two")
    other_folder = tmp_path / "other"
    await end_turn(other_folder, "one")
    with anyio.fail_after(90):
        async with window(other_folder) as client:
            assert len(await texts(client)) == 1
