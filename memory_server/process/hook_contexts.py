"""What is known at an event of a hook: the event of a client, and the transcript of its session on this machine."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path

from languages import _
from memory_server.kernel import files as folders
from memory_server.kernel.messages import FIRST_MS, Session
from memory_server.kernel.secrets import SecretFilter, counting_secrets, removed_text
from memory_server.kernel.streams import complain
from memory_server.memories.hooks import CURSOR, HookContext, HookEvent, ToolUse, Turn
from memory_server.operations.hook_events import (
    act_of,
    calls_since_addition,
    messages_now,
    session_of,
    turn_ended,
)
from memory_server.runtime.homes import folder_of_work

CONTEXT_BYTES = 1_000_000
"""Bytes at the end of a transcript that are read for the last few messages: this takes 1 ms."""
WINDOW_BYTES = 8_000_000
"""Bytes at the end of a transcript that hold a whole context: a million tokens are some 4 MB of text."""
BEGINNINGS = ("startup", "clear", "compact")
"""Ways in which a session begins with an almost empty context; `resume` and `fork` keep theirs."""
TRANSCRIPT_TRIES, TRANSCRIPT_SECONDS = 3, 0.1
"""How often, and after what time, a transcript is read again that has no prompt of this turn: a client may write it
after the event."""
TURN_BYTES = 32_000_000
"""Bytes at the end of a transcript that hold a whole turn, with the results of tools between prompt and answer."""


async def context_of(event: HookEvent, programs: Collection[str]) -> HookContext | None:
    """Return what is known at an event, or None if nothing is to be done. `programs` are the programs that the settings
    name. Raise ValueError if no hook is needed for this event."""
    folder = None if event.cwd is None else folder_of_work(Path(event.cwd))

    match event.name:
        case "UserPromptSubmit":
            transcript = _end_of(event.transcript_path, WINDOW_BYTES)
            messages = messages_now(event, (transcript or b"")[-CONTEXT_BYTES:])
            # A hook of Cursor cannot add to a prompt.
            if not messages or event.called in CURSOR:
                return None
            session = session_of(event, transcript, whole=len(transcript or b"") < WINDOW_BYTES)
            return HookContext(event, session, folder, messages, transcript=transcript or b"")
        case "Stop":
            transcript, turn = await _ended_turn(event, programs, folder)

            session = session_of(event, transcript, whole=len(transcript or b"") < TURN_BYTES)

            if turn is None or not turn.messages:
                return None
            return HookContext(event, session, folder, turn=turn)
        case "SessionStart":
            # A continued session already has its context.
            if event.source not in BEGINNINGS:
                return None
            return HookContext(event, session_of(event, None), folder)
        case "PreToolUse" | "PostToolUse" | "PostToolUseFailure" if event.use is not None:
            return _context_of_action(event, event.use, folder)

    raise ValueError(
        _(
            "{called} needs no hook; `memory-server install print --with-hooks` shows the events that do",
            event.called,
        )
    )


def _context_of_action(event: HookEvent, use: ToolUse, folder: str | None) -> HookContext | None:
    """Return what is known at a call of a tool, or None if nothing is to be done. A subagent has a context and a
    transcript of its own, beside the session's."""
    act = act_of(use, folder, event.cwd)
    if act is None or (event.name == "PostToolUse" and use.call.command and act.failure is None):
        # A command that ended well was spoken of before it ran.
        return None
    path = event.transcript_path
    if use.agent is not None and path is not None:
        path = str(Path(path).with_suffix("") / "subagents" / f"agent-{use.agent}.jsonl")
    transcript = _end_of(path, WINDOW_BYTES) or b""
    session = session_of(event, transcript, whole=len(transcript) < WINDOW_BYTES)
    if session is not None and use.agent is not None:
        session = Session(f"{session.id}/{use.agent}", FIRST_MS)
    return HookContext(
        event,
        session,
        folder,
        transcript=transcript,
        act=act,
        calls_since=calls_since_addition(transcript),
    )


async def _ended_turn(
    event: HookEvent, programs: Collection[str], folder: str | None
) -> tuple[bytes | None, Turn | None]:
    """Return the end of the transcript, and the turn that ended, each None if it is not there. Read
    again if the answer is not in the transcript yet; complain if it is missing, or a message is
    cut."""
    tries_left = 0
    if event.last_assistant_message is not None and event.transcript_path is not None:
        tries_left = TRANSCRIPT_TRIES

    # The client may write the answer into the transcript after it calls the hook.
    while True:
        transcript = _end_of(event.transcript_path, TURN_BYTES)
        turn = await asyncio.to_thread(turn_ended, event, transcript or b"", programs, folder)
        if turn is not None or not tries_left:
            break
        tries_left -= 1
        await asyncio.sleep(TRANSCRIPT_SECONDS)

    if transcript is None and event.transcript_path is not None:
        complain("hook: {path} does not exist, so this turn was not stored", event.transcript_path)

    if turn is not None and turn.is_shortened:
        complain(
            "hook: a message of this turn is too long to be stored whole, so its middle is left out"
        )

    return transcript, turn


def _end_of(path: str | None, size: int) -> bytes | None:
    """Return the last `size` bytes of the transcript, or None if the file does not exist."""
    if path is None:
        return None
    try:
        with folders.open_file(Path(path).expanduser(), "rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - size))
            return file.read(size)
    except FileNotFoundError:
        return None


def without_secrets(context: HookContext | None, secrets: SecretFilter) -> HookContext | None:
    """Return what is known at an event without its secrets, with their number in the turn that
    ended, or in the prompt. Say how many the turn had. Nothing known (None) stays None."""
    if context is None:
        return None
    turn = context.turn
    messages = context.messages
    with counting_secrets() as kinds:
        new = secrets.of(turn.messages if turn is not None else messages[-1:], with_pairs=True)
    if turn is not None:
        turn = replace(secrets.of(replace(turn, messages=()), with_pairs=True), messages=new)
        if kinds:
            complain("hook: {reason}", removed_text(len(kinds)))
    else:
        messages = (*secrets.of(messages[:-1], with_pairs=True), *new)
    others = secrets.of(replace(context, turn=None, messages=()), with_pairs=True)
    return replace(others, turn=turn, messages=messages, secrets=len(kinds))
